"""Checks: what they return, and what their errors say."""

from typing import Any

import numpy as np
import pytest

from hedgerow import checks
from hedgerow.errors import InputError


def test_values_in_the_form_that_is_relied_on() -> None:
    assert checks.integer(np.int8(3), "k") == 3
    assert checks.real(np.float32(0.5), "power") == 0.5
    assert checks.flag(np.True_, "flag") is True
    assert checks.option("a", "name", ["a", "b"]) == "a"
    assert checks.rows([3, 1], 4, "rows").dtype == np.int64
    assert checks.rows([], 4, "rows").tolist() == []
    assert checks.seed(7) == 7
    assert [checks.span(*given, 10) for given in ((2, 5), (2, None), (2, 99), (12, 15), (5, 3))] == [
        (2, 5), (2, 10), (2, 10), (10, 10), (3, 3),
    ]  # fmt: skip
    assert checks.same_length({"a": 3, "b": 3}) == 3
    assert checks.exactly_one({"a": None, "b": 0}) == "b"
    assert checks.exactly_one({"a": None}, allow_none=True) is None
    assert checks.shape_text((1000, 3)) == "1,000 x 3"


@pytest.mark.parametrize("value", [True, 2.5, "3", None, [1]])
def test_what_is_no_whole_number(value: Any) -> None:
    with pytest.raises(InputError, match="k must be a whole number, got"):
        checks.integer(value, "k")


@pytest.mark.parametrize(
    ("value", "message"), [("1", "a number"), (True, "a number"), (np.nan, "finite"), ([], "a nu")]
)
def test_what_is_no_number(value: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"power must be {message}"):
        checks.real(value, "power")


def test_numbers_out_of_range() -> None:
    with pytest.raises(InputError, match="k must be at least 1, got 0"):
        checks.integer(0, "k", least=1)
    with pytest.raises(InputError, match=r"x must be at least 0, got -0.5"):
        checks.real(-0.5, "x", least=0)
    with pytest.raises(InputError, match="x must be greater than 0, got 0"):
        checks.real(0, "x", above=0)
    with pytest.raises(InputError, match="flag must be True or False, got 1"):
        checks.flag(1, "flag")


def test_words_that_are_not_known() -> None:
    with pytest.raises(InputError, match="unknown metric 'cosin': did you mean 'cosine'"):
        checks.option("cosin", "metric", ["cosine", "sqeuclidean"])
    with pytest.raises(InputError, match="unknown metric 7: known: a, b"):
        checks.option(7, "metric", ["a", "b"])


def test_arrays_of_other_types() -> None:
    with pytest.raises(InputError, match=r"x must hold real numbers .* got dtype complex128"):
        checks.floats(np.zeros(2, complex), "x")
    with pytest.raises(InputError, match=r"got dtype object \(convert it first, for example with np.stack\)"):
        checks.floats(np.array([[1.0], [2.0, 3.0]], object), "x")
    with pytest.raises(InputError, match="clusters must be whole numbers, one per row, got dtype float64"):
        checks.cluster_labels(np.zeros(2), 2)
    with pytest.raises(InputError, match="clusters holds -1 in row 1: labels are 0 or more"):
        checks.cluster_labels(np.array([0, -1]), 2)


def test_the_first_row_that_is_not_finite() -> None:
    values = np.zeros((9, 2))
    values[4, 1] = values[7, 0] = np.inf
    with pytest.raises(InputError, match="x has a NaN or an infinity in row 104"):
        checks.finite(values, "x", first_row=100)


def test_lengths_and_arguments_that_do_not_agree() -> None:
    with pytest.raises(InputError, match="describe the same rows: a has 1,000, b has 3"):
        checks.same_length({"a": 1000, "b": 3})
    with pytest.raises(InputError, match="exactly one of a, b; got a and b"):
        checks.exactly_one({"a": 1, "b": 2})
    with pytest.raises(InputError, match="exactly one of a, b; got none"):
        checks.exactly_one({"a": None, "b": None})


def test_large_cluster_numbers_are_renumbered() -> None:
    found = checks.cluster_labels(np.array([10**12, 5, 10**12]), 3)
    assert (found.tolist(), found.dtype) == ([1, 0, 1], np.int32)
