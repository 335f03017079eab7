"""MaxHerding and UHerding: rows that cover the pool, or what the model is unsure of in it, under a Gaussian kernel.

MaxHerding (Bae, Noh and Sutherland 2024) greedily maximizes the sum over the pool of the largest kernel between a row
and any labeled or picked row. UHerding (Bae, Oliveira and Sutherland 2025) weights every row by the uncertainty
1 - margin. `coverage.py` has the algorithm. Not here: the authors' temperature, which they fit to labels, and their
other kernels.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.machine import team
from hedgerow.strategies.coreset import METRICS
from hedgerow.strategies.ranking import refuse_large_margins
from hedgerow.strategies.view import View

if TYPE_CHECKING:
    from hedgerow.strategies.coverage import Cover

Rows = npt.NDArray[np.int64]

SIGMA = 1.0  # that of the authors, for rows of length 1
SAMPLE = 35_000  # that of the authors: rows by which a larger pool is estimated
EXACT_UP_TO = 20_000  # labeled rows that are compared with each other; of more, the nearest are found by cells


@dataclass(frozen=True)
class MaxHerding:
    """k rows in greedy order; ties by lowest row.

    `sigma`: the kernel is exp(-(distance / sigma)^2). `sample`: a larger pool is estimated by random samples of this
    many rows. `metric`: "cosine", or "euclidean" for rows as they are; sigma is then in their units. Uses all cores.
    Time, with m the smaller of n and sample: O(m (m + labeled) d), and a fraction of m^2 d per pick. Memory: d float32
    and 40 bytes per sampled row, d float32 per labeled row.
    """

    sigma: float = SIGMA
    sample: int = SAMPLE
    metric: str = "cosine"
    needs: ClassVar[frozenset[str]] = frozenset({"embeddings"})

    def __post_init__(self) -> None:
        checks.real(self.sigma, "sigma", above=0)
        checks.integer(self.sample, "sample", least=1)
        checks.option(self.metric, "metric", METRICS)

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> Rows:
        # Imported here, since it brings scipy, and other strategies start without.
        from hedgerow.strategies.coverage import Gaussian, pick_by_samples, take_greedily

        def choose(cover: "Cover", _: Rows, share: int) -> Rows:
            return take_greedily(cover, Gaussian(self.sigma * cover.unit), share)

        return pick_by_samples(view, k, rng, self.metric, self.sample, choose, "maxherding")


@dataclass(frozen=True)
class UHerding:
    """k rows in greedy order; ties by lowest row. As `MaxHerding`, with every row weighted by 1 - margin.

    `sigma`: None is the smallest distance between two labeled rows that differ, as in the paper, and 1 with fewer than
    two; it shrinks as labels are added, and the batch turns from coverage to uncertainty. Margins should come from
    calibrated probabilities: the paper divides logits by a temperature that is fitted to labels. If no row is
    uncertain, all have equal weights. Time and memory as for `MaxHerding`, and O(labeled^2 d) time for sigma.
    """

    sigma: float | None = None
    sample: int = SAMPLE
    metric: str = "cosine"
    needs: ClassVar[frozenset[str]] = frozenset({"margins", "embeddings"})

    def __post_init__(self) -> None:
        MaxHerding(SIGMA if self.sigma is None else self.sigma, self.sample, self.metric)

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> Rows:
        # Imported here, since it brings scipy, and other strategies start without.
        from hedgerow.strategies.coverage import Gaussian, pick_by_samples, take_greedily

        assert view.margins is not None
        refuse_large_margins(view.margins)
        margins = view.margins
        sigma = find_sigma(view, self.metric) if self.sigma is None else self.sigma

        def choose(cover: "Cover", rows: Rows, share: int) -> Rows:
            kernel = Gaussian(sigma * cover.unit)
            weights = np.maximum(1 - margins[rows].astype(np.float64), 0)
            unsure = take_greedily(replace(cover, weights=weights), kernel, share)
            return np.concatenate([unsure, take_greedily(cover, kernel, share - len(unsure))])

        return pick_by_samples(view, k, rng, self.metric, self.sample, choose, "uherding")


def find_sigma(view: View, metric: str) -> float:
    """The smallest distance between two labeled rows that differ; SIGMA if there are no two."""
    from hedgerow.clustering.layout import search_rows
    from hedgerow.strategies.points import measure_distances, open_points

    assert view.embeddings is not None
    with team() as threads:
        vectors = open_points(view.embeddings, metric, threads)
        points = np.unique(vectors.take(view.labeled_rows()), axis=0)
        if len(points) < 2:
            return SIGMA
        found = measure_distances(vectors, search_rows(points, 1, threads, exact_up_to=EXACT_UP_TO).gaps)
    positive = found[found > 0]  # rounding may hide that two rows differ
    return float(positive.min()) if len(positive) else SIGMA
