"""Experiments from the shell: run, killed at any point, resumed, shared out, reported; mistakes in one line."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from page import check_self_contained
from shell import Run, call, one_line, read_values, start

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RECIPE = """
name = "small"
reproduces = "Nothing: enough of everything to run every line."
trials = 2
seed_size = 20
batch_size = 15
rounds = 2
[dataset]
name = "arrays"
[model]
kind = "sklearn"
estimator = "sklearn.ensemble.RandomForestClassifier"
options = { n_estimators = 5 }
[clusters]
average_size = 3
method = "exact"
[[strategies]]
strategy = "cluster-margin"
margin_factor = 2
[[strategies]]
strategy = "margin"
[[strategies]]
strategy = "badge"
"""
# The command line, killed when a round is written for the n-th time: after it, or before the file has its name.
KILLED = """
import os, signal, sys
from pathlib import Path
from hedgerow import cli, store
from hedgerow.experiments.records import Ledger

kill_at, half_way, writes, keep = int(sys.argv.pop(1)), sys.argv.pop(1) == "half-way", 0, Ledger.write_round
def die(*_): os.kill(os.getpid(), signal.SIGKILL)
def write(self, done, batch_size):
    global writes
    writes += 1
    if writes == kill_at and half_way:
        Path.replace = die
    keep(self, done, batch_size)
    if writes == kill_at:
        die()
Ledger.write_round = write
cli.main()
"""


def arguments(recipe: Path, out: Path, *more: Any) -> tuple[Any, ...]:
    return ("experiment", "run", recipe, "--data", recipe.parent, "--out", out, *more)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe and, beside it, the data of a user's own."""
    folder = tmp_path_factory.mktemp("experiment")
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 150)
    features = np.eye(3)[labels] + rng.normal(0, 0.4, (150, 3))
    for name, array in (("features", features), ("labels", labels)):
        np.save(folder / f"{name}.npy", array[:100])
        np.save(folder / f"test_{name}.npy", array[100:])
    (folder / "small.toml").write_text(RECIPE)
    return folder / "small.toml"


