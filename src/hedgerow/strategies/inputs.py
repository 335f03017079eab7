"""The inputs of a selection, opened and joined: files and tables by their ids, arrays by position.

The order of the pool, which is what `row` means, is that of the embeddings if they are given, else that of the
clusters, else that of the predictions. An input with ids is joined to the pool by them, whatever its order; one without
ids is matched by position. Predictions may lack rows of the pool: those rows are not candidates. Everything else must
cover the pool. Nothing is scored or selected here.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hedgerow import checks, pool
from hedgerow.errors import InputError, PoolExhaustedError
from hedgerow.pool import tables
from hedgerow.pool.ids import Ids, find_ids, refuse_unknown
from hedgerow.pool.sources import is_location, title_of
from hedgerow.pool.tables import Table

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

PREDICTIONS = ("probabilities", "logits", "margins", "predictions")
ORDER = ("embeddings", "clusters", *PREDICTIONS)  # the first of them that is given has the order of the pool
LEAST_COLUMNS = {"probabilities": 2, "logits": 2, "embeddings": 1}  # the matrices among them
ABSENT = -1  # instead of a row number, where an input lacks a row of the pool


@dataclass(frozen=True, eq=False)
class Input:
    """One input: its size, the ids of its rows if it has any, and its values. `title` is what messages call it.

    data: a `pool.Matrix`, a one-dimensional array, or None if only the rows matter.
    """

    title: str
    n: int
    ids: Ids | None
    data: Any


@dataclass(frozen=True, eq=False)
class Joined:
    """Inputs by name, and for each row of the pool the row of the input (None: the orders are the same)."""

    n: int
    ids: Ids | None
    inputs: Mapping[str, Input]
    rows: Mapping[str, Rows | None]
    unknown: int = 0  # rows of inputs whose ids the pool does not have

    def __contains__(self, name: str) -> bool:
        return name in self.inputs

    def find_absent(self) -> Mask | None:
        """The rows of the pool without predictions; None if there are none."""
        absent = np.zeros(self.n, np.bool_)
        for name, rows in self.rows.items():
            if rows is not None and name in PREDICTIONS:
                absent |= rows == ABSENT
        return absent if absent.any() else None

    def arrange(self, name: str, values: npt.NDArray[Any], filler: Any) -> npt.NDArray[Any]:
        """An input's values in the order of the pool, `filler` for rows that it lacks; a copy only if orders differ."""
        rows = self.rows[name]
        if rows is None:
            return values
        arranged = values[rows]
        arranged[rows == ABSENT] = filler
        return arranged

    def take_clusters(self, rows: Rows, seen: npt.NDArray[np.int32] | None) -> npt.NDArray[np.int32] | None:
        """The clusters of these rows of the pool by the numbers that were given.

        seen: the clusters as strategies see them, where large numbers are replaced. If one is beyond int32, all stay
        replaced, so that the batches of a pool have the same numbers.
        """
        if seen is None:
            return None
        places, given = self.rows["clusters"], self.inputs["clusters"].data
        if given.max(initial=0) > np.iinfo(np.int32).max:
            return seen[rows]
        return cast(Rows, given)[rows if places is None else places[rows]].astype(np.int32)


@dataclass(frozen=True, eq=False)
class Closed:
    """Which of the pool's rows, or pairs, may not be picked: those that are labeled, and others without predictions.

    absent: without predictions and not labeled. ignored: how many ids or pairs that the pool lacks were left out.
    """

    size: int
    labeled: Mask | None
    absent: Mask | None
    ignored: int
    kind: str = "examples"

    @cached_property
    def mask(self) -> Mask | None:
        """All of them; None if everything may be picked."""
        if self.labeled is None or self.absent is None:
            return self.labeled if self.absent is None else self.absent
        return self.labeled | self.absent

    @cached_property
    def available(self) -> int:
        """How many may be picked."""
        return self.size if self.mask is None else self.size - int(np.count_nonzero(self.mask))

    def require(self, k: int, may_be_short: bool = True) -> None:
        """Refuse to pick more than there are. may_be_short: the caller has an option that takes fewer."""
        if k > self.available:
            kind = self.kind if self.absent is None else f"{self.kind} with predictions"
            raise PoolExhaustedError(k, self.available, kind, may_be_short)

    def describe(self) -> dict[str, int]:
        """How many were labeled, had no predictions, and were ignored, for the settings of a batch."""
        return {
            "labeled": 0 if self.labeled is None else int(np.count_nonzero(self.labeled)),
            "without_predictions": 0 if self.absent is None else int(np.count_nonzero(self.absent)),
            "ignored": self.ignored,
        }


