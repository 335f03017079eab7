"""Tables: named columns of equal length, read in batches or in any range of rows.

`open_source` takes whatever holds an array or a table. `Table` is a small record that pickles: one over Parquet files
carries their names and row offsets and opens them wherever it is read, one over data in memory carries the data. Which
column holds what is decided by those who ask: `matrices.py` and `ids.py`.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError
from hedgerow.pool.arrays import Npy, Sparse, open_array, open_npy, open_sparse
from hedgerow.pool.frames import ArrowData, open_frame
from hedgerow.pool.parquet import ParquetData, open_parquet
from hedgerow.pool.sources import KNOWN, file_kind, find_files, is_location, title_of
from hedgerow.pool.texts import read_texts

VECTOR_ROWS = 1 << 18  # a column is read a quarter of a million values at a time
VECTOR_NAMES = {
    "margins": {"margin", "margins"},
    "clusters": {"cluster", "clusters", "cluster_id"},
    "rows": {"row", "rows"},
    "picks": {"pick", "picks"},
    "labels": {"label", "labels", "target", "targets"},
    "answers": {"answer", "answers", "label", "labels", "target", "targets"},
    "classes": {"class", "classes", "class_id"},
    "pair probabilities": {"probability", "prob", "proba", "p", "score"},
}
CONTENT_NAMES = {
    "text": {"text", "texts", "body", "content", "sentence", "document"},
    "uri": {"uri", "url", "path", "file", "filename", "file_name", "image", "audio", "video"},
}
ID_NAMES = {
    "id", "ids", "item_id", "uid", "uuid", "example_id", "sample_id", "image_id", "doc_id", "document_id", "key",
}  # fmt: skip
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # what pandas adds to a table for an index of its own


class Data(Protocol):
    """Where a table's rows are: one of the records of `parquet.py` and `frames.py`."""

    @property
    def n(self) -> int:
        """How many rows."""
        ...

    @property
    def schema(self) -> Any:
        """The Arrow schema."""
        ...

    def batches(self, columns: list[str], rows: int, start: int, stop: int) -> Iterator[Any]:
        """The rows from start to stop in order, as record batches of 1 to `rows` rows."""
        ...


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns of equal length; `title` is what messages call the table."""

    title: str
    n: int
    types: Mapping[str, Any]  # column -> Arrow type, in file order
    data: Data

    def batches(self, columns: list[str], rows: int, start: int = 0, stop: int | None = None) -> Iterator[Any]:
        """The rows from start to stop in order, as Arrow record batches of 1 to `rows` rows."""
        return self.data.batches(columns, rows, *checks.span(start, stop, self.n))

    def select(self, columns: list[str]) -> "Table":
        """These columns only; of a table in memory the others can then be freed, and are not pickled."""
        data = ArrowData(self.data.table.select(columns)) if isinstance(self.data, ArrowData) else self.data
        return replace(self, types={column: self.types[column] for column in columns}, data=data)

    def chunks(self, column: str, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """(first row, values) of a column with one value per row, in order."""
        dtype = self.dtype(column)
        for at, values in self.arrow_chunks(column, start, stop):
            yield at, as_numpy(values).astype(dtype, copy=False)

    def read(self, column: str, start: int = 0, stop: int | None = None) -> npt.NDArray[Any]:
        """The values of a column from row `start` to `stop` as one array, filled batch by batch."""
        start, stop = checks.span(start, stop, self.n)
        whole = np.empty(stop - start, self.dtype(column))
        return fill(whole, self.chunks(column, start, stop), start)

    def gather(
        self, columns: list[str], rows: npt.NDArray[np.int64]
    ) -> Iterator[tuple[npt.NDArray[np.int64], list[Any]]]:
        """(positions in `rows`, their values by column as Arrow arrays, nulls included), until each was read once.

        Of Parquet files only the row groups that hold one of these rows are read.
        """
        order = np.argsort(rows, kind="stable")
        wanted = rows[order]
        for start, batch in self._batches_with(wanted, columns) if len(rows) else ():
            low, high = np.searchsorted(wanted, [start, start + batch.num_rows])
            if low < high:
                places = as_arrow(wanted[low:high] - start)
                yield order[low:high], [_as_takeable(read_column(batch, column)).take(places) for column in columns]

    def _batches_with(self, wanted: npt.NDArray[np.int64], columns: list[str]) -> Iterator[tuple[int, Any]]:
        """(first row, record batch) of at least these rows, which ascend."""
        if isinstance(self.data, ParquetData):
            yield from self.data.batches_with(wanted, columns, VECTOR_ROWS)
            return
        start = int(wanted[0])
        for batch in self.batches(columns, VECTOR_ROWS, start, int(wanted[-1]) + 1):
            yield start, batch
            start += batch.num_rows

    def encode(self, column: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
        """(distinct values in order of first appearance, each row's position among them), for values that repeat."""
        import pyarrow as pa

        dtype = self.dtype(column)
        text = dtype == np.object_
        pieces = [as_text(values, pa.string()) if text else values for _, values in self.arrow_chunks(column)]
        if self.n == 0:
            return np.zeros(0, dtype), np.zeros(0, np.int32)
        encoded = pa.chunked_array(pieces).dictionary_encode()
        distinct = as_numpy(encoded.chunk(0).dictionary).astype(dtype, copy=False)
        return distinct, np.concatenate([as_numpy(chunk.indices) for chunk in encoded.chunks])

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
        if not self.types:
            return InputError(f"{self.title} has no columns: {name} are needed")
        return InputError(
            f"{self.title} has no column that looks like {name}: name one of {self.list_columns()}{_option(name)}"
        )

    def find(self, name: str, known: Collection[str]) -> str | None:
        """The one column whose name, in lower case, is among `known`; None if there is none."""
        return self.choose(name, [column for column in self.types if column.lower() in known])

    def find_ids_column(self) -> str | None:
        """The column of ids; None if there is none. One called `id` goes before all others."""
        return self.find("ids", {"id"}) or self.find("ids", ID_NAMES)

    def choose(self, name: str, fitting: list[str]) -> str | None:
        """The one that fits; None if there is none. Of several the caller must name one."""
        if len(fitting) > 1:
            raise InputError(
                f"{self.title} has more than one column that may hold the {name} ({', '.join(fitting)}): "
                f"{'rename all but one' if name in ('rows', 'picks') else 'name one'}{_option(name)}"
            )
        return fitting[0] if fitting else None

    def arrow_chunks(self, column: str, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Any]]:
        """(first row, an Arrow array without nulls or a dictionary), in order."""
        for batch in self.batches([column], VECTOR_ROWS, start, stop):
            values = read_column(batch, column)
            refuse_nulls(values, start, 1, self.describe(column))
            yield start, _plain_values(values)
            start += len(values)


