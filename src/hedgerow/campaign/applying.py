"""Answers applied to a campaign: which are news, which are corrections, which are to be left out.

For each answer, in the order of the file: one whose key in its tool, with the same time, is here already changes
nothing; nor does one that repeats what the person says now. One that is older than what the person says now is stale:
it is counted and left out, so that an old file never reverts a correction. Anything else is new, or a correction. What
nobody asked for is kept as well, and counted as unsolicited. Nothing here reads files (`formats.py`) or knows ids.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow.campaign import database as db
from hedgerow.campaign import verdicts
from hedgerow.campaign.answers import NEVER, RETRACT
from hedgerow.campaign.database import Database, last_event, now
from hedgerow.campaign.tables import VOID, WHOLE_ROW
from hedgerow.campaign.verdicts import NO_VALUE, Numbers

NEW, CORRECTED, UNCHANGED, STALE, UNSOLICITED = range(5)
OUTCOMES = ("new", "corrected", "unchanged", "stale", "unsolicited")


@dataclass(frozen=True, eq=False)
class Incoming:
    """Answers by the numbers of a campaign, ordered by row, class and annotator, and then as they came.

    value: NO_VALUE for kinds without one. said_at: NEVER if unknown. external and seconds may be absent.
    """

    row: Numbers
    class_: Numbers
    annotator: Numbers
    kind: Numbers
    value: Numbers
    said_at: Numbers
    external: npt.NDArray[np.object_] | None = None
    seconds: npt.NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.row)

    def take(self, at: Any) -> "Incoming":
        """Some of them: a slice, or positions."""
        held: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        taken: dict[str, Any] = {name: None if column is None else column[at] for name, column in held.items()}
        return Incoming(**taken)

    def order(self) -> Numbers:
        """The positions that sort them; equal keys stay in the order in which they came."""
        return np.lexsort((self.annotator, self.class_, self.row))

    def chunks(self, size: int, start: int = 0) -> Iterator[tuple[int, int]]:
        """(start, stop) of parts of about `size` answers; answers about one row are in one part."""
        while start < len(self):
            stop = min(start + size, len(self))
            while stop < len(self) and self.row[stop] == self.row[stop - 1]:
                stop += 1
            yield start, stop
            start = stop


@dataclass(frozen=True)
class Origin:
    """Where answers come from. live: given just now at a page of ours, so that none can be stale.

    gold: the task of a gold question. Its answers are kept beside all others and change no verdict.
    """

    channel: str
    source: int | None = None
    live: bool = False
    gold: int | None = None

    @property
    def counts(self) -> str:
        """The condition for earlier events that answers from here are compared with."""
        return verdicts.COUNTS if self.gold is None else verdicts.COUNTS_AS_GOLD


@dataclass
class Current:
    """What a person says now about a row or pair."""

    kind: int
    value: int
    said_at: int


def apply(database: Database, connection: sa.Connection, incoming: Incoming, origin: Origin) -> Numbers:
    """Apply answers within a transaction of `write`; returns what became of each, places in `OUTCOMES`."""
    rows = _find_distinct(incoming.row)
    past, meaning = _read_past(database, connection, rows, origin.counts), verdicts.read_meaning(connection)
    known = _read_known(database, connection, incoming, origin)
    outcome, keep = _judge(incoming, past, meaning, known, origin)
    kept = np.flatnonzero(keep)
    seq = _number(incoming, kept, past)
    if origin.gold is not None:
        _write(database, connection, incoming.take(kept), np.full(len(kept), origin.gold), seq, origin)
        return outcome
    tasks = verdicts.read_tasks(database, connection, rows)
    at = verdicts.find_places(incoming.row, incoming.class_, tasks.row, tasks.class_)
    # A void task is one that was taken back: whoever answers it was not asked.
    asked = np.where(at >= 0, np.append(np.where(tasks.state == VOID, -1, tasks.id), -1)[at], -1)
    outcome[(outcome == NEW) & (asked < 0)] = UNSOLICITED
    first = last_event(connection) + 1
    _write(database, connection, incoming.take(kept), asked[kept], seq, origin)
    touched = _find_distinct(incoming.row[kept])
    said = _merge(past, incoming.take(kept), seq, first, touched, meaning)
    verdicts.store(database, connection, said, touched, touched[np.isin(touched, past[:, 0])], tasks)
    return outcome


def _find_distinct(rows: Numbers) -> Numbers:
    """Each of some ascending numbers once: np.unique would hash and sort them."""
    return rows[np.append(True, rows[1:] != rows[:-1])] if len(rows) else rows


# What is known before. Columns of the past: row, class, annotator, kind, value, event, seq, counts, said_at.


def _read_past(database: Database, connection: sa.Connection, rows: Numbers, counts: str) -> Numbers:
    sql = (
        f"SELECT e.row, e.class, e.annotator, e.kind, e.value, e.id, e.seq, CASE WHEN {counts} THEN 1 ELSE 0 END, "
        f"e.said_at {verdicts.FROM} WHERE {database.among('e.row', 'rows')} ORDER BY e.id"
    )
    return verdicts.as_numbers(connection.execute(sa.text(sql), {"rows": database.listed(rows)}).all(), 9)


def _read_known(
    database: Database, connection: sa.Connection, incoming: Incoming, origin: Origin
) -> set[tuple[str, int]]:
    """The (key, time) pairs of answers that are here already; at a page of ours the key alone tells, with time 0."""
    if incoming.external is None:
        return set()
    keys = sorted({key for key in incoming.external.tolist() if key is not None})
    if not keys:
        return set()
    sql = (
        f"SELECT e.external, e.said_at {verdicts.FROM} WHERE {origin.counts} AND e.channel = :channel AND "
        + database.among_texts("e.external", "keys")
    )
    found = connection.execute(sa.text(sql), {"channel": origin.channel, "keys": database.listed_texts(keys)})
    return {(row[0], 0 if origin.live else NEVER if row[1] is None else row[1]) for row in found}


# Judging.


def _judge(
    incoming: Incoming, past: Numbers, meaning: Numbers, known: set[tuple[str, int]], origin: Origin
) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """(what each answer is, whether it becomes an event)."""
    outcome = np.full(len(incoming), NEW, np.int64)
    keep = np.ones(len(incoming), np.bool_)
    current = _find_current(past, meaning)
    seen = set(known)
    for at in _doubtful(incoming, past, bool(known)).tolist():
        person = (int(incoming.row[at]), int(incoming.class_[at]), int(incoming.annotator[at]))
        said_at = int(incoming.said_at[at])
        key = None if incoming.external is None else incoming.external[at]
        mark = None if key is None else (key, 0 if origin.live else said_at)
        if mark is not None and mark in seen:
            outcome[at], keep[at] = UNCHANGED, False
            continue
        said = Current(int(incoming.kind[at]), int(incoming.value[at]), said_at)
        outcome[at], keep[at] = compare(said, current.get(person), live=origin.live)
        if keep[at]:
            current[person] = said
        if mark is not None and keep[at]:
            seen.add(mark)
    return outcome, keep


def compare(said: Current, before: Current | None, *, live: bool) -> tuple[int, bool]:
    """(what an answer is, whether it becomes an event), given what the person said before."""
    if before is None or before.kind == RETRACT:
        if said.kind == RETRACT:
            return UNCHANGED, False
        if before is not None and not live and NEVER not in (said.said_at, before.said_at):
            return (STALE, False) if said.said_at < before.said_at else (NEW, True)
        return NEW, True
    if (said.kind, said.value) == (before.kind, before.value):
        # A later confirmation is kept: an answer from between the two would be stale.
        return UNCHANGED, said.said_at > before.said_at
    if not live and NEVER not in (said.said_at, before.said_at) and said.said_at < before.said_at:
        return STALE, False
    return CORRECTED, True


def _doubtful(incoming: Incoming, past: Numbers, some_known: bool) -> Numbers:
    """The answers that need a closer look: the others are the only ones of their person about their row or pair."""
    if some_known:
        return np.arange(len(incoming))
    doubt = np.isin(incoming.row, past[:, 0]) | (incoming.kind == RETRACT)
    same = _same_as_before(incoming)
    doubt[1:] |= same[1:]
    doubt[:-1] |= same[1:]
    if incoming.external is not None:
        keys = incoming.external.tolist()
        given = [key for key in keys if key is not None]
        if len(set(given)) < len(given):
            doubt |= np.array([key is not None for key in keys], np.bool_)
    return np.flatnonzero(doubt)


def _same_as_before(incoming: Incoming) -> npt.NDArray[np.bool_]:
    """Whether the answer before is by the same person about the same row or pair."""
    same = np.zeros(len(incoming), np.bool_)
    for column in (incoming.row, incoming.class_, incoming.annotator):
        equal = column[1:] == column[:-1]
        same[1:] = equal if column is incoming.row else same[1:] & equal
    return same


def _find_current(past: Numbers, meaning: Numbers) -> dict[tuple[int, int, int], Current]:
    """What each person says now about each row or pair, in the classes of now.

    Of pairs also what they said about a class that is gone, to which a late file may add.
    """
    counting = past[past[:, 7] == 1]
    gone = counting[np.isin(counting[:, 1], meaning[meaning[:, 0] != WHOLE_ROW, 0])]
    nothing = np.zeros((0, meaning.shape[1]), np.int64)
    last = np.concatenate([verdicts.take_last(gone, nothing), verdicts.take_last(counting, meaning)])
    return {
        (row, class_, person): Current(kind, value, said_at)
        for row, class_, person, kind, value, _, _, _, said_at in last.tolist()
    }


# Writing.


def _number(incoming: Incoming, kept: Numbers, past: Numbers) -> Numbers:
    """The number of each kept answer among those of its person about its row or pair."""
    taken = incoming.take(kept)
    starts = ~_same_as_before(taken)
    place = np.arange(len(taken))
    seq = place - np.maximum.accumulate(np.where(starts, place, 0))
    if len(past):
        highest: dict[tuple[int, int, int], int] = {}
        for row, class_, person, _, _, _, number, _, _ in past.tolist():
            key = (row, class_, person)
            highest[key] = max(highest.get(key, -1), number)
        keys = zip(taken.row.tolist(), taken.class_.tolist(), taken.annotator.tolist(), strict=True)
        seq = seq + np.array([highest.get(key, -1) + 1 for key in keys], np.int64)
    return seq


def _write(
    database: Database, connection: sa.Connection, kept: Incoming, asked: Numbers, seq: Numbers, origin: Origin
) -> None:
    seconds = None if kept.seconds is None else [None if one != one else one for one in kept.seconds.tolist()]
    columns = {
        "row": kept.row,
        "class": kept.class_,
        "annotator": kept.annotator,
        "seq": seq,
        "kind": kept.kind,
        "value": db.leave_out(kept.value, NO_VALUE),
        "task": db.leave_out(asked, -1),
        "source": origin.source,
        "channel": origin.channel,
        "external": None if kept.external is None else kept.external.tolist(),
        "said_at": db.leave_out(kept.said_at, NEVER),
        "came_at": now(),
        "seconds": seconds,
    }
    database.insert_many(connection, "event", columns)


def _merge(
    past: Numbers, kept: Incoming, seq: Numbers, first: int, touched: Numbers, meaning: Numbers
) -> verdicts.Statements:
    """The statements about the touched rows, with what was just written. first: the number of the first new event."""
    columns = (kept.row, kept.class_, kept.annotator, kept.kind, kept.value, first + np.arange(len(kept)), seq)
    fresh = np.column_stack(columns) if len(kept) else np.zeros((0, 7), np.int64)
    earlier = past[(past[:, 7] == 1) & np.isin(past[:, 0], touched)][:, :7]
    return verdicts.last_statements(np.concatenate([earlier, fresh]), meaning)
