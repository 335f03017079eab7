"""BADGE: k-means++ over gradient embeddings (Ash et al. 2020; a baseline of the paper, section 3.1).

The gradient of the loss in the last layer, at the class the model holds likeliest, is g = (p - onehot(argmax p)) (x) z
for an example with probabilities p and embedding z. Inner products factor, <g, g'> = <a, a'><z, z'> with
a = p - onehot(argmax p), so g itself, n x (d C), is never made. Each further center is drawn with probability
proportional to its squared distance from the nearest one so far. Labeled rows play no part.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.kernels.plusplus import draw_centers
from hedgerow.strategies.partitions import Rows, pick_by_parts, take_rows
from hedgerow.strategies.view import View

FIRST = ("largest-norm", "random")


@dataclass(frozen=True)
class Badge:
    """k rows in the order drawn, exactly by the law of k-means++.

    `first`: the first center is the row of the largest gradient, as in the authors' code, or a random one.
    `partitions`: see `partitions.py`. O(n k (d + C) / partitions) time; memory: the unlabeled rows of embeddings and
    probabilities in float32, and 16 bytes a row.
    """

    partitions: int = 1
    first: str = "largest-norm"
    needs: ClassVar[frozenset[str]] = frozenset({"probabilities", "embeddings"})

    def __post_init__(self) -> None:
        checks.integer(self.partitions, "partitions", least=1)
        checks.option(self.first, "first", FIRST)

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> Rows:
        def pick(rows: Rows, share: int) -> Rows:
            residuals, points = factor_gradients(view, rows)
            centers = seed_plusplus(residuals, points, share, self.first, rng)
            return rows[centers]

        return pick_by_parts(view, k, self.partitions, rng, pick, "badge")


def factor_gradients(view: View, rows: Rows) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """(a, z) of the rows: p - onehot(argmax p), float32 (m, C), and the embeddings, float32 (m, d)."""
    assert view.probabilities is not None
    assert view.embeddings is not None
    residuals = take_rows(view.probabilities, rows)
    residuals[np.arange(len(rows)), residuals.argmax(axis=1)] -= 1
    return residuals, take_rows(view.embeddings, rows)


def seed_plusplus(
    residuals: npt.NDArray[np.float32], points: npt.NDArray[np.float32], k: int, first: str, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Up to k centers by k-means++, as positions; fewer when every row coincides with a center. 1 <= k <= m."""
    norms = np.einsum("ij,ij->i", residuals, residuals, dtype=np.float64)
    norms *= np.einsum("ij,ij->i", points, points, dtype=np.float64)
    start = int(norms.argmax()) if first == "largest-norm" else int(rng.integers(len(norms)))
    centers = np.empty(k, np.int64)
    found = draw_centers(residuals, points, norms, start, rng.random(k), centers)
    return centers[:found]
