"""`advise`: measurements worked out by hand, rules, labels from every source, and every way to call it wrongly."""

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hedgerow as hr
from hedgerow.advice import give_advice, rules
from hedgerow.advice.copies import Near, count_compared, count_groups, expect_groups, measure_agreement, measure_cut
from hedgerow.advice.records import read_measurements
from hedgerow.advice.wording import GIVEN_AS, SHORT, WORDS
from hedgerow.pool import open_matrix
from hedgerow.strategies import make

CLUSTERS = np.array([0, 0, 1, 1, 2, 2, 3, 3])
MARGINS = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], np.float32)
ROOT = Path(__file__).resolve().parents[2]


def redundant(groups: int = 400, copies: int = 10, seed: int = 0) -> dict[str, Any]:
    """A pool of near-copies: every group has one prediction and one place, up to a little noise."""
    rng = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(groups), copies)
    logits = np.repeat(rng.normal(size=(groups, 4)), copies, axis=0) + 0.01 * rng.normal(size=(groups * copies, 4))
    points = np.repeat(rng.normal(size=(groups, 8)), copies, axis=0) + 0.05 * rng.normal(size=(groups * copies, 8))
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labeled = rng.choice(groups * copies, 40, replace=False)
    order = rng.permutation(groups * copies)
    place = np.argsort(order)
    return {
        "probabilities": chances[order].astype(np.float32),
        "clusters": clusters[order],
        "embeddings": points[order].astype(np.float32),
        "labeled": place[labeled],
        "labels": chances[labeled].argmax(axis=1),
    }


# Near-copies.


def test_sharing_and_distinct_clusters_are_counted():
    counts = count_groups(np.array([5, 5, 5, 2, 0], np.int32))
    assert (counts.sharing, counts.groups_per_100) == (pytest.approx(3 / 5), pytest.approx(60))
    pairs = count_groups(np.array([5, 5, 5, 2, 0], np.int32), np.array([1, 1, 0, 1, 1]))
    assert (pairs.sharing, pairs.groups_per_100) == (pytest.approx(2 / 5), pytest.approx(80))


def test_chance_by_hand():
    """Four clusters of two, four picks: a pick is alone if the other row of its cluster is not among three of seven."""
    expected = expect_groups(np.bincount(CLUSTERS), np.array([4]))
    assert expected.sharing == pytest.approx(3 / 7)
    assert expected.groups_per_100 == pytest.approx(100 * (1 - 15 / 70))


@pytest.mark.parametrize("seed", range(6))
def test_chance_is_the_mean_over_all_ways_to_shuffle_clusters(seed):
    rng = np.random.default_rng(seed)
    n = 6
    clusters = rng.integers(0, 4, n).astype(np.int32)
    k = int(rng.integers(1, n + 1))
    found = [count_groups(np.array(labels, np.int32)[:k]) for labels in itertools.permutations(clusters)]
    expected = expect_groups(np.bincount(clusters), np.array([k]))
    assert expected.sharing == pytest.approx(np.mean([one.sharing for one in found]))
    assert expected.groups_per_100 == pytest.approx(np.mean([one.groups_per_100 for one in found]))


@pytest.mark.parametrize("seed", range(6))
def test_chance_of_pairs_is_the_mean_over_all_ways_to_shuffle_clusters_over_rows(seed):
    rng = np.random.default_rng(seed)
    n = 6
    clusters = rng.integers(0, 3, n).astype(np.int32)
    every = np.array(list(itertools.product(range(n), range(3))))
    picked = every[rng.permutation(len(every))[: int(rng.integers(2, 12))]]
    rows, classes = picked.T
    found = [count_groups(np.array(labels, np.int32)[rows], classes) for labels in itertools.permutations(clusters)]
    expected = expect_groups(np.bincount(clusters), np.bincount(classes))
    assert expected.sharing == pytest.approx(np.mean([one.sharing for one in found]))
    assert expected.groups_per_100 == pytest.approx(np.mean([one.groups_per_100 for one in found]))


def test_agreement_is_one_for_equal_margins_and_about_zero_for_shuffled_clusters():
    margins = np.repeat(np.float32([0.1, 0.4, 0.9]), 4)
    groups = np.repeat([0, 1, 2], 4)
    assert measure_agreement(margins, groups) == pytest.approx(1)
    # Two groups of 0 and 1: within 0.5 (two degrees of freedom, a sum of squares of 1), in all 1/3.
    assert measure_agreement(np.float32([0, 1, 0, 1]), np.array([0, 0, 1, 1])) == pytest.approx(1 - 0.5 / (1 / 3))
    rng = np.random.default_rng(0)
    shuffled = [measure_agreement(margins, rng.permutation(groups)) for _ in range(2000)]
    assert np.mean(shuffled) == pytest.approx(0, abs=0.02)
    assert measure_agreement(margins, np.arange(12)) is None
    assert measure_agreement(np.zeros(4, np.float32), np.array([0, 0, 1, 1])) is None
    assert measure_agreement(np.zeros(1, np.float32), np.array([0])) is None


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean", "euclidean"])
def test_close_picks_are_those_within_the_distance_of_another(metric):
    rng = np.random.default_rng(3)
    points = rng.normal(size=(40, 3)) + 5
    units = points / np.linalg.norm(points, axis=1, keepdims=True)
    squares = ((points[:, None] - points) ** 2).sum(axis=2)
    distances = {"cosine": 1 - units @ units.T, "sqeuclidean": squares, "euclidean": np.sqrt(squares)}[metric]
    rows = rng.permutation(40)[:25]
    classes = rng.integers(0, 2, 25)
    limit = float(np.quantile(distances, 0.06))  # of which the distances to the points themselves are 0.025
    near = Near(open_matrix(points, "embeddings"), metric, limit)
    among = distances[np.ix_(rows, rows)] <= limit
    np.fill_diagonal(among, False)
    assert 0 < among.any(axis=1).mean() < 1
    assert near.measure(rows, None, rng) == pytest.approx(among.any(axis=1).mean())
    among &= classes[:, None] == classes
    assert near.measure(rows, classes, rng) == pytest.approx(among.any(axis=1).mean())


