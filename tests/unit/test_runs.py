"""Runs: every round a file, what is on disk is not done again, and going on gives what an uninterrupted run gives."""

import csv
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from hedgerow.engines import Engine
from hedgerow.errors import InputError, StoreError
from hedgerow.experiments import Arm, Clustering, Dataset, Recipe, load_recipe, report_experiment, run_experiment
from hedgerow.experiments.architectures import Estimator, Program
from hedgerow.experiments.data.datasets import Arrays, Covtype
from hedgerow.experiments.findings import Findings, find
from hedgerow.experiments.records import (
    COLUMNS,
    has_old_names,
    join_tables,
    list_results,
    list_settings,
    load_summary,
    read_run,
    read_summary,
)
from hedgerow.experiments.runs import describe_code, find_commit
from hedgerow.metrics import METRICS
from hedgerow.strategies import ClusterMargin, Margin, Random
from page import check_self_contained

rng = np.random.default_rng(0)
LABELS = rng.integers(0, 3, 200)
FEATURES = (np.eye(3, 4)[LABELS] + rng.normal(0, 0.6, (200, 4))).astype(np.float32)
BLOBS = Dataset("blobs", 3, FEATURES[:150], LABELS[:150], FEATURES[150:], LABELS[150:])
CUT = Clustering(average_size=3.0, method="exact")
RECIPE = Recipe(
    "blobs",
    (Arm("ours", ClusterMargin(2.0), CUT), Arm("margin", Margin()), Arm("random", Random())),
    seed_size=10,
    batch_size=(10, 20),
    rounds=3,
    trials=3,
)


COUNT: list[int] = []  # a seed for every model that was trained


class Means:
    """The smallest model."""

    def fit(self, features: np.ndarray, labels: np.ndarray, *, seed: int) -> "FittedMeans":
        COUNT.append(seed)
        means = [features[labels == c].mean(axis=0) if np.any(labels == c) else np.zeros(4) for c in range(3)]
        return FittedMeans(np.array(means) + seed % 7 / 100)  # the seed matters


@dataclass(frozen=True)
class FittedMeans:
    means: np.ndarray

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        odds = np.exp(-((features[:, None] - self.means) ** 2).sum(axis=2))
        return odds / odds.sum(axis=1, keepdims=True)

    def embeddings(self, features: np.ndarray) -> np.ndarray:
        return features + self.means[0]


def run(folder: Path, **changes: Any) -> dict[int, Any]:
    recipe = replace(RECIPE, **changes)
    return run_experiment(recipe, folder, dataset=BLOBS, trainer=Means()).rounds


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    run(folder)
    return folder


