"""What must hold for any pairs, any labeled set, any k."""

import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hedgerow as hr

seeds = st.integers(0, 2**32)
STRATEGIES = [
    *hr.PAIR_STRATEGIES,
    hr.ClusterMarginPairs(1.5, power=1.0),
    hr.ClusterMarginPairs(2.0, by_class=True),
    hr.Badge(partitions=2),
    hr.CoreSet(partitions=2),
]


def make_pool(seed, ties=False):
    """Pairs of a few rows in no order, some rows without any; at least one pair is unlabeled."""
    rng = np.random.default_rng(seed)
    n, classes = int(rng.integers(1, 30)), int(rng.integers(1, 6))
    cells = rng.permutation(n * classes)[: int(rng.integers(1, n * classes + 1))]
    matrix = rng.random((n, classes)).astype(np.float32)
    if ties:
        matrix = np.round(matrix, 1)
    labeled = rng.random(len(cells)) < rng.choice([0, 0.5])
    labeled[rng.integers(len(cells))] = False
    return {
        "pairs": hr.Pairs(cells // classes, cells % classes),
        "probabilities": matrix,
        "embeddings": rng.normal(size=(n, 4)).astype(np.float32),
        "clusters": rng.integers(0, max(1, n // 3), n),
        "labeled": labeled,
    }


def select(strategy, k, pool, seed=0, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hr.HedgerowWarning)  # distinct points run out
        return hr.select_pairs(strategy, k, **pool, seed=seed, **more)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@settings(deadline=None, max_examples=40)
@given(seed=seeds, ties=st.booleans(), share=st.floats(0, 1))
def test_a_batch_is_k_distinct_unlabeled_pairs_and_the_same_again(strategy, seed, ties, share):
    pool = make_pool(seed, ties)
    k = int(share * (~pool["labeled"]).sum())
    batch = select(strategy, k, pool, seed)
    assert len(set(batch.index.tolist())) == k
    assert not pool["labeled"][batch.index].any()
    assert np.array_equal(batch.index, select(strategy, k, pool, seed).index)


@settings(deadline=None, max_examples=60)
@given(seed=seeds)
def test_margin_does_not_care_for_the_order_of_pairs_or_rows(seed):
    pool = make_pool(seed)
    asked, n = pool["pairs"], len(pool["probabilities"])
    rng = np.random.default_rng(seed)
    order, rows = rng.permutation(len(asked)), rng.permutation(n)
    k = int((~pool["labeled"]).sum()) // 2
    turned = {
        "pairs": hr.Pairs(np.argsort(rows)[asked.rows[order]], asked.classes[order]),
        "probabilities": pool["probabilities"][rows],
        "labeled": pool["labeled"][order],
    }
    assert np.array_equal(order[select("margin", k, turned).index], select("margin", k, pool).index)


@settings(deadline=None, max_examples=60)
@given(seed=seeds)
def test_labeled_pairs_might_as_well_not_be_there(seed):
    pool = make_pool(seed)
    asked, free = pool["pairs"], np.flatnonzero(~pool["labeled"])
    k = len(free) // 2
    rest = pool | {"pairs": hr.Pairs(asked.rows[free], asked.classes[free]), "labeled": None}
    for strategy in ("margin", "badge", "random", "cluster-margin"):
        assert np.array_equal(select(strategy, k, pool, seed).index, free[select(strategy, k, rest, seed).index])


@settings(deadline=None, max_examples=80)
@given(seed=seeds, per_row=st.integers(1, 3), class_quota=st.integers(1, 8), share=st.floats(0, 1))
def test_no_row_and_no_class_has_more_than_its_limit(seed, per_row, class_quota, share):
    pool = make_pool(seed)
    k = int(share * (~pool["labeled"]).sum())
    strategy = hr.ClusterMarginPairs(1.5, per_row=per_row, class_quota=class_quota)
    batch = select(strategy, k, pool, seed, allow_short=True)
    assert max(Counter(batch.rows.tolist()).values(), default=0) <= per_row
    assert max(Counter(batch.classes.tolist()).values(), default=0) <= class_quota
    if len(batch) < k:  # then no other unlabeled pair fits
        asked = pool["pairs"]
        left = np.setdiff1d(np.flatnonzero(~pool["labeled"]), batch.index)
        rows, classes = Counter(batch.rows.tolist()), Counter(batch.classes.tolist())
        fitting = [
            pair
            for pair in left
            if rows[int(asked.rows[pair])] < per_row and classes[int(asked.classes[pair])] < class_quota
        ]
        assert not fitting


@settings(deadline=None, max_examples=60)
@given(seed=seeds, shift=st.floats(0.1, 10))
def test_average_precision_depends_on_the_order_of_the_scores_alone(seed, shift):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 200))
    labels, scores = rng.random(m) < 0.3, np.round(rng.normal(size=m), 1)
    labels[0] = True
    order = rng.permutation(m)
    expected = hr.average_precision(labels, scores)
    assert hr.average_precision(labels[order], scores[order]) == pytest.approx(expected, abs=1e-12)
    assert hr.average_precision(labels, np.exp(scores) * shift) == pytest.approx(expected, abs=1e-12)
    assert hr.average_precision(labels, labels.astype(float)) == 1.0
    assert hr.macro_average_precision(labels, scores, np.zeros(m, int)) == expected
