"""What must hold for any pool, any labeled set, any k."""

import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hedgerow as hr
from hedgerow import machine as threads
from hedgerow.pool.blocks import open_rows
from hedgerow.strategies import seeding

seeds = st.integers(0, 2**32)
sizes = st.integers(1, 60)


def make_pool(n, seed, ties=False):
    """A pool of n rows in general position, or with ties and copies; at least one row unlabeled."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, 4))
    embeddings = rng.normal(size=(n, 5))
    if ties:
        logits, embeddings = np.round(logits), np.round(embeddings)
    labeled = rng.random(n) < rng.choice([0, 0.4])
    labeled[rng.integers(n)] = False
    powers = np.exp(logits)
    return {
        "probabilities": powers / powers.sum(axis=1, keepdims=True),
        "embeddings": embeddings.astype(np.float32),
        "clusters": rng.integers(0, max(1, n // 3), n),
        "labeled": labeled,
    }


def permute(pool, order):
    return {key: values[order] for key, values in pool.items()}


@pytest.mark.parametrize("name", list(hr.STRATEGIES))
@settings(deadline=None, max_examples=60)
@given(n=sizes, seed=seeds, ties=st.booleans(), share=st.floats(0, 1))
def test_a_batch_is_k_distinct_unlabeled_rows_and_the_same_again(name, n, seed, ties, share):
    pool = make_pool(n, seed, ties)
    k = int(share * (~pool["labeled"]).sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hr.HedgerowWarning)  # copies run out
        batch = hr.select(name, k, **pool, seed=seed)
        again = hr.select(name, k, **pool, seed=seed)
    assert len(set(batch.rows.tolist())) == k
    assert not pool["labeled"][batch.rows].any()
    assert np.array_equal(batch.rows, again.rows)


@pytest.mark.parametrize(
    "strategy",
    [
        hr.Badge(partitions=3),
        hr.Badge(first="random"),
        hr.CoreSet(partitions=3),
        hr.ClusterMargin(2, power=1),
        hr.StochasticMargin(3),
    ],
)
@settings(deadline=None, max_examples=40)
@given(n=sizes, seed=seeds, share=st.floats(0, 1))
def test_settings_change_nothing_about_that(strategy, n, seed, share):
    pool = make_pool(n, seed)
    k = int(share * (~pool["labeled"]).sum())
    batch = hr.select(strategy, k, **pool, seed=seed)
    assert len(set(batch.rows.tolist())) == k
    assert not pool["labeled"][batch.rows].any()


@pytest.mark.parametrize("name", ["margin", "entropy", "least-confidence"])
@settings(deadline=None, max_examples=60)
@given(n=sizes, seed=seeds)
def test_scores_do_not_care_for_the_order_of_the_rows(name, n, seed):
    pool = make_pool(n, seed)
    order = np.random.default_rng(seed + 1).permutation(n)
    k = int((~pool["labeled"]).sum()) // 2
    assert np.array_equal(order[hr.select(name, k, **permute(pool, order)).rows], hr.select(name, k, **pool).rows)


@settings(deadline=None, max_examples=60)
@given(n=sizes, seed=seeds)
def test_coreset_does_not_care_for_the_order_of_the_rows_once_something_is_labeled(n, seed):
    pool = make_pool(n + 1, seed)
    pool["labeled"][0] = True
    order = np.random.default_rng(seed + 1).permutation(n + 1)
    k = int((~pool["labeled"]).sum()) // 2
    permuted = hr.select("coreset", k, **permute(pool, order), seed=1)
    assert np.array_equal(order[permuted.rows], hr.select("coreset", k, **pool, seed=2).rows)


@settings(deadline=None, max_examples=100)
@given(n=sizes, seed=seeds, factor=st.floats(1, 5))
def test_cluster_margin_takes_as_much_from_clusters_whatever_the_order_and_the_seed(n, seed, factor):
    pool = make_pool(n, seed)
    order = np.random.default_rng(seed + 1).permutation(n)
    k = int((~pool["labeled"]).sum()) // 2
    strategy = hr.ClusterMargin(factor)
    one = hr.select(strategy, k, **pool, seed=seed).rows
    other = order[hr.select(strategy, k, **permute(pool, order), seed=seed + 1).rows]
    counts = [sorted(Counter(pool["clusters"][rows].tolist()).values()) for rows in (one, other)]
    assert counts[0] == counts[1]


@settings(deadline=None, max_examples=100)
@given(n=sizes, seed=seeds, factor=st.floats(1, 5))
def test_cluster_margin_picks_pass_by_pass(n, seed, factor):
    pool = make_pool(n, seed)
    k = int((~pool["labeled"]).sum()) // 2
    picked = pool["clusters"][hr.select(hr.ClusterMargin(factor), k, **pool, seed=seed).rows].tolist()
    turns = [picked[:place].count(cluster) for place, cluster in enumerate(picked)]
    assert turns == sorted(turns)  # nobody is visited a second time before all have been visited once
    first_pass = picked[: turns.count(0)]
    for turn in range(1, max(turns, default=0) + 1):
        visited = [cluster for cluster, at in zip(picked, turns, strict=True) if at == turn]
        assert visited == [cluster for cluster in first_pass if cluster in visited]  # one order for every pass


@settings(deadline=None, max_examples=60)
@given(n=sizes, seed=seeds, shift=st.integers(1, 5))
def test_labeled_rows_might_as_well_not_be_there(n, seed, shift):
    pool = make_pool(n, seed)
    unlabeled = np.flatnonzero(~pool["labeled"])
    k = len(unlabeled) // 2
    rest = {key: values for key, values in permute(pool, unlabeled).items() if key != "labeled"}
    for name in ("margin", "badge", "random", "entropy"):
        assert np.array_equal(
            hr.select(name, k, **pool, seed=shift).rows, unlabeled[hr.select(name, k, **rest, seed=shift).rows]
        )


@settings(deadline=None, max_examples=60)
@given(n=sizes, seed=seeds, threads=st.integers(2, 5), cuts=st.lists(st.integers(0, 60), max_size=4))
def test_margins_do_not_depend_on_threads_or_chunks(n, seed, threads, cuts):
    probabilities = make_pool(n, seed)["probabilities"]
    whole = hr.margins(probabilities, threads=1)
    assert np.array_equal(hr.margins(probabilities, threads=threads), whole)
    assert np.array_equal(hr.margins(iter(np.split(probabilities, sorted(min(cut, n) for cut in cuts)))), whole)


@settings(deadline=None, max_examples=15)
@given(n=st.integers(2000, 9000), seed=seeds, count=st.integers(2, 4), classes=st.integers(2, 5))
def test_centers_do_not_depend_on_threads(n, seed, count, classes):
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.ones(classes), n).astype(np.float32)
    embeddings, rows = rng.normal(size=(n, 70)).astype(np.float32), np.arange(n)
    picked = []
    for size in (1, count):
        with threads.team(size) as team:
            gradients = seeding.factor_gradients(open_rows(embeddings, rows), open_rows(probabilities, rows), team)
            picked.append(seeding.draw_centers(gradients, 200, 0, np.random.default_rng(seed), team, patience=0.1))
    assert np.array_equal(*picked)
