"""The quality of answers: majority verdicts, agreement between annotators, accuracy on gold questions.

Votes come as columns, one entry per answer: row, class (-1 if the question was about the whole row), annotator, value.
A unit is what was asked about: a row, or a pair of row and class. Values are whole numbers: the class of a row, 0 or 1
for a pair, or the number of a set of classes. Answers without a value (skip, unsure, broken) are not votes; whoever
calls leaves them out. An annotator has one vote per unit.

Everything is computed from count tables (how many annotators gave which value to which unit), never from pairs of
annotators in Python, so that a million units with two votes each take seconds. Units with a single vote tell nothing
about agreement and are left out there, as in the definitions:

- Krippendorff's alpha for nominal values: Krippendorff, Content Analysis, 3rd edition (2013), chapter 12. Missing votes
  need no correction.
- Gwet's AC1: Gwet, Computing inter-rater reliability and its variance in the presence of high agreement, British
  Journal of Mathematical and Statistical Psychology 61 (2008). If nearly all answers are of one class, alpha can be
  near zero although annotators nearly always agree; AC1 is not. Missing votes: Gwet, Handbook of Inter-Rater
  Reliability, 4th edition (2014), chapter 2.
- Cohen's kappa of two annotators: Cohen, A coefficient of agreement for nominal scales, Educational and Psychological
  Measurement 20 (1960).
- Wilson's interval for a share: Wilson, Probable inference, the law of succession, and statistical inference, Journal
  of the American Statistical Association 22 (1927).

A coefficient that is not defined (no unit has two votes, or all votes are equal) is None.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from hedgerow import checks
from hedgerow.errors import InputError

Integers = npt.NDArray[np.int64]

WHOLE_ROW = -1  # the class of an answer that is about the whole row
DISPUTED = -1  # the value of a verdict that the votes do not settle
NO_VALUE = np.iinfo(np.int64).min  # the value of what has none
FEWEST_GOLD = 10  # with fewer gold answers nobody is flagged: one slip would be enough


@dataclass(frozen=True, eq=False)
class Votes:
    """Answers as columns of equal length. Made by `make_votes`, which checks them."""

    rows: Integers
    classes: Integers
    annotators: Integers
    values: Integers

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, which: npt.NDArray[Any]) -> "Votes":
        """Some of the votes: a mask, or their places."""
        return Votes(self.rows[which], self.classes[which], self.annotators[which], self.values[which])

    @cached_property
    def units(self) -> "Units":
        """The rows or pairs that the votes are about."""
        return _find_units(self.rows, self.classes)


@dataclass(frozen=True, eq=False)
class Units:
    """Distinct rows or pairs, by row and then class; `of` is the unit of each vote."""

    rows: Integers
    classes: Integers
    of: Integers

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class Counts:
    """The count table of votes, without its zeros: `count` annotators gave `value` to `unit`.

    Entries are ordered by unit, then value. values: the distinct values, ascending; `value` is a position among them.
    totals: the votes of each unit.
    """

    unit: Integers
    value: Integers
    count: Integers
    values: Integers
    totals: Integers


@dataclass(frozen=True, eq=False)
class Verdicts:
    """The value with most votes for each unit. settled: False where two values share the lead, or support is too low.

    values: `DISPUTED` where not settled. support: the share of the votes for the leading value.
    """

    rows: Integers
    classes: Integers
    values: Integers
    support: npt.NDArray[np.float64]
    votes: Integers
    settled: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Agreement:
    """How far annotators agree. units: those with at least two votes; votes: their votes.

    observed: the share of pairs of votes on one unit that are equal, averaged over units.
    """

    units: int
    votes: int
    observed: float | None
    alpha: float | None
    ac1: float | None

    def __str__(self) -> str:
        figures = {"alpha": self.alpha, "AC1": self.ac1, "equal": self.observed}
        shown = ", ".join(f"{name} {'-' if figure is None else f'{figure:.2f}'}" for name, figure in figures.items())
        return f"{shown} on {self.units:,} answered by several"


@dataclass(frozen=True)
class Kappa:
    """Cohen's kappa of two annotators on the units that both answered."""

    first: int
    second: int
    units: int
    observed: float
    kappa: float | None


@dataclass(frozen=True)
class Confusion:
    """Two different values (first < second) that annotators gave to the same unit. share: of all pairs of votes."""

    first: int
    second: int
    count: int
    share: float


@dataclass(frozen=True)
class Gold:
    """An annotator's answers to gold questions: how many were right, with Wilson's interval.

    flagged: the whole interval is below the threshold, so the annotator is, not just a run of bad luck.
    """

    annotator: int
    right: int
    asked: int
    accuracy: float
    low: float
    high: float
    flagged: bool


