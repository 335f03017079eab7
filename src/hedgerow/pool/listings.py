"""Listings: files that name some of the pool's rows by id or by row number, such as those that are labeled.

A listing is a table (Parquet, JSON lines) with a column of ids or one called `row`, a `.npy` file (ids, rows, or a mask
of the pool), a `.csv` file with such a column, or text with one id or row per line, with a heading or without. Where
the pool has ids, values without a heading are ids.
"""

import csv
import io
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError
from hedgerow.pool import sources, tables
from hedgerow.pool.ids import Ids, describe_kind, match_ids
from hedgerow.pool.tables import Table
from hedgerow.pool.texts import find_delimiter

_WHOLE = re.compile(r"[+-]?\d{1,18}")  # up to 18 digits always fit in int64


@dataclass(frozen=True, eq=False)
class Listing:
    """rows: those of the pool that are listed, ascending, each once. unknown: how many listed ids the pool lacks."""

    rows: npt.NDArray[np.int64]
    unknown: int = 0
    first_unknown: str = ""  # the first of them, and where it is listed


def find_rows(
    source: Any, name: str, n: int, ids: Ids | None, *, id_column: str | None = None
) -> npt.NDArray[np.int64]:
    """The rows of a pool of n rows that a source lists, ascending, each once; an id that the pool lacks is an error."""
    listing = read_listing(source, name, n, ids, id_column=id_column)
    if listing.unknown:
        raise InputError(
            f"{name}: {listing.unknown:,} of the ids listed are not in the pool, the first is {listing.first_unknown}: "
            "leave them out"
        )
    return listing.rows


@dataclass(frozen=True, eq=False)
class Labels:
    """What a listing says about its rows: rows of the pool, as listed, and the label of each. unknown: as above."""

    rows: npt.NDArray[np.int64]
    values: npt.NDArray[Any]
    unknown: int = 0


def read_labels(
    source: Any, name: str, n: int, ids: Ids | None, *, column: str | None = None, id_column: str | None = None,
    partial: bool = True,
) -> list[Labels]:  # fmt: skip
    """The labels in each of the tables and files of a source that have a column of labels; none for the others.

    column: what a listing calls its labels, where that is not one of the usual names; then one of them must have it.
    The rest is as in `read_listing`.
    """
    found, seen = [], []
    for one in _split(source, name):
        if isinstance(one, str) and sources.file_kind(one) not in ("CSV", "Parquet", "JSON lines"):
            continue
        opened = tables.open_source(one, name)
        if not isinstance(opened, Table):
            continue
        seen.append(opened)
        if column is None:
            key = opened.find("labels", tables.VECTOR_NAMES["labels"])
        else:
            key = column if column in opened.types else None
        if key is not None:
            found.append(_locate_labels(opened, opened.read(key), name, n, ids, id_column, partial))
    if column is not None and not found:
        if not seen:
            raise InputError(f"{name}: no table was given that could have a column {column!r}")
        seen[0].require(column)
    return found


def _locate_labels(
    opened: Table, values: npt.NDArray[Any], name: str, n: int, ids: Ids | None, id_column: str | None, partial: bool
) -> Labels:
    """The labels of one table with the rows that they belong to."""
    keys, are_rows = _read_keys(opened, name, ids, id_column)
    title = f"{name} ({opened.title})"
    if ids is None or are_rows:
        _check_rows(keys, n, title, are_rows)
        return Labels(keys.astype(np.int64), values)
    if opened.title.lower().endswith(".csv") and ids.dtype == np.object_ and keys.dtype.kind in "iu":
        keys = keys.astype(np.str_).astype(np.object_)  # "7" and 7 look the same there
    rows = match_ids(keys, ids, title, partial=partial)
    known = rows >= 0
    return Labels(rows[known], values[known], int(np.count_nonzero(~known)))


def read_listing(
    source: Any, name: str, n: int, ids: Ids | None, *, id_column: str | None = None, partial: bool = True
) -> Listing:
    """The rows that a source lists: a table, files at one location, or a list of locations, of all of them together.

    `ids`: those of the pool, if it has any. `id_column`: what a listing calls its column of ids, where that is not one
    of the usual names. `partial`: count ids that the pool lacks; otherwise they are an error.
    """
    listed = np.zeros(n, np.bool_)
    unknown, first = 0, ""
    for one in _split(source, name):
        values, are_rows = _read_values(one, name, ids, id_column)
        title = f"{name} ({one})" if isinstance(one, str) else name
        if values.dtype == np.bool_:
            checks.same_length({title: len(values), "the pool": n})
            listed |= values
        elif ids is not None and not are_rows:
            rows = match_ids(values, ids, title, partial=partial)
            listed[rows[rows >= 0]] = True
            if (rows < 0).any():
                first = first or f"{values[int(np.argmin(rows))]!s} in {title}"
                unknown += int((rows < 0).sum())
        else:
            listed[_check_rows(values, n, title, are_rows)] = True
    return Listing(np.flatnonzero(listed), unknown, first)


