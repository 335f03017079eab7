"""Clusters of a pool: made once, kept in a file, used every round (the clustering step of the paper, section 2).

`cluster` chooses the method and the cut; `Clusters` is what every round needs of it: a label for each row, and for a
pool that grows the centroids by which new points find their cluster.
"""

import hashlib
import json
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks, pool, store
from hedgerow.clustering import assignment, hac, multiround
from hedgerow.clustering.assignment import Centroids
from hedgerow.clustering.dendrogram import Dendrogram
from hedgerow.clustering.growth import Progress
from hedgerow.clustering.vectors import BLOCK, Vectors, open_vectors
from hedgerow.errors import InputError, StoreError
from hedgerow.machine import team as use_team
from hedgerow.pool.ids import Ids, check_id_dtype, open_ids

AVERAGE_SIZE = 10.0  # the paper's choice for large pools: k_m = 10 k_t candidates then cover about k_t clusters
EXACT_UP_TO = 20_000  # points for which comparing all pairs takes a few seconds
METHODS = ("auto", *hac.METHODS, "multiround", "assign")
ZEROS = ("refuse", "singletons")
METADATA_KEY = "hedgerow.clusters"


@dataclass(frozen=True, eq=False)
class Clusters:
    """A cluster for each row of a pool: the cut of an average-linkage tree at `threshold`, or what stands in for it."""

    labels: npt.NDArray[np.int32]  # (n,), 0 .. n_clusters - 1 in order of first appearance
    threshold: float
    metric: str
    method: str
    tree: Dendrogram | None = None
    centroids: Centroids | None = field(default=None, repr=False)
    row_ids: Ids | None = field(default=None, repr=False)  # the pool's ids; read only when they are needed

    @cached_property
    def ids(self) -> npt.NDArray[Any] | None:
        """The id of each row (n,), int64 or strings (dtype object); None if the pool has no ids.

        Read from where the pool keeps them on first use, so that clusters of ten million rows do not hold ten million
        strings.
        """
        return None if self.row_ids is None else self.row_ids.array()

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """How many rows each cluster holds, (n_clusters,)."""
        return np.bincount(self.labels)

    @property
    def n_clusters(self) -> int:
        """How many clusters there are."""
        return len(self.sizes)

    @property
    def average_size(self) -> float:
        """Rows a cluster: at least what was asked for."""
        return len(self.labels) / self.n_clusters if self.n_clusters else 0.0

    def settings(self) -> dict[str, Any]:
        """What a file or a report says of these clusters."""
        return {
            "n": len(self.labels),
            "n_clusters": self.n_clusters,
            "average_size": self.average_size,
            "threshold": self.threshold,
            "metric": self.metric,
            "method": self.method,
        }

    def assign(self, embeddings: Any, *, threads: int | None = None) -> npt.NDArray[np.int32]:
        """Labels (m,) of new points (m, d): the nearest cluster by average distance if within `threshold`.

        The clusters stay as they are, and a point that is within `threshold` of one gets the same label in whatever
        batch it comes. A point that is farther from all is a cluster of its own, numbered from `n_clusters` on in the
        order of rows: every call begins there anew, so such numbers mean nothing beyond their batch.
        """
        if self.centroids is None:
            raise InputError(
                "these clusters have no centroids to assign points to: make them with cluster(..., centroids=True) "
                "(not for the euclidean metric), and save them with save(..., centroids=True), which writes a second "
                "file that must stay beside the first"
            )
        if threads is not None:
            checks.integer(threads, "threads", least=1)
        points = pool.as_matrix(embeddings, "embeddings")
        width = self.centroids.means.shape[1]
        if points.shape[1] != width:
            raise InputError(f"embeddings has {points.shape[1]} columns, but these clusters were made from {width}")
        with use_team(threads) as team:
            vectors = open_vectors(points, self.metric, np.float32, team)
            vectors = replace(vectors, center=self.centroids.center, factor=self.centroids.factor)
            nearest, distance = assignment.find_nearest(vectors, self.centroids, team, np.arange(len(points)))
        return assignment.number_points(nearest, distance <= self.threshold, self.n_clusters).astype(np.int32)

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
        centroids: write them too, n_clusters x d float32, to a file beside: `clusters.centroids.npz` for
        `clusters.parquet`. What is loaded from the two can `assign`.
        """
        pool.check_target(path, force=force)
        columns = self._make_columns(ids)
        told = self.settings()
        if centroids:
            told["centroids"] = self._save_centroids(name_beside(path), force)
        pool.write_table(path, columns, {METADATA_KEY: json.dumps(told)}, force=force)

    def _make_columns(self, ids: Any) -> dict[str, npt.NDArray[Any]]:
        """The columns to write, checked before anything is written."""
        if ids is None:
            found = None if self.row_ids is None else self.row_ids.array()
            return {"cluster": self.labels} if found is None else {"id": found, "cluster": self.labels}
        columns = {"id": np.asarray(ids), "cluster": self.labels}
        pool.make_table(columns)
        check_id_dtype(columns["id"].dtype, "ids")
        checks.distinct(columns["id"], "ids")
        return columns

    def _save_centroids(self, path: Path, force: bool) -> str:
        """Writes the centroids; returns the mark by which the two files know each other."""
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
        )


def name_beside(path: str | Path) -> Path:
    """The file with the centroids of the clusters in `path`."""
    return Path(path).with_suffix(".centroids.npz")


def load_centroids(path: Path, mark: str) -> Centroids:
    """Reads what belongs to the clusters with this mark."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            found = str(held["mark"])
            parts = {part.name: held[part.name] for part in fields(Centroids)}
            centroids = Centroids(**{**parts, "factor": float(parts["factor"])})
    except store.UNREADABLE as error:
        raise StoreError(f"{path} cannot be read: {error}; save the clusters again") from error
    if found != mark:
        raise StoreError(f"{path} belongs to other clusters than the file beside it: save the clusters again")
    return centroids


