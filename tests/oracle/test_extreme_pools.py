"""Numbers that rounding is hard on: thresholds on ties, tiny and huge values, groups far apart, points that nearly are
one, whole numbers. Every method gives what exact linkage gives, or refuses."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import hedgerow as hr
from hedgerow.clustering import layout

METHODS = ("exact", "certified", "multiround", "assign")


@pytest.fixture(autouse=True)
def _many_cells(monkeypatch):
    """Cells from a few hundred points on, in cells of a few dozen."""
    monkeypatch.setattr(layout, "FEW", 200)
    monkeypatch.setattr(layout, "CELL", 40)


def make_blobs(rng, count, size, d, noise):
    centers = 10 * rng.normal(size=(count, d))
    return np.repeat(centers, size, axis=0) + noise * rng.normal(size=(count * size, d))


@pytest.mark.parametrize("slack", [1.0, 1.1])
@pytest.mark.parametrize("threshold", [0.01, 0.18, 0.3, 0.31, 0.36, 0.6, 0.8])
def test_a_pair_exactly_at_the_threshold(threshold, slack):
    cosine = 1 - threshold
    pair = np.array([[1, 0], [cosine, np.sqrt(1 - cosine**2)]])
    made = hr.cluster(pair, threshold=threshold, method="certified", slack=slack)
    assert made.tree.heights.max(initial=0) <= threshold
    assert hr.cluster(pair, threshold=threshold + 1e-6, method="certified", slack=slack).n_clusters == 1
    assert hr.cluster(pair, threshold=threshold - 1e-6, method="certified", slack=slack).n_clusters == 2


@pytest.mark.parametrize(("ones", "columns", "metric"), [(10, 20, "cosine"), (5, 12, "cosine"), (8, 16, "sqeuclidean")])
def test_ties_at_the_threshold_end(ones, columns, metric):
    rng = np.random.default_rng(0)
    rows = np.argsort(rng.random((1000, columns)), axis=1) < ones
    threshold = 0.3 if metric == "cosine" else 4.0
    made = hr.cluster(rows, threshold=threshold, metric=metric, method="certified")
    assert 1 < made.n_clusters < 1000
    assert made.tree.heights.max() <= threshold


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1e-130, 1e-30, 1e19, 1e130])
def test_squared_distances_of_tiny_and_huge_numbers(method, scale):
    rng = np.random.default_rng(1)
    points = rng.permutation(make_blobs(rng, 50, 12, 8, 0.1))
    usual = hr.cluster(points, metric="sqeuclidean", method=method, average_size=12)
    made = hr.cluster(points * scale, metric="sqeuclidean", method=method, average_size=12)
    np.testing.assert_array_equal(made.labels, usual.labels)
    assert made.threshold == pytest.approx(usual.threshold * scale**2, rel=1e-3)
    np.testing.assert_array_equal(made.assign(points[::7] * scale), usual.assign(points[::7]))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1e-160, 1e160, 1e307])
def test_what_has_no_squares_is_refused(method, scale):
    points = scale * np.random.default_rng(2).random((60, 3))
    with pytest.raises(hr.InputError, match="square is out of the range of float64"):
        hr.cluster(points, metric="sqeuclidean", method=method)
    assert hr.cluster(points, metric="cosine", method=method, average_size=2).average_size >= 2


@pytest.mark.parametrize("scale", [1e-200, 1e160])
def test_what_has_no_squares_has_no_euclidean_distances(scale):
    points = scale * np.random.default_rng(2).random((60, 3))
    for make in (hr.cluster, hr.linkage):
        with pytest.raises(hr.InputError, match="square is out of the range of float64"):
            make(points, metric="euclidean")


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
@pytest.mark.parametrize("method", ["certified", "multiround"])
def test_whole_numbers_do_not_depend_on_the_threads(method, metric):
    rows = np.random.default_rng(0).integers(0, 2, (6000, 64)).astype(np.float32)
    one, two, three = (
        hr.cluster(rows, method=method, metric=metric, average_size=10, threads=threads).labels for threads in (1, 2, 3)
    )
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("apart", [1e3, 1e4, 1e5])
@pytest.mark.parametrize("method", ["certified", "multiround"])
def test_groups_far_apart_keep_their_clusters(method, apart):
    rng = np.random.default_rng(3)
    points = make_blobs(rng, 200, 8, 8, 0.1)
    points[: len(points) // 2] += apart
    expected = hr.cluster(points, metric="sqeuclidean", method="exact", average_size=8)
    made = hr.cluster(points, metric="sqeuclidean", method=method, average_size=8)
    assert made.n_clusters == 200
    assert adjusted_rand_score(made.labels, expected.labels) == 1
    if method == "certified":
        assert made.threshold == pytest.approx(expected.threshold, rel=1e-3)
    given = hr.cluster(points, metric="sqeuclidean", method=method, threshold=expected.threshold)
    assert given.n_clusters == 200
    np.testing.assert_array_equal(expected.assign(points), expected.labels)
    strangers = points[::8] + 20 / np.sqrt(8)  # a squared distance of 400 from their blobs
    near = ((strangers[:, None] - points[None]) ** 2).sum(2).min(axis=1) <= expected.threshold
    assert (expected.assign(strangers) >= 200)[~near].all()


@pytest.mark.parametrize("noise", [1e-3, 3e-4, 3e-5])
def test_points_that_nearly_are_one(noise):
    rng = np.random.default_rng(4)
    points = rng.normal(size=(150, 16))
    points = np.repeat(points / np.linalg.norm(points, axis=1, keepdims=True), 10, axis=0)
    points += noise / 4 * rng.normal(size=points.shape)
    expected = hr.cluster(points, method="exact", average_size=3)
    made = hr.cluster(points, method="certified", slack=1.0, average_size=3)
    assert made.threshold == pytest.approx(expected.threshold, rel=1e-2)
    assert made.n_clusters == expected.n_clusters
    assert adjusted_rand_score(made.labels, expected.labels) > 0.99


@pytest.mark.parametrize("method", METHODS)
def test_copies_are_one_cluster(method):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        drawn = rng.integers(0, 50, 3000)
        points = rng.normal(size=(50, 16))[drawn]
        made = hr.cluster(points, method=method, average_size=10)
        assert made.n_clusters == 50
        assert adjusted_rand_score(made.labels, drawn) == 1


def test_an_inclusive_threshold_on_whole_numbers():
    for seed in range(100):
        rng = np.random.default_rng(seed)
        firsts = 5 * np.unique(rng.integers(0, 40, 15))  # each with a neighbor one apart, all others four and more
        points = np.concatenate([firsts, firsts + 1]).astype(float)[:, None]
        made = hr.cluster(points, metric="sqeuclidean", threshold=1, method="exact")
        np.testing.assert_array_equal(made.labels, np.tile(np.arange(len(firsts)), 2))
