"""Average linkage by reciprocal merges: the loops of one round.

A cluster is represented by its mean (d,), half of its mean squared norm, and its size. For clusters A and B

    gap(A, B) = half_A + half_B - <mean_A, mean_B>                                            (closed form)

is half of the average squared Euclidean distance between their members, and for unit vectors the average cosine
distance; so average linkage needs neither a distance matrix nor edge weights. Neighbor lists only determine which
pairs are compared. A cluster's list is a chain of segments of one flat array: merging links two chains, refreshing
compacts a chain.

There are `n` clusters and `e` list entries. All kernels work on a range of clusters and write only to those.
"""

import numpy as np

from hedgerow.kernels.compiling import helper, kernel

# Sums may be reassociated (SIMD), but infinities and NaN keep their meaning: lists start at infinity.
SUMS = {"reassoc", "contract", "nsz", "arcp"}


@helper(fastmath=SUMS)
def dot(rows, i, j):
    """<rows[i], rows[j]>; the same bits for (i, j) and (j, i)."""
    total = rows.dtype.type(0)
    for t in range(rows.shape[1]):
        total += rows[i, t] * rows[j, t]
    return total


@helper
def find(parent, x):
    """The cluster that now contains x. Threads may compress the same path concurrently: all write ancestors of x.

    Nothing is written if nothing changes, because writing invalidates the caches of other cores.
    """
    above = parent[x]
    while above != x:
        top = parent[above]
        if top == above:
            return above
        parent[x] = top
        x = top
        above = parent[x]
    return x


@helper
def is_listed(ids, last, row, other, gap):
    """Whether `other`, at distance `gap`, is in the list of `row`, whose last entry has the gap last[row]."""
    if gap != last[row]:
        return gap < last[row]  # a search offers a pair to both sides, so whatever is nearer than the last is listed
    found = False
    for j in range(ids.shape[1]):
        found = found or ids[row, j] == other
    return found


@kernel
def mark_reverse(ids, gaps, last, reach, lo, hi, reverse):
    """reverse[i, j] = whether to add i to the list of its j-th neighbor: not listed there, but within its reach."""
    for i in range(lo, hi):
        for j in range(ids.shape[1]):
            other = ids[i, j]
            reverse[i, j] = other >= 0 and gaps[i, j] <= reach[other] and not is_listed(ids, last, other, i, gaps[i, j])


@kernel
def count_entries(ids, reverse, lo, hi, length):
    """length[i] = the length of each list in lo..hi: its own entries and the reverse ones."""
    for i in range(lo, hi):
        length[i] = 0
        for j in range(ids.shape[1]):
            length[i] += ids[i, j] >= 0
    for i in range(len(ids)):
        for j in range(ids.shape[1]):
            if reverse[i, j] and lo <= ids[i, j] < hi:
                length[ids[i, j]] += 1


@kernel
def write_entries(ids, gaps, reverse, start, lo, hi, length, adjacent, width):
    """Writes the lists of lo..hi from start[i] on: the entries found, then the reverse ones in ascending order.

    length (n,) is counted again.
    """
    for i in range(lo, hi):
        length[i] = 0
        for j in range(ids.shape[1]):
            if ids[i, j] >= 0:
                adjacent[start[i] + length[i]] = ids[i, j]
                width[start[i] + length[i]] = gaps[i, j]
                length[i] += 1
    for i in range(len(ids)):
        for j in range(ids.shape[1]):
            other = ids[i, j]
            if reverse[i, j] and lo <= other < hi:
                adjacent[start[other] + length[other]] = i
                width[start[other] + length[other]] = gaps[i, j]
                length[other] += 1


@helper
def closer(gap, c, r, best_gap, best):
    """The total order of candidate pairs of c: by gap, then by the pair (lower, higher) of cluster numbers."""
    if gap != best_gap:
        return gap < best_gap
    low, high = (c, r) if c < r else (r, c)
    best_low, best_high = (c, best) if c < best else (best, c)
    return low < best_low if low != best_low else high < best_high


