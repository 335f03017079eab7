"""A pool in the order in which neighbors are looked for: sorted by cell, equal points collapsed.

Rows of a cell are next to each other in memory, so that cells go to BLAS as they stand and clusters that meet are
near. The pool is copied once, into that order; a memmap is read a block at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import cells
from hedgerow.dendrogram import Log
from hedgerow.kernels import rows as kernels
from hedgerow.merges import Living
from hedgerow.neighbors import Neighbors, find_in_cells, find_neighbors
from hedgerow.threads import Team
from hedgerow.vectors import Vectors

FEW = 4_000  # so many clusters are compared pair by pair in no time
CELL = 250  # rows of a cell: smaller ones make products inefficient, larger ones waste them


@dataclass(frozen=True)
class Search:
    """How neighbors are looked for: k of them, by comparing `pairs` pairs of cells a cell, or exactly."""

    k: int
    pairs: float
    exact: bool
    seed: int


@dataclass(frozen=True)
class Layout:
    """Clusters sorted by cell: cell c is rows starts[c]:starts[c + 1]. No centers: all are compared with all."""

    centers: cells.Centers | None
    starts: npt.NDArray[np.int64]


def look_around(
    living: Living,
    layout: Layout,
    search: Search,
    reach: float,
    team: Team,
    tell: Callable[[float], None] | None = None,
) -> Neighbors:
    """The nearest clusters of every cluster, within reach. tell: hears how much is done."""
    if layout.centers is None:
        return find_neighbors(living.means, living.half, search.k, team, reach, tell)
    count = int(search.pairs * len(layout.centers.fine))
    pairs = cells.rank_pairs(living.means, layout.starts, layout.centers, count, team)
    return find_in_cells(living.means, living.half, search.k, layout.starts, pairs, team, reach, tell)


def sort_living(living: Living, search: Search, team: Team) -> tuple[Living, Layout]:
    """Clusters sorted by cell; a few stay as they are."""
    n = len(living)
    if search.exact or n <= FEW:
        return living, Layout(None, np.array([0, n]))
    centers = train(n, living.means.__getitem__, search, team)
    blocks = range(0, n, cells.ROWS)
    cell = np.concatenate(
        team.map(lambda start: cells.assign_cells(living.means[start : start + cells.ROWS], centers), blocks)
    )
    order = np.argsort(cell, kind="stable")
    return living.take(order), Layout(centers, find_starts(cell[order], centers))


def train(
    n: int, take: Callable[[npt.NDArray[np.int64]], npt.NDArray[Any]], search: Search, team: Team
) -> cells.Centers:
    """Centers of cells from a sample of n rows."""
    rng = np.random.default_rng([search.seed, n])
    count = max(1, n // CELL)
    sample = take(np.sort(rng.choice(n, min(n, cells.SAMPLE * count), replace=False)))
    return cells.train_centers(sample, count, rng, team)


def find_starts(cell: npt.NDArray[Any], centers: cells.Centers) -> npt.NDArray[np.int64]:
    """Where each cell begins among rows sorted by cell, and the end."""
    return np.searchsorted(cell, np.arange(len(centers.fine) + 1)).astype(np.int64)


def sort_points(
    vectors: Vectors, search: Search, team: Team, tell: Callable[[float], None]
) -> tuple[Living, Layout, Log]:
    """The distinct points sorted by cell, each a cluster of its copies, and the merges at height 0 that made them."""
    n, d = vectors.raw.shape
    centers = None if search.exact or n <= FEW else train(n, vectors.take, search, team)
    cell, order = order_points(vectors, centers, team)
    tell(0.5)
    position = np.empty(n, np.int64)
    position[order] = np.arange(n)
    means = np.empty((n, d), vectors.dtype)

    def place(start: int) -> None:
        rows = vectors.block(start)
        means[position[start : start + len(rows)]] = rows

    team.map(place, vectors.starts())
    tell(1.0)
    copy_of = position  # its memory serves again
    first = order.copy()
    kept = kernels.collapse(means, first, copy_of)
    copies = np.flatnonzero(first[copy_of] != order)
    twins = Log(first[copy_of[copies]], order[copies], np.zeros(len(copies)))
    first = first[:kept]
    size = np.bincount(copy_of, minlength=kept).astype(np.int64)
    starts = np.array([0, kept]) if centers is None else find_starts(cell[first], centers)
    return Living(first, means[:kept], vectors.half(means[:kept]), size), Layout(centers, starts), twins


def order_points(
    vectors: Vectors, centers: cells.Centers | None, team: Team
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The cell of every row, and the rows sorted by cell; within a cell by hash, so that equal rows are neighbors."""
    cell = np.zeros(len(vectors), np.int32)
    hashes = np.empty(len(vectors), np.uint64)

    def read(start: int) -> None:
        rows = vectors.block(start)
        stop = start + len(rows)
        kernels.hash_rows(rows.view(np.uint32 if rows.itemsize == 4 else np.uint64), hashes[start:stop])
        if centers is not None:
            cell[start:stop] = cells.assign_cells(rows, centers)

    team.map(read, vectors.starts())
    return cell, np.lexsort((hashes, cell))
