"""What rows would add to the coverage of a pool, from matrix products: by balls, or by a Gaussian.

Each point has the squared distance from its nearest center, `nearest`. A row covers a point more than the centers do if
it is nearer, and by how much is the row's gain there. Distances are float32, sums float64.
"""

import numpy as np

from hedgerow.kernels.compiling import helper, kernel
from hedgerow.kernels.products import multiply

TARGETS = 2048  # points per product: with 32 rows 256 KiB, which stays in a core's cache


@helper(inline="always")
def multiply_block(points, norms, rows, block, left, right, area):
    """Products (b, right - left) of a block with points left to right; that of a row with itself is exact."""
    products = area[: len(rows) * (right - left)].reshape((len(rows), right - left))
    multiply(block, points[left:right], products)
    for i in range(len(rows)):
        if left <= rows[i] < right:
            products[i, rows[i] - left] = norms[rows[i]]
    return products


@kernel
def add_ball_gains(points, norms, rows, block, reach, nearest, weights, area, gains):
    """gains (b,) = the weight of the points within `reach` of a row (squared, below it) that no center has reached.

    points (m, d), norms (m,) and block = points[rows] (b, d): float32; nearest, weights (m,) float64; area: flat, b *
    TARGETS float32. Cost: b m d.
    """
    for i in range(len(rows)):
        gains[i] = 0.0
    for left in range(0, len(points), TARGETS):
        right = min(left + TARGETS, len(points))
        products = multiply_block(points, norms, rows, block, left, right, area)
        for i in range(len(rows)):
            own, total = norms[rows[i]], 0.0
            for j in range(right - left):
                squared = own + norms[left + j] - 2 * products[i, j]
                if squared < reach and nearest[left + j] >= reach:
                    total += weights[left + j]
            gains[i] += total


@kernel
def add_gaussian_gains(points, norms, rows, block, scale, nearest, covered, weights, area, gains):
    """gains (b,) = the sum of weights times what a row adds to the largest kernel exp(-scale squared) of a point.

    covered (m,) float64: exp(-scale nearest). Otherwise as `add_ball_gains`.
    """
    for i in range(len(rows)):
        gains[i] = 0.0
    for left in range(0, len(points), TARGETS):
        right = min(left + TARGETS, len(points))
        products = multiply_block(points, norms, rows, block, left, right, area)
        for i in range(len(rows)):
            own, total = norms[rows[i]], 0.0
            for j in range(right - left):
                squared = max(np.float64(own + norms[left + j] - 2 * products[i, j]), 0.0)
                if squared < nearest[left + j]:
                    total += weights[left + j] * (np.exp(-scale * squared) - covered[left + j])
            gains[i] += total