@dataclass(frozen=True)
class Request:
    """What `cluster` was asked for, checked and complete."""

    metric: str
    method: str
    average_size: float | None
    threshold: float | None
    neighbors: int
    slack: float
    subset: Any
    rounds: int
    seed: int
    threads: int | None
    workdir: str | Path | None
    progress: Progress | None


def cluster(
    embeddings: Any,
    *,
    average_size: float | None = None,
    threshold: float | None = None,
    metric: str = "cosine",
    method: str = "auto",
    neighbors: int = 15,
    slack: float = 1.1,
    subset: Any = None,
    rounds: int | None = None,
    zeros: str = "refuse",
    centroids: bool = True,
    seed: int = 0,
    threads: int | None = None,
    workdir: str | Path | None = None,
    progress: Progress | None = None,
) -> Clusters:
    """Average-linkage clusters of a pool (Algorithm 1 of the paper), cut once for all rounds.

    Give `threshold` (every merge of that distance or less is made) or `average_size` (>= 1): the smallest threshold
    whose clusters have at least that average size. If neither is given: 10, or the size of a smaller pool.
    method: "exact", "certified", or "auto": exact up to 20,000 points. `linkage` tells more of these and of `slack`.
    The paper's two accelerations, both further from the true clusters than "certified" (docs/scaling.md has how far):
    "multiround", linkage on graphs of `neighbors` nearest centroids, in `rounds` rounds (3, and more where the average
    size asks for it); "assign", linkage on a `subset` (rows, a bool mask such as what is labeled, or a fraction of the
    pool in (0, 1], drawn by the seed: 0.1 if not given), every other point to its nearest cluster within the
    threshold, else on its own. zeros (cosine): rows of zeros have no direction; "refuse" them, or keep them as
    "singletons", a cluster each. centroids: keep what `Clusters.assign` needs for new points, n_clusters x d float32.
    """
    checks.option(metric, "metric", hac.METRICS)
    checks.option(zeros, "zeros", ZEROS)
    checks.seed(seed)
    if threads is not None:
        checks.integer(threads, "threads", least=1)
    which = checks.exactly_one({"average_size": average_size, "threshold": threshold}, allow_none=True)
    points = pool.as_matrix(embeddings, "embeddings")
    if which is None:
        average_size = min(AVERAGE_SIZE, max(1, len(points)))
    if average_size is not None:
        hac.most_clusters(len(points), average_size)  # asks whether it can be reached, before the work begins
    method = choose_method(method, metric, len(points), subset, rounds, workdir)
    checks.real(slack, "slack", least=1)
    rounds = multiround.ROUNDS if rounds is None else checks.integer(rounds, "rounds", least=1)
    request = Request(
        metric, method, average_size, threshold, neighbors, slack, subset, rounds, seed, threads, workdir, progress
    )
    lone = find_zeros(points) if zeros == "singletons" and metric == "cosine" else np.zeros(0, np.int64)
    made = cut_around(points, lone, request) if len(lone) else cut_pool(points, request)
    if not centroids or metric == "euclidean":  # whose average over a cluster does not follow from its centroid
        return made
    return replace(made, centroids=make_centroids(points, made, lone, threads))


