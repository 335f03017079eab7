"""Sorting a pool into cells: nearest centers, and the votes that tell which cells are neighbors."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def nearest_column(products, half, out):
    """out[i] = the column j with the largest products[i, j] - half[j], the first of equals. products (q, c)."""
    for i in range(products.shape[0]):
        best = 0
        most = products[i, 0] - half[0]
        for j in range(1, products.shape[1]):
            value = products[i, j] - half[j]
            if value > most:
                most = value
                best = j
        out[i] = best


@njit(cache=True, nogil=True)
def vote(points, starts, centers, half, around, voters, choices, lo, hi, votes):
    """votes[c, j] = how many of the sampled rows of cell c have the center of cell around[c, j] among their nearest.

    around (cells, a): the cells that come into question, the cell itself among them. Up to `voters` rows of a cell,
    evenly spaced, give `choices` votes each.
    """
    a = around.shape[1]
    near = np.empty((a, centers.shape[1]), centers.dtype)
    values = np.empty(a, centers.dtype)
    for c in range(lo, hi):
        count = starts[c + 1] - starts[c]
        asked = min(count, voters)
        for j in range(a):
            near[j] = centers[around[c, j]]
        for v in range(asked):
            row = points[starts[c] + v * count // asked]
            values[:] = np.dot(near, row)
            for j in range(a):
                values[j] -= half[around[c, j]]
            for _ in range(choices):
                best = np.argmax(values)
                votes[c, best] += 1
                values[best] = -np.inf
