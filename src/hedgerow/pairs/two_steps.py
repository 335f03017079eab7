"""Rows first, then their pairs: Cluster-Margin and CoreSet over pairs as in the paper (section 3.2).

A strategy for rows picks as many rows as there are pairs to pick, and the pairs are drawn uniformly from the unlabeled
ones of those rows. How unsure the model is of a pair plays no part in the second step, unless another one is passed:
`take_lowest_pairs`.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hedgerow.pairs.view import PairView
from hedgerow.strategies import ClusterMargin, CoreSet, Random, View

Index = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
# (view, picked rows, mask (m,) of all other pairs and of labeled ones, k, rng) -> k pairs of these rows
SecondStep = Callable[[PairView, Index, Mask, int, np.random.Generator], Index]


def draw_pairs(view: PairView, rows: Index, left_out: Mask, k: int, rng: np.random.Generator) -> Index:
    """k of the pairs that are not left out, uniformly and in random order: the paper's second step."""
    return Random()(View(len(view.pairs), left_out), k, rng)


def pick_by_rows(
    strategy: ClusterMargin | CoreSet | Random,
    view: PairView,
    k: int,
    rng: np.random.Generator,
    *,
    second_step: SecondStep = draw_pairs,
) -> Index:
    """k pairs in random order, of k rows with an unlabeled pair, or of all such rows if they are fewer.

    For CoreSet every row with a labeled pair is a center, and covers itself. Memory beyond the strategy's: 1 byte per
    pair, 2 per row, 8 per unlabeled pair of a picked row. Another `second_step` has its own order and memory.
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
    return second_step(view, picked, left_out, k, rng)


def take_lowest_pairs(view: PairView, rows: Index, left_out: Mask, k: int, rng: np.random.Generator) -> Index:
    """The pair with the lowest margin of each row, in the order of the rows; ties by lowest pair. Nothing is drawn.

    With fewer than k rows: the lowest of each, then the second lowest of each, and so on, each pass from the lowest
    margin up.
    """
    assert view.margins is not None
    places = np.empty(view.n, np.int64)
    places[rows] = np.arange(len(rows))
    pairs = np.flatnonzero(~left_out)
    place, margins = places[view.pairs.rows[pairs]], view.margins[pairs]
    order = np.lexsort((margins, place))  # by row, within a row by margin; stable, so ties by lowest pair
    pairs, place, margins = pairs[order], place[order], margins[order]
    starts = np.flatnonzero(np.diff(place, prepend=-1))  # of each row
    if len(starts) >= k:
        return pairs[starts[:k]]
    passes = np.arange(len(pairs)) - starts[place]
    return pairs[np.lexsort((pairs, margins, passes))[:k]]
