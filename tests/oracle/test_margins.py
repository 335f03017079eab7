"""Scores against numpy in float64, over widths, dtypes and shapes of distributions."""

import numpy as np
import pytest
from scipy.special import entr

import hedgerow as hr
import reference

WIDTHS = [2, 3, 7, 10, 31, 32, 33, 64, 100, 255, 256, 257, 300, 513, 1000]
DTYPES = [np.float16, np.float32, np.float64]


def make_probabilities(rng, n, width, dtype):
    """Flat, peaked, tied and one-hot rows in turn."""
    logits = rng.normal(size=(n, width)) * rng.choice([0.01, 1, 10], size=(n, 1))
    logits[::5] = np.round(logits[::5])
    probabilities = reference.softmax(logits)
    probabilities[3::7] = np.eye(width)[rng.integers(0, width, len(probabilities[3::7]))]
    probabilities[4::7] = 1 / width
    return probabilities.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_margins_equal_sorting(width, dtype):
    probabilities = make_probabilities(np.random.default_rng(width), 400, width, dtype)
    wide = np.float32 if dtype == np.float16 else dtype  # halves are exact in float32, so is their difference's order
    expected = reference.margins(probabilities.astype(wide)).astype(np.float32)
    assert np.array_equal(hr.margins(probabilities), expected)


@pytest.mark.parametrize("width", [2, 40, 128, 129, 300])
def test_any_number_of_rows_is_scanned_whole(width):
    """Rows are scanned four at a time, whatever is left over."""
    probabilities = make_probabilities(np.random.default_rng(width), 23, width, np.float32)
    expected = reference.margins(probabilities).astype(np.float32)
    for n in range(len(probabilities) + 1):
        assert np.array_equal(hr.margins(probabilities[:n]), expected[:n])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_margins_of_logits_are_those_of_their_softmax(width, dtype):
    rng = np.random.default_rng(width)
    logits = (rng.normal(size=(400, width)) * rng.choice([0.01, 1, 30, 600], size=(400, 1))).astype(dtype)
    logits[::5] = np.round(logits[::5])
    expected = reference.margins(reference.softmax(logits))
    assert np.allclose(hr.margins(logits=logits), expected, rtol=2e-6, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_entropies_and_least_confidences_equal_their_definitions(width, dtype):
    probabilities = make_probabilities(np.random.default_rng(width), 400, width, dtype)
    wide = probabilities.astype(np.float64)
    assert np.allclose(hr.entropies(probabilities), entr(wide).sum(axis=1), rtol=2e-6, atol=1e-6)
    assert np.allclose(hr.least_confidences(probabilities), 1 - wide.max(axis=1), rtol=1e-6, atol=1e-7)


def test_every_float16_survives_widening():
    halves = np.arange(0, 0x3C01, dtype=np.uint16).view(np.float16)  # every number from 0 to 1
    probabilities = np.stack([halves, (1 - halves.astype(np.float32)).astype(np.float16)], axis=1)
    expected = reference.margins(probabilities.astype(np.float32))
    assert np.array_equal(hr.margins(probabilities), expected)
