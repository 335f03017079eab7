"""The database of a campaign: SQLite in its folder, or PostgreSQL by URL. Opening, transactions, migrations.

SQLite runs in WAL mode, and every transaction of ours begins as a writer (BEGIN IMMEDIATE): one that has read first and
then writes would fail at once if another wrote meanwhile, whatever the timeout. WAL needs shared memory, so network
file systems are refused by name. A password in a URL never appears in a message.
"""

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow import __version__, store
from hedgerow.campaign import tables
from hedgerow.errors import CampaignError, InputError, MissingExtraError, StoreError

FILE = "campaign.db"
BUSY_SECONDS = 60  # how long a writer waits for another; each of our transactions is short
RETRY_SECONDS = 0.001
MANY = 1000  # rows for which a statement of their own pays
# PostgreSQL plans by the size that a table had a minute ago: of one that was empty it would read every row each time.
USE_INDEXES = "SELECT set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)"
MOUNTS = Path("/proc/mounts")
# File systems over a network, on which the shared memory of WAL does not work.
NETWORK = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys"}
    | {"fuse.rclone", "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "pvfs2"}
    | {"smb3", "smbfs", "virtiofs"}
)
VERSIONS = Path(__file__).parent / "migrations"


def now() -> int:
    """Microseconds since 1970 in UTC."""
    return time.time_ns() // 1000


