"""Exports: what each form holds, the guard against formulas, and that `formats` reads back what was written."""

import csv
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hedgerow.campaign import exports
from hedgerow.campaign.answers import NEVER, Answer
from hedgerow.campaign.exports import TaskLayout, arrange_votes, guard, make_label_config, write_export
from hedgerow.campaign.formats import Reading, read_answers
from hedgerow.errors import InputError, StoreError
from hedgerow.pool import parsing

LABELS: dict[str, Any] = {
    "id": np.array(["=1+1", "-x", "'@y", "ä"], np.object_),
    "label": ["cat", "dog", "+1 more", "a,b;c\n"],
    "how": ["majority"] * 4,
    "support": np.array([1, 2 / 3, np.nan, 0.1], np.float32),
}
VOTES: dict[str, Any] = {
    "id": np.array([5, 5, 7]),
    "annotator": ["ana", "ben", "ana"],
    "value": ["cat", "dog", "cat"],
    "said_at": exports.format_times(np.array([1_763_380_800_000_001, NEVER, 0])),
}


def read_csv(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


# Files.


@pytest.mark.parametrize("to", ["jsonl", "csv", "parquet"])
def test_labels_are_read_back(tmp_path: Path, to: str) -> None:
    path = tmp_path / "labels"
    assert write_export(path, LABELS, to) == [path]
    found = read_answers(path)
    assert found.channel == to
    expected = [(one, label.strip()) for one, label in zip(LABELS["id"], LABELS["label"], strict=True)]
    assert [(one.id, one.value) for one in found.answers] == expected
    assert not found.rejects


@pytest.mark.parametrize("to", ["jsonl", "csv", "parquet"])
def test_votes_are_read_back(tmp_path: Path, to: str) -> None:
    path = tmp_path / "votes"
    write_export(path, VOTES, to)
    assert list(read_answers(path).answers) == [
        Answer(5, "answer", "cat", "ana", 1_763_380_800_000_001),
        Answer(5, "answer", "dog", "ben"),
        Answer(7, "answer", "cat", "ana", 0),
    ]


@pytest.mark.parametrize("to", ["jsonl", "csv", "parquet"])
def test_pairs_and_sets_are_read_back(tmp_path: Path, to: str) -> None:
    write_export(tmp_path / "pairs", {"id": [1, 1], "class": ["cat", "dog"], "value": np.array([1, 0])}, to)
    pairs = [(one.id, one.class_, one.value) for one in read_answers(tmp_path / "pairs").answers]
    assert pairs == [(1, "cat", 1), (1, "dog", 0)]
    write_export(tmp_path / "sets", {"id": [1, 2], "label": [("cat", "dog"), ("=x",)]}, to)
    sets = read_answers(tmp_path / "sets", Reading(multi=True, separator="|" if to == "csv" else None))
    assert [one.value for one in sets.answers] == [("cat", "dog"), ("=x",)]


def test_numbers_are_written_as_they_are(tmp_path: Path) -> None:
    write_export(tmp_path / "a.csv", LABELS | {"margin": np.array([-0.5, -1, 0, 1])}, "csv")
    rows = read_csv(tmp_path / "a.csv")
    assert rows[0] == ["id", "label", "how", "support", "margin"]
    assert [row[3:] for row in rows[1:]] == [["1.0", "-0.5"], ["0.6666667", "-1.0"], ["", "0.0"], ["0.1", "1.0"]]
    assert [row[0] for row in rows[1:]] == ["'=1+1", "'-x", "''@y", "ä"]
    write_export(tmp_path / "a.jsonl", LABELS, "jsonl")
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [one["support"] for one in records] == [1.0, 0.6666667, None, 0.1]
    write_export(tmp_path / "a.parquet", LABELS, "parquet")
    assert pq.read_table(tmp_path / "a.parquet")["support"].to_pylist()[:2] == [1.0, np.float32(2 / 3)]


@pytest.mark.parametrize(
    ("text", "guarded"),
    [
        ("=1+1", "'=1+1"), ("+cmd", "'+cmd"), ("-x", "'-x"), ("@SUM(A1)", "'@SUM(A1)"), ("\tx", "'\tx"),
        ("\rx", "'\rx"),
        ("'=x", "''=x"), ("-5", "-5"), ("+49.5", "+49.5"), ("x=1", "x=1"), ("'quoted'", "'quoted'"), ("", ""),
    ],
)  # fmt: skip
def test_the_guard(text: str, guarded: str) -> None:
    assert guard(text) == guarded
    assert parsing.unguard(guarded) == text


@given(text=st.text(max_size=8) | st.from_regex(r"'*[=+\-@\t\r].{0,3}"))
def test_unguarding_gives_back_the_text(text: str) -> None:
    assert parsing.unguard(guard(text)) == text


IDS = st.lists(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6).map(lambda text: f"{text}x"),
    min_size=1, max_size=6, unique=True,
)  # fmt: skip


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ids=IDS, to=st.sampled_from(["jsonl", "csv", "parquet"]))
def test_any_ids_are_read_back(tmp_path: Path, ids: list[str], to: str) -> None:
    write_export(tmp_path / "a", {"id": ids, "label": ids}, to, force=True)
    assert [(one.id, one.value) for one in read_answers(tmp_path / "a").answers] == [(one, one.strip()) for one in ids]


