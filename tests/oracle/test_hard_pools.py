"""Pools that break clustering: what must hold of any cut holds for them, exact and by cells."""

import numpy as np
import pytest

import hedgerow as hr
from hedgerow import pool
from hedgerow.clustering import assignment, layout

METHODS = ("exact", "certified")


@pytest.fixture(autouse=True)
def _many_cells(monkeypatch):
    """Cells from a few hundred points on, in cells of a few dozen."""
    monkeypatch.setattr(layout, "FEW", 200)
    monkeypatch.setattr(layout, "CELL", 40)
    monkeypatch.setattr(assignment, "FEW", 50)


def copies(rng):
    """Twenty points, a hundred times each: far more copies than neighbors in a list."""
    return rng.permutation(np.repeat(rng.normal(size=(20, 6)), 100, axis=0))


def near_copies(rng):
    """The same, apart by less than float32 tells from zero."""
    return copies(rng) + 1e-7 * rng.normal(size=(2000, 6))


def giant(rng):
    """One dense cluster of nine tenths, the rest far from it and from each other."""
    return np.concatenate([5 + 0.01 * rng.normal(size=(1800, 8)), rng.normal(size=(200, 8))])


def noise(rng):
    return rng.normal(size=(1500, 32))


def lattice(rng):
    """Twelve by twelve by twelve: all heights tie."""
    return 1.0 + np.stack(np.meshgrid(*[np.arange(12.0)] * 3), -1).reshape(-1, 3)


def heavy_tail(rng):
    """Clusters of 1 to 800 points."""
    sizes = np.minimum(1 + rng.pareto(0.8, 150), 800).astype(int)
    centers = rng.normal(size=(len(sizes), 16))
    return rng.permutation(np.repeat(centers, sizes, axis=0) + 0.15 * rng.normal(size=(sizes.sum(), 16)))[:4000]


def flat(rng):
    return rng.normal(size=(2000, 2))


def wide(rng):
    centers = rng.normal(size=(60, 4096))
    return (centers[rng.integers(0, 60, 600)] + 0.5 * rng.normal(size=(600, 4096))).astype(np.float32)


POOLS = [copies, near_copies, giant, noise, lattice, heavy_tail, flat, wide]


def linkages(points, clusters):
    """The average linkage of all pairs of clusters, infinity on the diagonal."""
    rows = points.astype(np.float64)
    if clusters.metric == "cosine":
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    else:
        rows -= rows.mean(axis=0)
    means = np.zeros((clusters.n_clusters, rows.shape[1]))
    np.add.at(means, clusters.labels, rows)
    means /= clusters.sizes[:, None]
    squares = np.bincount(clusters.labels, weights=(rows**2).sum(axis=1)) / clusters.sizes
    found = squares[:, None] / 2 + squares / 2 - means @ means.T
    np.fill_diagonal(found, np.inf)
    return found if clusters.metric == "cosine" else 2 * found


def rounding(points, metric):
    """How far float32 may be off in a distance."""
    return 4e-6 * (1 if metric == "cosine" else 2 * np.square(points - points.mean(axis=0)).sum(axis=1).max())


def assert_is_a_cut(points, clusters, asked):
    """The average size is reached, and no two clusters are closer than the threshold; rounding is let pass."""
    assert clusters.average_size >= asked
    assert clusters.labels.dtype == np.int32
    assert np.unique(clusters.labels).tolist() == list(range(clusters.n_clusters))
    closest = linkages(points, clusters).min(initial=np.inf)
    assert closest >= clusters.threshold * (1 - 1e-5) - rounding(points, clusters.metric)


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("make", POOLS)
def test_is_a_cut(make, method, metric):
    points = make(np.random.default_rng(3))
    for asked in (1, 4, 10):
        clusters = hr.cluster(points, method=method, metric=metric, average_size=asked, slack=1.0)
        assert_is_a_cut(points, clusters, asked)
    threshold = clusters.threshold * 1.000001
    assert_is_a_cut(points, hr.cluster(points, method=method, metric=metric, threshold=threshold), 1)
    again = hr.cluster(points, method=method, metric=metric, threshold=threshold, slack=1.0)
    assert_is_a_cut(points, again, 1)
    if clusters.threshold > rounding(points, metric):  # else it is rounding that says which pairs are within
        assert again.n_clusters == pytest.approx(clusters.n_clusters, rel=0.05, abs=2)


