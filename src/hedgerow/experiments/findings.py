"""The statistics of a run: learning curves, areas under them, label savings, paired comparisons, times.

The strategies of a trial share its seed set, so they are compared within trials: the mean of the differences over
trials and its t interval, after the first batch (which depends on one selection alone), after the last batch, and for
the area under the whole curve. Each strategy is compared with the baseline; a strategy with controls (`controls.py`)
also with each of them: the difference is credited to the idea that the control lacks. Further pairs are compared for
the claims of the paper (`claims.py`). A report with m comparisons, in all of its tables and for all batch sizes, gives
each interval the confidence 1 - 0.05 / m (Bonferroni), so all of them hold jointly with 95 %.

The verdict of a comparison is read off its interval, so all verdicts hold jointly too. With the margin delta of the
metric (`EQUIVALENCE`), which does not depend on any result:

- "equal within delta": the interval lies between -delta and delta, whether or not it includes zero (two one-sided
  tests, each at 0.05 / 2m);
- "better", "worse": otherwise, the interval excludes zero;
- "undecided": neither. It is no evidence for equality. Nor is there an interval where the difference is the same in
  every trial, but not zero: scores are counts over a test set, so that happens by chance, with two trials above all;
- "one trial": there is no interval.

Label savings are those of Table 2 in the paper: the labels that a strategy needs to reach the best mean score of
another one, in percent of the labels that the other had at that score. Between two rounds the mean curve is
interpolated linearly.

The check of the training compares models of the same uniform labels: trained round by round, and in one go. It is no
comparison of strategies, and its interval (95 %) is not corrected with theirs.

What it does not do: draw or write (`pages.py`).
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
from scipy.special import stdtrit

from hedgerow.errors import InputError
from hedgerow.experiments.claims import BY_CLUSTERS, Claim, list_claims
from hedgerow.experiments.records import TIMES, Held
from hedgerow.metrics import HIGHER_IS_BETTER
from hedgerow.rounds import Check, Round

SIGNIFICANCE = 0.05  # the probability of any false verdict in a report
# Differences that do not matter, by metric: the same for every run, so that no outcome can move them. A fifth of a
# point of accuracy or average precision cannot be seen in the learning curves of the paper, whose claims are about gaps
# that can; a hundredth of log loss is one percent of the probability of the correct class.
EQUIVALENCE: Mapping[str, float] = {
    "accuracy": 0.002,
    "balanced_accuracy": 0.002,
    "average_precision": 0.002,
    "macro_average_precision": 0.002,
    "log_loss": 0.01,
    "calibration_error": 0.002,
}
ROUNDING = 1e-9  # of the values: differences of scores that vary by less are the same
OPPOSITE = {"better": "worse", "worse": "better"}
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
    share: float | None  # of the labels that the other had at its best; None if these are the seed set, which all share
    at: int | None = None  # the labels that the other had at its best


@dataclass(frozen=True)
class Family:
    """All comparisons of a report, which are corrected together."""

    comparisons: int
    equivalence: float
    significance: float = SIGNIFICANCE

    @property
    def confidence(self) -> float:
        """The confidence of each interval."""
        return 1 - self.significance / self.comparisons

    def judge(self, low: float, high: float, higher_is_better: bool) -> str:
        """The verdict that an interval allows."""
        if -self.equivalence < low and high < self.equivalence:
            return f"equal within {self.equivalence:g}"
        if low > 0 or high < 0:
            return "better" if (low > 0) == higher_is_better else "worse"
        return "undecided"


@dataclass(frozen=True)
class Comparison:
    """A strategy minus another one, within trials: the score of a round, or the area under the curve."""

    strategy: str
    baseline: str
    of: str  # first round, last round or area
    mean: float
    low: float | None  # None without an interval: one trial, or the same difference in all
    high: float | None
    trials: int
    verdict: str  # better, worse, equal within delta, undecided, or one trial

    def flip(self) -> "Comparison":
        """The same comparison the other way round."""
        low, high = (None if end is None else -end for end in (self.high, self.low))
        verdict = OPPOSITE.get(self.verdict, self.verdict)
        return Comparison(self.baseline, self.strategy, self.of, -self.mean, low, high, self.trials, verdict)


@dataclass(frozen=True)
class TrainingCheck:
    """One batch size: the model after the last round of uniform labels, and one trained on all of them in one go.

    The rounds are sound if one go is not better by more than the margin of equivalence; if it is only worse, that is
    no fault of the rounds.
    """

    batch_size: int
    labeled: int
    incremental: float  # means over trials
    one_go: float
    difference: Comparison  # one go minus incremental
    verdict: str


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
    credits: tuple[Comparison, ...] = ()  # of the comparisons: strategies minus their controls

    @property
    def strategies(self) -> tuple[str, ...]:
        """Their names, in the order of the recipe."""
        return tuple(area.strategy for area in self.areas)

    def minus(self, baseline: str) -> tuple[Comparison, ...]:
        """The comparisons of every other strategy with the baseline."""
        return tuple(one for one in self.comparisons if one.baseline == baseline)

    def look_up(self, strategy: str, other: str, of: str) -> Comparison | None:
        """The one comparison of two strategies, in the direction that is asked for; None if it was not made."""
        for one in self.comparisons:
            if one.of == of and {one.strategy, one.baseline} == {strategy, other}:
                return one if one.strategy == strategy else one.flip()
        return None

    def check_claims(self, recipe: str) -> list[tuple[Claim, Comparison]]:
        """The claims of the paper that a recipe can test, each with its comparison."""
        return [
            (claim, found)
            for claim in list_claims(recipe, self.strategies)
            if (found := self.look_up(claim.strategy, claim.other, "area")) is not None
        ]

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


def find_all(held: Held) -> tuple[Findings, ...]:
    """The statistics of a run for every batch size."""
    return tuple(find(held, batch_size) for batch_size in held.rounds)


def find(held: Held, batch_size: int, metric: str | None = None) -> Findings:
    """The statistics of a run for one batch size, by the metric of the recipe or another.

    Its comparisons are corrected together with those of the other batch sizes.
    """
    metric = metric or held.recipe["metric"]
    rounds = held.rounds[batch_size]
    points = summarize(rounds, metric)
    found = Findings(
        batch_size,
        points,
        tuple(Area(name, *estimate(list(areas.values()))) for name, areas in measure_areas(rounds, metric).items()),
        tuple(weigh_savings(points, HIGHER_IS_BETTER[metric])),
        tuple(compare_all(rounds, list_comparisons(held.recipe), metric, gather_family(held.recipe, metric))),
        find_seconds(rounds),
        find_peaks(rounds),
    )
    credited = [
        found.look_up(ours, control, of)
        for of in list_measures(held.recipe)
        for ours, control in list_controlled(held.recipe)
    ]
    return replace(found, credits=tuple(one for one in credited if one is not None))


def gather_family(recipe: Mapping[str, Any], metric: str | None = None) -> Family:
    """The comparisons of a report, of all batch sizes."""
    metric = metric or recipe["metric"]
    return Family(len(list_comparisons(recipe)) * len(recipe["batch_size"]), EQUIVALENCE[metric])


def list_comparisons(recipe: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """(strategy, other, of) for every comparison of one batch size, each once: its reverse is the same comparison."""
    names = [arm["name"] for arm in recipe["strategies"]]
    measures = list_measures(recipe)
    wanted = [(name, recipe["baseline"], of) for of in measures for name in names if name != recipe["baseline"]]
    wanted += [(ours, control, of) for of in measures for ours, control in list_controlled(recipe)]
    wanted += [(claim.strategy, claim.other, "area") for claim in list_claims(recipe["name"], names)]
    for ours, theirs in BY_CLUSTERS:
        wanted += [(ours, theirs, of) for of in ("first round", "area") if {ours, theirs} <= set(names)]
    listed: dict[tuple[Collection[str], str], tuple[str, str, str]] = {}
    for ours, theirs, of in wanted:
        listed.setdefault((frozenset((ours, theirs)), of), (ours, theirs, of))
    return tuple(listed.values())


def list_measures(recipe: Mapping[str, Any]) -> tuple[str, ...]:
    """What is compared: scores after the first and the last round, which may be the same, and the area."""
    return ("first round", "last round", "area") if recipe["rounds"] > 1 else ("first round", "area")


def list_controlled(recipe: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(strategy, its control) for every control of a recipe as it is stored, in the order of the strategies."""
    arms = recipe["strategies"]
    return [
        (ours["name"], control["name"])
        for ours in arms
        for control in arms
        if ours["name"] in control.get("control_of", ())
    ]


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
    """Every strategy compared with every other, in the order of the points.

    There is nothing to reach, so no saving, where the other strategy is best with the seed set.
    """
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
            start = min(curves[other])[0]
            labels = reach(curves[name], best) if at > start else None  # all strategies share the seed set
            share = None if labels is None else labels / at
            found.append(Saving(name, other, sign * best, labels, share, at))
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


