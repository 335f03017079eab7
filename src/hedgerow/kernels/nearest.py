"""Keeping the k nearest: blocks of inner products in, sorted neighbor lists out.

gap(x, y) = half_x + half_y - <x, y> (see `merging`); lists are ascending by (gap, row), so what is kept does not depend
on the order in which candidates come. A block of products serves both of its sides, so each is computed once.

ids, gaps (n, k): the lists, -1 and infinity where empty. worst (n,): the gap beyond which a row takes no candidate, at
first as far as neighbors are wanted at all, then that of the last in its list; contiguous for the compares.
"""

import numpy as np
from numba import njit

QUERIES, CANDIDATES = 256, 512  # a block of products: 512 KiB of float32, about a core's second-level cache


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
def mark_near(products, half, worst, half_row, worst_row, hits):
    """hits[j] = whether product j concerns a list, its row's or its column's. Without a branch, so vector code."""
    for j in range(len(products)):
        hits[j] = half_row + half[j] - products[j] <= max(worst_row, worst[j])


@njit(cache=True, nogil=True)
def keep_nearest(products, rows, columns, half, ids, gaps, worst, hits):
    """Offers every row of a block to every column of it and the other way round.

    products (q, c) = <row rows + i, row columns + j>; the two ranges do not meet. hits: scratch, a byte a column and
    seven more, looked at eight at a time. Cost: q c compares, of which few are looked at again.
    """
    zero = half.dtype.type(0)
    count = products.shape[1]
    half_columns = half[columns : columns + count]
    worst_columns = worst[columns : columns + count]
    hits[count : count + 7] = 0
    words = hits.view(np.uint64)
    for i in range(products.shape[0]):
        row = rows + i
        mine = products[i]
        mark_near(mine, half_columns, worst_columns, half[row], worst[row], hits)
        for w in range((count + 7) // 8):
            if words[w] == 0:
                continue
            for j in range(8 * w, min(8 * w + 8, count)):
                if hits[j]:
                    gap = max(half[row] + half_columns[j] - mine[j], zero)
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
def search_ranges(points, half, a0, a1, b0, b1, products, hits, ids, gaps, worst):
    """Every row of a0:a1 against every row of b0:b1, two ranges that do not meet. products, hits: scratch."""
    for i in range(a0, a1, QUERIES):
        i1 = min(a1, i + QUERIES)
        for j in range(b0, b1, CANDIDATES):
            j1 = min(b1, j + CANDIDATES)
            block = products[: (i1 - i) * (j1 - j)].reshape((i1 - i, j1 - j))
            np.dot(points[i:i1], points[j:j1].T, block)
            keep_nearest(block, i, j, half, ids, gaps, worst, hits)


@njit(cache=True, nogil=True)
def search_cells(points, half, starts, lo, hi, products, hits, ids, gaps, worst):
    """Every row of each cell lo..hi against the other rows of its cell; cell c is rows starts[c]:starts[c + 1]."""
    for c in range(lo, hi):
        for i in range(starts[c], starts[c + 1], QUERIES):
            i1 = min(starts[c + 1], i + QUERIES)
            block = products[: (i1 - i) * (i1 - i)].reshape((i1 - i, i1 - i))
            np.dot(points[i:i1], points[i:i1].T, block)
            keep_nearest_own(block, i, half, ids, gaps, worst)
            search_ranges(points, half, i, i1, i1, starts[c + 1], products, hits, ids, gaps, worst)


@njit(cache=True, nogil=True)
def search_pairs(points, half, starts, first, second, products, hits, ids, gaps, worst):
    """Every row of cell first[i] against every row of cell second[i], for all pairs of cells i."""
    for i in range(len(first)):
        a, b = first[i], second[i]
        search_ranges(
            points, half, starts[a], starts[a + 1], starts[b], starts[b + 1], products, hits, ids, gaps, worst
        )
