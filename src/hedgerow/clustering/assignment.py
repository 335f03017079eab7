"""Clusters from a part of the pool, the second acceleration of the paper's appendix ("Cluster assignment").

Average linkage clusters a subset P. Every other point joins its nearest centroid if that is within epsilon_c, else it
is a cluster of its own. New points of a growing pool are assigned by the same rule.

The distance of a point to a cluster is its average linkage to it: the mean distance to the cluster's members, which is
the distance to their mean plus their spread around it. So epsilon_c is comparable to a linkage threshold, and a point
joins a cluster when average linkage would merge the two. With join_by="centroid" it is the distance to the mean alone,
which is what the appendix says. For an average size, epsilon_c is the smallest that reaches it, also over the cuts of
P, as estimated from a sample of the other points.

A distance that equals epsilon_c but for rounding in float64 is within it, as for linkage. Of equally near centroids the
lowest number is taken. Products in float32 tell which centroids are near, differences in float64 which is nearest.

Up to `FEW` centroids the search is exact. More are sorted into cells, and a point is compared with those of the
`PROBES` nearest cells.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.clustering import cells, hac
from hedgerow.clustering.dendrogram import Dendrogram
from hedgerow.clustering.growth import FINEST, ROUNDING, Goal
from hedgerow.clustering.methods import Assign, Certified
from hedgerow.clustering.parts import Record, load_column, load_slices, name_part, remove_folder, run_once, save_columns
from hedgerow.clustering.sharding import Shards, gather_shards
from hedgerow.clustering.vectors import BLOCK, Vectors, measure_half, open_vectors
from hedgerow.clustering.workers import Job, Workers, held
from hedgerow.engines import Engine
from hedgerow.errors import InputError
from hedgerow.kernels import centroids as kernels
from hedgerow.machine import Team
from hedgerow.machine import team as use_team
from hedgerow.pool import Ids, Matrix
from hedgerow.progress import Progress, ignore
from hedgerow.shards import Arrays, count_rows, map_ranges, open_shards
from hedgerow.store import atomic_write
from hedgerow.store.checkpoints import fingerprint

FEW = 8_192  # up to this many centroids, every point is compared with all
PROBES = 8  # cells whose centroids a point is compared with; docs/scaling.md has what that misses
COLUMNS = 2_048  # centroids per matrix product
NARROW = 4e-7  # likewise (kernels.EQUAL) for distances to means in float32
SAMPLE = 4_096  # points that decide where to cut the subset: enough to estimate a share of a tenth to 5%
CUTS = 10  # cuts of the subset that are tried
INDEX = "centroids.npz"
JOINED = ("nearest", "distances")  # columns

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Centroids:
    """What is needed to assign a point: the means of clusters (m, d) float64, and their spread (m,).

    Means are of rows as the metric sees them: unit vectors for cosine; for sqeuclidean, rows minus `center` (d,), times
    `factor`. The spread is half of the mean squared distance of a cluster's points from their mean; if it is infinite,
    the cluster is never the nearest. Both are float32 in files of earlier versions: distances that differ by less than
    float32 can tell are then equal, or in any order.
    """

    means: npt.NDArray[np.floating[Any]]
    spread: npt.NDArray[np.floating[Any]]
    center: npt.NDArray[np.float64]
    factor: float

    def __len__(self) -> int:
        return len(self.means)

    def join_by(self, rule: str, metric: str) -> "Centroids":
        """The centroids for the rule "average": as they are; for "centroid": as points, without spread.

        The cosine distance of a point to a centroid is that to its direction. A centroid without one, at the origin, is
        never the nearest.
        """
        if rule == "average":
            return self
        spread = np.where(np.isinf(self.spread), self.spread, 0)
        if metric != "cosine":
            return replace(self, spread=spread)
        norms = np.sqrt(2 * measure_half(self.means))
        nowhere = norms <= ROUNDING[np.float32]
        spread[nowhere] = np.inf
        means = self.means / np.where(nowhere, 1, norms)[:, None]
        return replace(self, means=means.astype(self.means.dtype), spread=spread)

    def hold(
        self, nearest: npt.NDArray[np.int64], distances: npt.NDArray[np.float64], limit: float, metric: str
    ) -> npt.NDArray[np.bool_]:
        """Which points are within the limit of their nearest centroid; equal means equal but for rounding errors."""
        if not len(self):
            return np.zeros(len(nearest), np.bool_)
        scale = 1.0 if metric == "cosine" else 2.0 / self.factor**2
        gap, half = limit / scale, measure_half(self.means) + self.spread
        half[np.isinf(half)] = 0
        within = Goal(gap).widen(float(half.max()) + gap, metric).threshold
        # In proportion to the norms of the two, and to raw values, which are about 1 where a center is subtracted.
        norm = np.sqrt(half + gap)
        error = kernels.EQUAL * np.maximum(1, norm) + (NARROW * norm if self.means.dtype == np.float32 else 0)
        with np.errstate(over="ignore"):
            reach = scale * np.maximum(within, (np.sqrt(gap) + error) ** 2)
        return np.asarray(distances <= reach[nearest])


@dataclass(frozen=True, eq=False)
class Assignment:
    """The clusters of new points: `labels` (m,) int32, and the `distances` (m,) to the nearest cluster.

    A point that is within the threshold of its nearest cluster has joined it. Any other point is a cluster of its own,
    numbered from `n_clusters` on. `row_ids` are the ids of the new points, if they have any.
    """

    labels: npt.NDArray[np.int32]
    distances: npt.NDArray[np.float64]
    n_clusters: int
    row_ids: Ids | None = None

    @property
    def joined(self) -> npt.NDArray[np.bool_]:
        """Which points joined a cluster (m,)."""
        return self.labels < self.n_clusters

    @cached_property
    def ids(self) -> npt.NDArray[Any] | None:
        """The ids of the new points (m,), int64 or strings; None if they have none."""
        return None if self.row_ids is None else self.row_ids.array()

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The columns of a file: id (if there are ids), row, cluster, distance and joined."""
        columns: dict[str, npt.NDArray[Any]] = {} if self.row_ids is None else {"id": self.row_ids.array()}
        columns |= {"row": np.arange(len(self.labels)), "cluster": self.labels}
        return columns | {"distance": self.distances, "joined": self.joined}


