"""Whatever a source is, it becomes an array or a table whose columns are read in batches.

An array comes by protocol (`__array__`, `__dlpack__`, numpy memmap) or as a `.npy` file, which is mapped, never read
whole; a table by protocol (`__arrow_c_stream__`), as a Parquet file, or as a folder of them. The files of a folder are
read in the order of their names, numbers in them by value: part-2 before part-10. The library an input comes from is
never imported. What a column means is decided by those who ask for it: `pool.py` and `ids.py`.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import InputError

VECTOR_ROWS = 1 << 18  # a column is read a quarter of a million values at a time
BUFFER_BYTES = 1 << 20  # a Parquet page, as most writers have it
PARQUET = (".parquet", ".pq")
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
    """Named columns of equal length that are read in batches; `title` is what messages call it."""

    title: str
    n: int
    types: Mapping[str, Any]  # column -> Arrow type, in file order
    batches: Callable[[list[str], int], Iterator[Any]]  # (columns, most rows) -> record batches in order

    def tell(self, column: str) -> str:
        """What messages call a column."""
        return f"column {column!r} of {self.title}"

    def tell_columns(self) -> str:
        """What there is, for messages."""
        names = list(self.types)
        most = 20  # a message is a line, and a table may have a column a dimension
        return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")

    def require(self, column: str) -> str:
        """The column, which must be there."""
        if column not in self.types:
            raise InputError(f"{self.title} has no column {column!r}: it has {self.tell_columns()}")
        return column

    def miss(self, name: str) -> InputError:
        """The error to raise where no column looks like `name`."""
        return InputError(f"{self.title} has no column that looks like {name}: name one of {self.tell_columns()}")

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

    def dtype(self, column: str) -> np.dtype[Any]:
        """That of a column with one value a row: object for strings."""
        import pyarrow as pa

        kind = self.types[column]
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        strings = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
        if any(is_kind(plain) for is_kind in strings):
            return np.dtype(np.object_)
        if is_number(plain) or pa.types.is_boolean(plain):
            dtype: np.dtype[Any] = np.dtype(plain.to_pandas_dtype())
            return dtype
        raise InputError(f"{self.tell(column)} holds {kind}: one number or string a row is needed")

    def walk(self, column: str) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """(first row, values) of a column with one value a row, from the first row to the last."""
        dtype = self.dtype(column)
        for start, values in self._walk_arrow(column):
            yield start, values.to_numpy(zero_copy_only=False).astype(dtype, copy=False)

    def read(self, column: str) -> npt.NDArray[Any]:
        """A column as one array, filled batch by batch."""
        return fill(np.empty(self.n, self.dtype(column)), self.walk(column))

    def encode(self, column: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
        """(the distinct values in order of first appearance, each row's place among them), for columns that repeat."""
        import pyarrow as pa

        dtype = self.dtype(column)
        pieces = [values.cast(pa.string()) if dtype == np.object_ else values for _, values in self._walk_arrow(column)]
        if self.n == 0:
            return np.zeros(0, dtype), np.zeros(0, np.int32)
        encoded = pa.chunked_array(pieces).dictionary_encode()
        distinct = encoded.chunk(0).dictionary.to_numpy(zero_copy_only=False).astype(dtype, copy=False)
        return distinct, np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])

    def _walk_arrow(self, column: str) -> Iterator[tuple[int, Any]]:
        """(first row, an Arrow array without nulls or a dictionary), from the first row to the last."""
        start = 0
        for batch in self.batches([column], VECTOR_ROWS):
            values = batch.column(column)
            refuse_nulls(values, start, 1, self.tell(column))
            yield start, values.dictionary_decode() if hasattr(values, "dictionary_decode") else values
            start += len(values)


def fill(whole: npt.NDArray[Any], pieces: Iterable[tuple[int, npt.NDArray[Any]]]) -> npt.NDArray[Any]:
    """`whole`, with each (first row, rows) put in its place."""
    for start, piece in pieces:
        whole[start : start + len(piece)] = piece
    return whole


def open_source(source: Any, name: str) -> npt.NDArray[Any] | Table:
    if isinstance(source, np.memmap):
        return source
    if isinstance(source, (str, os.PathLike)):
        return open_path(find_file(source, name), name)
    if hasattr(source, "__arrow_c_stream__"):
        return _open_stream(source, name)
    return _open_array(source, name)


def _open_array(source: Any, name: str) -> npt.NDArray[Any]:
    if np.ma.is_masked(source):
        raise InputError(f"{name} has masked entries: fill or drop them first")
    try:
        if hasattr(source, "__array__") or isinstance(source, (list, tuple)):
            return np.asarray(source)
        if hasattr(source, "__dlpack__"):
            return np.from_dlpack(source)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        # A tensor on a GPU or with a gradient says here what to do about it.
        raise InputError(f"{name} cannot be read as an array: {first_line(error)}") from error
    raise InputError(
        f"{name} must be an array, a table or a path to a .npy or .parquet file, got {type(source).__name__}"
    )


