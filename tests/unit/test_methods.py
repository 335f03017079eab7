"""Clustering methods as records, as names with keyword arguments, and as text: the same clusters."""

import dataclasses
import pickle

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.clustering import hac, methods


@pytest.fixture(scope="module")
def points():
    return np.random.default_rng(3).normal(size=(300, 6)).astype(np.float32)


@pytest.mark.parametrize(
    ("record", "name", "options"),
    [
        (hr.Exact(), "exact", {}),
        (hr.Exact(neighbors=4), "exact", {"neighbors": 4}),
        (hr.Certified(), "certified", {}),
        (hr.Certified(neighbors=5, slack=1.0), "certified", {"neighbors": 5, "slack": 1.0}),
        (hr.Multiround(), "multiround", {}),
        (hr.Multiround(neighbors=3, rounds=2), "multiround", {"neighbors": 3, "rounds": 2}),
        (hr.Assign(), "assign", {}),
        (hr.Assign(subset=np.arange(0, 300, 3)), "assign", {"subset": np.arange(0, 300, 3)}),
        (hr.Assign(0.4, neighbors=6, slack=2), "assign", {"subset": 0.4, "neighbors": 6, "slack": 2}),
    ],
)
def test_a_record_is_a_name_with_its_options(points, record, name, options):
    one = hr.cluster(points, method=record, average_size=4)
    other = hr.cluster(points, method=name, average_size=4, **options)
    assert one.method == other.method == name
    assert one.threshold == other.threshold
    np.testing.assert_array_equal(one.labels, other.labels)


def test_options_change_the_clusters(points):
    made = [
        hr.cluster(points, method=method, average_size=4).labels.tolist()
        for method in (hr.Multiround(neighbors=3, rounds=2), hr.Multiround(), hr.Assign(0.4), hr.Assign(0.9))
    ]
    assert len({tuple(labels) for labels in made}) == 4


@pytest.mark.parametrize("slack", [1.0, 3.0])
def test_linkage_takes_records(points, slack):
    record = hr.linkage(points, method=hr.Certified(neighbors=4, slack=slack))
    words = hr.linkage(points, method="certified", neighbors=4, slack=slack)
    np.testing.assert_array_equal(record.merges, words.merges)
    with pytest.raises(hr.InputError, match="unknown method 'assign': known: exact, certified"):
        hr.linkage(points, method=hr.Assign())


@pytest.mark.parametrize("function", [hr.cluster, hr.linkage])
@pytest.mark.parametrize("options", [{"neighbors": 15}, {"slack": 1.1}])
def test_a_record_and_a_keyword_argument_are_refused(points, function, options):
    with pytest.raises(hr.InputError, match=f"{next(iter(options))} was given twice"):
        function(points, method=hr.Certified(), **options)


def test_a_record_and_its_own_keyword_arguments_are_refused(points):
    with pytest.raises(hr.InputError, match="rounds was given twice"):
        hr.cluster(points, method=hr.Multiround(), rounds=3)
    with pytest.raises(hr.InputError, match="subset was given twice"):
        hr.cluster(points, method=hr.Assign(), subset=0.1)


@pytest.mark.parametrize("method", ["auto", "exact", "certified", "multiround", "assign"])
def test_neighbors_and_slack_are_taken_with_every_name(points, method):
    hr.cluster(points, method=method, neighbors=7, slack=1.3)
    with pytest.raises(hr.InputError, match="slack must be at least 1"):
        hr.cluster(points, method=method, slack=0.5)


@pytest.mark.parametrize("method", [hr.Certified, hr.Assign])
def test_a_class_is_no_method(points, method):
    with pytest.raises(hr.InputError, match=rf"pass an instance, {method.__name__}\(\)"):
        hr.cluster(points, method=method)


