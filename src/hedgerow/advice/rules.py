"""Which strategy to use, from the measurements: a table of rules, in order, each with the evidence behind it.

The first rule whose conditions all hold gives the advice. A rule is decided if the runs that it cites decided it, with
their corrections; the other rules say what is not known. Rules without a strategy are notes: all that hold are given,
except on strategies that cannot be selected. `judge` applies the table and does nothing else: to change the advice,
change the table.

Every threshold lies between two runs, one on each side, and its condition says which.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hedgerow.advice.records import Measurements

ROWS, PAIRS, BOTH = ("row",), ("pair",), ("row", "pair")
SIGNS: Mapping[str, Callable[[float, float], bool]] = {"<": operator.lt, ">=": operator.ge}
OPPOSITE = {"<": ">=", ">=": "<"}


@dataclass(frozen=True)
class Condition:
    """A measurement on one side of a threshold. origin: where the threshold comes from."""

    measurement: str
    sign: str
    threshold: float
    origin: str

    def holds(self, measured: Measurements) -> bool | None:
        """Whether it holds; None if that is not known, or if the measurement cannot reach the threshold."""
        value = measured.find(self.measurement)
        if value is None or measured.find_most(self.measurement) < self.threshold:
            return None
        return SIGNS[self.sign](value, self.threshold)


def _invert(condition: Condition) -> Condition:
    """The other side of the threshold; what is not known is on neither side."""
    return replace(condition, sign=OPPOSITE[condition.sign])


@dataclass(frozen=True)
class Rule:
    """Advice under conditions. units: "row", "pair" or both. strategy: None for a note. evidence: pages of the docs.

    about: the strategies that a note is about, which is given only if they can be selected.
    """

    name: str
    units: tuple[str, ...]
    conditions: tuple[Condition, ...]
    strategy: str | None
    reason: str
    evidence: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    decided: bool = False
    about: tuple[str, ...] = ()

    def holds(self, measured: Measurements) -> bool | None:
        """Whether all conditions hold; None if none fails and one is not known."""
        held = [condition.holds(measured) for condition in self.conditions]
        return False if False in held else None if None in held else True


@dataclass(frozen=True)
class Judgment:
    """The rule that gives the advice, the notes that hold, and the rules before it that could not be applied."""

    rule: Rule
    notes: tuple[Rule, ...]
    untested: tuple[Rule, ...]


def judge(measured: Measurements) -> Judgment:
    """Apply the table."""
    untested: list[Rule] = []
    chosen = None
    for rule in (rule for rule in RULES if measured.unit in rule.units):
        held = rule.holds(measured)
        if held and find_lack(rule, measured) is None:
            chosen = rule
            break
        if held is not False:
            untested.append(rule)
    assert chosen is not None, "the last rule of each unit has no conditions"
    return Judgment(chosen, _list_notes(measured), tuple(untested))


def _list_notes(measured: Measurements) -> tuple[Rule, ...]:
    """The notes that hold; none where all strategies select the same batch."""
    if WHOLE_POOL.holds(measured):
        return ()
    fitting = (note for note in NOTES if measured.unit in note.units and note.holds(measured))
    return tuple(note for note in fitting if find_lack(note, measured) is None)


DRAWN = {"hedge", "stochastic-margin", "uherding"}  # strategies that draw or weigh by margins
CLUSTERED = {"cluster-margin", "cluster-margin-pairs"}
CLUSTERS = "clusters (--clusters FILE)"
CLASSES = "the number of classes (--classes)"


def find_lack(rule: Rule, measured: Measurements) -> str | None:
    """What the strategies of a rule or note cannot be selected without; None if nothing is lacking."""
    named = {rule.strategy, *rule.about}
    if named & DRAWN and not measured.can_draw:
        return "probabilities, or margins from 0 to 1"
    if named & CLUSTERED and measured.n_clusters is None:
        return CLUSTERS
    if rule.strategy == "hedge" and measured.classes is None:
        return CLASSES
    return None


def list_options(rule: Rule, measured: Measurements) -> Mapping[str, Any]:
    """The options of a rule's strategy; for hedge also the number of classes, if the predictions do not tell."""
    if rule.strategy == "hedge" and measured.has_only_margins:
        return {**rule.options, "classes": measured.classes}
    return rule.options


