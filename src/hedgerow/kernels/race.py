"""Weighted sampling without replacement: row i arrives at time E_i / w_i, E_i exponential, and the first k are drawn.

Row i is first with probability w_i over the sum of weights, and likewise among the rest, as if rows were drawn one
after the other (Efraimidis and Spirakis 2006). The log of the time is -(log w_i + Gumbel noise): the Gumbel top-k. The
time of a row depends only on the key and the row.
"""

import math

import numpy as np

from hedgerow.kernels.compiling import kernel
from hedgerow.kernels.draws import draw

HALF_STEP = 2.0**-54  # draws are multiples of 2^-53: adding this keeps the logarithm finite
LAST = 2.0**100  # arrival of rows of weight zero: after all others, in random order


@kernel
def race(margins, power, key, start, arrivals):
    """arrivals (m,) float32 of the rows start, start + 1, ...: log E - power log(1 - margin). margins (m,) float32."""
    for i in range(arrivals.size):
        uniform = draw(key, start + i)
        left = 1.0 - np.float64(margins[i])
        if left > 0.0:
            arrivals[i] = math.log(-math.log1p(-uniform - HALF_STEP)) - power * math.log(left)
        elif power == 0.0:
            arrivals[i] = math.log(-math.log1p(-uniform - HALF_STEP))
        else:
            arrivals[i] = LAST * (1.0 + uniform)


@kernel
def order_bits(bits):
    """Changes the bits (m,) of finite floats in place so that they sort like the numbers, including negative ones.

    bits: uint32 for float32 numbers, uint64 for float64.
    """
    sign = np.uint64(1) << np.uint64(8 * bits.itemsize - 1)
    for i in range(bits.size):
        bits[i] = ~bits[i] if bits[i] & sign else bits[i] | sign
