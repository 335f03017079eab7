"""The recipe `wordlangs-small` on a few thousand invented words: killed, resumed, run in two processes."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from hedgerow.experiments.recipes import SHELF
from page import check_self_contained
from shell import Run, call, one_line, read_values, start

pytest.importorskip("torch")  # absent in `make test-lowest`

STAND_INS = Path(__file__).resolve().parents[1] / "stand_ins"  # wordfreq, without its 7 million words
PATHS = os.pathsep.join([str(STAND_INS), *filter(None, [os.environ.get("PYTHONPATH")])])
ENVIRONMENT = {**os.environ, "PYTHONPATH": PATHS}
SMALLER = {
    "limit = 200_000": "limit = 3_000",
    "held_out = 20_000": "held_out = 500",
    "first = 10_000": "first = 300",
    "seed_size = 20_000": "seed_size = 600",
    "batch_size = 10_000": "batch_size = 400",
    "rounds = 4": "rounds = 2",
    "trials = 10": "trials = 1",
    "controls = true\n": "",
}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = (SHELF / "wordlangs-small.toml").read_text(encoding="utf-8")
    for before, after in SMALLER.items():
        assert before in text
        text = text.replace(before, after)
    path = tmp_path_factory.mktemp("pairs") / "small.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def whole(recipe: Path) -> Path:
    out = recipe.parent / "whole"
    done = call("experiment", "run", recipe, "--out", out, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    return out


def test_killed_and_shared_out_it_ends_the_same(recipe: Path, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = start("experiment", "run", recipe, "--out", out)
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **pipes, env=ENVIRONMENT) as process:
        while len(list(out.glob("trials/*/*/1.parquet"))) < 3:  # in the midst of the third strategy
            assert process.poll() is None
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
    assert not (out / "results.csv").exists()
    done = call("experiment", "run", recipe, "--out", out, "--jobs", 2, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert read_values(out) == read_values(whole)
    ours, theirs = (json.loads((folder / "trials/000/check-400.json").read_text()) for folder in (out, whole))
    assert ours["values"] == theirs["values"]


def test_the_report_of_pairs(whole: Path, run: Run) -> None:
    done = run("experiment", "report", whole)
    assert done.code == 0, done.error
    assert "cluster-margin, assign" in done.out
    page = (whole / "report.html").read_text(encoding="utf-8")
    check_self_contained(page)
    for words in (
        "Average precision by labels",
        "selection memory (MiB)",
        "cluster-margin-pairs, power 1",
        "Label savings",
        "Training check: uniform labels, trained round by round and in one go",
        "one trial: no verdict",
    ):
        assert words in page
    assert "training check" in done.out
    summary = json.loads((whole / "summary.json").read_text())
    (check,) = summary["checks"]
    assert (check["strategy"], check["labeled"]) == ("random", 1_400)
    assert json.loads((whole / "trials/000/check-400.json").read_text()) == check
    bought = np.array(summary["rounds"]["round"]) > 0
    rounds = {name: np.array(column)[bought] for name, column in summary["rounds"].items()}
    assert set(rounds["labeled"]) == {1_000, 1_400}
    assert np.all((rounds["average_precision"] > 0) & (rounds["average_precision"] <= 1))
    assert len(rounds["round"]) == 9 * 2


def test_files_name_pairs_and_answers_for_what_they_are(whole: Path) -> None:
    first, later = (pq.read_table(whole / "trials/000" / name) for name in ("seed.parquet", "margin-400/2.parquet"))
    for table, size in ((first, 600), (later, 400)):
        assert table.column_names == ["pair", "answer"]
        assert len(set(table["pair"].to_pylist())) == size
        assert set(table["answer"].to_pylist()) == {0, 1}
    assert not set(first["pair"].to_pylist()) & set(later["pair"].to_pylist())


def test_pairs_with_controls(recipe: Path, run: Run, few_words: None, tmp_path: Path) -> None:
    text = recipe.read_text(encoding="utf-8").replace("rounds = 2", "rounds = 1")
    start, *arms = text.split("[[strategies]]")
    few = [arm for arm in arms if '"cluster-margin"' in arm or 'strategy = "cluster-margin-pairs"' in arm]
    small = tmp_path / "small.toml"
    small.write_text("[[strategies]]".join([start, *few[:2], '\nstrategy = "margin"\n']), encoding="utf-8")
    answer = run("experiment", "run", small, "--out", tmp_path / "run", "--with-controls")
    assert answer.code == 0, answer.error
    answer = run("experiment", "report", tmp_path / "run", "--json")
    assert answer.code == 0, answer.error
    summary = json.loads(answer.out)
    assert [(one["strategy"], one["baseline"]) for one in summary["findings"][0]["credits"] if one["of"] == "area"] == [
        ("cluster-margin", "cluster-margin, shuffled clusters"),
        ("cluster-margin", "cluster-margin, uniform candidates"),
        ("cluster-margin", "cluster-margin, informed pairs"),
        ("cluster-margin-pairs", "cluster-margin-pairs, shuffled clusters"),
        ("cluster-margin-pairs", "cluster-margin-pairs, uniform candidates"),
        ("cluster-margin, informed pairs", "random rows, informed pairs"),
    ]
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    check_self_contained(page)
    for words in ("Credited to clusters: each strategy minus its controls", "random second step", "choice of rows"):
        assert words in page


@pytest.fixture
def few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in for wordfreq in this process."""
    spec = spec_from_file_location("wordfreq", STAND_INS / "wordfreq.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "wordfreq", module)


def test_more_pairs_than_there_are_is_one_line(recipe: Path, run: Run, few_words: None, tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text(recipe.read_text().replace("batch_size = 400", "batch_size = 400_000"))
    answer = run("experiment", "run", bad, "--out", tmp_path / "run")
    one_line(answer, 1, "pairs: use smaller batches or fewer rounds")
    assert not (tmp_path / "run").exists()
