"""Cluster-Margin: unsure examples, spread over the clusters (the paper's Algorithm 2, lines 8 to 19).

The k_m unlabeled rows with the lowest margins are the candidates. Their clusters, in ascending order of their number of
candidates, are visited round-robin, one random candidate per visit, until k are drawn; after the largest cluster the
next is the smallest that still has candidates. `kernels/pick.py` explains how this is done without the loop. The
clusters are made once, by `cluster`; embeddings are not used here.

With a `power` the candidates are not the lowest margins but k_m draws by margin (see `StochasticMargin`), which is not
in the paper.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError
from hedgerow.kernels import freeze
from hedgerow.kernels.pick import count_candidates, draw_subsets, fill_quotas, lay_out, order_clusters, read_out
from hedgerow.strategies.ranking import cut, draw_arrivals
from hedgerow.strategies.view import View

MOST_ROWS = np.iinfo(np.int32).max  # counts within a cluster and positions in the batch are int32
ROW_MARGINS = ("lowest", "mean", "top2", "top2-all")  # of a row with several pairs; `pairs/row_margins.py`


@dataclass(frozen=True)
class ClusterMargin:
    """k rows in pick order: pass by pass, smallest cluster first.

    k_m = margin_factor * k, rounded up, and at most the number of unlabeled rows. Ties at the k_m-th margin go to the
    lowest row; clusters of equal size are visited in a random order, the same in every pass. `power`: draw the k_m
    candidates without replacement with weight (1 - margin)^power; None takes the lowest margins, as in the paper.
    `row_margin` is for pairs only (`select_pairs`): how the margin of a row follows from those of its pairs; None is
    "lowest". O(n + clusters) time. Memory beyond the inputs: 12 bytes per picked row, 32 per cluster number in use, 4
    per row with a power.
    """

    margin_factor: float = 10.0
    power: float | None = None
    row_margin: str | None = None
    needs: ClassVar[frozenset[str]] = frozenset({"margins", "clusters"})

    def __post_init__(self) -> None:
        checks.real(self.margin_factor, "margin_factor", least=1)
        if self.power is not None:
            checks.real(self.power, "power", least=0)
        if self.row_margin is not None:
            checks.option(self.row_margin, "row_margin", ROW_MARGINS)

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        assert view.margins is not None
        assert view.clusters is not None
        if view.n > MOST_ROWS:
            raise InputError(f"cluster-margin takes pools of up to {MOST_ROWS:,} rows, got {view.n:,}: split the pool")
        if k == 0:
            return np.empty(0, np.int64)
        draws = rng.integers(0, 2**64, 3, dtype=np.uint64)
        keys = self.rank(view.margins, rng)
        threshold, ties = cut(keys, view, self.count_candidates(k))
        return walk_clusters(keys, view.mask, threshold, ties, view.clusters, k, draws)

    def rank(self, margins: npt.NDArray[np.float32], rng: np.random.Generator) -> npt.NDArray[np.uint32]:
        """Keys (n,) whose lowest are the candidates: the margins themselves, or with a power draws by margin."""
        return margins.view(np.uint32) if self.power is None else draw_arrivals(margins, self.power, rng)

    def count_candidates(self, k: int) -> int:
        """k_m, not limited by the size of the pool. The factor is taken as written: 1.1 times 10 is 11, not 12."""
        return math.ceil(Fraction(repr(float(self.margin_factor))) * k)


def refuse_row_margin(strategy: Any) -> None:
    """Raises `InputError` for a strategy with a `row_margin`, where the pool has rows and no pairs."""
    if (given := getattr(strategy, "row_margin", None)) is not None:
        raise InputError(
            f"row_margin={given!r} is for pairs, but here rows are selected, which have one margin each: remove it"
        )


def walk_clusters(
    keys: npt.NDArray[np.uint32],
    mask: npt.NDArray[np.bool_],
    threshold: Any,
    ties: int,
    clusters: npt.NDArray[np.int32],
    k: int,
    draws: npt.NDArray[np.uint64],
) -> npt.NDArray[np.int64]:
    """The first k rows of the round-robin over the candidates that `cut` selects. draws: three random numbers."""
    order_key, draw_key, shuffle_key = draws
    keys, clusters = freeze(keys), freeze(clusters)
    sizes = np.zeros(int(clusters.max()) + 1, np.int32)
    count_candidates(keys, mask, threshold, ties, clusters, sizes)
    order = order_clusters(sizes, order_key)
    state = np.zeros((len(sizes), 3), np.int32)
    places = lay_out(sizes, order, *fill_quotas(sizes, order, k), state)
    picks, rows = np.empty(k, np.int32), np.empty(k, np.int64)
    draw_subsets(keys, mask, threshold, ties, clusters, state, draw_key, picks)
    read_out(picks, places, shuffle_key, rows)
    return rows
