"""Rows of a two-dimensional map: counted in the bins of a window, listed, the nearest to a place, those in a polygon.

A place is two uint16 per row. `hidden` marks rows that are not on the map any more. All loops are one pass over the
rows, in their order; a window is a table of 65,536 bins per axis, -1 outside, so that no row costs a division.
"""

from hedgerow.kernels.compiling import helper, kernel


@kernel
def count_window(x, y, hidden, column, line, counts, first):
    """counts (lines, columns) int64 += rows per bin; first, the same shape, holds -1 and gets the first row of each.

    column, line (65536,) int16: the bin of each coordinate, -1 outside the window.
    """
    for row in range(x.size):
        at, below = column[x[row]], line[y[row]]
        if at >= 0 and below >= 0 and not hidden[row]:
            if counts[below, at] == 0:
                first[below, at] = row
            counts[below, at] += 1


@kernel
def list_window(x, y, hidden, column, line, rows):
    """rows (m,) int64 gets the first m rows inside the window; returns how many it got."""
    found = 0
    for row in range(x.size):
        if found == rows.size:
            break
        if column[x[row]] >= 0 and line[y[row]] >= 0 and not hidden[row]:
            rows[found] = row
            found += 1
    return found


@kernel
def find_nearest(x, y, hidden, at_x, at_y, reach):
    """The row nearest to a place, the lowest of several; -1 if none is within `reach`."""
    nearest, least = -1, reach * reach + 1
    for row in range(x.size):
        right, down = int(x[row]) - at_x, int(y[row]) - at_y
        distance = right * right + down * down
        if distance < least and not hidden[row]:
            nearest, least = row, distance
    return nearest


@kernel
def list_inside(x, y, hidden, corners, rows):
    """rows (m,) int64 gets the first m rows inside a polygon; returns how many rows are inside.

    corners (c, 2) int64, the last one joined to the first; inside is where a line to the right crosses the border an
    odd number of times. Whole numbers below 2**31, so that no product overflows. Cost: rows in its rectangle times c.
    """
    left = right = corners[0, 0]
    top = bottom = corners[0, 1]
    for corner in range(1, corners.shape[0]):
        left, right = min(left, corners[corner, 0]), max(right, corners[corner, 0])
        top, bottom = min(top, corners[corner, 1]), max(bottom, corners[corner, 1])
    found = 0
    for row in range(x.size):
        at, below = int(x[row]), int(y[row])
        if at < left or at > right or below < top or below > bottom or hidden[row]:
            continue
        if _is_inside(at, below, corners):
            if found < rows.size:
                rows[found] = row
            found += 1
    return found


@helper
def _is_inside(x, y, corners):
    odd = False
    last = corners.shape[0] - 1
    for corner in range(corners.shape[0]):
        ax, ay, bx, by = corners[last, 0], corners[last, 1], corners[corner, 0], corners[corner, 1]
        if (ay > y) != (by > y):
            # x < ax + (bx - ax) (y - ay) / (by - ay), multiplied out
            gap, way = (x - ax) * (by - ay), (bx - ax) * (y - ay)
            if (gap < way) == (by > ay) and gap != way:
                odd = not odd
        last = corner
    return odd
