"""Hedge against its definition: inclusion probabilities, the systematic draw, and the law of many repetitions."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import hedgerow as hr
import reference
from hedgerow.kernels import frame
from hedgerow.strategies.hedge import Frame, draw_evenly, find_scale, lay_out

NO_MASK = np.zeros(0, np.bool_)


def make_case(number: int) -> dict[str, Any]:
    """A small pool of rows or pairs, with many ties, sure rows, large and small clusters."""
    rng = np.random.default_rng([22, number])
    n = int(rng.integers(2, 60))
    margins = rng.random(n).astype(np.float32) ** float(rng.choice([0.2, 1, 4]))
    margins[rng.random(n) < 0.2] = rng.choice([0, 1])
    return {
        "margins": margins,
        "clusters": rng.zipf(1.5, n).astype(np.int32) % max(1, n // 3),
        "classes": rng.integers(0, 3, n).astype(np.int32) if rng.random() < 0.5 else np.zeros(0, np.int32),
        "labeled": rng.random(n) < 0.3 if rng.random() < 0.5 else NO_MASK,
        "trust": float(rng.choice([0, 0.3, 1])),
        "power": float(rng.choice([0, 2, 10])),
        "cluster_power": float(rng.choice([0.2, 0.67, 1])),
        "rng": rng,
    }


def make_frame(case: dict[str, Any]) -> Frame:
    labeled = case["labeled"]
    count = len(case["margins"]) - int(labeled.sum())
    return Frame(case["margins"], case["clusters"], labeled, count, case["classes"])


def find_chances(case: dict[str, Any], k: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """(rows in frame order, what the draw is made with) by the kernels."""
    made = make_frame(case)
    order, opens = lay_out(made)
    chances = np.ones(made.count, np.float32)
    frame.weigh(made.margins, order, case["trust"], case["power"], chances)
    scale = find_scale(chances, opens, k, case["cluster_power"])
    frame.discount(chances, opens, scale, case["cluster_power"])
    return order, chances


def test_the_frame_is_sorted_by_class_and_cluster_and_then_by_row() -> None:
    for number in range(300):
        case = make_case(number)
        order, opens = lay_out(make_frame(case))
        rows = np.flatnonzero(~case["labeled"]) if len(case["labeled"]) else np.arange(len(case["margins"]))
        classes = case["classes"] if len(case["classes"]) else np.zeros(len(case["margins"]), int)
        expected = sorted(rows.tolist(), key=lambda row: (classes[row], case["clusters"][row], row))
        assert order.tolist() == expected
        cells = [(classes[row], case["clusters"][row]) for row in expected]
        assert opens.tolist() == [at == 0 or cells[at] != cells[at - 1] for at in range(len(cells))]


def test_owners_have_the_clusters_of_pairs() -> None:
    clusters, owners = np.array([1, 0], np.int32), np.array([0, 1, 1, 0, 1])
    made = Frame(np.zeros(5, np.float32), clusters, NO_MASK, 5, np.array([1, 1, 0, 0, 1], np.int32), owners)
    order, opens = lay_out(made)
    assert order.tolist() == [2, 3, 1, 4, 0]
    assert opens.tolist() == [True, True, True, False, True]


def test_chances_are_those_of_the_definition() -> None:
    for number in range(600):
        case = make_case(number)
        count = make_frame(case).count
        if count < 2:
            continue
        k = int(case["rng"].integers(1, count))
        order, chances = find_chances(case, k)
        scale, certain = frame.fit(chances, k)
        found = np.minimum(1, scale * chances.astype(np.float64))
        classes = case["classes"][order] if len(case["classes"]) else 0
        cells = case["clusters"][order] + 1000 * np.asarray(classes)
        options = (case["trust"], case["power"], case["cluster_power"])
        expected = reference.hedge_chances(case["margins"][order], np.broadcast_to(cells, len(order)), k, *options)
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-6), number
        assert found.sum() == pytest.approx(k, rel=1e-9)
        assert certain == np.count_nonzero(scale * chances.astype(np.float64) >= frame.CERTAIN)


class Fixed:
    """A generator whose draws are given as shares of their range."""

    def __init__(self, share: float) -> None:
        self.share = share

    def integers(self, high: int) -> int:
        return int(self.share * high)


def test_the_draw_is_the_systematic_sample_of_the_reference() -> None:
    for number in range(400):
        case = make_case(number)
        count = make_frame(case).count
        k = int(case["rng"].integers(1, count + 1)) if count else 0
        if k == 0 or k == count:
            continue
        order, chances = find_chances(case, k)
        scale, _ = frame.fit(chances, k)
        pi = np.minimum(1, scale * chances.astype(np.float64))
        start = (0.1 + 0.8 * case["rng"].random()) % 1
        drawn = draw_evenly(chances, order, k, Fixed(start))  # type: ignore[arg-type]
        points = np.concatenate([np.cumsum(pi) - start, np.cumsum(pi) - pi - start])
        uncertain = np.append(pi < 1, pi < 1)
        if np.abs(points - np.round(points))[uncertain].min(initial=1) < 1e-6:
            continue  # a point at the end of a row: rounding decides
        certain = order[pi == 1]
        rest = order[pi < 1][reference.systematic(pi[pi < 1], start)]
        assert sorted(drawn.rows) == sorted([*certain, *rest]), number
        places = {row: at for at, row in enumerate(order.tolist())}
        assert 1 / drawn.weights == pytest.approx([pi[places[row]] for row in drawn.rows], rel=1e-6)
        assert [places[row] for row in drawn.rows] == sorted(places[row] for row in drawn.rows)


def test_rows_are_picked_with_the_probability_that_their_weight_says() -> None:
    rng = np.random.default_rng(3)
    n, k, repetitions = 60, 18, 4000
    given = {
        "probabilities": rng.dirichlet(np.full(4, 0.5), n),
        "clusters": rng.zipf(1.6, n) % 9,
        "labeled": np.arange(12),
    }
    batches = [hr.select(hr.Hedge(tau=1.0, power=3.0), k, **given, seed=seed) for seed in range(repetitions)]
    counts, first = np.zeros(n), np.zeros(n)
    chances = np.zeros(n)
    for batch in batches:
        assert batch.weights is not None
        counts[batch.rows] += 1
        first[batch.rows[: k // 2]] += 1
        chances[batch.rows] = 1 / batch.weights
    assert not counts[:12].any()
    assert chances.sum() == pytest.approx(k, abs=1e-6)
    assert chances[12:].min() < 0.1
    assert chances.max() > 0.8
    for found, law in ((counts, chances), (first, chances / 2)):
        deviation = np.sqrt(repetitions * law * (1 - law))
        assert (np.abs(found - repetitions * law) <= 4.5 * deviation + 1e-6).all()
    values = rng.normal(size=n) + 3
    estimates = [values[batch.rows] @ batch.weights for batch in batches]
    error = np.std(estimates) / np.sqrt(repetitions)
    assert abs(np.mean(estimates) - values[12:].sum()) < 4 * error


def test_pairs_are_picked_with_the_probability_that_their_weight_says() -> None:
    rng = np.random.default_rng(4)
    n, k, repetitions = 90, 24, 4000
    pairs = hr.Pairs(np.repeat(np.arange(30), 3), np.tile(np.arange(3), 30))
    labeled = np.arange(n) < 15
    given = {"pairs": pairs, "probabilities": rng.random(n), "clusters": rng.zipf(1.6, 30) % 7, "labeled": labeled}
    batches = [hr.select_pairs(hr.Hedge(tau=0.5, power=3.0), k, **given, seed=seed) for seed in range(repetitions)]
    counts, chances = np.zeros(n), np.zeros(n)
    for batch in batches:
        assert batch.weights is not None
        assert len(np.unique(batch.index)) == k
        counts[batch.index] += 1
        chances[batch.index] = 1 / batch.weights
    assert not counts[labeled].any()
    assert chances.sum() == pytest.approx(k, abs=1e-6)
    assert chances[~labeled].max() > 2 * chances[~labeled].min()
    deviation = np.sqrt(repetitions * chances * (1 - chances))
    assert (np.abs(counts - repetitions * chances) <= 4.5 * deviation + 1e-6).all()


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_change_nothing(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    given = {"probabilities": rng.dirichlet(np.ones(6), 30_000), "clusters": rng.integers(0, 3000, 30_000)}
    found = []
    for count in (1, threads):
        monkeypatch.setattr("hedgerow.machine.available", lambda count=count: count)
        found.append(hr.select("hedge", 2000, **given, labeled=np.arange(900)))
    assert np.array_equal(found[0].rows, found[1].rows)
    assert np.array_equal(found[0].weights, found[1].weights)


def test_one_scale_for_all_that_is_certain_leaves_nothing_to_draw() -> None:
    chances, order = np.array([1e-20, 1, 1e-20, 1], np.float32), np.arange(4, dtype=np.int32)
    drawn = draw_evenly(chances, order, 2, np.random.default_rng(0))
    assert drawn.rows.tolist() == [1, 3]
    assert drawn.weights.tolist() == [1, 1]


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 21, 100])
def test_every_beginning_of_a_batch_is_spread_over_the_frame(k: int) -> None:
    for first in range(k):
        places = np.empty(k, np.int64)
        frame.nest(first, places)
        assert sorted(places.tolist()) == list(range(k))
        moved = (places - first) % k
        assert sorted(moved[: (k + 1) // 2].tolist()) == list(range(0, k, 2))
        for count in range(1, k + 1):  # gaps are within a factor of two of each other, but for the ends
            gaps = np.diff(np.sort(moved[:count]))
            assert gaps.max(initial=1) <= 2 * gaps.min(initial=k)
