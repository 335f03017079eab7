"""The slow and obvious versions that the fast ones are held against."""

from collections import Counter
from itertools import pairwise, permutations, product

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


def margins(probabilities):
    """Largest minus second largest entry of every row, by sorting."""
    ordered = np.sort(probabilities, axis=1)
    return ordered[:, -1] - ordered[:, -2]


def softmax(logits):
    wide = np.asarray(logits, np.float64)
    powers = np.exp(wide - wide.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def candidates(margins, labeled, count):
    """The unlabeled rows with the `count` lowest margins; ties by lowest row."""
    rows = np.flatnonzero(~labeled)
    return rows[np.argsort(margins[rows], kind="stable")[:count]]


def round_robin(clusters, k, rng):
    """Algorithm 2 of the paper, lines 10 to 19, literally. `clusters`: lists of rows, sorted ascending by size."""
    remaining = [list(rows) for rows in clusters]
    picked, j = [], 0
    while len(picked) < k and any(remaining):
        picked.append(remaining[j].pop(rng.integers(len(remaining[j]))))
        if j < len(remaining) - 1:
            j += 1
            assert remaining[j], "a larger cluster is never saturated before a smaller one"
        elif any(remaining):
            j = min((len(rows), position) for position, rows in enumerate(remaining) if rows)[1]
    return picked


def visiting_order(visited, sizes):
    """The order in which a round-robin visits groups of these sizes ({group: size}), given the groups it did visit.

    The first pass shows it. Groups that it did not reach come last, ascending by size; which of several groups of equal
    size comes first is left to the draw.
    """
    order = list(dict.fromkeys(visited))
    order += sorted(sizes.keys() - set(order), key=lambda group: (sizes[group], group))
    assert all(sizes[a] <= sizes[b] for a, b in pairwise(order)), "smaller groups come first"
    return order


def gradients(probabilities, embeddings):
    """BADGE's gradient embeddings (n, C d), as they are defined."""
    residuals = probabilities.copy()
    residuals[np.arange(len(residuals)), residuals.argmax(axis=1)] -= 1
    return (residuals[:, :, None] * embeddings[:, None, :]).reshape(len(residuals), -1)


def plusplus_law(points, first, k, power=2):
    """{sequence of k centers: its probability} under k-means++ from `first`. O(n^k): for a handful of points."""
    distance = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
    law = {(first,): 1.0}
    for _ in range(k - 1):
        longer = {}
        for sequence, probability in law.items():
            weights = distance[:, sequence].min(axis=1) ** power
            for row in np.flatnonzero(weights):
                longer[(*sequence, int(row))] = probability * weights[row] / weights.sum()
        law = longer
    return law


def farthest_first(points, centers, k, first=None):
    """Greedy k-center: k times the point farthest from its nearest center, ties by lowest row."""
    nearest = np.full(len(points), np.inf)
    for center in centers:
        nearest = np.minimum(nearest, ((points - center) ** 2).sum(axis=1))
    chosen = []
    for _ in range(k):
        row = first if first is not None and not chosen else int(nearest.argmax())
        chosen.append(row)
        nearest = np.minimum(nearest, ((points - points[row]) ** 2).sum(axis=1))
    return chosen


def typiclust(points, groups, labeled, k, neighbors=20, least_size=5):
    """TypiClust's selection as in the authors' code: k times the most typical unlabeled row of the next group.

    Groups of up to `least_size` rows are visited when all others are exhausted, which the code leaves open.
    """
    left = {group: [row for row in np.flatnonzero(groups == group) if not labeled[row]] for group in set(groups)}
    sizes = {group: (groups == group).sum() for group in left}
    order = sorted(left, key=lambda group: (labeled[groups == group].sum(), -sizes[group], group))
    picked = []
    for wanted in (True, False):
        turn = [group for group in order if (sizes[group] > least_size) == wanted]
        while len(picked) < k and any(left[group] for group in turn):
            for group in turn:
                if left[group] and len(picked) < k:
                    row = most_typical(points, left[group], min(neighbors, len(left[group]) // 2))
                    left[group].remove(row)
                    picked.append(row)
    return picked


def most_typical(points, rows, neighbors):
    """The row with the smallest mean distance from its nearest neighbors among the others; ties by lowest row."""
    means = []
    for row in rows:
        distances = sorted(np.linalg.norm(points[row] - points[other]) for other in rows if other != row)
        means.append(np.mean(distances[: max(1, neighbors)]) if distances else 0.0)
    return rows[int(np.argmin(means))]


def most_covering(points, labeled, k, kernel, weights=None):
    """Greedy coverage: k times the unlabeled row that adds most to the sum of the largest kernels; ties by lowest row.

    kernel: of distances (n, n). Ends early if no row adds anything.
    """
    covers = kernel(np.linalg.norm(points[:, None] - points[None], axis=2)).astype(float)
    weights = np.ones(len(points)) if weights is None else weights
    covered = covers[labeled].max(axis=0, initial=0.0)
    closed, picked = labeled.copy(), []
    while len(picked) < k:
        gains = (weights * np.maximum(covers - covered, 0)).sum(axis=1)
        gains[closed] = 0
        row = int(gains.argmax())
        if gains[row] <= 0:
            break
        picked.append(row)
        closed[row] = True
        covered = np.maximum(covered, covers[row])
    return picked


def probcover(points, labeled, k, delta):
    """ProbCover's greedy picks; whenever all is covered, delta is halved until something is uncovered again."""
    labeled, picked = labeled.copy(), []
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    while len(picked) < k:
        more = most_covering(points, labeled, k - len(picked), lambda distances, delta=delta: distances < delta)
        picked += more
        labeled[more] = True
        while len(picked) < k and (distance[labeled] < delta).any(axis=0).all():
            delta /= 2
    return picked


def purest_radius(points, groups, purity):
    """The largest radius, among the distances of points, with which a share `purity` of all balls has one group."""
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    return max(
        radius
        for radius in np.unique(distance)
        if np.mean([len(set(groups[row < radius])) <= 1 for row in distance]) >= purity
    )


def graph_linkage(edges, n, threshold):
    """Average linkage on a graph {(a, b): weight}: merge the two clusters whose edges have the lowest mean.

    Returns the clusters (sets of nodes) and the heights of the merges.
    """
    clusters = [{node} for node in range(n)]
    heights = []
    while True:
        owner = {node: place for place, nodes in enumerate(clusters) for node in nodes}
        between = {}
        for (a, b), weight in edges.items():
            pair = tuple(sorted((owner[a], owner[b])))
            if pair[0] != pair[1]:
                between.setdefault(pair, []).append(weight)
        closest = min(((np.mean(weights), pair) for pair, weights in between.items()), default=(np.inf, None))
        if closest[1] is None or closest[0] > threshold:
            return clusters, heights
        heights.append(closest[0])
        clusters[closest[1][0]] |= clusters.pop(closest[1][1])


def successive_law(weights, k):
    """{sequence of k rows: its probability} when rows are drawn one after the other in proportion to their weights."""
    law = {(): 1.0}
    for _ in range(k):
        law = {
            (*sequence, row): probability * weights[row] / (weights.sum() - weights[list(sequence)].sum())
            for sequence, probability in law.items()
            for row in range(len(weights))
            if row not in sequence
        }
    return law


def average_precision(labels, scores):
    """The sum over the distinct scores, from the highest down, of the recall gained times the precision reached."""
    total, before = 0.0, 0
    for score in sorted(set(scores.tolist()), reverse=True):
        reached = labels[scores >= score]
        total += (reached.sum() - before) / labels.sum() * reached.mean()
        before = reached.sum()
    return total


def row_margins(rows, labeled, chances, n, how="lowest"):
    """A row's margin from chances (m,), those of its pairs: lowest or mean abs(2 p - 1) of the unlabeled ones, or top-1
    minus top-2 of all of them. 1 for a row without such pairs.
    """
    found = np.ones(n, np.float32)
    for row in range(n):
        own = [pair for pair in np.flatnonzero(rows == row) if how == "top2" or not labeled[pair]]
        values = sorted(chances[own], reverse=True)
        each = [abs(2 * value - 1) for value in values]
        if len(values) > 1 and how == "top2":
            found[row] = values[0] - values[1]
        elif own:
            found[row] = min(each) if how == "lowest" else sum(map(float, each)) / len(each)
    return found


def pass_over(walk, rows, classes, k, per_row, class_quota):
    """The first k of a walk over pairs, without those whose row or class is full by then."""
    picked = []
    for pair in walk:
        of_row = sum(rows[other] == rows[pair] for other in picked)
        of_class = sum(classes[other] == classes[pair] for other in picked)
        if len(picked) < k and of_row < (per_row or np.inf) and of_class < (class_quota or np.inf):
            picked.append(pair)
    return picked


def uniform_law(rows, k):
    """{sequence of k rows: its probability} when all sequences of distinct rows are equally likely."""
    sequences = list(permutations(rows, k))
    return dict.fromkeys(sequences, 1 / len(sequences))


def walk_law(pairs, rows, classes, k, per_row, class_quota):
    """{sequence of k pairs: its probability} of a walk over the pairs in random order that passes over full ones."""
    law = Counter()
    orders = list(permutations(pairs))
    for order in orders:
        law[tuple(pass_over(order, rows, classes, k, per_row, class_quota))] += 1 / len(orders)
    return dict(law)


def lowest_pairs(picked, rows, labeled, margins, k):
    """The unlabeled pair with the lowest margin of each picked row, in their order, ties by lowest pair.

    With fewer than k rows: pass after pass over the rows, the lowest pair that is left of each, lowest margin first.
    """
    left = {row: sorted((margins[p], p) for p in np.flatnonzero(~labeled) if rows[p] == row) for row in picked}
    taken = []
    while len(taken) < k:
        heads = [left[row].pop(0) for row in picked if left[row]]
        taken += [int(pair) for _, pair in (heads if len(picked) >= k else sorted(heads))]
    return taken[:k]


def pair_gradients(probabilities, embeddings, rows):
    """BADGE's gradients of pairs (m, 2 d): those of a model with the two classes no and yes."""
    return gradients(np.stack([1 - probabilities, probabilities], axis=1), embeddings[rows])


def judge(counts, law):
    """The p-value of the chi-square test, cells of fewer than five expected draws as one (Cochran's rule)."""
    from scipy.stats import chi2

    trials = sum(counts.values())
    if counts.keys() - law.keys():
        return 0.0
    cells = [(counts.get(key, 0), trials * p) for key, p in law.items()]
    rare = [cell for cell in cells if cell[1] < 5]
    cells = [cell for cell in cells if cell[1] >= 5] + ([tuple(np.sum(rare, axis=0))] if rare else [])
    return chi2.sf(sum((seen - expected) ** 2 / expected for seen, expected in cells), len(cells) - 1)


def version_space_of_thresholds(picked, true, grid):
    """The thresholds of a grid that label the points as the true one does: 1 at and beyond the threshold."""
    return [v for v in grid if all((point >= v) == (point >= true) for point in picked)]


def rectangle_diameters(points):
    """(largest, nested): the largest difference of any two rectangles [0, v] that hold the same points, by trying all.

    A side ends at a point's coordinate, with the point or just before it, at 0 or at 1. nested: of two rectangles where
    one contains the other.
    """
    sides = [[(0.0, True), (1.0, True), *((c, held) for c in axis for held in (True, False))] for axis in points.T]
    alike = {}  # rectangles by the points that they hold
    for rectangle in product(*sides):
        alike.setdefault(hold_points(points, rectangle), []).append([c for c, _ in rectangle])
    largest = nested = 0.0
    for some in map(np.array, alike.values()):
        for v in some:
            differences = v.prod() + some.prod(axis=1) - 2 * np.minimum(v, some).prod(axis=1)
            largest = max(largest, differences.max())
            nested = max(nested, differences[(v <= some).all(axis=1)].max())
    return largest, nested


def hold_points(points, rectangle):
    """The rows of the points in a rectangle, given as (end, whether the end belongs to it) per axis."""
    return frozenset(
        row
        for row, point in enumerate(points)
        if all(x < c or (held and x == c) for x, (c, held) in zip(point, rectangle, strict=True))
    )


def hedge_chances(margins, cells, k, trust, power, cluster_power):
    """The inclusion probabilities of Hedge as they are defined, in float64, by bisection.

    cells: a number for each row; k < number of rows.
    """
    margins = np.minimum(np.asarray(margins, np.float64), 1 - 2.0**-24)
    odds = ((1 + margins) / (1 - margins)) ** trust
    weights = np.maximum(((1 + odds.min()) / (1 + odds)) ** power, 1e-30)
    sums = np.array([weights[cells == cell].sum() for cell in cells])

    def chances(scale):
        crowd = np.maximum(scale * sums, 1)
        return np.minimum(1, scale * weights * crowd ** (cluster_power - 1))

    low, high = -100.0, 600.0  # of the log of the scale
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if chances(np.exp(middle)).sum() < k else (low, middle)
    return chances(np.exp(high))


def systematic(chances, start):
    """Positions where the running sum of chances passes start, start + 1, ..., by looking at each point."""
    ends = np.cumsum(chances)
    return [int(np.searchsorted(ends, start + point, side="right")) for point in range(round(ends[-1]))]
