"""Greedy k-center with lazy bounds: the same sequence as the plain loop, with a fraction of its distances.

Every row has a key: its squared distance from the nearest of the centers it was compared with. This is an upper bound,
because centers are only ever added. Rows are in a max-heap by key, ties by lowest row. The row on top is compared with
further centers until it was compared with all, which makes it the farthest row, or until its key falls below another
(the lazy greedy algorithm of Minoux 1978, for distances). Keys are computed in float64 from differences, so that equal
points are at distance 0; float32 only rules out centers that are too far away.

Large numbers of initial centers are grouped on shelves: each has a pivot, and its centers are sorted by their distance
from it. By the triangle inequality, a row is only compared with centers about as far from the pivot as itself.
"""

from typing import Any, NamedTuple

import numpy as np

from hedgerow.kernels.compiling import helper, kernel
from hedgerow.kernels.gathering import dot
from hedgerow.kernels.products import multiply
from hedgerow.kernels.seeding import find_least, find_most

ROW_TILE, CENTER_TILE = 256, 512  # a tile of products is 512 KiB of float32 and stays in a core's cache
TOGETHER = 4  # centers estimated in one loop: enough sums to hide the latency of additions
UNIT = 2.0**-24  # relative rounding error of a float32 operation
TAKEN = -1.0  # the key of a chosen row: below every distance
ROUNDING = 1e-9  # relative, of distances in float64: far more than their rounding error

SUMS = {"reassoc", "contract"}


class Shelves(NamedTuple):
    """The first centers, grouped: starts[s] to starts[s + 1] are nearest to pivots[s], sorted by distance from it.

    pivots (s, d) float32, starts (s + 1,) int64, distances (g,) float64. Without pivots starts is [0].
    """

    pivots: Any
    starts: Any
    distances: Any


@helper(fastmath=SUMS)
def squared_distance(x, y):
    """|x - y|^2 of two float32 vectors, in float64."""
    total = 0.0
    for j in range(x.size):
        gap = np.float64(x[j]) - np.float64(y[j])
        total += gap * gap
    return total


@helper(fastmath=SUMS)
def estimate_distance(x, y):
    """|x - y|^2 of two float32 vectors, in float32: twice as fast."""
    total = np.float32(0)
    for j in range(x.size):
        gap = x[j] - y[j]
        total += gap * gap
    return total


@helper(fastmath=SUMS)
def estimate_least(x, y0, y1, y2, y3):
    """The smallest |x - y|^2 of four y, in float32."""
    total_0, total_1, total_2, total_3 = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    for j in range(x.size):
        gap_0, gap_1, gap_2, gap_3 = x[j] - y0[j], x[j] - y1[j], x[j] - y2[j], x[j] - y3[j]
        total_0 += gap_0 * gap_0
        total_1 += gap_1 * gap_1
        total_2 += gap_2 * gap_2
        total_3 += gap_3 * gap_3
    return min(min(total_0, total_1), min(total_2, total_3))


@kernel
def measure_norms(points, norms):
    """norms (m,) float32 = |points|^2."""
    for i in range(norms.size):
        norms[i] = dot(points[i], points[i])


@kernel
def measure_gaps(points, pivots, nearest, gaps):
    """gaps (m,) float64 = the distance of every point from its own pivot."""
    for i in range(gaps.size):
        gaps[i] = np.sqrt(squared_distance(points[i], pivots[nearest[i]]))


@kernel
def lower(points, norms, centers, center_norms, area, bounds):
    """Lowers bounds (m,) float64 to the exact squared distance from the nearest of the centers (c, d), c >= 1.

    points (m, d), norms (m,) and the same of the centers: float32; area: flat, ROW_TILE * CENTER_TILE. Matrix products
    find the centers that may be nearer than the bound, given their rounding; only those are measured. Cost: m c d.
    """
    error = 2.0 * UNIT * (points.shape[1] + 8)  # relative to the norms: above the worst case of a sum of d products
    for top in range(0, len(points), ROW_TILE):
        bottom = min(top + ROW_TILE, len(points))
        for left in range(0, len(centers), CENTER_TILE):
            right = min(left + CENTER_TILE, len(centers))
            shape = (bottom - top, right - left)
            products = area[: shape[0] * shape[1]].reshape(shape)
            multiply(points[top:bottom], centers[left:right], products)
            most = find_most(center_norms[left:right])
            for i in range(top, bottom):
                least = norms[i] + find_least(products[i - top], center_norms[left:right])
                if least >= bounds[i] + error * (norms[i] + most):
                    continue
                for j in range(left, right):
                    both = np.float64(norms[i]) + np.float64(center_norms[j])
                    if both - 2.0 * products[i - top, j - left] < bounds[i] + error * both:
                        bounds[i] = min(bounds[i], squared_distance(points[i], centers[j]))


