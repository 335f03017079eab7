"""Thresholds on a line: diameters worked out by hand."""

import numpy as np
import pytest

from hedgerow.theory.thresholds import (
    CLUSTERS,
    EPSILON,
    THRESHOLDS,
    draw_neighbors,
    expect_largest,
    expect_mean,
    make_sampler,
    measure_clusters,
    measure_gaps,
    measure_line,
)


def test_the_diameter_is_the_largest_gap_or_the_mean_one():
    # Gaps: 0.2, 0.1, 0.4, 0.3. A true threshold drawn from the points is in each as often as it is wide.
    largest, mean = measure_gaps(np.array([0.7, 0.2, 0.3]))
    assert largest == pytest.approx(0.4)
    assert mean == pytest.approx(0.04 + 0.01 + 0.16 + 0.09)


def test_a_single_label_leaves_the_longer_side():
    assert measure_gaps(np.array([0.25]))[0] == 0.75


def test_the_largest_of_uniform_gaps_is_known():
    assert expect_largest(1) == pytest.approx(3 / 4)  # H_2 / 2: the longer of two pieces of a stick
    assert expect_largest(2) == pytest.approx(11 / 18)
    assert expect_mean(1) == pytest.approx(2 / 3)
    rows = measure_line(np.random.default_rng(0), sampler="uniform", k=20, n=20, trials=4000)
    assert np.mean([row["largest"] for row in rows]) == pytest.approx(expect_largest(20), rel=0.02)
    assert np.mean([row["mean"] for row in rows]) == pytest.approx(expect_mean(20), rel=0.02)


def test_quantiles_of_a_dense_pool_have_gaps_of_one_over_k():
    found = draw_neighbors(10**12, 1000, np.random.default_rng(0))
    assert len(found) == 1000
    assert measure_gaps(found)[0] == pytest.approx(1 / 1000, rel=1e-4)


def test_a_cut_between_two_empty_cells_has_no_point():
    found = draw_neighbors(1, 10, np.random.default_rng(0))
    assert 1 <= len(found) <= 2  # one point, at most the nearest of both of its cuts
    assert len(set(found)) == 1


@pytest.mark.parametrize("name", ["quantiles", EPSILON, "farthest-first"])
def test_samplers_on_a_line_choose_distinct_points_by_seed(name):
    points = np.random.default_rng(0).random((200, 1))
    rows = make_sampler(name, 20)(points, 20, np.random.default_rng(1))
    assert len(set(rows.tolist())) == 20
    np.testing.assert_array_equal(rows, make_sampler(name, 20)(points, 20, np.random.default_rng(1)))


def test_clusters_are_fewer_than_k_and_some_are_wider_than_two_epsilon():
    rows = measure_clusters(np.random.default_rng(0), k=1000, n=10_000, trials=5)
    assert all(0.65 < row["clusters"] < 0.75 for row in rows)
    assert max(row["widest"] for row in rows) > 2


@pytest.mark.parametrize("part", [THRESHOLDS, CLUSTERS])
def test_quick_cells_are_cells_of_the_whole_study(part):
    quick, whole = part.list_cells(True), {cell.name: cell for cell in part.list_cells(False)}
    assert quick
    assert all(whole[cell.name] == cell for cell in quick)
    assert len(quick) < len(whole)


def make_rows():
    rows = []
    for k in (1000, 3000):
        base = {"k": k, "n": 10 * k, "trial": 0}
        rows.append(base | {"setting": "any pool", "sampler": "uniform", "largest": np.log(k) / k, "mean": 2 / k})
        rows.append(base | {"setting": "n = k^2", "sampler": "quantiles", "largest": 1.5 / k, "mean": 1 / k})
        rows.append(base | {"setting": "n varies", "sampler": "quantiles", "largest": 1 / k, "mean": 1 / k})
    return rows


def test_the_summary_has_beta_for_the_worst_and_for_a_random_threshold_and_its_limit():
    summary = THRESHOLDS.summarize(make_rows())
    first = summary[0]
    assert first["beta log k"] == pytest.approx(1.5)
    assert first["mean beta"] == pytest.approx(0.5)
    limits = {row["setting"]: row["limit"] for row in summary if "limit" in row}
    assert limits["n = k^2"] == pytest.approx(1.5)
    assert set(THRESHOLDS.draw(summary)) == {"beta", "mean", "pool"}
