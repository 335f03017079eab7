"""Margin sampling: the rows whose two likeliest classes are closest (paper, section 2; Roth and Small 2006).

The least sure first, without regard to how alike they are.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow.strategies.ranking import take_lowest
from hedgerow.strategies.view import View


@dataclass(frozen=True)
class Margin:
    """The k lowest margins, lowest first; ties by lowest row. O(n + k log k) time, 24 bytes a picked row."""

    needs: ClassVar[frozenset[str]] = frozenset({"margins"})

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        assert view.margins is not None
        return take_lowest(view.margins, view, k)
