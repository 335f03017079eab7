"""What a strategy sees of a multi-label pool in one round: the pairs, and what is known about their rows.

`select_pairs` builds it and checks everything; a strategy can rely on it. It holds references and copies nothing.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.kernels import freeze
from hedgerow.kernels.pairs import mark_rows
from hedgerow.pairs.pairs import Pairs
from hedgerow.strategies.view import NO_MASK, View


@dataclass(frozen=True, eq=False)
class PairView:
    """m pairs of a pool of n rows; what was not given, or not needed, is None.

    Per pair: labeled bool (m,), the pairs that may not be picked: labeled ones, and others without predictions, which
    `absent` marks; unpredicted bool (m,), all pairs without predictions, labeled or not: their probabilities are 0;
    probabilities (m,) that the answer is yes; margins float32 (m,). Per row: row_margins float32 (n,)
    (`row_margins.py`), embeddings (n, d), clusters int32 (n,).
    """

    pairs: Pairs
    n: int
    labeled: npt.NDArray[np.bool_] | None = None
    margins: npt.NDArray[np.float32] | None = None
    probabilities: npt.NDArray[Any] | None = None
    row_margins: npt.NDArray[np.float32] | None = None
    embeddings: npt.NDArray[Any] | None = None
    clusters: npt.NDArray[np.int32] | None = None
    absent: npt.NDArray[np.bool_] | None = None
    unpredicted: npt.NDArray[np.bool_] | None = None

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """`labeled` in the form that kernels take: of length 0 if nothing is labeled."""
        return NO_MASK if self.labeled is None else freeze(self.labeled)

    @cached_property
    def flat(self) -> View:
        """The pairs as a pool of their own, one row per pair. Its clusters are None: they are per row."""
        chances = None if self.probabilities is None else self.probabilities[:, None]
        return View(len(self.pairs), self.labeled, self.margins, chances, self.embeddings, owners=self.pairs.rows)

    def find_rows(self, *, labeled: bool) -> npt.NDArray[np.bool_]:
        """Which rows have a labeled pair, or one that may be picked: bool (n,)."""
        marked = np.zeros(self.n, np.bool_)
        mask = self.mask if self.absent is None or not labeled else freeze(self.mask & ~self.absent)
        mark_rows(freeze(self.pairs.rows), mask, labeled, marked)
        return marked