def cluster_subset(vectors: Vectors, method: Assign, job: hac.Job) -> tuple[npt.NDArray[np.int32], float]:
    """Labels (n,) and epsilon_c: the subset by certified linkage, the others by assignment.

    A threshold is epsilon of the linkage and epsilon_c at once.
    """
    n, team = len(vectors), job.team
    rows = choose_rows(method.subset, n, job.seed)
    rest = np.setdiff1d(np.arange(n), rows, assume_unique=True)
    most, size = job.cut.most_clusters(n), job.cut.average_size

    def gather(labels: npt.NDArray[np.int32]) -> Centroids:
        return gather_centroids(vectors, labels, team, rows).join_by(method.join_by, vectors.metric)

    cut = job.cut if size is None else hac.Cut(average_size=min(size, max(1, len(rows))))
    workers = None if job.workers is None else job.workers.without_files()
    part = replace(job, cut=cut, workers=workers)
    tree = hac.grow_tree(vectors.subset(rows, team), Certified(method.neighbors, method.slack), part)
    if most is None:
        limit = job.cut.threshold or 0.0
    else:
        limit = cut_subset(tree, vectors, gather, rest, most, job.seed, team)
    labels = tree.cut(threshold=limit)
    centroids = gather(labels)
    if job.workers is None or job.workers.source.matrix is None or not len(rest) or not len(centroids):
        nearest, distance = find_nearest(vectors, centroids, team, rest, progress=job.progress)
    else:
        nearest, distance = find_nearest_by(job.workers, centroids, team, rest, job.progress)
    if most is not None and len(rest):
        limit = find_reach(distance, most - len(centroids))
    out = np.empty(n, np.int64)
    out[rows] = labels
    out[rest] = number_points(nearest, centroids.hold(nearest, distance, limit, vectors.metric), len(centroids))
    return number_clusters(out), limit


def number_points(nearest: npt.NDArray[np.int64], near: npt.NDArray[np.bool_], count: int) -> npt.NDArray[np.int64]:
    """The nearest cluster of the points that are near; the other points are numbered from `count` on."""
    return np.where(near, nearest, count + np.cumsum(~near) - 1)


