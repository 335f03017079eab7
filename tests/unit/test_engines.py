"""Engines: the same results wherever tasks run, in the order of the jobs; errors and killed workers end a map."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from hedgerow.engines import Engine, open_engine
from hedgerow.errors import EngineError, InputError

NAMES = ["serial", "processes:2"]


def square(job: int) -> int:
    time.sleep(0.05 * (job == 0))  # the first job is not the first to finish
    return job * job


def name_process(job: int) -> int:
    return os.getpid()


def fail_at_two(job: int) -> int:
    if job == 2:
        raise InputError("job 2 is wrong")
    return job


def kill_itself(job: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for_long(folder: str) -> None:
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)


def fail_or_wait(job: str) -> None:
    if job == "":
        raise InputError("stop")
    wait_for_long(job)


SEEN: list[str] = []


def write_mark(path: str) -> None:
    with Path(path).open("a") as file:
        file.write(f"{os.getpid()}\n")
    SEEN.append(path)


def read_seen(job: int) -> int:
    return len(SEEN)


def refuse_setup() -> None:
    raise InputError("the data are missing")


@pytest.fixture(scope="module", params=NAMES)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with open_engine(request.param) as opened:
        yield opened


def test_results_are_in_the_order_of_the_jobs(engine: Engine) -> None:
    assert engine.map(square, range(7)) == [0, 1, 4, 9, 16, 25, 36]
    assert engine.map(square, []) == []


def test_progress_counts_finished_jobs(engine: Engine) -> None:
    counts: list[int] = []
    engine.map(square, range(5), progress=counts.append)
    assert counts == sorted(counts)
    assert counts[-1] == 5


def test_an_error_is_raised_as_it_is_and_the_engine_can_be_used_again(engine: Engine) -> None:
    with pytest.raises(InputError, match="job 2 is wrong"):
        engine.map(fail_at_two, range(5))
    assert engine.map(square, [3]) == [9]


def test_workers_are_other_processes_and_stay() -> None:
    with open_engine("processes:2") as engine:
        first, again = (set(engine.map(name_process, range(6))) for _ in range(2))
        assert engine.workers == 2
        assert os.getpid() not in first | again
        assert len(first | again) <= 2
    assert set(open_engine("serial").map(name_process, range(3))) == {os.getpid()}


@pytest.mark.parametrize("name", NAMES)
def test_the_setup_runs_once_per_worker(name: str, tmp_path: Path) -> None:
    SEEN.clear()
    mark = tmp_path / "mark"
    with open_engine(name, setup=partial(write_mark, str(mark))) as engine:
        assert not mark.exists()
        for _ in range(2):
            assert set(engine.map(read_seen, range(6))) == {1}
    processes = mark.read_text().split()
    assert len(processes) == len(set(processes)) <= engine.workers


@pytest.mark.parametrize("name", NAMES)
def test_an_error_of_the_setup_is_that_of_a_task(name: str) -> None:
    with open_engine(name, setup=refuse_setup) as engine, pytest.raises(InputError, match="the data are missing"):
        engine.map(square, range(3))


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


def test_a_killed_worker_is_an_error_with_advice() -> None:
    with open_engine("processes:2") as engine:
        with pytest.raises(EngineError, match=r"killed, perhaps for lack of memory.*run the same command again"):
            engine.map(kill_itself, [1])
        assert engine.map(square, [3]) == [9]


def test_the_first_error_ends_the_other_workers(tmp_path: Path) -> None:
    with open_engine("processes:2") as engine, pytest.raises(InputError, match="stop"):
        engine.map(fail_or_wait, [str(tmp_path), "", *[str(tmp_path)] * 20])
    waiting = [int(path.name) for path in tmp_path.iterdir()]
    wait_until(lambda: all(map(is_gone, waiting)))
    assert len(list(tmp_path.iterdir())) <= 2  # the jobs behind the error never began


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_engines import wait_for_long
from hedgerow.engines import open_engine
if __name__ == "__main__":
    open_engine("processes:2").map(wait_for_long, [{str(tmp_path)!r}] * 2)
"""
    script = tmp_path.with_suffix(".py")
    script.write_text(program)
    with subprocess.Popen([sys.executable, str(script)]) as parent:
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
        parent.kill()
    workers = [int(path.name) for path in tmp_path.iterdir()]
    wait_until(lambda: all(map(is_gone, workers)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("process:2", "unknown engine 'process': did you mean 'processes'"),
        ("processes:0", "at least 1, got 'processes:0'"),
        ("processes:two", "at least 1, got 'processes:two'"),
        ("processes:", "at least 1, got 'processes:'"),
        ("serial:2", "the engine 'serial' has one worker"),
        (2, "engine must be text, got 2: use .serial. or .processes:N."),
    ],
)
def test_a_name_that_is_not_one_is_refused(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_engine(name)


def test_processes_alone_means_all_cores() -> None:
    assert open_engine("processes").workers >= 1
