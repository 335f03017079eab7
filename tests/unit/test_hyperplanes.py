"""The study of beta for hyperplanes: rows per trial, ratios within trials, figures."""

import numpy as np
import pytest

from hedgerow.theory.hyperplanes import CHOSEN, HYPERPLANES, SIZES, UNIFORM, measure_round, summarize


def make_row(trial, first, second, ours, **more):
    setting = {"distribution": "gaussian", "d": 4, "k": 32, "part": 0, "trial": trial, "before": 1.0}
    return setting | {"uniform 1": first, "uniform 2": second} | dict.fromkeys(CHOSEN, ours) | more


def test_a_trial_has_a_diameter_for_every_choice_and_follows_from_its_seed():
    rows = measure_round(np.random.default_rng(0), distribution="gaussian", d=3, k=12, trials=2)
    assert [list(row) for row in rows] == [["trial", "before", *UNIFORM, *CHOSEN]] * 2  # exact: without bounds
    assert all(0 < row[name] <= row["before"] * (1 + 1e-9) for row in rows for name in (*UNIFORM, *CHOSEN))
    assert rows == measure_round(np.random.default_rng(0), distribution="gaussian", d=3, k=12, trials=2)


def test_diameters_that_are_not_exact_have_an_upper_bound_if_asked_for():
    given = {"distribution": "gaussian", "d": 9, "k": 9, "trials": 1}
    (row,), (bare,) = (measure_round(np.random.default_rng(0), **given, bounded=bounded) for bounded in (True, False))
    assert all(row[name] <= row[f"{name} bound"] for name in (*UNIFORM, *CHOSEN))
    assert bare == {key: value for key, value in row.items() if not key.endswith("bound")}


def test_products_have_no_bound_on_the_disagreement():
    (row,) = measure_round(np.random.default_rng(0), distribution="cube", d=9, k=9, trials=1)
    assert list(row) == ["trial", "before", *UNIFORM, *CHOSEN]
    assert all(0 < row[name] < 1 for name in CHOSEN)


def test_beta_is_the_ratio_of_means_over_trials_worked_out_by_hand():
    rows = [
        make_row(trial, first, second, ours, **{"cluster-margin bound": 0.3})
        for trial, (first, second, ours) in enumerate([(0.2, 0.4, 0.1), (0.1, 0.1, 0.1)] * 3)
    ]
    uniform, ours, *_ = summarize(rows)
    assert (uniform["beta"], uniform["trials"], uniform["left"]) == (1.0, 6, pytest.approx(0.2))
    assert "bounds" not in uniform
    assert ours["beta"] == pytest.approx(0.2 / 0.4)
    assert 1 / 3 <= ours["low"] < 0.5 < ours["high"] <= 1.0  # only trials like the first, or like the second
    assert (ours["bound / diameter"], ours["bounds"]) == (pytest.approx(3.0), 6)
    few = summarize(rows[:2])
    assert few[1]["beta"] == pytest.approx(0.5)
    assert "low" not in few[1]  # two trials


def test_quick_cells_are_cells_of_the_whole_study():
    cells = {cell.name: cell for cell in HYPERPLANES.list_cells(False)}
    quick = HYPERPLANES.list_cells(True)
    assert quick
    assert all(cells[cell.name] == cell for cell in quick)
    assert {cell.labels["d"] for cell in cells.values()} == set(SIZES)


def test_figures_show_beta_over_k_and_over_d():
    summary = [
        {"distribution": "gaussian", "d": d, "k": k, "sampler": "volume", "beta": 0.5, "low": 0.4, "high": 0.6}
        for d in (2, 4)
        for k in (32, 64, 128)
    ]
    figures = HYPERPLANES.draw(summary)
    assert set(figures) == {"k-2", "k-4", "d"}
    assert all(figure.startswith("<svg") for figure in figures.values())
