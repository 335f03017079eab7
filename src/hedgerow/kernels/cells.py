"""Sorting a pool into cells: nearest centers, and the votes that tell which cells are neighbors."""

import numpy as np

from hedgerow.kernels.compiling import kernel
from hedgerow.kernels.gathering import gather_rows


@kernel
def take_nearer(products, half, center, most, nearest, new_most, new_nearest):
    """The larger of most[i] and products[i] - half, and whose it is. Into other arrays: in place is no vector code."""
    for i in range(len(products)):
        value = products[i] - half
        new_most[i] = value if value > most[i] else most[i]
        new_nearest[i] = center if value > most[i] else nearest[i]


@kernel
def nearest_center(products, half, out):
    """out[i] (at least q) = the center c with the largest products[c, i] - half[c], the first of equals.

    products (c, q): a row a center, so that rows of the pool are next to each other.
    """
    q = products.shape[1]
    most, new_most = np.full(q, -np.inf, products.dtype), np.empty(q, products.dtype)
    nearest, new_nearest = np.zeros(q, np.int32), np.empty(q, np.int32)
    for c in range(products.shape[0]):
        take_nearer(products[c], half[c], np.int32(c), most, nearest, new_most, new_nearest)
        most, new_most = new_most, most
        nearest, new_nearest = new_nearest, nearest
    out[:q] = nearest


@kernel
def nearest_centers(rows, centers, half, block, out):
    """out (n,) = the nearest center of every row, `block` rows a product."""
    room = np.empty(block * len(centers), rows.dtype)
    for start in range(0, len(rows), block):
        some = rows[start : start + block]
        products = room[: len(centers) * len(some)].reshape(len(centers), len(some))
        np.dot(centers, some.T, products)
        nearest_center(products, half, out[start:])


@kernel
def nearest_within(rows, order, edges, centers, half, shares, block, out):
    """out (n,) = the nearest center of every row among those of its group, `block` rows a product.

    Group g is rows order[edges[g]:edges[g + 1]] and centers shares[g]:shares[g + 1].
    """
    taken = np.empty((block, rows.shape[1]), rows.dtype)
    found = np.empty(block, np.int32)
    room = np.empty(block * np.diff(shares).max(), rows.dtype)
    for g in range(len(edges) - 1):
        first, last = shares[g], shares[g + 1]
        for start in range(edges[g], edges[g + 1], block):
            members = order[start : min(start + block, edges[g + 1])]
            gather_rows(rows, members, taken[: len(members)])
            products = room[: (last - first) * len(members)].reshape(last - first, len(members))
            np.dot(centers[first:last], taken[: len(members)].T, products)
            nearest_center(products, half[first:last], found)
            for i in range(len(members)):
                out[members[i]] = first + found[i]


@kernel
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
