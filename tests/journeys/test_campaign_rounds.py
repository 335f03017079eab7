"""Rounds from the shell without a line of Python: init, next, export, ingest, learn, and again, on real digits."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from page import check_self_contained
from shell import Run, one_line

IMAGES, DIGITS = load_digits(return_X_y=True)
MANY = ["even", "prime", "square"]  # every digit is one of them
FACTS = np.stack([DIGITS % 2 == 0, np.isin(DIGITS, (2, 3, 5, 7)), np.isin(DIGITS, (0, 1, 4, 9))], axis=1)
Verb = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A pool of digits, with their images as embeddings."""
    np.save(tmp_path / "images.npy", IMAGES.astype(np.float32))
    with (tmp_path / "pool.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *((f"d{row}", f"digit {row}") for row in range(len(DIGITS)))])
    return tmp_path


@pytest.fixture
def verb(run: Run, folder: Path) -> Verb:
    """`verb("next", "-k", 5)` runs a command on the campaign in the folder, and reads what it prints as JSON."""

    def call(name: str, *arguments: object) -> dict[str, Any]:
        done = run("campaign", name, folder / "c", *arguments, "--json")
        assert done.code == 0, done
        return dict(json.loads(done.out))

    return call


def begin(verb: Verb, folder: Path, names: list[str], *more: object) -> None:
    classes = ("--classes", ",".join(names), "--embeddings", folder / "images.npy")
    assert verb("init", folder / "pool.csv", *classes, *more)["rows"] == len(DIGITS)


def label(verb: Verb, folder: Path, batch: int, answer: Callable[[int, str], object]) -> dict[str, Any]:
    """Export a batch as CSV, fill in the true answers, ingest them."""
    path = folder / f"batch-{batch}.csv"
    assert verb("export", batch, "-o", path)["files"] == [str(path)]
    with path.open(newline="") as file:
        tasks = list(csv.DictReader(file))
    told = folder / f"labels-{batch}.csv"
    with told.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "class", "label", "annotator"] if "class" in tasks[0] else ["id", "label", "annotator"])
        for task in tasks:
            value = answer(int(task["id"][1:]), task.get("class", ""))
            writer.writerow([task["id"], *([task["class"]] if "class" in task else []), value, "ana"])
    return verb("ingest", told)


def play(verb: Verb, folder: Path, k: int, answer: Callable[[int, str], object], rounds: int) -> list[dict[str, Any]]:
    """Label the holdout and some batches, with a model after each; the models as they are registered."""
    label(verb, folder, 1, answer)
    models = []
    for number in range(rounds):
        batch = verb("next", "-k", k, "--seed", number)
        assert batch["kind"] == ("pick" if number else "cold")
        assert label(verb, folder, batch["id"], answer)["new"] == k
        models.append(verb("learn"))
    return models


def test_three_rounds_with_one_class_per_row(verb: Verb, run: Run, folder: Path) -> None:
    begin(verb, folder, [str(digit) for digit in range(10)], "--holdout", 300)
    one_line(run("campaign", "learn", folder / "c"), 1, "there are no labels to train on")
    models = play(verb, folder, 40, lambda row, _: DIGITS[row], rounds=3)
    assert [model["labels"] for model in models] == [40, 80, 120]
    curve = verb("curve")["curve"]
    assert curve == [model["holdout"] for model in models]
    values = [point["value"] for point in curve]
    assert values[0] < values[1] < values[2]
    assert values[2] > 0.85
    assert all(point["low"] < point["value"] < point["high"] and point["n"] == 300 for point in curve)
    status = verb("status")
    assert status["measured"] == curve[-1]
    assert status["labels"] == {"majority": 420}
    advice = verb("stop")
    assert status["advice"] == {"verdict": advice["verdict"], "reason": advice["reason"]}
    assert len(advice["rules"]) == 7
    by_name = {one["rule"]: one for one in advice["rules"]}
    assert by_name["plateau"]["statistic"] == pytest.approx((values[2] - values[0]) / 2)
    assert by_name["selected accuracy"]["series"][0][0] == 40
    assert all(one["citation"] for one in advice["rules"])
    assert verb("learn", "--head", "perceptron", "--name", "deep")["holdout"]["value"] > 0.85
    assert verb("report", "-o", folder / "report.html") == {"report": str(folder / "report.html")}
    check_self_contained((folder / "report.html").read_text(encoding="utf-8"))
    one_line(run("campaign", "report", folder / "c", "-o", folder / "report.html"), 1, "exists: pass --force")
    done = run("campaign", "stop", folder / "c", "--least-gain", 0.5)
    assert done.out.startswith("stop: ")
    assert "Bloodgood" in done.out
    assert len(verb("log")["log"]) == 1 + 4 + 3 + 3 + 1  # init, ingests, batches, models


@pytest.mark.parametrize("kind", ["multi-label", "pairs"])
def test_two_rounds_with_several_classes(verb: Verb, folder: Path, kind: str) -> None:
    begin(verb, folder, MANY, "--kind", kind, "--holdout", 60)

    def answer(row: int, class_: str) -> object:
        if kind == "pairs":
            return int(FACTS[row, MANY.index(class_)])
        return "|".join(name for name, has in zip(MANY, FACTS[row], strict=True) if has)

    models = play(verb, folder, 60 if kind == "multi-label" else 150, answer, rounds=2)
    curve = verb("curve")["curve"]
    assert [point["metric"] for point in curve] == ["average precision"] * 2
    assert curve[1]["value"] > 0.8
    assert [point["n"] for point in curve] == [180, 180]
    assert models[1]["classes_with_labels"] == 3
    assert verb("stop")["verdict"] in {"stop", "go on", "cannot tell"}
    assert verb("status")["measured"] == curve[1]
    verb("report", "-o", folder / "report.html")
    check_self_contained((folder / "report.html").read_text(encoding="utf-8"))


def test_a_pool_of_texts_alone(verb: Verb, run: Run, folder: Path) -> None:
    assert verb("init", folder / "pool.csv", "--classes", "a,b")["clusters"] is None
    label(verb, folder, verb("next", "-k", 4)["id"], lambda row, _: "ab"[row % 2])
    one_line(run("campaign", "learn", folder / "c"), 1, "no embeddings to train on", "--embeddings FILE", "predict")
    assert run("campaign", "curve", folder / "c").out == "no model yet\n"
