"""CoreSet: greedy k-center (Sener and Savarese 2018; a baseline of the paper, section 3.1).

Always the row farthest from its nearest center is next; the labeled rows are the first centers. The largest distance
left is at most twice the best possible. No robustness to outliers (the authors' mixed integer program) is attempted.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError
from hedgerow.kernels.kcenter import lower_to_centers, take_farthest
from hedgerow.strategies.partitions import Rows, pick_by_parts, take_rows
from hedgerow.strategies.view import View

METRICS = ("euclidean", "cosine")
# Squared distance up to which two rows are one point. Rows of length 1 in float32 that point the same way differ by
# about 1e-7 in length; in Euclidean space as given only equal rows coincide.
COINCIDENT = {"euclidean": 0.0, "cosine": 1e-12}


@dataclass(frozen=True)
class CoreSet:
    """k rows in greedy order; ties by lowest row. Without labeled rows the first one is random.

    `metric`: "euclidean", or "cosine" for the same between rows scaled to length 1. `partitions`: see `partitions.py`.
    O(n (k + labeled) d / partitions) time (the labeled part is not divided); memory: the embeddings in float32 and 8
    bytes a row.
    """

    partitions: int = 1
    metric: str = "euclidean"
    needs: ClassVar[frozenset[str]] = frozenset({"embeddings"})

    def __post_init__(self) -> None:
        checks.integer(self.partitions, "partitions", least=1)
        checks.option(self.metric, "metric", METRICS)

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> Rows:
        centers = self.take_points(view, view.labeled_rows())

        def pick(rows: Rows, share: int) -> Rows:
            points = self.take_points(view, rows)
            first = -1 if len(centers) else int(rng.integers(len(rows)))
            return rows[choose_centers(points, centers, share, first, COINCIDENT[self.metric])]

        return pick_by_parts(view, k, self.partitions, rng, pick, "coreset")

    def take_points(self, view: View, rows: Rows) -> npt.NDArray[np.float32]:
        """The rows of the embeddings in float32 (m, d), of length 1 for "cosine"."""
        assert view.embeddings is not None
        points = take_rows(view.embeddings, rows)
        if self.metric == "cosine":
            lengths = np.sqrt(np.einsum("ij,ij->i", points, points, dtype=np.float64))
            if not lengths.all():
                row = rows[lengths.argmin()]
                raise InputError(f"embeddings is all zeros in row {row}: it has no direction, use metric='euclidean'")
            points /= lengths[:, None].astype(np.float32)
        return points


def choose_centers(
    points: npt.NDArray[np.float32], given: npt.NDArray[np.float32], k: int, first: int, coincident: float
) -> npt.NDArray[np.int64]:
    """Up to k positions, farthest from the given centers and from each other; fewer when no distinct point is left.

    `first`: the position to begin with where no center is given, else -1.
    """
    nearest = np.full(len(points), np.inf)
    lower_to_centers(points, given, nearest)
    chosen = np.empty(k, np.int64)
    found = take_farthest(points, nearest, first, coincident, chosen)
    return chosen[:found]
