"""Diameters of version spaces against trying everything, clusters on a line against the textbook algorithm."""

from itertools import combinations

import numpy as np
import pytest

import hedgerow as hr
import reference
from hedgerow.theory.cones import EXACT_DIMENSION, find_farthest, list_corners, make_cone, measure_diameter
from hedgerow.theory.distributions import draw_directions, make_distribution, measure_angle
from hedgerow.theory.hyperplanes import make_state
from hedgerow.theory.rectangles import STARTS, find_largest, measure_difference, place_targets, search_largest
from hedgerow.theory.samplers import cut_line
from hedgerow.theory.thresholds import draw_neighbors, measure_gaps, measure_line


def test_clusters_on_a_line_are_those_of_the_textbook():
    for seed in range(120):
        rng = np.random.default_rng(seed)
        values = rng.random(int(rng.integers(1, 30))) ** rng.choice([1, 4])
        threshold = rng.random() * 0.3
        clusters, _ = reference.average_linkage(values[:, None], "euclidean", threshold)
        labels = cut_line(values, threshold)
        assert sorted(map(sorted, clusters)) == sorted(np.flatnonzero(labels == c).tolist() for c in set(labels))


def test_clusters_on_a_line_are_those_of_linkage():
    for seed in range(20):
        values = np.random.default_rng(seed).random(600)
        tree = hr.linkage(values[np.argsort(values), None], metric="euclidean")
        for threshold in (0.0, 0.001, 0.01, 0.1, 1.0):
            np.testing.assert_array_equal(cut_line(np.sort(values), threshold), tree.cut(threshold=threshold))


def test_gaps_are_the_diameters_of_the_version_spaces_of_a_fine_grid():
    grid = np.linspace(0, 1, 401)
    for seed in range(4):
        picked = np.random.default_rng(seed).random(6)
        widths = []
        for true in grid[:-1]:
            space = reference.version_space_of_thresholds(picked, true, grid)
            widths.append(max(space) - min(space))
        largest, mean = measure_gaps(picked)
        assert max(widths) == pytest.approx(largest, abs=0.006)
        assert np.mean(widths) == pytest.approx(mean, abs=0.006)


def test_two_rectangles_differ_as_often_as_points_say():
    rng = np.random.default_rng(0)
    for d in (1, 2, 5):
        points = rng.random((200_000, d))
        v, w = rng.random((2, d)) ** 0.5
        differ = (points <= v).all(axis=1) != (points <= w).all(axis=1)
        assert measure_difference(v, w) == pytest.approx(differ.mean(), abs=0.005)


@pytest.mark.parametrize(("d", "most"), [(1, 12), (2, 6), (3, 2)])
def test_the_largest_nested_diameter_is_found_and_is_at_least_half_of_the_largest(d, most):
    for seed in range(12):
        rng = np.random.default_rng([seed, d])
        points = rng.random((int(rng.integers(1, most + 1)), d))
        largest, nested = reference.rectangle_diameters(points)
        assert find_largest(points) == pytest.approx(nested)
        assert search_largest(points, rng) == pytest.approx(nested)
        assert nested - 1e-12 <= largest <= 2 * nested + 1e-12


def test_of_points_on_the_axes_the_largest_difference_is_nested():
    largest, nested = reference.rectangle_diameters(place_targets(2, 6))
    assert largest == pytest.approx(nested)


@pytest.mark.parametrize(("d", "k"), [(2, 300), (3, 60), (4, 20)])
def test_the_search_finds_nearly_the_largest(d, k):
    shares = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        points = rng.random((k, d))
        shares.append(search_largest(points, rng) / find_largest(points))
    assert max(shares) <= 1 + 1e-12
    assert np.mean(shares) > 0.99


def test_in_the_plane_the_largest_difference_is_hardly_larger_than_the_nested_one():
    shares = [
        np.divide(*reference.rectangle_diameters(np.random.default_rng(seed).random((20, 2)))) for seed in range(10)
    ]
    assert min(shares) >= 1
    assert np.mean(shares) < 1.1


def test_in_eight_dimensions_many_more_starts_find_little_more():
    shares = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        points = rng.random((100, 8))
        shares.append(search_largest(points, rng) / search_largest(points, rng, starts=30 * STARTS))
    assert np.mean(shares) > 0.95


@pytest.mark.parametrize("name", ["logistic", "cube"])
def test_the_two_separators_with_the_largest_angle_differ_nearly_most(name):
    law = make_distribution(name, 4)
    shares = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        cone = make_state(law, draw_directions(1, 4, rng)[0], rng).cone
        corners = cone.lift(list_corners(cone))
        most = max(law.measure_disagreement(*pair).value for pair in combinations(corners, 2))
        shares.append(most / law.measure_disagreement(*measure_diameter(cone).pair).value)
    assert min(shares) >= 1
    assert max(shares) < 1.05


@pytest.mark.parametrize("d", [9, 10])
def test_ascents_find_nearly_the_largest_angle_of_all_corners(d):
    assert d - 1 > EXACT_DIMENSION
    shares = []
    for seed in range(6):
        rng = np.random.default_rng([d, seed])
        truth = draw_directions(1, d, rng)[0]
        points = make_distribution("gaussian", d).draw(16 * d, rng)
        cone = make_cone(points, np.sign(points @ truth))
        found = measure_diameter(cone)
        largest = measure_angle(*find_farthest(cone.lift(list_corners(cone))))
        assert found.low <= largest * (1 + 1e-6)
        assert largest <= found.high * (1 + 1e-6)
        shares.append(found.low / largest)
    assert np.mean(shares) > 0.98
    assert min(shares) > 0.85


@pytest.mark.parametrize(("k", "n"), [(5, 40), (50, 500), (30, 900)])
def test_points_next_to_the_quantiles_are_as_if_all_had_been_drawn(k, n):
    trials = 2000
    rng = np.random.default_rng(k)
    whole = measure_line(rng, sampler="quantiles", k=k, n=n, trials=trials)
    drawn = [measure_gaps(draw_neighbors(n, k, rng)) for _ in range(trials)]
    for place, name in enumerate(("largest", "mean")):
        ours, theirs = np.array([one[place] for one in drawn]), np.array([row[name] for row in whole])
        error = np.sqrt((ours.var() + theirs.var()) / trials)
        assert abs(ours.mean() - theirs.mean()) < 4 * error
        assert abs(np.std(ours) / np.std(theirs) - 1) < 0.1
