"""The largest shell between two rectangles that holds no point, for `theory/rectangles.py`.

A rectangle [0, w] in [0, 1]^d contains the points with all coordinates below w. Let a be the largest of their
coordinates on each axis (0 without points): then [0, w] and [0, a] contain the same points, and the shell between them
has the volume prod w - prod a. Along one axis, with the others fixed, the best w is found in one pass.
"""

import numpy as np

from hedgerow.kernels.compiling import helper, kernel


@helper
def measure_rest(corner, axis):
    """The product of corner (d,) without this axis."""
    rest = 1.0
    for j in range(corner.size):
        if j != axis:
            rest *= corner[j]
    return rest


@helper
def is_inside(point, corner, axis):
    """Whether all coordinates of a point except one are below the corner's."""
    inside = True
    for j in range(corner.size):
        inside &= j == axis or point[j] < corner[j]
    return inside


@helper
def search_axis(points, order, corner, axis, reach):
    """(volume, w) of the best shell over w along one axis; the others are those of corner (d,).

    points (k, d) in [0, 1]; order (k,): the points in ascending order along the axis; reach (d,): scratch. O(k d).
    """
    rest = measure_rest(corner, axis)
    reach[:] = 0.0
    best, place = -1.0, 1.0
    for t in range(order.size + 1):
        limit = points[order[t], axis] if t < order.size else 1.0
        if t < order.size and not is_inside(points[order[t]], corner, axis):
            continue
        inner = reach[axis] * measure_rest(reach, axis)
        if limit * rest - inner > best:
            best, place = limit * rest - inner, limit
        if t < order.size:
            for j in range(corner.size):
                reach[j] = max(reach[j], points[order[t], j])
    return best, place


@kernel(allocates=True)
def climb(points, orders, corners):
    """The volume of the best shell found from corners (m, d), improved axis by axis until no axis improves it.

    points (k, d) float64 in [0, 1], orders (d, k) int64: the points in ascending order along each axis. Modifies the
    corners. O(m d^2 k) times the rounds that it takes, about five.
    """
    d = points.shape[1]
    reach = np.empty(d)
    best = 0.0
    for m in range(len(corners)):
        corner = corners[m]
        value = -1.0
        quiet = 0  # axes in a row that improved nothing
        axis = 0
        while quiet < d:
            found, place = search_axis(points, orders[axis], corner, axis, reach)
            if found > value:
                value, quiet = found, 0
                corner[axis] = place
            quiet += 1
            axis = (axis + 1) % d
        best = max(best, value)
    return best


@kernel(allocates=True)
def search_all(points, orders):
    """The volume of the largest shell, by trying every corner: O(k^d d)."""
    k, d = points.shape
    reach = np.empty(d)
    corner = np.ones(d)
    digits = np.zeros(d, np.int64)  # of the first d - 1 axes: which point limits the axis, k for none
    best = 0.0
    while True:
        for j in range(d - 1):
            corner[j] = points[digits[j], j] if digits[j] < k else 1.0
        found, _ = search_axis(points, orders[d - 1], corner, d - 1, reach)
        best = max(best, found)
        j = 0
        while j < d - 1 and digits[j] == k:
            digits[j] = 0
            j += 1
        if j == d - 1:
            return best
        digits[j] += 1
