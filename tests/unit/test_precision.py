"""Average precision: answers worked by hand, and what it refuses."""

import numpy as np
import pytest

import hedgerow as hr


def test_by_hand():
    assert hr.average_precision([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1]) == pytest.approx((1 + 2 / 3) / 2)
    assert hr.average_precision([True, False], [0.1, 0.2]) == 0.5
    assert hr.average_precision([1.0, 1.0], [0, 0]) == 1.0
    assert hr.average_precision([1, 0, 0, 0], [5, 5, 5, 5]) == 0.25  # all tied: the share of positives


def test_zeros_of_both_signs_are_tied():
    assert hr.average_precision([1, 0], [-0.0, 0.0]) == 0.5
    assert hr.average_precision([0, 1], np.array([-0.0, 0.0], np.float32)) == 0.5


def test_macro_is_the_mean_over_classes_that_have_a_positive():
    labels, scores, classes = [1, 0, 1, 0, 0], [0.9, 0.8, 0.1, 0.7, 0.5], [0, 0, 2, 2, 5]
    assert hr.macro_average_precision(labels, scores, classes) == pytest.approx((1 + 0.5) / 2)
    sparse = [0, 0, 10**9, 10**9, 5]
    assert hr.macro_average_precision(labels, scores, sparse) == pytest.approx((1 + 0.5) / 2)


@pytest.mark.parametrize(
    ("labels", "scores", "message"),
    [
        ([0, 0], [0.1, 0.2], "no positive"),
        ([], [], "no positive"),
        ([1, 2], [0.1, 0.2], "labels must be 0 or 1"),
        (["a", "b"], [0.1, 0.2], "labels must be 0 or 1"),
        ([1, 0], [0.1, np.nan], "scores has a NaN or an infinity in row 1"),
        ([1, 0, 1], [0.1, 0.2], "labels has 3, scores has 2"),
        ([1, 0], [[0.1, 0.2]], "one dimension"),
    ],
)
def test_what_cannot_be_ranked_is_refused(labels, scores, message):
    with pytest.raises(hr.InputError, match=message):
        hr.average_precision(labels, scores)


def test_whole_numbers_as_scores_keep_all_their_digits():
    assert hr.average_precision([1, 0], [2**24 + 1, 2**24]) == 1
    assert hr.average_precision([1, 0], np.array([2**52 + 1, 2**52])) == 1


def test_classes_are_checked():
    with pytest.raises(hr.InputError, match="classes must be whole numbers"):
        hr.macro_average_precision([1, 0], [0.1, 0.2], [0.5, 0.5])
    with pytest.raises(hr.InputError, match="classes holds -1 in row 1"):
        hr.macro_average_precision([1, 0], [0.1, 0.2], [0, -1])
