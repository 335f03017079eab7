"""The margin of a row from the probabilities of its pairs, for the strategies that select rows first.

The paper (section 3.2) selects images by their margin, the difference between the two largest class probabilities
(section 2), and says no more for a model with independent classes. There are several readings:

- `lowest`, the default: the lowest abs(2 p - 1) of the row's unlabeled pairs. The most probable set of answers to these
  pairs takes the likelier answer of each; the second most probable differs in the pair with the lowest margin m. Their
  odds are (1 + m) / (1 - m), so the rows come in the order of how close their two most probable sets of answers are.
- `mean`: the mean abs(2 p - 1) of the row's unlabeled pairs.
- `top2`: the largest minus the second largest probability of the row's pairs, labeled or not; abs(2 p - 1) if it has
  one pair. Low for a row that surely has two classes: this is not uncertainty.
- `top2-all`: the same over all C classes, which is the paper's definition to the letter. It needs a matrix (n, C).

All but the last use the pairs alone, so that a matrix (n, C) and its entries for the pairs, (m,), give equal margins.
"""

import numpy as np
import numpy.typing as npt

from hedgerow import scores
from hedgerow.errors import InputError
from hedgerow.kernels import freeze
from hedgerow.kernels.pairs import add_rows, lower_rows, raise_rows
from hedgerow.pool import Matrix
from hedgerow.strategies.view import NO_MASK

Index = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]

DEFAULT, OVER_ALL = "lowest", "top2-all"


def find_lowest(rows: Index, closed: Mask | None, margins: Floats, n: int) -> Floats:
    """The lowest of margins (m,) of every row's open pairs, float32 (n,); 1 for rows without any."""
    lowest = np.ones(n, np.float32)
    lower_rows(freeze(rows), _mask(closed), freeze(margins), lowest)
    return lowest


def average(rows: Index, closed: Mask | None, margins: Floats, n: int) -> Floats:
    """The mean of margins (m,) of every row's open pairs, float32 (n,); 1 for rows without any."""
    sums, counts = np.zeros(n), np.zeros(n, np.int64)
    add_rows(freeze(rows), _mask(closed), freeze(margins), sums, counts)
    sums[counts == 0], counts[counts == 0] = 1, 1
    return np.divide(sums, counts, out=sums).astype(np.float32)


def find_gaps(rows: Index, absent: Mask | None, chances: npt.NDArray[np.floating], n: int) -> Floats:
    """The largest minus the second largest of chances (m,) of every row, float32 (n,).

    absent: pairs without predictions, which do not count. abs(2 p - 1) for rows with one pair, 1 for rows without any.
    """
    first, second = np.full((2, n), -1, np.float32)
    raise_rows(freeze(rows), _mask(absent), freeze(chances.astype(np.float32, copy=False)), first, second)
    gaps = np.where(second < 0, np.abs(2 * first - 1), first - second)
    gaps[first < 0] = 1
    return gaps


def find_gaps_of_all(matrix: Matrix | None) -> Floats:
    """The largest minus the second largest probability of every row of a matrix (n, C)."""
    if matrix is None:
        raise InputError(
            f"row_margin={OVER_ALL!r} needs the probabilities of all classes, a matrix (rows, classes), but got one "
            "per pair: pass the matrix, or use row_margin='top2', which compares the classes of a row's pairs"
        )
    return scores.independent_margins(matrix)


def _mask(mask: Mask | None) -> Mask:
    return NO_MASK if mask is None else freeze(mask)
