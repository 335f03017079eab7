"""The check of the training: uniform labels trained in one go, its files, its verdict, and where it is shown."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import make_results
from hedgerow.errors import StoreError
from hedgerow.experiments import Arm, MultiLabel, Recipe, report_experiment, run_experiment
from hedgerow.experiments.findings import Comparison, check_training, judge_training
from hedgerow.experiments.pages import TRAINING
from hedgerow.experiments.records import read_run, read_summary
from hedgerow.pairs import InformedRandom, Pairs
from hedgerow.rounds import CHECK, DRAW, SELECT, TRAIN, Check, Round, derive_seed
from hedgerow.strategies import Margin, Random
from hedgerow.tasks import Annotated

CLASSES = 3
TUNED: list[int] = []  # a seed for every model that was trained


@dataclass(frozen=True)
class Shares:
    """A model of pairs: the share of yes in every class, of all rounds so far."""

    yes: np.ndarray
    asked: np.ndarray

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        return np.clip((self.yes + 1) / (self.asked + 2) + 0.2 * np.tanh(features[:, :CLASSES]), 0.01, 0.99)

    def embeddings(self, features: np.ndarray) -> np.ndarray:
        return features + 5


class ShareTrainer:
    def begin(self, features: Any = None, pairs: Pairs | None = None, answers: Any = None) -> Shares:
        return Shares(np.zeros(CLASSES), np.zeros(CLASSES))

    def tune(self, before: Shares, features: Any, pairs: Pairs, answers: np.ndarray, *, seed: int) -> Shares:
        TUNED.append(seed)
        noise = np.random.default_rng(seed).random(CLASSES)  # the seed matters
        yes = before.yes + np.bincount(pairs.classes, answers, CLASSES) + 10 * noise
        return Shares(yes, before.asked + np.bincount(pairs.classes, minlength=CLASSES) + 10)


def make_half(n: int, rng: np.random.Generator) -> Annotated:
    pairs = Pairs(np.repeat(np.arange(n), CLASSES), np.tile(np.arange(CLASSES), n))
    return Annotated(rng.normal(size=(n, 4)), pairs, rng.random(CLASSES * n) < (pairs.classes + 1) / 5)


RNG = np.random.default_rng(0)
POOL = MultiLabel("pairs", ("a", "b", "c"), make_half(80, RNG), make_half(40, RNG))
RECIPE = Recipe(
    "pairs",
    (Arm("margin", Margin()), Arm("uniform", Random()), Arm("informed", InformedRandom())),
    seed_size=20,
    batch_size=(10, 15),
    rounds=3,
    trials=3,
    metric="average_precision",
)


def run(folder: Path, recipe: Recipe = RECIPE, **options: Any) -> Any:
    return run_experiment(recipe, folder, dataset=POOL, trainer=ShareTrainer(), **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checks") / "whole"
    run(folder)
    return folder


def test_the_uses_of_a_seed_have_the_numbers_they_always_had() -> None:
    assert (DRAW, TRAIN, SELECT, CHECK) == (0, 1, 2, 3)
    assert derive_seed(1, 2, TRAIN) == int(np.random.SeedSequence([1, 2, 1]).generate_state(1)[0])


def test_every_trial_and_batch_size_is_trained_in_one_go(whole: Path) -> None:
    held = read_run(whole)
    assert [(one.trial, one.batch_size) for one in held.checks] == [(t, size) for t in range(3) for size in (10, 15)]
    task = POOL.task
    for one in held.checks:
        rounds = [done for done in held.rounds[one.batch_size] if (done.trial, done.strategy) == (one.trial, "uniform")]
        picked = np.concatenate([done.picked for done in rounds])
        model = task.train(ShareTrainer(), None, picked, task.ask(picked), seed=derive_seed(one.trial, 3, CHECK))
        assert one == Check(one.trial, one.batch_size, "uniform", len(picked), task.measure(model))
        assert one.labeled == rounds[-1].labeled == 20 + 3 * one.batch_size
        assert one.values != rounds[-1].values


def test_a_finished_folder_without_it_gets_it_and_nothing_else_is_trained(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    expected = run(folder).checks
    settings = (folder / "run.json").read_text()
    missing = sorted(folder.glob("trials/*/check-*.json"))
    assert len(missing) == 6
    for path in missing[1:]:
        path.unlink()
    assert len(read_run(folder).checks) == 1
    TUNED.clear()
    assert run(folder).checks == expected == read_run(whole).checks
    assert sorted(TUNED) == sorted(derive_seed(trial, 3, CHECK) for trial in (0, 1, 1, 2, 2))
    TUNED.clear()
    run(folder)
    assert TUNED == []
    assert (folder / "run.json").read_text() == settings
    missing[0].write_text("half of it")
    with pytest.raises(StoreError, match=missing[0].name):
        read_run(folder)


def test_an_interrupted_run_and_two_processes_give_the_same(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run(folder, trials=1)
    for path in [*folder.glob("trials/*/uniform-10/3.parquet"), *folder.glob("trials/*/check-*.json")]:
        path.unlink()
    assert run(folder, jobs=2).checks == read_run(whole).checks


def test_without_uniform_labels_there_is_none(tmp_path: Path) -> None:
    held = run(tmp_path / "run", replace(RECIPE, strategies=(RECIPE.strategies[0], RECIPE.strategies[2])))
    assert held.checks == ()
    assert not list((tmp_path / "run").glob("trials/*/check-*"))
    summary = report_experiment(tmp_path / "run")
    assert TRAINING not in summary.report.read_text()
    assert "## Training check" not in make_results.describe_findings(summary.to_json())


def test_reports_and_pages_show_it(whole: Path, tmp_path: Path) -> None:
    summary = report_experiment(whole)
    rows = summary.tables()[TRAINING.lower()]
    assert [(row["batch size"], row["labels"]) for row in rows] == [("10", "50"), ("15", "65")]
    held, first = summary.held, summary.training[0]
    last = {done.trial: done for done in held.rounds[10] if (done.strategy, done.round) == ("uniform", 3)}
    differences = [
        one.values["average_precision"] - last[one.trial].values["average_precision"]
        for one in held.checks
        if one.batch_size == 10
    ]
    assert first.difference.mean == pytest.approx(np.mean(differences))
    spread = 4.302653 * np.std(differences, ddof=1) / np.sqrt(3)  # the 97.5 % quantile of t with 2 degrees of freedom
    assert first.difference.high == pytest.approx(np.mean(differences) + spread)
    assert first.one_go - first.incremental == pytest.approx(first.difference.mean)
    assert rows[0]["difference"].startswith(f"{np.mean(differences):+.4f} [")
    page = summary.report.read_text()
    assert TRAINING in page
    assert first.verdict in page
    stored = json.loads((whole / "summary.json").read_text())
    assert read_summary(whole / "summary.json").checks == held.checks
    text = make_results.describe_findings(stored)
    assert "## Training check\n\n| batch size | labels | by rounds | in one go | difference | verdict |" in text
    assert f"| {first.verdict} |" in text
    old = {key: value for key, value in stored.items() if key != "checks"}  # a summary of an earlier version
    assert "## Training check\n\nThe check was not run" in make_results.describe_findings(old)


def test_checks_of_trials_that_ran_elsewhere_are_merged(whole: Path, tmp_path: Path) -> None:
    run(tmp_path / "first", trials=1)
    run(tmp_path / "others", first_trial=1)
    report_experiment(tmp_path / "others")
    merged = report_experiment(tmp_path / "first", tmp_path / "others" / "summary.json")
    assert merged.held.checks == read_run(whole).checks
    assert merged.training == report_experiment(whole).training


def test_a_run_before_the_check_says_so(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run(folder, trials=1)
    for path in folder.glob("trials/*/check-*.json"):
        path.unlink()
    summary = report_experiment(folder)
    assert TRAINING.lower() not in summary.tables()
    assert "The check was not run" in summary.report.read_text()


def test_a_model_that_starts_from_the_first_one_is_explained(whole: Path) -> None:
    stored = json.loads((whole / "summary.json").read_text())
    assert "differ in their random numbers alone" not in make_results.describe_training(stored)
    stored["recipe"]["model"] = {"kind": "Perceptron", "start": "first"}
    assert "differ in their random numbers alone" in make_results.describe_training(stored)


@pytest.mark.parametrize(
    ("low", "high", "higher_is_better", "verdict"),
    [
        (-0.01, 0.0019, True, "sound: one go gains less than 0.002"),
        (0.0001, 0.0019, True, "sound: one go gains less than 0.002"),
        (-0.05, -0.04, True, "sound: one go gains less than 0.002"),
        (0.0001, 0.0021, True, "not sound: one go gains 0.0001 to 0.0021"),
        (-0.0001, 0.0021, True, "undecided: one go may gain 0.0021"),
        (-0.05, -0.04, False, "not sound: one go gains 0.0400 to 0.0500"),
        (0.04, 0.05, False, "sound: one go gains less than 0.002"),
        (None, None, True, "one trial: no verdict"),
    ],
)
def test_the_verdict(low: float | None, high: float | None, higher_is_better: bool, verdict: str) -> None:
    trials = 1 if low is None else 3
    one = Comparison("in one go", "round by round", "last round", 0.0, low, high, trials, "")
    assert judge_training(one, 0.002, higher_is_better) == verdict


def test_only_trials_with_a_check_are_compared() -> None:
    values = [0.5, 0.6, 0.9]
    rounds = [Round(t, "random", 2, 30, {"average_precision": values[t]}, np.zeros(0, np.int64)) for t in range(3)]
    checks = [Check(t, 10, "random", 30, {"average_precision": values[t] + 0.1 + t / 1000}) for t in range(2)]
    recipe = {"metric": "average_precision", "rounds": 2}
    (found,) = check_training(recipe, {10: rounds}, checks)
    assert found.incremental == pytest.approx(0.55)
    assert found.one_go == pytest.approx(0.6505)
    assert found.difference.trials == 2
    assert found.verdict == "not sound: one go gains 0.0941 to 0.1069"