def test_a_part_of_a_large_batch_gives_about_the_same_share(monkeypatch):
    rng = np.random.default_rng(0)
    points = np.repeat(rng.normal(size=(1500, 4)), 2, axis=0)
    points[:1000] += rng.normal(size=(1000, 4))  # a third has no copy
    near = Near(open_matrix(points, "embeddings"), "sqeuclidean", 1e-9)
    rows = rng.permutation(3000)
    assert near.measure(rows, None, rng) == pytest.approx(2 / 3)
    monkeypatch.setattr("hedgerow.advice.copies.PRODUCTS", 1)
    found = near.measure(rows, None, rng)
    assert found != near.measure(rows, None, rng)  # another 300
    assert found == pytest.approx(2 / 3, abs=0.12)


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean", "euclidean"])
def test_copies_are_close_at_any_scale(metric):
    rng = np.random.default_rng(0)
    for size in (1e-6, 1.0, 1e6):
        points = (np.repeat(rng.normal(size=(50, 256)), 2, axis=0) * size).astype(np.float32)
        points[0] *= -1  # the first two are no longer copies
        near = Near(open_matrix(points, "embeddings"), metric, 0.0)
        assert near.measure(np.arange(100), None, rng) == pytest.approx(0.98)


def test_large_batches_are_compared_in_part():
    assert count_compared(1000, 128) == 1000
    assert count_compared(100_000, 128) == (1 << 33) // 12_800_000
    assert count_compared(1_000_000, 128) == 300


def test_the_cut_is_the_median_distance_within_clusters():
    points = np.array([[0.0], [1.0], [10.0], [13.0], [20.0]])
    clusters = np.array([0, 0, 1, 1, 2], np.int32)
    found = measure_cut(
        open_matrix(points, "embeddings"), "euclidean", clusters, np.bincount(clusters), np.random.default_rng(0)
    )
    assert found is not None
    assert found[0] == pytest.approx(2)  # of 1 and 3
    alone = np.arange(5, dtype=np.int32)
    assert measure_cut(open_matrix(points, "embeddings"), "euclidean", alone, np.ones(5, np.int64),
                       np.random.default_rng(0)) is None  # fmt: skip


def test_the_cut_of_few_clusters_is_that_of_many_pairs_of_rows():
    rng = np.random.default_rng(0)
    points = open_matrix(rng.normal(size=(4000, 1)), "embeddings")
    for clusters in (np.zeros(4000, np.int32), (np.arange(4000) % 3).astype(np.int32)):
        found = measure_cut(points, "euclidean", clusters, np.bincount(clusters), rng)
        assert found == pytest.approx((0.954, 0.954), abs=0.08)  # of two normal numbers: 0.6745 times the root of 2


# Measurements.


def test_measurements_by_hand():
    measured = hr.advise(4, margins=MARGINS, clusters=CLUSTERS, classes=2).measurements
    margin = measured.find_batch("margin")
    assert (margin.sharing, margin.clusters_per_100, margin.alone) == (1.0, 50.0, 0.0)
    assert measured.chance_sharing == pytest.approx(3 / 7)
    assert measured.excess_sharing == pytest.approx(4 / 7)
    assert (measured.n, measured.unlabeled, measured.labeled, measured.batch_to_pool) == (8, 8, 0, 0.5)
    assert (measured.n_clusters, measured.average_size) == (4, 2)
    assert [measured.batch_to_labels, measured.labels_per_class, measured.calibration] == [None] * 3
    narrow, wide = measured.find_batch("cluster-margin", 1.25), measured.find_batch("cluster-margin", 10.0)
    assert (narrow.candidates, narrow.clusters_per_100) == (5, 75.0)  # rows 0 to 4: clusters of two, two and one
    assert (wide.candidates, wide.clusters_per_100, wide.sharing) == (8, 100.0, 0.0)


def test_the_simulated_batches_are_those_of_select():
    pool = redundant()
    given = {key: pool[key] for key in ("probabilities", "clusters", "labeled")}
    measured = hr.advise(200, **pool, seed=7).measurements
    for strategy, factor in [(hr.Margin(), None), (hr.Random(), None), (hr.StochasticMargin(), None)] + [
        (kind(factor), factor) for kind in (hr.ClusterMargin, hr.ShuffledClusterMargin) for factor in (1.25, 3.0, 10.0)
    ]:
        batch = hr.select(strategy, 200, **given, seed=7)
        counts = count_groups(batch.clusters if batch.clusters is not None else pool["clusters"][batch.rows])
        found = measured.find_batch(batch.strategy, factor)
        assert found.sharing == pytest.approx(counts.sharing)
        assert found.clusters_per_100 == pytest.approx(counts.groups_per_100)
        if factor:
            assert found.candidates == min(3960, int(factor * 200))


def test_labels_are_counted_and_calibration_is_measured_on_them():
    chances = np.array([[0.9, 0.1, 0], [0.6, 0.4, 0], [0.2, 0.8, 0], [0.5, 0.4, 0.1]], np.float32)
    measured = hr.advise(1, probabilities=chances, labeled=[2, 0], labels=[1, 1]).measurements
    assert (measured.classes, measured.labels_per_class) == (3, pytest.approx(2 / 3))
    assert (measured.fewest_labels, measured.classes_without_labels) == (0, 2)
    assert measured.batch_to_labels == 0.5
    found = measured.calibration
    assert (found.count, found.source, found.accuracy) == (2, "labeled", 0.5)
    assert found.error == pytest.approx((0.9 + 0.2) / 2)  # 0.9 sure and wrong, 0.8 sure and right: different bins
    assert (measured.unasked_classes, measured.largest_class) == (1, 1.0)  # row 3: its classes 0 and 1
    better = hr.advise(1, probabilities=chances, holdout=(chances[:2], [0, 0])).measurements.calibration
    assert (better.source, better.count, better.accuracy) == ("holdout", 2, 1.0)


