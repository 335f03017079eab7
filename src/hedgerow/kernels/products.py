"""Matrix products inside kernels: calls the BLAS functions behind numba's `np.dot` directly.

The checks and error messages of `np.dot` take seconds to compile. Nothing is checked here: arrays must be contiguous,
of the same dtype (float32 or float64) and of matching shapes.
"""

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload

from hedgerow.kernels.compiling import MISSING

NUMBER, LETTER, ADDRESS = types.intp, types.int8, types.voidptr
# Both call scipy's BLAS: (dtype, transposed or not, sizes, alpha, a, stride, b, stride, beta, c, stride).
GEMM: Any = types.ExternalFunction(
    "numba_xxgemm",
    types.int32(
        LETTER, LETTER, LETTER, NUMBER, NUMBER, NUMBER, ADDRESS, ADDRESS, NUMBER, ADDRESS, NUMBER, ADDRESS, ADDRESS,
        NUMBER,
    ),
)  # fmt: skip
GEMV: Any = types.ExternalFunction(
    "numba_xxgemv",
    types.int32(LETTER, LETTER, NUMBER, NUMBER, ADDRESS, ADDRESS, NUMBER, ADDRESS, ADDRESS, ADDRESS),
)
KINDS = {types.float32: (np.int8(ord("s")), np.float32), types.float64: (np.int8(ord("d")), np.float64)}
OPTIONS = {} if MISSING else {"_nrt": False}
TRANSPOSED, AS_IT_IS = np.int8(ord("t")), np.int8(ord("n"))


def multiply(left, right, out):
    """out = left (p, d) times the transpose of right (q, d), in row order: flat or (p, q). Cost: 2 p q d."""
    raise AssertionError("for kernels only")


def multiply_vector(left, vector, out):
    """out (p,) = left (p, d) times vector (d,). Cost: 2 p d."""
    raise AssertionError("for kernels only")


@overload(multiply, jit_options=OPTIONS)
def make_multiply(left, right, out):
    """The implementation for these types. Fortran sees all three transposed: out^T = (right^T)^T left^T."""
    if MISSING:
        return make_plain(out)
    kind, real = KINDS[left.dtype]
    one, zero = np.ones(1, real), np.zeros(1, real)

    def run(left, right, out):
        p, q, d = left.shape[0], right.shape[0], left.shape[1]
        step = d if d > 0 else 1
        GEMM(
            kind, TRANSPOSED, AS_IT_IS, q, p, d, one.ctypes, right.ctypes, step, left.ctypes, step, zero.ctypes,
            out.ctypes, q if q > 0 else 1,
        )  # fmt: skip

    return run


@overload(multiply_vector, jit_options=OPTIONS)
def make_multiply_vector(left, vector, out):
    """The implementation for these types."""
    if MISSING:
        return lambda left, vector, out: np.dot(left, vector, out[: len(left)])
    kind, real = KINDS[left.dtype]
    one, zero = np.ones(1, real), np.zeros(1, real)

    def run(left, vector, out):
        p, d = left.shape
        GEMV(kind, TRANSPOSED, d, p, one.ctypes, left.ctypes, d if d > 0 else 1, vector.ctypes, zero.ctypes, out.ctypes)

    return run


def make_plain(out):
    """`multiply` by `np.dot`, for versions of numba without the BLAS functions used above."""
    if out.ndim == 2:
        return lambda left, right, out: np.dot(left, right.T, out)
    return lambda left, right, out: np.dot(
        left, right.T, out[: len(left) * len(right)].reshape((len(left), len(right)))
    )
