"""`hedgerow advise` as a user runs it: files in, text or JSON out, every mistake in one line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hedgerow as hr
from shell import Run, one_line

GROUPS, COPIES, K = 300, 10, 220
N = GROUPS * COPIES
IDS = [f"image-{row:04}" for row in range(N)]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a pool of near-copies, predictions in several forms and the labels so far; the current one."""
    rng = np.random.default_rng(0)
    order = rng.permutation(N)
    logits = (np.repeat(rng.normal(size=(GROUPS, 3)), COPIES, axis=0) + 0.01 * rng.normal(size=(N, 3)))[order]
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    points = (np.repeat(rng.normal(size=(GROUPS, 8)), COPIES, axis=0) + 0.05 * rng.normal(size=(N, 8)))[order]
    clusters = np.repeat(np.arange(GROUPS), COPIES)[order]
    labeled, labels = rng.choice(N, 36, replace=False), chances.argmax(axis=1)
    np.save(tmp_path / "points.npy", points.astype(np.float32))
    np.save(tmp_path / "logits.npy", logits.astype(np.float32))
    np.save(tmp_path / "clusters.npy", clusters)
    np.save(tmp_path / "shuffled.npy", rng.permutation(clusters))
    np.save(tmp_path / "labeled.npy", labeled)
    pq.write_table(pa.table({"id": IDS, "probabilities": list(chances)}), tmp_path / "predictions.parquet")
    pq.write_table(pa.table({"id": IDS[:-1], "cluster": clusters[:-1]}), tmp_path / "lacking.parquet")
    pq.write_table(pa.table({"p": list(chances[:500]), "label": labels[:500]}), tmp_path / "holdout.parquet")
    (tmp_path / "labeled.csv").write_text("id,label\n" + "".join(f"{IDS[row]},{labels[row]}\n" for row in labeled))
    (tmp_path / "empty.csv").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def advise(*more: Any, predictions: str = "predictions.parquet", k: int = K) -> list[Any]:
    return ["advise", predictions, "-k", k, *more]


FULL = ("--clusters", "clusters.npy", "--labeled", "labeled.csv", "--embeddings", "points.npy")


def test_text_and_json_are_those_of_the_function(files: Path, run: Run) -> None:
    expected = hr.advise(
        K, predictions="predictions.parquet", clusters="clusters.npy", labeled=Path("labeled.csv"),
        embeddings="points.npy", holdout="holdout.parquet",
    )  # fmt: skip
    answer = run(*advise(*FULL, "--holdout", "holdout.parquet"))
    assert (answer.code, answer.error, answer.out) == (0, "", f"{expected}\n")
    assert "Advice: cluster-margin, margin_factor 3" in answer.out
    assert "on 500 rows of the holdout" in answer.out
    answer = run(*advise(*FULL, "--holdout", "holdout.parquet", "--json"))
    assert json.loads(answer.out) == json.loads(json.dumps(expected.to_json()))
    assert sorted(path.name for path in files.iterdir()) == sorted(
        ["points.npy", "logits.npy", "clusters.npy", "shuffled.npy", "labeled.npy", "predictions.parquet",
         "lacking.parquet", "holdout.parquet", "labeled.csv", "empty.csv"]
    )  # fmt: skip


def test_shuffled_clusters_change_the_advice(files: Path, run: Run) -> None:
    answer = run(*advise("--clusters", "shuffled.npy", *FULL[2:], "--json"))
    found = json.loads(answer.out)
    assert (found["strategy"], found["reason"]["rule"]) == ("margin", "meaningless clusters")


def test_the_advice_can_be_selected(files: Path, run: Run) -> None:
    found = json.loads(run(*advise(*FULL, "--json")).out)
    options = [f"--set={key}={value}" for key, value in found["options"].items()]
    answer = run("select", "predictions.parquet", "-k", K, "--clusters", "clusters.npy", "--labeled", "labeled.csv",
                 "--strategy", found["strategy"], *options, "-o", "batch.parquet")  # fmt: skip
    assert answer.code == 0
    batch = hr.Batch.load("batch.parquet")
    distinct = 100 * len(np.unique(batch.clusters)) / K
    (simulated,) = (
        one for one in found["measurements"]["batches"] if (one["strategy"], one["margin_factor"]) ==
        (found["strategy"], found["options"]["margin_factor"])
    )  # fmt: skip
    assert simulated["clusters_per_100"] == pytest.approx(distinct)


def test_advice_from_margins_can_be_selected(files: Path, run: Run) -> None:
    chances = np.sort(np.array(pq.read_table("predictions.parquet")["probabilities"].to_pylist()), axis=1)
    np.save("margins.npy", chances[:, -1] - chances[:, -2])
    np.save("few.npy", np.arange(6))
    given = ("margins.npy", "-k", K, "--clusters", "clusters.npy", "--labeled", "few.npy")
    found = json.loads(run("advise", *given, "--classes", 3, "--json").out)
    assert (found["strategy"], found["options"]) == ("hedge", {"classes": 3})
    assert run("select", *given, "--strategy", "hedge", "--set", "classes=3", "-o", "batch.parquet").code == 0


def test_names_in_a_holdout_take_one_line(files: Path, run: Run) -> None:
    table = pq.read_table("holdout.parquet")
    pq.write_table(table.set_column(1, "label", pa.array(["cät"] * len(table))), "names.parquet")
    one_line(run(*advise("--holdout", "names.parquet")), 1, "names.parquet holds values such as ['cät']")