@pytest.mark.parametrize("as_mask", [False, True])
def test_labels_go_with_rows_or_a_mask_or_the_whole_pool(as_mask):
    pool = redundant()
    rows = np.sort(pool["labeled"])
    every = pool["probabilities"].argmax(axis=1)
    labeled = np.isin(np.arange(4000), rows) if as_mask else rows
    given = {"probabilities": pool["probabilities"], "labeled": labeled}
    counted = [hr.advise(50, **given, labels=labels).measurements for labels in (every, every[rows])]
    assert counted[0] == counted[1]
    assert counted[0].fewest_labels == np.bincount(every[rows], minlength=4).min()


def test_logits_and_probabilities_give_the_same_measurements():
    pool = redundant()
    logits = np.log(pool.pop("probabilities"))
    first = hr.advise(100, logits=logits, **pool).measurements
    second = hr.advise(100, probabilities=np.exp(logits), **pool).measurements
    assert first.find_batch("margin") == second.find_batch("margin")
    assert first.calibration.error == pytest.approx(second.calibration.error, abs=1e-6)
    assert first.unasked_classes == second.unasked_classes


def test_files_are_joined_by_id(tmp_path):
    pool = redundant()
    ids = np.array([f"image-{row}" for row in range(4000)])
    turned = np.random.default_rng(1).permutation(4000)
    labels = pool["probabilities"].argmax(axis=1)
    rows = pool["labeled"]
    pq.write_table(pa.table({"id": ids, "cluster": pool["clusters"]}), tmp_path / "clusters.parquet")
    chances = [pool["probabilities"][row] for row in turned]
    pq.write_table(pa.table({"id": ids[turned], "probabilities": chances}), tmp_path / "predictions.parquet")
    (tmp_path / "labeled.csv").write_text(
        "id,label\n"
        + "".join(f"{ids[row]},{labels[row]}\n" for row in rows[:25])
        + f"{ids[rows[0]]},{labels[rows[0]]}\n"
    )
    pq.write_table(pa.table({"id": ids[rows[25:]], "target": labels[rows[25:]]}), tmp_path / "more.parquet")
    found = hr.advise(
        300, predictions=tmp_path / "predictions.parquet", clusters=tmp_path / "clusters.parquet",
        labeled=[tmp_path / "labeled.csv", tmp_path / "more.parquet"],
    )  # fmt: skip
    pool.pop("embeddings")
    expected = hr.advise(300, **(pool | {"labels": labels[rows]}))
    assert found.measurements == expected.measurements
    assert found.measurements.calibration.accuracy == 1


def test_rows_without_predictions_are_left_out():
    ids = [f"a{row}" for row in range(8)]
    given = pa.table({"id": ids[:6], "margin": MARGINS[:6]})
    measured = hr.advise(2, predictions=given, clusters=pa.table({"id": ids, "cluster": CLUSTERS})).measurements
    assert (measured.n, measured.unlabeled, measured.without_predictions) == (8, 6, 2)


def test_predictions_in_a_table_are_read_for_the_picks():
    """A table that is not in memory as one array: the rows of the batch are gathered in a pass over it."""
    pool = redundant()
    table = pa.table({"probabilities": list(pool["probabilities"])})
    first = hr.advise(100, **(pool | {"probabilities": table})).measurements
    assert first == hr.advise(100, **pool).measurements


def test_named_labels_are_counted_but_not_calibrated():
    chances = np.full((6, 3), 1 / 3, np.float32)
    measured = hr.advise(1, probabilities=chances, labeled=[0, 1, 2], labels=["cat", "dog", "cat"]).measurements
    assert (measured.fewest_labels, measured.classes_without_labels) == (0, 1)
    assert measured.calibration is None


@pytest.mark.parametrize("unit", ["row", "pair"])
def test_no_class_is_called_rare_if_only_some_labels_are_known(tmp_path, unit):
    given: dict[str, Any] = {"probabilities": np.full((6, 3), 1 / 3, np.float32)}
    if unit == "pair":
        given = make_pairs()
    (tmp_path / "some.csv").write_text("row,class,label\n0,0,1\n1,0,1\n")
    (tmp_path / "others.csv").write_text("row,class\n2,1\n3,1\n")
    both = [tmp_path / "some.csv", tmp_path / "others.csv"]
    whole, part = (hr.advise(1, **given, labeled=labeled).measurements for labeled in (both[:1], both))
    assert (whole.labeled, whole.fewest_labels, whole.classes_without_labels) == (2, 0, 2)
    assert (part.labeled, part.fewest_labels, part.classes_without_labels) == (4, None, None)
    assert part.calibration.count == 2


# Pairs.


def make_pairs() -> dict[str, Any]:
    """Six rows in three clusters of two, three classes, every pair; the margins ascend by pair."""
    pairs = hr.Pairs(np.repeat(np.arange(6), 3), np.tile(np.arange(3), 6))
    return {"pairs": pairs, "probabilities": 0.5 + np.arange(18) / 40, "clusters": np.repeat([0, 1, 2], 2)}


def test_pairs_share_a_cluster_and_a_class():
    measured = hr.advise(5, **make_pairs()).measurements
    margin = measured.find_batch("margin")
    # Pairs 0 to 4: row 0 with classes 0, 1, 2 and row 1, of the same cluster, with classes 0 and 1.
    assert (measured.unit, measured.n, measured.classes) == ("pair", 18, 3)
    assert (margin.sharing, margin.clusters_per_100) == (pytest.approx(4 / 5), pytest.approx(60))
    # Two rows of a class are in one cluster with probability 1/5; a class with one pair has no other.
    assert measured.chance_sharing == pytest.approx((2 * 1 / 5 + 2 * 1 / 5) / 5)
    assert (measured.unasked_classes, measured.largest_class) == (0, pytest.approx(2 / 5))