def number_clusters(labels: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Labels renumbered in order of first appearance."""
    _, first, place = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return rank[place]


def cut_subset(
    tree: Dendrogram,
    vectors: Vectors,
    gather: Callable[[npt.NDArray[np.int32]], Centroids],
    rest: Rows,
    most: int,
    seed: int,
    team: Team,
) -> float:
    """Where to cut the tree of the subset: where epsilon_c for at most `most` clusters in total is smallest.

    Few clusters leave room for many single points, but are far from most points; many clusters leave no room. Some
    numbers of clusters, from the fewest in the tree to the most allowed, are tried on a sample of the other points.
    """
    sample = np.sort(np.random.default_rng(seed).choice(rest, min(SAMPLE, len(rest)), replace=False))
    least = max(1, tree.n - len(tree.heights))
    counts = np.unique(np.rint(np.geomspace(least, max(least, min(most, tree.n)), CUTS)).astype(int))[::-1]
    cuts = [tree.threshold_for(n_clusters=int(count)) for count in counts]
    if not len(rest):
        return cuts[0]
    reaches = []
    for cut in cuts:
        centroids = gather(tree.cut(threshold=cut))
        _, distance = find_nearest(vectors, centroids, team, sample)
        reaches.append(find_reach(distance, int((most - len(centroids)) * len(sample) / len(rest))))
    return cuts[int(np.argmin(reaches))]


def find_reach(distance: npt.NDArray[np.float64], allowed: int) -> float:
    """The smallest epsilon_c that leaves at most `allowed` points unassigned."""
    assert allowed >= 0, "the subset alone has more clusters than the average size allows"
    if allowed >= len(distance):
        return 0.0
    return float(np.partition(distance, len(distance) - allowed - 1)[len(distance) - allowed - 1])


def choose_rows(subset: Any, n: int, seed: int) -> Rows:
    """The subset as ascending rows: given as a fraction of the pool, as rows, or as a bool mask."""
    if np.ndim(subset) == 0:
        count = min(n, max(1, round(float(subset) * n)))
        return np.sort(np.random.default_rng(seed).choice(n, count, replace=False)).astype(np.int64)
    given = np.asarray(subset)
    if given.dtype == np.bool_:
        if given.shape != (n,):
            raise InputError(f"subset is a mask of shape {given.shape}, but the pool has {n:,} rows")
        given = np.flatnonzero(given)
    rows = np.sort(checks.rows(given, n, "subset"))
    if n and not len(rows):
        raise InputError("subset holds no rows: there is nothing to cluster")
    return rows


def gather_centroids(vectors: Vectors, labels: npt.NDArray[Any], team: Team, rows: Rows | None = None) -> Centroids:
    """The centroids of clusters 0..max from the labels of all points, or of `rows`. Memory: 16 d bytes per cluster.

    Sums are those of the differences to one member, so that copies have exactly their mean, and no spread. Each thread
    reads the points of its own clusters in order, so the order of every sum is fixed.
    """
    wide = replace(vectors, dtype=np.float64)
    rows = np.arange(len(labels)) if rows is None else rows
    count, d = int(labels.max(initial=-1)) + 1, vectors.raw.shape[1]
    member = np.empty(count, np.int64)
    member[labels] = rows
    means, sums, half = np.empty((count, d)), np.zeros((count, d)), np.zeros(count)
    team.ranges(lambda lo, hi: wide.take(member[lo:hi], means[lo:hi]), count)

    def add(part: int) -> None:
        for start in range(0, len(labels), BLOCK):
            group = labels[start : start + BLOCK]
            mine = np.flatnonzero(group % team.size == part)
            kernels.add_differences(wide.take(rows[start + mine]), group[mine], means, sums, half)

    team.map(add, range(team.size))
    size = np.bincount(labels, minlength=count)
    sums /= size[:, None]
    means += sums
    return Centroids(means, np.maximum(half / size - measure_half(sums), 0), vectors.center, vectors.factor)


def gather_on_shards(vectors: Vectors, labels: npt.NDArray[np.int32], shards: Shards) -> Centroids:
    """As `gather_centroids`, of labels numbered by first appearance, on the workers of shards.

    The spread is a difference of two means, so that one below their rounding errors is 0.
    """
    first = np.unique(labels, return_index=True)[1]
    parts = gather_shards(shards, labels, first, np.float64, "centroids", "norm")
    means, half = parts.load("means"), parts.load("half")
    spread = half - measure_half(means)
    spread[spread < ROUNDING[np.float64] * half] = 0
    shards.sweep(None)
    return Centroids(means, spread, vectors.center, vectors.factor)


def find_nearest(
    vectors: Vectors, centroids: Centroids, team: Team, rows: Rows, *, progress: Progress = ignore
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The nearest centroid of each of `rows`, and its distance in the metric. Memory: O(rows), and blocks.

    Of equally near centroids the lower number is taken. Without centroids: -1 and infinity.
    """
    if not len(centroids):
        return np.full(len(rows), -1, np.int64), np.full(len(rows), np.inf)
    return search_index(vectors, index_centroids(centroids, team), team, rows, progress=progress)


def search_index(
    vectors: Vectors, index: "CentroidIndex", team: Team, rows: Rows, *, progress: Progress = ignore
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """As `find_nearest`, with centroids that are sorted already."""
    nearest, gap = np.empty(len(rows), np.int64), np.empty(len(rows))
    wide = replace(vectors, dtype=np.float64)

    def look(start: int) -> None:
        best, gaps = compare(wide.take(rows[start : start + BLOCK]), index)
        nearest[start : start + BLOCK] = index.numbers[best]
        gap[start : start + BLOCK] = gaps
        progress("assigning", min(1.0, (start + BLOCK) / len(rows)))

    team.map(look, range(0, len(rows), BLOCK))
    return nearest, vectors.scale * gap


def find_nearest_on(
    engine: str | Engine | None,
    workdir: str | Path | None,
    matrix: Matrix,
    metric: str,
    centroids: Centroids,
    threads: int | None,
    progress: Progress,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """As `find_nearest`, for all rows of files, in ranges on an engine."""
    settings = {"metric": metric, "factor": centroids.factor, "rows": count_rows(matrix, BLOCK)}
    data: list[npt.NDArray[Any]] = [centroids.means, centroids.spread, centroids.center]
    with open_shards(engine, workdir, matrix, settings, data) as (opened, folder):
        path = folder / INDEX
        if not path.exists():
            with use_team(threads) as team:
                index_centroids(centroids, team).save(path)
        threads = threads if threads is not None or opened.name == "serial" else 1
        compute = NearestRange(matrix, metric, str(path), centroids.center, centroids.factor, threads)
        found = map_ranges(opened, folder, compute, matrix.n, count_rows(matrix, BLOCK), "assigning", progress)
    return found["nearest"], found["distances"]


def find_nearest_by(
    workers: Workers, centroids: Centroids, team: Team, rows: Rows, progress: Progress
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """As `find_nearest`, for some rows of the pool, which ascend, on the workers of a clustering."""
    assert workers.source.matrix is not None, "the pool is in files"
    folder = workers.folder / f"join-{fingerprint([centroids.means, centroids.spread, rows], {})[:16]}"
    save_columns(name_part(folder, "all", 0), {"rows": rows})
    index_centroids(centroids, team).save(folder / INDEX)
    step = count_rows(workers.source.matrix, BLOCK)
    starts = range(0, len(rows), step)
    jobs = [{"folder": str(folder), "part": p, "start": s, "stop": min(s + step, len(rows))}
            for p, s in enumerate(starts)]  # fmt: skip
    workers.map(join_rows, jobs, lambda done: progress("assigning", done))
    stems = [name_part(folder, "joined", part) for part in range(len(jobs))]
    nearest, distance = (np.concatenate([load_column(stem, name) for stem in stems]) for name in JOINED)
    remove_folder(folder)
    return nearest, distance


def join_rows(job: Job) -> Record:
    """In a worker: the nearest centroids of some rows of the pool."""
    folder, part = Path(job["folder"]), int(job["part"])
    stem = name_part(folder, "joined", part)

    def work() -> Record:
        (rows,) = load_slices(name_part(folder, "all", 0), "rows", [slice(int(job["start"]), int(job["stop"]))])
        vectors = held().read(int(rows[0]), int(rows[-1]) + 1, "float32")
        with use_team(held().threads) as team:
            found = search_index(vectors, CentroidIndex.load(str(folder / INDEX)), team, rows - rows[0])
        save_columns(stem, dict(zip(JOINED, found, strict=True)))
        return {"rows": len(rows)}

    return run_once(stem.with_suffix(".json"), work)


@dataclass(frozen=True, eq=False)
class NearestRange:
    """The nearest centroids of a range of rows: what workers of an engine compute."""

    matrix: Matrix
    metric: str
    path: str  # of the index
    center: npt.NDArray[np.float64]
    factor: float
    threads: int | None

    @cached_property
    def index(self) -> "CentroidIndex":
        """The centroids, read once per worker."""
        return CentroidIndex.load(self.path)

    def __call__(self, start: int, stop: int) -> Arrays:
        raw = self.matrix.read(start, stop)
        with use_team(self.threads) as team:
            vectors = open_vectors(raw, self.metric, np.float32, team, start)
            vectors = replace(vectors, center=self.center, factor=self.factor)
            nearest, distances = search_index(vectors, self.index, team, np.arange(len(raw)))
        return {"nearest": nearest, "distances": distances}


@dataclass(frozen=True)
class CentroidIndex:
    """Centroids sorted by cell: cell c is centroids starts[c]:starts[c + 1]. A few centroids are all in one cell."""

    centers: npt.NDArray[np.float32]
    starts: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]  # the number of each centroid before sorting
    means: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64]
    half: npt.NDArray[np.float64]  # of the mean squared norms

    def save(self, path: Path) -> None:
        """Write the index, for workers to load."""
        with atomic_write(path) as beside:
            np.savez(beside, **vars(self))

    @classmethod
    def load(cls, path: str) -> "CentroidIndex":
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as held:
            return cls(**{part.name: held[part.name] for part in fields(cls)})


def index_centroids(centroids: Centroids, team: Team) -> CentroidIndex:
    """Sort centroids into cells, about twice the square root of their number: finding the cells then costs about as
    much as searching them."""
    count = int(2 * np.sqrt(len(centroids))) if len(centroids) > FEW else 1
    rng = np.random.default_rng(len(centroids))
    sample = np.sort(rng.choice(len(centroids), min(len(centroids), cells.SAMPLE * count), replace=False))
    narrow = centroids.means.astype(np.float32)
    centers = cells.train_centers(narrow[sample], count, rng, team).fine
    order, starts = cells.sort_groups(cells.spread_nearest(narrow, centers, team), len(centers))
    means, spread = centroids.means[order].astype(np.float64), centroids.spread[order].astype(np.float64)
    return CentroidIndex(centers, starts, order, means, spread, measure_half(means) + spread)


def compare(
    block: npt.NDArray[np.float64], index: CentroidIndex
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The position of the nearest centroid of every row of a block, within the cells nearest to it, and the gap.

    Does not depend on the other rows, although products do: what they leave open is decided by differences. If there is
    no nearest: 0 and infinity.
    """
    best, gaps = np.zeros(len(block), np.int64), np.full(len(block), np.inf)
    with np.errstate(over="ignore", invalid="ignore"):  # of points beyond float32, all gaps are computed
        narrow, half = block.astype(np.float32), measure_half(block)
        known = np.where(half < np.finfo(np.float32).max, (1 - FINEST) * half, -np.inf)
        for c, members in visit_cells(block, narrow, index):
            for first in range(index.starts[c], index.starts[c + 1], COLUMNS):
                some = slice(first, min(first + COLUMNS, index.starts[c + 1]))
                means, near = index.means[some].astype(np.float32), (1 - FINEST) * index.half[some]
                for start in range(0, len(members), cells.BLOCK):
                    rows = members[start : start + cells.BLOCK]
                    kernels.keep_nearest(
                        narrow[rows] @ means.T, near.astype(np.float32), rows, block, half, known, first,
                        index.means, index.spread, index.half, index.numbers, best, gaps,
                    )  # fmt: skip
    gaps[gaps < kernels.EQUAL**2 * index.half[best]] = 0  # copies have distance 0
    return best, gaps


def visit_cells(
    block: npt.NDArray[np.float64], narrow: npt.NDArray[np.float32], index: CentroidIndex
) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """The cells near to any row of a block, which is also given in float32, and the rows that are near."""
    held = np.flatnonzero(np.diff(index.starts))
    probes = min(PROBES, len(held))
    if len(held) == probes:
        yield from ((int(c), np.arange(len(block))) for c in held)
        return
    chosen = np.empty((len(block), probes), np.int64)
    for start in range(0, len(block), cells.BLOCK):
        some = slice(start, start + cells.BLOCK)
        chosen[some] = choose_cells(block[some], narrow[some], index.centers[held], probes)
    order = np.argsort(chosen, axis=None, kind="stable")
    edges = np.searchsorted(chosen.ravel()[order], np.arange(len(held) + 1))
    for c in np.flatnonzero(np.diff(edges)):
        yield int(held[c]), order[edges[c] : edges[c + 1]] // probes


def choose_cells(
    block: npt.NDArray[np.float64], narrow: npt.NDArray[np.float32], centers: npt.NDArray[np.float32], probes: int
) -> npt.NDArray[np.int64]:
    """The cells (n, probes) whose centers are nearest to each row; in float64 where float32 cannot separate them."""
    half = cells.half_norms(centers)
    gaps = half - narrow @ centers.T
    near = np.argpartition(gaps, probes, axis=1)[:, : probes + 1]  # the last is the nearest of those not chosen
    ends, chosen = np.take_along_axis(gaps, near, axis=1), near[:, :probes]
    doubt = FINEST * (measure_half(block) + half[near].max(axis=1))
    clear = ends[:, probes] - ends[:, :probes].max(axis=1) > doubt
    for i in np.flatnonzero(~clear):
        exact = measure_half(np.subtract(centers, block[i], dtype=np.float64))
        chosen[i] = np.argsort(exact, kind="stable")[:probes]
    return chosen
