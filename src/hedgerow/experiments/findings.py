"""The statistics of a run: learning curves, areas under them, label savings, paired comparisons, times.

The strategies of a trial share its seed set, so they are compared within trials: the mean of the differences over
trials and its t interval, after the first batch (which depends on one selection alone), after the last batch, and for
the area under the whole curve. Several strategies are compared with one baseline, so each of m intervals has confidence
1 - 0.05 / m (Bonferroni). A difference is significant if its interval excludes zero. A strategy with controls
(`controls.py`) is also compared with each of them: the difference is credited to the idea that the control lacks.

Label savings are those of Table 2 in the paper: the labels that a strategy needs to reach the best mean score of
another one, in percent of the labels that the other had at that score. Between two rounds the mean curve is
interpolated linearly.

What it does not do: draw or write (`pages.py`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
from scipy.special import stdtrit

from hedgerow.errors import InputError
from hedgerow.experiments.records import TIMES, Held
from hedgerow.metrics import HIGHER_IS_BETTER
from hedgerow.rounds import Round

SIGNIFICANCE = 0.05  # the probability of any false positive among the comparisons with one baseline
FEW_TRIALS = 5  # with fewer, t intervals depend much on the differences being normal, which reports then say


@dataclass(frozen=True)
class Point:
    """One point of a learning curve: the mean of a metric over trials, and its standard error (None for one trial)."""

    strategy: str
    round: int
    labeled: int
    mean: float
    error: float | None
    trials: int

    def __str__(self) -> str:
        return format(self, "")

    def __format__(self, sign: str) -> str:
        """The mean ± its error, with three decimals, or four if the error is below 0.001.

        With "+" a positive mean has a sign, for differences.
        """
        places = 4 if self.error is not None and self.error < 0.001 else 3
        mean = f"{self.mean:{sign}.{places}f}"
        return mean if self.error is None else f"{mean} ± {self.error:.{places}f}"


@dataclass(frozen=True)
class Area:
    """The area under a learning curve divided by its width, a mean score: mean and standard error over trials."""

    strategy: str
    mean: float
    error: float | None


@dataclass(frozen=True)
class Saving:
    """The labels that a strategy needs to reach the best mean score of another; None if it never reaches it."""

    strategy: str
    other: str
    best: float
    labels: float | None
    share: float | None  # of the labels that the other had at its best


@dataclass(frozen=True)
class Comparison:
    """A strategy minus the baseline, within trials: the score of a round, or the area under the curve."""

    strategy: str
    baseline: str
    of: str  # first round, last round or area
    mean: float
    low: float | None
    high: float | None
    trials: int
    verdict: str  # better, worse or undecided


@dataclass(frozen=True)
class Findings:
    """The statistics for one batch size."""

    batch_size: int
    points: tuple[Point, ...]
    areas: tuple[Area, ...]
    savings: tuple[Saving, ...]
    comparisons: tuple[Comparison, ...]
    seconds: Mapping[str, Mapping[str, float]]  # strategy -> part of a round -> median seconds
    select_bytes: Mapping[str, int | None]  # strategy -> the largest memory of a selection beyond its inputs
    credits: tuple[Comparison, ...] = ()  # strategies minus their controls

    def to_json(self) -> dict[str, Any]:
        """In the types of JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "Findings":
        """The inverse of `to_json`."""
        kinds: dict[str, Any] = {"points": Point, "areas": Area, "savings": Saving, "comparisons": Comparison}
        parts = {key: tuple(kind(**one) for one in found[key]) for key, kind in kinds.items()}
        parts["credits"] = tuple(Comparison(**one) for one in found.get("credits", ()))  # absent in earlier versions
        return cls(found["batch_size"], seconds=found["seconds"], select_bytes=found["select_bytes"], **parts)


def find(held: Held, batch_size: int, metric: str | None = None) -> Findings:
    """The statistics of a run for one batch size, by the metric of the recipe or another."""
    metric = metric or held.recipe["metric"]
    rounds, baseline = held.rounds[batch_size], held.recipe["baseline"]
    points = summarize(rounds, metric)
    return Findings(
        batch_size,
        points,
        tuple(Area(name, *estimate(list(areas.values()))) for name, areas in measure_areas(rounds, metric).items()),
        tuple(weigh_savings(points, HIGHER_IS_BETTER[metric])),
        tuple(compare_all(rounds, baseline, metric)),
        find_seconds(rounds),
        find_peaks(rounds),
        tuple(compare_pairs(rounds, list_controlled(held.recipe), metric)),
    )


def summarize(rounds: Iterable[Round], metric: str = "accuracy") -> tuple[Point, ...]:
    """Mean and standard error over trials for every strategy and round, in order of first appearance."""
    groups: dict[tuple[str, int], list[Round]] = {}
    for done in rounds:
        groups.setdefault((done.strategy, done.round), []).append(done)
    points = []
    for (strategy, number), several in groups.items():
        labeled = {done.labeled for done in several}
        if len(labeled) > 1:
            raise InputError(f"trials of {strategy!r} differ in labels after round {number}: {sorted(labeled)}")
        values = [done.values[metric] for done in several]
        points.append(Point(strategy, number, labeled.pop(), *estimate(values), len(values)))
    return tuple(points)


def subtract_baseline(rounds: Iterable[Round], baseline: str, metric: str = "accuracy") -> list[Round]:
    """The rounds of the other strategies, with the score of the baseline in the same trial and round subtracted."""
    rounds = tuple(rounds)
    level = {(done.trial, done.round): done.values[metric] for done in rounds if done.strategy == baseline}
    return [
        replace(done, values={metric: done.values[metric] - level[done.trial, done.round]})
        for done in rounds
        if done.strategy != baseline
    ]


