"""Margin sampling: the rows whose two likeliest classes are closest (paper, section 2; Roth and Small 2006).

`Margin` takes the least sure, without regard to how alike they are. `StochasticMargin` draws in proportion to how
unsure the model is (Kirsch et al. 2023): a large batch is then not all of one kind.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.strategies.ranking import draw_arrivals, take_lowest, take_lowest_keys
from hedgerow.strategies.view import View


@dataclass(frozen=True)
class Margin:
    """The k lowest margins, lowest first; ties by lowest row. O(n + k log k) time, 24 bytes a picked row."""

    needs: ClassVar[frozenset[str]] = frozenset({"margins"})

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        assert view.margins is not None
        return take_lowest(view.margins, view, k)


@dataclass(frozen=True)
class StochasticMargin:
    """k rows drawn one after the other without replacement, with weight (1 - margin)^power, in the order drawn.

    power 0 is `Random`, a large one comes close to `Margin`. Rows with margin 1 come last, in random order. O(n + k log
    k) time, 4 bytes a row and 24 a picked one.
    """

    power: float = 1.0
    needs: ClassVar[frozenset[str]] = frozenset({"margins"})

    def __post_init__(self) -> None:
        checks.real(self.power, "power", least=0)

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        assert view.margins is not None
        return take_lowest_keys(draw_arrivals(view.margins, self.power, rng), view, k)
