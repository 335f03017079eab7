"""The k nearest neighbors: sorted neighbor lists from blocks of inner products.

gap(x, y) = half_x + half_y - <x, y> (see `merging`); lists are ascending by (gap, row), so the result does not
depend on the order of the candidates. A block of products updates the lists of both sides, so each is computed once.

ids, gaps (n, k): the lists, -1 and infinity where empty. worst (n,): the gap beyond which a row takes no candidate; at
first the largest gap of interest, then that of the last in its list. A contiguous copy makes comparisons fast.
"""

from typing import Any, NamedTuple

import numpy as np

from hedgerow.kernels.compiling import helper, kernel
from hedgerow.kernels.products import multiply

QUERIES, CANDIDATES = 256, 512  # a block of products: 512 KiB of float32, about a core's second-level cache
OWN = 1024  # rows compared with each other at once: 4 MiB of products
LANES = 32  # numbers that vectorized loops handle at once: lengths are padded to multiples of it


class Scratch(NamedTuple):
    """The buffers of one thread. Separate arrays, because rows of a matrix are not known to be contiguous."""

    products: Any  # ((OWN + QUERIES) * OWN,) of the points' dtype
    mine: Any  # (OWN,)
    folded: Any  # (OWN,)
    values: Any  # (OWN + LANES,)
    places: Any  # (OWN + LANES,) int32
    ranks: Any  # (OWN + LANES,) int32
    hits: Any  # (2 * OWN,) uint8: marks of products
    words: Any  # the memory of hits as uint64


def make_scratch(dtype: Any) -> Scratch:
    """Scratch for points of this dtype: 5 MiB of float32."""
    hits = np.empty(2 * OWN, np.uint8)
    sizes = ((OWN + QUERIES) * OWN, OWN, OWN, OWN + LANES)
    whole = (np.empty(OWN + LANES, np.int32), np.empty(OWN + LANES, np.int32))
    return Scratch._make([*(np.empty(size, dtype) for size in sizes), *whole, hits, hits.view(np.uint64)])


@helper
def offer(ids, gaps, worst, row, candidate, gap):
    """Inserts a candidate into the list of `row` if it is nearer than the last one, which is dropped."""
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
    if near_gaps[-1] < worst[row]:
        worst[row] = near_gaps[-1]


@helper(fastmath={"contract", "nsz", "nnan"})
def mark_near(products, half, worst, half_row, worst_row, hits):
    """hits[j] = whether product j may change the list of its row or column. Without branches, so it is vectorized."""
    for j in range(len(products)):
        reach = worst[j] if worst[j] > worst_row else worst_row
        hits[j] = half_row + half[j] - products[j] <= reach


