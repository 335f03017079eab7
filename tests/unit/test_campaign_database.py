"""The database of a campaign: tables, triggers, revisions, where it may be, what it never says."""

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from hedgerow import Campaign, CampaignError, StoreError
from hedgerow.campaign import database as db
from hedgerow.campaign import tables
from hedgerow.campaign.answers import Answer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A campaign with one answer."""
    with Campaign.init(tmp_path / "c", np.eye(6, dtype=np.float32), classes=["a", "b"]) as campaign:
        campaign.next(2)
        campaign.ingest([Answer(int(campaign.batch(1)["id"][0]), "answer", "a", "ana")])
    return tmp_path / "c"


def change(folder: Path, statement: str) -> None:
    connection = sqlite3.connect(folder / db.FILE)
    try:
        with connection:
            connection.execute(statement)
    finally:
        connection.close()


def test_migrations_give_what_the_tables_say(folder: Path) -> None:
    opened = db.open_database(folder)
    with opened.begin() as connection:
        assert compare_metadata(MigrationContext.configure(connection), tables.metadata) == []
    opened.close()


def test_equal_weights_of_many_tasks_are_not_rounded(folder: Path) -> None:
    opened = db.open_database(folder)
    rows = np.arange(10, 10 + db.MANY)
    with opened.write() as connection:
        columns = {"batch": 1, "pick": rows, "row": rows, "class": -1, "wanted": 1, "given": 0, "state": 4}
        opened.insert_many(connection, "task", {**columns, "weight": np.full(len(rows), 2.5)})
        found = connection.exec_driver_sql("SELECT DISTINCT weight FROM task WHERE weight IS NOT NULL").scalars().all()
    assert found == [2.5]
    opened.close()


@pytest.mark.parametrize("table", ["event", "log"])
@pytest.mark.parametrize("statement", ["UPDATE {} SET id = id", "DELETE FROM {}"])
def test_what_was_said_and_done_cannot_be_changed(folder: Path, table: str, statement: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match=f"{table} is append-only"):
        change(folder, statement.format(table))


def test_sqlite_is_in_wal_mode_and_writers_begin_as_writers(folder: Path) -> None:
    opened = db.open_database(folder)
    with opened.read() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    other = sqlite3.connect(folder / "campaign.db", timeout=0, isolation_level=None)
    with opened.begin(), pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("BEGIN IMMEDIATE")
    with opened.read():
        other.execute("BEGIN IMMEDIATE")
    other.close()
    opened.close()


def test_a_newer_database_is_refused(folder: Path) -> None:
    change(folder, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(CampaignError, match=r"written by a newer hedgerow \(tables of revision 9999"):
        Campaign.open(folder)
    with pytest.raises(CampaignError, match="newer hedgerow"):
        Campaign.upgrade(folder)


def add_migration(folder: Path, body: str) -> Path:
    """All migrations, and one more."""
    versions = folder / "versions"
    shutil.copytree(db.VERSIONS, versions, ignore=shutil.ignore_patterns("__pycache__"))
    head = f'from alembic import op\nrevision = "later"\ndown_revision = "{db.newest()}"\n\n\ndef upgrade():\n'
    (versions / "later.py").write_text(head + body)
    return versions


def test_tables_without_weights_get_them(folder: Path) -> None:
    change(folder, "ALTER TABLE task DROP COLUMN weight")
    change(folder, "UPDATE alembic_version SET version_num = '0001'")
    with pytest.raises(CampaignError, match="older hedgerow"):
        Campaign.open(folder)
    done = Campaign.upgrade(folder)
    assert done is not None
    assert (done.before, done.after) == ("0001", "0002")
    with Campaign.open(folder) as campaign:
        assert campaign.status().labels == {"majority": 1}
        assert "weight" not in campaign.labels()


def test_an_older_database_is_copied_and_upgraded(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one more migration, as a later release would have it."""
    newest = db.newest()
    versions = add_migration(tmp_path, '    op.execute("CREATE TABLE later (id INTEGER)")\n')
    assert Campaign.upgrade(folder) is None
    monkeypatch.setattr(db, "VERSIONS", versions)
    with pytest.raises(CampaignError, match=r"older hedgerow .*hedgerow campaign upgrade"):
        Campaign.open(folder)
    done = Campaign.upgrade(folder)
    assert done is not None
    assert (done.before, done.after) == (newest, "later")
    with Campaign.open(folder) as campaign:
        assert campaign.status().labels == {"majority": 1}
        assert [entry.command for entry in campaign.log(1)] == ["upgrade"]
    assert done.copy is not None
    connection = sqlite3.connect(done.copy)
    assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(newest,)]
    assert connection.execute("SELECT count(*) FROM event").fetchall() == [(1,)]
    connection.close()


def test_a_failed_upgrade_changes_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again = '    op.execute("CREATE TABLE later (id INTEGER)")\n    op.execute("CREATE TABLE event (id INTEGER)")\n'
    versions = add_migration(tmp_path, again)
    with monkeypatch.context() as patch:
        patch.setattr(db, "VERSIONS", versions)
        with pytest.raises(StoreError, match="table event already exists"):
            Campaign.upgrade(folder)
    with Campaign.open(folder) as campaign:
        assert campaign.status().labels == {"majority": 1}
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        change(folder, "DELETE FROM later")


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/data /mnt/data nfs4 rw 0 0
host:/home /srv/my\\040share fuse.sshfs rw 0 0
tmpfs /mnt/data/fast tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv", "ext4"),
        ("/mnt/data/x", "nfs4"),
        ("/mnt/database", "ext4"),
        ("/srv/my share/c", "fuse.sshfs"),
        ("/mnt/data/fast/c", "tmpfs"),
    ],
)
def test_the_file_system_of_a_folder(path: str, kind: str) -> None:
    assert db.find_file_system(Path(path), MOUNTS)[0] == kind


def test_network_file_systems_are_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/x {tmp_path.resolve()} nfs rw 0 0\n")
    monkeypatch.setattr(db, "MOUNTS", mounts)
    with pytest.raises(StoreError, match=r"network file system \(nfs, mounted at .*PostgreSQL"):
        Campaign.init(tmp_path / "c", np.eye(3, dtype=np.float32), classes=["a", "b"])
    mounts.unlink()
    assert db.is_network(tmp_path) is None


def test_a_password_is_never_shown(tmp_path: Path) -> None:
    url = "postgresql://ana:s3cret@127.0.0.1:1/none"
    with pytest.raises(StoreError, match=r"postgresql://ana:\*\*\*@127.0.0.1:1/none") as caught:
        Campaign.init(tmp_path / "c", np.eye(3, dtype=np.float32), classes=["a", "b"], database=url)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert "s3cret" not in repr(db.open_database(tmp_path, url))
    assert not any(b"s3cret" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize(("url", "message"), [("mysql://h/x", "'mysql' cannot be used"), ("nothing", "must look like")])
def test_other_urls_are_refused(tmp_path: Path, url: str, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        db.open_database(tmp_path, url)


def test_folders_without_a_campaign(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="is not a folder"):
        Campaign.open(tmp_path / "nothing")
    with pytest.raises(CampaignError, match="holds no campaign"):
        Campaign.open(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(CampaignError, match="is not empty"):
        Campaign.init(tmp_path, np.eye(3, dtype=np.float32), classes=["a", "b"])


def test_hedgerow_starts_without_a_database_library() -> None:
    code = (
        "import sys, hedgerow, hedgerow.cli, hedgerow.campaign.answers\n"
        "print(sorted({'sqlalchemy', 'alembic', 'psycopg'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
