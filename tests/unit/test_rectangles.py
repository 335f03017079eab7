"""Rectangles with a corner at the origin: diameters worked out by hand, and the sampler of Theorem 4.2."""

import numpy as np
import pytest

from hedgerow.errors import InputError
from hedgerow.theory.rectangles import (
    RECTANGLES,
    AxisQuantiles,
    find_largest,
    measure_box,
    measure_cube,
    measure_difference,
    measure_on_axes,
    place_targets,
    search_largest,
)


def test_two_rectangles_differ_in_both_parts_outside_their_intersection():
    assert measure_difference([0.5, 0.5], [1.0, 0.5]) == pytest.approx(0.25)
    assert measure_difference([0.5, 1.0], [1.0, 0.5]) == pytest.approx(0.5 + 0.5 - 2 * 0.25)
    assert measure_difference([0.3], [0.3]) == 0


def test_the_corners_of_a_box_are_its_most_distant_members():
    assert measure_box([0.5, 0.4], [0.6, 0.5]) == pytest.approx(0.3 - 0.2)
    rng = np.random.default_rng(0)
    a, b = np.array([0.2, 0.5, 0.1]), np.array([0.6, 0.7, 0.9])
    members = a + (b - a) * rng.random((300, 3))
    assert max(measure_difference(v, w) for v in members[:100] for w in members) <= measure_box(a, b)
    assert measure_difference(a, b) == pytest.approx(measure_box(a, b))


def test_one_point_in_the_square():
    # The unit square minus [0, x]^2 is the largest: its two rectangles both hold the point.
    assert find_largest(np.array([[0.5, 0.5]])) == pytest.approx(0.75)
    # Near the far corner it is better to leave the point out: [0, 1] x [0, 0.9] against nothing.
    assert find_largest(np.array([[0.9, 0.9]])) == pytest.approx(0.9)


def test_on_a_line_it_is_the_largest_gap():
    points = np.array([[0.7], [0.2], [0.3]])
    assert find_largest(points) == pytest.approx(0.4)
    assert search_largest(points, np.random.default_rng(0)) == pytest.approx(0.4)


@pytest.mark.parametrize(("d", "k"), [(1, 7), (2, 10), (3, 12), (3, 13), (4, 12)])
def test_points_on_the_axes_leave_a_box_at_the_far_end(d, k):
    targets = place_targets(d, k)
    assert targets.shape == (k, d)
    assert (np.count_nonzero(targets, axis=1) == 1).all()
    lifted = np.where(targets == 0, 1e-9, targets)  # points with a coordinate 0 are in every rectangle of no volume too
    assert find_largest(lifted) == pytest.approx(measure_on_axes(d, k), abs=1e-6)
    if k % d == 0:
        assert measure_on_axes(d, k) == pytest.approx(1 - (1 - d / k) ** d)
    assert measure_on_axes(d, k) <= d * d / k + 0.02


def test_the_sampler_takes_the_points_nearest_to_the_quantiles_on_the_axes():
    near = np.array([[0.5, 0.01], [1.0, 0.0], [0.02, 0.5], [0.0, 0.99], [0.7, 0.7], [0.3, 0.4]])
    rows = AxisQuantiles()(near, 4, np.random.default_rng(0))
    assert rows.tolist() == [0, 1, 2, 3]


def test_the_sampler_never_takes_a_point_twice():
    points = np.random.default_rng(0).random((40, 3))
    assert sorted(AxisQuantiles()(points, 40, np.random.default_rng(0)).tolist()) == list(range(40))


def test_too_many_corners_are_refused():
    with pytest.raises(InputError, match="search_largest"):
        find_largest(np.zeros((10_000, 3)))


def test_a_pool_without_points_near_the_axes_leaves_a_slab():
    given = {"d": 2, "k": 20, "n": 200, "hole": 0.3, "trials": 3}
    for sampler in ("uniform", "theorem 4.2"):
        rows = measure_cube(np.random.default_rng(0), sampler=sampler, **given)
        assert all(row["largest"] >= 0.3 for row in rows)


def test_measurements_follow_from_the_seed():
    given = {"sampler": "theorem 4.2", "d": 3, "k": 20, "n": 500, "hole": 0.0, "trials": 2}
    first, again = (measure_cube(np.random.default_rng(5), **given) for _ in range(2))
    assert first == again
    assert first != measure_cube(np.random.default_rng(6), **given)


def test_quick_cells_are_cells_of_the_whole_study():
    quick, whole = RECTANGLES.list_cells(True), {cell.name: cell for cell in RECTANGLES.list_cells(False)}
    assert quick
    assert all(whole[cell.name] == cell for cell in quick)
    assert {cell.labels["setting"] for cell in whole.values()} >= {"pool", "hole"}
