"""Ids: read, refused, compared between files, matched to rows."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hedgerow.errors import InputError
from hedgerow.pool import ids as ids_module
from hedgerow.pool import tables
from hedgerow.pool.ids import Ids, align, find_ids, match_ids, open_ids

N = 500


def write(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    pq.write_table(pa.table(columns), path, **options)
    return path


def read_ids(source: Any, column: str | None = None) -> npt.NDArray[Any]:
    ids = open_ids(source, column)
    assert ids is not None
    return ids.array()


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.int32(), pa.uint64(), pa.string(), pa.large_string(), pa.string_view()]
)
def test_ids_are_whole_numbers_or_strings(tmp_path: Path, kind: Any) -> None:
    values: list[Any] = [7, 3, 5] if pa.types.is_integer(kind) else ["7", "3", "5"]
    table = pa.table({"uid": pa.array(values, kind)})
    forms: list[Any] = [table]
    if not pa.types.is_string_view(kind):  # which older versions of Arrow do not write
        pq.write_table(table, tmp_path / "a.parquet")
        forms.append(tmp_path / "a.parquet")
    expected = np.array([7, 3, 5]) if pa.types.is_integer(kind) else np.array(["7", "3", "5"], object)
    for source in forms:
        ids = read_ids(source)
        assert ids.dtype == expected.dtype
        assert ids.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1.0, 2.0], "must be whole numbers or strings"),
        ([True, False], "must be whole numbers or strings"),
        ([b"a", b"b"], "one number or string per row"),
        ([1, None], "has a null in row 1"),
        (["a", None], "has a null in row 1"),
        ([5, 2, 5], "holds 5 more than once"),
        (["b", "a", "b"], "holds 'b' more than once"),
        (pa.array([1, 1 << 63], pa.uint64()), "beyond int64"),
    ],
)
def test_ids_that_are_refused(ids: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_ids(pa.table({"id": ids}))


def test_ids_that_are_not_there(tmp_path: Path) -> None:
    assert open_ids(np.zeros((2, 2))) is None
    assert open_ids(pa.table({"margin": [0.1]})) is None
    with pytest.raises(InputError, match="no column 'key2': it has margin"):
        read_ids(pa.table({"margin": [0.1]}), "key2")
    assert read_ids(pa.table({"uuid": ["a"], "ID": [1]})).tolist() == [1]  # a column called id goes before others
    with pytest.raises(InputError, match=r"more than one column that may hold the ids \(key, uuid\)"):
        read_ids(pa.table({"key": [1], "uuid": ["a"]}))


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_ids_are_taken_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    monkeypatch.setattr(tables, "VECTOR_ROWS", 64)
    rng = np.random.default_rng(1)
    path = write(tmp_path / "a.parquet", {"id": pa.array(rng.permutation(N)).cast(kind)}, row_group_size=100)
    ids = open_ids(path)
    assert ids is not None
    rows = rng.integers(0, N, 90)
    taken = ids.take(rows)
    assert taken.tolist() == ids.array()[rows].tolist()
    assert match_ids(taken, ids, "labeled").tolist() == rows.tolist()
    assert match_ids(taken[:0], ids, "labeled").tolist() == []


def test_ids_that_do_not_match() -> None:
    pair = open_ids(pa.table({"id": [1, 2]}))
    assert pair is not None
    with pytest.raises(InputError, match="labeled: 2 of 3 ids are not in the pool, the first is 9"):
        match_ids(np.array([1, 9, 8]), pair, "labeled")
    with pytest.raises(InputError, match="but the pool's ids are whole numbers"):
        match_ids(np.array(["a"], object), pair, "labeled")
    with pytest.raises(InputError, match="must be whole numbers or strings"):
        match_ids(np.array([1.0]), pair, "labeled")
    with pytest.raises(InputError, match="1 of 1 ids are not in the pool"):
        match_ids(np.array([1]), open_ids(pa.table({"id": pa.array([], pa.int64())})), "labeled")


def test_hashes_that_meet_are_no_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids_module, "hash", len, raising=False)
    assert read_ids(pa.table({"id": ["a", "b", "cc"]})).tolist() == ["a", "b", "cc"]
    with pytest.raises(InputError, match="holds 'a' more than once"):
        read_ids(pa.table({"id": ["a", "b", "cc", "a"]}))


# Joining by id


@pytest.mark.parametrize("kind", [np.int64, object])
def test_ids_in_another_order_are_aligned(kind: Any) -> None:
    rng = np.random.default_rng(2)
    values = np.array([f"k{number}" for number in range(N)], object) if kind is object else np.arange(N) * 7
    order = rng.permutation(N)
    first, second = Ids.of(values, "the first"), Ids.of(values[order], "the second")
    rows = align(second, first)
    assert rows is not None
    assert rows.dtype == np.int64
    assert second.array()[rows].tolist() == values.tolist()
    assert align(first, Ids.of(values, "a copy")) is None
    part = Ids.of(values[order[:300]], "a part")
    rows = align(part, first, partial=True)
    assert rows is not None
    assert (rows >= 0).sum() == 300
    assert part.array()[rows[rows >= 0]].tolist() == values[rows >= 0].tolist()
    with pytest.raises(InputError, match=r"a part lacks 200 of the 500 ids of the first, the first is (k?)\d+ in row"):
        align(part, first)
    assert align(first, part) is not None  # more ids than needed


def test_ids_align_across_batches_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "VECTOR_ROWS", 64)
    names = np.array([f"é{number}" for number in range(N)], object)
    first = open_ids(write(tmp_path / "a.parquet", {"id": names}, row_group_size=100))
    second = open_ids(write(tmp_path / "b.parquet", {"id": names[::-1].copy()}, row_group_size=33))
    same = open_ids(write(tmp_path / "c.parquet", {"id": names}, row_group_size=33))
    assert first is not None
    assert second is not None
    assert same is not None
    assert align(same, first) is None
    rows = align(second, first)
    assert rows is not None
    assert rows.tolist() == list(range(N))[::-1]


def test_ids_that_cannot_be_aligned() -> None:
    numbers, words = Ids.of([1, 2], "numbers"), Ids.of(["a", "b"], "words")
    with pytest.raises(InputError, match="numbers holds whole numbers, but words holds strings"):
        align(words, numbers)
    twice = find_ids(tables_of({"id": [1, 1]}))
    assert twice is not None
    with pytest.raises(InputError, match="holds 1 more than once"):
        align(twice, numbers)
    with pytest.raises(InputError, match="holds 1 more than once"):
        align(numbers, twice, partial=True)
    for first, second, partial in (
        ([1, 1, 2], [1, 2], False),  # more ids than rows, one of them twice
        ([1, 2, 3], [2, 1, 2], False),
        ([1, 2], [2, 7, 7], True),  # twice among those without a match
        ([1, 2], [2, 1, 2], True),
        ([3, 3, 2], [2, 1, 3], True),
    ):
        for kind in (pa.int64(), pa.string()):
            ids, like = (find_ids(tables_of({"id": pa.array(values).cast(kind)})) for values in (first, second))
            with pytest.raises(InputError, match="more than once"):
                align(ids, like, partial=partial)  # type: ignore[arg-type]
    nothing = Ids.of(np.zeros(0, np.int64), "nothing")
    assert align(nothing, Ids.of(np.zeros(0, np.int64), "no rows")) is None
    rows = align(nothing, numbers, partial=True)
    assert rows is not None
    assert rows.tolist() == [-1, -1]


def test_ids_from_an_array() -> None:
    assert Ids.of(np.array(["b", "a"]), "ids").array().tolist() == ["b", "a"]
    assert Ids.of(np.array([3, 1], np.uint8), "ids").array().dtype == np.int64
    assert Ids.of(np.array([3, np.int8(1)], object), "ids").array().dtype == np.int64
    assert Ids.of([3, 1, 2], "ids").take(np.array([2, 0])).tolist() == [2, 3]
    for array, message in (
        ([1.0], "whole numbers or strings"),
        ([[1]], "one dimension"),
        (["a", "a"], "'a' more than once"),
        (np.array(["a", 1], object), "holds 1: ids must be all strings or all whole numbers"),
        (np.array(["a", None], object), "holds None: ids must be all strings"),
        (np.array([1, True], object), "all strings or all whole numbers"),
        (["a", 1], "mixes strings with other values, such as 1"),
        ([1, "a"], "mixes strings with other values, such as 1"),
        ([2**63, 1], "whole numbers or strings"),  # which numpy makes floats
        ([2**70, 1], "beyond int64"),
        ([None], "holds None"),
        (iter("ab"), "must be an array"),
        (np.array([1 << 63], np.uint64), "beyond int64"),
    ):
        with pytest.raises(InputError, match=message):
            Ids.of(array, "ids")


def tables_of(columns: dict[str, Any]) -> tables.Table:
    opened = tables.open_source(pa.table(columns), "a table")
    assert isinstance(opened, tables.Table)
    return opened
