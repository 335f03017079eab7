"""What a run found: curves, areas under them, label savings, paired comparisons, times.

Strategies of one trial share its start, so they are compared trial by trial: the mean of the differences and its t
interval over trials: after the first batch, which one selection made; after the last; and over the whole curve. Several
strategies are compared with one baseline, so each interval has confidence 1 - 0.05 / m for m of them (Bonferroni): a
difference is called one only if its interval leaves zero out.

Label savings are the paper's Table 2: the labels a strategy needs to reach another's best mean score, in percent of the
labels at which the other has it; between two rounds the mean curve is read as a straight line.

What it does not do: draw or write (`pages.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
from scipy.special import stdtrit

from hedgerow.experiments.records import TIMES, Held
from hedgerow.metrics import HIGHER_IS_BETTER
from hedgerow.report import Point, estimate, summarize
from hedgerow.rounds import Round

DOUBT = 0.05  # the chance of calling any difference one where there is none
FEW_TRIALS = 5  # below, a t interval leans on the differences being normal: said wherever it is shown


@dataclass(frozen=True)
class Area:
    """The mean height of a strategy's learning curve over its labels, over trials."""

    strategy: str
    mean: float
    error: float | None


@dataclass(frozen=True)
class Saving:
    """How many labels a strategy needs to reach another's best mean score; None if it never does."""

    strategy: str
    other: str
    best: float
    labels: float | None
    share: float | None  # of the labels at which the other has its best


@dataclass(frozen=True)
class Comparison:
    """A strategy less the baseline, trial by trial: of a round's score, or of the area under the curve."""

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
    """One batch size's."""

    batch_rows: int
    points: tuple[Point, ...]
    areas: tuple[Area, ...]
    savings: tuple[Saving, ...]
    comparisons: tuple[Comparison, ...]
    seconds: Mapping[str, Mapping[str, float]]  # strategy -> part of a round -> median seconds
    select_bytes: Mapping[str, int | None]  # strategy -> the most memory that a selection took beyond its inputs

    def to_json(self) -> dict[str, Any]:
        """In plain types."""
        return asdict(self)

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> "Findings":
        """What `to_json` told."""
        kinds: dict[str, Any] = {"points": Point, "areas": Area, "savings": Saving, "comparisons": Comparison}
        parts = {key: tuple(kind(**one) for one in told[key]) for key, kind in kinds.items()}
        return cls(batch_rows=told["batch_rows"], seconds=told["seconds"], select_bytes=told["select_bytes"], **parts)


def find(held: Held, batch_rows: int, metric: str | None = None) -> Findings:
    """What a run found with one batch size, by the recipe's metric or another."""
    metric = metric or held.recipe["metric"]
    rounds, baseline = held.rounds[batch_rows], held.recipe["baseline"]
    points = summarize(rounds, metric)
    return Findings(
        batch_rows,
        points,
        tuple(Area(name, *estimate(list(areas.values()))) for name, areas in measure_areas(rounds, metric).items()),
        tuple(weigh_savings(points, HIGHER_IS_BETTER[metric])),
        tuple(compare_all(rounds, baseline, metric)),
        find_seconds(rounds),
        find_peaks(rounds),
    )


def measure_areas(rounds: Sequence[Round], metric: str) -> dict[str, dict[int, float]]:
    """strategy -> trial -> area under the learning curve, divided by the labels it spans: a mean score."""
    curves: dict[str, dict[int, list[Round]]] = {}
    for done in rounds:
        curves.setdefault(done.strategy, {}).setdefault(done.trial, []).append(done)
    return {
        name: {trial: measure_area([(one.labeled, one.values[metric]) for one in curve]) for trial, curve in of.items()}
        for name, of in curves.items()
    }


def measure_area(curve: Sequence[tuple[int, float]]) -> float:
    """The area under straight lines from point to point, divided by its width."""
    labeled, values = np.array(sorted(curve), np.float64).T
    return float(np.trapezoid(values, labeled) / (labeled[-1] - labeled[0]))


def weigh_savings(points: Sequence[Point], higher_is_better: bool = True) -> list[Saving]:
    """Every strategy against every other, in the order of the points."""
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
    """The fewest labels at which the curve, straight from point to point, is at `level` or above."""
    curve = sorted(curve)
    if curve[0][1] >= level:
        return float(curve[0][0])
    for (left, low), (right, high) in pairwise(curve):
        if high >= level:
            return left + (right - left) * (level - low) / (high - low)
    return None


def compare_all(rounds: Sequence[Round], baseline: str, metric: str) -> list[Comparison]:
    """Every other strategy against the baseline: the scores after the first and the last batch, and the area."""
    scores: dict[int, dict[str, dict[int, float]]] = {}
    for done in rounds:
        scores.setdefault(done.round, {}).setdefault(done.strategy, {})[done.trial] = done.values[metric]
    areas = measure_areas(rounds, metric)
    others = [name for name in areas if name != baseline]
    return [
        compare_pair(values[name], values[baseline], name, baseline, of, HIGHER_IS_BETTER[metric], len(others))
        for of, values in (("first round", scores[1]), ("last round", scores[max(scores)]), ("area", areas))
        for name in others
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
    """The paired t interval, as wide as one of `comparisons` has to be."""
    differences = [ours[trial] - theirs[trial] for trial in sorted(ours.keys() & theirs.keys())]
    mean, error = estimate(differences)
    if error is None:
        return Comparison(strategy, baseline, of, mean, None, None, 1, "undecided")
    reach_of_t = float(stdtrit(len(differences) - 1, 1 - DOUBT / comparisons / 2)) * error
    low, high = mean - reach_of_t, mean + reach_of_t
    verdict = "undecided"
    if low > 0 or high < 0:
        verdict = "better" if (mean > 0) == higher_is_better else "worse"
    return Comparison(strategy, baseline, of, mean, low, high, len(differences), verdict)


def find_seconds(rounds: Sequence[Round]) -> dict[str, dict[str, float]]:
    """strategy -> part -> median seconds of its rounds: a round during which the machine slept does not count."""
    return {
        name: {part: median(getattr(done, part) for done in several) for part in TIMES}
        for name, several in _list_bought(rounds).items()
    }


def find_peaks(rounds: Sequence[Round]) -> dict[str, int | None]:
    """strategy -> the most memory that one of its selections took, None where no round tells."""
    return {
        name: max((done.select_bytes for done in several if done.select_bytes is not None), default=None)
        for name, several in _list_bought(rounds).items()
    }


def _list_bought(rounds: Sequence[Round]) -> dict[str, list[Round]]:
    """strategy -> its own rounds, which the seed set is not."""
    bought: dict[str, list[Round]] = {}
    for done in rounds:
        if done.round > 0:
            bought.setdefault(done.strategy, []).append(done)
    return bought
