"""A disk that is full, a server that is killed, a clock that is set back, processes that die with a lock in hand."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import faults
import postgres
from hedgerow import Campaign, CampaignError, StoreError
from hedgerow.campaign import database as db
from hedgerow.campaign import ingesting
from hedgerow.campaign.answers import Answer

HOLD = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE task SET state = 3")
print("held", flush=True)
time.sleep(60)
"""


# Disk full.


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of six megabytes; only root can mount one."""
    if os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("a small file system cannot be mounted: this needs root on Linux")
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        if os.environ.get("CI"):
            pytest.fail(f"a small file system cannot be mounted: {made.stderr.strip()}")
        pytest.skip(f"a small file system cannot be mounted: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill_up(folder: Path, left: int) -> Path:
    """A file that leaves so many bytes free."""
    held = os.statvfs(folder)
    ballast = folder / "ballast"
    with ballast.open("wb") as file:
        file.write(bytes(held.f_bavail * held.f_frsize - left))
    return ballast


def make_many_answers() -> list[Answer]:
    return [
        Answer(f"r{row}", "answer", faults.CLASSES[row % 3], f"p{person}", external=f"{person:>50}-{row}", said_at=1)
        for row in range(faults.N)
        for person in range(20)
    ]


def test_a_full_disk_stops_an_ingest_that_continues_later(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingesting, "CHUNK", 500)
    faults.write_pool(small_disk)
    faults.begin(small_disk).close_files()
    ballast = fill_up(small_disk, 600_000)
    answers = make_many_answers()
    with Campaign.open(small_disk / "campaign") as campaign:
        with pytest.raises(StoreError, match="disk is full") as caught:
            campaign.ingest(answers)
        assert "\n" not in str(caught.value)
        before = sum(campaign.status().annotators.values())
        assert 0 < before < len(answers)
    ballast.unlink()
    faults.check(small_disk)
    with Campaign.open(small_disk / "campaign") as campaign:
        assert sum(campaign.status().annotators.values()) == before
        done = campaign.ingest(answers)
        assert done.rows == len(answers) == sum(done.counts.values())
        assert sum(campaign.status().annotators.values()) == len(answers)
    faults.check(small_disk)


def test_a_full_disk_stops_predictions_that_are_registered_later(small_disk: Path) -> None:
    faults.write_pool(small_disk)
    faults.begin(small_disk).close_files()
    chances = np.random.default_rng(0).dirichlet(np.ones(3), faults.N)
    with Campaign.open(small_disk / "campaign") as campaign:
        held = sorted((small_disk / "campaign" / "artifacts").iterdir())
        ballast = fill_up(small_disk, 2000)
        with pytest.raises(StoreError, match=r"No space left on device|disk is full") as caught:
            campaign.predict(chances)
        assert "\n" not in str(caught.value)
        assert sorted((small_disk / "campaign" / "artifacts").iterdir()) == held
        assert campaign.status().models == ()
        ballast.unlink()
        assert campaign.predict(chances).rows == faults.N
    faults.check(small_disk)


def test_a_full_disk_stops_an_init_that_is_run_again(small_disk: Path, tmp_path: Path) -> None:
    faults.write_pool(tmp_path)
    given: dict[str, Any] = {"classes": faults.CLASSES, "embeddings": tmp_path / "embeddings.npy"}
    ballast = fill_up(small_disk, 40_000)
    with pytest.raises(StoreError) as caught:
        Campaign.init(small_disk / "campaign", tmp_path / "pool.csv", **given)
    assert "\n" not in str(caught.value)
    ballast.unlink()
    Campaign.init(small_disk / "campaign", tmp_path / "pool.csv", **given).close_files()
    faults.check(small_disk)


# A server that is killed.


@pytest.mark.parametrize("stopped_at", [1, 4])
def test_a_server_killed_during_an_ingest(
    tmp_path: Path, server: postgres.Server, monkeypatch: pytest.MonkeyPatch, stopped_at: int
) -> None:
    url = server.create(f"crash{stopped_at}")
    monkeypatch.setattr(ingesting, "CHUNK", 30)
    faults.write_pool(tmp_path)
    answers = faults.make_answers(3)
    apply, calls = ingesting.apply, []

    def crash(*given: Any) -> Any:
        calls.append(1)
        done = apply(*given)
        if len(calls) == stopped_at:
            server.stop("immediate")  # before the commit
        return done

    with faults.begin(tmp_path, url) as campaign:
        with monkeypatch.context() as patch:
            patch.setattr(ingesting, "apply", crash)
            with pytest.raises(StoreError) as caught:
                campaign.ingest(answers)
        assert "\n" not in str(caught.value)
        assert postgres.PASSWORD not in str(caught.value)
        with pytest.raises(StoreError) as caught:
            campaign.status()
        assert "\n" not in str(caught.value)
        assert postgres.PASSWORD not in str(caught.value)
        server.start()
        done = campaign.ingest(answers)  # by the same object: its connections are made anew
        assert done.rows == len(answers) == sum(done.counts.values())
        with pytest.raises(CampaignError, match="was ingested before"):
            campaign.ingest(answers)
        kept = done.counts["new"] + done.counts["unsolicited"] + done.counts["corrected"] + done.counts["unchanged"]
        assert sum(campaign.status().annotators.values()) == kept
    faults.check(tmp_path, url)


# A clock that is set back.


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_clock_set_back_loses_nothing(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = None if kind == "sqlite" else request.getfixturevalue("server").create("clock")
    faults.write_pool(tmp_path)
    clock = [db.now()]
    for module in ("database", "asking", "applying", "planning", "ingesting"):
        monkeypatch.setattr(f"hedgerow.campaign.{module}.now", lambda: clock[0])
    with faults.begin(tmp_path, url) as campaign:
        first = campaign.claim("ana", 1)[0]
        assert campaign.answer("ana", first.task, "cat") == "new"
        clock[0] -= 3600 * 1_000_000
        # What is said later counts, whatever the clock says.
        assert campaign.answer("ana", first.task, "dog") == "corrected"
        assert campaign.labels()["label"].tolist() == ["dog"]
        # A lease from before the clock was set back is held, by the same person only; a new one ends in ten minutes.
        held = {one.task for one in campaign.claim("ben", 3)}
        assert not held & {one.task for one in campaign.claim("cid", 3)}
        clock[0] += 601 * 1_000_000
        assert held & {one.task for one in campaign.claim("dan", 19)}
        number = campaign.next(10, strategy="random")
        assert campaign.close(number) == "short"
        assert [entry.command for entry in campaign.log()][-2:] == ["next", "close"]


# Locks in the hands of the dead.


def test_a_writer_killed_with_the_lock_in_hand(tmp_path: Path) -> None:
    faults.write_pool(tmp_path)
    faults.begin(tmp_path).close_files()
    file = tmp_path / "campaign" / "campaign.db"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(file)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with Campaign.open(tmp_path / "campaign") as campaign:
            assert campaign.status().rows == faults.N  # readers never wait
            timer = threading.Timer(0.3, process.send_signal, [signal.SIGKILL])
            timer.start()
            assert len(campaign.claim("ana", 5)) == 5  # waits until it is dead
            timer.join()
    faults.check(tmp_path)


def test_a_writer_that_never_ends_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults.write_pool(tmp_path)
    monkeypatch.setattr(db, "BUSY_SECONDS", 1)
    with faults.begin(tmp_path) as campaign:
        holder = sqlite3.connect(tmp_path / "campaign" / "campaign.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another process has been writing for 1 s"):
            campaign.claim("ana", 1)
        holder.close()
        assert len(campaign.claim("ana", 1)) == 1


def test_two_open_a_campaign_while_a_third_is_killed(tmp_path: Path) -> None:
    """The third leaves a batch half planned; each of the two may find it, and both end with a whole campaign."""
    faults.write_pool(tmp_path)
    faults.begin(tmp_path).close_files()
    steps = faults.kill(faults.Job(tmp_path, "next", 1)).steps
    assert steps is not None
    for at in (steps // 2, steps - 3):
        with ThreadPoolExecutor(2) as pool:
            openers = [pool.submit(faults.kill, faults.Job(tmp_path, "open", 0)) for _ in range(2)]
            assert faults.kill(faults.Job(tmp_path, "next", at, step=at)).killed
        found = [opener.result() for opener in openers]
        assert [(one.killed, one.refused) for one in found] == [(False, None)] * 2
        faults.check(tmp_path)
