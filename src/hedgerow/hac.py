"""Average-linkage hierarchical clustering (Algorithm 1 of the paper) without a distance matrix.

The average linkage of two clusters has a closed form in their means, sizes and mean squared norms
(`kernels/merging.py`), so a neighbor list is only a list of candidates. A round
1. finds the k nearest clusters of every cluster; a cluster outside of A's list is at least A's radius away (the gap to
   its k-th neighbor), and at least the size-weighted mean of the radii when A has merged;
2. merges, over and over, the pairs that are each other's nearest and closer than `slack` times both radii: at slack 1
   no unseen cluster can be closer, so each is a merge of true average linkage (which is reducible: the order of such
   merges does not matter);
3. sets aside the clusters whose nearest lies beyond the threshold, and starts again with the rest.

`exact` finds neighbors by comparing all pairs in float64: the tree is the textbook's, up to the order of equal heights.
`certified` finds them by cells in float32, misses a few, and ends with a pass over all final clusters that looks
harder and merges what was missed. `euclidean` has no closed form and takes the quadratic way through scipy.
Choosing a cut for a pool is `clusters.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hedgerow import cells, checks, pool
from hedgerow.dendrogram import Dendrogram, Log, build_tree, cut_log, join_logs, raise_log
from hedgerow.errors import InputError
from hedgerow.kernels import cells as cell_kernels
from hedgerow.kernels import rows as row_kernels
from hedgerow.merges import Limits, Living, merge_round
from hedgerow.neighbors import Neighbors, find_in_cells, find_neighbors
from hedgerow.threads import Team
from hedgerow.threads import team as use_team
from hedgerow.vectors import Vectors, open_vectors

METRICS = ("cosine", "sqeuclidean", "euclidean")
METHODS = ("exact", "certified")
MOST_QUADRATIC = 20_000  # scipy holds n^2 / 2 float64 distances twice: 3 GiB at this size
FEW = 4_000  # so many clusters are compared pair by pair in no time
CELL = 250  # rows of a cell: smaller ones make products inefficient, larger ones waste them
PAIRS = 3.5  # pairs of cells compared, a cell: nineteen of twenty neighbors are found at a million rows
HARDER = 2.0  # how many times as many in a final pass
RARE = 1e-3  # share of clusters that a final pass finds something for; the next would find a tenth of that
ROUNDING = {np.float32: 2e-6, np.float64: 1e-12}  # of a gap, relative to the largest half norm

Floats: TypeAlias = npt.NDArray[Any]
Progress: TypeAlias = Callable[[str, float], None]


@dataclass(frozen=True)
class Goal:
    """Where to stop: at a threshold (a gap), or once so many merges are made that a smaller threshold would do."""

    threshold: float = np.inf
    merges: int | None = None

    def cap(self, logs: list[Log]) -> float:
        """No merge beyond this gap can be part of the cut. It only falls as merges are found."""
        if self.merges is None:
            return self.threshold
        heights = np.concatenate([np.zeros(0), *(log.heights for log in logs)])
        if len(heights) < self.merges or self.merges == 0:
            return self.threshold if self.merges else 0.0
        return float(np.partition(heights, self.merges - 1)[self.merges - 1])


@dataclass(frozen=True)
class Search:
    """How neighbors are looked for: k of them, by comparing `pairs` pairs of cells a cell."""

    k: int
    pairs: float
    exact: bool
    seed: int


@dataclass(frozen=True)
class Layout:
    """Clusters sorted by cell: cell c is rows starts[c]:starts[c + 1]. No centers: one cell."""

    centers: cells.Centers | None
    starts: npt.NDArray[np.int64]


def linkage(
    embeddings: Any,
    *,
    metric: str = "cosine",
    method: str = "exact",
    threshold: float | None = None,
    average_size: float | None = None,
    neighbors: int = 15,
    slack: float = 1.1,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Dendrogram:
    """The average-linkage tree of a pool: complete, or as far as a cut needs it.

    embeddings: (n, d) array, memmap, path or Arrow data. metric: "cosine" (1 - cosine similarity), "sqeuclidean", or
    "euclidean" (quadratic memory, at most 20,000 points). method: "exact" (time O(n^2 d), memory O(n (d + neighbors)))
    or "certified" (about O(n^1.1 d) on embeddings). threshold: make all merges of that height or less and no other;
    average_size: at least those that an average cluster size of that needs. slack (certified): 1 certifies every merge
    by the lists, 1.1 is quicker and lets a merge come early by a tenth of its height at most.
    """
    checks.option(metric, "metric", METRICS)
    checks.option(method, "method", METHODS)
    checks.exactly_one({"threshold": threshold, "average_size": average_size}, allow_none=True)
    limit = np.inf if threshold is None else checks.real(threshold, "threshold", least=0)
    search = Search(checks.integer(neighbors, "neighbors", least=1), PAIRS, method == "exact", checks.seed(seed))
    slack = checks.real(slack, "slack", least=1)
    if threads is not None:
        checks.integer(threads, "threads", least=1)
    raw = pool.as_matrix(embeddings, "embeddings")
    n = len(raw)
    if metric == "euclidean":
        checks.finite(raw, "embeddings")
        return grow_quadratic(raw, limit)
    with use_team(threads) as team:
        vectors = open_vectors(raw, metric, np.float64 if search.exact else np.float32, team)
        needed = None if average_size is None else n - most_clusters(n, average_size)
        goal = Goal(limit / vectors.scale, needed)
        log = grow(vectors, goal, search, 1.0 if search.exact else slack, team, progress or ignore)
    return build_tree(n, replace(log, heights=vectors.scale * log.heights))


def most_clusters(n: int, average_size: float) -> int:
    """How many clusters of n points may have an average size of at least that."""
    size = checks.real(average_size, "average_size", least=1)
    if size > max(n, 1):
        raise InputError(f"an average size of {size:g} cannot be reached with {n:,} points")
    return int(np.floor(n / size * (1 + 1e-12)))  # 1e-12: n / (n / c) must give c again


def ignore(phase: str, done: float) -> None:
    """Nobody watches."""


def grow(vectors: Vectors, goal: Goal, search: Search, slack: float, team: Team, progress: Progress) -> Log:
    """Rounds until no two clusters are within the goal; then, unless neighbors are exact, a pass that looks harder."""
    living, layout, twins = sort_points(vectors, search, team, progress)
    tolerance = ROUNDING[vectors.dtype] * float(living.half.max(initial=0.0))
    limits = Limits(goal.threshold, slack, tolerance)
    logs = merge_rounds(living, layout, [twins], goal, search, limits, team, progress)
    del living
    harder = replace(search, pairs=HARDER * search.pairs)
    missed = not search.exact
    while missed:
        harder = replace(harder, seed=harder.seed + 1_000)  # other cells: what one cut keeps apart another may join
        made = raise_log(len(vectors), join_logs(logs))
        limits = replace(limits, threshold=goal.cap([made]))
        made = cut_log(made, limits.threshold)
        final = Goal(limits.threshold)
        logs = merge_rounds(gather_clusters(vectors, made), None, [made], final, harder, limits, team, progress)
        missed = sum(len(log) for log in logs[1:]) > RARE * (len(vectors) - len(made))
    return join_logs(logs)


def merge_rounds(
    living: Living,
    layout: Layout | None,
    logs: list[Log],
    goal: Goal,
    search: Search,
    limits: Limits,
    team: Team,
    progress: Progress,
) -> list[Log]:
    """Rounds of neighbor search and certified merges, until no two clusters are within the goal."""
    begun = max(1, len(living))
    usual = search
    while len(living) > 1:
        if layout is None:
            living, layout = sort_living(living, search, team)
        limits = replace(limits, threshold=min(limits.threshold, goal.cap(logs)))
        found = look_around(living, layout, search, limits.threshold, team)
        living, log = merge_round(living, found, limits, team)
        del found
        layout = None
        logs = [*logs, log]
        # no merge: more ties than neighbors, or cells that keep neighbors apart, so look further
        further = usual if len(log) else replace(search, k=2 * search.k, pairs=2 * search.pairs)
        search = replace(further, seed=search.seed + 1)
        progress("merging", 1 - len(living) / begun)
    return logs


def look_around(living: Living, layout: Layout, search: Search, reach: float, team: Team) -> Neighbors:
    """The nearest clusters of every cluster, within reach."""
    if layout.centers is None:
        return find_neighbors(living.means, living.half, search.k, team, reach)
    count = int(search.pairs * len(layout.centers.fine))
    pairs = cells.rank_pairs(living.means, layout.starts, layout.centers, count, team)
    return find_in_cells(living.means, living.half, search.k, layout.starts, pairs, team, reach)


def sort_living(living: Living, search: Search, team: Team) -> tuple[Living, Layout]:
    """Clusters sorted by cell; a few stay as they are, in one cell."""
    n = len(living)
    if search.exact or n <= FEW:
        return living, Layout(None, np.array([0, n]))
    centers = train(n, living.means.__getitem__, search, team)
    cell = np.concatenate(
        team.map(lambda lo: cells.assign_cells(living.means[lo : lo + cells.ROWS], centers), range(0, n, cells.ROWS))
    )
    order = np.argsort(cell, kind="stable")
    return living.take(order), Layout(centers, find_starts(cell[order], centers))


def train(n: int, take: Callable[[npt.NDArray[np.int64]], Floats], search: Search, team: Team) -> cells.Centers:
    """Centers of cells from a sample of n rows."""
    rng = np.random.default_rng([search.seed, n])
    count = max(1, n // CELL)
    sample = take(np.sort(rng.choice(n, min(n, cells.SAMPLE * count), replace=False)))
    return cells.train_centers(sample, count, rng, team)


def find_starts(cell: npt.NDArray[Any], centers: cells.Centers) -> npt.NDArray[np.int64]:
    """Where each cell begins among rows sorted by cell, and the end."""
    return np.searchsorted(cell, np.arange(len(centers.fine) + 1)).astype(np.int64)


def sort_points(vectors: Vectors, search: Search, team: Team, progress: Progress) -> tuple[Living, Layout, Log]:
    """The distinct points sorted by cell, each a cluster of its copies, and the merges at height 0 that made them.

    Within a cell rows are sorted by hash, so that equal ones are neighbors; the pool is copied once, in that order.
    """
    n, d = vectors.raw.shape
    centers = None if search.exact or n <= FEW else train(n, vectors.take, search, team)
    cell = np.zeros(n, np.int32)
    hashes = np.empty(n, np.uint64)

    def read(start: int) -> None:
        rows = vectors.block(start)
        stop = start + len(rows)
        row_kernels.hash_rows(rows.view(np.uint32 if rows.itemsize == 4 else np.uint64), hashes[start:stop])
        if centers is not None:
            cell[start:stop] = cells.assign_cells(rows, centers)

    team.map(read, vectors.starts())
    progress("reading", 0.5)
    order = np.lexsort((hashes, cell))
    position = np.empty(n, np.int64)
    position[order] = np.arange(n)
    means = np.empty((n, d), vectors.dtype)

    def place(start: int) -> None:
        rows = vectors.block(start)
        means[position[start : start + len(rows)]] = rows

    team.map(place, vectors.starts())
    progress("reading", 1.0)
    copy_of = position  # its memory serves again
    first = order.copy()
    kept = row_kernels.collapse(means, first, copy_of)
    copies = np.flatnonzero(first[copy_of] != order)
    twins = Log(first[copy_of[copies]], order[copies], np.zeros(len(copies)))
    first = first[:kept]
    size = np.bincount(copy_of, minlength=kept).astype(np.int64)
    starts = np.array([0, kept]) if centers is None else find_starts(cell[first], centers)
    return Living(first, means[:kept], vectors.half(means[:kept]), size), Layout(centers, starts), twins


def gather_clusters(vectors: Vectors, log: Log) -> Living:
    """The clusters that a log of merges leaves, their means summed anew from the points in float64."""
    n, d = vectors.raw.shape
    tree = build_tree(n, log)
    labels = tree.cut(threshold=np.finfo(np.float64).max)
    count = int(labels.max(initial=-1)) + 1
    sums, half, size = np.zeros((count, d)), np.zeros(count), np.zeros(count, np.int64)
    for start in vectors.starts():
        rows = vectors.block(start)
        group = labels[start : start + len(rows)]
        cell_kernels.add_rows(rows, group, sums, size)
        half += np.bincount(group, weights=vectors.half(rows), minlength=count)
    stands = np.ones(n, np.bool_)
    stands[log.right] = False  # the point that no merge swallowed stands for its cluster, as the log has it
    point = np.empty(count, np.int64)
    point[labels[stands]] = np.flatnonzero(stands)
    sums /= size[:, None]
    return Living(point, sums.astype(vectors.dtype), (half / size).astype(vectors.dtype), size)


def grow_quadratic(points: Floats, threshold: float) -> Dendrogram:
    """The tree by scipy from all n (n - 1) / 2 Euclidean distances, which have no closed form."""
    from scipy.cluster.hierarchy import linkage as scipy_linkage
    from scipy.spatial.distance import pdist

    n = len(points)
    if n > MOST_QUADRATIC:
        raise InputError(
            f'metric="euclidean" needs memory that grows with the square of the pool: {n:,} points are more than '
            f'the {MOST_QUADRATIC:,} it takes; "sqeuclidean" has no such limit'
        )
    if n < 2:
        return Dendrogram(n, np.zeros((0, 2), np.int64), np.zeros(0))
    tree = scipy_linkage(pdist(np.asarray(points, np.float64)), "average")
    count = int(np.searchsorted(tree[:, 2], threshold, side="right"))
    return Dendrogram(n, np.sort(tree[:count, :2].astype(np.int64), axis=1), tree[:count, 2].copy())