SWEEP, BY_CLUSTERS = "results/sweep-digits.md#by-batch-size", "savings.md#rows"
SAVINGS = "savings.md#copies"
UNSEEN = "advise.md#on-other-pools"
REGIMES = "regimes.md#regrets"
FEW_LABELS = ("results/bibtex.md", "results/corel5k.md", "results/delicious.md")

# Thresholds, each with the runs on both sides of it. What the recipes measure before their first batch is in
# experiments/advice.json.
ENOUGH_COPIES = Condition(
    "margin_sharing",
    ">=",
    0.25,
    "cifar10, where cluster-margin equals margin: 3 %; sweep-digits: undecided at 16 % and 31 % (batches of 100 and "
    "300), a gain at 57 % (batches of 1,000)",
)
MEANINGFUL = Condition("agreement", ">=", 0.1, "shuffled clusters have 0.0, those of sweep-digits 0.4")
TIGHT = Condition(
    "tightness",
    "<",
    0.29,
    "sweep-digits has 0.05, and 0.20 to 0.26 with clusters of its pixels, which gained as much over shuffled ones; "
    "cifar10 with clusters of 10 rows, which are not copies, 0.32",
)
BEYOND_CHANCE = Condition(
    "excess_sharing",
    ">=",
    0.33,
    "wordlangs-small and wordlangs-typos, where real clusters were behind shuffled ones: -16 % and -2 %; words of "
    "experiments/savings.py, over pairs: no gain at 17 % (no copies) and 24 % (80 % misspelled copies), a gain at 34 % "
    "(pairs proposed by a classifier), 42 % (95 % misspelled), 44 % and 60 % (exact copies)",
)
INDEPENDENT = Condition(
    "exclusive",
    "<",
    0.5,
    "0 with an independent probability for each class; 1 with a softmax, where clusters were behind on words and on "
    "CIFAR-100, although the picks that shared a cluster were 37 points above chance",
)
LARGE_BATCH = Condition("batch_to_labels", ">=", 6, "sweep-digits: undecided at 1 and 3, a gain at 10 and 30")
NEAR_COPIES = (ENOUGH_COPIES, MEANINGFUL, TIGHT)
FEW_CLUSTERS = Condition(
    "margin_clusters",
    "<",
    45,
    "pools of rows in experiments/unseen.py with copies: 22, 36, 22 and 40, a gain on each, decided on three; without: "
    "33, no difference, and 60, a loss",
)
FULL_OF_COPIES = (FEW_CLUSTERS, MEANINGFUL, TIGHT)
FEW = Condition("labels_per_class", "<", 5, "cells of the regimes: digits-1 has 1, digits-large 2, copies-10 has 10")
HAS_CLUSTERS = Condition("n_clusters", ">=", 1, "clusters are given")
WHOLE_POOL = Condition("batch_to_pool", ">=", 1, "the batch is all that is unlabeled")

