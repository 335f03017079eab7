import numpy as np
import pytest

import hedgerow as hr

SQUARE = np.array([[0.0, 0.0], [0.0, 1.0], [10.0, 0.0], [10.0, 2.0]])


def test_heights_worked_by_hand():
    # {0, 1} at 1, {2, 3} at 4; between them: 100, 104, 101, 101 on average
    tree = hr.linkage(SQUARE, metric="sqeuclidean")
    np.testing.assert_allclose(tree.heights, [1, 4, 101.5])
    assert tree.merges.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_cosine_heights_worked_by_hand():
    tree = hr.linkage([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0], [-1.0, 0.0]])
    np.testing.assert_allclose(tree.heights, [0, 1, 5 / 3], atol=1e-15)


def test_the_threshold_itself_is_within():
    assert len(hr.linkage(SQUARE, metric="sqeuclidean", threshold=4.0).heights) == 2
    assert len(hr.linkage(SQUARE, metric="sqeuclidean", threshold=3.999).heights) == 1


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean", "euclidean"])
@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_tiny_pools(metric, n):
    tree = hr.linkage(np.eye(3)[:n], metric=metric)
    assert len(tree.heights) == max(0, n - 1)
    assert tree.cut(threshold=5).tolist() == [0] * n


def test_all_points_equal():
    tree = hr.linkage(np.ones((50, 3), np.float32), neighbors=2)
    assert tree.heights.tolist() == [0] * 49


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_dtypes_and_strides(dtype):
    points = np.random.default_rng(0).integers(-50, 50, (40, 6)).astype(dtype)
    expected = hr.linkage(points.astype(np.float64), metric="sqeuclidean")
    strided = np.asfortranarray(np.repeat(points, 2, axis=0))[::2]
    np.testing.assert_allclose(hr.linkage(strided, metric="sqeuclidean").heights, expected.heights)


def test_a_memory_map_is_read_and_left_as_it_was(tmp_path):
    points = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    np.save(tmp_path / "points.npy", points)
    expected = hr.linkage(points).heights
    for mode in ("r", "r+", "c"):
        mapped = np.load(tmp_path / "points.npy", mmap_mode=mode)
        np.testing.assert_array_equal(hr.linkage(mapped).heights, expected)
    mapped[0] = 7  # only in this map: mode "c" never writes to its file
    hr.linkage(mapped[:100])
    assert (mapped[0] == 7).all()


def test_far_from_the_origin():
    points = np.random.default_rng(0).normal(size=(300, 4))
    near = hr.linkage(points, metric="sqeuclidean")
    far = hr.linkage(points + 1e6, metric="sqeuclidean")
    np.testing.assert_allclose(near.heights, far.heights, rtol=1e-6)


def test_huge_and_tiny_vectors_have_directions():
    points = np.array([[1e-300, 0], [0, 1e-300], [1e200, 1e-3], [1e-3, 1e200]])
    np.testing.assert_allclose(hr.linkage(points).heights, [0, 0, 1], atol=1e-12)


def test_vectors_without_reciprocals_have_directions():
    points = 1e-310 * np.array([[3, 4], [6, 8], [1, -1], [2, -2]])
    np.testing.assert_allclose(hr.linkage(points).heights, [0, 0, 1 + 0.02**0.5], atol=1e-9)


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_thread_count_does_not_matter(metric):
    points = np.random.default_rng(1).normal(size=(5000, 8)).astype(np.float32)
    one = hr.linkage(points, metric=metric, threads=1)
    two = hr.linkage(points, metric=metric, threads=2)
    np.testing.assert_array_equal(one.merges, two.merges)
    np.testing.assert_array_equal(one.heights, two.heights)


@pytest.mark.parametrize("method", ["exact", "certified"])
def test_progress_goes_forward_in_every_phase_and_ends(method):
    shares_by_phase = {}
    points = np.random.default_rng(0).normal(size=(5000, 4))
    hr.linkage(points, method=method, progress=lambda phase, done: shares_by_phase.setdefault(phase, []).append(done))
    assert all(0 <= share <= 1 for shares in shares_by_phase.values() for share in shares)
    assert shares_by_phase["reading"][-1] == 1
    assert shares_by_phase["merging"][-1] == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    ("points", "arguments", "message"),
    [
        ([[1.0, np.nan]], {}, "NaN or an infinity in row 0"),
        ([[1.0, 2.0], [np.inf, 0.0]], {}, "row 1"),
        ([[1.0], [0.0]], {}, r"all-zero.*rows 1"),
        ([1.0, 2.0], {}, "two dimensions"),
        ([["a"]], {}, "real numbers|number"),
        (SQUARE, {"metric": "cosin"}, "did you mean 'cosine'"),
        (SQUARE, {"method": "ward"}, "unknown method"),
        (SQUARE, {"threshold": -0.1}, "threshold must be at least 0"),
        (SQUARE, {"neighbors": 0}, "neighbors must be at least 1"),
        (SQUARE, {"threads": 0}, "threads must be at least 1"),
        (np.zeros((20_001, 1)), {"metric": "euclidean"}, "sqeuclidean"),
    ],
)
def test_bad_input(points, arguments, message):
    with pytest.raises(hr.InputError, match=message):
        hr.linkage(np.asarray(points), **arguments)
