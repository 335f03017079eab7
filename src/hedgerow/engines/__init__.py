"""Engines: run one function over many jobs, in this process, in others, or on other machines.

    with open_engine("processes:4") as engine:
        results = engine.map(task, jobs)

The contract, which every engine keeps:

- A task is a module-level function of one job. A job and its result are small and plain, such as JSON has them (with
  Dask and Ray they must be): paths, numbers, short lists. Data travel through files, never through the engine.
- A task writes its files atomically and checks first whether they are there. So it may run twice, also at the same
  time, and an interrupted map can be repeated, on any engine: only what is missing is done.
- `map` returns the results in the order of the jobs. The engine decides only where and when a task runs: results must
  not depend on it.
- An error of hedgerow's own (`HedgerowError`) is final, ends the map and is raised as it is. With workers, any other
  error is tried again three times, then it is an `EngineError` that names the host and has the traceback; a job whose
  worker was killed is run again, up to five times. `serial` raises every error as it is.
- `setup`, a function that can be pickled, runs once in every worker before its first task: to load what all tasks need.
- `workdir`: the folder of the run. What every task cost is appended to `engine.jsonl` there, and workers of a cluster
  must share the folder, which is tested before anything runs.
- `progress(done)` is called with the number of finished jobs when it changes, and about once a second meanwhile.

Engines: `serial` runs tasks in this process, one after the other; `processes:N` in N processes of this machine;
`dask:N` in a Dask cluster on this machine; `dask://host:port` and `dask+tls://host:port` in one that is there; `ray:N`
and `ray://host:port` likewise with Ray.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from hedgerow import checks
from hedgerow.engines import dask, ray
from hedgerow.engines.processes import Processes
from hedgerow.engines.remote import split_address
from hedgerow.engines.serial import Serial
from hedgerow.errors import InputError
from hedgerow.machine import available

__all__ = ["Engine", "open_engine", "use_engine"]

Job = TypeVar("Job")
Result = TypeVar("Result")

VARIABLE = "HEDGEROW_ENGINE"
KINDS = ("serial", "processes", "dask", "ray")
FORMS = (
    'use "serial", "processes:4", "dask:4", "dask://host:8786", "dask+tls://host:8786", "ray:4" or "ray://host:10001"'
)


class Engine(Protocol):
    """Something that runs a task over jobs: see the contract above. `is_remote`: its workers are on other machines."""

    name: str
    is_remote: bool

    @property
    def workers(self) -> int:
        """How many workers there are."""

    def map(
        self,
        task: Callable[[Job], Result],
        jobs: Sequence[Job],
        *,
        setup: Callable[[], Any] | None = None,
        workdir: str | Path | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[Result]:
        """The results of the task for all jobs, in the order of the jobs."""

    def close(self) -> None:
        """End the workers."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def open_engine(name: str | None = None, *, insecure: bool = False, mixed_workers: bool = False) -> Engine:
    """The engine of this name; without one, that of the environment variable HEDGEROW_ENGINE, or "serial".

    "serial", "processes:N", "dask:N", "ray:N" (alone: as many as there are cores), "dask://host:port",
    "dask+tls://host:port", "ray://host:port". insecure: connect to a cluster on another machine without encryption.
    mixed_workers: accept workers whose processors round differently, so that results depend on which of them computed
    what.
    """
    name = check_name(os.environ.get(VARIABLE) or "serial" if name is None else name)
    if "://" in name:
        connect: Callable[..., Engine] = ray.connect if name.startswith("ray:") else dask.connect
        return connect(name, insecure=insecure, mixed_workers=mixed_workers)
    kind, _, count = name.partition(":")
    if kind == "serial":
        return Serial()
    workers = int(count) if count else available()
    starts: dict[str, Callable[[int], Engine]] = {"processes": Processes, "dask": dask.start, "ray": ray.start}
    return starts[kind](workers)


def check_name(name: str) -> str:
    """The name of an engine, refused if it is not one. Nothing is started."""
    if not isinstance(name, str):
        raise InputError(f"engine must be text, got {name!r}: {FORMS}")
    if name.startswith(("dask://", "dask+tls://", "ray://")):
        split_address(name, ray.PORT if name.startswith("ray:") else dask.PORT)
        return name
    kind, colon, count = name.partition(":")
    checks.option(kind, "engine", KINDS)
    if kind == "serial" and colon:
        raise InputError(f"the engine 'serial' has one worker, got {name!r}: {FORMS}")
    if colon and (not count.isdecimal() or int(count) < 1):
        raise InputError(f"the number of workers must be a whole number of at least 1, got {name!r}: {FORMS}")
    return name


@contextmanager
def use_engine(engine: str | Engine) -> Iterator[Engine]:
    """The engine of this name, closed after the `with` block; one that is open already is used and left open."""
    if isinstance(engine, str):
        with open_engine(engine) as opened:
            yield opened
    else:
        yield engine
