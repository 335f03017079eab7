import numpy as np
import pytest

import hedgerow as hr
from hedgerow import shards
from hedgerow.clustering import assignment


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(30, 8))
    return (centers[rng.integers(0, 30, 600)] + 0.2 * rng.normal(size=(600, 8))).astype(np.float32)


def average_distances(points, clusters, new):
    """The mean distance (m, n_clusters) of each new point to the members of each cluster, from all pairs."""
    from scipy.spatial.distance import cdist

    distance = cdist(new.astype(np.float64), points.astype(np.float64), clusters.metric)
    return np.column_stack([distance[:, clusters.labels == c].mean(axis=1) for c in range(clusters.n_clusters)])


SUBSETS = {"rows": np.arange(0, 600, 3), "mask": np.arange(600) % 3 == 0, "fraction": 0.4, "all": 1.0, "one": [7]}


@pytest.mark.parametrize("subset", SUBSETS.values(), ids=SUBSETS)
@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_average_size_is_reached(points, subset, metric):
    for asked in (1, 2.5, 10, 600):
        clusters = hr.cluster(points, method="assign", subset=subset, metric=metric, average_size=asked)
        assert clusters.average_size >= asked
        assert np.unique(clusters.labels).tolist() == list(range(clusters.n_clusters))
        assert (np.diff(np.unique(clusters.labels, return_index=True)[1]) > 0).all()


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_every_other_point_goes_to_its_nearest_cluster_or_stays_alone(points, metric):
    rows = SUBSETS["rows"]
    rest = np.setdiff1d(np.arange(600), rows)
    clusters = hr.cluster(points, method="assign", subset=rows, metric=metric, threshold=0.3)
    part = hr.cluster(points[rows], method="certified", metric=metric, threshold=0.3)
    pairs = np.unique(np.column_stack([part.labels, clusters.labels[rows]]), axis=0)
    assert len(pairs) == part.n_clusters
    distance = average_distances(points[rows], part, points[rest])
    nearest = pairs[distance.argmin(axis=1), 1]
    alone = distance.min(axis=1) > 0.3
    assert alone.any()
    assert not alone.all()
    np.testing.assert_array_equal(clusters.labels[rest][~alone], nearest[~alone])
    assert (clusters.sizes[clusters.labels[rest][alone]] == 1).all()


def centroid_distances(points, clusters, new):
    """The distance (m, n_clusters) of each new point to the centroid of each cluster, as in the paper."""
    from scipy.spatial.distance import cdist

    rows = points.astype(np.float64)
    if clusters.metric == "cosine":
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    centroids = [rows[clusters.labels == c].mean(axis=0) for c in range(clusters.n_clusters)]
    return cdist(new.astype(np.float64), centroids, clusters.metric)


@pytest.mark.parametrize(
    ("metric", "threshold"), [("cosine", 0.1), ("cosine", 0.3), ("sqeuclidean", 0.4), ("sqeuclidean", 1.0)]
)
def test_points_may_join_by_the_distance_to_the_centroid(points, metric, threshold):
    rows = SUBSETS["rows"]
    rest = np.setdiff1d(np.arange(600), rows)
    given = {"metric": metric, "threshold": threshold}
    clusters = hr.cluster(points, method=hr.Assign(rows, join_by="centroid"), **given)
    part = hr.cluster(points[rows], method="certified", **given)
    pairs = np.unique(np.column_stack([part.labels, clusters.labels[rows]]), axis=0)
    assert len(pairs) == part.n_clusters
    distance = centroid_distances(points[rows], part, points[rest])
    alone = distance.min(axis=1) > threshold
    nearest = pairs[distance.argmin(axis=1), 1]
    np.testing.assert_array_equal(clusters.labels[rest][~alone], nearest[~alone])
    assert (clusters.sizes[clusters.labels[rest][alone]] == 1).all()
    average = hr.cluster(points, method="assign", subset=rows, join_by="average", **given)
    assert (average.labels != clusters.labels).any()
    assert average.n_clusters >= clusters.n_clusters  # a centroid is never farther than the members are on average


