"""Which strategy to use for the next batch, measured on the pool itself: `advise`.

It selects batches as `select` would, counts their near-copies, compares them with what shuffled clusters give, and
looks up the result in a table of rules (`rules.py`). Every number and every rule is part of the answer. What it does
not do: train a model, or know more than the runs behind the rules.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hedgerow import checks
from hedgerow.advice.measuring import Question, measure
from hedgerow.advice.records import Calibration, Measurements, SimulatedBatch
from hedgerow.advice.rules import Rule, judge, list_options
from hedgerow.advice.wording import explain, list_conditions, list_missing, name_choice
from hedgerow.clustering import hac
from hedgerow.progress import Progress, watch

__all__ = ["Advice", "Calibration", "Measurements", "Reason", "SimulatedBatch", "advise", "give_advice"]


@dataclass(frozen=True)
class Reason:
    """A rule that holds. conditions: each measurement and its threshold; evidence: pages of the documentation."""

    rule: str
    conditions: tuple[str, ...]
    text: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Advice:
    """Which strategy to use, why, and what was measured. `print(advice)` explains all of it.

    strategy, options: as `select` (or `select_pairs`) takes them. decided: whether the runs behind the advice decided
    it; if not, the strategy is the choice that nothing measured speaks against. reason: the rule that gave the advice.
    notes: other rules that hold. missing: what some rules could not be applied without.
    """

    strategy: str
    options: Mapping[str, float]
    decided: bool
    reason: Reason
    notes: tuple[Reason, ...]
    missing: tuple[str, ...]
    measurements: Measurements

    def __str__(self) -> str:
        return explain(self)

    @property
    def choice(self) -> str:
        """The strategy and its options in words, such as "cluster-margin, margin_factor 3"."""
        return name_choice(self.strategy, self.options)

    def to_json(self) -> dict[str, Any]:
        """Everything in the types of JSON."""
        return asdict(self) | {"options": dict(self.options), "measurements": self.measurements.to_json()}


def advise(
    k: int,
    *,
    probabilities: Any = None,
    margins: Any = None,
    logits: Any = None,
    predictions: Any = None,
    clusters: Any = None,
    embeddings: Any = None,
    pairs: Any = None,
    labeled: Any = None,
    labels: Any = None,
    holdout: Any = None,
    classes: int | None = None,
    metric: str | None = None,
    seed: int = 0,
    ignore_unknown: bool = False,
    column: str | None = None,
    id_column: str | None = None,
    class_column: str | None = None,
    label_column: str | None = None,
    progress: Progress | bool | None = None,
) -> Advice:
    """Which strategy to use for the next k labels, from what is known before they are bought.

    probabilities, margins, logits, predictions, clusters, embeddings, labeled, ignore_unknown, column and id_column are
    those of `select`; with pairs, those of `select_pairs`, and class_column too. Predictions are needed; the more of
    the rest is given, the more rules can be tested. With embeddings, near-copies are also measured by distance.

    labels: one per entry of `labeled` (class numbers or names; for pairs, answers 0 or 1), or one per row of the pool.
    Files given as `labeled` may have them in a column, label or what label_column says. holdout: predictions with
    labels that the model was not trained on, for its calibration: a table or file with both, or a tuple. classes: how
    many there are, where predictions are margins. metric: of distances between embeddings, for clusters that do not say
    with which one they were made, such as an array; without it, cosine distance is assumed for these.

    The batches that are simulated are those of `select` with the same seed. O(n) time and a few bytes per row beyond
    the inputs.
    """
    checked = checks.integer(k, "k", least=1), checks.seed(seed)
    count = None if classes is None else checks.integer(classes, "classes", least=1)
    if metric is not None:
        checks.option(metric, "metric", hac.METRICS)
    sources = {"probabilities": probabilities, "margins": margins, "logits": logits, "predictions": predictions}
    sources |= {"embeddings": embeddings, "clusters": clusters, "pairs": pairs}
    columns = {"predictions": column, "ids": id_column, "classes": class_column, "labels": label_column}
    question = Question(
        checked[0], sources, labeled, labels, holdout, count, metric, checked[1], ignore_unknown, columns
    )
    with watch(progress) as report:
        return give_advice(measure(question, report))


def give_advice(measured: Measurements) -> Advice:
    """The advice that the rules give for these measurements, which may have been stored."""
    judgment = judge(measured)
    rule = judgment.rule
    assert rule.strategy is not None
    return Advice(
        rule.strategy,
        list_options(rule, measured),
        rule.decided and not judgment.untested,
        _as_reason(rule, measured),
        tuple(_as_reason(note, measured) for note in judgment.notes),
        list_missing(judgment.untested, measured),
        measured,
    )


def _as_reason(rule: Rule, measured: Measurements) -> Reason:
    return Reason(rule.name, list_conditions(rule, measured), rule.reason, rule.evidence)