@helper
def sift(heap, keys, place):
    """Moves the row at `place` down to its position: larger keys above, and lower rows above for equal keys."""
    row, key = heap[place], keys[place]
    while True:
        child = 2 * place + 1
        if child >= heap.size:
            break
        if child + 1 < heap.size and (
            keys[child + 1] > keys[child] or (keys[child + 1] == keys[child] and heap[child + 1] < heap[child])
        ):
            child += 1
        if keys[child] < key or (keys[child] == key and heap[child] > row):
            break
        heap[place], keys[place] = heap[child], keys[child]
        place = child
    heap[place], keys[place] = row, key


@kernel
def build_heap(heap, keys):
    """Makes heap (m,) int32, with its keys (m,) float64, a heap. O(m)."""
    for place in range(heap.size // 2 - 1, -1, -1):
        sift(heap, keys, place)


@kernel
def settle_top(points, rows, centers, shelves, count, heap, keys, compared):
    """Brings the farthest row to the top of the heap, with its exact key for the first `count` centers; returns it.

    points (N, d) float32, of which rows (m,) int64 are the pool; centers (>= count, d) float32; compared (m,) int32:
    how many centers each row was compared with (on shelves, always whole shelves).
    """
    while compared[heap[0]] < count and keys[0] != TAKEN:
        runner_up = TAKEN
        for place in range(1, min(3, heap.size)):
            runner_up = max(runner_up, keys[place])
        row = heap[0]
        point = points[rows[row]]
        if compared[row] < shelves.starts[-1]:
            compared[row], keys[0] = compare_shelves(point, centers, shelves, compared[row], keys[0], runner_up)
        else:
            compared[row], keys[0] = compare(point, centers, compared[row], count, keys[0], runner_up)
        sift(heap, keys, 0)
    return heap[0]


@helper
def compare_shelves(point, centers, shelves, at, key, level):
    """As `compare`, shelf by shelf, skipping the centers that the triangle inequality rules out."""
    s = np.searchsorted(shelves.starts, at)
    while s < len(shelves.pivots) and key >= level:
        first, last = shelves.starts[s], shelves.starts[s + 1]
        gap = np.sqrt(squared_distance(point, shelves.pivots[s]))
        reach = np.sqrt(key)
        reach += ROUNDING * (gap + reach)
        if gap - reach <= shelves.distances[last - 1] and gap + reach >= shelves.distances[first]:
            distances = shelves.distances[first:last]
            low = first + np.searchsorted(distances, gap - reach)
            high = first + np.searchsorted(distances, gap + reach, side="right")
            key = compare(point, centers, low, high, key, TAKEN)[1]
        s += 1
    return shelves.starts[s], key


@helper
def compare(point, centers, at, count, key, level):
    """(next center, key) after comparisons from center `at` on, up to `count` or until the key is below `level`."""
    slack = 1.0 + 2.0 * UNIT * (point.size + 8)  # more than the rounding error of a sum of float32 squares
    limit = np.float32(key * slack)
    while at < count and key >= level:
        ahead = min(TOGETHER, count - at)
        if ahead == TOGETHER:
            least = estimate_least(point, centers[at], centers[at + 1], centers[at + 2], centers[at + 3])
        else:
            ahead = 1
            least = estimate_distance(point, centers[at])
        if not least > limit:
            for c in range(at, at + ahead):
                key = min(key, squared_distance(point, centers[c]))
            limit = np.float32(key * slack)
        at += ahead
    return at, key


@kernel
def take_top(heap, keys):
    """Marks the row on top as chosen."""
    keys[0] = TAKEN
    sift(heap, keys, 0)


@kernel
def take_farthest(points, rows, centers, shelves, count, coincident, heap, keys, compared, chosen):
    """Chooses the farthest row chosen.size times: fills chosen (k,) int64, and `centers` from `count` on.

    Stops early if no row is farther than `coincident` from all centers. Returns how many were chosen.
    """
    for t in range(chosen.size):
        row = settle_top(points, rows, centers, shelves, count + t, heap, keys, compared)
        if keys[0] <= coincident:
            return t
        chosen[t] = row
        for j in range(points.shape[1]):
            centers[count + t, j] = points[rows[row], j]
        take_top(heap, keys)
    return chosen.size