RULES = (
    Rule(
        "whole pool",
        BOTH,
        (WHOLE_POOL,),
        "random",
        "Every strategy selects the same batch.",
        (),
        decided=True,
    ),
    Rule(
        "few labels, rows",
        ROWS,
        (FEW, HAS_CLUSTERS),
        "hedge",
        "With one or two labels per class, hedge was ahead of random, and nothing was shown to be ahead of it.",
        (REGIMES,),
        decided=True,
    ),
    Rule(
        "few labels, margin",
        ROWS,
        (FEW,),
        "margin",
        "With one label per class, margin was ahead of random on digits; with two, and batches ten times the labels so "
        "far, this is undecided.",
        (REGIMES,),
    ),
    Rule(
        "full of near-copies",
        ROWS,
        FULL_OF_COPIES,
        "cluster-margin",
        "Where a margin batch asked about the same clusters more than twice, a factor of 3 was ahead of margin on "
        "every pool with copies, and on all of those that were run after this rule was written it was ahead of random "
        "and of shuffled clusters, too. On the one data set where this holds without copies, nothing is decided.",
        (UNSEEN,),
        options={"margin_factor": 3.0},
        decided=True,
    ),
    Rule(
        "near-copies, large batch",
        ROWS,
        (*NEAR_COPIES, LARGE_BATCH),
        "cluster-margin",
        "On such a pool a factor of 3 was ahead of margin after the first batch of 1,000 and 3,000, and over the whole "
        "curve with batches of 1,000. The gain is due to the clusters: with shuffled ones it was not ahead. After the "
        "fourth batch it was gone: measure again before the next one. On other pools it was ahead where there were "
        "copies, but these conditions also hold on pools without any, where hedge had the higher mean.",
        (SWEEP, BY_CLUSTERS, UNSEEN),
        options={"margin_factor": 3.0},
    ),
    Rule(
        "near-copies, small batch",
        ROWS,
        (*NEAR_COPIES, _invert(LARGE_BATCH)),
        "margin",
        "With batches of 100 and 300 nothing was decided between margin and cluster-margin, with any factor. Few picks "
        "shared a cluster beyond chance there (31 % and 26 % by chance): where many do, compare the two on your pool.",
        (SWEEP, BY_CLUSTERS),
    ),
    Rule(
        "meaningless clusters",
        ROWS,
        (_invert(MEANINGFUL),),
        "margin",
        "Rows of one cluster are no more alike than rows of different clusters, as if the clusters were shuffled, and "
        "with shuffled clusters nothing was ahead of margin over the whole curve.",
        (SWEEP,),
    ),
    Rule(
        "loose clusters",
        ROWS,
        (ENOUGH_COPIES, _invert(TIGHT)),
        "margin",
        "Compared with random rows, rows of one cluster are too far apart for near-copies. Clusters were shown to pay "
        "where they hold near-copies.",
        (BY_CLUSTERS,),
    ),
    Rule(
        "large batch, rows",
        ROWS,
        (HAS_CLUSTERS, LARGE_BATCH),
        "hedge",
        "With batches ten times the labels so far, hedge was ahead of margin on digits and on Covertype. None of that "
        "is shown to be due to the clusters: hedge also draws rows by margin, instead of taking the lowest margins.",
        (REGIMES,),
        decided=True,
    ),
    Rule(
        "few near-copies",
        ROWS,
        (
            _invert(ENOUGH_COPIES),
            Condition("labels_per_class", ">=", 10, "margin was ahead of random on rows: 10 labels per class, or more"),
        ),
        "margin",
        "Margin was ahead of random, and where few picks share a cluster, cluster-margin was equal to it within a "
        "fifth of a point.",
        ("results/cifar10.md", "results/cifar100.md"),
        decided=True,
    ),
    Rule(
        "margin, rows",
        ROWS,
        (),
        "margin",
        "Nothing measured on pools of rows is ahead of margin beyond the cases above, and margin was ahead of random.",
        ("results/cifar10.md", "results/cifar100.md", SWEEP),
    ),
    Rule(
        "few labels, pairs",
        PAIRS,
        (Condition("labels_per_class", "<", 7, "bibtex 6.3, corel5k 2.7, delicious 5.1; enron, undecided, 9.4"),),
        "random",
        "Margin, which leaves out rare classes, was behind random, and nothing was shown to be ahead of random.",
        FEW_LABELS,
        decided=True,
    ),
    Rule(
        "near-copies, pairs",
        PAIRS,
        (BEYOND_CHANCE, INDEPENDENT),
        "cluster-margin-pairs",
        "Where margin batches were full of near-copies, clusters over pairs were ahead of margin and of random, and "
        "mostly of shuffled clusters, too. Factors other than 10 were not run there.",
        (SAVINGS, "savings.md#annotated-classes", UNSEEN),
        options={"margin_factor": 10.0},
        decided=True,
    ),
    Rule(
        "large batch, pairs",
        PAIRS,
        (
            Condition("labels_per_class", ">=", 90, "tmc2007 has 91, wordlangs-distinct 1,190; enron, undecided, 9.4"),
            Condition("batch_to_labels", ">=", 1.25, "tmc2007 1.25, wordlangs-distinct 2; undecided there at 0.4"),
        ),
        "stochastic-margin",
        "stochastic-margin was ahead of margin.",
        ("results/tmc2007.md", "results/wordlangs-distinct.md"),
        options={"power": 1.0},
        decided=True,
    ),
    Rule(
        "small batch, pairs",
        PAIRS,
        (
            Condition("labels_per_class", ">=", 400, "wordlangs-small has 476; tmc2007, undecided, 91"),
            Condition("batch_to_labels", "<", 1.25, "wordlangs-small 0.5"),
        ),
        "margin",
        "Margin was ahead of random. Of the strategies, only badge was ahead of margin over the whole curve, slightly, "
        "at many times the selection time.",
        ("results/wordlangs-small.md",),
        decided=True,
    ),
    Rule(
        "draw, pairs",
        PAIRS,
        (),
        "stochastic-margin",
        "Which strategy is best here is undecided. In our recipes stochastic-margin was nowhere behind margin, and "
        "ahead of it on six pools of pairs; in smaller runs it was behind on comments without copies.",
        ("results.md#overview", UNSEEN),
        options={"power": 1.0},
    ),
)