def make_votes(rows: Any, classes: Any, annotators: Any, values: Any) -> Votes:
    """Check columns of votes. classes: one number per vote, or one for all (-1: the questions are about whole rows)."""
    n = len(rows)
    if np.ndim(classes) == 0:
        classes = np.full(n, checks.integer(classes, "classes", least=WHOLE_ROW), np.int64)
    given = {"rows": rows, "classes": classes, "annotators": annotators, "values": values}
    columns = {name: _check_column(column, name) for name, column in given.items()}
    checks.same_length({name: len(column) for name, column in columns.items()})
    for name, least in (("rows", 0), ("classes", WHOLE_ROW)):
        if n and columns[name].min() < least:
            raise InputError(f"{name} holds {columns[name].min()}: the least is {least}")
    votes = Votes(**columns)
    _refuse_second_votes(votes)
    return votes


def count_votes(votes: Votes) -> Counts:
    """The count table of votes."""
    values, value = np.unique(votes.values, return_inverse=True)
    key, count = np.unique(votes.units.of * max(1, len(values)) + value, return_counts=True)
    unit, value = np.divmod(key, max(1, len(values)))
    totals = np.bincount(votes.units.of, minlength=len(votes.units)).astype(np.int64)
    return Counts(unit, value, count.astype(np.int64), values, totals)


def settle(votes: Votes, *, least_support: float = 0.0) -> Verdicts:
    """The value with most votes of every unit. Ties are disputed, and so is less support than `least_support`."""
    least_support = checks.real(least_support, "least_support", least=0.0)
    n = len(votes.units)
    leading, count, tied = find_leading(votes.units.of, votes.values, n)
    totals = np.bincount(votes.units.of, minlength=n).astype(np.int64)
    support = count / totals
    settled = ~tied & (support >= least_support)
    values = np.where(settled, leading, DISPUTED)
    return Verdicts(votes.units.rows, votes.units.classes, values, support, totals, settled)


def find_leading(unit: Integers, value: Integers, n: int) -> tuple[Integers, Integers, npt.NDArray[np.bool_]]:
    """(the value with most votes, its votes, whether another has as many) of each of n units.

    A unit without votes has `NO_VALUE` with 0 votes.
    """
    leading, count, tied = np.full(n, NO_VALUE, np.int64), np.zeros(n, np.int64), np.zeros(n, np.bool_)
    order = np.lexsort((value, unit))
    unit, value = unit[order], value[order]
    first = np.flatnonzero(find_starts(unit, value))
    times = np.diff(np.append(first, len(unit)))
    ranked = np.lexsort((-times, unit[first]))  # the leading value of a unit comes first
    times, first = times[ranked], first[ranked]
    owner = unit[first]
    ahead = np.flatnonzero(find_starts(owner))
    leading[owner[ahead]], count[owner[ahead]] = value[first[ahead]], times[ahead]
    after = ahead[ahead + 1 < len(owner)] + 1
    tied[owner[after]] = (owner[after] == owner[after - 1]) & (times[after] == times[after - 1])
    return leading, count, tied


