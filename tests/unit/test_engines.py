"""Engines: the same results wherever tasks run, in the order of the jobs; what becomes of errors and killed workers."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import engine_tasks as tasks
from hedgerow.engines import Engine, delivery, open_engine, use_engine
from hedgerow.engines.logs import LOG, Log, read_log
from hedgerow.engines.work import read_traffic
from hedgerow.errors import EngineError, InputError, StoreError

WITH_WORKERS = ["processes:2", "dask:2", "ray:2"]
DRIVER = """
import sys
sys.path[:0] = {path!r}
import engine_tasks as tasks
from hedgerow.engines import open_engine
if __name__ == "__main__":
    with open_engine({engine!r}) as engine:
        engine.map(tasks.{task}, {jobs!r}, workdir={workdir!r})
"""


@pytest.fixture(params=["serial", *WITH_WORKERS])
def engine(request: pytest.FixtureRequest, engines: Callable[[str], Engine]) -> Engine:
    return engines(request.param)


@pytest.fixture(params=WITH_WORKERS)
def workers(request: pytest.FixtureRequest, engines: Callable[[str], Engine]) -> Engine:
    """An engine whose tasks run in other processes."""
    return engines(request.param)


def start_driver(folder: Path, engine: str, task: str, jobs: list[Any]) -> "subprocess.Popen[bytes]":
    """A process of its own group that maps a task on an engine."""
    script = folder / "driver.py"
    script.write_text(DRIVER.format(path=sys.path, engine=engine, task=task, jobs=jobs, workdir=str(folder)))
    return subprocess.Popen([sys.executable, str(script)], start_new_session=True, stderr=subprocess.PIPE)


def is_gone(process: int) -> bool:
    status = Path(f"/proc/{process}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    pytest.fail("it never came")


def test_results_are_in_the_order_of_the_jobs(engine: Engine) -> None:
    assert engine.map(tasks.square, range(40)) == [number**2 for number in range(40)]
    assert engine.map(tasks.square, []) == []


def test_progress_counts_finished_jobs(engine: Engine) -> None:
    counts: list[int] = []
    engine.map(tasks.square, range(5), progress=counts.append)
    assert counts == sorted(counts)
    assert counts[-1] == 5


def test_our_error_is_final_and_raised_as_it_is_and_the_engine_can_be_used_again(
    engine: Engine, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"^job 2 is wrong$"):
        engine.map(tasks.fail_at_two, range(5), workdir=tmp_path)
    assert all(entry["tries"] == 1 for entry in read_log(tmp_path) if "tries" in entry)
    assert engine.map(tasks.square, [3]) == [9]


def test_another_error_is_raised_as_it_is_in_this_process() -> None:
    with pytest.raises(ZeroDivisionError):
        open_engine("serial").map(tasks.divide, [1, 0])


def test_another_error_is_tried_again_and_then_names_the_host_and_has_the_traceback(
    workers: Engine, tmp_path: Path
) -> None:
    with pytest.raises(
        EngineError, match=r"job 1 of divide failed 4 times, .* \(process \d+\): ZeroDivisionError"
    ) as told:
        workers.map(tasks.divide, [1, 0, 2], workdir=tmp_path)
    assert os.uname().nodename in str(told.value)
    assert "\n" not in str(told.value)
    assert told.value.trace is not None
    assert "return 1 / job" in told.value.trace
    assert told.value.__notes__ == [told.value.trace]
    last = read_log(tmp_path)[-1]
    assert (last["job"], last["tries"], last["trace"]) == (1, 4, told.value.trace)
    assert workers.map(tasks.square, [3]) == [9]


def test_an_error_that_passes_is_survived(workers: Engine, tmp_path: Path) -> None:
    assert workers.map(tasks.fail_first, [str(tmp_path / "mark")] * 1, workdir=tmp_path) == ["done"]
    assert read_log(tmp_path)[-1]["tries"] == 2


def test_a_killed_worker_is_survived(workers: Engine, tmp_path: Path) -> None:
    jobs = [None, str(tmp_path / "mark"), None, None]
    assert workers.map(tasks.kill_first, jobs, workdir=tmp_path) == ["done"] * 4
    tries = {entry["job"]: entry["tries"] for entry in read_log(tmp_path) if "job" in entry}
    assert sorted(tries) == [0, 1, 2, 3]
    assert tries[1] == 2


def test_a_job_that_kills_its_workers_is_given_up(workers: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "KILLS", 1)
    message = (
        r"2 times .* job 0 of kill_itself: it was killed, probably because it ran out of memory.*same command again"
    )
    with pytest.raises(EngineError, match=message):
        workers.map(tasks.kill_itself, [1])
    assert workers.map(tasks.square, [3]) == [9]


def test_too_little_memory_for_an_array_is_named(workers: Engine) -> None:
    with pytest.raises(EngineError, match=r"Unable to allocate.*give each worker more, or use fewer workers"):
        workers.map(tasks.allocate, [50])


def test_workers_are_other_processes_and_stay(workers: Engine) -> None:
    first, again = (set(workers.map(tasks.name_process, range(6))) for _ in range(2))
    assert workers.workers == 2
    assert os.getpid() not in first | again
    assert len(first | again) <= 2
    assert set(open_engine("serial").map(tasks.name_process, range(3))) == {os.getpid()}


def test_the_setup_runs_once_per_worker(engine: Engine, tmp_path: Path) -> None:
    engine.map(tasks.clear_seen, range(8))
    tasks.SEEN.clear()
    mark = tmp_path / "mark"
    assert set(engine.map(tasks.read_seen, range(6), setup=partial(tasks.write_mark, str(mark)))) == {1}
    processes = mark.read_text().split()
    assert len(processes) == len(set(processes)) <= engine.workers


def test_an_error_of_the_setup_is_that_of_a_task(engine: Engine) -> None:
    with pytest.raises(InputError, match="the data are missing"):
        engine.map(tasks.square, range(3), setup=tasks.refuse_setup)


def test_a_full_disk_is_said_and_nothing_is_half_written(workers: Engine, full_disk: Path) -> None:
    """128 KiB of room for a file of 800 KB."""
    jobs = [
        {"path": str(full_disk / f"{number}.npy"), "seed": number, "size": size}
        for number, size in ((0, 9), (1, 100_000))
    ]
    with pytest.raises(StoreError, match=r"writing .*1\.npy failed: No space left on device"):
        workers.map(tasks.write_numbers, jobs)
    assert sorted(path.name for path in full_disk.iterdir()) in (["0.npy", "made"], [])


def test_the_first_error_ends_the_other_workers(tmp_path: Path) -> None:
    with open_engine("processes:2") as engine, pytest.raises(InputError, match="stop"):
        engine.map(tasks.fail_or_wait, [str(tmp_path), "", *[str(tmp_path)] * 20])
    waiting = [int(path.name) for path in tmp_path.iterdir()]
    wait_until(lambda: all(map(is_gone, waiting)))
    assert len(waiting) <= 2  # the jobs behind the error never began


@pytest.mark.parametrize("name", WITH_WORKERS)
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_driver(name: str, ending: signal.Signals, tmp_path: Path) -> None:
    """Killed, or interrupted from the keyboard, which signals every process of the group."""
    folder = tmp_path / "workers"
    folder.mkdir()
    with start_driver(tmp_path, name, "wait_for_long", [str(folder)] * 20) as driver:
        wait_until(lambda: len(list(folder.iterdir())) == 2)
        started = [int(path.name) for path in folder.iterdir()]
        assert driver.stderr is not None
        if ending == signal.SIGKILL:
            driver.kill()
        else:
            os.killpg(driver.pid, ending)
            told = driver.stderr.read().decode()
            assert told.strip().endswith("KeyboardInterrupt")
            assert told.count("Traceback") == 1
        driver.wait()
    wait_until(lambda: all(map(is_gone, started)))
    assert len(list(folder.iterdir())) == 2  # the queue was dropped
    wait_until(lambda: not list_session(driver.pid))


def list_session(session: int) -> list[int]:
    """The processes of a session that still run, but for agents of Ray, which look for its server for a minute."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, held = path.read_text().rpartition(")")[2].split()[:4]
            command = (path.parent / "cmdline").read_text()
        except OSError:
            continue
        if int(held) == session and state != "Z" and not re.match(r"ray::\w+Agent\b", command):
            found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize(
    ("first", "second"), [("processes:2", "dask:2"), ("dask:2", "ray:2"), ("ray:2", "processes:2")]
)
def test_a_killed_driver_is_resumed_on_another_engine(
    first: str, second: str, engines: Callable[[str], Engine], tmp_path: Path
) -> None:
    plain, cut = tmp_path / "plain", tmp_path / "cut"
    for folder in (plain, cut):
        folder.mkdir()
    jobs = [{"path": str(cut / f"{number}.npy"), "seed": number, "slow": 0.15} for number in range(12)]
    with start_driver(tmp_path, first, "write_numbers", jobs) as driver:
        wait_until(lambda: len(list(cut.glob("[0-9]*.npy"))) >= 3)
        driver.kill()
        driver.wait()
    wait_until(lambda: not list_session(driver.pid))
    found = len(list(cut.glob("[0-9]*.npy")))
    assert found < 12
    names = engines(second).map(tasks.write_numbers, jobs, workdir=tmp_path)
    open_engine("serial").map(
        tasks.write_numbers, [{**job, "path": str(plain / Path(job["path"]).name)} for job in jobs]
    )
    assert names == [f"{number}.npy" for number in range(12)]
    assert {path.name: path.read_bytes() for path in cut.glob("[0-9]*")} == {
        path.name: path.read_bytes() for path in plain.glob("[0-9]*")
    }
    assert len((cut / "made").read_text().split()) <= 12  # what was there was not made again
    assert {entry.get("engine") for entry in read_log(tmp_path)} == {first, second, None}


