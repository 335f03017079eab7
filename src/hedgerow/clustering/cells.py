"""Cells: the pool split into small neighborhoods, and which of them are adjacent.

Cells come from k-means in two levels on a sample: coarse centers first, then a share of the cells within each, so that
training and assignment cost O(n sqrt(cells)) instead of O(n cells). Cells are the unit of the neighbor search
(`neighbors.py`): two whole cells are compared by one matrix product, if enough of their points are near both.
Cells are approximate, and nothing that is promised to be exact depends on them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.clustering.vectors import measure_half
from hedgerow.kernels import cells as kernels
from hedgerow.kernels.rows import add_rows, sort_by_cell
from hedgerow.machine import Team
from hedgerow.pool.blocks import take_rows

Floats = npt.NDArray[Any]

SAMPLE = 32  # training points per cell: more would change the centers little
ITERATIONS = 5  # Lloyd's steps: cells need to be compact, not optimal
COARSE = 3  # coarse centers: the square root of this many times the cells; more would follow a pool's groups better
NEAR = 15  # coarse centers whose cells are considered as neighbors
BLOCK = 1024  # rows of one product in training and assignment
ROWS = 1 << 16  # rows assigned per task
AROUND = 64  # cells that are considered as neighbors of a cell
NO_ORDER = np.zeros(0, np.int64)  # rows are taken as they come
VOTERS, CHOICES = 48, 4  # sampled points of a cell, and how many centers each votes for


@dataclass(frozen=True)
class Centers:
    """The centers of cells (c, d), and the coarse centers (s, d) that they belong to."""

    coarse: Floats
    fine: Floats
    coarse_of: npt.NDArray[np.int64]  # (c,) ascending

    def edges(self) -> npt.NDArray[np.int64]:
        """The first cell of each coarse center, and the number of cells."""
        return np.searchsorted(self.coarse_of, np.arange(len(self.coarse) + 1))

    def assign(self, rows: Floats, near: int = 1) -> npt.NDArray[np.int32]:
        """The cell of every row (n,): the nearest center among those of the `near` nearest coarse centers."""
        if near > 1:
            return self._assign_near(rows, min(near, len(self.coarse)))
        group = nearest_centers(rows, self.coarse)
        order, edges = sort_groups(group, len(self.coarse))
        out = np.empty(len(rows), np.int32)
        run_nearest(rows, order, edges, self.fine, self.edges(), out)
        return out

    def _assign_near(self, rows: Floats, near: int) -> npt.NDArray[np.int32]:
        out, shares = np.empty(len(rows), np.int32), self.edges()
        block = min(BLOCK, len(rows))
        most = max(len(self.coarse), int(np.diff(shares).max()))
        kernels.nearest_of_several(
            rows, self.coarse, half_norms(self.coarse), self.fine, half_norms(self.fine), shares, BLOCK,
            np.empty(near, rows.dtype), np.empty((block, near), np.int32), np.empty(len(self.coarse) + 1, np.int32),
            np.empty(block * near, np.int32), np.empty((block, rows.shape[1]), rows.dtype),
            np.empty(block * most, rows.dtype), np.empty((2, block), rows.dtype), np.empty((2, block), np.int32),
            np.empty(block, rows.dtype), out,
        )  # fmt: skip
        return out


def half_norms(rows: Floats) -> Floats:
    """Half of the squared norm of each row, in the rows' dtype."""
    return measure_half(rows).astype(rows.dtype)


