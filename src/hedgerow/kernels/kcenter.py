"""Greedy k-center, the plain loop: distances by direct differences, so that equal points are at distance 0."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def squared_distance(x, y):
    """|x - y|^2 of two float32 vectors, in float64."""
    total = 0.0
    for j in range(x.size):
        gap = np.float64(x[j]) - np.float64(y[j])
        total += gap * gap
    return total


@njit(cache=True, nogil=True)
def lower_to_centers(points, centers, nearest):
    """nearest (m,) float64 down to the squared distance from the closest of the centers (c, d). Cost: m c d."""
    for i in range(nearest.size):
        for c in range(centers.shape[0]):
            nearest[i] = min(nearest[i], squared_distance(points[i], centers[c]))


@njit(cache=True, nogil=True)
def find_farthest(nearest):
    """The row with the largest entry, the lowest such row."""
    farthest = 0
    for i in range(1, nearest.size):
        if nearest[i] > nearest[farthest]:
            farthest = i
    return farthest


@njit(cache=True, nogil=True)
def take_farthest(points, nearest, first, coincident, chosen):
    """Fills chosen (k,) int64 greedily; returns how many before no row was farther than `coincident` from a center.

    points (m, d) float32; nearest (m,) float64 squared distances, updated; `first`: where to begin, -1 for the
    farthest. Cost: k m d.
    """
    for t in range(chosen.size):
        row = first if t == 0 and first >= 0 else find_farthest(nearest)
        if nearest[row] <= coincident:
            return t
        chosen[t] = row
        for i in range(nearest.size):
            nearest[i] = min(nearest[i], squared_distance(points[i], points[row]))
        nearest[row] = -1.0  # never again, also where rows this close count as apart
    return chosen.size