def test_the_log_says_what_every_task_cost(engine: Engine, tmp_path: Path) -> None:
    jobs = [{"path": str(tmp_path / f"{number}.npy"), "seed": number, "size": 50_000} for number in range(3)]
    engine.map(tasks.write_numbers, jobs, workdir=tmp_path)
    begin, *entries = read_log(tmp_path)
    assert (begin["engine"], begin["task"], begin["jobs"]) == (engine.name, "write_numbers", 3)
    assert sorted(entry["job"] for entry in entries) == [0, 1, 2]
    for entry in entries:
        assert (entry["tries"], entry["host"]) == (1, os.uname().nodename)
        assert entry["seconds"] > 0
        assert entry["cpu"] > 0
        assert entry["written"] >= 400_000
        assert entry["peak"] > 1 << 20
    assert not list(tmp_path.glob(".nonce*"))


def test_a_log_goes_on_after_a_writer_that_was_killed(tmp_path: Path) -> None:
    Log(tmp_path).write({"job": 0})
    with (tmp_path / LOG).open("a") as file:
        file.write('{"job": 1, "hos')
    Log(tmp_path).write({"job": 2})
    assert [entry["job"] for entry in read_log(tmp_path)] == [0, 2]
    Log(None).write({"job": 3})
    with pytest.raises(StoreError, match="give the folder of a run on an engine"):
        read_log(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="cannot be written"):
        Log(tmp_path / "nowhere").write({})


