"""Sorting a pool into cells: nearest centers, and the votes that determine which cells are neighbors."""

import numpy as np

from hedgerow.kernels.compiling import helper, kernel
from hedgerow.kernels.products import multiply, multiply_vector


@helper
def take_nearer(products, half, center, most, nearest, new_most, new_nearest):
    """The larger of most[i] and products[i] - half, and its center. Written to new arrays, so that it is vectorized."""
    for i in range(len(products)):
        value = products[i] - half
        new_most[i] = value if value > most[i] else most[i]
        new_nearest[i] = center if value > most[i] else nearest[i]


@helper(inline="always")
def nearest_center(products, count, rows, half, first, most, nearest):
    """nearest[0, i] = the center c with the largest products[c, i] - half[first + c]; ties go to the first.

    products: flat, (count, rows) in row order: one row per center, so that the pool's rows are contiguous.
    most, nearest: scratch of at least (2, rows); each center reads one half and writes the other.
    """
    for i in range(rows):
        most[0, i] = -np.inf
        nearest[0, i] = 0
    for c in range(count):
        one, other = c % 2, 1 - c % 2
        mine = products[c * rows : (c + 1) * rows]
        take_nearer(mine, half[first + c], np.int32(c), most[one], nearest[one], most[other], nearest[other])
    if count % 2 == 1:
        for i in range(rows):
            nearest[0, i] = nearest[1, i]


@kernel
def nearest_centers(rows, order, edges, centers, half, shares, block, taken, products, most, nearest, out):
    """out (n,) = the nearest center of every row among the centers of its group, in blocks of `block` rows.

    Group g is rows order[edges[g]:edges[g + 1]] and centers shares[g]:shares[g + 1]. order (0,): rows are already in
    order. taken (block, d), products (block * the largest share,), most (2, block), all of the rows' dtype, and
    nearest (2, block) int32: scratch.
    """
    for g in range(len(edges) - 1):
        first, last = shares[g], shares[g + 1]
        for start in range(edges[g], edges[g + 1], block):
            count = edges[g + 1] - start
            count = count if count < block else block
            if len(order) == 0:
                multiply(centers[first:last], rows[start : start + count], products)
            else:
                for i in range(count):
                    for t in range(rows.shape[1]):
                        taken[i, t] = rows[order[start + i], t]
                multiply(centers[first:last], taken[:count], products)
            nearest_center(products, last - first, count, half, first, most, nearest)
            for i in range(count):
                row = start + i if len(order) == 0 else order[start + i]
                out[row] = first + nearest[0, i]


@kernel
def vote(points, starts, centers, half, around, voters, choices, lo, hi, near, values, votes):
    """votes[c, j] = how many of the sampled rows of cell c have the center of cell around[c, j] among their nearest.

    around (cells, a): the candidate cells, including the cell itself. Up to `voters` rows of a cell, evenly spaced,
    give `choices` votes each. near (a, d) and values (a,) of the points' dtype: scratch.
    """
    a = around.shape[1]
    for c in range(lo, hi):
        count = starts[c + 1] - starts[c]
        sampled = count if count < voters else voters
        for j in range(a):
            for t in range(centers.shape[1]):
                near[j, t] = centers[around[c, j], t]
        for v in range(sampled):
            multiply_vector(near, points[starts[c] + v * count // sampled], values)
            for j in range(a):
                values[j] -= half[around[c, j]]
            for _ in range(choices):
                best = 0
                for j in range(1, a):
                    if values[j] > values[best]:
                        best = j
                votes[c, best] += 1
                values[best] = -np.inf