def compare_all(
    rounds: Sequence[Round], wanted: Iterable[tuple[str, str, str]], metric: str, family: Family
) -> list[Comparison]:
    """Every wanted (strategy, other, of): the score after the first or the last batch, or the area."""
    scores: dict[int, dict[str, dict[int, float]]] = {}
    for done in rounds:
        scores.setdefault(done.round, {}).setdefault(done.strategy, {})[done.trial] = done.values[metric]
    values = {"first round": scores[1], "last round": scores[max(scores)], "area": measure_areas(rounds, metric)}
    return [
        compare_pair((ours, values[of][ours]), (theirs, values[of][theirs]), of, HIGHER_IS_BETTER[metric], family)
        for ours, theirs, of in wanted
    ]


def compare_pair(
    ours: tuple[str, Mapping[int, float]],
    theirs: tuple[str, Mapping[int, float]],
    of: str,
    higher_is_better: bool,
    family: Family,
) -> Comparison:
    """Two strategies, each as (name, trial -> value): the paired t interval and its verdict."""
    (strategy, minuends), (baseline, subtrahends) = ours, theirs
    differences = [minuends[trial] - subtrahends[trial] for trial in sorted(minuends.keys() & subtrahends.keys())]
    mean, error = estimate(differences)
    if error is None:
        return Comparison(strategy, baseline, of, mean, None, None, 1, "one trial")
    rounding = ROUNDING * max(map(abs, (*minuends.values(), *subtrahends.values())))
    if max(differences) - min(differences) <= rounding < abs(mean):
        return Comparison(strategy, baseline, of, mean, None, None, len(differences), "undecided")
    quantile = float(stdtrit(len(differences) - 1, 1 - (1 - family.confidence) / 2))
    low, high = mean - quantile * error, mean + quantile * error
    verdict = family.judge(low, high, higher_is_better)
    return Comparison(strategy, baseline, of, mean, low, high, len(differences), verdict)


