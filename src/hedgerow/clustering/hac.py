"""Average-linkage hierarchical clustering (Algorithm 1 of the paper) without a distance matrix.

The average linkage of two clusters has a closed form in their means, sizes and mean squared norms
(`kernels/merging.py`), so a neighbor list is only a list of candidates. A round
1. finds the k nearest clusters of every cluster. A cluster outside of A's list is at least A's radius away (the gap to
   its k-th neighbor), and after A has merged, at least the size-weighted mean of the radii;
2. merges repeatedly the pairs that are each other's nearest and closer than `slack` times both radii. At slack 1 no
   unlisted cluster can be closer, so each is a merge of true average linkage (which is reducible: the order of such
   merges does not matter);
3. sets aside the clusters whose nearest is beyond the threshold, and starts again with the rest.

`exact` finds neighbors by comparing all pairs in float64: the tree is that of the textbook algorithm, up to the order
of equal heights. `certified` finds them by cells, in float32 unless the cut needs more precision: distances that
float32 cannot tell from a threshold are computed in float64. It misses a few neighbors, and ends with more thorough
passes over all final clusters that find and make the missing merges. `euclidean` has no closed form and goes through
scipy, with quadratic memory.

Clusters at exactly the threshold merge, as in Algorithm 1; equal means equal up to rounding in float64.
How a pool is cut is decided in `clusters.py`; the rounds are in `growth.py`.
"""

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import __version__, checks, machine, pool
from hedgerow.clustering.dendrogram import Dendrogram, Log, build_tree, cut_log, make_monotone
from hedgerow.clustering.growth import (
    FINEST,
    ROUNDING,
    STATE_FORMAT,
    Goal,
    Run,
    State,
    grow,
    largest_half,
    reopen,
    settle,
)
from hedgerow.clustering.layout import PAIRS, Search
from hedgerow.clustering.merges import NONE
from hedgerow.clustering.methods import Certified, Exact, Method, read_method
from hedgerow.clustering.sharding import Shards
from hedgerow.clustering.vectors import BLOCK, Vectors, choose_factor, measure_half, open_vectors
from hedgerow.clustering.workers import Workers
from hedgerow.errors import HedgerowWarning, InputError
from hedgerow.machine import Team, available
from hedgerow.machine import team as use_team
from hedgerow.progress import Progress, watch
from hedgerow.store.checkpoints import open_checkpoints

METRICS = ("cosine", "sqeuclidean", "euclidean")
METHODS: dict[str, type[Method]] = {"exact": Exact, "certified": Certified}
MOST_QUADRATIC = 20_000  # points; scipy holds n^2 / 2 float64 distances twice: 3 GiB at this size
REVERSE = 1.2  # reverse entries per entry of a neighbor list (on clustered pools)
HALO = 1.6  # rows that a shard reads per row of its own, on pools that form groups
DRIVER = 80  # bytes per row in the driver of a run on shards: the log of merges and what sorts it
SHARDED = 1.5  # how much longer shards take


@dataclass(frozen=True)
class Estimate:
    """What a linkage will need beyond its input: bytes of memory, and seconds on idle cores."""

    memory: int
    seconds: float

    def __str__(self) -> str:
        return f"about {self.memory / 2**30:.1f} GiB of memory beyond the input and {self.seconds:,.0f} s"


def estimate(
    n: int,
    d: int,
    *,
    method: str = "certified",
    neighbors: int = 15,
    threads: int | None = None,
    shard_rows: int | None = None,
) -> Estimate:
    """What linkage of n points in d dimensions will need. Seconds are for cores of 2021, within about half.

    On shards: the memory of the driver, or of a worker if it needs more.
    """
    if shard_rows is not None and n > shard_rows:
        shard = estimate(int(HALO * shard_rows), d, neighbors=neighbors, threads=threads)
        whole = estimate(n, d, neighbors=neighbors, threads=threads)
        return Estimate(max(shard.memory, DRIVER * n), SHARDED * whole.seconds)
    exact = method == "exact"
    word = 8 if exact else 4
    lists = neighbors * (4 + word) * (1 + REVERSE)
    memory = n * (d * word + lists + 120)  # 120: a dozen numbers per point, and the log
    flops = n * n * d if exact else n * 4e3 * d * (1 + max(0.0, np.log10(max(n, 1) / 1e6)) / 5)
    return Estimate(int(memory), float(1 + flops / (2.5e10 if exact else 2e10) / (threads or available())))


@dataclass(frozen=True)
class Cut:
    """Where a tree is cut: at a threshold, or at the smallest that reaches an average size. Neither: it is complete."""

    threshold: float | None = None
    average_size: float | None = None

    def most_clusters(self, n: int) -> int | None:
        """How many clusters of n points the average size allows; None if none is asked for."""
        return None if self.average_size is None else most_clusters(n, self.average_size)


@dataclass(frozen=True)
class Job:
    """What a method needs beyond the points and its own options."""

    cut: Cut
    seed: int
    team: Team
    progress: Progress
    workdir: str | Path | None = None
    workers: Workers | None = None  # that search for neighbors, if not this process
    shards: Shards | None = None  # for a method that has `shard_rows`


