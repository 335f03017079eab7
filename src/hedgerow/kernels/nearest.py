"""Keeping the k nearest: blocks of inner products in, sorted neighbor lists out.

gap(x, y) = half_x + half_y - <x, y> (see `merging`); lists are ascending by (gap, row), so what is kept does not depend
on the order in which candidates come.
"""

import numpy as np
from numba import njit

LANES = 32  # four AVX registers of float32: a whole block of products is dismissed by one compare

# Minima may be reassociated and no product is NaN; infinities keep their meaning (lists start at infinity).
MINIMA = {"reassoc", "contract", "nsz", "nnan"}


@njit(cache=True, nogil=True)
def insert(ids, gaps, row, candidate, gap):
    """Puts a candidate into list `row`, ascending by (gap, row number); the last falls out."""
    t = ids.shape[1] - 1
    while t > 0 and (gap < gaps[row, t - 1] or (gap == gaps[row, t - 1] and candidate < ids[row, t - 1])):
        gaps[row, t] = gaps[row, t - 1]
        ids[row, t] = ids[row, t - 1]
        t -= 1
    gaps[row, t] = gap
    ids[row, t] = candidate


@njit(cache=True, nogil=True, fastmath=MINIMA)
def least_gap(products, i, j0, j1, half_i, half, first):
    """min over j0 <= j < j1 of the gap between query i and candidate first + j."""
    least = half_i + half[first + j0] - products[i, j0]
    for j in range(j0, j1):
        least = min(least, half_i + half[first + j] - products[i, j])
    return least


@njit(cache=True, nogil=True)
def keep_nearest(products, query, first, half, ids, gaps):
    """Offers the candidates first, first + 1, ... to the lists of the queries query, query + 1, ...

    products (q, c) = <query i, candidate j>; half (n,); ids, gaps (n, k), -1 and infinity where empty. A row is not
    its own neighbor. Cost: q c compares, of which most are dismissed LANES at a time.
    """
    zero = half.dtype.type(0)
    last = ids.shape[1] - 1
    for i in range(products.shape[0]):
        row = query + i
        half_i = half[row]
        for j0 in range(0, products.shape[1], LANES):
            j1 = min(products.shape[1], j0 + LANES)
            if least_gap(products, i, j0, j1, half_i, half, first) > gaps[row, last]:
                continue
            for j in range(j0, j1):
                candidate = first + j
                gap = max(half_i + half[candidate] - products[i, j], zero)
                if candidate == row or gap > gaps[row, last]:
                    continue
                if gap < gaps[row, last] or candidate < ids[row, last]:
                    insert(ids, gaps, row, candidate, gap)


@njit(cache=True, nogil=True)
def search_all(points, half, lo, hi, block, products, ids, gaps):
    """Lists of rows lo..hi against all rows, by GEMM of `block` candidates at a time. products (>= hi - lo, block)."""
    n = len(points)
    queries = points[lo:hi]
    for first in range(0, n, block):
        stop = min(n, first + block)
        area = products.ravel()[: (hi - lo) * (stop - first)].reshape((hi - lo, stop - first))
        np.dot(queries, points[first:stop].T, area)
        keep_nearest(area, lo, first, half, ids, gaps)
