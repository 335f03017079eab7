"""Questions in files: a table with a column of ids or rows and a column of classes, read and told again.

Inside, rows and classes are numbers. A class that is a name is numbered by its first appearance; an id is a row of the
pool, or where no other file tells of the pool's rows, numbered in the same way. Names appear only here and at the
doors. Nothing is written here.
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


@dataclass(frozen=True)
class Columns:
    """How a file of questions calls its columns, where their names do not say so."""

    ids: str | None = None
    classes: str | None = None


@dataclass(frozen=True, eq=False)
class Questions:
    """The pairs of a file, and what their numbers stand for.

    ids: the pool's, if it has any. own_ids: those of the file, if rows are numbered by it. class_names: if classes are
    not numbers.
    """

    pairs: Pairs
    columns: Columns
    ids: Ids | None
    own_ids: Values | None
    class_names: Values | None

    def tell(self, index: Numbers) -> dict[str, Values]:
        """The columns of these questions, as the files have them: id, row, class."""
        rows, classes = self.pairs.rows[index], self.pairs.classes[index]
        told: dict[str, Values] = {}
        if self.own_ids is not None:
            told["id"] = self.own_ids[rows]
        else:
            told |= {} if self.ids is None else {"id": self.ids.take(rows)}
            told["row"] = rows
        return told | {"class": classes if self.class_names is None else self.class_names[classes]}

    def find(self, path: Path, name: str) -> Numbers:
        """The places of the questions that a file lists: a table as the pairs' own, .npy of places or a mask."""
        opened = tables.open_source(path, name)
        title = f"{name} ({path})"
        if isinstance(opened, Table):
            rows, classes = self.read(opened)
            try:
                return np.unique(self.pairs.find(rows, classes))
            except InputError as error:
                raise InputError(f"{title}: {error}") from error
        if opened.dtype == np.bool_:
            checks.same_length({str(path): len(opened), "the pairs": len(self.pairs)})
            return np.flatnonzero(opened)
        return checks.rows(opened, len(self.pairs), title, kind="pair")

    def refuse_others(self, path: Path) -> None:
        """A file with a number a pair that names its pairs must name these, in this order."""
        opened = tables.open_source(path, "predictions")
        if not isinstance(opened, Table) or _find_classes(opened, self.columns) is None:
            return
        checks.same_length({str(path): opened.n, "the pairs": len(self.pairs)})
        rows, classes = self.read(opened)
        unlike = (rows != self.pairs.rows) | (classes != self.pairs.classes)
        if unlike.any():
            raise InputError(f"{path} and the pairs differ in pair {int(unlike.argmax())}: bring both into one order")

    def read(self, table: Table) -> tuple[Values, Values]:
        """The rows and classes of another table, by the same numbers."""
        key, classes = _require_columns(table, self.columns, self.ids is not None or self.own_ids is not None)
        if self.own_ids is not None and _is_row(key):
            raise InputError(
                f"{table.describe(key)} holds rows, but the pairs have ids, and no file says which row an id is: "
                "give the ids there too"
            )
        rows = _number(table, key, self.ids, self.own_ids)
        return rows, _number(table, classes, None, self.class_names)


def read_questions(
    path: Path, ids: Ids | None, columns: Columns, *, rows_known: bool, classes_known: bool
) -> Questions:
    """The questions of a table, found to be distinct.

    rows_known, classes_known: whether other files speak of the pool's rows, and of all classes by their numbers.
    """
    table = tables.open_source(path, "pairs")
    if not isinstance(table, Table):
        raise InputError(f"pairs: {path} has no named columns: a .parquet file with id or row, and class, is needed")
    key, classes = _require_columns(table, columns, ids is not None or not rows_known)
    own_ids = None
    if ids is None and not rows_known:
        if columns.ids is not None:
            table.require(columns.ids)  # no other file could have it
        if not _is_row(key):
            own_ids = table.encode(key)[0]
            check_id_dtype(own_ids.dtype, table.describe(key))
    names = table.encode(classes)[0] if table.dtype(classes) == np.object_ else None
    if names is not None and classes_known:
        raise InputError(
            f"{table.describe(classes)} holds names such as {names[:1].tolist()}: numbers of the columns of the "
            "predictions are needed, 0 the first"
        )
    rows, numbers = _number(table, key, ids, own_ids), _number(table, classes, None, names)
    try:
        return Questions(Pairs(rows, numbers), columns, ids, own_ids, names)
    except InputError as error:
        raise InputError(f"pairs ({path}): {error}") from error


def _require_columns(table: Table, columns: Columns, by_id: bool) -> tuple[str, str]:
    """(the column of ids or rows, that of classes)."""
    key = None
    if by_id:
        key = columns.ids if columns.ids in table.types else table.find("ids", tables.ID_NAMES)
    key = key or table.find("rows", tables.VECTOR_NAMES["rows"])
    classes = _find_classes(table, columns)
    if key is None or classes is None:
        missing = "classes (class)" if key else "ids (id) or rows (row)" if by_id else "rows (row)"
        told = "" if key or by_id else ", and the pool has no ids"
        raise InputError(f"{table.title} has no column of {missing}{told}: it has {table.list_columns()}")
    return key, classes


def _find_classes(table: Table, columns: Columns) -> str | None:
    if columns.classes is not None:
        return table.require(columns.classes)
    return table.find("classes", tables.VECTOR_NAMES["classes"])


def _is_row(column: str) -> bool:
    return column.lower() in tables.VECTOR_NAMES["rows"]


def _number(table: Table, column: str, ids: Ids | None, names: Values | None) -> Values:
    """A number for each value of a column: the row of its id, its place among the names, or itself."""
    title = table.describe(column)
    if (ids is None and names is None) or _is_row(column):
        values = table.read(column)
        if values.dtype.kind not in "iu":
            raise InputError(f"{title} must hold whole numbers, got {table.types[column]}")
        return values
    distinct, places = table.encode(column)
    if ids is not None:
        return match_ids(distinct, ids, title)[places]
    assert names is not None
    known = {value: number for number, value in enumerate(names.tolist())}
    numbers = [known.get(value, -1) for value in distinct.tolist()]
    if -1 in numbers:
        raise InputError(f"{title} holds {distinct[numbers.index(-1)]!s}, which is not among the pairs'")
    return np.array(numbers, np.int64)[places]
