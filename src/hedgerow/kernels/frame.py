"""The draw of Hedge: rows in an order along which neighbors are alike (the frame), picked systematically.

The frame is sorted by class and then by cluster, stably, with a counting sort for each; rows of one class and cluster
are a cell. A row has weight w, and is expected to be picked

    pi = min(1, scale * w * d),  d = min(1, x^(power - 1)),  x = scale * (sum of the weights of its cell)

times: cells that would be picked from x > 1 times are picked from about x^power times. The scale is such that all pi
sum to k, and is found by the caller. Picks are a systematic sample: a point every unit of the running sum of pi, from a
random start. So each row is picked with probability pi, and every stretch of the frame has its share, to within one.

For that law to be exact, pi is rounded to whole units, of which there are about 2^62 in all, and the sums are integers.
"""

import math

import numpy as np

from hedgerow.kernels.compiling import helper, kernel

LEAST_WEIGHT = 1e-30  # relative to the largest: any row may be picked
MOST_MARGIN = 1.0 - 2.0**-24  # beyond it the log odds are infinite
CERTAIN = 1.0 - 2.0**-30  # rows with pi above it are always picked; far more than pi is off by rounding


@kernel
def sort_by_cluster(clusters, owners, labeled, places, order):
    """order (m,) int32 = the unlabeled of n rows by cluster, ascending within each. 8 bytes per cluster.

    clusters int32: of the rows, or of owners (n,) int64 if that is not of length 0. labeled (n,) bool, or (0,) for
    none. places (clusters + 1,) int64: zero at first; then where each cluster ends.
    """
    masked, owned = labeled.size > 0, owners.size > 0
    n = owners.size if owned else clusters.size
    for i in range(n):
        if not (masked and labeled[i]):
            places[clusters[owners[i] if owned else i] + 1] += 1
    for c in range(places.size - 1):
        places[c + 1] += places[c]
    for i in range(n):
        if not (masked and labeled[i]):
            cluster = clusters[owners[i] if owned else i]
            order[places[cluster]] = i
            places[cluster] += 1


@kernel
def open_clusters(ends, opens):
    """opens (m,) bool: whether a cluster begins at this place. ends (clusters + 1,): `places` of `sort_by_cluster`."""
    opens[:] = False
    start = 0
    for end in ends:
        if end > start:
            opens[start] = True
        start = end


@kernel
def sort_by_class(classes, labeled, before, ends, places, last, order, opens):
    """order (m,) = before (m,), rows in int32, stably sorted by classes (n,) int32; opens (m,) bool: where cells begin.

    before and ends: `order` and `places` of `sort_by_cluster`. places (classes + 1,) int64: zero at first. last
    (classes,) int64: -1 at first. Which cluster a row has is known from its place in `before`, without looking it up.
    """
    masked = labeled.size > 0
    for i in range(classes.size):
        if not (masked and labeled[i]):
            places[classes[i] + 1] += 1
    for c in range(places.size - 1):
        places[c + 1] += places[c]
    start = 0
    for cluster in range(ends.size):
        for j in range(start, ends[cluster]):
            label = classes[before[j]]
            place = places[label]
            order[place] = before[j]
            opens[place] = last[label] != cluster
            last[label] = cluster
            places[label] += 1
        start = ends[cluster]


@kernel
def weigh(margins, order, trust, power, weights):
    """weights (m,) float32 in frame order: u^power with u = 1 / (1 + odds^trust), odds = (1 + margin) / (1 - margin).

    u is the probability of the second of two classes whose margin that is, with the log odds shrunk by `trust`. The
    largest weight is scaled to 1. margins (n,) float32.
    """
    lowest = np.float32(1.0)
    for j in range(order.size):  # gathered first: a loop with logs in it waits for each of them in turn
        weights[j] = margins[order[j]]
        lowest = min(lowest, weights[j])
    top = find_log(lowest, trust)
    for j in range(order.size):
        weights[j] = max(math.exp(power * (find_log(weights[j], trust) - top)), LEAST_WEIGHT)


