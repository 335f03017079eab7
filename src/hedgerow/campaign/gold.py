"""Gold questions: rows or pairs of the holdout whose answer is known, asked again to see how often people are right.

A question is gold if at least two people gave the same answer and nobody gave another, or if an expert decided. The
tasks that a person is leased are numbered. With a share of 3 % one of every 33 or 34 is a gold question, at a place
drawn by the campaign's seed; two never follow each other, and none is asked about what the person has answered before,
as gold or otherwise. It looks like the tasks around it. Where nothing is gold yet, no place is kept for it.

Answers are events of a channel of their own. They stay out of verdicts, agreement and exports: they tell about people.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa

from hedgerow import checks
from hedgerow.campaign import database as db
from hedgerow.campaign import tables, verdicts
from hedgerow.campaign.database import Database, now
from hedgerow.campaign.tables import GOLD, LIVE, SETTLED
from hedgerow.errors import InputError

KEY = "gold"  # in `meta`
STREAM = 0x601D  # sets these draws apart from others with the same seed
MOST_SHARE = 0.5  # beyond it two would have to follow each other
LOOKED_AT = 1000  # tasks of the holdout among which a question is looked for, so that nobody waits for it
KNOWN = "(v.how = 'adjudicated' OR (v.how IN ('majority', 'none-of-these') AND v.support > 1 AND v.support = v.given))"


@dataclass(frozen=True)
class Settings:
    """share: of a person's tasks. threshold: whose accuracy is surely below it is flagged."""

    share: float = 0.03
    threshold: float = 0.7


@dataclass(frozen=True)
class Gold:
    """The gold questions of a campaign: its settings, how many there are, how often one was answered."""

    share: float
    threshold: float
    questions: int
    answers: int

    def __str__(self) -> str:
        share = f"{self.share:.3g} of each person's tasks" if self.share else "switched off"
        return f"{self.questions:,} gold questions, {self.answers:,} answers; {share}; flagged below {self.threshold:g}"


@dataclass(frozen=True)
class Leased:
    """A task that a person holds or gets. batch: what it is shown as. place: in the order of what they were asked."""

    task: int
    batch: int
    row: int
    class_: int
    place: int
    gold: bool = False


# Settings.


def check_settings(share: float | None, threshold: float | None, held: Settings) -> Settings:
    """New settings, checked; None keeps what is set."""
    share = held.share if share is None else checks.real(share, "share", least=0)
    if share > MOST_SHARE:
        raise InputError(f"share must be between 0 and {MOST_SHARE} (0% and 50%), got {share:g}: two never follow")
    threshold = held.threshold if threshold is None else checks.real(threshold, "threshold", least=0)
    if threshold > 1:
        raise InputError(f"threshold must be a share between 0 and 1 (or 0% and 100%), got {threshold:g}")
    return Settings(share, threshold)


def read_settings(connection: sa.Connection) -> Settings:
    """What is set, or the default."""
    return _parse_settings(db.read_meta(connection, KEY))


def _parse_settings(held: str | None) -> Settings:
    return Settings() if held is None else Settings(**json.loads(held))


def change_settings(database: Database, share: float | None, threshold: float | None) -> None:
    """Set the share or the threshold."""
    with database.write() as connection:
        settings = check_settings(share, threshold, read_settings(connection))
        db.write_meta(connection, KEY, json.dumps(asdict(settings)))
        database.note(connection, "gold", asdict(settings))


def read_gold(database: Database) -> Gold:
    """The settings, and how many questions and answers there are."""
    questions = (
        f"SELECT count(*) FROM (SELECT DISTINCT t.row, t.class {_HELD} AND t.state = {SETTLED} AND {KNOWN} "
        f"AND {_NOT_RETIRED}) AS gold"
    )
    given = f"SELECT DISTINCT e.row, e.class, e.annotator {verdicts.FROM} WHERE {verdicts.COUNTS_AS_GOLD}"
    answers = f"SELECT count(*) FROM ({given}) AS given"
    with database.read() as connection:
        settings = read_settings(connection)
        counts = [int(connection.execute(sa.text(sql)).scalar_one()) for sql in (questions, answers)]
    return Gold(settings.share, settings.threshold, *counts)


_HELD = (
    "FROM task t JOIN batch b ON b.id = t.batch JOIN verdict v ON v.row = t.row AND v.class = t.class "
    "WHERE b.kind = 'holdout'"
)
_NOT_RETIRED = "NOT EXISTS (SELECT 1 FROM retired r WHERE r.row = t.row)"


# Mixing.


def count_asked(database: Database, connection: sa.Connection, who: int) -> int:
    """How many tasks a person was leased so far. On PostgreSQL their other claims wait from here on."""
    sql = "SELECT asked FROM annotator WHERE id = :who" + ("" if database.is_sqlite else " FOR NO KEY UPDATE")
    return int(connection.execute(sa.text(sql), {"who": who}).scalar_one())


def mix(
    database: Database, connection: sa.Connection, who: int, held: Sequence[Leased], found: Sequence[Leased]
) -> list[Leased]:
    """As many tasks as were found, with gold questions among them; what they displace is left to others.

    held: what the person has at hand already, before these.
    """
    if not found:
        return []
    facts = db.read_metas(connection, [KEY, "settings"])
    share, seed = _parse_settings(facts.get(KEY)).share, int(json.loads(facts["settings"])["seed"])
    if not share:
        return list(found)
    start = found[0].place
    drawn = dict(_draw_places(seed, who, share, start, start + len(found)))
    mixed: list[Leased] = []
    regular = iter(found)
    for place in range(start, start + len(found)):
        shown = next(regular)
        before = mixed[-1] if mixed else held[-1] if held else None
        question = None
        if place in drawn and not (before is not None and before.gold):
            taken = [(one.row, one.class_) for one in (*held, *mixed) if one.gold]
            question = _find_question(database, connection, who, drawn[place], taken)
        if question is None:
            mixed.append(Leased(shown.task, shown.batch, shown.row, shown.class_, place))
            continue
        task = _find_task(database, connection, *question)
        mixed.append(Leased(task, shown.batch, *question, place, gold=True))
        regular = iter([shown, *regular])
    return mixed


