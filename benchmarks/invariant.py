"""What an average-linkage cut must satisfy, checked exactly: no two clusters are closer than the cut.

Every distance between clusters is computed from the points in float64, without the code under test.
"""

import numpy as np

ROWS = 1 << 17  # points summed at a time
COLUMNS = 1 << 14  # clusters compared with the sample at a time
TOLERANCE = 2e-6  # float32 sums round a cosine distance by this much


def sum_clusters(points, labels, count):
    """Means (count, d) float64 of the unit vectors of each cluster."""
    means = np.zeros((count, points.shape[1]))
    for start in range(0, len(points), ROWS):
        rows = np.asarray(points[start : start + ROWS], np.float64)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        mine = labels[start : start + ROWS]
        order = np.argsort(mine, kind="stable")
        present, first = np.unique(mine[order], return_index=True)
        means[present] += np.add.reduceat(rows[order], first, axis=0)
    return means / np.bincount(labels, minlength=count)[:, None]


def find_nearest_gaps(means, sample):
    """The cosine linkage of each sampled cluster with its nearest other cluster."""
    nearest = np.full(len(sample), np.inf)
    for start in range(0, len(means), COLUMNS):
        gaps = 1 - means[sample] @ means[start : start + COLUMNS].T
        here = np.flatnonzero((sample >= start) & (sample < start + COLUMNS))
        gaps[here, sample[here] - start] = np.inf
        np.minimum(nearest, gaps.min(axis=1), out=nearest)
    return nearest


def check_cut(points, labels, threshold, sampled=3_000, seed=0):
    """How many of the sampled clusters have another one closer than the cut."""
    count = int(labels.max()) + 1
    sample = np.sort(np.random.default_rng(seed).choice(count, min(sampled, count), replace=False))
    nearest = find_nearest_gaps(sum_clusters(points, labels, count), sample)
    closer = int(np.count_nonzero(nearest < threshold - TOLERANCE))
    return {"sampled": len(sample), "violations": closer, "violations_share": closer / len(sample)}
