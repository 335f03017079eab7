"""The two other classical scores: entropy and least confidence (Settles 2009, section 3.1).

Both rank like the margin when there are two classes, and differently with more.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow.scores import entropies, least_confidences
from hedgerow.strategies.ranking import take_highest
from hedgerow.strategies.view import View


@dataclass(frozen=True)
class Entropy:
    """The k highest entropies -sum p log p, highest first; ties by lowest row. O(n C + k log k), 12 bytes a row."""

    needs: ClassVar[frozenset[str]] = frozenset({"probabilities"})

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        return take_highest(entropies(view.probabilities), view, k)


@dataclass(frozen=True)
class LeastConfidence:
    """The k lowest largest probabilities, lowest first; ties by lowest row. O(n C + k log k), 12 bytes a row."""

    needs: ClassVar[frozenset[str]] = frozenset({"probabilities"})

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        return take_highest(least_confidences(view.probabilities), view, k)
