"""Embeddings as a metric sees them: unit vectors for cosine, vectors minus their mean for squared distances.

The latter are also scaled to about 1 by a power of two, which is exact, so that squares of tiny or huge values do not
underflow or overflow. The embeddings are not copied (a memmap stays one): rows are prepared one block at a time, in
float32 or float64, with the same result for any block. One pass at the start finds rows that cannot be used.
"""

import mmap
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import InputError
from hedgerow.kernels import freeze
from hedgerow.kernels import rows as kernels
from hedgerow.machine import Team
from hedgerow.pool.blocks import take_rows

BLOCK = 1 << 14  # rows read and prepared at a time
LEAST, MOST = 1e-140, 1e140  # magnitudes whose squares, and sums of squares, float64 can represent
GRID = 2.0**24  # grid steps of a center up to the largest magnitude
RELEASE_AFTER = 32  # blocks between releases: a quarter of a gigabyte at 128 dimensions


@dataclass(frozen=True)
class Vectors:
    """Embeddings (n, d) as a metric sees them."""

    raw: npt.NDArray[Any]
    metric: str  # "cosine" or "sqeuclidean"
    dtype: Any
    center: npt.NDArray[np.float64]  # (d,), subtracted for sqeuclidean: distances stay, rounding errors shrink
    factor: float = 1.0  # rows are then multiplied by this

    def __len__(self) -> int:
        return len(self.raw)

    def subset(self, rows: npt.NDArray[np.int64], team: Team) -> "Vectors":
        """A pool of these rows only, copied, with a center of its own."""
        raw = self.raw[rows]
        return replace(self, raw=raw) if self.metric == "cosine" else open_vectors(raw, self.metric, self.dtype, team)

    @property
    def scale(self) -> float:
        """Distance / gap. A gap is the cosine distance itself, or half of the squared distance of prepared rows."""
        return 1.0 if self.metric == "cosine" else 2.0 / self.factor**2

    def prepare(self, raw: npt.NDArray[Any], out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """Raw rows as the metric sees them, contiguous; written to `out` if it is given."""
        if out is None:
            out = np.empty(raw.shape, self.dtype)
        if self.metric == "cosine":
            kernels.normalize(to_input(raw), out)
        else:
            kernels.shift(to_input(raw), self.center, self.factor, out)
        out += 0  # -0.0 becomes 0.0: equal rows have equal bits
        return out

    def take(self, rows: npt.NDArray[np.int64], out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """The prepared rows at these positions."""
        taken = self.prepare(take_rows(self.raw, rows), out)
        release_pages(self.raw)
        return taken

    def block(self, start: int) -> npt.NDArray[Any]:
        """Up to BLOCK prepared rows from `start` on."""
        if start % (RELEASE_AFTER * BLOCK) == 0:
            release_pages(self.raw)
        return self.prepare(self.raw[start : start + BLOCK])

    def starts(self) -> range:
        """The first row of each block."""
        return range(0, len(self), BLOCK)

    def half(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Half of the squared norm of prepared rows; exactly 1/2 for unit vectors."""
        if self.metric == "cosine":
            return np.full(len(rows), 0.5, self.dtype)
        return measure_half(rows).astype(self.dtype)


def measure_half(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Half of the squared norm of each row."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64) / 2)


def release_pages(raw: npt.NDArray[Any]) -> None:
    """Release the pages of a read-only memory map: they can be read again, and would count as memory in use."""
    owner: Any = raw
    while isinstance(owner, np.ndarray) and not isinstance(owner.base, mmap.mmap):
        owner = owner.base
    # Mode "c" may hold changes that are not in the file.
    if isinstance(owner, np.memmap) and owner.mode == "r":
        pages: Any = owner.base
        pages.madvise(mmap.MADV_DONTNEED)


def to_input(raw: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Rows as kernels take them: contiguous, not to be written to, and float16, which they do not know, as float32."""
    return freeze(np.ascontiguousarray(raw, np.float32 if raw.dtype == np.float16 else None))


def open_vectors(raw: npt.NDArray[Any], metric: str, dtype: Any, team: Team, first_row: int = 0) -> Vectors:
    """The pool as the metric sees it. A NaN, an infinity or (for cosine) a row of zeros is refused with its row.

    first_row: the number of the first row, if these are a part of the pool.
    """
    vectors, zero_rows = survey_rows(raw, metric, team, first_row)
    if len(zero_rows):
        refuse_zeros(first_row + zero_rows)
    return replace(vectors, dtype=dtype)


def survey_rows(
    raw: npt.NDArray[Any], metric: str, team: Team, first_row: int = 0
) -> tuple[Vectors, npt.NDArray[np.int64]]:
    """One pass over the pool: the vectors in float32, and for cosine the rows that are all zero. Refuses NaN and inf.

    Vectors in float64 are the same record with another dtype.
    """
    n, d = raw.shape
    largest = np.empty(n)

    def survey(start: int) -> npt.NDArray[np.float64]:
        sums = np.zeros(d)
        kernels.survey(to_input(raw[start : start + BLOCK]), largest[start : start + BLOCK], sums)
        return sums

    sums = team.map(survey, range(0, n, BLOCK))
    if np.isinf(largest).any():
        row = first_row + int(np.argmax(np.isinf(largest)))
        raise InputError(f"embeddings has a NaN or an infinity in row {row}: remove or repair that row")
    if metric == "cosine" or n == 0:
        zero_rows = np.flatnonzero(largest == 0) if metric == "cosine" else np.zeros(0, np.int64)
        return Vectors(raw, metric, np.float32, np.zeros(d)), zero_rows
    # Blocks are summed in order, so that the center does not depend on the number of threads. It is rounded to a grid,
    # so that points on a lattice stay on one and equal distances stay equal.
    factor = choose_factor(largest, first_row)
    center = np.rint(np.sum(sums, axis=0) / n * factor * GRID) / GRID / factor
    return Vectors(raw, metric, np.float32, center, factor), np.zeros(0, np.int64)


def choose_factor(largest: npt.NDArray[np.float64], first_row: int = 0) -> float:
    """The power of two that scales the largest of these magnitudes (n,) to about 1. Refuses those without squares."""
    row = int(np.argmax(largest))
    most = float(largest[row])
    if most and not LEAST <= most <= MOST:
        raise InputError(
            f"embeddings has {most:.3g} as its largest magnitude (row {first_row + row}), whose square is out of the "
            'range of float64: scale the embeddings, or use metric="cosine"'
        )
    return float(2.0 ** -np.frexp(most)[1]) if most else 1.0


def average_groups(
    vectors: Vectors,
    labels: npt.NDArray[Any],
    team: Team,
    rows: npt.NDArray[np.int64] | None = None,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Of groups 0..max: the means (m, d), the means of half the squared norms (m,), and the sizes (m,).

    labels: the groups of all points, or of `rows`. Sums are in float64, m d numbers. Each thread reads the points of
    its own groups in order, so the order of every sum is fixed. An empty group has the mean 0.
    """
    count, d = int(labels.max(initial=-1)) + 1, vectors.raw.shape[1]
    sums, measured = np.zeros((count, d)), np.empty(len(labels))

    def add(part: int) -> None:
        for start in range(0, len(labels), BLOCK):
            group = labels[start : start + BLOCK]
            mine = np.flatnonzero(group % team.size == part)
            taken = start + mine if rows is None else rows[start + mine]
            block = vectors.take(taken)
            measured[start + mine] = vectors.half(block)
            kernels.add_rows(block, group[mine], sums)

    team.map(add, range(team.size))
    size = np.bincount(labels, minlength=count).astype(np.int64)
    held = np.maximum(size, 1)
    team.ranges(lambda lo, hi: np.divide(sums[lo:hi], held[lo:hi, None], out=sums[lo:hi]), count)
    return sums, np.bincount(labels, measured, count) / held, size


def refuse_zeros(zeros: npt.NDArray[np.int64]) -> None:
    """Refuse rows of zeros, which have no direction."""
    listed = ", ".join(str(row) for row in zeros[:5]) + (", ..." if len(zeros) > 5 else "")
    raise InputError(
        f"embeddings has {len(zeros):,} all-zero rows, which have no cosine distance (rows {listed}): drop them, use "
        'metric="sqeuclidean", or let `cluster` make each a cluster of its own (zeros="singletons")'
    )