@helper(inline="always")
def keep_nearest(products, rows, columns, half, ids, gaps, worst, hits, words):
    """Offers every row of a block to every column and vice versa.

    products (q, c) = <row rows + i, row columns + j>; the two ranges are disjoint. hits: scratch, one byte per column
    and seven more, read eight at a time. Cost: q c comparisons; only the few hits are processed further.
    """
    zero = half.dtype.type(0)
    count = products.shape[1]
    half_columns = half[columns : columns + count]
    worst_columns = worst[columns : columns + count]
    for j in range(count, count + 7):
        hits[j] = 0
    for i in range(products.shape[0]):
        row = rows + i
        mine = products[i]
        mark_near(mine, half_columns, worst_columns, half[row], worst[row], hits)
        for w in range((count + 7) // 8):
            if words[w] == 0:
                continue
            for j in range(8 * w, 8 * w + 8):  # there are no hits beyond the end
                if hits[j]:
                    gap = half[row] + half_columns[j] - mine[j]
                    gap = zero if zero > gap else gap
                    if gap <= worst[row]:
                        offer(ids, gaps, worst, row, np.int32(columns + j), gap)
                    if gap <= worst_columns[j]:
                        offer(ids, gaps, worst, np.int64(columns + j), np.int32(row), gap)


@helper(inline="always")
def multiply_own(rows, square, products):
    """square (q, q) = the products of rows with each other: blocks on and above the diagonal, mirrored below.

    This halves the work, and both rows of a pair get the same product. products: scratch for a block.
    """
    q, tile = len(rows), 16
    for top in range(0, q, QUERIES):
        end = min(q, top + QUERIES)
        block = products[: (end - top) * (q - top)].reshape((end - top, q - top))
        multiply(rows[top:end], rows[top:], block)
        for left in range(0, q - top, tile):
            right = min(q - top, left + tile)
            for i in range(end - top):
                for j in range(left, right):
                    square[top + i, top + j] = block[i, j]
            for j in range(left, right):
                for i in range(min(end - top, j)):
                    square[top + j, top + i] = block[i, j]


@helper(fastmath={"contract", "nsz", "nnan"})
def fill_gaps(products, half, half_row, mine):
    """mine[j] = gap of product j."""
    zero = half.dtype.type(0)
    for j in range(len(products)):
        gap = half_row + half[j] - products[j]
        mine[j] = zero if zero > gap else gap


@helper
def fold(left, right, out):
    """out[j] = the smaller of left[j] and right[j]. Not in place, so that it is vectorized."""
    for j in range(len(out)):
        one, other = left[j], right[j]
        out[j] = other if other < one else one


@helper
def rank(values, ranks):
    """ranks[j] = how many of `values` are smaller than values[j]. The length of values must be even."""
    for j in range(len(values)):
        ranks[j] = 0
    for i in range(0, len(values), 2):
        one, other = values[i], values[i + 1]
        for j in range(len(values)):
            ranks[j] += np.int32(one < values[j]) + np.int32(other < values[j])


@helper(inline="always")
def bound_nearest(mine, k, parts, scratch, ranks):
    """A tight upper bound of the k-th smallest of `mine`: the k-th smallest of the minima of `parts` parts of it.

    The length of `mine` is `parts` times a power of two; `scratch` is as long as `mine`.
    """
    folded = mine
    used = 0
    while len(folded) > parts:
        half = len(folded) // 2
        into = scratch[used : used + half]
        fold(folded[:half], folded[half:], into)
        used += half
        folded = into
    rank(folded, ranks)
    bound = mine.dtype.type(0)
    for j in range(parts):
        if ranks[j] < k and folded[j] > bound:
            bound = folded[j]
    return bound


@helper
def mark_below(mine, bound, hits):
    """hits[j] = mine[j] <= bound."""
    for j in range(len(mine)):
        hits[j] = mine[j] <= bound


@helper(inline="always")
def gather_below(mine, bound, hits, words, values, places):
    """values, places = the entries of `mine` up to the bound, and their positions; returns how many."""
    mark_below(mine, bound, hits)
    found = 0
    for w in range(len(mine) // 8):
        if words[w] == 0:
            continue
        for j in range(8 * w, 8 * w + 8):
            values[found] = mine[j]
            places[found] = j
            found += hits[j]
    return found


@helper(inline="always")
def keep_nearest_own(square, first, half, ids, gaps, worst, scratch):
    """As `keep_nearest`, within one range of rows whose lists are empty: square (q, q) of products.

    Candidates below a bound, few more than k, are ranked together instead of being inserted one by one.
    """
    q = len(square)
    k = ids.shape[1]
    parts = LANES
    while parts < min(2 * k, OWN):  # so that two of the k smallest are rarely in the same part
        parts *= 2
    width = parts
    while width < q:
        width *= 2
    mine, values, places, ranks = scratch.mine[:width], scratch.values, scratch.places, scratch.ranks
    for j in range(q, width):
        mine[j] = np.inf
    half_columns = half[first : first + q]
    for i in range(q):
        row = first + i
        fill_gaps(square[i], half_columns, half[row], mine)
        mine[i] = np.inf
        bound = worst[row]
        if k < q:
            nearer = bound_nearest(mine, k, parts, scratch.folded, ranks)
            bound = nearer if nearer < bound else bound
        found = gather_below(mine, bound, scratch.hits, scratch.words, values, places)
        for j in range(found, found + LANES):
            values[j] = np.inf
        rank(values[: (found + LANES - 1) // LANES * LANES], ranks)
        for j in range(found):
            place = ranks[j]
            while place < k and gaps[row, place] == values[j]:  # taken by an equal gap, or infinity
                place += 1
            if place < k:
                ids[row, place] = first + places[j]
                gaps[row, place] = values[j]
        if gaps[row, k - 1] < worst[row]:
            worst[row] = gaps[row, k - 1]


@helper
def search_ranges(points, half, a0, a1, b0, b1, scratch, ids, gaps, worst):
    """Compares every row of a0:a1 with every row of b0:b1, two disjoint ranges."""
    for i in range(a0, a1, QUERIES):
        i1 = min(a1, i + QUERIES)
        for j in range(b0, b1, CANDIDATES):
            j1 = min(b1, j + CANDIDATES)
            block = scratch.products[: (i1 - i) * (j1 - j)].reshape((i1 - i, j1 - j))
            multiply(points[i:i1], points[j:j1], block)
            keep_nearest(block, i, j, half, ids, gaps, worst, scratch.hits, scratch.words)


@helper(inline="always")
def search_own(points, half, start, stop, scratch, ids, gaps, worst):
    """Compares every row of start:stop with the others."""
    for i in range(start, stop, OWN):
        i1 = min(stop, i + OWN)
        square = scratch.products[: (i1 - i) * (i1 - i)].reshape((i1 - i, i1 - i))
        multiply_own(points[i:i1], square, scratch.products[OWN * OWN :])
        keep_nearest_own(square, i, half, ids, gaps, worst, scratch)
    for i in range(start, stop, OWN):
        i1 = min(stop, i + OWN)
        search_ranges(points, half, i, i1, i1, stop, scratch, ids, gaps, worst)


@kernel
def search_cells(points, half, starts, first, second, scratch, ids, gaps, worst):
    """Compares every row of cell first[i] with every other row of cell second[i], for all i.

    Cell c is rows starts[c]:starts[c + 1]. If first[i] == second[i], the lists of that cell must be empty.
    """
    for i in range(len(first)):
        a, b = first[i], second[i]
        if a == b:
            search_own(points, half, starts[a], starts[a + 1], scratch, ids, gaps, worst)
        else:
            search_ranges(points, half, starts[a], starts[a + 1], starts[b], starts[b + 1], scratch, ids, gaps, worst)
