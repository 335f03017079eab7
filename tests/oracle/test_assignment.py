"""Assignment by brute force: distances exactly at the threshold, equally near clusters, thresholds finer than float32.

Whole numbers and decimals are compared as fractions, so that what is equal is known."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.clustering import assignment

TRIPLES = [(3, 4, 5), (5, 12, 13), (8, 15, 17), (7, 24, 25), (20, 21, 29)]  # of Pythagoras: angles with known cosines
RULES = ("average", "centroid")


def assign_exactly(points, part, rows, threshold, rule):
    """Labels (n,) of points in fractions: those of the subset are given, the others go to the nearest cluster."""
    clusters = [[points[row] for row in rows[part == c]] for c in range(part.max() + 1)]
    labels, count = np.empty(len(points), int), len(clusters)
    labels[rows] = part
    for i in np.setdiff1d(np.arange(len(points)), rows):
        distances = [measure(points[i], members, rule) for members in clusters]
        labels[i] = np.argmin(distances)  # the lowest of equal ones
        if distances[labels[i]] > threshold:
            labels[i], count = count, count + 1
    return assignment.number_clusters(labels)


def measure(point, members, rule):
    """The squared distance of a point to a cluster."""
    if rule == "average":
        return Fraction(sum(square(point, member) for member in members), len(members))
    return square(point, [Fraction(sum(column), len(members)) for column in zip(*members, strict=True)])


def square(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def draw_case(rng):
    """Whole numbers in few places, a subset, and a threshold that some distance equals, mostly."""
    n, d = rng.integers(3, 14), rng.integers(1, 4)
    points = [[int(x) for x in row] for row in rng.integers(0, rng.integers(2, 12), (n, d))]
    rows = np.sort(rng.choice(n, rng.integers(2, n), replace=False))
    return points, rows


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("unit", [Fraction(1), Fraction(1, 10), Fraction(1000)])
def test_whole_numbers_and_decimals(rule, unit):
    rng = np.random.default_rng(0)
    joined = 0
    for _ in range(250):
        points, rows = draw_case(rng)
        given = {"metric": "sqeuclidean", "threads": 1}
        pool = np.array([[float(unit * x) for x in row] for row in points])
        start = Fraction(int(rng.integers(0, 12)))
        part = hr.cluster(pool[rows], threshold=float(start * unit**2), method="certified", slack=1, **given).labels
        clusters = [[points[row] for row in rows[part == c]] for c in range(part.max() + 1)]
        other = points[rng.choice(np.setdiff1d(np.arange(len(points)), rows))]
        threshold = min(measure(other, members, rule) for members in clusters)  # exactly that of some point
        found = hr.cluster(
            pool, threshold=float(threshold * unit**2), method=hr.Assign(rows, slack=1, join_by=rule), **given
        )
        part = hr.cluster(pool[rows], threshold=float(threshold * unit**2), method="certified", slack=1, **given).labels
        expected = assign_exactly(points, part, rows, threshold, rule)
        np.testing.assert_array_equal(found.labels, expected, f"{points}, {rows}, {threshold}")
        joined += found.n_clusters < len(set(part)) + len(points) - len(rows)
    assert joined > 100


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("offset", [0, 1000, 10**6])
def test_decimals_far_from_zero(rule, offset):
    rng = np.random.default_rng(5)
    for _ in range(100):
        steps, start = rng.integers(1, 60), offset * 10 + rng.integers(0, 50)
        pool = np.array([[start], [start + 1000], [start + steps], [start - steps - 1]]) / 10
        given = {"threshold": (steps / 10) ** 2, "metric": "sqeuclidean"}
        found = hr.cluster(pool, method=hr.Assign([0, 1], slack=1, join_by=rule), **given)
        assert found.labels.tolist() == [0, 1, 0, 2]
        assert hr.cluster(pool[:2], **given).assign(pool).tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize("rule", RULES)
def test_angles_of_pythagorean_triples(rule):
    for a, b, c in TRIPLES:
        for p, q in ((a, b), (b, a)):
            threshold = float(1 - Fraction(p, c))
            pool = np.array([[0.7, 0], [-1, 0], [1.3 * p, 1.3 * q]])
            given = {"threshold": threshold, "method": hr.Assign([0, 1], slack=1, join_by=rule)}
            assert hr.cluster(pool, **given).labels.tolist() == [0, 1, 0]
            made = hr.cluster(pool[:2], threshold=threshold)
            assert made.assign([[p, q], [p, -q], [3 * p, 3.001 * q]]).tolist() == [0, 0, 2]


@pytest.mark.parametrize("rule", RULES)
def test_thresholds_finer_than_float32(rule):
    rng = np.random.default_rng(1)
    for fine in (1e-2, 1e-3, 1e-4):
        places = fine * rng.integers(0, 100, 60)[:, None]
        pool = np.concatenate([[[0.0], [40 * fine], [1e5]], places])
        found = hr.cluster(
            pool, threshold=(10.3 * fine) ** 2, metric="sqeuclidean", method=hr.Assign([0, 1, 2], slack=1, join_by=rule)
        )
        steps = np.rint(places[:, 0] / fine)
        expected = np.where(steps < 20.5, 0, 1)  # 20 is as far from 0 as from 40
        alone = np.minimum(steps, np.abs(steps - 40)) > 10.3
        np.testing.assert_array_equal(found.labels[3:][~alone], expected[~alone])
        assert (found.sizes[found.labels[3:][alone]] == 1).all()


def test_near_copies_of_unit_vectors():
    rng = np.random.default_rng(2)
    pool = rng.normal(size=(31, 64))
    pool /= np.linalg.norm(pool, axis=1, keepdims=True)
    for _ in range(50):
        copy = pool[0] + 10**-4.5 * rng.normal(size=64)
        distance = ((pool[0] - copy / np.linalg.norm(copy)) ** 2).sum() / 2
        for share, count in ((0.99, 32), (1.01, 31)):
            made = hr.cluster(np.vstack([pool, copy]), threshold=share * distance, method=hr.Assign(np.arange(31)))
            assert made.n_clusters == count


def test_distances_are_those_of_float64():
    rng = np.random.default_rng(3)
    pool, new = rng.normal(size=(300, 24)), rng.normal(size=(100, 24))
    for metric in ("cosine", "sqeuclidean"):
        made = hr.cluster(pool, metric=metric, average_size=3)
        rows, others = pool, new
        if metric == "cosine":
            rows, others = (x / np.linalg.norm(x, axis=1, keepdims=True) / np.sqrt(2) for x in (pool, new))
        distance = ((others[:, None] - rows) ** 2).sum(axis=2)
        mean = np.column_stack([distance[:, made.labels == c].mean(axis=1) for c in range(made.n_clusters)])
        np.testing.assert_allclose(made.find_nearest(new).distances, mean.min(axis=1), rtol=1e-12)


def make_ties(rng, metric):
    """Clusters of one whole number each, and new points many of which are as far from one as from another."""
    pool = np.unique(rng.integers(-3, 4, (rng.integers(20, 200), rng.integers(2, 12))), axis=0).astype(float)
    pool = pool[pool.any(axis=1)]
    made = replace(hr.cluster(pool, threshold=0, metric=metric, method="exact"), threshold=1e9)
    pool = pool[np.unique(made.labels, return_index=True)[1]]
    i, j = rng.integers(0, len(pool), (2, 60))
    new = np.concatenate([pool[i] + pool[j], rng.integers(-3, 4, (60, pool.shape[1]))])
    return made, pool, new[new.any(axis=1)] / 2


def test_of_equally_near_clusters_the_lowest_number_is_taken():
    for seed in range(40):
        made, pool, new = make_ties(np.random.default_rng(seed), "sqeuclidean")
        distance = ((new[:, None] - pool) ** 2).sum(axis=2)
        np.testing.assert_array_equal(made.assign(new), distance.argmin(axis=1))
    for seed in range(40):
        made, pool, new = make_ties(np.random.default_rng(seed), "cosine")
        cosine = (new @ pool.T) / np.linalg.norm(pool, axis=1)
        nearly = cosine >= cosine.max(axis=1, keepdims=True) - 1e-9  # whole numbers that differ differ by more
        np.testing.assert_array_equal(made.assign(new), nearly.argmax(axis=1))


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
@pytest.mark.parametrize("few", [8192, 10])
def test_a_label_does_not_depend_on_the_batch(metric, few, monkeypatch):
    monkeypatch.setattr(assignment, "FEW", few)
    monkeypatch.setattr(assignment, "PROBES", 3)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        made, _, new = make_ties(rng, metric)
        whole, order = made.find_nearest(new), rng.permutation(len(new))
        for batch in (order, order[:7], np.repeat(order[:3], 50), *order[:40, None]):
            found = made.find_nearest(new[batch])
            np.testing.assert_array_equal(found.labels, whole.labels[batch])
            np.testing.assert_array_equal(found.distances, whole.distances[batch])


def test_cells_tied_at_the_last_probe(monkeypatch):
    """Rows in the middle between the centers of cells search the same cells in every batch."""
    monkeypatch.setattr(assignment, "FEW", 10)
    monkeypatch.setattr(assignment, "PROBES", 1)
    corners = np.array(np.meshgrid(*[[-8.0, 8.0]] * 4)).reshape(4, -1).T
    pool = (corners[:, None] + 0.5 * np.eye(4)).reshape(-1, 4)
    made = hr.cluster(pool, threshold=0, metric="sqeuclidean")
    made = replace(made, threshold=1e9)
    rng = np.random.default_rng(0)
    new = rng.choice([-8.0, 0.0, 8.0], (200, 4)) + 0.125 + 1e-9 * rng.normal(size=(200, 4))
    single = [made.assign(row[None])[0] for row in new]
    np.testing.assert_array_equal(made.assign(new), single)
    np.testing.assert_array_equal(made.assign(np.repeat(new, 9, axis=0))[::9], single)


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_centroids_in_float32_still_serve(metric, tmp_path):
    """As earlier versions saved them: thresholds and ties are decided as far as float32 goes."""
    rng = np.random.default_rng(4)
    pool, new = rng.normal(size=(400, 8)), rng.normal(size=(300, 8))
    made = hr.cluster(pool, metric=metric, average_size=4)
    held = made.centroids
    older = replace(held, means=held.means.astype(np.float32), spread=held.spread.astype(np.float32))
    replace(made, centroids=older).save(tmp_path / "c.parquet", centroids=True)
    loaded = hr.Clusters.load(tmp_path / "c.parquet")
    assert loaded.centroids.means.dtype == np.float32
    found, expected = loaded.find_nearest(new), made.find_nearest(new)
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-5)


def test_one_value_far_away_does_not_widen_the_threshold_of_centroids_in_float32():
    pool = np.array([[0.0], [1.1], [1e5]])
    made = hr.cluster(pool, threshold=0, metric="sqeuclidean")
    held = made.centroids
    older = replace(held, means=held.means.astype(np.float32), spread=held.spread.astype(np.float32))
    assert replace(made, centroids=older).assign([*pool, [0.2], [1.0]]).tolist() == [0, 1, 2, 3, 4]
    assert replace(made, centroids=older, threshold=0.01).assign([[0.05], [0.2], [1.0]]).tolist() == [0, 3, 1]


def test_copies_of_a_large_cluster_of_copies_join_it():
    pool = np.repeat([[0.1, 0.7, 1e3 / 3], [0.3, 0.9, 0.2]], [100_000, 3], axis=0)
    made = hr.cluster(pool, threshold=0, metric="sqeuclidean", method="certified")
    assert made.n_clusters == 2
    assert made.assign([*pool[[0, -1]], [0.1, 0.7, 333.3334]]).tolist() == [0, 1, 2]
