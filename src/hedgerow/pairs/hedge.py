"""Hedge over pairs: the same draw, spread over the classes and, within a class, over the clusters of the rows.

A class is learned from its yes answers, which are rare: the labels per class are the yes answers that the model expects
among the labeled pairs, for it was trained on their answers. Labeled pairs that the predictions lack have them at the
rate of the others. Pairs of one class and cluster compete with each other.
"""

import warnings

import numpy as np

from hedgerow.errors import HedgerowWarning
from hedgerow.pairs.view import PairView
from hedgerow.strategies import Drawn, Hedge
from hedgerow.strategies.hedge import Frame


def hedge_pairs(strategy: Hedge, view: PairView, k: int, rng: np.random.Generator) -> Drawn:
    """k pairs in pick order, with weights. Memory: 17 bytes per unlabeled pair, 8 per cluster number in use."""
    assert view.margins is not None
    assert view.clusters is not None
    marked, rate = count_labels(view)
    labels = strategy.count(marked)
    if labels and rate is None:
        warnings.warn(
            "hedge draws without regard to the predictions, because they lack all labeled pairs, by which it tells how "
            "many answers are yes: predict the labeled pairs too, and mark them as labeled (labeled=..., --labeled)",
            HedgerowWarning,
            stacklevel=2,
        )
    per_class = labels * (rate or 0.0) / (strategy.classes or max(1, view.pairs.class_count))
    clusters = strategy.arrange(view.clusters, rng)
    made = Frame(view.margins, clusters, view.mask, view.flat.unlabeled_count, view.pairs.classes, view.pairs.rows)
    return strategy.draw(made, k, labels, per_class, rng)


def count_labels(view: PairView) -> tuple[int, float | None]:
    """(how many pairs are labeled, the share of yes among their answers that the model expects).

    The share is that of the labeled pairs with predictions; None if there are none.
    """
    assert view.probabilities is not None
    if view.labeled is None:
        return 0, None
    labeled = view.labeled if view.absent is None else view.labeled & ~view.absent
    predicted = labeled if view.unpredicted is None else labeled & ~view.unpredicted
    chances = view.probabilities[predicted]
    return int(np.count_nonzero(labeled)), float(chances.mean(dtype=np.float64)) if len(chances) else None
