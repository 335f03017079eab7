"""`ingest` and `retract`: label files applied, and taken back.

Ids, class names and people of a file are resolved once, by distinct value. Its answers are applied in the order of the
pool, in chunks that are one transaction each; how far it got is stored with each chunk, so that an interrupted ingest
continues where it stopped, and every answer is applied once. The summary counts every row of the file exactly once.

A retraction is one changed row, of the file or of the person, and not one event per answer: what the same people said
before counts again. Verdicts and tasks are then computed again, in chunks.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import sqlalchemy as sa

from hedgerow.campaign import database as db
from hedgerow.campaign import planning, tables, verdicts
from hedgerow.campaign.answers import ABSENT, ANSWER, KINDS, NONE_OF_THESE, WITH_VALUE, Answers, LabelFile, Reject
from hedgerow.campaign.applying import OUTCOMES, Incoming, Origin, apply
from hedgerow.campaign.database import Database, now
from hedgerow.campaign.holdings import MULTI_LABEL, PAIRS, Holdings
from hedgerow.campaign.tables import WHOLE_ROW
from hedgerow.campaign.verdicts import NO_VALUE, Numbers
from hedgerow.errors import CampaignError, InputError
from hedgerow.pool.parsing import SHOWN

CHUNK = 50_000  # answers per transaction
REBUILD = "rebuild"  # the fact that verdicts are being computed again, with the last row that is done
NOBODY = "unknown"  # the annotator of answers that name none
UNKNOWN_ID, UNKNOWN_CLASS, UNREADABLE = "unknown id", "unknown class", "unreadable"
COUNTED = (*OUTCOMES, UNKNOWN_ID, UNKNOWN_CLASS, UNREADABLE)
_BAD_CLASS, _BAD_VALUE = NO_VALUE + 1, NO_VALUE + 2  # values that a vocabulary cannot have


@dataclass(frozen=True)
class Ingested:
    """What became of a label file: `counts` adds up to `rows`."""

    source: int
    rows: int
    counts: dict[str, int]
    rejects: tuple[Reject, ...]

    def __str__(self) -> str:
        parts = [f"{self.counts[name]:,} {name}" for name in COUNTED if self.counts[name]]
        return f"{self.rows:,} rows: {', '.join(parts) or 'nothing'} (source {self.source})"


# Resolving.


def find_annotators(database: Database, channel: str, names: Sequence[str]) -> list[int]:
    """The numbers of people by their names in a channel: by alias if there is one; new people are added."""
    if not names:
        return []
    for name in set(names):
        db.check_text(name, "the name")
    with database.read() as connection:  # nearly always all are known, and nobody has to wait
        known = _read_people(database, connection, channel, names)
    if not set(names) <= known.keys():
        with database.write() as connection:
            known = _read_people(database, connection, channel, names)
            for name in dict.fromkeys(name for name in names if name not in known):
                values = {"name": name, "kind": "person", "retracted_upto": 0}
                insert = sa.insert(tables.annotator).values(**values).returning(tables.annotator.c.id)
                known[name] = connection.execute(insert).scalar_one()
    return [int(known[name]) for name in names]


def _read_people(database: Database, connection: sa.Connection, channel: str, names: Sequence[str]) -> dict[str, int]:
    """The numbers of people by name, and by what a channel calls them, which goes first."""
    sql = (
        f"SELECT name, id, 0 AS aliased FROM annotator WHERE {database.among_texts('name', 'names')} UNION ALL "
        "SELECT external, annotator, 1 FROM alias "
        f"WHERE channel = :channel AND {database.among_texts('external', 'names')} ORDER BY aliased"
    )
    given = {"names": database.listed_texts(list(names)), "channel": channel}
    return {name: number for name, number, _ in connection.execute(sa.text(sql), given)}


def set_alias(database: Database, channel: str, external: str, name: str) -> None:
    """From now on `external` in a channel is the person called `name`."""
    db.check_text(channel, "the channel")
    db.check_text(external, "the name")
    number = find_annotators(database, "", [name])[0]
    with database.write() as connection:
        alias = tables.alias
        here = (alias.c.channel == channel) & (alias.c.external == external)
        connection.execute(sa.delete(alias).where(here))
        connection.execute(sa.insert(alias).values(channel=channel, external=external, annotator=number))
        database.note(connection, "alias", {"channel": channel, "external": external, "annotator": name})


def find_labelsets(database: Database, sets: Sequence[str]) -> dict[str, int]:
    """The numbers of label sets, such as "0,3"; new ones are added."""
    table = tables.labelset
    with database.write() as connection:
        known = {row.classes: row.id for row in connection.execute(sa.select(table))}
        for one in sorted(set(sets) - known.keys()):
            known[one] = connection.execute(sa.insert(table).values(classes=one).returning(table.c.id)).scalar_one()
    return known


@dataclass(frozen=True, eq=False)
class Resolved:
    """Answers by the numbers of the campaign, in the order of the pool, and the rows that could not be used."""

    incoming: Incoming
    rejects: tuple[Reject, ...]


def resolve(database: Database, holdings: Holdings, answers: Answers, channel: str, person: str | None) -> Resolved:
    """Look up ids, classes and people. person: whose answers they are where the file does not say."""
    rows = holdings.match(answers.ids)
    kinds = answers.kinds.astype(np.int64)
    codes = answers.values
    values = _look_up(_resolve_values(database, holdings, answers.vocabulary), codes, NO_VALUE)
    classes = _resolve_classes(holdings, answers)
    if holdings.kind != PAIRS:
        empty = np.array([value == () for value in answers.vocabulary] + [False], np.bool_)[codes]
        kinds = np.where((kinds == ANSWER) & empty, NONE_OF_THESE, kinds)
        values = np.where(kinds == NONE_OF_THESE, NO_VALUE, values)
    valued = np.isin(kinds, [KINDS.index(kind) for kind in WITH_VALUE])
    unreadable = (valued & ((codes == ABSENT) | (values == _BAD_VALUE))) | (
        ~valued & (codes != ABSENT) & ~_empty(answers)
    )
    if holdings.kind == PAIRS:
        unreadable |= (kinds == NONE_OF_THESE) | (answers.classes == ABSENT)
    unknown_class = (valued & (values == _BAD_CLASS)) | (classes == _BAD_CLASS)
    reasons = np.select([unreadable, rows < 0, unknown_class], [1, 2, 3], 0)
    names = [*answers.names, person or NOBODY]
    who = np.array(find_annotators(database, channel, names), np.int64)[answers.annotators]  # -1 is the last one
    incoming = Incoming(rows, classes, who, kinds, values, answers.said_at, answers.external, _floats(answers.seconds))
    good = np.flatnonzero(reasons == 0)
    incoming = incoming.take(good)
    return Resolved(incoming.take(incoming.order()), _make_rejects(answers, reasons, holdings))


def _floats(seconds: Any) -> Any:
    return None if seconds is None else seconds.astype(np.float64)


def _empty(answers: Answers) -> Any:
    return np.array([value == () for value in answers.vocabulary] + [False], np.bool_)[answers.values]


def _look_up(table: Numbers, codes: Any, absent: int) -> Numbers:
    found: Numbers = np.append(table, absent)[codes]  # ABSENT is -1, the last place
    return found


def _resolve_values(database: Database, holdings: Holdings, vocabulary: Sequence[Any]) -> Numbers:
    """The stored value of each distinct value of a file."""
    if holdings.kind == PAIRS:
        return np.array([_read_pair(value) for value in vocabulary], np.int64)
    found = [_name_classes(value, holdings) for value in vocabulary]
    if holdings.kind != MULTI_LABEL:
        single = [one if isinstance(one, int) else one[0] if len(one) == 1 else _BAD_VALUE for one in found]
        return np.array(single, np.int64)
    sets = {at: ",".join(map(str, sorted(set(one)))) for at, one in enumerate(found) if not isinstance(one, int)}
    numbers = find_labelsets(database, [text for text in sets.values() if text]) if sets else {}
    coded = [one if isinstance(one, int) else numbers.get(sets[at], NO_VALUE) for at, one in enumerate(found)]
    return np.array(coded, np.int64)


def _read_pair(value: Any) -> int:
    return int(value) if not isinstance(value, tuple) and str(value) in ("0", "1") else _BAD_VALUE


def _name_classes(value: Any, holdings: Holdings) -> list[int] | int:
    """The class ids of a value; _BAD_CLASS if one of its names is unknown."""
    names = [str(name) for name in value] if isinstance(value, tuple) else [str(value)]
    found = [number for name in names if (number := holdings.find_class(name)) is not None]
    return found if len(found) == len(names) else _BAD_CLASS


def _resolve_classes(holdings: Holdings, answers: Answers) -> Numbers:
    """The class that each answer is about: WHOLE_ROW, except in campaigns of pairs."""
    if holdings.kind != PAIRS:
        return np.full(len(answers), WHOLE_ROW, np.int64)
    found = [holdings.find_class(str(name)) for name in answers.class_names]
    known = np.array([_BAD_CLASS if number is None else number for number in found], np.int64)
    return _look_up(known, answers.classes, WHOLE_ROW)


def _make_rejects(answers: Answers, reasons: Numbers, holdings: Holdings) -> tuple[Reject, ...]:
    words = {1: UNREADABLE, 2: UNKNOWN_ID, 3: UNKNOWN_CLASS}
    rejects = []
    for at in np.flatnonzero(reasons).tolist():
        one, reason = answers.read(at), words[int(reasons[at])]
        if reason == UNKNOWN_CLASS:
            detail = _explain_classes(holdings, one.class_ if holdings.kind == PAIRS else one.value)
        else:
            detail = f"the pool has no id {one.id!s}" if reason == UNKNOWN_ID else _explain(holdings)
        known = {name: value for name, value in vars(one).items() if value is not None}
        text = json.dumps(known, ensure_ascii=False)
        rejects.append(Reject(int(answers.places[at]), reason, detail[:SHOWN], text[:SHOWN]))
    return tuple(rejects)


def _explain_classes(holdings: Holdings, value: Any) -> str:
    names = [str(name) for name in (value if isinstance(value, tuple) else [value])]
    return holdings.explain_class(next(name for name in names if holdings.find_class(name) is None))


def _explain(holdings: Holdings) -> str:
    if holdings.kind == PAIRS:
        return "an answer to a pair needs a class and the value 0 or 1"
    return "an answer needs one class" if holdings.kind != MULTI_LABEL else "an answer needs a list of classes"


# Ingesting.


def ingest(
    database: Database,
    holdings: Holdings,
    file: LabelFile,
    *,
    name: str,
    again: bool = False,
    person: str | None = None,
) -> Ingested:
    """Apply a label file. A file that was applied before is refused, unless `again`."""
    resolved = resolve(database, holdings, file.answers, file.channel, person)
    rejects = file.rejects + resolved.rejects
    counted = Counter(one.reason for one in rejects)
    number, cursor, counts = _open_source(database, holdings.edition, file, name, again, counted)
    incoming = resolved.incoming
    for start, stop in incoming.chunks(CHUNK, cursor):
        chunk, origin = slice(start, stop), Origin(file.channel, number)
        counts = planning.repeat(database, partial(_apply_chunk, database, number, incoming, chunk, origin, counts))
    with database.write() as connection:
        _advance(connection, number, len(incoming), len(incoming))
        _store_summary(connection, number, counts, complete=True)
        database.note(connection, "ingest", {"source": number, "name": name, "rows": file.rows, **counts})
    assert sum(counts.values()) == file.rows, "every row is counted once"
    return Ingested(number, file.rows, {name: counts[name] for name in COUNTED}, rejects)


def _apply_chunk(
    database: Database, number: int, incoming: Incoming, chunk: slice, origin: Origin, counts: Counter[str]
) -> Counter[str]:
    """Apply a chunk of a source's answers, and move its cursor; returns the counts with those of the chunk."""
    with database.write() as connection:
        _advance(connection, number, chunk.start, chunk.stop)
        outcome = apply(database, connection, incoming.take(chunk), origin)
        counted = np.bincount(outcome, minlength=len(OUTCOMES)).tolist()
        counts = counts + Counter(dict(zip(OUTCOMES, counted, strict=True)))
        _store_summary(connection, number, counts, complete=False)
    return counts


