"""Ids, the user's keys: read, compared between inputs, matched to rows.

A row is a position in the pool (int64); an id is the user's key for it (int64 or string, distinct). Ids are read from
their column in batches whenever they are needed, so that ten million strings are not held at once. Past the doors only
rows travel.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError
from hedgerow.pool import tables
from hedgerow.pool.arrays import open_array
from hedgerow.pool.tables import Table

SEARCHED = 1 << 21  # ids of the pool that are searched at once, where they are strings


@dataclass(frozen=True, eq=False)
class Ids:
    """The ids of a pool's rows: int64 or strings, read from their column or array whenever they are needed.

    A small record that pickles. `title` is what messages call them. Duplicates are found by `refuse_duplicates`, which
    reads all ids, and by `align`.
    """

    n: int
    dtype: np.dtype[Any]  # int64, or object for Python strings
    title: str
    source: Table | npt.NDArray[Any]
    column: str | None = None  # of a table

    @classmethod
    def of(cls, array: Any, title: str) -> "Ids":
        """The ids in an array, one per row; duplicates are refused."""
        values = open_array(array, title)
        if values.ndim != 1:
            raise InputError(f"{title} must have one dimension, one id per row, got shape {values.shape}")
        if values.dtype == np.object_:
            values = _from_objects(values, title)
        ids = cls(len(values), check_id_dtype(values.dtype, title), title, values)
        ids.refuse_duplicates()
        return ids

    def chunks(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """(first row, ids), in order, from row `start` to `stop`."""
        start, stop = checks.span(start, stop, self.n)
        if isinstance(self.source, Table):
            assert self.column is not None
            pieces = self.source.chunks(self.column, start, stop)
        else:
            step = tables.VECTOR_ROWS
            pieces = ((at, self.source[at : min(at + step, stop)]) for at in range(start, stop, step))
        for at, values in pieces:
            yield at, self._convert(values)

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """The ids of the rows from start to stop."""
        start, stop = checks.span(start, stop, self.n)
        return tables.fill(np.empty(stop - start, self.dtype), self.chunks(start, stop), start)

    def array(self) -> npt.NDArray[Any]:
        """All ids, as one array."""
        return self.read(0, self.n)

    def take(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """The ids of `rows`, in their order; of Parquet files only the row groups that hold them are read."""
        if not isinstance(self.source, Table):
            return self._convert(self.source[rows])
        assert self.column is not None
        taken = np.empty(len(rows), self.dtype)
        for places, (values,) in self.source.gather([self.column], rows):
            if values.null_count:
                place = values.is_null().to_pylist().index(True)
                tables.refuse_nulls(values.slice(place, 1), int(rows[places[place]]), 1, self.title)
            taken[places] = self._convert(tables.as_numpy(values))
        return taken

    def _convert(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if values.dtype == np.uint64 and len(values) and values.max() > np.iinfo(np.int64).max:
            raise InputError(f"{self.title} holds {values.max()}, which is beyond int64: use strings")
        return values.astype(self.dtype, copy=False)

    def refuse_duplicates(self) -> None:
        """Raises `InputError` if an id occurs twice. Of strings only hashes are held, 8 bytes per row."""
        if self.dtype != np.object_:
            numbers = self.array()
            if not bool(np.all(numbers[1:] > numbers[:-1])):  # ascending ids are distinct, and common
                checks.distinct(numbers, self.title)
            return
        hashes = _sort_hashes(self)
        met = hashes[1:][hashes[1:] == hashes[:-1]]
        if len(met):
            equal = set(met.tolist())
            suspects = [value for _, values in self.chunks() for value in values if hash(value) in equal]
            checks.distinct(np.array(suspects, np.object_), self.title)


def _from_objects(values: npt.NDArray[Any], title: str) -> npt.NDArray[Any]:
    """Python objects that are all strings as they are, all whole numbers as int64."""
    kinds = {type(value) for value in values.tolist()}
    if all(issubclass(kind, str) for kind in kinds):
        return values
    if all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in kinds):
        try:
            return values.astype(np.int64)
        except OverflowError:
            raise InputError(f"{title} holds a number beyond int64: use strings") from None
    odd = next(value for value in values.tolist() if not isinstance(value, str))
    raise InputError(f"{title} holds {odd!r}: ids must be all strings or all whole numbers")


def find_ids(table: Table, column: str | None = None) -> Ids | None:
    """The ids of a table, not yet read; None if it has no id column."""
    if column is None:
        column = table.find_ids_column()
    if column is None:
        return None
    title = table.describe(table.require(column))
    # Ids outlive the table: they must not keep its other columns.
    return Ids(table.n, check_id_dtype(table.dtype(column), title), title, table.select([column]), column)


def open_ids(source: Any, column: str | None = None, *, name: str = "ids") -> Ids | None:
    """The ids of a source, all read and found to be distinct; None if it has no id column.

    `name`: what messages call the source.
    """
    opened = tables.open_rows(source, name)
    if not isinstance(opened, Table):
        tables.refuse_column(column, name, source)
        return None
    ids = find_ids(opened, column)
    if ids is not None:
        ids.refuse_duplicates()
    return ids


def align(ids: Ids, like: Ids, *, partial: bool = False) -> npt.NDArray[np.int64] | None:
    """For each row of `like`, the row of `ids` with the same id; None if both have the same ids in the same order.

    `partial`: -1 for a row whose id `ids` does not have; otherwise that is an error. `ids` may have more ids than
    `like`. If the orders differ, both are held in memory: about 110 bytes per row for strings of a dozen letters.
    """
    if ids.dtype != like.dtype:
        raise InputError(f"{like.title} holds {describe_kind(like)}, but {ids.title} holds {describe_kind(ids)}")
    if ids.n == like.n and _are_equal(ids, like):
        return None
    import pyarrow.compute as pc

    found = pc.index_in(_as_arrow(like), value_set=_as_arrow(ids).combine_chunks())
    rows: npt.NDArray[np.int64] = found.fill_null(-1).to_numpy().astype(np.int64)
    absent = rows < 0
    _refuse_duplicates_of(ids, like, rows[~absent])
    if absent.any() and not partial:
        row = int(np.argmax(absent))
        raise InputError(
            f"{ids.title} lacks {int(absent.sum()):,} of the {like.n:,} ids of {like.title}, the first is "
            f"{like.read(row, row + 1)[0]!s} in row {row}"
        )
    return rows


def match_ids(wanted: npt.NDArray[Any], ids: Ids, name: str, *, partial: bool = False) -> npt.NDArray[np.int64]:
    """The row of each wanted id among the pool's `ids`, in the order wanted; an id may be wanted twice.

    `partial`: -1 for an id that the pool does not have; otherwise that is an error. The pool's ids are not held.
    """
    if len(wanted) and check_id_dtype(wanted.dtype, name) != ids.dtype:
        raise InputError(f"{name} holds {describe_kind(wanted)}, but the pool's ids are {describe_kind(ids)}")
    wanted = wanted.astype(ids.dtype, copy=False)
    rows = _match_texts(wanted, ids) if ids.dtype == np.object_ else _match_numbers(wanted, ids)
    unknown = rows < 0
    if unknown.any() and not partial:
        raise refuse_unknown(name, int(unknown.sum()), len(wanted), wanted[int(np.argmax(unknown))])
    return rows


def refuse_unknown(name: str, count: int, n: int, first: Any, pool: str = "the pool") -> InputError:
    """The error to raise for ids that the pool does not have."""
    return InputError(
        f"{name}: {count:,} of {n:,} ids are not in {pool}, the first is {first!s}: remove them, or pass "
        "ignore_unknown=True (--ignore-unknown) to leave them out"
    )


# Comparing.


def check_id_dtype(dtype: np.dtype[Any], title: str) -> np.dtype[Any]:
    """The dtype that ids of this dtype are held in: int64, or object for Python strings; others are refused."""
    if dtype.kind in "iu":
        return np.dtype(np.int64)
    if dtype.kind in "OU":
        return np.dtype(np.object_)
    raise InputError(f"{title} holds {dtype}: ids must be whole numbers or strings")


def describe_kind(ids: Ids | npt.NDArray[Any]) -> str:
    """What messages call values of this type."""
    return "whole numbers" if ids.dtype.kind in "iu" else "strings" if ids.dtype.kind in "OU" else f"{ids.dtype}"


def _are_equal(first: Ids, second: Ids) -> bool:
    """Whether two of the same length have the same ids in the same order; their batches may differ in size."""
    others = second.chunks()
    ahead = np.empty(0, second.dtype)
    for _, chunk in first.chunks():
        while len(ahead) < len(chunk):
            ahead = np.concatenate([ahead, next(others)[1]])
        if (chunk != ahead[: len(chunk)]).any():
            return False
        ahead = ahead[len(chunk) :]
    return True


def _refuse_duplicates_of(ids: Ids, like: Ids, matched: npt.NDArray[np.int64]) -> None:
    """Looks for duplicates where the matched rows of `ids` do not rule them out: they do if each is matched once."""
    times = np.bincount(matched, minlength=ids.n)
    if (times != 1).any():
        ids.refuse_duplicates()
    if len(matched) < like.n or (times > 1).any():
        like.refuse_duplicates()


def _as_arrow(ids: Ids) -> Any:
    """All ids as one chunked Arrow array: 64-bit offsets, because the text may exceed 2 GiB."""
    import pyarrow as pa

    if ids.dtype != np.object_:
        return pa.chunked_array([tables.as_arrow(values) for _, values in ids.chunks()], pa.int64())
    return pa.chunked_array(list(_iterate_arrow(ids)), pa.large_string())


def _iterate_arrow(ids: Ids) -> Iterator[Any]:
    """Ids that are strings as Arrow arrays, in order."""
    import pyarrow as pa

    if isinstance(ids.source, Table):
        for _, values in ids.source.arrow_chunks(str(ids.column)):
            yield tables.as_text(values, pa.large_string())
    else:
        for _, values in ids.chunks():
            yield pa.array(values, pa.large_string())


def _sort_hashes(ids: Ids) -> npt.NDArray[np.int64]:
    """The hashes of strings in ascending order: 8 bytes per row."""
    pieces = ((start, np.fromiter(map(hash, values), np.int64, len(values))) for start, values in ids.chunks())
    hashes = tables.fill(np.empty(ids.n, np.int64), pieces)
    hashes.sort()
    return hashes


def _match_numbers(wanted: npt.NDArray[Any], ids: Ids) -> npt.NDArray[np.int64]:
    """The row of each wanted id among those that are whole numbers, or -1."""
    distinct = np.unique(wanted)
    found = np.full(len(distinct), -1, np.int64)
    for start, chunk in ids.chunks() if len(distinct) else ():
        place = np.searchsorted(distinct, chunk)
        place[place == len(distinct)] = 0
        hits = np.flatnonzero(distinct[place] == chunk)
        found[place[hits]] = start + hits
    return found[np.searchsorted(distinct, wanted)]


def _match_texts(wanted: npt.NDArray[Any], ids: Ids) -> npt.NDArray[np.int64]:
    """The row of each wanted id among those that are strings, or -1."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        coded = pa.array(wanted, pa.large_string()).dictionary_encode()
    except UnicodeEncodeError:
        raise InputError("an id holds half of a character (a lone surrogate): ids must be text") from None
    found = np.full(len(coded.dictionary), -1, np.int64)
    start = 0
    for part in _join(_iterate_arrow(ids)) if len(wanted) else ():
        places = pc.index_in(part, value_set=coded.dictionary)
        hits = np.flatnonzero(places.is_valid())
        found[places.drop_null().to_numpy()] = start + hits
        start += len(part)
    rows: npt.NDArray[np.int64] = found[coded.indices.to_numpy()]
    return rows


def _join(pieces: Iterator[Any]) -> Iterator[Any]:
    """Arrow arrays joined to longer ones: each search begins by hashing all that is searched for."""
    import pyarrow as pa

    held: list[Any] = []
    for piece in pieces:
        held.append(piece)
        if sum(map(len, held)) >= SEARCHED:
            yield pa.concat_arrays(held)
            held = []
    if held:
        yield pa.concat_arrays(held)
