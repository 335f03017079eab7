"""People: how much each of them said, how far they agree, and how often they are right on gold questions.

What they say is read into columns once; everything else is counted there (`quality.py`), so that a million rows with
two answers each take seconds. Answers to gold questions tell about the person and nothing else: no figure of agreement
has them. Nor are an expert's decisions votes. "None of these" is a value like a class.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow.campaign import gold, quality, tables, verdicts
from hedgerow.campaign.answers import ADJUDICATE, ANSWER, BROKEN, NONE_OF_THESE, SKIP, UNSURE
from hedgerow.campaign.database import Database, now
from hedgerow.campaign.holdings import MULTI_LABEL, PAIRS, Holdings
from hedgerow.campaign.quality import Agreement, Votes
from hedgerow.campaign.tables import GOLD
from hedgerow.campaign.verdicts import NO_VALUE, Numbers

NONE_NAME = "none of these"
MOST_CONFUSED = 1000  # pairs of values that are listed: sets of classes may be many
SAMPLE = 20_000  # rows or pairs from which the agreement is estimated where an exact figure would make people wait


@dataclass(frozen=True, eq=False)
class Said:
    """The last statement of each person about each row or pair, by column. seconds: NaN if unknown."""

    row: Numbers
    class_: Numbers
    annotator: Numbers
    kind: Numbers
    value: Numbers  # NO_VALUE where there is none
    seconds: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.row)

    @property
    def votes(self) -> Votes:
        """Those that name a value, or none of these."""
        some = (self.kind == ANSWER) | (self.kind == NONE_OF_THESE)
        return Votes(self.row[some], self.class_[some], self.annotator[some], self.value[some])


@dataclass(frozen=True)
class Person:
    """What one person did.

    answers: rows or pairs that they answered, "none of these" included; unsure, broken, skips and decided (as an
    expert) are not among them. seconds: the median per statement. agreement: the share of other people's votes on the
    same rows or pairs that equal theirs; `compared` is how many these are. gold: on gold questions, with an interval.
    alone: rows or pairs of which only they said something. flagged: their accuracy is surely below the threshold.
    """

    name: str
    answers: int
    unsure: int
    broken: int
    skips: int
    decided: int
    seconds: float | None
    agreement: float | None
    compared: int
    gold: Mapping[str, float] | None
    leases: int
    alone: int
    flagged: bool


@dataclass(frozen=True)
class People:
    """All people of a campaign, and how far they agree on what several of them answered.

    by_class: agreement on each class, where an answer is a yes or a no to it. kappas: of every two people with answers
    in common. confusion: the values they take for each other, the most frequent first.
    """

    people: tuple[Person, ...]
    agreement: Agreement
    by_class: Mapping[str, Agreement]
    kappas: tuple[Mapping[str, Any], ...]
    confusion: tuple[Mapping[str, Any], ...]
    threshold: float

    def to_json(self) -> dict[str, Any]:
        """The same in plain types."""
        return asdict(self)


# Reading.


def read_people(database: Database, holdings: Holdings) -> People:
    """Everything about the people of a campaign, in one consistent view."""
    with database.read() as connection:
        names = _read_names(connection)
        said, asked = _read_said(connection)
        leases = _count_leases(connection)
        settings = gold.read_settings(connection)
        truth = _read_truth(connection)
        sets = _read_sets(connection)
    values = _Values(holdings, sets)
    votes = said.votes
    kappas = quality.compare_annotators(votes)
    scores = quality.score_gold(asked.votes, truth, threshold=settings.threshold)
    return People(
        _describe(names, said, asked, kappas, scores, leases),
        agree(votes, holdings),
        values.agree_by_class(votes),
        _name_pairs(kappas, names),
        tuple(
            {**asdict(one), "first": values.name(one.first), "second": values.name(one.second)}
            for one in quality.confuse(votes, most=MOST_CONFUSED)
        ),
        settings.threshold,
    )


def _name_pairs(kappas: list[quality.Kappa], names: Mapping[int, str]) -> tuple[Mapping[str, Any], ...]:
    """The kappas by the names of people, in their order."""
    named = []
    for one in kappas:
        first, second = sorted((names[one.first], names[one.second]))
        named.append({**asdict(one), "first": first, "second": second})
    return tuple(sorted(named, key=lambda one: (one["first"], one["second"])))


def agree(votes: Votes, holdings: Holdings) -> Agreement:
    """The agreement of votes, on whole answers."""
    return quality.agree(votes, n_values=_count_values(votes, holdings))


def _count_values(votes: Votes, holdings: Holdings) -> int | None:
    """How many values there are to choose from; None if nobody knows, as with sets of classes."""
    if holdings.kind == PAIRS:
        return 2
    if holdings.kind == MULTI_LABEL:
        return None
    found = np.unique(votes.values)
    return len(set(holdings.classes) | set(found.tolist()))


def estimate_agreement(connection: sa.Connection, holdings: Holdings) -> Agreement | None:
    """The agreement of people for a glance; where much was answered twice, that of a part of the pool.

    The part has every m-th row, which no strategy chose. None if nothing was answered twice.
    """
    count = connection.execute(sa.text("SELECT count(*) FROM verdict WHERE given > 1")).scalar_one()
    if not count:
        return None
    some = (
        'EXISTS (SELECT 1 FROM verdict v WHERE v."row" = e."row" AND v."class" = e."class" AND v.given > 1) '
        f'AND e."row" % {-(-int(count) // SAMPLE)} = 0'
    )
    said, _ = _read_said(connection, some)
    found = agree(said.votes, holdings)
    return found if found.units else None


def _read_said(connection: sa.Connection, some: str = "1 = 1") -> tuple[Said, Said]:
    """(what counts of what people said, their answers to gold questions)."""
    sql = (
        f'SELECT e."row", e."class", e.annotator, e.kind, coalesce(e.value, {NO_VALUE}), e.id, e.seq, '
        f"CASE WHEN e.channel = '{GOLD}' THEN 1 ELSE 0 END, CAST(coalesce(e.seconds * 1000000, -1) AS bigint) "
        f"{verdicts.FROM} WHERE {verdicts.STANDS} AND a.kind = 'person' AND {some}"
    )
    whole, meaning = verdicts.fetch_numbers(connection, sql, 9), verdicts.read_meaning(connection)
    asked = whole[:, 7] == 1
    return _take_last(whole[~asked], meaning), _take_last(whole[asked], meaning)


def _take_last(whole: Numbers, meaning: Numbers) -> Said:
    row, class_, person, kind, value, _, _, _, time = (
        np.ascontiguousarray(column) for column in verdicts.take_last(whole, meaning).T
    )
    return Said(row, class_, person, kind, value, np.where(time < 0, np.nan, time / 1e6))


def _read_names(connection: sa.Connection) -> dict[int, str]:
    person = tables.annotator
    query = sa.select(person.c.id, person.c.name).where(person.c.kind == "person").order_by(person.c.name)
    return {row[0]: row[1] for row in connection.execute(query)}


def _read_sets(connection: sa.Connection) -> dict[int, tuple[int, ...]]:
    """The classes of each set of classes."""
    rows = connection.execute(sa.select(tables.labelset.c.id, tables.labelset.c.classes))
    return {row[0]: tuple(int(number) for number in row[1].split(",")) for row in rows}


def _count_leases(connection: sa.Connection) -> dict[int, int]:
    sql = "SELECT annotator, count(*) FROM lease WHERE until > :now GROUP BY annotator"
    return {row[0]: int(row[1]) for row in connection.execute(sa.text(sql), {"now": now()})}


def _read_truth(connection: sa.Connection) -> quality.Verdicts:
    """The answers to the gold questions that were asked; those that are gold no more are left out."""
    sql = (
        f'SELECT DISTINCT t."row", t."class", coalesce(v.value, {NO_VALUE}) FROM task t JOIN batch b ON b.id = t.batch '
        f'JOIN verdict v ON v."row" = t."row" AND v."class" = t."class" WHERE b.kind = \'{GOLD}\' AND {gold.KNOWN}'
    )
    row, class_, value = verdicts.fetch_numbers(connection, sql, 3).T
    n = len(row)
    return quality.Verdicts(row, class_, value, np.ones(n), np.ones(n, np.int64), np.ones(n, np.bool_))


# Values.


@dataclass(frozen=True, eq=False)
class _Values:
    """What the values of votes stand for. sets: of a multi-label campaign."""

    holdings: Holdings
    sets: Mapping[int, tuple[int, ...]]

    def list_classes(self, value: int) -> tuple[int, ...]:
        """The classes that a value names."""
        if value == NO_VALUE:
            return ()
        return self.sets[value] if self.holdings.kind == MULTI_LABEL else (value,)

    def name(self, value: int) -> str:
        """A value in words."""
        if self.holdings.kind == PAIRS:
            return str(value)
        return "|".join(self.holdings.names[number] for number in self.list_classes(value)) or NONE_NAME

    def agree_by_class(self, votes: Votes) -> dict[str, Agreement]:
        """The agreement on each class, by name; classes that nobody named are left out."""
        if self.holdings.kind == PAIRS:
            found = quality.agree_by_class(votes)
        else:
            values, place = np.unique(votes.values, return_inverse=True)
            placed = Votes(votes.rows, votes.classes, votes.annotators, place.astype(np.int64))
            found = quality.agree_on_sets(placed, [self.list_classes(value) for value in values.tolist()])
        return {self.holdings.every_class[number].name: one for number, one in found.items()}


# Describing.


def _describe(
    names: Mapping[int, str],
    said: Said,
    asked: Said,
    kappas: list[quality.Kappa],
    scores: list[quality.Gold],
    leases: Mapping[int, int],
) -> tuple[Person, ...]:
    """What each person did."""
    kinds = {
        kind: _count(said.annotator[np.isin(said.kind, numbers)])
        for kind, numbers in (
            ("answers", (ANSWER, NONE_OF_THESE)), ("unsure", UNSURE), ("broken", BROKEN), ("skips", SKIP),
            ("decided", ADJUDICATE),
        )
    }  # fmt: skip
    alone = _count(find_alone(said).annotator)
    seconds = _find_medians(
        np.concatenate([said.annotator, asked.annotator]), np.concatenate([said.seconds, asked.seconds])
    )
    by_person = {one.annotator: one for one in scores}
    known = {*np.unique(np.concatenate([said.annotator, asked.annotator])).tolist(), *leases}
    people = []
    for number, name in names.items():
        if number not in known:
            continue
        share, compared = _agree_with_others(number, kappas)
        score = by_person.get(number)
        accuracy = None
        if score is not None:
            accuracy = {key: value for key, value in asdict(score).items() if key not in ("annotator", "flagged")}
        people.append(
            Person(
                name,
                **{kind: counts.get(number, 0) for kind, counts in kinds.items()},
                seconds=seconds.get(number),
                agreement=share,
                compared=compared,
                gold=accuracy,
                leases=leases.get(number, 0),
                alone=alone.get(number, 0),
                flagged=score is not None and score.flagged,
            )
        )
    return tuple(people)


def _count(people: Numbers) -> dict[int, int]:
    numbers, counts = np.unique(people, return_counts=True)
    return dict(zip(numbers.tolist(), counts.tolist(), strict=True))


def _find_medians(people: Numbers, seconds: npt.NDArray[np.float64]) -> dict[int, float]:
    """The median of each person's times."""
    timed = ~np.isnan(seconds)
    people, seconds = people[timed], seconds[timed]
    order = np.lexsort((seconds, people))
    people, seconds = people[order], seconds[order]
    low = np.flatnonzero(quality.find_starts(people))
    high = np.append(low[1:], len(people)) if len(low) else low
    middle = (seconds[(low + high - 1) // 2] + seconds[(low + high) // 2]) / 2
    return dict(zip(people[low].tolist(), middle.tolist(), strict=True))


def _agree_with_others(number: int, kappas: list[quality.Kappa]) -> tuple[float | None, int]:
    """(the share of equal votes of others on the same rows or pairs, how many votes these are)."""
    mine = [one for one in kappas if number in (one.first, one.second)]
    units = sum(one.units for one in mine)
    return (sum(one.observed * one.units for one in mine) / units if units else None), units


def find_alone(said: Said) -> Said:
    """The answers that nobody else gave one beside: what is known of these rows or pairs comes from one person."""
    counts = np.isin(said.kind, (ANSWER, UNSURE, NONE_OF_THESE, BROKEN, ADJUDICATE))
    held = Said(*(column[counts] for column in vars(said).values()))
    starts = quality.find_starts(held.row, held.class_)
    single = starts & np.append(starts[1:], True)[: len(starts)]
    single &= held.kind != ADJUDICATE
    return Said(*(column[single] for column in vars(held).values()))


def find_rows_alone(database: Database, name: str) -> tuple[Numbers, Numbers]:
    """(rows, classes) of what only one person settled."""
    with database.read() as connection:
        who = next((number for number, one in _read_names(connection).items() if one == name), None)
        said, _ = _read_said(connection)
    alone = find_alone(said)
    mine = alone.annotator == (-1 if who is None else who)
    return alone.row[mine], alone.class_[mine]
