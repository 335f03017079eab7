"""Tables: named columns of equal length, read in batches or in any range of rows.

A table comes by protocol (`__arrow_c_stream__`), as a Parquet file, or as a folder of them. `Table` is a small record
that pickles: one over files carries their names and row offsets and opens them wherever it is read, one over Arrow data
carries the data. Which column holds what is decided by those who ask: `matrices.py` and `ids.py`.
"""

import os
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import InputError
from hedgerow.pool.arrays import Npy, open_array, open_npy
from hedgerow.pool.sources import PARQUET, find_file, first_line, list_parquet, reading

VECTOR_ROWS = 1 << 18  # a column is read a quarter of a million values at a time
BUFFER_BYTES = 1 << 20  # the size of a Parquet page with most writers
VECTOR_NAMES = {
    "margins": {"margin", "margins"},
    "clusters": {"cluster", "clusters", "cluster_id"},
    "rows": {"row", "rows"},
    "picks": {"pick", "picks"},
    "labels": {"label", "labels", "target", "targets"},
    "classes": {"class", "classes", "class_id"},
    "pair probabilities": {"probability", "prob", "proba", "p", "score"},
}
ID_NAMES = {
    "id", "ids", "item_id", "uid", "uuid", "example_id", "sample_id", "image_id", "doc_id", "document_id", "key",
}  # fmt: skip
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # what pandas adds to a table for an index of its own


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns of equal length; `title` is what messages call the table."""

    title: str
    n: int
    types: Mapping[str, Any]  # column -> Arrow type, in file order
    data: "ParquetData | ArrowData"

    def batches(self, columns: list[str], rows: int, start: int = 0, stop: int | None = None) -> Iterator[Any]:
        """The rows from start to stop in order, as Arrow record batches of 1 to `rows` rows."""
        return self.data.batches(columns, rows, start, self.n if stop is None else min(stop, self.n))

    def chunks(self, column: str, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """(first row, values) of a column with one value per row, in order."""
        dtype = self.dtype(column)
        for at, values in self._arrow_chunks(column, start, stop):
            yield at, values.to_numpy(zero_copy_only=False).astype(dtype, copy=False)

    def read(self, column: str, start: int = 0, stop: int | None = None) -> npt.NDArray[Any]:
        """The values of a column from row `start` to `stop` as one array, filled batch by batch."""
        stop = self.n if stop is None else min(stop, self.n)
        whole = np.empty(max(0, stop - start), self.dtype(column))
        return fill(whole, self.chunks(column, start, stop), start)

    def encode(self, column: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
        """(distinct values in order of first appearance, each row's position among them), for values that repeat."""
        import pyarrow as pa

        dtype = self.dtype(column)
        text = dtype == np.object_
        pieces = [values.cast(pa.string()) if text else values for _, values in self._arrow_chunks(column, 0, None)]
        if self.n == 0:
            return np.zeros(0, dtype), np.zeros(0, np.int32)
        encoded = pa.chunked_array(pieces).dictionary_encode()
        distinct = encoded.chunk(0).dictionary.to_numpy(zero_copy_only=False).astype(dtype, copy=False)
        return distinct, np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])

    def dtype(self, column: str) -> np.dtype[Any]:
        """The dtype of a column with one value per row; object for strings."""
        import pyarrow as pa

        kind = self.types[column]
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        if is_string(plain):
            return np.dtype(np.object_)
        if is_number(plain) or pa.types.is_boolean(plain):
            return numpy_dtype(plain)
        raise InputError(f"{self.describe(column)} holds {kind}: one number or string per row is needed")

    def describe(self, column: str) -> str:
        """What messages call a column."""
        return f"column {column!r} of {self.title}"

    def list_columns(self) -> str:
        """The names of the columns, for messages."""
        names = list(self.types)
        most = 20  # a message is one line, and a table may have one column per dimension
        return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")

    def require(self, column: str) -> str:
        """The column, which must exist."""
        if column not in self.types:
            raise InputError(f"{self.title} has no column {column!r}: it has {self.list_columns()}")
        return column

    def missing(self, name: str) -> InputError:
        """The error to raise where no column looks like `name`."""
        return InputError(f"{self.title} has no column that looks like {name}: name one of {self.list_columns()}")

    def find(self, name: str, known: Collection[str]) -> str | None:
        """The one column whose name, in lower case, is among `known`; None if there is none."""
        return self.choose(name, [column for column in self.types if column.lower() in known])

    def choose(self, name: str, fitting: list[str]) -> str | None:
        """The one that fits; None if there is none. Of several the caller must name one."""
        if len(fitting) > 1:
            raise InputError(
                f"{self.title} has more than one column that may hold the {name} ({', '.join(fitting)}): name one"
            )
        return fitting[0] if fitting else None

    def _arrow_chunks(self, column: str, start: int, stop: int | None) -> Iterator[tuple[int, Any]]:
        """(first row, an Arrow array without nulls or a dictionary), in order."""
        for batch in self.batches([column], VECTOR_ROWS, start, stop):
            values = batch.column(column)
            refuse_nulls(values, start, 1, self.describe(column))
            yield start, values.dictionary_decode() if hasattr(values, "dictionary_decode") else values
            start += len(values)


