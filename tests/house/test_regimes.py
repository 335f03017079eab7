"""The page on regimes follows from its result file; regrets are measured on other trials than the best is chosen on."""

import importlib.util
import xml.etree.ElementTree as ElementTree
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tree

import make_regimes


@pytest.fixture(scope="module")
def runs() -> ModuleType:
    """experiments/regimes.py."""
    spec = importlib.util.spec_from_file_location("regimes", tree.ROOT / "experiments" / "regimes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_cell(scores: dict[str, list[float]], controls: dict[str, list[str]] | None = None) -> dict[str, Any]:
    """A cell of two rounds whose areas are these scores."""
    curves = {name: [[score, score] for score in of] for name, of in scores.items()}
    return {"labeled": [10, 20], "controls": controls or {}, "repeated": ["hedge, again"], "curves": curves}


def test_the_page_and_its_figure_are_those_of_the_result_file() -> None:
    assert make_regimes.PAGE.read_text() == make_regimes.text(), "run `make docs` and commit what it writes"
    for file, figure in make_regimes.draw().items():
        assert (make_regimes.FIGURES / file).read_text() == figure
        assert ElementTree.fromstring(figure).tag.endswith("svg")
        assert f"figures/{file}" in make_regimes.PAGE.read_text()
    assert make_regimes.RESULTS.stat().st_size < 1_000_000


def test_the_best_baseline_is_chosen_on_the_other_half_of_the_trials() -> None:
    cell = make_cell(
        {
            "hedge": [0.5, 0.5, 0.5, 0.5],
            "hedge, again": [0.5, 0.6, 0.5, 0.6],
            "hedge-shuffled": [0.9, 0.9, 0.9, 0.9],
            "margin": [0.7, 0.4, 0.7, 0.4],  # lucky in the even trials
            "random": [0.5, 0.5, 0.5, 0.5],
        },
        {"hedge-shuffled": ["hedge"]},
    )
    assert make_regimes.list_baselines(cell) == ["margin", "random"]
    found = make_regimes.find_regrets(cell)
    # Even trials are compared with random, the best of the odd ones; odd trials with margin.
    assert found["hedge"].mean == pytest.approx(1e4 * (0 + 0.1 + 0 + 0.1) / 4)
    assert found["margin"].mean == pytest.approx(1e4 * (0.2 + 0 + 0.2 + 0) / 4)
    floor = make_regimes.find_floor(cell)
    assert floor.mean == pytest.approx(500)
    assert floor.error == pytest.approx(1e4 * np.std([0, 0.1, 0, 0.1], ddof=1) / 2)
    assert floor.low < floor.mean - 3 * floor.error  # Student's t with three degrees of freedom


def test_pairs_and_rows_share_the_columns_of_their_strategies() -> None:
    cell = make_cell({name: [0.5, 0.6] for name in ("hedge", "hedge, again", "cluster-margin-pairs", "random")})
    assert list(make_regimes.find_regrets(cell)) == ["hedge", "hedge, again", "cluster-margin", "random"]


def test_curves_are_collected_by_trial_and_unfinished_runs_are_not(runs: ModuleType) -> None:
    rounds = {
        "strategy": ["a", "a", "a", "a", "b", "b", "b", "b"],
        "trial": [1, 1, 0, 0, 0, 0, 1, 1],
        "round": [0, 1] * 4,
        "labeled": [5, 9] * 4,
        "accuracy": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.800004],
    }
    arms = [{"name": "a"}, {"name": "b", "control_of": ["a"], "lacks": "x"}, {"name": "c", "stream": 1}]
    recipe = {"name": "regimes-x", "metric": "accuracy", "strategies": arms}
    summary = {"recipe": recipe, "rounds": rounds, "machine": {"commit": "0" * 40}, "unfinished": []}
    found = runs.describe(summary)
    assert found["curves"] == {"a": [[0.3, 0.4], [0.1, 0.2]], "b": [[0.5, 0.6], [0.7, 0.8]]}
    assert (found["labeled"], found["controls"], found["repeated"]) == ([5, 9], {"b": ["a"]}, ["c"])


def test_duels_count_cells_by_intervals_that_hold_jointly(monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = [0.50, 0.51, 0.49, 0.50], [0.30, 0.31, 0.29, 0.30]
    shifted = [0.51, 0.50, 0.50, 0.49]  # level with `near`, and not by the same amount in every trial
    cells = {
        "one": make_cell({"hedge": near, "hedge, again": near, "margin": far, "random": shifted}),
        "two": make_cell({"hedge": [0.30, 0.32, 0.30, 0.30], "hedge, again": near, "margin": near, "random": far}),
    }
    monkeypatch.setattr(make_regimes, "load", lambda: cells)
    margin, random = make_regimes.count_duels().splitlines()[4:]
    assert margin == "| margin | +25 | 1 of 2 | 1 of 2, `two` |"
    assert random == "| random | +25 | 0 of 2 | 0 of 2 |"
