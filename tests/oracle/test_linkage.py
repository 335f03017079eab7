"""Average linkage against scipy on thousands of points, and against the paper's Algorithm 1 on a few."""

from itertools import combinations

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster
from scipy.cluster.hierarchy import linkage as scipy_linkage
from scipy.spatial.distance import cdist

import hedgerow as hr
import reference
from hedgerow.clustering import hac

N = 6000


def clustered(rng, n):
    centers = rng.normal(size=(n // 20, 24))
    return centers[rng.integers(0, len(centers), n)] + 0.4 * rng.normal(size=(n, 24))


def isotropic(rng, n):
    return rng.normal(size=(n, 24))


def duplicated(rng, n):
    points = rng.normal(size=(n, 16))
    copies = rng.permutation(n)[: int(0.4 * n)]
    points[copies] = points[rng.integers(0, n, len(copies))]
    return points


def collinear(rng, n):
    return rng.random((n, 1)) * rng.normal(size=(1, 8)) + 3


def chained(rng, n):
    """Gaps that grow from left to right: one pair of reciprocal neighbors at a time."""
    return np.cumsum(1.0001 ** np.arange(n))[:, None] * np.ones((1, 2))


def same_partition(a, b):
    pairs = np.unique(np.column_stack([a, b]), axis=0)
    return len(pairs) == len(np.unique(a)) == len(np.unique(b))


def clear_cuts(heights, shares):
    """Thresholds in the middle of a gap that rounding cannot close."""
    for share in shares:
        i = int(share * (len(heights) - 1))
        while i < len(heights) - 1 and heights[i + 1] - heights[i] < 1e-9 * heights[-1]:
            i += 1
        yield (heights[i] + heights[min(i + 1, len(heights) - 1)]) / 2


KINDS = [
    (make, metric) for make in (clustered, isotropic, duplicated, collinear) for metric in ("cosine", "sqeuclidean")
]


@pytest.mark.parametrize(("make", "metric"), [*KINDS, (chained, "sqeuclidean")])
def test_equals_scipy(make, metric):
    points = make(np.random.default_rng(7), N)
    expected = scipy_linkage(points, "average", metric=metric)
    tree = hr.linkage(points, metric=metric)
    assert len(tree.heights) == N - 1
    assert np.abs(tree.heights - expected[:, 2]).max() <= 2e-6 * expected[-1, 2]
    for threshold in clear_cuts(expected[:, 2], [0.05, 0.3, 0.5, 0.7, 0.9, 0.97, 0.999]):
        assert same_partition(fcluster(expected, threshold, "distance"), tree.cut(threshold=threshold))


def test_euclidean_is_scipys():
    points = clustered(np.random.default_rng(3), 500)
    expected = scipy_linkage(points, "average", metric="euclidean")
    np.testing.assert_allclose(hr.linkage(points, metric="euclidean").to_scipy(), expected)


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean", "euclidean"])
@pytest.mark.parametrize("seed", range(12))
def test_equals_algorithm_1(metric, seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(int(rng.integers(2, 30)), 3))
    _, heights = reference.average_linkage(points, metric)
    tree = hr.linkage(points, metric=metric, neighbors=int(rng.integers(1, 6)))
    np.testing.assert_allclose(tree.heights, heights, atol=1e-9)
    threshold = float(np.quantile(heights, 0.6)) * 1.0000001
    clusters, _ = reference.average_linkage(points, metric, threshold)
    expected = np.empty(len(points), int)
    for number, rows in enumerate(clusters):
        expected[sorted(rows)] = number
    for grown in (tree, hr.linkage(points, metric=metric, threshold=threshold)):
        assert same_partition(grown.cut(threshold=threshold), expected)


def test_a_tree_grown_to_a_threshold_is_the_lower_part_of_the_whole():
    points = clustered(np.random.default_rng(5), 3000)
    whole = hr.linkage(points)
    threshold = float(whole.heights[2000])
    part = hr.linkage(points, threshold=threshold)
    np.testing.assert_allclose(part.heights, whole.heights[: len(part.heights)], atol=1e-12)
    assert whole.heights[len(part.heights)] > threshold - 1e-12
    assert same_partition(part.cut(threshold=threshold * 0.9), whole.cut(threshold=threshold * 0.9))


def at_random(rng):
    return rng.normal(size=(int(rng.integers(2, 7)), 3))


def on_a_lattice(rng):
    """Many equal distances, and equal points."""
    return rng.integers(1, 4, (int(rng.integers(2, 8)), int(rng.integers(2, 4)))).astype(float)


@pytest.mark.parametrize("method", ["exact", "certified"])
@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean", "euclidean"])
@pytest.mark.parametrize("make", [at_random, on_a_lattice])
def test_clusters_at_exactly_the_threshold_merge(make, metric, method):
    """Every height of Algorithm 1 as the threshold: clusters at that distance merge, and none that are farther."""
    for seed in range(60):
        points = make(np.random.default_rng(seed)).astype(np.float32).astype(np.float64)
        distance = cdist(points, points, metric)
        for threshold in np.unique(reference.average_linkage(points, metric)[1]):
            made = hr.cluster(points, metric=metric, method=method, threshold=float(threshold))
            groups = [np.flatnonzero(made.labels == label) for label in range(made.n_clusters)]
            between = [distance[np.ix_(a, b)].mean() for a, b in combinations(groups, 2)]
            assert not between or min(between) > threshold
            assert made.tree.heights.max(initial=0) <= threshold
            if make is at_random:  # without ties the cut is unique
                clusters, _ = reference.average_linkage(points, metric, threshold)
                assert {frozenset(group.tolist()) for group in groups} == {frozenset(rows) for rows in clusters}


@pytest.mark.parametrize("method", ["exact", "certified"])
@pytest.mark.parametrize("spread", [1e-3, 1e-5, 0.0])
def test_near_copies_at_exactly_the_threshold_merge(spread, method):
    """Their cosine distance is a difference of numbers near 1, whose rounding errors do not shrink with it."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        points = rng.uniform(1, 2, (5, 1)) * (np.array([[1.0, 2.0, 3.0]]) + spread * rng.normal(size=(5, 3)))
        distance = cdist(points, points, "cosine")[np.triu_indices(5, 1)]
        made = hr.cluster(points, metric="cosine", method=method, threshold=max(0.0, float(distance.min())))
        assert made.n_clusters == (4 if spread else 1)


@pytest.mark.parametrize("method", ["exact", "certified"])
@pytest.mark.parametrize("extent", [1e2, 1e3, 1e4])
def test_clusters_at_exactly_a_threshold_that_is_small_beside_the_pool_merge(extent, method):
    """A squared distance is a difference of numbers as large as the pool, whose errors do not shrink with it."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        first, step = rng.normal(size=(2, 8, 24))
        first *= extent / np.linalg.norm(first, axis=1, keepdims=True)
        points = np.concatenate([first, first + step / np.linalg.norm(step, axis=1, keepdims=True)])
        apart = ((points[:8] - points[8:]) ** 2).sum(axis=1).max()
        for threshold, count in ((apart, 8), (apart * (1 - 1e-5), 16)):
            assert hr.cluster(points, threshold=threshold, metric="sqeuclidean", method=method).n_clusters == count


@pytest.mark.parametrize("method", ["exact", "certified"])
def test_a_far_point_does_not_keep_apart_what_is_at_the_threshold(method):
    points = [[1000.6, 1000.5], [0.6, 0.5], [0.6, 0.6], [0.6, 0.6]]
    made = hr.cluster(points, threshold=0.01, metric="sqeuclidean", method=method)
    assert made.labels.tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("seed", range(3))
def test_thousands_of_clusters_at_exactly_the_threshold_merge(seed):
    """Each point of one half has its partner at distance 1, some of them rounded up, and everything else is farther."""
    rng = np.random.default_rng(seed)
    first = 100 * rng.normal(size=(3000, 5))
    step = rng.normal(size=first.shape)
    points = np.concatenate([first, first + step / np.linalg.norm(step, axis=1, keepdims=True)])
    apart = ((points[:3000] - points[3000:]) ** 2).sum(axis=1)
    made = hr.cluster(points, metric="sqeuclidean", method="certified", threshold=apart.max())
    expected = hr.cluster(points, metric="sqeuclidean", method="exact", threshold=apart.max())
    assert expected.n_clusters <= 3000
    assert same_partition(made.labels, expected.labels)
    fewer = hr.cluster(points, metric="sqeuclidean", method="certified", threshold=apart.min() * (1 - 1e-7))
    assert fewer.n_clusters == 6000


def cut_and_repeat(points, size, **options):
    """Clusters of an average size, and whether they are those at the threshold that was reported."""
    made = hr.cluster(points, average_size=size, **options)
    assert len(points) / made.n_clusters >= size * (1 - 1e-12)
    assert made.threshold == made.tree.heights[: len(points) - made.n_clusters].max(initial=0)
    assert same_partition(made.tree.cut(threshold=made.threshold), made.labels)
    return made, same_partition(made.labels, hr.cluster(points, threshold=made.threshold, **options).labels)


@pytest.mark.parametrize("method", ["exact", "certified"])
@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean", "euclidean"])
@pytest.mark.parametrize("spread", [1.0, 1e-4])
def test_an_average_size_gives_the_clusters_at_the_threshold_that_it_reports(metric, spread, method):
    """A spread of 1e-4 makes cuts that float32 cannot find, and copies that it cannot tell apart."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(20, 200))
        points = rng.normal(size=(n, 6))
        points = np.concatenate([points, points + spread * rng.normal(size=points.shape)])
        assert cut_and_repeat(points, float(rng.uniform(1.2, 6)), metric=metric, method=method)[1]


def paired(rng, metric, count=60):
    """Pairs at one distance but for rounding, far from each other; and that distance."""
    points = np.zeros((2 * count, 2 * count))
    if metric == "cosine":
        points[::2, ::2] = points[1::2, ::2] = 3 * np.eye(count)
        points[1::2, 1::2] = 4 * np.eye(count)
        return points * rng.uniform(0.1, 1e4, (2 * count, 1)), 0.4
    points[:, 0] = np.arange(2 * count) // 2 + rng.uniform(0, 0.1, count).repeat(2)
    points[1::2, 0] += 0.3
    return points, 0.3 if metric == "euclidean" else 0.09


@pytest.mark.parametrize("method", ["exact", "certified"])
@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean", "euclidean"])
def test_if_an_average_size_needs_one_of_the_clusters_at_a_distance_all_merge(metric, method):
    points, distance = paired(np.random.default_rng(0), metric)
    made, is_same = cut_and_repeat(points, 120 / 119, metric=metric, method=method)
    assert is_same
    assert made.n_clusters == 60
    assert made.threshold == pytest.approx(distance, rel=1e-9)


@pytest.mark.parametrize("method", ["exact", "certified"])
@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean", "euclidean"])
def test_no_two_clusters_of_an_average_size_are_within_its_threshold(metric, method):
    for seed in range(60):
        points = on_a_lattice(np.random.default_rng(seed))
        distance = cdist(points, points, metric)
        for size in (1.0, 1.2, 1.5, 2.0, 3.0):
            made = hr.cluster(points, metric=metric, method=method, average_size=min(size, len(points)))
            groups = [np.flatnonzero(made.labels == label) for label in range(made.n_clusters)]
            between = [distance[np.ix_(a, b)].mean() for a, b in combinations(groups, 2)]
            assert not between or min(between) > made.threshold


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
@pytest.mark.parametrize("size", [1.0, 1.3, 1.5])
def test_an_average_size_that_copies_alone_reach(metric, size):
    """A third of the rows are copies; what float32 takes for copies, or for points without distance, are others."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(20, 3))
    points = np.concatenate([points, points, points + 1e-3 * rng.normal(size=points.shape)])
    for close in (1e-7, 1e-9, 0):
        some = np.concatenate([points, points[:5] * (1 + close * rng.normal(size=(5, 3)))]) if close else points
        made, is_same = cut_and_repeat(some, size, metric=metric, method="certified")
        assert is_same
        assert made.threshold <= 1e-12
        assert made.n_clusters >= 40


def test_an_average_size_holds_where_float64_takes_nearly_equal_distances_in_another_order(monkeypatch):
    """Then it may make fewer merges up to the same height than float32 did, and those of float32 stay."""
    made = []

    def settle(vectors, state, run):
        made.append((state, settle_count(vectors, state, run)))
        return made[-1][1]

    settle_count = hac.settle_count
    monkeypatch.setattr(hac, "settle_count", settle)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        points = rng.integers(1, 6, (150, 3)) * (1 + 1e-7 * rng.normal(size=(150, 3)))
        cut_and_repeat(points, float(rng.uniform(1.5, 4)), metric="sqeuclidean", method="certified")
    assert any(log is state.log for state, log in made)


def test_lattices_merge_like_scipy_with_its_rows_in_another_order():
    """Where all heights tie, the order of ties makes the tree: scipy's own work moves by a tenth with the row order."""
    points = np.stack(np.meshgrid(*[np.arange(8.0)] * 3), -1).reshape(-1, 3)
    tree = hr.linkage(points, metric="sqeuclidean", neighbors=3)
    assert len(tree.heights) == len(points) - 1
    rng = np.random.default_rng(0)
    orders = [points, *(rng.permutation(points) for _ in range(12))]
    work = [scipy_linkage(order, "average", metric="sqeuclidean")[:, 2].sum() for order in orders]
    assert 0.97 * min(work) <= tree.heights.sum() <= 1.03 * max(work)


def test_certified_is_exact_where_the_search_misses_nothing():
    """At slack 1 every merge is certified; on four thousand points all pairs are compared."""
    points = clustered(np.random.default_rng(11), 4000).astype(np.float32)
    exact = hr.linkage(points)
    certified = hr.linkage(points, method="certified", slack=1.0)
    assert np.abs(exact.heights - certified.heights).max() <= 2e-6
    for threshold in clear_cuts(exact.heights, [0.1, 0.5, 0.9]):
        assert same_partition(exact.cut(threshold=threshold), certified.cut(threshold=threshold))


def test_certified_by_cells_is_close_to_exact():
    """Cells miss a neighbor now and then; the cut must still be the cut, but for a few clusters in a thousand.

    One draw of the cells splits between two and thirty clusters in a thousand and moves the threshold by up to 2%, so
    six are averaged.
    """
    points = clustered(np.random.default_rng(13), 12_000).astype(np.float32)
    parts, thresholds = [], []
    for metric in ("cosine", "sqeuclidean"):
        exact = hr.cluster(points, method="exact", metric=metric, average_size=19)  # groups of twenty
        for seed in range(3):
            certified = hr.cluster(points, method="certified", metric=metric, average_size=19, seed=seed)
            assert certified.average_size >= 19
            thresholds.append(certified.threshold / exact.threshold)
            assert count_violations(points, certified, metric) <= 0.001 * certified.n_clusters
            parts.append(len(np.unique(np.column_stack([exact.labels, certified.labels]), axis=0)) / exact.n_clusters)
    assert np.mean(parts) <= 1.02
    assert np.mean(thresholds) == pytest.approx(1, rel=0.01)


def count_violations(points, clusters, metric):
    """How many clusters have another one closer than the threshold of the cut, by comparing all with all."""
    rows = points.astype(np.float64)
    if metric == "cosine":
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    sizes = clusters.sizes[:, None]
    member = np.zeros((clusters.n_clusters, rows.shape[1]))
    np.add.at(member, clusters.labels, rows)
    means = member / sizes
    if metric == "cosine":
        linkage = 1 - means @ means.T
    else:
        squares = np.bincount(clusters.labels, weights=(rows**2).sum(1)) / clusters.sizes
        linkage = squares[:, None] + squares - 2 * means @ means.T
    np.fill_diagonal(linkage, np.inf)
    return int((linkage.min(axis=1) < clusters.threshold * (1 - 1e-5)).sum())
