"""k-means++ for points in factored form g = a (x) z: squared distances from blocks of products, draws, acceptance.

d2(g, g') = |g|^2 + |g'|^2 - 2 <a, a'><z, z'>. The products come from BLAS in float32, which is inaccurate for
distances that are small relative to the norms: a distance below `NEAR` times |g|^2 + |g'|^2 is recomputed in float64,
and copies are at distance 0. If the residuals a have width 1, they are scale factors: g = a z.
"""

import numpy as np

from hedgerow.kernels.compiling import helper, kernel
from hedgerow.kernels.gathering import dot
from hedgerow.kernels.products import multiply

ROW_TILE, CENTER_TILE = 256, 512  # a tile of products is 512 KiB of float32 and stays in a core's cache
SEGMENT = 128  # rows per partial sum: a draw finds a sum by binary search and then scans its rows
NEAR = 1e-3  # relative to the norms: above it, distances from float32 products are good to about 0.1%
ERROR = 1e-5  # relative to the norms: more than the error of such products, so that no nearer center is missed
# Relative to the norms: a distance in float64 below this is rounding error, and the two points are equal.
ROUNDING = 1e-12

# Minima may be reassociated, and no product is NaN.
MINIMA = {"reassoc", "contract", "nsz", "nnan"}


@kernel
def measure_norms(points, residuals, norms):
    """norms (m,) float32 = |a|^2 |z|^2, summed in float64."""
    for i in range(norms.size):
        norms[i] = dot(points[i], points[i]) * dot(residuals[i], residuals[i])


@helper
def measure_distance(z, a, other_z, other_a):
    """|a (x) z - a' (x) z'|^2 in float64, or 0 if it is within rounding error. Cost: 3 (d + C)."""
    both = dot(a, a) * dot(z, z) + dot(other_a, other_a) * dot(other_z, other_z)
    distance = both - 2.0 * dot(a, other_a) * dot(z, other_z)
    return distance if distance > ROUNDING * both else 0.0


@kernel
def multiply_factors(points, residuals, centers, center_residuals, products, factors):
    """products, r c float32 in row order: <a, a'><z, z'> of r rows with c centers. factors: scratch of that size."""
    rows, columns = len(points), len(centers)
    multiply(points, centers, products)
    if residuals.shape[1] == 1:
        for i in range(rows):
            for j in range(columns):
                products[i * columns + j] *= residuals[i, 0] * center_residuals[j, 0]
    else:
        multiply(residuals, center_residuals, factors)
        for i in range(rows * columns):
            products[i] *= factors[i]


@helper
def find_most(values):
    """The largest of values (m,), m >= 1."""
    most = values[0]
    for j in range(values.size):
        most = values[j] if values[j] > most else most
    return most


@helper(fastmath=MINIMA)
def find_least(products, norms):
    """min over j of norms[j] - 2 products[j]: the smallest squared distance, minus the row's own norm."""
    least = norms[0] - np.float32(2) * products[0]
    for j in range(products.size):
        least = min(least, norms[j] - np.float32(2) * products[j])
    return least


@kernel
def lower(points, residuals, norms, centers, center_residuals, center_norms, area, mixing, weights):
    """Lowers weights (m,) float32 to the squared distance from the nearest of the centers (c, d), if it is smaller.

    points (m, d), residuals (m, C), norms (m,) and the same of the centers, c >= 1, all float32; area, mixing: flat, at
    least ROW_TILE * CENTER_TILE each. Cost: m c (d + C) in BLAS. If a tile may contain a nearer center of a
    row, its centers are checked one by one.
    """
    for left in range(0, len(centers), CENTER_TILE):
        right = min(left + CENTER_TILE, len(centers))
        tile_norms = center_norms[left:right]
        margin = ERROR * find_most(tile_norms)
        width = right - left
        for top in range(0, len(points), ROW_TILE):
            bottom = min(top + ROW_TILE, len(points))
            multiply_factors(
                points[top:bottom],
                residuals[top:bottom],
                centers[left:right],
                center_residuals[left:right],
                area,
                mixing,
            )
            for i in range(top, bottom):
                if weights[i] == 0.0:
                    continue
                products = area[(i - top) * width : (i - top + 1) * width]
                least = norms[i] + find_least(products, tile_norms)
                if least >= weights[i] + ERROR * norms[i] + margin:
                    continue
                weights[i] = settle(
                    products,
                    points,
                    residuals,
                    norms,
                    i,
                    centers,
                    center_residuals,
                    center_norms,
                    left,
                    weights[i],
                )


@helper
def settle(products, points, residuals, norms, i, centers, center_residuals, center_norms, left, weight):
    """The weight of row i, given its products with the centers left, left + 1, ..."""
    for j in range(products.size):
        both = np.float64(norms[i]) + np.float64(center_norms[left + j])
        distance = both - 2.0 * products[j]
        if distance >= weight + ERROR * both:
            continue
        if distance < NEAR * both:
            distance = measure_distance(points[i], residuals[i], centers[left + j], center_residuals[left + j])
        if distance < weight:
            weight = np.float32(distance)
    return weight


@kernel
def add_segments(weights, sums):
    """sums float64 = the sum of the weights of every SEGMENT rows."""
    for s in range(sums.size):
        total = 0.0
        for i in range(s * SEGMENT, min((s + 1) * SEGMENT, weights.size)):
            total += np.float64(weights[i])
        sums[s] = total


@kernel
def draw_rows(weights, ends, uniforms, rows):
    """rows (m,) int64 drawn with probability proportional to their weights, with replacement.

    ends: running sums of the segments' sums, float64, the last > 0; uniforms (m,) in [0, 1). Cost: m (log n + SEGMENT).
    """
    for t in range(rows.size):
        target = uniforms[t] * ends[-1]
        s = np.searchsorted(ends, target, side="right")
        while s == ends.size or (s > 0 and ends[s] == ends[s - 1]):  # rounded up to the total, or an empty segment
            s -= 1
        running = ends[s - 1] if s > 0 else 0.0
        for i in range(s * SEGMENT, min((s + 1) * SEGMENT, weights.size)):
            if weights[i] > 0.0:
                rows[t] = i
                running += np.float64(weights[i])
                if running > target:
                    break


@kernel
def accept(products, points, residuals, norms, weights, nearest, uniforms, accepted):
    """Decides which of m proposals become centers, in order: writes them to `accepted`, returns how many.

    Proposals were drawn in proportion to weights (m,) float32, their squared distances from some of the centers. Each
    is accepted with probability D / weight, where D <= weight is the squared distance from all centers: the smaller of
    `nearest` (m,) and that from proposals accepted before. So accepted rows are distributed in proportion to D.
    products (m, m): of the proposals with each other. Stops at accepted.size. Cost: m times the number accepted.
    """
    count = 0
    for i in range(weights.size):
        distance = np.float64(nearest[i])
        height = uniforms[i] * np.float64(weights[i])
        for t in range(count):
            if height >= distance:
                break
            j = accepted[t]
            both = np.float64(norms[i]) + np.float64(norms[j])
            other = both - 2.0 * products[i, j]
            if other < NEAR * both:
                other = measure_distance(points[i], residuals[i], points[j], residuals[j])
            distance = min(distance, other)
        if height < distance:
            accepted[count] = i
            count += 1
            if count == accepted.size:
                break
    return count
