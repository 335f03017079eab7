"""Tasks handed out to people: leases that expire, so that nobody gets a task by accident and an absentee blocks nobody.

A task is free for a person if the batch is open, the person has not answered or skipped it, and the answers it has and
the leases of others together are fewer than it wants. On PostgreSQL rows that another claim holds are passed over
(SKIP LOCKED); on SQLite one claim is written at a time. An answer after its lease ended is kept as one vote more.

A disputed task is decided blind: nobody is told who said what, and the expert is somebody else than those who differ.
"""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from hedgerow import checks
from hedgerow.campaign import database as db
from hedgerow.campaign import gold, verdicts
from hedgerow.campaign.answers import RETRACT, SKIP
from hedgerow.campaign.database import Database, now
from hedgerow.campaign.gold import Leased
from hedgerow.campaign.tables import ANSWERED, DISPUTED, GOLD, LIVE, OPEN, QUEUED
from hedgerow.errors import CampaignError

MOST_CLAIMED = 30
LEASE_SECONDS = 600


@dataclass(frozen=True)
class Task:
    """One question, leased: about a row, or about a pair if `class_` is not WHOLE_ROW. until: when the lease ends."""

    task: int
    batch: int
    row: int
    class_: int
    until: int


# What a person says about the row or pair of a task; a retraction if nothing.
SAID = f"""coalesce((SELECT CASE WHEN m."class" IS NULL OR m.to_class IS NOT NULL THEN e.kind ELSE {RETRACT} END
              {verdicts.FROM} LEFT JOIN meaning m ON m."class" = e."class" AND m.value = coalesce(e.value, -1)
              WHERE e."row" = t."row" AND e."class" = t."class" AND e.annotator = :who AND {verdicts.COUNTS}
              ORDER BY e.seq DESC LIMIT 1), {RETRACT})"""
FREE = f"""
t.given + (SELECT count(*) FROM lease l WHERE l.task = t.id AND l.until > :now AND l.annotator <> :who) < t.wanted
AND NOT EXISTS (SELECT 1 FROM lease l WHERE l.task = t.id AND l.annotator = :who AND l.until > :now)
AND {SAID} = {RETRACT}
"""
FREE_TO_DECIDE = "NOT EXISTS (SELECT 1 FROM lease l WHERE l.task = t.id AND l.until > :now) AND "
OTHERS = f"{SAID} = {RETRACT}"
OWN_AS_WELL = f"{SAID} <> {SKIP}"
# Both databases walk through the index of waiting tasks in pick order and stop at the limit. For that SQLite must see
# the condition of the index, which makes PostgreSQL sort all of them: it needs the state as a number in the statement.
FIND = """
SELECT t.id, t.batch, t."row", t."class" FROM task t
WHERE t.batch = :batch AND {state} AND {free} ORDER BY t.pick LIMIT :most
"""
# Taken by their numbers first: PostgreSQL would go through the whole queue in search of them.
LOOK_AGAIN = """
WITH t AS MATERIALIZED (SELECT * FROM task WHERE id = ANY(CAST(:locked AS bigint[])))
SELECT t.id, t.batch, t."row", t."class" FROM t WHERE {state} AND {free} ORDER BY t.pick
"""
HELD = """
SELECT t.id, l.batch, t."row", t."class", l.place, CASE WHEN t.batch = l.batch THEN 0 ELSE 1 END
FROM lease l JOIN task t ON t.id = l.task JOIN batch b ON b.id = l.batch
WHERE l.annotator = :who AND l.until > :now AND b.state = :live
AND (t.state BETWEEN :first AND :last OR (:first = 0 AND t.batch <> l.batch))
ORDER BY l.place, t.batch, t.pick
"""
KEEP = """
INSERT INTO lease (task, annotator, until, batch, place)
SELECT task, :who, :until, batch, place FROM ({leases}) AS leases WHERE true
ON CONFLICT (task, annotator)
DO UPDATE SET until = excluded.until, batch = excluded.batch, place = excluded.place
"""


def claim(
    database: Database,
    who: int,
    n: int,
    *,
    batch: int | None = None,
    seconds: float = LEASE_SECONDS,
    expert: bool = False,
    own: bool = False,
) -> tuple[list[Task], int]:
    """(at most n tasks for a person, the edition of the pool): those they hold already, then others in pick order.

    Near the end of a batch a claim takes only its share of what is left, so that others are not left without. Gold
    questions are mixed in. expert: disputed tasks, to be adjudicated; own: also those that the person has answered.
    """
    n = checks.integer(n, "n", least=1)
    until = now() + int(checks.real(seconds, "seconds", above=0) * 1_000_000)
    with database.begin(few=True) as connection:
        batches = _list_batches(connection, batch)
        facts: dict[str, Any] = {"who": who, "now": now()}
        asked = 0 if expert else gold.count_asked(database, connection, who)
        held = _find_held(database, connection, facts, batch, expert)[:n]
        others = 0 if expert or len(held) == n else _count_others(connection, facts)
        found: list[Any] = []
        for number in batches:
            for state in (DISPUTED,) if expert else (OPEN, ANSWERED):
                left = n - len(held) - len(found)
                if left > 0:
                    some = {**facts, "batch": number, "state": state, "most": left}
                    some["most"] = _share(connection, some, others)
                    found += _find(database, connection, _find_condition(expert, own), some)
        new = [
            Leased(task, number, row, class_, place) for place, (task, number, row, class_) in enumerate(found, asked)
        ]
        if not expert:
            new = gold.mix(database, connection, who, held, new)
            connection.execute(
                sa.text("UPDATE annotator SET asked = asked + :new WHERE id = :who"), {"new": len(new), "who": who}
            )
        taken = [*held, *new]
        leases = database.listed_rows((one.task, one.batch, one.place) for one in taken)
        sql = KEEP.format(leases=database.table(("task", "batch", "place"), "leases"))
        connection.execute(sa.text(sql), {"who": who, "until": until, "leases": leases})
        edition = db.read_edition(connection)
    return [Task(one.task, one.batch, one.row, one.class_, until) for one in taken], edition


