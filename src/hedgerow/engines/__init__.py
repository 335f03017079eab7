"""Engines: run one function over many jobs, in this process or in others.

    with open_engine("processes:4") as engine:
        records = engine.map(task, jobs)

The contract, which every engine keeps:

- A task is a module-level function of one job. A job and its result are small and can be pickled: paths, numbers, short
  lists. Data travel through files, never through the engine.
- A task writes its files atomically and checks first whether they are there. So it may run twice, also at the same
  time, and an interrupted map can be repeated: only what is missing is done.
- `map` returns the results in the order of the jobs. The engine decides only where and when a task runs: results must
  not depend on it.
- The first error ends all tasks and is raised as it is; a worker that was killed is an `EngineError`.
- `setup`, a function that can be pickled, runs once in every worker before its first task: to load what all tasks need.
- `progress(done)` is called with the number of finished jobs when it changes, and about once a second meanwhile.

Engines: `serial` runs tasks in this process, one after the other; `processes:N` in N processes of this machine.
"""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from hedgerow import checks
from hedgerow.engines.processes import Processes
from hedgerow.engines.serial import Serial
from hedgerow.errors import InputError
from hedgerow.machine import available

__all__ = ["Engine", "open_engine"]

Job = TypeVar("Job")
Result = TypeVar("Result")

FORMS = 'use "serial" or "processes:N", such as "processes:4"'


class Engine(Protocol):
    """Something that runs a task over jobs: see the contract above."""

    workers: int

    def map(
        self,
        task: Callable[[Job], Result],
        jobs: Sequence[Job],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> list[Result]:
        """The results of the task for all jobs, in the order of the jobs."""

    def close(self) -> None:
        """End the workers."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def open_engine(name: str, *, setup: Callable[[], Any] | None = None) -> Engine:
    """The engine of this name: "serial", "processes:N", or "processes" for as many as there are cores."""
    if not isinstance(name, str):
        raise InputError(f"engine must be text, got {name!r}: {FORMS}")
    kind, colon, count = name.partition(":")
    checks.option(kind, "engine", ("serial", "processes"))
    if kind == "serial":
        if colon:
            raise InputError(f"the engine 'serial' has one worker, got {name!r}: {FORMS}")
        return Serial(setup)
    if not colon:
        return Processes(available(), setup)
    if not count.isdecimal() or int(count) < 1:
        raise InputError(f"the number of processes must be a whole number of at least 1, got {name!r}: {FORMS}")
    return Processes(int(count), setup)