def test_results_are_rows_that_a_person_can_load(whole: Path) -> None:
    table = pq.read_table(whole / "results.parquet").to_pydict()
    assert tuple(table) == COLUMNS
    with (whole / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    # trials x batch sizes x strategies x rounds (and the seed set) x measures
    assert len(rows) == len(table["value"]) == 3 * 2 * 3 * 4 * len(METRICS)
    assert [float(row["value"]) for row in rows] == table["value"]
    last = [row for row in rows if row["round"] == "3" and row["batch_size"] == "20"]
    assert {row["labeled"] for row in last} == {"70"}
    assert {row["dataset"] for row in rows} == {"blobs"}
    assert {row["metric"] for row in rows} == set(METRICS)


def test_strategies_of_a_trial_share_their_start(whole: Path) -> None:
    for rounds in read_run(whole).rounds.values():
        for trial in range(3):
            firsts = [done for done in rounds if done.trial == trial and done.round == 0]
            assert len({json.dumps(dict(done.values)) for done in firsts}) == 1
            assert len({done.picked.tobytes() for done in firsts}) == 1
    assert len(read_run(whole).clusters) == 3  # one clustering a trial, for both batch sizes


def test_no_row_is_bought_twice(whole: Path) -> None:
    for rounds in read_run(whole).rounds.values():
        for name in ("ours", "margin", "random"):
            rows = np.concatenate([done.picked for done in rounds if (done.strategy, done.trial) == (name, 1)])
            assert len(np.unique(rows)) == len(rows) == rounds[3].labeled


@pytest.mark.parametrize(
    "gone",
    [
        ["trials/001/ours-10/2.parquet", "trials/001/ours-10/3.parquet"],
        ["trials/002/random-20"],
        ["trials/000/clusters-exact-cosine-3.parquet", "trials/000/ours-20"],
        ["trials/001"],
        ["trials/002/seed.parquet", "trials/002/margin-10/3.parquet"],
    ],
)
def test_going_on_from_anywhere_gives_the_same(whole: Path, tmp_path: Path, gone: list[str]) -> None:
    shutil.copytree(whole, tmp_path / "cut")
    for name in gone:
        path = tmp_path / "cut" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    again = run(tmp_path / "cut")
    expected = read_run(whole).rounds
    assert again == expected  # labels and values; times may differ
    for batch_size, rounds in expected.items():
        for done, other in zip(rounds, again[batch_size], strict=True):
            np.testing.assert_array_equal(done.picked, other.picked)
            np.testing.assert_array_equal(done.labels, other.labels)


def test_what_is_complete_trains_nothing(whole: Path) -> None:
    before = len(COUNT)
    run(whole)
    assert len(COUNT) == before


def test_trials_can_be_added(tmp_path: Path) -> None:
    first = run_experiment(RECIPE, tmp_path / "run", trials=1, dataset=BLOBS, trainer=Means())
    assert first.trials == 1
    assert run(tmp_path / "run") == read_run(tmp_path / "run").rounds
    assert read_run(tmp_path / "run").trials == 3


def test_a_folder_of_another_run_is_refused(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="another run"):
        run(whole, rounds=2)
    other = replace(BLOBS, labels=(BLOBS.labels + 1) % 3)
    with pytest.raises(StoreError, match="another run"):
        run_experiment(RECIPE, whole, dataset=other, trainer=Means())
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is not a folder"):
        run(tmp_path / "file")
    with pytest.raises(StoreError, match="does not exist"):
        run(tmp_path / "no" / "folder")


def test_what_cannot_run_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="need 160 labels, but the pool has 150 rows"):
        run(tmp_path / "run", batch_size=(10, 50))
    with pytest.raises(InputError, match="the recipe 'blobs' has no dataset"):
        run_experiment(RECIPE, tmp_path / "run", trainer=Means())
    with pytest.raises(InputError, match="the recipe 'blobs' has no model"):
        run_experiment(RECIPE, tmp_path / "run", dataset=BLOBS)
    with pytest.raises(InputError, match="unknown metric of labels of rows 'average_precision': known: accuracy"):
        run(tmp_path / "run", metric="average_precision")
    with pytest.raises(InputError, match="jobs must be at least 1"):
        run_experiment(RECIPE, tmp_path / "run", dataset=BLOBS, trainer=Means(), jobs=0)
    with pytest.raises(InputError, match=r"the folder .* has no features\.npy, labels\.npy"):
        run_experiment(replace(RECIPE, dataset=Arrays()), tmp_path / "run", data=tmp_path, trainer=Means())
    with pytest.raises(InputError, match=r"covtype\.data\.gz or covtype\.npz, from https://archive"):
        run_experiment(replace(RECIPE, dataset=Covtype()), tmp_path / "run", data=tmp_path / "no", trainer=Means())
    assert not (tmp_path / "run").exists()


def test_labels_are_held_to_the_classes() -> None:
    with pytest.raises(InputError, match="labels of blobs must be class numbers 0 to 1"):
        replace(BLOBS, classes=2)
    with pytest.raises(InputError, match="features has 150, labels has 149"):
        replace(BLOBS, labels=BLOBS.labels[1:])
    for wrong in (BLOBS.labels + 0.5, BLOBS.labels[:, None], BLOBS.labels.astype(str), BLOBS.labels.astype(object)):
        with pytest.raises(InputError, match="labels of blobs must be one class number per row"):
            replace(BLOBS, labels=wrong)


