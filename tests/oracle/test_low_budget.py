"""The strategies for low budgets against their authors' definitions, as plain loops over small pools."""

import numpy as np
import pytest

import hedgerow as hr
import reference
from hedgerow import machine
from hedgerow.clustering import layout
from hedgerow.strategies import groups, typiclust
from hedgerow.strategies.points import open_points


def make_pool(seed, most=70):
    """Points in a few groups, some of them labeled."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(5, most)), int(rng.integers(2, 12))
    centers = 2 * rng.normal(size=(int(rng.integers(1, 6)), d))
    points = (centers[rng.integers(0, len(centers), n)] + rng.normal(size=(n, d))).astype(np.float32)
    labeled = rng.random(n) < rng.choice([0, 0.05, 0.4])
    labeled[0] = False
    return points, labeled, int(rng.integers(1, (~labeled).sum() + 1)), rng


def scale(points, metric):
    wide = points.astype(np.float64)
    return wide / np.linalg.norm(wide, axis=1, keepdims=True) if metric == "cosine" else wide


# TypiClust.


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_typiclust_visits_groups_as_its_authors_do(metric, monkeypatch):
    for seed in range(150):
        points, labeled, k, rng = make_pool(seed)
        made = rng.integers(0, rng.integers(1, 9), len(points))  # groups of any size, also empty ones
        order = np.concatenate([np.flatnonzero(labeled), np.flatnonzero(~labeled)])
        monkeypatch.setattr(groups, "group_rows", lambda *_, made=made, order=order: made[order].astype(np.int32))
        strategy = hr.TypiClust(neighbors=int(rng.integers(1, 8)), metric=metric)
        found = hr.select(strategy, k, embeddings=points, labeled=labeled).rows
        expected = reference.typiclust(scale(points, metric), made, labeled, k, strategy.neighbors)
        assert found.tolist() == expected


def test_there_are_as_many_groups_as_labels_up_to_the_limit(monkeypatch):
    asked = []
    found = groups.group_rows
    monkeypatch.setattr(groups, "group_rows", lambda *given: asked.append(given[2]) or found(*given))
    points = np.random.default_rng(0).normal(size=(100, 3))
    for k, most in ((5, 500), (20, 12), (90, 500)):
        hr.select(hr.TypiClust(most_groups=most), k, embeddings=points, labeled=np.arange(10))
    assert asked == [15, 12, 100]


def test_turns_are_those_of_a_round_robin():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        free = rng.integers(0, 6, rng.integers(1, 8))
        k = int(rng.integers(0, free.sum() + 1))
        plain = [group for turn in range(6) for group in range(len(free)) if free[group] > turn]
        assert typiclust.take_turns(free, k).tolist() == plain[:k]


def test_lists_by_cells_hold_nearly_all_neighbors_in_the_order_of_the_rows():
    rng = np.random.default_rng(0)
    points = (rng.normal(size=(60, 16))[rng.integers(0, 60, 6000)] + 0.3 * rng.normal(size=(6000, 16))).astype("f4")
    with machine.team(2) as team:
        exact = layout.search_rows(points, 10, team, exact_up_to=6000)
        by_cells = layout.search_rows(points, 10, team, exact_up_to=100)
    distances = ((points[:50, None] - points[None]) ** 2).sum(axis=2)
    distances[np.arange(50), np.arange(50)] = np.inf
    assert np.array_equal(np.sort(exact.ids[:50]), np.sort(np.argpartition(distances, 10, axis=1)[:, :10]))
    shared = [len(np.intersect1d(a, b)) for a, b in zip(exact.ids, by_cells.ids, strict=True)]
    assert np.mean(shared) > 9
    gaps = (points.astype(float) ** 2).sum(axis=1) / 2
    for row in range(0, 6000, 500):
        held = by_cells.ids[row][by_cells.ids[row] >= 0]
        exactly = gaps[row] + gaps[held] - points[held].astype(float) @ points[row].astype(float)
        assert by_cells.gaps[row, : len(held)] == pytest.approx(exactly, rel=1e-3, abs=1e-4)


# k-means.


def group(points, count, seed=0, threads=1, metric="euclidean"):
    with machine.team(threads) as team:
        vectors = open_points(points, metric, team)
        return groups.group_rows(vectors, np.arange(len(points)), count, np.random.default_rng(seed), team)


def sum_squares(points, labels):
    return sum(((points[labels == g] - points[labels == g].mean(axis=0)) ** 2).sum() for g in np.unique(labels))


def test_separate_groups_are_found():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 12, 600)
    points = (20 * rng.normal(size=(12, 5))[truth] + rng.normal(size=(600, 5))).astype(np.float32)
    labels = group(points, 12)
    assert len({(a, b) for a, b in zip(truth, labels, strict=True)}) == 12


@pytest.mark.parametrize(("count", "name"), [(3, "KMeans"), (60, "MiniBatchKMeans")])
def test_k_means_is_about_as_good_as_what_the_authors_use(count, name):
    cluster = pytest.importorskip("sklearn.cluster")
    points = np.random.default_rng(1).normal(size=(900, 4)).astype(np.float32)
    theirs = getattr(cluster, name)(count, n_init=10, random_state=0).fit(points)
    assert sum_squares(points, group(points, count)) < 1.05 * sum_squares(points, theirs.labels_)


def test_more_groups_than_distinct_points():
    points = np.repeat(np.eye(4, dtype=np.float32), 5, axis=0)
    assert len(np.unique(group(points, 15))) == 4


def test_large_pools_train_on_a_sample_and_threads_change_nothing(monkeypatch):
    monkeypatch.setattr(groups, "SAMPLE", 2)
    monkeypatch.setattr(groups, "LEAST_SAMPLE", 100)
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 40_000)
    points = (20 * rng.normal(size=(4, 5))[truth] + rng.normal(size=(40_000, 5))).astype(np.float32)
    labels = group(points, 4)
    assert len({(a, b) for a, b in zip(truth, labels, strict=True)}) == 4
    assert np.array_equal(labels, group(points, 4, threads=3))
