"""The pick of Cluster-Margin: the paper's round-robin (Algorithm 2, lines 10 to 19) without the loop.

With clusters ascending by size s_c, pass r of the round-robin visits exactly the clusters with more than r members, a
suffix of the order, one draw each. So after k draws R passes are complete, R the largest number with
sum_c min(s_c, R) <= k, and the rest went to the first clusters with more than R members: cluster c gives
q_c = min(s_c, R) or one more. Its draws, without replacement, are a uniform q_c-subset in random order. Hence: count
the candidates of every cluster, fill the quotas, draw the subsets in one pass (Knuth's selection sampling), shuffle
each, and read them out pass by pass. O(n + clusters) time, no sort of the candidates.

Candidates are the unlabeled rows with a key below the threshold, and the first `ties` that equal it (see `lowest`).
"""

import numpy as np

from hedgerow.kernels.compiling import helper, kernel
from hedgerow.kernels.draws import draw, shuffle

DIGIT = 1 << 16  # sizes are sorted by 16 bits at a time: a second time only where a cluster is larger


@kernel
def count_candidates(keys, labeled, threshold, ties, clusters, sizes):
    """Adds the candidates of every cluster to sizes (m,) int32, zero before; clusters (n,) int32 in 0..m-1."""
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

    A shuffle, then a stable sort by each half of the size: O(m), whatever the sizes.
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
    """(R, the rest): complete passes over the clusters in `order`, and draws of the pass that is cut short.

    0 <= k <= sum of the sizes. The level rises from one size to the next: O(live clusters).
    """
    level = 0
    left = k
    for p in range(order.size):
        rise = sizes[order[p]] - level
        standing = order.size - p
        if rise * standing > left:
            return level + left // standing, left % standing
        level += rise
        left -= rise * standing
    return level, left


@kernel(allocates=True)
def lay_out(sizes, order, passes, rest, state):
    """Fills state (m, 3) int32 per cluster: candidates left, draws left, place of its next draw; returns places.

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
    """Writes a uniform subset of every cluster's candidates to its place in picks (k,) int32, in row order.

    A candidate is drawn with probability draws left / candidates left, of its cluster: none when no draw is left, all
    when as many are left as candidates. Consumes `state`.
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
    """Shuffles every cluster's draws and writes all to rows (k,) int64 pass by pass, smallest cluster first.

    Quotas ascend along the order but for the last pass, which is cut short: its clusters stand before larger ones. So
    a pass starts at the first position with a draw left and skips the clusters that have none.
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
