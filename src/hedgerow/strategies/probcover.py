"""ProbCover: rows whose balls cover most of the pool (Yehuda, Dekel, Hacohen and Weinshall 2022).

A row covers all rows nearer than `delta`. The next pick is the row that covers most rows that no labeled or picked row
covers. `coverage.py` has the algorithm. When all rows are covered, delta is halved as often as needed: rows that are
far from every center are then uncovered again, and the greedy picks continue.

delta is found from the pool, without labels, by one of two rules: the paper's, where the number of classes is known, or
the median distance of a row from its neighbor number n / (labeled + k), so that as many balls as there will be labels
would cover the pool if they did not overlap.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError
from hedgerow.strategies.coreset import METRICS
from hedgerow.strategies.herding import SAMPLE
from hedgerow.strategies.view import View

if TYPE_CHECKING:
    from hedgerow.strategies.coverage import Cover

Doubles = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

QUERIES = 4096  # rows from which distances are measured to find delta: a quantile of so many is sure to about 1%
BLOCK = 128  # of them at a time


@dataclass(frozen=True)
class ProbCover:
    """k rows in greedy order; ties by lowest row.

    `delta`: the radius of a ball; None finds it from the pool. `classes`: the number of classes, for the paper's rule:
    delta is the largest radius with which at least `purity` of all balls lie within one of as many k-means groups.
    Without it, delta is the median distance of a row from its neighbor number n / (labeled + k). `sample`: a larger
    pool is estimated by random samples of this many rows. `metric`: "cosine", or "euclidean" for rows as they are;
    delta is then in their units. Time and memory as for `MaxHerding`.
    """

    delta: float | None = None
    classes: int | None = None
    purity: float = 0.95
    sample: int = SAMPLE
    metric: str = "cosine"
    needs: ClassVar[frozenset[str]] = frozenset({"embeddings"})

    def __post_init__(self) -> None:
        if self.delta is not None:
            checks.real(self.delta, "delta", above=0)
        if self.classes is not None:
            checks.integer(self.classes, "classes", least=2)
        if checks.real(self.purity, "purity", above=0) > 1:
            raise InputError(f"purity must be a share of at most 1, got {self.purity:g}")
        checks.integer(self.sample, "sample", least=1)
        checks.option(self.metric, "metric", METRICS)

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> Rows:
        # Imported here, since it brings scipy, and other strategies start without.
        from hedgerow.strategies.coverage import pick_by_samples

        labels = len(view.labeled_rows()) + k

        def choose(cover: "Cover", _: Rows, share: int) -> Rows:
            return cover_all(cover, self.find_radius(cover, labels, rng), share)

        return pick_by_samples(view, k, rng, self.metric, self.sample, choose, "probcover")

    def find_radius(self, cover: "Cover", labels: int, rng: np.random.Generator) -> float:
        """The radius of a ball, as a distance of points. labels: how many there are with this batch."""
        if self.delta is not None:
            return self.delta * cover.unit
        queries = np.sort(rng.choice(len(cover), min(len(cover), QUERIES), replace=False))
        if self.classes is not None:
            reaches = measure_pure(cover, queries, self.classes, rng)
            allowed = int((1 - self.purity) * len(queries) + 1e-9)  # impure balls
            radius = float(np.sort(reaches)[allowed]) if allowed < len(reaches) else np.inf
            if np.isfinite(radius) and radius > 0:
                return radius
        reaches = measure_reaches(cover, queries, -(-len(cover) // labels))
        positive = reaches[reaches > 0]  # where most rows have copies, those of the others
        return float(np.median(positive)) if len(positive) else 1.0


def measure_reaches(cover: "Cover", queries: Rows, place: int) -> Doubles:
    """The distance of each of these points from its neighbor number `place`, or from its last."""
    place = min(place, len(cover) - 1)
    return _measure(cover, queries, lambda _, squared: np.partition(squared, place, axis=1)[:, place])


def measure_pure(cover: "Cover", queries: Rows, classes: int, rng: np.random.Generator) -> Doubles:
    """The distance of each of these points from the nearest one of another k-means group: its largest pure ball."""
    from hedgerow.clustering.cells import spread_nearest
    from hedgerow.strategies.groups import train_centers

    groups = spread_nearest(cover.points, train_centers(cover.points, classes, rng, cover.team), cover.team)

    def find(some: Rows, squared: Doubles) -> Doubles:
        squared[groups[some][:, None] == groups[None]] = np.inf
        return np.asarray(squared.min(axis=1))

    return _measure(cover, queries, find)


def _measure(cover: "Cover", queries: Rows, find: Callable[[Rows, Doubles], Doubles]) -> Doubles:
    """The roots of what `find` finds in the squared distances (b, m) of each block of queries from all points."""

    def work(start: int) -> Doubles:
        some = queries[start : start + BLOCK]
        squared = cover.points[some].astype(np.float64) @ cover.points.T.astype(np.float64)
        squared *= -2
        squared += cover.norms[some, None]
        squared += cover.norms
        squared[np.arange(len(some)), some] = 0
        return find(some, np.maximum(squared, 0, out=squared))

    return np.asarray(np.sqrt(np.concatenate(cover.team.map(work, range(0, len(queries), BLOCK)))))


def cover_all(cover: "Cover", radius: float, count: int) -> Rows:
    """Up to `count` positions by balls, smaller ones once all is covered; fewer if only copies of centers remain."""
    from hedgerow.strategies.coverage import Ball, take_greedily

    picked = [take_greedily(cover, Ball(radius), count)]
    left = count - len(picked[0])
    while left and not cover.find_copies().all():
        farthest = float(np.sqrt(cover.nearest.max()))
        while radius > farthest:
            radius /= 2
        picked.append(take_greedily(cover, Ball(radius), left))
        left -= len(picked[-1])
    return np.concatenate(picked)