def test_clusters_over_pairs_are_not_advised_for_a_softmax():
    rng = np.random.default_rng(0)
    rows, classes = np.divmod(np.arange(1200), 3)
    groups = np.repeat(np.arange(40), 10)  # of ten copies each
    logits = rng.normal(0, 2, (40, 3))[groups]
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    given = {"pairs": hr.Pairs(rows, classes), "clusters": groups, "labeled": np.arange(0, 1200, 12)}
    independent, softmax = (hr.advise(40, probabilities=p, **given) for p in (1 / (1 + np.exp(-logits)), shares))
    assert (independent.measurements.exclusive, softmax.measurements.exclusive) == (0, 1)
    assert min(one.measurements.excess_sharing for one in (independent, softmax)) > 0.33
    assert independent.reason.rule == "near-copies, pairs"
    assert softmax.reason.rule != "near-copies, pairs"
    assert "exclusive classes, pairs" in [note.rule for note in softmax.notes]
    by_pair = hr.advise(40, probabilities=shares[rows, classes], **given)  # which does not tell
    assert by_pair.measurements.exclusive == 0


def test_the_simulated_batches_are_those_of_select_pairs():
    rng = np.random.default_rng(0)
    pairs = hr.Pairs(np.repeat(np.arange(300), 3), np.tile(np.arange(3), 300))
    given = {"pairs": pairs, "probabilities": rng.random(900), "clusters": np.arange(300) // 5, "labeled": [0, 5, 7]}
    points = rng.normal(size=(300, 4))
    measured = hr.advise(60, **given, embeddings=points, seed=3).measurements
    for strategy, factor in [(hr.Margin(), None), (hr.Random(), None), (hr.ClusterMarginPairs(3), 3.0),
                             (hr.ShuffledClusterMarginPairs(10), 10.0)]:  # fmt: skip
        batch = hr.select_pairs(strategy, 60, **given, seed=3)
        counts = count_groups(given["clusters"][batch.rows].astype(np.int32), batch.classes)
        found = measured.find_batch(batch.strategy, factor)
        assert found.sharing == pytest.approx(counts.sharing)
        assert found.close is not None


def test_answers_of_pairs_are_counted_and_calibrated(tmp_path):
    given = make_pairs()
    measured = hr.advise(2, **given, labeled=[17, 16, 3], labels=[1, 0, 1]).measurements
    assert measured.labels_per_class == 1
    assert (measured.fewest_labels, measured.classes_without_labels) == (0, 1)  # yes: classes 2 and 0
    assert (measured.calibration.count, measured.calibration.accuracy) == (3, pytest.approx(2 / 3))
    (tmp_path / "answers.csv").write_text("row,class,answer\n5,2,1\n5,1,0\n1,0,1\n")
    assert hr.advise(2, **given, labeled=tmp_path / "answers.csv").measurements == measured
    held = hr.advise(2, **given, holdout=(np.array([0.9, 0.2]), [1, 0])).measurements.calibration
    assert (held.source, held.accuracy) == ("holdout", 1)


@pytest.mark.parametrize("make", [pa.array, lambda values: pa.chunked_array([values])])
def test_what_is_labeled_may_be_a_column(make):
    given = {"probabilities": redundant()["probabilities"], "labels": [0, 1]}
    assert (
        hr.advise(300, labeled=make([3, 5]), **given).measurements
        == hr.advise(300, labeled=[3, 5], **given).measurements
    )


def test_labels_that_are_none(tmp_path):
    (tmp_path / "none.csv").write_text("row,label\n")
    given = {"probabilities": redundant()["probabilities"]}
    assert hr.advise(300, labeled=tmp_path / "none.csv", **given).measurements.labeled == 0
    for labels in (np.array(["cat", np.nan], object), np.array([[1, 2], [3]], object)):
        with pytest.raises(hr.InputError, match="which is no class number or name: leave out what has no label"):
            hr.advise(300, labeled=[0, 1], labels=labels, **given)


# Advice.


def test_the_advice_flips_when_the_clusters_are_shuffled():
    pool = redundant()
    real = hr.advise(300, **pool)
    assert (real.choice, real.reason.rule) == ("cluster-margin, margin_factor 3", "full of near-copies")
    assert real.decided
    shuffled = hr.advise(300, **(pool | {"clusters": np.random.default_rng(5).permutation(pool["clusters"])}))
    assert (shuffled.strategy, shuffled.reason.rule) == ("margin", "meaningless clusters")
    assert real.measurements.excess_sharing > 0.2 > abs(shuffled.measurements.excess_sharing)
    removed = [
        one.measurements.find_batch("cluster-margin-shuffled", 10.0).close
        - one.measurements.find_batch("cluster-margin", 10.0).close
        for one in (real, shuffled)
    ]
    assert removed[0] > 0.2 > abs(removed[1])


@pytest.mark.parametrize(
    ("labels", "clusters_per_100", "rule"),
    [
        (40, 30, "full of near-copies"),
        (4_000, 30, "full of near-copies"),
        (40, 60, "near-copies, large batch"),
        (4_000, 60, "near-copies, small batch"),
    ],
)
def test_a_batch_full_of_copies_need_not_be_large(labels, clusters_per_100, rule):
    measured = hr.advise(300, **redundant()).measurements
    assert measured.margin_clusters < 45
    batches = tuple(
        replace(one, clusters_per_100=clusters_per_100) if one.strategy == "margin" else one for one in measured.batches
    )
    measured = replace(measured, batches=batches, labels_per_class=labels / 4, batch_to_labels=300 / labels)
    assert give_advice(measured).reason.rule == rule


def test_without_embeddings_clusters_are_not_credited():
    """Whether rows of a cluster are near-copies, clusters of any size being possible, only distances tell."""
    pool = {key: value for key, value in redundant().items() if key != "embeddings"}
    advice = hr.advise(300, **pool)
    assert (advice.strategy, advice.decided) == ("hedge", False)
    assert any("--embeddings" in one and "near-copies, large batch" in one for one in advice.missing)
    pool["clusters"] = np.random.default_rng(5).permutation(pool["clusters"])
    assert hr.advise(300, **pool).reason.rule == "meaningless clusters"


def test_loose_clusters_are_not_credited():
    pool = redundant()
    pool["embeddings"] = np.random.default_rng(2).normal(size=pool["embeddings"].shape)
    assert hr.advise(300, **pool).reason.rule == "loose clusters"


def test_a_batch_may_be_a_large_part_of_the_pool():
    assert hr.advise(600, **redundant()).choice == "cluster-margin, margin_factor 3"


def test_the_whole_pool_needs_no_strategy():
    advice = hr.advise(8, margins=MARGINS)
    assert (advice.reason.rule, advice.decided) == ("whole pool", True)


def test_few_labels_per_class_advise_hedge():
    pool = redundant()
    pool |= {"labeled": pool["labeled"][:12], "labels": pool["labels"][:12]}
    advice = hr.advise(300, **pool)
    assert (advice.strategy, advice.decided) == ("hedge", True)
    del pool["clusters"]
    advice = hr.advise(300, **pool)
    assert (advice.strategy, advice.reason.rule, advice.decided) == ("margin", "few labels, margin", False)
    assert any("--clusters" in one and "few labels, rows" in one for one in advice.missing)


def test_what_is_missing_is_named_and_leaves_the_advice_undecided():
    pool = redundant()
    advice = hr.advise(300, probabilities=pool["probabilities"])
    assert (advice.strategy, advice.decided) == ("margin", False)
    missing = " ".join(advice.missing)
    assert "--clusters" in missing
    assert "--labeled" in missing
    assert "near-copies, large batch" in missing
    assert "Without clusters, near-copies" in str(advice)
    assert "Undecided" in str(advice)


def test_what_is_given_is_not_called_missing():
    pool = redundant()
    advice = hr.advise(300, **{key: pool[key] for key in ("probabilities", "labeled", "embeddings")})
    assert advice.missing
    assert all(one.startswith("clusters (--clusters FILE), ") for one in advice.missing)
    alone = hr.advise(300, **(pool | {"clusters": np.arange(4000)}))
    assert alone.missing == ("clusters of two unlabeled rows, with margins that differ, for the rules: "
                             "meaningless clusters",)  # fmt: skip
    assert "for lack of:\n  - clusters of two unlabeled rows" in str(alone)
    equal = hr.advise(300, **(pool | {"embeddings": np.ones((4000, 2))}))
    assert [one.split(", for")[0] for one in equal.missing] == ["clusters of two rows, with embeddings that differ"]
    margins = hr.advise(2, margins=MARGINS, labeled=[0])
    assert any(one.startswith("the number of classes (--classes), ") for one in margins.missing)
    assert not any("--labeled" in one for one in margins.missing)


def test_the_text_has_every_measurement_and_the_evidence():
    advice = hr.advise(300, **redundant())
    text = str(advice)
    assert text.startswith("Advice: cluster-margin, margin_factor 3\n")
    for part in (
        "3,960 unlabeled, 40 labeled", "7.5 times the labels so far", "10 labels per class", "400 of 10 rows",
        "if clusters were shuffled", "  control, shuffled", "docs/results/sweep-digits.md#by-batch",
        "use a holdout", "below 45",
    ):  # fmt: skip
        assert part in text
    assert max(map(len, text.splitlines())) <= 88


def test_advice_and_measurements_survive_json():
    advice = hr.advise(300, **redundant())
    stored = json.loads(json.dumps(advice.to_json()))
    assert read_measurements(stored["measurements"]) == advice.measurements
    assert give_advice(read_measurements(stored["measurements"])) == advice
    assert (stored["strategy"], stored["options"]) == ("cluster-margin", {"margin_factor": 3.0})


def test_the_same_seed_gives_the_same_measurements():
    pool = redundant()
    assert hr.advise(100, **pool, seed=2).measurements == hr.advise(100, **pool, seed=2).measurements
    assert hr.advise(100, **pool, seed=2).measurements != hr.advise(100, **pool, seed=3).measurements


# Rules.


def test_every_rule_can_be_read_tested_and_looked_up():
    names = [rule.name for rule in (*rules.RULES, *rules.NOTES)]
    assert len(names) == len(set(names))
    empty = hr.Measurements("row", 1, 2, 2, 0)
    for rule in (*rules.RULES, *rules.NOTES):
        assert rule.reason.endswith(".")
        for condition in rule.conditions:
            assert condition.measurement in WORDS
            assert condition.measurement in SHORT
            assert condition.origin
            needed = empty.find(condition.measurement) is None and rule in rules.RULES
            assert not needed or condition.measurement in GIVEN_AS
    for unit in rules.BOTH:
        last = [rule for rule in rules.RULES if unit in rule.units][-1]
        assert (last.conditions, last.decided) == ((), False)


def test_strategies_of_rules_can_be_selected_with_their_options():
    known = {"row": hr.STRATEGIES, "pair": hr.PAIR_STRATEGIES}
    for rule in rules.RULES:
        for unit in rule.units:
            made = known[unit][rule.strategy](**rule.options)
            assert {key: getattr(made, key) for key in rule.options} == rule.options


def test_the_evidence_of_rules_is_there():
    for rule in (*rules.RULES, *rules.NOTES):
        for link in rule.evidence:
            page, _, anchor = link.partition("#")
            text = (ROOT / "docs" / page).read_text()
            heads = {
                re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in re.findall(r"^#+ (.+)$", text, re.M)
            }
            assert not anchor or anchor in heads, link


@pytest.mark.parametrize("labels", [2, 8])  # few labels; a large batch
def test_hedge_is_advised_only_where_it_can_be_selected(labels):
    given = {"margins": np.tile(MARGINS, 20), "clusters": np.tile(np.arange(8), 20), "labeled": np.arange(labels)}
    advice = hr.advise(50, **given, classes=1)
    assert advice.choice == "hedge, classes 1"
    assert len(hr.select(make(advice.strategy, advice.options), 50, **given).rows) == 50
    for more, lack in (({"classes": None}, "--classes"), ({"margins": 10 * given["margins"]}, "margins from 0 to 1")):
        advice = hr.advise(50, **({"classes": 1} | given | more))
        assert (advice.strategy, advice.decided) == ("margin", False)
        assert any(lack in one and "rows" in one for one in advice.missing)


def test_a_value_that_is_rounded_to_its_threshold_is_said_to_be_under_it():
    measured = hr.advise(300, **redundant()).measurements
    few = give_advice(replace(measured, labels_per_class=4.9999))
    assert few.reason.conditions[0] == "labels per class: just under 5 (below 5)"


def test_no_rule_advises_what_lost():
    """Factor 10 was behind at the end on rows; the two steps were behind on pairs; controls are not to be bought."""
    of_rows = {(rule.strategy, rule.options.get("margin_factor")) for rule in rules.RULES if "row" in rule.units}
    of_pairs = {rule.strategy for rule in rules.RULES if "pair" in rule.units}
    clustered = {("cluster-margin", 3.0), ("hedge", None)}
    assert of_rows == {("random", None), ("margin", None), *clustered}
    assert of_pairs == {"random", "margin", "stochastic-margin", "cluster-margin-pairs"}


def test_the_first_rule_that_holds_is_the_advice():
    measured = hr.advise(300, **redundant()).measurements
    few = give_advice(replace(measured, labels_per_class=1.0))
    assert few.reason.rule == "few labels, rows"
    assert few.strategy == "hedge"
    assert few.reason.conditions[0] == "labels per class: 1 (below 5)"
    assert give_advice(replace(measured, batch_to_pool=1.0, labels_per_class=1.0)).reason.rule == "whole pool"


@pytest.mark.parametrize(
    ("labels_per_class", "batch_to_labels", "expected", "decided"),
    [(3.0, 0.3, "random", True), (91.0, 1.25, "stochastic-margin", True), (500.0, 0.5, "margin", True),
     (30.0, 0.5, "stochastic-margin", False)],
)  # fmt: skip
def test_rules_of_pairs(labels_per_class, batch_to_labels, expected, decided):
    measured = hr.advise(5, **make_pairs()).measurements
    measured = replace(measured, labels_per_class=labels_per_class, batch_to_labels=batch_to_labels, chance_sharing=0.6)
    advice = give_advice(measured)
    assert (advice.strategy, advice.decided) == (expected, decided)
    assert "clusters of pairs" in {note.rule for note in advice.notes}


def test_pairs_whose_margin_batch_is_full_of_copies_get_clusters():
    """Thirty rows in three clusters of equal rows: the lowest margins are all of one cluster and class."""
    pairs = hr.Pairs(np.repeat(np.arange(300), 2), np.tile(np.arange(2), 300))
    clusters = np.arange(300) // 10
    chances = (0.5 + clusters / 100)[pairs.rows] + pairs.classes / 200
    given = {"pairs": pairs, "probabilities": chances, "labeled": np.arange(300, 340)}
    advice = hr.advise(30, **given, clusters=clusters)
    assert (advice.choice, advice.decided) == ("cluster-margin-pairs, margin_factor 10", True)
    shuffled = hr.advise(30, **given, clusters=np.random.default_rng(0).permutation(clusters))
    assert shuffled.strategy == "stochastic-margin"
    assert "clusters of pairs" in {note.rule for note in shuffled.notes}


# Mistakes.


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "size of the pool is unknown|predictions are missing"),
        ({"clusters": CLUSTERS}, "predictions are missing"),
        ({"margins": MARGINS, "k": 0}, "k must be at least 1"),
        ({"margins": MARGINS, "k": 9}, "9 examples were asked for, but only 8 are unlabeled: ask for fewer$"),
        ({"margins": np.append(MARGINS[:-1], np.nan)}, "NaN or an infinity in row 7"),
        ({"margins": MARGINS, "clusters": CLUSTERS[:5]}, "clusters has 5"),
        ({"margins": MARGINS, "clusters": CLUSTERS - 1}, "labels are 0 or more"),
        ({"margins": MARGINS, "labels": [0, 1]}, "labels goes with an array labeled"),
        ({"margins": MARGINS, "labeled": [0, 1], "labels": [0]}, "labels has 1, labeled has 2"),
        ({"margins": MARGINS, "labeled": [0, 1], "labels": [0, 1.5]}, "class numbers 0, 1, ... or names"),
        ({"margins": MARGINS, "labeled": [0, 1], "labels": [0, -1]}, "class numbers are 0 or more"),
        ({"margins": MARGINS, "labeled": [0, 1], "labels": [0, 3], "classes": 2}, "labels holds class 3"),
        ({"margins": MARGINS, "labeled": [0, 1], "labels": [None, 1]}, "labels holds None"),
        ({"margins": MARGINS, "labeled": [0], "labels": np.array(["2026-01-01"], "M8[D]")}, "values such as"),
        ({"margins": MARGINS, "labeled": [0, 1], "labels": [0, 1e300]}, "labels holds 1e\\+300"),
        ({"margins": MARGINS, "classes": 0}, "classes must be at least 1"),
        ({"margins": MARGINS, "label_column": "truth"}, "label_column 'truth'"),
        ({"margins": MARGINS, "labeled": ["a"]}, "pool has no ids"),
        ({"margins": MARGINS, "holdout": np.ones((3, 2))}, "holdout: an array has no named columns"),
        ({"probabilities": np.full((8, 2), 0.5), "classes": 3}, "predictions have 2 columns"),
        ({"probabilities": np.full((8, 2), 0.5), "holdout": (np.full((2, 3), 1 / 3), [0, 1])}, "3 columns"),
        ({"probabilities": np.full((8, 2), 0.5), "holdout": (np.full((2, 2), 0.5), [0, 2])}, "classes are 0 to 1"),
        ({"probabilities": np.full((8, 2), 0.5), "holdout": (np.full((2, 2), 0.9), [0, 1])}, "holdout: .*sums to 1.8"),
        ({"probabilities": np.full((8, 2), 0.5), "holdout": (np.full((2, 2), 0.5), ["a", "b"])}, "columns of the pred"),
        ({"probabilities": np.full((8, 2), 0.5), "holdout": (np.ones((0, 2)), [])}, "holdout has no rows"),
        ({"margins": MARGINS, "pairs": hr.Pairs([0], [0])}, "margins cannot be used with pairs"),
        ({"pairs": hr.Pairs([0], [0])}, "predictions are missing"),
        ({"pairs": hr.Pairs([0, 0], [0, 1]), "probabilities": [0.5, 0.5], "classes": 1}, "the pairs have 2 classes"),
        ({"pairs": hr.Pairs([0, 0], [0, 1]), "probabilities": np.ones((1, 2)), "classes": 3}, "have 2 columns"),
    ],
)
def test_mistakes_are_explained(given, message):
    with pytest.raises((hr.InputError, hr.PoolExhaustedError), match=message):
        hr.advise(given.pop("k", 2), **given)


