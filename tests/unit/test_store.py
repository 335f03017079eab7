"""Files are whole or absent."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hedgerow.errors import StoreError
from hedgerow.store import atomic_write, check_target, hold_lock


def test_a_block_that_ends_well_becomes_the_target(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    with atomic_write(target) as temporary:
        assert temporary.parent == tmp_path
        assert str(os.getpid()) in temporary.name
        assert temporary.suffix == ".txt"
        temporary.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_an_exception_leaves_the_target_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")

    def fail() -> None:
        with atomic_write(target) as temporary:
            temporary.write_text("half")
            raise KeyError("stop")

    with pytest.raises(KeyError):
        fail()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_target_that_exists_needs_force(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(StoreError, match="exists: pass --force"), atomic_write(target, force=False):
        pass
    with atomic_write(target, force=True) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "new"


def test_a_target_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"

    def race() -> None:
        with atomic_write(target, force=False) as temporary:
            temporary.write_text("mine")
            target.write_text("theirs")

    with pytest.raises(StoreError, match="exists"):
        race()
    assert target.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [target]


def test_targets_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        check_target(tmp_path / "no" / "a.txt")
    with pytest.raises(StoreError, match="is not a file"):
        check_target(tmp_path)
    with pytest.raises(StoreError, match="is not a file"):
        check_target("/dev/null")


def test_a_folder_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write anywhere, so the answer of the system is staged."""
    monkeypatch.setattr(os, "access", lambda path, mode: not (path == tmp_path and mode & os.W_OK))
    with pytest.raises(StoreError, match=f"no permission to write in the folder {tmp_path}"):
        check_target(tmp_path / "a.txt")


def test_what_a_killed_writer_left_is_swept_by_the_next(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from hedgerow.store import atomic_write
with atomic_write(sys.argv[1]) as temporary:
    temporary.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    target, other = tmp_path / "a[1].txt", tmp_path / "b.txt"
    for path in (target, other):
        assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2
    with atomic_write(target) as mine:
        mine.write_text("new")
        with atomic_write(target) as living:  # a second writer leaves the first one's alone
            living.write_text("newer")
        assert mine.exists()
    assert target.read_text() == "new"
    assert [path.name for path in tmp_path.glob(".*")] == [path.name for path in tmp_path.glob(".b.*.tmp.txt")]


def test_what_a_living_or_foreign_writer_has_is_kept(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a.txt") as temporary:
        temporary.write_text("x")
        other_host = temporary.name.replace(f"-{os.getpid()}-", "x-999999999-")
        (tmp_path / other_host).touch()
        (tmp_path / ".a.txt").touch()
        (tmp_path / temporary.name.replace(f"-{os.getpid()}-", "-1-")).touch()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["a.txt", ".a.txt", other_host, temporary.name.replace(f"-{os.getpid()}-", "-1-")]
    )
    with atomic_write(tmp_path / "a.txt") as temporary:
        temporary.write_text("y")
    assert len(list(tmp_path.iterdir())) == 4


def test_a_block_that_writes_nothing_is_an_error_and_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"writing .*a.txt failed: No such file"), atomic_write(tmp_path / "a.txt"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real.txt")
    with atomic_write(tmp_path / "link") as temporary:
        temporary.write_text("x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "x"


def test_threads_do_not_share_a_temporary(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    barrier = threading.Barrier(2)
    seen = []

    def write(text: str) -> None:
        with atomic_write(target) as temporary:
            temporary.write_text(text)
            barrier.wait()
            seen.append(temporary)

    threads = [threading.Thread(target=write, args=(text,)) for text in ("aaa", "bbb")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 2
    assert target.read_text() in ("aaa", "bbb")
    assert list(tmp_path.iterdir()) == [target]


def test_a_lock_is_held_by_one_process_and_ends_with_it(tmp_path: Path) -> None:
    code = """
import sys, time
from pathlib import Path
from hedgerow.store import hold_lock
folder = Path(sys.argv[1])
with hold_lock(folder / "a.lock"):
    (folder / "held").touch()
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) as other:
        while not (tmp_path / "held").exists():
            assert other.poll() is None
            time.sleep(0.05)
        entered = threading.Event()

        def enter() -> None:
            with hold_lock(tmp_path / "a.lock"):
                entered.set()

        thread = threading.Thread(target=enter)
        thread.start()
        assert not entered.wait(0.3)
        other.kill()
        assert entered.wait(60)
        thread.join()
