"""How many near-copies a batch holds: by the clusters of its picks, by chance, and by distance.

Two picks are near-copies if they are in one cluster and, for pairs, ask about one class. What that says about a batch
depends on what it would be by chance: if the clusters are shuffled over the rows of the pool, k picks are a uniform
draw of k labels without replacement, so the expected counts are sums of hypergeometric probabilities over the sizes of
the clusters. They are computed, not drawn.

With embeddings, two picks are near-copies if they are no farther apart than two rows of one cluster usually are.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import pool
from hedgerow.errors import InputError
from hedgerow.machine import team

Rows = npt.NDArray[np.int64]
Labels = npt.NDArray[np.int32]

SAMPLED = 2_000  # distances of which the median is taken: its standard error is about one percentile
FEW = 100  # clusters: with one distance of each, the standard error of the median is five percentiles
PRODUCTS = 1 << 33  # multiplications per batch: half a second on one core
LEAST_COMPARED = 300  # picks, for a share with a standard error of at most three percentage points
ROWS = 1 << 14  # embeddings at a time in float64
STEP = 1 << 22  # margins at a time
BLOCK = 1 << 22  # distances at a time: 16 MiB
LARGEST = 1e150  # of numbers whose differences are squared and added up in float64
ROUNDING = 1e-6  # of half squared distances in float32, so that copies of a point are near each other


@dataclass(frozen=True)
class Counts:
    """Of some picks: the share that has another pick in its group, and distinct groups per 100 picks."""

    sharing: float
    groups_per_100: float


def count_groups(clusters: Labels, classes: npt.NDArray[Any] | None = None) -> Counts:
    """Counts of picks with these clusters (k,), and for pairs these classes. O(k + clusters), for pairs O(k log k)."""
    if classes is None:
        sizes = np.bincount(clusters)
    else:
        keys = clusters.astype(np.int64) * (int(classes.max()) + 1) + classes
        sizes = np.unique(keys, return_counts=True)[1]
    k = len(clusters)
    lone, groups = np.count_nonzero(sizes == 1), np.count_nonzero(sizes)
    return Counts(float(1 - lone / k), float(100 * groups / k))


def expect_groups(sizes: npt.NDArray[np.int64], picks: npt.NDArray[np.int64]) -> Counts:
    """What `count_groups` is on average if the clusters, of these sizes, are shuffled over the rows of the pool.

    picks: for rows one number, k; for pairs the number of picks of each class. The picks of one class are distinct
    rows, so their clusters are a draw without replacement.
    """
    n, k = int(sizes.sum()), int(picks.sum())
    values, times = np.unique(sizes[sizes > 0], return_counts=True)
    lone = groups = 0.0
    for drawn, classes in zip(*np.unique(picks[picks > 0], return_counts=True), strict=True):
        none = np.exp([_log_missed(n, int(size), int(drawn)) for size in values])
        one = [_draw_one(n, int(size), int(drawn)) for size in values]
        lone += classes * float(times @ one)
        groups += classes * float(times @ (1 - none))
    return Counts(max(0.0, 1 - lone / k), 100 * groups / k)


def _log_missed(n: int, size: int, drawn: int) -> float:
    """The logarithm of the probability that none of `drawn` of n rows is among `size` of them."""
    if size + drawn > n:
        return -math.inf
    first, second = math.lgamma(n - size + 1), math.lgamma(n - drawn + 1)
    return first + second - math.lgamma(n - size - drawn + 1) - math.lgamma(n + 1)


def _draw_one(n: int, size: int, drawn: int) -> float:
    """The probability that exactly one of `drawn` of n rows is among `size` of them: any of these, and no other."""
    return drawn * size / n * math.exp(_log_missed(n - 1, size - 1, drawn - 1))


def measure_agreement(margins: npt.NDArray[np.float32], groups: npt.NDArray[Any]) -> float | None:
    """How alike the margins of one group are: 1 if they are equal, about 0 if groups mean nothing.

    1 minus the variance within groups over the variance of all, both without bias. None if there is nothing to
    compare: no group of two, or equal margins everywhere. O(m + groups) time, 16 bytes per group.
    """
    m, count = len(groups), int(groups.max(initial=-1)) + 1
    sizes, sums = np.zeros(count, np.int64), np.zeros(count)
    parts = [slice(start, start + STEP) for start in range(0, m, STEP)]
    for part in parts:
        sizes += np.bincount(groups[part], minlength=count)
        sums += np.bincount(groups[part], margins[part], count)
    free = m - int(np.count_nonzero(sizes))
    if free == 0:
        return None
    mean, means = sums.sum() / m, sums / np.maximum(sizes, 1)
    within = sum(float(((margins[part] - means[groups[part]]) ** 2).sum()) for part in parts) / free
    total = sum(float(((margins[part] - mean) ** 2).sum()) for part in parts) / (m - 1)
    return 1 - within / total if total > 0 else None


# By distance.


@dataclass(frozen=True, eq=False)
class Near:
    """The embeddings of a pool, and the distance up to which two of its rows count as near-copies."""

    embeddings: pool.Matrix
    metric: str
    distance: float

    def measure(self, rows: Rows, classes: npt.NDArray[Any] | None, rng: np.random.Generator) -> float:
        """The share of picks with another one near; for pairs, one of the same class.

        Each pick is compared with all others, or a random part of `count_compared` picks is.
        """
        count = count_compared(len(rows), self.embeddings.width)
        some = np.sort(rng.choice(len(rows), count, replace=False)) if count < len(rows) else np.arange(len(rows))
        points, limit = prepare(take_embeddings(self.embeddings, rows, self.metric), self.metric, self.distance)
        halves = np.einsum("ij,ij->i", points, points) / 2
        step = max(1, BLOCK // len(rows))

        def find(start: int) -> npt.NDArray[np.bool_]:
            part = some[start : start + step]
            near = halves[part][:, None] + halves - points[part] @ points.T <= limit
            if classes is not None:
                near &= classes[part][:, None] == classes
            near[np.arange(len(part)), part] = False
            return np.asarray(near.any(axis=1))

        with team() as threads:
            return float(np.concatenate(threads.map(find, range(0, count, step))).mean())


def count_compared(k: int, width: int) -> int:
    """How many of k picks are compared with all of them."""
    return min(k, max(LEAST_COMPARED, PRODUCTS // (k * width)))


def measure_cut(
    embeddings: pool.Matrix, metric: str, clusters: Labels, sizes: npt.NDArray[np.int64], rng: np.random.Generator
) -> tuple[float, float] | None:
    """The median distance of two rows of one cluster, and of two rows of the pool; None if all clusters are single.

    Clusters are sampled in proportion to their rows, each at most once; of few clusters, more pairs of rows are taken.
    O(n) time.
    """
    drawn = clusters[rng.integers(0, len(clusters), 4 * SAMPLED)]
    chosen: npt.NDArray[Any] = np.unique(drawn[sizes[drawn] > 1])
    if len(chosen) == 0:
        chosen = np.flatnonzero(sizes > 1)
    if len(chosen) == 0:
        return None
    wanted = np.zeros(len(sizes), np.bool_)
    wanted[rng.permutation(chosen)[:SAMPLED]] = True
    members = np.flatnonzero(wanted[clusters])
    members = members[np.lexsort((rng.random(len(members)), clusters[members]))]  # by cluster, within it at random
    inside = _pair_up(members, clusters[members], 1 if len(chosen) >= FEW else SAMPLED // len(chosen))
    outside = rng.integers(0, len(clusters), 2 * SAMPLED)
    return _find_median(embeddings, inside, metric), _find_median(embeddings, outside, metric)


def measure_usual(embeddings: pool.Matrix, metric: str, rng: np.random.Generator) -> float:
    """The median distance of two rows of the pool, where there are no clusters of two."""
    return _find_median(embeddings, rng.integers(0, embeddings.n, 2 * SAMPLED), metric)


def _pair_up(members: Rows, clusters: Labels, most: int) -> Rows:
    """Up to `most` disjoint pairs of rows of every cluster: their first rows, then their second ones."""
    starts = np.flatnonzero(np.diff(clusters, prepend=-1))
    sizes = np.diff(starts, append=len(members))
    places = np.arange(len(members)) - np.repeat(starts, sizes)
    paired = np.repeat(np.minimum(sizes // 2, most) * 2, sizes)
    first = np.flatnonzero((places < paired) & (places % 2 == 0))
    return np.concatenate([members[first], members[first + 1]])


def _find_median(embeddings: pool.Matrix, rows: Rows, metric: str) -> float:
    """The median distance between the first half of these rows and the second."""
    first, second = np.split(scale(take_embeddings(embeddings, rows, metric), metric), 2)
    squares = ((first - second) ** 2).sum(axis=1)
    distances = {"cosine": squares / 2, "euclidean": np.sqrt(squares)}.get(metric, squares)
    return float(np.median(distances))


def take_embeddings(embeddings: pool.Matrix, rows: Rows, metric: str) -> npt.NDArray[Any]:
    """These rows of the embeddings, found to be finite; so are their distances. Errors name the row of the pool."""
    taken = embeddings.take(rows)
    for start in range(0, len(rows), ROWS):
        good = np.isfinite(taken[start : start + ROWS]).all(axis=1)
        if not good.all():
            row = rows[start + int(np.argmin(good))]
            raise InputError(f"embeddings has a NaN or an infinity in row {row}: remove or repair that row")
        if metric == "cosine":
            continue
        largest = np.abs(taken[start : start + ROWS]).max(axis=1)
        if float(largest.max()) > LARGEST:
            row = rows[start + int(np.argmax(largest))]
            raise InputError(
                f"embeddings holds {largest.max():.3g} in row {row}, whose square is beyond float64: divide all of "
                "them by a large number, or measure angles (--metric cosine)"
            )
    return taken


def scale(points: npt.NDArray[Any], metric: str) -> npt.NDArray[np.float64]:
    """Points whose squared distance is twice the cosine distance; for other metrics as they are."""
    points = points.astype(np.float64)
    if metric != "cosine":
        return points
    largest = np.abs(points).max(axis=1, keepdims=True)
    points /= np.where(largest > 0, largest, 1)  # so that squares do not overflow
    return np.asarray(points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1))  # zeros stay zeros


def prepare(points: npt.NDArray[Any], metric: str, distance: float) -> tuple[npt.NDArray[np.float32], np.float32]:
    """(points in float32, half of the squared distance at which two of them are near, with room for rounding)."""
    limit = distance if metric == "cosine" else distance / 2 if metric == "sqeuclidean" else distance**2 / 2
    parts = [slice(start, start + ROWS) for start in range(0, len(points), ROWS)]
    center, most = np.zeros(points.shape[1]), 1.0
    if metric != "cosine":  # around their mean and of length 1 at most, for the sake of float32
        center = points.mean(axis=0, dtype=np.float64)
        most = max(float(np.linalg.norm(points[part] - center, axis=1).max(initial=0)) for part in parts) or 1.0
    prepared = np.empty(points.shape, np.float32)
    for part in parts:
        prepared[part] = (scale(points[part], metric) - center) / most
    return prepared, np.float32(limit / most**2 + ROUNDING)
