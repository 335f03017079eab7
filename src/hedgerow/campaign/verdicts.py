"""From what people said to one verdict per row or pair, and the state of its task.

A person's statement is the last event that counts: events of a retracted file, and those of a person up to their
retraction, do not, nor do answers to gold questions (`gold.py`). A statement may be an answer or "none of these"
(votes), "unsure" (an answer that trains nothing), "broken", a skip (as if nothing had been said: somebody else is
asked), an expert's adjudication, which decides, or a retraction, which takes back the person's earlier statement.

The verdict is the value with the most votes; a tie is a dispute, and so is "broken" beside votes. What nobody answered
has no verdict, and neither has a row that was retired.

When classes are merged or split, what people said stays as it is, and a small table says what it means now: a vote for
a merged class is one for the class it was merged into; one for a class that was split is as if nothing had been said.
Of pairs, a yes to a merged class is a yes to the other, whatever the person said about that one before the merge; a no
says nothing about it.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow.campaign import database as db
from hedgerow.campaign import quality, tables
from hedgerow.campaign.answers import ADJUDICATE, ANSWER, BROKEN, NONE_OF_THESE, UNSURE
from hedgerow.campaign.database import Database
from hedgerow.campaign.quality import find_leading, find_starts
from hedgerow.campaign.tables import ANSWERED, CLOSED, DISPUTED, GOLD, OPEN, PLANNING, SETTLED, STATES, VOID, WHOLE_ROW
from hedgerow.errors import CampaignError

Numbers = npt.NDArray[np.int64]
NO_VALUE = quality.NO_VALUE
MAJORITY, NONE, UNSURE_ONLY, BROKEN_ONLY, DISPUTE, ADJUDICATED = range(6)
HOW = ("majority", "none-of-these", "unsure", "broken", "disputed", "adjudicated")


class ReservedError(CampaignError):
    """A task would open again whose row is just being reserved in another batch: wait, and try again."""


@dataclass(frozen=True, eq=False)
class Statements:
    """The last statement of each person about each row or pair, ordered by row, class and person."""

    row: Numbers
    class_: Numbers
    annotator: Numbers
    kind: Numbers
    value: Numbers  # NO_VALUE where the kind has none
    event: Numbers


@dataclass(frozen=True, eq=False)
class Verdicts:
    """One verdict for each row or pair that somebody answered. how: places in `HOW`."""

    row: Numbers
    class_: Numbers
    value: Numbers
    how: Numbers
    support: Numbers
    given: Numbers


# Whether an event counts: no column of it can be changed, so a retraction is noted where the event points to. Answers
# to gold questions say something about people, and nothing about rows.
STANDS = "e.id > a.retracted_upto AND (e.source IS NULL OR s.retracted_at IS NULL)"
COUNTS = f"{STANDS} AND e.channel <> '{GOLD}'"
COUNTS_AS_GOLD = f"{STANDS} AND e.channel = '{GOLD}'"
FROM = "FROM event e JOIN annotator a ON a.id = e.annotator LEFT JOIN source s ON s.id = e.source"


def read_statements(database: Database, connection: sa.Connection, rows: Any) -> Statements:
    """What counts about these rows."""
    among = database.among("e.row", "rows")
    sql = f"SELECT e.row, e.class, e.annotator, e.kind, e.value, e.id, e.seq {FROM} WHERE {COUNTS} AND {among}"
    found = connection.execute(sa.text(sql), {"rows": database.listed(rows)}).all()
    return last_statements(as_numbers(found, 7), read_meaning(connection))


def as_numbers(found: Sequence[Any], width: int) -> Numbers:
    """Rows of the database as a matrix; NO_VALUE for NULL."""
    return np.array([[NO_VALUE if part is None else part for part in row] for row in found], np.int64).reshape(
        -1, width
    )


def fetch_numbers(connection: sa.Connection, sql: str, width: int) -> Numbers:
    """All rows of a query without NULL as a matrix, read by the driver: a million of them are read here."""
    if connection.dialect.name == "postgresql":
        return _copy_numbers(connection, sql, width)
    found: Any = connection.execute(sa.text(sql)).cursor
    return np.fromiter(itertools.chain.from_iterable(found), np.int64).reshape(-1, width)


def _copy_numbers(connection: sa.Connection, sql: str, width: int) -> Numbers:
    """The same from the binary form of COPY, in which all rows have one length: no object per number is made."""
    names = [f"c{place}" for place in range(width)]
    casts = ", ".join(f"CAST({name} AS bigint)" for name in names)
    cursor: Any = connection.connection.cursor()
    try:
        with cursor.copy(
            f"COPY (SELECT {casts} FROM ({sql}) AS found ({', '.join(names)})) TO STDOUT (FORMAT binary)"
        ) as out:
            data = b"".join(bytes(part) for part in out)
    finally:
        cursor.close()
    line = np.dtype([("fields", ">i2"), ("columns", [("length", ">i4"), ("number", ">i8")], (width,))])
    head, tail = 19, 2  # a signature with flags; an end mark
    found = np.frombuffer(data, line, count=(len(data) - head - tail) // line.itemsize, offset=head)
    return found["columns"]["number"].astype(np.int64)


def last_statements(whole: Numbers, meaning: Numbers) -> Statements:
    """The last of each person, from the columns row, class, annotator, kind, value, event and seq."""
    return Statements(*(np.ascontiguousarray(column) for column in take_last(whole, meaning).T[:6]))


def take_last(whole: Numbers, meaning: Numbers) -> Numbers:
    """The lines with the last statement of each person, in the classes of now; columns as above, and perhaps more.

    meaning: see `read_meaning`.
    """
    whole = _keep_last(whole, whole[:, 6])[0]
    order = 2 * whole[:, 5]
    for step in np.unique(meaning[:, 5]):
        whole, order = _translate(whole, order, meaning[meaning[:, 5] == step])
    return whole


def _translate(whole: Numbers, order: Numbers, meaning: Numbers) -> tuple[Numbers, Numbers]:
    """Statements after one change of the classes, in which a person may have said one thing about two of them."""
    at = find_meaning(whole[:, 1], whole[:, 4], meaning)
    changed = at >= 0
    if not changed.any():
        return whole, order
    to_class, to_value, upto = np.where(changed[:, None], meaning[at, 2:5], NO_VALUE).T
    order = np.where(upto == NO_VALUE, order, 2 * upto + 1)
    whole[changed, 1], whole[changed, 4] = to_class[changed], to_value[changed]
    says = ~changed | (to_class != NO_VALUE)
    return _keep_last(whole[says], order[says])


def _keep_last(whole: Numbers, order: Numbers) -> tuple[Numbers, Numbers]:
    """The last of each row, class and annotator, ordered by these; and their order."""
    at = np.lexsort((order, whole[:, 2], whole[:, 1], whole[:, 0]))
    whole = whole[at]
    last = np.ones(len(whole), np.bool_)
    last[:-1] = (whole[1:, :3] != whole[:-1, :3]).any(axis=1)
    return whole[last], order[at[last]]


# What statements mean since classes changed.


def read_meaning(connection: sa.Connection) -> Numbers:
    """The columns class, value (-1 for none), to_class, to_value, upto and step; NO_VALUE where one is absent."""
    table = tables.meaning
    columns = (table.c["class"], table.c.value, table.c.to_class, table.c.to_value, table.c.upto, table.c.step)
    return as_numbers(connection.execute(sa.select(*columns).order_by(*columns[:2])).all(), 6)


def find_meaning(classes: Numbers, values: Numbers, meaning: Numbers) -> Numbers:
    """The place of each class and value in the table of meanings; -1 if it means what it says."""
    plain = np.where(values == NO_VALUE, -1, values)
    return find_places(classes - WHOLE_ROW, plain, meaning[:, 0] - WHOLE_ROW, meaning[:, 1])


def decide(said: Statements) -> Verdicts:
    """The verdicts of all rows or pairs that somebody answered."""
    counts = np.isin(said.kind, (ANSWER, UNSURE, NONE_OF_THESE, BROKEN, ADJUDICATE))
    row, class_, kind, value, event = (
        column[counts] for column in (said.row, said.class_, said.kind, said.value, said.event)
    )
    starts = find_starts(row, class_)
    group = np.cumsum(starts) - 1
    n = int(starts.sum())
    given = np.bincount(group, minlength=n)
    votes = (kind == ANSWER) | (kind == NONE_OF_THESE)
    best, support, tie = find_leading(group[votes], value[votes], n)  # none of these: a vote for NO_VALUE
    broken = np.bincount(group[kind == BROKEN], minlength=n)
    how = np.full(n, MAJORITY, np.int64)
    how[(support > 0) & (best == NO_VALUE)] = NONE
    how[support == 0] = UNSURE_ONLY
    how[broken == given] = BROKEN_ONLY
    how[tie | ((broken > 0) & (support > 0))] = DISPUTE
    best = np.where(how == MAJORITY, best, NO_VALUE)
    support = np.where(how == DISPUTE, 0, support)
    _adjudicate(group, kind, value, event, how, best, support)
    return Verdicts(row[starts], class_[starts], best, how, support, given)


def _adjudicate(
    group: Numbers, kind: Numbers, value: Numbers, event: Numbers, how: Numbers, best: Numbers, support: Numbers
) -> None:
    """The newest adjudication of a group decides."""
    at = np.flatnonzero(kind == ADJUDICATE)
    at = at[np.argsort(event[at], kind="stable")]
    how[group[at]], support[group[at]] = ADJUDICATED, 1
    best[group[at]] = value[at]  # with several, numpy keeps the last


def find_states(verdicts: Verdicts, wanted: Numbers, live: npt.NDArray[np.bool_]) -> Numbers:
    """The state of the task of each verdict. live: whether its batch is open; a closed one asks nobody any more."""
    state = np.full(len(wanted), ANSWERED, np.int64)
    enough = verdicts.given >= wanted
    state[enough] = SETTLED
    state[enough & (verdicts.how == BROKEN_ONLY)] = VOID
    state[enough & (verdicts.how == DISPUTE)] = DISPUTED
    state[verdicts.how == ADJUDICATED] = SETTLED
    state[~live & (state < SETTLED)] = VOID
    return state


# The cache.


@dataclass(frozen=True, eq=False)
class Tasks:
    """The newest task of each of some rows or pairs, ordered by row and class. live: its batch is not closed.

    ended: its batch was cancelled, its row retired, or its class split; it stays as it is.
    """

    id: Numbers
    row: Numbers
    class_: Numbers
    wanted: Numbers
    given: Numbers
    state: Numbers
    live: npt.NDArray[np.bool_]
    ended: npt.NDArray[np.bool_]

    def about(self, rows: Numbers) -> "Tasks":
        """Those about some of the rows."""
        some = np.isin(self.row, rows)
        return self if some.all() else Tasks(*(column[some] for column in vars(self).values()))


def read_verdicts(connection: sa.Connection) -> Verdicts:
    """All stored verdicts, ordered by row and class."""
    places = " ".join(f"WHEN '{how}' THEN {place}" for place, how in enumerate(HOW))
    sql = (
        f'SELECT "row", "class", coalesce(value, {NO_VALUE}), CASE how {places} END, support, given FROM verdict '
        'ORDER BY "row", "class"'
    )
    return Verdicts(*(np.ascontiguousarray(column) for column in fetch_numbers(connection, sql, 6).T))


def read_tasks(database: Database, connection: sa.Connection, rows: Any) -> Tasks:
    """The newest tasks about these rows, but for gold questions; those that are being planned do not exist yet."""
    batches = connection.execute(sa.text("SELECT id, state, outcome, kind FROM batch")).all()
    sql = f'SELECT id, "row", "class", wanted, given, state, batch FROM task WHERE {database.among("row", "rows")}'
    found = connection.execute(sa.text(sql), {"rows": database.listed(rows)}).cursor
    assert found is not None
    held = found.fetchall()  # by the driver: a million rows are read here
    whole = np.fromiter(chain.from_iterable(held), np.int64, 7 * len(held)).reshape(-1, 7)
    whole = whole[~np.isin(whole[:, 6], [row.id for row in batches if row.state == PLANNING or row.kind == GOLD])]
    whole = whole[np.lexsort((whole[:, 0], whole[:, 2], whole[:, 1]))]
    last = np.ones(len(whole), np.bool_)
    last[:-1] = (whole[1:, 1:3] != whole[:-1, 1:3]).any(axis=1)
    task, row, class_, wanted, given, state, batch = (np.ascontiguousarray(part) for part in whole[last].T)
    live = ~np.isin(batch, [one.id for one in batches if one.state == CLOSED])
    split = connection.execute(sa.text('SELECT id FROM "class" WHERE split_at IS NOT NULL')).scalars().all()
    ended = np.isin(batch, [one.id for one in batches if one.outcome == "cancelled"])
    ended |= np.isin(class_, split) | np.isin(row, find_retired(database, connection, rows))
    return Tasks(task, row, class_, wanted, given, state, live, ended)


def find_places(rows: Numbers, classes: Numbers, among_rows: Numbers, among_classes: Numbers) -> Numbers:
    """The place of each row or pair among others, which are distinct and ordered by row and class; -1 if absent."""
    width = int(max(classes.max(initial=0), among_classes.max(initial=0))) + 2
    known, wanted = among_rows * width + among_classes + 1, rows * width + classes + 1
    place = np.searchsorted(known, wanted)
    place[place == len(known)] = 0
    return np.where(known[place] == wanted, place, -1) if len(known) else np.full(len(rows), -1, np.int64)


def refresh(database: Database, connection: sa.Connection, rows: Any) -> None:
    """Compute the verdicts about these rows again, and the states of their tasks, from the events."""
    rows = np.unique(np.asarray(rows, np.int64))
    store(database, connection, read_statements(database, connection, rows), rows, rows)


def store(
    database: Database,
    connection: sa.Connection,
    said: Statements,
    rows: Numbers,
    before: Numbers,
    tasks: Tasks | None = None,
) -> None:
    """Store the verdicts about `rows`, given all statements that count. before: those that may have a verdict now.

    tasks: the newest about these rows, if they are known.
    """
    verdicts = _drop_retired(database, connection, decide(said))
    if len(before):
        gone = sa.text(f"DELETE FROM verdict WHERE {database.among('row', 'rows')}")
        connection.execute(gone, {"rows": database.listed(before)})
    columns = {
        "row": verdicts.row,
        "class": verdicts.class_,
        "value": db.leave_out(verdicts.value, NO_VALUE),
        "how": [HOW[how] for how in verdicts.how.tolist()],
        "support": verdicts.support,
        "given": verdicts.given,
    }
    database.insert_many(connection, "verdict", columns)
    _refresh_tasks(database, connection, rows, verdicts, tasks)


def _drop_retired(database: Database, connection: sa.Connection, verdicts: Verdicts) -> Verdicts:
    """The verdicts without those about retired rows."""
    gone = find_retired(database, connection, verdicts.row)
    if not len(gone):
        return verdicts
    kept = ~np.isin(verdicts.row, gone)
    return Verdicts(*(column[kept] for column in vars(verdicts).values()))


def find_retired(database: Database, connection: sa.Connection, rows: Any) -> Numbers:
    """Those of some rows that were retired."""
    if connection.execute(sa.text("SELECT 1 FROM retired LIMIT 1")).first() is None:  # as nearly always
        return np.zeros(0, np.int64)
    sql = f"SELECT row FROM retired WHERE {database.among('row', 'rows')}"
    found = connection.execute(sa.text(sql), {"rows": database.listed(rows)}).scalars().all()
    return np.array(found, np.int64)


def _refresh_tasks(
    database: Database, connection: sa.Connection, rows: Numbers, verdicts: Verdicts, tasks: Tasks | None
) -> None:
    """The newest task of each row or pair follows its verdict; older ones stay as they ended."""
    tasks = read_tasks(database, connection, rows) if tasks is None else tasks.about(rows)
    at = find_places(tasks.row, tasks.class_, verdicts.row, verdicts.class_)
    given, state = np.zeros(len(at), np.int64), np.where(tasks.live, OPEN, VOID)
    answered = at >= 0
    chosen = Verdicts(*(column[at[answered]] for column in vars(verdicts).values()))
    given[answered] = chosen.given
    state[answered] = find_states(chosen, tasks.wanted[answered], tasks.live[answered])
    # Whoever answers a task that has ended was not asked.
    changed = ((given != tasks.given) | (state != tasks.state)) & ~tasks.ended
    both = given * len(STATES) + state
    for pair in np.unique(both[changed]).tolist():
        sql = f"UPDATE task SET given = :given, state = :state WHERE {database.among('id', 'tasks')}"
        facts = dict(zip(("given", "state"), divmod(pair, len(STATES)), strict=True))
        facts["tasks"] = database.listed(np.sort(tasks.id[changed & (both == pair)]))
        try:
            connection.execute(sa.text(sql), facts)
        except sa.exc.IntegrityError:
            raise ReservedError("rows are just being reserved again: try again in a moment") from None
