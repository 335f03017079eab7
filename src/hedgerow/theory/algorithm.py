"""Cluster-MarginV (Algorithm 3 of the paper) and, with the uniform sampler, the Margin Algorithm it is compared with.

A plan holds the parameters of Theorem B.1 and computes its schedule: n = ceil(log2(1 / (c eps))) rounds; in round i,
gamma k points in the band |w . x| < b = C1 / 2^i around a consistent separator w, of which the sampler chooses
k = 2 beta C2 (d + log((1 + n - i) / delta)) to be labeled. The theorem says that constants C1 and C2 exist, and not
what they are: here they are parameters, and `label_complexity.py` measures which C2 is enough.

The theorem holds for any consistent separator; this one is the center of `cones.find_center`, which is better than the
worst. Labels are the signs of a separator w* (realizable).
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hedgerow import checks
from hedgerow.errors import HedgerowWarning, InputError
from hedgerow.theory.cones import Cone, make_cone
from hedgerow.theory.distributions import Distribution, Floats, Generator, draw_directions, make_distribution
from hedgerow.theory.samplers import SAMPLERS, Sampler, sample

LARGEST_EPS = 0.25  # the theorem assumes eps < 1/4
LEAST_DIMENSION = 4  # and d >= 4
BAND = 1.0  # C1: in a band of this width times the angle of w and w* are most points on which they disagree


@dataclass(frozen=True)
class Plan:
    """The parameters of Theorem B.1. beta: 1 is the Margin Algorithm. c1, c2: its constants C1 and C2."""

    distribution: str
    d: int
    eps: float
    delta: float = 0.1
    gamma: float = 10.0
    beta: float = 1.0
    c1: float = BAND
    c2: float = 1.0

    def __post_init__(self) -> None:
        make_distribution(self.distribution, self.d)
        for name in ("eps", "delta", "beta", "c1", "c2"):
            checks.real(getattr(self, name), name, above=0)
        if self.eps >= LARGEST_EPS:
            raise InputError(f"eps must be below 1/4, got {self.eps:g}: Theorem B.1 assumes it")
        if self.delta >= 1:
            raise InputError(f"delta must be below 1, got {self.delta:g}: it is the probability to fail")
        if self.beta > 1:
            raise InputError(
                f"beta must be between 0 and 1, got {self.beta:g}: the theorem is about samplers that are at least as "
                "good as uniform"
            )
        if checks.real(self.gamma, "gamma") <= 1:
            raise InputError(
                f"gamma must be greater than 1, got {self.gamma:g}: the sampler chooses k of gamma k points"
            )
        if self.d < LEAST_DIMENSION:
            warnings.warn(
                f"Theorem B.1 assumes d >= {LEAST_DIMENSION}, got {self.d}: nothing is promised for this run",
                HedgerowWarning,
                stacklevel=3,
            )

    @cached_property
    def law(self) -> Distribution:
        """The distribution of the points."""
        return make_distribution(self.distribution, self.d)

    @property
    def rounds(self) -> int:
        """n."""
        return math.ceil(math.log2(1 / (self.law.constant * self.eps)))

    def band(self, i: int) -> float:
        """b_i, for i from 1."""
        return self.c1 * 0.5**i

    def batch(self, i: int) -> int:
        """k_{i+1}, the labels of round i, for i from 1."""
        return math.ceil(2 * self.beta * self.c2 * (self.d + math.log((1 + self.rounds - i) / self.delta)))

    @property
    def labels(self) -> int:
        """Of all rounds: the label complexity that the theorem states."""
        return sum(map(self.batch, range(1, self.rounds + 1)))


@dataclass(frozen=True, eq=False)
class State:
    """The labeled points (m, d), a consistent unit vector w, and the version space, None before the first label."""

    points: Floats
    w: Floats
    cone: Cone | None = None


def start(d: int, rng: Generator) -> State:
    """Nothing is labeled, and any separator is consistent."""
    return State(np.zeros((0, d)), draw_directions(1, d, rng)[0])


def learn(state: State, points: Floats, truth: Floats) -> State:
    """The state after these points (k, d) are labeled by the separator `truth`."""
    whole = np.concatenate([state.points, points])
    cone = make_cone(whole, np.where(whole @ truth >= 0, 1.0, -1.0))
    return State(whole, cone.center, cone)


def take_round(
    state: State, law: Distribution, band: float, gamma: float, k: int, sampler: Sampler, truth: Floats, rng: Generator
) -> State:
    """The state after one round: gamma k points in the band around w, of which the sampler chooses k to be labeled."""
    pool = law.draw_band(state.w, band, math.ceil(gamma * k), rng)
    return learn(state, pool[sample(sampler, pool, k, rng)], truth)


@dataclass(frozen=True, eq=False)
class Step:
    """The state after a round of a plan, and the error of its separator."""

    state: State
    error: float


def run_plan(plan: Plan, sampler: str | Sampler = "cluster-margin", *, seed: int = 0) -> list[Step]:
    """Algorithm 3 for a random true separator: one step per round. With "uniform" it is the Margin Algorithm.

    sampler: a key of `SAMPLERS`, or anything callable as sampler(points, k, rng) that returns k distinct rows.
    """
    if isinstance(sampler, str):
        sampler = SAMPLERS[checks.option(sampler, "sampler", [name for name in SAMPLERS if name != "quantiles"])]
    rng = np.random.default_rng(checks.seed(seed))
    truth = draw_directions(1, plan.d, rng)[0]
    return follow_plan(plan, lambda _: sampler, truth, rng)


def follow_plan(plan: Plan, make_sampler: Callable[[State], Sampler], truth: Floats, rng: Generator) -> list[Step]:
    """Algorithm 3 for labels by the separator `truth`: one step per round.

    make_sampler: the sampler of a round, from the state before it; most samplers do not look at it.
    """
    state = start(plan.d, rng)
    steps = []
    for i in range(1, plan.rounds + 1):
        sampler = make_sampler(state)
        state = take_round(state, plan.law, plan.band(i), plan.gamma, plan.batch(i), sampler, truth, rng)
        steps.append(Step(state, plan.law.measure_disagreement(state.w, truth).value))
    return steps