def open_inputs(
    sources: Mapping[str, Any],
    *,
    column: str | None = None,
    id_column: str | None = None,
    least_columns: Mapping[str, int] = LEAST_COLUMNS,
) -> dict[str, Input]:
    """The inputs that are given, in the order of `ORDER`; matrices are not read.

    column: that of the predictions. id_column: of every table that has such a column; one of them must.
    """
    given = {name: sources[name] for name in ORDER if sources.get(name) is not None}
    opened = {name: open_rows(source, name) for name, source in given.items()}
    require_column(id_column, given, opened)
    return {
        name: _open_input(name, source, opened[name], column if name in PREDICTIONS else None, id_column, least_columns)
        for name, source in given.items()
    }


def open_rows(source: Any, name: str) -> Any:
    """A source as an array or a table, without reading it; what is open already stays as it is."""
    if isinstance(source, pool.Matrix):
        return source
    # Not a DataFrame with a column called labels, which has that attribute too.
    if name == "clusters" and hasattr(source, "labels") and not hasattr(source, "__array__"):
        return source
    return tables.open_rows(source, name)


def require_column(column: str | None, sources: Mapping[str, Any], opened: Mapping[str, Any]) -> None:
    """Refuse an id column that no input has."""
    found = [one for one in opened.values() if isinstance(one, Table)]
    if column is None or any(column in table.types for table in found):
        return
    if found:
        found[0].require(column)
    for name, source in sources.items():
        tables.refuse_column(column, name, source)


def name_source(name: str, source: Any) -> str:
    """What messages call an input: its path, or else its name."""
    return str(source) if isinstance(source, (str, os.PathLike)) else name


def find_column_ids(opened: Any, column: str | None) -> Ids | None:
    """The ids of a table: in this column if it has it, else in one whose name says so."""
    if not isinstance(opened, Table):
        return None
    return find_ids(opened, column if column in opened.types else None)


def _open_input(
    name: str, source: Any, opened: Any, column: str | None, id_column: str | None, least_columns: Mapping[str, int]
) -> Input:
    title = name_source(name, source)
    if hasattr(opened, "labels"):  # what `cluster` returned
        labels = np.asarray(opened.labels)
        return Input(title, len(labels), getattr(opened, "row_ids", None), labels)
    if isinstance(opened, pool.Matrix):
        matrix = pool.open_matrix(opened, name, least_columns=least_columns.get(name, 1))
        return Input(title, matrix.n, matrix.ids, matrix)
    if not isinstance(opened, Table):
        tables.refuse_column(column, name, source)
    ids = find_column_ids(opened, id_column)
    if name == "predictions":
        n = opened.n if isinstance(opened, Table) else int(opened.shape[0]) if len(opened.shape) else 0
        return Input(title, n, ids, None)
    if name in LEAST_COLUMNS:
        matrix = pool.open_matrix(opened, name, column=column, least_columns=least_columns[name])
        return Input(title, matrix.n, ids, matrix)
    vector = pool.as_vector(opened, name, column=column)
    return Input(title, len(vector), ids, vector)


