"""BADGE's draws against the enumerated law of k-means++ over gradients made whole."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2

import hedgerow as hr
import reference
from hedgerow.kernels.plusplus import lower_to_center
from hedgerow.strategies.badge import seed_plusplus

TRIALS = 20_000


@pytest.fixture(scope="module")
def pool():
    """(probabilities, embeddings) of 6 rows, 3 classes, 4 dimensions."""
    rng = np.random.default_rng(5)
    return rng.dirichlet(np.ones(3), 6).astype(np.float32), rng.normal(size=(6, 4)).astype(np.float32)


def factor(probabilities):
    return probabilities - np.eye(probabilities.shape[1], dtype=np.float32)[probabilities.argmax(axis=1)]


def statistic(counts, law):
    assert counts.keys() <= law.keys()
    trials = sum(counts.values())
    return sum((counts.get(key, 0) - trials * p) ** 2 / (trials * p) for key, p in law.items())


def test_sequences_follow_the_law_of_plusplus_and_not_another(pool):
    probabilities, embeddings = pool
    whole = reference.gradients(probabilities.astype(np.float64), embeddings.astype(np.float64))
    first = int((whole**2).sum(axis=1).argmax())
    law = reference.plusplus_law(whole, first, 4)
    rng = np.random.default_rng(0)
    residuals = factor(probabilities)
    counts = Counter(
        tuple(seed_plusplus(residuals, embeddings, 4, "largest-norm", rng).tolist()) for _ in range(TRIALS)
    )
    limit = chi2.ppf(0.999, len(law) - 1)
    assert statistic(counts, law) < limit
    assert statistic(counts, reference.plusplus_law(whole, first, 4, power=1)) > limit
    assert statistic(counts, reference.plusplus_law(whole, first, 4, power=0)) > limit


def test_a_random_first_center_is_uniform_and_the_rest_follows(pool):
    probabilities, embeddings = pool
    whole = reference.gradients(probabilities.astype(np.float64), embeddings.astype(np.float64))
    law = {sequence: p / 6 for first in range(6) for sequence, p in reference.plusplus_law(whole, first, 2).items()}
    rng = np.random.default_rng(1)
    residuals = factor(probabilities)
    counts = Counter(tuple(seed_plusplus(residuals, embeddings, 2, "random", rng).tolist()) for _ in range(TRIALS))
    assert statistic(counts, law) < chi2.ppf(0.999, len(law) - 1)


def test_select_draws_by_the_same_law_among_the_unlabeled(pool):
    probabilities, embeddings = pool
    rows = np.array([0, 2, 3, 5])
    whole = reference.gradients(probabilities.astype(np.float64), embeddings.astype(np.float64))[rows]
    first = int((whole**2).sum(axis=1).argmax())
    law = {tuple(rows[list(s)].tolist()): p for s, p in reference.plusplus_law(whole, first, 3).items()}
    given = {"probabilities": probabilities, "embeddings": embeddings, "labeled": [1, 4]}
    counts = Counter(tuple(hr.select("badge", 3, **given, seed=seed).rows.tolist()) for seed in range(3000))
    assert statistic(counts, law) < chi2.ppf(0.999, len(law) - 1)


def test_factored_distances_equal_those_of_whole_gradients():
    rng = np.random.default_rng(2)
    for width, d in [(2, 3), (5, 17), (40, 64)]:
        probabilities = rng.dirichlet(np.ones(width), 50).astype(np.float32)
        embeddings = rng.normal(size=(50, d)).astype(np.float32)
        residuals = factor(probabilities)
        whole = (residuals[:, :, None].astype(np.float64) * embeddings[:, None, :]).reshape(50, -1)
        norms, weights = (whole**2).sum(axis=1), np.full(50, np.inf)
        total = lower_to_center(residuals, embeddings, norms, 7, weights)
        expected = ((whole - whole[7]) ** 2).sum(axis=1)
        assert np.allclose(weights, expected, rtol=1e-9, atol=1e-9)
        assert total == pytest.approx(expected.sum())
