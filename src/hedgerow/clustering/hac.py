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
`certified` finds them by cells, in float32 unless the cut is finer than that, misses a few, and ends with passes over
all final clusters that look harder and merge what was missed. `euclidean` has no closed form and takes the quadratic
way through scipy.
Choosing a cut for a pool is `clusters.py`; the rounds themselves are `growth.py`.
"""

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import __version__, checks, machine, pool
from hedgerow.clustering.dendrogram import Dendrogram, Log, build_tree
from hedgerow.clustering.growth import FINEST, STATE_FORMAT, Goal, Progress, grow, largest_half
from hedgerow.clustering.layout import Search
from hedgerow.clustering.vectors import Vectors, open_vectors
from hedgerow.errors import HedgerowWarning, InputError
from hedgerow.machine import Team, available
from hedgerow.machine import team as use_team
from hedgerow.store.checkpoints import Checkpoints, open_checkpoints

METRICS = ("cosine", "sqeuclidean", "euclidean")
METHODS = ("exact", "certified")
MOST_QUADRATIC = 20_000  # scipy holds n^2 / 2 float64 distances twice: 3 GiB at this size
REVERSE = 1.2  # reverse entries per entry of a neighbor list (on clustered pools)
PAIRS = 4.7  # pairs of cells compared, a cell: nineteen of twenty neighbors are found at a million rows


@dataclass(frozen=True)
class Estimate:
    """What a linkage will need beyond its input: bytes of memory, and seconds on idle cores."""

    memory: int
    seconds: float

    def __str__(self) -> str:
        return f"about {self.memory / 2**30:.1f} GiB of memory beyond the input and {self.seconds:,.0f} s"


def estimate(n: int, d: int, *, method: str = "certified", neighbors: int = 15, threads: int | None = None) -> Estimate:
    """What linkage of n points in d dimensions will need; seconds are those of a core of 2021, give or take half."""
    exact = method == "exact"
    word = 8 if exact else 4
    lists = neighbors * (4 + word) * (1 + REVERSE)
    memory = n * (d * word + lists + 120)  # 120: a dozen numbers a point, and the log
    flops = n * n * d if exact else n * 4e3 * d * (1 + max(0.0, np.log10(max(n, 1) / 1e6)) / 5)
    return Estimate(int(memory), float(1 + flops / (2.5e10 if exact else 2e10) / (threads or available())))


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
    workdir: str | Path | None = None,
    progress: Progress | None = None,
) -> Dendrogram:
    """The average-linkage tree of a pool: complete, or as far as a cut needs it.

    embeddings: (n, d) array, memmap, path or Arrow data. metric: "cosine" (1 - cosine similarity), "sqeuclidean", or
    "euclidean" (quadratic memory, at most 20,000 points). method: "exact" (time O(n^2 d), memory O(n (d + neighbors)))
    or "certified" (about O(n^1.2 d) on embeddings). threshold: make all merges of that height or less and no other;
    average_size: at least those that an average cluster size of that needs. slack (certified): 1 certifies every merge
    by the lists, 1.1 is quicker and lets a merge come early by a tenth of its height at most. workdir: a folder for
    finished phases, from which an interrupted run goes on.
    """
    checks.option(metric, "metric", METRICS)
    checks.option(method, "method", METHODS)
    checks.exactly_one({"threshold": threshold, "average_size": average_size}, allow_none=True)
    limit = np.inf if threshold is None else checks.real(threshold, "threshold", least=0)
    search = Search(checks.integer(neighbors, "neighbors", least=1), PAIRS, method == "exact", checks.seed(seed))
    slack = 1.0 if search.exact else checks.real(slack, "slack", least=1)
    if threads is not None:
        checks.integer(threads, "threads", least=1)
    raw = pool.as_matrix(embeddings, "embeddings")
    n, d = raw.shape
    needed = None if average_size is None else n - most_clusters(n, average_size)
    if metric == "euclidean":
        checks.finite(raw, "embeddings")
        return grow_quadratic(raw, limit)
    check_memory(estimate(n, d, method=method, neighbors=neighbors, threads=threads))
    settings = {
        "metric": metric, "threshold": threshold, "merges": needed, "slack": slack, "search": vars(search),
        "version": __version__, "format": STATE_FORMAT,
    }  # fmt: skip
    checkpoints = open_checkpoints(workdir, [raw], settings)
    with use_team(threads) as team:
        vectors = open_vectors(raw, metric, np.float64 if search.exact else np.float32, team)
        goal = Goal(limit / vectors.scale, needed)
        log = grow_precisely(vectors, goal, search, slack, team, checkpoints, progress or ignore)
    return build_tree(n, replace(log, heights=vectors.scale * log.heights))


def grow_precisely(
    vectors: Vectors, goal: Goal, search: Search, slack: float, team: Team, checkpoints: Checkpoints, progress: Progress
) -> Log:
    """The merges up to the goal: by float32 where that tells distances at the cut apart, else in float64.

    For a threshold that is known beforehand, for a number of merges once these are made. Equal points are equal in any
    precision.
    """
    spread = largest_half(vectors)
    if vectors.dtype == np.float32:
        finest = FINEST * spread
        if goal.threshold >= finest:
            state = grow(vectors, goal, search, slack, spread, team, checkpoints, progress)
            if goal.merges is None or goal.merges <= state.duplicates or goal.cap(state.log) >= finest:
                return state.log
        vectors, checkpoints = to_float64(vectors, search, team), checkpoints.within("float64")
    return grow(vectors, goal, search, slack, spread, team, checkpoints, progress).log


def to_float64(vectors: Vectors, search: Search, team: Team) -> Vectors:
    """The same points in float64, if there is memory for that."""
    needed = estimate(*vectors.raw.shape, neighbors=search.k, threads=team.size)
    check_memory(Estimate(2 * needed.memory, 2 * needed.seconds))
    return replace(vectors, dtype=np.float64)


def most_clusters(n: int, average_size: float) -> int:
    """How many clusters of n points may have an average size of at least that."""
    size = checks.real(average_size, "average_size", least=1)
    if size > max(n, 1):
        raise InputError(f"an average size of {size:g} cannot be reached with {n:,} points")
    return int(np.floor(n / size * (1 + 1e-12)))  # 1e-12: n / (n / c) must give c again


def check_memory(needed: Estimate) -> None:
    """Refuses before it begins what cannot fit this machine, and warns of what is tight."""
    memory = machine.memory()
    if needed.memory > memory.total:
        raise InputError(
            f"this linkage needs {needed}, and this process may use {memory.total / 2**30:.1f} GiB in all: "
            'cluster a part of the pool with method="assign", or take fewer neighbors'
        )
    if needed.memory > memory.free:
        warnings.warn(
            f"this linkage needs {needed}, but {memory.free / 2**30:.1f} GiB are free now: it may run out of memory",
            HedgerowWarning,
            stacklevel=3,
        )


def ignore(phase: str, done: float) -> None:
    """Nobody watches."""


def grow_quadratic(points: npt.NDArray[Any], threshold: float) -> Dendrogram:
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
