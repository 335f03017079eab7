"""Passes over embeddings: what is wrong with them, the rows a metric works on, their sums, their order."""

import numpy as np

from hedgerow.kernels.compiling import kernel
from hedgerow.kernels.merging import SUMS


@kernel
def survey(rows, largest, sums):
    """largest[i] = the largest magnitude in row i (infinite if the row has a NaN or an infinity); sums (d,) += rows."""
    for i in range(len(rows)):
        most = 0.0
        for t in range(rows.shape[1]):
            value = np.float64(rows[i, t])
            sums[t] += value
            most = max(most, abs(value)) if np.isfinite(value) else np.inf
        largest[i] = most


@kernel(fastmath=SUMS)
def squared_length(row, scale):
    """|row / scale|^2 in float64."""
    total = 0.0
    for t in range(len(row)):
        total += (row[t] / scale) * (row[t] / scale)
    return total


@kernel
def normalize(rows, out):
    """out = rows of length 1, the first scaled by their largest entry: squares of tiny or huge entries stay finite."""
    for i in range(len(rows)):
        most = 0.0
        for t in range(rows.shape[1]):
            most = max(most, abs(np.float64(rows[i, t])))
        root = np.sqrt(squared_length(rows[i], most)) if most > 0 else 1.0
        length = most * root if most > 0 else 1.0
        if np.isinf(length):
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
    """A 64-bit hash of the bits of each row: their sum weighted by odd factors (w,), its high bits mixed down.

    rows (n, w) of unsigned integers, out (n,) uint64. A sum has no chain of steps that wait for each other.
    """
    for i in range(len(rows)):
        total = np.uint64(0)
        for t in range(rows.shape[1]):
            total += (np.uint64(rows[i, t]) + np.uint64(1)) * factors[t]
        out[i] = (total ^ (total >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)


@kernel
def sort_by_cell(cell, starts, order):
    """order (n,) = the rows by cell, ascending within one; starts (cells + 1,) = where cells begin, and the end."""
    starts[:] = 0
    for i in range(len(cell)):
        starts[cell[i] + 1] += 1
    for c in range(1, len(starts)):
        starts[c] += starts[c - 1]
    after = starts[:-1].copy()
    for i in range(len(cell)):
        order[after[cell[i]]] = i
        after[cell[i]] += 1


@kernel
def sort_within(hashes, starts, lo, hi, order):
    """In each of the cells lo..hi, whose rows ascend, brings rows of equal hash together behind the first of them."""
    for c in range(lo, hi):
        mine = order[starts[c] : starts[c + 1]]
        by_hash = mine[np.argsort(hashes[mine], kind="mergesort")]  # stable: equal hashes stay ascending
        leader = by_hash.copy()
        for i in range(1, len(leader)):
            if hashes[by_hash[i]] == hashes[by_hash[i - 1]]:
                leader[i] = leader[i - 1]
        mine[:] = by_hash[np.argsort(leader, kind="mergesort")]


@kernel
def collapse(rows, order, copy_of):
    """Packs rows (n, d) so that a run of equal rows leaves its first; order (n,) is packed with them. In place.

    copy_of (n,): for each row before the packing, the row after it that holds its values. Returns how many are left.
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
                rows[kept] = rows[i]
                order[kept] = order[i]
            kept += 1
        copy_of[i] = kept - 1
    return kept