def test_progress_counts_rounds(tmp_path: Path) -> None:
    reports: list[tuple[str, float]] = []
    run_experiment(RECIPE, tmp_path / "run", dataset=BLOBS, trainer=Means(), progress=lambda *one: reports.append(one))
    assert [done for _, done in reports] == sorted(done for _, done in reports)
    assert reports[0] == ("trial 1: first model (0 of 57 rounds, 3 trials)", 0.0)
    assert any("trial 2: margin, batches of 20, round 3" in place for place, _ in reports)


def test_the_report_tells_it_all_in_one_file(whole: Path) -> None:
    summary = report_experiment(whole)
    text = summary.report.read_text()
    page = check_self_contained(text)
    assert page.tags.count("svg") == 4  # the sweep over batch sizes, first round and last, and the curves of each
    for part in ("Difference from margin by batch size", "batch size", "Accuracy by labels, batches of 20",
                 "Seconds per round", "ClusterMargin(margin_factor=2.0", "With 3 trials the intervals are rough",
                 "Label savings, batches of 10", "average cluster sizes", "log loss"):  # fmt: skip
        assert part in text, part
    summary = json.loads((whole / "summary.json").read_text())
    assert summary["trials"] == 3
    rounds = {name: np.array(column) for name, column in summary["rounds"].items()}
    assert len(rounds["strategy"]) == 3 * 2 * 3 * 4
    known = {"better", "worse", "undecided", "equal within 0.002"}
    assert {one["verdict"] for one in summary["findings"][0]["comparisons"]} <= known
    made = sum(len(found["comparisons"]) for found in summary["findings"])
    assert summary["family"] == {"comparisons": made, "equivalence": 0.002, "significance": 0.05}
    assert f"The report makes {made} comparisons in all of its tables" in text
    point = next(one for one in summary["findings"][0]["points"] if (one["strategy"], one["round"]) == ("random", 2))
    chosen = (rounds["strategy"] == "random") & (rounds["round"] == 2) & (rounds["batch_size"] == 10)
    values = rounds["accuracy"][chosen]
    assert point["mean"] == pytest.approx(np.mean(values))
    assert point["error"] == pytest.approx(np.std(values, ddof=1) / np.sqrt(3))


def test_a_report_of_a_run_under_way_tells_the_complete_trials(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "cut")
    (tmp_path / "cut" / "trials/001/random-20/3.parquet").unlink()
    summary = report_experiment(tmp_path / "cut")
    assert summary.held.unfinished == (1,)
    assert {done.trial for done in summary.held.rounds[10]} == {0, 2}
    assert "2 complete, 1 unfinished" in summary.report.read_text()


def test_one_strategy_alone_is_compared_with_none(tmp_path: Path) -> None:
    run(tmp_path / "run", strategies=(Arm("random", Random()),), baseline="", trials=1)
    summary = report_experiment(tmp_path / "run")
    assert list(summary.tables()) == ["accuracy, batches of 10", "accuracy, batches of 20"]
    check_self_contained(summary.report.read_text())
    assert "Label savings" not in summary.report.read_text()
    assert "One trial, so no standard errors" in summary.report.read_text()


def test_savings_reported_elsewhere_stand_below_those_found(tmp_path: Path) -> None:
    run(tmp_path / "run", batch_size=(10,), trials=1, reported_savings={"ours": {"margin": 71, "random": 52.4}})
    summary = report_experiment(tmp_path / "run")
    *found, reported = summary.tables()["labels needed to reach the best score of another strategy, in percent"]
    assert [row["strategy"] for row in found] == ["ours", "margin", "random"]
    assert reported == {"strategy": "ours, as reported", "ours": "", "margin": "71 %", "random": "52 %"}
    assert "ours, as reported" in summary.report.read_text()


