"""A seed gives the answer it gave before: small cases of every public function, stored in `tests/stored`."""

import json
from typing import Any

import pytest

from stored.make_answers import ANSWERS, cluster_answers, make_answers, make_pool, pair_answers, select_answers

STORED: dict[str, Any] = json.loads(ANSWERS.read_text())


def test_margins_and_average_precision_are_as_stored() -> None:
    found = make_answers()
    assert found["margins"] == pytest.approx(STORED["margins"], abs=2e-6)
    assert found["average_precision"] == pytest.approx(STORED["average_precision"], abs=1e-8)


def test_clusters_are_as_stored() -> None:
    found = cluster_answers(make_pool())
    assert found.keys() == STORED["cluster"].keys()
    for name, stored in STORED["cluster"].items():
        assert found[name]["threshold"] == pytest.approx(stored["threshold"], abs=2e-6), name
        assert found[name]["labels"] == stored["labels"], name


def test_batches_are_as_stored() -> None:
    assert select_answers(make_pool()) == STORED["select"]


def test_batches_of_pairs_are_as_stored() -> None:
    assert pair_answers(make_pool()) == STORED["select_pairs"]