def _option(name: str) -> str:
    """How to name the column of an input, on the command line and in Python."""
    if name in ("rows", "picks"):
        return ""
    if name == "classes":
        return " (--class-column, or class_column= of select_pairs)"
    if name == "ids":
        return " (--id-column, or id_column= of hedgerow.pool.open_matrix)"
    function = "as_vector" if name in VECTOR_NAMES else "open_matrix"
    python = f"column= of hedgerow.pool.{function}"
    return f" ({python})" if name in ("clusters", "labels") else f" (--column, or {python})"


def fill(whole: npt.NDArray[Any], pieces: Iterable[tuple[int, npt.NDArray[Any]]], first: int = 0) -> npt.NDArray[Any]:
    """`whole`, whose first row is row `first`, with each (first row, rows) copied to its position."""
    for start, piece in pieces:
        whole[start - first : start - first + len(piece)] = piece
    return whole


# Opening.


def open_source(source: Any, name: str) -> npt.NDArray[Any] | Table:
    """An array or a table, whatever holds it; `name` is what messages call it."""
    opened = open_rows(source, name)
    if isinstance(opened, Sparse):
        raise InputError(f"{name} is a sparse matrix of shape {opened.shape}: pass a dense array")
    return opened.array() if isinstance(opened, Npy) else opened


def open_rows(source: Any, name: str) -> npt.NDArray[Any] | Npy | Sparse | Table:
    """The same, with `.npy` files and sparse matrices as records that are read by rows."""
    if isinstance(source, (np.memmap, Npy, Sparse, Table)):
        return source
    if is_location(source):
        return _open_files(source, name)
    frame = open_frame(source, name)
    if frame is not None:
        return _as_table(f"the table given as {name}", frame)
    return open_sparse(source) or open_array(source, name)