def test_trials_run_elsewhere_are_merged(whole: Path, tmp_path: Path) -> None:
    run_experiment(RECIPE, tmp_path / "here", trials=1, dataset=BLOBS, trainer=Means())
    run_experiment(RECIPE, tmp_path / "there", trials=2, first_trial=1, dataset=BLOBS, trainer=Means())
    run_experiment(RECIPE, tmp_path / "last", first_trial=2, dataset=BLOBS, trainer=Means())
    assert [path.name for path in (tmp_path / "there" / "trials").iterdir()] == ["001"]
    report_experiment(tmp_path / "there")
    shutil.copy(tmp_path / "there" / "summary.json", tmp_path / "kept.json")  # all that is left of it
    joined = report_experiment(tmp_path / "here", tmp_path / "kept.json", tmp_path / "last")
    expected = report_experiment(whole)
    assert joined.held.rounds == expected.held.rounds
    summary, alone = joined.to_json(), expected.to_json()
    for part in ("points", "areas", "savings", "comparisons"):
        assert [found[part] for found in summary["findings"]] == [found[part] for found in alone["findings"]]
    assert json.loads((tmp_path / "here" / "summary.json").read_text()) == json.loads(json.dumps(summary))
    assert pq.read_table(tmp_path / "here" / "results.parquet").num_rows == len(list_results(expected.held))


def test_runs_that_do_not_belong_together_are_not_joined(whole: Path, tmp_path: Path) -> None:
    report_experiment(whole)
    with pytest.raises(InputError, match="trial 0 is in two of the runs"):
        report_experiment(whole, whole / "summary.json")
    run(tmp_path / "longer", rounds=4, trials=1)
    with pytest.raises(InputError, match=r"cannot be merged: blobs differs in rounds$"):
        report_experiment(whole, tmp_path / "longer")
    other = replace(BLOBS, labels=(BLOBS.labels + 1) % 3)
    run_experiment(RECIPE, tmp_path / "data", trials=4, first_trial=3, dataset=other, trainer=Means())
    with pytest.raises(InputError, match="different data"):
        report_experiment(whole, tmp_path / "data")
    for text in ("", "[]", "{}", '{"recipe": {"batch_size": [10]}, "rounds": [], "machine": {}}'):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(InputError, match=r"bad\.json is not the summary\.json of an experiment"):
            report_experiment(whole, tmp_path / "bad.json")
    with pytest.raises(InputError, match="is not the folder of an experiment"):
        report_experiment(whole, tmp_path / "nowhere")
    with pytest.raises(InputError, match="the 3 trials are 0 to 2"):
        run_experiment(RECIPE, tmp_path / "run", first_trial=3, dataset=BLOBS, trainer=Means())


