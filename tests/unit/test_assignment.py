import numpy as np
import pytest

import hedgerow as hr
from hedgerow.clustering import assignment


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(30, 8))
    return (centers[rng.integers(0, 30, 600)] + 0.2 * rng.normal(size=(600, 8))).astype(np.float32)


def average_distances(points, clusters, new):
    """The mean distance (m, n_clusters) of each new point to the members of each cluster, from all pairs."""
    from scipy.spatial.distance import cdist

    distance = cdist(new.astype(np.float64), points.astype(np.float64), clusters.metric)
    return np.column_stack([distance[:, clusters.labels == c].mean(axis=1) for c in range(clusters.n_clusters)])


SUBSETS = {"rows": np.arange(0, 600, 3), "mask": np.arange(600) % 3 == 0, "fraction": 0.4, "all": 1.0, "one": [7]}


@pytest.mark.parametrize("subset", SUBSETS.values(), ids=SUBSETS)
@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_average_size_is_reached(points, subset, metric):
    for asked in (1, 2.5, 10, 600):
        clusters = hr.cluster(points, method="assign", subset=subset, metric=metric, average_size=asked)
        assert clusters.average_size >= asked
        assert np.unique(clusters.labels).tolist() == list(range(clusters.n_clusters))
        assert (np.diff(np.unique(clusters.labels, return_index=True)[1]) > 0).all()


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_every_other_point_goes_to_its_nearest_cluster_or_stays_alone(points, metric):
    rows = SUBSETS["rows"]
    rest = np.setdiff1d(np.arange(600), rows)
    clusters = hr.cluster(points, method="assign", subset=rows, metric=metric, threshold=0.3)
    part = hr.cluster(points[rows], method="certified", metric=metric, threshold=0.3)
    pairs = np.unique(np.column_stack([part.labels, clusters.labels[rows]]), axis=0)
    assert len(pairs) == part.n_clusters
    distance = average_distances(points[rows], part, points[rest])
    nearest = pairs[distance.argmin(axis=1), 1]
    alone = distance.min(axis=1) > 0.3
    assert alone.any()
    assert not alone.all()
    np.testing.assert_array_equal(clusters.labels[rest][~alone], nearest[~alone])
    assert (clusters.sizes[clusters.labels[rest][alone]] == 1).all()


def test_a_subset_of_all_is_certified_linkage(points):
    whole = hr.cluster(points, method="assign", subset=1.0)
    certified = hr.cluster(points, method="certified")
    np.testing.assert_array_equal(whole.labels, certified.labels)
    assert whole.threshold == certified.threshold


def test_the_reach_is_the_smallest_that_does(points):
    clusters = hr.cluster(points, method="assign", subset=0.3, average_size=6)
    lone = clusters.sizes.tolist().count(1)
    assert clusters.n_clusters == 100
    assert lone > 0


def test_the_default_subset_is_drawn_by_the_seed(points):
    first, again, other = (hr.cluster(points, method="assign", seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.labels, again.labels)
    assert (first.labels != other.labels).any()
    np.testing.assert_array_equal(
        first.labels, hr.cluster(points, method="assign", subset=assignment.choose_rows(0.1, 600, 1), seed=1).labels
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"subset": 0.0}, "greater than 0"),
        ({"subset": 1.5}, "at most 1"),
        ({"subset": True}, "mask|whole row numbers"),
        ({"subset": "half"}, "must be a number"),
        ({"subset": np.zeros(600, bool)}, "no rows"),
        ({"subset": np.zeros(7, bool)}, r"mask of shape \(7,\)"),
        ({"subset": [3, 3]}, "more than once"),
        ({"subset": [600]}, "row 600"),
        ({"subset": []}, "no rows"),
        ({"rounds": 2}, "goes with method='multiround'"),
        ({"metric": "euclidean"}, 'not with "euclidean"'),
        ({"threshold": -1}, "at least 0"),
        ({"neighbors": 0}, "neighbors"),
        ({"threads": 0}, "threads"),
    ],
)
def test_bad_input(points, arguments, message):
    with pytest.raises(hr.InputError, match=message):
        hr.cluster(points, method="assign", **arguments)


@pytest.mark.parametrize("method", ["exact", "certified", "multiround"])
def test_a_subset_goes_with_assign_only(points, method):
    with pytest.raises(hr.InputError, match="subset goes with method='assign'"):
        hr.cluster(points, method=method, subset=0.1)


@pytest.mark.parametrize("rounds", [0, 1.5, "two"])
def test_bad_rounds(points, rounds):
    with pytest.raises(hr.InputError, match="rounds"):
        hr.cluster(points, method="multiround", rounds=rounds)


def test_cells_find_what_comparing_all_finds(points, monkeypatch):
    rng = np.random.default_rng(5)
    clusters = hr.cluster(rng.normal(size=(6000, 8)), method="certified", average_size=2)
    new = rng.normal(size=(2000, 8))
    exact = clusters.assign(new)
    monkeypatch.setattr(assignment, "FEW", 1000)
    found = clusters.assign(new)
    joined = exact < clusters.n_clusters
    assert joined.sum() > 500
    assert (found[joined] == exact[joined]).mean() > 0.97
    assert (found[~joined] >= clusters.n_clusters).all()
