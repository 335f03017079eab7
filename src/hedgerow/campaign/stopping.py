"""Whether to stop labeling: advice by rules from the literature, and by the holdout that no strategy ever picks.

A rule reads what is known after each round and gives one of three verdicts, with the number that it is based on, its
threshold and where that comes from. Rules that need no labels beyond those of the batches:

- stabilizing predictions: successive models say the same about a fixed set of unlabeled rows, the stop set;
- predicted change of F: the F-measure of successive models can differ by little;
- falling confidence: the model's confidence on the stop set has passed its peak;
- selected accuracy: the model already knew the answers of the batch that it was least sure of.

Rules that read the holdout, the only unbiased ones:

- gradient: what the next batch would add if the learning curve went on as in the last rounds;
- plateau: what the last rounds added.

And `budget`, which is no statistic. The thresholds of the literature were chosen for batches of one to a few dozen; a
number of labels per round that is much larger makes two successive models differ more, so these rules then stop late
rather than early. All randomness (the bootstrap of the holdout) comes from a seed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.campaign.quality import find_kappa, find_wilson
from hedgerow.errors import InputError

Series = tuple[tuple[int, float], ...]  # (labels, statistic) by round

STOP, GO_ON, CANNOT_TELL = "stop", "go on", "cannot tell"
WINDOW = 3  # rounds that a rule looks back over: Bloodgood and Vijay-Shanker (2009), Vlachos (2008)
DRAWS = 2000  # bootstrap samples: the ends of a 95 % interval then move in the third digit of its width
LEAST_STOP_SET = 500  # with fewer rows one changed prediction is more than a fifth of the threshold of kappa


@dataclass(frozen=True, eq=False)
class Progress:
    """What is known after a round, that is, about one model.

    labels: how many labels the model was trained on. right: for every labeled row (or pair) of the holdout, whether the
    model has it right, in the same order every round. predictions: the model's classes (0 and 1 for pairs) on the stop
    set, the same rows every round. confidence: the mean margin on the stop set. picked: (guesses that were right,
    answers) for the batch that this model picked. What is not known is None.
    """

    labels: int
    right: npt.NDArray[np.bool_] | None = None
    predictions: npt.NDArray[np.int64] | None = None
    confidence: float | None = None
    picked: tuple[int, int] | None = None


@dataclass(frozen=True)
class Settings:
    """What the user decides. least_gain: a smaller gain of the metric per batch is not worth its labels.

    batch: the labels of the next batch (None: as many as the last one had). budget: the labels that are paid for;
    spent: how many of them (None: those of the last round). pairs: whether predictions are yes and no for pairs.
    """

    least_gain: float = 0.005
    batch: int | None = None
    budget: int | None = None
    spent: int | None = None
    pairs: bool = False
    confidence: float = 0.95
    seed: int = 0


@dataclass(frozen=True)
class Finding:
    """What a rule found. low, high: the ends of an interval for the statistic, if the rule has one.

    series: (labels, statistic) of every round that has one, to be drawn with the threshold.
    """

    verdict: str
    reason: str
    statistic: float | None = None
    low: float | None = None
    high: float | None = None
    series: Series = ()


@dataclass(frozen=True)
class Rule:
    """A rule. threshold: as a number; origin: where it comes from. unbiased: it reads the holdout."""

    name: str
    needs: str
    statistic: str
    threshold: float
    origin: str
    citation: str
    judge: Callable[[Sequence[Progress], Settings, float], Finding] = field(repr=False)
    unbiased: bool = False


@dataclass(frozen=True)
class RuleAdvice:
    """A rule and what it found."""

    rule: Rule
    threshold: float
    found: Finding

    def to_json(self) -> dict[str, Any]:
        """In the types of JSON."""
        rule, found = self.rule, self.found
        threshold = self.threshold if np.isfinite(self.threshold) else None
        return {
            "rule": rule.name, "verdict": found.verdict, "reason": found.reason, "statistic": found.statistic,
            "low": found.low, "high": found.high, "threshold": threshold, "measures": rule.statistic,
            "needs": rule.needs, "origin": rule.origin, "citation": rule.citation,
            "series": [list(point) for point in found.series],
        }  # fmt: skip


@dataclass(frozen=True)
class StopAdvice:
    """The verdicts of all rules, and the one that they add up to.

    A spent budget means stop. Otherwise the rules that read the holdout decide, because only they are unbiased: go on
    if one of them says so, else stop if one of them says so. The other rules are there to be compared with them; alone
    they decide nothing.
    """

    verdict: str
    reason: str
    rules: tuple[RuleAdvice, ...]

    def to_json(self) -> dict[str, Any]:
        """In the types of JSON."""
        return {"verdict": self.verdict, "reason": self.reason, "rules": [one.to_json() for one in self.rules]}


def advise_stopping(rounds: Sequence[Progress], settings: Settings | None = None) -> StopAdvice:
    """Apply every rule to the rounds so far, oldest first."""
    settings = settings or Settings()
    _check(rounds, settings)
    advice = []
    for rule in RULES:
        threshold = settings.least_gain if rule.unbiased else rule.threshold
        if rule.name == BUDGET.name:
            threshold = settings.budget if settings.budget is not None else np.inf
        advice.append(RuleAdvice(rule, float(threshold), rule.judge(rounds, settings, float(threshold))))
    verdict, reason = _add_up(advice)
    return StopAdvice(verdict, reason, tuple(advice))


def _add_up(advice: Sequence[RuleAdvice]) -> tuple[str, str]:
    by_name = {one.rule.name: one.found for one in advice}
    holdout = [one for one in advice if one.rule.unbiased]
    says: Mapping[str, list[str]] = {
        verdict: [one.rule.name for one in holdout if one.found.verdict == verdict] for verdict in (STOP, GO_ON)
    }
    if by_name[BUDGET.name].verdict == STOP:
        return STOP, by_name[BUDGET.name].reason
    if says[GO_ON]:
        return GO_ON, f"The holdout still gains ({', '.join(says[GO_ON])})."
    agreeing = [one.rule.name for one in advice if not one.rule.unbiased and one.found.verdict == STOP]
    if says[STOP]:
        more = f", and so {'say' if len(agreeing) > 1 else 'says'} {', '.join(agreeing)}" if agreeing else ""
        return STOP, f"The holdout gains too little to pay for another batch ({', '.join(says[STOP])}){more}."
    if agreeing:
        return CANNOT_TELL, f"{', '.join(agreeing)}: stop; but the holdout does not decide it."
    others = [one.rule.name for one in advice if one.found.verdict == GO_ON and one.rule is not BUDGET]
    if others:
        return CANNOT_TELL, f"{', '.join(others)}: go on; but the holdout does not decide it."
    return CANNOT_TELL, "No rule has enough to go on: see what each of them needs."


# Rules that need no holdout.


def _judge_stability(rounds: Sequence[Progress], settings: Settings, threshold: float) -> Finding:
    """The mean kappa of the last three pairs of successive models."""
    series = _compare_successive(rounds, find_kappa)
    if (missing := _lack_predictions(rounds)) is not None:
        return Finding(CANNOT_TELL, missing, series=series)
    kappas = [find_kappa(*pair) for pair in _last_pairs(rounds)]
    if None in kappas:
        return Finding(CANNOT_TELL, "The models predict one class for the whole stop set.", series=series)
    mean = float(np.mean([kappa for kappa in kappas if kappa is not None]))
    steady = mean >= threshold
    reason = (
        f"The last {WINDOW + 1} models {'agree' if steady else 'do not agree enough'} on the stop set: "
        f"mean kappa {mean:.3f}, {threshold:g} is needed."
    )
    return Finding(STOP if steady else GO_ON, reason, mean, series=series)


def _judge_change_of_f(rounds: Sequence[Progress], settings: Settings, threshold: float) -> Finding:
    """The largest of the last three predicted changes."""

    def change(before: npt.NDArray[np.int64], after: npt.NDArray[np.int64]) -> float | None:
        return predict_change_of_f(before, after, pairs=settings.pairs)

    series = _compare_successive(rounds, change)
    if (missing := _lack_predictions(rounds)) is not None:
        return Finding(CANNOT_TELL, missing, series=series)
    changes = [change(*pair) for pair in _last_pairs(rounds)]
    if None in changes:
        return Finding(CANNOT_TELL, "The models say yes to no pair of the stop set.", series=series)
    largest = max(one for one in changes if one is not None)
    small = largest < threshold
    reason = (
        f"In the last {WINDOW} rounds F changed by at most {largest:.3f}, as predicted from the stop set; "
        f"{'less than' if small else 'not less than'} {threshold:g}."
    )
    return Finding(STOP if small else GO_ON, reason, largest, series=series)


def predict_change_of_f(
    before: npt.NDArray[np.int64], after: npt.NDArray[np.int64], *, pairs: bool = False
) -> float | None:
    """1 - 2a / (2a + b + c), where a rows have the class by both models and b and c by one of them only.

    Averaged over classes, as macro F is; of pairs only yes counts. None if no model predicts any class.
    """
    values, place = np.unique(np.concatenate([before, after]), return_inverse=True)
    x, y = place[: len(before)], place[len(before) :]
    both = np.bincount(x[x == y], minlength=len(values))
    either = np.bincount(x, minlength=len(values)) + np.bincount(y, minlength=len(values))  # 2a + b + c
    changes = 1 - 2 * both / np.maximum(either, 1)
    if pairs:
        changes = changes[values == 1]
    return float(changes.mean()) if len(changes) else None


def _judge_confidence(rounds: Sequence[Progress], settings: Settings, threshold: float) -> Finding:
    """How many rounds in a row the confidence has fallen."""
    known = [(one.labels, one.confidence) for one in rounds if one.confidence is not None]
    series = tuple(known)
    needed = WINDOW + 1
    if len(known) < needed:
        return Finding(
            CANNOT_TELL, f"The confidence of {len(known)} rounds is known; {needed} are needed.", series=series
        )
    falls = 0
    for (_, before), (_, after) in reversed(list(pairwise(known))):
        if after >= before:
            break
        falls += 1
    if falls >= threshold:
        peak = max(known, key=lambda one: one[1])
        reason = f"Confidence has fallen {falls} rounds in a row; its peak was {peak[1]:.3f} at {peak[0]:,} labels."
        return Finding(STOP, reason, float(falls), series=series)
    reason = f"Confidence has fallen {falls} rounds in a row; {threshold:g} are needed."
    return Finding(GO_ON, reason, float(falls), series=series)


def _judge_picks(rounds: Sequence[Progress], settings: Settings, threshold: float) -> Finding:
    """The accuracy of the model's guesses on the last batch that it picked and people answered."""
    known = [(one.labels, *one.picked) for one in rounds if one.picked is not None and one.picked[1] > 0]
    series = tuple((labels, right / asked) for labels, right, asked in known)
    if not known:
        return Finding(CANNOT_TELL, "No batch that a model picked has answers yet.")
    _, right, asked = known[-1]
    low, high = (float(end) for end in find_wilson(right, asked, confidence=settings.confidence))
    verdict = STOP if low >= threshold else GO_ON if high < threshold else CANNOT_TELL
    outcome = {STOP: "surely above", GO_ON: "surely below", CANNOT_TELL: "not surely on one side of"}[verdict]
    reason = (
        f"The model guessed {right / asked:.1%} of the {asked:,} answers of its last batch ({low:.1%} to {high:.1%}): "
        f"{outcome} {threshold:.0%}."
    )
    return Finding(verdict, reason, right / asked, low, high, series)