def train_centers(sample: Floats, count: int, rng: np.random.Generator, team: Team) -> Centers:
    """About `count` centers from a sample (m, d) of the pool."""
    coarse_count = max(1, int(np.sqrt(COARSE * count)))
    few = sample[np.sort(rng.choice(len(sample), min(len(sample), 256 * coarse_count), replace=False))]
    coarse = refine_centers(few, coarse_count, rng, partial(spread_nearest, team=team))
    order, edges = sort_groups(spread_nearest(sample, coarse, team), len(coarse))
    shares = np.diff(edges)
    seeds = rng.integers(0, 2**63, len(coarse))

    def split(s: int) -> Floats:
        members = take_rows(sample, order[edges[s] : edges[s + 1]])
        wanted = round(count * len(members) / len(sample))
        return refine_centers(members, min(max(1, wanted), len(members)), np.random.default_rng(seeds[s]))

    held = np.flatnonzero(shares)
    parts = team.map(split, held.tolist())
    return Centers(coarse[held], np.concatenate(parts), np.repeat(np.arange(len(held)), [len(part) for part in parts]))


def refine_centers(
    rows: Floats,
    count: int,
    rng: np.random.Generator,
    find_nearest: Callable[[Floats, Floats], npt.NDArray[np.int32]] | None = None,
) -> Floats:
    """Lloyd's algorithm from `count` random rows."""
    centers = rows[np.sort(rng.choice(len(rows), count, replace=False))].copy()
    return move_centers(rows, centers, find_nearest or nearest_centers, ITERATIONS)


def move_centers(
    rows: Floats, centers: Floats, find_nearest: Callable[[Floats, Floats], npt.NDArray[np.int32]], iterations: int
) -> Floats:
    """Lloyd's steps from these centers, which are overwritten; one that loses all its rows is not moved.

    Ends early when nothing changes.
    """
    before = None
    for _ in range(iterations):
        group = find_nearest(rows, centers)
        if before is not None and np.array_equal(group, before):
            break
        before = group
        sums = np.zeros(centers.shape)
        add_rows(rows, group, sums)
        counts = np.bincount(group, minlength=len(centers))
        held = counts > 0
        centers[held] = sums[held] / counts[held, None]
    return centers


def nearest_centers(rows: Floats, centers: Floats) -> npt.NDArray[np.int32]:
    """The nearest center of every row, (n,)."""
    out = np.empty(len(rows), np.int32)
    run_nearest(rows, NO_ORDER, np.array([0, len(rows)]), centers, np.array([0, len(centers)]), out)
    return out


def run_nearest(
    rows: Floats,
    order: npt.NDArray[np.int64],
    edges: npt.NDArray[np.int64],
    centers: Floats,
    shares: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
) -> None:
    """The kernel, with something to work in; `kernels.nearest_centers` describes the arguments."""
    block, most = min(BLOCK, len(rows)), int(np.diff(shares).max())
    taken = np.empty((block if len(order) else 0, rows.shape[1]), rows.dtype)
    scratch = np.empty(block * most, rows.dtype), np.empty((2, block), rows.dtype), np.empty((2, block), np.int32)
    kernels.nearest_centers(rows, order, edges, centers, half_norms(centers), shares, BLOCK, taken, *scratch, out)


def spread_nearest(rows: Floats, centers: Floats, team: Team) -> npt.NDArray[np.int32]:
    """`nearest_centers` on all threads."""
    parts = team.ranges(lambda lo, hi: nearest_centers(rows[lo:hi], centers), len(rows), step=BLOCK)
    return np.concatenate(parts)


