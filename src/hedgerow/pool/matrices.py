"""Matrices and vectors from any source, whole, in chunks or in ranges.

A matrix (embeddings, probabilities, logits) is an array, or in a table one list column or one numeric column per
dimension, in file order; `tables.py` opens the sources. Parquet is read in batches, so that `Matrix.chunks` holds one
chunk at a time. Row `i` is the i-th row of the source. Finiteness and the meaning of the numbers are checked where they
are used, not here.
"""

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError, StoreError
from hedgerow.pool import tables
from hedgerow.pool.arrays import Npy, Sparse
from hedgerow.pool.ids import Ids, find_ids
from hedgerow.pool.sources import as_absolute
from hedgerow.pool.tables import Table

VIEW_BYTES = 1 << 25  # chunks of 32 MiB of what is in memory or mapped: a view costs nothing, a call little
MAP_BYTES = 1 << 30  # what is read from a table and is at least this large goes to a temporary file
READ_BYTES = 1 << 23  # chunks of 8 MiB of what is read: a Parquet reader holds several times what it returns

# Column names in common use, in lower case. With one numeric column per dimension (p_0, p_1, ...): the prefix.
MATRIX_NAMES = {
    "embeddings": {
        "embedding", "embeddings", "emb", "embs", "vector", "vectors", "vec", "feature", "features", "feat", "feats",
        "representation", "hidden", "x", "e", "f", "v", "d", "dim",
    },
    "probabilities": {
        "probability", "probabilities", "prob", "probs", "proba", "predict_proba", "p", "score", "scores", "softmax",
        "prediction", "predictions", "class", "c", "y",
    },
    "logits": {"logit", "logits", "l", "z"},
}  # fmt: skip
# What to do about one number per row where there must be one per class.
BINARY = {
    "probabilities": ": for two classes pass both columns, np.column_stack([1 - p, p])",
    "logits": ": for two classes pass both columns, np.column_stack([np.zeros_like(z), z])",
}
_NUMBERED = re.compile(r"(?P<prefix>.*?)[_.\-]?\d+")