def _open_source(
    database: Database, edition: int, file: LabelFile, name: str, again: bool, rejected: Counter[str]
) -> tuple[int, int, Counter[str]]:
    """(number, how many answers are applied already, the counts so far): a new source, or one that was interrupted."""
    table = tables.source
    with database.write() as connection:
        if db.read_edition(connection) != edition:
            raise CampaignError("the pool or its classes changed meanwhile: run ingest again")
        same = sa.select(table).where(table.c.sha256 == file.sha256, table.c.channel == file.channel)
        held = connection.execute(same.order_by(table.c.id.desc())).all()
        for row in held:
            if not row.complete and row.retracted_at is None:
                return row.id, row.cursor, Counter(json.loads(row.summary))
        if not again and any(row.retracted_at is None for row in held):
            raise CampaignError(
                f"{name} was ingested before (source {held[0].id}): nothing is done; pass again=True (--again) to "
                "apply it once more"
            )
        values = {"channel": file.channel, "name": name, "sha256": file.sha256, "cursor": 0, "complete": False}
        values |= {"summary": json.dumps(rejected), "at": now()}
        number = connection.execute(sa.insert(table).values(**values).returning(table.c.id)).scalar_one()
        return number, 0, rejected.copy()


def _advance(connection: sa.Connection, number: int, start: int, stop: int) -> None:
    """Move the cursor of a source; refused if another process moved it."""
    table = tables.source
    here = (table.c.id == number) & (table.c.cursor == start) & table.c.complete.is_(False)
    here &= table.c.retracted_at.is_(None)
    if connection.execute(sa.update(table).where(here).values(cursor=stop)).rowcount != 1:
        raise CampaignError("another process is ingesting the same file, or has retracted it: look at the log")


