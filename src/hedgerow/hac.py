"""Average-linkage hierarchical clustering (Algorithm 1 of the paper) without a distance matrix.

The average linkage of two clusters has a closed form in their means, sizes and mean squared norms
(`kernels/merging.py`), so a neighbor list is only a list of candidates. A round
1. finds the k nearest clusters of every cluster; a cluster outside of A's list is at least A's radius away (the gap to
   its k-th neighbor), and at least the size-weighted mean of the radii when A has merged;
2. merges, over and over, the pairs that are each other's nearest and closer than both radii: no unseen cluster can be
   closer, so each is a merge of true average linkage (which is reducible: the order of such merges does not matter);
3. sets aside the clusters whose nearest lies beyond the threshold, and starts again with the rest.
With exact neighbors the tree is the one of the textbook algorithm, up to the order of equal heights.

`euclidean` has no closed form and takes the quadratic way through scipy. Choosing a cut for a pool is `clusters.py`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hedgerow import checks, pool
from hedgerow.dendrogram import Dendrogram, Log, build_tree, join_logs
from hedgerow.errors import InputError
from hedgerow.merges import Limits, Living, merge_round
from hedgerow.neighbors import find_neighbors
from hedgerow.threads import Team
from hedgerow.threads import team as use_team

METRICS = ("cosine", "sqeuclidean", "euclidean")
METHODS = ("exact",)
MOST_QUADRATIC = 20_000  # scipy holds n^2 / 2 float64 distances twice: 3 GiB at this size
ROUNDING = 1e-12  # of a gap, relative to the half norms: float64 products of a few thousand terms

Floats: TypeAlias = npt.NDArray[Any]
Progress: TypeAlias = Callable[[str, float], None]


def linkage(
    embeddings: Any,
    *,
    metric: str = "cosine",
    method: str = "exact",
    threshold: float | None = None,
    neighbors: int = 15,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Dendrogram:
    """The average-linkage tree of a pool: complete, or all merges of height <= threshold.

    embeddings: (n, d) array, memmap, path or Arrow data. metric: "cosine" (1 - cosine similarity), "sqeuclidean", or
    "euclidean" (quadratic memory, at most 20,000 points). Time O(n^2 d), memory O(n (d + neighbors)).
    """
    checks.option(metric, "metric", METRICS)
    checks.option(method, "method", METHODS)
    limit = np.inf if threshold is None else checks.real(threshold, "threshold", least=0)
    k = checks.integer(neighbors, "neighbors", least=1)
    if threads is not None:
        checks.integer(threads, "threads", least=1)
    points = pool.as_matrix(embeddings, "embeddings")
    checks.finite(points, "embeddings")
    if metric == "euclidean":
        return grow_quadratic(points, limit)
    living, twins = prepare(points, metric)
    scale = 1.0 if metric == "cosine" else 2.0  # a gap is the cosine distance, or half of the squared distance
    limits = Limits(limit / scale, 1.0, ROUNDING * float(living.half.max(initial=0.0)))
    with use_team(threads) as team:
        log = join_logs([twins, grow(living, limits, k, team, progress)])
    return build_tree(len(points), replace(log, heights=scale * log.heights))


def prepare(points: Floats, metric: str) -> tuple[Living, Log]:
    """Distinct points as clusters of their copies, in float64, and the merges at height 0 that made them."""
    rows = np.asarray(points, np.float64)
    if metric == "cosine":
        rows = normalize(rows)
    elif len(rows):
        rows = rows - rows.mean(axis=0)  # distances do not change, rounding errors shrink
    first, copy_of = np.unique(rows, axis=0, return_index=True, return_inverse=True)[1:]
    representative = first[copy_of.reshape(-1)]  # (n,) the lowest row with the same values
    point = np.sort(first).astype(np.int64)
    size = np.bincount(representative, minlength=len(rows))[point]
    copies = np.flatnonzero(representative != np.arange(len(rows)))
    means = np.ascontiguousarray(rows[point])
    half = np.full(len(point), 0.5) if metric == "cosine" else np.einsum("ij,ij->i", means, means) / 2
    twins = Log(representative[copies].astype(np.int64), copies.astype(np.int64), np.zeros(len(copies)))
    return Living(point, means, half, size), twins


def normalize(rows: Floats) -> Floats:
    """Rows of length 1. A row of zeros has no direction and is refused."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    if not largest.all():
        zero = np.flatnonzero(largest == 0)
        told = ", ".join(str(row) for row in zero[:5]) + (", ..." if len(zero) > 5 else "")
        raise InputError(
            f"{len(zero):,} rows of embeddings are all zero and have no cosine distance (rows {told}): "
            'drop them, or use metric="sqeuclidean"'
        )
    scaled = rows / largest[:, None]  # first by the largest entry: squares of tiny or huge entries stay finite
    return np.asarray(scaled / np.linalg.norm(scaled, axis=1, keepdims=True))


def grow(living: Living, limits: Limits, neighbors: int, team: Team, progress: Progress | None) -> Log:
    """Rounds of neighbor search and certified merges, until no two clusters are within the threshold."""
    logs: list[Log] = []
    begun = len(living)
    k = neighbors
    while len(living) > 1:
        found = find_neighbors(living.means, living.half, k, team)
        living, log = merge_round(living, found, limits, team)
        logs.append(log)
        k = neighbors if len(log) else 2 * k  # no merge: more ties than neighbors, so the lists must grow
        if progress is not None:
            progress("linkage", 1 - len(living) / begun)
    return join_logs(logs)


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