@dataclass(frozen=True, eq=False)
class Database:
    """An open database. Every visible change is one transaction of `begin`."""

    engine: sa.Engine
    title: str  # what messages call it: without a password
    secrets: tuple[str, ...] = field(default=(), repr=False)
    who: str = "unknown"  # the name in the audit log

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file in the campaign's folder."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def begin(self, *, few: bool = False) -> Iterator[sa.Connection]:
        """A transaction that may write; all of it is applied when the block ends, or nothing.

        few: it is about a few rows, while somebody waits.
        """
        with self.explain(), self.engine.begin() as connection:
            if few and not self.is_sqlite:
                connection.execute(sa.text(USE_INDEXES))
            yield connection

    @contextmanager
    def write(self, *, few: bool = False) -> Iterator[sa.Connection]:
        """A transaction that changes answers, batches or files: one such at a time, on either kind of database."""
        with self.begin(few=few) as connection:
            if not self.is_sqlite:
                connection.execute(sa.text("SELECT value FROM meta WHERE key = 'generation' FOR UPDATE"))
            yield connection

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """One consistent view; never waits for a writer."""
        with self.explain(), self.engine.connect() as connection:
            if self.is_sqlite:
                connection = connection.execution_options(hedgerow_reads=True)
            else:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def explain(self) -> Iterator[None]:
        """Errors of the driver in one line, without the password."""
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            raise self._translate(error) from None

    def _translate(self, error: sa.exc.SQLAlchemyError) -> StoreError:
        text = str(getattr(error, "orig", None) or error).strip().splitlines()
        line = text[0] if text else type(error).__name__
        for secret in self.secrets:
            line = line.replace(secret, "***")
        if "readonly database" in line or "unable to open" in line:
            line += ": its folder and files must be yours to read and to write, also to look at a campaign"
        if "locked" in line:
            line += f": another process has been writing for {BUSY_SECONDS} s; try again when it is done"
        return StoreError(f"the database {self.title}: {line}")

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def note(self, connection: sa.Connection, command: str, outcome: Mapping[str, Any]) -> None:
        """A line in the audit log, in the transaction that it is about."""
        values = {"at": now(), "who": self.who, "version": __version__, "command": command}
        connection.execute(sa.insert(tables.log).values(**values, outcome=json.dumps(dict(outcome))))

    def insert_many(self, connection: sa.Connection, table: str, columns: Mapping[str, Any]) -> None:
        """Insert many rows by the driver itself: SQLAlchemy would take three times as long.

        columns: by name, a list or an array of numbers, or one value for all rows. A number that all rows share
        is written into the statement of SQLite: to bind values is half of the work.
        """
        n = max(len(values) for values in columns.values() if isinstance(values, (list, np.ndarray)))
        if n == 0:
            return
        folds = self.is_sqlite and n >= MANY
        held = {name: _fold(values, folds) for name, values in columns.items()}
        fixed = {name for name, values in held.items() if folds and (values is None or isinstance(values, int))}
        rows = zip(*(_repeat(values, n) for name, values in held.items() if name not in fixed), strict=True)
        names = ", ".join(f'"{name}"' for name in columns)
        cursor: Any = connection.connection.cursor()
        try:
            if self.is_sqlite:
                marks = ", ".join(_write_number(held[name]) if name in fixed else "?" for name in columns)
                cursor.executemany(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', rows)
            else:
                with cursor.copy(f'COPY "{table}" ({names}) FROM STDIN') as copy:
                    for row in rows:
                        copy.write_row(row)
        except Exception as error:
            raise _wrap(error, connection) from None
        finally:
            cursor.close()

    def run_many(self, connection: sa.Connection, statement: str, rows: list[Any]) -> None:
        """Run one statement with ? for every row, by the driver itself."""
        if not rows:
            return
        cursor: Any = connection.connection.cursor()
        try:
            cursor.executemany(statement if self.is_sqlite else statement.replace("?", "%s"), rows)
        except Exception as error:
            raise _wrap(error, connection) from None
        finally:
            cursor.close()

    def among(self, column: str, name: str) -> str:
        """A condition: the column is one of the whole numbers in the parameter `name`, see `listed`."""
        if self.is_sqlite:
            return f"{column} IN (SELECT value FROM json_each(:{name}))"
        return f"{column} = ANY(CAST(:{name} AS bigint[]))"

    def listed(self, numbers: Any) -> Any:
        """Whole numbers as the parameter of `among`."""
        plain = numbers.tolist() if isinstance(numbers, np.ndarray) else [int(number) for number in numbers]
        return json.dumps(plain) if self.is_sqlite else plain

    def table(self, columns: Sequence[str], name: str) -> str:
        """A query for the rows of whole numbers in the parameter `name`, see `listed_rows`."""
        if self.is_sqlite:
            cells = [f"json_extract(value, '$[{at}]') AS {column}" for at, column in enumerate(columns)]
            return f"SELECT {', '.join(cells)} FROM json_each(:{name})"
        cells = [f"CAST(value ->> {at} AS bigint) AS {column}" for at, column in enumerate(columns)]
        return f"SELECT {', '.join(cells)} FROM json_array_elements(CAST(:{name} AS json))"

    def listed_rows(self, rows: Iterable[Sequence[int]]) -> str:
        """Rows of whole numbers as the parameter of `table`."""
        return json.dumps([list(row) for row in rows])

    def among_texts(self, column: str, name: str) -> str:
        """A condition: the column is one of the texts in the parameter `name`, see `listed_texts`."""
        if self.is_sqlite:
            return f"{column} IN (SELECT value FROM json_each(:{name}))"
        return f"{column} = ANY(CAST(:{name} AS text[]))"

    def listed_texts(self, texts: list[str]) -> Any:
        """Texts as the parameter of `among_texts`."""
        return json.dumps(texts) if self.is_sqlite else texts


def leave_out(values: npt.NDArray[np.int64], absent: int) -> Any:
    """Whole numbers for `insert_many`: NULL where one says that there is none."""
    without = values == absent
    if without.all() or not without.any():
        return None if without.any() else values
    return [None if value == absent else value for value in values.tolist()]


def _fold(values: Any, folds: bool) -> Any:
    """An array as a list, or as one whole number if that may be and all are equal; anything else as it is."""
    if not isinstance(values, np.ndarray):
        return values
    one = folds and values.dtype.kind in "iu" and bool((values == values[0]).all())
    return int(values[0]) if one else values.tolist()


def _repeat(values: Any, n: int) -> Iterable[Any]:
    return values if isinstance(values, list) else repeat(values, n)


def _write_number(value: int | None) -> str:
    return "NULL" if value is None else f"{value:d}"


def check_text(text: str, what: str) -> str:
    """A text that both databases can hold: no NUL, and no half of a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{what} {text!r} holds half of a character (a lone surrogate): give whole text") from None
    if "\0" in text:
        raise InputError(f"{what} {text!r} holds a NUL character: leave it out")
    return text


def _wrap(error: Exception, connection: sa.Connection) -> Exception:
    """An error of the driver as SQLAlchemy's own statements would raise it; anything else as it is."""
    driver = connection.dialect.loaded_dbapi
    if isinstance(error, driver.Error):
        return sa.exc.DBAPIError.instance(None, None, error, driver.Error, dialect=connection.dialect)
    return error


# Opening.


def open_database(folder: Path, url: str | None = None) -> Database:
    """The database in a campaign's folder, or the one at a URL such as postgresql://user@host/name."""
    if url is None:
        refuse_network(folder)
        path = folder / FILE
        engine = sa.create_engine(f"sqlite:///{path}", connect_args={"timeout": BUSY_SECONDS})
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
        return Database(engine, str(path))
    return _open_url(url)


def _open_url(url: str) -> Database:
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):  # such as a port that is no number
        raise StoreError("the database URL cannot be read: it must look like postgresql://user@host/name") from None
    if parsed.get_backend_name() not in ("postgresql", "postgres"):
        raise StoreError(
            f"a database of kind {parsed.drivername!r} cannot be used: give a postgresql:// URL, or none for SQLite"
        )
    # The parameters of a URL may hold passwords as well.
    where = {name: value for name, value in parsed.query.items() if name in ("host", "port", "dbname")}
    title = parsed.set(query=where).render_as_string(hide_password=True)
    try:
        engine = sa.create_engine(parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
    except ImportError:
        raise MissingExtraError("a campaign on PostgreSQL", "postgres") from None
    given = [parsed.password, *(value for name, value in parsed.query.items() if name not in where)]
    return Database(engine, title, tuple(one for one in given if isinstance(one, str) and one))


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions are begun by _begin_sqlite and not by the driver
    connection.execute("PRAGMA synchronous = FULL")  # an answer that was acknowledged survives a power cut
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA cache_size = -65536")  # 64 MiB
    # 32 MiB: whoever fills the log waits until its pages are in the database, which would be one claim in thirty.
    connection.execute("PRAGMA wal_autocheckpoint = 8192")


def use_wal(database: Database) -> None:
    """Put a new SQLite file into WAL mode, which it keeps. Not at every connection: that may fail under load."""
    if database.is_sqlite:
        with database.explain(), closing(database.engine.raw_connection()) as connection:
            connection.cursor().execute("PRAGMA journal_mode = WAL")


def _begin_sqlite(connection: sa.Connection) -> None:
    if connection.get_execution_options().get("hedgerow_reads"):
        connection.exec_driver_sql("BEGIN")
        return
    cursor: Any = connection.connection.cursor()
    end = time.monotonic() + BUSY_SECONDS
    # SQLite itself would look again after longer and longer pauses: with several writers, some would wait for seconds.
    cursor.execute("PRAGMA busy_timeout = 0")
    try:
        while not _try_to_begin(cursor, connection, end):
            time.sleep(RETRY_SECONDS)
    finally:
        cursor.execute(f"PRAGMA busy_timeout = {1000 * BUSY_SECONDS}")
        cursor.close()


def _try_to_begin(cursor: Any, connection: sa.Connection, end: float) -> bool:
    try:
        cursor.execute("BEGIN IMMEDIATE")
    except connection.dialect.loaded_dbapi.OperationalError as error:
        if "locked" in str(error) and time.monotonic() < end:
            return False
        raise _wrap(error, connection) from None
    return True


def find_file_system(path: Path, mounts: str) -> tuple[str, str]:
    """(type, mount point) of the file system that holds a path, from the text of /proc/mounts."""
    found = ("", "")
    for line in mounts.splitlines():
        parts = line.split()
        if len(parts) < 3:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), parts[1]))
        if path.is_relative_to(point) and len(str(point)) >= len(found[1]):
            found = (parts[2], str(point))
    return found