def _open_stream(source: Any, name: str) -> Table:
    import pyarrow as pa

    try:
        column = pa.chunked_array(source)
        if pa.types.is_struct(column.type):
            table = pa.table(source) if isinstance(source, pa.Table) else pa.Table.from_struct_array(column)
        else:  # a lone column, such as a polars Series
            table = pa.table({name: column})
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"{name} cannot be read as an Arrow table: {first_line(error)}") from error

    def batches(columns: list[str], rows: int) -> Iterator[Any]:
        return iter(table.select(columns).to_batches(max_chunksize=rows))

    title = f"the table given as {name}"
    return Table(title, table.num_rows, _name_types(table.schema, title), batches)


def open_path(path: Path, name: str) -> npt.NDArray[Any] | Table:
    if path.is_dir():
        return _open_parquet(path, _list_parquet(path))
    if path.suffix.lower() in PARQUET:
        return _open_parquet(path, [path])
    if path.suffix.lower() == ".npy":
        with reading(path, "npy"):
            return np.lib.format.open_memmap(path, mode="r")
    raise InputError(f"{name}: {path} is neither .npy nor .parquet, nor a folder of .parquet files")


def find_file(source: str | os.PathLike[str], name: str) -> Path:
    path = Path(source)
    if not path.exists():
        raise InputError(f"{name}: {path} does not exist")
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(f"{name}: {path} is empty (0 bytes)")
    return path


def _list_parquet(folder: Path) -> list[Path]:
    """A folder's Parquet files, also in folders below, in natural order; hidden and underscored ones are not data."""
    found = [path for path in folder.rglob("*") if path.suffix.lower() in PARQUET and path.is_file()]
    found = [path for path in found if not any(part[0] in "._" for part in path.relative_to(folder).parts)]
    if not found:
        raise InputError(f"the folder {folder} holds no .parquet files")
    return sorted(found, key=_rank_naturally)


def _rank_naturally(path: Path) -> tuple[Any, ...]:
    """Numbers in names by value, as writers count their parts; the path itself where that leaves a tie."""
    pieces = [re.split(r"([0-9]+)", part) for part in path.parts]
    return [[int(piece) if piece.isdigit() else piece for piece in part] for part in pieces], path


def _open_parquet(source: Path, paths: list[Path]) -> Table:
    import pyarrow.parquet as pq

    n = 0
    types: dict[str, Any] = {}
    for path in paths:
        with reading(path, "Parquet"), pq.ParquetFile(path) as file:
            n += file.metadata.num_rows
            found = _name_types(file.schema_arrow, str(path))
        if path == paths[0]:
            types = found
        elif found != types:
            raise InputError(f"{path} and {paths[0]} have different columns or types: files of one folder must agree")

    def batches(columns: list[str], rows: int) -> Iterator[Any]:
        for path in paths:
            # Without both options the reader holds a row group's columns whole, and a file may be one row group.
            with (
                reading(path, "Parquet"),
                pq.ParquetFile(path, buffer_size=BUFFER_BYTES, pre_buffer=False) as file,
            ):
                yield from file.iter_batches(batch_size=rows, columns=columns)

    return Table(str(source), n, types, batches)


def _name_types(schema: Any, title: str) -> dict[str, Any]:
    types = {field.name: field.type for field in schema if not _PANDAS_INDEX.fullmatch(field.name)}
    if len(types) < len(schema) and len(set(schema.names)) < len(schema.names):
        raise InputError(f"{title} has two columns of one name: rename one ({', '.join(schema.names)})")
    return types


@contextmanager
def reading(path: Path, form: str) -> Iterator[None]:
    """Whatever a reader says of a broken file, in one line."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} cannot be read as {form}: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].rstrip(". ") or type(error).__name__


# Columns.


def refuse_column(column: str | None, name: str, source: Any) -> None:
    if column is not None:
        told = source if isinstance(source, (str, os.PathLike)) else "an array"
        raise InputError(f"{name}: column {column!r} was asked for, but {told} has no named columns")


def is_list(kind: Any) -> bool:
    import pyarrow as pa

    lists = (pa.types.is_fixed_size_list, pa.types.is_list, pa.types.is_large_list)
    return any(is_kind(kind) for is_kind in lists) and is_number(kind.value_type)


def is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind)) or is_float(kind)


def is_float(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_floating(kind))


def refuse_nulls(values: Any, start: int, width: int, title: str) -> None:
    if values.null_count:
        place = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(f"{title} has a null in row {start + place // width}: fill or drop it")