@helper
def find_log(margin, trust):
    """log u of a margin."""
    bounded = min(np.float64(margin), MOST_MARGIN)
    return -math.log(1.0 + math.exp(trust * math.log((1.0 + bounded) / (1.0 - bounded))))


@helper
def end_cell(opens, start):
    """Where the cell that begins at `start` ends."""
    end = start + 1
    while end < opens.size and not opens[end]:
        end += 1
    return end


@helper
def find_factor(weights, start, end, scale, power):
    """(scale * d, how it grows: the derivative of its log by that of the scale) of a cell."""
    total = 0.0
    for j in range(start, end):
        total += weights[j]
    crowd = scale * total
    if crowd > 1.0:
        return scale * crowd ** (power - 1.0), power
    return scale, 1.0


@kernel
def expect(weights, opens, scale, power):
    """(the sum of pi, its derivative by the log of the scale). Reads the weights twice, cell by cell."""
    total, slope = 0.0, 0.0
    start = 0
    while start < opens.size:
        end = end_cell(opens, start)
        factor, growth = find_factor(weights, start, end, scale, power)
        for j in range(start, end):
            chance = factor * weights[j]
            if chance < 1.0:
                total += chance
                slope += growth * chance
            else:
                total += 1.0
        start = end
    return total, slope


@kernel
def discount(weights, opens, scale, power):
    """weights (m,) = scale * w * d, in place: pi, but for rounding and the limit of 1."""
    start = 0
    while start < opens.size:
        end = end_cell(opens, start)
        factor, _ = find_factor(weights, start, end, scale, power)
        for j in range(start, end):
            weights[j] *= factor
        start = end


@kernel
def fit(chances, k):
    """(scale, certain): min(1, scale * chances) sum to k, and so many of them are 1. 1 <= k <= m; chances > 0.

    Those that reach 1 stay there while the scale of the others rises, until no more do.
    """
    scale, certain = 0.0, -1
    while True:
        rest, count = 0.0, 0
        for j in range(chances.size):
            if scale * chances[j] >= CERTAIN:
                count += 1
            else:
                rest += chances[j]
        if count in (certain, k):
            return scale, count
        scale, certain = (k - count) / rest, count


@helper
def count_units(chance, scale, unit):
    """pi of a row in units; 0 marks a row that is certain."""
    share = scale * chance
    return np.int64(0) if share >= CERTAIN else np.int64(share * unit) + 1


@kernel
def sum_units(chances, scale, unit):
    """The sum of `count_units`, int64."""
    total = np.int64(0)
    for j in range(chances.size):
        total += count_units(chances[j], scale, unit)
    return total


@kernel
def draw_systematically(chances, scale, unit, step, missing, start, order, rows, weights):
    """Writes the picks, in frame order, to rows (k,) int64 and 1 / pi to weights (k,) float64.

    step: the units between two points; the first `missing` rows that are not certain get one more, so that all add up
    to a whole number of steps. start: the first point, in 0..step-1.
    """
    filled = 0
    point, passed = start, np.int64(0)
    for j in range(chances.size):
        units = count_units(chances[j], scale, unit)
        if units == 0:
            rows[filled] = order[j]
            weights[filled] = 1.0
            filled += 1
            continue
        if missing > 0:
            units += 1
            missing -= 1
        passed += units
        if passed > point:
            rows[filled] = order[j]
            weights[filled] = np.float64(step) / np.float64(units)
            point += step
            filled += 1


@kernel
def nest(first, places):
    """places (k,) int64: an order of 0..k-1 of which every beginning is spread evenly: every other, then the rest.

    The numbers by their reversed bits, moved around by `first`, in 0..k-1.
    """
    k = places.size
    bits = 0
    while (1 << bits) < k:
        bits += 1
    filled = 0
    for i in range(1 << bits):
        reverse = 0
        for bit in range(bits):
            reverse |= ((i >> bit) & 1) << (bits - 1 - bit)
        if reverse < k:
            places[filled] = (reverse + first) % k
            filled += 1
