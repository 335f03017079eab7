"""The slow and obvious versions that the fast ones are held against."""

import numpy as np


def average_linkage(points, metric, threshold=np.inf):
    """Algorithm 1 of the paper, literally: merge the closest two clusters while they are within the threshold.

    Returns the clusters (sets of rows) and the heights of the merges. O(n^3).
    """
    from scipy.spatial.distance import cdist

    distance = cdist(points, points, metric)
    clusters = [{row} for row in range(len(points))]
    heights = []
    while len(clusters) > 1:
        closest = min(
            (distance[np.ix_(sorted(a), sorted(b))].mean(), i, j)
            for i, a in enumerate(clusters)
            for j, b in enumerate(clusters)
            if i < j
        )
        if closest[0] > threshold:
            break
        heights.append(closest[0])
        clusters[closest[1]] |= clusters.pop(closest[2])
    return clusters, np.array(heights)
