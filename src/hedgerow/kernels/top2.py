"""The two largest entries and the sum of every row, in one pass over memory.

Non-negative IEEE floats sort like the unsigned integers with the same bits, so comparisons use an integer view: LLVM
vectorizes those, but not float comparisons with their NaN rules. In that view a NaN or a negative number is larger than
infinity and becomes the row's top entry, where one comparison per row detects it. Four rows far apart are read at the
same time, because a core can prefetch several streams and a single one does not use the full memory bandwidth.
Softmax and checks are in `scores.py`.
"""

import numpy as np

from hedgerow.kernels.compiling import helper, kernel

# Columns scanned at a time. The segment with a row's largest entry is scanned twice, from the first-level cache, so
# short segments save time until their reductions cost more (for 1,000 columns, 128 is faster than 256 and 512). They
# also keep partial sums in the data's own precision short before they are added to the float64 total.
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
    """The largest key below `top`, or `top` itself if it occurs more than once.

    The count has the dtype of the keys: a wider one would halve the number of lanes in a vector register.
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
    """(largest key so far, second largest of the segments' largest keys, start of the segment with the largest)."""
    if top > best:
        return top, best, start
    return best, max(next_best, top), at


@helper
def finish_row(row, state, whole, keys, first, second, total):
    """Writes a row's results. The second largest may be in the segment of the largest, so that one is scanned again."""
    best, next_best, at = state
    first[row] = best
    second[row] = max(next_best, find_second(keys[row, at : at + SEGMENT], best))
    total[row] = whole


@kernel
def top2_and_sum(keys, values, first, second, total):
    """Per row: the two largest keys and the sum of the values.

    keys (n, C) uint32 or uint64, values (n, C) float32 or float64, both C-contiguous, C >= 1. Out: first, second
    (n,) like keys, total (n,) float64. Four rows a quarter of the matrix apart are scanned together; the last row
    may be computed more than once, with the same result. O(n C), one read from memory.
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
    """As `top2_and_sum`, entry by entry: faster for rows shorter than a few vector registers."""
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
    """Converts bits of float16 numbers to bits of float32 numbers 2^-112 times as large; the caller scales them back.

    halves uint16, bits uint32, both 1-D. Only moves bits: the sign to the top, exponent and fraction 13 places up.
    Infinity and NaN become 2^16 or more after scaling. numpy's own cast is not vectorized.
    """
    for i in range(halves.size):
        half = np.uint32(halves[i])
        bits[i] = ((half & np.uint32(0x8000)) << np.uint32(16)) | ((half & np.uint32(0x7FFF)) << np.uint32(13))


@kernel
def find_unfit(first, total, most, tolerance):
    """The first row with a top key above `most`, or a sum that is NaN or not within `tolerance` of 1; -1 if none."""
    for i in range(first.size):
        if first[i] > most or not abs(total[i] - 1.0) <= tolerance:
            return i
    return -1
