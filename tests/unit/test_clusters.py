import dataclasses

import numpy as np
import pytest

import hedgerow as hr


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(30, 8))
    return (centers[rng.integers(0, 30, 400)] + 0.2 * rng.normal(size=(400, 8))).astype(np.float32)


@pytest.mark.parametrize("size", [1, 1.25, 2, 7.3, 10, 400])
def test_average_size_is_reached_by_the_smallest_threshold(points, size):
    clusters = hr.cluster(points, average_size=size)
    assert clusters.average_size >= size
    below = np.nextafter(clusters.threshold, -1)
    if below >= 0:
        assert 400 / (clusters.tree.cut(threshold=below).max() + 1) < size
    np.testing.assert_array_equal(clusters.labels, clusters.tree.cut(threshold=clusters.threshold))


def test_threshold(points):
    clusters = hr.cluster(points, threshold=0.2, metric="cosine")
    assert clusters.threshold == 0.2
    assert clusters.labels.dtype == np.int32
    assert clusters.sizes.sum() == 400
    assert clusters.n_clusters == clusters.labels.max() + 1 == len(clusters.sizes)
    np.testing.assert_array_equal(clusters.labels, hr.linkage(points).cut(threshold=0.2))


def test_labels_are_numbered_by_first_appearance(points):
    labels = hr.cluster(points).labels
    _, first = np.unique(labels, return_index=True)
    assert (np.diff(first) > 0).all()


def test_neither_means_ten(points):
    assert hr.cluster(points).average_size >= 10
    assert hr.cluster(points[:4]).n_clusters == 1
    assert hr.cluster(points[:0]).n_clusters == 0


def test_is_frozen(points):
    clusters = hr.cluster(points[:20])
    with pytest.raises(dataclasses.FrozenInstanceError):
        clusters.threshold = 3


def test_save_and_load(points, tmp_path):
    clusters = hr.cluster(points)
    clusters.save(tmp_path / "c.parquet", ids=np.array([f"item-{i}" for i in range(400)]))
    loaded = hr.Clusters.load(tmp_path / "c.parquet")
    np.testing.assert_array_equal(loaded.labels, clusters.labels)
    assert loaded.settings() == clusters.settings()
    assert loaded.tree is None
    with pytest.raises(hr.StoreError, match="exists"):
        clusters.save(tmp_path / "c.parquet")
    clusters.save(tmp_path / "c.parquet", force=True)


def test_load_refuses_a_file_of_somebody_else(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"cluster": [0, 1]}), tmp_path / "other.parquet")
    with pytest.raises(hr.InputError, match="metadata"):
        hr.Clusters.load(tmp_path / "other.parquet")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"average_size": 2, "threshold": 0.1}, "exactly one"),
        ({"average_size": 0.9}, "at least 1"),
        ({"average_size": 401}, "cannot be reached"),
        ({"average_size": "many"}, "number"),
        ({"threshold": np.inf}, "finite"),
        ({"method": "exakt"}, "did you mean 'exact'"),
        ({"metric": "manhattan"}, "unknown metric"),
        ({"seed": -1}, "seed"),
        ({"seed": 0.5}, "seed"),
    ],
)
def test_bad_input(points, arguments, message):
    with pytest.raises(hr.InputError, match=message):
        hr.cluster(points, **arguments)
