"""Rows first, then their pairs: Cluster-Margin and CoreSet over pairs as in the paper (section 3.2).

A strategy for rows picks as many rows as there are pairs to pick, and the pairs are drawn uniformly from the unlabeled
ones of those rows. How unsure the model is of a pair plays no part in the second step.
"""

import numpy as np
import numpy.typing as npt

from hedgerow.pairs.view import PairView
from hedgerow.strategies import ClusterMargin, CoreSet, Random, View


def pick_by_rows(
    strategy: ClusterMargin | CoreSet, view: PairView, k: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """k pairs in random order, of k rows with an unlabeled pair, or of all such rows if they are fewer.

    For CoreSet every row with a labeled pair is a center, and covers itself. Memory beyond the strategy's: 1 byte per
    pair, 2 per row, 8 per unlabeled pair of a picked row.
    """
    closed = ~view.find_rows(labeled=False)
    rows = View(view.n, closed, view.row_margins, embeddings=view.embeddings, clusters=view.clusters)
    count = min(k, rows.unlabeled_count)
    if count == rows.unlabeled_count:  # there is no choice
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
