"""Controls of the strategies for pairs: the same strategy without the idea that it is credited for. Not in the paper.

Without the content of the clusters, or without clusters (see `strategies/controls.py`):

- `ShuffledClusterMarginPairs` is `ClusterMarginPairs` with the cluster labels permuted over the rows.
- `UniformCandidatePairs` draws uniformly from the candidates of `ClusterMarginPairs`.
- `ShuffledClusterMargin` and `UniformCandidates` do the same for the first of the paper's two steps.

With another second step of the two, or another first step:

- `InformedClusterMargin` takes the pair that the model is least sure of from each picked row, not a random one.
- `InformedRandom` takes that pair from rows drawn uniformly: it lacks the choice of rows.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.pairs.cluster_margin import ClusterMarginPairs, Index
from hedgerow.pairs.two_steps import pick_by_rows, take_lowest_pairs
from hedgerow.pairs.view import PairView
from hedgerow.strategies import ClusterMargin, Random, ShuffledClusterMargin
from hedgerow.strategies.controls import permute_labels


@dataclass(frozen=True)
class ShuffledClusterMarginPairs(ClusterMarginPairs):
    """`ClusterMarginPairs` with the cluster labels permuted over the rows: a control without their content.

    The permutation is uniform and depends on the seed and the size of the pool alone; all other draws are those of
    `ClusterMarginPairs`. Time and memory as for `ClusterMarginPairs`, and 4 bytes per row.
    """

    def __call__(self, view: PairView, k: int, rng: np.random.Generator) -> Index:
        assert view.clusters is not None
        return super().__call__(replace(view, clusters=permute_labels(view.clusters, rng)), k, rng)


@dataclass(frozen=True)
class UniformCandidatePairs(ClusterMarginPairs):
    """k pairs drawn uniformly from the candidates of `ClusterMarginPairs`: a control without clusters.

    All options are those of `ClusterMarginPairs`: the draw passes over pairs of a full row or class, and `by_class` is
    a round-robin over the classes of the candidates. Time and memory as for `ClusterMarginPairs`.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"margins"})

    def group(self, view: PairView, candidates: Index) -> npt.NDArray[np.int32]:
        """One group for all candidates, or one per class."""
        return view.pairs.classes[candidates] if self.by_class else np.zeros(len(candidates), np.int32)


@dataclass(frozen=True)
class InformedClusterMargin:
    """The paper's two steps with an informed second one: the unlabeled pair of each picked row with the lowest margin.

    The rows are those of `ClusterMargin` with the same `row_margin`, or with `shuffle_clusters` of
    `ShuffledClusterMargin`, and the pairs are in the order of the rows; ties by lowest pair. If fewer than k rows have
    an unlabeled pair, each gives its lowest, then its second lowest, and so on; of the last of these passes the lowest
    margins are taken. Time and memory as for `ClusterMargin` over pairs, 8 bytes per row, and a sort of the unlabeled
    pairs of the picked rows with 48 for each.
    """

    margin_factor: float = 10.0
    power: float | None = None
    shuffle_clusters: bool = False
    row_margin: str | None = None
    needs: ClassVar[frozenset[str]] = frozenset({"margins", "row_margins", "clusters"})

    def __post_init__(self) -> None:
        ClusterMargin(self.margin_factor, self.power, self.row_margin)  # checks them
        checks.flag(self.shuffle_clusters, "shuffle_clusters")

    def __call__(self, view: PairView, k: int, rng: np.random.Generator) -> Index:
        first_step = ShuffledClusterMargin if self.shuffle_clusters else ClusterMargin
        return pick_by_rows(first_step(self.margin_factor, self.power), view, k, rng, second_step=take_lowest_pairs)


@dataclass(frozen=True)
class InformedRandom:
    """Rows drawn uniformly from those with an unlabeled pair; of each, the unlabeled pair with the lowest margin.

    Order and ties as in `InformedClusterMargin`. O(m + n) time, 2 bytes per pair, 18 per row, and a sort of the
    unlabeled pairs of the picked rows with 48 for each.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"margins"})

    def __call__(self, view: PairView, k: int, rng: np.random.Generator) -> Index:
        return pick_by_rows(Random(), view, k, rng, second_step=take_lowest_pairs)
