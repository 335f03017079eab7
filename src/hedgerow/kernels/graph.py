"""Average linkage on a sparse graph: the distance of two clusters is the mean over the edges between them.

Edge weights are integers (fixed point), so that sums do not depend on the order of addition and both clusters of a
pair hold exactly the same sum. A cluster's edges are a chain of segments of one flat array: merging links two chains,
refreshing compacts a chain. There are `n` clusters and `e` edge ends.
"""

import numpy as np

from hedgerow.kernels.compiling import kernel
from hedgerow.kernels.merging import closer, find


@kernel
def refresh(
    work, lo, hi, start, adjacent, total, count, length, following, last, parent, nearest, nearest_mean, seen, slot,
    clock,
):  # fmt: skip
    """Finds the nearest cluster of each of work[lo:hi] by the mean of its edges, and combines parallel edges.

    adjacent int32, total, count int64 (e,): an entry represents `count` edges of total weight `total`. seen, slot (n,),
    clock (1,): this thread's marks of clusters already seen, and the place of their entry. Cost: the chain's entries.
    """
    for w in range(lo, hi):
        c = work[w]
        clock[0] += 1
        into = c
        used = 0
        segment = c
        while segment != -1:
            first = start[segment]
            stop = first + length[segment]
            after = following[segment]
            for e in range(first, stop):
                r = find(parent, adjacent[e])
                if r == c:
                    continue
                if seen[r] == clock[0]:
                    total[slot[r]] += total[e]
                    count[slot[r]] += count[e]
                    continue
                while used == start[into + 1] - start[into]:
                    length[into] = used
                    into = following[into]
                    used = 0
                place = start[into] + used
                adjacent[place] = r
                total[place] = total[e]
                count[place] = count[e]
                seen[r] = clock[0]
                slot[r] = place
                used += 1
            segment = after
        length[into] = used
        following[into] = -1
        last[c] = into
        best = np.int32(-1)
        best_mean = np.inf
        segment = c
        while segment != -1:
            for e in range(start[segment], start[segment] + length[segment]):
                mean = total[e] / count[e]
                if best < 0 or closer(mean, c, adjacent[e], best_mean, best):
                    best = adjacent[e]
                    best_mean = mean
            segment = following[segment]
        nearest[c] = best
        nearest_mean[c] = best_mean


@kernel
def add_weighted(rows, weights, group, sums):
    """sums[g] += weight x row of the rows of group g. rows (n, d), sums (groups, d) float64."""
    for i in range(len(rows)):
        g = group[i]
        for t in range(rows.shape[1]):
            sums[g, t] += weights[i] * rows[i, t]
