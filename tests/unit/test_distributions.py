"""Isotropic log-concave distributions: their moments, their law in a band, disagreements against closed forms."""

import math

import numpy as np
import pytest
from scipy import stats

from hedgerow.errors import InputError
from hedgerow.theory.distributions import (
    DISTRIBUTIONS,
    draw_directions,
    make_distribution,
    measure_angle,
    project_out,
)

LEAST_P = 1e-3  # of a Kolmogorov-Smirnov test; seeds are fixed, so a test passes or fails for good


def make_rng(*seed):
    return np.random.default_rng(list(seed))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("d", [2, 7])
def test_the_mean_is_zero_and_the_covariance_the_identity(name, d):
    points = make_distribution(name, d).draw(100_000, make_rng(0))
    assert np.abs(points.mean(axis=0)).max() < 0.02
    assert np.abs(np.cov(points.T) - np.eye(d)).max() < 0.03


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize("b", [0.05, 0.7])
def test_draws_in_a_band_have_the_law_of_draws_that_happen_to_be_there(name, d, b):
    rng = make_rng(1, d)
    law = make_distribution(name, d)
    w, across = draw_directions(2, d, rng)
    points = law.draw(400_000, rng)
    expected, found = points[np.abs(points @ w) < b], law.draw_band(w, b, 10_000, rng)
    for seen in (lambda x: x @ w, lambda x: x @ across, lambda x: np.linalg.norm(x, axis=1), lambda x: x[:, 0]):
        assert stats.ks_2samp(seen(expected), seen(found)).pvalue > LEAST_P


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("b", [1e-9, 1e-3, 100.0])
def test_a_band_may_be_thin_or_everything(name, b):
    law, w = make_distribution(name, 6), draw_directions(1, 6, make_rng(2))[0]
    points = law.draw_band(w, b, 2000, make_rng(3))
    assert points.shape == (2000, 6)
    assert np.isfinite(points).all()
    assert np.abs(points @ w).max() < b * (1 + 1e-6)
    if b < 1:  # uniform along w, where the density hardly changes
        assert stats.kstest(points @ w / b, "uniform", args=(-1, 2)).pvalue > LEAST_P
    np.testing.assert_array_equal(points, law.draw_band(w, b, 2000, make_rng(3)))


def test_the_band_of_a_coordinate_leaves_the_others_alone():
    points = make_distribution("cube", 3).draw_band(np.array([0.0, 1.0, 0.0]), 0.5, 5000, make_rng(4))
    assert stats.kstest(points[:, 1], "uniform", args=(-0.5, 1.0)).pvalue > LEAST_P
    for column in (0, 2):
        assert stats.kstest(points[:, column], "uniform", args=(-math.sqrt(3), 2 * math.sqrt(3))).pvalue > LEAST_P
    points = make_distribution("logistic", 3).draw_band(np.array([0.0, 1.0, 0.0]), 0.5, 5000, make_rng(4))
    assert stats.kstest(points[:, 0], "logistic", args=(0, math.sqrt(3) / math.pi)).pvalue > LEAST_P


@pytest.mark.parametrize("name", ["gaussian", "ball"])
def test_the_disagreement_of_rotational_distributions_is_the_angle_by_pi(name):
    found = make_distribution(name, 3).measure_disagreement(np.array([1.0, 0, 0]), np.array([1.0, 1.0, 0]))
    assert found.value == pytest.approx(0.25)
    assert found.error == 0


def test_the_disagreement_in_a_square_worked_out_by_hand():
    """Between the first axis and the diagonal, two triangles of 1/8 each."""
    law = make_distribution("cube", 2)
    x, y = np.eye(2)
    for one, other, share in ((x, x + y, 0.25), (x, y, 0.5), (x, -x, 1.0), (x, x, 0.0), (x, y - x, 0.75)):
        found = law.measure_disagreement(one, other)
        assert found.value == pytest.approx(share, abs=max(4 * found.error, 1e-12))
        assert found.error < 0.005


@pytest.mark.parametrize("name", ["logistic", "cube"])
def test_the_disagreement_of_products_is_that_of_counted_draws(name):
    law, rng = make_distribution(name, 4), make_rng(5)
    points = law.draw(400_000, rng)
    for w, v in zip(draw_directions(5, 4, rng), draw_directions(5, 4, rng), strict=True):
        counted = float(np.mean((points @ w > 0) != (points @ v > 0)))
        found = law.measure_disagreement(w, v)
        assert found.value == pytest.approx(counted, abs=4 * found.error + 0.004)
        assert found.value == pytest.approx(law.measure_disagreement(3 * v, w).value, rel=1e-12)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_constant_of_the_theorem_holds_for_all_pairs_tried(name):
    rng = make_rng(6)
    for d in (2, 3, 8):
        law = make_distribution(name, d)
        for step in (1e-4, 0.1, 1.0):
            for _ in range(20):
                w = np.where(np.arange(d) < rng.integers(1, d + 1), 1.0, 0.0)  # the extremes are between such vectors
                v = w / np.linalg.norm(w) + step * rng.choice([-1.0, 0.0, 1.0], d)
                if np.linalg.norm(v) < 1e-6 or (angle := measure_angle(w, v)) < 1e-9:
                    continue
                assert law.measure_disagreement(w, v).value >= law.constant * angle * (1 - 1e-9)


def test_small_angles_keep_their_digits():
    assert measure_angle(np.array([1.0, 0.0]), np.array([1.0, 1e-12])) == pytest.approx(1e-12, rel=1e-9)
    assert measure_angle(np.array([1.0, 0.0]), np.array([-2.0, 0.0])) == pytest.approx(math.pi)


def test_projecting_out_leaves_what_is_across():
    w, points = draw_directions(1, 5, make_rng(7))[0], make_rng(8).standard_normal((10, 5))
    assert np.abs(project_out(points, w) @ w).max() < 1e-14


@pytest.mark.parametrize(
    ("name", "d", "message"),
    [
        ("gauss", 4, "did you mean 'gaussian'"),
        ("ball", 1, "d must be at least 2, got 1"),
        ("ball", 2.5, "whole number"),
    ],
)
def test_other_distributions_are_refused(name, d, message):
    with pytest.raises(InputError, match=message):
        make_distribution(name, d)
