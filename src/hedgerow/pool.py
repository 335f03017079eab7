"""Arrays, npy, Parquet and Arrow in; ids; chunks; tables out.

A matrix (embeddings, probabilities, logits) comes as an array by protocol (`__array__`, `__dlpack__`, numpy memmap), a
table by protocol (`__arrow_c_stream__`), or a path to a `.npy` file, a Parquet file or a folder of Parquet files (read
in the order of their names). In a table it is one list column, or one numeric column a dimension, in file order. The
library an input comes from is never imported.

Parquet is read in batches, so that `Matrix.chunks` holds one chunk at a time; a `.npy` file is mapped, never read
whole. Row `i` is the i-th row of the source; ids are the user's keys (int64 or string) and live only here, in stored
files and at the doors. Finiteness and the meaning of the numbers are checked where they are used, not here.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import __version__, checks, store
from hedgerow.errors import InputError

VIEW_BYTES = 1 << 25  # 32 MiB a chunk of what is in memory or mapped: a view costs nothing, a call little
READ_BYTES = 1 << 23  # 8 MiB a chunk of what is read: a Parquet reader holds several times what it hands out
VECTOR_ROWS = 1 << 18  # a column is read a quarter of a million values at a time
BUFFER_BYTES = 1 << 20  # a Parquet page, as most writers have it
PARQUET = (".parquet", ".pq")

# Names as they stand in the wild, in lower case. With one numeric column a dimension (p_0, p_1, ...): the prefix.
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
VECTOR_NAMES = {
    "margins": {"margin", "margins"},
    "clusters": {"cluster", "clusters", "cluster_id"},
    "rows": {"row", "rows"},
    "picks": {"pick", "picks"},
    "labels": {"label", "labels", "target", "targets"},
}
ID_NAMES = {
    "id", "ids", "item_id", "uid", "uuid", "example_id", "sample_id", "image_id", "doc_id", "document_id", "key",
}  # fmt: skip
_NUMBERED = re.compile(r"(?P<prefix>.*?)[_.\-]?\d+")
_WHOLE = re.compile(r"[+-]?\d{1,18}")  # so many digits are sure to fit in int64
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # what pandas adds to a table for an index of its own


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix of floats (n, width) that can be walked in chunks or had whole.

    `dtype` is float16, float32 or float64 in native byte order; whole numbers become float32.
    """

    n: int
    width: int
    dtype: np.dtype[Any]
    _blocks: Callable[[int], Iterator[npt.NDArray[Any]]]  # the rows in order, in blocks of at most so many
    _held: npt.NDArray[Any] | None = None  # the whole, where it is in memory or mapped already

    def chunks(self, rows: int | None = None) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """(first row, contiguous 2-D array of at most `rows` rows), from the first row to the last."""
        if rows is None:
            most = READ_BYTES if self._held is None else VIEW_BYTES
            rows = max(1, most // max(1, self.width * self.dtype.itemsize))
        start = 0
        for block in self._blocks(checks.integer(rows, "rows", least=1)):
            yield start, np.ascontiguousarray(block, self.dtype)
            start += len(block)

    def array(self) -> npt.NDArray[Any]:
        """The whole matrix: the array or the memmap it came as, or one new array filled chunk by chunk."""
        if self._held is not None and self._held.dtype == self.dtype:
            return self._held
        whole = np.empty((self.n, self.width), self.dtype)
        for start, block in self.chunks():
            whole[start : start + len(block)] = block
        return whole


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns of equal length that are read in batches; `title` is what messages call it."""

    title: str
    n: int
    types: Mapping[str, Any]  # column -> Arrow type, in file order
    batches: Callable[[list[str], int], Iterator[Any]]  # (columns, most rows) -> record batches in order


@dataclass(frozen=True, eq=False)
class Ids:
    """The ids of a pool's rows: int64 or strings, distinct, read from their column whenever they are asked for."""

    n: int
    dtype: np.dtype[Any]  # int64, or object for Python strings
    title: str  # what messages call them
    _table: Table
    _column: str

    def chunks(self) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """(first row, ids), from the first row to the last."""
        for start, values in _column_chunks(self._table, self._column):
            if values.dtype == np.uint64 and len(values) and values.max() > np.iinfo(np.int64).max:
                raise InputError(f"{self.title} holds {values.max()}, which is beyond int64: use strings")
            yield start, values.astype(self.dtype, copy=False)

    def array(self) -> npt.NDArray[Any]:
        """All of them, as one array."""
        whole = np.empty(self.n, self.dtype)
        for start, values in self.chunks():
            whole[start : start + len(values)] = values
        return whole

    def take(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """The ids of `rows`, in their order; the others are not kept."""
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        taken = np.empty(len(rows), self.dtype)
        for start, values in self.chunks():
            low, high = np.searchsorted(ascending, [start, start + len(values)])
            taken[order[low:high]] = values[ascending[low:high] - start]
        return taken


def open_matrix(source: Any, name: str, *, column: str | None = None, least_columns: int = 1) -> Matrix:
    """The matrix in `source`, not yet read. `name` says what it is, in messages and when the column is guessed."""
    if isinstance(source, Matrix):
        matrix = source
    else:
        opened = _open(source, name)
        if isinstance(opened, Table):
            matrix = _table_matrix(opened, name, column)
        else:
            _refuse_column(column, name, source)
            matrix = _array_matrix(opened, name)
    if matrix.width < least_columns:
        told = checks.shape_text((matrix.n, matrix.width))
        raise InputError(f"{name} must have at least {least_columns} columns, got {told}")
    return matrix


def as_matrix(source: Any, name: str, *, column: str | None = None, least_columns: int = 1) -> npt.NDArray[Any]:
    """The matrix in `source` as a 2-D array of floats; a memmap stays one."""
    return open_matrix(source, name, column=column, least_columns=least_columns).array()


def as_vector(source: Any, name: str, *, column: str | None = None) -> npt.NDArray[Any]:
    """The one-dimensional array in `source`, in the dtype it has there (strings: Python's, as objects)."""
    opened = _open(source, name)
    if isinstance(opened, Table):
        chosen = _vector_column(opened, name, column)
        if chosen is None:
            raise _no_column(opened, name)
        return _read_column(opened, chosen)
    _refuse_column(column, name, source)
    if opened.ndim != 1:
        raise InputError(f"{name} must have one dimension, got shape {opened.shape}")
    return opened


def holds_margins(source: Any, *, column: str | None = None) -> bool:
    """Whether a model's predictions are one number a row rather than a matrix; a file may have both."""
    opened = _open(source, "predictions")
    if not isinstance(opened, Table):
        _refuse_column(column, "predictions", source)
        return opened.ndim == 1
    if column is not None:
        return column in opened.types and not _is_list(opened.types[column])
    if _vector_column(opened, "margins", None) is not None:
        return True
    if _matrix_columns(opened, "probabilities", None):
        return False
    raise _no_column(opened, "margins or probabilities")


def open_ids(source: Any, column: str | None = None, *, like: Ids | None = None) -> Ids | None:
    """A table's ids, found to be distinct whole numbers or strings; None if there is no id column.

    `like`: the ids of another file about the same pool, which must be the same in the same order.
    """
    opened = _open(source, "ids")
    if not isinstance(opened, Table):
        _refuse_column(column, "ids", source)
        return None
    if column is None:
        column = _only(opened, "id", [name for name in opened.types if name.lower() in ID_NAMES])
    if column is None:
        return None
    title = f"column {_present(opened, column)!r} of {opened.title}"
    ids = Ids(opened.n, _id_dtype(_vector_dtype(opened.types[column], title), title), title, opened, column)
    if like is None:
        _refuse_twins(ids)
    else:
        _refuse_others(ids, like)
    return ids


def read_ids(source: Any, column: str | None = None) -> npt.NDArray[Any] | None:
    """The ids of a table's rows as an array of int64 or of Python strings; None if it has no id column."""
    ids = open_ids(source, column)
    return None if ids is None else ids.array()


def match_ids(wanted: npt.NDArray[Any], ids: Ids | npt.NDArray[Any], name: str) -> npt.NDArray[np.int64]:
    """The row of each wanted id among the pool's `ids`, in the order wanted; an id may be wanted twice."""
    held = _id_dtype(ids.dtype, "ids")
    if len(wanted) and _id_dtype(wanted.dtype, name) != held:
        raise InputError(f"{name} holds {_tell_kind(wanted)}, but the pool's ids are {_tell_kind(ids)}")
    find, count = _index_ids(wanted.astype(held, copy=False))
    found = np.full(count, -1, np.int64)
    for start, chunk in _id_chunks(ids):
        places = find(chunk)
        hits = np.flatnonzero(places >= 0)
        found[places[hits]] = start + hits
    inverse = find(wanted)
    rows = found[inverse]
    if (rows < 0).any():
        first = wanted[int(np.argmax(rows < 0))]
        raise InputError(
            f"{name}: {int((rows < 0).sum()):,} of {len(wanted):,} ids are not in the pool, the first is {first!s}"
        )
    return rows


def find_rows(
    path: str | Path, name: str, n: int, ids: Ids | None, *, id_column: str | None = None
) -> npt.NDArray[np.int64]:
    """The rows that a file lists, ascending, each once.

    The file is Parquet with a column of ids or one called `row`, `.npy` (ids, rows, or a mask of the pool), or text
    with one id or row a line, after a heading or none. Where the pool has `ids`, values without a heading are ids.
    """
    values, are_rows = _read_listing(_existing(path, name), name, ids, id_column)
    if values.dtype == np.bool_:
        checks.same_length({f"{path}": len(values), "the pool": n})
        return np.flatnonzero(values)
    if ids is not None and not are_rows:
        return np.unique(match_ids(values, ids, f"{name} ({path})"))
    if len(values) and values.dtype.kind not in "iu":
        told = "row numbers" if are_rows else "row numbers, because the pool has no ids"
        raise InputError(f"{name}: {path} holds {_tell_kind(values)} where it must hold {told}")
    return checks.rows(np.unique(values), n, f"{name} ({path})")


def count_rows(source: Any, name: str) -> int:
    """How many rows a source has."""
    opened = _open(source, name)
    return opened.n if isinstance(opened, Table) else int(np.atleast_1d(opened).shape[0])


def write_table(
    path: str | Path, columns: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, str], *, force: bool = False
) -> None:
    """Write one-dimensional columns of equal length as Parquet, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    checks.same_length({name: len(values) for name, values in columns.items()})
    table = pa.table({name: _arrow_array(values) for name, values in columns.items()})
    with store.atomic_write(path, force=force) as temporary:
        told = {"hedgerow.version": __version__, **metadata}
        pq.write_table(table.replace_schema_metadata(told), temporary)


def read_metadata(path: str | Path) -> dict[str, str]:
    """What `write_table` was given as metadata; empty for a Parquet file that has none."""
    import pyarrow.parquet as pq

    file = _existing(path, "the file")
    with _reading(file, "Parquet"):
        found = pq.read_schema(file).metadata or {}
    return {key.decode(): value.decode(errors="replace") for key, value in found.items()}


# Opening: whatever it is, it becomes an array or a Table.


def _open(source: Any, name: str) -> npt.NDArray[Any] | Table:
    if isinstance(source, np.memmap):
        return source
    if isinstance(source, (str, os.PathLike)):
        return _open_path(_existing(source, name), name)
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
        raise InputError(f"{name} cannot be read as an array: {_first_line(error)}") from error
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
        raise InputError(f"{name} cannot be read as an Arrow table: {_first_line(error)}") from error

    def batches(columns: list[str], rows: int) -> Iterator[Any]:
        return iter(table.select(columns).to_batches(max_chunksize=rows))

    title = f"the table given as {name}"
    return Table(title, table.num_rows, _name_types(table.schema, title), batches)


def _open_path(path: Path, name: str) -> npt.NDArray[Any] | Table:
    if path.is_dir():
        return _open_parquet(path, _list_parquet(path))
    if path.suffix.lower() in PARQUET:
        return _open_parquet(path, [path])
    if path.suffix.lower() == ".npy":
        with _reading(path, "npy"):
            return np.lib.format.open_memmap(path, mode="r")
    raise InputError(f"{name}: {path} is neither .npy nor .parquet, nor a folder of .parquet files")


def _existing(source: str | os.PathLike[str], name: str) -> Path:
    path = Path(source)
    if not path.exists():
        raise InputError(f"{name}: {path} does not exist")
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(f"{name}: {path} is empty (0 bytes)")
    return path


def _list_parquet(folder: Path) -> list[Path]:
    """A folder's Parquet files, also in folders below, by name; hidden and underscored ones are not data."""
    found = [path for path in folder.rglob("*") if path.suffix.lower() in PARQUET and path.is_file()]
    found = [path for path in found if not any(part[0] in "._" for part in path.relative_to(folder).parts)]
    if not found:
        raise InputError(f"the folder {folder} holds no .parquet files")
    return sorted(found)


def _open_parquet(source: Path, paths: list[Path]) -> Table:
    import pyarrow.parquet as pq

    n = 0
    types: dict[str, Any] = {}
    for path in paths:
        with _reading(path, "Parquet"), pq.ParquetFile(path) as file:
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
                _reading(path, "Parquet"),
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
def _reading(path: Path, form: str) -> Iterator[None]:
    """Whatever a reader says of a broken file, in one line."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} cannot be read as {form}: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].rstrip(". ") or type(error).__name__


# Choosing columns.


def _matrix_columns(table: Table, name: str, column: str | None) -> list[str]:
    """The list column, or the numeric columns, that hold the matrix; none if nothing looks like it."""
    candidates = {key: [key] for key, kind in table.types.items() if _is_list(kind)} | _numbered_columns(table)
    if column is not None:
        return candidates.get(column) or [_present(table, column)]
    kinds = [name] if name in MATRIX_NAMES else list(MATRIX_NAMES)
    known = set().union(*(MATRIX_NAMES[kind] for kind in kinds))
    foreign = set().union(*MATRIX_NAMES.values(), *VECTOR_NAMES.values(), ID_NAMES) - known
    for fitting in (
        [key for key in candidates if key.lower() in known],
        [key for key in candidates if key.lower() not in foreign],
    ):
        chosen = _only(table, name, fitting)
        if chosen is not None:
            return candidates[chosen]
    if candidates:
        return []
    aside = ID_NAMES.union(*VECTOR_NAMES.values())
    rest = [key for key in table.types if key.lower() not in aside]
    return rest if all(_is_float(table.types[key]) for key in rest) else []


def _numbered_columns(table: Table) -> dict[str, list[str]]:
    """Prefix -> its numeric columns in file order, for p0, p1, ... or emb_0, emb_1, ..."""
    families: dict[str, list[str]] = {}
    for key, kind in table.types.items():
        match = _NUMBERED.fullmatch(key)
        if match and _is_number(kind):
            families.setdefault(match["prefix"], []).append(key)
    return {prefix: keys for prefix, keys in families.items() if len(keys) > 1 and prefix not in table.types}


def _vector_column(table: Table, name: str, column: str | None) -> str | None:
    """The column of a vector: the one named, the one that bears the name, or for other names the only one there is."""
    if column is not None:
        return _present(table, column)
    if name in VECTOR_NAMES:
        return _only(table, name, [key for key in table.types if key.lower() in VECTOR_NAMES[name]])
    others = [key for key in table.types if key.lower() not in ID_NAMES]
    return _only(table, name, [key for key in others if key == name] or others or list(table.types))


def _only(table: Table, name: str, fitting: list[str]) -> str | None:
    if len(fitting) > 1:
        raise InputError(
            f"{table.title} has more than one column that may hold the {name} ({', '.join(fitting)}): name one"
        )
    return fitting[0] if fitting else None


def _present(table: Table, column: str) -> str:
    if column not in table.types:
        raise InputError(f"{table.title} has no column {column!r}: it has {_tell_columns(table)}")
    return column


def _no_column(table: Table, name: str) -> InputError:
    return InputError(f"{table.title} has no column that looks like {name}: name one of {_tell_columns(table)}")


def _tell_columns(table: Table) -> str:
    names = list(table.types)
    most = 20  # a message is a line, and a table may have a column a dimension
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def _refuse_column(column: str | None, name: str, source: Any) -> None:
    if column is not None:
        told = source if isinstance(source, (str, os.PathLike)) else "an array"
        raise InputError(f"{name}: column {column!r} was asked for, but {told} has no named columns")


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    lists = (pa.types.is_fixed_size_list, pa.types.is_list, pa.types.is_large_list)
    return any(is_kind(kind) for is_kind in lists) and _is_number(kind.value_type)


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind)) or _is_float(kind)


def _is_float(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_floating(kind))


# Reading.


def _array_matrix(array: npt.NDArray[Any], name: str) -> Matrix:
    if array.ndim != 2:
        raise InputError(f"{name} must have two dimensions (rows, columns), got shape {array.shape}")
    dtype = checks.floats(np.empty(0, array.dtype), name).dtype

    def blocks(rows: int) -> Iterator[npt.NDArray[Any]]:
        for start in range(0, len(array), rows):
            yield array[start : start + rows]

    return Matrix(array.shape[0], array.shape[1], dtype, blocks, array)


def _table_matrix(table: Table, name: str, column: str | None) -> Matrix:
    columns = _matrix_columns(table, name, column)
    if not columns:
        raise _no_column(table, name)
    kinds = [table.types[key] for key in columns]
    if _is_list(kinds[0]):
        return _list_matrix(table, name, columns[0])
    for key, kind in zip(columns, kinds, strict=True):
        if not _is_number(kind):
            raise InputError(f"column {key!r} of {table.title} holds {kind}, but {name} must be lists of numbers")
    dtype = np.result_type(*(kind.to_pandas_dtype() for kind in kinds))
    dtype = checks.floats(np.empty(0, dtype), name).dtype

    def blocks(rows: int) -> Iterator[npt.NDArray[Any]]:
        start = 0
        for batch in table.batches(columns, rows):
            block = np.empty((batch.num_rows, len(columns)), dtype)
            for place, key in enumerate(columns):
                values = batch.column(key)
                _refuse_nulls(values, start, 1, f"column {key!r} of {table.title}")
                block[:, place] = values.to_numpy(zero_copy_only=False)
            yield block
            start += len(block)

    return Matrix(table.n, len(columns), dtype, blocks)


def _list_matrix(table: Table, name: str, column: str) -> Matrix:
    kind = table.types[column]
    title = f"column {column!r} of {table.title}"
    width = kind.list_size if hasattr(kind, "list_size") else _first_length(table, column)
    dtype = checks.floats(np.empty(0, kind.value_type.to_pandas_dtype()), name).dtype

    def blocks(rows: int) -> Iterator[npt.NDArray[Any]]:
        start = 0
        for batch in table.batches([column], rows):
            lists = batch.column(column)
            _refuse_nulls(lists, start, 1, title)
            if not hasattr(kind, "list_size"):
                _refuse_ragged(lists, start, width, title)
            values = lists.flatten()
            _refuse_nulls(values, start, width, title)
            yield values.to_numpy(zero_copy_only=False).reshape(len(lists), width)
            start += len(lists)

    return Matrix(table.n, width, dtype, blocks)


def _first_length(table: Table, column: str) -> int:
    """The length of a list column's first list; the others are held to it as they are read."""
    for batch in table.batches([column], 1):
        if batch.num_rows:
            _refuse_nulls(batch.column(column), 0, 1, f"column {column!r} of {table.title}")
            return len(batch.column(column)[0])
    return 0


def _refuse_ragged(lists: Any, start: int, width: int, title: str) -> None:
    lengths = np.diff(lists.offsets.to_numpy())
    if (lengths != width).any():
        row = int(np.argmax(lengths != width))
        raise InputError(
            f"{title} holds {lengths[row]} numbers in row {start + row}, but {width} in row 0: "
            "the lists must be equally long"
        )


def _refuse_nulls(values: Any, start: int, width: int, title: str) -> None:
    if values.null_count:
        place = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(f"{title} has a null in row {start + place // width}: fill or drop it")


def _column_chunks(table: Table, column: str) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    dtype = _vector_dtype(table.types[column], f"column {column!r} of {table.title}")
    start = 0
    for batch in table.batches([column], VECTOR_ROWS):
        values = batch.column(column)
        _refuse_nulls(values, start, 1, f"column {column!r} of {table.title}")
        if hasattr(values, "dictionary_decode"):
            values = values.dictionary_decode()
        yield start, values.to_numpy(zero_copy_only=False).astype(dtype, copy=False)
        start += len(values)


def _read_column(table: Table, column: str) -> npt.NDArray[Any]:
    """A column as one array, filled batch by batch."""
    whole = np.empty(table.n, _vector_dtype(table.types[column], f"column {column!r} of {table.title}"))
    for start, values in _column_chunks(table, column):
        whole[start : start + len(values)] = values
    return whole


def _vector_dtype(kind: Any, title: str) -> np.dtype[Any]:
    import pyarrow as pa

    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    strings = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if any(is_kind(plain) for is_kind in strings):
        return np.dtype(np.object_)
    if _is_number(plain) or pa.types.is_boolean(plain):
        dtype: np.dtype[Any] = np.dtype(plain.to_pandas_dtype())
        return dtype
    raise InputError(f"{title} holds {kind}: one number or string a row is needed")


# Ids.


def _id_dtype(dtype: np.dtype[Any], title: str) -> np.dtype[Any]:
    if dtype.kind in "iu":
        return np.dtype(np.int64)
    if dtype.kind in "OU":
        return np.dtype(np.object_)
    raise InputError(f"{title} holds {dtype}: ids must be whole numbers or strings")


def _id_chunks(ids: Ids | npt.NDArray[Any]) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    if isinstance(ids, Ids):
        yield from ids.chunks()
    else:
        for start in range(0, len(ids), VECTOR_ROWS):
            yield start, ids[start : start + VECTOR_ROWS]


def _tell_kind(ids: Ids | npt.NDArray[Any]) -> str:
    return "whole numbers" if ids.dtype.kind in "iu" else "strings" if ids.dtype.kind in "OU" else f"{ids.dtype}"


def _walk_together(first: Ids, second: Ids) -> Iterator[tuple[int, npt.NDArray[Any], npt.NDArray[Any]]]:
    """(first row, ids, ids) over two files that may be cut into unlike batches."""
    others = second.chunks()
    ahead = np.empty(0, second.dtype)
    for start, chunk in first.chunks():
        while len(ahead) < len(chunk):
            ahead = np.concatenate([ahead, next(others)[1]])
        yield start, chunk, ahead[: len(chunk)]
        ahead = ahead[len(chunk) :]


def _digest(ids: Ids) -> npt.NDArray[np.int64]:
    """The ids, or of strings their hashes, in ascending order: 8 bytes a row."""
    numbers = np.empty(ids.n, np.int64)
    for start, values in ids.chunks():
        if ids.dtype == np.object_:
            values = np.fromiter(map(hash, values), np.int64, len(values))
        numbers[start : start + len(values)] = values
    numbers.sort()
    return numbers


def _read_listing(path: Path, name: str, ids: Ids | None, id_column: str | None) -> tuple[npt.NDArray[Any], bool]:
    """(the values, whether they say that they are rows)."""
    if path.suffix.lower() in (".txt", ".csv"):
        return _read_lines(path, name, ids is None or ids.dtype != np.object_, id_column)
    opened = _open_path(path, name)
    if not isinstance(opened, Table):
        if opened.ndim != 1:
            raise InputError(f"{name}: {path} must have one dimension, got shape {opened.shape}")
        return opened, False
    if ids is not None and id_column in opened.types:
        return _read_column(opened, str(id_column)), False
    keys = [key for key in opened.types if key.lower() in ID_NAMES]
    row = _only(opened, "rows", [key for key in opened.types if key.lower() in VECTOR_NAMES["rows"]])
    if ids is not None and keys:
        return _read_column(opened, _only(opened, "id", keys) or keys[0]), False
    if row is not None:
        return _read_column(opened, row), True
    raise InputError(
        f"{name}: {path} has no column of rows (row)"
        + (" or ids (id)" if ids is not None else "")
        + f": it has {_tell_columns(opened)}"
        + (", and the pool has no ids" if ids is None and keys else "")
    )


def _read_lines(path: Path, name: str, numbers: bool, id_column: str | None) -> tuple[npt.NDArray[Any], bool]:
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{name}: {path} cannot be read as text: {_first_line(error)}") from error
    heading = lines[0].lower() if lines else ""
    are_rows = heading in VECTOR_NAMES["rows"]
    if are_rows or heading in ID_NAMES or (id_column is not None and heading == id_column.lower()):
        lines[0] = ""
    if not (numbers or are_rows):
        return np.array([line for line in lines if line], np.object_), False
    try:
        return np.array([int(line) for line in lines if line], np.int64), are_rows
    except (ValueError, OverflowError):
        place = next(place for place, line in enumerate(lines, 1) if line and not _WHOLE.fullmatch(line))
        raise InputError(
            f"{name}: line {place} of {path} is {lines[place - 1]!r}: one whole number a line is needed"
        ) from None


def _index_ids(wanted: npt.NDArray[Any]) -> tuple[Callable[[npt.NDArray[Any]], npt.NDArray[np.int64]], int]:
    """(a function from ids to their places among the distinct wanted ones, or -1; how many these are)."""
    if wanted.dtype == np.object_:
        places = {value: place for place, value in enumerate(dict.fromkeys(wanted.tolist()))}
        return lambda ids: np.array([places.get(value, -1) for value in ids.tolist()], np.int64), len(places)
    distinct = np.unique(wanted)

    def find(ids: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        place = np.searchsorted(distinct, ids)
        place[place == len(distinct)] = 0
        return np.where(distinct[place] == ids, place, -1) if len(distinct) else np.full(len(ids), -1, np.int64)

    return find, len(distinct)


def _refuse_others(second: Ids, first: Ids) -> None:
    """The same ids in the same order, which makes them as distinct as the first are."""
    checks.same_length({first.title: first.n, second.title: second.n})
    if _id_dtype(first.dtype, first.title) != _id_dtype(second.dtype, second.title):
        raise InputError(f"{first.title} holds {_tell_kind(first)}, {second.title} holds {_tell_kind(second)}")
    for start, one, other in _walk_together(first, second):
        unlike = one != other
        if unlike.any():
            place = int(np.argmax(unlike))
            told = f"{first.title} has {one[place]} in row {start + place}, where {second.title} has {other[place]}"
            if np.array_equal(_digest(first), _digest(second)):
                told += ": the ids are the same in another order, so sort both files by id"
            raise InputError(f"the ids do not match: {told}")


def _refuse_twins(ids: Ids) -> None:
    """No id twice. Of strings the hashes are held, 8 bytes each; only those whose hashes meet are compared."""
    if ids.dtype != np.object_:
        numbers = ids.array()
        if not bool(np.all(numbers[1:] > numbers[:-1])):  # ascending ids are distinct, and common
            checks.distinct(numbers, ids.title)
        return
    hashes = _digest(ids)
    met = hashes[1:][hashes[1:] == hashes[:-1]]
    if len(met):
        alike = set(met.tolist())
        suspects = [value for _, values in ids.chunks() for value in values if hash(value) in alike]
        checks.distinct(np.array(suspects, np.object_), ids.title)


def _arrow_array(values: npt.NDArray[Any]) -> Any:
    import pyarrow as pa

    return pa.array(values, pa.string()) if values.dtype.kind in "OU" else pa.array(values)
