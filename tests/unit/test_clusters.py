import dataclasses
import pickle
from pathlib import Path
from xml.etree import ElementTree

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


def test_repr_says_what_there_is_and_no_more(points):
    clusters = hr.cluster(points, average_size=8, ids=np.arange(400))
    text = repr(clusters)
    assert text.startswith(f"Clusters(400 rows in {clusters.n_clusters} clusters of ")
    assert "cosine distance up to 0." in text
    assert text.endswith(", exact)")
    assert len(text) < 120
    empty = "Clusters(0 rows in 0 clusters of 0 on average, cosine distance up to 0, exact)"
    assert repr(hr.cluster(points[:0])) == empty
    page = clusters._repr_html_()
    assert "<th>rows</th><td>400, with ids</td>" in page
    assert f"<th>largest</th><td>{clusters.sizes.max()}</td>" in page
    ElementTree.fromstring(page)
    assert "<td>0</td>" in hr.cluster(points[:0])._repr_html_()


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


@pytest.mark.parametrize("ids", [[f"item-{i}" for i in range(400)], np.arange(400)[::-1] * 7])
def test_ids_are_saved_with_the_labels_and_loaded(points, tmp_path, ids):
    hr.cluster(points).save(tmp_path / "c.parquet", ids=ids)
    loaded = hr.Clusters.load(tmp_path / "c.parquet")
    assert loaded.ids.tolist() == list(ids)
    loaded.save(tmp_path / "again.parquet")
    assert hr.Clusters.load(tmp_path / "again.parquet").ids.tolist() == list(ids)
    loaded.save(tmp_path / "again.parquet", ids=np.arange(400), force=True)
    assert hr.Clusters.load(tmp_path / "again.parquet").ids.tolist() == list(range(400))


