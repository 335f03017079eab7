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
    """nearest[0, i] = the center c with the largest products[c, i] - half[first + c], which is most[0, i] then.

    Ties go to the first.

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
            most[0, i] = most[1, i]
            nearest[0, i] = nearest[1, i]


@helper
def list_largest(values, half, kept, chosen):
    """chosen (w,) = where values - half is largest, largest first, and kept (w,) these; ties go to the first."""
    last = len(chosen) - 1
    kept[:] = -np.inf
    for c in range(len(values)):
        value = values[c] - half[c]
        if value > kept[last]:
            place = last
            while place > 0 and value > kept[place - 1]:
                kept[place] = kept[place - 1]
                chosen[place] = chosen[place - 1]
                place -= 1
            kept[place] = value
            chosen[place] = c


@kernel
def nearest_of_several(
    rows, coarse, coarse_half, centers, half, shares, block, kept, chosen, ends, members, taken, products, most,
    nearest, best, out,
):  # fmt: skip
    """out (n,) = the nearest center of every row among the centers of its w nearest coarse centers; ties: the first.

    Coarse center s has the centers shares[s]:shares[s + 1]. Scratch: chosen (block, w), ends (coarse centers + 1,),
    members (block * w,) and nearest (2, block), all int32; kept (w,), taken (block, d), products (block * the larger of
    the number of coarse centers and the largest share,), most (2, block) and best (block,) of the rows' dtype.
    Cost: 2 n d (coarse centers + the sum of w shares).
    """
    several = chosen.shape[1]
    count_coarse = len(coarse)
    for start in range(0, len(rows), block):
        count = len(rows) - start
        count = count if count < block else block
        multiply(rows[start : start + count], coarse, products)
        ends[:] = 0
        for i in range(count):
            list_largest(products[i * count_coarse : (i + 1) * count_coarse], coarse_half, kept, chosen[i])
            for j in range(several):
                ends[chosen[i, j] + 1] += 1
            best[i] = -np.inf
        for s in range(count_coarse):
            ends[s + 1] += ends[s]
        for i in range(count):
            for j in range(several):  # afterwards ends[s] is where the members of s end, not where they begin
                members[ends[chosen[i, j]]] = i
                ends[chosen[i, j]] += 1
        for s in range(count_coarse):
            begin = ends[s - 1] if s > 0 else 0
            held = ends[s] - begin
            first, last = shares[s], shares[s + 1]
            if held == 0 or first == last:
                continue
            for m in range(held):
                for t in range(rows.shape[1]):
                    taken[m, t] = rows[start + members[begin + m], t]
            multiply(centers[first:last], taken[:held], products)
            nearest_center(products, last - first, held, half, first, most, nearest)
            for m in range(held):
                i = members[begin + m]
                if most[0, m] > best[i]:
                    best[i] = most[0, m]
                    out[start + i] = first + nearest[0, m]


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
