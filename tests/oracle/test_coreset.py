"""Greedy k-center against the plain loop in float64."""

import numpy as np
import pytest

import hedgerow as hr
import reference


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