def test_a_report_of_nothing_is_refused(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not the folder of an experiment"):
        report_experiment(tmp_path)
    shutil.copytree(whole, tmp_path / "cut")
    for trial in range(3):
        (tmp_path / "cut" / f"trials/00{trial}/random-20/3.parquet").unlink()
    with pytest.raises(InputError, match="has no complete trial yet"):
        report_experiment(tmp_path / "cut")


def test_a_copied_folder_of_a_trial_is_none(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    trial = tmp_path / "run" / "trials" / "000"
    shutil.copytree(trial, trial.with_name("000 copy"))
    assert report_experiment(tmp_path / "run").held == read_run(whole)
    (trial / "ours-10" / "3.parquet").unlink()
    seen: list[float] = []
    progress = lambda phase, share: seen.append(share)  # noqa: E731
    run_experiment(RECIPE, tmp_path / "run", dataset=BLOBS, trainer=Means(), jobs=2, progress=progress)
    assert read_picks(tmp_path / "run") == read_picks(whole)
    assert max(seen) == 1


def test_what_runs_were_measured_on_is_listed_once() -> None:
    ours = {"date": "Monday", "cores": 2, "commit": None, "torch": "2"}
    theirs = {"date": "Tuesday", "cores": 2, "commit": "abc", "numpy": "3"}
    both = join_tables(ours, theirs)
    assert both == {"date": "Monday and Tuesday", "cores": 2, "commit": "abc", "torch": "2", "numpy": "3"}
    assert join_tables(both, theirs) == join_tables(both, both) == both
    assert join_tables(ours, both)["date"] == "Monday and Tuesday"


def test_damaged_clusters_are_called_so(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    trial = tmp_path / "run" / "trials" / "000"
    next(trial.glob("clusters-*.parquet")).write_bytes(b"")
    with pytest.raises(StoreError, match=r"clusters-.*\.parquet is damaged .*: delete this file and run again"):
        report_experiment(tmp_path / "run")
    (trial / "ours-10" / "3.parquet").unlink()
    with pytest.raises(StoreError, match=r"clusters-.*\.parquet is damaged"):
        run(tmp_path / "run")


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("trials/000/margin-10/1.parquet", "trials/001/margin-10/1.parquet"),
        ("trials/001/random-10/1.parquet", "trials/001/margin-10/1.parquet"),
        ("trials/001/margin-20/1.parquet", "trials/001/margin-10/1.parquet"),
        ("trials/001/margin-10/1.parquet", "trials/001/margin-10/2.parquet"),
        ("trials/000/seed.parquet", "trials/001/seed.parquet"),
        ("trials/001/margin-10/1.parquet", "trials/001/seed.parquet"),
    ],
)
def test_a_round_under_another_name_is_refused(source: str, target: str, whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    shutil.copy(folder / source, folder / target)
    with pytest.raises(
        StoreError, match=rf"{target} holds .* labels\), not .*: delete (this file|its folder) and run again"
    ):
        report_experiment(folder)
    (folder / "trials/001/random-20/3.parquet").unlink()
    with pytest.raises(StoreError, match=f"{target} holds"):
        run(folder)
    wrong = folder / target
    shutil.rmtree(wrong.parent) if wrong.stem == "seed" else wrong.unlink()
    run(folder)
    assert read_picks(folder) == read_picks(whole)


def test_no_trial_is_counted_twice(whole: Path, tmp_path: Path) -> None:
    trials = tmp_path / "run" / "trials"
    shutil.copytree(whole, tmp_path / "run")
    shutil.copytree(trials / "001", trials / "007")
    with pytest.raises(StoreError, match=r"the seed set of trial 1 \(10 labels\), not the seed set of trial 7"):
        report_experiment(tmp_path / "run")
    shutil.rmtree(trials / "007")
    (trials / "1").mkdir()
    shutil.copy(trials / "001" / "seed.parquet", trials / "1")
    for use in (report_experiment, run):
        with pytest.raises(
            StoreError, match=r"trials/1 is not the folder of a trial; that of trial 1 is called 001: mo"
        ):
            use(tmp_path / "run")


@pytest.mark.parametrize("text", [b"", b"PAR1"])
def test_a_damaged_round_says_what_to_delete(text: bytes, whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    (tmp_path / "run/trials/001/margin-10/2.parquet").write_bytes(text)
    with pytest.raises(StoreError, match=r"margin-10/2\.parquet is damaged .*: delete this file and run again"):
        report_experiment(tmp_path / "run")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"machine": 3}', "machine must be a table, got 3"),
        ('{"reproduces": 3}', "reproduces must be text, got 3"),
        ("[]x", "Extra data"),
        ("3", "int"),
    ],
)
def test_a_damaged_description_is_called_so(text: str, message: str, whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    (tmp_path / "run" / "about.json").write_text(text)
    with pytest.raises(StoreError, match=rf"about\.json is damaged .*{message}.*: delete this file and run again"):
        report_experiment(tmp_path / "run")
    (tmp_path / "run" / "about.json").unlink()
    assert report_experiment(tmp_path / "run").held.machine == {}


def keep_rounds(summary: dict[str, Any], keep: Callable[[dict[str, Any]], bool]) -> None:
    columns = summary["rounds"]
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    summary["rounds"] = {name: [row[name] for row in rows if keep(row)] for name in columns}


def fill(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda summary: summary["rounds"].update({name: [value] * len(summary["rounds"]["trial"])})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda it: it["recipe"].update(strategies=3), "strategies must be a list, got 3"),
        (lambda it: it["recipe"].update(strategies=["margin"]), "a strategy must be a table, got 'margin'"),
        (lambda it: it["recipe"].update(strategies=[{"name": "margin"}]), r"KeyError\('strategy'\)"),
        (lambda it: it["recipe"].update(batch_size=10), "batch_size must be a list, got 10"),
        (lambda it: it.update(machine=3), "machine must be a table, got 3"),
        (lambda it: it.update(rounds=3), "rounds must be a table, got 3"),
        (lambda it: it.update(unfinished=3), "unfinished must be a list, got 3"),
        (lambda it: it.update(rounds={}), "its rounds have no accuracy"),
        (lambda it: it["rounds"].pop("accuracy"), "its rounds have no accuracy"),
        (lambda it: it["rounds"].pop("trial"), "its rounds have no trial"),
        (lambda it: keep_rounds(it, lambda row: False), "it has no rounds"),
        (fill("accuracy", "x"), "accuracy must be a number, got 'x'"),
        (fill("log_loss", float("nan")), "log_loss must be a number, got nan"),
        (fill("accuracy", None), "accuracy must be a number, got None"),
        (fill("labeled", "x"), "labeled must be a number, got 'x'"),
        (fill("trial", 9), "round 0 of 'ours' in trial 9, batches of 10, is there 3 times"),
        (fill("batch_size", 7), "batches of 7 are not in its recipe"),
        (
            lambda it: keep_rounds(it, lambda row: (row["strategy"], row["trial"]) != ("margin", 2)),
            "round 0 of 'margin' in trial 2, batches of 10, is there 0 times",
        ),
        (
            lambda it: keep_rounds(it, lambda row: (row["batch_size"], row["trial"]) != (20, 1)),
            "round 0 of 'ours' in trial 1, batches of 20, is there 0 times",
        ),
        (
            lambda it: it["recipe"]["strategies"].pop(),
            "round 0 of 'random' in trial 0, batches of 10, is there 1 times instead of 0",
        ),
    ],
)
def test_a_damaged_summary_is_called_so(
    damage: Callable[[dict[str, Any]], Any], message: str, whole: Path, tmp_path: Path
) -> None:
    report_experiment(whole)
    summary = json.loads((whole / "summary.json").read_text())
    damage(summary)
    (tmp_path / "bad.json").write_text(json.dumps(summary))
    with pytest.raises(InputError, match=rf"bad\.json is not the summary\.json of an experiment: {message}") as caught:
        report_experiment(whole, tmp_path / "bad.json")
    assert "\n" not in str(caught.value)


