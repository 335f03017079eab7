"""Verdicts, agreement and gold questions: by hand, by published examples, and against nltk and statsmodels."""

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from nltk.metrics.agreement import AnnotationTask
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa
from statsmodels.stats.proportion import proportion_confint

from hedgerow.campaign import quality
from hedgerow.campaign.quality import Votes, make_votes
from hedgerow.errors import InputError

# Four raters, twelve units, five values, with missing votes: the example of Krippendorff (2013, chapter 12), whose
# alpha is 0.743; Gwet's irrCAC gives AC1 0.77544 for it.
PUBLISHED = (
    "123321412...",
    "1233224125.3",
    ".3332342251.",
    "12332441251.",
)  # fmt: skip


def read_table(lines: tuple[str, ...]) -> Votes:
    found = [(unit, who, int(said)) for who, line in enumerate(lines) for unit, said in enumerate(line) if said != "."]
    rows, people, values = zip(*found, strict=True)
    return make_votes(rows, -1, people, values)


def draw_votes(seed: int, *, units: int = 60, people: int = 5, values: int = 4, missing: float = 0.5) -> Votes:
    """Votes that agree more than by chance, in random order, some of them missing."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, values, units)
    said = np.where(rng.random((units, people)) < 0.6, truth[:, None], rng.integers(0, values, (units, people)))
    unit, who = np.nonzero(rng.random((units, people)) >= missing)
    order = rng.permutation(len(unit))
    unit, who = unit[order], who[order]
    return make_votes(unit * 7 + 3, -1, who + 100, said[unit, who] * 2)


def as_task(votes: Votes) -> AnnotationTask:
    columns = (votes.annotators.tolist(), votes.rows.tolist(), votes.values.tolist())
    return AnnotationTask(list(zip(*columns, strict=True)))


def by_unit(votes: Votes) -> dict[tuple[int, int], list[int]]:
    found: dict[tuple[int, int], list[int]] = {}
    columns = (votes.rows.tolist(), votes.classes.tolist(), votes.values.tolist())
    for row, number, value in zip(*columns, strict=True):
        found.setdefault((row, number), []).append(value)
    return dict(sorted(found.items()))


def slow_ac1(votes: Votes, q: int) -> float:
    """Gwet (2014): the mean agreement of units with two votes or more, chance from all units."""
    units = list(by_unit(votes).values())
    several = [said for said in units if len(said) > 1]
    observed = [
        Fraction(sum(a == b for a, b in combinations(said, 2)), len(said) * (len(said) - 1) // 2) for said in several
    ]
    shares = [
        sum(Fraction(said.count(value), len(said)) for said in units) / len(units)
        for value in set(votes.values.tolist())
    ]
    chance = sum(share * (1 - share) for share in shares) / (q - 1)
    return float((sum(observed) / len(observed) - chance) / (1 - chance))


# Verdicts.


def test_the_majority_wins_and_ties_are_disputed() -> None:
    votes = make_votes(
        [9, 9, 9, 4, 4, 5, 7, 7, 7, 7], -1, [1, 2, 3, 1, 2, 1, 1, 2, 3, 4], [0, 2, 2, 1, 0, 3, 1, 1, 0, 0]
    )
    found = quality.settle(votes)
    assert found.rows.tolist() == [4, 5, 7, 9]
    assert found.classes.tolist() == [-1] * 4
    assert found.settled.tolist() == [False, True, False, True]
    assert found.values.tolist() == [quality.DISPUTED, 3, quality.DISPUTED, 2]
    assert found.support.tolist() == [0.5, 1.0, 0.5, 2 / 3]
    assert found.votes.tolist() == [2, 1, 4, 3]


def test_support_below_the_least_is_disputed() -> None:
    votes = make_votes([0] * 5, -1, range(5), [1, 1, 0, 2, 3])
    assert quality.settle(votes).values.tolist() == [1]
    assert quality.settle(votes, least_support=0.5).settled.tolist() == [False]


@pytest.mark.parametrize("seed", range(20))
def test_verdicts_are_those_of_counting(seed: int) -> None:
    votes = draw_votes(seed)
    found = quality.settle(votes)
    for place, ((row, number), said) in enumerate(by_unit(votes).items()):
        counted = sorted({value: said.count(value) for value in said}.items(), key=lambda one: -one[1])
        tied = len(counted) > 1 and counted[0][1] == counted[1][1]
        assert (found.rows[place], found.classes[place], found.settled[place]) == (row, number, not tied)
        assert tied or found.values[place] == counted[0][0]
        assert found.support[place] == pytest.approx(counted[0][1] / len(said))


def test_pairs_of_one_row_are_units_of_their_own() -> None:
    votes = make_votes([3, 3, 3, 3], [0, 0, 8, 8], [1, 2, 1, 2], [1, 1, 0, 1])
    found = quality.settle(votes)
    assert (found.rows.tolist(), found.classes.tolist()) == ([3, 3], [0, 8])
    assert found.settled.tolist() == [True, False]


# Agreement.


def test_the_published_example() -> None:
    found = quality.agree(read_table(PUBLISHED))
    assert found.units == 11
    assert found.votes == 40
    assert found.alpha == pytest.approx(0.743, abs=0.0005)
    assert found.ac1 == pytest.approx(0.77544, abs=0.000005)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_alpha_and_kappa_are_those_of_nltk(seed: int, missing: float) -> None:
    votes = draw_votes(seed, missing=missing)
    task = as_task(votes)
    assert quality.agree(votes).alpha == pytest.approx(task.alpha(), abs=1e-12)
    kappas = quality.compare_annotators(votes)
    assert len(kappas) == 10
    for one in kappas:
        both = set(votes.rows[votes.annotators == one.first]) & set(votes.rows[votes.annotators == one.second])
        common = as_task(votes.take(np.isin(votes.rows, list(both))))  # nltk's kappa needs votes without gaps
        assert one.units == len(both)
        assert one.observed == pytest.approx(common.Ao(one.first, one.second), abs=1e-12)
        assert one.kappa == pytest.approx(common.kappa_pairwise(one.first, one.second), abs=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_alpha_follows_from_the_kappa_of_fleiss(seed: int) -> None:
    """Without missing votes both have the same observed disagreement; the expected ones differ by n / (n - 1)."""
    votes = draw_votes(seed, missing=0.0)
    order = np.lexsort((votes.annotators, votes.rows))
    table, _ = aggregate_raters(votes.values[order].reshape(60, 5))
    n = len(votes)
    alpha = quality.agree(votes).alpha
    assert alpha == pytest.approx(1 - (n - 1) / n * (1 - fleiss_kappa(table)), abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_ac1_is_that_of_the_definition(seed: int) -> None:
    votes = draw_votes(seed)
    assert quality.agree(votes).ac1 == pytest.approx(slow_ac1(votes, 4), abs=1e-12)
    assert quality.agree(votes, n_values=9).ac1 == pytest.approx(slow_ac1(votes, 9), abs=1e-12)


def test_ac1_does_not_collapse_on_a_skewed_class() -> None:
    """98 units on which both say no, and two on which they differ: alpha is slightly negative, AC1 0.98."""
    rows = np.repeat(np.arange(100), 2)
    values = np.zeros(200, int)
    values[[0, 3]] = 1
    found = quality.agree(make_votes(rows, -1, np.tile([1, 2], 100), values))
    assert found.observed == pytest.approx(0.98)
    assert found.alpha == pytest.approx(1 - 199 * 4 / (2 * 2 * 198))
    assert found.ac1 == pytest.approx((0.98 - 0.0198) / (1 - 0.0198))


@pytest.mark.parametrize("values", [[4, 4, 4, 4], [1, 2, 3, 4]])
def test_what_is_not_defined_is_none(values: list[int]) -> None:
    single = quality.agree(make_votes([0, 1, 2, 3], -1, [1, 2, 1, 2], values))
    assert (single.units, single.observed, single.alpha, single.ac1) == (0, None, None, None)
    same = quality.agree(make_votes([0, 0, 1, 1], -1, [1, 2, 1, 2], [4, 4, 4, 4]))
    assert (same.observed, same.alpha, same.ac1) == (1.0, None, None)
    assert quality.compare_annotators(make_votes([0, 0], -1, [1, 2], [4, 4]))[0].kappa is None
    assert quality.find_kappa(np.array([4, 4]), np.array([4, 4])) is None


def test_no_votes_at_all() -> None:
    votes = make_votes([], -1, [], [])
    assert quality.agree(votes).units == 0
    assert len(quality.settle(votes).rows) == 0
    assert quality.compare_annotators(votes) == []
    assert quality.confuse(votes) == []
    assert quality.score_gold(votes, quality.settle(votes)) == []
    assert quality.agree_by_class(votes) == quality.agree_on_sets(votes, []) == {}


def test_agreement_by_class_is_that_of_the_votes_of_the_class() -> None:
    rng = np.random.default_rng(0)
    rows, classes, people = (part.ravel() for part in np.meshgrid(range(30), [2, 5, 6], [1, 2, 3], indexing="ij"))
    votes = make_votes(rows, classes, people, rng.integers(0, 2, len(rows)))
    found = quality.agree_by_class(votes)
    assert list(found) == [2, 5, 6]
    for number, one in found.items():
        assert one == quality.agree(votes.take(votes.classes == number), n_values=2)


@pytest.mark.parametrize("seed", range(10))
def test_sets_of_classes_are_one_yes_or_no_per_class(seed: int) -> None:
    rng = np.random.default_rng(seed)
    members = [frozenset(), frozenset({0}), frozenset({0, 3}), frozenset({1, 3})]
    votes = draw_votes(seed)
    votes = make_votes(votes.rows, -1, votes.annotators, rng.integers(0, 4, len(votes)))
    found = quality.agree_on_sets(votes, members)
    assert list(found) == [0, 1, 3]
    for number, one in found.items():
        said = [int(number in members[value]) for value in votes.values]
        slow = quality.agree(make_votes(votes.rows, -1, votes.annotators, said), n_values=2)
        assert (one.units, one.votes) == (slow.units, slow.votes)
        assert (one.observed, one.alpha, one.ac1) == pytest.approx((slow.observed, slow.alpha, slow.ac1))


# Pairs of annotators.


def test_kappa_of_two_columns_is_that_of_nltk() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, 3, (2, 50))
    votes = make_votes(np.tile(np.arange(50), 2), -1, np.repeat([1, 2], 50), np.concatenate([first, second]))
    assert quality.find_kappa(first, second) == pytest.approx(as_task(votes).kappa_pairwise(1, 2), abs=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_confusion_counts_pairs_of_votes(seed: int) -> None:
    votes = draw_votes(seed)
    expected: dict[tuple[int, int], int] = {}
    for said in by_unit(votes).values():
        for pair in combinations(said, 2):
            key = (min(pair), max(pair))
            expected[key] = expected.get(key, 0) + 1
    total = sum(expected.values())
    found = quality.confuse(votes)
    assert {(one.first, one.second): one.count for one in found} == {k: n for k, n in expected.items() if k[0] != k[1]}
    assert [one.count for one in found] == sorted((one.count for one in found), reverse=True)
    assert found[0].share == found[0].count / total
    matrix = quality.confusion_matrix(votes, 7)
    assert (matrix == matrix.T).all()
    assert np.triu(matrix).sum() == total
    assert all(matrix[key] == count for key, count in expected.items())


# Gold questions.


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_wilson_is_that_of_statsmodels(confidence: float) -> None:
    for total in (1, 2, 7, 50, 1000):
        hits = np.unique(np.linspace(0, total, 9).astype(int))
        low, high = quality.find_wilson(hits, np.full(len(hits), total), confidence=confidence)
        expected = proportion_confint(hits, total, alpha=1 - confidence, method="wilson")
        np.testing.assert_allclose(low, expected[0], atol=1e-12)
        np.testing.assert_allclose(high, expected[1], atol=1e-12)


def test_wilson_without_answers_says_nothing() -> None:
    low, high = quality.find_wilson([0, 0, 5], [0, 5, 5])
    assert (low[0], high[0]) == (0.0, 1.0)
    assert low[1] == 0.0
    assert high[2] == 1.0


def test_gold_accuracy_flags_who_is_surely_below() -> None:
    """Truth: row r has class r % 3. Annotator 1 is right, 2 always says 0, 3 answered three times, all wrong."""
    truth = quality.settle(make_votes(range(31), -1, [9] * 31, np.arange(31) % 3))
    rows = np.r_[np.arange(30), np.arange(30), [1, 2, 4], [500]]
    people = np.r_[[1] * 30, [2] * 30, [3] * 3, [3]]
    values = np.r_[np.arange(30) % 3, [0] * 30, [0] * 3, [0]]
    found = quality.score_gold(make_votes(rows, -1, people, values), truth, threshold=0.7)
    assert [(one.annotator, one.right, one.asked, one.flagged) for one in found] == [
        (1, 30, 30, False),
        (2, 10, 30, True),
        (3, 0, 3, False),
    ]
    assert found[1].accuracy == pytest.approx(1 / 3)
    assert (found[1].low, found[1].high) == pytest.approx(proportion_confint(10, 30, method="wilson"))


def test_disputed_truth_is_no_gold() -> None:
    truth = quality.settle(make_votes([0, 0, 1], -1, [1, 2, 1], [0, 1, 1]))
    found = quality.score_gold(make_votes([0, 1], -1, [5, 5], [0, 1]), truth)
    assert [(one.right, one.asked) for one in found] == [(1, 1)]


# Input.


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([0, 0], -1, [1, 1], [1, 2]), "annotator 1 has more than one vote on row 0"),
        (([0, 1], -1, [1], [1, 2]), "the inputs must describe the same rows"),
        (([0.5], -1, [1], [1]), "rows must be whole numbers"),
        (([-1], -1, [1], [1]), "rows holds -1"),
        (([1], [-2], [1], [1]), "classes holds -2"),
        (([1], -1, [1], ["cat"]), "values must be whole numbers"),
        (([2**62], [7], [1], [1]), "too large"),
    ],
)
def test_columns_that_are_no_votes_are_refused(columns: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_votes(*columns)


def test_options_out_of_range_are_refused() -> None:
    votes = make_votes([0, 0], -1, [1, 2], [1, 3])
    with pytest.raises(InputError, match="n_values is 1, but the votes have 2"):
        quality.agree(votes, n_values=1)
    with pytest.raises(InputError, match="values must be 0 to 2"):
        quality.confusion_matrix(votes, 3)
    with pytest.raises(InputError, match="values must be 0 to 0"):
        quality.agree_on_sets(votes, [frozenset()])
    with pytest.raises(InputError, match="confidence must be below 1"):
        quality.find_wilson([1], [2], confidence=1.0)
    with pytest.raises(InputError, match="between 0 and total"):
        quality.find_wilson([3], [2])