def test_logits_margins_and_clusters_of_the_command_line(files: Path, run: Run) -> None:
    assert run("cluster", "points.npy", "-o", "made.parquet", "--metric", "sqeuclidean").code == 0
    more = ("--clusters", "made.parquet", "--embeddings", "points.npy", "--labeled", "labeled.npy", "--json")
    found = json.loads(run(*advise("--logits", *more, predictions="logits.npy")).out)
    expected = hr.advise(
        K, logits=files / "logits.npy", clusters=hr.Clusters.load("made.parquet"), embeddings=np.load("points.npy"),
        labeled=np.load("labeled.npy"),
    )  # fmt: skip
    assert found == json.loads(json.dumps(expected.to_json()))
    assert found["measurements"]["close_distance"] == pytest.approx(2 * 8 * 0.05**2, rel=0.3)  # squared, not cosine


def test_the_metric_of_an_array_of_clusters_can_be_set(files: Path, run: Run) -> None:
    assert "cosine is assumed" in run(*advise(*FULL)).out
    answer = run(*advise(*FULL, "--metric", "sqeuclidean"))
    assert "distances     sqeuclidean: " in answer.out
    assert "assumed" not in answer.out
    found = json.loads(run(*advise(*FULL, "--metric", "sqeuclidean", "--json")).out)["measurements"]
    assert (found["metric"], found["metric_assumed"]) == ("sqeuclidean", False)
    assert found["tightness"] == found["close_distance"] / found["usual_distance"]


def test_a_column_of_answers_that_is_not_there_takes_one_line(files: Path, run: Run) -> None:
    pq.write_table(pa.table({"row": [0, 1], "class": [0, 0]}), "pairs.parquet")
    Path("answers.csv").write_text("row,class,label\n0,0,1\n")
    np.save("chances.npy", np.array([0.2, 0.9]))
    given = ("--pairs", "pairs.parquet", "--labeled", "answers.csv", "--label-column", "foo")
    one_line(run(*advise(*given, predictions="chances.npy", k=1)), 1, "answers.csv has no column 'foo'")


def test_without_clusters_the_advice_is_restricted(files: Path, run: Run) -> None:
    answer = run(*advise("--labeled", "labeled.csv"))
    assert answer.code == 0
    assert "Undecided." in answer.out
    assert "  - clusters (--clusters FILE), for the rules: full of near-copies;" in answer.out


def test_pairs(files: Path, run: Run) -> None:
    rows, classes = np.repeat(np.arange(40), 3), np.tile(["cat", "dog", "bird"], 40)
    pairs = {"row": rows, "class": classes}
    chances = np.random.default_rng(1).random(120)
    pq.write_table(pa.table(pairs), "pairs.parquet")
    pq.write_table(pa.table(pairs | {"probability": chances}), "chances.parquet")
    pq.write_table(pa.table({key: values[:12] for key, values in pairs.items()} | {"answer": [True, False] * 6}),
                   "answers.parquet")  # fmt: skip
    np.save("groups.npy", np.arange(40) // 4)
    given = ("--pairs", "pairs.parquet", "--clusters", "groups.npy", "--labeled", "answers.parquet")
    answer = run(*advise(*given, "--json", predictions="chances.parquet", k=20))
    assert answer.code == 0, answer
    found = json.loads(answer.out)
    measured = found["measurements"]
    assert (measured["unit"], measured["n"], measured["labeled"], measured["classes"]) == ("pair", 120, 12, 3)
    assert measured["calibration"]["count"] == 12
    assert (found["strategy"], found["decided"]) == ("random", True)
    text = run(*advise(*given, predictions="chances.parquet", k=20)).out
    assert "120 pairs, 108 unlabeled, 12 labeled" in text
    assert "yes answers" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (advise(k=N + 1), "were asked for|unlabeled"),
        (advise(k=0), "k must be at least 1, got 0"),
        (advise(predictions="nothing.parquet"), "nothing.parquet"),
        (advise("--clusters", "nothing.npy"), "nothing.npy"),
        (advise("--clusters", "lacking.parquet"), "lacking.parquet"),
        (advise("--clusters", "points.npy"), "clusters must"),
        (advise("--labeled", "empty.csv"), "empty.csv"),
        (advise("--holdout", "clusters.npy"), "has no named columns"),
        (advise("--holdout", "predictions.parquet"), "has no column of labels"),
        (advise("--label-column", "truth", "--labeled", "labeled.csv"), "has no column 'truth'"),
        (advise("--classes", 5), "the predictions have 3 columns"),
        (advise("--metric", "manhattan", *FULL), "metric"),
        (advise("--class-column", "class"), "--class-column needs --pairs"),
        (advise("--logits", "--pairs", "pairs.parquet"), "--logits cannot be used with --pairs"),
        (advise(predictions="points.npy"), "sums to|negative"),
    ],
)
def test_mistakes_take_one_line(files: Path, run: Run, arguments: list[Any], message: str) -> None:
    answer = run(*arguments)
    one_line(answer, 1)
    assert any(part in answer.error for part in message.split("|")), answer.error


def test_a_nan_is_named_by_its_row(files: Path, run: Run) -> None:
    logits = np.load("logits.npy")
    logits[17, 1] = np.nan
    np.save("logits.npy", logits)
    one_line(run(*advise("--logits", predictions="logits.npy")), 1, "NaN or an infinity in row 17")