def _compare_successive(rounds: Sequence[Progress], compare: Callable[..., float | None]) -> Series:
    """(labels of the later model, the statistic of it and the model before)."""
    found = [
        (later.labels, compare(earlier.predictions, later.predictions))
        for earlier, later in pairwise(rounds)
        if earlier.predictions is not None and later.predictions is not None
    ]
    return tuple((labels, value) for labels, value in found if value is not None)


def _last_pairs(rounds: Sequence[Progress]) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    last = [one.predictions for one in rounds[-WINDOW - 1 :] if one.predictions is not None]
    return list(pairwise(last))


def _lack_predictions(rounds: Sequence[Progress]) -> str | None:
    """What is missing to compare the last four models, in a sentence; None if nothing is."""
    known = [one.predictions for one in rounds[-WINDOW - 1 :] if one.predictions is not None]
    if len(known) <= WINDOW:
        return f"{_rounds(len(known))} known by predictions for the stop set; the last {WINDOW + 1} are needed."
    if len(known[-1]) < LEAST_STOP_SET:
        return f"The stop set has {len(known[-1]):,} rows; at least {LEAST_STOP_SET} are needed."
    return None


# Rules that read the holdout.


def _judge_gradient(rounds: Sequence[Progress], settings: Settings, threshold: float) -> Finding:
    """The slope of the learning curve over the last rounds, times the labels of the next batch."""
    series = _curve(rounds)
    last = [one for one in rounds[-WINDOW:] if one.right is not None]
    if len(last) < WINDOW:
        return Finding(CANNOT_TELL, _lack_rounds(len(last)), series=series)
    labels = np.array([one.labels for one in last], np.float64)
    centered = labels - labels.mean()
    weights = centered / float(centered @ centered)  # of least squares: the slope is a weighted sum of accuracies
    batch = settings.batch if settings.batch is not None else last[-1].labels - last[-2].labels
    gains = batch * sum(weight * one.right for weight, one in zip(weights, last, strict=True) if one.right is not None)
    return _weigh(np.asarray(gains), settings, threshold, f"the next {batch:,} labels would add", series)


