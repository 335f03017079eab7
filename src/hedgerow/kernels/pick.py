"""The selection of Cluster-Margin: the paper's round-robin (Algorithm 2, lines 10 to 19) without the loop.

With clusters ascending by size s_c, pass r of the round-robin makes one draw from each cluster with more than r
members, which are a suffix of the order. So after k draws R passes are complete, where R is the largest number with
sum_c min(s_c, R) <= k, and the remaining draws were made from the first clusters with more than R members: cluster c
has q_c = min(s_c, R) draws, or one more. Draws without replacement are a uniform q_c-subset in random order. So it is
enough to count the candidates of every cluster, compute the quotas, draw the subsets in one pass (Knuth's selection
sampling), shuffle each, and interleave them pass by pass. O(n + clusters) time, without sorting the candidates.

Candidates are the unlabeled rows with a key below the threshold, and the first `ties` that equal it (see `lowest`).
"""

import numpy as np

from hedgerow.kernels.compiling import helper, kernel
from hedgerow.kernels.draws import draw, shuffle

DIGIT = 1 << 16  # sizes are sorted by 16 bits at a time; a second pass is needed only for larger clusters


@kernel
def count_candidates(keys, labeled, threshold, ties, clusters, sizes):
    """Counts the candidates of every cluster in sizes (m,) int32, zero at first; clusters (n,) int32 in 0..m-1."""
    masked = labeled.size > 0
    for i in range(keys.size):
        if keys[i] > threshold or (masked and labeled[i]):
            continue
        if keys[i] == threshold:
            if ties == 0:
                continue
            ties -= 1
        sizes[clusters[i]] += 1


@kernel(allocates=True)
def order_clusters(sizes, key):
    """The clusters that have candidates, ascending by size, equal sizes in random order: int32 (live,).

    Shuffles, then sorts stably by each half of the size. O(m) for any sizes.
    """
    live = 0
    largest = 0
    for c in range(sizes.size):
        live += sizes[c] > 0
        largest = max(largest, sizes[c])
    order = np.empty(live, np.int32)
    filled = 0
    for c in range(sizes.size):
        if sizes[c] > 0:
            order[filled] = c
            filled += 1
    shuffle(order, key, 0)
    order = sort_by_digit(order, sizes, 0, min(largest, DIGIT - 1))
    return sort_by_digit(order, sizes, 16, largest >> 16) if largest >= DIGIT else order


@helper(allocates=True)
def sort_by_digit(order, sizes, shift, most):
    """`order` stably sorted by 16 bits of the sizes, from bit `shift` up; `most` is the largest such digit."""
    place = np.zeros(most + 2, np.int64)
    for c in order:
        place[((sizes[c] >> shift) & (DIGIT - 1)) + 1] += 1
    for digit in range(most + 1):
        place[digit + 1] += place[digit]
    ordered = np.empty_like(order)
    for c in order:
        digit = (sizes[c] >> shift) & (DIGIT - 1)
        ordered[place[digit]] = c
        place[digit] += 1
    return ordered


@kernel
def fill_quotas(sizes, order, k):
    """(R, rest): complete passes over the clusters in `order`, and draws of the last, incomplete pass.

    0 <= k <= sum of the sizes. R is raised from one cluster size to the next: O(live clusters).
    """
    level = 0
    left = k
    for p in range(order.size):
        rise = sizes[order[p]] - level
        remaining = order.size - p
        if rise * remaining > left:
            return level + left // remaining, left % remaining
        level += rise
        left -= rise * remaining
    return level, left


@kernel(allocates=True)
def lay_out(sizes, order, passes, rest, state):
    """Fills state (m, 3) int32 per cluster: candidates left, draws left, position of its next draw; returns places.

    places (live + 1,) int64: the draws of the cluster at position p are picks[places[p] : places[p + 1]].
    """
    places = np.empty(order.size + 1, np.int64)
    places[0] = 0
    for p in range(order.size):
        c = order[p]
        quota = min(sizes[c], passes)
        if sizes[c] > passes and rest > 0:
            quota += 1
            rest -= 1
        state[c, 0] = sizes[c]
        state[c, 1] = quota
        state[c, 2] = places[p]
        places[p + 1] = places[p] + quota
    return places


@kernel
def draw_subsets(keys, labeled, threshold, ties, clusters, state, key, picks):
    """Writes a uniform subset of every cluster's candidates to its part of picks (k,) int32, in row order.

    A candidate is drawn with probability (draws left) / (candidates left) of its cluster. Modifies `state`.
    """
    masked = labeled.size > 0
    for i in range(keys.size):
        if keys[i] > threshold or (masked and labeled[i]):
            continue
        if keys[i] == threshold:
            if ties == 0:
                continue
            ties -= 1
        c = clusters[i]
        left, wanted = state[c, 0], state[c, 1]
        state[c, 0] = left - 1
        if draw(key, i) * left < wanted:
            picks[state[c, 2]] = i
            state[c, 1] = wanted - 1
            state[c, 2] += 1


@kernel
def read_out(picks, places, key, rows):
    """Shuffles every cluster's draws and writes them to rows (k,) int64 pass by pass, smallest cluster first.

    Quotas ascend along the order, except that the last, incomplete pass gives some clusters one more than larger ones
    after them. So a pass starts at the first position with a draw left and skips clusters without one.
    """
    live = places.size - 1
    for p in range(live):
        shuffle(picks[places[p] : places[p + 1]], key, places[p])
    filled = 0
    start = 0
    turn = 0
    while filled < picks.size:
        while places[start] + turn >= places[start + 1]:
            start += 1
        for p in range(start, live):
            if places[p] + turn < places[p + 1]:
                rows[filled] = picks[places[p] + turn]
                filled += 1
        turn += 1
