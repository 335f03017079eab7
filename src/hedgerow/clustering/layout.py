"""The pool in search order: sorted by cell, with equal points collapsed.

The rows of a cell are contiguous in memory, so that BLAS takes cells without copying, and clusters that are likely to
merge are near each other. The pool is copied once, into that order; a memmap is read one block at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.clustering import cells
from hedgerow.clustering.dendrogram import Log
from hedgerow.clustering.merges import Active
from hedgerow.clustering.neighbors import Neighbors, find_in_cells, find_neighbors
from hedgerow.clustering.vectors import Vectors
from hedgerow.clustering.workers import Workers, assign_rows, choose_rows
from hedgerow.kernels import freeze
from hedgerow.kernels import rows as kernels
from hedgerow.kernels.gathering import gather_rows
from hedgerow.machine import Team

FEW = 4_000  # up to this many clusters, comparing all pairs takes next to no time
PAIRS = 4.7  # pairs of cells compared per cell: finds 95% of the neighbors at a million rows
CELL = 125  # rows per cell: with fewer, matrix products are inefficient; with more, most products are wasted


@dataclass(frozen=True)
class Search:
    """How to search for the k nearest neighbors: by comparing `pairs` pairs of cells per cell, or exactly."""

    k: int
    pairs: float
    exact: bool
    seed: int


@dataclass(frozen=True)
class Layout:
    """Clusters sorted by cell: cell c is rows starts[c]:starts[c + 1]. Without centers, all pairs are compared."""

    centers: cells.Centers | None
    starts: npt.NDArray[np.int64]


def search_neighbors(
    active: Active,
    layout: Layout,
    search: Search,
    reach: float,
    team: Team,
    report: Callable[[float], None] | None = None,
    workers: Workers | None = None,
) -> Neighbors:
    """The nearest clusters of every cluster, within reach. report: called with the share done.

    workers: search there, with the same result, if there are enough clusters.
    """
    if layout.centers is None:
        return find_neighbors(active.means, active.half, search.k, team, reach, report)
    count = int(search.pairs * len(layout.centers.fine))
    if workers is not None and len(active) > choose_rows(len(active)):
        name = f"{search.seed}-{len(active)}-{search.k}-{active.means.dtype.name}"
        return workers.search(
            active.means, active.half, search.k, layout.starts, layout.centers, count, reach, team, name, report
        )
    pairs = cells.rank_pairs(active.means, layout.starts, layout.centers, count, team)
    return find_in_cells(active.means, active.half, search.k, layout.starts, pairs, team, reach, report)


def search_rows(points: npt.NDArray[np.float32], k: int, team: Team, *, exact_up_to: int) -> Neighbors:
    """The k nearest rows of every row of points (n, d); of more than `exact_up_to` rows by cells, which misses some."""
    n = len(points)
    search = Search(k, PAIRS, n <= exact_up_to, 0)
    rows = np.arange(n)
    active, layout = sort_clusters(Active(rows, points, cells.half_norms(points), np.ones(n, np.int64)), search, team)
    found = search_neighbors(active, layout, search, np.inf, team)
    if layout.centers is None:
        return found
    ids, gaps = np.empty_like(found.ids), np.empty_like(found.gaps)
    named = np.append(active.point, -1).astype(np.int32)  # -1, for none, stays

    def restore(lo: int, hi: int) -> None:
        ids[active.point[lo:hi]] = named[found.ids[lo:hi]]
        gaps[active.point[lo:hi]] = found.gaps[lo:hi]

    team.ranges(restore, n)
    return Neighbors(ids, gaps, np.inf)


def sort_clusters(active: Active, search: Search, team: Team) -> tuple[Active, Layout]:
    """Clusters sorted by cell; up to FEW of them are left in their order."""
    n = len(active)
    if search.exact or n <= FEW:
        return active, Layout(None, np.array([0, n]))
    centers = train(active.means.shape, active.means.dtype, partial(gather_rows, freeze(active.means)), search, team)
    order, starts = cells.sort_groups(cells.assign_cells(active.means, centers, team), len(centers.fine))
    return active.take(order, team), Layout(centers, starts)


def train(
    shape: tuple[int, ...],
    dtype: Any,
    take: Callable[[npt.NDArray[np.int64], npt.NDArray[Any]], Any],
    search: Search,
    team: Team,
) -> cells.Centers:
    """Cell centers from a sample of the rows of a matrix of this shape; take(rows, out) copies some of its rows."""
    n, d = shape
    rng = np.random.default_rng([search.seed, n])
    count = max(1, n // CELL)
    chosen = np.sort(rng.choice(n, min(n, cells.SAMPLE * count), replace=False))
    sample = np.empty((len(chosen), d), dtype)
    team.ranges(lambda lo, hi: take(chosen[lo:hi], sample[lo:hi]), len(chosen))
    return cells.train_centers(sample, count, rng, team)


def sort_points(
    vectors: Vectors, search: Search, team: Team, report: Callable[[float], None], workers: Workers | None = None
) -> tuple[Active, Layout, Log]:
    """The distinct points sorted by cell, each a cluster of its duplicates, and the merges at height 0 behind them.

    workers: their cells are found there, if the pool is in files.
    """
    n, d = vectors.raw.shape
    centers = None if search.exact or n <= FEW else train((n, d), vectors.dtype, vectors.take, search, team)
    if workers is None or workers.source.matrix is None or centers is None:
        cell, hashes = assign_rows(vectors, centers, team)
    else:
        cell, hashes = workers.find_cells(n, centers, vectors.dtype, lambda done: report(0.5 * done))
    cell, order = order_rows(cell, hashes, 1 if centers is None else len(centers.fine))
    report(0.5)
    position = np.empty(n, np.int64)
    position[order] = np.arange(n)
    means = np.empty((n, d), vectors.dtype)

    def place(start: int) -> None:
        rows = vectors.block(start)
        means[position[start : start + len(rows)]] = rows

    team.map(place, vectors.starts())
    report(1.0)
    first, size, duplicates = unite_copies(means, order, position)
    means = means[: len(first)]
    starts = count_starts(cell[first], centers)
    return Active(first, means, vectors.half(means), size), Layout(centers, starts), duplicates


def unite_copies(
    rows: npt.NDArray[Any], order: npt.NDArray[np.int64], copy_of: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Log]:
    """Moves the first of each run of equal rows to the front, in place: their numbers, how many equal each, the merges.

    order (n,): the numbers of the rows. copy_of (n,): scratch.
    """
    first = order.copy()
    kept = kernels.collapse(rows, first, copy_of)
    copies = np.flatnonzero(first[copy_of] != order)
    duplicates = Log(first[copy_of[copies]], order[copies], np.zeros(len(copies)))
    return first[:kept], np.bincount(copy_of, minlength=kept).astype(np.int64), duplicates


def count_starts(cell: npt.NDArray[np.int32], centers: cells.Centers | None) -> npt.NDArray[np.int64]:
    """The first row of each cell among rows sorted by cell, and the number of rows."""
    counts = np.bincount(cell, minlength=1 if centers is None else len(centers.fine))
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def find_first_copies(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64] | None:
    """For every row, the first row of equal hash; None if all hashes are distinct."""
    ordered = np.sort(hashes)
    if not (ordered[1:] == ordered[:-1]).any():
        return None
    order = np.argsort(hashes, kind="stable")  # stable: of equal hashes the lowest row comes first
    ordered = hashes[order]
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    first = np.empty(len(hashes), np.int64)
    first[order] = order[np.flatnonzero(begins)[np.cumsum(begins) - 1]]
    return first


def order_rows(
    cell: npt.NDArray[np.int32], hashes: npt.NDArray[np.uint64], count: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The cell of every row, one for all copies of it, and the rows sorted by cell.

    Rows ascend within a cell, but rows of equal hash are adjacent. cell (n,) of `count` cells, hashes (n,).
    """
    first = find_first_copies(hashes)
    if first is None:
        return cell, cells.sort_groups(cell, count)[0]
    cell = cell[first]  # rounding may have sent copies to different cells
    together = np.argsort(first, kind="stable")
    return cell, together[cells.sort_groups(cell[together], count)[0]]
