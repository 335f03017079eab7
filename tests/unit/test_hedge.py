"""Hedge: its limits, its weights, what it refuses; for rows and for pairs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hedgerow as hr
from hedgerow.errors import HedgerowWarning
from hedgerow.pairs.hedge import count_labels
from hedgerow.strategies.hedge import Hedge

N = 400


@pytest.fixture
def given() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "probabilities": rng.dirichlet(np.ones(4), N).astype(np.float32),
        "clusters": rng.integers(0, 60, N),
        "labeled": np.arange(100),
    }


@pytest.fixture
def pairs() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return {
        "pairs": hr.Pairs(np.repeat(np.arange(100), 5), np.tile(np.arange(5), 100)),
        "probabilities": rng.random((100, 5)).astype(np.float32),
        "clusters": rng.integers(0, 20, 100),
        "labeled": np.arange(60),
    }


def find_chances(batch: hr.Batch | hr.PairBatch) -> Any:
    assert batch.weights is not None
    return 1 / batch.weights


def test_without_labels_every_row_is_as_likely(given: dict[str, Any]) -> None:
    del given["labeled"]
    with pytest.warns(HedgerowWarning, match=r"nothing is marked as labeled: pass labeled=.*--set labels="):
        hr.select("hedge", 40, **given)
    batch = hr.select(Hedge(cluster_power=1.0, labels=0), 40, **given)
    assert find_chances(batch) == pytest.approx(np.full(40, 40 / N))
    assert len(np.unique(given["clusters"][batch.rows])) >= 30  # stratified: at most one pick more than expected


def test_a_cluster_has_its_expected_number_of_picks_rounded_up_or_down(given: dict[str, Any]) -> None:
    clusters, expected = given["clusters"], np.zeros(60)
    batches = [hr.select("hedge", 80, **given, seed=seed) for seed in range(300)]
    chances = np.zeros(N)
    for batch in batches:
        chances[batch.rows] = find_chances(batch)
    np.add.at(expected, clusters, chances)
    for batch in batches:
        picks = np.bincount(clusters[batch.rows], minlength=60)
        # a stretch of the frame holds its share to within one point, wherever it begins
        assert (np.abs(picks - expected) < 1 + 1e-6).all()


def test_many_labels_and_a_small_batch_are_the_lowest_margins(given: dict[str, Any]) -> None:
    sharp = Hedge(power=1e3, labels=10**9, cluster_power=1.0)
    margins = hr.margins(given["probabilities"])
    rest = np.setdiff1d(np.arange(N), given["labeled"])
    lowest = rest[np.argsort(margins[rest], kind="stable")[:10]]
    counts = np.zeros(N, int)
    for seed in range(20):
        counts[hr.select(sharp, 10, **given, seed=seed).rows] += 1
    assert counts[lowest].sum() >= 0.9 * 200


def test_crowded_clusters_are_discounted() -> None:
    margins, clusters = np.zeros(101, np.float32), np.zeros(101, int)
    clusters[100] = 1
    # With 0.5, a scale s gives s + sqrt(100 s) = 10 picks.
    for cluster_power, chance in ((1.0, 10 / 101), (0.5, (np.sqrt(35) - 5) ** 2)):
        strategy = Hedge(cluster_power=cluster_power, classes=2, labels=0)
        chances = np.full(101, np.nan)
        for seed in range(200):
            batch = hr.select(strategy, 10, margins=margins, clusters=clusters, seed=seed)
            chances[batch.rows] = find_chances(batch)
        assert chances[100] == pytest.approx(chance)
        assert chances[:100] == pytest.approx(np.full(100, (10 - chance) / 100))


def test_a_model_that_is_sure_of_everything_is_still_ranked() -> None:
    margins = 1 - np.geomspace(1e-5, 1e-2, N)
    batch = hr.select(Hedge(classes=2, labels=10**6), 10, margins=margins, clusters=np.arange(N))
    assert batch.rows.min() > N - 60


def test_margins_need_the_number_of_classes(given: dict[str, Any]) -> None:
    margins = hr.margins(given["probabilities"])
    rest = {"clusters": given["clusters"], "labeled": given["labeled"]}
    with pytest.raises(hr.InputError, match=r"hedge needs the number of classes.*--set classes="):
        hr.select("hedge", 5, margins=margins, **rest)
    by_margins = hr.select(Hedge(classes=4), 50, margins=margins, **rest)
    by_chances = hr.select("hedge", 50, **given)
    assert np.array_equal(by_margins.rows, by_chances.rows)
    by_logits = hr.select("hedge", 50, logits=np.log(given["probabilities"].astype(np.float64)), **rest)
    assert len(np.intersect1d(by_logits.rows, by_chances.rows)) >= 45  # the same but for rounding


def test_labels_can_be_counted_by_the_caller(given: dict[str, Any]) -> None:
    counted = hr.select("hedge", 50, **given)
    assert np.array_equal(counted.rows, hr.select(Hedge(labels=100), 50, **given).rows)
    assert not np.array_equal(counted.rows, hr.select(Hedge(labels=0), 50, **given).rows)


def test_rows_without_predictions_are_no_labels(given: dict[str, Any]) -> None:
    ids = np.arange(N)
    table = pa.table({"id": ids[:300], "probabilities": list(given["probabilities"][:300])})
    clusters = pa.table({"id": ids, "cluster": given["clusters"]})
    batch = hr.select("hedge", 50, probabilities=table, clusters=clusters, labeled=np.arange(100))
    short = hr.select(
        "hedge",
        50,
        probabilities=given["probabilities"][:300],
        clusters=given["clusters"][:300],
        labeled=np.arange(100),
    )
    assert np.array_equal(batch.rows, short.rows)
    assert batch.rows.max() < 300


def test_labeled_rows_count_without_predictions(given: dict[str, Any]) -> None:
    """Predicting only what is open is natural, and rows need no more: what counts is how many are labeled."""
    ids = np.arange(N)
    table = pa.table({"id": ids[100:], "probabilities": list(given["probabilities"][100:])})
    clusters = pa.table({"id": ids, "cluster": given["clusters"]})
    batch = hr.select("hedge", 50, probabilities=table, clusters=clusters, labeled=np.arange(100))
    expected = hr.select("hedge", 50, **given)
    assert np.array_equal(batch.rows, expected.rows)
    assert np.array_equal(batch.weights, expected.weights)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_weights_are_saved_and_loaded(
    given: dict[str, Any], pairs: dict[str, Any], tmp_path: Path, suffix: str
) -> None:
    for kind, batch in (("rows", hr.select("hedge", 30, **given)), ("pairs", hr.select_pairs("hedge", 30, **pairs))):
        path = tmp_path / f"{kind}.{suffix}"
        batch.save(path)
        again = type(batch).load(path)
        assert again.weights == pytest.approx(batch.weights, rel=1e-9)
        assert batch.take(7).weights == pytest.approx(find_chances(batch)[:7] ** -1)
        assert "weight" in batch.columns()
    assert hr.select("margin", 3, **given).weights is None
    assert "weight" not in hr.select("margin", 3, **given).columns()


def test_everything_is_certain_where_all_are_picked(given: dict[str, Any]) -> None:
    batch = hr.select("hedge", 300, **given)
    assert sorted(batch.rows) == list(range(100, N))
    assert find_chances(batch).tolist() == [1.0] * 300


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"power": -1}, "power must be at least 0"),
        ({"tau": -1}, "tau must be at least 0"),
        ({"cluster_power": 0}, "cluster_power must be at least 0.2"),
        ({"cluster_power": 1.5}, "cluster_power must be at most 1, got 1.5"),
        ({"labels": -1}, "labels must be at least 0"),
        ({"classes": 0}, "classes must be at least 1"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(hr.InputError, match=message):
        Hedge(**options)


def test_margins_of_logits_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(hr.InputError, match="margins of probabilities"):
        hr.select(Hedge(classes=2, labels=9), 5, margins=np.full(N, 3.0), clusters=given["clusters"])


def test_a_strategy_of_ones_own_may_have_weights(given: dict[str, Any]) -> None:
    def draw(view: hr.View, k: int, rng: np.random.Generator) -> hr.Drawn:
        rows = rng.choice(view.unlabeled_rows(), k, replace=False)
        return hr.Drawn(rows, np.full(k, view.unlabeled_count / k))

    batch = hr.select(draw, 30, **given)
    assert batch.weights is not None
    assert batch.weights.tolist() == [10.0] * 30
    for wrong in (np.ones(29), np.zeros(30), np.full(30, np.inf)):
        with pytest.raises(hr.InputError, match="one weight above 0 for each of its 30 rows"):
            hr.select(lambda view, k, rng, wrong=wrong: hr.Drawn(view.unlabeled_rows()[:k], wrong), 30, **given)


# Pairs.


def test_both_forms_of_the_same_probabilities_give_the_same_pairs(pairs: dict[str, Any]) -> None:
    batch = hr.select_pairs("hedge", 50, **pairs)
    each = pairs["probabilities"].ravel()
    assert np.array_equal(batch.index, hr.select_pairs("hedge", 50, **(pairs | {"probabilities": each})).index)
    assert len(np.unique(batch.index)) == 50
    assert batch.index.min() >= 60


def test_classes_have_their_expected_number_of_pairs(pairs: dict[str, Any]) -> None:
    del pairs["labeled"]
    for seed in range(20):
        batch = hr.select_pairs(Hedge(cluster_power=1.0, labels=0), 50, **pairs, seed=seed)
        assert find_chances(batch) == pytest.approx(np.full(50, 0.1))
        assert set(np.bincount(batch.classes, minlength=5)) <= {9, 10, 11}


def test_yes_answers_are_those_that_the_model_expects() -> None:
    pairs = hr.Pairs(np.arange(4), np.zeros(4, int))
    chances = np.array([0.9, 0.8, 0.1, 0.5], np.float32)
    view = hr.PairView(pairs, 4, np.array([True, True, True, False]), probabilities=chances)
    assert count_labels(view) == (3, pytest.approx(0.6))
    absent = hr.PairView(
        pairs,
        4,
        np.array([True, True, True, False]),
        probabilities=chances,
        absent=np.array([False, True, False, False]),
    )
    assert count_labels(absent) == (2, pytest.approx(0.5))
    assert count_labels(replace(view, unpredicted=np.array([True, False, True, False]))) == (3, pytest.approx(0.8))
    assert count_labels(replace(view, unpredicted=np.array([True, True, True, False]))) == (3, None)
    assert count_labels(hr.PairView(pairs, 4, probabilities=chances)) == (0, None)


def predict_some(pairs: dict[str, Any], index: Any) -> dict[str, Any]:
    """The same pairs as a table, and predictions for some of them only, in another order."""
    rows, classes = pairs["pairs"].rows, pairs["pairs"].classes
    order = np.random.default_rng(2).permutation(index)
    chances = pairs["probabilities"].ravel()[order]
    some = pa.table({"row": rows[order], "class": classes[order], "probability": chances})
    return pairs | {"pairs": pa.table({"row": rows, "class": classes}), "probabilities": some}


def predict_rows(pairs: dict[str, Any], rows: Any) -> dict[str, Any]:
    """The same pairs, and predictions (rows, classes) for some rows only."""
    clusters = pa.table({"id": np.arange(100), "cluster": pairs["clusters"]})
    some = pa.table({"id": rows, "probabilities": list(pairs["probabilities"][rows])})
    return pairs | {"probabilities": some, "clusters": clusters}


def test_predictions_of_some_labeled_pairs_tell_the_share_of_yes(pairs: dict[str, Any]) -> None:
    batch = hr.select_pairs("hedge", 50, **predict_some(pairs, np.arange(30, 500)))
    chances = pairs["probabilities"].ravel().copy()
    chances[:30] = chances[30:60].mean()
    expected = hr.select_pairs("hedge", 50, **(pairs | {"probabilities": chances}))
    assert np.array_equal(batch.index, expected.index)
    assert batch.weights == pytest.approx(expected.weights)
    assert (batch.settings["labeled"], batch.settings["without_predictions"]) == (60, 0)


def test_predictions_of_no_labeled_pair_give_a_warning(pairs: dict[str, Any], tmp_path: Path) -> None:
    message = r"they lack all labeled pairs.*predict the labeled pairs too.*--labeled"
    some = predict_some(pairs, np.arange(60, 500))
    with pytest.warns(HedgerowWarning, match=message):
        batch = hr.select_pairs("hedge", 50, **some)
    assert batch.index.min() >= 60
    with pytest.warns(HedgerowWarning, match=message):
        hr.select_pairs("hedge", 50, **predict_rows(pairs, np.arange(12, 100)))  # five classes per row
    with pytest.warns(HedgerowWarning, match=message):
        hr.select_pairs(Hedge(labels=60), 50, **(pairs | {"labeled": None}))
    for name in ("pairs", "probabilities"):
        pq.write_table(some[name], tmp_path / f"{name}.parquet")
        some[name] = tmp_path / f"{name}.parquet"
    with pytest.warns(HedgerowWarning, match=message):
        again = hr.select_pairs("hedge", 50, **some)
    assert np.array_equal(again.index, batch.index)


def test_shuffled_clusters_are_another_batch(given: dict[str, Any], pairs: dict[str, Any]) -> None:
    assert not np.array_equal(hr.select("hedge", 50, **given).rows, hr.select("hedge-shuffled", 50, **given).rows)
    ours, control = (hr.select_pairs(name, 50, **pairs) for name in ("hedge", "hedge-shuffled"))
    assert not np.array_equal(ours.index, control.index)
    assert control.clusters is not None
    assert np.array_equal(control.clusters, pairs["clusters"][control.rows])  # the real ones are reported
