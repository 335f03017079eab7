"""The user's keys: read, compared between files, and found again as rows.

A row is a position in the pool (int64), an id the user's key for it (int64 or string, distinct). Ids are read from
their column in batches whenever they are asked for, so that ten million strings are never held at once; past the doors
only rows travel. What an id stands for is its owner's business.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks, tables
from hedgerow.errors import InputError
from hedgerow.tables import Table

_WHOLE = re.compile(r"[+-]?\d{1,18}")  # so many digits are sure to fit in int64


@dataclass(frozen=True, eq=False)
class Ids:
    """The ids of a pool's rows: int64 or strings, distinct, read from their column whenever they are asked for."""

    n: int
    dtype: np.dtype[Any]  # int64, or object for Python strings
    title: str  # what messages call them
    _table: Table
    _column: str

    def chunks(self) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """(first row, ids), from the first row to the last."""
        for start, values in self._table.walk(self._column):
            if values.dtype == np.uint64 and len(values) and values.max() > np.iinfo(np.int64).max:
                raise InputError(f"{self.title} holds {values.max()}, which is beyond int64: use strings")
            yield start, values.astype(self.dtype, copy=False)

    def array(self) -> npt.NDArray[Any]:
        """All of them, as one array."""
        return tables.fill(np.empty(self.n, self.dtype), self.chunks())

    def take(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """The ids of `rows`, in their order; the others are not kept."""
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        taken = np.empty(len(rows), self.dtype)
        for start, values in self.chunks():
            low, high = np.searchsorted(ascending, [start, start + len(values)])
            taken[order[low:high]] = values[ascending[low:high] - start]
        return taken


def open_ids(source: Any, column: str | None = None, *, like: Ids | None = None) -> Ids | None:
    """A table's ids, found to be distinct whole numbers or strings; None if there is no id column.

    `like`: the ids of another file about the same pool, which must be the same in the same order.
    """
    opened = tables.open_source(source, "ids")
    if not isinstance(opened, Table):
        tables.refuse_column(column, "ids", source)
        return None
    if column is None:
        column = opened.find("id", tables.ID_NAMES)
    if column is None:
        return None
    title = opened.tell(opened.require(column))
    ids = Ids(opened.n, _id_dtype(opened.dtype(column), title), title, opened, column)
    if like is None:
        _refuse_twins(ids)
    else:
        _refuse_others(ids, like)
    return ids


def match_ids(wanted: npt.NDArray[Any], ids: Ids, name: str) -> npt.NDArray[np.int64]:
    """The row of each wanted id among the pool's `ids`, in the order wanted; an id may be wanted twice."""
    if len(wanted) and _id_dtype(wanted.dtype, name) != ids.dtype:
        raise InputError(f"{name} holds {_tell_kind(wanted)}, but the pool's ids are {_tell_kind(ids)}")
    wanted = wanted.astype(ids.dtype, copy=False)
    find, count = _index_ids(wanted)
    found = np.full(count, -1, np.int64)
    for start, chunk in ids.chunks():
        places = find(chunk)
        hits = np.flatnonzero(places >= 0)
        found[places[hits]] = start + hits
    rows = found[find(wanted)]
    strangers = rows < 0
    if strangers.any():
        raise InputError(
            f"{name}: {int(strangers.sum()):,} of {len(wanted):,} ids are not in the pool, "
            f"the first is {wanted[int(np.argmax(strangers))]!s}"
        )
    return rows


def find_rows(
    path: str | Path, name: str, n: int, ids: Ids | None, *, id_column: str | None = None
) -> npt.NDArray[np.int64]:
    """The rows that a file lists, ascending, each once.

    The file is Parquet with a column of ids or one called `row`, `.npy` (ids, rows, or a mask of the pool), or text
    with one id or row a line, after a heading or none. Where the pool has `ids`, values without a heading are ids.
    """
    values, are_rows = _read_listing(tables.find_file(path, name), name, ids, id_column)
    if values.dtype == np.bool_:
        checks.same_length({f"{path}": len(values), "the pool": n})
        return np.flatnonzero(values)
    if ids is not None and not are_rows:
        return np.unique(match_ids(values, ids, f"{name} ({path})"))
    if len(values) and values.dtype.kind not in "iu":
        told = "row numbers" if are_rows else "row numbers, because the pool has no ids"
        raise InputError(f"{name}: {path} holds {_tell_kind(values)} where it must hold {told}")
    return checks.rows(np.unique(values), n, f"{name} ({path})")


# Comparing.


def _id_dtype(dtype: np.dtype[Any], title: str) -> np.dtype[Any]:
    if dtype.kind in "iu":
        return np.dtype(np.int64)
    if dtype.kind in "OU":
        return np.dtype(np.object_)
    raise InputError(f"{title} holds {dtype}: ids must be whole numbers or strings")


def _tell_kind(ids: Ids | npt.NDArray[Any]) -> str:
    return "whole numbers" if ids.dtype.kind in "iu" else "strings" if ids.dtype.kind in "OU" else f"{ids.dtype}"


def _refuse_twins(ids: Ids) -> None:
    """No id twice. Of strings the hashes are held, 8 bytes each; only those whose hashes meet are compared."""
    if ids.dtype != np.object_:
        numbers = ids.array()
        if not bool(np.all(numbers[1:] > numbers[:-1])):  # ascending ids are distinct, and common
            checks.distinct(numbers, ids.title)
        return
    hashes = _digest(ids)
    met = hashes[1:][hashes[1:] == hashes[:-1]]
    if len(met):
        alike = set(met.tolist())
        suspects = [value for _, values in ids.chunks() for value in values if hash(value) in alike]
        checks.distinct(np.array(suspects, np.object_), ids.title)


def _refuse_others(second: Ids, first: Ids) -> None:
    """The same ids in the same order, which makes them as distinct as the first are."""
    checks.same_length({first.title: first.n, second.title: second.n})
    if first.dtype != second.dtype:
        raise InputError(f"{first.title} holds {_tell_kind(first)}, {second.title} holds {_tell_kind(second)}")
    for start, one, other in _walk_together(first, second):
        unlike = one != other
        if unlike.any():
            place = int(np.argmax(unlike))
            told = f"{first.title} has {one[place]} in row {start + place}, where {second.title} has {other[place]}"
            if np.array_equal(_digest(first), _digest(second)):
                told += ": the ids are the same in another order, so sort both files by id"
            raise InputError(f"the ids do not match: {told}")


def _walk_together(first: Ids, second: Ids) -> Iterator[tuple[int, npt.NDArray[Any], npt.NDArray[Any]]]:
    """(first row, ids, ids) over two files that may be cut into unlike batches."""
    others = second.chunks()
    ahead = np.empty(0, second.dtype)
    for start, chunk in first.chunks():
        while len(ahead) < len(chunk):
            ahead = np.concatenate([ahead, next(others)[1]])
        yield start, chunk, ahead[: len(chunk)]
        ahead = ahead[len(chunk) :]


def _digest(ids: Ids) -> npt.NDArray[np.int64]:
    """The ids, or of strings their hashes, in ascending order: 8 bytes a row."""
    pieces = ids.chunks()
    if ids.dtype == np.object_:
        pieces = ((start, np.fromiter(map(hash, values), np.int64, len(values))) for start, values in pieces)
    numbers = tables.fill(np.empty(ids.n, np.int64), pieces)
    numbers.sort()
    return numbers


def _index_ids(wanted: npt.NDArray[Any]) -> tuple[Callable[[npt.NDArray[Any]], npt.NDArray[np.int64]], int]:
    """(a function from ids to their places among the distinct wanted ones, or -1; how many these are)."""
    if wanted.dtype == np.object_:
        places = {value: place for place, value in enumerate(dict.fromkeys(wanted.tolist()))}
        return lambda ids: np.array([places.get(value, -1) for value in ids.tolist()], np.int64), len(places)
    distinct = np.unique(wanted)

    def find(ids: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        place = np.searchsorted(distinct, ids)
        place[place == len(distinct)] = 0
        return np.where(distinct[place] == ids, place, -1) if len(distinct) else np.full(len(ids), -1, np.int64)

    return find, len(distinct)


# Listings.


def _read_listing(path: Path, name: str, ids: Ids | None, id_column: str | None) -> tuple[npt.NDArray[Any], bool]:
    """(the values, whether they say that they are rows)."""
    if path.suffix.lower() in (".txt", ".csv"):
        return _read_lines(path, name, ids is None or ids.dtype != np.object_, id_column)
    opened = tables.open_path(path, name)
    if not isinstance(opened, Table):
        if opened.ndim != 1:
            raise InputError(f"{name}: {path} must have one dimension, got shape {opened.shape}")
        return opened, False
    if ids is not None and id_column in opened.types:
        return opened.read(str(id_column)), False
    key = opened.find("id", tables.ID_NAMES) if ids is not None else None
    if key is not None:
        return opened.read(key), False
    row = opened.find("rows", tables.VECTOR_NAMES["rows"])
    if row is not None:
        return opened.read(row), True
    has_ids = any(column.lower() in tables.ID_NAMES for column in opened.types)
    raise InputError(
        f"{name}: {path} has no column of rows (row)"
        + (" or ids (id)" if ids is not None else "")
        + f": it has {opened.tell_columns()}"
        + (", and the pool has no ids" if ids is None and has_ids else "")
    )


def _read_lines(path: Path, name: str, numbers: bool, id_column: str | None) -> tuple[npt.NDArray[Any], bool]:
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{name}: {path} cannot be read as text: {tables.first_line(error)}") from error
    heading = lines[0].lower() if lines else ""
    are_rows = heading in tables.VECTOR_NAMES["rows"]
    if are_rows or heading in tables.ID_NAMES or (id_column is not None and heading == id_column.lower()):
        lines[0] = ""
    if not (numbers or are_rows):
        return np.array([line for line in lines if line], np.object_), False
    try:
        return np.array([int(line) for line in lines if line], np.int64), are_rows
    except (ValueError, OverflowError):
        place = next(place for place, line in enumerate(lines, 1) if line and not _WHOLE.fullmatch(line))
        raise InputError(
            f"{name}: line {place} of {path} is {lines[place - 1]!r}: one whole number a line is needed"
        ) from None
