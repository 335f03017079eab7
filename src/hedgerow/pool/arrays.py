"""Arrays: from any library by protocol, or from `.npy` files, which are mapped and never read whole.

An array comes through `__array__` or `__dlpack__`, or as a list of numbers; its library is never imported.
`Npy` is a small record of files, so that another process can open them; several files are one array, one below the
other. What the numbers mean is decided by the callers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import InputError
from hedgerow.pool.sources import first_line, reading

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Npy:
    """One or more `.npy` files, one below the other; nothing of them is held."""

    paths: tuple[str, ...]
    starts: tuple[int, ...]  # the first row of each file, and at last the number of rows
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def blocks(self, start: int, stop: int, rows: int) -> Iterator[Array]:
        """The rows from start to stop in order, in views of at most `rows` rows."""
        for path, first, end in zip(self.paths, self.starts, self.starts[1:], strict=False):
            low, high = max(start, first), min(stop, end)
            if low < high:
                mapped = self._map(path, end - first)
                for at in range(low, high, rows):
                    yield mapped[at - first : min(at + rows, high) - first]

    def array(self) -> Array:
        """The mapped file; several files are copied to one new array."""
        if len(self.paths) == 1:
            return self._map(self.paths[0], self.shape[0])
        return np.concatenate(list(self.blocks(0, self.shape[0], max(1, self.shape[0]))))

    def _map(self, path: str, n: int) -> Array:
        mapped = map_npy(path)
        if mapped.shape != (n, *self.shape[1:]) or mapped.dtype != self.dtype:
            raise InputError(f"{path} has changed since it was opened: open it again")
        return mapped


def open_npy(paths: list[str]) -> Npy:
    """The files as one array; they must agree in everything but the number of rows."""
    arrays = [map_npy(path) for path in paths]
    first = arrays[0]
    for path, array in zip(paths, arrays, strict=True):
        if array.ndim == 0:
            raise InputError(f"{path} holds a single value: an array with rows is needed")
        if array.shape[1:] != first.shape[1:] or array.dtype != first.dtype:
            raise InputError(
                f"{path} holds {array.dtype} of shape {array.shape}, but {paths[0]} holds {first.dtype} of shape "
                f"{first.shape}: files that are read as one must agree in dtype and width"
            )
    starts = (0, *np.cumsum([len(array) for array in arrays]).tolist())
    return Npy(tuple(paths), starts, (starts[-1], *first.shape[1:]), first.dtype)


def map_npy(path: str) -> Array:
    """A local file, mapped."""
    with reading(path, "npy"):
        return np.lib.format.open_memmap(path, mode="r")


def open_array(source: Any, name: str) -> Array:
    """The array behind a protocol, without a copy where the protocol allows it."""
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