@dataclass(frozen=True, eq=False)
class ArrowData:
    """An Arrow table in memory."""

    table: Any

    def select(self, column: str) -> "ArrowData":
        """One column only."""
        return ArrowData(self.table.select([column]))

    def batches(self, columns: list[str], rows: int, start: int, stop: int) -> Iterator[Any]:
        part = self.table.select(columns).slice(start, max(0, stop - start))
        return (batch for batch in part.to_batches(max_chunksize=rows) if batch.num_rows)


@dataclass(frozen=True)
class ParquetFile:
    """A Parquet file by its path, and where its row groups begin."""

    path: str
    groups: tuple[int, ...]  # the first row of each row group, and at last the number of rows

    @property
    def n(self) -> int:
        """How many rows."""
        return self.groups[-1]

    def batches(self, columns: list[str], rows: int, start: int, stop: int) -> Iterator[Any]:
        """Reads only the row groups that overlap the rows from start to stop."""
        import pyarrow.parquet as pq

        first = bisect_right(self.groups, start) - 1
        wanted = [group for group in range(first, len(self.groups) - 1) if self.groups[group] < stop]
        # Without both options the reader holds a row group's columns whole, and a file may be one row group.
        with (
            reading(self.path, "Parquet"),
            pq.ParquetFile(self.path, buffer_size=BUFFER_BYTES, pre_buffer=False) as file,
        ):
            if file.metadata.num_rows != self.n:
                raise InputError(f"{self.path} has changed since it was opened: open it again")
            found = file.iter_batches(batch_size=rows, columns=columns, row_groups=wanted)
            yield from _trim(found, start - self.groups[first], stop - start)


@dataclass(frozen=True)
class ParquetData:
    """Parquet files of the same columns, one below the other."""

    files: tuple[ParquetFile, ...]

    def batches(self, columns: list[str], rows: int, start: int, stop: int) -> Iterator[Any]:
        first = 0
        for file in self.files:
            low, high = max(start - first, 0), min(stop - first, file.n)
            if low < high:
                yield from file.batches(columns, rows, low, high)
            first += file.n


def _trim(batches: Iterable[Any], skip: int, count: int) -> Iterator[Any]:
    """The rows after the first `skip`, `count` of them."""
    for batch in batches:
        piece = batch.slice(min(skip, batch.num_rows), count)
        skip -= min(skip, batch.num_rows)
        count -= piece.num_rows
        if piece.num_rows:
            yield piece
        if not count:
            return


def fill(whole: npt.NDArray[Any], pieces: Iterable[tuple[int, npt.NDArray[Any]]], first: int = 0) -> npt.NDArray[Any]:
    """`whole`, whose first row is row `first`, with each (first row, rows) copied to its position."""
    for start, piece in pieces:
        whole[start - first : start - first + len(piece)] = piece
    return whole


# Opening.


def open_source(source: Any, name: str) -> npt.NDArray[Any] | Table:
    """An array or a table, whatever holds it; `name` is what messages call it."""
    opened = open_rows(source, name)
    return opened.array() if isinstance(opened, Npy) else opened