@pytest.fixture(params=["file", "table"])
def with_ids(request, points, tmp_path):
    """The points as a Parquet file or an Arrow table with ids."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"id": [f"item-{i}" for i in range(400)], "embedding": list(points)})
    pq.write_table(table, tmp_path / "pool.parquet")
    return tmp_path / "pool.parquet" if request.param == "file" else table


def test_ids_come_with_the_embeddings(points, with_ids, tmp_path):
    clusters = hr.cluster(with_ids)
    np.testing.assert_array_equal(clusters.labels, hr.cluster(points).labels)
    assert clusters.ids.tolist() == [f"item-{i}" for i in range(400)]
    clusters.save(tmp_path / "c.parquet")
    assert hr.Clusters.load(tmp_path / "c.parquet").ids.tolist() == clusters.ids.tolist()
    assert hr.cluster(with_ids, ids=range(400)).ids.tolist() == list(range(400))


def test_ids_do_not_keep_the_embeddings_and_are_read_when_asked_for(points, with_ids):
    clusters = hr.cluster(with_ids, centroids=False, metric="euclidean")
    held = pickle.dumps(dataclasses.replace(clusters, tree=None))
    assert len(held) < points.nbytes
    assert pickle.loads(held).ids.tolist() == clusters.ids.tolist()
    assert "ids" not in vars(hr.cluster(with_ids))


def test_ids_of_an_array(points):
    assert hr.cluster(points, ids=np.arange(400)).ids.tolist() == list(range(400))
    with pytest.raises(hr.InputError, match="ids has 3, the pool has 400"):
        hr.cluster(points, ids=["a", "b", "c"])
    with pytest.raises(hr.InputError, match="ids holds 1: ids must be all strings"):
        hr.cluster(points[:2], ids=["a", 1])
    with pytest.raises(hr.InputError, match="ids holds 0 more than once"):
        hr.cluster(points, ids=np.zeros(400, int))


def test_duplicate_ids_of_the_embeddings_are_refused(points):
    import pyarrow as pa

    with pytest.raises(hr.InputError, match="7 more than once"):
        hr.cluster(pa.table({"id": [7] * 400, "embedding": list(points)}))


def test_new_points_keep_their_ids(points):
    import pyarrow as pa

    clusters = hr.cluster(points, average_size=8)
    new = np.vstack([points[:3], -100 * np.eye(8)[:2]]).astype(np.float32)
    found = clusters.find_nearest(pa.table({"id": list("abcde"), "embedding": list(new)}))
    np.testing.assert_array_equal(found.labels, clusters.assign(new))
    assert found.ids.tolist() == list("abcde")
    assert found.joined.tolist() == (found.distances <= clusters.threshold).tolist()
    assert found.joined[:3].all()
    columns = found.columns()
    assert list(columns) == ["id", "row", "cluster", "distance", "joined"]
    assert columns["row"].tolist() == [0, 1, 2, 3, 4]
    assert list(clusters.find_nearest(new).columns()) == ["row", "cluster", "distance", "joined"]
    assert clusters.find_nearest(new).ids is None


def test_files_of_version_0_1_0_are_read():
    clusters = hr.Clusters.load(Path(__file__).parents[1] / "stored" / "clusters-0.1.0.parquet")
    assert clusters.labels.tolist() == [0, 0, 1, 2, 2, 2, 1, 3, 1, 2, 2, 3]
    assert clusters.ids.tolist() == [f"row-{i}" for i in range(12)]
    assert clusters.threshold == pytest.approx(0.37960647137129533)
    points = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    assert clusters.assign(points).tolist() == clusters.labels.tolist()


def test_without_ids(points, tmp_path):
    clusters = hr.cluster(points)
    assert clusters.ids is None
    clusters.save(tmp_path / "c.parquet")
    assert hr.Clusters.load(tmp_path / "c.parquet").ids is None


def test_ids_must_be_distinct(points, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    clusters = hr.cluster(points)
    with pytest.raises(hr.InputError, match="'a' more than once"):
        clusters.save(tmp_path / "c.parquet", ids=["a", "a", *map(str, range(398))])
    with pytest.raises(hr.InputError, match="whole numbers or strings"):
        clusters.save(tmp_path / "c.parquet", ids=np.linspace(0, 1, 400))
    assert list(tmp_path.iterdir()) == []
    clusters.save(tmp_path / "c.parquet")
    table = pq.read_table(tmp_path / "c.parquet")
    pq.write_table(table.append_column("id", pa.array([1] * 400)), tmp_path / "c.parquet")
    with pytest.raises(hr.InputError, match="1 more than once"):
        hr.Clusters.load(tmp_path / "c.parquet")


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
        ({"centroids": "no"}, "centroids must be True or False"),
    ],
)
def test_bad_input(points, arguments, message):
    with pytest.raises(hr.InputError, match=message):
        hr.cluster(points, **arguments)


def test_numbers_of_numpy_are_numbers(points, tmp_path):
    options = {"seed": np.int64(3), "neighbors": np.int64(7), "slack": np.float32(1.5), "threshold": np.float32(0.25)}
    plain = {name: value.item() for name, value in options.items()}
    made = hr.cluster(points, method="certified", workdir=tmp_path / "work", **options)
    np.testing.assert_array_equal(made.labels, hr.cluster(points, method="certified", **plain).labels)
    assert type(made.threshold) is float


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_progress_is_shown_reported_or_refused(points, metric):
    shown, reported = hr.cluster(points, metric=metric, progress=True), []
    assert hr.cluster(points, metric=metric, progress=lambda *what: reported.append(what)).threshold == shown.threshold
    assert bool(reported) == (metric == "cosine")
    for call in (hr.cluster, hr.linkage):
        with pytest.raises(hr.InputError, match="progress must be True, False or a callable"):
            call(points, metric=metric, progress=3)
    with pytest.raises(hr.InputError, match="progress must be"):
        hr.cluster(points).find_nearest(points, progress="yes")


FORMS = {
    "columns first": np.asfortranarray,
    "read-only": lambda points: np.frombuffer(points.tobytes(), points.dtype).reshape(points.shape),
    "every second row": lambda points: np.repeat(points, 2, axis=0)[::2],
    "every second column": lambda points: np.repeat(points, 2, axis=1)[:, ::2],
    "backwards": lambda points: points[::-1].copy()[::-1],
    "big-endian": lambda points: points.astype(">f4"),
    "lists": lambda points: points.tolist(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("method", ["exact", "certified", "multiround", "assign"])
@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_the_layout_of_an_array_does_not_matter(points, form, method, metric):
    made = hr.cluster(FORMS[form](points), method=method, metric=metric)
    np.testing.assert_array_equal(made.labels, hr.cluster(points, method=method, metric=metric).labels)


@pytest.mark.parametrize("method", ["exact", "certified", "multiround", "assign"])
@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
@pytest.mark.parametrize("cut", [{}, {"threshold": 0}, {"threshold": 3.0}, {"average_size": 1}])
def test_tiny_pools_and_duplicates(method, metric, cut):
    def cluster(n):
        return hr.cluster(np.full((n, 3), 2.0), method=method, metric=metric, **cut)

    assert cluster(0).labels.tolist() == []
    assert cluster(1).labels.tolist() == [0]
    assert set(cluster(30).labels.tolist()) == {0}
    assert cluster(30).threshold == cut.get("threshold", 0)


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean", "euclidean"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_nan_in_the_last_row_is_found_before_anything_is_written(points, metric, dtype, tmp_path):
    holed = points.astype(dtype)
    holed[-1, -1] = np.nan
    keep = {} if metric == "euclidean" else {"workdir": tmp_path / "work"}
    with pytest.raises(hr.InputError, match="NaN or an infinity in row 399"):
        hr.cluster(holed, metric=metric, **keep)
    assert list(tmp_path.iterdir()) == []


def test_a_workdir_of_another_pool_is_refused(points, tmp_path):
    first = hr.cluster(points, method="certified", workdir=tmp_path / "work")
    np.testing.assert_array_equal(
        hr.cluster(points, method="certified", workdir=tmp_path / "work").labels, first.labels
    )
    other = points.copy()
    other[-1, -1] += 1e-3
    for pool, options in ((other, {}), (points, {"average_size": 3}), (points, {"seed": 1})):
        with pytest.raises(hr.StoreError, match="belongs to another run"):
            hr.cluster(pool, method="certified", workdir=tmp_path / "work", **options)


# New points.


def average_distances(points, clusters, new):
    """The mean distance of each new point to the members of each cluster, from all pairs."""
    from scipy.spatial.distance import cdist

    distance = cdist(new.astype(np.float64), points.astype(np.float64), clusters.metric)
    return np.column_stack([distance[:, clusters.labels == c].mean(axis=1) for c in range(clusters.n_clusters)])


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
@pytest.mark.parametrize("method", ["exact", "certified", "multiround", "assign"])
def test_new_points_go_to_the_nearest_cluster_or_found_their_own(points, method, metric):
    clusters = hr.cluster(points, method=method, metric=metric, average_size=8)
    new = points[::3] + 0.3 * np.random.default_rng(1).normal(size=points[::3].shape)
    labels = clusters.assign(new)
    distance = average_distances(points, clusters, new)
    near = distance.min(axis=1) <= clusters.threshold
    assert labels.dtype == np.int32
    np.testing.assert_array_equal(labels[near], distance.argmin(axis=1)[near])
    np.testing.assert_array_equal(labels[~near], clusters.n_clusters + np.arange((~near).sum()))
    assert 0 < near.sum() < len(new)
    np.testing.assert_array_equal(labels, clusters.assign(new, threads=1))


def test_copies_of_lone_points_find_them(points):
    clusters = hr.cluster(points, average_size=1)
    np.testing.assert_array_equal(clusters.assign(points), clusters.labels)


def test_no_new_points_and_no_clusters(points):
    assert hr.cluster(points).assign(points[:0]).tolist() == []
    assert hr.cluster(points[:0]).assign(points[:3]).tolist() == [0, 1, 2]


def test_new_points_far_from_the_origin(points):
    far = points.astype(np.float64) + 1e4
    clusters = hr.cluster(far, metric="sqeuclidean", average_size=8)
    np.testing.assert_array_equal(
        clusters.assign(far), hr.cluster(points, metric="sqeuclidean", average_size=8).assign(points)
    )


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (np.ones((3, 7)), "7 columns, but these clusters were made from 8"),
        (np.ones(8), "two dimensions"),
        (np.full((2, 8), np.nan), "NaN or an infinity in row 0"),
        (np.zeros((2, 8)), "all-zero"),
    ],
)
def test_new_points_that_cannot_be_used(points, new, message):
    with pytest.raises(hr.InputError, match=message):
        hr.cluster(points).assign(new)


def test_without_centroids_nothing_is_assigned(points, tmp_path):
    for clusters in (hr.cluster(points, centroids=False), hr.cluster(points, metric="euclidean")):
        assert clusters.centroids is None
        with pytest.raises(hr.InputError, match="no centroids to assign"):
            clusters.assign(points)
        with pytest.raises(hr.InputError, match="no centroids to save"):
            clusters.save(tmp_path / "c.parquet", centroids=True)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_centroids_are_kept_beside(points, tmp_path, metric):
    clusters = hr.cluster(points, metric=metric)
    clusters.save(tmp_path / "c.parquet", centroids=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.centroids.npz", "c.parquet"]
    loaded = hr.Clusters.load(tmp_path / "c.parquet")
    assert loaded.settings() == clusters.settings()
    np.testing.assert_array_equal(loaded.assign(points), clusters.assign(points))
    with pytest.raises(hr.StoreError, match="exists"):
        clusters.save(tmp_path / "c.parquet", centroids=True)
    loaded.save(tmp_path / "d.parquet", centroids=True)
    np.testing.assert_array_equal(hr.Clusters.load(tmp_path / "d.parquet").assign(points), clusters.assign(points))


def test_centroids_that_were_not_kept(points, tmp_path):
    clusters = hr.cluster(points)
    clusters.save(tmp_path / "c.parquet")
    assert hr.Clusters.load(tmp_path / "c.parquet").centroids is None
    clusters.save(tmp_path / "c.parquet", centroids=True, force=True)
    (tmp_path / "c.centroids.npz").unlink()
    assert hr.Clusters.load(tmp_path / "c.parquet").centroids is None


def test_centroids_of_others_and_broken_ones(points, tmp_path):
    hr.cluster(points).save(tmp_path / "c.parquet", centroids=True)
    hr.cluster(points, average_size=3).save(tmp_path / "d.parquet", centroids=True)
    (tmp_path / "d.centroids.npz").replace(tmp_path / "c.centroids.npz")
    with pytest.raises(hr.StoreError, match="belongs to other clusters"):
        hr.Clusters.load(tmp_path / "c.parquet")
    with (tmp_path / "c.centroids.npz").open("wb") as file:
        np.save(file, np.arange(3))
    with pytest.raises(hr.StoreError, match="cannot be read"):
        hr.Clusters.load(tmp_path / "c.parquet")
    (tmp_path / "c.centroids.npz").write_bytes(b"nothing")
    with pytest.raises(hr.StoreError, match="cannot be read"):
        hr.Clusters.load(tmp_path / "c.parquet")


def test_centroids_know_their_metric_too(tmp_path):
    pairs = np.array([[1, 0], [1, 0.1], [0, 5], [0.1, 5]])
    for metric in ("cosine", "sqeuclidean"):
        made = hr.cluster(pairs, metric=metric, average_size=2)
        assert made.labels.tolist() == [0, 0, 1, 1]
        made.save(tmp_path / f"{metric}.parquet", centroids=True)
    (tmp_path / "cosine.centroids.npz").replace(tmp_path / "sqeuclidean.centroids.npz")
    with pytest.raises(hr.StoreError, match="belongs to other clusters"):
        hr.Clusters.load(tmp_path / "sqeuclidean.parquet")


def test_ids_that_cannot_be_written_leave_the_files_alone(points, tmp_path):
    kept = hr.cluster(points)
    kept.save(tmp_path / "c.parquet", ids=list(range(len(points))), centroids=True)
    other = hr.cluster(points, average_size=3)
    with pytest.raises(hr.InputError, match="ids holds 1: ids must be all strings"):
        other.save(tmp_path / "c.parquet", ids=np.array([1, "a"] * 200, object), centroids=True, force=True)
    with pytest.raises(hr.InputError, match="ids has 2, the pool has 400"):
        other.save(tmp_path / "c.parquet", ids=[1, 2], centroids=True, force=True)
    np.testing.assert_array_equal(hr.Clusters.load(tmp_path / "c.parquet").assign(points), kept.assign(points))


@pytest.mark.parametrize("name", ["c", "c.npy", "c.csv"])
def test_what_could_not_be_read_again_is_not_written(points, tmp_path, name):
    with pytest.raises(hr.StoreError, match=r"ends in \.parquet"):
        hr.cluster(points).save(tmp_path / name, centroids=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("metadata", ["{}", "[]", "not json", '{"n": 2, "threshold": "x", "metric": "cosine"}'])
def test_load_refuses_damaged_metadata(tmp_path, metadata):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"cluster": [0, 1]}).replace_schema_metadata({"hedgerow.clusters": metadata})
    pq.write_table(table, tmp_path / "c.parquet")
    with pytest.raises(hr.StoreError, match="damaged metadata"):
        hr.Clusters.load(tmp_path / "c.parquet")


def test_clusters_of_lone_zeros_alone_are_nobodys_nearest():
    lone = hr.cluster(np.zeros((4, 3)), zeros="singletons", average_size=1)
    assert lone.assign(np.ones((2, 3))).tolist() == [4, 5]


def test_new_points_beyond_float32_are_far_from_all(points):
    clusters = hr.cluster(points, metric="sqeuclidean")
    far = np.vstack([points[:1], np.full((1, 8), 1e30), np.full((1, 8), -1e120)])
    assert clusters.assign(far).tolist() == [clusters.labels[0], clusters.n_clusters, clusters.n_clusters + 1]


@pytest.mark.parametrize("options", [{"method": "multiround"}, {"method": "assign"}, {"metric": "euclidean"}])
def test_a_workdir_that_would_not_be_used_is_refused(points, tmp_path, options):
    with pytest.raises(hr.InputError, match="workdir goes with"):
        hr.cluster(points, workdir=tmp_path / "work", **options)
    assert list(tmp_path.iterdir()) == []


# Rows of zeros.


@pytest.mark.parametrize("method", ["exact", "certified", "multiround", "assign"])
def test_zeros_are_refused_or_kept_as_singletons(points, method):
    rows = [0, 7, 399]
    holed = points.copy()
    holed[rows] = 0
    with pytest.raises(hr.InputError, match=r"rows 0, 7, 399.*singletons"):
        hr.cluster(holed, method=method)
    clusters = hr.cluster(holed, method=method, average_size=9, zeros="singletons")
    assert clusters.average_size >= 9
    assert (clusters.sizes[clusters.labels[rows]] == 1).all()
    assert (np.diff(np.unique(clusters.labels, return_index=True)[1]) > 0).all()
    if clusters.tree is not None:
        np.testing.assert_array_equal(clusters.tree.cut(threshold=clusters.threshold), clusters.labels)
    rest = np.setdiff1d(np.arange(400), rows)
    assert not set(clusters.assign(points[rest])) & set(clusters.labels[rows])
    alone = hr.cluster(points[rest], method=method, threshold=0.2)
    among = hr.cluster(holed, method=method, threshold=0.2, zeros="singletons")
    if method != "assign":  # whose subset is drawn from another pool then
        assert len(np.unique(np.column_stack([alone.labels, among.labels[rest]]), axis=0)) == alone.n_clusters


def test_zeros_in_a_subset_of_rows(points):
    holed = points.copy()
    holed[[4, 5]] = 0
    clusters = hr.cluster(holed, method="assign", subset=np.arange(100), zeros="singletons")
    assert clusters.sizes[clusters.labels[[4, 5]]].tolist() == [1, 1]


def test_too_many_zeros_for_the_average_size(points):
    holed = points.copy()
    holed[:60] = 0
    with pytest.raises(hr.InputError, match="60 of 400 rows are all zero"):
        hr.cluster(holed, average_size=10, zeros="singletons")
    assert hr.cluster(np.zeros((3, 2)), average_size=1, zeros="singletons").labels.tolist() == [0, 1, 2]
    with pytest.raises(hr.InputError, match="unknown zeros"):
        hr.cluster(points, zeros="drop")


def test_zeros_are_points_like_others_for_squared_distance(points):
    holed = points.copy()
    holed[:5] = 0
    clusters = hr.cluster(holed, metric="sqeuclidean", zeros="singletons")
    assert len(set(clusters.labels[:5])) == 1