@pytest.mark.parametrize(("join_by", "labels"), [("average", [0, 0, 1, 2]), ("centroid", [0, 0, 1, 0])])
def test_the_centroid_of_two_points_is_nearer_than_they_are_on_average(join_by, labels):
    """2.9 is (2.9 - 1)^2 = 3.61 from the centroid of 0 and 2, and (8.41 + 0.81) / 2 = 4.61 from them on average."""
    given = {"threshold": 4, "metric": "sqeuclidean", "method": "assign", "subset": [0, 1, 2], "slack": 1}
    assert hr.cluster([[0], [2], [5], [2.9]], join_by=join_by, **given).labels.tolist() == labels


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_new_points_join_by_the_rule_of_their_clusters_also_after_loading(points, metric, tmp_path):
    given = {"subset": 0.3, "metric": metric, "average_size": 6}
    clusters = hr.cluster(points, method="assign", join_by="centroid", **given)
    assert clusters.average_size >= 6
    new = points[:200] + np.float32(0.05)
    distance = centroid_distances(points, clusters, new)
    found = clusters.find_nearest(new)
    np.testing.assert_allclose(found.distances, distance.min(axis=1), rtol=1e-4, atol=1e-6)
    clear = np.abs(distance.min(axis=1) - clusters.threshold) > 1e-5
    np.testing.assert_array_equal(found.joined[clear], (distance.min(axis=1) <= clusters.threshold)[clear])
    np.testing.assert_array_equal(found.labels[found.joined], distance.argmin(axis=1)[found.joined])
    clusters.save(tmp_path / "clusters.parquet", centroids=True)
    loaded = hr.Clusters.load(tmp_path / "clusters.parquet")
    assert (loaded.join_by, loaded.settings()["join_by"]) == ("centroid", "centroid")
    np.testing.assert_array_equal(loaded.assign(new), found.labels)


def test_a_centroid_without_a_direction_is_never_the_nearest():
    pool = np.array([[1, 0], [-1, 0], [0, 1], [0.1, 1]])
    clusters = hr.cluster(pool, method="assign", subset=[0, 1, 2], join_by="centroid", threshold=2.0)
    assert clusters.n_clusters == 1  # a threshold that holds everything
    assert clusters.assign([[1, 0.1]]).tolist() == [0]
    opposite = hr.cluster(pool[:2], method="assign", subset=1.0, join_by="centroid", threshold=2.0)
    assert opposite.assign(pool).tolist() == [1, 2, 3, 4]


SQUARED, CENTROID = {"metric": "sqeuclidean"}, {"join_by": "centroid"}
EXACT = {  # pool, threshold, rows of the subset, options, labels
    "an angle at the threshold": ([[1, 0], [-1, 0], [3, 4]], 0.4, [0, 1], CENTROID, [0, 1, 0]),
    "a decimal at the threshold": ([[4.8], [104.8], [7.1]], 5.29, [0, 1], SQUARED, [0, 1, 0]),
    "3 is 8/3 from 1/3": ([[0], [0], [1], [40], [3]], 64 / 9, [0, 1, 2, 3], SQUARED | CENTROID, [0, 0, 0, 1, 0]),
    "beyond a threshold that float32 cannot tell from 0":
        ([[0.0], [1e5], [1e-3], [2e-3], [3e-3]], 1e-7, [0, 1], SQUARED | CENTROID, [0, 1, 2, 3, 4]),
    "5 from both": ([[3, 1], [2, 4], [1, 2], [0, 3], [1, 0]], 5, [0, 1], SQUARED | CENTROID, [0, 1, 0, 1, 0]),
}  # fmt: skip


@pytest.mark.parametrize(("pool", "threshold", "subset", "options", "labels"), EXACT.values(), ids=EXACT)
def test_distances_at_the_threshold_and_equal_ones(pool, threshold, subset, options, labels):
    made = hr.cluster(pool, method="assign", threshold=threshold, subset=subset, slack=1, **options)
    assert made.labels.tolist() == labels


