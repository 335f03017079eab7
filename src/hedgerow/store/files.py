"""Files that are whole or absent: write beside, sync, rename.

A reader, and a run that resumes, sees the old file or the new one and nothing in between, also when the writer is
killed or the machine stops. A killed writer can leave its temporary behind, a hidden file with its host and process in
its name: it is never read, and the next write to the same target on that host removes it. What a file holds is its
writer's business.
"""

import itertools
import os
import re
import socket
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path

from hedgerow.errors import StoreError

# What reading a damaged .npz file or its numbers may raise.
UNREADABLE = (OSError, ValueError, KeyError, TypeError, EOFError, NotImplementedError, zipfile.BadZipFile)
_turns = itertools.count()  # two threads of one process never share a temporary


def check_target(path: str | Path, *, force: bool = True) -> Path:
    """The path a file can be written to, links followed; to be called before the long work that fills the file."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise StoreError(f"{path} is not a file: name a file to write")
    if target.exists() and not force:
        raise StoreError(f"{path} exists: pass --force (force=True in Python) to replace it, or name another file")
    if not target.parent.is_dir():
        raise StoreError(f"{path} cannot be written: the folder {target.parent} does not exist")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise StoreError(f"{path} cannot be written: no permission to write in the folder {target.parent}")
    return target


@contextmanager
def atomic_write(path: str | Path, *, force: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside `path`; when the block ends well, it becomes `path`.

    The temporary keeps the suffix, for writers that go by it. On an exception it is removed and the target is as it
    was. With `force=False` a target that exists is refused, when the block begins and again when it ends.
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
        sync(target.parent)  # the rename itself is on the disk only when the folder is
    except OSError as error:
        raise StoreError(f"writing {path} failed: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _name_ends(target: Path) -> tuple[str, str]:
    """How the names of its temporaries begin and end: hidden, and with the suffix that writers go by.

    The host is in them because a folder may be shared, and process numbers mean nothing on another machine.
    """
    host = re.sub(r"\W", "_", socket.gethostname())
    return f".{target.stem}.{host}-", f".tmp{target.suffix}"


def is_temporary(path: Path, target: Path) -> bool:
    """Whether a file is one that `atomic_write` to a target left behind, on this host."""
    head, tail = _name_ends(target)
    return path.name.startswith(head) and path.name.endswith(tail)


def _sweep(target: Path) -> None:
    """Remove this target's temporaries whose processes are no more."""
    head, tail = _name_ends(target)
    for path in target.parent.glob(f"{escape(head)}*{escape(tail)}"):
        process = path.name.removeprefix(head).partition("-")[0]
        if process.isdecimal() and not _is_alive(int(process)):
            path.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)  # signal 0 only asks
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it is somebody else's
        return True
    return True


def sync(path: Path) -> None:
    """Has the disk hold what was written to a file, or renamed in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
