"""The pages of results: numbers come from result files, and each claim of the paper is judged by its interval."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tree

import make_results
from hedgerow.experiments import Arm, Dataset, Recipe, report_experiment, run_experiment
from hedgerow.models import SklearnTrainer
from hedgerow.strategies import STRATEGIES, ClusterMargin


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a result file holds, of an experiment that is over in a moment."""
    from sklearn.naive_bayes import GaussianNB

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 130)
    features = np.eye(3)[labels] + rng.normal(0, 0.6, (130, 3)) + 2
    blobs = Dataset("blobs", 3, features[:100], labels[:100], features[100:], labels[100:])
    others = [Arm(name, STRATEGIES[name]()) for name in ("margin", "badge", "coreset", "random")]
    arms = (Arm("cluster-margin", ClusterMargin(2.0)), *others)
    recipe = Recipe("svhn", arms, seed_size=10, batch_size=(8, 16), rounds=2, trials=3, reproduces="A claim.")
    folder = tmp_path_factory.mktemp("results") / "run"
    run_experiment(recipe, folder, dataset=blobs, trainer=SklearnTrainer(GaussianNB, 3))
    report_experiment(folder)
    held: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return held


def test_a_page_has_the_commands_the_curves_and_the_claims(result: dict[str, Any]) -> None:
    text = "\n".join(part(result) for part in make_results.RECIPE_PARTS.values())
    assert "hedgerow experiment run svhn --out svhn --data DATA --jobs 2" in text
    assert "![svhn: accuracy by labels, batches of 16](../figures/svhn-16.svg)" in text
    assert "| cluster-margin is level with margin |" in text
    assert "| margin is above badge |" in text
    assert text.count("| replicated |") == 2  # a table for each batch size
    assert "| batch size | cluster-margin | badge | coreset | random |" in text
    assert "| strategy | 10 labels | 18 labels | 26 labels |" in text


def test_one_table_has_every_recipe_that_is_measured_by_margin(result: dict[str, Any]) -> None:
    lines = make_results.overview([result]).splitlines()
    assert "| recipe | labels per batch | trials | cluster-margin |" in lines[0]
    found = result["findings"][1]["comparisons"]
    area = next(one for one in found if (one["strategy"], one["of"]) == ("random", "area"))
    cell = f"{area['mean']:+.4f}" if area["verdict"] == "undecided" else f"**{area['mean']:+.4f}**"
    assert lines[3].startswith("| [svhn](results/svhn.md) | 16 | 3 | ")
    assert lines[3].endswith(f" {cell} |")
    assert make_results.overview([]) == ""


def test_what_the_round_robin_adds_is_the_difference_in_the_same_trial(result: dict[str, Any]) -> None:
    assert make_results.compare_round_robin([result]) == ""  # it has none of the strategies
    (ours, theirs), (drawn, stochastic) = make_results.BY_CLUSTERS
    names = {"cluster-margin": ours, "margin": theirs, "badge": drawn, "coreset": stochastic, "random": "random"}
    rounds = result["rounds"] | {"strategy": [names[name] for name in result["rounds"]["strategy"]]}
    lines = make_results.compare_round_robin([result | {"rounds": rounds}]).splitlines()
    *_, last = lines
    assert last.startswith("| [svhn](results/svhn.md) | 16 | 3 | ")
    first = {
        name: np.array([
            value for value, of, batch, turn in zip(rounds["accuracy"], rounds["strategy"], rounds["batch_size"],
                                                    rounds["round"], strict=True)
            if (of, batch, turn) == (name, 16, 1)
        ])
        for name in (ours, theirs)
    }  # fmt: skip
    assert f"{np.mean(first[ours] - first[theirs]):+.4f}" in last.split(" | ")[3]


def test_one_trial_confirms_no_claim(result: dict[str, Any]) -> None:
    rounds = result["rounds"]
    first = [place for place, trial in enumerate(rounds["trial"]) if trial == 0]
    one = result | {"rounds": {name: [column[place] for place in first] for name, column in rounds.items()}}
    checked = make_results.check_claims(one, 8, make_results.SVHN)
    assert {row["replicated"] for row in checked} == {"undecided: one trial"}


def test_figures_are_files_that_stand_alone(result: dict[str, Any]) -> None:
    drawn = make_results.draw(result)
    assert set(drawn) == {"svhn-8.svg", "svhn-16.svg", "svhn-sweep-first.svg", "svhn-sweep-last.svg"}
    for figure in drawn.values():
        assert ElementTree.fromstring(figure).tag.endswith("svg")
        assert "var(--series-0)" in figure
        assert "--series-0:#" in figure
        assert 'fill="var(--page)"' in figure  # so that it is legible on a page of the other color scheme
    assert make_results.draw(result) == drawn


@pytest.mark.parametrize(
    ("relation", "verdict", "judgment"),
    [
        ("above", "better", "yes"),
        ("above", "worse", "no: below"),
        ("above", "undecided", "undecided"),
        ("level", "undecided", "consistent: no significant difference"),
        ("level", "better", "no: better"),
        ("not above", "worse", "yes"),
        ("not above", "undecided", "consistent: not significantly above"),
        ("not above", "better", "no: above"),
    ],
)
def test_a_claim_is_judged_by_the_interval(relation: str, verdict: str, judgment: str) -> None:
    assert make_results.judge(relation, verdict) == judgment


def test_every_result_is_a_recipes_and_every_figure_a_results() -> None:
    names = [path.stem for path in make_results.RESULTS.glob("*.json")]
    assert set(names) <= set(make_results.ORDER)
    drawn = {file for name in names for file in make_results.draw(make_results.read(name))}
    assert {
        path.name for path in (tree.ROOT / "docs" / "figures").glob("*.svg")
    } == drawn | make_results.DRAWN_ELSEWHERE
    assert all(Path(path).stat().st_size < 1_000_000 for path in make_results.RESULTS.glob("*.json"))


def test_every_result_has_its_page_and_every_page_its_result() -> None:
    names = {path.stem for path in make_results.RESULTS.glob("*.json")}
    assert {path.stem for path in make_results.PAGES.glob("*.md")} == names
    listed = make_results.OVERVIEW.read_text()
    assert all(f"\nresults/{name}\n" in listed for name in names)