def is_network(folder: Path) -> tuple[str, str] | None:
    """(type, mount point) if a folder is on a file system over a network; None elsewhere, and where nobody can tell."""
    try:
        mounts = MOUNTS.read_text()
    except OSError:
        return None
    kind, point = find_file_system(folder.resolve(), mounts)
    return (kind, point) if kind in NETWORK else None


def refuse_network(folder: Path) -> None:
    """Refuse SQLite in a folder on a network file system."""
    found = is_network(folder)
    if found:
        raise StoreError(
            f"{folder} is on a network file system ({found[0]}, mounted at {found[1]}), where SQLite loses data: "
            "use a folder on a local disk, or PostgreSQL (--database postgresql://...)"
        )


# Migrations.


def newest() -> str:
    """The newest revision of the tables that this version of hedgerow knows."""
    head = _script().get_current_head()
    assert head is not None, "there is a first migration"
    return str(head)


def find_revision(database: Database) -> str | None:
    """The revision of the tables in a database; None if there are none."""
    from alembic.migration import MigrationContext

    with database.read() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def migrate(connection: sa.Connection) -> None:
    """Bring the tables to the newest revision, within the transaction of the caller."""
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    script = _script()

    def list_steps(revision: Any, _context: Any) -> Any:
        return script._upgrade_revs("head", revision)

    context = MigrationContext.configure(connection, opts={"fn": list_steps})
    with Operations.context(context):
        context.run_migrations()


def check_revision(database: Database) -> None:
    """Refuse tables of a newer or an older release."""
    found = find_revision(database)
    if found is None:
        raise CampaignError(f"{database.title} holds no campaign: run `hedgerow campaign init` first")
    known = [step.revision for step in _script().walk_revisions()]
    if found not in known:
        raise CampaignError(
            f"{database.title} was written by a newer hedgerow (tables of revision {found}, this version knows "
            f"{newest()}): update hedgerow"
        )
    if found != newest():
        raise CampaignError(
            f"{database.title} was written by an older hedgerow (tables of revision {found}, now {newest()}): run "
            "`hedgerow campaign upgrade` on it"
        )


