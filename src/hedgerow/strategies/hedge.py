"""Hedge: one strategy for all label budgets. Ours; not in the paper.

Every strategy that ranks or spreads is wrong somewhere: margins mislead while the model knows little, uniform draws
waste labels once it knows a lot, and a batch that is large compared with what is labeled outlives the margins that it
was chosen by. Hedge draws by margin, as sharply as the labels so far justify:

    trust    t = L / (L + tau)                                       L: labels per class so far
    weight   w = 1 / (1 + odds^t)^b,  b = power * t * min(1, labels / k),  odds = (1 + margin) / (1 - margin)

Without labels all rows are alike; with many of them and a small batch, nearly the lowest margins are drawn. Rows of one
cluster compete: `kernels/frame.py` has their discount, and the systematic draw. Every row has a known probability pi of
being picked, so a batch weighted by 1 / pi estimates sums over all unlabeled rows without bias. Drawing in proportion
to a score is from Kirsch et al. 2023, systematic sampling with unequal probabilities from Madow 1949.
"""

import warnings
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import HedgerowWarning, InputError
from hedgerow.kernels import frame, freeze
from hedgerow.strategies.ranking import refuse_large_margins
from hedgerow.strategies.view import Drawn, View

MOST_ROWS = np.iinfo(np.int32).max  # places in the frame are int32
LEAST_CLUSTER_POWER = 0.2  # with 0, no more than one row of a cluster could be picked
TOTAL_BITS = 62  # of all units of the systematic draw
CLOSE = 1e-9  # how far from k the expected number of picks may be where the search for the scale ends; `fit` is exact
MOST_STEPS = 200  # of that search: as many as it takes at worst, with 0.2 for cluster_power and the least weights
LONGEST_STEP = 4.0  # of the log of the scale: where nearly all rows are certain, or nearly none, slopes mislead
NO_POINT = 1 << TOTAL_BITS  # a first point that is never reached: all picks are certain
ONE_CLASS = freeze(np.zeros(0, np.int32))
NO_OWNERS = freeze(np.zeros(0, np.int64))


@dataclass(frozen=True, eq=False)
class Frame:
    """What is drawn from: n rows, or n pairs, of which `count` are unlabeled.

    margins: float32 (n,). clusters: int32, of each, or of its owner. labeled: as kernels take it. classes: int32 (n,),
    or of length 0 for one class. owners: int64 (n,), or of length 0 if each is its own.
    """

    margins: npt.NDArray[np.float32]
    clusters: npt.NDArray[np.int32]
    labeled: npt.NDArray[np.bool_]
    count: int
    classes: npt.NDArray[np.int32] = field(default_factory=lambda: ONE_CLASS)
    owners: npt.NDArray[np.int64] = field(default_factory=lambda: NO_OWNERS)


