"""The study of label complexity: the labels needed, the bound beside them, and the beta they imply."""

import json
import math

import numpy as np
import pytest

from hedgerow.theory import label_complexity
from hedgerow.theory.label_complexity import (
    BASE,
    FACTORS,
    LABEL_COMPLEXITY,
    measure_plan,
    solve,
    sum_batches,
    summarize,
)
from hedgerow.theory.measurements import read_rows


def make_rows(sampler, labels, error_at_100):
    """Trials whose error is inversely proportional to the labels."""
    given = {**BASE, "sampler": sampler, "part": 0}
    return [
        given | {"factor": factor, "trial": trial, "labels": count, "error": error_at_100 * 100 / count}
        for factor, count in zip(FACTORS, labels, strict=True)
        for trial in range(4)
    ]


def test_the_line_is_solved_for_eps():
    x = np.log([10.0, 20.0, 40.0, 80.0])
    assert solve(x, np.log([0.4, 0.2, 0.1, 0.05]), 0.1) == pytest.approx(40)
    assert math.isnan(solve(x, np.log([0.4, 0.2, 0.1, 0.05]), 1e-4))  # too far outside
    assert math.isnan(solve(x, np.log([0.1, 0.2, 0.4, 0.5]), 0.1))  # more labels make it worse


def test_the_labels_needed_and_their_ratio_worked_out_by_hand():
    labels = [50, 80, 120, 180, 260]
    # uniform reaches 0.02 at 100 labels, cluster-margin at 80.
    rows = make_rows("uniform", labels, 0.02) + make_rows("cluster-margin", labels, 0.016)
    uniform, ours = summarize(rows)
    assert uniform["labels"] == pytest.approx(100)
    assert uniform["bound"] == pytest.approx(100)  # it is calibrated here
    assert "beta" not in uniform
    assert ours["labels"] == pytest.approx(80)
    assert ours["beta"] == pytest.approx(0.8)
    assert ours["beta low"] <= ours["beta"] <= ours["beta high"]


def test_resamples_of_two_samplers_are_drawn_independently():
    labels = [50, 80, 120, 180, 260]
    rows = make_rows("uniform", labels, 0.02) + make_rows("cluster-margin", labels, 0.02)
    for row in rows:
        row["error"] *= 1 + 0.2 * row["trial"]
    uniform, ours = summarize(rows)
    assert ours["labels"] == uniform["labels"]
    assert ours["beta low"] < 1 < ours["beta high"]  # the same resamples would have a ratio of exactly 1


def test_what_is_never_reached_is_left_out():
    rows = make_rows("uniform", [50, 80, 120, 180, 260], 2.0)
    (found,) = summarize(rows)
    assert "labels" not in found
    assert LABEL_COMPLEXITY.draw([found]) == {}


def test_the_bound_is_the_sum_of_the_batches():
    rounds = math.ceil(math.log2(math.pi / 0.1))
    assert sum_batches(4, 0.1) == pytest.approx(sum(2 * (4 + math.log((1 + rounds - i) / 0.1)) for i in range(1, 6)))


def test_a_run_ends_with_error_and_diameter_and_follows_from_its_seed():
    given = {"distribution": "gaussian", "d": 4, "eps": 0.1, "gamma": 3.0, "factor": 0.5, "trials": 2}
    for sampler in ("uniform", "volume"):
        rows = measure_plan(np.random.default_rng(0), sampler=sampler, **given)
        assert [row["trial"] for row in rows] == [0, 1]
        assert all(row["error"] <= row["diameter"] for row in rows)  # the truth is consistent, too
        assert rows == measure_plan(np.random.default_rng(0), sampler=sampler, **given)


def test_quick_cells_are_cells_of_the_whole_study():
    cells = {cell.name: cell for cell in LABEL_COMPLEXITY.list_cells(False)}
    quick = LABEL_COMPLEXITY.list_cells(True)
    assert quick
    assert all(cells[cell.name] == cell for cell in quick)


def test_the_command_writes_tables_and_a_summary(run, tmp_path, monkeypatch):
    monkeypatch.setattr(label_complexity, "AT_ONCE", 3)
    monkeypatch.setattr(label_complexity, "PRACTICE", ("uniform", "farthest-first"))
    answer = run("theory", "label-complexity", "--out", tmp_path, "--quick", "--json")
    assert answer.code == 0, answer.error
    summary = json.loads(answer.out)["label-complexity"]
    assert [(row["goal"], row["sampler"]) for row in summary] == [
        (goal, name) for goal in ("error", "diameter") for name in ("uniform", "farthest-first")
    ]
    rows = read_rows(tmp_path / "label-complexity.csv")
    assert len(rows) == 2 * len(FACTORS) * 3
    for again, first in zip(summarize(rows), summary, strict=True):  # the table has six digits of every number
        assert again.keys() == first.keys()
        assert again.get("labels", 0.0) == pytest.approx(first.get("labels", 0.0), rel=1e-4)