def _store_summary(connection: sa.Connection, number: int, counts: Counter[str], *, complete: bool) -> None:
    values = {"summary": json.dumps(counts), "complete": complete}
    connection.execute(sa.update(tables.source).where(tables.source.c.id == number).values(**values))


# Retracting.


def retract(database: Database, *, source: int | None = None, annotator: str | None = None) -> int:
    """Take back a file, or all that a person said so far; returns how many answers count no more."""
    if (source is None) == (annotator is None):
        raise InputError("retract needs a source or an annotator, and not both")
    with database.write() as connection:
        if source is not None:
            where, found = "e.source = :number", _mark_source(connection, source)
        else:
            where, found = "e.annotator = :number", _find_person(connection, str(annotator))
        sql = f"SELECT count(*) {verdicts.FROM} WHERE {where} AND {verdicts.COUNTS}"
        count = int(connection.execute(sa.text(sql), {"number": found}).scalar_one())
        if source is not None:
            connection.execute(sa.update(tables.source).where(tables.source.c.id == found).values(retracted_at=now()))
        else:
            upto = {"retracted_upto": db.last_event(connection)}
            connection.execute(sa.update(tables.annotator).where(tables.annotator.c.id == found).values(**upto))
        key = f"{REBUILD}:{'source' if source is not None else 'annotator'}:{found}"
        db.write_meta(connection, key, "-1")
        database.note(connection, "retract", {"source": source, "annotator": annotator, "answers": count})
    rebuild(database)
    return count


