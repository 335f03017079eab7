"""The two largest entries and the sum of every row, in one pass over memory.

Non-negative IEEE floats order like the unsigned integers that share their bits, so the comparisons are made on an
integer view: those LLVM turns into vector instructions, float comparisons (with their NaN rules) it does not. In that
view a NaN or a negative number of either kind is larger than infinity and surfaces as the row's top entry: one compare
a row finds it. No softmax, no checks: `scores.py` does both.
"""

import numpy as np
from numba import njit

# Columns worked at a time: 2 to 4 KiB stay in the first-level cache for the second look, and a partial sum in the
# data's own precision stays short before it is added to the float64 total.
SEGMENT = 512


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def scan_segment(keys, values):
    """(largest key, sum of values) of one segment: two reductions that LLVM keeps in vector registers."""
    top = keys[0]
    total = values.dtype.type(0)
    for c in range(keys.size):
        top = max(top, keys[c])
        total += values[c]
    return top, total


@njit(cache=True, nogil=True)
def find_second(keys, top):
    """The largest key below `top`, or `top` itself if it stands in the segment twice.

    The count of tops keeps the width of the keys: a wider one would halve the numbers that fit in a register.
    """
    kind = keys.dtype.type
    second = kind(0)
    tops = kind(0)
    for c in range(keys.size):
        is_top = keys[c] == top
        second = max(second, kind(0) if is_top else keys[c])
        tops = kind(tops + (kind(1) if is_top else kind(0)))
    return top if tops > 1 else second


@njit(cache=True, nogil=True)
def top2_and_sum(keys, values, first, second, total):
    """Per row: the two largest keys and the sum of the values.

    keys (n, C) uint32 or uint64, values (n, C) float32 or float64, both C-contiguous, C >= 1. Out: first, second
    (n,) like keys, total (n,) float64. A second look is taken only at segments that change the first place. O(n C), one
    read from memory.
    """
    n, width = keys.shape
    zero = keys.dtype.type(0)
    for i in range(n):
        best = zero
        next_best = zero
        whole = 0.0
        for start in range(0, width, SEGMENT):
            segment = keys[i, start : start + SEGMENT]
            top, part = scan_segment(segment, values[i, start : start + SEGMENT])
            whole += part
            if top > best:
                next_best = max(best, find_second(segment, top))
                best = top
            elif top > next_best:
                next_best = top
        first[i] = best
        second[i] = next_best
        total[i] = whole


@njit(cache=True, nogil=True)
def top2_and_sum_narrow(keys, values, first, second, total):
    """As `top2_and_sum`, entry by entry: quicker for rows that would not fill a few vector registers."""
    n, width = keys.shape
    zero = keys.dtype.type(0)
    for i in range(n):
        best = zero
        next_best = zero
        whole = 0.0
        for c in range(width):
            key = keys[i, c]
            next_best = max(next_best, min(best, key))
            best = max(best, key)
            whole += values[i, c]
        first[i] = best
        second[i] = next_best
        total[i] = whole


@njit(cache=True, nogil=True)
def widen_halves(halves, bits):
    """Bits of float16 numbers as those of float32 numbers 2^-112 times as large, for the caller to scale back.

    halves uint16, bits uint32, both 1-D. The fields only move: the sign to the top, exponent and fraction 13 places
    up. Infinity and NaN come out as 2^16 and more after scaling. Numpy's own cast works a number at a time.
    """
    for i in range(halves.size):
        half = np.uint32(halves[i])
        bits[i] = ((half & np.uint32(0x8000)) << np.uint32(16)) | ((half & np.uint32(0x7FFF)) << np.uint32(13))


@njit(cache=True, nogil=True)
def find_unfit(first, total, most, tolerance):
    """The first row whose top key exceeds `most` or whose sum is off 1 by more than `tolerance` or NaN; -1 if none."""
    for i in range(first.size):
        if first[i] > most or not abs(total[i] - 1.0) <= tolerance:
            return i
    return -1
