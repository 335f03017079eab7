"""The pages: links lead somewhere, examples run as written, generated parts and measured numbers are fresh."""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
import tree

import generated
import make_advice
import make_benchmarks
import make_campaign
import make_cli
import make_regimes
import make_results
import make_savings
import make_sizes
import make_theory
import marks

ROOT = tree.ROOT
GENERATED = {
    "cli.md": make_cli,
    "benchmarks.md": make_benchmarks,
    "advise.md": make_advice,
    "theory.md": make_theory,
    "savings.md": make_savings,
    "regimes.md": make_regimes,
    "campaign.md": make_campaign,
    "distributed.md": make_sizes,
}
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# A measured quantity needs a result file behind it, named in a comment (CONTRIBUTING.md says how).
MEASURED = re.compile(
    r"(?<![\w.])\d[\d.,]* ?(?:ms|s|seconds?|minutes?|hours?|[KMG]i?B|[KMG]B/s|times (?:as fast|faster))\b"
)
SCORE = re.compile(r"(?<![\w.])[+−-]?\d*\.\d\d+|\b\d+ ?%(?! (?:confidence|interval))")  # of an experiment
FOLDERS_OF_A_MACHINE = "|".join(["work", "farm", "root", "home", "Users", "opt"])
PATH_OF_A_MACHINE = re.compile(rf"(?<![\w.])/({FOLDERS_OF_A_MACHINE})/[A-Za-z]")
LEFT_FOR_LATER = re.compile("|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "raise Not" + "Implemented"]))


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The headings as links name them."""
    heads = re.findall(r"^#+ (.+)$", tree.prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def benchmark_scripts() -> list[Path]:
    """What can be run in benchmarks/; the rest is shared by these."""
    found = sorted((ROOT / "benchmarks").glob("*.py"))
    return [path for path in found if re.search(r"^if __name__ ==", path.read_text(), re.MULTILINE)]


def written_files() -> list[Path]:
    """Every file that somebody wrote, results of benchmarks too; at the root not what the demo or a user left there."""
    named = [
        path
        for name in ("src", "tests", "docs", "benchmarks", "examples", "experiments", "scripts", ".ci")
        for path in (ROOT / name).rglob("*")
    ]
    pages = [path for path in ROOT.glob("[!.]*") if path.suffix in {".md", ".toml", ".txt", ""}]
    ends = {".py", ".md", ".toml", ".txt", ".json", ".html", ".js", ".css", ".sql", ""}
    found = [path for path in [*named, *pages] if path.is_file() and path.suffix in ends]
    return [path for path in found if "__pycache__" not in path.parts]


@pytest.mark.parametrize("page", tree.pages(), ids=page_name)
def test_links_lead_somewhere(page):
    for target in LINK.findall(tree.prose(page)):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(goal), f"{page.name} links to {target}"


def programs(page: Path) -> list[list[str]]:
    """What the blocks marked python and sh run, in reading order; the python blocks of a page are one program.

    After a shell block the program starts again from its top: its names are needed, and an example can run twice.
    """
    python, runs = "", []
    for language, text in tree.blocks(page):
        if language == "python":
            python += text
            if runs and runs[-1][1] == "-c":
                runs.pop()
            runs.append([sys.executable, "-c", python])
        elif language == "sh":
            runs.append(["sh", "-euc", text])
    return runs


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "tutorial.md"], ids=page_name)
def test_examples_run_as_they_stand(page, tmp_path):
    scripts = sysconfig.get_path("scripts")
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "PYTHONWARNINGS": "error"}
    runs = programs(page)
    assert {run[0] for run in runs} == {sys.executable, "sh"}
    printed = []
    for run in runs:
        done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{page.name}:\n{run[-1]}\n{done.stdout}{done.stderr}"
        printed.append(done.stdout)
    if page.name == "README.md":
        assert printed[1].endswith(printed[0]), "the shell lines of the README do not give what its Python lines give"


def test_the_first_screen_of_the_readme_has_all_it_takes():
    """What it is, a picture, how to install it, the two commands, ten lines of Python and six of shell."""
    lines = (ROOT / "README.md").read_text().splitlines()
    opening = "\n".join(lines[:45])
    assert "batch active learning" in "\n".join(lines[:5]).lower()
    assert "](docs/figures/walk.svg)" in opening
    python, shell = (
        re.search(r"```python\n(.*?)```", opening, re.DOTALL),
        re.search(r"```sh\n(.*?)```", opening, re.DOTALL),
    )
    assert python is not None
    assert shell is not None
    assert len(python[1].splitlines()) <= 10
    assert len(shell[1].splitlines()) <= 6
    assert all(line in opening for line in ("pip install .", "make demo", "make test"))


@pytest.mark.parametrize("page", tree.pages(), ids=page_name)
def test_no_page_installs_the_unpublished_package_by_name(page):
    """Whoever registers the name would be installed."""
    assert not re.search(r"pip install [^\n`&;|]*\bhedgerow\b", page.read_text())


@pytest.mark.parametrize("name", GENERATED)
def test_generated_pages_are_fresh(name):
    assert (ROOT / "docs" / name).read_text() == GENERATED[name].text(), "run `make docs` and commit what it writes"


def test_costs_by_size_are_drawn_and_extended_as_fitted():
    assert (make_sizes.FIGURES / make_sizes.FIGURE).read_text() == make_sizes.draw_sizes()
    sizes = np.array([1e6, 3e6, 1e7])
    assert make_sizes.fit_slope(sizes, 5 * sizes**1.25) == pytest.approx(1.25)
    assert make_sizes.extend(sizes, 5 * sizes**1.25, 1e9) == pytest.approx(5 * 1e9**1.25)


def test_the_walk_through_a_campaign_is_the_example():
    script = make_campaign.SCRIPT.read_text()
    commands = "\n".join(make_campaign.list_commands(make_campaign.PAGE.read_text()))
    assert len(commands.splitlines()) > 30
    assert script.endswith(f"\nset -eu\n\n{commands}\n")


@pytest.mark.parametrize("page", make_results.pages(), ids=page_name)
def test_pages_of_results_are_fresh(page):
    assert page.read_text() == make_results.text(page), "run `make docs` and commit what it writes"


@pytest.mark.parametrize("page", make_results.pages(), ids=page_name)
def test_scores_in_the_prose_of_results_are_marked(page):
    prose = generated.PART.sub("", tree.prose(page))
    bare = SCORE.findall(marks.MARKED.sub("", prose))
    assert not bare, f"{page.name} gives {bare} without naming the result (CONTRIBUTING.md says how)"


@pytest.mark.parametrize("part", make_theory.list_parts(), ids=lambda part: part.table)
def test_figures_of_the_theory_are_fresh(part):
    drawn = make_theory.draw(part)
    assert drawn
    for file, figure in drawn.items():
        assert (make_theory.FIGURES / file).read_text() == figure, "run `make docs` and commit what it writes"


def test_numbers_of_the_theory_are_marked():
    prose = generated.PART.sub("", tree.prose(make_theory.PAGE))
    bare = set(re.findall(r"(?<![\w.])\d\.\d\d+", marks.MARKED.sub("", prose)))
    assert bare <= {"1.25"}, (
        "a measured number names its table (CONTRIBUTING.md says how)"
    )  # 1.25: the paper's k_m / k_t


def test_a_wrong_number_is_corrected_and_an_unknown_place_refused():
    benchmark = "9.99 s <!-- import_time:results.starting.import_hedgerow.wall_seconds -->"
    assert re.fullmatch(r"0\.\d\d s <.*", marks.fill(benchmark))
    place = "<!-- cifar10/5000/coreset/area -->"
    assert marks.fill(f"about +0.9999 {place}") == f"about −0.0064 {place}"
    assert marks.fill(f"`12 % {place}`") != f"`12 % {place}`"
    limit = "<!-- theory/thresholds: limit; n = k^2; quantiles -->"
    assert re.fullmatch(r"[01]\.\d\d <.*", marks.fill(f"9.99 {limit}"))
    with pytest.raises(ValueError, match="not enough values"):
        marks.fill("1.0 <!-- theory/thresholds: limit; nothing -->")
    with pytest.raises(KeyError):
        marks.fill("1.0 s <!-- import_time:results.nothing.seconds -->")
    with pytest.raises(ValueError, match="not enough values"):
        marks.fill("1.0 <!-- cifar10/5000/nothing/area -->")


def test_every_generator_is_checked():
    scripts = {module.__name__ for module in (*GENERATED.values(), make_results)}
    assert {path.stem for path in (ROOT / "docs").glob("make_*.py")} == scripts


@pytest.mark.parametrize("page", [page for page in tree.pages() if page.name not in GENERATED], ids=page_name)
def test_measured_numbers_have_a_result_behind_them(page):
    text = generated.PART.sub("", tree.prose(page))
    assert marks.fill(text) == text, "run `make docs`: a number is not the one in its result file"
    bare = MEASURED.findall(marks.MARKED.sub("", text))
    assert not bare, f"{page.name} gives {bare} without naming the result (CONTRIBUTING.md says how)"


@pytest.mark.parametrize("script", benchmark_scripts(), ids=page_name)
def test_every_benchmark_takes_quick_and_out(script):
    command = [sys.executable, str(script), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=script.parent)
    assert done.returncode == 0, done.stderr
    assert "--quick" in done.stdout
    assert "--out" in done.stdout
    assert script.read_text().startswith('"""')


def test_results_tell_where_they_come_from():
    for path in (ROOT / "benchmarks" / "results").glob("*.json"):
        result = make_benchmarks.read(path.stem)
        assert result["name"] == path.stem
        assert {"commit", "cores", "memory_gib"} <= set(result["machine"])
        assert {"seed", "settings", "results"} <= set(result)
        assert not result["settings"].get("quick"), f"{path.name} comes from a quick run"
        assert (ROOT / "benchmarks" / f"{result.get('script', path.stem)}.py").exists(), f"no script wrote {path.name}"


def test_no_file_names_a_path_of_somebodys_machine():
    found = {page_name(path) for path in written_files() if PATH_OF_A_MACHINE.search(path.read_text())}
    assert found == set()


def test_what_the_demo_leaves_at_the_root_is_no_page_of_ours():
    names = {path.name for path in written_files()}
    assert {"README.md", "Makefile", "pyproject.toml", "constraints.txt"} <= names
    assert not names & {"hedgerow-demo.html", ".git"}


def test_nothing_is_left_for_later():
    found = {page_name(path) for path in written_files() if LEFT_FOR_LATER.search(path.read_text())}
    assert found == set()
