"""CoreSet: greedy k-center (Sener and Savarese 2018; a baseline of the paper, section 3.1).

The next pick is always the row farthest from its nearest center; the labeled rows are the first centers. The largest
remaining distance is at most twice the optimum. The authors' mixed integer program for outliers is not implemented.
"""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError
from hedgerow.kernels import freeze
from hedgerow.machine import Team, team
from hedgerow.pool.blocks import copy_rows
from hedgerow.strategies.partitions import Part, Rows, fill_up, pick_parts, split
from hedgerow.strategies.view import View

if TYPE_CHECKING:
    from hedgerow.strategies.centers import Given

Floats = npt.NDArray[np.float32]

METRICS = ("euclidean", "cosine")
# Squared distance up to which two rows count as one point. Rows scaled to length 1 in float32 that have the same
# direction differ by about 1e-7; unscaled rows must be equal.
COINCIDENT = {"euclidean": 0.0, "cosine": 1e-12}


@dataclass(frozen=True)
class CoreSet:
    """k rows in greedy order; ties by lowest row. Without labeled rows the first row is random.

    `metric`: "euclidean", or "cosine" for the Euclidean distance of rows scaled to length 1. `partitions`: see
    `partitions.py`. `split_labeled`: the labeled rows are split among the parts as well; a part uses only its own.
    Uses all cores. Time: O(n (k + labeled) d) at worst, a fraction of that on most data. Memory: 24 bytes per unlabeled
    row, d float32 per picked row and twice that per labeled row; a copy of the unlabeled rows of the embeddings if they
    are not float32 in row order, or with "cosine".
    """

    partitions: int = 1
    metric: str = "euclidean"
    split_labeled: bool = False
    needs: ClassVar[frozenset[str]] = frozenset({"embeddings"})

    def __post_init__(self) -> None:
        checks.integer(self.partitions, "partitions", least=1)
        checks.option(self.metric, "metric", METRICS)
        checks.flag(self.split_labeled, "split_labeled")

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> Rows:
        return self.spread(view, view.labeled_rows(), k, rng)

    def spread(self, view: View, centers: Rows, k: int, rng: np.random.Generator) -> Rows:
        """k unlabeled rows far from these rows and from each other."""
        # Imported here, since it brings scipy, and other strategies start without; and before the team, which can only
        # limit the threads of a BLAS that is loaded.
        importlib.import_module("hedgerow.strategies.centers")
        with team() as threads:
            picked = pick_parts(self, view, self._plan(view, centers, k, rng), rng, threads)
        return fill_up(np.concatenate(picked), view, k, rng, "coreset")

    def plan(self, view: View, k: int, rng: np.random.Generator) -> list[Part]:
        """The parts of the pool, and the labeled rows that each keeps away from."""
        return self._plan(view, view.labeled_rows(), k, rng)

    def _plan(self, view: View, centers: Rows, k: int, rng: np.random.Generator) -> list[Part]:
        # In random order, so that pivots and parts are random samples.
        shares = np.array_split(rng.permutation(centers), self.partitions if self.split_labeled else 1)
        return split(view.unlabeled_rows(), k, self.partitions, rng, shares)

    def prepare(self, view: View, centers: Rows, threads: Team) -> "Given":
        """The labeled rows of a part, sorted so that those near a point are found fast."""
        from hedgerow.strategies.centers import shelve

        return shelve(self.copy_points(view, centers), threads)

    def pick(self, view: View, rows: Rows, given: "Given", k: int, rng: np.random.Generator, threads: Team) -> Rows:
        """Up to k of the rows; fewer if no distinct point is left."""
        from hedgerow.strategies.centers import Points, choose_centers

        assert view.embeddings is not None
        first = -1 if len(given) else int(rng.integers(len(rows)))
        matrix = view.embeddings
        if self.metric == "euclidean" and matrix.dtype == np.float32 and matrix.flags.c_contiguous:
            points = Points(freeze(np.asarray(matrix)), rows)
        else:
            points = Points(freeze(self.copy_points(view, rows)), np.arange(len(rows), dtype=np.int64))
        return rows[choose_centers(points, given, k, first, COINCIDENT[self.metric], threads)]

    def copy_points(self, view: View, rows: Rows) -> Floats:
        """The rows of the embeddings in float32 (m, d), of length 1 for "cosine"."""
        assert view.embeddings is not None
        points = copy_rows(view.embeddings, rows)
        if self.metric == "cosine":
            points /= measure_lengths(points, rows)[:, None].astype(np.float32)
        return points


def measure_lengths(points: Floats, rows: Rows) -> npt.NDArray[np.float64]:
    """The lengths of points (m, d), which are not 0. rows: their numbers in the pool, for the error."""
    lengths: npt.NDArray[np.float64] = np.sqrt(np.einsum("ij,ij->i", points, points, dtype=np.float64))
    if not lengths.all():
        row = rows[lengths.argmin()]
        raise InputError(f"embeddings is all zeros in row {row}: it has no direction, use metric='euclidean'")
    return lengths
