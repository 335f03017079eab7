"""Centers by greedy k-center: the next center is always the row farthest from its nearest center (Gonzalez 1985).

The result is that of the plain loop, which measures n distances per center; `kernels/kcenter.py` explains how most of
them are avoided. Rows are split into stretches, each with a thread and a heap: every heap finds its farthest row, and
the farthest of these is the next center. The threads synchronize at every center, which pays only for long stretches.

Centers that are given (the labeled rows) are compared with all rows at once if they are few. Otherwise they are sorted
onto shelves around pivots, and a row is first compared with one shelf.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from hedgerow.clustering import cells
from hedgerow.errors import InputError
from hedgerow.kernels import kcenter as kernels
from hedgerow.machine import Team

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]

BLOCK_ROWS = 2048
# Given centers whose distances from a row are measured at once, by matrix products. Rows are compared with the others
# only when they are on top of a heap, one at a time: each distance costs more, but nearly all are avoided.
AT_ONCE = 4096
LEAST_STRETCH = 100_000  # rows per thread: with fewer, synchronizing costs more than a second thread saves


@dataclass(frozen=True, eq=False)
class Points:
    """`rows` of `matrix` (N, d) float32, C-contiguous: the pool, at positions 0 to m - 1."""

    matrix: Floats
    rows: Rows

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class Given:
    """The centers (g, d) that are given, and their shelves if they are many."""

    centers: Floats
    shelves: kernels.Shelves

    def __len__(self) -> int:
        return len(self.centers)


@dataclass(frozen=True, eq=False)
class _Stretch:
    """The heap of a stretch of positions: `heap` and `keys` in heap order, `rows` and `met` in order of position.

    met: how many centers each row has been compared with.
    """

    start: int
    rows: Rows
    heap: npt.NDArray[np.int32]
    keys: npt.NDArray[np.float64]
    met: npt.NDArray[np.int32]


def shelve(centers: Floats, team: Team) -> Given:
    """Centers (g, d) in random order, sorted onto shelves if they are too many to be compared at once.

    About twice the square root of their number are pivots: finding a shelf then costs as much as searching it.
    O(g^1.5 d) time; memory for a second copy of the centers.
    """
    if len(centers) <= AT_ONCE:
        return Given(centers, kernels.Shelves(centers[:0], np.zeros(1, np.int64), np.zeros(0)))
    pivots = centers[: int(2 * np.sqrt(len(centers)))]
    nearest = cells.spread_nearest(centers, pivots, team)
    distances = np.empty(len(centers))
    kernels.measure_gaps(centers, pivots, nearest, distances)
    order = np.lexsort((distances, nearest))
    held, starts = np.unique(nearest[order], return_index=True)  # a duplicate of a pivot may have none
    starts = np.append(starts, len(centers))
    return Given(centers[order], kernels.Shelves(pivots[held], starts, distances[order]))


def choose_centers(points: Points, given: Given, k: int, first: int, coincident: float, team: Team) -> Rows:
    """Up to k positions, farthest from the given centers and from each other; ties by lowest position.

    Fewer if no row is farther than `coincident` (squared) from a center. `first`: the position to start with if no
    center is given, else -1. Memory: 16 bytes per row, d float32 per center.
    """
    centers = np.empty((len(given) + k, points.matrix.shape[1]), np.float32)
    centers[: len(given)] = given.centers
    bounds = np.full(len(points), np.inf)
    chosen = np.empty(k, np.int64)
    count = len(given)
    if count == 0:
        chosen[0], count = first, 1
        centers[0] = points.matrix[points.rows[first]]
    met = _meet(points, centers[:count], given.shelves, bounds, team)
    stretches = _split(points, bounds, met, team)
    begun = count - len(given)
    if begun:
        bounds[first] = kernels.TAKEN  # before any heap is built
    for stretch in stretches:
        kernels.build_heap(stretch.heap, stretch.keys)
    found = _take(points, stretches, centers, given.shelves, count, coincident, chosen[begun:], team)
    return chosen[: begun + found]


def measure_radius(points: Points, centers: Floats, team: Team) -> float:
    """The largest distance of any row from its nearest center."""
    bounds = np.full(len(points), np.inf)
    _lower_all(points, centers, bounds, team)
    return float(np.sqrt(bounds.max()))


def _meet(
    points: Points, centers: Floats, shelves: kernels.Shelves, bounds: npt.NDArray[np.float64], team: Team
) -> npt.NDArray[np.int32]:
    """Lower the bounds by a first comparison; returns how many centers each row was compared with, 0 with shelves."""
    if not len(shelves.pivots):
        _lower_all(points, centers, bounds, team)
        return np.full(len(points), len(centers), np.int32)

    def find_nearest(start: int) -> npt.NDArray[np.int32]:
        return cells.nearest_centers(points.matrix[points.rows[start : start + cells.ROWS]], shelves.pivots)

    nearest = np.concatenate(team.map(find_nearest, range(0, len(points), cells.ROWS)))
    order, edges = cells.sort_groups(nearest, len(shelves.pivots))

    def lower(s: int) -> None:
        some = centers[shelves.starts[s] : shelves.starts[s + 1]][:AT_ONCE]
        _lower(points, order[edges[s] : edges[s + 1]], some, bounds)

    team.map(lower, range(len(shelves.pivots)))
    return np.zeros(len(points), np.int32)


def _lower_all(points: Points, centers: Floats, bounds: npt.NDArray[np.float64], team: Team) -> None:
    places = np.arange(len(points))
    team.ranges(
        lambda lo, hi: _lower(points, places[lo:hi], centers, bounds),
        len(points),
        least=2 * BLOCK_ROWS,
        step=BLOCK_ROWS,
    )


def _lower(points: Points, places: Rows, centers: Floats, bounds: npt.NDArray[np.float64]) -> None:
    """Lower the bounds of these positions to the exact squared distances from the centers, by blocks of rows."""
    center_norms = _measure_norms(centers)
    area = np.empty(kernels.ROW_TILE * kernels.CENTER_TILE, np.float32)
    for start in range(0, len(places), BLOCK_ROWS):
        some = places[start : start + BLOCK_ROWS]
        block = points.matrix[points.rows[some]]
        least = bounds[some]
        kernels.lower(block, _measure_norms(block), centers, center_norms, area, least)
        bounds[some] = least


def _measure_norms(rows: Floats) -> Floats:
    """The squared length of every row, checked to be within float32."""
    norms = np.empty(len(rows), np.float32)
    kernels.measure_norms(rows, norms)
    if not np.isfinite(norms).all():
        raise InputError("embeddings has rows whose squared length is beyond float32: scale the embeddings down")
    return norms


def _split(points: Points, bounds: npt.NDArray[np.float64], met: npt.NDArray[np.int32], team: Team) -> list[_Stretch]:
    """Stretches of positions, one per thread if they are long enough; their heaps are not built yet."""
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
    shelves: kernels.Shelves,
    count: int,
    coincident: float,
    chosen: Rows,
    team: Team,
) -> int:
    """Fill `chosen` with positions and `centers` from `count` on; returns how many were found."""
    if len(stretches) == 1:
        one = stretches[0]
        taken: int = kernels.take_farthest(
            points.matrix, one.rows, centers, shelves, count, coincident, one.heap, one.keys, one.met, chosen
        )
        return taken
    for t in range(len(chosen)):
        met = count + t

        def settle(stretch: _Stretch, met: int = met) -> int:
            top: int = kernels.settle_top(
                points.matrix, stretch.rows, centers, shelves, met, stretch.heap, stretch.keys, stretch.met
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
