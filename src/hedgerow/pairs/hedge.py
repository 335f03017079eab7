"""Hedge over pairs: the same draw, spread over the classes and, within a class, over the clusters of the rows.

A class is learned from its yes answers, which are rare: the labels per class are the yes answers that the model expects
among the labeled pairs, for it was trained on their answers. Pairs of one class and cluster compete with each other.
"""

import numpy as np

from hedgerow.pairs.view import PairView
from hedgerow.strategies import Drawn, Hedge
from hedgerow.strategies.hedge import Frame


def hedge_pairs(strategy: Hedge, view: PairView, k: int, rng: np.random.Generator) -> Drawn:
    """k pairs in pick order, with weights. Memory: 17 bytes per unlabeled pair, 8 per cluster number in use."""
    assert view.margins is not None
    assert view.clusters is not None
    marked, yes = count_labels(view)
    labels = strategy.count(marked)
    per_class = labels * (yes / marked if marked else 0.0) / (strategy.classes or max(1, view.pairs.class_count))
    clusters = strategy.arrange(view.clusters, rng)
    made = Frame(view.margins, clusters, view.mask, view.flat.unlabeled_count, view.pairs.classes, view.pairs.rows)
    return strategy.draw(made, k, labels, per_class, rng)


def count_labels(view: PairView) -> tuple[int, float]:
    """(how many pairs are labeled, how many of them have the answer yes as far as the model knows)."""
    assert view.probabilities is not None
    labeled = view.mask if view.absent is None else view.mask & ~view.absent
    chances = view.probabilities[labeled] if len(labeled) else view.probabilities[:0]
    return len(chances), float(chances.sum(dtype=np.float64))
