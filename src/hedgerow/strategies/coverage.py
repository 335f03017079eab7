"""Coverage of a pool by few rows: each pick is the row that adds most, given what is labeled and picked.

The coverage of a point is the largest kernel between it and any center (a labeled or picked row), and that of the pool
the sum over its points, which may have weights. Kernels fall with the distance, so the nearest center is the one that
counts, and the state is one distance per point. With a `Ball`, coverage is the number of points within its radius, as
in ProbCover; with a `Gaussian` it is smooth, as in MaxHerding.

Gains only shrink as centers are added, so a gain that was computed earlier is an upper bound: only rows at the top of
the bounds are computed again, until the best of them is above all other bounds (the lazy greedy algorithm of Minoux
1978). The picks are those of the plain loop, ties by lowest row; float32 distances can decide between nearly equal
gains.

A pool of more than `sample` rows is estimated by random samples of that size, as the authors of MaxHerding do; `SHARE`
says how many picks one sample is good for. Later samples know the picks from earlier ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hedgerow.kernels import coverage as kernels
from hedgerow.kernels import freeze, kcenter
from hedgerow.machine import Team, team
from hedgerow.strategies.coreset import COINCIDENT
from hedgerow.strategies.partitions import fill_up
from hedgerow.strategies.points import open_points
from hedgerow.strategies.view import View

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

SHARE = 4  # rows of a sample per pick: with fewer, picks would be limited by the sample rather than by the pool
BLOCK = 32  # rows whose gains are computed together; a fixed number, so that rounding does not depend on threads
LEAST_WIDTH = 16  # bounds renewed at first for a pick; twice as many whenever that does not decide it


@dataclass(frozen=True, eq=False)
class Cover:
    """The points (m, d) of a sample, their weights (m,), and the squared distance from the nearest center (m,).

    nearest is lowered as centers are added. Rows up to `coincident` from a center are copies and no candidates. unit: a
    distance of 1 in the embeddings, as a distance of points.
    """

    points: Floats
    norms: Floats
    weights: Doubles
    nearest: Doubles
    coincident: float
    unit: float
    team: Team

    def __len__(self) -> int:
        return len(self.points)

    def add(self, centers: Floats) -> None:
        """Lower the distances to those from these centers (c, d), exact."""
        norms = measure_norms(centers)

        def lower(lo: int, hi: int) -> None:
            area = np.empty(kcenter.ROW_TILE * kcenter.CENTER_TILE, np.float32)
            some = freeze(self.points[lo:hi]), freeze(self.norms[lo:hi])
            kcenter.lower(*some, freeze(centers), freeze(norms), area, self.nearest[lo:hi])

        if len(centers):
            self.team.ranges(lower, len(self), least=4096, step=kcenter.ROW_TILE)

    def find_copies(self) -> npt.NDArray[np.bool_]:
        """Which points coincide with a center."""
        return self.nearest <= self.coincident


class Kernel(Protocol):
    """How much a center covers of a point, by their distance."""

    def measure(self, cover: Cover, rows: Rows) -> Doubles:
        """What each of these rows would add to the coverage."""
        ...


@dataclass(frozen=True)
class Ball:
    """A center covers the points nearer than `radius`."""

    radius: float

    def measure(self, cover: Cover, rows: Rows) -> Doubles:
        """The weight of the points that a row would reach and no center has reached."""

        def fill(some: Rows, block: Floats, area: Floats, out: Doubles) -> None:
            held = freeze(cover.points), freeze(cover.norms)
            kernels.add_ball_gains(*held, some, block, self.radius**2, cover.nearest, cover.weights, area, out)

        return _measure_blocks(cover, rows, fill)


@dataclass(frozen=True)
class Gaussian:
    """A center covers exp(-(distance / sigma)^2) of a point."""

    sigma: float

    def measure(self, cover: Cover, rows: Rows) -> Doubles:
        """The sum of weights times what a row would add to the coverage of the points."""
        scale = self.sigma**-2
        covered = np.exp(-scale * cover.nearest)

        def fill(some: Rows, block: Floats, area: Floats, out: Doubles) -> None:
            held = freeze(cover.points), freeze(cover.norms)
            kernels.add_gaussian_gains(*held, some, block, scale, cover.nearest, covered, cover.weights, area, out)

        return _measure_blocks(cover, rows, fill)


def _measure_blocks(cover: Cover, rows: Rows, fill: Callable[[Rows, Floats, Floats, Doubles], None]) -> Doubles:
    gains = np.empty(len(rows))

    def work(start: int) -> None:
        some = rows[start : start + BLOCK]
        area = np.empty(len(some) * kernels.TARGETS, np.float32)
        fill(some, freeze(cover.points[some]), area, gains[start : start + BLOCK])

    cover.team.map(work, range(0, len(rows), BLOCK))
    return gains


def open_cover(points: Floats, coincident: float, unit: float, team: Team) -> Cover:
    """Points without centers, of equal weight."""
    nearest = np.full(len(points), np.inf)
    return Cover(points, measure_norms(points), np.ones(len(points)), nearest, coincident, unit, team)


def measure_norms(rows: Floats) -> Floats:
    """The squared length of every row."""
    norms = np.empty(len(rows), np.float32)
    kcenter.measure_norms(freeze(rows), norms)
    return norms


def take_greedily(cover: Cover, kernel: Kernel, count: int) -> Rows:
    """Up to `count` positions in the order of picks, each adding most to the coverage; fewer if nothing more is added.

    The picks become centers. O(m^2 d) time for the first gains; then a fraction of that per pick, small once the
    largest gains stand out.
    """
    picked = np.empty(count, np.int64)
    if count == 0:
        return picked
    bounds = kernel.measure(cover, np.arange(len(cover), dtype=np.int64))
    known = np.zeros(len(cover), np.int64)  # how many picks a bound accounts for
    for t in range(count):
        bounds[cover.find_copies()] = -np.inf
        best = _find_best(cover, kernel, bounds, known, t)
        if bounds[best] <= 0:
            return picked[:t]
        picked[t] = best
        bounds[best] = -np.inf
        cover.nearest[best] = 0.0
        cover.add(cover.points[best : best + 1])
    return picked


def _find_best(cover: Cover, kernel: Kernel, bounds: Doubles, known: Rows, t: int) -> int:
    """The position with the largest gain after t picks, the lowest of equals. Bounds are renewed as far as needed."""
    width = LEAST_WIDTH
    while True:
        best = int(bounds.argmax())
        if known[best] == t or bounds[best] <= 0:
            return best
        top = np.argpartition(-bounds, width)[:width] if width < len(bounds) else np.arange(len(bounds))
        stale = np.unique(np.append(top[(known[top] < t) & (bounds[top] > 0)], best))
        bounds[stale] = kernel.measure(cover, stale)
        known[stale] = t
        width *= 2


def pick_by_samples(
    view: View,
    k: int,
    rng: np.random.Generator,
    metric: str,
    sample: int,
    choose: Callable[[Cover, Rows, int], Rows],
    name: str,
) -> Rows:
    """k unlabeled rows, the picks of one sample after the other; random ones if distinct rows run out.

    choose(cover, rows, share): up to `share` positions in a sample of these rows.
    """
    assert view.embeddings is not None
    if k == 0:
        return np.zeros(0, np.int64)
    with team() as threads:
        vectors = open_points(view.embeddings, metric, threads)
        centers = vectors.take(view.labeled_rows())
        picked = []
        for rows, share in draw_samples(view.unlabeled_rows(), k, sample, rng):
            points = vectors.take(rows)
            cover = open_cover(points, COINCIDENT[metric], vectors.factor, threads)
            cover.add(centers)
            places = choose(cover, rows, share)
            picked.append(rows[places])
            centers = np.concatenate([centers, points[places]])
    return fill_up(np.concatenate(picked), view, k, rng, name)


def draw_samples(rows: Rows, k: int, sample: int, rng: np.random.Generator) -> list[tuple[Rows, int]]:
    """(rows, share of k) of each sample: disjoint and random, ascending; all rows at once if they are few."""
    if len(rows) <= sample:
        return [(rows, k)]
    every = -(-len(rows) // sample)
    count = min(every, -(-SHARE * k // sample))
    drawn = rng.permutation(rows)[: len(rows) if count == every else count * sample]
    parts = np.array_split(drawn, count)
    return [(np.sort(part), k // count + (p < k % count)) for p, part in enumerate(parts)]