@dataclass(frozen=True)
class Upgraded:
    """Tables that were brought from one revision to another. copy: the SQLite file as it was before."""

    before: str
    after: str
    copy: Path | None


def upgrade(database: Database, folder: Path) -> Upgraded | None:
    """Bring an older database to the newest tables; None if they are. A SQLite file is copied first."""
    found = find_revision(database)
    if found is None or found == newest():
        check_revision(database)
        return None
    if found not in [step.revision for step in _script().walk_revisions()]:
        check_revision(database)
    copy = None
    if database.is_sqlite:
        copy = (
            folder / f"campaign-{found}.db"
        )  # one name, so that a killed upgrade leaves no copy beside that of the next
        _copy_sqlite(database, copy)
    done = Upgraded(found, newest(), copy)
    with database.begin() as connection:
        migrate(connection)
        database.note(connection, "upgrade", {"before": done.before, "after": done.after})
    return done


def _copy_sqlite(database: Database, copy: Path) -> None:
    """A consistent copy of a SQLite database, by its own backup."""
    import sqlite3

    with (
        store.atomic_write(copy) as temporary,
        closing(sqlite3.connect(folder_file(database))) as source,
        closing(sqlite3.connect(temporary)) as target,
    ):
        target.execute("PRAGMA journal_mode = OFF")  # a file beside it would be left if the process were killed
        source.backup(target)


def folder_file(database: Database) -> str:
    """The path of a SQLite database."""
    path = database.engine.url.database
    assert path is not None
    return path


def _script() -> Any:
    from alembic.script import ScriptDirectory

    return ScriptDirectory(str(VERSIONS), version_locations=[str(VERSIONS)])


# Small facts and the audit log.


def read_meta(connection: sa.Connection, key: str) -> str | None:
    """A fact of the campaign."""
    found = connection.execute(sa.select(tables.meta.c.value).where(tables.meta.c.key == key)).scalar()
    return None if found is None else str(found)


def read_metas(connection: sa.Connection, keys: Sequence[str]) -> dict[str, str]:
    """Some facts of the campaign at once, those that there are."""
    query = sa.select(tables.meta.c.key, tables.meta.c.value).where(tables.meta.c.key.in_(keys))
    return {row.key: row.value for row in connection.execute(query)}


def write_meta(connection: sa.Connection, key: str, value: str | None) -> None:
    """Set a fact of the campaign; None deletes it."""
    connection.execute(sa.delete(tables.meta).where(tables.meta.c.key == key))
    if value is not None:
        connection.execute(sa.insert(tables.meta).values(key=key, value=value))


def bump(connection: sa.Connection) -> None:
    """Note that rows were reserved, released or retired: a selection that began before is to be repeated."""
    connection.execute(
        sa.text("UPDATE meta SET value = CAST(CAST(value AS bigint) + 1 AS text) WHERE key = 'generation'")
    )


def read_edition(connection: sa.Connection) -> int:
    """Which state of the pool and the classes it is: another one once rows were added or purged, or classes changed."""
    return int(read_meta(connection, "edition") or 0)


def begin_edition(connection: sa.Connection) -> None:
    """Note that the pool or the classes changed: whoever has read them reads them again.

    Refused while a label file is half applied: its answers are counted in the order of the pool as it was.
    """
    refuse_half(connection)
    write_meta(connection, "edition", str(read_edition(connection) + 1))
    bump(connection)


def find_half(connection: sa.Connection) -> Any:
    """The source of an ingest that is not finished; None if there is none."""
    table = tables.source
    half = sa.select(table.c.id, table.c.name).where(table.c.complete.is_(False), table.c.retracted_at.is_(None))
    return connection.execute(half.limit(1)).first()


def refuse_half(connection: sa.Connection) -> None:
    """Refuse to change the pool or the classes while an ingest is not finished."""
    found = find_half(connection)
    if found is not None:
        raise CampaignError(
            f"the ingest of {found.name} (source {found.id}) is not finished: wait for it, run it again, or retract it "
            f"with `hedgerow campaign retract --source {found.id}`"
        )


def read_moment(connection: sa.Connection) -> tuple[int, int]:
    """Two numbers of which one is another once anything was said or done."""
    newest = "SELECT (SELECT coalesce(max(id), 0) FROM event), (SELECT coalesce(max(id), 0) FROM log)"
    event, entry = connection.execute(sa.text(newest)).one()
    return int(event), int(entry)


def last_event(connection: sa.Connection) -> int:
    """The newest event."""
    return int(connection.execute(sa.text("SELECT coalesce(max(id), 0) FROM event")).scalar() or 0)
