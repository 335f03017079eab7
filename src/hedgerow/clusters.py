"""Clusters of a pool: made once, kept in a file, used every round (the clustering step of the paper, section 2).

`cluster` chooses the method and the cut; `Clusters` is what every round needs of it: a label for each row.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks, hac, pool
from hedgerow.dendrogram import Dendrogram
from hedgerow.errors import InputError
from hedgerow.growth import Progress

AVERAGE_SIZE = 10.0  # the paper's choice for large pools: k_m = 10 k_t candidates then cover about k_t clusters
EXACT_UP_TO = 20_000  # points for which comparing all pairs takes a few seconds
METADATA_KEY = "hedgerow.clusters"


@dataclass(frozen=True)
class Clusters:
    """A cluster for each row of a pool: the cut of an average-linkage tree at `threshold`."""

    labels: npt.NDArray[np.int32]  # (n,), 0 .. n_clusters - 1 in order of first appearance
    threshold: float
    metric: str
    method: str
    tree: Dendrogram | None = None

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

    def save(self, path: str | Path, *, ids: npt.NDArray[Any] | None = None, force: bool = False) -> None:
        """Writes Parquet: column `cluster` in the order of the pool, `id` before it if given. The tree is not kept."""
        columns: dict[str, npt.NDArray[Any]] = {} if ids is None else {"id": ids}
        if ids is not None:
            checks.same_length({"ids": len(ids), "clusters": len(self.labels)})
        columns["cluster"] = self.labels
        pool.write_table(path, columns, {METADATA_KEY: json.dumps(self.settings())}, force=force)

    @classmethod
    def load(cls, path: str | Path) -> "Clusters":
        """Reads what `save` wrote."""
        stored = pool.read_metadata(path).get(METADATA_KEY)
        if stored is None:
            raise InputError(f"{path} was not written by Clusters.save or `hedgerow cluster`: it lacks their metadata")
        settings = json.loads(stored)
        labels = pool.as_vector(path, "clusters", column="cluster")
        checks.same_length({f"{path}": len(labels), "its metadata": settings["n"]})
        return cls(
            checks.cluster_labels(labels, len(labels)), settings["threshold"], settings["metric"], settings["method"]
        )


def cluster(
    embeddings: Any,
    *,
    average_size: float | None = None,
    threshold: float | None = None,
    metric: str = "cosine",
    method: str = "auto",
    neighbors: int = 15,
    slack: float = 1.1,
    seed: int = 0,
    threads: int | None = None,
    workdir: str | Path | None = None,
    progress: Progress | None = None,
) -> Clusters:
    """Average-linkage clusters of a pool (Algorithm 1 of the paper), cut once for all rounds.

    Give `threshold` (every merge of that distance or less is made) or `average_size` (>= 1): the smallest threshold
    whose clusters have at least that average size. If neither is given: 10, or the size of a smaller pool.
    method: "exact", "certified", or "auto": exact up to 20,000 points. `linkage` tells more of these and of `slack`.
    """
    checks.option(method, "method", ("auto", *hac.METHODS))
    which = checks.exactly_one({"average_size": average_size, "threshold": threshold}, allow_none=True)
    points = pool.as_matrix(embeddings, "embeddings")
    if method == "auto":
        method = "exact" if len(points) <= EXACT_UP_TO or metric == "euclidean" else "certified"
    if which is None:
        average_size = min(AVERAGE_SIZE, max(1, len(points)))
    if average_size is not None:
        hac.most_clusters(len(points), average_size)  # asks whether it can be reached, before the work begins
    grow_further = method == "exact"  # a complete tree costs little more, and can be cut anywhere
    tree = hac.linkage(
        points, metric=metric, method=method, threshold=threshold, average_size=None if grow_further else average_size,
        neighbors=neighbors, slack=slack, seed=seed, threads=threads, workdir=workdir, progress=progress,
    )  # fmt: skip
    if threshold is not None:
        limit = float(threshold)
    elif grow_further:
        limit = tree.threshold_for(average_size=average_size)
    else:
        limit = float(tree.heights.max(initial=0.0))  # as far as it was grown, it was verified
    return Clusters(tree.cut(threshold=limit), limit, metric, method, tree)