def test_a_nan_in_the_embeddings_is_named_by_its_row():
    pool = redundant()
    pool["embeddings"][:, 2] = np.nan
    with pytest.raises(hr.InputError, match="embeddings has a NaN or an infinity in row"):
        hr.advise(300, **pool)


def test_two_labels_of_one_row_are_refused(tmp_path):
    (tmp_path / "labeled.csv").write_text("row,label\n1,0\n1,1\n")
    with pytest.raises(hr.InputError, match="row 1 has two labels, 0 and 1"):
        hr.advise(2, margins=MARGINS, labeled=tmp_path / "labeled.csv")


def test_a_label_column_must_be_there(tmp_path):
    (tmp_path / "labeled.csv").write_text("row,truth\n1,0\n2,1\n")
    found = hr.advise(2, margins=MARGINS, classes=2, labeled=tmp_path / "labeled.csv", label_column="truth")
    assert found.measurements.fewest_labels == 1
    assert hr.advise(2, margins=MARGINS, classes=2, labeled=tmp_path / "labeled.csv").measurements.fewest_labels is None
    with pytest.raises(hr.InputError, match="has no column 'class'"):
        hr.advise(2, margins=MARGINS, labeled=tmp_path / "labeled.csv", label_column="class")


# Defects that a review found.


