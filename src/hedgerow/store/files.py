"""Atomic files: write to a temporary file in the same folder, sync, rename.

A reader sees the old file or the new one and nothing in between, even if the writer is killed or the machine stops. A
killed writer can leave its temporary file behind, a hidden file with the host and the process in its name: it is never
read, and the next write to the same target on that host removes it. This module does not know what the files contain.
"""

import itertools
import os
import re
import socket
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from hedgerow.errors import StoreError

# The exceptions that reading a damaged .npz or JSON file may raise.
UNREADABLE = (OSError, ValueError, KeyError, TypeError, EOFError, NotImplementedError, zipfile.BadZipFile)
_turns = itertools.count()  # so that two threads of one process never share a temporary file


def check_target(path: str | Path, *, force: bool = True) -> Path:
    """Check that a file can be written, before the long work that fills it; the path with links resolved."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise StoreError(f"{path} is not a file: give the path of a file")
    if target.exists() and not force:
        raise StoreError(f"{path} exists: pass --force (force=True in Python) to replace it, or choose another path")
    if not target.parent.is_dir():
        raise StoreError(f"{path} cannot be written: the folder {target.parent} does not exist")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise StoreError(f"{path} cannot be written: no permission to write in the folder {target.parent}")
    return target


@contextmanager
def atomic_write(path: str | Path, *, force: bool = True) -> Iterator[Path]:
    """Yield a temporary path in the same folder; it is renamed to `path` when the block succeeds.

    The temporary path has the same suffix, for writers that look at it. On an exception it is removed and the target is
    unchanged. With `force=False` an existing target is refused, when the block begins and again when it ends.
    """
    target = check_target(path, force=force)
    _sweep(target)
    head, tail = _name_ends(target)
    temporary = target.with_name(f"{head}{os.getpid()}-{next(_turns)}{tail}")
    try:
        yield temporary
        sync(temporary)
        check_target(path, force=force)
        temporary.replace(target)
        sync(target.parent)  # the rename is durable only after the folder is synced
    except OSError as error:
        raise StoreError(f"writing {path} failed: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _name_ends(target: Path) -> tuple[str, str]:
    """The prefix and suffix of the names of temporary files: hidden, and with the suffix of the target.

    The host is part of the name because a folder may be shared, and a process id means nothing on another machine.
    """
    host = re.sub(r"\W", "_", socket.gethostname())
    return f".{target.stem}.{host}-", f".tmp{target.suffix}"


def is_temporary(path: Path, target: Path) -> bool:
    """Whether a file is a temporary file of `atomic_write` to this target, on this host."""
    head, tail = _name_ends(target)
    return path.name.startswith(head) and path.name.endswith(tail)


def _sweep(target: Path) -> None:
    """Remove the temporary files of this target whose processes have ended."""
    head, tail = _name_ends(target)
    for path in target.parent.glob(f"{escape(head)}*{escape(tail)}"):
        process = path.name.removeprefix(head).partition("-")[0]
        if process.isdecimal() and not _is_alive(int(process)):
            path.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)  # signal 0 only checks
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it belongs to another user
        return True
    return True


@contextmanager
def make_temporary(folder: str | Path) -> Iterator[Path]:
    """A folder in another for the length of a `with` block, hidden, with all that is written there."""
    try:
        with tempfile.TemporaryDirectory(prefix=".hedgerow-", dir=folder) as made:
            yield Path(made)
    except OSError as error:
        raise StoreError(f"{folder} cannot be written to: {error.strerror or error}") from error


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Wait until no other process holds the lock of this file, and hold it for the block; it ends with the process.

    Where the system has no such locks, two processes may do the same work twice, but no file is harmed.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.open("w") as file:
        with suppress(OSError):  # some network file systems
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def sync(path: Path) -> None:
    """Flush a file, or the renames in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