@pytest.mark.parametrize(
    "options",
    [
        {"method": hr.Multiround(rounds=10**12), "average_size": 4},
        {"method": hr.Certified(slack=1e300), "average_size": 4},
        {"method": hr.Multiround(), "threshold": 1e300},
        {"method": hr.Certified(), "threshold": 1e300},
    ],
)
def test_huge_options_end_without_a_warning(points, options):
    assert hr.cluster(points, **options).average_size >= 4


def test_auto_depends_on_the_size_and_the_metric(monkeypatch):
    assert methods.Auto(neighbors=4).resolve(20_000, "cosine") == hr.Exact(4)
    assert methods.Auto(slack=1.5).resolve(20_001, "cosine") == hr.Certified(slack=1.5)
    assert methods.Auto().resolve(20_001, "euclidean") == hr.Exact()


def test_a_method_from_text():
    assert methods.make("certified", {"neighbors": "20", "slack": "1.5"}) == hr.Certified(20, 1.5)
    assert methods.make("multiround", {"rounds": None}) == hr.Multiround()
    assert methods.make("assign", {"subset": "0.25"}).subset == 0.25
    assert methods.make("auto") == methods.Auto()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("certifed", {}, "did you mean 'certified'"),
        ("exact", {"slack": 1.1}, "slack goes with method='auto' or method='certified' or method='assign'"),
        ("certified", {"rounds": 3}, "rounds goes with method='multiround', not with 'certified'"),
        ("certified", {"neighbours": 3}, "did you mean 'neighbors'"),
        ("certified", {"neighbors": "few"}, "neighbors must be a whole number, got 'few'"),
        ("certified", {"neighbors": "2.5"}, "neighbors must be a whole number, got 2.5"),
        ("certified", {"slack": "much"}, "slack must be a number, got 'much'"),
        ("assign", {"subset": "2"}, "at most 1"),
    ],
)
def test_text_that_is_no_method(name, options, message):
    with pytest.raises(hr.InputError, match=message):
        methods.make(name, options)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (hr.Exact, {"neighbors": 0}),
        (hr.Certified, {"slack": 0.9}),
        (hr.Certified, {"neighbors": 1.5}),
        (hr.Multiround, {"rounds": 0}),
        (hr.Assign, {"subset": 0}),
        (hr.Assign, {"subset": True}),
        (hr.Assign, {"slack": np.nan}),
    ],
)
def test_bad_options_are_refused_where_they_are_given(kind, options):
    with pytest.raises(hr.InputError, match=next(iter(options))):
        kind(**options)


@pytest.mark.parametrize("record", [hr.Exact(), hr.Certified(3, 2.0), hr.Multiround(), hr.Assign(0.3)])
def test_records_are_frozen_and_pickle(record):
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.neighbors = 3
    assert vars(pickle.loads(pickle.dumps(record))) == vars(record)


@pytest.mark.parametrize("method", ["exact", "certified"])
def test_euclidean_clusters_are_cut_at_the_average_size(points, method):
    made = hr.cluster(points, metric="euclidean", method=method, average_size=5)
    assert 5 <= made.average_size < 6
    np.testing.assert_array_equal(made.labels, hr.linkage(points, metric="euclidean").cut(average_size=5))


@pytest.mark.parametrize("method", methods.METHODS)
@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
@pytest.mark.parametrize("zeros", ["refuse", "singletons"])
def test_the_points_are_checked_in_one_pass(points, method, metric, zeros, monkeypatch):
    from hedgerow.clustering import vectors
    from hedgerow.kernels import rows

    surveyed = []

    def survey(block, largest, sums):
        surveyed.append(len(block))
        rows.survey(block, largest, sums)

    class Watched:
        def __getattr__(self, name):
            return survey if name == "survey" else getattr(rows, name)

    monkeypatch.setattr(vectors, "kernels", Watched())
    monkeypatch.setattr(hac.checks, "finite", None)
    hr.cluster(points, method=method, metric=metric, zeros=zeros)
    subset = [30] if method == "assign" and metric == "sqeuclidean" else []  # whose center is its own
    assert surveyed == [300, *subset]
