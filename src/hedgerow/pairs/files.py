"""Pairs in files: a table with a column of ids or rows and a column of classes.

Inside, rows and classes are numbers. A class that has a name is numbered by first appearance; an id is a row of the
pool, or, if no other input tells the rows of the pool, numbered in the same way. Names and ids appear only here and at
the doors. Nothing is written here.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError
from hedgerow.pairs.pairs import Pairs
from hedgerow.pool import tables
from hedgerow.pool.ids import Ids, check_id_dtype, match_ids
from hedgerow.pool.tables import Table

Values = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]

UNKNOWN = -1


@dataclass(frozen=True)
class Columns:
    """The names of the columns in files of pairs, where they are not the usual ones."""

    ids: str | None = None
    classes: str | None = None


@dataclass(frozen=True, eq=False)
class NamedPairs:
    """Pairs, and the ids and class names that their numbers stand for in files.

    ids: of the pool, if it has any. own_ids: of the file of pairs, if the rows are numbered by it. class_names: if
    classes are not numbers.
    """

    pairs: Pairs
    columns: Columns = Columns()
    ids: Ids | None = None
    own_ids: Values | None = None
    class_names: Values | None = None

    def take_ids(self, rows: Numbers) -> Values | None:
        """The ids of these rows, if there are ids."""
        if self.own_ids is not None:
            return self.own_ids[rows]
        return None if self.ids is None else self.ids.take(rows)

    def name_classes(self, classes: Values) -> Values:
        """The names of these classes, or the numbers if classes have no names."""
        return classes if self.class_names is None else self.class_names[classes]

    def find(self, path: str | Path, name: str, *, ignore_unknown: bool = False) -> tuple[Numbers, int]:
        """(the positions of the pairs that a file lists, how many it lists that are not among the pairs).

        A table with the columns of the pairs' own file (.parquet, .csv, .jsonl), or .npy of positions or a mask.
        """
        opened = tables.open_source(path, name)
        if isinstance(opened, Table):
            found = self.locate(opened, f"{name} ({path})", ignore_unknown)
            return np.unique(found[found != UNKNOWN]), int(np.count_nonzero(found == UNKNOWN))
        if opened.dtype == np.bool_:
            checks.same_length({str(path): len(opened), "the pairs": len(self.pairs)})
            return np.flatnonzero(opened), 0
        return checks.rows(opened, len(self.pairs), f"{name} ({path})", kind="pair"), 0

    def locate(self, table: Table, title: str, ignore_unknown: bool) -> Numbers:
        """For each row of a table the position of its pair here; -1 for one that is not here."""
        rows, classes = self._read(table, ignore_unknown)
        known = (rows != UNKNOWN) & (classes != UNKNOWN)
        found = np.full(table.n, UNKNOWN, np.int64)
        try:
            found[known] = self.pairs.find(rows[known], classes[known], ignore_unknown=ignore_unknown)
        except InputError as error:
            raise InputError(f"{title}: {error}") from error
        return found

    def arrange(
        self, table: Table, values: Values, title: str, ignore_unknown: bool
    ) -> tuple[Values, npt.NDArray[np.bool_] | None, int]:
        """(a table's values in the order of the pairs, the pairs that it lacks, how many of its own are unknown)."""
        found = self.locate(table, title, ignore_unknown)
        known = found != UNKNOWN
        unknown = len(found) - int(np.count_nonzero(known))
        if not unknown and np.array_equal(found, np.arange(len(self.pairs))):
            return values, None, 0
        counts = np.bincount(found[known], minlength=len(self.pairs))
        if len(counts) and counts.max() > 1:
            pair = int(counts.argmax())
            raise InputError(
                f"{title} has {counts[pair]} rows for pair {pair} (row {self.pairs.rows[pair]}, class "
                f"{self.pairs.classes[pair]}): one per pair is needed"
            )
        arranged = np.zeros(len(self.pairs), values.dtype)
        arranged[found[known]] = values[known]
        absent = counts == 0
        return arranged, absent if absent.any() else None, unknown

    def _read(self, table: Table, ignore_unknown: bool) -> tuple[Numbers, Numbers]:
        """The rows and classes of another table, by the same numbers; -1 for unknown ids and names."""
        key, classes = _require_columns(table, self.columns, self.ids is not None or self.own_ids is not None)
        if self.own_ids is not None and _is_row(key):
            raise InputError(
                f"{table.describe(key)} holds rows, but the pairs have ids, and no input tells which row an id is: "
                "give a column of ids there too"
            )
        rows = _number(table, key, self.ids, self.own_ids, ignore_unknown)
        return rows, _number(table, classes, None, self.class_names, ignore_unknown)


def read_pairs(
    table: Any, ids: Ids | None, columns: Columns, *, rows_known: bool, classes_known: bool, title: str
) -> NamedPairs:
    """The pairs of a table, which must be distinct.

    rows_known, classes_known: whether other inputs have the pool's rows, and all classes by their numbers.
    """
    if not isinstance(table, Table):
        raise InputError(f"pairs: {title} has no named columns: a table with id or row, and class, is needed")
    key, classes = _require_columns(table, columns, ids is not None or not rows_known)
    own_ids = None
    if ids is None and not rows_known and not _is_row(key):
        own_ids = table.encode(key)[0]
        check_id_dtype(own_ids.dtype, table.describe(key))
    names = table.encode(classes)[0] if table.dtype(classes) == np.object_ else None
    if names is not None and classes_known:
        raise InputError(
            f"{table.describe(classes)} holds names such as {names[:1].tolist()}: numbers of the columns of the "
            "predictions are needed, 0 for the first"
        )
    rows: Any = _number(table, key, ids, own_ids)
    numbers: Any = _number(table, classes, None, names)
    try:
        return NamedPairs(Pairs(rows, numbers), columns, ids, own_ids, names)
    except InputError as error:
        raise InputError(f"pairs ({title}): {error}") from error


def names_pairs(table: Any, columns: Columns) -> bool:
    """Whether a source is a table that says which pair each of its rows is about."""
    return isinstance(table, Table) and _find_classes(table, columns, require=False) is not None


def _require_columns(table: Table, columns: Columns, by_id: bool) -> tuple[str, str]:
    """(the column of ids or rows, that of classes)."""
    key = None
    if by_id:
        key = columns.ids if columns.ids in table.types else table.find("ids", tables.ID_NAMES)
    key = key or table.find("rows", tables.VECTOR_NAMES["rows"])
    classes = _find_classes(table, columns)
    if key is None or classes is None:
        missing = "classes (class)" if key else "ids (id) or rows (row)" if by_id else "rows (row)"
        reason = "" if key or by_id else ", and the pool has no ids"
        raise InputError(f"{table.title} has no column of {missing}{reason}: it has {table.list_columns()}")
    return key, classes


def _find_classes(table: Table, columns: Columns, *, require: bool = True) -> str | None:
    if columns.classes is not None:
        return table.require(columns.classes) if require or columns.classes in table.types else None
    return table.find("classes", tables.VECTOR_NAMES["classes"])


def _is_row(column: str) -> bool:
    return column.lower() in tables.VECTOR_NAMES["rows"]


def _number(table: Table, column: str, ids: Ids | None, names: Values | None, ignore_unknown: bool = False) -> Numbers:
    """A number for each value of a column: the row of its id, its position among the names, or the value itself."""
    title = table.describe(column)
    if (ids is None and names is None) or _is_row(column):
        values = table.read(column)
        if values.dtype.kind not in "iu":
            raise InputError(f"{title} must hold whole numbers, got {table.types[column]}")
        if len(values) and values.min() < 0:
            raise InputError(f"{title} holds {values.min()} in row {int(values.argmin())}: it must be 0 or more")
        return values
    distinct, positions = table.encode(column)
    wanted = names if names is not None else ids
    assert wanted is not None
    is_csv = table.title.lower().endswith(".csv")
    if is_csv and wanted.dtype == np.object_ and distinct.dtype.kind in "iu":  # "7" and 7 look the same there
        distinct = distinct.astype(np.str_).astype(np.object_)
    if names is None:
        assert ids is not None
        return match_ids(distinct, ids, title, partial=ignore_unknown)[positions]
    known = {value: number for number, value in enumerate(names.tolist())}
    numbers = np.array([known.get(value, UNKNOWN) for value in distinct.tolist()], np.int64)
    if (numbers == UNKNOWN).any() and not ignore_unknown:
        raise InputError(f"{title} holds {distinct[numbers.argmin()]!s}, which is not among the pairs'")
    return numbers[positions]