def open_rows(source: Any, name: str) -> npt.NDArray[Any] | Npy | Table:
    """The same, with `.npy` files as records that pickle."""
    if isinstance(source, (np.memmap, Npy, Table)):
        return source
    if isinstance(source, (str, os.PathLike)):
        return _open_path(find_file(source, name), name)
    if hasattr(source, "__arrow_c_stream__"):
        return _open_stream(source, name)
    return open_array(source, name)


def _open_path(path: Path, name: str) -> Npy | Table:
    if path.is_dir():
        return _open_parquet(path, list_parquet(path))
    if path.suffix.lower() in PARQUET:
        return _open_parquet(path, [path])
    if path.suffix.lower() == ".npy":
        return open_npy([str(path)])
    raise InputError(f"{name}: {path} is neither .npy nor .parquet, nor a folder of .parquet files")


def _open_stream(source: Any, name: str) -> Table:
    import pyarrow as pa

    try:
        column = pa.chunked_array(source)
        if pa.types.is_struct(column.type):
            table = pa.table(source) if isinstance(source, pa.Table) else pa.Table.from_struct_array(column)
        else:  # a single column, such as a polars Series
            table = pa.table({name: column})
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"{name} cannot be read as an Arrow table: {first_line(error)}") from error
    title = f"the table given as {name}"
    return Table(title, table.num_rows, _read_types(table.schema, title), ArrowData(table))


def _open_parquet(source: Path, paths: list[Path]) -> Table:
    import pyarrow.parquet as pq

    files: list[ParquetFile] = []
    types: dict[str, Any] = {}
    for path in paths:
        with reading(path, "Parquet"), pq.ParquetFile(path) as file:
            rows = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
            found = _read_types(file.schema_arrow, str(path))
        if not files:
            types = found
        elif found != types:
            raise InputError(f"{path} and {paths[0]} have different columns or types: files of one folder must agree")
        files.append(ParquetFile(str(path), (0, *np.cumsum(rows, dtype=np.int64).tolist())))
    return Table(str(source), sum(file.n for file in files), types, ParquetData(tuple(files)))


def _read_types(schema: Any, title: str) -> dict[str, Any]:
    types = {field.name: field.type for field in schema if not _PANDAS_INDEX.fullmatch(field.name)}
    if len(types) < len(schema) and len(set(schema.names)) < len(schema.names):
        raise InputError(f"{title} has two columns of one name: rename one ({', '.join(schema.names)})")
    return types


# Columns.


def refuse_column(column: str | None, name: str, source: Any) -> None:
    """Raises `InputError` if a column is asked of something that has none."""
    if column is not None:
        what = source if isinstance(source, (str, os.PathLike)) else "an array"
        raise InputError(f"{name}: column {column!r} was asked for, but {what} has no named columns")


def is_list(kind: Any) -> bool:
    """Whether an Arrow type is lists of numbers."""
    import pyarrow as pa

    lists = (pa.types.is_fixed_size_list, pa.types.is_list, pa.types.is_large_list)
    return any(is_kind(kind) for is_kind in lists) and is_number(kind.value_type)


def is_string(kind: Any) -> bool:
    """Whether an Arrow type is text."""
    import pyarrow as pa

    return any(is_kind(kind) for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def is_number(kind: Any) -> bool:
    """Whether an Arrow type is a whole number or a float."""
    import pyarrow as pa

    return bool(pa.types.is_integer(kind)) or is_float(kind)


def is_float(kind: Any) -> bool:
    """Whether an Arrow type is a float."""
    import pyarrow as pa

    return bool(pa.types.is_floating(kind))


def numpy_dtype(kind: Any) -> np.dtype[Any]:
    """The dtype of an Arrow number or bool. Arrow's own conversion needs pandas in some versions."""
    names = {"halffloat": "float16", "float": "float32", "double": "float64"}
    return np.dtype(names.get(str(kind), str(kind)))


def refuse_nulls(values: Any, start: int, width: int, title: str) -> None:
    """Raises `InputError` with the row of the first null; `width` values make one row."""
    if values.null_count:
        place = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(f"{title} has a null in row {start + place // width}: fill or drop it")
