"""Weighted draws without replacement as a race: row i arrives at E_i / w_i, E_i exponential, and the first k are drawn.

Who comes first is i with probability w_i over the sum, and so on among the rest: the law of drawing one after the other
(Efraimidis and Spirakis 2006). The log of the arrival is -(log w_i + Gumbel noise), so this is the Gumbel top-k. The
draw of a row depends on the key and the row alone.
"""

import math

import numpy as np

from hedgerow.kernels.compiling import kernel
from hedgerow.kernels.draws import draw

HALF_STEP = 2.0**-54  # draws are multiples of 2^-53: this keeps the log of one finite
LAST = 2.0**100  # arrival of weightless rows: behind everybody, in random order


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
    """The bits (m,) of finite floats, in place, so that they order like the numbers, signs included.

    uint32 of float32 numbers, or uint64 of float64 ones.
    """
    sign = np.uint64(1) << np.uint64(8 * bits.itemsize - 1)
    for i in range(bits.size):
        bits[i] = ~bits[i] if bits[i] & sign else bits[i] | sign