@pytest.fixture(scope="module")
def whole(recipe: Path) -> Path:
    """The run that nobody interrupted."""
    done = call(*arguments(recipe, recipe.parent / "whole", "--json"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["trials"] == 2
    assert done.stderr == ""  # no progress in a pipe
    return recipe.parent / "whole"


def test_killed_again_and_again_it_ends_the_same(recipe: Path, whole: Path, run: Run, tmp_path: Path) -> None:
    for kill_at, when in [(1, "half-way"), (3, "half-way"), (1, "after"), (4, "after")]:
        done = call(kill_at, when, *arguments(recipe, tmp_path / "run"), program=KILLED)
        assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (tmp_path / "run" / "results.csv").exists()
    assert run(*arguments(recipe, tmp_path / "run")).code == 0
    assert read_values(tmp_path / "run") == read_values(whole)
    for path in whole.glob("trials/*/*/*.parquet"):
        assert pq.read_table(path).equals(pq.read_table(tmp_path / "run" / path.relative_to(whole)))


def test_shared_out_and_killed_it_ends_the_same(recipe: Path, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = start(*arguments(recipe, out, "--jobs", 2))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not list(out.glob("trials/*/seed.parquet")):
            assert process.poll() is None
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
    done = call(*arguments(recipe, out, "--jobs", 2))
    assert done.returncode == 0, done.stderr
    assert read_values(out) == read_values(whole)


def test_the_report(whole: Path, run: Run) -> None:
    done = run("experiment", "report", whole)
    assert done.code == 0, done.error
    for part in ("50 labels", "cluster-margin", "minus margin", "in percent", "report.html"):
        assert part in done.out
    assert "trials: 2 complete\n" in done.out
    assert "The report makes 6 comparisons in all of its tables; each interval has 99.167 % confidence" in done.out
    assert "Equal within 0.002" in done.out
    check_self_contained((whole / "report.html").read_text())
    summary = json.loads(run("experiment", "report", whole, "--json").out)
    assert summary == json.loads((whole / "summary.json").read_text())


def test_a_report_says_what_is_left_out(whole: Path, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "cut"
    shutil.copytree(whole, out)
    (out / "trials" / "001" / "badge-15" / "2.parquet").unlink()
    done = run("experiment", "report", out)
    assert done.code == 0, done.error
    assert "trials: 1 complete, 1 unfinished\n" in done.out
    assert "One trial has no interval" in done.out
    summary = json.loads(run("experiment", "report", out, "--json").out)
    assert (summary["trials"], summary["unfinished"], summary["family"]["comparisons"]) == (1, [1], 6)


def test_a_single_strategy_has_no_verdicts(recipe: Path, run: Run, tmp_path: Path) -> None:
    alone = recipe.with_name("alone.toml")
    alone.write_text(RECIPE[: RECIPE.index("[[strategies]]")] + '[[strategies]]\nstrategy = "margin"\n')
    assert run(*arguments(alone, tmp_path / "run")).code == 0
    done = run("experiment", "report", tmp_path / "run")
    assert done.code == 0, done.error
    assert "trials: 2 complete\n" in done.out
    assert "comparison" not in done.out


def test_a_run_with_controls_says_what_is_due_to_clusters(recipe: Path, whole: Path, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "controls"
    done = run(*arguments(recipe, out, "--with-controls"))
    assert done.code == 0, done.error
    answer = run("experiment", "report", out)
    assert answer.code == 0, answer.error
    credited = answer.out[answer.out.index("credited to clusters: each strategy minus its controls") :]
    shuffled, uniform = [line for line in credited.splitlines() if line.startswith("cluster-margin ")][:2]
    assert "cluster-margin, shuffled clusters" in shuffled
    assert "cluster-margin, uniform candidates" in uniform
    page = (out / "report.html").read_text()
    check_self_contained(page)
    assert "Credited to clusters: each strategy minus its controls" in page
    summary = json.loads((out / "summary.json").read_text())
    rounds = summary["rounds"]
    last = {
        (name, trial): value
        for name, trial, number, value in zip(
            rounds["strategy"], rounds["trial"], rounds["round"], rounds["accuracy"], strict=True
        )
        if number == 2
    }
    differences = [
        last["cluster-margin", trial] - last["cluster-margin, shuffled clusters", trial] for trial in range(2)
    ]
    credit = next(one for one in summary["findings"][0]["credits"] if one["of"] == "last round")
    assert credit["baseline"] == "cluster-margin, shuffled clusters"
    assert credit["mean"] == pytest.approx(np.mean(differences))
    plain = [line for line in read_values(whole) if "margin" in str(line)]
    assert plain
    assert [line for line in read_values(out) if line in plain] == plain  # the strategies of the recipe are as without
    one_line(run(*arguments(recipe, out)), 1, "was started with controls", "--with-controls")


def test_trials_of_two_machines_are_merged(recipe: Path, whole: Path, run: Run, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    assert run(*arguments(recipe, here, "--trials", 1)).code == 0
    assert run(*arguments(recipe, there, "--first-trial", 1)).code == 0
    summary = json.loads(run("experiment", "report", here, there, "--json").out)
    alone = json.loads(run("experiment", "report", whole, "--json").out)
    assert summary["trials"] == 2
    assert [found["points"] for found in summary["findings"]] == [found["points"] for found in alone["findings"]]
    one_line(
        run("experiment", "report", here, here / "summary.json"),
        1,
        "trial 0 is in two of the runs: run other trials, with first_trial (--first-trial)\n",
    )


def test_the_list_names_every_recipe(run: Run) -> None:
    summary = json.loads(run("experiment", "list", "--json").out)
    assert {"cifar10", "svhn-vgg16", "sweep-digits"} <= set(summary)
    assert all(one["reproduces"] and one["takes"] for one in summary.values())


MODEL = RECIPE[RECIPE.index("kind =") : RECIPE.index("[clusters]")]
TABLES = RECIPE[RECIPE.index("[dataset]") :]
LISTED = 'strategies = ["margin"]\n' + TABLES[: TABLES.index("[[strategies]]")]


@pytest.mark.parametrize(
    ("change", "more", "parts"),
    [
        (("rounds = 2", "round = 2"), [], ["unknown key in the recipe 'round'", "did you mean 'rounds'"]),
        (("rounds = 2", "rounds = 9"), [], ["need 155 labels, but the pool has 100 rows"]),
        (
            ('"arrays"', '"cifar10"'),
            [],
            ["has no data_batch_1", "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"],
        ),
        (('"arrays"', '"svhn"'), ["--data", "nowhere"], ["nowhere", "train_32x32.mat", "http://ufldl.stanford.edu"]),
        ((MODEL, 'kind = "program"\ncommand = ["x"]\n'), [], ["needs clusters, but the model has no embeddings"]),
        (("", ""), ["--trials", "0"], ["trials must be at least 1"]),
        (("batch_size = 15", "batch_size = [15, 15]"), [], ["has the same size twice"]),
        ((MODEL, 'kind = "perceptron"\ndropout = 2.0\n'), [], ["dropout is the share"]),
        (("rounds = 2", "rounds = 2  # \udcff"), [], ["is not TOML"]),
        ((TABLES, LISTED), [], ["strategies must be a table of tables"]),
    ],
)
def test_a_mistake_is_one_line_before_anything_runs(
    change: tuple[str, str], more: list[str], parts: list[str], recipe: Path, run: Run, tmp_path: Path
) -> None:
    bad = recipe.with_name("bad.toml")
    bad.write_text(RECIPE.replace(*change), errors="surrogateescape")
    one_line(run(*arguments(bad, tmp_path / "run", *more)), 1, *parts)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "bad", "part"),
    [
        ("labels", b"", "labels.npy"),
        ("labels", b"junk", "labels.npy"),
        ("labels", np.array(["a", "b"] * 50), "one integer per row"),
        ("labels", np.linspace(0, 2, 100), "one integer per row"),
        ("labels", np.zeros((100, 1), int), "one integer per row"),
        ("labels", np.full(100, 2**40), "number the classes from 0"),
        ("labels", np.full(100, -1), "class numbers"),
        ("features", b"junk", "features.npy"),
        ("features", np.full(100, "x"), "rows of numbers"),
        ("features", np.full((100, 3), "x"), "rows of numbers"),
        ("features", np.zeros(100), "rows of numbers"),
        ("features", np.zeros((100, 4)), "test_features.npy (3,)"),
        ("features", np.where(np.arange(300) == 7, np.nan, 1).reshape(100, 3), "in row 2"),
        ("test_features", np.zeros((49, 3)), "49"),
    ],
)
def test_data_that_cannot_be_used_are_refused_before_anything_runs(
    name: str, bad: Any, part: str, recipe: Path, run: Run, tmp_path: Path
) -> None:
    shutil.copytree(recipe.parent, tmp_path / "data", ignore=shutil.ignore_patterns("whole"))
    path = tmp_path / "data" / f"{name}.npy"
    if isinstance(bad, bytes):
        path.write_bytes(bad)
    else:
        np.save(path, bad)
    one_line(run(*arguments(tmp_path / "data" / recipe.name, tmp_path / "run")), 1, part)
    assert not (tmp_path / "run").exists()


def test_a_folder_knows_all_of_its_data(recipe: Path, whole: Path, run: Run, tmp_path: Path) -> None:
    shutil.copytree(recipe.parent, tmp_path / "data")
    held = tmp_path / "data" / "whole"
    command = arguments(tmp_path / "data" / recipe.name, held)
    for name in ("features", "labels", "test_features", "test_labels"):
        path = tmp_path / "data" / f"{name}.npy"
        before = np.load(path)
        np.save(path, before[::-1])
        one_line(run(*command), 1, "belongs to another run")
        np.save(path, before)
    assert run(*command).code == 0
    (held / "run.json").write_text("")
    one_line(run(*command), 1, "damaged")
    one_line(run("experiment", "report", held), 1, "damaged")


def test_killed_at_its_first_write_it_goes_on(recipe: Path, whole: Path, run: Run, tmp_path: Path) -> None:
    program = """
import os, signal
from hedgerow import cli
from hedgerow.store import files
files.sync = lambda path: os.kill(os.getpid(), signal.SIGKILL)
cli.main()
"""
    done = call(*arguments(recipe, tmp_path / "run"), program=program)
    assert done.returncode == -signal.SIGKILL
    assert [path.suffix for path in (tmp_path / "run").iterdir()] == [".json"]
    assert run(*arguments(recipe, tmp_path / "run")).code == 0
    assert read_values(tmp_path / "run") == read_values(whole)


def test_a_program_trains(recipe: Path, run: Run, tmp_path: Path) -> None:
    command = json.dumps([sys.executable, str(EXAMPLES / "black_box.py")])
    text = RECIPE.replace(MODEL, f'kind = "program"\ncommand = {command}\nembeddings = true\n')
    path = recipe.with_name("program.toml")
    path.write_text(text[: text.index("[[strategies]]")] + '[[strategies]]\nstrategy = "coreset"\n')
    refused = run(*arguments(path, tmp_path / "run", "--trials", 1))
    one_line(
        refused, 1, "'small' runs the program", "black_box.py", "pass --allow-programs (allow_programs=True in Python)"
    )
    assert not (tmp_path / "run").exists()
    done = run(*arguments(path, tmp_path / "run", "--trials", 1, "--allow-programs", "--json"))
    assert done.code == 0, done.error
    assert f"hedgerow: the recipe 'small' runs the program {sys.executable} {EXAMPLES / 'black_box.py'}\n" in done.error
    assert json.loads(done.out)["trials"] == 1
    final = [row for row in read_values(tmp_path / "run") if row[4] == "2" and row[6] == "accuracy"]
    assert float(final[0][7]) > 0.8


def test_the_example_of_ones_own_data_and_model_runs(tmp_path: Path) -> None:
    script = EXAMPLES / "own_data_and_model.py"
    command = [sys.executable, "-W", "error", str(script), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "cluster-margin" in done.stdout
    assert (tmp_path / "run" / "report.html").exists()
    body = script.read_text().split('"""')[2].split("import SklearnTrainer")[1]
    assert len([line for line in body.splitlines() if line.strip()]) <= 12


@pytest.mark.parametrize(
    ("script", "first", "off"), [("weighted_training.py", 0, 0.01), ("campaign_weights.py", 1, 0.1)]
)
def test_the_examples_of_weights_estimate_the_accuracy(script: str, first: int, off: float) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()[first : first + 3]
    truth, weighted, plain = (float(line.split(": ")[1].split()[0]) for line in lines)
    assert abs(weighted - truth) < off < abs(plain - truth)