class Rows(Protocol):
    """Where a matrix's rows are: a small record that pickles."""

    def blocks(self, start: int, stop: int, rows: int) -> Iterator[npt.NDArray[Any]]:
        """The rows from start to stop in order, in blocks of 1 to `rows` rows."""
        ...


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix of floats (n, width): read in any range of rows, in chunks, or whole. A small record that pickles.

    `dtype` is float16, float32 or float64 in native byte order; whole numbers become floats that hold them.
    `ids`: the ids of its rows, where the source has an id column.
    """

    n: int
    width: int
    dtype: np.dtype[Any]
    ids: Ids | None
    data: "Rows"

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """The rows from start to stop as a contiguous array; a view where the matrix is in memory or mapped."""
        start, stop = checks.span(start, stop, self.n)
        if self._is_held():
            blocks = list(self.data.blocks(start, stop, max(1, stop - start)))
            if len(blocks) == 1:
                return np.ascontiguousarray(blocks[0], self.dtype)
        whole = np.empty((stop - start, self.width), self.dtype)
        return tables.fill(whole, self.chunks(start=start, stop=stop), start)

    def chunks(
        self, rows: int | None = None, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """(first row, contiguous 2-D array of at most `rows` rows), in order, from row `start` to `stop`."""
        if rows is None:
            most = VIEW_BYTES if self._is_held() else READ_BYTES
            rows = max(1, most // max(1, self.width * self.dtype.itemsize))
        start, stop = checks.span(start, stop, self.n)
        for block in self.data.blocks(start, stop, checks.integer(rows, "rows", least=1)):
            yield start, np.ascontiguousarray(block, self.dtype)
            start += len(block)

    def gather(self, rows: npt.NDArray[np.int64]) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[Any]]]:
        """(positions in `rows`, those rows of the matrix) in blocks, until each of `rows` was read once.

        What is in memory or mapped is read row by row, in the order of `rows`; anything else in one pass, by chunks.
        """
        held = self._held_array()
        if held is not None:
            step = max(1, VIEW_BYTES // max(1, self.width * self.dtype.itemsize))
            for at in range(0, len(rows), step):
                some = np.arange(at, min(at + step, len(rows)))
                yield some, np.ascontiguousarray(held[rows[some]], self.dtype)
        elif len(rows):
            order = np.argsort(rows, kind="stable")
            wanted = rows[order]
            for start, chunk in self.chunks(start=int(wanted[0]), stop=int(wanted[-1]) + 1):
                first, last = np.searchsorted(wanted, (start, start + len(chunk)))
                if first < last:
                    yield order[first:last], chunk[wanted[first:last] - start]

    def take(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """These rows, in the order given, as a new array."""
        taken = np.empty((len(rows), self.width), self.dtype)
        for positions, block in self.gather(rows):
            taken[positions] = block
        return taken

    def array(self) -> npt.NDArray[Any]:
        """The whole matrix: the array or memory map that it came as, or a new array filled chunk by chunk.

        A large one is a memory map of a temporary file without a name: pages of a file can leave memory.
        """
        held = self._held_array()
        if held is not None and held.dtype == self.dtype:
            return held
        if self.n * self.width * self.dtype.itemsize < MAP_BYTES:
            return tables.fill(np.empty((self.n, self.width), self.dtype), self.chunks())
        return self._map_copy()

    def view(self) -> Any:
        """As `array`, but several `.npy` files are not copied: an object that is sliced and indexed by rows like one,
        and reads what is asked for."""
        several = isinstance(self.data, Npy) and self.data.is_mapped and len(self.data.files) > 1
        return MatrixRows(self) if several else self.array()

    def _map_copy(self) -> npt.NDArray[Any]:
        """The matrix in a temporary file without a name, mapped."""
        needed = self.n * self.width * self.dtype.itemsize
        try:
            if shutil.disk_usage(tempfile.gettempdir()).free < needed:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            with tempfile.TemporaryFile(prefix="hedgerow-") as file:
                for _, chunk in self.chunks():
                    file.write(chunk.data)
                file.flush()
                return np.memmap(file, self.dtype, "r", shape=(self.n, self.width))
        except OSError as error:
            raise StoreError(
                f"a matrix of {needed / 2**30:.1f} GiB does not fit in {tempfile.gettempdir()} ({error.strerror}): "
                "set TMPDIR to a folder with room, or give the matrix as .npy, which is read where it is"
            ) from error

    def list_files(self) -> list[str]:
        """The files that the rows are read from, as absolute paths or URLs; none for what is in memory."""
        held = self.data if isinstance(self.data, Npy) else getattr(getattr(self.data, "table", None), "data", None)
        return [as_absolute(file.path) for file in getattr(held, "files", ())]

    def _is_held(self) -> bool:
        return isinstance(self.data, HeldRows) or (isinstance(self.data, Npy) and self.data.is_mapped)

    def _held_array(self) -> npt.NDArray[Any] | None:
        if isinstance(self.data, HeldRows):
            return self.data.array
        one = isinstance(self.data, Npy) and self.data.is_mapped and len(self.data.files) == 1
        return self.data.array() if isinstance(self.data, Npy) and one else None


@dataclass(frozen=True, eq=False)
class MatrixRows:
    """The rows of a matrix, read as they are asked for: `rows[start:stop]`, and `rows[numbers]` with ascending ones."""

    matrix: Matrix

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.matrix.n, self.matrix.width

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the numbers."""
        return self.matrix.dtype

    def __len__(self) -> int:
        return self.matrix.n

    def __getitem__(self, rows: slice | npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        if isinstance(rows, slice):
            return self.matrix.read(*rows.indices(self.matrix.n)[:2])
        return self.matrix.take(rows)


@dataclass(frozen=True, eq=False)
class HeldRows:
    """A matrix in memory or mapped."""

    array: npt.NDArray[Any]

    def blocks(self, start: int, stop: int, rows: int) -> Iterator[npt.NDArray[Any]]:
        """The rows from start to stop in order, in views of at most `rows` rows."""
        return (self.array[at : min(at + rows, stop)] for at in range(start, stop, rows))


@dataclass(frozen=True, eq=False)
class ColumnRows:
    """One numeric column per dimension."""

    table: Table
    columns: tuple[str, ...]
    dtype: np.dtype[Any]

    def blocks(self, start: int, stop: int, rows: int) -> Iterator[npt.NDArray[Any]]:
        """The rows from start to stop in order, in blocks of at most `rows` rows."""
        for batch in self.table.batches(list(self.columns), rows, start, stop):
            block = np.empty((batch.num_rows, len(self.columns)), self.dtype)
            for place, key in enumerate(self.columns):
                values = tables.read_column(batch, key)
                tables.refuse_nulls(values, start, 1, self.table.describe(key))
                block[:, place] = tables.as_numpy(values)
            yield block
            start += len(block)


@dataclass(frozen=True, eq=False)
class ListRows:
    """One column of lists of equal length."""

    table: Table
    column: str
    width: int

    def blocks(self, start: int, stop: int, rows: int) -> Iterator[npt.NDArray[Any]]:
        """The rows from start to stop in order, in blocks of at most `rows` rows."""
        title = self.table.describe(self.column)
        ragged = not hasattr(self.table.types[self.column], "list_size")
        for batch in self.table.batches([self.column], rows, start, stop):
            lists = tables.read_column(batch, self.column)
            tables.refuse_nulls(lists, start, 1, title)
            if ragged:
                _refuse_ragged(lists, start, self.width, title)
            values = lists.flatten()
            tables.refuse_nulls(values, start, self.width, title)
            yield tables.as_numpy(values).reshape(len(lists), self.width)
            start += len(lists)


def open_matrix(
    source: Any, name: str, *, column: str | None = None, id_column: str | None = None, least_columns: int = 1
) -> Matrix:
    """The matrix in `source` with its ids, not yet read. `name` is used in messages and to guess the column."""
    if isinstance(source, Matrix):
        matrix = source
    else:
        opened = tables.open_rows(source, name)
        if isinstance(opened, Table):
            matrix = _table_matrix(opened, name, column, find_ids(opened, id_column))
        else:
            tables.refuse_column(column or id_column, name, source)
            matrix = _array_matrix(opened, name)
    if matrix.width < least_columns:
        shape = checks.shape_text((matrix.n, matrix.width))
        hint = BINARY.get(name, "") if matrix.width == 1 else ""
        raise InputError(f"{name} must have at least {least_columns} columns, got {shape}{hint}")
    return matrix


def as_matrix(source: Any, name: str, *, column: str | None = None, least_columns: int = 1) -> npt.NDArray[Any]:
    """The matrix in `source` as a 2-D array of floats; a memmap stays one."""
    return open_matrix(source, name, column=column, least_columns=least_columns).array()


def as_vector(source: Any, name: str, *, column: str | None = None) -> npt.NDArray[Any]:
    """The one-dimensional array in `source`, in the dtype it has there (object for Python strings)."""
    opened = tables.open_source(source, name)
    if isinstance(opened, Table):
        chosen = _vector_column(opened, name, column)
        if chosen is None:
            raise opened.missing(name)
        return opened.read(chosen)
    tables.refuse_column(column, name, source)
    if opened.ndim != 1:
        raise InputError(f"{name} must have one dimension, got shape {opened.shape}")
    return opened


def holds_vector(source: Any, name: str, *, column: str | None = None) -> bool:
    """Whether predictions hold one number per row, called `name`; a file with a matrix too counts as one that does."""
    opened = tables.open_rows(source, "predictions")
    if not isinstance(opened, Table):
        tables.refuse_column(column, "predictions", source)
        return len(opened.shape) == 1
    if column is not None:
        return column in opened.types and not tables.is_list(opened.types[column])
    if _vector_column(opened, name, None) is not None:
        return True
    if _matrix_columns(opened, "probabilities", None):
        return False
    raise opened.missing(f"{name} or probabilities")


def count_rows(source: Any, name: str) -> int:
    """How many rows a source has."""
    if isinstance(source, Matrix):
        return source.n
    opened = tables.open_rows(source, name)
    return opened.n if isinstance(opened, Table) else int((*opened.shape, 1)[0])


# Choosing columns.


def _matrix_columns(table: Table, name: str, column: str | None) -> list[str]:
    """The list column or the numeric columns that hold the matrix; empty if nothing looks like it."""
    candidates = {key: [key] for key, kind in table.types.items() if tables.is_list(kind)} | _numbered_columns(table)
    if column is not None:
        return candidates.get(column) or [table.require(column)]
    kinds = [name] if name in MATRIX_NAMES else list(MATRIX_NAMES)
    known = set().union(*(MATRIX_NAMES[kind] for kind in kinds))
    foreign = set().union(*MATRIX_NAMES.values(), *tables.VECTOR_NAMES.values(), tables.ID_NAMES) - known
    for fitting in (
        [key for key in candidates if key.lower() in known],
        [key for key in candidates if key.lower() not in foreign],
    ):
        chosen = table.choose(name, fitting)
        if chosen is not None:
            return candidates[chosen]
    if candidates:
        return []
    aside = tables.ID_NAMES.union(*tables.VECTOR_NAMES.values()) - known
    rest = [key for key in table.types if key.lower() not in aside]
    return rest if all(tables.is_float(table.types[key]) for key in rest) else []


def _numbered_columns(table: Table) -> dict[str, list[str]]:
    """Prefix -> its numeric columns in file order, for p0, p1, ... or emb_0, emb_1, ..."""
    families: dict[str, list[str]] = {}
    for key, kind in table.types.items():
        match = _NUMBERED.fullmatch(key)
        if match and tables.is_number(kind):
            families.setdefault(match["prefix"], []).append(key)
    return {prefix: keys for prefix, keys in families.items() if len(keys) > 1 and prefix not in table.types}


def _vector_column(table: Table, name: str, column: str | None) -> str | None:
    """The column of a vector: the one that is asked for, one with a usual name, or for other names the only one."""
    if column is not None:
        return table.require(column)
    if name in tables.VECTOR_NAMES:
        lone = list(table.types) if name == "pair probabilities" and len(table.types) == 1 else []
        found = table.find(name, tables.VECTOR_NAMES[name])
        return found or next((key for key in lone if not tables.is_list(table.types[key])), None)
    others = [key for key in table.types if key.lower() not in tables.ID_NAMES]
    return table.choose(name, [key for key in others if key == name] or others or list(table.types))


# Opening.


def _array_matrix(array: npt.NDArray[Any] | Npy | Sparse, name: str) -> Matrix:
    if len(array.shape) != 2:
        raise InputError(
            f"{name} must have two dimensions (rows, columns), got shape {array.shape}"
            + (BINARY.get(name, "") if len(array.shape) == 1 else "")
        )
    dtype = checks.floats(np.empty(0, array.dtype), name).dtype
    data: Rows = array if isinstance(array, (Npy, Sparse)) else HeldRows(array)
    return Matrix(array.shape[0], array.shape[1], dtype, None, data)


def _table_matrix(table: Table, name: str, column: str | None, ids: Ids | None) -> Matrix:
    columns = _matrix_columns(table, name, column)
    if not columns:
        raise _find_wrong_type(table, name) or table.missing(name)
    kinds = [table.types[key] for key in columns]
    if tables.is_list(kinds[0]):
        return _list_matrix(table, name, columns[0], ids)
    for key, kind in zip(columns, kinds, strict=True):
        if not tables.is_number(kind):
            raise _refuse_type(table, name, key)
    dtype = np.result_type(*(tables.numpy_dtype(kind) for kind in kinds))
    dtype = checks.floats(np.empty(0, dtype), name).dtype
    return Matrix(table.n, len(columns), dtype, ids, ColumnRows(table.select(columns), tuple(columns), dtype))


def _find_wrong_type(table: Table, name: str) -> InputError | None:
    """The error to raise if a column has the right name but does not hold numbers."""
    for key, kind in table.types.items():
        if key.lower() in MATRIX_NAMES.get(name, ()) and not tables.is_number(kind):
            return _refuse_type(table, name, key)
    return None


def _refuse_type(table: Table, name: str, column: str) -> InputError:
    return InputError(f"{table.describe(column)} holds {table.types[column]}, but {name} must be lists of numbers")


def _list_matrix(table: Table, name: str, column: str, ids: Ids | None) -> Matrix:
    kind = table.types[column]
    width = kind.list_size if hasattr(kind, "list_size") else _first_length(table, column)
    dtype = checks.floats(np.empty(0, tables.numpy_dtype(kind.value_type)), name).dtype
    return Matrix(table.n, width, dtype, ids, ListRows(table.select([column]), column, width))


def _first_length(table: Table, column: str) -> int:
    """The length of a list column's first list; the others are compared with it when they are read."""
    for batch in table.batches([column], 1, 0, 1):
        lists = tables.read_column(batch, column)
        tables.refuse_nulls(lists, 0, 1, table.describe(column))
        return len(lists[0])
    return 0


def _refuse_ragged(lists: Any, start: int, width: int, title: str) -> None:
    lengths = tables.as_numpy(lists.value_lengths())
    if (lengths != width).any():
        row = int(np.argmax(lengths != width))
        raise InputError(
            f"{title} holds {lengths[row]} numbers in row {start + row}, but {width} in row 0: "
            "all lists must have the same length"
        )