def linkage(
    embeddings: Any,
    *,
    metric: str = "cosine",
    method: str | Exact | Certified = "exact",
    threshold: float | None = None,
    average_size: float | None = None,
    neighbors: int | None = None,
    slack: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    workdir: str | Path | None = None,
    progress: Progress | bool | None = None,
) -> Dendrogram:
    """The average-linkage tree of a pool: complete, or only as far as a cut needs it.

    embeddings: (n, d) array, memmap, path or Arrow data. metric: "cosine" (1 - cosine similarity), "sqeuclidean", or
    "euclidean" (quadratic memory, at most 20,000 points).
    method: "exact" or `Exact()` (time O(n^2 d), memory O(n (d + neighbors))), "certified" or `Certified()` (about
    O(n^1.2 d) on embeddings). neighbors (15) and slack (1.1, certified only) are options of the methods, which may also
    be given here with a name.
    threshold: make all merges up to this height and no other. average_size: make at least the merges that clusters of
    this average size need. workdir: a folder for finished phases; an interrupted run continues from there. progress:
    True shows a progress bar; or a callable progress(phase, share).
    """
    checks.option(metric, "metric", METRICS)
    chosen = read_method(method, METHODS, {"neighbors": neighbors, "slack": slack})
    assert isinstance(chosen, (Exact, Certified))
    cut = read_cut(threshold, average_size)
    seed = checks.seed(seed)
    if threads is not None:
        checks.integer(threads, "threads", least=1)
    raw = pool.as_matrix(embeddings, "embeddings")
    cut.most_clusters(len(raw))  # refuses an average size that cannot be reached
    with use_team(threads) as team, watch(progress) as report:
        if metric == "euclidean":
            return grow_quadratic(raw, cut.threshold)
        vectors = open_vectors(raw, metric, np.float32, team)
        return grow_tree(vectors, chosen, Job(cut, seed, team, report, workdir))


def read_cut(threshold: Any, average_size: Any) -> Cut:
    """The cut that a public function was asked for, checked as far as that goes without the pool."""
    checks.exactly_one({"threshold": threshold, "average_size": average_size}, allow_none=True)
    return Cut(
        None if threshold is None else checks.real(threshold, "threshold", least=0),
        None if average_size is None else checks.real(average_size, "average_size", least=1),
    )


def grow_tree(vectors: Vectors, method: Exact | Certified, job: Job) -> Dendrogram:
    """The tree of points that have been checked, as far as the cut needs it."""
    n, d = vectors.raw.shape
    exact = isinstance(method, Exact)
    slack = 1.0 if isinstance(method, Exact) else float(method.slack)
    search = Search(int(method.neighbors), PAIRS, exact, job.seed)
    shard_rows = None if isinstance(method, Exact) else method.shard_rows
    needed = estimate(n, d, method=method.name, neighbors=search.k, threads=job.team.size, shard_rows=shard_rows)
    check_memory(needed)
    most = job.cut.most_clusters(n)
    merges = None if most is None else n - most
    settings = {
        "metric": vectors.metric, "threshold": job.cut.threshold, "merges": merges, "slack": slack,
        "search": vars(search), "version": __version__, "format": STATE_FORMAT,
    }  # fmt: skip
    is_sharded = shard_rows is not None and n > shard_rows
    if is_sharded:
        assert job.shards is not None, "the pool is in files"
        settings |= {"shard_rows": shard_rows, "files": job.shards.workers.source.mark_files()}
    checkpoints = open_checkpoints(job.workdir, [] if is_sharded else [vectors.raw], settings)
    vectors = replace(vectors, dtype=np.float64 if exact else np.float32)
    limit = np.inf if job.cut.threshold is None else job.cut.threshold
    goal = Goal(limit / vectors.scale, merges)
    shards = job.shards if is_sharded else None
    run = Run(goal, search, slack, largest_half(vectors), job.team, checkpoints, job.progress, job.workers, shards)
    log = grow_precisely(vectors, run)
    # What equals the threshold but for rounding is part of the cut.
    return build_tree(n, replace(log, heights=vectors.scale * np.minimum(log.heights, goal.threshold)))


def grow_precisely(vectors: Vectors, run: Run) -> Log:
    """The merges up to the goal: in float32 where it separates distances at the cut, else in float64.

    For a given threshold that is known in advance, for a number of merges only once they are made. Where float32
    does, the merges near the cut are made in float64.
    """
    if vectors.dtype == np.float32:
        goal, finest = run.goal, FINEST * run.spread
        if goal.threshold >= finest:
            state = grow(vectors, run)
            if goal.merges is None:
                wide = to_float64(vectors, run.search, run.team, len(state.doubtful))
                return settle(wide, state, run)
            if goal.cap(state.log) >= finest or is_cut_at_copies(vectors, state, run):
                return settle_count(vectors, state, run)
        vectors = to_float64(vectors, run.search, run.team, len(vectors))
        shards = None if run.shards is None else run.shards.within("float64")
        run = replace(run, checkpoints=run.checkpoints.within("float64"), shards=shards)
    return grow(vectors, run).log


