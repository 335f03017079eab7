"""Average precision against scikit-learn's and the definition, ties and signs included."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

import hedgerow as hr
import reference


def make_case(number):
    rng = np.random.default_rng(number)
    m = int(rng.integers(1, 80))
    labels = rng.random(m) < rng.choice([0.05, 0.5, 1])
    labels[rng.integers(m)] = True
    scores = np.round(rng.normal(size=m), int(rng.integers(0, 4))) * rng.choice([1, -1, 1e-30])
    return labels, scores.astype(rng.choice([np.float16, np.float32, np.float64])), rng.integers(0, 4, m)


@pytest.mark.parametrize("block", range(3))
def test_pooled_and_macro_equal_those_of_scikit_learn(block):
    for number in range(block * 400, (block + 1) * 400):
        labels, scores, classes = make_case(number)
        expected = average_precision_score(labels, scores)
        assert hr.average_precision(labels, scores) == pytest.approx(expected, abs=1e-13)
        assert reference.average_precision(labels, scores) == pytest.approx(expected, abs=1e-13)
        each = [
            average_precision_score(labels[classes == c], scores[classes == c])
            for c in range(4)
            if labels[classes == c].any()
        ]
        assert hr.macro_average_precision(labels, scores, classes) == pytest.approx(np.mean(each), abs=1e-13)


def test_large_and_in_pieces(monkeypatch):
    rng = np.random.default_rng(0)
    labels, scores = rng.random(30_000) < 0.2, rng.random(30_000, np.float32)
    scores += 0.1 * labels.astype(np.float32)
    classes = rng.integers(0, 50, 30_000)
    whole = hr.average_precision(labels, scores), hr.macro_average_precision(labels, scores, classes)
    monkeypatch.setattr("hedgerow.metrics.STEP", 1000)
    assert (hr.average_precision(labels, scores), hr.macro_average_precision(labels, scores, classes)) == whole
    assert whole[0] == pytest.approx(average_precision_score(labels, scores), abs=1e-12)
