"""Labels from a spreadsheet: its delimiters, line ends, capitals and spaces; words in place of labels."""

import json
from pathlib import Path
from typing import Any

import pytest

from campaigns import Make, begin
from hedgerow import Campaign, InputError
from shell import Run


def write(path: Path, lines: list[str]) -> Path:
    path.write_bytes("\r\n".join([*lines, ""]).encode("utf-8-sig"))
    return path


def read(campaign: Campaign) -> dict[str, Any]:
    found = campaign.votes()
    return dict(zip(found["id"].tolist(), zip(found["annotator"], found["value"], strict=True), strict=True))


def test_capitals_spaces_and_notes(make: Make, tmp_path: Path) -> None:
    campaign = make(holdout=0)
    lines = ["id;Label ;Annotator;notes;", "r1;Cat; Ana ;x;", "r2;DOG ;Ana;;", "r3; fox;Ana ;;", "r4;cow;;;"]
    done = campaign.ingest(write(tmp_path / "a.csv", lines))
    assert (done.counts["unsolicited"], done.counts["unknown class"]) == (3, 1)
    assert read(campaign) == {"r1": ("Ana", "cat"), "r2": ("Ana", "dog"), "r3": ("Ana", "fox")}
    (reject,) = done.rejects
    assert (reject.place, reject.detail) == (3, "not a class of the campaign: cow")
    assert json.loads(reject.text) == {"id": "r4", "kind": "answer", "value": "cow"}


def test_names_that_differ_in_capitals_only_are_not_confused(make: Make) -> None:
    campaign = make(classes=["us", "US", "Cat", "dog"], holdout=0)
    held = campaign._holdings
    assert [held.find_class(name) for name in ("us", "US", "Us", "CAT", "dog ")] == [0, 1, None, 2, None]
    campaign.split_class("Cat", ["lion", "CAT"])
    held = campaign._holdings
    assert [held.find_class(name) for name in ("CAT", "Cat", "cat")] == [held.class_ids["CAT"], None, None]


def test_words_in_place_of_a_label(make: Make, tmp_path: Path) -> None:
    campaign = make(holdout=0)
    batch = campaign.next(5)
    ids = campaign.batch(batch)["id"].tolist()
    words = ["Skip", "unsure", "none of these", "none-of-these", "broken"]
    done = campaign.ingest(write(tmp_path / "a.csv", ["id,label", *map(",".join, zip(ids, words, strict=True))]))
    assert done.counts["new"] == 5
    found = campaign.labels()
    assert sorted(found["how"].tolist()) == ["broken", "none-of-these", "none-of-these", "unsure"]


def test_a_class_goes_before_a_word(tmp_path: Path) -> None:
    with begin(tmp_path, None, classes=["Skip", "none", "keep"], holdout=0) as campaign:
        campaign.ingest(write(tmp_path / "a.csv", ["id,label", "r1,skip", "r2,none", "r3,none of these"]))
        assert {id_: value for id_, (_, value) in read(campaign).items() if value} == {"r1": "Skip", "r2": "none"}


@pytest.mark.parametrize("kind", ["multi-label", "pairs"])
def test_words_in_other_kinds_of_campaign(make: Make, tmp_path: Path, kind: str) -> None:
    campaign = make(kind=kind, holdout=0)
    lines = (
        ["id,class,label", "r1,CAT,skip", "r2,cat,Yes"] if kind == "pairs" else ["id,label", "r1,skip", "r2,Cat | dog"]
    )
    assert campaign.ingest(write(tmp_path / "a.csv", lines)).counts["unsolicited"] == 2
    value = read(campaign)["r2"][1]
    assert value == (1 if kind == "pairs" else ("cat", "dog"))


def test_columns_of_other_names(tmp_path: Path, run: Run) -> None:
    with begin(tmp_path, None, holdout=0) as campaign:
        file = write(tmp_path / "a.csv", ["ticket,topic", "r1,cat", "r2,cow"])
        with pytest.raises(InputError, match=r"call it 'id', or name it \(--column id=NAME\)"):
            campaign.ingest(file)
        with pytest.raises(InputError, match="has no column 'x'"):
            campaign.ingest(file, columns={"id": "x"})
    told = run("campaign", "ingest", campaign.folder, file, "--column", "id=ticket", "--column", "label")
    assert "such as label=topic" in told.error
    told = run("campaign", "ingest", campaign.folder, file, "--column", "id=ticket", "--column", "label=topic")
    assert told.out.endswith("a.csv.rejects.jsonl, the first: not a class of the campaign: cow\n")
    assert json.loads((tmp_path / "a.csv.rejects.jsonl").read_text())["place"] == 1


def test_only_lines_of_text_can_be_printed(tmp_path: Path, run: Run) -> None:
    with begin(tmp_path, None) as campaign:
        pass
    for form in ("label-studio", "parquet", "hf"):
        told = run("campaign", "export", campaign.folder, "1", "--to", form)
        assert (told.code, told.out) == (1, "")
        assert told.error == f"hedgerow: only jsonl and csv can be printed, got '{form}': name a file (-o FILE)\n"
    assert len(run("campaign", "export", campaign.folder, "1", "--to", "jsonl").out.splitlines()) == 10


def test_one_class_is_not_enough(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"needs at least 2 classes, got 1: name more \(--classes, or classes=\)"):
        begin(tmp_path, None, classes=["cat"])
