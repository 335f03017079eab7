"""Centers by greedy k-center: always the row farthest from its nearest center is next (Gonzalez 1985).

The sequence is that of the plain loop, which measures n distances a center; `kernels/kcenter.py` says how most of them
are left out. Rows are split into stretches, a thread and a heap each: every heap finds its farthest row, the farthest
of these is the next center. That is worth the threads' meeting at every center only where stretches are long.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from hedgerow.errors import InputError
from hedgerow.kernels import kcenter as kernels
from hedgerow.threads import Team

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]

BLOCK_ROWS = 2048
# Given centers whose distances from all rows are measured at once, by products of matrices; rows meet the others only
# when they are on top of a heap, one at a time, which is dearer a distance but spares nearly all.
AT_ONCE = 4096
LEAST_STRETCH = 100_000  # rows a thread: below, the threads' meeting costs more than the other one's work


@dataclass(frozen=True, eq=False)
class Points:
    """`rows` of `matrix` (N, d) float32, C-contiguous: the pool, at positions 0 to m - 1."""

    matrix: Floats
    rows: Rows

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class _Stretch:
    """The heap of a stretch of positions: `heap` and `keys` in the order of the heap, `rows` and `met` as they come."""

    start: int
    rows: Rows
    heap: npt.NDArray[np.int32]
    keys: npt.NDArray[np.float64]
    met: npt.NDArray[np.int32]


def choose_centers(points: Points, given: Floats, k: int, first: int, coincident: float, team: Team) -> Rows:
    """Up to k positions, farthest from the given centers (g, d) and from each other; ties by lowest position.

    Fewer when no row is farther than `coincident` (squared) from a center. `first`: the position to begin with where no
    center is given, else -1. Memory: 16 bytes a row, d float32 a center.
    """
    centers = np.empty((len(given) + k, points.matrix.shape[1]), np.float32)
    centers[: len(given)] = given
    bounds = np.full(len(points), np.inf)
    chosen = np.empty(k, np.int64)
    count = len(given)
    if count == 0:
        chosen[0], count = first, 1
        centers[0] = points.matrix[points.rows[first]]
    met = _meet(points, centers[:count], bounds, team)
    stretches = _split(points, bounds, met, team)
    begun = count - len(given)
    if begun:
        bounds[first] = kernels.TAKEN  # before any heap is built
    for stretch in stretches:
        kernels.build_heap(stretch.heap, stretch.keys)
    found = _take(points, stretches, centers, count, coincident, chosen[begun:], team)
    return chosen[: begun + found]


def measure_radius(points: Points, centers: Floats, team: Team) -> float:
    """The largest distance of any row from its nearest center."""
    bounds = np.full(len(points), np.inf)
    _lower(points, centers, bounds, team)
    return float(np.sqrt(bounds.max()))


def _meet(points: Points, centers: Floats, bounds: npt.NDArray[np.float64], team: Team) -> npt.NDArray[np.int32]:
    """Bounds from the first centers; returns how many every row has met."""
    some = centers[:AT_ONCE]
    _lower(points, some, bounds, team)
    return np.full(len(points), len(some), np.int32)


def _lower(points: Points, centers: Floats, bounds: npt.NDArray[np.float64], team: Team) -> None:
    """Bounds down to the exact squared distances from these centers, by blocks of rows."""
    center_norms = np.empty(len(centers), np.float32)
    kernels.measure_norms(centers, np.arange(len(centers)), center_norms)

    def lower(first: int, last: int) -> None:
        area = np.empty(kernels.ROW_TILE * kernels.CENTER_TILE, np.float32)
        norms = np.empty(BLOCK_ROWS, np.float32)
        for start in range(first * BLOCK_ROWS, min(last * BLOCK_ROWS, len(points)), BLOCK_ROWS):
            rows = points.rows[start : start + BLOCK_ROWS]
            kernels.measure_norms(points.matrix, rows, norms[: len(rows)])
            _refuse_overflow(norms[: len(rows)])
            block = points.matrix[rows]
            kernels.lower(block, norms[: len(rows)], centers, center_norms, area, bounds[start : start + len(rows)])

    _refuse_overflow(center_norms)
    team.ranges(lower, -(-len(points) // BLOCK_ROWS), least=2)


def _refuse_overflow(norms: Floats) -> None:
    if not np.isfinite(norms).all():
        raise InputError("embeddings has rows whose squared length is beyond float32: scale the embeddings down")


def _split(points: Points, bounds: npt.NDArray[np.float64], met: npt.NDArray[np.int32], team: Team) -> list[_Stretch]:
    """Stretches of positions, one a thread where they are long enough; their heaps are not yet built."""
    parts = max(1, min(team.size, len(points) // LEAST_STRETCH))
    edges = [len(points) * part // parts for part in range(parts + 1)]
    return [
        _Stretch(lo, points.rows[lo:hi], np.arange(hi - lo, dtype=np.int32), bounds[lo:hi], met[lo:hi])
        for lo, hi in pairwise(edges)
    ]


def _take(
    points: Points,
    stretches: list[_Stretch],
    centers: Floats,
    count: int,
    coincident: float,
    chosen: Rows,
    team: Team,
) -> int:
    """Fills `chosen` with positions and `centers` from `count` on; returns how many there were."""
    if len(stretches) == 1:
        one = stretches[0]
        taken: int = kernels.take_farthest(
            points.matrix, one.rows, centers, count, coincident, one.heap, one.keys, one.met, chosen
        )
        return taken
    for t in range(len(chosen)):
        met = count + t

        def settle(stretch: _Stretch, met: int = met) -> int:
            top: int = kernels.settle_top(
                points.matrix, stretch.rows, centers, met, stretch.heap, stretch.keys, stretch.met
            )
            return top

        tops = team.map(settle, stretches)
        # max() keeps the first of equals: the lowest position.
        stretch, top = max(zip(stretches, tops, strict=True), key=lambda pair: pair[0].keys[0])
        if stretch.keys[0] <= coincident:
            return t
        chosen[t] = stretch.start + top
        centers[met] = points.matrix[stretch.rows[top]]
        kernels.take_top(stretch.heap, stretch.keys)
    return len(chosen)
