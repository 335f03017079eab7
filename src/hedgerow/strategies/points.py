"""Embeddings as the strategies for low budgets measure distances: Euclidean, of rows scaled to length 1 or as they are.

Rows are read where they are needed and never copied as a whole. A row of zeros has no direction and is not scaled: its
distance from every row of length 1 is 1.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.clustering.vectors import Vectors, survey_rows
from hedgerow.machine import Team


def open_points(embeddings: npt.NDArray[Any], metric: str, team: Team) -> Vectors:
    """The pool's rows for a metric: `take` gives them in float32. Distances are those of `measure_distances`."""
    return survey_rows(embeddings, "cosine" if metric == "cosine" else "sqeuclidean", team)[0]


def measure_distances(vectors: Vectors, gaps: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Euclidean distances from gaps, which are half of the squared distances of the rows that `take` gives."""
    return np.sqrt(2 * np.asarray(gaps, np.float64)) / vectors.factor
