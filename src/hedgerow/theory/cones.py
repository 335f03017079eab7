"""The version space of homogeneous separators: a cone; a consistent separator in it, random ones, and its diameter.

Labels y at points x leave the separators w with y (x . w) >= 0: a convex cone. It is cut at w . center = 1 by the
hyperplane at a consistent center, which leaves a polytope {q : G q <= h} in d - 1 dimensions around q = 0. Below a
right angle, the two separators with the largest angle are corners of the polytope.

The diameter (as an angle) comes with a bound on its error, low <= diameter <= high:

- Up to `EXACT_DIMENSION`, all corners are enumerated (qhull): low = high, up to rounding.
- Beyond that, the largest angle of a cone is hard to find. low: the best of several ascents, each of which alternates
  between the two corners farthest apart along a direction (two linear programs) and the direction from one to the
  other. high: any weights p over directions v with widths s(v) give the bound |q - q'|^2 <= 1 / lambda_min(M), with
  M = sum of p v v' / s(v)^2 and weights that add up to one, since (q - q') M (q - q') <= 1. The best weights are an
  E-optimal design, approached by a multiplicative algorithm; each of its iterates gives a valid bound. The chord
  between the unit vectors is at most |q - q'|, because the radial projection onto the unit ball shortens distances.

A cone that reaches a right angle from its center is cut off at `REACH`; then high is pi.

Precision: linear programs are solved to 1e-7 (HiGHS), in polytopes scaled to a size of about 1, so diameters down to
about 1e-6 can be measured; a center can be found down to the same size.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import linprog
from scipy.spatial import ConvexHull, QhullError

from hedgerow.errors import InputError
from hedgerow.theory.distributions import Floats, Generator, measure_angle

EXACT_DIMENSION = 7  # of the polytope: with about 1,000 corners; each further dimension has three times as many
REACH = 1e3  # tan of the largest angle from the center: 89.9 degrees
ASCENTS = 4  # from 24 starts the result is larger by 1 % on average (d = 16 and 32)
ASCENT_STEPS = 20  # most end after five
DESIGN_STEPS = 200
DESIGN_POWER = 4  # the mean of 1 / lambda^4 instead of the largest 1 / lambda: higher powers converge too slowly
DIRECTIONS_PER_DIMENSION = 2  # of facets, beside the principal axes
TOLERANCE = 1e-7  # of linear programs, in polytopes of size about 1
CHAINS = 64
STEPS_PER_DIMENSION = 20
NEAREST_FACE = 1e-300  # a chain at a face may be beyond it by a rounding error


@dataclass(frozen=True)
class Diameter:
    """The largest angle between two consistent separators, between low and high, and two separators with angle low."""

    low: float
    high: float
    pair: tuple[Floats, Floats]

    @property
    def is_exact(self) -> bool:
        """Whether both bounds are the same."""
        return self.low == self.high


@dataclass(frozen=True, eq=False)
class Cone:
    """The separators consistent with labels: normals (m, d), one unit vector y x / |x| per label, and a center."""

    normals: Floats
    center: Floats

    @property
    def dimension(self) -> int:
        """Of the polytope."""
        return len(self.center) - 1

    @cached_property
    def basis(self) -> Floats:
        """(d - 1, d): orthonormal directions across the center."""
        found: Floats = np.linalg.svd(self.center[None, :])[2][1:]
        return found

    @cached_property
    def faces(self) -> tuple[Floats, Floats]:
        """(G, h) with G q <= h and h > 0; the last 2 (d - 1) are the cut at `REACH`."""
        sides = np.eye(self.dimension)
        slopes = np.concatenate([-self.normals @ self.basis.T, sides, -sides])
        offsets = np.concatenate([self.normals @ self.center, np.full(2 * self.dimension, REACH)])
        return slopes, offsets

    def lift(self, points: Floats) -> Floats:
        """Separators (n, d) of length 1 of points (n, d - 1) of the polytope."""
        found: Floats = self.center + points @ self.basis
        found /= np.linalg.norm(found, axis=1, keepdims=True)
        return found


def make_cone(points: Floats, labels: Floats) -> Cone:
    """The version space after labels -1 or 1 (m,) at points (m, d)."""
    normals = labels[:, None] * points / np.linalg.norm(points, axis=1, keepdims=True)
    return Cone(normals, find_center(normals))


def find_center(normals: Floats) -> Floats:
    """A unit vector w with normals . w > 0: the largest smallest product, for coordinates of w between -1 and 1.

    normals: (m, d), of length 1, m >= 1. It raises `InputError` if no separator is consistent with all labels.
    """
    m, d = normals.shape
    solved = linprog(
        np.append(np.zeros(d), -1.0),
        A_ub=np.column_stack([-normals, np.ones(m)]),
        b_ub=np.zeros(m),
        bounds=[(-1.0, 1.0)] * d + [(None, 1.0)],
        method="highs",
    )
    assert solved.status == 0, solved.message  # w = 0 is feasible, and the objective is at most 1
    length = float(np.linalg.norm(solved.x[:d]))
    if length == 0 or (normals @ solved.x[:d]).min() <= 0:
        raise InputError(
            "no homogeneous separator is consistent with all labels, or only ones closer together than 1e-6: "
            "the labels must be the signs of w . x for one w"
        )
    center: Floats = solved.x[:d] / length
    return center


def walk(cone: Cone, n: int, rng: Generator) -> Floats:
    """n points (n, d - 1) of the polytope by hit-and-run, nearly uniform: `CHAINS` chains from the center.

    A chain walks `STEPS_PER_DIMENSION` steps per dimension between two points that are kept.
    """
    slopes, offsets = cone.faces
    chains = min(CHAINS, n)
    points = np.zeros((chains, cone.dimension))
    kept = []
    for _ in range(-(-n // chains)):
        rooms = offsets - points @ slopes.T  # (chains, faces): how far away they are; afresh, for rounding adds up
        for _ in range(STEPS_PER_DIMENSION * cone.dimension):
            directions = rng.standard_normal((chains, cone.dimension))
            rates = directions @ slopes.T
            inverse = rates / np.maximum(rooms, NEAREST_FACE)  # 1 / time until the face is hit
            behind, ahead = 1 / inverse.min(axis=1), 1 / inverse.max(axis=1)
            times = (behind + (ahead - behind) * rng.random(chains))[:, None]
            points += times * directions
            rooms -= times * rates
        kept.append(points.copy())
    return np.concatenate(kept)[:n]


def measure_diameter(cone: Cone, seed: int = 0, *, bounded: bool = True) -> Diameter:
    """The largest angle between two separators in the cone, with bounds on the error. The seed is for the starts.

    bounded: with an upper bound where the corners cannot be enumerated, which takes twice as long; pi otherwise.
    """
    corners = list_corners(cone) if cone.dimension <= EXACT_DIMENSION else None
    if corners is not None:
        pair = find_farthest(cone.lift(corners))
        widest = measure_angle(*pair)
        return Diameter(widest, widest if is_bounded(corners) else math.pi, pair)
    return bound_diameter(cone, np.random.default_rng(seed), bounded=bounded)


def is_bounded(corners: Floats) -> bool:
    """Whether no corner is where the polytope was cut off."""
    return bool(np.abs(corners).max() < REACH * (1 - 1e-9))


def list_corners(cone: Cone) -> Floats | None:
    """All corners (c, d - 1) of the polytope: the facets of the convex hull of G / h, its polar dual.

    None if rounding keeps qhull from finding the hull.
    """
    slopes, offsets = cone.faces
    if cone.dimension == 1:
        back, ahead = slopes[:, 0] < 0, slopes[:, 0] > 0
        return np.array([[(offsets[back] / slopes[back, 0]).max()], [(offsets[ahead] / slopes[ahead, 0]).min()]])
    scale = float(np.median(offsets[: len(cone.normals)]))  # so that qhull sees numbers of about 1
    try:
        hull = ConvexHull(slopes * (scale / offsets)[:, None])
    except QhullError:
        return None
    planes = hull.equations  # (c, d): outward normal, minus the distance from 0
    found: Floats = -scale * planes[:, :-1] / planes[:, -1:]
    return found


def find_farthest(separators: Floats) -> tuple[Floats, Floats]:
    """The two unit vectors with the largest angle."""
    products = separators @ separators.T
    first, second = np.unravel_index(int(products.argmin()), products.shape)
    return separators[first], separators[second]


@dataclass(frozen=True, eq=False)
class _Widths:
    """The polytope in principal axes: linear programs along directions."""

    slopes: Floats
    offsets: Floats
    used: set[int]  # faces that linear programs take into account from the start: the others are mostly redundant

    def span(self, direction: Floats) -> tuple[Floats, Floats]:
        """The corners farthest back and ahead along the direction."""
        back, ahead = self.push(-direction), self.push(direction)
        return back, ahead

    def push(self, direction: Floats) -> Floats:
        """The corner farthest along the direction. Faces that it violates are added until there are none."""
        while True:
            faces = np.fromiter(sorted(self.used), np.int64)
            solved = linprog(
                -direction, A_ub=self.slopes[faces], b_ub=self.offsets[faces], bounds=(None, None), method="highs"
            )
            assert solved.status == 0, solved.message  # bounded by the cut, and 0 is inside
            found: Floats = solved.x
            broken = np.flatnonzero(self.slopes @ found > self.offsets + TOLERANCE)
            if self.used.issuperset(broken.tolist()):
                return found
            self.used.update(broken.tolist())


def bound_diameter(cone: Cone, rng: Generator, *, bounded: bool = True) -> Diameter:
    """Lower and upper bound on the diameter by linear programs: see the module."""
    slopes, offsets = cone.faces
    scattered = walk(cone, 2 * CHAINS, rng)
    spread, axes = np.linalg.eigh(np.cov(scattered.T))  # axes in columns, the widest last
    scale = math.sqrt(spread[-1])
    nearest = np.argsort(offsets / np.linalg.norm(slopes, axis=1))[: 2 * cone.dimension].tolist()
    cut = range(len(cone.normals), len(offsets))
    inner = _Widths(slopes @ axes, offsets / scale, {*nearest, *cut})
    ends = ascend(inner, rng)
    separators = cone.lift(scale * np.array(ends) @ axes.T)
    low = measure_angle(*separators)
    if not bounded or np.abs(np.array(ends) @ axes.T).max() * scale >= REACH * (1 - 1e-9):
        return Diameter(low, math.pi, (separators[0], separators[1]))
    chord = scale * bound_distance(inner, ends)
    high = 2 * math.asin(chord / 2) if chord < 2 else math.pi
    return Diameter(low, max(low, high), (separators[0], separators[1]))


def ascend(inner: _Widths, rng: Generator) -> tuple[Floats, Floats]:
    """The best pair of corners of several ascents: along the widest axes, and in random directions."""
    d = inner.slopes.shape[1]
    starts = [*np.eye(d)[::-1][: ASCENTS // 2], *rng.standard_normal((ASCENTS - ASCENTS // 2, d))]
    best, ends = 0.0, (np.zeros(d), np.zeros(d))
    for direction in starts:
        length = 0.0
        for _ in range(ASCENT_STEPS):
            back, ahead = inner.span(direction)
            direction = ahead - back
            longer = float(np.linalg.norm(direction))
            if longer <= length * (1 + 1e-9):
                break
            length = longer
            if length > best:
                best, ends = length, (back, ahead)
    return ends


def bound_distance(inner: _Widths, ends: tuple[Floats, Floats]) -> float:
    """An upper bound on the distance of two points of the polytope, by a design over directions with their widths."""
    d = inner.slopes.shape[1]
    gaps = np.array([(inner.offsets - inner.slopes @ end) for end in ends]).min(axis=0)
    thin = np.argsort(gaps / np.linalg.norm(inner.slopes, axis=1))[: DIRECTIONS_PER_DIMENSION * d]
    directions = np.concatenate([np.eye(d), inner.slopes[thin]])
    widths = [float((ahead - back) @ v) for v in directions for back, ahead in (inner.span(v),)]
    scaled = directions / np.array(widths)[:, None]
    weights = np.full(len(scaled), 1 / len(scaled))
    best = 0.0
    for _ in range(DESIGN_STEPS):
        values, vectors = np.linalg.eigh((scaled * weights[:, None]).T @ scaled)
        best = max(best, float(values[0]))
        gains = ((scaled @ vectors) ** 2) @ values ** -(DESIGN_POWER + 1.0)
        weights *= np.sqrt(gains / (weights @ gains))
        weights /= weights.sum()
    return 1 / math.sqrt(best)