def _judge_plateau(rounds: Sequence[Progress], settings: Settings, threshold: float) -> Finding:
    """The gain per round over the last two rounds, paired by row."""
    series = _curve(rounds)
    last = [one.right for one in rounds[-WINDOW:] if one.right is not None]
    if len(last) < WINDOW:
        return Finding(CANNOT_TELL, _lack_rounds(len(last)), series=series)
    gains = (last[-1].astype(np.float64) - last[0]) / (WINDOW - 1)
    return _weigh(gains, settings, threshold, f"each of the last {WINDOW - 1} rounds added", series)


def _weigh(
    gains: npt.NDArray[np.float64],
    settings: Settings,
    threshold: float,
    what: str,
    series: Series,
) -> Finding:
    """The verdict from the gain of each row of the holdout: its mean, and an interval by the bootstrap."""
    mean = float(gains.mean())
    low, high = bootstrap_mean(gains, confidence=settings.confidence, seed=settings.seed)
    verdict = STOP if high < threshold else GO_ON if low > 0 else CANNOT_TELL
    outcome = {
        STOP: f"less than {threshold:.1%}",
        GO_ON: "surely a gain",
        CANNOT_TELL: f"a holdout of {len(gains):,} is too small to tell this from nothing",
    }[verdict]
    reason = f"On the holdout {what} {mean:+.1%} ({low:+.1%} to {high:+.1%}): {outcome}."
    return Finding(verdict, reason, mean, low, high, series)


