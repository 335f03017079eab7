"""Clusters from a part of the pool, the second acceleration of the paper's appendix ("Cluster assignment").

Average linkage clusters a subset P; every other point goes to its nearest centroid if that is within epsilon_c, else it
is a cluster of its own. New points of a pool that grows are assigned by the same rule.

The distance of a point to a centroid is its average linkage to the cluster: the mean distance to the cluster's members,
which is the distance to their mean plus their spread around it. So epsilon_c is in the unit of a linkage threshold, and
a point joins a cluster when average linkage would merge the two. For an average size, epsilon_c is the smallest that
reaches it, over the cuts of P as well, as far as a sample of the other points tells.

Up to `FEW` centroids the search is exact; more are sorted into cells, and a point meets those of `PROBES` cells.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import cells, checks, hac
from hedgerow.dendrogram import Dendrogram
from hedgerow.errors import InputError
from hedgerow.growth import ROUNDING, Progress
from hedgerow.kernels import centroids as kernels
from hedgerow.threads import Team
from hedgerow.threads import team as use_team
from hedgerow.vectors import BLOCK, Vectors, average_groups, open_vectors

SUBSET = 0.1  # of the pool, if nothing else is asked for
FEW = 8_192  # centroids that every point is compared with
PROBES = 8  # cells whose centroids a point meets; docs/scaling.md has what that misses
COLUMNS = 2_048  # centroids a product takes
SAMPLE = 4_096  # points that tell where to cut the subset: enough for a share of a tenth to 5%
CUTS = 10  # cuts of the subset that are tried

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Centroids:
    """What assigning a point takes: the means of clusters (m, d) float32, and half of their mean squared norms (m,).

    Rows are as the metric sees them: unit vectors before the mean for cosine, `center` (d,) taken off for sqeuclidean.
    A half that is infinite keeps a cluster from being anybody's nearest.
    """

    means: npt.NDArray[np.float32]
    half: npt.NDArray[np.float32]
    center: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.means)


def cluster_subset(
    raw: npt.NDArray[Any],
    subset: Any,
    *,
    metric: str,
    average_size: float | None,
    threshold: float | None,
    neighbors: int,
    slack: float,
    seed: int,
    threads: int | None,
    progress: Progress,
) -> tuple[npt.NDArray[np.int32], float]:
    """Labels (n,) and epsilon_c: the subset by certified linkage, the others by assignment.

    A threshold is epsilon of the linkage and epsilon_c at once.
    """
    rows = choose_rows(subset, len(raw), checks.seed(seed))
    rest = np.setdiff1d(np.arange(len(raw)), rows, assume_unique=True)
    with use_team(threads) as team:
        vectors = open_vectors(raw, metric, np.float32, team)  # what cannot be used is found before the work
    size = None if average_size is None else min(average_size, max(1, len(rows)))
    tree = hac.linkage(
        raw[rows], metric=metric, method="certified", threshold=threshold, average_size=size, neighbors=neighbors,
        slack=slack, seed=seed, threads=threads, progress=progress,
    )  # fmt: skip
    most = None if average_size is None else hac.most_clusters(len(raw), average_size)
    with use_team(threads) as team:
        cut = cut_subset(tree, vectors, rows, rest, most, seed, team) if most is not None else float(threshold or 0)
        labels = tree.cut(threshold=cut)
        centroids = gather_centroids(vectors, labels, team, rows)
        nearest, distance = find_nearest(vectors, centroids, team, rest, progress=progress)
    limit = find_reach(distance, most - len(centroids)) if most is not None and len(rest) else cut
    out = np.empty(len(raw), np.int64)
    out[rows] = labels
    out[rest] = number_points(nearest, distance <= limit, len(centroids))
    return number_clusters(out), limit


def number_points(nearest: npt.NDArray[np.int64], near: npt.NDArray[np.bool_], count: int) -> npt.NDArray[np.int64]:
    """The nearest cluster of the points that are near to it; the others get numbers of their own from `count` on."""
    return np.where(near, nearest, count + np.cumsum(~near) - 1)


def number_clusters(labels: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Labels in the order of first appearance."""
    _, first, place = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return rank[place]


def cut_subset(tree: Dendrogram, vectors: Vectors, rows: Rows, rest: Rows, most: int, seed: int, team: Team) -> float:
    """Where to cut the tree of the subset: where epsilon_c for at most `most` clusters in all is the smallest.

    Few clusters of the subset leave room for many lone points, but lie far from most; many leave no room. Tried on a
    sample of the other points, for numbers of clusters between the least that the tree has and the most allowed.
    """
    asked = np.sort(np.random.default_rng(seed).choice(rest, min(SAMPLE, len(rest)), replace=False))
    least = max(1, tree.n - len(tree.heights))
    counts = np.unique(np.rint(np.geomspace(least, max(least, min(most, tree.n)), CUTS)).astype(int))[::-1]
    cuts = [tree.threshold_for(n_clusters=int(count)) for count in counts]
    if not len(rest):
        return cuts[0]
    reaches = []
    for cut in cuts:
        centroids = gather_centroids(vectors, tree.cut(threshold=cut), team, rows)
        _, distance = find_nearest(vectors, centroids, team, asked)
        reaches.append(find_reach(distance, int((most - len(centroids)) * len(asked) / len(rest))))
    return cuts[int(np.argmin(reaches))]


