"""`retire`, `restore` and `purge`: rows that must go, and rows that come back.

A retired row keeps its number and what people said about it. It is no candidate any more, nobody is asked about it, and
it has no verdict: it is in no export of labels and in no measurement on the holdout, which stays a uniform draw from
the rows that remain. `restore` brings it back: what people said counts again, and tasks of open batches wait for
answers as before.

`purge` also redacts: the files of the pool are written again with a placeholder for the id and without the content, and
the old ones are removed, so that nothing brings a purged row back. Interrupted, it is finished when the campaign is
next opened. The database never held ids or contents: events and the audit log know rows by number. What is left of a
purged row is its embedding, its cluster and its predictions, and the key that a labeling tool gave to each answer,
since events are never changed. Files of yours, such as the pool that `init` read, are yours to clean.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow import pool
from hedgerow.campaign import artifacts, tables, verdicts
from hedgerow.campaign import database as db
from hedgerow.campaign.artifacts import Artifact, Print, Shelf
from hedgerow.campaign.database import Database, now
from hedgerow.campaign.holdings import ID, Holdings, Segment, read_holdings
from hedgerow.campaign.registering import save_pool
from hedgerow.campaign.tables import SETTLED, VOID
from hedgerow.errors import CampaignError, InputError
from hedgerow.pool.ids import Ids

Numbers = npt.NDArray[np.int64]
CHUNK = 20_000  # rows per transaction
READ = 1 << 16  # rows of a pool's file that are written again at a time
WANTED, DONE = "wanted", "done"
PLACEHOLDER = "purged:"


@dataclass(frozen=True)
class Retired:
    """What became of a list of rows. before: those that had been retired earlier. unknown: ids that no row has."""

    rows: int
    before: int
    unknown: int = 0


@dataclass(frozen=True)
class Restored:
    """What became of a list of rows. others: those that were not retired."""

    rows: int
    others: int


def retire(
    database: Database, holdings: Holdings, source: Any, *, reason: str | None = None, id_column: str | None = None
) -> Retired:
    """Retire the rows that a source lists by id; an id that the pool does not have is refused."""
    rows = pool.find_rows(source, "rows to retire", holdings.n, holdings.ids, id_column=id_column)
    return _retire_rows(database, rows, reason, None)


def purge(
    database: Database,
    shelf: Shelf,
    holdings: Holdings,
    source: Any,
    *,
    reason: str | None = None,
    id_column: str | None = None,
) -> Retired:
    """Retire the rows that a source lists by id, and redact them. Unknown ids are counted: they may be gone already."""
    listing = pool.read_listing(source, "rows to purge", holdings.n, holdings.ids, id_column=id_column)
    if listing.unknown and not len(listing.rows):
        raise InputError(
            f"none of the {listing.unknown:,} ids listed is in the pool, the first is {listing.first_unknown}: they "
            "are wrong, or purged already"
        )
    with database.read() as connection:
        db.refuse_half(connection)
    done = _retire_rows(database, listing.rows, reason, WANTED)
    redact(database, shelf)
    return Retired(done.rows, done.before, listing.unknown)


def _retire_rows(database: Database, rows: Numbers, reason: str | None, wanted: str | None) -> Retired:
    """In chunks, each of which is complete: run again, the rest follows."""
    new = 0
    for start in range(0, len(rows), CHUNK):
        some = rows[start : start + CHUNK]
        with database.write() as connection:
            here, listed = database.among("row", "rows"), {"rows": database.listed(some)}
            known = verdicts.find_retired(database, connection, some)
            fresh = np.setdiff1d(some, known)
            facts = {"reason": reason, "who": database.who, "at": now(), "purge": wanted}
            database.insert_many(connection, "retired", {"row": fresh, **facts})
            if wanted is not None:
                mark = f"UPDATE retired SET purge = :purge WHERE purge IS NULL AND {here}"
                connection.execute(sa.text(mark), {**listed, "purge": wanted})
            _give_up(database, connection, fresh)
            command = "retire" if wanted is None else "purge"
            database.note(connection, command, {"rows": len(some), "before": len(known), "reason": reason})
        new += len(fresh)
    return Retired(new, len(rows) - new)


def restore(
    database: Database, holdings: Holdings, source: Any, *, reason: str | None = None, id_column: str | None = None
) -> Restored:
    """Bring back retired rows that a source lists by id, in chunks, each of which is complete: run again, the rest
    follows. A purged row is refused, and so is an id that the pool does not have: nothing is done then."""
    listing = pool.read_listing(source, "rows to restore", holdings.n, holdings.ids, id_column=id_column)
    if listing.unknown:
        raise InputError(
            f"{listing.unknown:,} of the ids listed are not in the pool, the first is {listing.first_unknown}: they "
            "are wrong, or purged, which cannot be undone"
        )
    with database.read() as connection:
        _refuse_purged(database, connection, listing.rows)
    back = 0
    for start in range(0, len(listing.rows), CHUNK):
        some = listing.rows[start : start + CHUNK]
        with database.write() as connection:
            _refuse_purged(database, connection, some)
            gone = verdicts.find_retired(database, connection, some)
            here = database.among("row", "rows")
            connection.execute(sa.text(f"DELETE FROM retired WHERE {here}"), {"rows": database.listed(gone)})
            verdicts.refresh(database, connection, gone)
            db.bump(connection)
            database.note(connection, "restore", {"rows": len(gone), "others": len(some) - len(gone), "reason": reason})
        back += len(gone)
    return Restored(back, len(listing.rows) - back)


def _refuse_purged(database: Database, connection: sa.Connection, rows: Numbers) -> None:
    sql = f"SELECT count(*) FROM retired WHERE purge IS NOT NULL AND {database.among('row', 'rows')}"
    count = connection.execute(sa.text(sql), {"rows": database.listed(rows)}).scalar_one()
    if count:
        raise CampaignError(
            f"{count:,} of the {len(rows):,} rows were purged: their ids and contents are gone, and they stay retired"
        )


def _give_up(database: Database, connection: sa.Connection, rows: Numbers) -> None:
    """Ask nobody about these rows any more, and forget their verdicts."""
    here, listed = database.among("row", "rows"), {"rows": database.listed(rows)}
    waiting = f"SELECT id FROM task WHERE state < {SETTLED} AND {here}"
    connection.execute(sa.text(f"DELETE FROM lease WHERE task IN ({waiting})"), listed)
    connection.execute(sa.text(f"UPDATE task SET state = {VOID} WHERE state < {SETTLED} AND {here}"), listed)
    connection.execute(sa.text(f"DELETE FROM verdict WHERE {here}"), listed)
    db.bump(connection)


# Redacting.


def redact(database: Database, shelf: Shelf) -> None:
    """Finish what `purge` began: new files for the pool, then one transaction, then the old files go."""
    while True:
        with database.read() as connection:
            rows = _list_wanted(connection)
            if not len(rows) or db.find_half(connection) is not None:  # finished when that ingest is
                return
        with shelf.hold():
            held = read_holdings(database, shelf)
            touched = [one for one in held.segments if ((rows >= one.first) & (rows < one.first + one.n)).any()]
            names = _name_placeholders(held.ids, rows)
            made = {one.id: _rewrite(shelf, one, rows, names) for one in touched}
            if _switch(database, shelf, held, rows, made):
                for one in touched:
                    if made[one.id][0] != one.pool.path:
                        one.pool.path.unlink(missing_ok=True)


def _list_wanted(connection: sa.Connection) -> Numbers:
    sql = "SELECT row FROM retired WHERE purge = :purge ORDER BY row"
    return np.array(connection.execute(sa.text(sql), {"purge": WANTED}).scalars().all(), np.int64)


def _name_placeholders(ids: Ids, rows: Numbers) -> npt.NDArray[Any]:
    """An id for each of these rows that says nothing, and that no row has."""
    if ids.dtype != np.object_:
        names: npt.NDArray[Any] = -1 - rows
        if (pool.match_ids(names, ids, "ids", partial=True) >= 0).any():
            names = np.iinfo(np.int64).min + rows
        return names
    mark = PLACEHOLDER
    while True:
        names = np.array([f"{mark}{row}" for row in rows.tolist()], np.object_)
        if not (pool.match_ids(names, ids, "ids", partial=True) >= 0).any():
            return names
        mark = f"_{mark}"


def _rewrite(shelf: Shelf, segment: Segment, rows: Numbers, names: npt.NDArray[Any]) -> tuple[Path, Print]:
    """The file of a segment's ids and contents, without those of some rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    artifacts.check(segment.pool)
    schema = pq.read_schema(segment.pool.path)

    def pieces() -> Iterator[Any]:
        start = segment.first
        with pq.ParquetFile(segment.pool.path) as file:
            for batch in file.iter_batches(READ):
                low, high = np.searchsorted(rows, [start, start + batch.num_rows])
                columns = {name: batch.column(name) for name in schema.names}
                if low < high:
                    for name, column in columns.items():
                        values = np.array(column.to_pylist(), np.object_)
                        values[rows[low:high] - start] = names[low:high] if name == ID else None
                        columns[name] = pa.array(values.tolist(), schema.field(name).type)
                yield pa.table(columns, schema=schema)
                start += batch.num_rows

    return save_pool(shelf, schema, pieces())


def _switch(
    database: Database, shelf: Shelf, held: Holdings, rows: Numbers, made: dict[int, tuple[Path, Print]]
) -> bool:
    """Put the new files in the place of the old ones; whether that could be done: the pool may have changed."""
    with database.write() as connection:
        if db.read_edition(connection) != held.edition or db.find_half(connection) is not None:
            return False
        for number, file in made.items():
            new = shelf.register(connection, "pool", *file)
            table = tables.segment
            connection.execute(sa.update(table).where(table.c.id == number).values(pool=new))
        old: list[Artifact] = [one.pool for one in held.segments if one.id in made]
        gone = [one.id for one in old if one.path not in {path for path, _ in made.values()}]
        drop = f"DELETE FROM artifact WHERE {database.among('id', 'gone')}"
        connection.execute(sa.text(drop), {"gone": database.listed(gone)})
        sql = f"UPDATE retired SET purge = :purge WHERE {database.among('row', 'rows')}"
        connection.execute(sa.text(sql), {"purge": DONE, "rows": database.listed(rows)})
        db.begin_edition(connection)
    return True
