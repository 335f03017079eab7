"""Linkage on a graph against the slow and obvious version; the rounds on pools whose clusters are known."""

import numpy as np
import pytest

import hedgerow as hr
import reference
from hedgerow.clustering import multiround
from hedgerow.clustering.neighbors import Neighbors
from hedgerow.machine import team as use_team


def random_lists(rng, n, k):
    """Neighbor lists of random points on a line, short of some entries, as a search within a reach leaves them."""
    places = rng.random(n)
    gaps = np.abs(places[:, None] - places)
    np.fill_diagonal(gaps, np.inf)
    ids = np.argsort(gaps, axis=1)[:, :k].astype(np.int32)
    found = np.take_along_axis(gaps, ids, 1).astype(np.float32)
    ids[found > 0.3] = -1
    found[found > 0.3] = np.inf
    return Neighbors(ids, found, 0.3)


def edges_of(found):
    """{(lower, higher): gap}."""
    return {
        (min(i, int(j)), max(i, int(j))): float(gap)
        for i, (near, gaps) in enumerate(zip(found.ids, found.gaps, strict=True))
        for j, gap in zip(near, gaps, strict=True)
        if j >= 0
    }


def partition_of(n, log):
    clusters = {row: {row} for row in range(n)}
    for left, right in zip(log.left.tolist(), log.right.tolist(), strict=True):
        clusters[left] |= clusters.pop(right)
    return {frozenset(rows) for rows in clusters.values()}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seed", range(60))
def test_equals_graph_linkage(seed, threads):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(2, 40)), int(rng.integers(1, 6))
    found = random_lists(rng, n, min(k, n - 1))
    threshold = float(rng.random() * 0.2)
    expected, heights = reference.graph_linkage(edges_of(found), n, threshold)
    with use_team(threads) as team:
        log = multiround.link_graph(found, threshold, None, team)
    np.testing.assert_allclose(np.sort(log.heights), np.sort(heights), atol=1e-6)
    assert partition_of(n, log) == {frozenset(rows) for rows in expected}


@pytest.mark.parametrize("seed", range(30))
def test_stops_at_the_smallest_height_that_makes_enough_merges(seed):
    rng = np.random.default_rng(seed)
    found = random_lists(rng, 40, 4)
    with use_team(1) as team:
        whole = multiround.link_graph(found, np.inf, None, team)
        needed = int(rng.integers(1, len(whole) + 1))
        log = multiround.link_graph(found, np.inf, needed, team)
    assert len(log) == needed
    np.testing.assert_allclose(np.sort(log.heights), np.sort(whole.heights)[:needed], atol=1e-6)


def test_equal_edges_end():
    """A ring of equal edges, and a complete graph of them: ties on ties, and every round still ends."""
    ring = np.array([[(i - 1) % 31, (i + 1) % 31] for i in range(31)], np.int32)
    complete = np.array([[j for j in range(12) if j != i] for i in range(12)], np.int32)
    with use_team(2) as team:
        for ids in (ring, complete):
            log = multiround.link_graph(Neighbors(ids, np.full(ids.shape, 0.5, np.float32), np.inf), 1.0, None, team)
            assert len(log) == len(ids) - 1


@pytest.mark.parametrize("rounds", [1, 2, 5])
@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_clusters_far_apart_are_found(metric, rounds):
    rng = np.random.default_rng(2)
    groups = rng.permutation(np.repeat(np.arange(40), 25))
    points = 10 * rng.normal(size=(40, 12))[groups] + 0.1 * rng.normal(size=(1000, 12))
    clusters = hr.cluster(points, method="multiround", metric=metric, average_size=25, rounds=rounds)
    assert clusters.n_clusters == 40
    assert len(np.unique(np.column_stack([groups, clusters.labels]), axis=0)) == 40
    np.testing.assert_array_equal(clusters.labels, clusters.tree.cut(threshold=clusters.threshold))


def test_more_rounds_follow_where_a_graph_comes_apart():
    """Pairs of pairs: the graph of one neighbor has nothing but pairs, so one round cannot do."""
    places = np.array([0, 1, 10, 11, 100, 101, 110, 111, 1000, 1001, 1010, 1011, 1100, 1101, 1110, 1111.0])
    points = np.column_stack([places, np.zeros(16)])
    clusters = hr.cluster(points, method="multiround", metric="sqeuclidean", average_size=8, neighbors=1, rounds=1)
    assert clusters.labels.tolist() == [0] * 8 + [1] * 8


def test_a_threshold_bounds_every_round():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(500, 6))
    one, five = (hr.cluster(points, method="multiround", threshold=0.2, rounds=rounds) for rounds in (1, 5))
    assert five.tree.heights.max() <= 0.2
    assert 1 < five.n_clusters <= one.n_clusters < 500
