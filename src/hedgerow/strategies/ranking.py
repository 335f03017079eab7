"""The k unlabeled rows that rank first by one score, in order; ties go to the lowest row. O(n + k log k)."""

from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.kernels.lowest import find_threshold, gather
from hedgerow.strategies.view import View

EVERY_KEY = np.uint32(0xFFFFFFFF)  # no key lies above: a threshold that lets all through


def take_lowest(scores: npt.NDArray[np.float32], view: View, k: int) -> npt.NDArray[np.int64]:
    """The k unlabeled rows with the lowest scores (>= 0, no negative zeros), lowest first. k <= unlabeled rows."""
    return _take(np.ascontiguousarray(scores).view(np.uint32), view, k)


def take_highest(scores: npt.NDArray[np.float32], view: View, k: int) -> npt.NDArray[np.int64]:
    """The k unlabeled rows with the highest scores (>= 0, no negative zeros), highest first. k <= unlabeled rows."""
    return _take(np.invert(np.ascontiguousarray(scores).view(np.uint32)), view, k)


def cut(keys: npt.NDArray[np.uint32], view: View, count: int) -> tuple[Any, int]:
    """(threshold, rows that equal it) that let exactly the `count` lowest unlabeled keys through; count >= 1."""
    if count >= view.unlabeled_count:
        return EVERY_KEY, view.n
    threshold, ties = find_threshold(keys, view.mask, count)
    return np.uint32(threshold), int(ties)


def _take(keys: npt.NDArray[np.uint32], view: View, k: int) -> npt.NDArray[np.int64]:
    rows = np.empty(k, np.int64)
    if k == 0:
        return rows
    threshold, ties = cut(keys, view, k)
    gather(keys, view.mask, threshold, ties, rows)
    return rows[np.argsort(keys[rows], kind="stable")]