def choose_method(method: str, metric: str, n: int, subset: Any, rounds: int | None, workdir: Any) -> str:
    """The method, "auto" resolved; refuses what does not go together."""
    checks.option(method, "method", METHODS)
    if method in ("multiround", "assign") and metric == "euclidean":
        raise InputError(f'method={method!r} goes with "cosine" and "sqeuclidean", not with "euclidean"')
    for name, given, home in (("subset", subset, "assign"), ("rounds", rounds, "multiround")):
        if given is not None and method != home:
            raise InputError(f"{name} goes with method={home!r}, not with {method!r}")
    if workdir is not None and (method in ("multiround", "assign") or metric == "euclidean"):
        raise InputError('workdir goes with the methods "exact" and "certified", and not with metric="euclidean"')
    if method == "auto":
        return "exact" if n <= EXACT_UP_TO or metric == "euclidean" else "certified"
    return method


def cut_pool(points: npt.NDArray[Any], request: Request) -> Clusters:
    """The clusters of all points, by the method that was chosen."""
    average_size, threshold, method = request.average_size, request.threshold, request.method
    shared: dict[str, Any] = {
        "metric": request.metric, "threshold": threshold, "neighbors": request.neighbors, "seed": request.seed,
        "threads": request.threads, "progress": request.progress or hac.ignore,
    }  # fmt: skip
    if method == "assign":
        labels, limit = assignment.cluster_subset(
            points, request.subset, average_size=average_size, slack=request.slack, **shared
        )
        return Clusters(labels, limit, request.metric, method)
    grow_further = method == "exact"  # a complete tree costs little more, and can be cut anywhere
    if method == "multiround":
        tree = multiround.grow_in_rounds(points, average_size=average_size, rounds=request.rounds, **shared)
    else:
        size = None if grow_further else average_size
        tree = hac.linkage(
            points, method=method, average_size=size, slack=request.slack, workdir=request.workdir, **shared
        )
    if threshold is not None:
        limit = float(threshold)
    elif grow_further:
        limit = tree.threshold_for(average_size=average_size)
    else:
        limit = float(tree.heights.max(initial=0.0))  # as far as it was grown, it was verified
    return Clusters(tree.cut(threshold=limit), limit, request.metric, method, tree)


def find_zeros(points: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The rows that are all zero. A NaN or an infinity is refused here, while row numbers are those of the pool."""
    checks.finite(points, "embeddings")
    blocks = (points[start : start + BLOCK] for start in range(0, len(points), BLOCK))
    return np.flatnonzero(np.concatenate([np.zeros(0, np.bool_), *(~block.any(axis=1) for block in blocks)]))


def cut_around(points: npt.NDArray[Any], lone: npt.NDArray[np.int64], request: Request) -> Clusters:
    """The clusters of all points but the `lone`, which are a cluster each. Copies the rest of the pool."""
    n = len(points)
    kept = np.delete(np.arange(n), lone)
    if request.average_size is not None:
        spare = hac.most_clusters(n, request.average_size) - len(lone)
        if spare < min(1, len(kept)):
            raise InputError(
                f"an average size of {request.average_size:g} cannot be reached: {len(lone):,} of {n:,} rows are all "
                "zero and a cluster each"
            )
        request = replace(request, average_size=max(1.0, len(kept) / max(1, spare)))
    if request.subset is not None and np.ndim(request.subset):
        chosen = np.zeros(n, np.bool_)
        chosen[assignment.choose_rows(request.subset, n, request.seed)] = True
        request = replace(request, subset=chosen[kept])
    made = cut_pool(points[kept], request)
    labels = np.empty(n, np.int64)
    labels[kept] = made.labels
    labels[lone] = made.n_clusters + np.arange(len(lone))
    tree = made.tree
    if tree is not None:
        merges = np.where(tree.merges < tree.n, kept[np.minimum(tree.merges, len(kept) - 1)], tree.merges + len(lone))
        tree = Dendrogram(n, merges, tree.heights)
    return replace(made, labels=assignment.number_clusters(labels), tree=tree)


def make_centroids(
    points: npt.NDArray[Any], made: Clusters, lone: npt.NDArray[np.int64], threads: int | None
) -> Centroids:
    """The centroids of the clusters; those of the `lone` are nobody's nearest."""
    with use_team(threads) as team:
        if len(lone):
            vectors = Vectors(points, made.metric, np.float32, np.zeros(points.shape[1]))
        else:
            vectors = open_vectors(points, made.metric, np.float32, team)
        centroids = assignment.gather_centroids(vectors, made.labels, team)
    centroids.spread[made.labels[lone]] = np.inf
    return centroids