def test_where_the_system_counts_no_bytes_they_are_unknown(tmp_path: Path) -> None:
    assert read_traffic(tmp_path / "io") is None
    (tmp_path / "io").write_text("rchar: 5\n")
    assert read_traffic(tmp_path / "io") is None


def test_an_open_engine_is_left_open() -> None:
    with use_engine("serial") as serial:
        assert serial.name == "serial"
    with open_engine("processes:1") as engine:
        with use_engine(engine) as used:
            before = used.map(tasks.name_process, [0])
        assert engine.map(tasks.name_process, [0]) == before


def test_an_engine_without_a_name_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEDGEROW_ENGINE", raising=False)
    assert open_engine().name == "serial"
    monkeypatch.setenv("HEDGEROW_ENGINE", "processes:3")
    assert open_engine().name == "processes:3"
    assert open_engine("serial").name == "serial"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("process:2", "unknown engine 'process': did you mean 'processes'"),
        ("processes:0", "at least 1, got 'processes:0'"),
        ("dask:two", "at least 1, got 'dask:two'"),
        ("processes:", "at least 1, got 'processes:'"),
        ("serial:2", "the engine 'serial' has one worker"),
        ("dask://:8786", "needs a host and a port, such as dask://10.0.0.5:8786"),
        ("dask+tls://host", r"needs a host and a port, such as dask\+tls://10.0.0.5:8786"),
        ("ray://host", "needs a host and a port, such as ray://10.0.0.5:10001"),
        ("ray:0", "at least 1, got 'ray:0'"),
        (2, "engine must be text, got 2: use .serial., .processes:4."),
    ],
)
def test_a_name_that_is_not_one_is_refused(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_engine(name)


def test_processes_alone_means_all_cores() -> None:
    assert open_engine("processes").workers >= 1


def test_entries_are_json(tmp_path: Path) -> None:
    open_engine("serial").map(tasks.square, [1], workdir=tmp_path)
    assert all(json.loads(line)["at"] for line in (tmp_path / LOG).read_text().splitlines())