def read_picks(folder: Path) -> list[Any]:
    return [[done.picked.tolist() for done in rounds] for rounds in read_run(folder).rounds.values()]


def test_round_files_have_rows_and_labels(whole: Path) -> None:
    table = pq.read_table(whole / "trials/000/margin-20/1.parquet")
    assert table.column_names == ["row", "label"]
    assert table["label"].to_pylist() == LABELS[table["row"].to_pylist()].tolist()


def make_old(folder: Path) -> None:
    """Turn a run's folder into what was written before sizes and labels had their present names."""
    path = folder / "run.json"
    owner = json.loads(path.read_text())
    recipe = owner["settings"]["recipe"]
    recipe |= {"seed_rows": recipe.pop("seed_size"), "batch_rows": recipe.pop("batch_size")}
    del owner["settings"]["unit"]
    path.write_text(json.dumps(owner))
    for file in [*folder.glob("trials/*/seed.parquet"), *folder.glob("trials/*/*/[0-9]*.parquet")]:
        pq.write_table(pq.read_table(file).drop_columns(["label"]), file)


def test_an_old_folder_is_reported_and_merged_but_not_continued(whole: Path, tmp_path: Path) -> None:
    run_experiment(RECIPE, tmp_path / "old", trials=2, dataset=BLOBS, trainer=Means())
    run_experiment(RECIPE, tmp_path / "new", first_trial=2, dataset=BLOBS, trainer=Means())
    make_old(tmp_path / "old")
    merged = report_experiment(tmp_path / "new", tmp_path / "old")
    expected = report_experiment(whole)
    assert merged.held.numbers == (0, 1, 2)
    for size, rounds in expected.held.rounds.items():
        ordered = sorted(merged.held.rounds[size], key=lambda done: done.trial)
        assert ordered == list(rounds)
        assert [done.picked.tolist() for done in ordered] == [done.picked.tolist() for done in rounds]
    with pytest.raises(StoreError, match=r"earlier version of hedgerow.*not continued\. Use a new folder"):
        run(tmp_path / "old")


