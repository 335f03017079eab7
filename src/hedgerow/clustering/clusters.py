"""Clusters of a pool: made once, saved to a file, used in every round (the clustering step of the paper, section 2).

`cluster` opens and checks the pool, resolves the method and the cut, and calls the method. `Clusters` is the result: a
label for each row, the rows' ids, and the centroids by which new points of a growing pool are assigned.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks, pool, store
from hedgerow.clustering import assignment, hac, multiround
from hedgerow.clustering.assignment import Assignment, Centroids
from hedgerow.clustering.dendrogram import Dendrogram, make_html
from hedgerow.clustering.methods import (
    JOIN_BY,
    METHODS,
    Assign,
    Auto,
    Certified,
    Exact,
    Method,
    Multiround,
    read_method,
)
from hedgerow.clustering.sharding import Shards
from hedgerow.clustering.vectors import Vectors, open_vectors, refuse_zeros, survey_rows
from hedgerow.clustering.workers import Workers, open_workers
from hedgerow.engines import Engine
from hedgerow.errors import InputError, StoreError
from hedgerow.machine import team as use_team
from hedgerow.pool import Ids, Matrix, open_ids
from hedgerow.progress import Progress, watch
from hedgerow.shards import is_wanted, open_folder

AVERAGE_SIZE = 10.0  # as in the paper for large pools: k_m = 10 k_t candidates then cover about k_t clusters
ZEROS = ("refuse", "singletons")
METADATA_KEY = "hedgerow.clusters"


@dataclass(frozen=True, eq=False, repr=False)
class Clusters:
    """A cluster for each row of a pool: the cut of an average-linkage tree at `threshold`, or an approximation of it.

    labels: int32 (n,), 0 to n_clusters - 1 in order of first appearance. threshold, metric: where the tree was cut, and
    the distance. method: the name of the method. tree: the merges, unless the method has none or the clusters come from
    a file. centroids: what `assign` needs. row_ids: where the pool's ids are read from; `ids` reads them. join_by: the
    distance of a point to a cluster by which points were assigned, and new points are (see `Assign`).
    """

    labels: npt.NDArray[np.int32]
    threshold: float
    metric: str
    method: str
    tree: Dendrogram | None = None
    centroids: Centroids | None = None
    row_ids: Ids | None = None
    join_by: str = "average"

    def __repr__(self) -> str:
        count = f"{len(self.labels):,} rows in {self.n_clusters:,} clusters of {self.average_size:.4g} on average"
        return f"Clusters({count}, {self.metric} distance up to {self.threshold:.6g}, {self.method})"

    def _repr_html_(self) -> str:
        facts = {
            "rows": f"{len(self.labels):,}" + ("" if self.row_ids is None else ", with ids"),
            "clusters": f"{self.n_clusters:,}",
            "average size": f"{self.average_size:.4g}",
            "largest": f"{self.sizes.max(initial=0):,}",
            "threshold": f"{self.threshold:.6g} ({self.metric})",
            "method": self.method,
        }
        return make_html("Clusters", facts)

    @cached_property
    def ids(self) -> npt.NDArray[Any] | None:
        """The id of each row (n,), int64 or strings (dtype object); None if the pool has no ids.

        They are read on first use, so that clusters of ten million rows do not hold ten million strings until then.
        """
        return None if self.row_ids is None else self.row_ids.array()

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The number of rows of each cluster, (n_clusters,)."""
        return np.bincount(self.labels)

    @property
    def n_clusters(self) -> int:
        """The number of clusters."""
        return len(self.sizes)

    @property
    def average_size(self) -> float:
        """Rows per cluster: at least the average size that was asked for."""
        return len(self.labels) / self.n_clusters if self.n_clusters else 0.0

    def settings(self) -> dict[str, Any]:
        """The sizes and settings of these clusters, in plain types, as `save` keeps them."""
        return {
            "n": len(self.labels),
            "n_clusters": self.n_clusters,
            "average_size": self.average_size,
            "threshold": self.threshold,
            "metric": self.metric,
            "method": self.method,
            "join_by": self.join_by,
        }

    def assign(
        self,
        embeddings: Any,
        *,
        threads: int | None = None,
        engine: str | Engine | None = None,
        workdir: str | Path | None = None,
    ) -> npt.NDArray[np.int32]:
        """Labels (m,) of new points (m, d): the nearest cluster if it is within `threshold`.

        The distance to a cluster is the mean distance to its members, or with `join_by` "centroid" the distance to its
        centroid. The clusters do not change, and a point within `threshold` of a cluster gets the same label in
        whatever batch it comes. A point that is farther from all of them is a cluster of its own, numbered from
        `n_clusters` on in row order. These numbers start again with every call, so they mean nothing beyond it.

        engine: where to assign the points of files, in ranges of rows: "processes:N", "dask://host:port" (see
        `hedgerow.engines`), or an engine that is open; labels do not depend on it. workdir: a folder for finished
        ranges, which a run that was interrupted continues from; workers on other machines must share it.
        """
        return self.find_nearest(embeddings, threads=threads, engine=engine, workdir=workdir).labels

    def find_nearest(
        self,
        embeddings: Any,
        *,
        threads: int | None = None,
        engine: str | Engine | None = None,
        workdir: str | Path | None = None,
        progress: Progress | bool | None = None,
    ) -> Assignment:
        """As `assign`, with the distances to the nearest clusters and the ids of the new points.

        The result has `labels` and `distances` (m,), `joined` (a bool mask of the points within `threshold`), `ids`
        (None if the new points have none), and `columns()`, all of them as the columns of a file.
        """
        if self.centroids is None:
            raise InputError(
                "these clusters have no centroids to assign points to: make them with cluster(..., centroids=True) and "
                "save(..., centroids=True), or with hedgerow cluster --centroids (not for the euclidean metric), and "
                "keep the second file, .centroids.npz, next to the first"
            )
        if threads is not None:
            checks.integer(threads, "threads", least=1)
        matrix = pool.open_matrix(embeddings, "embeddings")
        width = self.centroids.means.shape[1]
        if matrix.width != width:
            raise InputError(f"embeddings has {matrix.width} columns, but these clusters were made from {width}")
        if matrix.ids is not None:
            matrix.ids.refuse_duplicates()
        centroids = self.centroids.join_by(self.join_by, self.metric)
        with watch(progress) as report:
            if is_wanted(engine, workdir) and matrix.n and len(centroids):
                nearest, distances = assignment.find_nearest_on(
                    engine, workdir, matrix, self.metric, centroids, threads, report
                )
            else:
                nearest, distances = self._search(matrix.array(), centroids, threads, report)
        near = centroids.hold(nearest, distances, self.threshold, self.metric)
        labels = assignment.number_points(nearest, near, self.n_clusters)
        return Assignment(labels.astype(np.int32), distances, self.n_clusters, matrix.ids)

    def _search(
        self, raw: npt.NDArray[Any], centroids: Centroids, threads: int | None, report: Progress
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """The nearest centroids of all points, in this process."""
        with use_team(threads) as team:
            vectors = open_vectors(raw, self.metric, np.float32, team)
            vectors = replace(vectors, center=centroids.center, factor=centroids.factor)
            return assignment.find_nearest(vectors, centroids, team, np.arange(len(raw)), progress=report)

    def save(
        self,
        path: str | Path,
        *,
        ids: Any = None,
        centroids: bool = False,
        force: bool = False,
    ) -> None:
        """Write Parquet with the columns `id` (if there are ids) and `cluster`, in the order of the pool.

        ids: written in place of the clusters' own; distinct integers or strings, one per row. The tree is not saved.
        centroids: also write the centroids, n_clusters x d float64, to a second file: `clusters.centroids.npz` for
        `clusters.parquet`. Clusters loaded from both files can `assign`. force: replace files that exist.
        """
        pool.check_target(path, force=force)
        columns = self._make_columns(ids)
        settings = self.settings()
        if centroids:
            settings["centroids"] = self._save_centroids(name_beside(path), force)
        pool.write_table(path, columns, {METADATA_KEY: json.dumps(settings)}, force=force)

    def _make_columns(self, ids: Any) -> dict[str, npt.NDArray[Any]]:
        """The columns to write, checked before anything is written."""
        if ids is None:
            found = None if self.row_ids is None else self.row_ids.array()
            return {"cluster": self.labels} if found is None else {"id": found, "cluster": self.labels}
        columns = {"id": read_ids(ids, len(self.labels)).array(), "cluster": self.labels}
        pool.make_table(columns)
        return columns

    def _save_centroids(self, path: Path, force: bool) -> str:
        """Write the centroids; returns the mark that both files carry, so that a mixed-up pair is found."""
        if self.centroids is None:
            raise InputError("these clusters have no centroids to save")
        mark = hashlib.sha256(json.dumps(self.settings()).encode() + self.labels.tobytes()).hexdigest()
        with store.atomic_write(path, force=force) as temporary:
            np.savez(temporary, mark=mark, **vars(self.centroids))
        return mark

    @classmethod
    def load(cls, path: str | Path) -> "Clusters":
        """Read what `save` wrote: labels, ids if there are any, and the centroids if their file is beside it."""
        stored = pool.read_metadata(path).get(METADATA_KEY)
        if stored is None:
            raise InputError(f"{path} was not written by Clusters.save or `hedgerow cluster`: it lacks their metadata")
        try:
            settings = json.loads(stored)
            n, threshold, mark = int(settings["n"]), float(settings["threshold"]), settings.get("centroids")
            metric, method = str(settings["metric"]), str(settings["method"])
            join_by = checks.option(settings.get("join_by", "average"), "join_by", JOIN_BY)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(f"{path} has damaged metadata ({error}): save the clusters again") from error
        labels = pool.as_vector(path, "clusters", column="cluster")
        checks.same_length({f"{path}": len(labels), "its metadata": n})
        beside = name_beside(path)
        return cls(
            checks.cluster_labels(labels, len(labels)),
            threshold,
            metric,
            method,
            centroids=load_centroids(beside, mark) if mark is not None and beside.exists() else None,
            row_ids=open_ids(path),
            join_by=join_by,
        )


def read_ids(given: Any, n: int) -> Ids:
    """The ids that a caller gave for n rows: an array, a sequence or a column; distinct integers or strings."""
    if isinstance(given, Sequence) and not isinstance(given, str):
        # As objects, strings stay apart from numbers, which numpy would turn into strings.
        given = np.asarray(given, np.object_ if any(isinstance(value, str) for value in given) else None)
    ids = Ids.of(pool.as_vector(given, "ids"), "ids")
    checks.same_length({"ids": ids.n, "the pool": n})
    return ids


def name_beside(path: str | Path) -> Path:
    """The file for the centroids of the clusters in `path`."""
    return Path(path).with_suffix(".centroids.npz")


def load_centroids(path: Path, mark: str) -> Centroids:
    """Read the centroids of the clusters with this mark."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            found = str(held["mark"])
            parts = {part.name: held[part.name] for part in fields(Centroids)}
            centroids = Centroids(**{**parts, "factor": float(parts["factor"])})
    except store.UNREADABLE as error:
        raise StoreError(f"{path} cannot be read: {error}; save the clusters again") from error
    if found != mark:
        raise StoreError(f"{path} belongs to other clusters than the Parquet file next to it: save the clusters again")
    return centroids


def cluster(
    embeddings: Any,
    *,
    average_size: float | None = None,
    threshold: float | None = None,
    metric: str = "cosine",
    method: str | Method = "auto",
    neighbors: int | None = None,
    slack: float | None = None,
    shard_rows: int | None = None,
    subset: Any = None,
    rounds: int | None = None,
    join_by: str | None = None,
    zeros: str = "refuse",
    centroids: bool = True,
    ids: Any = None,
    seed: int = 0,
    threads: int | None = None,
    engine: str | Engine | None = None,
    workdir: str | Path | None = None,
    progress: Progress | bool | None = None,
) -> Clusters:
    """Average-linkage clusters of a pool (Algorithm 1 of the paper), made once for all rounds.

    embeddings: (n, d) array, memmap, path or Arrow data. ids: one per row, distinct integers or strings; by default
    those of the embeddings' id column, if they have one. They are kept (`Clusters.ids`) and saved with the clusters.
    threshold: merge everything up to this distance. average_size (>= 1): use the smallest threshold whose clusters have
    at least this average size. If neither is given: 10, or the size of a smaller pool.
    method: a record or its name, `Exact()`, `Certified()`, or "auto": exact up to 20,000 points, else certified. The
    paper's two accelerations, `Multiround()` and `Assign()`, are farther from true average linkage than certified
    (docs/scaling.md has how far). With a name, the options of the method are keyword arguments: neighbors (15),
    slack (1.1), shard_rows (None: no shards), subset (0.1), join_by ("average"), rounds (3).
    zeros (cosine): rows of zeros have no direction; "refuse" them, or make each a cluster of its own ("singletons").
    centroids: keep what `Clusters.assign` needs for new points, n_clusters x d float64.
    engine: where to search for neighbors, most of the work of certified and multiround: "processes:N",
    "dask://host:port" (see `hedgerow.engines`), or an engine that is open. With shard_rows workers merge, too. Clusters
    do not depend on the engine.
    workdir (exact, certified; with an engine every method): a folder for finished phases; an interrupted run
    continues from there, on any engine. Workers on other machines must share it. progress: True shows a progress bar;
    or a callable progress(phase, share).
    """
    checks.option(metric, "metric", hac.METRICS)
    checks.option(zeros, "zeros", ZEROS)
    checks.flag(centroids, "centroids")
    seed = checks.seed(seed)
    if threads is not None:
        checks.integer(threads, "threads", least=1)
    cut = hac.read_cut(threshold, average_size)
    options = {"neighbors": neighbors, "slack": slack, "shard_rows": shard_rows, "subset": subset, "rounds": rounds,
               "join_by": join_by}  # fmt: skip
    chosen = read_method(method, METHODS, options)
    refuse_mismatch(chosen, metric, workdir, engine)
    matrix = pool.open_matrix(embeddings, "embeddings")
    if isinstance(chosen, Auto):
        chosen = chosen.resolve(matrix.n, metric)
    if cut == hac.Cut():
        cut = hac.Cut(average_size=min(AVERAGE_SIZE, max(1, matrix.n)))
    cut.most_clusters(matrix.n)  # refuses an average size that cannot be reached
    row_ids = matrix.ids if ids is None else read_ids(ids, matrix.n)
    if ids is None and row_ids is not None:
        row_ids.refuse_duplicates()
    with use_team(threads) as team, watch(progress) as report, open_folder(engine, workdir) as (opened, folder):
        if metric == "euclidean":
            made = cut_quadratic(matrix.array(), chosen, cut)
        else:
            job = hac.Job(cut, seed, team, report, workdir)
            site = Site(opened, folder, matrix, threads)
            made = cluster_points(site, metric, chosen, job, zeros, centroids)
    return replace(made, row_ids=row_ids)


def refuse_mismatch(method: Method, metric: str, workdir: Any, engine: Any) -> None:
    """Refuse a method, a metric, a workdir and an engine that do not go together."""
    accelerated = isinstance(method, (Multiround, Assign))
    if accelerated and metric == "euclidean":
        raise InputError(f'method={method.name!r} goes with "cosine" and "sqeuclidean", not with "euclidean"')
    resumable = not accelerated or engine is not None
    if workdir is not None and (not resumable or metric == "euclidean"):
        raise InputError(
            'workdir goes with the methods "exact" and "certified", with an engine also with "multiround" and '
            '"assign", and not with metric="euclidean"'
        )


@dataclass(frozen=True)
class Site:
    """Where a pool is clustered: the engine, the folder of the run, the pool's files, and the threads of a task."""

    engine: Engine
    folder: Path
    matrix: Matrix
    threads: int | None

    def open_workers(self, vectors: Vectors, is_whole: bool) -> Workers | None:
        """The workers for these vectors; None if this process is the only one. is_whole: they are the pool's rows."""
        if self.engine.name == "serial":
            return None
        matrix = self.matrix if is_whole and self.matrix.list_files() else None
        return open_workers(self.engine, self.folder, matrix, vectors, self.threads)

    def open_shards(self, vectors: Vectors, method: Method, zero_rows: npt.NDArray[np.int64]) -> Shards | None:
        """Shards of the pool without its rows of zeros, if the method has them and the pool is larger than one."""
        rows = getattr(method, "shard_rows", None)
        if rows is None or len(vectors) - len(zero_rows) <= rows:
            return None
        if not self.matrix.list_files():
            raise InputError(
                "shard_rows reads the pool from files: pass the path of .npy or Parquet files, not what is in memory"
            )
        workers = open_workers(self.engine, self.folder, self.matrix, vectors, self.threads)
        return Shards(workers, rows, self.folder / "shards", zero_rows)


def cluster_points(site: Site, metric: str, method: Method, job: hac.Job, zeros: str, centroids: bool) -> Clusters:
    """The clusters of a pool, for the metrics that have centroids. The points are checked here, in one pass."""
    is_large = site.matrix.n > (getattr(method, "shard_rows", None) or site.matrix.n)
    vectors, zero_rows = survey_rows(site.matrix.view() if is_large else site.matrix.array(), metric, job.team)
    if len(zero_rows) and zeros == "refuse":
        refuse_zeros(zero_rows)
    shards = site.open_shards(vectors, method, zero_rows)
    job = replace(job, workers=site.open_workers(vectors, not len(zero_rows)), shards=shards)
    leave_room(job.cut, len(vectors), len(zero_rows))
    is_apart = len(zero_rows) and shards is None
    made = cut_nonzero(vectors, zero_rows, method, job) if is_apart else cut_pool(vectors, method, job)
    if not centroids:
        return made
    if shards is None:
        found = assignment.gather_centroids(vectors, made.labels, job.team)
    else:
        found = assignment.gather_on_shards(vectors, made.labels, shards)
    found.spread[made.labels[zero_rows]] = np.inf  # no point is near to a cluster without a direction
    return replace(made, centroids=found)


def cut_pool(vectors: Vectors, method: Method, job: hac.Job) -> Clusters:
    """The clusters of all points, by the method that was chosen."""
    threshold, average_size = job.cut.threshold, job.cut.average_size
    if isinstance(method, Assign):
        labels, limit = assignment.cluster_subset(vectors, method, job)
        return Clusters(labels, limit, vectors.metric, method.name, join_by=method.join_by)
    if isinstance(method, Exact):
        # A complete tree costs little more than a part of it, and can be cut anywhere.
        whole = job if average_size is None else replace(job, cut=hac.Cut())
        tree = hac.grow_tree(vectors, method, whole)
        limit = hac.find_cut(tree, average_size, vectors) if threshold is None else threshold
    else:
        if isinstance(method, Multiround):
            tree = multiround.grow_in_rounds(vectors, method, job)
        else:
            assert isinstance(method, Certified)
            tree = hac.grow_tree(vectors, method, job)
        # For an average size the tree ends at its cut: merges beyond it were not verified.
        limit = float(tree.heights.max(initial=0.0)) if threshold is None else threshold
    return Clusters(tree.cut(threshold=limit), limit, vectors.metric, method.name, tree)


def cut_quadratic(raw: npt.NDArray[Any], method: Method, cut: hac.Cut) -> Clusters:
    """The clusters for Euclidean distance, from a complete tree. They have no centroids: the average distance of a
    point to a cluster does not follow from the cluster's mean."""
    tree = hac.grow_quadratic(raw, cut.threshold)
    limit = hac.find_cut(tree, cut.average_size) if cut.threshold is None else cut.threshold
    return Clusters(tree.cut(threshold=limit), limit, "euclidean", method.name, tree)


def cut_nonzero(vectors: Vectors, zero_rows: npt.NDArray[np.int64], method: Method, job: hac.Job) -> Clusters:
    """The clusters of all points except `zero_rows`, each of which is a cluster of its own. Copies the other points."""
    n = len(vectors)
    kept = np.delete(np.arange(n), zero_rows)
    job = replace(job, cut=leave_room(job.cut, n, len(zero_rows)))
    if isinstance(method, Assign) and np.ndim(method.subset):
        chosen = np.zeros(n, np.bool_)
        chosen[assignment.choose_rows(method.subset, n, job.seed)] = True
        method = replace(method, subset=chosen[kept])
    made = cut_pool(replace(vectors, raw=vectors.raw[kept]), method, job)
    labels = np.empty(n, np.int64)
    labels[kept] = made.labels
    labels[zero_rows] = made.n_clusters + np.arange(len(zero_rows))
    return replace(made, labels=assignment.number_clusters(labels), tree=add_points(made.tree, kept, n))


def leave_room(cut: hac.Cut, n: int, zeros: int) -> hac.Cut:
    """The cut of the other points, if `zeros` of n points are a cluster each."""
    most = cut.most_clusters(n)
    if most is None:
        return cut
    rest, remaining = n - zeros, most - zeros
    if remaining < min(1, rest):
        raise InputError(
            f"an average size of {cut.average_size:g} cannot be reached: {zeros:,} of {n:,} rows are all zero and a "
            "cluster each; ask for a smaller average_size, or give a threshold"
        )
    return hac.Cut(average_size=max(1.0, rest / max(1, remaining)))


def add_points(tree: Dendrogram | None, kept: npt.NDArray[np.int64], n: int) -> Dendrogram | None:
    """The tree of the points `kept` as a tree of n points, of which the others never merge."""
    if tree is None:
        return None
    points = kept[np.minimum(tree.merges, len(kept) - 1)]
    return Dendrogram(n, np.where(tree.merges < tree.n, points, tree.merges + n - tree.n), tree.heights)