def _mark_source(connection: sa.Connection, source: int) -> int:
    row = connection.execute(sa.select(tables.source).where(tables.source.c.id == source)).first()
    if row is None:
        raise CampaignError(f"there is no source {source}")
    if row.retracted_at is not None:
        raise CampaignError(f"source {source} ({row.name}) is retracted already")
    return int(row.id)


def _find_person(connection: sa.Connection, name: str) -> int:
    found = connection.execute(sa.select(tables.annotator.c.id).where(tables.annotator.c.name == name)).scalar()
    if found is None:
        raise CampaignError(f"there is no annotator {name!r}")
    return int(found)


def rebuild(database: Database) -> None:
    """Finish what retractions began: verdicts and tasks about the rows they touch, in chunks."""
    with database.read() as connection:
        query = sa.select(tables.meta.c.key).where(tables.meta.c.key.startswith(f"{REBUILD}:"))
        keys = list(connection.execute(query).scalars())
    for key in keys:
        _, column, number = key.split(":")
        sql = (
            f"SELECT DISTINCT row FROM event WHERE {'source' if column == 'source' else 'annotator'} = :number AND "
            "row > :after ORDER BY row LIMIT :most"
        )
        while True:
            planning.wait(database)
            with database.write() as connection:
                after = db.read_meta(connection, key)
                if after is None:  # another process finished it
                    break
                if planning.find_planning(connection):  # it may ask about what is to be opened again here
                    continue
                facts = {"number": int(number), "after": int(after), "most": CHUNK}
                rows = connection.execute(sa.text(sql), facts).scalars().all()
                verdicts.refresh(database, connection, rows)
                db.write_meta(connection, key, str(rows[-1]) if len(rows) == CHUNK else None)
                if len(rows) < CHUNK:
                    db.bump(connection)
                    break


def encode_value(database: Database, holdings: Holdings, value: Any) -> int:
    """The stored value of one answer; an unknown class or an unfit value is refused."""
    code = int(_resolve_values(database, holdings, (value,))[0])
    if code == _BAD_CLASS:
        raise InputError(f"{value!r} is not a class of the campaign: {', '.join(holdings.classes.values())}")
    if code in (_BAD_VALUE, NO_VALUE):
        raise InputError(f"{_explain(holdings)}, got {value!r}")
    return code