OLD_SUMMARY = Path(__file__).resolve().parents[1] / "stored" / "old_summary.json"


def test_a_summary_of_an_earlier_version_has_the_present_names(tmp_path: Path) -> None:
    """The file was written before the names changed, one trial with two batch sizes."""
    old = json.loads(OLD_SUMMARY.read_text())
    assert old["recipe"]["batch_rows"] == [100, 300]
    held, summary = read_summary(OLD_SUMMARY), load_summary(OLD_SUMMARY)
    assert held.fingerprint is None  # that of the old names cannot be compared
    assert (held.recipe["seed_size"], held.recipe["batch_size"]) == (100, [100, 300])
    assert held.recipe["model"]["training"]["minibatch"] == old["recipe"]["model"]["training"]["batch_rows"]
    assert not [key for key in _walk(summary) if key in ("seed_rows", "batch_rows")]
    values = [done.values["accuracy"] for rounds in held.rounds.values() for done in rounds]
    assert values == old["rounds"]["accuracy"]
    assert [found["batch_size"] for found in summary["findings"]] == [100, 300]
    first = old["sweep"]["first round"][0]
    assert summary["sweep"]["first round"][0] == {
        "series": first["strategy"], "x": first["labeled"], "y": first["mean"], "error": first["error"],
    }  # fmt: skip
    found, stored = find(held, 300), Findings.from_json(summary["findings"][1])
    assert (found.points, found.areas) == (stored.points, stored.areas)
    minus = found.minus(held.recipe["baseline"])  # an earlier version made no other comparisons
    assert [one.mean for one in minus] == [one.mean for one in stored.comparisons]
    assert {one.verdict for one in found.comparisons} == {"one trial"}
    assert [(one.other, one.share) for one in found.savings] == [(one.other, one.share) for one in stored.savings]


def _walk(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for one in value.values() for key in _walk(one))]
    return [key for one in value for key in _walk(one)] if isinstance(value, list) else []


def test_committed_results_have_the_present_names() -> None:
    root = Path(__file__).resolve().parents[2]
    for path in (root / "experiments" / "results").glob("*.json"):
        assert not has_old_names(json.loads(path.read_text())["recipe"]), path
        held = read_summary(path)
        assert held.trials >= 1
        # New trials of the recipe can be merged with them, also where a strategy has gained an option since; or the
        # page says that the recipe has changed.
        same = list_settings(held.recipe) == list_settings(load_recipe(path.stem).describe())
        page = (root / "docs" / "results" / f"{path.stem}.md").read_text()
        assert ("These are results of an earlier version of the recipe" not in page) == same, path


class Lengths:
    """A model of texts: the mean length of a class."""

    def fit(self, features: np.ndarray, labels: np.ndarray, *, seed: int) -> "FittedLengths":
        COUNT.append(seed)
        lengths = np.array([len(text) for text in features], float)
        return FittedLengths(np.array([lengths[labels == c].mean() if np.any(labels == c) else 0 for c in range(2)]))


@dataclass(frozen=True)
class FittedLengths:
    means: np.ndarray

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        odds = np.exp(-np.abs(np.array([[len(text)] for text in features]) - self.means) / 5)
        return odds / odds.sum(axis=1, keepdims=True)

    def embeddings(self, features: np.ndarray) -> np.ndarray:
        return np.array([[len(text), 1.0] for text in features])


