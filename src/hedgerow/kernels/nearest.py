"""Keeping the k nearest: blocks of inner products in, sorted neighbor lists out.

gap(x, y) = half_x + half_y - <x, y> (see `merging`); lists are ascending by (gap, row), so what is kept does not depend
on the order in which candidates come. A block of products serves both of its sides, so each is computed once.

ids, gaps (n, k): the lists, -1 and infinity where empty. worst (n,): the gap beyond which a row takes no candidate, at
first as far as neighbors are wanted at all, then that of the last in its list; contiguous for the compares.
"""

import numpy as np
from numba import njit

LANES = 64  # products dismissed by one compare: shorter blocks are unrolled to scalars, longer ones gain nothing
QUERIES, CANDIDATES = 128, 512  # a block of products: 256 KiB of float32, half of a core's second-level cache


@njit(cache=True, nogil=True)
def offer(ids, gaps, worst, row, candidate, gap):
    """Puts a candidate into the list of `row` if it is nearer than the last there; the last falls out."""
    near, near_gaps = ids[row], gaps[row]
    t = len(near) - 1
    if gap > near_gaps[t] or (gap == near_gaps[t] and candidate > near[t]):
        return
    while t > 0 and (gap < near_gaps[t - 1] or (gap == near_gaps[t - 1] and candidate < near[t - 1])):
        near_gaps[t] = near_gaps[t - 1]
        near[t] = near[t - 1]
        t -= 1
    near_gaps[t] = gap
    near[t] = candidate
    worst[row] = min(worst[row], near_gaps[-1])


@njit(cache=True, nogil=True, fastmath={"contract", "nsz", "nnan"})
def count_within(products, half, worst, start, half_row, worst_row):
    """How many of LANES products concern a list, their row's or their column's: an integer sum becomes vector code."""
    count = np.int32(0)
    for t in range(LANES):
        gap = half_row + half[start + t] - products[start + t]
        count += np.int32(gap <= max(worst_row, worst[start + t]))
    return count


@njit(cache=True, nogil=True)
def keep_nearest(products, rows, columns, half, ids, gaps, worst):
    """Offers every row of a block to every column of it and the other way round.

    products (q, c) = <row rows + i, row columns + j>; the two ranges do not meet. Cost: 2 q c compares, of which most
    are dismissed LANES at a time.
    """
    zero = half.dtype.type(0)
    count = products.shape[1]
    half_columns = half[columns : columns + count]
    worst_columns = worst[columns : columns + count]
    for i in range(products.shape[0]):
        row = rows + i
        mine = products[i]
        half_row = half[row]
        for start in range(np.uint64(0), np.uint64(count), np.uint64(LANES)):  # unsigned: no check for negative indices
            stop = min(np.uint64(count), start + np.uint64(LANES))
            # the last block is looked at with what stands before it, to be as long as the others
            if (
                count >= LANES
                and count_within(mine, half_columns, worst_columns, stop - np.uint64(LANES), half_row, worst[row]) == 0
            ):
                continue
            for j in range(start, stop):
                gap = max(half_row + half_columns[j] - mine[j], zero)
                if gap <= worst[row]:
                    offer(ids, gaps, worst, row, np.int32(columns + j), gap)
                if gap <= worst_columns[j]:
                    offer(ids, gaps, worst, np.int64(columns + j), np.int32(row), gap)


@njit(cache=True, nogil=True)
def keep_nearest_own(products, first, half, ids, gaps, worst):
    """The same within one range of rows: products (q, q), the part above the diagonal counts."""
    zero = half.dtype.type(0)
    for i in range(products.shape[0]):
        row = first + i
        for j in range(i + 1, products.shape[0]):
            gap = max(half[row] + half[first + j] - products[i, j], zero)
            if gap <= worst[row]:
                offer(ids, gaps, worst, row, np.int32(first + j), gap)
            if gap <= worst[first + j]:
                offer(ids, gaps, worst, first + j, np.int32(row), gap)


@njit(cache=True, nogil=True)
def search_ranges(points, half, a0, a1, b0, b1, products, ids, gaps, worst):
    """Every row of a0:a1 against every row of b0:b1, two ranges that do not meet. products: scratch of a block."""
    for i in range(a0, a1, QUERIES):
        i1 = min(a1, i + QUERIES)
        for j in range(b0, b1, CANDIDATES):
            j1 = min(b1, j + CANDIDATES)
            block = products[: (i1 - i) * (j1 - j)].reshape((i1 - i, j1 - j))
            np.dot(points[i:i1], points[j:j1].T, block)
            keep_nearest(block, i, j, half, ids, gaps, worst)


@njit(cache=True, nogil=True)
def search_cells(points, half, starts, lo, hi, products, ids, gaps, worst):
    """Every row of each cell lo..hi against the other rows of its cell; cell c is rows starts[c]:starts[c + 1]."""
    for c in range(lo, hi):
        for i in range(starts[c], starts[c + 1], QUERIES):
            i1 = min(starts[c + 1], i + QUERIES)
            block = products[: (i1 - i) * (i1 - i)].reshape((i1 - i, i1 - i))
            np.dot(points[i:i1], points[i:i1].T, block)
            keep_nearest_own(block, i, half, ids, gaps, worst)
            search_ranges(points, half, i, i1, i1, starts[c + 1], products, ids, gaps, worst)


@njit(cache=True, nogil=True)
def search_pairs(points, half, starts, first, second, products, ids, gaps, worst):
    """Every row of cell first[i] against every row of cell second[i], for all pairs of cells i."""
    for i in range(len(first)):
        a, b = first[i], second[i]
        search_ranges(points, half, starts[a], starts[a + 1], starts[b], starts[b + 1], products, ids, gaps, worst)