def compare(rounds: Iterable[Round], baseline: str, metric: str = "accuracy") -> tuple[Point, ...]:
    """Mean and standard error of the difference of every other strategy from the baseline, within trials."""
    return summarize(subtract_baseline(rounds, baseline, metric), metric)


def estimate(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean and its standard error, s / sqrt(t) with t - 1 in the variance; None for one value."""
    array = np.asarray(values, np.float64)
    error = float(array.std(ddof=1) / math.sqrt(len(array))) if len(array) > 1 else None
    return float(array.mean()), error


def measure_areas(rounds: Sequence[Round], metric: str) -> dict[str, dict[int, float]]:
    """strategy -> trial -> area under the learning curve, divided by its width: a mean score."""
    curves: dict[str, dict[int, list[Round]]] = {}
    for done in rounds:
        curves.setdefault(done.strategy, {}).setdefault(done.trial, []).append(done)
    return {
        name: {trial: measure_area([(one.labeled, one.values[metric]) for one in curve]) for trial, curve in of.items()}
        for name, of in curves.items()
    }


def measure_area(curve: Sequence[tuple[int, float]]) -> float:
    """The area under a piecewise linear curve, divided by its width."""
    labeled, values = np.array(sorted(curve), np.float64).T
    return float(np.trapezoid(values, labeled) / (labeled[-1] - labeled[0]))


def weigh_savings(points: Sequence[Point], higher_is_better: bool = True) -> list[Saving]:
    """Every strategy compared with every other, in the order of the points."""
    sign = 1 if higher_is_better else -1
    curves: dict[str, list[tuple[int, float]]] = {}
    for point in points:
        curves.setdefault(point.strategy, []).append((point.labeled, sign * point.mean))
    found = []
    for name in curves:
        for other in curves:
            if other == name:
                continue
            at, best = max(sorted(curves[other]), key=lambda pair: pair[1])
            labels = reach(curves[name], best)
            share = None if labels is None else labels / at
            found.append(Saving(name, other, sign * best, labels, share))
    return found


def reach(curve: Sequence[tuple[int, float]], level: float) -> float | None:
    """The smallest number of labels at which the piecewise linear curve reaches `level`."""
    curve = sorted(curve)
    if curve[0][1] >= level:
        return float(curve[0][0])
    for (left, low), (right, high) in pairwise(curve):
        if high >= level:
            return left + (right - left) * (level - low) / (high - low)
    return None


def compare_all(rounds: Sequence[Round], baseline: str, metric: str) -> list[Comparison]:
    """Every other strategy minus the baseline: the score after the first and the last batch, and the area."""
    others = [name for name in dict.fromkeys(done.strategy for done in rounds) if name != baseline]
    return compare_pairs(rounds, [(name, baseline) for name in others], metric)


def list_controlled(recipe: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(strategy, its control) for every control of a recipe as it is stored, in the order of the strategies."""
    arms = recipe["strategies"]
    return [
        (ours["name"], control["name"])
        for ours in arms
        for control in arms
        if ours["name"] in control.get("control_of", ())
    ]


def compare_pairs(rounds: Sequence[Round], pairs: Sequence[tuple[str, str]], metric: str) -> list[Comparison]:
    """Strategies minus others, with intervals that hold jointly: after the first and the last batch, and the area."""
    if not pairs:
        return []
    scores: dict[int, dict[str, dict[int, float]]] = {}
    for done in rounds:
        scores.setdefault(done.round, {}).setdefault(done.strategy, {})[done.trial] = done.values[metric]
    areas = measure_areas(rounds, metric)
    return [
        compare_pair(values[ours], values[theirs], ours, theirs, of, HIGHER_IS_BETTER[metric], len(pairs))
        for of, values in (("first round", scores[1]), ("last round", scores[max(scores)]), ("area", areas))
        for ours, theirs in pairs
    ]


def compare_pair(
    ours: Mapping[int, float],
    theirs: Mapping[int, float],
    strategy: str,
    baseline: str,
    of: str,
    higher_is_better: bool,
    comparisons: int,
) -> Comparison:
    """The paired t interval, with the confidence of one among several `comparisons`."""
    differences = [ours[trial] - theirs[trial] for trial in sorted(ours.keys() & theirs.keys())]
    mean, error = estimate(differences)
    if error is None:
        return Comparison(strategy, baseline, of, mean, None, None, 1, "undecided")
    half_width = float(stdtrit(len(differences) - 1, 1 - SIGNIFICANCE / comparisons / 2)) * error
    low, high = mean - half_width, mean + half_width
    verdict = "undecided"
    if low > 0 or high < 0:
        verdict = "better" if (mean > 0) == higher_is_better else "worse"
    return Comparison(strategy, baseline, of, mean, low, high, len(differences), verdict)


def find_seconds(rounds: Sequence[Round]) -> dict[str, dict[str, float]]:
    """strategy -> part -> median seconds of its rounds: robust to a round in which the machine was suspended."""
    return {
        name: {part: median(getattr(done, part) for done in several) for part in TIMES}
        for name, several in _list_rounds(rounds).items()
    }


def find_peaks(rounds: Sequence[Round]) -> dict[str, int | None]:
    """strategy -> the largest memory of one of its selections, None where it is not known."""
    return {
        name: max((done.select_bytes for done in several if done.select_bytes is not None), default=None)
        for name, several in _list_rounds(rounds).items()
    }


def _list_rounds(rounds: Sequence[Round]) -> dict[str, list[Round]]:
    """strategy -> its rounds without round 0, which is shared."""
    found: dict[str, list[Round]] = {}
    for done in rounds:
        if done.round > 0:
            found.setdefault(done.strategy, []).append(done)
    return found