def test_an_experiment_over_texts_resumes(tmp_path: Path) -> None:
    def load() -> Dataset:
        texts = np.array([("ab" if n % 2 else "c") * (n % 40 + 1) for n in range(80)], object)
        return Dataset("texts", 2, texts[:60], np.arange(60) % 2, texts[60:], np.arange(20) % 2)

    recipe = Recipe("texts", (Arm("margin", Margin()),), seed_size=8, batch_size=(5,), rounds=2, trials=1)
    run_experiment(recipe, tmp_path / "run", dataset=load(), trainer=Lengths())
    picks, before = read_picks(tmp_path / "run"), len(COUNT)
    (tmp_path / "run/trials/000/margin-5/2.parquet").unlink()
    run_experiment(recipe, tmp_path / "run", dataset=load(), trainer=Lengths())  # equal texts at other addresses
    assert len(COUNT) == before + 2  # the model of round 1 again, then that of round 2
    assert read_picks(tmp_path / "run") == picks


@pytest.mark.parametrize("name", ["processes:2", "dask:2"])
def test_engines_give_the_same(
    name: str, engines: Callable[[str], Engine], whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a folder that is named relative to that of the driver."""
    monkeypatch.chdir(tmp_path)
    there = run_experiment(RECIPE, "run", dataset=BLOBS, trainer=Means(), engine=engines(name))
    assert there.rounds == read_run(whole).rounds
    assert read_picks(tmp_path / "run") == read_picks(whole)
    assert (tmp_path / "run" / "engine.jsonl").exists()


def test_an_engine_is_named_in_one_way(tmp_path: Path) -> None:
    for options, message in [
        ({"engine": "threads"}, "unknown engine 'threads'"),
        ({"engine": "processes:0"}, "at least 1, got 'processes:0'"),
        ({"engine": "serial", "jobs": 2}, "jobs and engine both say where to run"),
    ]:
        with pytest.raises(InputError, match=message):
            run_experiment(RECIPE, tmp_path / "no", dataset=BLOBS, trainer=Means(), **options)
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("model", "code"),
    [
        (Program(("python", "my train.py")), "runs the program python 'my train.py'"),
        (Estimator("os.system", {"command": "touch harm"}), "imports os.system, which is not part of scikit-learn"),
    ],
)
def test_a_recipe_that_runs_code_needs_permission(model: Any, code: str, tmp_path: Path) -> None:
    recipe = replace(RECIPE, model=model, strategies=RECIPE.strategies[1:])
    with pytest.raises(
        InputError, match=f"the recipe 'blobs' {code}: read it, and if you trust it pass --allow-programs"
    ):
        run_experiment(recipe, tmp_path / "run", dataset=BLOBS)
    assert not (tmp_path / "run").exists()
    assert describe_code(recipe) == code
    assert run_experiment(recipe, tmp_path / "own", trials=1, dataset=BLOBS, trainer=Means()).trials == 1  # not used


def test_only_estimators_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = replace(RECIPE, model=Estimator("os.system", {"command": "touch harm"}))
    with pytest.raises(InputError, match=r"'os\.system' cannot be created: it is not a class of estimators"):
        run_experiment(recipe, tmp_path / "run", dataset=BLOBS, allow_programs=True)
    assert not (tmp_path / "harm").exists()


def test_the_commit_is_that_of_a_tree_that_tracks_the_package(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    assert find_commit(package) is None  # an installed package
    git("init", "-q")
    (tmp_path / "other").write_text("")
    git("add", "other")
    git("commit", "-qm", "x")
    assert find_commit(package) is None  # inside the repository of another project
    git("add", "package")
    git("commit", "-qm", "y")
    assert find_commit(package) == git("rev-parse", "HEAD")
    (package / "__init__.py").write_text("1")
    assert find_commit(package) == f"{git('rev-parse', 'HEAD')}-dirty"


def test_results_record_the_commit(whole: Path) -> None:
    commit = read_run(whole).machine["commit"]
    assert (commit is None) == (find_commit() is None)
    assert commit is None or re.fullmatch(r"[0-9a-f]{40}(-dirty)?", commit)
