"""Arrays: from any library by protocol, from `.npy` files, or from sparse matrices.

An array comes through `__array__` or `__dlpack__`, or as a list of numbers; its library is never imported. Local `.npy`
files are mapped, those at URLs are read by ranges; several files are one array, one below the other. `Npy` is a small
record, so that another process can open the files. What the numbers mean is decided by the callers.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import InputError
from hedgerow.pool.sources import KNOWN, as_absolute, first_line, is_url, open_bytes, reading

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class NpyFile:
    """What the header of a `.npy` file says: its array begins `offset` bytes after the start of the file."""

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_columns: bool  # Fortran order
    offset: int

    def __reduce__(self) -> tuple[type["NpyFile"], tuple[Any, ...]]:
        return NpyFile, (as_absolute(self.path), self.shape, self.dtype, self.by_columns, self.offset)

    def read(self, start: int, stop: int) -> Array:
        """The rows from start to stop: a view of the mapped file, or read from a URL."""
        return self._fetch(start, stop) if is_url(self.path) else self.map()[start:stop]

    def map(self) -> Array:
        """The local file, mapped."""
        if read_header(self.path) != self:
            raise InputError(f"{self.path} has changed since it was opened: open it again")
        with reading(self.path, "npy"):
            order: Any = "F" if self.by_columns else "C"
            return np.memmap(self.path, self.dtype, "r", self.offset, self.shape, order)

    def _fetch(self, start: int, stop: int) -> Array:
        row_bytes = self.dtype.itemsize * math.prod(self.shape[1:])
        with reading(self.path, "npy"), open_bytes(self.path) as file:
            file.seek(self.offset + start * row_bytes)
            content = file.read((stop - start) * row_bytes)
            return np.frombuffer(content, self.dtype).reshape(stop - start, *self.shape[1:])


@dataclass(frozen=True)
class Npy:
    """One or more `.npy` files, one below the other; nothing of them is held."""

    files: tuple[NpyFile, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def is_mapped(self) -> bool:
        """Whether blocks are views that cost nothing."""
        return not any(is_url(file.path) for file in self.files)

    def blocks(self, start: int, stop: int, rows: int) -> Iterator[Array]:
        """The rows from start to stop in order, in blocks of at most `rows` rows."""
        first = 0
        for file in self.files:
            low, high = max(start - first, 0), min(stop - first, file.shape[0])
            first += file.shape[0]
            if low < high and self.is_mapped:
                mapped = file.map()
                yield from (mapped[at : min(at + rows, high)] for at in range(low, high, rows))
            elif low < high:
                yield from (file.read(at, min(at + rows, high)) for at in range(low, high, rows))

    def array(self) -> Array:
        """The mapped file; several files, or one at a URL, are copied to a new array."""
        if len(self.files) == 1:
            return self.files[0].map() if self.is_mapped else self.files[0].read(0, self.shape[0])
        return np.concatenate([file.read(0, file.shape[0]) for file in self.files])


@dataclass(frozen=True, eq=False)
class Sparse:
    """The rows of a sparse matrix, made dense when they are read."""

    matrix: Any  # scipy's CSR

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows, columns)."""
        return tuple(self.matrix.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the entries."""
        kind: np.dtype[Any] = np.dtype(self.matrix.dtype)
        return kind

    def blocks(self, start: int, stop: int, rows: int) -> Iterator[Array]:
        """The rows from start to stop in order, in dense blocks of at most `rows` rows."""
        return (self.matrix[at : min(at + rows, stop)].toarray() for at in range(start, stop, rows))


def open_npy(paths: list[str]) -> Npy:
    """The files as one array; they must agree in everything but the number of rows."""
    files = [read_header(path) for path in paths]
    first = files[0]
    for file in files:
        if not file.shape and len(files) > 1:
            raise InputError(f"{file.path} holds a single value: an array with rows is needed")
        if file.shape[1:] != first.shape[1:] or file.dtype != first.dtype:
            raise InputError(
                f"{file.path} holds {file.dtype} of shape {file.shape}, but {first.path} holds {first.dtype} of shape "
                f"{first.shape}: files that are read as one must agree in dtype and width"
            )
    shape = (sum(file.shape[0] for file in files), *first.shape[1:]) if first.shape else ()
    return Npy(tuple(files), shape, first.dtype)


def read_header(path: str) -> NpyFile:
    """What a `.npy` file holds, found to be possible and complete."""
    form = np.lib.format
    with reading(path, "npy"), open_bytes(path) as file:
        version = form.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"version {version[0]}.{version[1]} of the format is not supported: save it with np.save")
        read = form.read_array_header_1_0 if version == (1, 0) else form.read_array_header_2_0
        shape, by_columns, dtype = read(file)
        offset = file.tell()
        size = file.seek(0, 2)
        if dtype.hasobject:
            raise ValueError("it holds Python objects: save numbers or strings")
        if any(isinstance(side, bool) or side < 0 for side in shape):
            raise ValueError(f"its header says that its shape is {shape}")
        if offset + dtype.itemsize * math.prod(shape) > size:
            raise ValueError(f"shape {shape} of {dtype} is more than the {size - offset:,} bytes after its header")
        if by_columns and len(shape) > 1 and is_url(path):
            raise ValueError("it is stored by columns, which cannot be read by rows from a URL: save a C-ordered array")
    return NpyFile(path, shape, dtype, bool(by_columns), offset)


def open_array(source: Any, name: str) -> Array:
    """The array behind a protocol, without a copy where the protocol allows it."""
    if np.ma.is_masked(source):
        raise InputError(f"{name} has masked entries: fill or drop them first")
    try:
        if isinstance(source, (list, tuple)):
            return _from_list(source)
        if hasattr(source, "__array__"):
            return _widen(np.asarray(_as_supported(source)))
        if hasattr(source, "__dlpack__"):
            return np.from_dlpack(source)
    except (TypeError, ValueError, RuntimeError, BufferError, AttributeError) as error:
        # A tensor on a GPU or with a gradient says here what to do about it.
        raise InputError(f"{name} cannot be read as an array: {first_line(error)}") from error
    raise InputError(f"{name} must be an array, a table, or a path to a {KNOWN} file, got {_describe_type(source)}")


def open_sparse(source: Any) -> Sparse | None:
    """The rows of a scipy sparse matrix or array; None for anything else."""
    kind = type(source)
    if kind.__module__.partition(".")[0] == "scipy" and hasattr(source, "tocsr"):
        return Sparse(source.tocsr())
    return None


def _from_list(source: list[Any] | tuple[Any, ...]) -> Array:
    """An array of a list's values; numpy would turn ["a", 1] into strings without a word."""
    array = np.asarray(source)
    if array.ndim == 1 and array.dtype.kind == "U" and not all(isinstance(value, str) for value in source):
        other = next(value for value in source if not isinstance(value, str))
        raise ValueError(f"it mixes strings with other values, such as {other!r}")
    return array


def _as_supported(source: Any) -> Any:
    """A tensor of a float type that numpy does not have (bfloat16, float8) as float32."""
    kind = str(getattr(source, "dtype", ""))
    if kind.startswith(("torch.bfloat16", "torch.float8")):
        return source.float()
    return source


def _widen(array: Array) -> Array:
    """The same for arrays with an extension dtype, such as those of JAX."""
    return array.astype(np.float32) if array.dtype.name.startswith(("bfloat16", "float8")) else array


def _describe_type(source: Any) -> str:
    kind = type(source)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
