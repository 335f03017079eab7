"""Multi-round clustering, the first acceleration of the paper's appendix ("Multi-round HAC").

Each round builds a (k, tau)-nearest-neighbor graph of the centroids of the clusters so far: an edge joins two centroids
if one is among the k nearest of the other and their distance is at most tau. Average linkage then merges within the
graph, up to a distance epsilon, and the centroids of the resulting clusters go to the next round. Only the graph of one
round is held in memory.

What the paper leaves open is decided as follows. A centroid is one point, whatever the size of its cluster (for cosine
distance, a direction). The distance of two clusters of centroids is the mean over the edges between them, and clusters
without an edge do not merge. For an average size, the number of clusters falls by the same ratio in every round:
epsilon is the smallest that reaches it, and tau is unlimited. With a given threshold, every round has that epsilon, and
tau is twice as large; if it were the same, every edge would be a merge (single linkage). The clusters differ from true
average linkage: docs/scaling.md has how much.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import __version__
from hedgerow.clustering import hac
from hedgerow.clustering.dendrogram import Dendrogram, Log, build_tree, cut_log, join_logs, make_monotone
from hedgerow.clustering.growth import FINEST, largest_half
from hedgerow.clustering.layout import PAIRS, Layout, Search, search_neighbors, sort_clusters, sort_points
from hedgerow.clustering.merges import Active, Lists, link_lists
from hedgerow.clustering.methods import Multiround
from hedgerow.clustering.neighbors import Neighbors
from hedgerow.clustering.vectors import Vectors
from hedgerow.kernels import graph as kernels
from hedgerow.machine import Team
from hedgerow.store.checkpoints import open_checkpoints

REACH = 2.0  # tau / epsilon: edges beyond epsilon count against a merge
UNIT = 1 << 36  # the longest edge in fixed point: resolves 1e-11 of it, and 2^27 edges can be added without overflow


@dataclass(frozen=True)
class Plan:
    """When to stop: after `rounds` with epsilon `threshold` (a gap), or at `clusters`, in as many rounds as needed."""

    rounds: int
    threshold: float = np.inf
    clusters: int | None = None

    def needed(self, turn: int, begun: int, now: int) -> int | None:
        """The merges that round `turn` (from 0 on) should make; None: all within the threshold."""
        if self.clusters is None:
            return None
        if turn + 1 >= self.rounds:
            return now - self.clusters
        return now - int(begun * (self.clusters / begun) ** ((turn + 1) / self.rounds))

    def is_done(self, turn: int, now: int, merged: int) -> bool:
        """Whether to stop before round `turn`. merged: the merges of the previous round."""
        if self.clusters is None:
            return now < 2 or turn >= self.rounds or (turn > 0 and not merged)
        return now <= self.clusters


def grow_in_rounds(vectors: Vectors, method: Multiround, job: hac.Job) -> Dendrogram:
    """The merges of all rounds as a tree; cut at its top (or at the threshold) it gives the clusters."""
    search = Search(int(method.neighbors), PAIRS, False, job.seed)
    rounds = min(int(method.rounds), max(1, len(vectors)))  # n rounds make one merge each
    most = job.cut.most_clusters(len(vectors))
    if most is None:
        plan = Plan(rounds, threshold=(job.cut.threshold or 0.0) / vectors.scale)
    else:
        plan = Plan(rounds, clusters=most)
    if job.workdir is not None:
        settings = {"method": method.name, "metric": vectors.metric, "cut": vars(job.cut), **vars(method)}
        open_checkpoints(job.workdir, [vectors.raw], {**settings, "seed": job.seed, "version": __version__})
    log = merge_precisely(vectors, plan, search, job)
    if job.workers is not None:
        job.workers.clear()
    return build_tree(len(vectors), replace(log, heights=vectors.scale * log.heights))


def merge_precisely(vectors: Vectors, plan: Plan, search: Search, job: hac.Job) -> Log:
    """The merges of all rounds, in float64 where float32 cannot separate distances at the cut."""
    finest = FINEST * largest_half(vectors)
    if plan.threshold >= finest:
        log, copies = merge_in_rounds(vectors, plan, search, job)
        if plan.clusters is None or len(log) <= copies or log.heights.max() >= finest:
            return log
    return merge_in_rounds(hac.to_float64(vectors, search, job.team, len(vectors)), plan, search, job)[0]


def merge_in_rounds(vectors: Vectors, plan: Plan, search: Search, job: hac.Job) -> tuple[Log, int]:
    """The merges of all rounds, those of equal points first, and how many these are.

    Heights are gaps, and every merge is at least as high as those below it.
    """
    active, layout, duplicates = sort_points(
        vectors, search, job.team, lambda done: job.progress("reading", done), job.workers
    )
    logs = [duplicates]
    begun, turn, merged = max(1, len(active)), 0, 0
    while not plan.is_done(turn, len(active), merged):
        if turn:
            active, layout = sort_clusters(active, search, job.team)
        log = merge_graph(active, layout, search, plan, plan.needed(turn, begun, len(active)), vectors, job)
        active = make_centroids(active, log)
        logs.append(log)
        turn, merged = turn + 1, len(log)
        job.progress("rounds", min(1.0, turn / plan.rounds))
    job.progress("rounds", 1.0)
    return make_monotone(len(vectors), join_logs(logs)), len(duplicates)


def merge_graph(
    active: Active, layout: Layout, search: Search, plan: Plan, needed: int | None, vectors: Vectors, job: hac.Job
) -> Log:
    """One round: the merges of average linkage on the graph of the centroids."""
    if needed is not None and needed <= 0:
        return join_logs([])
    tau = REACH * plan.threshold
    rows = to_unit(active.means, vectors)
    centroids = Active(active.point, rows, vectors.half(rows), active.size)
    found = search_neighbors(centroids, layout, search, tau, job.team, workers=job.workers)
    log = link_graph(found, plan.threshold, needed, job.team)
    return Log(active.point[log.left], active.point[log.right], log.heights)


def to_unit(means: npt.NDArray[Any], vectors: Vectors) -> npt.NDArray[Any]:
    """Centroids as the metric sees points: unit vectors for cosine."""
    return vectors.prepare(means) if vectors.metric == "cosine" else means


def link_graph(found: Neighbors, threshold: float, needed: int | None, team: Team) -> Log:
    """Average linkage over the edges of a graph: merges (rows of the lists) and heights, up to the threshold.

    needed: stop at the smallest height that makes this many merges. The mean over edges is reducible (a merged cluster
    is never nearer to others than the nearer of its parts), so pairs that are each other's nearest merge in any order.
    """
    lists = link_lists(found, np.full(len(found.ids), np.inf), team)  # an edge if either is a neighbor of the other
    unit = UNIT / (float(lists.width.max(initial=0.0)) or 1.0)
    edges = Edges(
        lists,
        total=np.rint(lists.width.astype(np.float64) * unit).astype(np.int64),
        count=np.ones(len(lists.width), np.int64),
        slot=np.empty(lists.seen.shape, np.int64),
        mean=np.full(len(lists.parent), np.inf),
    )
    limit = threshold * unit + 1
    made = [join_logs([])]
    alive = work = np.arange(len(lists.parent), dtype=np.int32)
    while True:
        refresh(edges, work, team)
        left, right = match(edges, work, limit)
        if not len(left) and len(work) == len(alive):
            break
        made.append(Log(left.astype(np.int64), right.astype(np.int64), edges.mean[left]))
        merged = merge(lists, left, right)
        alive = alive[(lists.parent[alive] == alive) & (merged[alive] | (edges.mean[alive] <= limit))]
        limit = min(limit, cap(made, needed))
        work = alive[merged[alive] | merged[lists.nearest[alive]]]
        if not len(work):  # ties can leave clusters waiting for each other: update all of them
            work = alive
    log = cut_log(make_monotone(len(lists.parent), join_logs(made)), limit)
    return Log(log.left, log.right, log.heights / unit)


@dataclass(frozen=True)
class Edges:
    """The edges of a graph by cluster: chains of segments as in `lists`, with integer weights."""

    lists: Lists
    total: npt.NDArray[np.int64]
    count: npt.NDArray[np.int64]
    slot: npt.NDArray[np.int64]  # (threads, n) scratch
    mean: npt.NDArray[np.float64]  # (n,) of the edges to the nearest


def cap(logs: list[Log], needed: int | None) -> float:
    """The height beyond which no merge is needed."""
    heights = np.concatenate([log.heights for log in logs])
    if needed is None or len(heights) < needed:
        return np.inf
    return float(np.partition(heights, needed - 1)[needed - 1])


def refresh(edges: Edges, work: npt.NDArray[np.int32], team: Team) -> None:
    """Update the nearest neighbor of every cluster on the worklist."""
    lists = edges.lists
    ends = [len(work) * part // team.size for part in range(team.size + 1)]

    def task(part: int) -> None:
        kernels.refresh(
            work, ends[part], ends[part + 1], lists.start, lists.adjacent, edges.total, edges.count, lists.length,
            lists.following, lists.last, lists.parent, lists.nearest, edges.mean, lists.seen[part], edges.slot[part],
            lists.clock[part],
        )  # fmt: skip

    team.map(task, list(range(team.size)))


def match(
    edges: Edges, work: npt.NDArray[np.int32], limit: float
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The pairs that are each other's nearest, within the limit; the lower cluster on the left, each pair once."""
    nearest = edges.lists.nearest
    mutual = work[(nearest[work] >= 0) & (edges.mean[work] <= limit)]
    mutual = mutual[nearest[nearest[mutual]] == mutual]
    left = np.unique(np.minimum(mutual, nearest[mutual]))
    return left, nearest[left]