def test_an_answer_column_must_be_there(tmp_path):
    given = make_pairs()
    (tmp_path / "some.csv").write_text("row,class,label\n0,0,1\n1,0,0\n")
    (tmp_path / "others.csv").write_text("row,class,truth\n2,1,1\n")
    with pytest.raises(hr.InputError, match=r"some.csv has no column 'foo'"):
        hr.advise(2, **given, labeled=tmp_path / "some.csv", label_column="foo")
    both = [tmp_path / "some.csv", tmp_path / "others.csv"]
    found = hr.advise(2, **given, labeled=both, label_column="truth").measurements
    assert (found.labeled, found.calibration.count) == (3, 1)
    with pytest.raises(hr.InputError, match=r"some.csv has no column 'foo'"):
        hr.advise(2, **given, labeled=both, label_column="foo")


def test_the_metric_is_measured_and_can_be_set(tmp_path):
    """Copies that differ in length only: cosine distance does not see what the clusters were made by."""
    rng = np.random.default_rng(0)
    points = np.repeat(rng.uniform(1, 100, 40), 10)[:, None] * [1, 1] + 0.01 * rng.normal(size=(400, 2))
    made = hr.cluster(points, average_size=10, metric="sqeuclidean")
    made.save(tmp_path / "made.parquet")
    given = {"margins": rng.random(400).astype(np.float32), "embeddings": points}
    known = hr.advise(50, **given, clusters=made)
    assert (known.measurements.metric, known.measurements.metric_assumed) == ("sqeuclidean", False)
    assert "distances     sqeuclidean: " in str(known)
    assert "assumed" not in str(known)
    assert hr.advise(50, **given, clusters=tmp_path / "made.parquet").measurements == known.measurements
    assumed = hr.advise(50, **given, clusters=made.labels)
    assert (assumed.measurements.metric, assumed.measurements.metric_assumed) == ("cosine", True)
    assert "distances     cosine: " in str(assumed)
    assert "cosine is assumed" in str(assumed)
    assert assumed.measurements.tightness > 100 * known.measurements.tightness
    told = hr.advise(50, **given, clusters=made.labels, metric="sqeuclidean")
    assert told.measurements == known.measurements
    assert hr.advise(50, **given, clusters=made, metric="euclidean").measurements.metric == "euclidean"
    assert hr.advise(50, margins=given["margins"], clusters=made).measurements.metric is None
    with pytest.raises(hr.InputError, match="metric"):
        hr.advise(50, **given, clusters=made, metric="manhattan")


