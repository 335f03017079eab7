"""One pass over raw embeddings: what is wrong with them, and the rows a metric works on."""

import numpy as np
from numba import njit

from hedgerow.kernels.merging import SUMS


@njit(cache=True, nogil=True)
def survey(rows, largest, sums):
    """largest[i] = the largest magnitude in row i (infinite if the row has a NaN or an infinity); sums (d,) += rows."""
    for i in range(len(rows)):
        most = 0.0
        for t in range(rows.shape[1]):
            value = np.float64(rows[i, t])
            sums[t] += value
            most = max(most, abs(value)) if np.isfinite(value) else np.inf
        largest[i] = most


@njit(cache=True, nogil=True, fastmath=SUMS)
def squared_length(row, scale):
    """|row / scale|^2 in float64."""
    total = 0.0
    for t in range(len(row)):
        total += (row[t] / scale) * (row[t] / scale)
    return total


@njit(cache=True, nogil=True)
def normalize(rows, out):
    """out = rows of length 1, the first scaled by their largest entry: squares of tiny or huge entries stay finite."""
    for i in range(len(rows)):
        most = 0.0
        for t in range(rows.shape[1]):
            most = max(most, abs(np.float64(rows[i, t])))
        length = most * np.sqrt(squared_length(rows[i], most)) if most > 0 else 1.0
        for t in range(rows.shape[1]):
            out[i, t] = rows[i, t] / length


@njit(cache=True, nogil=True)
def shift(rows, center, out):
    """out = rows - center."""
    for i in range(len(rows)):
        for t in range(rows.shape[1]):
            out[i, t] = rows[i, t] - center[t]


@njit(cache=True, nogil=True)
def hash_rows(rows, out):
    """A 64-bit hash (splitmix64) of the bits of each row; rows (n, w) of unsigned integers, out (n,) uint64."""
    for i in range(len(rows)):
        h = np.uint64(0x9E3779B97F4A7C15)
        for t in range(rows.shape[1]):
            h = (h ^ np.uint64(rows[i, t])) * np.uint64(0xBF58476D1CE4E5B9)
            h ^= h >> np.uint64(27)
            h *= np.uint64(0x94D049BB133111EB)
            h ^= h >> np.uint64(31)
        out[i] = h


@njit(cache=True, nogil=True)
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