def test_new_points_at_the_threshold_and_equally_near():
    made = hr.cluster([[1, 0], [-1, 0]], threshold=0.4)
    assert made.assign([[3, 4]]).tolist() == [0]
    made = hr.cluster([[0, 4], [3, 4], [5, 0]], threshold=8.1, metric="sqeuclidean")
    for count in (1, 2, 3, 5, 9, 17):
        assert made.assign([[1.5, 4]] * count).tolist() == [0] * count


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_equally_near_clusters_on_an_engine(metric, engines, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "RANGE_BYTES", 1 << 18)
    rng = np.random.default_rng(0)
    pool = rng.integers(1, 4, (20_000, 4)).astype(np.float32)
    np.save(tmp_path / "pool.npy", pool)
    given = {"method": "assign", "subset": np.arange(200), "metric": metric, "threshold": 0.01}
    made = hr.cluster(pool, **given)
    assert (
        made.labels.tobytes()
        == hr.cluster(tmp_path / "pool.npy", **given, engine=engines("processes:2")).labels.tobytes()
    )
    np.save(tmp_path / "new.npy", pool + 0.5)
    found = made.find_nearest(tmp_path / "new.npy", engine=engines("processes:2"))
    expected = made.find_nearest(pool + 0.5)
    assert found.labels.tobytes() == expected.labels.tobytes()
    assert found.distances.tobytes() == expected.distances.tobytes()


def test_a_subset_of_all_is_certified_linkage(points):
    whole = hr.cluster(points, method="assign", subset=1.0)
    certified = hr.cluster(points, method="certified")
    np.testing.assert_array_equal(whole.labels, certified.labels)
    assert whole.threshold == certified.threshold


def test_the_reach_is_the_smallest_that_does(points):
    clusters = hr.cluster(points, method="assign", subset=0.3, average_size=6)
    lone = clusters.sizes.tolist().count(1)
    assert clusters.n_clusters == 100
    assert lone > 0


def test_the_default_subset_is_drawn_by_the_seed(points):
    first, again, other = (hr.cluster(points, method="assign", seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.labels, again.labels)
    assert (first.labels != other.labels).any()
    np.testing.assert_array_equal(
        first.labels, hr.cluster(points, method="assign", subset=assignment.choose_rows(0.1, 600, 1), seed=1).labels
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"subset": 0.0}, "greater than 0"),
        ({"subset": 1.5}, "at most 1"),
        ({"subset": True}, "mask|whole row numbers"),
        ({"subset": "half"}, "must be a number"),
        ({"subset": np.zeros(600, bool)}, "no rows"),
        ({"subset": np.zeros(7, bool)}, r"mask of shape \(7,\)"),
        ({"subset": [3, 3]}, "more than once"),
        ({"subset": [600]}, "row 600"),
        ({"subset": []}, "no rows"),
        ({"join_by": "centroids"}, "unknown join_by 'centroids': did you mean 'centroid'"),
        ({"rounds": 2}, "goes with method='multiround'"),
        ({"metric": "euclidean"}, 'not with "euclidean"'),
        ({"threshold": -1}, "at least 0"),
        ({"neighbors": 0}, "neighbors"),
        ({"threads": 0}, "threads"),
    ],
)
def test_bad_input(points, arguments, message):
    with pytest.raises(hr.InputError, match=message):
        hr.cluster(points, method="assign", **arguments)


@pytest.mark.parametrize("method", ["exact", "certified", "multiround"])
def test_a_subset_goes_with_assign_only(points, method):
    with pytest.raises(hr.InputError, match="subset goes with method='assign'"):
        hr.cluster(points, method=method, subset=0.1)


@pytest.mark.parametrize("rounds", [0, 1.5, "two"])
def test_bad_rounds(points, rounds):
    with pytest.raises(hr.InputError, match="rounds"):
        hr.cluster(points, method="multiround", rounds=rounds)


def test_cells_find_what_comparing_all_finds(points, monkeypatch):
    rng = np.random.default_rng(5)
    clusters = hr.cluster(rng.normal(size=(6000, 8)), method="certified", average_size=2)
    new = rng.normal(size=(2000, 8))
    exact = clusters.assign(new)
    monkeypatch.setattr(assignment, "FEW", 1000)
    found = clusters.assign(new)
    joined = exact < clusters.n_clusters
    assert joined.sum() > 500
    assert (found[joined] == exact[joined]).mean() > 0.97
    assert (found[~joined] >= clusters.n_clusters).all()