@pytest.mark.parametrize("method", ["exact", "certified", "multiround", "assign"])
@pytest.mark.parametrize("make", POOLS)
def test_thread_count_does_not_matter(make, method):
    points = make(np.random.default_rng(4))
    one = hr.cluster(points, method=method, metric="sqeuclidean", average_size=7, threads=1)
    two = hr.cluster(points, method=method, metric="sqeuclidean", average_size=7, threads=2)
    np.testing.assert_array_equal(one.labels, two.labels)
    assert one.threshold == two.threshold


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
@pytest.mark.parametrize("method", ["multiround", "assign"])
@pytest.mark.parametrize("make", POOLS)
def test_accelerations_reach_the_average_size(make, method, metric):
    points = make(np.random.default_rng(5))
    for asked in (1, 3.7, 10, len(points)):
        clusters = hr.cluster(points, method=method, metric=metric, average_size=asked)
        assert clusters.average_size >= asked
        assert np.unique(clusters.labels).tolist() == list(range(clusters.n_clusters))


@pytest.mark.parametrize("method", METHODS)
def test_copies_are_one_cluster_whatever_the_threshold(method):
    points = copies(np.random.default_rng(0))
    clusters = hr.cluster(points, method=method, threshold=0.0, neighbors=3)
    assert clusters.n_clusters == len(np.unique(points, axis=0))
    assert (clusters.sizes == 100).all()


@pytest.mark.parametrize("method", METHODS)
def test_copies_are_one_cluster_beside_rows_of_other_signs(method):
    points = np.array([[3, 3], [-3, -3], [3, -3], [-3, 3]] * 50)
    for threshold in (0.0, 0.5):
        clusters = hr.cluster(points, method=method, threshold=threshold)
        assert clusters.labels.tolist() == [0, 1, 2, 3] * 50
        assert (clusters.tree.heights == 0).all()


@pytest.mark.parametrize("method", ["exact", "certified", "multiround", "assign"])
@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
@pytest.mark.parametrize("n", [0, 1, 2])
def test_tiny_pools(n, metric, method):
    clusters = hr.cluster(np.eye(3)[:n], method=method, metric=metric)
    assert clusters.labels.tolist() == [0] * n
    assert hr.cluster(np.eye(3)[:n], method=method, metric=metric, threshold=0.5).labels.tolist() == list(range(n))


@pytest.mark.parametrize("method", ["exact", "certified", "multiround"])
@pytest.mark.parametrize("neighbors", [299, 300, 5000])
def test_more_neighbors_than_points(neighbors, method):
    points = np.random.default_rng(0).normal(size=(300, 5))
    clusters = hr.cluster(points, method=method, neighbors=neighbors, average_size=6)
    assert clusters.average_size >= 6
    if method == "exact":
        np.testing.assert_array_equal(clusters.labels, hr.cluster(points, average_size=6).labels)


@pytest.mark.parametrize("method", ["exact", "certified", "multiround", "assign"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtypes_and_strides(dtype, method):
    """Numbers that all dtypes hold: the same clusters for each, wherever they lie in memory."""
    points = np.random.default_rng(0).integers(-64, 64, (900, 6)).astype(np.float64)
    expected = hr.cluster(points, method=method, metric="sqeuclidean", average_size=5)
    strided = np.asfortranarray(np.repeat(points, 2, axis=0).astype(dtype))[::-2][::-1]
    assert not strided.flags.c_contiguous
    clusters = hr.cluster(strided, method=method, metric="sqeuclidean", average_size=5)
    np.testing.assert_array_equal(clusters.labels, expected.labels)


@pytest.mark.parametrize("method", ["exact", "certified", "multiround", "assign"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(bad, method):
    points = np.random.default_rng(0).normal(size=(400, 5)).astype(np.float32)
    points[377, 2] = bad
    for zeros in ("refuse", "singletons"):
        with pytest.raises(hr.InputError, match="row 377"):
            hr.cluster(points, method=method, zeros=zeros)


@pytest.mark.parametrize("method", ["exact", "certified", "multiround", "assign"])
def test_chunks_of_the_input_do_not_matter(method, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    points = heavy_tail(np.random.default_rng(6)).astype(np.float32)
    expected = hr.cluster(points, method=method)
    table = pa.table({"embedding": list(points)})
    for rows in (97, 1000, 10_000):
        pq.write_table(table, tmp_path / "pool.parquet", row_group_size=rows)
        clusters = hr.cluster(tmp_path / "pool.parquet", method=method)
        np.testing.assert_array_equal(clusters.labels, expected.labels)
    np.save(tmp_path / "pool.npy", points)
    assert isinstance(pool.as_matrix(tmp_path / "pool.npy", "embeddings"), np.memmap)
    np.testing.assert_array_equal(hr.cluster(tmp_path / "pool.npy", method=method).labels, expected.labels)
