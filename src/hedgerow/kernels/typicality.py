"""The most typical rows of a group, one after the other, from neighbor lists."""

import numpy as np

from hedgerow.kernels.compiling import kernel


@kernel
def take_typical(ids, distances, neighbors, taken, out):
    """out (v,) = v rows of a group of m, each with the smallest mean distance from its nearest rows that are left.

    ids (m, l) int32, -1 for none, and distances (m, l) float64: lists, nearest first, with l >= neighbors + v - 1
    entries or all others. The mean is over `neighbors` of them, or half of the rows that are left if these are fewer.
    A row whose list is too short comes last; ties by lowest row. taken (m,) bool: scratch, all False. Cost: v m
    neighbors.
    """
    m = len(ids)
    for t in range(len(out)):
        wanted = max(1, min(neighbors, (m - t) // 2))
        best, least = -1, np.inf
        for i in range(m):
            if taken[i]:
                continue
            total, found = 0.0, 0
            for j in range(ids.shape[1]):
                if ids[i, j] < 0 or found == wanted:
                    break
                if not taken[ids[i, j]]:
                    total += distances[i, j]
                    found += 1
            mean = total / wanted if found == wanted else np.inf
            if best < 0 or mean < least:
                best, least = i, mean
        taken[best] = True
        out[t] = best
