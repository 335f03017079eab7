"""Rows first, then their questions: how the paper has Cluster-Margin and CoreSet ask (section 3.2).

A strategy for rows picks as many rows as there are questions to ask, and the questions are drawn uniformly from the
unlabeled ones of those rows. Which question the model is unsure of plays no part in the second step.
"""

import numpy as np
import numpy.typing as npt

from hedgerow.pairs.view import PairView
from hedgerow.strategies import ClusterMargin, CoreSet, Random, View


def ask_of_rows(
    strategy: ClusterMargin | CoreSet, view: PairView, k: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """k questions in random order, of k rows that have one left, or of all these if they are fewer.

    For CoreSet every row with a labeled question is a center, and covers itself. Memory beyond the strategy's: 1 byte a
    pair, 2 a row, 8 an unlabeled question of a picked row.
    """
    closed = ~view.find_rows(labeled=False)
    rows = View(view.n, closed, view.row_margins, embeddings=view.embeddings, clusters=view.clusters)
    count = min(k, rows.unlabeled_count)
    if count == rows.unlabeled_count:  # there is nothing to choose
        picked = np.flatnonzero(~closed)
    elif isinstance(strategy, CoreSet):
        picked = strategy.spread(rows, np.flatnonzero(view.find_rows(labeled=True)), count, rng)
    else:
        picked = strategy(rows, count, rng)
    passed_over = np.ones(view.n, np.bool_)
    passed_over[picked] = False
    left_out = passed_over[view.pairs.rows]
    if view.labeled is not None:
        left_out |= view.labeled
    return Random()(View(len(view.pairs), left_out), k, rng)
