"""Counter-based random numbers: the i-th draw under a key is a hash of both, so draws do not depend on execution order.

The hash is the finalizer of splitmix64 (Steele, Lea and Flood 2014) over key + i * golden ratio, which is that
generator's i-th output when started from the key. Callers draw the keys from their own generator.
"""

import numpy as np

from hedgerow.kernels.compiling import helper

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
UNIT = 2.0**-53  # 53 random bits make a float64 in [0, 1)


@helper
def draw(key, counter):
    """A float64 in [0, 1): draw number `counter` (>= 0) under `key` (uint64)."""
    z = key + (np.uint64(counter) + np.uint64(1)) * GOLDEN
    z = (z ^ (z >> np.uint64(30))) * MIX_1
    z = (z ^ (z >> np.uint64(27))) * MIX_2
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * UNIT


@helper
def shuffle(values, key, offset):
    """Shuffles values (m,) in place, uniformly, with the draws offset + 1 to offset + m - 1 under `key`."""
    for i in range(values.size - 1, 0, -1):
        j = int(draw(key, offset + i) * (i + 1))
        values[i], values[j] = values[j], values[i]
