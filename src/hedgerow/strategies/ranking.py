"""The k unlabeled rows with the lowest or highest scores, in order; ties by lowest row. O(n + k log k).

Scores may be random: `draw_arrivals` turns margins into keys whose k lowest are a weighted random sample.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import InputError
from hedgerow.kernels import freeze
from hedgerow.kernels.lowest import find_threshold, gather
from hedgerow.kernels.race import order_bits, race
from hedgerow.machine import team
from hedgerow.strategies.view import View

EVERY_KEY = np.uint32(0xFFFFFFFF)  # the largest key: a threshold that all keys pass
LEAST_RANGE = 1 << 16  # rows per thread: a few milliseconds of draws, which is what starting a thread takes
MOST_MARGIN = 1.01  # float16 probabilities may sum to this much


def take_lowest(scores: npt.NDArray[np.float32], view: View, k: int) -> npt.NDArray[np.int64]:
    """The k unlabeled rows with the lowest scores (>= 0, no negative zeros), lowest first. k <= unlabeled rows."""
    return take_lowest_keys(np.ascontiguousarray(scores).view(np.uint32), view, k)


def take_highest(scores: npt.NDArray[np.float32], view: View, k: int) -> npt.NDArray[np.int64]:
    """The k unlabeled rows with the highest scores (>= 0, no negative zeros), highest first. k <= unlabeled rows."""
    return take_lowest_keys(np.invert(np.ascontiguousarray(scores).view(np.uint32)), view, k)


def cut(keys: npt.NDArray[np.uint32], view: View, count: int) -> tuple[Any, int]:
    """(threshold, number of rows equal to it) that select exactly the `count` lowest unlabeled keys; count >= 1."""
    if count >= view.unlabeled_count:
        return EVERY_KEY, view.n
    threshold, ties = find_threshold(freeze(keys), view.mask, count)
    return np.uint32(threshold), int(ties)


def take_lowest_keys(keys: npt.NDArray[np.uint32], view: View, k: int) -> npt.NDArray[np.int64]:
    """The k unlabeled rows with the lowest keys (n,), lowest first. k <= unlabeled rows."""
    rows = np.empty(k, np.int64)
    if k == 0:
        return rows
    threshold, ties = cut(keys, view, k)
    gather(freeze(keys), view.mask, threshold, ties, rows)
    return rows[np.argsort(keys[rows], kind="stable")]


def refuse_large_margins(margins: npt.NDArray[np.float32]) -> None:
    """Raises `InputError` for margins that are not differences of probabilities."""
    if len(margins) and margins.max() > MOST_MARGIN:
        row = int(margins.argmax())
        raise InputError(
            f"margins holds {margins[row]:g} in row {row}: a draw by margin needs margins of probabilities, 0 to 1 "
            "(those of logits are larger)"
        )


def draw_arrivals(margins: npt.NDArray[np.float32], power: float, rng: np.random.Generator) -> npt.NDArray[np.uint32]:
    """Keys (n,) whose k lowest, in order, are k draws without replacement with weight (1 - margin)^power."""
    refuse_large_margins(margins)
    key = rng.integers(0, 2**64, dtype=np.uint64)
    arrivals = np.empty(len(margins), np.float32)

    def run(start: int, stop: int) -> None:
        race(freeze(margins[start:stop]), power, key, start, arrivals[start:stop])
        order_bits(arrivals[start:stop].view(np.uint32))

    if len(margins) < 2 * LEAST_RANGE:
        run(0, len(margins))
    else:
        with team(products=False) as threads:
            threads.ranges(run, len(margins), least=LEAST_RANGE)
    return arrivals.view(np.uint32)