def test_files_are_not_replaced_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write_export(path, VOTES, "csv")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="exists"):
        write_export(path, LABELS, "csv")
    assert path.read_bytes() == before
    write_export(path, LABELS, "csv", force=True)
    assert path.read_bytes() != before


def test_what_cannot_be_written_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="stands between labels"):
        write_export(tmp_path / "a.csv", {"id": [1], "label": [("a|b", "c")]}, "csv")
    with pytest.raises(InputError, match="label cannot be written as Parquet"):
        write_export(tmp_path / "a.parquet", {"id": [1, 2], "label": ["a", 5]}, "parquet")
    with pytest.raises(InputError, match="must describe the same rows"):
        write_export(tmp_path / "a.csv", {"id": [1], "label": ["a", "b"]}, "csv")
    with pytest.raises(InputError, match="nothing to export"):
        write_export(tmp_path / "a.csv", {}, "csv")
    with pytest.raises(InputError, match="unknown export format"):
        write_export(tmp_path / "a.csv", VOTES, "xml")
    assert list(tmp_path.iterdir()) == []


def test_a_data_set_of_hugging_face(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    path = tmp_path / "set"
    assert write_export(path, LABELS, "hf") == [path]
    found = datasets.load_from_disk(str(path))
    assert found["id"][:] == LABELS["id"].tolist()
    assert found.num_rows == 4
    with pytest.raises(StoreError, match="exists"):
        write_export(path, LABELS, "hf")
    write_export(path, VOTES, "hf", force=True)
    assert datasets.load_from_disk(str(path)).num_rows == 3
    assert [one.name for one in tmp_path.iterdir()] == ["set"]
    (tmp_path / "photos").mkdir()
    with pytest.raises(StoreError, match="is not a data set"):
        write_export(tmp_path / "photos", VOTES, "hf", force=True)


# Label Studio.

BATCH: dict[str, Any] = {
    "id": ["a", "b", "c"],
    "text": ["one", "two", "three"],
    "pick": np.arange(3),
    "margin": np.array([0.1, 0.25, np.nan], np.float32),
    "guess": ["cat", "dog", None],
    "probability": np.array([0.5, 0.75, np.nan]),
}


def test_tasks_have_ids_and_predictions(tmp_path: Path) -> None:
    write_export(tmp_path / "tasks.json", BATCH, "label-studio", layout=TaskLayout(model="round-3"))
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert [one["data"]["hedgerow_id"] for one in tasks] == ["a", "b", "c"]
    assert tasks[0] == {
        "data": {"hedgerow_id": "a", "text": "one", "pick": 0, "margin": 0.1},
        "predictions": [
            {
                "model_version": "round-3",
                "score": 0.5,
                "result": [
                    {"from_name": "choice", "to_name": "example", "type": "choices", "value": {"choices": ["cat"]}}
                ],
            }
        ],
    }
    assert "predictions" not in tasks[2]


@pytest.mark.parametrize(("size", "names"), [(3, ["tasks.json"]), (2, ["tasks-001.json", "tasks-002.json"])])
def test_tasks_come_in_files_of_a_size(tmp_path: Path, size: int, names: list[str]) -> None:
    layout = TaskLayout(tasks_per_file=size)
    written = write_export(tmp_path / "tasks.json", BATCH, "label-studio", layout=layout)
    assert [one.name for one in written] == names
    tasks = [task for one in written for task in json.loads(one.read_text())]
    assert [one["data"]["hedgerow_id"] for one in tasks] == ["a", "b", "c"]


def test_annotated_tasks_are_read_back(tmp_path: Path) -> None:
    """What Label Studio adds to a task: its own number as id, and an annotation as its prediction has it."""
    (path,) = write_export(tmp_path / "tasks.json", BATCH, "label-studio")
    tasks = json.loads(path.read_text())
    for number, task in enumerate(tasks):
        task["id"] = 1000 + number
        result = task.pop("predictions", [{"result": []}])[0]["result"]
        task["annotations"] = [{"id": number, "result": result, "completed_by": 1, "was_cancelled": not result}]
    path.write_text(json.dumps(tasks))
    found = [(one.id, one.kind, one.value) for one in read_answers(path).answers]
    assert found == [("a", "answer", "cat"), ("b", "answer", "dog"), ("c", "skip", None)]


def test_tasks_about_pairs(tmp_path: Path) -> None:
    columns = {"id": [1, 1], "class": ["cat", "dog"], "guess": np.array([1, 0])}
    (path,) = write_export(tmp_path / "tasks.json", columns, "label-studio")
    tasks = json.loads(path.read_text())
    for task in tasks:
        task["annotations"] = [{"id": 1, "result": task["predictions"][0]["result"]}]
    path.write_text(json.dumps(tasks))
    found = [(one.class_, one.value) for one in read_answers(path).answers]
    assert found == [("cat", 1), ("dog", 0)]


def test_tasks_need_ids(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tasks need a column id: there is text"):
        write_export(tmp_path / "tasks.json", {"text": ["x"]}, "label-studio")


def test_the_labeling_configuration_is_xml() -> None:
    root = ElementTree.fromstring(make_label_config(["cat", 'a "b" & <c>'], "text", multi=True))
    assert [one.get("value") for one in root.iter("Choice")] == ["cat", 'a "b" & <c>']
    assert root.find("Text").get("value") == "$text"  # type: ignore[union-attr]
    choices = root.find("Choices")
    assert choices is not None
    assert (choices.get("choice"), choices.get("toName")) == ("multiple", "example")
    with pytest.raises(InputError, match="unknown kind of object"):
        make_label_config(["cat"], "text", kind="Video")


# Votes for other libraries.


def test_votes_for_other_libraries() -> None:
    crowd = arrange_votes(VOTES, "crowd-kit")
    assert {name: list(column) for name, column in crowd.items()} == {
        "task": [5, 5, 7], "worker": ["ana", "ben", "ana"], "label": ["cat", "dog", "cat"],
    }  # fmt: skip
    clean = arrange_votes(VOTES, "cleanlab", ["dog", "cat"])
    assert list(clean) == ["task", "annotator", "label"]
    assert list(clean["label"]) == [1, 0, 1]
    pairs = arrange_votes({"id": [5], "class": ["cat"], "annotator": ["ana"], "value": [1]}, "cleanlab")
    assert (list(pairs["task"]), list(pairs["label"])) == (["5/cat"], [1])


def test_votes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="'cat' is not one of the class names"):
        arrange_votes(VOTES, "cleanlab", ["dog"])
    with pytest.raises(InputError, match="no multi-label votes"):
        arrange_votes(VOTES | {"value": [("a",), ("b",), ()]}, "crowd-kit")
    with pytest.raises(InputError, match="value is missing"):
        arrange_votes({"id": [1], "annotator": ["a"]}, "crowd-kit")
    with pytest.raises(InputError, match="unknown layout"):
        arrange_votes(VOTES, "crowdkit2000")
