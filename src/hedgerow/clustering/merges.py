"""One round of average linkage: every certified merge that a set of neighbor lists allows.

Sweeps over a worklist: update the nearest neighbor of the clusters that changed, match the pairs that are each other's
nearest, merge them, and put the clusters whose nearest is gone on the next worklist (reciprocal agglomerative
clustering). Each step is split into ranges for the threads, and gives the same answer for any number of them. The
rounds are in `growth.py`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.clustering.dendrogram import Log, join_logs
from hedgerow.clustering.neighbors import Neighbors
from hedgerow.kernels import freeze, merging
from hedgerow.kernels.gathering import gather_rows
from hedgerow.machine import Team

NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Active:
    """The clusters that can still merge, one row each. `point`: a point of the cluster, by which merges name it."""

    point: npt.NDArray[np.int64]
    means: npt.NDArray[Any]  # (n, d)
    half: npt.NDArray[Any]  # (n,) half of the mean squared norm
    size: npt.NDArray[np.int64]

    def take(self, rows: npt.NDArray[np.int64], team: Team) -> "Active":
        parts = (self.point, self.means, self.half, self.size)
        taken = [np.empty((len(rows), *part.shape[1:]), part.dtype) for part in parts]

        def fill(lo: int, hi: int) -> None:
            for part, into in zip(parts, taken, strict=True):
                if part.ndim == 2:
                    gather_rows(freeze(part), rows[lo:hi], into[lo:hi])
                else:
                    np.take(part, rows[lo:hi], out=into[lo:hi], mode="clip")  # the mode that needs no buffer

        team.ranges(fill, len(rows))
        return Active(*taken)

    def __len__(self) -> int:
        return len(self.point)


@dataclass(frozen=True)
class Limits:
    """Which merges are allowed: gaps up to `threshold`, and up to `slack` x radius + `tolerance` of both clusters.

    A gap up to `threshold` + `doubt` may be allowed in higher precision.
    """

    threshold: float
    slack: float
    tolerance: float
    doubt: float = 0.0

    def of(self, kind: Any) -> tuple[Any, Any, Any]:
        """The three as scalars of the kernels' dtype; what is beyond it is infinite."""
        with np.errstate(over="ignore"):
            return kind(self.threshold), kind(self.slack), kind(self.tolerance)


@dataclass(frozen=True)
class Lists:
    """Neighbor lists as chains of segments of one flat array, and the nearest neighbor of each cluster."""

    start: npt.NDArray[np.int64]  # (n + 1,) segment c is adjacent[start[c]:start[c + 1]]
    adjacent: npt.NDArray[np.int32]  # (e,)
    width: npt.NDArray[Any]  # (e,) gaps
    length: npt.NDArray[np.int32]  # (n,) how much of a segment is in use
    following: npt.NDArray[np.int32]  # (n,) the next segment of the chain, -1 at its end
    last: npt.NDArray[np.int32]  # (n,) the last segment of a cluster's chain
    parent: npt.NDArray[np.int32]  # (n,) union-find: a merged cluster points at the cluster that it became part of
    nearest: npt.NDArray[np.int32]  # (n,)
    nearest_gap: npt.NDArray[Any]  # (n,)
    changed: npt.NDArray[np.int32]  # (n,) the sweep of a cluster's latest merge
    refreshed: npt.NDArray[np.int32]  # (n,) the sweep in which its list was last read
    seen: npt.NDArray[np.int32]  # (threads, n) marks, one row per thread
    clock: npt.NDArray[np.int32]  # (threads, 1)


def link_lists(found: Neighbors, reach: npt.NDArray[Any], team: Team) -> Lists:
    """The lists that were found, and in each the clusters that list it in turn and are within its reach (n,)."""
    ids, gaps = found.ids, found.gaps
    n = len(ids)
    reverse = np.empty(ids.shape, np.bool_)
    last = gaps[:, -1].copy()
    team.ranges(lambda lo, hi: merging.mark_reverse(ids, gaps, last, reach, lo, hi, reverse), n)
    # Every thread reads all reverse entries and writes those of its own range: no two threads write to one list.
    length = np.empty(n, np.int32)
    team.ranges(lambda lo, hi: merging.count_entries(ids, reverse, lo, hi, length), n)
    start = np.concatenate([[0], np.cumsum(length, dtype=np.int64)])
    adjacent, width = np.empty(start[-1], np.int32), np.empty(start[-1], gaps.dtype)
    team.ranges(lambda lo, hi: merging.write_entries(ids, gaps, reverse, start, lo, hi, length, adjacent, width), n)
    every = np.arange(n, dtype=np.int32)
    return Lists(
        start, adjacent, width,
        length=length,
        following=np.full_like(every, -1),
        last=every.copy(),
        parent=every,
        nearest=np.full_like(every, -1),
        nearest_gap=np.full(n, np.inf, width.dtype),
        changed=np.full_like(every, -1),
        refreshed=np.zeros_like(every),
        seen=np.zeros((team.size, n), np.int32),
        clock=np.zeros((team.size, 1), np.int32),
    )  # fmt: skip


@dataclass(frozen=True)
class Merged:
    """What a round leaves: the clusters that can merge later, and the merges.

    is_open: some of the clusters can merge in this precision; the others only in a higher one. blocked: how many wait
    for a cluster that may not merge here.
    """

    active: Active
    log: Log
    is_open: bool
    blocked: int


