"""Files and names from outside are data: nothing is executed, nothing is half done, and no password is shown."""

import json
import pickle
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from campaigns import CLASSES, Make
from hedgerow import Campaign, InputError, StoreError
from hedgerow.campaign.answers import Answer
from hedgerow.campaign.formats import read_answers
from hedgerow.errors import HedgerowError
from shell import Run

SECRET = "s3cret-horse"
EVIL = ["'; DROP TABLE event; --", 'x" OR "1"="1', "%s %(x)s :name ?", "a\\b", "ünï☃", "$1 {0} {x}"]


class Bomb:
    """Unpickling it fails the test."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("it was unpickled",)


# Label files.


def write_truncated_parquet(path: Path) -> None:
    pq.write_table(pa.table({"id": ["r1"] * 1000, "label": ["cat"] * 1000}), path)
    path.write_bytes(path.read_bytes()[:-100])


def write_nested_parquet(path: Path) -> None:
    pq.write_table(pa.table({"id": [{"x": "r1"}], "label": ["cat"]}), path)


def write_wide_csv(path: Path) -> None:
    path.write_text(",".join(["id", "label", *(f"c{at}" for at in range(100_000))]) + "\nr1,cat\n")


REFUSED = {
    "truncated.parquet": write_truncated_parquet,
    "nested.parquet": write_nested_parquet,
    "wide.csv": write_wide_csv,
    "pickle.jsonl": lambda path: path.write_bytes(pickle.dumps(Bomb())),
    "objects.npy": lambda path: np.save(path, np.array([Bomb()], np.object_), allow_pickle=True),
    "nul.csv": lambda path: path.write_bytes(b"id\0,label\0\nr1,cat\n"),
    "deep.json": lambda path: path.write_bytes(b'[{"id": "r1", "label": "cat"}, ' + b"[" * 100_000),
    "binary.csv": lambda path: path.write_bytes(bytes(range(128, 256)) * 100),
    "long.csv": lambda path: path.write_bytes(b"id,label\nr1," + b"x" * (20 << 20) + b"\n"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_hostile_files_are_refused_in_one_line(make: Make, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    REFUSED[name](path)
    campaign = make()
    before = campaign.status()
    with pytest.raises(InputError) as caught:
        campaign.ingest(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 2000
    assert campaign.status() == before
    assert [entry.command for entry in campaign.log()] == ["init"]


def test_hostile_rows_are_rejected_and_the_others_applied(make: Make, tmp_path: Path) -> None:
    rows = [
        b'{"id": "r1", "label": "cat", "annotator": "ana"}',
        b'{"id": "r2", "label": "cat", "annotator": "a\\u0000b"}',
        b'{"id": "r3\\ud800", "label": "cat"}',
        b'{"id": "r4", "label": "\\ud800"}',
        b'{"id": "r5", "label": "cat", "annotator": "\\udfff"}',
        b'{"id": "r6", "id": "r7", "label": "cat"}',
        b'{"id": "r8", "label": "cat", "said_at": 1e999}',
        b'{"id": "r9", "label": "cat", "said_at": 1e30}',
        b'{"id": 1e999, "label": "cat"}',
        b'{"id": "r10", "label": "c\xff"}',
        b'{"id": "r11", "label": ' + b"[" * 40 + b'"cat"' + b"]" * 40 + b"}",
        b'{"id": "r12", "label": "' + b"x" * (10 << 20) + b'"}',
        b'{"id": "' + b"r" * 100_000 + b'", "label": "cat"}',
        b'{"id": "r13", "label": "dog", "annotator": "ben", "said_at": "9999-12-31T23:59:59-23:59"}',
    ]
    path = tmp_path / "labels.jsonl"
    path.write_bytes(b"\n".join(rows))
    campaign = make()
    done = campaign.ingest(path, rejects=tmp_path / "rejects.jsonl")
    assert done.rows == len(rows) == sum(done.counts.values())
    assert campaign.labels()["row"].tolist() == [1, 13]
    assert campaign.status().annotators == {"ana": 1, "ben": 1}
    written = (tmp_path / "rejects.jsonl").read_text().splitlines()
    assert len(written) == 12
    assert all(len(line) < 4000 and json.loads(line)["detail"] for line in written)


def test_seconds_beyond_float32_are_kept_out(make: Make, tmp_path: Path) -> None:
    (tmp_path / "labels.jsonl").write_text(
        '{"id": "r1", "label": "cat", "seconds": 1e300}\n{"id": "r2", "label": "cat", "seconds": 2}\n'
    )
    assert make().ingest(tmp_path / "labels.jsonl").rows == 2
    answers = read_answers(tmp_path / "labels.jsonl").answers
    assert [one.seconds for one in answers] == [None, 2.0]


@pytest.mark.parametrize("kind", ["dictionary", "large_string", "string_view"])
def test_parquet_columns_of_other_string_types(tmp_path: Path, kind: str) -> None:
    columns = {"id": ["r1", "r2"], "label": ["cat", "dog"], "annotator": ["ana", None]}
    types = {"dictionary": pa.dictionary(pa.int32(), pa.string()), "large_string": pa.large_string()}
    arrays = {name: pa.array(values).cast(types.get(kind, pa.string())) for name, values in columns.items()}
    pq.write_table(pa.table(arrays), tmp_path / "labels.parquet")
    found = read_answers(tmp_path / "labels.parquet").answers
    assert [(one.id, one.value, one.annotator) for one in found] == [("r1", "cat", "ana"), ("r2", "dog", None)]


@pytest.mark.parametrize(
    "time",
    [
        "2026-11-17T12:00:00Z", "2026-11-17 12:00:00+02:00", "2026-11-17", "2026-11-17T12:00:00.123456+00:00",
        "2026-11-17T12:00:00.1234567+00:00", "20261117T120000Z", "2026-11-17T24:00:00Z", "2026-11-17T12:00:60Z",
        "0000-01-01T00:00:00Z", "2026-02-30", "1700000000", "1700000000.5", " 2026-11-17T12:00:00Z", "12:00", "now",
        "2026-11-17T12:00:00+24:00", "2026-11-17T12:00", "2026-W47-2", "9999-12-31T23:59:59-01:00", "",
    ],
)  # fmt: skip
def test_times_are_read_by_column_as_they_are_one_by_one(tmp_path: Path, time: str) -> None:
    """A row with seconds is read by itself, one without in a block with others."""
    block, single = ({"id": 1, "label": "a", "said_at": time} | more for more in ({}, {"seconds": 1}))
    found = []
    for at, record in enumerate((block, single)):
        path = tmp_path / f"{at}.jsonl"
        path.write_text(json.dumps(record) + "\n")
        read = read_answers(path)
        found.append(([one.said_at for one in read.answers], [one.detail for one in read.rejects]))
    assert found[0] == found[1]


# Arrays.


def test_arrays_of_objects_are_never_unpickled(make: Make, tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([[Bomb()]], np.object_), allow_pickle=True)
    campaign = make()
    with pytest.raises(InputError) as caught:
        campaign.predict(tmp_path / "objects.npy")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError):
        Campaign.init(tmp_path / "other", tmp_path / "objects.npy", classes=CLASSES)
    assert campaign.status().models == ()


# Names.


def test_names_are_parameters(make: Make, tmp_path: Path) -> None:
    campaign = make(classes=EVIL)
    rows = [f"r{at}" for at in range(len(EVIL))]
    done = campaign.ingest(
        [Answer(row, "answer", name, name, external=name, said_at=5) for row, name in zip(rows, EVIL, strict=True)]
    )
    assert done.counts["unknown class"] == 0
    assert campaign.labels()["label"].tolist() == EVIL
    assert set(campaign.status().annotators) == set(EVIL)
    for name in EVIL:
        campaign.alias(name, name, name)
        campaign.predict(np.full((120, len(EVIL)), 1 / len(EVIL)), name=name)
        asked = campaign.claim(name, 1)[0]
        assert campaign.answer(name, asked.task, name, key=name) in ("new", "corrected", "unchanged")
        assert campaign.next(1, strategy="margin", model=name)
        assert campaign.retract(annotator=name) >= 1
    assert [one["name"] for one in campaign.status().models] == EVIL


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_names_that_no_database_holds_are_refused(make: Make, name: str) -> None:
    campaign = make()
    for call in (
        lambda: campaign.claim(name, 1),
        lambda: campaign.ingest([Answer("r1", "answer", "cat", name)]),
        lambda: campaign.alias("csv", name, "ana"),
        lambda: campaign.predict(np.full((120, 3), 1 / 3), name=name),
    ):
        with pytest.raises(HedgerowError) as caught:
            call()
        assert "\n" not in str(caught.value)
    assert campaign.status().annotators == {}
    assert campaign.status().models == ()


# Passwords.


URLS = [
    f"postgresql://ana:{SECRET}@127.0.0.1:1/none",
    f"postgresql://127.0.0.1:1/none?user=ana&password={SECRET}",
    f"postgresql://ana:{SECRET}@nowhere.invalid/none",
    f"postgresql://ana:{SECRET}@127.0.0.1:port/none",
    f"postgresql://ana:{SECRET}@127.0.0.1:1/none?connect_timeout=nonsense",
    f"postgresql://ana:{SECRET}@127.0.0.1:1/none?sslpassword={SECRET}&nonsense={SECRET}",
    f"postgresql:/ana:{SECRET}@host/none",
    f"mysql://ana:{SECRET}@host/none",
    f"postgresql+nonsense://ana:{SECRET}@host/none",
    SECRET,
]


@pytest.mark.parametrize("url", URLS)
def test_no_password_is_shown(tmp_path: Path, run: Run, url: str) -> None:
    with pytest.raises(StoreError) as caught:
        Campaign.init(tmp_path / "c", np.eye(3, dtype=np.float32), classes=["a", "b"], database=url)
    assert "\n" not in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    (tmp_path / "c").mkdir(exist_ok=True)
    for options in ((), ("--json",)):
        told = run("campaign", "status", tmp_path / "c", "--database", url, *options)
        assert told.code != 0
        assert SECRET not in told.out + told.error
    assert not any(SECRET.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_no_password_is_stored(make: Make, tmp_path: Path) -> None:
    campaign = make()
    campaign.ingest([Answer("r1", "answer", "cat", "ana")])
    told = [repr(campaign), repr(campaign._database), json.dumps(campaign.status().to_json()), str(campaign.log())]
    assert not any("correct-horse" in one for one in told)
    assert not any(b"correct-horse" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
