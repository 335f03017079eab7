"""Draws by margin against the enumerated law of drawing one row after the other without replacement."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2

import hedgerow as hr
import reference
from hedgerow.kernels.race import order_bits

MARGINS = np.array([0.0, 0.3, 0.9, 0.6, 0.3, 0.99], np.float32)
TRIALS = 20_000


def statistic(counts, law):
    trials = sum(counts.values())
    impossible = sum(count for key, count in counts.items() if key not in law)
    return np.inf if impossible else sum((counts[key] - trials * p) ** 2 / (trials * p) for key, p in law.items())


def count_draws(strategy, k, **given):
    view = hr.View(len(MARGINS), margins=MARGINS, **given)
    return Counter(tuple(strategy(view, k, np.random.default_rng([7, s])).tolist()) for s in range(TRIALS))


@pytest.mark.parametrize("power", [0, 0.5, 1.0, 3.0])
def test_sequences_follow_the_law_and_not_another(power):
    wide = 1 - MARGINS.astype(np.float64)
    law = reference.successive_law(wide**power, 3)
    counts = count_draws(hr.StochasticMargin(power), 3)
    assert statistic(counts, law) < chi2.ppf(0.999, len(law) - 1)
    assert statistic(counts, reference.successive_law(wide ** (power + 0.3), 3)) > chi2.ppf(0.999, len(law) - 1)


def test_the_law_is_that_of_the_unlabeled():
    labeled = np.array([False, True, False, False, True, False])
    rows = np.flatnonzero(~labeled)
    law = reference.successive_law(1 - MARGINS[rows].astype(np.float64), 2)
    law = {tuple(rows[list(key)].tolist()): p for key, p in law.items()}
    counts = count_draws(hr.StochasticMargin(), 2, labeled=labeled)
    assert statistic(counts, law) < chi2.ppf(0.999, len(law) - 1)


def test_cluster_margin_draws_its_candidates_by_the_same_law():
    """Every row a cluster of its own: the batch is the candidates in any order."""
    ordered = reference.successive_law(1 - MARGINS.astype(np.float64), 2)
    law = {}
    for key, p in ordered.items():
        law[tuple(sorted(key))] = law.get(tuple(sorted(key)), 0) + p
    clusters = np.arange(6, dtype=np.int32)
    ordered_counts = count_draws(hr.ClusterMargin(1.0, power=1.0), 2, clusters=clusters)
    counts = Counter()
    for key, count in ordered_counts.items():
        counts[tuple(sorted(key))] += count
    assert statistic(counts, law) < chi2.ppf(0.999, len(law) - 1)


def test_bits_order_like_the_numbers():
    numbers = np.array([-3e38, -7.5, -1e-30, 0.0, 1e-40, 2.0, 2.5, 3e38], np.float32)
    bits = numbers.copy().view(np.uint32)
    order_bits(bits)
    assert (np.diff(bits.astype(np.int64)) > 0).all()
