"""Controls of strategies with clusters: the same without the idea that they are credited for. Not in the paper.

A strategy that uses clusters also thins out the lowest margins, because its candidates are several times the batch.
What clusters contribute is the difference from a control that thins out the same candidates without them:

- `ShuffledClusterMargin` lacks what the clusters know about the pool. Their number and their sizes are the same.
- `ShuffledHedge` is the same for `Hedge`.
- `UniformCandidates` lacks the clusters and the round-robin over them.

Controls for pairs are in `pairs/controls.py`.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow.kernels import freeze
from hedgerow.kernels.lowest import gather
from hedgerow.strategies.cluster_margin import ClusterMargin
from hedgerow.strategies.hedge import Hedge
from hedgerow.strategies.ranking import cut
from hedgerow.strategies.view import View


@dataclass(frozen=True)
class ShuffledClusterMargin(ClusterMargin):
    """`ClusterMargin` with the cluster labels permuted over the rows of the pool: a control without their content.

    The permutation is uniform and depends on the seed and the size of the pool alone; all other draws are those of
    `ClusterMargin`. Time and memory as for `ClusterMargin`, and 4 bytes per row.
    """

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        assert view.clusters is not None
        return super().__call__(replace(view, clusters=permute_labels(view.clusters, rng)), k, rng)


@dataclass(frozen=True)
class ShuffledHedge(Hedge):
    """`Hedge` with the cluster labels permuted over the rows of the pool: a control without their content.

    The permutation is that of `ShuffledClusterMargin`. Time and memory as for `Hedge`, and 4 bytes per row.
    """

    def arrange(self, clusters: npt.NDArray[np.int32], rng: np.random.Generator) -> npt.NDArray[np.int32]:
        """The labels in a random order."""
        return permute_labels(clusters, rng)


@dataclass(frozen=True)
class UniformCandidates(ClusterMargin):
    """k rows drawn uniformly from the candidates of `ClusterMargin`, in random order: a control without clusters.

    The candidates are the margin_factor * k lowest margins, ties at the last of them by lowest row; or with a `power`
    as many draws by margin. O(n) time, 8 bytes per candidate, 4 per row with a power.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"margins"})

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        assert view.margins is not None
        if k == 0:
            return np.empty(0, np.int64)
        keys = self.rank(view.margins, rng)
        count = min(self.count_candidates(k), view.unlabeled_count)
        candidates = np.empty(count, np.int64)
        gather(freeze(keys), view.mask, *cut(keys, view, count), candidates)
        return rng.choice(candidates, k, replace=False)


def permute_labels(clusters: npt.NDArray[np.int32], rng: np.random.Generator) -> npt.NDArray[np.int32]:
    """The labels in a random order, drawn from a stream of its own: what `rng` draws later does not depend on it."""
    (own,) = rng.spawn(1)
    return own.permutation(clusters)
