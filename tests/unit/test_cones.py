"""The version space of hyperplanes: centers, random members, and diameters worked out by hand or bounded."""

import math

import numpy as np
import pytest

from hedgerow.errors import InputError
from hedgerow.theory import cones
from hedgerow.theory.cones import bound_diameter, find_farthest, list_corners, make_cone, measure_diameter, walk
from hedgerow.theory.distributions import draw_directions, make_distribution, measure_angle


def make_random_cone(d, m, seed=0):
    """The version space after m random labels, and the separator that gave them."""
    rng = np.random.default_rng([d, m, seed])
    truth = draw_directions(1, d, rng)[0]
    points = make_distribution("gaussian", d).draw(m, rng)
    return make_cone(points, np.sign(points @ truth)), truth


def turn(degrees):
    return np.array([math.cos(math.radians(degrees)), math.sin(math.radians(degrees))])


@pytest.mark.parametrize(("first", "second"), [(-10, 20), (0, 89), (100, 130), (-0.001, 0.001), (170, 190)])
def test_two_labels_in_the_plane_leave_the_wedge_between_their_lines(first, second):
    # The separators at `first` and `second` degrees are those that the points, a right angle from them, just allow.
    points = np.array([turn(first + 90), turn(second + 90)])
    cone = make_cone(points, np.array([1.0, -1.0]))
    found = measure_diameter(cone)
    assert found.is_exact
    assert found.low == pytest.approx(math.radians(second - first), rel=1e-6)
    np.testing.assert_allclose(
        sorted(map(tuple, found.pair)), sorted(map(tuple, (turn(first), turn(second)))), atol=1e-6
    )
    assert (np.array([1, -1]) * (points @ cone.center) > 0).all()


def test_labels_that_say_nothing_new_change_nothing():
    points = np.array([turn(80), turn(110), turn(20), turn(110)])
    found = measure_diameter(make_cone(points, np.array([1.0, -1.0, 1.0, -1.0])))
    assert found.low == pytest.approx(math.radians(30))  # separators between -10 and 20 degrees


@pytest.mark.parametrize("d", [3, 5, 8])
def test_an_orthant_has_a_right_angle(d):
    found = measure_diameter(make_cone(np.eye(d), np.ones(d)))
    assert found.low == pytest.approx(math.pi / 2)
    assert found.is_exact


def test_a_square_cone_worked_out_by_hand():
    """Separators (1, a, b) with |a| <= s and |b| <= s: opposite corners of a square."""
    s = 0.1
    points = np.array([[s, 1, 0], [s, -1, 0], [s, 0, 1], [s, 0, -1]])
    found = measure_diameter(make_cone(points, np.ones(4)))
    assert found.low == pytest.approx(2 * math.atan(s * math.sqrt(2)))
    bounds = bound_diameter(make_cone(points, np.ones(4)), np.random.default_rng(0))
    assert bounds.low == pytest.approx(found.low)
    assert bounds.low <= bounds.high <= found.low * math.sqrt(2) + 1e-6


@pytest.mark.parametrize("d", [2, 4, 16, 32])
@pytest.mark.parametrize("m", [1, 3, 200])
def test_the_consistent_separator_is_consistent(d, m):
    cone, truth = make_random_cone(d, m)
    assert (cone.normals @ truth >= 0).all()
    assert (cone.normals @ cone.center > 0).all()
    assert np.linalg.norm(cone.center) == pytest.approx(1)


def test_labels_of_no_separator_are_refused():
    point = np.array([[1.0, 2.0, 3.0]])
    with pytest.raises(InputError, match="no homogeneous separator is consistent with all labels"):
        make_cone(np.concatenate([point, 2 * point]), np.array([1.0, -1.0]))


@pytest.mark.parametrize("d", [2, 3, 6])
def test_random_members_are_consistent_and_never_beyond_the_diameter(d):
    cone, _ = make_random_cone(d, 30)
    members = cone.lift(walk(cone, 300, np.random.default_rng(0)))
    assert (cone.normals @ members.T > -1e-12).all()
    widest = measure_angle(*find_farthest(members))
    diameter = measure_diameter(cone)
    assert widest <= diameter.low * (1 + 1e-9)
    assert widest > 0.5 * diameter.low  # hit-and-run reaches most of the cone
    np.testing.assert_array_equal(members, cone.lift(walk(cone, 300, np.random.default_rng(0))))


def test_hit_and_run_is_uniform_in_a_square():
    s = 0.1
    points = np.array([[s, 1, 0], [s, -1, 0], [s, 0, 1], [s, 0, -1]])
    cone = make_cone(points, np.ones(4))
    found = walk(cone, 4000, np.random.default_rng(1)) @ cone.basis / cone.center[0]
    corner = found[:, 1:] / s
    assert np.abs(corner.mean(axis=0)).max() < 0.05
    np.testing.assert_allclose(np.cov(corner.T), np.eye(2) / 3, atol=0.03)  # the variance of a uniform side is 1/3


@pytest.mark.parametrize("d", [3, 5, 8])
@pytest.mark.parametrize("seed", range(4))
def test_the_bounds_by_linear_programs_hold_the_exact_diameter(d, seed):
    cone, _ = make_random_cone(d, 12 * d, seed)
    exact = measure_diameter(cone)
    assert exact.is_exact
    bounds = bound_diameter(cone, np.random.default_rng(seed))
    assert bounds.low <= exact.low * (1 + 1e-6)
    assert bounds.low >= 0.95 * exact.low
    assert exact.low * (1 - 1e-6) <= bounds.high <= math.sqrt(d - 1) * 1.1 * exact.low
    assert measure_angle(*bounds.pair) == bounds.low
    assert (cone.normals @ np.array(bounds.pair).T > -1e-6).all()


def test_bounds_in_many_dimensions_hold_what_hit_and_run_finds():
    cone, truth = make_random_cone(12, 200)
    found = measure_diameter(cone)
    members = cone.lift(walk(cone, 128, np.random.default_rng(0)))
    assert not found.is_exact
    assert measure_angle(*find_farthest(np.vstack([members, truth[None]]))) <= found.low <= found.high < math.pi
    assert measure_diameter(cone).low == found.low  # the seed decides
    assert measure_diameter(cone, bounded=False).high == math.pi
    assert measure_diameter(cone, bounded=False).low == found.low


def test_a_cone_wider_than_a_right_angle_has_no_upper_bound():
    found = measure_diameter(make_cone(np.array([[1.0, 0.0, 0.0]]), np.ones(1)))
    assert found.high == math.pi
    assert found.low > 3.1
    wide = measure_diameter(make_cone(np.eye(12)[:2], np.ones(2)))
    assert wide.high == math.pi


def test_corners_that_qhull_cannot_find_are_bounded_instead(monkeypatch):
    def fail(points):
        raise cones.QhullError

    cone, _ = make_random_cone(4, 40)
    exact = measure_diameter(cone)
    monkeypatch.setattr(cones, "ConvexHull", fail)
    assert list_corners(cone) is None
    assert measure_diameter(cone).low == pytest.approx(exact.low)
