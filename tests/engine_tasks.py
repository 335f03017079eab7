"""Tasks for the tests of engines, in a module that workers can import."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.errors import InputError
from hedgerow.store import atomic_write

SEEN: list[str] = []


def square(job: int) -> int:
    time.sleep(0.05 * (job == 0))  # the first job is not the first to finish
    return job * job


def name_process(job: int) -> int:
    return os.getpid()


def name_process_slowly(job: int) -> int:
    time.sleep(0.03)
    return os.getpid()


def fail_at_two(job: int) -> int:
    if job == 2:
        raise InputError("job 2 is wrong")
    return job


def divide(job: int) -> float:
    return 1 / job


def fail_first(path: str) -> str:
    """An error that passes: the second try succeeds."""
    if touch(path):
        raise OSError("the disk is on its way")
    return "done"


def kill_itself(job: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_first(path: str | None) -> str:
    """The worker is killed at the first try of the job with a path."""
    if path is not None and touch(path):
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def touch(path: str) -> bool:
    """Whether the file is new; it is there afterwards."""
    new = not Path(path).exists()
    Path(path).touch()
    return new


def allocate(job: int) -> int:
    return len(np.ones(1 << job))


def fill_memory(job: int) -> int:
    """More and more memory, until somebody puts an end to it; two gigabytes if nobody does."""
    held = []
    for _ in range(200):
        held.append(np.ones(10 << 17))  # 10 MiB
        time.sleep(0.02)
    return len(held)


def wait_for_long(folder: str) -> None:
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)


def fail_or_wait(job: str) -> None:
    if job == "":
        raise InputError("stop")
    wait_for_long(job)


def write_or_fail(path: str) -> None:
    """A file that is never finished; without a path, an error a moment later."""
    if path == "":
        time.sleep(1)
        raise InputError("stop")
    with atomic_write(Path(path)) as beside:
        beside.write_text("half")
        for _ in range(6_000):  # Ray interrupts between two steps of Python
            time.sleep(0.1)


def write_numbers(job: dict[str, Any]) -> str:
    """A file of random numbers, made once; with `slow`, slowly."""
    path = Path(job["path"])
    if not path.exists():
        time.sleep(job.get("slow", 0))
        with atomic_write(path) as beside:
            beside.write_bytes(np.random.default_rng(job["seed"]).normal(size=job.get("size", 100)).tobytes())
        with (path.parent / "made").open("a") as file:
            file.write(f"{path.name}\n")
    return path.name


def return_a_set(job: int) -> set[int]:
    return {job}


def soften(rows: np.ndarray) -> np.ndarray:
    """A softmax: for functions over rows."""
    powers = np.exp(rows - rows.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def shorten(rows: np.ndarray) -> np.ndarray:
    return rows[1:]


def name_rows(rows: np.ndarray) -> np.ndarray:
    return np.array(["a"] * len(rows))


def write_mark(path: str) -> None:
    with Path(path).open("a") as file:
        file.write(f"{os.getpid()}\n")
    SEEN.append(path)


def clear_seen(job: int) -> None:
    SEEN.clear()


def read_seen(job: int) -> int:
    return len(SEEN)


def refuse_setup() -> None:
    raise InputError("the data are missing")


def count_letters(texts: list[str]) -> np.ndarray:
    """An encoder: how many characters and how many spaces a text has."""
    return np.array([[len(text), text.count(" ")] for text in texts], np.float32)


def shorten_texts(texts: list[str]) -> np.ndarray:
    """An encoder that loses a row."""
    return count_letters(texts)[1:]


def spoil_texts(texts: list[str]) -> np.ndarray:
    """An encoder that has no number for the third row."""
    made = count_letters(texts)
    made[2] = np.nan
    return made


def kill_at_first_search(job: dict[str, Any]) -> Any:
    """A search of neighbors whose worker is killed at the first try of one job."""
    from hedgerow.clustering import workers

    if job["part"] == 1 and touch(str(Path(job["folder"]).parent / "killed")):
        os.kill(os.getpid(), signal.SIGKILL)
    return workers.search_cells(job)


def kill_at_first_merge(job: dict[str, Any]) -> Any:
    """Merges of a shard whose worker is killed at the first try of one job."""
    from hedgerow.clustering import sharding

    if job["part"] == 1 and touch(str(Path(job["folder"]).parents[1] / "killed")):
        os.kill(os.getpid(), signal.SIGKILL)
    return sharding.merge_shard(job)


def kill_at_first_part(job: dict[str, Any]) -> Any:
    """Picks from a part whose worker is killed at the first try of one job."""
    from hedgerow.strategies import workers

    if job["part"] == 1 and touch(str(Path(job["folder"]) / "killed")):
        os.kill(os.getpid(), signal.SIGKILL)
    return workers.pick_part(job)


def refuse_search(job: dict[str, Any]) -> Any:
    raise InputError("this part is wrong")


def fail_search(job: dict[str, Any]) -> Any:
    raise RuntimeError("the worker is broken")