def settle_count(vectors: Vectors, state: State, run: Run) -> Log:
    """The merges up to the smallest threshold that makes as many as the goal, its height known in float64.

    Merges that float32 is sure of are never undone, because what they brought near would have to be searched for.
    """
    n, goal, given = len(vectors), run.goal, state.log
    assert goal.merges is not None
    while True:
        opened, target = reopen(state, run, n)
        wide = to_float64(vectors, run.search, run.team, len(opened.doubtful))
        log = make_monotone(n, settle(wide, opened, replace(run, goal=target)))
        if len(log) < goal.merges:
            return given  # of nearly equal distances, float64 took others first, and made fewer merges
        sure, settled = log.heights[state.duplicates : len(opened.log)], log.heights[len(opened.log) :]
        known = settled[settled >= sure.max(initial=0.0)]
        if len(known) or not len(sure):
            lowest = max(goal.cap(log), float(known.min()) if len(sure) else 0.0)
            return cut_log(log, Goal(lowest).widen(run.spread, vectors.metric).threshold)
        state = replace(state, log=log, doubtful=NONE)  # those undone had been raised, and are lower now


def is_cut_at_copies(vectors: Vectors, state: State, run: Run) -> bool:
    """Whether merges of equal points are enough, and the points are equal in float64 as well."""
    assert run.goal.merges is not None
    if run.goal.merges > state.duplicates:
        return False
    wide = replace(vectors, dtype=np.float64)
    most = Goal(0.0).widen(run.spread, vectors.metric).threshold

    def are_equal(start: int) -> bool:
        some = slice(start, min(start + BLOCK, state.duplicates))
        apart = wide.take(state.log.left[some]) - wide.take(state.log.right[some])
        return bool(measure_half(apart).max() <= most)

    return all(run.team.map(are_equal, range(0, state.duplicates, BLOCK)))


def to_float64(vectors: Vectors, search: Search, team: Team, count: int) -> Vectors:
    """The same points in float64, if there is memory for linkage of `count` of them."""
    needed = estimate(count, vectors.raw.shape[1], neighbors=search.k, threads=team.size)
    check_memory(Estimate(2 * needed.memory, 2 * needed.seconds))
    return replace(vectors, dtype=np.float64)


def most_clusters(n: int, average_size: float) -> int:
    """The most clusters that n points can form with at least this average size."""
    size = checks.real(average_size, "average_size", least=1)
    if size > max(n, 1):
        raise InputError(f"an average size of {size:g} cannot be reached with {n:,} points: ask for at most {n:,}")
    return int(np.floor(n / size * (1 + 1e-12)))  # 1e-12: n / (n / c) must give c again


def find_cut(tree: Dendrogram, average_size: float | None, vectors: Vectors | None = None) -> float:
    """The smallest threshold that reaches an average size: the highest of the merges that equal it but for rounding.

    vectors: what the tree was grown from, if not by `grow_quadratic`.
    """
    lowest = tree.threshold_for(average_size=average_size)
    if vectors is None:
        limit = lowest * (1 + ROUNDING[np.float64])
    else:
        limit = vectors.scale * Goal(lowest / vectors.scale).widen(largest_half(vectors), vectors.metric).threshold
    return float(tree.heights[tree.heights <= limit].max(initial=lowest))


def check_memory(needed: Estimate) -> None:
    """Refuse a linkage that cannot fit into memory, and warn if it may not."""
    memory = machine.memory()
    if needed.memory > memory.total:
        raise InputError(
            f"this linkage needs {needed}, and this process may use {memory.total / 2**30:.1f} GiB in all: "
            'cluster a part of the pool with method="assign", or use fewer neighbors'
        )
    if needed.memory > memory.free:
        warnings.warn(
            f"this linkage needs {needed}, but {memory.free / 2**30:.1f} GiB are free now: it may run out of memory",
            HedgerowWarning,
            stacklevel=3,
        )


def grow_quadratic(points: npt.NDArray[Any], threshold: float | None) -> Dendrogram:
    """The tree by scipy, from all n (n - 1) / 2 Euclidean distances, which have no closed form. Checks the points."""
    from scipy.cluster.hierarchy import linkage as scipy_linkage
    from scipy.spatial.distance import pdist

    n = len(points)
    if n > MOST_QUADRATIC:
        raise InputError(
            f'metric="euclidean" takes at most {MOST_QUADRATIC:,} points, got {n:,}, because its memory grows with '
            'their square: use metric="sqeuclidean", which has no such limit'
        )
    checks.finite(points, "embeddings")
    if n < 2:
        return Dendrogram(n, np.zeros((0, 2), np.int64), np.zeros(0))
    wide = np.asarray(points, np.float64)
    choose_factor(np.abs(wide).max(axis=1))  # refuses values whose squares overflow or vanish
    tree = scipy_linkage(pdist(wide), "average")
    limit = np.inf if threshold is None else threshold
    count = int(np.searchsorted(tree[:, 2], limit * (1 + ROUNDING[np.float64]), side="right"))
    return Dendrogram(n, np.sort(tree[:count, :2].astype(np.int64), axis=1), np.minimum(tree[:count, 2], limit))
