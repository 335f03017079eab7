"""The study of beta for hyperplanes: rows per trial, ratios within trials, figures."""

import numpy as np
import pytest

from hedgerow.theory.hyperplanes import CHOSEN, HYPERPLANES, SIZES, measure_round, summarize


def make_row(sampler, diameter, trial=0, **more):
    setting = {"distribution": "gaussian", "d": 4, "k": 32, "part": 0}
    return setting | {"trial": trial, "sampler": sampler, "before": 1.0, "diameter": diameter} | more


def test_a_trial_has_a_row_for_every_choice_and_follows_from_its_seed():
    rows = measure_round(np.random.default_rng(0), distribution="gaussian", d=3, k=12, trials=2)
    assert [row["sampler"] for row in rows] == ["uniform", "uniform", *CHOSEN] * 2
    assert all(0 < row["diameter"] <= row["before"] * (1 + 1e-9) for row in rows)
    assert all(row["bound"] == row["diameter"] for row in rows)  # corners are enumerated
    assert rows == measure_round(np.random.default_rng(0), distribution="gaussian", d=3, k=12, trials=2)


def test_products_have_no_bound_on_the_disagreement():
    rows = measure_round(np.random.default_rng(0), distribution="cube", d=3, k=12, trials=1)
    assert not any("bound" in row for row in rows)
    assert all(0 < row["diameter"] < 1 for row in rows)


def test_beta_is_the_ratio_of_means_over_trials_worked_out_by_hand():
    rows = []
    for trial, (first, second, ours) in enumerate([(0.2, 0.4, 0.1), (0.1, 0.1, 0.1)] * 3):
        rows += [make_row("uniform", first, trial), make_row("uniform", second, trial)]
        rows.append(make_row("cluster-margin", ours, trial, bound=0.3))
    uniform, ours = summarize(rows)
    assert (uniform["beta"], uniform["trials"], uniform["left"]) == (1.0, 6, pytest.approx(0.2))
    assert ours["beta"] == pytest.approx(0.2 / 0.4)
    assert 1 / 3 <= ours["low"] < 0.5 < ours["high"] <= 1.0  # only trials like the first, or like the second
    assert ours["bound / diameter"] == pytest.approx(3.0)
    few = summarize(rows[:6])
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
