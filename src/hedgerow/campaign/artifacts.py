"""The files of a campaign: named by their content, complete before the database knows them, checked when they are used.

A file of ours is written under a temporary name, synced and renamed to `kind-<sha256>.suffix` before its row is
inserted; a file without a row is an orphan of an interrupted command, and opening the campaign removes it. Large
arrays of the user stay where they are. For every file the size, the time of its last change and a fingerprint of some
of its blocks are stored: a file that changed later is refused with what differs.
"""

import fcntl
import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from hedgerow import store
from hedgerow.campaign import tables
from hedgerow.campaign.database import is_network, now
from hedgerow.errors import StoreError

BLOCK = 1 << 16  # bytes of a sampled block
SAMPLES = 64  # blocks of a file that are sampled, the first and the last among them
READ = 1 << 22
MOST_HASHED = 1 << 32  # a larger file outside is sampled only: all of it would take more than four seconds
ORPHAN_SECONDS = 24 * 3600  # on a shared folder, where locks may not work: no command runs that long
LOCK = ".lock"


@dataclass(frozen=True)
class Artifact:
    """A registered file. path: where it is now."""

    id: int
    kind: str
    path: Path
    sha256: str | None
    sample: str
    bytes: int
    mtime: int


@dataclass(frozen=True)
class Print:
    """The fingerprint of a file."""

    bytes: int
    mtime: int  # nanoseconds
    sample: str
    sha256: str | None


def take_print(path: Path, *, whole: bool) -> Print:
    """Size, time of the last change, fingerprint of sampled blocks; with `whole` the SHA-256 of all bytes."""
    try:
        stat = path.stat()
        sample = hashlib.sha256(str(stat.st_size).encode())
        with path.open("rb") as file:
            steps = max(1, SAMPLES - 1)
            for start in sorted({max(0, stat.st_size - BLOCK) * step // steps for step in range(SAMPLES)}):
                file.seek(start)
                sample.update(file.read(BLOCK))
        return Print(stat.st_size, stat.st_mtime_ns, sample.hexdigest(), hash_file(path) if whole else None)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error


def hash_file(path: Path) -> str:
    """The SHA-256 of all bytes of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(READ):
            digest.update(block)
    return digest.hexdigest()


@dataclass(frozen=True)
class Shelf:
    """The folder with a campaign's own files."""

    folder: Path

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Files may be written and registered in this block; meanwhile nobody sweeps."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / LOCK).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield

    def add(self, kind: str, suffix: str, write: Callable[[Path], None]) -> tuple[Path, Print]:
        """Let `write` fill a file, and keep it under the name of its content; within `hold`."""
        temporary = (
            self.folder
            / f".{kind}-{now()}-{hashlib.sha256(str(time.perf_counter_ns()).encode()).hexdigest()[:8]}{suffix}"
        )
        try:
            write(temporary)
            store.sync(temporary)
            taken = take_print(temporary, whole=True)
            path = self.folder / f"{kind}-{taken.sha256}{suffix}"
            temporary.replace(path)
            store.sync(self.folder)
        except OSError as error:
            raise StoreError(f"writing {kind} in {self.folder} failed: {error.strerror or error}") from error
        finally:
            temporary.unlink(missing_ok=True)
        return path, Print(taken.bytes, path.stat().st_mtime_ns, taken.sample, taken.sha256)

    def register(self, connection: sa.Connection, kind: str, path: Path, taken: Print) -> int:
        """The row of a file, a new one if it has none."""
        name = path.name if path.parent == self.folder else str(path.resolve())
        table = tables.artifact
        same = (table.c.kind == kind) & (table.c.path == name) & (table.c.sample == taken.sample)
        found = connection.execute(sa.select(table.c.id).where(same)).scalar()
        if found is not None:
            return int(found)
        values = {"kind": kind, "path": name, "sha256": taken.sha256, "sample": taken.sample, "at": now()}
        values |= {"bytes": taken.bytes, "mtime": taken.mtime}
        made = connection.execute(sa.insert(table).values(**values).returning(table.c.id)).scalar_one()
        return int(made)

    def find(self, connection: sa.Connection, number: int) -> Artifact:
        """A registered file."""
        row = connection.execute(sa.select(tables.artifact).where(tables.artifact.c.id == number)).one()
        path = Path(row.path) if Path(row.path).is_absolute() else self.folder / row.path
        return Artifact(row.id, row.kind, path, row.sha256, row.sample, row.bytes, row.mtime)

    def list_all(self, connection: sa.Connection) -> list[Artifact]:
        """All registered files."""
        numbers = connection.execute(sa.select(tables.artifact.c.id).order_by(tables.artifact.c.id)).scalars().all()
        return [self.find(connection, number) for number in numbers]

    def sweep(self, connection: sa.Connection) -> list[str]:
        """Remove files that no row names, left by interrupted commands; none while another command writes."""
        if not self.folder.exists():
            return []
        with (self.folder / LOCK).open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return []
            known = set(connection.execute(sa.select(tables.artifact.c.path)).scalars())
            shared = is_network(self.folder) is not None
            gone = []
            for path in sorted(self.folder.iterdir()):
                if path.name == LOCK or path.name in known or not path.is_file():
                    continue
                if path.name.removesuffix(".centroids.npz") + ".parquet" in known:
                    continue
                if shared and time.time() - path.stat().st_mtime < ORPHAN_SECONDS:
                    continue
                path.unlink(missing_ok=True)
                gone.append(path.name)
        return gone


def check(artifact: Artifact, *, verify: bool = False) -> None:
    """Refuse a file that is not what was registered. verify: read all of it."""
    if not artifact.path.exists():
        raise StoreError(f"{artifact.path} ({artifact.kind}) is missing: put the registered file back")
    stat = artifact.path.stat()
    if not verify and (stat.st_size, stat.st_mtime_ns) == (artifact.bytes, artifact.mtime):
        return
    differs = []
    if stat.st_size != artifact.bytes:
        differs.append(f"it has {stat.st_size:,} bytes, not {artifact.bytes:,}")
    else:
        taken = take_print(artifact.path, whole=artifact.sha256 is not None)
        if taken.sample != artifact.sample:
            differs.append("sampled blocks have other bytes")
        elif taken.sha256 != artifact.sha256:
            differs.append("its SHA-256 is another one")
        elif taken.sha256 is None and stat.st_mtime_ns != artifact.mtime:
            differs.append("it was written to later (the sampled blocks agree, but not all of it was ever hashed)")
    if differs:
        raise StoreError(
            f"{artifact.path} ({artifact.kind}) changed after it was registered: {'; '.join(differs)}: put the "
            "registered file back, or start a new campaign with the new one"
        )
