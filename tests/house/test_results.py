"""The pages of results: numbers come from result files, and each claim of the paper is judged by its interval."""

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tree

import make_regimes
import make_results
from hedgerow.experiments import Arm, Dataset, Recipe, report_experiment, run_experiment
from hedgerow.experiments.findings import OPPOSITE, Comparison, Findings, find_all, gather_family
from hedgerow.experiments.pages import name_method, tabulate_claims
from hedgerow.experiments.recipes import list_recipes
from hedgerow.experiments.records import read_summary
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
    assert "The report makes 32 comparisons in all of its tables" in text
    assert "Equal within 0.002" in text


def test_controls_that_a_recipe_has_itself_need_no_option() -> None:
    result = json.loads((make_results.RESULTS / "wordlangs.json").read_text())
    assert any("control_of" in arm for arm in result["recipe"]["strategies"])
    assert "--with-controls" not in make_results.describe_setting(result)
    result["recipe"]["strategies"].append({"name": "another", "control_of": "margin", "strategy": "Random()"})
    assert "--jobs 2 --with-controls" in make_results.describe_setting(result)


def test_clusterings_are_named_by_how_rows_were_assigned() -> None:
    made = {"method": "assign", "join_by": "centroid"}
    assert name_method(made) == "assign by centroid"
    assert name_method(made | {"join_by": "average"}) == "assign"
    assert name_method({"method": "certified"}) == "certified"  # of a version without assignment


def read_verdicts(page: str) -> dict[tuple[str, frozenset[str], str], set[str]]:
    """(heading, pair, of) -> the verdicts on a page, those of a reversed comparison reversed."""
    known = r"(better|worse|equal within [\d.]+|undecided|one trial)"
    found: dict[tuple[str, frozenset[str], str], set[str]] = {}

    def add(heading: str, ours: str, theirs: str, of: str, verdict: str) -> None:
        turned = verdict if ours < theirs else OPPOSITE.get(verdict, verdict)
        found.setdefault((heading, frozenset((ours, theirs)), of), set()).add(turned)

    heading = ""
    columns, swept = [""], ""
    for line in page.partition("## Training check")[0].splitlines():  # which compares no strategies
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("| ") else []
        heading = line.removeprefix("## Batches of ") if line.startswith("## Batches of ") else heading
        of = re.search(r"after the (first|last) round, minus", line)
        if of:
            swept = f"{of[1]} round"
        if line.startswith(("| strategy |", "| batch size |", "| claim |", "| setting |")):
            columns = cells
        elif cells and columns[0] == "batch size" and (verdicts := re.findall(known, line)):
            for name, verdict in zip(columns[1:], verdicts, strict=True):
                add(cells[0], name, "margin", swept, verdict)
        elif cells and columns[0] == "claim" and cells[0] != "---":
            ours, theirs = re.split(r" is (?:not above|above|level with) ", cells[0])
            add(heading, ours, theirs, "area", cells[2])
        elif cells and columns[1:2] == ["minus"] and cells[0] != "---":
            add(heading, cells[0], cells[1], cells[2], cells[4])
        elif cells and "first round" in columns and cells[0] != "---":
            first = columns.index("first round")
            other = cells[1] if columns[1] == "minus its control" else "margin"
            for name, cell in zip(columns[first:], cells[first:], strict=True):
                verdict = re.search(f"{known}$", cell)
                assert verdict is not None, line
                add(heading, cells[0], other, name, verdict[1])
    return found


@pytest.mark.parametrize(
    "name", ["svhn", "wordlangs-typos", "wordlangs-distinct", "wordlangs", "sweep-digits", "covtype"]
)
def test_a_page_shows_one_verdict_for_each_comparison_that_is_counted(name: str) -> None:
    shown = read_verdicts((make_results.PAGES / f"{name}.md").read_text())
    assert all(len(verdicts) == 1 for verdicts in shown.values()), shown
    assert len(shown) == make_results.read(name)["family"]["comparisons"]


