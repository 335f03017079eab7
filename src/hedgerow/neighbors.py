"""Nearest neighbors by gap: half of the squared Euclidean distance, or cosine distance for unit vectors.

`gap(x, y) = half_x + half_y - <x, y>` where `half` is half of a point's squared norm; for a cluster's mean it is half
of the mean squared norm of its members, and then the gap is (half of) the average linkage: a neighbor search over means
is a search for the nearest cluster (see `kernels/merging.py`).

`find_neighbors` compares all pairs, exactly, block by block: O(n^2 d) time, O(n k) memory.
"""

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.kernels import nearest
from hedgerow.threads import Team

QUERIES, CANDIDATES = 256, 1024  # a block of products is 1 MiB of float32 and stays in a core's cache


@dataclass(frozen=True)
class Neighbors:
    """The k nearest of every row, nearest first. ids int32 (n, k), -1 where there is none; gaps (n, k)."""

    ids: npt.NDArray[np.int32]
    gaps: npt.NDArray[Any]


def find_neighbors(points: npt.NDArray[Any], half: npt.NDArray[Any], k: int, team: Team) -> Neighbors:
    """The exact k nearest of every row (fewer where n <= k). points (n, d) contiguous, half (n,) of the same dtype."""
    n = len(points)
    k = min(k, max(n - 1, 0))
    ids = np.full((n, k), -1, np.int32)
    gaps = np.full((n, k), np.inf, points.dtype)
    if k == 0:
        return Neighbors(ids, gaps)
    buffers = threading.local()

    def search(lo: int) -> None:
        if not hasattr(buffers, "products"):
            buffers.products = np.empty((QUERIES, CANDIDATES), points.dtype)
        nearest.search_all(points, half, lo, min(n, lo + QUERIES), CANDIDATES, buffers.products, ids, gaps)

    team.map(search, list(range(0, n, QUERIES)))
    return Neighbors(ids, gaps)
