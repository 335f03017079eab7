"""Cluster-Margin over the pairs themselves: unsure pairs, spread over the clusters of their rows.

The paper's Algorithm 2 with pairs in place of examples; its section 3.2 instead picks rows and then draws their pairs
at random, so that how unsure the model is of a pair does not count. Not in the paper; the round-robin is that of
`strategies/cluster_margin.py`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.kernels import freeze
from hedgerow.kernels.lowest import gather
from hedgerow.kernels.pairs import pick_within_limits
from hedgerow.pairs.view import PairView
from hedgerow.strategies.cluster_margin import ClusterMargin, walk_clusters
from hedgerow.strategies.ranking import EVERY_KEY, cut
from hedgerow.strategies.view import NO_MASK

Index = npt.NDArray[np.int64]
NO_LIMIT = np.iinfo(np.int32).max


@dataclass(frozen=True)
class ClusterMarginPairs:
    """k pairs in pick order: pass by pass over the clusters of their rows, smallest first.

    The k_m = margin_factor * k unlabeled pairs with the lowest margins abs(2 p - 1) are the candidates, or k_m drawn
    with weight (1 - margin)^power. `by_class`: the round-robin visits pairs of a cluster and a class. It passes over a
    pair whose row has `per_row` pairs in the batch already, or whose class has `class_quota`; if that leaves fewer than
    k, the candidates are doubled until there are k or all pairs are candidates: only then is the batch short.
    O(m + k_m + n) time, and with `by_class` a sort of the candidates. Memory: 16 bytes per candidate (40 with a limit,
    80 by class), 20 per picked pair, 4 per pair with a power, 4 per row with a limit, 32 per cluster number in use.
    """

    margin_factor: float = 10.0
    power: float | None = None
    by_class: bool = False
    per_row: int | None = None
    class_quota: int | None = None
    needs: ClassVar[frozenset[str]] = frozenset({"margins", "clusters"})

    def __post_init__(self) -> None:
        ClusterMargin(self.margin_factor, self.power)  # checks both
        for name in ("per_row", "class_quota"):
            if getattr(self, name) is not None:
                checks.integer(getattr(self, name), name, least=1)
        checks.flag(self.by_class, "by_class")

    def __call__(self, view: PairView, k: int, rng: np.random.Generator) -> Index:
        assert view.margins is not None
        plain = ClusterMargin(self.margin_factor, self.power)
        draws = rng.integers(0, 2**64, 3, dtype=np.uint64)
        keys = plain.rank(view.margins, rng)
        count, available = plain.count_candidates(k), view.flat.unlabeled_count
        while True:
            candidates = self.find_candidates(view, keys, min(count, available))
            picked = self.walk(view, candidates, k, draws)
            if len(picked) == k or len(candidates) == available:
                return picked
            count = 2 * len(candidates)

    def find_candidates(self, view: PairView, keys: npt.NDArray[np.uint32], count: int) -> Index:
        """The pairs with the lowest keys, ascending; ties by lowest pair."""
        candidates = np.empty(count, np.int64)
        gather(freeze(keys), view.mask, *cut(keys, view.flat, count), candidates)
        return candidates

    def walk(self, view: PairView, candidates: Index, k: int, draws: npt.NDArray[np.uint64]) -> Index:
        """The first k pairs that the round-robin does not pass over; fewer if none are left."""
        limited = self.per_row is not None or self.class_quota is not None
        groups = self.group(view, candidates)
        same = np.zeros(len(groups), np.uint32)  # all of them are candidates
        length = len(groups) if limited else k
        walk = candidates[walk_clusters(same, NO_MASK, EVERY_KEY, len(groups), groups, length, draws)]
        return self.limit(view, walk, k) if limited else walk

    def group(self, view: PairView, candidates: Index) -> npt.NDArray[np.int32]:
        """The group of each candidate that the round-robin visits: the cluster of its row, or cluster and class."""
        assert view.clusters is not None
        clusters = view.clusters[view.pairs.rows[candidates]]
        if not self.by_class:
            return clusters
        both = clusters.astype(np.int64) * view.pairs.class_count + view.pairs.classes[candidates]
        return checks.cluster_labels(both, len(both))

    def limit(self, view: PairView, walk: Index, k: int) -> Index:
        """The first k of the walk within the limits of rows and classes."""
        picks = np.empty(k, np.int64)
        counts = np.zeros(view.n, np.int32), np.zeros(view.pairs.class_count, np.int32)
        limits = self.per_row or NO_LIMIT, self.class_quota or NO_LIMIT
        pairs = freeze(view.pairs.rows), freeze(view.pairs.classes)
        return picks[: pick_within_limits(walk, *pairs, *limits, *counts, picks)]
