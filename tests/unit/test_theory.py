"""hedgerow.theory: samplers, cells, and the study of beta."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from hedgerow import theory
from hedgerow.cli.theory import beta
from hedgerow.errors import InputError, StoreError
from hedgerow.report import draw_curves
from hedgerow.theory import SAMPLERS, run_study, sample
from hedgerow.theory.batch_sizes import BATCH_SIZES
from hedgerow.theory.bridge import make_bridge
from hedgerow.theory.estimates import estimate_ratio, fit_limit
from hedgerow.theory.hyperplanes import HYPERPLANES
from hedgerow.theory.label_complexity import LABEL_COMPLEXITY
from hedgerow.theory.measurements import Cell, Run, measure_cell, read_rows, write_rows
from hedgerow.theory.parts import Part
from hedgerow.theory.rectangles import RECTANGLES
from hedgerow.theory.samplers import Clustered, Quantiles, cut_line
from hedgerow.theory.segments import SEGMENTS
from hedgerow.theory.thresholds import CLUSTERS, THRESHOLDS

TABLES = Path(__file__).parents[2] / "experiments" / "theory"


def draw_points(n, d=1, seed=0):
    return np.random.default_rng(seed).random((n, d))


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("k", [1, 7, 60])
def test_a_sampler_returns_k_distinct_rows_that_follow_from_the_seed(name, k):
    points = draw_points(60)
    rows = sample(name, points, k, 3)
    assert sorted(set(rows.tolist())) == sorted(rows.tolist())
    assert len(rows) == k
    assert rows.min() >= 0
    assert rows.max() < 60
    np.testing.assert_array_equal(rows, sample(name, points, k, np.random.default_rng(3)))


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name != "quantiles"])
def test_samplers_take_points_of_any_dimension(name):
    assert len(set(sample(name, draw_points(50, 4), 12).tolist())) == 12


def test_quantiles_take_the_nearest_points_and_never_one_twice():
    points = np.array([[0.9], [0.1], [0.5], [0.45], [0.3]])
    assert sample(Quantiles((0.46, 0.95)), points, 2).tolist() == [3, 0]
    assert sample(Quantiles((0.31, 0.31, 0.31)), points, 3).tolist() == [4, 3, 2]
    assert sample(Quantiles((-np.inf, np.inf)), points, 2).tolist() == [1, 0]
    assert sorted(sample(Quantiles((1.0,) * 5), points, 5).tolist()) == [0, 1, 2, 3, 4]


def test_quantiles_of_the_points_themselves():
    assert sample("quantiles", np.arange(10.0)[:, None], 2).tolist() == [4, 9]


def test_cluster_margin_on_a_line_takes_one_point_of_every_cluster():
    points = np.array([[0.0], [0.01], [0.5], [0.51], [0.52], [1.0]])
    rows = sample(Clustered(threshold=0.1), points, 3)
    assert len({(0, 0, 1, 1, 1, 2)[row] for row in rows}) == 3


def test_clusters_on_a_line_are_those_of_average_linkage_worked_out_by_hand():
    # 0 and 1 merge at 1, 4 and 6 at 2; then their means are 0.5 and 5: at distance 4.5.
    values = np.array([4.0, 0.0, 6.0, 1.0])
    assert cut_line(values, 0.9).tolist() == [2, 0, 3, 1]
    assert cut_line(values, 2.0).tolist() == [1, 0, 1, 0]
    assert cut_line(values, 4.4).tolist() == [1, 0, 1, 0]
    assert cut_line(values, 4.5).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sampler": "uniforn"}, "did you mean 'uniform'"),
        ({"k": 0}, "k must be at least 1"),
        ({"k": 61}, "only 60 points"),
        ({"points": np.full((60, 1), np.nan)}, "NaN"),
        ({"points": np.zeros(60)}, "two dimensions"),
        ({"sampler": lambda points, k, rng: np.zeros(k, np.int64)}, "more than once"),
        ({"sampler": lambda points, k, rng: np.arange(k - 1)}, "returned 4 rows"),
        ({"sampler": "quantiles", "points": np.zeros((60, 2))}, "on a line"),
    ],
)
def test_wrong_calls_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        sample(**({"sampler": "uniform", "points": draw_points(60), "k": 5} | wrong))


def test_beta_is_the_ratio_of_two_means_with_an_interval_around_it():
    found = estimate_ratio([1.0, 3.0], [4.0, 4.0])
    assert (found.value, found.low, found.high) == (0.5, 0.25, 0.75)


def test_the_limit_of_beta_log_k_is_the_inverse_slope():
    sizes = (10, 100, 1000)
    fit = fit_limit({k: [1.0] for k in sizes}, {k: [(5 + np.log(k)) / 2] for k in sizes})
    assert fit.limit.value == pytest.approx(2)
    assert fit.offset.value == pytest.approx(2.5)
    assert fit.limit.low == fit.limit.high


def roll(rng, *, sides):
    """A task of cells."""
    return [{"rolled": int(rng.integers(sides)), "share": 1 / 3}]


def refuse(rng, **_):
    raise AssertionError("measured again")


def test_cells_are_measured_once_and_do_not_depend_on_each_other(tmp_path):
    cells = [Cell(f"sides-{sides}", roll, {"sides": sides}, {"sides": sides}) for sides in (1000, 10**9)]
    rows = Run(tmp_path / "one", seed=4).measure("dice", cells)
    assert [row["sides"] for row in rows] == [1000, 10**9]
    again = [Cell(cell.name, refuse, cell.arguments, cell.labels) for cell in cells]
    assert Run(tmp_path / "one", seed=4).measure("dice", again) == rows
    assert Run(tmp_path / "two", seed=4).measure("dice", cells[::-1]) == rows[::-1]
    assert Run(tmp_path / "three", seed=5).measure("dice", cells) != rows
    assert read_rows(tmp_path / "one" / "dice.csv") == [row | {"share": 0.333333} for row in rows]


def count_threads(rng):
    return [{"threads": max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")}]


def test_a_cell_multiplies_matrices_in_one_thread(tmp_path):
    assert Run(tmp_path).measure("threads", [Cell("one", count_threads, {})]) == [{"threads": 1}]


def test_a_folder_of_another_seed_and_a_damaged_cell_are_refused(tmp_path):
    cells = [Cell("one", roll, {"sides": 6})]
    Run(tmp_path).measure("dice", cells)
    with pytest.raises(StoreError, match="another run"):
        Run(tmp_path, seed=1).measure("dice", cells)
    (tmp_path / "cells" / "dice" / "one.json").write_text("[{")
    with pytest.raises(StoreError, match="delete it"):
        Run(tmp_path).measure("dice", cells)


def test_studies_are_known_by_name_and_need_a_folder(tmp_path):
    with pytest.raises(InputError, match="unknown study"):
        run_study("gamma", tmp_path)
    (tmp_path / "file").write_text(json.dumps({}))
    with pytest.raises(StoreError, match="not a folder"):
        run_study("beta", tmp_path / "file")


def list_dice(quick):
    return [Cell(f"sides-{sides}", roll, {"sides": sides}, {"sides": sides}) for sides in ((6,) if quick else (6, 20))]


def keep(rows):
    return [{"sides": row["sides"], "rolled": row["rolled"]} for row in rows]


def draw_dice(summary):
    return {"rolls": draw_curves([("dice", row["sides"], row["rolled"], None) for row in summary], x="sides", y="roll")}


@pytest.fixture
def dice(monkeypatch):
    monkeypatch.setattr(theory, "STUDIES", {"beta": (Part("dice", list_dice, keep, draw_dice),)})


def test_a_study_writes_tables_summaries_and_figures(dice, tmp_path):
    seen = []
    summaries = run_study("beta", tmp_path / "out", progress=lambda phase, share: seen.append((phase, share)))
    assert [row["sides"] for row in summaries["dice"]] == [6, 20]
    assert read_rows(tmp_path / "out" / "dice-summary.csv") == summaries["dice"]
    assert len(read_rows(tmp_path / "out" / "dice.csv")) == 2
    assert (tmp_path / "out" / "dice-rolls.svg").read_text().startswith("<svg")
    assert seen[-1] == ("dice: 2 of 2 cells", 1.0)
    quick = run_study("beta", tmp_path / "quick", quick=True)
    assert quick["dice"] == summaries["dice"][:1]


@pytest.mark.parametrize("name", ["processes:2", "dask:2"])
def test_an_engine_with_workers_gives_the_same(dice, name, engines, tmp_path):
    alone = run_study("beta", tmp_path / "alone", engine="serial")
    assert run_study("beta", tmp_path / "shared", engine=engines(name)) == alone
    names = {path.name for path in (tmp_path / "shared").iterdir()}
    assert names - {path.name for path in (tmp_path / "alone").iterdir()} == {"engine.jsonl"}


def test_the_command_prints_the_summary(dice, tmp_path, capsys):
    beta(out=tmp_path / "out", quick=True)
    printed = capsys.readouterr().out
    assert "sides" in printed
    assert "tables and figures" in printed
    beta(out=tmp_path / "out", quick=True, as_json=True)
    assert list(json.loads(capsys.readouterr().out)) == ["dice"]


@pytest.mark.parametrize("part", [THRESHOLDS, CLUSTERS, SEGMENTS, RECTANGLES], ids=lambda part: part.table)
def test_stored_tables_follow_from_the_code(part, tmp_path):
    stored = read_rows(TABLES / f"{part.table}.csv")
    exact = [
        cell for cell in part.list_cells(False) if cell.labels.get("sampler") not in ("farthest-first", "k-means++")
    ]
    few = [cell for cell in exact if cell.labels["k"] <= 100 and cell.labels.get("n") in (None, "", 100, 1000)][:6]
    assert few
    for cell in few:
        measured = measure_cell({"folder": str(tmp_path), "seed": 0, **cell.describe()})
        write_rows(tmp_path / "rows.csv", measured)
        again = read_rows(tmp_path / "rows.csv")
        labels = {key: value for key, value in cell.labels.items() if value != ""}
        assert again == [row for row in stored if all(row.get(key) == value for key, value in labels.items())]
    assert len(stored) == sum(cell.arguments.get("trials", 1) for cell in part.list_cells(False))


@pytest.mark.parametrize(
    ("part", "rows"),
    [(LABEL_COMPLEXITY, 1), (BATCH_SIZES, 1), (HYPERPLANES, 1), (make_bridge(Path("data")), 3 + 4)],
    ids=lambda value: getattr(value, "table", None),
)
def test_stored_tables_have_the_trials_that_the_code_plans(part, rows):
    cells = part.list_cells(False)
    stored = Counter(tuple(row[key] for key in cells[0].labels) for row in read_rows(TABLES / f"{part.table}.csv"))
    assert stored == {tuple(cell.labels.values()): rows * cell.arguments["trials"] for cell in cells}
