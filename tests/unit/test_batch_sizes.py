"""Labels by the size of a batch: until the error is eps, and until the diameter is."""

import math

import numpy as np
import pytest

from hedgerow.theory import batch_sizes
from hedgerow.theory.batch_sizes import BATCH_SIZES, measure_labels


@pytest.mark.parametrize("sampler", ["uniform", "cluster-margin", "volume"])
def test_the_diameter_takes_as_many_labels_as_the_error_or_more(sampler):
    rows = measure_labels(np.random.default_rng(0), sampler=sampler, k=16, trials=2)
    assert [row["trial"] for row in rows] == [0, 1]
    for row in rows:
        assert 0 < row["error"] <= row["diameter"]
        assert row["error"] % 16 == row["diameter"] % 16 == 0
    assert rows == measure_labels(np.random.default_rng(0), sampler=sampler, k=16, trials=2)


def test_larger_batches_need_more_labels_and_fewer_rounds():
    small, large = (measure_labels(np.random.default_rng(1), sampler="uniform", k=k, trials=5) for k in (8, 128))
    needed = [np.mean([row["diameter"] for row in rows]) for rows in (small, large)]
    assert needed[0] < needed[1]
    assert needed[0] / 8 > needed[1] / 128


def test_a_goal_that_was_not_reached_has_no_labels(monkeypatch):
    monkeypatch.setattr(batch_sizes, "MOST_ROUNDS", 1)
    assert measure_labels(np.random.default_rng(0), sampler="uniform", k=4, trials=2) == [{"trial": 0}, {"trial": 1}]


def make_rows(sampler, *labels):
    return [{"sampler": sampler, "k": 8, "part": 0, "trial": i, **needed} for i, needed in enumerate(labels)]


def test_the_summary_has_means_and_ratios_worked_out_by_hand():
    rows = make_rows("uniform", {"error": 40, "diameter": 80}, {"error": 60, "diameter": 80})
    rows += make_rows("k-means++", {"error": 40, "diameter": 64}, {"error": 40})
    uniform, ours, widest = BATCH_SIZES.summarize(rows)
    assert (uniform["goal"], uniform["sampler"], uniform["trials"]) == ("error", "uniform", 2)
    assert (uniform["labels"], uniform["labels low"], uniform["labels high"]) == (50, 40, 60)
    assert "beta" not in uniform
    assert (ours["labels"], ours["beta"]) == (40, pytest.approx(0.8))
    assert ours["beta low"] == pytest.approx(40 / 60)
    assert ours["beta high"] == pytest.approx(1)
    assert (widest["goal"], widest["sampler"]) == ("diameter", "uniform")  # k-means++ did not always get there
    assert "bound" not in uniform  # the theorem asks for more than 8 labels in its first round
    (large,) = BATCH_SIZES.summarize([row | {"k": 32} for row in make_rows("uniform", {"error": 64})])
    assert (batch_sizes.THEOREM.batch(1), batch_sizes.THEOREM.rounds) == (25, 8)  # 2 (8 + log 80), log2(pi / 0.02)
    assert large["bound"] == 32 * 8
    assert set(BATCH_SIZES.draw([uniform, ours, widest])) == {"error-labels", "error-beta", "diameter-labels"}
    assert BATCH_SIZES.draw([]) == {}


def test_quick_cells_are_cells_of_the_whole_study():
    quick, whole = BATCH_SIZES.list_cells(True), {cell.name: cell for cell in BATCH_SIZES.list_cells(False)}
    assert quick
    assert all(whole[cell.name] == cell for cell in quick)
    assert len(whole) == len(batch_sizes.SAMPLERS_HERE) * len(batch_sizes.SIZES) * math.ceil(batch_sizes.TRIALS / 10)
