"""Examples shown by a template: their columns, from the campaign and from a table beside it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import pool
from hedgerow.desk.media import cut_text
from hedgerow.desk.templates import CONTENT, Part, list_fields, read_template
from hedgerow.errors import InputError
from hedgerow.pool import Ids, Table

ID = "id"


@dataclass(frozen=True, eq=False)
class Columns:
    """A table with columns to show. ids: by which its rows are found; None if ids are row numbers."""

    table: Table
    ids: Ids | None

    @classmethod
    def open(cls, source: str | Path) -> "Columns":
        """A table file; nothing but its ids is read."""
        table = pool.open_source(source, "fields")
        if not isinstance(table, Table):
            raise InputError(f"{source} has no named columns: give a CSV, JSON lines or Parquet file")
        ids = pool.find_ids(table)
        if ids is not None:
            ids.refuse_duplicates()
        return cls(table, ids)

    def read(self, wanted: Sequence[int | str], names: list[str]) -> list[dict[str, str] | None]:
        """The values of some columns for each id; None for ids that the table does not have."""
        rows = self._find(wanted)
        found: list[dict[str, str] | None] = [None] * len(wanted)
        known = np.flatnonzero(rows >= 0)
        for places, columns in self.table.gather(names, rows[known]):
            values = [column.to_pylist() for column in columns]
            for at, *row in zip(places.tolist(), *values, strict=True):
                found[known[at]] = {name: show(value) for name, value in zip(names, row, strict=True)}
        return found

    def _find(self, wanted: Sequence[int | str]) -> npt.NDArray[np.int64]:
        """The row of each id; -1 if there is none."""
        if self.ids is None:
            rows = np.array([as_number(one) for one in wanted], np.int64)
            return np.where(rows < self.table.n, rows, -1)
        numbers = self.ids.dtype != np.object_
        keys = np.array(
            [as_number(one) if numbers else str(one) for one in wanted], np.int64 if numbers else np.object_
        )
        return pool.match_ids(keys, self.ids, "fields", partial=True)


def as_number(id_: int | str) -> int:
    """An id as a number; -1 if it is none."""
    return int(id_) if isinstance(id_, int) or (id_.isascii() and id_.isdecimal()) else -1


def show(value: Any) -> str:
    """A value as text: nothing for null, JSON for lists and records."""
    if value is None:
        return ""
    return cut_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


@dataclass(frozen=True, eq=False)
class Card:
    """How examples are shown. parts: of the template. own: columns of the campaign; names: those of the table."""

    parts: list[Part]
    own: list[str]
    names: list[str]
    columns: Columns | None

    @classmethod
    def of(cls, template: str | Path | None, fields: str | Path | None, content: str | None) -> "Card | None":
        """The card of a template and a table, checked; None without a template. content: what the campaign holds."""
        if template is None:
            if fields is not None:
                raise InputError("fields are shown by a template: give --template FILE, too")
            return None
        parts = read_template(template)
        columns = None if fields is None else Columns.open(fields)
        there = {} if columns is None else columns.table.types
        own = [ID, CONTENT, *([] if content is None or content in there else [content])]
        used = list_fields(parts)
        missing = [name for name in used if name not in own and name not in there]
        if missing:
            known = ", ".join(dict.fromkeys([*own, *there]))
            more = "" if columns else "; name a table that has it with --fields"
            raise InputError(f"{template} shows {{{{{missing[0]}}}}}, but the columns are {known}{more}")
        own.remove(CONTENT)  # no value, but what a page shows without a template
        return cls(
            parts,
            [name for name in used if name in own],
            [name for name in used if name not in (*own, CONTENT)],
            columns,
        )

    def read(self, ids: Sequence[int | str], contents: Sequence[str | None]) -> list[dict[str, str] | None]:
        """The values of each example; None where the table does not have it."""
        held = self.columns.read(ids, self.names) if self.columns and self.names else [{} for _ in ids]
        own = [
            {name: str(id_) if name == ID else cut_text(content or "") for name in self.own}
            for id_, content in zip(ids, contents, strict=True)
        ]
        return [None if values is None else values | mine for values, mine in zip(held, own, strict=True)]
