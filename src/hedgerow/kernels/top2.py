"""The two largest entries and the sum of every row, in one pass over memory.

Non-negative IEEE floats order like the unsigned integers that share their bits, so the comparisons are made on an
integer view: those LLVM turns into vector instructions, float comparisons (with their NaN rules) it does not. In that
view a NaN or a negative number of either kind is larger than infinity and surfaces as the row's top entry: one compare
a row finds it. Four rows far apart are read side by side, because a core's prefetchers follow several streams and one
alone does not use all that memory gives. No softmax, no checks: `scores.py` does both.
"""

import numpy as np

from hedgerow.kernels.compiling import helper, kernel

# Columns scanned at a time. A row's segment with the largest entry is looked at twice, from the first-level cache, so a
# short one saves time until its own reductions cost more (of 1,000 columns: 128 is quicker than 256 and 512); and a
# partial sum in the data's own precision stays short before it is added to the float64 total.
SEGMENT = 128


@helper(fastmath={"reassoc"})
def scan_segments(keys, values):
    """(largest keys, sums of values) of four equally long segments: reductions that LLVM keeps in vector registers."""
    a, b, c, d = keys
    u, v, w, x = values
    top_a, top_b, top_c, top_d = a[0], b[0], c[0], d[0]
    zero = u.dtype.type(0)
    sum_a, sum_b, sum_c, sum_d = zero, zero, zero, zero
    for i in range(a.size):
        top_a = max(top_a, a[i])
        top_b = max(top_b, b[i])
        top_c = max(top_c, c[i])
        top_d = max(top_d, d[i])
        sum_a += u[i]
        sum_b += v[i]
        sum_c += w[i]
        sum_d += x[i]
    return (top_a, top_b, top_c, top_d), (sum_a, sum_b, sum_c, sum_d)


@helper
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


@helper
def rank_segment(top, start, best, next_best, at):
    """(largest key so far, second largest of the segments' largest, where the largest's segment begins)."""
    if top > best:
        return top, best, start
    return best, max(next_best, top), at


@helper
def finish_row(row, state, whole, keys, first, second, total):
    """Fill in a row's results; the second may stand in the segment of the first, and only there is looked again."""
    best, next_best, at = state
    first[row] = best
    second[row] = max(next_best, find_second(keys[row, at : at + SEGMENT], best))
    total[row] = whole


@kernel
def top2_and_sum(keys, values, first, second, total):
    """Per row: the two largest keys and the sum of the values.

    keys (n, C) uint32 or uint64, values (n, C) float32 or float64, both C-contiguous, C >= 1. Out: first, second
    (n,) like keys, total (n,) float64. Four rows a quarter of the matrix apart are scanned side by side; the last row
    may be worked more than once, to the same end. O(n C), one read from memory.
    """
    n, width = keys.shape
    stride = (n + 3) // 4
    zero = keys.dtype.type(0)
    for a in range(stride):
        b, c, d = min(a + stride, n - 1), min(a + 2 * stride, n - 1), min(a + 3 * stride, n - 1)
        in_a = in_b = in_c = in_d = (zero, zero, 0)
        sum_a = sum_b = sum_c = sum_d = 0.0
        for start in range(0, width, SEGMENT):
            stop = min(start + SEGMENT, width)
            tops, sums = scan_segments(
                (keys[a, start:stop], keys[b, start:stop], keys[c, start:stop], keys[d, start:stop]),
                (values[a, start:stop], values[b, start:stop], values[c, start:stop], values[d, start:stop]),
            )
            in_a, sum_a = rank_segment(tops[0], start, *in_a), sum_a + sums[0]
            in_b, sum_b = rank_segment(tops[1], start, *in_b), sum_b + sums[1]
            in_c, sum_c = rank_segment(tops[2], start, *in_c), sum_c + sums[2]
            in_d, sum_d = rank_segment(tops[3], start, *in_d), sum_d + sums[3]
        finish_row(a, in_a, sum_a, keys, first, second, total)
        finish_row(b, in_b, sum_b, keys, first, second, total)
        finish_row(c, in_c, sum_c, keys, first, second, total)
        finish_row(d, in_d, sum_d, keys, first, second, total)


@kernel
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


@kernel
def widen_halves(halves, bits):
    """Bits of float16 numbers as those of float32 numbers 2^-112 times as large, for the caller to scale back.

    halves uint16, bits uint32, both 1-D. The fields only move: the sign to the top, exponent and fraction 13 places
    up. Infinity and NaN come out as 2^16 and more after scaling. Numpy's own cast works a number at a time.
    """
    for i in range(halves.size):
        half = np.uint32(halves[i])
        bits[i] = ((half & np.uint32(0x8000)) << np.uint32(16)) | ((half & np.uint32(0x7FFF)) << np.uint32(13))


@kernel
def find_unfit(first, total, most, tolerance):
    """The first row whose top key exceeds `most` or whose sum is off 1 by more than `tolerance` or NaN; -1 if none."""
    for i in range(first.size):
        if first[i] > most or not abs(total[i] - 1.0) <= tolerance:
            return i
    return -1
