"""Controls against their slow and obvious versions, and the laws of their draws."""

import json
from collections import Counter
from functools import partial
from itertools import permutations

import numpy as np
import pytest

import hedgerow as hr
import reference
from hedgerow import machine
from hedgerow.strategies import controls, ranking
from stored.make_answers import CONTROL_ANSWERS, control_answers

RARE, NEVER = 1e-3, 1e-6  # p-values: of a law that holds, of one that does not
CASES = 300
FACTORS = [1, 1.25, 3, 10]


def make_rows(number):
    """A small pool with many ties; k of 0, 1, all and between."""
    rng = np.random.default_rng([1, number])
    n = int(rng.integers(1, 40))
    labeled = rng.random(n) < rng.choice([0, 0.3, 0.9])
    free = int((~labeled).sum())
    return {
        "margins": (rng.integers(0, rng.choice([1, 4, 1000]), n) / 1000).astype(np.float32),
        "clusters": rng.zipf(1.5, n) % max(1, n // 2),
        "labeled": labeled,
        "k": int(rng.choice([0, min(1, free), free, rng.integers(0, free + 1)])),
    }


def make_pairs(number):
    """A small pool of pairs with many ties, some rows without a pair; k of 0, 1, all and between."""
    rng = np.random.default_rng([2, number])
    n, classes = int(rng.integers(1, 25)), int(rng.integers(1, 6))
    cells = rng.permutation(n * classes)[: max(1, n * classes // int(rng.choice([1, 2, 5])))]
    pairs = hr.Pairs(cells // classes, cells % classes)
    matrix = (rng.integers(0, rng.choice([1, 5, 1001]), (n, classes)) / 1000).astype(np.float32)
    labeled = rng.random(len(pairs)) < rng.choice([0, 0.3, 0.9])
    free = int((~labeled).sum())
    return {
        "pairs": pairs,
        "probabilities": matrix if rng.random() < 0.5 else matrix[pairs.rows, pairs.classes],
        "clusters": rng.integers(0, max(1, n // 3), n),
        "labeled": labeled,
        "k": int(rng.choice([0, min(1, free), free, rng.integers(0, free + 1)])),
    }


def measure(case):
    """The margin of each pair."""
    chances, pairs = case["probabilities"], case["pairs"]
    return np.abs(2 * (chances if chances.ndim == 1 else chances[pairs.rows, pairs.classes]) - 1)


def count_batches(choose, trials=4000):
    return Counter(tuple(choose(seed=seed)) for seed in range(trials))


def pick(strategy, k, **given):
    return hr.select(strategy, k, **given).rows.tolist()


def pick_pairs(strategy, k, **given):
    return hr.select_pairs(strategy, k, **given).index.tolist()


@pytest.fixture
def permuted(monkeypatch):
    """The labels that the controls permuted, call after call."""
    seen, permute = [], controls.permute_labels

    def record(clusters, rng):
        seen.append(permute(clusters, rng))
        return seen[-1]

    for module in ("hedgerow.strategies.controls", "hedgerow.pairs.controls"):
        monkeypatch.setattr(f"{module}.permute_labels", record)
    return seen


@pytest.fixture
def first_steps(monkeypatch):
    """The rows that `ClusterMargin` or `Random` picked, call after call."""
    seen = []
    for kind in (hr.ClusterMargin, hr.Random):

        def record(self, view, k, rng, original=kind.__call__):
            seen.append(original(self, view, k, rng))
            return seen[-1]

        monkeypatch.setattr(kind, "__call__", record)
    return seen


# Rows


@pytest.mark.parametrize("power", [None, 1.0])
def test_shuffled_clusters_select_as_cluster_margin_does_with_permuted_labels(power, permuted):
    moved = 0
    for number in range(CASES):
        case = make_rows(number)
        factor = FACTORS[number % 4]
        found = pick(hr.ShuffledClusterMargin(factor, power), **case, seed=number)
        if case["k"] == 0:
            assert found == []
            continue
        labels = permuted[-1]
        assert sorted(labels) == sorted(case["clusters"])
        moved += not np.array_equal(labels, case["clusters"])
        assert found == pick(hr.ClusterMargin(factor, power), **case | {"clusters": labels}, seed=number)
        if power is None:
            chosen = reference.candidates(case["margins"], case["labeled"], int(np.ceil(factor * case["k"])))
            visited, sizes = labels[found].tolist(), Counter(labels[chosen].tolist())
            ordered = [chosen[labels[chosen] == one] for one in reference.visiting_order(visited, sizes)]
            assert visited == labels[reference.round_robin(ordered, case["k"], np.random.default_rng(0))].tolist()
    assert moved > CASES / 2


def test_the_permutation_of_the_labels_is_uniform(permuted):
    given = {"margins": np.zeros(4), "clusters": [0, 0, 1, 2]}
    for seed in range(3000):
        hr.select("cluster-margin-shuffled", 1, **given, seed=seed)
    law = Counter(permutations(given["clusters"]))
    counts = Counter(tuple(labels.tolist()) for labels in permuted)
    assert reference.judge(counts, {labels: number / 24 for labels, number in law.items()}) > RARE


def test_both_controls_draw_uniformly_from_the_candidates_and_cluster_margin_does_not():
    """The rows of one batch: labels that say nothing make all candidates alike."""
    given = {"margins": [0.3, 0.1, 0.1, 0.2, 0.3, 0.9], "clusters": [0, 0, 1, 0, 2, 2], "labeled": [3]}
    law = reference.uniform_law([0, 1, 2, 4], 2)
    for control in (hr.ShuffledClusterMargin(2.0), hr.UniformCandidates(2.0)):
        assert reference.judge(count_batches(partial(pick, control, 2, **given)), law) > RARE
    assert reference.judge(count_batches(partial(pick, hr.ClusterMargin(2.0), 2, **given)), law) < NEVER


def test_uniform_candidates_are_those_of_cluster_margin():
    for number in range(CASES):
        case, factor = make_rows(number), FACTORS[number % 4]
        found = pick(hr.UniformCandidates(factor), **{key: case[key] for key in case if key != "clusters"}, seed=number)
        chosen = reference.candidates(case["margins"], case["labeled"], int(np.ceil(factor * case["k"])))
        assert len(set(found)) == case["k"]
        assert set(found) <= set(chosen.tolist())


def test_uniform_candidates_with_a_power_are_draws_by_margin():
    margins = np.array([0.0, 0.2, 0.5, 0.9], np.float32)
    draws = reference.successive_law(1 - margins.astype(np.float64), 2)
    law = Counter()
    for candidates, probability in draws.items():
        for row in candidates:
            law[(row,)] += probability / 2
    counts = count_batches(partial(pick, hr.UniformCandidates(2.0, power=1.0), 1, margins=margins))
    assert reference.judge(counts, law) > RARE
    assert reference.judge(counts, reference.uniform_law(range(4), 1)) < NEVER


# Pairs

OPTIONS = [
    {},
    {"power": 1.0},
    {"by_class": True},
    {"per_row": 1},
    {"class_quota": 2, "power": 1.0},
    {"by_class": True, "per_row": 2, "class_quota": 3},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_shuffled_clusters_of_pairs(options, permuted):
    for number in range(CASES // 2):
        case, factor = make_pairs(number), FACTORS[number % 4]
        shared = {"seed": number, "allow_short": True}
        found = pick_pairs(hr.ShuffledClusterMarginPairs(factor, **options), **case, **shared)
        if case["k"]:
            assert sorted(permuted[-1]) == sorted(case["clusters"])
            again = case | {"clusters": permuted[-1]}
            assert found == pick_pairs(hr.ClusterMarginPairs(factor, **options), **again, **shared)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_uniform_candidate_pairs_select_as_if_all_rows_were_one_cluster(options):
    for number in range(CASES // 2):
        case, factor = make_pairs(number), FACTORS[number % 4]
        shared = {"seed": number, "allow_short": True}
        one = case | {"clusters": np.full(len(case["clusters"]), 5)}
        expected = pick_pairs(hr.ClusterMarginPairs(factor, **options), **one, **shared)
        without = {key: case[key] for key in case if key != "clusters"}
        assert pick_pairs(hr.UniformCandidatePairs(factor, **options), **without, **shared) == expected
        if not options:
            chosen = reference.candidates(measure(case), case["labeled"], int(np.ceil(factor * case["k"])))
            assert set(expected) <= set(chosen.tolist())


PAIRS = hr.Pairs([0, 0, 1, 2, 2, 2], [0, 1, 1, 0, 1, 2])
CHANCES = np.array([0.5, 0.1, 0.9, 0.7, 0.35, 0.02], np.float32)


@pytest.mark.parametrize("limits", [{}, {"per_row": 1}, {"class_quota": 1}], ids=str)
def test_the_law_of_uniform_candidate_pairs(limits):
    choose = partial(pick_pairs, hr.UniformCandidatePairs(2.5, **limits), 2, pairs=PAIRS, probabilities=CHANCES)
    candidates = [0, 1, 2, 3, 4]  # all but the surest
    both = {"per_row": None, "class_quota": None} | limits
    law = reference.walk_law(candidates, PAIRS.rows, PAIRS.classes, 2, **both)
    counts = count_batches(choose)
    assert reference.judge(counts, law) > RARE
    if limits:
        assert reference.judge(counts, reference.uniform_law(candidates, 2)) < NEVER


def test_shuffled_clusters_still_keep_the_pairs_of_a_row_together():
    """Five pairs, three rows, a cluster each: rows of one pair come first, and two pairs are never of one row."""
    given = {"pairs": PAIRS, "probabilities": CHANCES, "clusters": [0, 1, 2]}
    counts = count_batches(partial(pick_pairs, hr.ShuffledClusterMarginPairs(2.5), 2, **given), 400)
    assert {PAIRS.rows[first] for first, _ in counts} == {1}
    assert all(PAIRS.rows[first] != PAIRS.rows[second] for first, second in counts)
    spread = count_batches(
        partial(pick_pairs, hr.UniformCandidatePairs(2.5), 2, pairs=PAIRS, probabilities=CHANCES), 400
    )
    assert any(PAIRS.rows[first] == PAIRS.rows[second] for first, second in spread)


@pytest.mark.parametrize("name", ["cluster-margin-shuffled", "uniform-candidates"])
def test_two_steps_with_a_control_draw_from_the_pairs_of_candidate_rows(name):
    """k = 1 of three rows, two of them candidates: one of them, then one of its pairs, each uniformly."""
    matrix = np.array([[0.9, 0.1, 0], [0.5, 0.4, 0], [0.5, 0.5, 0]], np.float32)
    given = {"pairs": PAIRS, "probabilities": matrix, "clusters": [0, 1, 1]}
    counts = count_batches(partial(pick_pairs, hr.PAIR_STRATEGIES[name](2.0), 1, **given))
    assert reference.judge(counts, {(2,): 1 / 2, (3,): 1 / 6, (4,): 1 / 6, (5,): 1 / 6}) > RARE


@pytest.mark.parametrize(
    ("make", "first_step"),
    [
        (hr.InformedClusterMargin, hr.ClusterMargin),
        (partial(hr.InformedClusterMargin, shuffle_clusters=True), hr.ShuffledClusterMargin),
        (lambda *_: hr.InformedRandom(), None),
    ],
    ids=["cluster-margin", "shuffled", "random"],
)
def test_the_informed_second_step_takes_the_lowest_margin_of_each_row(make, first_step, first_steps):
    recorded = short = 0
    for number in range(CASES):
        case, factor = make_pairs(number), FACTORS[number % 4]
        rows, labeled, k = case["pairs"].rows, case["labeled"], case["k"]
        open_rows = np.unique(rows[~labeled])
        first_steps.clear()
        found = pick_pairs(make(factor), **case, seed=number)
        assert bool(first_steps) == (0 < k < len(open_rows))  # otherwise there is no choice of rows
        picked = first_steps[-1].tolist() if first_steps else open_rows.tolist()
        assert found == (reference.lowest_pairs(picked, rows, labeled, measure(case), k) if k else [])
        recorded += bool(first_steps)
        short += k > len(open_rows)
        if first_steps and first_step is not None:  # the rows are those of the paper's two steps
            pick_pairs(first_step(factor), **case, seed=number)
            assert first_steps[1].tolist() == picked
    assert recorded > 30
    assert short > 30


def test_informed_random_draws_rows_uniformly():
    given = {"pairs": PAIRS, "probabilities": CHANCES, "labeled": [0]}
    lowest = {0: 1, 1: 2, 2: 4}
    law = {tuple(lowest[row] for row in rows): 1 / 6 for rows in permutations(range(3), 2)}
    assert reference.judge(count_batches(partial(pick_pairs, "random-informed", 2, **given)), law) > RARE


# All of them


def test_answers_are_as_stored():
    assert control_answers() == json.loads(CONTROL_ANSWERS.read_text())


@pytest.mark.parametrize("name", ["cluster-margin-shuffled", "uniform-candidates"])
def test_answers_do_not_depend_on_threads(name, monkeypatch):
    monkeypatch.setattr(ranking, "LEAST_RANGE", 50)
    rng = np.random.default_rng(0)
    given = {"margins": rng.random(1000, np.float32), "clusters": rng.integers(0, 50, 1000)}
    found = []
    for cores in (1, 3):
        monkeypatch.setattr(machine, "available", lambda cores=cores: cores)
        found.append(pick(hr.STRATEGIES[name](2.0, power=1.0), 100, **given, seed=3))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "make", [hr.ShuffledClusterMargin, hr.UniformCandidates, hr.UniformCandidatePairs, hr.InformedClusterMargin]
)
def test_options_are_checked(make):
    with pytest.raises(hr.InputError, match="margin_factor must be at least 1"):
        make(margin_factor=0.5)
    with pytest.raises(hr.InputError, match="power must be at least 0"):
        make(power=-1.0)


def test_a_control_says_what_it_needs():
    with pytest.raises(hr.InputError, match="'cluster-margin-shuffled' needs clusters"):
        hr.select("cluster-margin-shuffled", 1, margins=np.zeros(3))
    with pytest.raises(hr.InputError, match="'cluster-margin-informed' needs clusters"):
        hr.select_pairs("cluster-margin-informed", 1, pairs=PAIRS, probabilities=CHANCES)
    with pytest.raises(hr.InputError, match="shuffle_clusters must be True or False"):
        hr.InformedClusterMargin(shuffle_clusters=2)