def test_what_rules_read_is_in_the_json():
    advice = hr.advise(300, **redundant())
    stored = json.loads(json.dumps(advice.to_json(), allow_nan=False))["measurements"]
    assert stored["tightness"] == pytest.approx(advice.measurements.tightness)
    assert stored["excess_sharing"] == pytest.approx(advice.measurements.excess_sharing)
    assert stored["metric"] == "cosine"


def test_records_of_earlier_versions_can_be_read():
    stored = hr.advise(300, **redundant()).measurements.to_json()
    for name in ("tightness", "excess_sharing", "metric", "metric_assumed", "labeled_given", "tied"):
        del stored[name]
    read = read_measurements(stored)
    assert (read.metric, read.tied) == (None, None)
    assert "distances     0.0" in str(give_advice(read))


@pytest.mark.parametrize("as_file", [False, True])
def test_that_nothing_is_labeled_so_far_can_be_said(tmp_path, as_file):
    pool = redundant()
    (tmp_path / "none.csv").write_text("row,label\n")
    labeled = tmp_path / "none.csv" if as_file else np.zeros(4000, bool)
    given = {"probabilities": pool["probabilities"], "labeled": labeled}
    advice = hr.advise(300, **given, clusters=pool["clusters"])
    assert (advice.measurements.labels_per_class, advice.reason.rule) == (0, "few labels, rows")
    assert advice.reason.conditions[0] == "labels per class: 0 (below 5)"
    assert "4, 0 labels per class" in str(advice)
    json.dumps(advice.to_json(), allow_nan=False)
    assert hr.advise(300, **given).reason.rule == "few labels, margin"
    lowest = hr.advise(300, margins=hr.margins(pool["probabilities"]), labeled=labeled, clusters=pool["clusters"])
    assert lowest.measurements.labels_per_class is None  # classes are not known
    assert not any("--labeled" in one for one in lowest.missing)
    assert any(one.startswith("labels, of which there are none so far, for") for one in lowest.missing)
    unknown = hr.advise(300, probabilities=pool["probabilities"])
    assert unknown.measurements.labels_per_class is None
    assert any("--labeled" in one for one in unknown.missing)


