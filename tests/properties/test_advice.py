"""What must hold for the measurements of any pool: ranges, order of rows, names of clusters."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hedgerow as hr
from hedgerow.advice import give_advice
from hedgerow.advice.copies import count_groups, expect_groups
from hedgerow.advice.records import read_measurements


@st.composite
def pools(draw: Any) -> dict[str, Any]:
    """A small pool with distinct margins, clusters, and some labels."""
    n = draw(st.integers(4, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    labeled = rng.choice(n, draw(st.integers(0, n - 2)), replace=False)
    return {
        "margins": (rng.permutation(n) / n).astype(np.float32),
        "clusters": rng.integers(0, draw(st.integers(1, n)), n),
        "labeled": labeled,
        "labels": rng.integers(0, 3, len(labeled)),
        "embeddings": rng.normal(size=(n, 3)),
        "k": draw(st.integers(1, n - len(labeled))),
        "classes": 3,
    }


@settings(max_examples=60, deadline=None)
@given(pools())
def test_measurements_are_within_their_ranges(pool):
    advice = hr.advise(**pool)
    measured = advice.measurements
    for one in measured.batches:
        assert 0 <= one.sharing <= 1
        assert 0 <= one.close <= 1 if one.close is not None else measured.close_distance is None
        assert 0 < one.clusters_per_100 <= 100
        # Picks that share a cluster and picks that do not: each of the latter has a cluster of its own.
        assert one.clusters_per_100 >= 100 * (1 - one.sharing) - 1e-9
        assert one.clusters_per_100 <= 100 * (1 - one.sharing / 2) + 1e-9
    assert 0 <= measured.chance_sharing <= 1
    assert measured.agreement is None or measured.agreement <= 1
    assert measured.fewest_labels == np.bincount(pool["labels"], minlength=3).min()
    assert advice.strategy in hr.STRATEGIES
    assert give_advice(read_measurements(measured.to_json())) == advice


@settings(max_examples=40, deadline=None)
@given(pools(), st.integers(0, 2**32))
def test_the_order_of_rows_and_the_numbers_of_clusters_do_not_matter(pool, seed):
    rng = np.random.default_rng(seed)
    n = len(pool["margins"])
    order = rng.permutation(n)
    turned = pool | {
        "margins": pool["margins"][order],
        "clusters": rng.permutation(n)[pool["clusters"][order]],
        "embeddings": pool["embeddings"][order],
        "labeled": np.argsort(order)[pool["labeled"]],
    }
    first, second = hr.advise(**pool).measurements, hr.advise(**turned).measurements
    assert first.find_batch("margin").sharing == second.find_batch("margin").sharing
    assert first.find_batch("margin").clusters_per_100 == second.find_batch("margin").clusters_per_100
    assert first.chance_sharing == pytest.approx(second.chance_sharing, abs=1e-9)
    assert first.chance_clusters_per_100 == pytest.approx(second.chance_clusters_per_100, abs=1e-7)
    assert (first.agreement is None) == (second.agreement is None)
    assert first.agreement is None or first.agreement == pytest.approx(second.agreement, abs=1e-6)
    assert first.labels_per_class == second.labels_per_class


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=20), st.data())
def test_chance_lies_between_no_copies_and_all(sizes, data):
    n = sum(sizes)
    k = data.draw(st.integers(1, n))
    expected = expect_groups(np.array(sizes), np.array([k]))
    assert 0 <= expected.sharing <= 1
    assert 100 / k - 1e-6 <= expected.groups_per_100 <= 100 * min(k, len(sizes)) / k + 1e-6
    if k == n:
        whole = count_groups(np.repeat(np.arange(len(sizes)), sizes).astype(np.int32))
        assert expected.sharing == pytest.approx(whole.sharing, abs=1e-9)
        assert expected.groups_per_100 == pytest.approx(whole.groups_per_100)
