"""Average linkage of points on a line, without a distance matrix and without neighbor lists.

Clusters on a line are intervals, and for two of them that do not overlap the average of |x - y| over all pairs is the
difference of their means. So the nearest cluster is always one of the two beside it, and a merge moves it away from all
others (average linkage is reducible): any two clusters that are each other's nearest may be merged at once, in any
order. The walk below goes from a cluster towards its nearest until it meets such a pair.
"""

import numpy as np

from hedgerow.kernels.compiling import kernel


@kernel(allocates=True)
def cluster_line(points, threshold, labels):
    """Fills labels (n,) int32 with the clusters after every merge of height <= threshold, numbered from the left.

    points (n,) float64 in ascending order, n >= 1; height: the average distance |x - y|. O(n) time on random points,
    24 bytes per point.
    """
    n = points.size
    sums = points.copy()
    sizes = np.ones(n, np.int64)
    ends = np.arange(1, n + 1)  # ends[i]: one past the last point of the cluster that begins at point i
    starts = np.arange(n)  # starts[i]: the first point of the cluster that ends with point i
    here = 0
    while here < n:
        left = starts[here - 1] if here > 0 else -1
        right = ends[here]
        mean = sums[here] / sizes[here]
        before = mean - sums[left] / sizes[left] if left >= 0 else np.inf
        after = sums[right] / sizes[right] - mean if right < n else np.inf
        if min(before, after) > threshold:
            here = right
            continue
        if before <= after:
            beyond = starts[left - 1] if left > 0 else -1
            if beyond >= 0 and sums[left] / sizes[left] - sums[beyond] / sizes[beyond] < before:
                here = left
                continue
            first, second = left, here
        else:
            beyond = ends[right]
            if beyond < n and sums[beyond] / sizes[beyond] - sums[right] / sizes[right] < after:
                here = right
                continue
            first, second = here, right
        sums[first] += sums[second]
        sizes[first] += sizes[second]
        ends[first] = ends[second]
        starts[ends[second] - 1] = first
        here = starts[first - 1] if first > 0 else 0  # the walk may have come from there
    count = 0
    here = 0
    while here < n:
        for i in range(here, ends[here]):
            labels[i] = count
        count += 1
        here = ends[here]
    return count