def bootstrap_mean(values: npt.NDArray[Any], *, confidence: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """The percentile interval of a mean under resampling of its values with replacement.

    The values here take few different amounts, so a sample is drawn as how often each amount occurs: one multinomial
    draw instead of as many draws as values.
    """
    amounts, counts = np.unique(values, return_counts=True)
    rng = np.random.default_rng(seed)
    means = rng.multinomial(len(values), counts / len(values), DRAWS) @ amounts / len(values)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _curve(rounds: Sequence[Progress]) -> Series:
    """The learning curve: (labels, share of the holdout that is right)."""
    return tuple((one.labels, float(one.right.mean())) for one in rounds if one.right is not None)


# The budget.


def _judge_budget(rounds: Sequence[Progress], settings: Settings, threshold: float) -> Finding:
    if settings.budget is None:
        return Finding(CANNOT_TELL, "No budget was given.")
    spent = settings.spent if settings.spent is not None else rounds[-1].labels if rounds else 0
    left = settings.budget - spent
    if left <= 0:
        return Finding(STOP, f"The budget of {settings.budget:,} labels is spent.", float(spent))
    return Finding(GO_ON, f"{left:,} of {settings.budget:,} labels are left.", float(spent))


# Input.


def _check(rounds: Sequence[Progress], settings: Settings) -> None:
    checks.real(settings.least_gain, "least_gain", above=0.0)
    checks.seed(settings.seed)
    if not 0 < checks.real(settings.confidence, "confidence") < 1:
        raise InputError(f"confidence must be between 0 and 1, got {settings.confidence:g}")
    for name, least in (("batch", 1), ("budget", 1), ("spent", 0)):
        if getattr(settings, name) is not None:
            checks.integer(getattr(settings, name), name, least=least)
    for before, after in pairwise(rounds):
        if after.labels <= before.labels:
            raise InputError(
                f"rounds must come oldest first, each with more labels: {after.labels:,} follows {before.labels:,}"
            )
    for name, what in (("right", "holdout"), ("predictions", "stop set")):
        sizes = {len(getattr(one, name)) for one in rounds if getattr(one, name) is not None}
        if len(sizes) > 1 or 0 in sizes:
            found = " and ".join(map(str, sorted(sizes)))
            raise InputError(f"every round must be measured on the same {what}, but their sizes are {found}")


def _lack_rounds(count: int) -> str:
    return f"{_rounds(count)} measured on the holdout; the last {WINDOW} are needed."


def _rounds(count: int) -> str:
    return {0: "No round is", 1: "One round is"}.get(count, f"{count} rounds are")


BUDGET = Rule("budget", "a budget", "labels so far", np.inf, "yours to set", "none: arithmetic", _judge_budget)

RULES = (
    Rule(
        "stabilizing predictions",
        "predictions of the last 4 models for a stop set of about 2,000 unlabeled rows",
        "mean of Cohen's kappa over the last 3 pairs of successive models",
        0.99,
        "the paper's, with its window of 3",
        "Bloodgood and Vijay-Shanker, A Method for Stopping Active Learning Based on Stabilizing Predictions and the "
        "Need for User-Adjustable Stopping, CoNLL 2009, pages 39-47",
        _judge_stability,
    ),
    Rule(
        "predicted change of F",
        "predictions of the last 4 models for a stop set",
        "largest of the last 3 predicted changes of F, each the mean over classes (the paper has two classes)",
        0.05,
        "the default of small-text 1.4, with its window of 3",
        "Altschuler and Bloodgood, Stopping Active Learning based on Predicted Change of F Measure for Text "
        "Classification, ICSC 2019, arXiv:1901.09118",
        _judge_change_of_f,
    ),
    Rule(
        "falling confidence",
        "the mean margin on a stop set after each of at least 4 rounds",
        "rounds in a row in which confidence fell",
        3,
        "the paper's: a drop in three consecutive rounds",
        "Vlachos, A stopping criterion for active learning, Computer Speech and Language 22(3), 2008, pages 295-312",
        _judge_confidence,
    ),
    Rule(
        "selected accuracy",
        "answers to a batch that a model picked by its uncertainty, and the model's guesses",
        "share of the guesses that were right, with Wilson's interval",
        0.9,
        "the paper's; out of reach where annotators agree less than this",
        "Zhu, Wang and Hovy, Learning a Stopping Criterion for Active Learning for Word Sense Disambiguation and Text "
        "Classification, IJCNLP 2008 (I08-1048); called selected accuracy in Zhu, Wang, Hovy and Ma, Confidence-Based "
        "Stopping Criteria for Active Learning for Data Annotation, ACM TSLP 6(3), 2010",
        _judge_picks,
    ),
    Rule(
        "gradient",
        "answers for the holdout, and the last 3 models measured on it",
        "gain that the next batch would bring by the slope of the last 3 rounds",
        0.005,
        "least_gain, yours to set: the paper's 0.00005 per step was chosen for steps of one example",
        "Laws and Schütze, Stopping Criteria for Active Learning of Named Entity Recognition, COLING 2008, pages "
        "465-472; they estimate performance without labels, here it is measured on the holdout",
        _judge_gradient,
        unbiased=True,
    ),
    Rule(
        "plateau",
        "answers for the holdout, and the last 3 models measured on it",
        "mean gain per round over the last 2 rounds",
        0.005,
        "least_gain, yours to set",
        "the paired bootstrap is that of Koehn, Statistical Significance Tests for Machine Translation Evaluation, "
        "EMNLP 2004; the rule is hedgerow's own",
        _judge_plateau,
        unbiased=True,
    ),
    BUDGET,
)
