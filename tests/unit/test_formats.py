"""Label files: every form, what is taken from where, and files that are broken, hostile or not label files at all."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hedgerow.campaign import formats
from hedgerow.campaign.answers import Answer, LabelFile
from hedgerow.campaign.formats import Reading, detect, read_answers
from hedgerow.errors import InputError
from hedgerow.pool import parsing

NOON = int(datetime(2026, 11, 17, 12, tzinfo=UTC).timestamp() * 1_000_000)


def write(folder: Path, content: Any, name: str = "labels") -> Path:
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, str):
        path.write_bytes(content.encode())
    else:
        path.write_text(json.dumps(content))
    return path


def write_lines(folder: Path, records: list[Any]) -> Path:
    return write(folder, "".join(json.dumps(one) + "\n" for one in records))


def simple(found: LabelFile) -> list[tuple[Any, Any]]:
    assert found.rows == len(found.answers) + len(found.rejects)
    places = [*found.answers.places.tolist(), *(one.place for one in found.rejects)]
    assert sorted(places) == list(range(found.rows))
    return [(one.id, one.value) for one in found.answers]


# Flat files.


def test_json_lines(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path,
        [
            {"id": 7, "label": "cat", "annotator": "ana", "said_at": "2026-11-17T13:00:00+01:00", "seconds": 2.5},
            {"id": 8, "label": ["dog", "cat", "dog"], "annotator": "ben", "said_at": "2026-11-17T12:00:00"},
            {"id": 9, "kind": "unsure", "annotator": "ana"},
        ],
    )
    found = read_answers(path)
    assert found.channel == "jsonl"
    assert found.answers.ids.dtype == np.int64
    assert list(found.answers) == [
        Answer(7, "answer", "cat", "ana", NOON, None, 2.5),
        Answer(8, "answer", ("cat", "dog"), "ben", NOON),
        Answer(9, "unsure", None, "ana"),
    ]
    assert "label from 'label'" in found.taken
    assert len(found.sha256) == 64


def test_csv_of_a_spreadsheet(tmp_path: Path) -> None:
    text = '\ufeffID;Label;note\r\n007;"a;b";x\r\n=1+1;cat;y\r\n\'=2+2;cat;z\r\n\r\n12;;unanswered\r\n13;cat\r\n'
    found = read_answers(write(tmp_path, text))
    assert simple(found) == [("007", "a;b"), ("=1+1", "cat"), ("=2+2", "cat")]
    assert [one.detail for one in found.rejects] == ["it has no label", "it has 2 fields, and the heading 3"]
    assert found.channel == "csv"
    assert found.taken.startswith("CSV with semicolons: id from 'ID', label from 'Label'")


@pytest.mark.parametrize(
    ("ids", "expected"),
    [("3,4", [3, 4]), ("3,x", ["3", "x"]), ("03,4", ["03", "4"]), (f"{2**63},1", [str(2**63), "1"])],
)
def test_ids_of_csv_are_numbers_if_all_are(tmp_path: Path, ids: str, expected: list[Any]) -> None:
    one, two = ids.split(",")
    assert [row for row, _ in simple(read_answers(write(tmp_path, f"id,label\n{one},a\n{two},b\n")))] == expected


def test_parquet_with_times_lists_and_pairs(tmp_path: Path) -> None:
    times = pa.array([NOON * 1000, None], pa.timestamp("ns", "UTC"))
    pq.write_table(pa.table({"id": ["a", "b"], "labels": [["x", "y"], []], "updated_at": times}), tmp_path / "a")
    found = read_answers(tmp_path / "a", Reading(multi=True))
    assert list(found.answers) == [Answer("a", "answer", ("x", "y"), None, NOON), Answer("b", "answer", ())]
    assert found.channel == "parquet"
    pq.write_table(pa.table({"id": [1, 2], "class": ["cat", "dog"], "value": [1, 0]}), tmp_path / "b")
    pairs = list(read_answers(tmp_path / "b").answers)
    assert pairs == [Answer(1, "answer", 1, class_="cat"), Answer(2, "answer", 0, class_="dog")]


def test_a_class_alone_is_the_label(tmp_path: Path) -> None:
    assert simple(read_answers(write(tmp_path, "id,class\n1,cat\n"))) == [(1, "cat")]
    with pytest.raises(InputError, match="no column for the class of a pair"):
        read_answers(write(tmp_path, "id,label\n1,yes\n"), Reading(pairs=True))


@pytest.mark.parametrize(
    ("said", "value"), [("yes", 1), ("No", 0), ("1", 1), ("0", 0), ("true", 1), ("maybe", None), ("2", None)]
)
def test_pairs_are_answered_by_yes_and_no(tmp_path: Path, said: str, value: int | None) -> None:
    found = read_answers(write(tmp_path, f"id,class,answer\n5,cat,{said}\n"))
    assert simple(found) == ([] if value is None else [(5, value)])


def test_columns_by_name_separators_and_kinds(tmp_path: Path) -> None:
    path = write(tmp_path, "ticket,topic,who,when\n5,a|b,ana,1700000000\n6,none of these,ben,\n")
    reading = Reading(
        {"id": "ticket", "label": "topic", "said_at": "when"}, separator="|", kinds={"none of these": "none-of-these"}
    )
    assert list(read_answers(path, reading).answers) == [
        Answer(5, "answer", ("a", "b"), "ana", 1_700_000_000_000_000),
        Answer(6, "none-of-these", None, "ben"),
    ]


def test_times_without_a_zone_are_in_the_named_one(tmp_path: Path) -> None:
    path = write(tmp_path, "id,label,time\n1,a,2026-11-17T13:00\n2,a,2026-11-17T12:00Z\n3,a,yesterday\n")
    found = read_answers(path, Reading(time_zone="Europe/Berlin"))
    assert found.answers.said_at.tolist() == [NOON, NOON]
    assert "its time is 'yesterday'" in found.rejects[0].detail
    with pytest.raises(InputError, match="unknown time zone 'Berlin'"):
        read_answers(path, Reading(time_zone="Berlin"))


def test_a_json_array_of_flat_objects(tmp_path: Path) -> None:
    found = read_answers(write(tmp_path, [{"id": "a", "label": "x"}, {"id": "b", "label": 3}, 5]))
    assert simple(found) == [("a", "x"), ("b", "3")]
    assert found.rejects[0].detail == "it is not an object with fields"


def test_repeated_labels_and_people_are_read_like_the_first_ones(tmp_path: Path) -> None:
    """What was looked up once is used again only for what is the same: True is not 1, and ids are still checked."""
    rows = [(1, "cat", 1), (2, "cat", 1), (3, "cat", True), (4, "cat", 1.0), (True, "cat", 1), ("", "cat", 1)]
    rows += [(2**63, "cat", 1), (5, " cat", 1), (6, ["cat"], 1), (7, "cat", None), (8, "cat", "1")]
    lines = [{"id": one, "label": label, "annotator": person} for one, label, person in rows]
    found = read_answers(write_lines(tmp_path, [*lines, {"id": 9, "label": "cat", "annotator": 1, "time": "x"}]))
    assert [(one.id, one.value, one.annotator) for one in found.answers] == [
        (1, "cat", "1"), (2, "cat", "1"), (5, "cat", "1"), (6, ("cat",), "1"), (7, "cat", None), (8, "cat", "1"),
    ]  # fmt: skip
    assert [one.place for one in found.rejects] == [2, 3, 4, 5, 6, 11]


# Label Studio.


def annotate(number: int, *choices: str, **more: Any) -> dict[str, Any]:
    region = {"from_name": "topic", "type": "choices", "value": {"choices": list(choices)}}
    return {
        "id": number, "result": [region], "was_cancelled": False, "completed_by": 5, "lead_time": 4.25,
        "created_at": "2026-11-01T00:00:00Z", "updated_at": "2026-11-17T12:00:00.000000Z", **more,
    }  # fmt: skip


def test_label_studio_annotations(tmp_path: Path) -> None:
    person = {"id": 6, "email": "ben@example.org"}
    tasks = [
        {
            "id": 1,
            "data": {"hedgerow_id": "a", "id": "other", "text": "..."},
            "annotations": [annotate(11, "cat"), annotate(12, "dog", completed_by=person, was_cancelled=True)],
        },
        {"id": 2, "data": {"id": "b"}, "annotations": [annotate(13, "dog", "cat")], "predictions": [{"result": []}]},
        {"id": 3, "data": {"id": "c"}, "annotations": []},
        {"id": 4, "data": {"text": "no id"}, "annotations": [annotate(14, "cat")]},
        {"id": 5, "data": {"id": "d"}, "annotations": [annotate(15, "cat", result=[])]},
    ]
    found = read_answers(write(tmp_path, tasks))
    assert found.channel == "label-studio"
    assert list(found.answers) == [
        Answer("a", "answer", "cat", "5", NOON, "11", 4.25),
        Answer("a", "skip", None, "ben@example.org", NOON, "12", 4.25),
        Answer("b", "answer", ("cat", "dog"), "5", NOON, "13", 4.25),
    ]
    assert [one.detail for one in found.rejects] == ["it has no hedgerow_id or id: it has 'text'", "it has no label"]
    assert found.rows == 5


def test_label_studio_multi_label_pairs_and_controls(tmp_path: Path) -> None:
    path = write(tmp_path, [{"data": {"id": 1}, "annotations": [annotate(1, "cat"), annotate(2, result=[])]}])
    assert simple(read_answers(path, Reading(multi=True))) == [(1, ("cat",)), (1, ())]
    pair = {"data": {"id": 1, "hedgerow_class": "cat"}, "annotations": [annotate(1, "yes"), annotate(2, "no")]}
    assert [(one.class_, one.value) for one in read_answers(write(tmp_path, [pair])).answers] == [
        ("cat", 1),
        ("cat", 0),
    ]
    both = annotate(1, "cat")
    both["result"].append({"from_name": "mood", "type": "choices", "value": {"choices": ["good"]}})
    both["result"].append({"from_name": "box", "type": "rectanglelabels", "value": {}})
    path = write(tmp_path, [{"data": {"id": 1}, "annotations": [both]}])
    assert "several controls (mood, topic)" in read_answers(path).rejects[0].detail
    assert simple(read_answers(path, Reading({"label": "mood"}))) == [(1, "good")]


def test_label_studio_min(tmp_path: Path) -> None:
    common = {"annotator": 5, "annotation_id": 9, "updated_at": "2026-11-17T12:00:00Z", "lead_time": 1.0}
    rows = [
        {"id": 1, "hedgerow_id": "a", "choice": "cat", **common},
        {"id": 2, "hedgerow_id": "b", "choice": {"choices": ["dog", "cat"]}, **common},
    ]
    found = read_answers(write(tmp_path, rows))
    assert found.channel == "label-studio"
    assert list(found.answers) == [
        Answer("a", "answer", "cat", "5", NOON, "9", 1.0),
        Answer("b", "answer", ("cat", "dog"), "5", NOON, "9", 1.0),
    ]
    own = write(tmp_path, [{"id": 1, "ticket": 4, "topic": "cat", **common}])
    with pytest.raises(InputError, match="`id` is the number of the task"):
        read_answers(own)
    assert simple(read_answers(own, Reading({"id": "ticket", "label": "topic"}))) == [(4, "cat")]


# Prodigy.


def test_prodigy(tmp_path: Path) -> None:
    common = {"_task_hash": 77, "_annotator_id": "set-ana", "_timestamp": NOON // 1_000_000}
    options = [{"id": "cat"}, {"id": "dog"}]
    tasks = [
        {"id": "a", "options": options, "accept": ["cat"], "answer": "accept", **common},
        {"meta": {"id": "b"}, "options": options, "accept": [], "answer": "reject", **common},
        {"id": "c", "options": options, "accept": [], "answer": "ignore", **common},
        {"id": "d", "options": options, "accept": [], "answer": "accept", **common},
        {"id": "e", "label": "cat", "answer": "accept", "_session_id": "ben"},
        {"id": "f", "label": "cat", "answer": "reject", "_session_id": "ben"},
    ]
    path = write_lines(tmp_path, tasks)
    found = read_answers(path)
    assert found.channel == "prodigy"
    assert list(found.answers) == [
        Answer("a", "answer", "cat", "set-ana", NOON, "77/set-ana"),
        Answer("b", "none-of-these", None, "set-ana", NOON, "77/set-ana"),
        Answer("c", "skip", None, "set-ana", NOON, "77/set-ana"),
        Answer("e", "answer", "cat", "ben"),
    ]
    assert [one.detail for one in found.rejects] == [
        "it has no label", "it says no to 'cat', which does not answer the question for the class of a row",
    ]  # fmt: skip
    pairs = list(read_answers(path, Reading(pairs=True)).answers)
    assert [(one.id, one.class_, one.value) for one in pairs[-2:]] == [("e", "cat", 1), ("f", "cat", 0)]


# Files that are broken or hostile.


def test_bad_lines_are_rejected_and_the_others_read(tmp_path: Path) -> None:
    lines = [
        b'{"id": 1, "label": "a"}',
        b'{"id": NaN, "label": "a"}',
        b'{"id": 1, "id": 2, "label": "a"}',
        b'{"id": 1.5, "label": "a"}',
        b'{"id": true, "label": "a"}',
        b'{"id": null, "label": "a"}',
        b'{"id": 3, "label": {"x": 1}}',
        b'{"id": 4, "label": "caf\xe9"}',
        b'{"id": 5, "label": "a"',
        b'{"id": 6, "label": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"id": 7, "label": ' + b"[" * 60 + b"]" * 60 + b"}",
        b'{"id": ' + b"9" * 5000 + b', "label": "a"}',
        b'{"id": 8, "label": "a", ' + b", ".join(b'"k%d": 0' % i for i in range(1000)) + b"}",
        b"[1, 2]",
        b"",
        b'{"id": 9, "label": "[[[[[\\"{{{{"}',
        b'{"id": 10, "label": "a", "kind": "guess"}',
    ]
    found = read_answers(write(tmp_path, b"\xef\xbb\xbf" + b"\r\n".join(lines)))
    assert simple(found) == [(1, "a"), (9, '[[[[["{{{{')]
    details = [one.detail for one in found.rejects]
    expected = [
        "NaN is not a JSON value", "the key 'id' occurs twice", "id is 1.5", "id is True", "id is None",
        "its label is {'x': 1}", "byte 24 of the line is not UTF-8", "it is not JSON", "nested", "nested more than 50",
        "a number that is too long", "1,002 fields", "not an object", "its kind is 'guess'",
    ]  # fmt: skip
    assert len(details) == len(expected)
    for detail, words in zip(details, expected, strict=True):
        assert words in detail
    assert all(len(one.text) <= parsing.SHOWN for one in found.rejects)


def test_a_line_that_is_too_long_is_rejected_without_being_held(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(parsing, "RECORD_BYTES", 1 << 12)
    text = '{"id": 1, "label": "a"}\n{"id": 2, "label": "' + "x" * (1 << 16) + '"}\n{"id": 3, "label": "b"}\n'
    found = read_answers(write(tmp_path, text))
    assert simple(found) == [(1, "a"), (3, "b")]
    assert "the line is longer" in found.rejects[0].detail
    with pytest.raises(InputError, match="line longer than"):
        read_answers(write(tmp_path, "id,label\n1," + "x" * (1 << 16) + "\n"))
    monkeypatch.setattr(parsing, "READ_BYTES", 1 << 10)
    with pytest.raises(InputError, match="element 2 is not JSON, or longer"):
        read_answers(write(tmp_path, [{"id": 1, "label": "a"}, {"id": 2, "label": "x" * (1 << 16)}]))


def test_a_line_of_100_megabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels"
    with path.open("wb") as file:
        file.write(b'{"id": 1, "label": "a"}\n{"id": 2, "label": "')
        file.truncate(100 << 20)  # a sparse file: zeros to the end
    found = read_answers(path)
    assert simple(found) == [(1, "a")]
    assert found.rejects[0].detail == "the line is longer than 16 MiB"


@pytest.mark.parametrize("size", [1, 3, 7, 64])
def test_arrays_are_read_piece_by_piece(tmp_path: Path, monkeypatch: Any, size: int) -> None:
    monkeypatch.setattr(parsing, "READ_BYTES", size)
    elements = '[ {"id": "ä", "label": "x"} ,\n{"id": 1, "id": 2, "label": "y"}, {"id": "b", "label": NaN}, '
    elements += '{"id":"c","label":"z"}]'
    found = read_answers(write(tmp_path, elements))
    assert simple(found) == [("ä", "x"), ("c", "z")]
    assert [one.detail for one in found.rejects] == ["the key 'id' occurs twice", "NaN is not a JSON value"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04...", "an Excel workbook"),
        (b"\x80\x04\x95", "a pickle, which is never read"),
        (b"\x1f\x8b\x08", "compressed with gzip"),
        ("id,label\n1,a\n".encode("utf-16"), "UTF-16: save it as UTF-8"),
        (b"", "empty"),
        (b'[{"id": 1, "label": "a"}, {"id": 2', "element 2 is not JSON, or breaks off"),
        (b'[{"id": 1, "label": "a"} {"id": 2}]', "damaged after element 1"),
        (b'[{"id": 1, "label": "a"}, ' + b"[" * 100000, "element 2 is nested too deeply"),
        (b'[{"id": 1, "label": "caf\xe9"}]', "not UTF-8"),
        (b"[]", "holds no records"),
        (b"id,text\n1,x\n", "has no column for the label: it has 'id', 'text'"),
        (b"name,label\n1,x\n", "has no column for the id"),
        (b"id,label,id\n1,x,2\n", "two columns called 'id'"),
        (b'id,label\n1,"' + b"x\n" * 100, "cannot be read"),
        (b"id,caf\xe9\n", "the heading cannot be read"),
        (b"id,label\r1,a\r2,b\r", "the heading cannot be read"),
        (b"PAR1" + b"x" * 100, "cannot be read as Parquet"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, content: bytes, message: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(parsing, "RECORD_BYTES", 1 << 17)
    if b'"x\n' in content:
        monkeypatch.setattr(parsing, "RECORD_BYTES", 150)
        monkeypatch.setattr(parsing.csv, "field_size_limit", lambda *size: _limit(150))
    with pytest.raises(InputError, match=message):
        read_answers(write(tmp_path, content))


_set_limit = parsing.csv.field_size_limit


def _limit(size: int) -> int:
    _set_limit(size)
    return size


@pytest.fixture(autouse=True)
def restore_limit() -> Any:
    before = _set_limit()
    yield
    _set_limit(before)


def test_latin_1_rows_of_csv_are_rejected_one_by_one(tmp_path: Path) -> None:
    found = read_answers(write(tmp_path, b"id,label\n1,caf\xe9\n2,tea\n"))
    assert simple(found) == [(2, "tea")]
    assert found.rejects[0].detail == "it is not UTF-8"


def test_parquet_ids_are_no_floats(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1.0, float("nan")], "label": ["a", "b"]}), tmp_path / "a")
    with pytest.raises(InputError, match="'id' holds double: ids must be whole numbers or strings"):
        read_answers(tmp_path / "a")


def test_options_that_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "id,label\n1,a\n")
    for reading, message in [
        (Reading({"id": "ticket"}), "has no column 'ticket': it has 'id', 'label'"),
        (Reading({"idd": "id"}), "unknown column 'idd'"),
        (Reading(kinds={"?": "adjudicate"}), "unknown kind for '\\?'"),
        (Reading(separator=""), "separator"),
    ]:
        with pytest.raises(InputError, match=message):
            read_answers(path, reading)
    with pytest.raises(InputError, match="unknown form"):
        read_answers(path, form="xml")
    with pytest.raises(InputError, match="is a folder"):
        read_answers(tmp_path)


@pytest.mark.parametrize(
    ("content", "form"),
    [
        ('{"id": 1, "label": "a"}', "jsonl"),
        ('{"answer": "accept", "_task_hash": 1}', "prodigy"),
        ('{"id": 1, "answer": "accept"}', "jsonl"),
        ('{"id": 1, "data": {}, "annotations": []}', "label-studio"),
        ('\ufeff  [{"data": {}, "annotations": []}]', "label-studio"),
        ('[{"annotation_id": 1, "annotator": 2}]', "label-studio-min"),
        ('[{"id": 1}]', "json"),
        ("id,label\n", "csv"),
    ],
)
def test_the_form_is_found_from_the_content(tmp_path: Path, content: str, form: str) -> None:
    assert detect(write(tmp_path, content, "labels.txt")) == form
    assert form in formats.FORMS
