"""Samplers: which k of n points to label, given nothing but the points (the paper's volume-based samplers, section 4).

A sampler is anything callable as sampler(points, k, rng) -> k distinct row numbers; points is (n, d) in float64, drawn
uniformly from the low-margin region, so that margins play no further part. Uniform is the Margin Algorithm of Balcan,
Broder and Zhang (2007), to which all others are compared. The samplers of practice run the code of this package:
average-linkage clusters with the round-robin of Cluster-Margin, farthest-first of CoreSet, and k-means++ of BADGE.

What it does not do: measure what the chosen points are worth (`thresholds.py`).
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.clustering.clusters import cluster
from hedgerow.errors import InputError
from hedgerow.kernels.line import cluster_line
from hedgerow.strategies.badge import Badge
from hedgerow.strategies.cluster_margin import ClusterMargin
from hedgerow.strategies.coreset import CoreSet
from hedgerow.strategies.view import View

Points = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


class Sampler(Protocol):
    """What chooses the points to label."""

    def __call__(self, points: Points, k: int, rng: np.random.Generator) -> Rows:
        """k distinct rows of points (n, d)."""


@dataclass(frozen=True)
class Uniform:
    """k rows at random, without replacement."""

    def __call__(self, points: Points, k: int, rng: np.random.Generator) -> Rows:
        return rng.choice(len(points), k, replace=False, shuffle=False)


@dataclass(frozen=True)
class Clustered:
    """Cluster-Margin: average-linkage clusters, then its round-robin over all points.

    threshold: the paper's epsilon, the largest average distance at which clusters merge. Without it, the clusters are
    those of the average size n / k, as in the paper's experiments: at most k, so that every one has a pick. On a line
    with a threshold, the distance is |x - y| and the clusters are exact for any n; otherwise `hedgerow.cluster` makes
    them with this metric.
    """

    threshold: float | None = None
    metric: str = "sqeuclidean"

    def __call__(self, points: Points, k: int, rng: np.random.Generator) -> Rows:
        n, d = points.shape
        if d == 1 and self.threshold is not None:
            labels = cut_line(points[:, 0], self.threshold)
        else:
            size = None if self.threshold is not None else n / k
            made = cluster(
                points, threshold=self.threshold, average_size=size, metric=self.metric, centroids=False, threads=1
            )
            labels = made.labels
        view = View(n, margins=np.zeros(n, np.float32), clusters=labels)
        return ClusterMargin(margin_factor=n / k)(view, k, rng)


@dataclass(frozen=True)
class FarthestFirst:
    """CoreSet: always the point farthest from those chosen before; the first is random."""

    def __call__(self, points: Points, k: int, rng: np.random.Generator) -> Rows:
        return CoreSet()(View(len(points), embeddings=points.astype(np.float32)), k, rng)


@dataclass(frozen=True)
class Seeding:
    """k-means++, as BADGE draws its batch; the first point is random.

    With two classes of equal probability the gradient of BADGE is half the embedding, so that its seeding over
    gradients is k-means++ over the points.
    """

    def __call__(self, points: Points, k: int, rng: np.random.Generator) -> Rows:
        n = len(points)
        equal = np.full((n, 2), 0.5, np.float32)
        return Badge(first="random")(View(n, probabilities=equal, embeddings=points.astype(np.float32)), k, rng)


@dataclass(frozen=True)
class Quantiles:
    """On a line: the point nearest to each of the k-quantiles (Lemma B.2).

    targets: the quantiles of the distribution, ascending, (k,) and perhaps infinite; without them, those of the points.
    Two quantiles with the same nearest point take its neighbors as well.
    """

    targets: tuple[float, ...] | None = None

    def __call__(self, points: Points, k: int, rng: np.random.Generator) -> Rows:
        if points.shape[1] != 1:
            raise InputError(f"the sampler 'quantiles' needs points on a line, got {points.shape[1]} dimensions")
        order = np.argsort(points[:, 0])
        if self.targets is None:
            places = np.arange(1, k + 1) * len(order) // k - 1
        else:
            places = find_nearest(points[order, 0], np.asarray(self.targets))
        return order[separate(places, len(order))]


SAMPLERS: dict[str, Sampler] = {
    "uniform": Uniform(),
    "cluster-margin": Clustered(),
    "farthest-first": FarthestFirst(),
    "k-means++": Seeding(),
    "quantiles": Quantiles(),
}


def sample(sampler: str | Sampler, points: npt.ArrayLike, k: int, seed: int | np.random.Generator = 0) -> Rows:
    """k distinct rows of points (n, d), by a sampler or the one of that name."""
    chosen = SAMPLERS[checks.option(sampler, "sampler", SAMPLERS)] if isinstance(sampler, str) else sampler
    held = checks.matrix(np.asarray(points), "points").astype(np.float64, copy=False)
    checks.finite(held, "points")
    k = checks.integer(k, "k", least=1)
    if k > len(held):
        raise InputError(f"k is {k:,}, but there are only {len(held):,} points: draw more points, or ask for fewer")
    rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(checks.seed(seed))
    rows = checks.rows(chosen(held, k, rng), len(held), "what the sampler returned")
    if len(rows) != k:
        raise InputError(f"the sampler returned {len(rows):,} rows, but {k:,} were asked for")
    return rows


def cut_line(values: Points, threshold: float) -> npt.NDArray[np.int32]:
    """The average-linkage clusters of values (n,) up to this average distance |x - y|: labels (n,), from the left."""
    order = np.argsort(values)
    found, labels = np.empty(len(values), np.int32), np.empty(len(values), np.int32)
    cluster_line(values[order], float(threshold), found)
    labels[order] = found
    return labels


def find_nearest(ordered: Points, targets: Points) -> Rows:
    """The position in ordered (n,), ascending, of the value nearest to each target; the lower one of two."""
    right = np.clip(np.searchsorted(ordered, targets), 1, len(ordered) - 1) if len(ordered) > 1 else 0 * targets
    right = right.astype(np.int64)
    left = np.maximum(right - 1, 0)
    finite = np.clip(targets, ordered[0], ordered[-1])  # beyond the ends, where the nearest is an end
    return np.where(finite - ordered[left] <= ordered[right] - finite, left, right)


def separate(places: Rows, n: int) -> Rows:
    """Ascending positions below n made distinct: each moves up as far as needed, and down again at the end."""
    steps = np.arange(len(places))
    raised = np.maximum.accumulate(places - steps) + steps
    return np.minimum(raised, n - len(places) + steps)
