"""Points on a segment: the bound that holds for every sampler, and the samplers that are worse than uniform."""

import numpy as np
import pytest

from hedgerow.theory import SAMPLERS
from hedgerow.theory.segments import POSITIONS, SEGMENTS, bound_beta, measure_segment


def test_no_sampler_gains_more_than_the_harmonic_number():
    assert bound_beta(1) == pytest.approx(2 / 3)
    assert bound_beta(2) == pytest.approx(6 / 11)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_largest_gap_is_at_least_one_over_k_plus_one(positions, sampler):
    rows = measure_segment(np.random.default_rng(0), positions=positions, sampler=sampler, k=12, trials=4)
    assert all(row["largest"] >= 1 / 13 for row in rows)


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_distribution_of_positions_is_the_inverse_of_its_quantiles(positions):
    p = np.linspace(0.01, 0.99, 50)
    spread = POSITIONS[positions]
    np.testing.assert_allclose(spread.cdf(spread.quantile(p)), p, atol=1e-12)


def test_with_heavy_tails_farthest_first_is_worse_than_uniform():
    measured = {
        sampler: measure_segment(np.random.default_rng(1), positions="cauchy", sampler=sampler, k=50, trials=20)
        for sampler in ("uniform", "farthest-first")
    }
    means = {sampler: np.mean([row["largest"] for row in rows]) for sampler, rows in measured.items()}
    assert means["farthest-first"] > 1.5 * means["uniform"]


def test_the_summary_puts_beta_beside_the_bound():
    rows = [
        {"positions": positions, "sampler": sampler, "k": k, "trial": 0, "largest": largest}
        for positions in POSITIONS
        for k in (10, 100)
        for sampler, largest in (("uniform", 0.5), ("quantiles", 0.25))
    ]
    summary = SEGMENTS.summarize(rows)
    assert [row["beta"] for row in summary] == [0.5] * 6
    assert summary[0]["bound"] == bound_beta(10)
    assert set(SEGMENTS.draw(summary)) == set(POSITIONS)
