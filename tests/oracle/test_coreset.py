"""Greedy k-center against the plain loop in float64."""

import numpy as np
import pytest

import hedgerow as hr
import reference
from hedgerow import machine as threads
from hedgerow.strategies import View, centers, coreset


def scale(points, metric):
    return points / np.linalg.norm(points, axis=1, keepdims=True) if metric == "cosine" else points


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_the_sequence_is_that_of_the_plain_loop(metric):
    for seed in range(300):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(2, 60)), int(rng.integers(2, 40))
        points = rng.normal(size=(n, d)).astype(np.float32)
        labeled = rng.random(n) < rng.choice([0.05, 0.5])
        unlabeled = np.flatnonzero(~labeled)
        k = int(rng.integers(0, len(unlabeled) + 1))
        batch = hr.select(hr.CoreSet(metric=metric), k, embeddings=points, labeled=labeled, seed=seed)
        if k == 0:
            assert len(batch) == 0
            continue
        wide = scale(points.astype(np.float64), metric)
        first = None if labeled.any() else int(np.flatnonzero(unlabeled == batch.rows[0])[0])
        expected = reference.farthest_first(wide[unlabeled], wide[labeled], k, first)
        assert batch.rows.tolist() == unlabeled[expected].tolist()


def test_ties_go_to_the_lowest_row():
    points = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], np.float32)
    batch = hr.select("coreset", 4, embeddings=points, labeled=[0])
    assert batch.rows.tolist() == reference_rows(points)


def reference_rows(points):
    return [1 + row for row in reference.farthest_first(points[1:].astype(np.float64), points[:1], 4)]


def test_the_radius_is_within_twice_the_best():
    rng = np.random.default_rng(0)
    centers = 100 * rng.normal(size=(8, 5))
    points = (centers[rng.integers(0, 8, 400)] + rng.uniform(-1, 1, (400, 5))).astype(np.float32)
    rows = hr.select("coreset", 8, embeddings=points).rows
    radius = np.sqrt(((points[:, None] - points[rows][None]) ** 2).sum(axis=2).min(axis=1).max())
    assert radius <= 2 * np.sqrt(5)  # the eight true centers reach every point within sqrt(5)


HARD = (
    lambda rng: rng.normal(size=(700, 20)),
    lambda rng: 1000 + rng.normal(size=(700, 20)),
    lambda rng: 50 + 1e-3 * rng.normal(size=(700, 20)),
    lambda rng: rng.normal(size=(700, 20)) * 10.0 ** rng.integers(-3, 4, (700, 1)),  # shelves of any reach
    lambda rng: np.vstack([rng.normal(size=(7, 20))[rng.integers(0, 7, 600)], rng.normal(size=(100, 20))]),  # copies
    lambda rng: rng.integers(0, 5, (700, 12)),  # ties everywhere
)


@pytest.mark.parametrize("at_once", [1, 30, 4096])
def test_many_labeled_rows_are_the_first_centers(at_once, monkeypatch):
    """Met all at once by products of matrices, or shelf by shelf; also where float32 products are all rounding."""
    monkeypatch.setattr(centers, "AT_ONCE", at_once)
    for seed, make in enumerate(HARD):
        points = make(np.random.default_rng(seed)).astype(np.float32)
        labeled = np.arange(700) < 600
        wide = points.astype(np.float64)
        batch = hr.select("coreset", 60, embeddings=points, labeled=labeled, seed=seed)
        expected = reference.farthest_first(wide[600:], wide[:600], 60)
        assert batch.rows.tolist() == [600 + row for row in expected]


@pytest.mark.parametrize("at_once", [20, 4096])
def test_with_split_labels_every_part_is_a_pool_of_its_own(at_once, monkeypatch):
    monkeypatch.setattr(centers, "AT_ONCE", at_once)
    points = np.random.default_rng(0).normal(size=(500, 6)).astype(np.float32)
    view = View(500, np.arange(500) < 300, embeddings=points)
    shares, parts = [], []
    shelve, split = centers.shelve, coreset.split
    monkeypatch.setattr(centers, "shelve", lambda points, team: shelve(shares.append(points) or points, team))
    monkeypatch.setattr(coreset, "split", lambda *given: parts.extend(split(*given)) or parts)
    picked = hr.CoreSet(partitions=4, split_labeled=True)(view, 42, np.random.default_rng(5))
    assert sorted(map(tuple, np.vstack(shares))) == sorted(map(tuple, points[:300]))
    assert [len(share) for share in shares] == [75] * 4
    wide, expected = points.astype(np.float64), []
    for share, part in zip(shares, parts, strict=True):
        places = reference.farthest_first(wide[part.rows], share.astype(np.float64), part.share)
        expected += part.rows[places].tolist()
    assert picked.tolist() == expected


def test_parts_without_a_labeled_row_begin_at_random():
    points = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    batch = hr.select(hr.CoreSet(partitions=4, split_labeled=True), 12, embeddings=points, labeled=[3, 7])
    assert len(set(batch.rows.tolist()) - {3, 7}) == 12


@pytest.mark.parametrize("size", [2, 3])
def test_stretches_and_threads_change_nothing(size, monkeypatch):
    rng = np.random.default_rng(size)
    points = np.round(rng.normal(size=(500, 3)), 1).astype(np.float32)  # many ties
    pool = centers.Points(points, np.arange(500))
    given = points[rng.choice(500, 5)]
    sequences = []
    for least, count in ((1000, 1), (20, size), (1, 5)):
        monkeypatch.setattr(centers, "LEAST_STRETCH", least)
        with threads.team(count) as team:
            some, none = centers.shelve(given, team), centers.shelve(given[:0], team)
            sequences.append(centers.choose_centers(pool, some, 300, -1, 0.0, team).tolist())
            sequences.append(centers.choose_centers(pool, none, 300, 7, 0.0, team)[1:].tolist())
    assert sequences[0] == sequences[2] == sequences[4]
    assert sequences[1] == sequences[3] == sequences[5]
    wide = points.astype(np.float64)
    plain = reference.farthest_first(wide, given.astype(np.float64), len(sequences[0]))
    assert sequences[0] == plain


def test_the_radius_is_the_largest_distance():
    points = np.array([[0, 0], [3, 4], [10, 0]], np.float32)
    with threads.team(1) as team:
        assert centers.measure_radius(centers.Points(points, np.arange(3)), points[:1], team) == 10