def sort_groups(group: npt.NDArray[np.int32], count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The rows sorted by group, ascending within a group; the first position of each of `count` groups, and the end."""
    order, edges = np.empty(len(group), np.int64), np.empty(count + 1, np.int64)
    sort_by_cell(group, edges, order)
    return order, edges


def assign_cells(rows: Floats, centers: Centers, team: Team, near: int = 1) -> npt.NDArray[np.int32]:
    """The cell of every row (n,): the nearest among those of the `near` nearest coarse centers."""
    parts = team.map(lambda start: centers.assign(rows[start : start + ROWS], near), range(0, len(rows), ROWS))
    return np.concatenate(parts)


def rank_pairs(
    points: Floats, starts: npt.NDArray[np.int64], centers: Centers, count: int, team: Team
) -> npt.NDArray[np.int64]:
    """The `count` pairs of cells (m, 2) with the most points near both, best first. points (n, d): sorted by cell."""
    votes = count_votes(points, starts, centers, list_around(centers, team), team)
    return rank_votes(votes, np.diff(starts), count)


def count_votes(
    points: Floats,
    starts: npt.NDArray[np.int64],
    centers: Centers,
    around: npt.NDArray[np.int64],
    team: Team,
    first: int = 0,
) -> npt.NDArray[np.int64]:
    """(cell, other cell, votes) (m, 3): how many sampled points of a cell have the other's center among their nearest.

    points (n, d) are sorted by cell; starts and around are those of their cells, the first of which is number `first`.
    """
    votes = np.zeros(around.shape, np.int32)
    half, width = half_norms(centers.fine), around.shape[1]
    team.ranges(
        lambda lo, hi: kernels.vote(
            points,
            starts,
            centers.fine,
            half,
            around,
            VOTERS,
            min(CHOICES, width),
            lo,
            hi,
            np.empty((width, points.shape[1]), points.dtype),
            np.empty(width, points.dtype),
            votes,
        ),
        len(around),
        least=16,
    )
    cell, place = np.nonzero(votes)
    return np.column_stack([first + cell, around[cell, place], votes[cell, place]])


def rank_votes(found: npt.NDArray[Any], sizes: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """The `count` best pairs of cells (m, 2), best first, from the votes (v, 3) of all cells and their sizes (c,).

    The merit of a pair is the number of its points that have the other cell's center among their nearest, divided by
    the square root of the product of both sizes: what a comparison finds, relative to a part of its cost.
    """
    cell, other, votes = np.asarray(found, np.int64).T
    weight = votes * (sizes[cell] / np.minimum(sizes[cell], VOTERS))
    real = (cell != other) & (sizes[other] > 0)
    cell, other, weight = cell[real], other[real], weight[real]
    key = np.minimum(cell, other) * len(sizes) + np.maximum(cell, other)
    pairs, place = np.unique(key, return_inverse=True)
    low, high = pairs // len(sizes), pairs % len(sizes)
    merit = np.bincount(place, weights=weight, minlength=len(pairs)) / np.sqrt(sizes[low] * sizes[high])
    best = np.argsort(-merit, kind="stable")[:count]
    return np.column_stack([low[best], high[best]])


def list_around(centers: Centers, team: Team, groups: range | None = None, near: int = NEAR) -> npt.NDArray[np.int64]:
    """The cells nearest to each cell (c, AROUND), itself first, among the cells of the `near` nearest coarse centers.

    groups: only for the cells of these coarse centers.
    """
    groups = range(len(centers.coarse)) if groups is None else groups
    half = half_norms(centers.fine)
    edges = centers.edges()
    mine = slice(groups.start, groups.stop)
    gaps = half_norms(centers.coarse) - centers.coarse[mine] @ centers.coarse.T
    gaps[np.arange(len(groups)), np.arange(groups.start, groups.stop)] = -np.inf  # its own cells come first
    nearest = np.argsort(gaps, axis=1, kind="stable")[:, :near]
    beside = [np.concatenate([np.arange(edges[t], edges[t + 1]) for t in row]) for row in nearest]
    width = min(AROUND, *(len(cells) for cells in beside))
    out = np.empty((edges[groups.stop] - edges[groups.start], width), np.int64)

    def fill(s: int) -> None:
        mine = np.arange(edges[groups[s]], edges[groups[s] + 1])
        gaps = half[beside[s]] - centers.fine[mine] @ centers.fine[beside[s]].T
        gaps[np.arange(len(mine)), np.arange(len(mine))] = -np.inf  # itself
        some = np.argpartition(gaps, width - 1, axis=1)[:, :width]
        order = np.take_along_axis(some, np.argsort(np.take_along_axis(gaps, some, 1), axis=1, kind="stable"), 1)
        out[mine - edges[groups.start]] = beside[s][order]

    team.map(fill, range(len(groups)))
    return out
