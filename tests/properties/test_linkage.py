"""What must hold for any pool."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import hedgerow as hr

coordinates = st.integers(-4, 4).map(float)  # a coarse grid: many ties and duplicates
pools = st.integers(1, 4).flatmap(
    lambda d: st.integers(1, 25).flatmap(lambda n: arrays(np.float64, (n, d), elements=coordinates))
)


@settings(deadline=None, max_examples=150)
@given(pools, st.integers(1, 5), st.sampled_from(["sqeuclidean", "euclidean"]))
def test_a_tree_is_complete_ordered_and_joins_each_node_once(points, neighbors, metric):
    tree = hr.linkage(points, metric=metric, neighbors=neighbors)
    n = len(points)
    assert tree.merges.shape == (n - 1, 2)
    assert (np.diff(tree.heights) >= 0).all()
    assert sorted(tree.merges.ravel().tolist()) == list(range(2 * n - 2))
    assert (tree.merges < n + np.arange(n - 1)[:, None]).all()
    assert (tree.heights == 0).sum() >= n - len(np.unique(points, axis=0))


@settings(deadline=None, max_examples=100)
@given(pools, st.floats(1, 25), st.integers(0, 2**32))
def test_the_average_size_holds(points, size, seed):
    n = len(points)
    clusters = hr.cluster(points, average_size=min(size, n), metric="sqeuclidean", seed=seed)
    assert clusters.average_size >= min(size, n) * (1 - 1e-12)


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 60), st.integers(0, 2**32))
def test_row_order_does_not_matter_where_heights_are_distinct(n, seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, 5))
    order = rng.permutation(n)
    labels = hr.cluster(points, average_size=min(3, n)).labels
    shuffled = hr.cluster(points[order], average_size=min(3, n)).labels
    pairs = np.unique(np.column_stack([labels[order], shuffled]), axis=0)
    assert len(pairs) == labels.max() + 1 == shuffled.max() + 1