def find_reach(distance: npt.NDArray[np.float64], allowed: int) -> float:
    """The smallest epsilon_c that leaves at most `allowed` points to themselves."""
    assert allowed >= 0, "the subset alone has more clusters than the average size allows"
    if allowed >= len(distance):
        return 0.0
    return float(np.partition(distance, len(distance) - allowed - 1)[len(distance) - allowed - 1])


def choose_rows(subset: Any, n: int, seed: int) -> Rows:
    """The subset as ascending rows: given as rows, a bool mask, a fraction of the pool, or None for a tenth."""
    if subset is None or (np.ndim(subset) == 0 and not isinstance(subset, (bool, np.bool_))):
        share = SUBSET if subset is None else checks.real(subset, "subset", above=0)
        if share > 1:
            raise InputError(f"subset must be a fraction of at most 1, a mask or a list of rows, got {share:g}")
        count = min(n, max(1, round(share * n)))
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
    """The centroids of clusters 0..max from the labels of all points, or of `rows`."""
    means, half, _ = average_groups(vectors, labels, team, rows)
    return Centroids(means.astype(np.float32), half.astype(np.float32), vectors.center)


def find_nearest(
    vectors: Vectors, centroids: Centroids, team: Team, rows: Rows, *, progress: Progress = hac.ignore
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The nearest centroid of each of `rows` and its distance, in the unit of the metric. O(rows) memory, and blocks.

    Of equal distances the lower number counts. No centroids: -1 and infinity.
    """
    nearest = np.full(len(rows), -1, np.int32)
    gap = np.full(len(rows), np.inf)
    if not len(centroids):
        return nearest.astype(np.int64), gap
    shelves = shelve(centroids, team) if len(centroids) > FEW else None

    def look(start: int) -> None:
        block = vectors.take(rows[start : start + BLOCK])
        best = nearest[start : start + BLOCK]
        value = np.full(len(block), -np.inf, np.float32)
        if shelves is None:
            compare_all(block, centroids, best, value)
        else:
            compare_shelves(block, shelves, best, value)
        own = vectors.half(block).astype(np.float64)
        products = np.einsum("ij,ij->i", block, centroids.means[best], dtype=np.float64)
        norms = own + centroids.half[best]
        gaps = norms - products
        gap[start : start + BLOCK] = np.where(gaps > ROUNDING[np.float32] * norms, gaps, 0)  # copies are copies
        progress("assigning", min(1.0, (start + BLOCK) / len(rows)))

    team.map(look, range(0, len(rows), BLOCK))
    return nearest.astype(np.int64), vectors.scale * gap


def compare_all(
    block: npt.NDArray[Any], centroids: Centroids, best: npt.NDArray[np.int32], value: npt.NDArray[np.float32]
) -> None:
    """Every row of a block with every centroid."""
    numbers = np.arange(len(centroids), dtype=np.int32)
    for i in range(0, len(block), cells.BLOCK):
        members = np.arange(i, min(i + cells.BLOCK, len(block)))
        for j in range(0, len(centroids), COLUMNS):
            columns = slice(j, j + COLUMNS)
            products = block[i : i + cells.BLOCK] @ centroids.means[columns].T
            kernels.keep_best(products, centroids.half[columns], members, numbers[columns], best, value)


@dataclass(frozen=True)
class Shelves:
    """Centroids sorted by cell: cell c holds centroids starts[c]:starts[c + 1]."""

    centers: npt.NDArray[np.float32]
    starts: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int32]  # what a centroid was called before
    means: npt.NDArray[np.float32]
    half: npt.NDArray[np.float32]


def shelve(centroids: Centroids, team: Team) -> Shelves:
    """Sorts centroids into cells, about twice the square root of their number: looking for cells then costs as much
    as looking into them."""
    count = int(2 * np.sqrt(len(centroids)))
    rng = np.random.default_rng(len(centroids))
    sample = np.sort(rng.choice(len(centroids), min(len(centroids), cells.SAMPLE * count), replace=False))
    centers = cells.train_centers(centroids.means[sample], count, rng, team)
    parts = team.ranges(lambda lo, hi: cells.nearest_centers(centroids.means[lo:hi], centers.fine), len(centroids))
    cell = np.concatenate(parts)
    order = np.argsort(cell, kind="stable")
    starts = np.searchsorted(cell[order], np.arange(len(centers.fine) + 1))
    return Shelves(centers.fine, starts, order.astype(np.int32), centroids.means[order], centroids.half[order])


def compare_shelves(
    block: npt.NDArray[Any], shelves: Shelves, best: npt.NDArray[np.int32], value: npt.NDArray[np.float32]
) -> None:
    """Every row of a block with the centroids of the cells nearest to it."""
    half = cells.half_norms(shelves.centers)
    half[np.diff(shelves.starts) == 0] = np.inf
    probes = min(PROBES, int(np.isfinite(half).sum()))
    chosen = np.empty((len(block), probes), np.int64)
    for i in range(0, len(block), cells.BLOCK):
        gaps = half - block[i : i + cells.BLOCK] @ shelves.centers.T
        chosen[i : i + cells.BLOCK] = np.argpartition(gaps, probes - 1, axis=1)[:, :probes]
    order = np.argsort(chosen, axis=None, kind="stable")
    edges = np.searchsorted(chosen.ravel()[order], np.arange(len(shelves.centers) + 1))
    for c in np.flatnonzero(np.diff(edges)):
        members = order[edges[c] : edges[c + 1]] // probes
        inside = slice(shelves.starts[c], shelves.starts[c + 1])
        products = block[members] @ shelves.means[inside].T
        kernels.keep_best(products, shelves.half[inside], members, shelves.numbers[inside], best, value)