@dataclass(frozen=True)
class Hedge:
    """k rows drawn by margin, spread over the clusters; every beginning of the batch is spread over them as well.

    power: how sharp the draw is at most; 0 draws uniformly. tau: the labels per class with which it is half as sharp. A
    cluster from which the margins would draw x > 1 rows gives about x^cluster_power; 1 does without this discount.
    labels, classes: how many there are, if what is marked as labeled and the columns of the probabilities do not tell;
    with margins alone, `classes` is needed. Over pairs, the labels of a class are its yes answers, as many as the model
    expects among the labeled pairs.

    The batch has weights: one over the probability with which each row was picked. O(n + clusters) time. Memory: 13
    bytes per unlabeled row, 8 per cluster number in use, 40 per picked row.
    """

    power: float = 10.0
    tau: float = 3.0
    cluster_power: float = 0.67
    labels: int | None = None
    classes: int | None = None
    needs: ClassVar[frozenset[str]] = frozenset({"margins", "clusters"})

    def __post_init__(self) -> None:
        checks.real(self.power, "power", least=0)
        checks.real(self.tau, "tau", least=0)
        if checks.real(self.cluster_power, "cluster_power", least=LEAST_CLUSTER_POWER) > 1:
            raise InputError(f"cluster_power must be at most 1, got {self.cluster_power:g}")
        if self.labels is not None:
            checks.integer(self.labels, "labels")
        if self.classes is not None:
            checks.integer(self.classes, "classes", least=1)

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> Drawn:
        assert view.margins is not None
        assert view.clusters is not None
        classes = self.classes or view.classes
        if classes is None:
            raise InputError(
                "hedge needs the number of classes, which margins do not tell: pass probabilities=... or logits=..., "
                "or Hedge(classes=...) (--set classes=...), or use cluster-margin"
            )
        labels = self.count(len(view.labeled_rows()))
        made = Frame(view.margins, self.arrange(view.clusters, rng), view.mask, view.unlabeled_count)
        return self.draw(made, k, labels, labels / classes, rng)

    def count(self, marked: int) -> int:
        """The number of labels: as given, else as many as are marked, with a warning if there are none."""
        if self.labels is not None:
            return self.labels
        if marked == 0:
            warnings.warn(
                "hedge draws without regard to the predictions, because nothing is marked as labeled: pass labeled=... "
                "(--labeled), or how many labels the model has learned from, Hedge(labels=...) (--set labels=...)",
                HedgerowWarning,
                stacklevel=2,
            )
        return marked

    def arrange(self, clusters: npt.NDArray[np.int32], rng: np.random.Generator) -> npt.NDArray[np.int32]:
        """The cluster labels to use: those given. A control has others."""
        return clusters

    def draw(self, made: Frame, k: int, labels: float, per_class: float, rng: np.random.Generator) -> Drawn:
        """k picks. labels: how many there are. per_class: how many of them tell what a class is like, on average."""
        if len(made.margins) > MOST_ROWS:
            raise InputError(f"hedge takes pools of up to {MOST_ROWS:,}, got {len(made.margins):,}: split the pool")
        refuse_large_margins(made.margins)
        if k == 0:
            return Drawn(np.empty(0, np.int64), np.empty(0))
        order, opens = lay_out(made)
        chances = np.ones(made.count, np.float32)
        if k < made.count:
            trust = per_class / (per_class + self.tau) if per_class > 0 else 0.0
            frame.weigh(freeze(made.margins), order, trust, self.power * trust * min(1.0, labels / k), chances)
            frame.discount(chances, opens, find_scale(chances, opens, k, self.cluster_power), self.cluster_power)
        drawn = draw_evenly(chances, order, k, rng)
        places = np.empty(k, np.int64)
        frame.nest(int(rng.integers(k)), places)
        return Drawn(drawn.rows[places], drawn.weights[places])


def lay_out(made: Frame) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """(the unlabeled rows by class and cluster, where a cell of both begins)."""
    clusters, classes = freeze(made.clusters), freeze(made.classes)
    order, opens = np.empty(made.count, np.int32), np.empty(made.count, np.bool_)
    ends = np.zeros(int(clusters.max()) + 2, np.int64)
    frame.sort_by_cluster(clusters, freeze(made.owners), made.labeled, ends, order)
    if not len(classes):
        frame.open_clusters(ends, opens)
        return order, opens
    by_cluster, order = order, np.empty_like(order)
    count = int(classes.max()) + 1
    places, last = np.zeros(count + 1, np.int64), np.full(count, -1)
    frame.sort_by_class(classes, made.labeled, by_cluster, ends, places, last, order, opens)
    return order, opens


def find_scale(weights: npt.NDArray[np.float32], opens: npt.NDArray[np.bool_], k: int, power: float) -> float:
    """The scale with which k picks are expected, nearly: Newton's method on the logs, kept between known bounds."""
    low = at = np.log(k) - np.log(weights.sum(dtype=np.float64))  # k picks without the discount and the limit of 1
    high = np.inf
    for _ in range(MOST_STEPS):
        total, slope = frame.expect(weights, opens, float(np.exp(at)), power)
        if abs(total - k) <= CLOSE * k:
            break
        low, high = (at, high) if total < k else (low, at)
        change = np.log(k / total) * total
        at = at + change / slope if abs(change) < LONGEST_STEP * slope else np.inf
        if not low < at < high:
            at = (low + high) / 2 if np.isfinite(high) else low + LONGEST_STEP
    return float(np.exp(at))


def draw_evenly(
    chances: npt.NDArray[np.float32], order: npt.NDArray[np.int32], k: int, rng: np.random.Generator
) -> Drawn:
    """A systematic sample of k, in frame order. The chances are scaled to a sum of k, none of them above 1."""
    scale, certain = frame.fit(chances, k)
    drawn = k - certain
    unit, step, missing, start = 0.0, 1, 0, NO_POINT
    if drawn:
        unit = float(1 << (TOTAL_BITS - drawn.bit_length()))
        total = int(frame.sum_units(chances, scale, unit))
        step = -(-total // drawn)
        missing, start = step * drawn - total, int(rng.integers(step))
    rows, weights = np.empty(k, np.int64), np.empty(k)
    frame.draw_systematically(chances, scale, unit, step, missing, start, order, rows, weights)
    return Drawn(rows, weights)
