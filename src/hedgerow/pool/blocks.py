"""Chosen rows of a matrix in float32, one block at a time, without a copy of the whole.

Seeding and k-center read the unlabeled rows of a pool this way: it may be a memmap much larger than memory. A C-ordered
matrix of float32 or float64 is read in place; from any other (float16, Fortran order, strides) the chosen rows are
copied to float32 once. Nothing is checked here.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.kernels import freeze
from hedgerow.kernels.gathering import gather_residuals, gather_rows

COPY_BYTES = 1 << 25  # rows are converted in pieces of 32 MiB
Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RowSource:
    """`rows` of `matrix` (float32 or float64, C-contiguous); position i of the source is rows[i]."""

    matrix: npt.NDArray[Any]
    rows: Rows
    in_place: bool  # float32 and all rows in order: a block is a slice

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def width(self) -> int:
        """The number of columns."""
        return int(self.matrix.shape[1])

    def block(self, start: int, stop: int) -> Floats:
        """The rows at positions start to stop: float32 (stop - start, width), a view if `in_place`."""
        if self.in_place:
            return freeze(self.matrix[start:stop])
        return self._gather(self.rows[start:stop])

    def take(self, positions: Rows) -> Floats:
        """The rows at these positions, as a new array."""
        return self._gather(self.rows[positions])

    def _gather(self, rows: Rows) -> Floats:
        taken = np.empty((len(rows), self.width), np.float32)
        gather_rows(freeze(self.matrix), rows, taken)
        return freeze(taken)


@dataclass(frozen=True, eq=False)
class ResidualSource:
    """a = p - onehot(argmax p) for the rows of a source of probabilities, computed whenever they are read."""

    probabilities: RowSource

    def __len__(self) -> int:
        return len(self.probabilities)

    @property
    def width(self) -> int:
        """Numbers per row: C, or 1 if there are two classes (see `gather_residuals`)."""
        return 1 if self.probabilities.width <= 2 else self.probabilities.width

    def block(self, start: int, stop: int) -> Floats:
        """The residuals at positions start to stop, as a new array (stop - start, width)."""
        return self._gather(self.probabilities.rows[start:stop])

    def take(self, positions: Rows) -> Floats:
        """The residuals at these positions, as a new array."""
        return self._gather(self.probabilities.rows[positions])

    def _gather(self, rows: Rows) -> Floats:
        taken = np.empty((len(rows), self.width), np.float32)
        gather_residuals(freeze(self.probabilities.matrix), rows, taken)
        return freeze(taken)


def open_rows(matrix: npt.NDArray[Any], rows: Rows) -> RowSource:
    """A source of these rows, which may repeat; if they cannot be read in place, each is copied once."""
    if not _is_readable(matrix):
        wanted = np.zeros(len(matrix), np.bool_)
        wanted[rows] = True
        matrix, rows = copy_rows(matrix, np.flatnonzero(wanted)), (np.cumsum(wanted) - 1)[rows]
    whole = len(rows) == len(matrix) and (len(rows) == 0 or bool((np.diff(rows) == 1).all()))
    return RowSource(np.asarray(matrix), rows, whole and matrix.dtype == np.float32)


def take_rows(matrix: npt.NDArray[Any], rows: Rows) -> npt.NDArray[Any]:
    """matrix[rows]; unlike numpy's indexing it releases the GIL, so that other threads can work."""
    if not _is_readable(matrix):
        return matrix[rows]
    taken = np.empty((len(rows), matrix.shape[1]), matrix.dtype)
    gather_rows(freeze(np.asarray(matrix)), rows, taken)
    return taken


def copy_rows(matrix: npt.NDArray[Any], rows: Rows) -> Floats:
    """matrix[rows] as a new float32 array, converted in pieces."""
    taken = np.empty((len(rows), matrix.shape[1]), np.float32)
    step = max(1, COPY_BYTES // max(1, matrix.shape[1] * matrix.dtype.itemsize))
    for start in range(0, len(rows), step):
        taken[start : start + step] = matrix[rows[start : start + step]]
    return taken


def _is_readable(matrix: npt.NDArray[Any]) -> bool:
    """Whether compiled code can read it in place."""
    return (
        isinstance(matrix, np.ndarray) and matrix.dtype.type in (np.float32, np.float64) and matrix.flags.c_contiguous
    )
