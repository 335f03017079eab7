"""Classes that change midway: added, renamed, merged, split. Class ids stay, and so does all that people said.

- Added: earlier answers could not name it, and stay as they are. Of pairs, all rows can be asked about it (where pairs
  are listed: those that `grow` lists), and those of the holdout are.
- Renamed: files with the former name are still understood.
- Merged: votes for either class agree, and files with the name of the merged one are understood. Of pairs, a yes to
  either is a yes; a no to the one that is gone says nothing about the other.
- Split: an answer that names the class says nothing any more. Rows that lose their verdict by that can be asked again,
  by `relabel` exactly these. Of pairs, new pairs take the place of the old ones; `relabel` asks about those with a yes.

The change is one transaction. Verdicts and tasks follow in chunks, which opening the campaign finishes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow.campaign import database as db
from hedgerow.campaign import planning, registering, tables, verdicts
from hedgerow.campaign.database import Database, now
from hedgerow.campaign.holdings import (
    MULTI_CLASS,
    MULTI_LABEL,
    PAIRS,
    Class,
    Holdings,
    check_class_name,
    read_classes,
    read_holdout,
    resolve_class,
)
from hedgerow.campaign.registering import MOST_PAIRS
from hedgerow.campaign.tables import SETTLED, VOID, WHOLE_ROW
from hedgerow.errors import CampaignError, InputError

Numbers = npt.NDArray[np.int64]
CHUNK = 20_000  # rows per transaction
KEY = "recode"  # the fact that verdicts follow a change, with the last row that is done
NOTHING = -1  # in the table of meanings: the value of an answer without one


@dataclass(frozen=True)
class Counted:
    """A class and how many labels name it. state: "in use", "merged into ..." or "split into ..."."""

    id: int
    name: str
    labels: int
    state: str
    former_names: tuple[str, ...]


# Changing.


def add(database: Database, name: Any) -> int:
    """A new class; returns its id."""
    planning.wait(database)
    with database.write() as connection:
        change = _Change(connection)
        number = change.insert(_check_new(change, name))
        change.finish(database, "add class", {"class": number, "name": change.classes[number].name}, asked=[number])
    return number


def rename(database: Database, old: Any, new: Any) -> None:
    """Another name for a class; the former one is still understood in files."""
    planning.wait(database)
    with database.write() as connection:
        change = _Change(connection)
        one = change.find(old)
        name = _check_new(change, new, own=one.id)
        former = tables.former_name
        connection.execute(sa.delete(former).where(former.c.name == name))
        connection.execute(sa.insert(former).values({"name": one.name, "class": one.id}))
        connection.execute(sa.update(tables.class_).where(tables.class_.c.id == one.id).values(name=name))
        change.finish(database, "rename class", {"class": one.id, "from": one.name, "to": name})


def merge(database: Database, gone: Any, into: Any) -> None:
    """One class is a part of another from now on."""
    planning.wait(database)
    with database.write() as connection:
        change = _Change(connection)
        first, second = change.find(gone), change.find(into)
        if first.id == second.id:
            raise InputError(f"{first.name!r} cannot be merged into itself: name two classes")
        if change.kind == MULTI_CLASS and sum(one.in_use for one in change.classes.values()) == 2:
            raise InputError("these are the only two classes: merged, there would be nothing left to ask")
        same = change.list_same(first.id)
        table = tables.class_
        connection.execute(sa.update(table).where(table.c.id == first.id).values(merged_into=second.id))
        change.read()
        if change.kind == PAIRS:
            change.mean(first.id, 1, (second.id, 1), db.last_event(connection))
            for value in (NOTHING, 0):
                change.mean(first.id, value, None)
        elif change.kind == MULTI_CLASS:
            for number in same:
                change.mean(WHOLE_ROW, number, (WHOLE_ROW, second.id))
        else:
            change.restate_sets()
        facts = {"class": first.id, "name": first.name, "into": second.name}
        change.finish(database, "merge classes", facts, recode=True)
    finish(database)


def split(database: Database, old: Any, parts: Sequence[Any]) -> list[int]:
    """New classes in the place of one; returns their ids."""
    if isinstance(parts, str) or len(parts) < 2:
        raise InputError(f"a class is split into at least two: name each by itself, got {parts!r}")
    planning.wait(database)
    with database.write() as connection:
        change = _Change(connection)
        one = change.find(old)
        same = change.list_same(one.id)
        made = [change.insert(_check_new(change, part), one.id) for part in parts]
        table = tables.class_
        connection.execute(sa.update(table).where(table.c.id == one.id).values(split_at=now()))
        change.read()
        if change.kind == PAIRS:
            for value in (NOTHING, 0, 1):
                change.mean(one.id, value, None)
        elif change.kind == MULTI_CLASS:
            for number in same:
                change.mean(WHOLE_ROW, number, None)
        else:
            change.restate_sets()
        names = [change.classes[number].name for number in made]
        facts = {"class": one.id, "name": one.name, "into": names}
        change.finish(database, "split class", facts, asked=made, recode=True)
    finish(database)
    return made


class _Change:
    """A change of the classes, within a transaction: what there is, and what becomes of it."""

    def __init__(self, connection: sa.Connection) -> None:
        db.begin_edition(connection)
        if planning.find_planning(connection):  # its tasks may be about a class that is just going
            raise CampaignError("a batch is just being reserved: try again when that is done")
        self.connection = connection
        self.kind = db.read_meta(connection, "kind")
        self.step = db.read_edition(connection)
        self.classes: dict[int, Class] = {}
        self.read()

    def read(self) -> None:
        """Read the classes again."""
        self.classes = read_classes(self.connection)

    def find(self, name: Any) -> Class:
        """A class in use, by name."""
        found = next((one for one in self.classes.values() if one.name == name), None)
        in_use = ", ".join(one.name for one in self.classes.values() if one.in_use)
        if found is None:
            raise InputError(f"{name!r} is not a class of the campaign: {in_use}")
        if not found.in_use:
            raise InputError(f"{name!r} {_describe(found, self.classes)}: name a class in use ({in_use})")
        return found

    def list_same(self, number: int) -> list[int]:
        """A class and those that were merged into it."""
        return [other for other in self.classes if resolve_class(self.classes, other) == number]

    def insert(self, name: str, split_from: int | None = None) -> int:
        """A new class."""
        number = max(self.classes) + 1
        values = {"id": number, "name": name, "split_from": split_from, "since": now()}
        self.connection.execute(sa.insert(tables.class_).values(**values))
        self.read()
        return number

    def mean(self, class_: int, value: int, to: tuple[int, int] | None, upto: int | None = None) -> None:
        """Note what a stored value means from now on; None: nothing."""
        table = tables.meaning
        here = (table.c["class"] == class_) & (table.c.value == value)
        self.connection.execute(sa.delete(table).where(here))
        to_class, to_value = (None, None) if to is None else to
        values = {"class": class_, "value": value, "to_class": to_class, "to_value": to_value, "upto": upto}
        self.connection.execute(sa.insert(table).values(**values, step=self.step))

    def restate_sets(self) -> None:
        """Note what sets of classes mean: with a class that was split nothing, else the set of what they are now."""
        table = tables.labelset
        known = {row.classes: row.id for row in self.connection.execute(sa.select(table).order_by(table.c.id))}
        for text, number in list(known.items()):
            held = [int(part) for part in text.split(",")]
            current = sorted({resolve_class(self.classes, one) for one in held})
            if any(self.classes[one].is_split for one in current):
                self.mean(WHOLE_ROW, number, None)
            elif current != held:
                same = ",".join(map(str, current))
                if same not in known:
                    insert = sa.insert(table).values(classes=same).returning(table.c.id)
                    known[same] = int(self.connection.execute(insert).scalar_one())
                self.mean(WHOLE_ROW, number, (WHOLE_ROW, known[same]))

    def finish(
        self,
        database: Database,
        command: str,
        facts: dict[str, Any],
        *,
        asked: Sequence[int] = (),
        recode: bool = False,
    ) -> None:
        """The end of the transaction. asked: new classes, about which the holdout of pairs is asked as well."""
        if self.kind == PAIRS and asked:
            self._ask_holdout(database, asked)
        if recode:
            db.write_meta(self.connection, f"{KEY}:{self.step}", "-1")
        database.note(self.connection, command, facts)

    def _ask_holdout(self, database: Database, asked: Sequence[int]) -> None:
        """The pairs of the holdout with new classes. Where pairs are listed, those in the place of a split class."""
        segment = tables.segment
        held = self.connection.execute(sa.select(segment.c.n_rows, segment.c.pairs)).all()
        in_use = sum(one.in_use for one in self.classes.values())
        if held[0].pairs is None and sum(row.n_rows for row in held) * in_use > MOST_PAIRS:
            raise InputError(
                f"with {in_use:,} classes there would be more than {MOST_PAIRS:,} pairs: list them instead"
            )
        rows = read_holdout(self.connection)
        if held[0].pairs is not None:
            sql = sa.text('SELECT DISTINCT "row" FROM task WHERE "class" = :class')
            before = self.classes[asked[0]].split_from
            found = [] if before is None else self.connection.execute(sql, {"class": before}).scalars().all()
            rows = np.intersect1d(rows, np.array(found, np.int64))
        if len(rows):
            pairs = np.repeat(rows, len(asked)), np.tile(np.array(asked, np.int64), len(rows))
            registering.insert_holdout(database, self.connection, 0, *pairs)


def _check_new(change: _Change, name: Any, own: int | None = None) -> str:
    """A name that no class has or had. own: the class that is renamed, which may get back a name that it had."""
    text = check_class_name(name, change.kind)
    if any(one.name == text for one in change.classes.values()):
        raise InputError(f"there is, or was, a class {text!r} already: choose another name")
    former = tables.former_name
    found = change.connection.execute(sa.select(former.c["class"]).where(former.c.name == text)).scalar()
    if found is not None and found != own:
        raise InputError(
            f"{text!r} is a former name of the class {change.classes[found].name!r}, and files may still mean that: "
            "choose another name"
        )
    return text


def _describe(one: Class, classes: dict[int, Class]) -> str:
    """What became of a class, in words."""
    if one.merged_into is not None:
        return f"was merged into {classes[one.merged_into].name}"
    parts = ", ".join(other.name for other in classes.values() if other.split_from == one.id)
    return f"was split into {parts}"


# Verdicts and tasks follow.


def finish(database: Database) -> None:
    """Compute the verdicts and tasks again that changes of the classes touch, in chunks."""
    with database.read() as connection:
        query = sa.select(tables.meta.c.key).where(tables.meta.c.key.startswith(f"{KEY}:"))
        keys = list(connection.execute(query).scalars())
    for key in keys:
        rows = _find_touched(database, key)
        while rows is not None:
            rows = _recode_chunk(database, key, rows)


def _find_touched(database: Database, key: str) -> Numbers | None:
    """The rows that are still to be computed again, ascending; None if another process has done all of them.

    They are found once: answers that come later are judged by the new classes, and nobody plans with the old ones.
    """
    sql = (
        'SELECT DISTINCT e."row" FROM event e JOIN meaning m ON m."class" = e."class" AND m.value = '
        f'coalesce(e.value, {NOTHING}) UNION SELECT t."row" FROM task t JOIN "class" c ON c.id = t."class" WHERE '
        "c.merged_into IS NOT NULL OR c.split_at IS NOT NULL"
    )
    with database.read() as connection:
        after = db.read_meta(connection, key)
        rows = np.sort(verdicts.fetch_numbers(connection, sql, 1)[:, 0])
    return None if after is None else rows[rows > int(after)]


def _recode_chunk(database: Database, key: str, rows: Numbers) -> Numbers | None:
    """Compute the first of these rows again; returns the others, or None if all is done."""
    some, rest = rows[:CHUNK], rows[CHUNK:]
    with database.write() as connection:
        after = db.read_meta(connection, key)
        if after is None:  # another process has done it
            return None
        _move_tasks(database, connection, some)
        verdicts.refresh(database, connection, some)
        db.write_meta(connection, key, str(some[-1]) if len(rest) else None)
        if not len(rest):
            db.bump(connection)
            return None
    return rest


def _move_tasks(database: Database, connection: sa.Connection, rows: Numbers) -> None:
    """Tasks about pairs of a merged class ask about the other one; of two that wait the older is void.

    Those about a class that was split are void as well.
    """
    classes = read_classes(connection)
    now_ = {number: resolve_class(classes, number) for number in classes}
    if all(one.in_use for one in classes.values()):
        return
    sql = (
        f'SELECT id, "row", "class", state FROM task WHERE "class" >= 0 AND {database.among("row", "rows")} ORDER BY id'
    )
    found = connection.execute(sa.text(sql), {"rows": database.listed(rows)}).all()
    newest = {(row[1], now_[row[2]]): row[0] for row in found if row[3] < SETTLED}
    waiting = [row for row in found if row[3] < SETTLED]
    void = [row[0] for row in waiting if newest[row[1], now_[row[2]]] != row[0] or classes[now_[row[2]]].is_split]
    listed = {"tasks": database.listed(void)}
    connection.execute(sa.text(f"DELETE FROM lease WHERE {database.among('task', 'tasks')}"), listed)
    connection.execute(sa.text(f"UPDATE task SET state = {VOID} WHERE {database.among('id', 'tasks')}"), listed)
    for number, current in now_.items():
        moved = [row[0] for row in found if row[2] == number and number != current]
        if moved:
            move = f'UPDATE task SET "class" = :class WHERE {database.among("id", "tasks")}'
            connection.execute(sa.text(move), {"class": current, "tasks": database.listed(moved)})


# Asking again.


def relabel(database: Database, holdings: Holdings, name: str, *, answers: int = 1, over_budget: bool = False) -> int:
    """A batch of what a split class leaves open: rows that lost their verdict; new pairs of those with a yes."""
    found = next((one for one in holdings.every_class.values() if one.name == name), None)
    if found is None or not found.is_split:
        raise InputError(f"{name!r} was not split: `relabel` asks again what a split class leaves open")
    with database.read() as connection:
        if holdings.kind == PAIRS:
            rows, classes = _find_yes(connection, holdings, found.id)
        else:
            rows, classes = _find_lost(connection, holdings, found.id), None
    if not len(rows):
        raise planning.NothingToAskError(f"there is nothing to ask again: no answer about {name!r} was lost")
    return planning.reserve_rows(
        database, rows, classes, reason=f"split {name}", answers=answers, over_budget=over_budget
    )


def _find_lost(connection: sa.Connection, holdings: Holdings, number: int) -> Numbers:
    """Rows without a verdict about which somebody named a class that was split."""
    same = {other for other in holdings.every_class if holdings.resolve_class(other) == number}
    values = sorted(same)
    if holdings.kind == MULTI_LABEL:
        sets = connection.execute(sa.select(tables.labelset)).all()
        values = [row.id for row in sets if same & {int(part) for part in row.classes.split(",")}]
    sql = (
        f'SELECT DISTINCT e."row" {verdicts.FROM} WHERE {verdicts.COUNTS} AND e.value IN :values AND NOT EXISTS '
        '(SELECT 1 FROM verdict v WHERE v."row" = e."row") ORDER BY e."row"'
    )
    query = sa.text(sql).bindparams(sa.bindparam("values", expanding=True))
    return np.array(connection.execute(query, {"values": values}).scalars().all(), np.int64)


def _find_yes(connection: sa.Connection, holdings: Holdings, number: int) -> tuple[Numbers, Numbers]:
    """The new pairs of rows of which somebody says that they have a class that was split."""
    same = [other for other in holdings.every_class if holdings.resolve_class(other) == number]
    sql = (
        f'SELECT e."row", e."class", e.annotator, e.kind, coalesce(e.value, {verdicts.NO_VALUE}), e.id, e.seq '
        f"{verdicts.FROM} WHERE {verdicts.COUNTS}"
    )
    whole = verdicts.fetch_numbers(connection, sql, 7)
    meaning = verdicts.read_meaning(connection)
    step = meaning[meaning[:, 0] == number, 5].max(initial=0)
    said = verdicts.take_last(whole[np.isin(whole[:, 1], same)], meaning[meaning[:, 5] < step])
    rows = np.unique(said[(said[:, 4] == 1) & (said[:, 1] == number), 0])
    parts = np.array(holdings.parts[number], np.int64)
    pairs = np.repeat(rows, len(parts)), np.tile(parts, len(rows))
    known = holdings.pairs.find(*pairs, ignore_unknown=True) >= 0
    return pairs[0][known], pairs[1][known]


# Listing.


def count(database: Database, holdings: Holdings) -> list[Counted]:
    """All classes with their labels: verdicts that name them, of pairs those that say yes."""
    labels = dict.fromkeys(holdings.every_class, 0)
    with database.read() as connection:
        if holdings.kind == PAIRS:
            sql = 'SELECT "class", count(*) FROM verdict WHERE value = 1 GROUP BY "class"'
        else:
            sql = "SELECT value, count(*) FROM verdict WHERE value IS NOT NULL GROUP BY value"
        found = {row[0]: int(row[1]) for row in connection.execute(sa.text(sql))}
        sets = {row.id: row.classes for row in connection.execute(sa.select(tables.labelset))}
    for value, times in found.items():
        for number in map(int, sets[value].split(",")) if holdings.kind == MULTI_LABEL else [value]:
            labels[number] += times
    former: dict[int, list[str]] = {}
    for name, number in holdings.former_names.items():
        former.setdefault(number, []).append(name)
    return [
        Counted(
            one.id,
            one.name,
            labels[one.id],
            "in use" if one.in_use else _describe(one, holdings.every_class).removeprefix("was "),
            tuple(sorted(former.get(one.id, []))),
        )
        for one in holdings.every_class.values()
    ]


def describe(counted: Sequence[Counted]) -> str:
    """Classes as lines for people."""
    lines = []
    for one in counted:
        notes = [] if one.state == "in use" else [one.state]
        notes += [f"formerly {', '.join(one.former_names)}"] if one.former_names else []
        lines.append(f"{one.labels:>9,}  {one.name}" + (f" ({'; '.join(notes)})" if notes else ""))
    return "\n".join(lines)