def _draw_places(seed: int, who: int, share: float, start: int, stop: int) -> Iterator[tuple[int, float]]:
    """(place, where in the holdout to look, from 0 to 1) of the gold questions from start to stop.

    One in every stretch of 1 / share places, but never the first of a stretch, so that two never follow each other.
    """
    for number in range(max(0, math.floor(start * share) - 1), math.floor(stop * share) + 1):
        low, high = math.ceil(number / share), math.ceil((number + 1) / share)
        rng = np.random.default_rng([STREAM, seed, who, number])
        place, where = int(rng.integers(low + 1, max(high, low + 2))), float(rng.random())
        if start <= place < stop:
            yield place, where


_QUESTION = f"""
SELECT t."row", t."class" FROM (
    SELECT t.id, t."row", t."class" FROM task t
    WHERE t.id >= :low AND t.id < :high AND t.batch = :batch AND t.state = {SETTLED} ORDER BY t.id LIMIT {LOOKED_AT}
) t JOIN verdict v ON v."row" = t."row" AND v."class" = t."class"
WHERE {KNOWN} AND {_NOT_RETIRED}
AND NOT EXISTS (SELECT 1 FROM event e WHERE e."row" = t."row" AND e."class" = t."class" AND e.annotator = :who)
AND NOT EXISTS (
    SELECT 1 FROM lease l JOIN task g ON g.id = l.task
    WHERE l.annotator = :who AND l.until > :now AND g."row" = t."row" AND g."class" = t."class"
)
ORDER BY t.id LIMIT :most
"""


def _find_question(
    database: Database, connection: sa.Connection, who: int, where: float, taken: Sequence[tuple[int, int]]
) -> tuple[int, int] | None:
    """(row, class) of a gold question that is new to a person: the first from a place in the holdout on."""
    spans = _list_spans(database, connection)
    if not spans:
        return None
    at, part = divmod(where * len(spans), 1)
    spans = spans[int(at) :] + spans[: int(at)]
    batch, low, high = spans[0]
    middle = low + int(part * (high - low))
    for number, first, last in ((batch, middle, high), *spans[1:], (batch, low, middle)):
        facts = {"batch": number, "low": first, "high": last, "who": who, "now": now(), "most": len(taken) + 1}
        for row, class_ in connection.execute(sa.text(_QUESTION), facts):
            if (row, class_) not in taken:
                return int(row), int(class_)
    return None


def _list_spans(database: Database, connection: sa.Connection) -> list[tuple[int, int, int]]:
    """(batch, its first task, the one after its last) of each batch of the holdout."""
    sql = (
        f"SELECT b.id, m.value FROM batch b LEFT JOIN meta m ON m.key = '{KEY}:' || b.id "
        "WHERE b.kind = 'holdout' AND b.size > 0 ORDER BY b.id"
    )
    return [
        (number, *(_find_span(database, connection, number) if noted is None else json.loads(noted)))
        for number, noted in connection.execute(sa.text(sql)).all()
    ]


def _find_span(database: Database, connection: sa.Connection, batch: int) -> tuple[int, int]:
    """(first task, the one after the last) of a batch. It is looked up once and noted: tasks have no index by batch."""
    _lock(database, connection)
    sql = "SELECT min(id), max(id) + 1 FROM task WHERE batch = :batch"
    low, high = connection.execute(sa.text(sql), {"batch": batch}).one()
    db.write_meta(connection, f"{KEY}:{batch}", json.dumps([low, high]))
    return int(low), int(high)


def _lock(database: Database, connection: sa.Connection) -> None:
    """One claim at a time writes what all share."""
    if not database.is_sqlite:
        connection.execute(sa.text("SELECT value FROM meta WHERE key = 'uuid' FOR UPDATE"))


def _find_task(database: Database, connection: sa.Connection, row: int, class_: int) -> int:
    """The task of a gold question, one for all people. It is settled from the start: its answer is known."""
    _lock(database, connection)
    facts: dict[str, Any] = {"row": row, "class": class_}
    sql = (
        'SELECT t.id FROM task t JOIN batch b ON b.id = t.batch WHERE t."row" = :row AND t."class" = :class '
        f"AND b.kind = '{GOLD}'"
    )
    task = connection.execute(sa.text(sql), facts).scalar()
    if task is not None:
        return int(task)
    table = tables.batch
    batch = connection.execute(sa.select(table.c.id, table.c.size).where(table.c.kind == GOLD)).first()
    if batch is None:
        values = {"kind": GOLD, "strategy": "holdout", "settings": "{}", "seed": 0, "basis": 0, "at": now()}
        values |= {"state": LIVE, "size": 0}
        insert = sa.insert(table).values(**values).returning(table.c.id, table.c.size)
        batch = connection.execute(insert).one()
    connection.execute(sa.update(table).where(table.c.id == batch.id).values(size=batch.size + 1))
    values = {"batch": batch.id, "pick": batch.size, **facts, "wanted": 1, "given": 0, "state": SETTLED}
    insert = sa.insert(tables.task).values(**values).returning(tables.task.c.id)
    return int(connection.execute(insert).scalar_one())
