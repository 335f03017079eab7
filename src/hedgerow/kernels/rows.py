"""Passes over embeddings: checks of their values, normalized or centered rows, sums, sorting, duplicates."""

import numpy as np

from hedgerow.kernels.compiling import helper, kernel
from hedgerow.kernels.merging import SUMS

TINY = 1e-300  # numbers not far below this have no reciprocal, and fewer digits


@kernel
def survey(rows, largest, sums):
    """largest[i] = the largest magnitude in row i (infinite if the row has a NaN or an infinity); sums (d,) += rows."""
    for i in range(len(rows)):
        most = 0.0
        for t in range(rows.shape[1]):
            value = np.float64(rows[i, t])
            sums[t] += value
            size = abs(value) if np.isfinite(value) else np.inf
            most = size if size > most else most
        largest[i] = most


@helper(fastmath=SUMS)
def squared_length(row, scale):
    """|row / scale|^2 in float64."""
    total = 0.0
    for t in range(len(row)):
        total += (row[t] / scale) * (row[t] / scale)
    return total


@helper
def squared_length_of_tiny(row, scale):
    """The same for a scale that may have no reciprocal: divisions stay divisions."""
    total = 0.0
    for t in range(len(row)):
        total += (row[t] / scale) * (row[t] / scale)
    return total


@kernel
def normalize(rows, out):
    """out = rows scaled to length 1, first by their largest entry, so that squares neither overflow nor vanish."""
    for i in range(len(rows)):
        most = 0.0
        for t in range(rows.shape[1]):
            size = abs(np.float64(rows[i, t]))
            most = size if size > most else most
        root = 1.0
        if most >= TINY:
            root = np.sqrt(squared_length(rows[i], most))
        elif most > 0:
            root = np.sqrt(squared_length_of_tiny(rows[i], most))
        length = most * root if most > 0 else 1.0
        if np.isinf(length) or length < TINY:
            for t in range(rows.shape[1]):
                out[i, t] = rows[i, t] / most / root
        else:
            for t in range(rows.shape[1]):
                out[i, t] = rows[i, t] / length


@kernel
def shift(rows, center, factor, out):
    """out = (rows - center) * factor."""
    for i in range(len(rows)):
        for t in range(rows.shape[1]):
            out[i, t] = (rows[i, t] - center[t]) * factor


@kernel
def add_rows(rows, group, sums):
    """sums[g] += the rows of group g. rows (n, d), sums (groups, d) float64."""
    for i in range(len(rows)):
        into = sums[group[i]]
        for t in range(rows.shape[1]):
            into[t] += rows[i, t]


@kernel
def hash_rows(rows, factors, out):
    """A 64-bit hash of the bits of each row: a sum weighted by odd factors (w,), with its high bits mixed into the low.

    rows (n, w) of unsigned integers, out (n,) uint64. A sum can be computed in parallel lanes, unlike a chained hash.
    """
    for i in range(len(rows)):
        total = np.uint64(0)
        for t in range(rows.shape[1]):
            total += (np.uint64(rows[i, t]) + np.uint64(1)) * factors[t]
        out[i] = (total ^ (total >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)


@kernel
def sort_by_cell(cell, starts, order):
    """order (n,) = the rows by cell, ascending within each; starts (cells + 1,) = where cells begin, and the end."""
    cells = len(starts) - 1
    for c in range(cells + 1):
        starts[c] = 0
    for i in range(len(cell)):
        starts[cell[i] + 1] += 1
    for c in range(cells):
        starts[c + 1] += starts[c]
    for i in range(len(cell)):  # starts advance to the ends of cells, and are shifted back below
        order[starts[cell[i]]] = i
        starts[cell[i]] += 1
    for c in range(cells, 0, -1):
        starts[c] = starts[c - 1]
    starts[0] = 0


@kernel
def collapse(rows, order, copy_of):
    """Keeps the first of each run of equal rows (n, d), and its entry in order (n,). In place.

    copy_of (n,) = for each original row, the kept row with the same values. Returns how many are kept.
    """
    kept = 0
    for i in range(len(rows)):
        same = kept > 0
        if same:
            for t in range(rows.shape[1]):
                if rows[i, t] != rows[kept - 1, t]:
                    same = False
                    break
        if not same:
            if kept != i:
                for t in range(rows.shape[1]):
                    rows[kept, t] = rows[i, t]
                order[kept] = order[i]
            kept += 1
        copy_of[i] = kept - 1
    return kept
