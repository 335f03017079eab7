"""Rows placed in two dimensions: the forces between landmarks, and rows put among those that they are nearest to.

Gaps are half squared distances, as in `merging`.
"""

import numpy as np

from hedgerow.kernels.compiling import helper, kernel
from hedgerow.kernels.merging import SUMS

TURNS = 10  # of the search for the middle of some places, which moves little after that
SOFT = 0.1  # in the units of places: keeps weights finite, and rows apart that have one middle


@helper
def add_pairs(places, pairs, strength, near, forces):
    """forces -= the gradient of strength * d / (near + d) over the pairs, d = 1 + squared distance; near: 1 or more.

    A negative strength pushes apart. pairs (n, k): row i with each of pairs[i].
    """
    for i in range(places.shape[0]):
        x, y = places[i, 0], places[i, 1]
        sum_x = sum_y = 0.0
        for t in range(pairs.shape[1]):
            j = pairs[i, t]
            right, down = places[j, 0] - x, places[j, 1] - y
            below = near + 1.0 + right * right + down * down
            pull = 2.0 * strength * near / (below * below)
            sum_x += pull * right
            sum_y += pull * down
            forces[j, 0] -= pull * right
            forces[j, 1] -= pull * down
        forces[i, 0] += sum_x
        forces[i, 1] += sum_y


@kernel
def add_forces(places, near, middle, far, strengths, forces):
    """forces (n, 2) = what moves each place (n, 2) to a lower loss.

    near, middle, far: pairs (n, k) int32; strengths (3,): of each kind. The losses are d / (10 + d) of near pairs,
    d / (10,000 + d) of middle ones, and 1 / (1 + d) of far ones, whose gradient is that of -d / (1 + d).
    """
    forces[:] = 0.0
    add_pairs(places, near, strengths[0], 10.0, forces)
    if strengths[1] > 0:
        add_pairs(places, middle, strengths[1], 10_000.0, forces)
    add_pairs(places, far, -strengths[2], 1.0, forces)


@helper(fastmath=SUMS)
def multiply_rows(rows, i, others, j):
    """<rows[i], others[j]>."""
    total = rows.dtype.type(0)
    for t in range(rows.shape[1]):
        total += rows[i, t] * others[j, t]
    return total


@helper
def find_lowest(rows, i, others, half, start, stop, ids, gaps):
    """Offers others[start:stop] to the lists ids, gaps (k,) of the nearest to row i, ascending by gap."""
    last = len(ids) - 1
    for j in range(start, stop):
        gap = half[j] - multiply_rows(rows, i, others, j)
        if gap >= gaps[last]:
            continue
        t = last
        while t > 0 and gap < gaps[t - 1]:
            gaps[t], ids[t] = gaps[t - 1], ids[t - 1]
            t -= 1
        gaps[t], ids[t] = gap, j


@helper
def find_middle(places, ids, out):
    """out (2,) = the geometric median of some places, by Weiszfeld's iteration from their mean."""
    out[0] = out[1] = 0.0
    for turn in range(TURNS + 1):
        x = y = total = 0.0
        for t in range(len(ids)):
            if ids[t] >= 0:
                right, down = places[ids[t], 0] - out[0], places[ids[t], 1] - out[1]
                weight = 1.0 if turn == 0 else 1.0 / np.sqrt(right * right + down * down + SOFT * SOFT)
                x, y, total = x + weight * places[ids[t], 0], y + weight * places[ids[t], 1], total + weight
        out[0], out[1] = x / total, y / total


@kernel
def place_rows(rows, landmarks, half, places, centers, center_half, starts, cells, near, gaps, out):
    """out (n, 2) = the middle of the places of the landmarks that are nearest to each row (n, d).

    landmarks (m, d) are sorted by cell, cell c is starts[c]:starts[c + 1] with centers[c]; half: half of the squared
    norms. Only landmarks of the nearest cells are looked at. Scratch: cells (p,) and near (k,) int64, gaps (p + k,) of
    the rows' dtype. Cost: n d (c + p m / c).
    """
    probes = len(cells)
    for i in range(rows.shape[0]):
        cells[:], near[:], gaps[:] = -1, -1, np.inf
        find_lowest(rows, i, centers, center_half, 0, len(centers), cells, gaps[:probes])
        for t in range(probes):
            if cells[t] >= 0:
                find_lowest(rows, i, landmarks, half, starts[cells[t]], starts[cells[t] + 1], near, gaps[probes:])
        find_middle(places, near, out[i])
