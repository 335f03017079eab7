"""Margin sampling: the rows whose two most likely classes are closest (paper, section 2; Roth and Small 2006).

`Margin` takes the rows that the model is least sure of, however similar they are. `StochasticMargin` draws rows in
proportion to how unsure the model is (Kirsch et al. 2023), which makes large batches more diverse.
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
    """The k lowest margins, lowest first; ties by lowest row. O(n + k log k) time, 24 bytes per picked row."""

    needs: ClassVar[frozenset[str]] = frozenset({"margins"})

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        assert view.margins is not None
        return take_lowest(view.margins, view, k)


@dataclass(frozen=True)
class StochasticMargin:
    """k rows drawn one after the other without replacement, with weight (1 - margin)^power, in the order drawn.

    power 0 is `Random`, a large power comes close to `Margin`. Rows with margin 1 come last, in random order.
    O(n + k log k) time, 4 bytes per row and 24 per picked row.
    """

    power: float = 1.0
    needs: ClassVar[frozenset[str]] = frozenset({"margins"})

    def __post_init__(self) -> None:
        checks.real(self.power, "power", least=0)

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        assert view.margins is not None
        return take_lowest_keys(draw_arrivals(view.margins, self.power, rng), view, k)