def find_starts(*columns: Integers) -> npt.NDArray[np.bool_]:
    """Where one of the columns differs from the entry before."""
    starts = np.ones(len(columns[0]), np.bool_)
    if len(starts):
        starts[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return starts


# Agreement.


def agree(votes: Votes, *, n_values: int | None = None) -> Agreement:
    """Alpha and AC1 of all votes. n_values: how many values there are to choose from; the default is those that occur.

    AC1 needs the number of values, alpha does not.
    """
    counts = count_votes(votes)
    return Agreement(
        int((counts.totals > 1).sum()),
        int(counts.totals[counts.totals > 1].sum()),
        _observe(counts),
        find_alpha(counts),
        find_ac1(counts, n_values),
    )


def agree_by_class(votes: Votes) -> dict[int, Agreement]:
    """The agreement on the pairs of each class."""
    return {number: agree(votes.take(places), n_values=2) for number, places in _group(votes.classes)}


def find_alpha(counts: Counts) -> float | None:
    """Krippendorff's alpha for nominal values: 1 - observed / expected disagreement."""
    doubled = counts.totals > 1
    n = float(counts.totals[doubled].sum())
    inside = doubled[counts.unit]
    by_value = np.bincount(counts.value[inside], counts.count[inside], minlength=len(counts.values))
    expected = n * n - float((by_value**2).sum())
    if expected == 0:  # no unit with two votes, or one value only
        return None
    equal = np.bincount(counts.unit, counts.count.astype(np.float64) ** 2, minlength=len(counts.totals))[doubled]
    totals = counts.totals[doubled].astype(np.float64)
    observed = float(((totals**2 - equal) / (totals - 1)).sum())
    return 1 - (n - 1) * observed / expected


def find_ac1(counts: Counts, n_values: int | None = None) -> float | None:
    """Gwet's AC1: (observed - chance) / (1 - chance), where chance is the mean of p (1 - p) over n_values - 1."""
    q = len(counts.values) if n_values is None else checks.integer(n_values, "n_values", least=1)
    if q < len(counts.values):
        raise InputError(f"n_values is {q}, but the votes have {len(counts.values)} different values")
    observed = _observe(counts)
    if observed is None or q < 2:
        return None
    weights = counts.count / counts.totals[counts.unit]
    shares = np.bincount(counts.value, weights, minlength=len(counts.values)) / len(counts.totals)
    chance = float((shares * (1 - shares)).sum()) / (q - 1)
    return (observed - chance) / (1 - chance)


def agree_on_sets(votes: Votes, members: Sequence[Collection[int]]) -> dict[int, Agreement]:
    """The agreement on each class if values are sets of classes: `members[value]` holds the classes of a set.

    An annotator's answer counts as one yes or no for each class. Only the yes are listed, so that the cost does not
    grow with the number of classes; classes that nobody named are left out.
    """
    if len(votes) and not 0 <= votes.values.min() <= votes.values.max() < len(members):
        raise InputError(f"values must be 0 to {len(members) - 1}, the positions of the {len(members)} sets")
    lengths = np.array([len(one) for one in members], np.int64)
    flat = np.array([number for one in members for number in one], np.int64)
    times = lengths[votes.values]
    skipped = (np.cumsum(lengths) - lengths)[votes.values] - (np.cumsum(times) - times)
    classes = flat[np.repeat(skipped, times) + np.arange(int(times.sum()))]
    unit = np.repeat(votes.units.of, times)
    totals = np.bincount(votes.units.of, minlength=len(votes.units)).astype(np.int64)
    doubled = (int((totals > 1).sum()), int(totals[totals > 1].sum()))
    return {number: _agree_on_yes(unit[places], totals, doubled) for number, places in _group(classes)}


def _agree_on_yes(yes: Integers, totals: Integers, doubled: tuple[int, int]) -> Agreement:
    """The agreement on one class from the units of its yes; all other votes are no. doubled: (units, votes).

    The same as the count table with two values, but units without a yes, where all agree, are not looked at.
    """
    unit, count = np.unique(yes, return_counts=True)
    count, total = count.astype(np.float64), totals[unit].astype(np.float64)
    share = float((count / total).sum()) / len(totals)
    several = total > 1
    count, total = count[several], total[several]
    units, votes = doubled
    if not units:
        return Agreement(0, 0, None, None, None)
    apart = 2 * count * (total - count)  # ordered pairs of a yes and a no on one unit
    observed = 1 - float((apart / (total * (total - 1))).sum()) / units
    expected = 2 * float(count.sum()) * (votes - float(count.sum()))
    alpha = 1 - (votes - 1) * float((apart / (total - 1)).sum()) / expected if expected else None
    chance = 2 * share * (1 - share)
    return Agreement(units, votes, observed, alpha, (observed - chance) / (1 - chance))


def _observe(counts: Counts) -> float | None:
    """The share of equal pairs of votes, averaged over the units with at least two."""
    doubled = counts.totals > 1
    if not doubled.any():
        return None
    count = counts.count.astype(np.float64)
    equal = np.bincount(counts.unit, count * (count - 1), minlength=len(counts.totals))[doubled]
    totals = counts.totals[doubled].astype(np.float64)
    return float((equal / (totals * (totals - 1))).mean())


# Pairs of annotators.


def compare_annotators(votes: Votes) -> list[Kappa]:
    """Cohen's kappa of every two annotators with a unit in common, by their numbers."""
    people, who = np.unique(votes.annotators, return_inverse=True)
    values, value = np.unique(votes.values, return_inverse=True)
    a, q = len(people), max(1, len(values))
    entries = _count_pairs(votes, who, (who * q + value).astype(np.int64), a * q)
    if not len(entries[0]):
        return []
    (one, x), (other, y) = np.divmod(entries[0], q), np.divmod(entries[1], q)
    pair, place = np.unique(one * a + other, return_inverse=True)
    n = np.bincount(place, entries[2])
    observed = np.bincount(place, entries[2] * (x == y)) / n
    chance = _expect(place, x, y, entries[2], q) / n**2
    kappas = np.where(chance < 1, (observed - chance) / np.where(chance < 1, 1 - chance, 1), np.nan)
    first, second = np.divmod(pair, a)
    return [
        Kappa(int(people[i]), int(people[j]), int(units), float(same), None if np.isnan(kappa) else float(kappa))
        for i, j, units, same, kappa in zip(first, second, n, observed, kappas, strict=True)
    ]


def find_kappa(first: Integers, second: Integers) -> float | None:
    """Cohen's kappa of two columns of values for the same units; None if both hold one and the same value only."""
    checks.same_length({"first": len(first), "second": len(second)})
    if not len(first):
        return None
    values, place = np.unique(np.concatenate([first, second]), return_inverse=True)
    x, y = place[: len(first)], place[len(first) :]
    shares = [np.bincount(column, minlength=len(values)) / len(first) for column in (x, y)]
    chance = float(shares[0] @ shares[1])
    observed = float((x == y).mean())
    return None if chance >= 1 else (observed - chance) / (1 - chance)


def confuse(votes: Votes, *, most: int | None = None) -> list[Confusion]:
    """The values that annotators take for each other: pairs of different votes on one unit, the most frequent first.

    most: how many pairs of values, at most.
    """
    values, value = np.unique(votes.values, return_inverse=True)
    first, second, count = _count_pairs(votes, value, value.astype(np.int64), max(1, len(values)))
    total = float(count.sum())
    differ = np.flatnonzero(first != second)
    ranked = differ[np.lexsort((second[differ], first[differ], -count[differ]))][:most]
    found = zip(first[ranked], second[ranked], count[ranked], strict=True)
    return [Confusion(int(values[i]), int(values[j]), int(times), float(times / total)) for i, j, times in found]


def confusion_matrix(votes: Votes, n_values: int) -> npt.NDArray[np.int64]:
    """How often one annotator said i and another one j about the same unit: symmetric, (n_values, n_values).

    The diagonal counts pairs of equal votes. Values must be 0 to n_values - 1.
    """
    if len(votes) and not 0 <= votes.values.min() <= votes.values.max() < n_values:
        raise InputError(f"values must be 0 to {n_values - 1} for a confusion matrix of {n_values} values")
    first, second, count = _count_pairs(votes, votes.values, votes.values, max(1, n_values))
    matrix = np.zeros((n_values, n_values), np.int64)
    matrix[first, second] = count
    return matrix + np.triu(matrix, 1).T


def _count_pairs(votes: Votes, rank: Integers, code: Integers, size: int) -> tuple[Integers, Integers, Integers]:
    """(code, code, count) of all pairs of votes on one unit; of a pair, the vote with the lower rank comes first.

    Votes are sorted by unit and rank, and then each is met with the one d places on, for every d up to the most votes
    of a unit: as many passes as that, over arrays that get shorter.
    """
    found = np.zeros(0, np.int64)
    times = np.zeros(0, np.int64)
    for pairs in _meet(votes, rank, code):
        key, count = np.unique(pairs[0] * size + pairs[1], return_counts=True)
        found, place = np.unique(np.concatenate([found, key]), return_inverse=True)
        times = np.bincount(place, np.concatenate([times, count]), minlength=len(found)).astype(np.int64)
    first, second = np.divmod(found, size)
    return first, second, times


def _meet(votes: Votes, rank: Integers, code: Integers) -> Iterator[tuple[Integers, Integers]]:
    order = np.lexsort((rank, votes.units.of))
    unit, code = votes.units.of[order], code[order]
    left = np.arange(len(unit) - 1)
    distance = 1
    while len(left := left[unit[left] == unit[left + distance]]):
        yield code[left], code[left + distance]
        distance += 1
        left = left[left + distance < len(unit)]


def _expect(pair: Integers, x: Integers, y: Integers, count: Integers, q: int) -> npt.NDArray[np.float64]:
    """For each pair of annotators, the sum over values of the product of how often each gave it."""
    keys = np.unique(np.concatenate([pair * q + x, pair * q + y]))
    one = np.bincount(np.searchsorted(keys, pair * q + x), count, minlength=len(keys))
    other = np.bincount(np.searchsorted(keys, pair * q + y), count, minlength=len(keys))
    return np.bincount(keys // q, one * other).astype(np.float64)


# Gold questions.


def score_gold(votes: Votes, truth: Verdicts, *, threshold: float = 0.7, confidence: float = 0.95) -> list[Gold]:
    """The accuracy of each annotator on units whose truth is known, by annotator. Disputed truth is not used.

    An annotator is flagged if the whole interval is below the threshold, after at least `FEWEST_GOLD` answers. Nothing
    else follows from a flag here.
    """
    threshold = checks.real(threshold, "threshold", least=0.0)
    known = _look_up(votes, truth)
    asked = known >= 0
    right = votes.values[asked] == truth.values[known[asked]]
    people, who = np.unique(votes.annotators[asked], return_inverse=True)
    total = np.bincount(who, minlength=len(people))
    hits = np.bincount(who, right, minlength=len(people)).astype(np.int64)
    low, high = find_wilson(hits, total, confidence=confidence)
    flagged = (high < threshold) & (total >= FEWEST_GOLD)
    return [
        Gold(int(people[i]), int(hits[i]), int(total[i]), float(hits[i] / total[i]), *ends, bool(flagged[i]))
        for i, ends in enumerate(zip(low.tolist(), high.tolist(), strict=True))
    ]


def find_wilson(
    hits: Any, total: Any, *, confidence: float = 0.95
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Wilson's interval for the shares hits / total; 0 to 1 where total is 0."""
    hits, total = np.asarray(hits, np.float64), np.asarray(total, np.float64)
    confidence = checks.real(confidence, "confidence", above=0.0)
    if confidence >= 1:
        raise InputError(f"confidence must be below 1, got {confidence:g}")
    if (hits < 0).any() or (hits > total).any():
        raise InputError("hits must be between 0 and total")
    z = float(ndtri((1 + confidence) / 2))
    n = np.maximum(total, 1)
    share = hits / n
    center = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    # At the ends the formula gives exactly 0 and 1, but for rounding.
    low = np.where(hits == 0, 0.0, center - half)
    high = np.where(hits == total, 1.0, center + half)
    return np.where(total > 0, low, 0.0), np.where(total > 0, high, 1.0)


def _look_up(votes: Votes, truth: Verdicts) -> Integers:
    """The place of each vote's unit among the settled verdicts, or -1."""
    settled = np.flatnonzero(truth.settled)
    if not len(settled) or not len(votes):
        return np.full(len(votes), -1, np.int64)
    width = int(max(votes.classes.max(), truth.classes[settled].max())) + 2
    keys = _make_keys(truth.rows[settled], truth.classes[settled], width)
    order = np.argsort(keys, kind="stable")
    wanted = _make_keys(votes.rows, votes.classes, width)
    place = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
    return np.where(keys[order[place]] == wanted, settled[order[place]], -1)


# Columns.


def _find_units(rows: Integers, classes: Integers) -> Units:
    if not len(rows):
        empty = np.zeros(0, np.int64)
        return Units(empty, empty, empty)
    width = int(classes.max()) + 2
    keys, of = np.unique(_make_keys(rows, classes, width), return_inverse=True)
    found, shifted = np.divmod(keys, width)
    return Units(found, shifted + WHOLE_ROW, of.astype(np.int64))


def _make_keys(rows: Integers, classes: Integers, width: int) -> Integers:
    """One number per pair of row and class; classes begin at -1."""
    if len(rows) and int(rows.max()) > np.iinfo(np.int64).max // width - 1:
        raise InputError(f"row {rows.max()} is too large for {width - 1} classes")
    return rows * width + (classes - WHOLE_ROW)


def _group(keys: Integers) -> Iterator[tuple[int, Integers]]:
    """(key, its places) for every distinct key, ascending."""
    order = np.argsort(keys, kind="stable")
    found, begins = np.unique(keys[order], return_index=True)
    for key, low, high in zip(found.tolist(), begins, [*begins[1:], len(keys)], strict=False):
        yield key, order[low:high]


def _check_column(column: Any, name: str) -> Integers:
    values = np.asarray(column)
    if values.size == 0:
        return np.zeros(0, np.int64)
    if values.ndim != 1 or values.dtype.kind not in "iub":
        raise InputError(
            f"{name} must be whole numbers, one per vote, got dtype {values.dtype} and shape {values.shape}"
        )
    return np.ascontiguousarray(values, np.int64)


def _refuse_second_votes(votes: Votes) -> None:
    people, who = np.unique(votes.annotators, return_inverse=True)
    keys = np.sort(votes.units.of * max(1, len(people)) + who)
    twice = keys[1:][keys[1:] == keys[:-1]]
    if len(twice):
        unit, person = divmod(int(twice[0]), len(people))
        raise InputError(
            f"annotator {people[person]} has more than one vote on row {votes.units.rows[unit]}: pass the latest only"
        )
