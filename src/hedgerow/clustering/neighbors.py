"""Nearest neighbors by gap: half of the squared Euclidean distance, or cosine distance for unit vectors.

`gap(x, y) = half_x + half_y - <x, y>` where `half` is half of a point's squared norm; for a cluster's mean it is half
of the mean squared norm of its members, and then the gap is (half of) the average linkage: a neighbor search over means
is a search for the nearest cluster (see `kernels/merging.py`).

The pool is split into cells (ranges of rows). The rows of a cell are compared with each other, and two cells by one
matrix product that updates the lists of both. With all pairs of cells the search is exact, in O(n^2 d) time; the pairs
that `cells.py` ranks highest give most of the neighbors for a small part of that. Memory: O(n k), and a block of
products per thread.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.kernels import nearest
from hedgerow.machine import Pair, Team

GROUPS = 8  # groups of cells per thread: enough to keep all threads busy to the end
ROWS = 1024  # rows per cell in an exact search


@dataclass(frozen=True)
class Neighbors:
    """The k nearest rows of every row within `reach`, nearest first: ids int32 (n, k), -1 for none, and gaps (n, k)."""

    ids: npt.NDArray[np.int32]
    gaps: npt.NDArray[Any]
    reach: float


def find_neighbors(
    points: npt.NDArray[Any],
    half: npt.NDArray[Any],
    k: int,
    team: Team,
    reach: float = np.inf,
    report: Callable[[float], None] | None = None,
) -> Neighbors:
    """The exact k nearest of every row that are within `reach`. points (n, d) contiguous, half (n,) of its dtype."""
    starts = np.unique(np.append(np.arange(0, len(points), ROWS), len(points))).astype(np.int64)
    pairs = np.column_stack(np.triu_indices(len(starts) - 1, 1))
    return find_in_cells(points, half, k, starts, pairs, team, reach, report)


def find_in_cells(
    points: npt.NDArray[Any],
    half: npt.NDArray[Any],
    k: int,
    starts: npt.NDArray[np.int64],
    pairs: npt.NDArray[Any],
    team: Team,
    reach: float = np.inf,
    report: Callable[[float], None] | None = None,
    own: Pair | None = None,
) -> Neighbors:
    """The k nearest of every row, within `reach`, among the rows of its own cell and of the cells paired with it.

    Cell c is rows starts[c]:starts[c + 1]. pairs (m, 2) of cells, the lower one first, in the order in which a thread
    processes them: pairs with many neighbors come first, so that later pairs are rejected faster.
    own: only the lists of the cells own[0]:own[1] are wanted, and these points are a part of more. The lists of all
    others stay empty; those that are wanted are the same as if all had been searched, to the last bit.
    """
    n = len(points)
    if own is None:
        k, own = min(k, max(n - 1, 0)), (0, len(starts) - 1)
    ids, gaps, worst = np.empty((n, k), np.int32), np.empty((n, k), points.dtype), np.empty(n, points.dtype)
    if k == 0:
        return Neighbors(ids, gaps, reach)

    with np.errstate(over="ignore"):
        farthest = points.dtype.type(reach)  # infinite if beyond float32

    def clear(lo: int, hi: int) -> None:
        ids[lo:hi], gaps[lo:hi], worst[lo:hi] = -1, np.inf, farthest

    team.ranges(clear, n)
    worst[: starts[own[0]]] = worst[starts[own[1]] :] = -np.inf  # nothing is near enough
    local = threading.local()

    def scratch() -> nearest.Scratch:
        if not hasattr(local, "arrays"):
            local.arrays = nearest.make_scratch(points.dtype)
        arrays: nearest.Scratch = local.arrays
        return arrays

    groups = group_pairs(starts, pairs, GROUPS * team.size)

    def search(pair: Pair) -> None:
        if pair[0] == pair[1]:
            mine = np.arange(max(groups.edges[pair[0]], own[0]), min(groups.edges[pair[0] + 1], own[1]))
            nearest.search_cells(points, half, starts, mine, mine, scratch(), ids, gaps, worst)
        nearest.search_cells(points, half, starts, *groups.members(pair), scratch(), ids, gaps, worst)
        done.append(pair)
        if report is not None:
            report(len(done) / len(groups.order))

    done: list[Pair] = []
    team.pairs(search, [pair for pair in groups.order if pair[0] == pair[1]])
    team.pairs(search, [pair for pair in groups.order if pair[0] != pair[1]])
    return Neighbors(ids, gaps, reach)


@dataclass(frozen=True)
class Groups:
    """Pairs of cells by the pair of groups that they belong to, most expensive first."""

    edges: list[int]  # group g is cells edges[g]:edges[g + 1]
    order: list[Pair]
    cells: npt.NDArray[np.int64]  # (m, 2) pairs of cells, by pair of groups
    slices: dict[Pair, slice]

    def members(self, pair: Pair) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The pairs of cells of a pair of groups, as two columns."""
        chosen = self.cells[self.slices.get(pair, slice(0, 0))]
        return np.ascontiguousarray(chosen[:, 0]), np.ascontiguousarray(chosen[:, 1])


def group_pairs(starts: npt.NDArray[np.int64], pairs: npt.NDArray[Any], count: int) -> Groups:
    """Split the cells into `count` ranges of about the same number of rows, and sort the pairs by pair of ranges."""
    cells = len(starts) - 1
    targets = np.linspace(0, starts[-1], min(count, cells) + 1)[1:-1]
    edges = sorted({0, cells, *np.searchsorted(starts, targets).tolist()})
    group = np.searchsorted(edges, np.arange(cells), side="right") - 1
    sizes = np.diff(starts)
    low, high = group[pairs[:, 0]], group[pairs[:, 1]]
    many = len(edges) - 1
    key = low * many + high
    by_group = np.argsort(key, kind="stable")  # stable: within a pair of groups the given order stays
    kinds, counts = np.unique(key, return_counts=True)
    ends = np.cumsum(counts)
    slices = {
        (int(kind // many), int(kind % many)): slice(int(end - count), int(end))
        for kind, count, end in zip(kinds, counts, ends, strict=True)
    }
    cost = np.bincount(key, weights=(sizes[pairs[:, 0]] * sizes[pairs[:, 1]]).astype(float), minlength=many * many)
    named = {*slices, *((g, g) for g in range(many))}
    order = sorted(named, key=lambda pair: (-cost[pair[0] * many + pair[1]], pair))
    return Groups(edges, order, np.asarray(pairs, np.int64)[by_group], slices)
