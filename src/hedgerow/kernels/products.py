"""Products of matrices, called from kernels: the functions that numba's `np.dot` calls, without its checks.

The code that `np.dot` adds for its error messages takes seconds to compile. Nothing is checked here: arrays are
contiguous, of one dtype (float32 or float64), and fit each other.
"""

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload

NUMBER, LETTER, ADDRESS = types.intp, types.int8, types.voidptr
# Both call scipy's BLAS: (kind, transposed or not, sizes, alpha, a, step, b, step, beta, c, step).
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
TRANSPOSED, AS_IT_IS = np.int8(ord("t")), np.int8(ord("n"))


def multiply(left, right, out):
    """out = left (p, d) times the transpose of right (q, d), p q numbers in row order. Cost: 2 p q d."""
    raise AssertionError("for kernels only")


def multiply_vector(left, vector, out):
    """out (p,) = left (p, d) times vector (d,). Cost: 2 p d."""
    raise AssertionError("for kernels only")


@overload(multiply, jit_options={"_nrt": False})
def make_multiply(left, right, out):
    """The code for arrays of these types. Fortran sees the transposes of all three: out^T = (right^T)^T left^T."""
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


@overload(multiply_vector, jit_options={"_nrt": False})
def make_multiply_vector(left, vector, out):
    """The code for arrays of these types."""
    kind, real = KINDS[left.dtype]
    one, zero = np.ones(1, real), np.zeros(1, real)

    def run(left, vector, out):
        p, d = left.shape
        GEMV(kind, TRANSPOSED, d, p, one.ctypes, left.ctypes, d if d > 0 else 1, vector.ctypes, zero.ctypes, out.ctypes)

    return run
