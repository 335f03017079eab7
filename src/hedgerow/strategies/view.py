"""What a strategy sees of the pool in one round.

`select` builds it and checks everything; a strategy can rely on it. It holds references and copies nothing.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.kernels import freeze

NO_MASK = freeze(np.zeros(0, np.bool_))  # what kernels take if nothing is labeled


@dataclass(frozen=True, eq=False)
class Drawn:
    """What a strategy may return instead of rows, if it drew them with known probabilities.

    rows: int64 (k,), in pick order. weights: float64 (k,), 1 / the probability with which each row was picked.
    """

    rows: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class View:
    """A pool of n rows; what was not given, or not needed, is None.

    labeled: bool (n,), the rows that may not be picked: labeled ones, and others without predictions, which `absent`
    marks. margins: float32 (n,), finite, >= 0 and without negative zeros. probabilities (n, C) and embeddings (n, d):
    float16, float32 or float64, perhaps a memmap. clusters: int32 (n,), 0 or more. owners: int64 (n,), where several
    rows share an embedding: the row of the embeddings for each. classes: how many the model predicts, if known.
    """

    n: int
    labeled: npt.NDArray[np.bool_] | None = None
    margins: npt.NDArray[np.float32] | None = None
    probabilities: npt.NDArray[Any] | None = None
    embeddings: npt.NDArray[Any] | None = None
    clusters: npt.NDArray[np.int32] | None = None
    owners: npt.NDArray[np.int64] | None = None
    absent: npt.NDArray[np.bool_] | None = None
    classes: int | None = None

    @cached_property
    def unlabeled_count(self) -> int:
        """How many rows may be picked."""
        return self.n if self.labeled is None else self.n - int(np.count_nonzero(self.labeled))

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """`labeled` in the form that kernels take: of length 0 if nothing is labeled."""
        return NO_MASK if self.labeled is None else freeze(self.labeled)

    def unlabeled_rows(self) -> npt.NDArray[np.int64]:
        """The rows that may be picked, ascending: a new array at every call, 8 bytes per row."""
        if self.labeled is None:
            return np.arange(self.n, dtype=np.int64)
        return np.flatnonzero(~self.labeled).astype(np.int64, copy=False)

    def find_owners(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The rows of the embeddings for these rows: the same, unless there are owners."""
        return rows if self.owners is None else self.owners[rows]

    def labeled_rows(self) -> npt.NDArray[np.int64]:
        """The rows that are labeled, ascending; those that only lack predictions are not."""
        labeled = self.mask if self.absent is None else self.mask & ~self.absent
        return np.flatnonzero(labeled).astype(np.int64, copy=False)
