"""Measures of a model's probabilities: equal to scikit-learn's, and to answers worked by hand."""

import numpy as np
import pytest
from sklearn import metrics as peers

from hedgerow.metrics import (
    CALIBRATION_BINS,
    HIGHER_IS_BETTER,
    METRICS,
    PAIR_METRICS,
    accuracy,
    balanced_accuracy,
    calibration_error,
    log_loss,
)


@pytest.mark.parametrize("seed", range(20))
def test_equal_to_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    classes, n = int(rng.integers(2, 8)), int(rng.integers(5, 200))
    probabilities = rng.dirichlet(np.ones(classes), n).astype(np.float32)
    labels = rng.integers(0, classes, n)
    predicted = probabilities.argmax(axis=1)
    assert accuracy(probabilities, labels) == pytest.approx(peers.accuracy_score(labels, predicted))
    present = np.isin(predicted, labels)  # scikit-learn warns of classes that are predicted and never there
    if present.all():
        assert balanced_accuracy(probabilities, labels) == pytest.approx(
            peers.balanced_accuracy_score(labels, predicted)
        )
    exact = probabilities.astype(np.float64) / probabilities.sum(axis=1, dtype=np.float64, keepdims=True)
    expected = peers.log_loss(labels, exact, labels=np.arange(classes))
    assert log_loss(probabilities, labels) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("seed", range(10))
def test_calibration_error_bin_by_bin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.full(3, 0.4), 150)
    labels = rng.integers(0, 3, 150)
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    total = 0.0
    for lower in np.arange(CALIBRATION_BINS) / CALIBRATION_BINS:
        inside = (confidence >= lower) & (confidence < lower + 1 / CALIBRATION_BINS)
        if inside.any():
            total += inside.sum() * abs(right[inside].mean() - confidence[inside].mean())
    assert calibration_error(probabilities, labels) == pytest.approx(total / 150)


def test_answers_worked_by_hand() -> None:
    probabilities = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [1.0, 0.0]])
    labels = np.array([0, 0, 0, 1])
    assert accuracy(probabilities, labels) == 0.5
    assert balanced_accuracy(probabilities, labels) == pytest.approx((2 / 3 + 0) / 2)
    zero = -np.log(np.finfo(np.float32).eps)  # a probability of zero costs much, not everything
    assert log_loss(probabilities, labels) == pytest.approx((-np.log(0.9) - np.log(0.8) - np.log(0.3) + zero) / 4)
    # Bins of 1/15: 0.7, 0.8, 0.9 and 1.0 fall into four of them.
    assert calibration_error(probabilities, labels) == pytest.approx((0.7 + 0.2 + 0.1 + 1.0) / 4)


def test_every_measure_says_which_way_it_is_read() -> None:
    assert METRICS.keys() | PAIR_METRICS.keys() == HIGHER_IS_BETTER.keys()
    sure, labels = np.eye(3), np.arange(3)
    wrong = np.roll(np.eye(3), 1, axis=1)
    for name, metric in METRICS.items():
        assert (metric(sure, labels) > metric(wrong, labels)) == HIGHER_IS_BETTER[name]
    scores, answers, classes = (
        np.array([0.9, 0.8, 0.2, 0.1]),
        np.array([True, True, False, False]),
        np.array([0, 1, 0, 1]),
    )
    for name, metric in PAIR_METRICS.items():
        assert (metric(scores, answers, classes) > metric(-scores, answers, classes)) == HIGHER_IS_BETTER[name]
