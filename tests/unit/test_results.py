"""Labels and votes as a campaign yields them, and the files for training."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from campaigns import Make, begin
from hedgerow import Campaign, InputError, Pairs
from hedgerow.campaign.answers import Answer
from shell import Run, one_line

MOMENT = 1_763_380_800_000_001


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def fill(campaign: Campaign) -> list[str]:
    """One row each: cat, dog, disputed, unsure, none of these, broken; and a fox in the holdout."""
    ids: list[str] = campaign.batch(campaign.next(6, answers=2))["id"].tolist()
    said = [("answer", "cat"), ("answer", "dog"), ("answer", "cat"), ("unsure", None), ("none-of-these", None)]
    said += [("broken", None)]
    answers = [Answer(id_, kind, value, "ana", MOMENT) for id_, (kind, value) in zip(ids, said, strict=True)]
    answers += [Answer(ids[0], "answer", "cat", "ben"), Answer(ids[2], "answer", "dog", "ben")]
    campaign.ingest([*answers, Answer(campaign.batch(1)["id"][0], "answer", "fox", "ana")])
    return ids


def test_labels_have_their_round_and_split(make: Make) -> None:
    campaign = make()
    ids = fill(campaign)
    campaign.predict(np.random.default_rng(0).dirichlet(np.ones(3), 120))
    third = campaign.batch(campaign.next(1, strategy="margin"))["id"][0]
    asked = {*ids, third, *campaign.batch(1)["id"]}
    stray = next(f"r{row}" for row in range(120) if f"r{row}" not in asked)
    campaign.ingest([Answer(third, "answer", "dog", "ana"), Answer(stray, "answer", "fox", "ana")])
    found = campaign.labels()
    assert list(found) == ["id", "row", "label", "how", "support", "given", "round", "split"]
    assert found["row"].tolist() == sorted(found["row"].tolist())
    lines = dict(zip(found["id"], zip(*(found[name] for name in list(found)[2:]), strict=True), strict=True))
    assert lines[ids[0]] == ("cat", "majority", 2, 2, 1, "train")
    assert lines[ids[2]] == (None, "disputed", 0, 2, 1, "train")
    assert lines[ids[4]] == (None, "none-of-these", 1, 1, 1, "train")
    assert lines[third] == ("dog", "majority", 1, 1, 2, "train")
    assert lines[stray] == ("fox", "majority", 1, 1, 0, "train")
    assert lines[campaign.batch(1)["id"][0]] == ("fox", "majority", 1, 1, 0, "holdout")
    assert campaign.labels(split="holdout")["label"].tolist() == ["fox"]
    assert len(campaign.labels(split="train")["id"]) == 8
    with pytest.raises(InputError, match="unknown split 'test'"):
        campaign.labels(split="test")


def test_votes_are_what_people_say_now(make: Make) -> None:
    campaign = make()
    ids = fill(campaign)
    campaign.ingest([Answer(ids[1], "answer", "fox", "ana", MOMENT + 1)])
    found = campaign.votes()
    assert list(found) == ["id", "row", "annotator", "value", "said_at"]
    votes = {(one, who): (value, when) for one, who, value, when in zip(
        found["id"], found["annotator"], found["value"], found["said_at"], strict=True)}  # fmt: skip
    assert len(votes) == 6
    assert votes[ids[0], "ana"] == ("cat", np.datetime64(MOMENT, "us"))
    assert votes[ids[1], "ana"] == ("fox", np.datetime64(MOMENT + 1, "us"))
    assert np.isnat(votes[ids[2], "ben"][1])
    every = campaign.votes(every=True)
    kinds = dict(zip(every["id"], zip(every["kind"], every["value"], strict=True), strict=True))
    assert kinds[ids[3]] == ("unsure", None)
    assert kinds[ids[5]] == ("broken", None)
    campaign.retract(annotator="ana")
    assert set(campaign.votes()["annotator"]) == {"ben"}


@pytest.mark.parametrize("to", ["jsonl", "csv", "parquet", "label-studio"])
def test_files_leave_out_the_holdout_and_the_undecided_and_say_so(make: Make, tmp_path: Path, to: str) -> None:
    campaign = make()
    ids = fill(campaign)
    done = campaign.export_labels(tmp_path / "labels", to=to)
    assert (done.rows, done.files) == (2, (tmp_path / "labels",))
    assert done.left_out == {"holdout": 1, "unsure": 1, "disputed": 1, "broken": 1, "none-of-these": 1}
    expected = sorted([(ids[0], "cat"), (ids[1], "dog")], key=lambda one: int(one[0][1:]))
    if to == "label-studio":
        tasks = json.loads((tmp_path / "labels").read_text())
        said = [(one["data"]["hedgerow_id"], one["annotations"][0]["result"][0]["value"]["choices"]) for one in tasks]
        assert said == [(id_, [label]) for id_, label in expected]
        assert [one["data"]["text"] for one in tasks] == [f"text {id_[1:]}" for id_, _ in expected]
        return
    if to == "parquet":
        rows = pq.read_table(tmp_path / "labels").to_pylist()
    elif to == "jsonl":
        rows = [json.loads(line) for line in (tmp_path / "labels").read_text().splitlines()]
    else:
        rows = read_csv((tmp_path / "labels").read_text())
    assert list(rows[0]) == ["id", "label", "how", "support", "round", "split"]
    assert [(one["id"], one["label"]) for one in rows] == expected
    whole = campaign.export_labels(tmp_path / "all.csv", split="all", undecided=True, content=True)
    assert (whole.rows, whole.left_out) == (7, {})
    lines = read_csv((tmp_path / "all.csv").read_text())
    assert list(lines[0]) == ["id", "text", "label", "how", "support", "round", "split"]
    assert sorted(line["label"] for line in lines) == ["", "", "", "", "cat", "dog", "fox"]


def test_retired_rows_are_left_out(tmp_path: Path) -> None:
    with begin(tmp_path, None) as campaign:
        ids = fill(campaign)
        (tmp_path / "gone.txt").write_text(f"{ids[0]}\n")
        campaign.retire(tmp_path / "gone.txt", reason="asked to")
        done = campaign.export_labels(tmp_path / "labels.csv")
        assert (done.rows, done.left_out["retired"]) == (1, 1)
        assert ids[0] not in campaign.labels()["id"]


@pytest.mark.parametrize("to", ["jsonl", "csv", "parquet", "label-studio"])
@pytest.mark.parametrize("kind", ["multi-class", "multi-label", "pairs"])
def test_what_is_exported_can_be_ingested(tmp_path: Path, kind: str, to: str) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with begin(tmp_path / "one", None, kind=kind) as one, begin(tmp_path / "two", None, kind=kind) as two:
        answer_some(one, kind)
        exported = one.export_labels(tmp_path / "labels", to=to)
        assert exported.rows == 3
        assert two.ingest(tmp_path / "labels").counts["unsolicited"] == 3
        expected, found = one.labels(), two.labels()
        assert found["label"].tolist() == expected["label"].tolist()
        assert found["id"].tolist() == expected["id"].tolist()
        if to != "label-studio":
            one.export_votes(tmp_path / "votes", to=to)
            assert two.ingest(tmp_path / "votes").counts["unsolicited"] == 3
            assert two.votes()["said_at"][two.votes()["annotator"] == "ana"].tolist() == one.votes()["said_at"].tolist()


def answer_some(campaign: Campaign, kind: str) -> None:
    batch = campaign.batch(campaign.next(3))
    values: list[Any] = {"multi-class": ["cat", "dog", "fox"], "pairs": [0, 1, 1]}.get(
        kind, [("fox", "cat"), (), "dog"]
    )
    classes = batch.get("class", [None] * 3)
    campaign.ingest(
        [
            Answer(id_, "answer", value, "ana", MOMENT, class_=class_)
            for id_, value, class_ in zip(batch["id"], values, classes, strict=True)
        ]
    )


def test_sets_of_classes(make: Make, tmp_path: Path) -> None:
    campaign = make(kind="multi-label", classes=["cat", "a,b", "ö"])
    batch = campaign.batch(campaign.next(2))
    campaign.ingest(
        [Answer(batch["id"][0], "answer", ("cat", "a,b"), "ana"), Answer(batch["id"][1], "answer", ("ö",), "ana")]
    )
    assert sorted(campaign.labels()["label"].tolist()) == [("cat", "a,b"), ("ö",)]
    campaign.export_labels(tmp_path / "labels.parquet")
    assert sorted(pq.read_table(tmp_path / "labels.parquet")["label"].to_pylist()) == [["a,b", "cat"], ["ö"]]
    campaign.export_labels(tmp_path / "labels.csv")
    assert sorted(line["label"] for line in read_csv((tmp_path / "labels.csv").read_text())) == ["a,b|cat", "ö"]
    done = campaign.export_votes(tmp_path / "votes.csv", layout="crowd-kit")
    assert done.rows == 6
    lines = {line["task"]: line["label"] for line in read_csv((tmp_path / "votes.csv").read_text())}
    assert lines[f"{batch['id'][0]}/a,b"] == "1"
    assert lines[f"{batch['id'][0]}/ö"] == "0"


def test_pairs(make: Make, tmp_path: Path) -> None:
    pairs = Pairs(np.repeat(np.arange(120), 2), np.tile(np.array([0, 2], np.int32), 120))
    campaign = make(kind="pairs", pairs=pairs)
    batch = campaign.batch(campaign.next(2))
    kinds: list[tuple[str, int | None]] = [("answer", 1), ("unsure", None)]
    campaign.ingest(
        [
            Answer(id_, kind, value, "ana", class_=class_)
            for id_, class_, (kind, value) in zip(batch["id"], batch["class"], kinds, strict=True)
        ]
    )
    assert sorted(campaign.labels()["label"].tolist(), key=str) == [1, None]
    campaign.export_labels(tmp_path / "labels.parquet")
    (line,) = pq.read_table(tmp_path / "labels.parquet").to_pylist()
    assert (line["class"], line["label"]) == (batch["class"][0], 1)
    campaign.export_votes(tmp_path / "votes.csv", layout="cleanlab")
    (vote,) = read_csv((tmp_path / "votes.csv").read_text())
    assert vote == {"task": f"{batch['id'][0]}/{batch['class'][0]}", "annotator": "ana", "label": "1"}


def test_votes_for_other_libraries(make: Make, tmp_path: Path) -> None:
    campaign = make()
    ids = fill(campaign)
    campaign.export_votes(tmp_path / "crowd.csv", layout="crowd-kit")
    assert {"task": ids[2], "worker": "ben", "label": "dog"} in read_csv((tmp_path / "crowd.csv").read_text())
    campaign.export_votes(tmp_path / "clean.csv", layout="cleanlab")
    assert {"task": ids[2], "annotator": "ben", "label": "1"} in read_csv((tmp_path / "clean.csv").read_text())
    with pytest.raises(InputError, match="unknown layout of votes 'snorkel'"):
        campaign.export_votes(tmp_path / "other.csv", layout="snorkel")
    with pytest.raises(InputError, match="cleanlab has a place for votes only"):
        campaign.export_votes(tmp_path / "other.csv", layout="cleanlab", every=True)
    with pytest.raises(InputError, match="votes are no tasks for Label Studio"):
        campaign.export_votes(tmp_path / "other.json")
    with pytest.raises(InputError, match="the suffix must be"):
        campaign.export_votes(tmp_path / "other.txt")


def test_a_data_set_of_labels_and_of_a_batch(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    with begin(tmp_path, None) as campaign:
        fill(campaign)
        campaign.export_labels(tmp_path / "labels", content=True)
        assert sorted(datasets.load_from_disk(str(tmp_path / "labels"))["label"]) == ["cat", "dog"]
        campaign.export(2, tmp_path / "batch", to="hf")
        assert datasets.load_from_disk(str(tmp_path / "batch")).num_rows == 6


def test_nothing_said_is_an_empty_file(make: Make, tmp_path: Path) -> None:
    campaign = make(kind="multi-label")
    assert campaign.export_labels(tmp_path / "labels.csv").rows == 0
    assert (tmp_path / "labels.csv").read_text() == "id,label,how,support,round,split\n"
    assert campaign.export_votes(tmp_path / "votes.parquet", layout="crowd-kit").rows == 0


def test_without_contents_there_are_none_to_write(tmp_path: Path) -> None:
    pool = np.eye(6, dtype=np.float32)
    with (
        Campaign.init(tmp_path / "c", pool, classes=["a", "b"]) as campaign,
        pytest.raises(InputError, match="no texts or uris"),
    ):
        campaign.export_labels(tmp_path / "labels.csv", content=True)


def test_the_commands(run: Run, tmp_path: Path) -> None:
    with begin(tmp_path, None, classes=["=cat", "dog", "fox"]) as campaign:
        batch = campaign.batch(campaign.next(2))
        campaign.ingest(
            [Answer(batch["id"][0], "answer", "=cat", "ana"), Answer(batch["id"][1], "unsure", None, "ana")]
        )
    folder = tmp_path / "campaign"
    done = run("campaign", "labels", folder)
    assert done.out == f"id,label,how,support,round,split\n{batch['id'][0]},'=cat,majority,1,1,train\n"
    assert done.error == "1 labels; left out: 1 unsure\n"
    done = run("campaign", "labels", folder, "--json", "--undecided")
    assert sorted(json.loads(line)["how"] for line in done.out.splitlines()) == ["majority", "unsure"]
    done = run("campaign", "labels", folder, "-o", tmp_path / "labels.parquet", "--json")
    assert json.loads(done.out) == {"files": [f"{tmp_path}/labels.parquet"], "rows": 1, "left_out": {"unsure": 1}}
    one_line(run("campaign", "labels", folder, "-o", tmp_path / "labels.parquet"), 1, "exists", "--force")
    one_line(run("campaign", "labels", folder, "--to", "parquet"), 1, "parquet cannot be printed")
    done = run("campaign", "votes", folder, "-o", tmp_path / "votes.csv", "--as", "crowd-kit")
    assert done.out == f"1 votes -> {tmp_path}/votes.csv; left out: 1 unsure\n"
    assert read_csv(run("campaign", "votes", folder, "--every").out)[0]["annotator"] == "ana"
    assert json.loads(run("campaign", "export", folder, 2, "--json").out.splitlines()[0])["id"] == batch["id"][0]