def merge_round(
    active: Active, found: Neighbors, limits: Limits, team: Team, own: tuple[int, int] | None = None
) -> Merged:
    """All certified merges that these lists allow, and the clusters that can merge later. Overwrites its input.

    own: only the clusters own[0]:own[1] may merge, and these are a part of more. The lists of the others are empty, and
    they stand still: `sharding.py` has why such merges are those of average linkage.
    """
    n = len(active)
    lo, hi = (0, n) if own is None else own
    radius = find_radii(found, is_whole=own is None)
    radius[:lo] = radius[hi:] = -np.inf  # nothing is listed there in return
    # Two clusters that merge are within the limits of both, so reverse entries from farther away are not needed.
    with np.errstate(over="ignore"):
        reach = (limits.slack * radius + limits.tolerance).astype(radius.dtype)
    lists = link_lists(found, reach, team)
    del found  # a gigabyte for ten million rows, unless the caller holds it
    work = alive = np.arange(lo, hi, dtype=np.int32)
    logs: list[Log] = []
    while len(work):
        sweep = len(logs) + 1
        refresh(lists, work, sweep, active, team)
        left, right, gaps = match(lists, work, sweep, radius, limits, team)
        merge(lists, left, right, sweep, active, radius, team)
        alive, work = touch(lists, alive, sweep, radius, limits, team)
        logs.append(Log(active.point[left], active.point[right], gaps.astype(np.float64)))
    exists = lists.parent == np.arange(n)
    exists[:lo] = exists[hi:] = False
    near = exists & (lists.nearest_gap <= limits.threshold)
    blocked = int(np.count_nonzero((lists.nearest[near] < lo) | (lists.nearest[near] >= hi)))
    open_end = near | (exists & (radius < limits.threshold))
    rest = open_end | (exists & (lists.nearest_gap <= limits.threshold + limits.doubt))
    del lists  # before the rest is copied
    return Merged(active.take(np.flatnonzero(rest), team), join_logs(logs), bool(open_end.any()), blocked)


def find_radii(found: Neighbors, is_whole: bool = True) -> npt.NDArray[Any]:
    """The radius of each list: a cluster outside of the list is at least this far, the gap to the last neighbor.

    A list that is not full holds all clusters within reach; if it holds all other clusters, the radius is infinite,
    unless there are clusters that were not searched (is_whole).
    """
    n, k = found.ids.shape
    if is_whole and k >= n - 1:
        return np.full(n, np.inf, found.gaps.dtype)
    radius = found.gaps[:, -1].copy()
    radius[np.isinf(radius)] = found.reach
    if np.isinf(found.reach):
        short = np.flatnonzero(found.ids[:, -1] < 0)  # fewer than k rows in its cells: all of them are listed
        radius[short] = np.where(found.ids[short] >= 0, found.gaps[short], 0).max(axis=1)
    return radius


def refresh(lists: Lists, work: npt.NDArray[np.int32], sweep: int, active: Active, team: Team) -> None:
    """Update the nearest neighbor of every cluster on the worklist."""
    edges = [len(work) * part // team.size for part in range(team.size + 1)]

    def task(part: int) -> None:
        merging.refresh(
            work, edges[part], edges[part + 1], sweep, lists.start, lists.adjacent, lists.width, lists.length,
            lists.following, lists.last, lists.parent, active.means, active.half, lists.changed, lists.refreshed,
            lists.nearest, lists.nearest_gap, lists.seen[part], lists.clock[part],
        )  # fmt: skip

    team.map(task, list(range(team.size)))


def match(
    lists: Lists, work: npt.NDArray[np.int32], sweep: int, radius: npt.NDArray[Any], limits: Limits, team: Team
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[Any]]:
    """The pairs to merge: each other's nearest, within the limits of both."""
    left, right = np.empty_like(work), np.empty_like(work)
    gaps = np.empty(len(work), lists.width.dtype)
    bounds = limits.of(lists.width.dtype.type)

    def task(lo: int, hi: int) -> slice:
        found = merging.match(
            work, lo, hi, sweep, lists.nearest, lists.nearest_gap, lists.refreshed, radius, *bounds, left, right, gaps
        )
        return slice(lo, lo + found)

    parts = team.ranges(task, len(work))
    return tuple(np.concatenate([array[part] for part in parts]) for array in (left, right, gaps))  # type: ignore[return-value]


def merge(
    lists: Lists,
    left: npt.NDArray[np.int32],
    right: npt.NDArray[np.int32],
    sweep: int,
    active: Active,
    radius: npt.NDArray[Any],
    team: Team,
) -> None:
    """Merge the pairs, which are disjoint, so threads do not write to the same cluster."""
    team.ranges(
        lambda lo, hi: merging.merge(
            left, right, lo, hi, sweep, lists.parent, active.means, active.half, active.size, radius,
            lists.following, lists.last, lists.changed,
        ),
        len(left),
    )  # fmt: skip


def touch(
    lists: Lists, alive: npt.NDArray[np.int32], sweep: int, radius: npt.NDArray[Any], limits: Limits, team: Team
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The clusters that can still merge in this round, and those of them that need a new nearest neighbor."""
    work = np.empty_like(alive)
    bounds = limits.of(lists.width.dtype.type)

    def task(lo: int, hi: int) -> tuple[slice, slice]:
        kept, touched = merging.touch(
            alive, lo, hi, sweep, lists.parent, lists.changed, lists.nearest, lists.nearest_gap, radius, *bounds, work
        )
        return slice(lo, lo + kept), slice(lo, lo + touched)

    parts = team.ranges(task, len(alive))
    return np.concatenate([alive[kept] for kept, _ in parts]), np.concatenate([work[touched] for _, touched in parts])
