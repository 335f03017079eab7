"""The nearest of many centroids for each row: blocks of inner products tell which may be, differences which is."""

import numpy as np

from hedgerow.kernels.compiling import helper, kernel
from hedgerow.kernels.merging import SUMS

EQUAL = 4e-15  # distances that differ by less, relative to the norms, are equal but for rounding in float64


@helper(fastmath=SUMS)
def half_square(row, mean):
    """|row - mean|^2 / 2, in float64."""
    total = 0.0
    for t in range(len(row)):
        total += (row[t] - mean[t]) * (row[t] - mean[t])
    return total / 2


@kernel
def keep_nearest(products, near, members, block, norms, known, first, means, spread, half, numbers, best, gaps):
    """Keeps for row members[i] the nearest centroid so far, if it is among those at first + j.

    Gaps are computed where they may be the smallest: where products[i, j] - near[j] >= known[row] - gaps[row].
    float32: products (q, c), near (c,). float64: block (n, d), norms (n,) and known (n,) of its rows, means (m, d),
    spread (m,) and half (m,) of the centroids; norms and half are half of the squared norms. best (n,) int64 and gaps
    (n,) hold the best so far; the gap is infinite where there is none. Of equal gaps, the centroid with the lowest
    entry in numbers (m,) is kept. Cost: one difference of length d per gap.
    """
    for i in range(products.shape[0]):
        row = members[i]
        least = known[row] - gaps[row]
        for j in range(products.shape[1]):
            if products[i, j] - near[j] < least:  # false also for what is not a number
                continue
            at = first + j
            gap = half_square(block[row], means[at]) + spread[at]
            if np.isinf(gap):
                continue
            error = 2 * EQUAL * np.sqrt(gap * max(1.0, norms[row] + half[at]))
            if gap < gaps[row] - error or (gap <= gaps[row] + error and numbers[at] < numbers[best[row]]):
                best[row] = at
                gaps[row] = gap
                least = known[row] - gap


@kernel
def add_differences(rows, group, origins, sums, half):
    """sums[g] += row - origins[g], and half[g] += the half square of that, for the rows of each group g.

    rows (n, d), origins and sums (groups, d), half (groups,): float64.
    """
    for i in range(len(rows)):
        g = group[i]
        half[g] += half_square(rows[i], origins[g])
        for t in range(rows.shape[1]):
            sums[g, t] += rows[i, t] - origins[g, t]