def merge(lists: Lists, left: npt.NDArray[np.int32], right: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Merge the pairs; returns which clusters were part of one."""
    lists.parent[right] = left
    lists.following[lists.last[left]] = right
    lists.last[left] = lists.last[right]
    merged = np.zeros(len(lists.parent) + 1, np.bool_)  # one more: nearest is -1 where there is none
    merged[left] = merged[right] = True
    return merged


def make_centroids(active: Active, log: Log) -> Active:
    """The clusters after a round, with the means of all their points, in the order of the clusters before it."""
    n = len(active)
    place = np.full(int(active.point.max(initial=-1)) + 1, -1, np.int64)
    place[active.point] = np.arange(n)
    parent = np.arange(n)
    parent[place[log.right]] = place[log.left]
    while (parent != parent[parent]).any():  # a chain of m merges takes log2 m steps
        parent = parent[parent]
    stays = np.flatnonzero(parent == np.arange(n))
    group = np.searchsorted(stays, parent)
    size = np.bincount(group, weights=active.size, minlength=len(stays)).astype(np.int64)
    sums = np.zeros((len(stays), active.means.shape[1]))
    kernels.add_weighted(active.means, active.size, group, sums)
    sums /= size[:, None]
    return Active(active.point[stays], sums.astype(active.means.dtype), np.zeros(len(stays)), size)