def _find_condition(expert: bool, own: bool) -> str:
    """When a task is free for a person."""
    return FREE_TO_DECIDE + (OWN_AS_WELL if own else OTHERS) if expert else FREE


def _find_held(
    database: Database, connection: sa.Connection, facts: dict[str, Any], batch: int | None, expert: bool
) -> list[Leased]:
    """What a person holds, in the order in which it was leased: disputed tasks of an expert, or all others."""
    first, last = (DISPUTED, DISPUTED) if expert else (OPEN, ANSWERED)
    # Locked: an answer that is being written meanwhile ends its lease, which must not be made anew.
    sql = HELD if database.is_sqlite else HELD + "FOR UPDATE OF l"
    rows = connection.execute(sa.text(sql), {**facts, "live": LIVE, "first": first, "last": last})
    return [
        Leased(task, shown, row, class_, place, gold=bool(other))
        for task, shown, row, class_, place, other in rows
        if batch is None or shown == batch
    ]


def _find(database: Database, connection: sa.Connection, free: str, facts: dict[str, Any]) -> list[Any]:
    """Free tasks of a batch in one state, in pick order; on PostgreSQL locked, and then looked at again.

    Between the first look and the lock another claim may have ended: its leases show in the second look only. What it
    took is replaced by a third look, and so on: a claim that ends with nothing would tell a person to go home.
    """
    if database.is_sqlite:
        sql = FIND.format(state=f"t.state = :state AND t.{QUEUED}", free=free)
        return [tuple(row) for row in connection.execute(sa.text(sql), facts)]
    state = f"t.state = {facts['state']:d}"
    locking = sa.text(FIND.format(state=state, free=free) + "FOR UPDATE OF t SKIP LOCKED")
    again = sa.text(LOOK_AGAIN.format(state=state, free=free))
    while True:
        locked = [row[0] for row in connection.execute(locking, facts)]
        found = connection.execute(again, {**facts, "locked": locked}).all() if locked else []
        if len(found) == len(locked):
            return [tuple(row) for row in found]


def _list_batches(connection: sa.Connection, batch: int | None) -> list[int]:
    """The open batches that are asked about, oldest first; the holdout last, because nothing is learned from it."""
    sql = (
        "SELECT id FROM batch WHERE state = :live AND kind <> :gold "
        "ORDER BY CASE WHEN kind = 'holdout' THEN 1 ELSE 0 END, id"
    )
    found = [int(number) for number in connection.execute(sa.text(sql), {"live": LIVE, "gold": GOLD}).scalars()]
    if batch is not None and batch not in found:
        raise CampaignError(f"batch {batch} is not open")
    return found if batch is None else [batch]


def _count_others(connection: sa.Connection, facts: dict[str, Any]) -> int:
    """How many other people hold tasks."""
    sql = "SELECT count(DISTINCT annotator) FROM lease WHERE until > :now AND annotator <> :who"
    return int(connection.execute(sa.text(sql), facts).scalar_one())


def _share(connection: sa.Connection, facts: dict[str, Any], others: int) -> int:
    """How many of the waiting tasks one claim may take beside others: half of an even share, at least 1."""
    n = int(facts["most"])
    if others == 0:
        return n
    some = f"SELECT 1 FROM task WHERE batch = :batch AND state = :state AND {QUEUED} LIMIT :enough"
    sql = f"SELECT count(*) FROM ({some}) AS waiting"
    enough = 2 * (others + 1) * n
    left = int(connection.execute(sa.text(sql), {**facts, "enough": enough}).scalar_one())
    return max(1, min(n, left // (2 * (others + 1))))


def release(database: Database, who: int, tasks: list[int] | None = None) -> int:
    """Give back leases of a person, all of them if no tasks are named; returns how many."""
    with database.begin() as connection:
        sql, listed = "DELETE FROM lease WHERE annotator = :who", {"who": who}
        if tasks is not None:
            sql += f" AND {database.among('task', 'tasks')}"
            listed["tasks"] = database.listed(tasks)
        return int(connection.execute(sa.text(sql), listed).rowcount)
