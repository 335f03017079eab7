"""The pick against the literal loop of Algorithm 2, and the laws of its draws."""

from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest
from scipy.stats import chi2

import hedgerow as hr
import reference
from hedgerow.kernels.draws import draw
from hedgerow.kernels.pick import order_clusters

KINDS = ["mixed", "singletons", "giant", "giant and singletons", "equal sizes", "sparse numbers"]


def make_clusters(kind, n, rng):
    if kind == "singletons":
        return rng.permutation(n)
    if kind == "giant":
        return np.full(n, 3)
    if kind == "giant and singletons":
        labels = np.arange(n)
        labels[rng.random(n) < 0.7] = n
        return labels
    if kind == "equal sizes":
        return rng.permutation(np.arange(n) // max(1, n // 5))
    if kind == "sparse numbers":
        return rng.choice([0, 7, 500, 10**9], n)
    return rng.zipf(1.5, n) % max(1, n // 2)


def make_case(kind, number):
    """(margins, clusters, labeled, k, factor): margins with many ties, k of 0, 1, n and between."""
    rng = np.random.default_rng([KINDS.index(kind), number])
    n = int(rng.integers(1, 60))
    margins = rng.integers(0, rng.choice([1, 4, 1000]), n).astype(np.float32) / 1000
    labeled = rng.random(n) < rng.choice([0, 0.3, 1])
    k = int(rng.choice([0, 1, n, rng.integers(0, n + 1)]))
    return margins, make_clusters(kind, n, rng), labeled, k, float(rng.choice([1, 1.25, 3, 10]))


@pytest.mark.parametrize("kind", KINDS)
def test_every_pick_is_from_the_cluster_that_the_literal_loop_visits(kind):
    for number in range(700):
        margins, clusters, labeled, k, factor = make_case(kind, number)
        batch = hr.select(
            hr.ClusterMargin(factor),
            k,
            margins=margins,
            clusters=clusters,
            labeled=labeled,
            seed=number,
            allow_short=True,
        )
        available = int((~labeled).sum())
        k = min(k, available)
        chosen = reference.candidates(margins, labeled, min(int(np.ceil(factor * k)), available))
        assert len(batch.rows) == k
        assert set(batch.rows) <= set(chosen)
        if k:
            visited, sizes = clusters[batch.rows].tolist(), Counter(clusters[chosen].tolist())
            ordered = [chosen[clusters[chosen] == c] for c in reference.visiting_order(visited, sizes)]
            expected = reference.round_robin(ordered, k, np.random.default_rng(number))
            assert visited == clusters[expected].tolist()


def test_sizes_beyond_sixteen_bits_are_ordered():
    sizes = np.array([70_000, 3, 65_536, 0, 65_535, 131_072, 3], np.int32)
    order = order_clusters(sizes, np.uint64(1))
    assert sizes[order].tolist() == [3, 3, 65_535, 65_536, 70_000, 131_072]


def is_plausible(counts, expected):
    """Whether counts may come from a law: chi-square below its 99.9 % quantile. Both: {outcome: number}."""
    assert counts.keys() <= expected.keys(), "an outcome that cannot be"
    statistic = sum((counts.get(key, 0) - number) ** 2 / number for key, number in expected.items())
    return statistic < chi2.ppf(0.999, len(expected) - 1)


def count_batches(trials, k, margins, clusters, factor=10.0):
    strategy = hr.ClusterMargin(factor)
    return Counter(
        tuple(hr.select(strategy, k, margins=margins, clusters=clusters, seed=seed).rows.tolist())
        for seed in range(trials)
    )


def test_draws_within_a_cluster_are_uniform_subsets_in_uniform_order():
    counts = count_batches(6000, 3, np.zeros(5), np.zeros(5, int))
    sequences = list(permutations(range(5), 3))
    assert is_plausible(counts, dict.fromkeys(sequences, 6000 / len(sequences)))
    by_lot = Counter({key: number + (30 if key[0] == 0 else 0) for key, number in counts.items()})
    assert not is_plausible(by_lot, dict.fromkeys(sequences, 6000 / len(sequences)))  # the test can fail


def test_early_and_late_rows_of_a_cluster_are_drawn_equally_often():
    n, k, trials = 1000, 500, 400
    zeros = np.zeros(n, np.float32), np.zeros(n, np.int32)
    early = sum(
        int((hr.select("cluster-margin", k, margins=zeros[0], clusters=zeros[1], seed=seed).rows < n // 2).sum())
        for seed in range(trials)
    )
    deviation = np.sqrt(trials * k / 4 * (n - k) / (n - 1))  # of a sum of hypergeometric counts
    assert abs(early - trials * k / 2) < 4 * deviation  # 0.6 %: a bias of 3 % in a single draw fails


def test_draws_of_different_clusters_are_independent():
    clusters = np.array([0, 0, 1, 1, 1])
    counts = count_batches(6000, 4, np.zeros(5), clusters)
    outcomes = [(first, *(rest[0], 1 - first, rest[1])) for first, rest in product((0, 1), permutations((2, 3, 4), 2))]
    assert is_plausible(counts, dict.fromkeys(outcomes, 6000 / len(outcomes)))


def test_equal_sizes_are_visited_in_uniform_order():
    counts = count_batches(6000, 3, np.zeros(3), np.arange(3))
    assert is_plausible(counts, dict.fromkeys(permutations(range(3)), 1000))
    first = count_batches(3000, 1, np.zeros(3), np.arange(3))
    assert is_plausible(first, dict.fromkeys([(0,), (1,), (2,)], 1000))


def test_counter_draws_are_uniform_over_keys_and_counters():
    keys = np.random.default_rng(0).integers(0, 2**64, 200, dtype=np.uint64)
    draws = np.array([draw(key, counter) for key in keys for counter in range(200)])
    assert ((draws >= 0) & (draws < 1)).all()
    counts = Counter((draws * 50).astype(int).tolist())
    assert is_plausible(counts, dict.fromkeys(range(50), len(draws) / 50))
    pairs = Counter(zip((draws[:-1] * 6).astype(int).tolist(), (draws[1:] * 6).astype(int).tolist(), strict=True))
    assert is_plausible(pairs, dict.fromkeys(product(range(6), repeat=2), (len(draws) - 1) / 36))
