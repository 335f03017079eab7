"""Two other classical scores: entropy and least confidence (Settles 2009, section 3.1).

With two classes both rank rows as the margin does; with more classes they differ.
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
    """The k highest entropies -sum p log p, highest first; ties by lowest row. O(n C + k log k), 12 bytes per row."""

    needs: ClassVar[frozenset[str]] = frozenset({"probabilities"})

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        return take_highest(entropies(view.probabilities), view, k)


@dataclass(frozen=True)
class LeastConfidence:
    """The k lowest of the rows' largest probabilities; ties by lowest row. O(n C + k log k), 12 bytes per row."""

    needs: ClassVar[frozenset[str]] = frozenset({"probabilities"})

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        return take_highest(least_confidences(view.probabilities), view, k)