@kernel
def refresh(
    work, lo, hi, sweep, start, adjacent, width, length, following, last, parent, means, half, changed, refreshed,
    nearest, nearest_gap, seen, clock,
):  # fmt: skip
    """Finds the nearest cluster of each of work[lo:hi] in its list, mapped to current clusters and compacted.

    A gap is recomputed only if one of the clusters changed since: changed[r] and refreshed[c] are sweep numbers.
    seen (n,), clock (1,): this thread's marks of clusters already seen, to drop duplicates from a list.
    Cost: one dot product of length d per stale entry.
    """
    zero = width.dtype.type(0)
    for w in range(lo, hi):
        c = work[w]
        clock[0] += 1
        now = clock[0]
        since = refreshed[c]
        stale = changed[c] >= since
        best = np.int32(-1)
        best_gap = width.dtype.type(np.inf)
        into = c
        used = 0
        room = start[c + 1] - start[c]
        segment = c
        while segment != -1:
            first = start[segment]
            count = length[segment]
            after = following[segment]
            for e in range(first, first + count):
                r = find(parent, adjacent[e])
                if r == c or seen[r] == now:
                    continue
                seen[r] = now
                gap = width[e]
                if stale or changed[r] >= since:
                    gap = half[c] + half[r] - dot(means, c, r)
                    gap = zero if zero > gap else gap
                while used == room:
                    length[into] = used
                    into = following[into]
                    used = 0
                    room = start[into + 1] - start[into]
                adjacent[start[into] + used] = r
                width[start[into] + used] = gap
                used += 1
                if best < 0 or closer(gap, c, r, best_gap, best):
                    best = r
                    best_gap = gap
            segment = after
        length[into] = used
        following[into] = -1
        last[c] = into
        refreshed[c] = sweep
        nearest[c] = best
        nearest_gap[c] = best_gap


@helper
def limit(radius, threshold, slack, tolerance):
    """The largest gap at which a cluster of this radius may merge: certified, and within the threshold."""
    reach = slack * radius + tolerance
    return reach if reach < threshold else threshold


@kernel
def match(work, lo, hi, sweep, nearest, nearest_gap, refreshed, radius, threshold, slack, tolerance, left, right, gaps):
    """Finds pairs of mutual nearest neighbors within the limits of both; each pair once, lower cluster left.

    Writes them to left, right and gaps from position lo on. Returns how many.
    """
    found = 0
    for w in range(lo, hi):
        c = work[w]
        b = nearest[c]
        if b < 0 or nearest[b] != c:
            continue
        if b < c and refreshed[b] == sweep:  # b is in `work` too and reports the pair
            continue
        gap = nearest_gap[b] if nearest_gap[b] > nearest_gap[c] else nearest_gap[c]
        smaller = radius[b] if radius[b] < radius[c] else radius[c]
        if gap <= limit(smaller, threshold, slack, tolerance):
            left[lo + found] = c if c < b else b
            right[lo + found] = b if c < b else c
            gaps[lo + found] = gap
            found += 1
    return found


@kernel
def merge(left, right, lo, hi, sweep, parent, means, half, size, radius, following, last, changed):
    """Merges right[i] into left[i]: means, halves and radii are averages weighted by size, in float64."""
    for i in range(lo, hi):
        a = left[i]
        b = right[i]
        total = size[a] + size[b]
        share = size[a] / total
        rest = size[b] / total
        for t in range(means.shape[1]):
            means[a, t] = share * means[a, t] + rest * means[b, t]
        half[a] = share * half[a] + rest * half[b]
        radius[a] = share * radius[a] + rest * radius[b]
        size[a] = total
        parent[b] = a
        following[last[a]] = b
        last[a] = last[b]
        changed[a] = sweep


@kernel
def touch(living, lo, hi, sweep, parent, changed, nearest, nearest_gap, radius, threshold, slack, tolerance, work):
    """Finds which of living[lo:hi] need a refresh: clusters that merged, and those whose nearest cluster merged.

    Average linkage is reducible: a merge of two clusters never brings them closer to a third. So a cluster whose
    nearest is beyond its limit cannot merge any more in this round and is removed from `living`. Compacts living in
    place from lo on, and writes the clusters to refresh to work from lo on. Returns both counts.
    """
    kept = 0
    touched = 0
    for i in range(lo, hi):
        c = living[i]
        if parent[c] != c:
            continue
        fresh = changed[c] == sweep
        if not fresh and (nearest[c] < 0 or nearest_gap[c] > limit(radius[c], threshold, slack, tolerance)):
            continue
        living[lo + kept] = c
        kept += 1
        if fresh or parent[nearest[c]] != nearest[c] or changed[nearest[c]] == sweep:
            work[lo + touched] = c
            touched += 1
    return kept, touched
