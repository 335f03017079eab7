"""measure_beta: the assumptions of the theorems are checked, and named."""

import warnings

import pytest

from hedgerow.errors import HedgerowWarning, InputError
from hedgerow.theory import measure_beta


def test_quantiles_of_a_large_pool_gain_log_k_and_are_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = measure_beta("thresholds", "quantiles", 30, n=10_000, trials=40)
    assert 0.2 < found.low < found.value < found.high < 0.33  # 1 / H_31 is 0.248
    assert found == measure_beta("thresholds", "quantiles", 30, n=10_000, trials=40)
    assert found != measure_beta("thresholds", "quantiles", 30, n=10_000, trials=40, seed=1)


def test_uniform_has_one():
    found = measure_beta("rectangles", "uniform", 20, d=2, trials=40)
    assert found.low < 1 < found.high


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sampler": "quantiles", "gamma": 5}, r"k = o\(sqrt n\)"),
        ({"hypotheses": "rectangles", "sampler": "theorem 4.2", "n": 5000, "d": 3}, r"near the axes"),
        ({"hypotheses": "rectangles", "sampler": "theorem 4.2", "n": 5000, "d": 4}, r"d < log k"),
    ],
)
def test_an_assumption_that_does_not_hold_is_named(given, message):
    with pytest.warns(HedgerowWarning) as caught:
        measure_beta(**({"hypotheses": "thresholds", "k": 30, "trials": 2} | given))
    assert any(message.replace("\\", "") in str(one.message) for one in caught)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"gamma": 1}, "gamma must be greater than 1"),
        ({"n": 10}, "nothing to choose"),
        ({"n": 100, "gamma": 10}, "exactly one"),
        ({"k": 1}, "k must be at least 2"),
        ({"trials": 1}, "trials must be at least 2"),
        ({"d": 2}, "on a line"),
        ({"sampler": "theorem 4.2"}, "unknown sampler"),
        ({"hypotheses": "hyperplanes"}, "unknown hypotheses"),
    ],
)
def test_what_no_theorem_speaks_of_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        measure_beta(**({"hypotheses": "thresholds", "sampler": "uniform", "k": 10} | given))