def test_that_no_pair_is_labeled_so_far_can_be_said():
    advice = hr.advise(5, **make_pairs(), labeled=np.zeros(18, bool))
    assert (advice.strategy, advice.reason.rule) == ("random", "few labels, pairs")


def test_notes_are_about_what_can_be_selected():
    given = {"clusters": np.tile(np.arange(8), 20), "labeled": np.arange(8), "classes": 1}
    margins = np.tile(MARGINS, 20)
    fits, large = (hr.advise(50, margins=factor * margins, **given) for factor in (1, 10))
    assert "stochastic margin, rows" in {note.rule for note in fits.notes}
    assert not any("stochastic-margin is worth" in note.text for note in large.notes)
    assert "candidates cover the pool" in {note.rule for note in large.notes}
    few = {"labeled": [0], "classes": 2, "k": 2}
    fits, large = (hr.advise(margins=factor * margins, **few) for factor in (1, 10))
    assert "typical rows" in {note.rule for note in fits.notes}
    assert "typical rows" not in {note.rule for note in large.notes}  # uherding draws by margin, too
    without = hr.advise(50, margins=margins, labeled=np.arange(8))
    assert "candidates cover the pool" not in {note.rule for note in without.notes}


def test_rounded_margins_can_be_drawn_by():
    """Probabilities in float16 may sum to a little more than 1, and `select` takes them."""
    margins = np.append(MARGINS, np.float32(1.005))
    assert hr.advise(2, margins=margins).measurements.can_draw
    assert len(hr.select("stochastic-margin", 2, margins=margins).rows) == 2


def test_the_whole_pool_needs_no_notes():
    advice = hr.advise(6, margins=MARGINS, clusters=CLUSTERS, labeled=[0, 1], classes=2)
    assert (advice.reason.rule, advice.notes) == ("whole pool", ())


@pytest.mark.parametrize("by_chance", [0.3, 0.66, 0.68, 0.9])
def test_pairs_that_share_by_chance_leave_no_room_for_more(by_chance):
    measured = hr.advise(5, **make_pairs()).measurements
    batches = tuple(replace(one, sharing=by_chance + 0.05) for one in measured.batches)
    measured = replace(measured, batches=batches, chance_sharing=by_chance, labels_per_class=500.0, batch_to_labels=2.0)
    advice = give_advice(measured)
    testable = by_chance < 0.67
    assert advice.strategy == "stochastic-margin"
    assert advice.decided == testable
    assert ("clusters of pairs" in {note.rule for note in advice.notes}) == testable
    said = [one for one in advice.missing if one.startswith("smaller clusters or a smaller batch: by chance alone, ")]
    assert len(said) == (not testable)


def test_ties_at_the_end_of_the_margin_batch():
    def measure(margins: Any, k: int, **more: Any) -> float:
        found = hr.advise(k, margins=np.array(margins, np.float32), **more).measurements.tied
        assert found is not None
        return found

    assert measure([0.5] * 6, 2) == 1
    assert measure([0.1, 0.2, 0.5, 0.5, 0.5], 4) == 0.5
    assert measure([0.1, 0.2, 0.5, 0.5], 4) == 0  # nothing is left out
    assert measure([0.1, 0.5, 0.5, 0.9], 3) == 0
    assert measure([0.1, 0.5, 0.5, 0.9], 2, labeled=[2]) == 0  # what is labeled is not left out
    assert measure([0.1, 0.5, 0.5, 0.5], 2, labeled=[2]) == 0.5
    pairs = hr.Pairs(np.arange(6), np.zeros(6, int))
    assert hr.advise(2, pairs=pairs, probabilities=np.full(6, 0.5)).measurements.tied == 1


def test_a_batch_by_the_order_of_the_file_is_noted():
    tied = hr.advise(10, probabilities=np.full((100, 2), 0.5))
    (note,) = (note for note in tied.notes if note.rule == "ties")
    assert "lowest row" in note.text
    assert note.conditions == (
        "picks of the margin batch that are tied with what it leaves out: 100 % (at least 50 %)",
    )
    assert "ties" not in {note.rule for note in hr.advise(300, **redundant()).notes}


@pytest.mark.parametrize("kind", ["true", "True", "TRUE"])
def test_answers_may_be_words(tmp_path, kind):
    no = {"true": "false", "True": "False", "TRUE": "FALSE"}[kind]
    (tmp_path / "answers.csv").write_text(f"row,class,answer\n5,2,{kind}\n5,1,{no}\n1,0,{kind}\n")
    found = hr.advise(2, **make_pairs(), labeled=tmp_path / "answers.csv").measurements
    assert found == hr.advise(2, **make_pairs(), labeled=[17, 16, 3], labels=[1, 0, 1]).measurements


@pytest.mark.parametrize("labels", [["yes", "no"], [0, 2], [0.5, 1], [2**70, 0], np.array([1, "true"], object)])
def test_other_answers_are_refused_by_what_was_got(labels):
    with pytest.raises(hr.InputError, match=r"labels holds ('yes'|2|0\.5|1180591620717411303424|names and numbers)"):
        hr.advise(2, **make_pairs(), labeled=[0, 1], labels=labels)


def test_labels_of_two_kinds_are_refused():
    with pytest.raises(hr.InputError, match="labels holds names and numbers, such as 'cat' and 1: give one kind"):
        hr.advise(2, margins=MARGINS, labeled=[0, 1], labels=np.array([1, "cat"], object))


@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean"])
def test_embeddings_whose_squares_overflow_are_refused(metric):
    pool = redundant()
    pool["embeddings"] = pool["embeddings"].astype(np.float64) * 1e200
    with pytest.raises(hr.InputError, match=r"embeddings holds .*e\+200 in row \d+, whose square .*--metric cosine"):
        hr.advise(300, **pool, metric=metric)
    assert hr.advise(300, **pool, metric="cosine").measurements.tightness < 0.29
