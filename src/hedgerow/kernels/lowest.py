"""The lowest scores of the unlabeled rows, in O(n) and without a list of rows.

Scores are given as unsigned 32-bit keys: the bits of non-negative float32 numbers sort like the numbers. The threshold
is found with two histograms of 16 bits each. At the threshold the lowest rows are taken.
"""

import numpy as np

from hedgerow.kernels.compiling import helper, kernel

DIGIT = 1 << 16  # half a key; a histogram of this many int64 counts fits in a second-level cache


@kernel(allocates=True)
def find_threshold(keys, labeled, count):
    """(threshold, number of rows to take that equal it) for the `count` lowest keys of unlabeled rows.

    keys (n,) uint32; labeled (n,) bool, or (0,) for none; 1 <= count <= unlabeled rows. Reads the keys twice.
    """
    masked = labeled.size > 0
    upper = np.zeros(DIGIT, np.int64)
    for i in range(keys.size):
        if not (masked and labeled[i]):
            upper[keys[i] >> np.uint32(16)] += 1
    high, left = find_digit(upper, count)
    lower = np.zeros(DIGIT, np.int64)
    for i in range(keys.size):
        if keys[i] >> np.uint32(16) == high and not (masked and labeled[i]):
            lower[keys[i] & np.uint32(0xFFFF)] += 1
    low, left = find_digit(lower, left)
    return np.uint32((high << 16) | low), left


@helper
def find_digit(histogram, rank):
    """(digit of the rank-th lowest entry, its rank among the entries with that digit); ranks count from 1."""
    digit = 0
    while rank > histogram[digit]:
        rank -= histogram[digit]
        digit += 1
    return digit, rank


@kernel
def gather(keys, labeled, threshold, ties, rows):
    """Writes the unlabeled rows with a key below `threshold`, and the first `ties` that equal it, to rows (count,)."""
    masked = labeled.size > 0
    filled = 0
    for i in range(keys.size):
        if keys[i] > threshold or (masked and labeled[i]):
            continue
        if keys[i] == threshold:
            if ties == 0:
                continue
            ties -= 1
        rows[filled] = i
        filled += 1
