"""The page on savings follows from its result file, comparisons are counted once, and the runs measure soundly."""

import importlib.util
import re
import xml.etree.ElementTree as ElementTree
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tree

import hedgerow as hr
import make_savings
from hedgerow.experiments.findings import measure_area
from hedgerow.pairs.view import PairView


@pytest.fixture(scope="module")
def runs() -> ModuleType:
    """experiments/savings.py."""
    spec = importlib.util.spec_from_file_location("savings", tree.ROOT / "experiments" / "savings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_and_its_figures_are_those_of_the_result_file() -> None:
    assert make_savings.PAGE.read_text() == make_savings.text(), "run `make docs` and commit what it writes"
    drawn = make_savings.draw()
    assert {path.name for path in make_savings.FIGURES.glob("savings-*.svg")} == set(drawn)
    for file, figure in drawn.items():
        assert (make_savings.FIGURES / file).read_text() == figure
        assert ElementTree.fromstring(figure).tag.endswith("svg")
    assert all(f"figures/{file}" in make_savings.PAGE.read_text() for file in drawn)
    assert make_savings.RESULTS.stat().st_size < 1_000_000


def test_every_comparison_on_the_page_is_counted_once() -> None:
    pairs = make_savings.list_pairs()
    assert len(set(pairs)) == len(pairs) == make_savings.gather().comparisons
    assert f" {len(pairs)} comparisons of areas" in " ".join(make_savings.PAGE.read_text().split())
    for axis in make_savings.AXES:
        shown = {(one.level, one.arm, make_savings.name_other(one, other))
                 for one in make_savings.entries(axis) for other in make_savings.OTHERS}  # fmt: skip
        assert shown <= set(pairs)


def test_a_difference_of_areas_is_that_of_the_stored_scores() -> None:
    level = "base"
    given = make_savings.read()["levels"][level]
    labels = make_savings.count_labels(given)
    assert labels == [given["seed_size"] + turn * given["batch_size"] for turn in range(given["rounds"] + 1)]
    ours, theirs = ([measure_area(list(zip(labels, one, strict=True))) for one in given["curves"][arm]]
                    for arm in ("cluster-margin", "margin"))  # fmt: skip
    found = make_savings.compare(level, "cluster-margin", "margin")
    assert found.mean == pytest.approx(np.mean(np.subtract(ours, theirs)))
    assert found.trials == given["trials"]


@pytest.mark.parametrize(
    ("ours", "theirs", "ratio"),
    [
        ([0, 1, 2], [0, 0.5, 1], 20 / 30),  # after one batch it has the best of the other
        ([0, 0.5, 1], [0, 1, 2], 30 / 20),  # never reached: the inverse
        ([0, 1, 2], [0, 1, 2], 1),
        ([0, 0, 0], [0, 1, 2], 30 / 10),
        ([0, 1, 2], [3, 1, 2], None),  # the seed set, which both share, is the best of the other
    ],
)
def test_labels_needed_for_the_best_score_of_another(ours: Any, theirs: Any, ratio: float | None) -> None:
    found = make_savings.divide_labels(np.array(ours, float), np.array(theirs, float), [10, 20, 30])
    assert np.isnan(found) if ratio is None else found == pytest.approx(ratio)


def test_a_marked_number_is_written_as_it_was_written() -> None:
    number = make_savings.NUMBER.fullmatch("−0.01 <!-- savings: base/cluster-margin/shuffled/area -->")
    assert number is not None
    mean = make_savings.compare("base", "cluster-margin", "cluster-margin, shuffled clusters").mean
    assert make_savings.fill_number(number) == f"{mean:+.2f} <!-- savings: base/cluster-margin/shuffled/area -->"
    for place in re.findall(r"<!-- savings: ([^>]+?) -->", make_savings.PAGE.read_text()):
        assert np.isfinite(make_savings.find_number(place)), place


def test_groups_of_picks_are_counted(runs: ModuleType) -> None:
    clusters, classes = np.array([1, 1, 1, 2, 3]), np.array([0, 0, 1, 0, 0])
    assert runs.count_groups([clusters, classes]) == {"sharing": 2 / 5, "groups": 80.0}
    assert runs.count_groups([clusters]) == {"sharing": 3 / 5, "groups": 60.0}


def test_the_linear_model_learns_its_pairs(runs: ModuleType) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400, 3)).astype(np.float32)
    pairs = hr.Pairs(np.repeat(np.arange(400), 3), np.tile(np.arange(3), 400))
    answers = (features > 0).ravel()
    model = runs.LinearPairs(3).tune(None, features, pairs, answers, seed=1)
    chances = model.probabilities(features)
    assert ((chances > 0.5).ravel() == answers).mean() > 0.95
    assert np.array_equal(runs.LinearPairs(3).tune(None, features, pairs, answers, seed=1).out, model.out)
    assert model.embeddings(features) is features


def test_other_clusters_replace_those_of_the_trial(runs: ModuleType, tmp_path: Any) -> None:
    np.save(tmp_path / "other.npy", np.array([0, 1, 0, 1], np.int32))
    seen = []
    inner = SimpleNamespace(row_margin=None)
    strategy = runs.OtherClusters(lambda view, k, rng: seen.append(view.clusters) or [0], str(tmp_path / "other.npy"))
    pairs = hr.Pairs(np.arange(4), np.zeros(4, np.int64))
    view = PairView(pairs, 4, None, np.zeros(4, np.float32), clusters=np.zeros(4, np.int32))
    assert strategy(view, 1, np.random.default_rng(0)) == [0]
    assert seen[0].tolist() == [0, 1, 0, 1]
    assert runs.OtherClusters(inner, "").row_margin is None


def test_every_level_has_a_control_for_each_strategy_with_clusters(runs: ModuleType) -> None:
    for name, level in runs.LEVELS.items():
        names = {arm.name for arm in level.arms}
        credited = {arm.name for arm in level.arms if "clusters" in arm.needs and not arm.control_of}
        assert {f"{arm}, shuffled clusters" for arm in credited} <= names, name
        assert {"margin", "random"} <= names
