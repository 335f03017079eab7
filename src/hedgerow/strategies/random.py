"""Random sampling: the baseline that every strategy has to beat."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow.strategies.view import View


@dataclass(frozen=True)
class Random:
    """k unlabeled rows, uniformly without replacement, in random order. O(n) time, 8 bytes per unlabeled row."""

    needs: ClassVar[frozenset[str]] = frozenset()

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        places = rng.choice(view.unlabeled_count, k, replace=False)
        return places if view.labeled is None else view.unlabeled_rows()[places]