def _split(source: Any, name: str) -> list[Any]:
    """The files of a location one by one, so that they may be of different kinds; anything else as it is."""
    if not sources.is_location(source):
        return [source]
    each = source if isinstance(source, (list, tuple)) else [source]
    return [file for one in each for file in sources.find_files(one, name)]


def _check_rows(values: npt.NDArray[Any], n: int, title: str, are_rows: bool) -> npt.NDArray[np.int64]:
    if len(values) and values.dtype.kind not in "iu":
        needed = "row numbers" if are_rows else "row numbers, because the pool has no ids"
        raise InputError(f"{title} holds {describe_kind(values)} where it must hold {needed}")
    return checks.rows(np.unique(values), n, title)


def _read_values(source: Any, name: str, ids: Ids | None, id_column: str | None) -> tuple[npt.NDArray[Any], bool]:
    """(the values, whether they are rows by name)."""
    if isinstance(source, str) and sources.file_kind(source) in ("CSV", "text"):
        return _read_lines(source, name, ids, id_column)
    opened = tables.open_source(source, name)
    if not isinstance(opened, Table):
        if opened.ndim != 1:
            raise InputError(f"{name}: {source} must have one dimension, got shape {opened.shape}")
        return opened, False
    return _read_keys(opened, name, ids, id_column)


def _read_keys(opened: Table, name: str, ids: Ids | None, id_column: str | None) -> tuple[npt.NDArray[Any], bool]:
    """(the column of ids or rows of a table, whether it holds rows)."""
    if ids is not None and id_column in opened.types:
        return opened.read(str(id_column)), False
    key = opened.find_ids_column() if ids is not None else None
    if key is not None:
        return opened.read(key), False
    row = opened.find("rows", tables.VECTOR_NAMES["rows"])
    if row is not None:
        return opened.read(row), True
    has_ids = any(column.lower() in tables.ID_NAMES for column in opened.types)
    raise InputError(
        f"{name}: {opened.title} has no column of rows (row)"
        + (" or ids (id)" if ids is not None else "")
        + f": it has {opened.list_columns()}"
        + (", and the pool has no ids" if ids is None and has_ids else "")
    )


def _read_lines(path: str, name: str, ids: Ids | None, id_column: str | None) -> tuple[npt.NDArray[Any], bool]:
    """One value per line; of a .csv file with several columns the one whose heading says ids or rows."""
    try:
        with sources.open_bytes(path) as file:
            content = file.read().decode("utf-8-sig")  # spreadsheets put a mark before the text
        lines = io.StringIO(content, newline="")  # unlike `splitlines`, which ends a line at U+2028, within a value
        is_csv = sources.file_kind(path) == "CSV"
        mark = _choose_delimiter(content, id_column)
        records = list(csv.reader(lines, delimiter=mark)) if is_csv else [[line] for line in lines]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{name}: {path} cannot be read as text: {sources.first_line(error)}") from error
    place, are_rows = _find_heading(records[0] if records else [], f"{name}: {path}", ids, id_column)
    values = [record[place].strip() if len(record) > place else "" for record in records]
    if are_rows is not None:
        values[0] = ""
    if ids is not None and ids.dtype == np.object_ and not are_rows:
        return np.array([value for value in values if value], np.object_), False
    try:
        return np.array([int(value) for value in values if value], np.int64), bool(are_rows)
    except (ValueError, OverflowError):
        line = next(line for line, value in enumerate(values, 1) if value and not _WHOLE.fullmatch(value))
        raise InputError(
            f"{name}: line {line} of {path} is {values[line - 1]!r:.60}: one whole number per line is needed"
        ) from None


def _choose_delimiter(content: str, id_column: str | None) -> str:
    """A semicolon or a tab only where it gives a heading that is known: without one they belong to an id."""
    mark = find_delimiter(content)
    heading = next(csv.reader(io.StringIO(content, newline=""), delimiter=mark), [])
    known = {*tables.VECTOR_NAMES["rows"], *tables.ID_NAMES, *([id_column.lower()] if id_column else [])}
    return mark if known & {field.strip().lower() for field in heading} else ","


def _find_heading(record: list[str], title: str, ids: Ids | None, id_column: str | None) -> tuple[int, bool | None]:
    """(the column to read, whether it is called rows rather than ids, or None if the first line is no heading)."""
    fields = [field.strip().lower() for field in record]
    as_ids = [{id_column.lower()} if id_column else set(), {"id"}, tables.ID_NAMES] if ids is not None else []
    for known in [*as_ids, tables.VECTOR_NAMES["rows"]]:
        for place, field in enumerate(fields):
            if field in known:
                return place, known is tables.VECTOR_NAMES["rows"]
    if len(fields) > 1 or set(fields) & tables.ID_NAMES:
        wanted = "row, and the pool has no ids" if ids is None else "id or row"
        raise InputError(f"{title} has no column called {wanted}: it has {', '.join(fields)}")
    return 0, None