NOTES = (
    Rule(
        "factor 10",
        ROWS,
        (HAS_CLUSTERS,),
        None,
        "A margin factor of 10, the default of cluster-margin, was nowhere ahead of margin over the whole curve, and "
        "was behind it after the fourth batch of 1,000 and of 3,000.",
        (SWEEP,),
        about=("cluster-margin",),
    ),
    Rule(
        "candidates cover the pool",
        BOTH,
        (Condition("batch_to_pool", ">=", 0.1, "10 times the batch is all that is unlabeled"),),
        None,
        "With a factor of 10 everything unlabeled is a candidate, so margins play no part.",
        (SWEEP, "results/wordlangs-million.md"),
        about=("cluster-margin", "cluster-margin-pairs"),
    ),
    Rule(
        "typical rows",
        ROWS,
        (
            Condition("labels_per_class", "<", 2, "cells of the regimes: digits-1 has 1, digits-large 2"),
            Condition("batch_to_labels", "<", 6, "digits-1 has 1; digits-large, where typiclust was far behind, 10"),
        ),
        None,
        "With one label per class and small batches, typiclust and uherding are worth comparing if the embeddings are "
        "good: undecided, but they had the highest means on digits.",
        (REGIMES,),
        about=("typiclust", "uherding"),
    ),
    Rule(
        "stochastic margin, rows",
        ROWS,
        (Condition("batch_to_labels", ">=", 2.5, "covtype: batches of 50,000 after 20,000 labels"),),
        None,
        "For batches that are large compared with the labels so far, stochastic-margin is worth a comparison: "
        "undecided, but its mean was above that of margin on covtype.",
        ("results/covtype.md",),
        about=("stochastic-margin",),
    ),
    Rule(
        "clusters of pairs",
        PAIRS,
        (_invert(BEYOND_CHANCE),),
        None,
        "The margin batch does not hold many more near-copies than chance would give. In recipes with such pools "
        "shuffled clusters gained as much as the real ones, or more, and the two-step cluster-margin was not ahead of "
        "margin where margin was ahead of random. On some other pools with copies clusters gained all the same.",
        (SAVINGS, "results/wordlangs-typos.md#what-it-shows", "results/wordlangs-small.md", UNSEEN),
    ),
    Rule(
        "exclusive classes, pairs",
        PAIRS,
        (_invert(INDEPENDENT),),
        None,
        "The probabilities of a row sum to 1, as if it had exactly one class. With such a model clusters over pairs "
        "were behind shuffled ones on words and on CIFAR-100, although many picks shared a cluster.",
        ("savings.md#the-head",),
    ),
    Rule(
        "classes without labels",
        BOTH,
        (Condition("classes_without_labels", ">=", 1, "one class is enough"),),
        None,
        "A model does not predict classes that it has never seen, so no strategy that uses its margins asks about "
        "them.",
        (),
    ),
    Rule(
        "classes without a question, pairs",
        PAIRS,
        (Condition("unasked_classes", ">=", 1, "one class is enough"),),
        None,
        "The margin batch leaves out classes. Where that happened with few labels per class, random and "
        "stochastic-margin were ahead of margin.",
        FEW_LABELS,
    ),
    Rule(
        "classes without a question, rows",
        ROWS,
        (Condition("unasked_classes", ">=", 1, "one class is enough"),),
        None,
        "Some classes are not among the two most likely classes of any row in the margin batch.",
        (),
    ),
    Rule(
        "ties",
        BOTH,
        (Condition("tied", ">=", 0.5, "half of the batch: no run was about ties"),),
        None,
        "The margin batch ends amid equal margins. Among these the lowest row is taken first, so the batch follows the "
        "order of the file: shuffle the pool, or use a strategy that draws (random; with margins from 0 to 1, also "
        "stochastic-margin).",
        (),
    ),
)