@pytest.mark.parametrize("path", sorted(make_results.RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_verdicts_of_result_files_follow_from_their_rounds(path: Path) -> None:
    result, held = make_results.read(path.stem), read_summary(path)
    family = gather_family(held.recipe)
    assert result["family"] == asdict(family)
    assert sum(len(found["comparisons"]) for found in result["findings"]) == family.comparisons
    for stored, found in zip(result["findings"], find_all(held), strict=True):
        fresh = json.loads(json.dumps(found.to_json()))
        assert (stored["comparisons"], stored["savings"]) == (fresh["comparisons"], fresh["savings"])


def test_a_page_has_the_settings_next_to_those_of_the_paper() -> None:
    page = (make_results.PAGES / "wordlangs-million.md").read_text()
    assert "| partitions of badge | 200 | 20 and 200 |" in page
    assert "| cluster-margin | 10,000,000 rows: more than the pool has, so margins play no part |" in page
    assert make_results.show_candidates(30, 120) == "30 rows, 25 %"
    assert make_results.show_candidates(30, None) == "30 pairs"
    assert make_results.show_candidates(30, 30).endswith("margins play no part")


def test_one_table_has_every_recipe_that_is_measured_by_margin(result: dict[str, Any]) -> None:
    lines = make_results.overview([result]).splitlines()
    assert "| recipe | labels per batch | trials | cluster-margin |" in lines[0]
    found = result["findings"][1]["comparisons"]
    area = next(one for one in found if (one["strategy"], one["of"]) == ("random", "area"))
    cell = make_results.mark(Comparison(**area))
    assert lines[3].startswith("| [svhn](results/svhn.md) | 16 | 3 | ")
    assert lines[3].endswith(f" {cell} |")
    assert make_results.overview([]) == ""


def test_what_the_round_robin_adds_is_the_difference_in_the_same_trial(result: dict[str, Any], tmp_path: Path) -> None:
    assert make_results.compare_round_robin([result]) == ""  # it has none of the strategies
    (ours, theirs), (drawn, stochastic) = make_results.BY_CLUSTERS
    names = {"cluster-margin": ours, "margin": theirs, "badge": drawn, "coreset": stochastic, "random": "random"}
    rounds = result["rounds"] | {"strategy": [names[name] for name in result["rounds"]["strategy"]]}
    arms = [arm | {"name": names[arm["name"]]} for arm in result["recipe"]["strategies"]]
    path = tmp_path / "renamed.json"
    path.write_text(json.dumps(result | {"rounds": rounds, "recipe": result["recipe"] | {"strategies": arms}}))
    make_results.refresh(path)
    lines = make_results.compare_round_robin([json.loads(path.read_text())]).splitlines()
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


def test_one_trial_confirms_no_claim(result: dict[str, Any], tmp_path: Path) -> None:
    rounds = result["rounds"]
    first = [place for place, trial in enumerate(rounds["trial"]) if trial == 0]
    path = tmp_path / "one.json"
    kept = {name: [column[place] for place in first] for name, column in rounds.items()}
    path.write_text(json.dumps(result | {"rounds": kept, "trials": 1}))
    make_results.refresh(path)
    one = json.loads(path.read_text())
    for found in map(Findings.from_json, one["findings"]):
        assert {row["replicated"] for row in tabulate_claims(found, "svhn")} == {"one trial"}
    assert "none of them has a verdict" in make_results.describe_setting(one)
    assert "| one trial |" in make_results.judge_claims([one])


def test_figures_are_files_that_stand_alone(result: dict[str, Any]) -> None:
    drawn = make_results.draw(result)
    assert set(drawn) == {"svhn-8.svg", "svhn-16.svg", "svhn-sweep-first.svg", "svhn-sweep-last.svg"}
    for figure in drawn.values():
        assert ElementTree.fromstring(figure).tag.endswith("svg")
        assert "var(--series-0)" in figure
        assert "--series-0:#" in figure
        assert 'fill="var(--page)"' in figure  # so that it is legible on a page of the other color scheme
    assert make_results.draw(result) == drawn


def test_every_result_is_a_recipes_and_every_figure_a_results() -> None:
    names = [path.stem for path in make_results.RESULTS.glob("*.json")]
    recipes = {name for name in list_recipes() if not name.startswith(make_regimes.FAMILY)}
    assert set(names) <= set(make_results.ORDER) == recipes
    drawn = {file for name in names for file in make_results.draw(make_results.read(name))}
    figures = {path.name for path in (tree.ROOT / "docs" / "figures").glob("*.svg")}
    assert {name for name in figures if not name.startswith(make_results.DRAWN_ELSEWHERE)} == drawn
    assert all(Path(path).stat().st_size < 1_000_000 for path in make_results.RESULTS.glob("*.json"))


def test_every_result_has_its_page_and_every_page_its_result() -> None:
    names = {path.stem for path in make_results.RESULTS.glob("*.json")}
    assert {path.stem for path in make_results.PAGES.glob("*.md")} == names
    listed = make_results.OVERVIEW.read_text()
    assert all(f"\nresults/{name}\n" in listed for name in names)