def _open_files(source: Any, name: str) -> Npy | Table:
    files = find_files(source, name)
    kind = file_kind(files[0])
    if kind == "npy":
        return open_npy(files)
    if kind == "Parquet":
        return _as_table(title_of(source), open_parquet(files))
    if kind in ("CSV", "JSON lines"):
        return _as_table(title_of(source), ArrowData(read_texts(files)))
    raise InputError(f"{name}: {files[0]} is not a {KNOWN} file, nor a folder of them")


def _as_table(title: str, data: Data) -> Table:
    schema = data.schema
    types = {field.name: _plain_type(field.type) for field in schema if not _PANDAS_INDEX.fullmatch(field.name)}
    if len(types) < len(schema) and len(set(schema.names)) < len(schema.names):
        raise InputError(f"{title} has two columns of one name: rename one ({', '.join(schema.names)})")
    return Table(title, data.n, types, data)


# Columns.


def refuse_column(column: str | None, name: str, source: Any) -> None:
    """Raises `InputError` if a column is asked of something that has none."""
    if column is not None:
        what = title_of(source) if is_location(source) else "an array"
        raise InputError(f"{name}: column {column!r} was asked for, but {what} has no named columns")


def read_column(batch: Any, column: str) -> Any:
    """A column of a record batch; an extension type, such as a tensor of fixed shape, as what it is stored in."""
    values = batch.column(column)
    return getattr(values, "storage", values)


def _plain_type(kind: Any) -> Any:
    return getattr(kind, "storage_type", kind)


def _plain_values(values: Any) -> Any:
    """An Arrow array; one with a dictionary as its plain values."""
    import pyarrow as pa

    if not hasattr(values, "dictionary_decode"):
        return values
    try:
        return values.dictionary_decode()
    except pa.ArrowNotImplementedError:  # dictionaries of string views, as polars has them
        return as_text(values.dictionary, pa.large_string()).take(values.indices)


def _as_takeable(values: Any) -> Any:
    """An Arrow array from which single values can be taken, which views of strings cannot."""
    import pyarrow as pa

    plain = _plain_values(values)
    return as_text(plain, pa.large_string()) if pa.types.is_string_view(plain.type) else plain


def is_list(kind: Any) -> bool:
    """Whether an Arrow type is lists of numbers."""
    import pyarrow as pa

    lists = (
        pa.types.is_fixed_size_list, pa.types.is_list, pa.types.is_large_list, pa.types.is_list_view,
        pa.types.is_large_list_view,
    )  # fmt: skip
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


def as_text(values: Any, kind: Any) -> Any:
    """An Arrow array of text in another text type."""
    import pyarrow as pa

    try:
        return values.cast(kind)
    except pa.ArrowNotImplementedError:  # string views in older versions of Arrow
        return pa.array(values.to_pylist(), kind)


def numpy_dtype(kind: Any) -> np.dtype[Any]:
    """The dtype of an Arrow number or bool. Arrow's own conversion needs pandas in some versions."""
    names = {"halffloat": "float16", "float": "float32", "double": "float64"}
    return np.dtype(names.get(str(kind), str(kind)))


def as_arrow(numbers: npt.NDArray[Any]) -> Any:
    """Numbers as an Arrow array, from their bytes: `pa.array` imports pandas wherever that is installed."""
    import pyarrow as pa

    plain = np.ascontiguousarray(numbers, numbers.dtype.newbyteorder("="))
    return pa.Array.from_buffers(pa.from_numpy_dtype(plain.dtype), len(plain), [None, pa.py_buffer(plain)])


def as_numpy(values: Any) -> npt.NDArray[Any]:
    """An Arrow array in numpy: text as Python strings, numbers without nulls as a view, the rest as Arrow converts it.

    Arrow's own conversion imports pandas wherever that is installed, which takes a quarter of a second.
    """
    if is_string(values.type):
        return np.array(values.to_pylist(), np.object_)
    if not is_number(values.type) or values.null_count:
        converted: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
        return converted
    dtype = numpy_dtype(values.type)
    if len(values) == 0:
        return np.empty(0, dtype)
    return np.frombuffer(values.buffers()[1], dtype, len(values), values.offset * dtype.itemsize)


def refuse_nulls(values: Any, start: int, width: int, title: str) -> None:
    """Raises `InputError` with the row of the first null; `width` values make one row."""
    if values.null_count:
        place = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(f"{title} has a null in row {start + place // width}: fill or drop it")
