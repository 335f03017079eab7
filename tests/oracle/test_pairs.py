"""Selections of pairs compared with literal implementations, and the distributions of random ones."""

import warnings
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations, permutations

import numpy as np
import pytest

import hedgerow as hr
import reference
from hedgerow import machine as threads

KINDS = ["mixed", "one row", "one class", "a pair a row", "all pairs", "rows without pairs"]
RARE, NEVER = 1e-3, 1e-6  # p-values: of a law that holds, of one that does not


def make_case(kind, number):
    """A small pool of pairs with many ties; n rows, C classes, k of 0, 1, all and between."""
    rng = np.random.default_rng([KINDS.index(kind), number])
    n = 1 if kind == "one row" else int(rng.integers(1, 25))
    classes = 1 if kind == "one class" else int(rng.integers(1, 6))
    cells = np.arange(n * classes)
    if kind == "a pair a row":
        cells = np.arange(n) * classes + rng.integers(0, classes, n)
    elif kind in ("mixed", "rows without pairs"):
        cells = rng.permutation(cells)[: max(1, len(cells) // (2 if kind == "mixed" else 5))]
    pairs = hr.Pairs(cells // classes, cells % classes)
    matrix = (rng.integers(0, rng.choice([1, 5, 1001]), (n, classes)) / 1000).astype(np.float32)
    labeled = rng.random(len(pairs)) < rng.choice([0, 0.3, 1])
    free = int((~labeled).sum())
    return {
        "pairs": pairs,
        "matrix": matrix,
        "probabilities": matrix if rng.random() < 0.5 else matrix[pairs.rows, pairs.classes],
        "embeddings": rng.normal(size=(n, 3)).astype(np.float32),
        "clusters": rng.integers(0, max(1, n // 3), n),
        "labeled": labeled,
        "k": int(rng.choice([0, min(1, free), free, rng.integers(0, free + 1)])),
    }


def run(strategy, case, seed=0, **more):
    given = {key: value for key, value in case.items() if key not in ("k", "matrix")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hr.HedgerowWarning)  # distinct points run out
        return hr.select_pairs(strategy, case["k"], **given, seed=seed, **more)


def chances(case):
    pairs, given = case["pairs"], case["probabilities"]
    return given if given.ndim == 1 else given[pairs.rows, pairs.classes]


def margins_of(case):
    return np.abs(2 * chances(case) - 1)


@pytest.fixture
def keys(monkeypatch):
    """The keys of every call of `ClusterMargin.rank`, whose lowest are the candidates."""
    seen, rank = [], hr.ClusterMargin.rank

    def record(self, margins, rng):
        seen.append(rank(self, margins, rng))
        return seen[-1]

    monkeypatch.setattr(hr.ClusterMargin, "rank", record)
    return seen


@pytest.mark.parametrize("kind", KINDS)
def test_margin_is_the_lowest_margins_and_ties_go_to_the_lowest_pair(kind):
    for number in range(300):
        case = make_case(kind, number)
        expected = reference.candidates(margins_of(case), case["labeled"], case["k"])
        batch = run("margin", case)
        assert batch.index.tolist() == expected.tolist()
        assert batch.rows.tolist() == case["pairs"].rows[expected].tolist()
        assert batch.classes.tolist() == case["pairs"].classes[expected].tolist()


@pytest.mark.parametrize("power", [None, 1.0])
@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_pairs_are_picked_from_the_groups_that_the_literal_loop_visits(kind, by_class, power, keys):
    for number in range(150):
        case = make_case(kind, number)
        pairs, k = case["pairs"], case["k"]
        factor = [1, 1.25, 3, 10][number % 4]
        batch = run(hr.ClusterMarginPairs(factor, power, by_class), case, seed=number)
        assert len(set(batch.index.tolist())) == k
        if k == 0:
            continue
        assert power is not None or np.array_equal(keys[-1].view(np.float32), margins_of(case))
        chosen = np.sort(reference.candidates(keys[-1], case["labeled"], int(np.ceil(factor * k))))
        groups = case["clusters"][pairs.rows]
        if by_class:
            groups = groups * pairs.class_count + pairs.classes
        visited, sizes = groups[batch.index].tolist(), Counter(groups[chosen].tolist())
        ordered = [chosen[groups[chosen] == group] for group in reference.visiting_order(visited, sizes)]
        expected = reference.round_robin(ordered, k, np.random.default_rng(0))
        assert set(batch.index) <= set(chosen)
        assert visited == groups[expected].tolist()


@pytest.mark.parametrize("limits", [{"per_row": 1}, {"class_quota": 2}, {"per_row": 2, "class_quota": 3}])
@pytest.mark.parametrize("kind", KINDS)
def test_limits_pass_over_what_is_full_and_look_farther_before_they_fall_short(kind, limits):
    for number in range(120):
        case = make_case(kind, number)
        pairs, k = case["pairs"], case["k"]
        batch = run(hr.ClusterMarginPairs(1.25, **limits), case, seed=number, allow_short=True)
        count, available = int(np.ceil(1.25 * k)), int((~case["labeled"]).sum())
        while True:
            count = min(count, available)
            whole = run(hr.ClusterMarginPairs(1.0), case | {"k": count}, seed=number).index  # all candidates, as walked
            picked = reference.pass_over(
                whole, pairs.rows, pairs.classes, k, **({"per_row": None, "class_quota": None} | limits)
            )
            if len(picked) == k or count == available:
                break
            count *= 2
        assert batch.index.tolist() == picked
        most = Counter(batch.rows.tolist()).most_common(1) + Counter(batch.classes.tolist()).most_common(1)
        assert not most or most[0][1] <= limits.get("per_row", k)
        assert not most or most[1][1] <= limits.get("class_quota", k)
        if len(picked) < k:
            with pytest.raises(hr.InputError, match=f"only {len(picked):,} were found"):
                run(hr.ClusterMarginPairs(1.25, **limits), case, seed=number)


@dataclass(frozen=True)
class RecordedMargin(hr.ClusterMargin):
    """Cluster-Margin that remembers what it was asked and what it picked."""

    calls: list = field(default_factory=list, compare=False)

    def __call__(self, view, k, rng):
        self.calls.append((view, k, super().__call__(view, k, rng)))
        return self.calls[-1][-1]


@dataclass(frozen=True)
class RecordedCoreSet(hr.CoreSet):
    """CoreSet that remembers what it was asked and what it picked."""

    calls: list = field(default_factory=list)

    def spread(self, view, centers, k, rng):
        self.calls.append((view, centers, k, super().spread(view, centers, k, rng)))
        return self.calls[-1][-1]


@pytest.mark.parametrize("make", [RecordedMargin, RecordedCoreSet])
@pytest.mark.parametrize("kind", KINDS)
def test_two_steps_ask_of_the_rows_that_the_strategy_for_rows_picks(kind, make):
    recorded = 0
    for number in range(150):
        case, strategy = make_case(kind, number), make()
        pairs, labeled, k = case["pairs"], case["labeled"], case["k"]
        batch = run(strategy, case, seed=number)
        unlabeled = np.flatnonzero(~labeled)
        open_rows = np.unique(pairs.rows[unlabeled])
        assert len(set(batch.index.tolist())) == k
        assert set(batch.index.tolist()) <= set(unlabeled.tolist())
        assert bool(strategy.calls) == (0 < k < len(open_rows))  # otherwise there is nothing to choose
        for view, *given, count, chosen in strategy.calls:
            recorded += 1
            assert count == k == len(set(chosen.tolist()))
            assert np.flatnonzero(~view.labeled).tolist() == open_rows.tolist()
            assert set(chosen.tolist()) <= set(open_rows.tolist())
            assert set(batch.rows.tolist()) <= set(chosen.tolist())
            if make is RecordedMargin:
                found = reference.row_margins(pairs.rows, labeled, chances(case), view.n)
                np.testing.assert_array_equal(view.margins[open_rows], found[open_rows])
            else:
                assert given[0].tolist() == np.unique(pairs.rows[labeled]).tolist()
                check_spread(view, given[0], open_rows, chosen)
    assert recorded > 10 or kind == "one row"


@pytest.mark.parametrize("how", ["lowest", "mean", "top2", "top2-all"])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_ranked_by_the_margin_that_is_asked_for(kind, how):
    recorded = 0
    for number in range(150):
        case, strategy = make_case(kind, number), RecordedMargin(row_margin=how)
        pairs, labeled, matrix = case["pairs"], case["labeled"], case["matrix"]
        over_all = how == "top2-all"
        run(strategy, case | ({"probabilities": matrix} if over_all else {}), seed=number)
        for view, _, _ in strategy.calls:
            recorded += 1
            if over_all:
                rows, every = np.indices(matrix.shape).reshape(2, -1)[0], np.zeros(matrix.size, bool)
                found = reference.row_margins(rows, every, matrix.ravel(), view.n, "top2")
            else:
                found = reference.row_margins(pairs.rows, labeled, chances(case), view.n, how)
            free = ~view.labeled
            np.testing.assert_array_equal(view.margins[free], found[free])
    assert recorded > 10 or kind == "one row"


TWO_STEPS = ["cluster-margin", "cluster-margin-shuffled", "uniform-candidates", "cluster-margin-informed"]


@pytest.mark.parametrize("how", [None, "lowest", "mean", "top2"])
@pytest.mark.parametrize("name", TWO_STEPS)
def test_a_matrix_and_its_entries_for_the_pairs_give_the_same_batch(name, how):
    """Also where only a few of the classes have pairs, and where pairs are labeled or without a prediction."""
    strategy = hr.PAIR_STRATEGIES[name](1.25, row_margin=how)
    differ = 0
    for number in range(150):
        for kind in ("mixed", "rows without pairs"):
            case = make_case(kind, number)
            pairs, matrix = case["pairs"], case["matrix"]
            each = run(strategy, case | {"probabilities": matrix[pairs.rows, pairs.classes]}, seed=number)
            whole = run(strategy, case | {"probabilities": matrix}, seed=number)
            assert each.index.tolist() == whole.index.tolist()
            literal = hr.PAIR_STRATEGIES[name](1.25, row_margin="top2-all")
            differ += each.index.tolist() != run(literal, case | {"probabilities": matrix}, seed=number).index.tolist()
    assert differ > 20  # what the classes without pairs are like would have mattered


def check_spread(view, centers, free, chosen):
    """Greedy k-center from the centers; without any it begins anywhere. What coincides with a center comes last."""
    wide = view.embeddings.astype(np.float64)
    if len(centers):
        distinct = np.setdiff1d(free, centers)
        count = min(len(chosen), len(distinct))
        expected = distinct[reference.farthest_first(wide[distinct], wide[centers], count)] if count else distinct
    else:
        first = int(np.flatnonzero(free == chosen[0])[0])
        expected = free[reference.farthest_first(wide[free], [], len(chosen), first)]
    assert chosen[: len(expected)].tolist() == expected.tolist()


# The laws of what is random.


PAIRS = hr.Pairs([0, 0, 1, 2, 2, 2], [0, 1, 1, 0, 1, 2])
CHANCES = np.array([0.5, 0.1, 0.9, 0.7, 0.35, 0.02], np.float32)
POINTS = np.array([[1, 0, 2], [0.5, 3, 0], [-1, 1, 1]], np.float32)


def count_batches(strategy, k, trials, **more):
    return Counter(
        tuple(hr.select_pairs(strategy, k, pairs=PAIRS, probabilities=CHANCES, seed=seed, **more).index.tolist())
        for seed in range(trials)
    )


def test_badge_draws_by_the_law_of_plusplus_over_two_gradient_blocks():
    wide = reference.pair_gradients(CHANCES.astype(np.float64), POINTS.astype(np.float64), PAIRS.rows)
    first = int((wide**2).sum(axis=1).argmax())
    view, rng = hr.PairView(PAIRS, 3, probabilities=CHANCES, embeddings=POINTS).flat, np.random.default_rng(0)
    with threads.team(1) as team:  # one team for all draws
        drawn = (hr.Badge().pick(view, np.arange(6), None, 3, rng, team) for _ in range(3000))
        counts = Counter(tuple(picked.tolist()) for picked in drawn)
    assert reference.judge(counts, reference.plusplus_law(wide, first, 3)) > RARE
    assert reference.judge(counts, reference.plusplus_law(wide, first, 3, power=1)) < NEVER


@pytest.mark.parametrize("form", ["float16", "columns first", "strided"])
def test_badge_reads_embeddings_of_any_form(form):
    points = {"float16": POINTS.astype(np.float16), "columns first": np.asfortranarray(POINTS)}.get(form)
    if points is None:
        points = np.repeat(POINTS, 2, axis=0)[::2]
    given = {"pairs": PAIRS, "probabilities": CHANCES, "labeled": [1]}
    expected = [hr.select_pairs("badge", 4, **given, embeddings=POINTS, seed=seed).index.tolist() for seed in range(40)]
    assert [
        hr.select_pairs("badge", 4, **given, embeddings=points, seed=seed).index.tolist() for seed in range(40)
    ] == expected


def test_stochastic_margin_draws_by_its_weights():
    weights = 1 - np.abs(2 * CHANCES.astype(np.float64) - 1)
    counts = count_batches(hr.StochasticMargin(2.0), 2, 4000)
    assert reference.judge(counts, reference.successive_law(weights**2, 2)) > RARE
    assert reference.judge(counts, reference.successive_law(weights, 2)) < NEVER


def test_random_is_uniform_over_pairs_and_not_over_rows():
    counts = count_batches("random", 2, 3000)
    assert reference.judge(counts, dict.fromkeys(permutations(range(6), 2), 1 / 30)) > RARE


def test_two_steps_draw_uniformly_from_the_pairs_of_the_picked_rows():
    """One row is picked: that of the lowest margin, 2, whose three pairs are equally likely."""
    matrix = np.array([[0.9, 0.1, 0], [0.8, 0.3, 0], [0.5, 0.5, 0]], np.float32)
    given = {"pairs": PAIRS, "clusters": [0, 1, 2], "probabilities": matrix}
    strategy = hr.ClusterMargin(1.0)
    counts = Counter(tuple(hr.select_pairs(strategy, 1, **given, seed=seed).index.tolist()) for seed in range(3000))
    assert reference.judge(counts, dict.fromkeys([(3,), (4,), (5,)], 1 / 3)) > RARE
    two = Counter(frozenset(hr.select_pairs(strategy, 2, **given, seed=seed).index.tolist()) for seed in range(3000))
    of_rows_1_and_2 = [frozenset(both) for both in combinations([2, 3, 4, 5], 2)]
    assert reference.judge(two, dict.fromkeys(of_rows_1_and_2, 1 / len(of_rows_1_and_2))) > RARE


def test_cluster_margin_over_pairs_draws_uniformly_within_a_cluster():
    counts = count_batches(hr.ClusterMarginPairs(10), 2, 3000, clusters=[4, 4, 4])
    assert reference.judge(counts, dict.fromkeys(permutations(range(6), 2), 1 / 30)) > RARE