def check_training(
    recipe: Mapping[str, Any], rounds: Mapping[int, Sequence[Round]], checks: Iterable[Check]
) -> tuple[TrainingCheck, ...]:
    """For every batch size that has checks: uniform labels, trained in one go and round by round."""
    metric = recipe["metric"]
    scores: dict[int, dict[int, float]] = {}
    labeled, names = {}, {}
    for one in checks:
        scores.setdefault(one.batch_size, {})[one.trial] = one.values[metric]
        labeled[one.batch_size], names[one.batch_size] = one.labeled, one.strategy
    found = []
    for size, one_go in sorted(scores.items()):
        incremental = {
            done.trial: done.values[metric]
            for done in rounds[size]
            if (done.strategy, done.round) == (names[size], recipe["rounds"]) and done.trial in one_go
        }
        by_rounds, at_once = (float(np.mean(list(values.values()))) for values in (incremental, one_go))
        single = Family(1, EQUIVALENCE[metric])
        given = (("in one go", one_go), ("round by round", incremental))
        difference = compare_pair(*given, "last round", HIGHER_IS_BETTER[metric], single)
        verdict = judge_training(difference, EQUIVALENCE[metric], HIGHER_IS_BETTER[metric])
        found.append(TrainingCheck(size, labeled[size], by_rounds, at_once, difference, verdict))
    return tuple(found)


def judge_training(one: Comparison, equivalence: float, higher_is_better: bool) -> str:
    """What the difference of one go from the rounds says about the rounds."""
    if one.low is None or one.high is None:
        return "one trial: no verdict" if one.trials == 1 else "undecided: the same difference in every trial"
    least, most = (one.low, one.high) if higher_is_better else (-one.high, -one.low)
    if most < equivalence:
        return f"sound: one go gains less than {equivalence:g}"
    if least > 0:
        return f"not sound: one go gains {least:.4f} to {most:.4f}"
    return f"undecided: one go may gain {most:.4f}"


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
