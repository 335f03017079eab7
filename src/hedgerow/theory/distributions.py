"""Isotropic log-concave distributions in R^d: draws, draws in a band around a hyperplane, disagreements of separators.

They are the distributions of appendix B: mean 0, covariance the identity. A *band* is |w . x| < b for a unit vector w.
As the bands of Cluster-MarginV become thin, rejection from the whole distribution would stall, so each distribution
draws inside the band, with a cost that does not depend on b:

- Gaussian, ball: the component along w by the inverse of its distribution function, the rest independently given it.
- Products (logistic, cube): all coordinates but the one where |w_j| is largest, then accepted with the probability that
  x_j falls into the band, divided by the largest such probability; then x_j given the rest by the inverse of its
  distribution function. This is exact. The share of accepted draws is at least about |w_j| >= 1 / sqrt(d).

The disagreement d(w, v) = P[sign(w . x) != sign(v . x)] is the angle divided by pi for the Gaussian and the ball. For
products it is an average over draws of all coordinates but one, of the exact probability that the last one makes the
signs differ: its relative error does not grow as the angle shrinks.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from scipy import special

from hedgerow import checks
from hedgerow.errors import InputError

Floats = npt.NDArray[np.float64]
Generator = np.random.Generator

DISAGREEMENT_DRAWS = 1 << 14  # a relative standard error of about 0.6 %
DISAGREEMENT_SEED = 0
TINY = 1e-300  # stands for a coordinate of a separator that is zero: its threshold is at infinity


@dataclass(frozen=True)
class Probability:
    """A probability and its standard error; 0 where it is exact."""

    value: float
    error: float = 0.0


class Distribution(Protocol):
    """An isotropic log-concave distribution in R^d; `constant` is a c with c angle(w, v) <= d(w, v)."""

    name: ClassVar[str]
    constant: ClassVar[float]

    @property
    def d(self) -> int: ...

    def draw(self, n: int, rng: Generator) -> Floats:
        """n points (n, d)."""

    def draw_band(self, w: Floats, b: float, n: int, rng: Generator) -> Floats:
        """n points (n, d) of the distribution given |w . x| < b, for a unit vector w."""

    def measure_disagreement(self, w: Floats, v: Floats) -> Probability:
        """P[sign(w . x) != sign(v . x)] for nonzero vectors."""


@dataclass(frozen=True)
class Gaussian:
    """The standard normal distribution."""

    d: int
    name: ClassVar[str] = "gaussian"
    constant: ClassVar[float] = 1 / math.pi

    def draw(self, n: int, rng: Generator) -> Floats:
        return rng.standard_normal((n, self.d))

    def draw_band(self, w: Floats, b: float, n: int, rng: Generator) -> Floats:
        low, high = special.ndtr((-b, b))
        along = special.ndtri(rng.uniform(low, high, n))
        found: Floats = project_out(self.draw(n, rng), w) + along[:, None] * w
        return found

    def measure_disagreement(self, w: Floats, v: Floats) -> Probability:
        return Probability(measure_angle(w, v) / math.pi)


@dataclass(frozen=True)
class Ball:
    """The uniform distribution over the ball of radius sqrt(d + 2), where it is isotropic."""

    d: int
    name: ClassVar[str] = "ball"
    constant: ClassVar[float] = 1 / math.pi

    @property
    def radius(self) -> float:
        return math.sqrt(self.d + 2)

    def draw(self, n: int, rng: Generator) -> Floats:
        return draw_directions(n, self.d, rng) * self.radius * rng.random((n, 1)) ** (1 / self.d)

    def draw_band(self, w: Floats, b: float, n: int, rng: Generator) -> Floats:
        # (1 + t / radius) / 2 of the component t along w is distributed as Beta((d + 1) / 2, (d + 1) / 2).
        shape, edge = (self.d + 1) / 2, min(b / self.radius, 1.0)
        low, high = special.betainc(shape, shape, ((1 - edge) / 2, (1 + edge) / 2))
        along = self.radius * (2 * special.betaincinv(shape, shape, rng.uniform(low, high, n)) - 1)
        # Given t, the rest is uniform over a ball of one dimension less.
        across = project_out(rng.standard_normal((n, self.d)), w)
        across /= np.linalg.norm(across, axis=1, keepdims=True)
        across *= np.sqrt(self.radius**2 - along**2)[:, None] * rng.random((n, 1)) ** (1 / (self.d - 1))
        found: Floats = across + along[:, None] * w
        return found

    def measure_disagreement(self, w: Floats, v: Floats) -> Probability:
        return Probability(measure_angle(w, v) / math.pi)


class Marginal(Protocol):
    """A symmetric unimodal distribution on the line with variance 1."""

    def cumulate(self, x: Floats) -> Floats:
        """The distribution function."""

    def invert(self, share: Floats) -> Floats:
        """The inverse of the distribution function."""


class Logistic:
    """The logistic distribution with variance 1."""

    scale = math.sqrt(3) / math.pi

    def cumulate(self, x: Floats) -> Floats:
        found: Floats = special.expit(x / self.scale)
        return found

    def invert(self, share: Floats) -> Floats:
        found: Floats = self.scale * special.logit(share)
        return found


class Uniform:
    """The uniform distribution over [-sqrt(3), sqrt(3)]."""

    reach = math.sqrt(3)

    def cumulate(self, x: Floats) -> Floats:
        return np.clip((x + self.reach) / (2 * self.reach), 0.0, 1.0)

    def invert(self, share: Floats) -> Floats:
        return self.reach * (2 * share - 1)


class _Product:
    """d independent coordinates with the same marginal."""

    d: int
    marginal: ClassVar[Marginal]

    def draw(self, n: int, rng: Generator) -> Floats:
        return self.marginal.invert(rng.random((n, self.d)))

    def draw_band(self, w: Floats, b: float, n: int, rng: Generator) -> Floats:
        last = int(np.abs(w).argmax())
        half = b / abs(w[last])  # of the interval for x_last, around the value that puts x on the hyperplane
        most = float(np.diff(self.marginal.cumulate(np.array([-half, half])))[0])  # an interval around 0 has most
        found: list[Floats] = []
        while sum(map(len, found)) < n:
            points = self.draw(2 * n, rng)
            points[:, last] = 0.0
            middle = -(points @ w) / w[last]
            # The marginal is symmetric: intervals are mirrored to the left of 0, where its tail loses no digits.
            side = np.where(middle > 0, -1.0, 1.0)
            low, high = self.marginal.cumulate(side * middle + half * np.array([[-1.0], [1.0]]))
            accepted = rng.random(2 * n) * most < high - low
            points[:, last] = side * self.marginal.invert(low + (high - low) * rng.random(2 * n))
            found.append(points[accepted])
        return np.concatenate(found)[:n]

    def measure_disagreement(self, w: Floats, v: Floats) -> Probability:
        w, v = w / np.linalg.norm(w), v / np.linalg.norm(v)
        last = int((np.abs(w) + np.abs(v)).argmax())
        points = self.draw(DISAGREEMENT_DRAWS, np.random.default_rng(DISAGREEMENT_SEED))
        points[:, last] = 0.0
        with np.errstate(over="ignore"):  # a coordinate that is zero
            cuts = [self.marginal.cumulate(-(points @ u) / (u[last] or TINY)) for u in (w, v)]
        between = np.abs(cuts[0] - cuts[1])
        if (w[last] < 0) != (v[last] < 0):  # then the signs agree between the two thresholds
            between = 1 - between
        return Probability(float(between.mean()), float(between.std(ddof=1) / math.sqrt(len(between))))


@dataclass(frozen=True)
class LogisticProduct(_Product):
    """Independent logistic coordinates. The smallest d(w, v) / angle found is 0.29."""

    d: int
    name: ClassVar[str] = "logistic"
    constant: ClassVar[float] = 0.25
    marginal: ClassVar[Marginal] = Logistic()


@dataclass(frozen=True)
class Cube(_Product):
    """The uniform distribution over a cube. The smallest d(w, v) / angle found is 0.23."""

    d: int
    name: ClassVar[str] = "cube"
    constant: ClassVar[float] = 0.2
    marginal: ClassVar[Marginal] = Uniform()


DISTRIBUTIONS: Mapping[str, type[Gaussian] | type[Ball] | type[LogisticProduct] | type[Cube]] = {
    one.name: one for one in (Gaussian, LogisticProduct, Ball, Cube)
}


def make_distribution(name: str, d: int) -> Distribution:
    """The distribution of this name in R^d."""
    checks.option(name, "distribution", DISTRIBUTIONS)
    if checks.integer(d, "d") < 2:
        raise InputError(f"d must be at least 2, got {d}: in one dimension a homogeneous separator is only a sign")
    return DISTRIBUTIONS[name](d)


def draw_directions(n: int, d: int, rng: Generator) -> Floats:
    """n unit vectors (n, d), uniform over the sphere."""
    found = rng.standard_normal((n, d))
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found


def project_out(points: Floats, w: Floats) -> Floats:
    """The points (n, d) without their component along the unit vector w."""
    return points - np.outer(points @ w, w)


def measure_angle(w: Floats, v: Floats) -> float:
    """The angle between two vectors, exact also for nearly equal ones."""
    w, v = w / np.linalg.norm(w), v / np.linalg.norm(v)
    return 2 * math.atan2(float(np.linalg.norm(w - v)), float(np.linalg.norm(w + v)))