def join(inputs: Mapping[str, Input], *, ignore_unknown: bool = False) -> Joined:
    """The inputs brought to one order: that of the first with ids, or by position if none has ids."""
    with_ids = {name: one for name, one in inputs.items() if one.ids is not None}
    if not with_ids:
        n = checks.same_length({one.title: one.n for one in inputs.values()})
        return Joined(n, None, inputs, dict.fromkeys(inputs))
    first = next(iter(with_ids.values()))
    assert first.ids is not None
    first.ids.refuse_duplicates()
    rows: dict[str, Rows | None] = dict.fromkeys(inputs)
    unknown = 0
    for name, one in with_ids.items():
        if one is not first:
            rows[name] = align_rows(one, first.ids, name in PREDICTIONS)
            unknown += count_unknown(one, rows[name], None if ignore_unknown else first.title)
    by_position = [one for name, one in inputs.items() if name not in with_ids]
    checks.same_length({one.title: one.n for one in (first, *by_position)})
    turned = [one for name, one in with_ids.items() if rows[name] is not None and one.n == first.n]
    if by_position and turned:
        raise InputError(
            f"{first.title} and {turned[0].title} have their ids in different orders, and {by_position[0].title} has "
            "no ids, so its order is not known: give it an id column, or bring all inputs into one order"
        )
    return Joined(first.n, first.ids, inputs, rows, unknown)


def align_rows(one: Input, ids: Ids, partial: bool) -> Rows | None:
    """For each of the pool's ids the row of the input."""
    assert one.ids is not None
    return pool.align(one.ids, ids, partial=partial)


def count_unknown(one: Input, rows: Rows | None, pool_title: str | None) -> int:
    """How many rows of an input belong to no row of the pool. With a title of the pool, one is an error."""
    if rows is None:
        return 0
    unused = np.ones(one.n, np.bool_)
    unused[rows[rows != ABSENT]] = False
    count = int(np.count_nonzero(unused))
    if count and pool_title is not None:
        assert one.ids is not None
        first = one.ids.take(np.flatnonzero(unused)[:1])[0]
        raise refuse_unknown(one.title, count, one.n, first, f"the pool ({pool_title})")
    return count


def find_labeled(
    labeled: Any, n: int, ids: Ids | None, *, id_column: str | None = None, ignore_unknown: bool = False
) -> tuple[Mask | None, int]:
    """(the labeled rows as a mask, or None; how many ids were ignored) from a mask, rows, a table, or files."""
    labeled = open_labeled(labeled)
    if not _is_listing(labeled):
        return checks.labeled_mask(labeled, n), 0
    listing = pool.read_listing(labeled, "labeled", n, ids, id_column=id_column, partial=ignore_unknown)
    mask = np.zeros(n, np.bool_)
    mask[listing.rows] = True
    return mask, listing.unknown


def open_labeled(labeled: Any) -> Any:
    """A single column, such as a Series, as an array; a table opened, so that a stream is read once."""
    if not (hasattr(labeled, "__arrow_c_stream__") or hasattr(labeled, "__arrow_c_array__")):
        return labeled
    opened = tables.open_rows(labeled, "labeled")
    if not isinstance(opened, Table) or list(opened.types) != ["labeled"]:
        return opened
    return opened.read("labeled") if opened.n else np.zeros(0, np.int64)


def _is_listing(labeled: Any) -> bool:
    """Whether it lists rows by id or in files, rather than being a mask or rows."""
    if is_location(labeled) or isinstance(labeled, Table):
        return True
    if isinstance(labeled, (list, tuple)):
        return len(labeled) > 0 and isinstance(labeled[0], str)
    return getattr(labeled, "dtype", None) is not None and np.asarray(labeled).dtype.kind in "OU"


def drop_labeled(absent: Mask | None, labeled: Mask | None) -> Mask | None:
    """What is without predictions and not labeled; None if there is nothing."""
    if absent is None or labeled is None:
        return absent
    absent = absent & ~labeled
    return absent if absent.any() else None


def list_paths(source: Any) -> list[str] | None:
    """A path, or a list of paths, as a list; None for anything else."""
    if not is_location(source):
        return None
    return [title_of(one) for one in source] if isinstance(source, (list, tuple)) else [title_of(source)]


def describe_inputs(sources: Mapping[str, Any]) -> dict[str, str | Sequence[str]]:
    """The files that were given, by name, for the settings of a batch; arrays and tables by their type."""
    described: dict[str, str | Sequence[str]] = {}
    for name, source in sources.items():
        if source is not None:
            paths = list_paths(source)
            described[name] = type(source).__name__ if paths is None else paths[0] if len(paths) == 1 else paths
    return described
