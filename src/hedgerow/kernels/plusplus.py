"""k-means++ over factored points g = a (x) z: squared distances from <a, a'><z, z'>, the plain loop.

d2(g, g') = |g|^2 + |g'|^2 - 2 <a, a'><z, z'>, in float64 throughout, where the difference of near-equal numbers loses
what float32 does not have to lose. The law is exact: every center but the first is drawn with probability
proportional to its squared distance from the nearest center before it.
"""

import numpy as np
from numba import njit

# Below this share of |g|^2 + |g'|^2 a squared distance is rounding, and the two points are one: sums of float64
# products are good to about 1e-15 times the root of their length.
ROUNDING = 1e-12


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def dot(x, y):
    """<x, y> of two float32 vectors, summed in float64."""
    total = 0.0
    for j in range(x.size):
        total += np.float64(x[j]) * np.float64(y[j])
    return total


@njit(cache=True, nogil=True)
def lower_to_center(residuals, points, norms, center, weights):
    """weights (m,) float64 down to the squared distance from the row `center` where that is less; returns their sum.

    residuals (m, C), points (m, d) float32, norms (m,) float64 = |g|^2. Cost: m (C + d).
    """
    total = 0.0
    for i in range(norms.size):
        if weights[i] > 0.0:
            both = norms[i] + norms[center]
            distance = both - 2.0 * dot(residuals[i], residuals[center]) * dot(points[i], points[center])
            if distance <= ROUNDING * both:
                distance = 0.0
            weights[i] = min(weights[i], distance)
        total += weights[i]
    return total


@njit(cache=True, nogil=True)
def find_share(weights, target):
    """The first row at which the running sum of the weights exceeds `target`; the last with a weight if none does."""
    running = 0.0
    last = 0
    for i in range(weights.size):
        if weights[i] > 0.0:
            running += weights[i]
            last = i
            if running > target:
                break
    return last


@njit(cache=True, nogil=True)
def draw_centers(residuals, points, norms, start, uniforms, centers):
    """Draws centers (k,) int64, `start` the first; returns how many before every weight was zero.

    uniforms (k,) float64 in [0, 1), the first unused. Cost: k m (C + d); memory 8 m.
    """
    weights = np.full(norms.size, np.inf)
    center = start
    for t in range(centers.size):
        centers[t] = center
        weights[center] = 0.0
        total = lower_to_center(residuals, points, norms, center, weights)
        if t + 1 == centers.size:
            break
        if total <= 0.0:
            return t + 1
        center = find_share(weights, uniforms[t + 1] * total)
    return centers.size
