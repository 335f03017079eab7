"""The engine `processes:N`: tasks run in N processes of this machine.

Workers are spawned, not forked: a fork would copy threads that hold locks. They end with their parent, however it ends,
and leave an interrupt from the keyboard to it. If one of them is killed, Python's pool of processes is lost as a whole:
a new one is started, and the jobs that were out are run again. When a map fails, all workers are terminated at once:
what they have finished is in their files.
"""

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from hedgerow.engines.delivery import deliver
from hedgerow.engines.logs import Log
from hedgerow.engines.work import Kill, Outcome, name_task, perform

Job = TypeVar("Job")
Result = TypeVar("Result")
Setup = Callable[[], Any]


class Processes:
    """Runs tasks in `workers` processes, which are started when they are first needed and live until `close`."""

    is_remote = False

    def __init__(self, workers: int) -> None:
        self.name = f"processes:{workers}"
        self.workers = workers
        self._setup: Setup | None = None
        self._pool: ProcessPoolExecutor | None = None

    def map(
        self,
        task: Callable[[Job], Result],
        jobs: Sequence[Job],
        *,
        setup: Setup | None = None,
        workdir: str | Path | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[Result]:
        """The results of the task for all jobs, in the order of the jobs."""
        if setup is not self._setup:
            self.close()
        self._setup = setup
        log = Log(workdir)
        log.begin(self, name_task(task), len(jobs))
        try:
            return deliver(_Carrier(self, task), name_task(task), jobs, log, progress)
        except BaseException:
            self._terminate()
            raise

    def close(self) -> None:
        """End the workers."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def submit(self, task: Callable[[Job], Result], job: Job) -> tuple[ProcessPoolExecutor, Future[Outcome]]:
        """A job sent to the pool, which is started if there is none, or if it was lost without a job."""
        if self._pool is None:
            self._pool = self._start()
        try:
            return self._pool, self._pool.submit(_run, task, job)
        except BrokenProcessPool:
            self._pool = self._start()
            return self._pool, self._pool.submit(_run, task, job)

    def lose(self, pool: ProcessPoolExecutor) -> None:
        """One of the workers of this pool was killed, and the pool with it."""
        if self._pool is pool:
            self._terminate()

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self.workers, multiprocessing.get_context("spawn"), _start_worker, (self._setup,))

    def _terminate(self) -> None:
        """End the workers without waiting for their tasks, as `shutdown` would."""
        pool, self._pool = self._pool, None
        if pool is not None:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)


class _Carrier:
    """Jobs of one map, on their way to the pool and back."""

    def __init__(self, engine: Processes, task: Callable[[Any], Any]) -> None:
        self._engine, self._task = engine, task
        self._back: queue.SimpleQueue[tuple[int, ProcessPoolExecutor, Future[Outcome]]] = queue.SimpleQueue()

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return self._engine.workers

    def send(self, number: int, job: Any) -> None:
        """Let some worker run the job."""
        pool, future = self._engine.submit(self._task, job)
        future.add_done_callback(lambda done: self._back.put((number, pool, done)))

    def collect(self, seconds: float) -> list[tuple[int, Outcome | Kill]]:
        """What became of jobs since the last call; waits for the first, at most so long."""
        try:
            number, pool, future = self._back.get(timeout=seconds)
        except queue.Empty:
            return []
        try:
            return [(number, future.result())]
        except BrokenProcessPool:
            self._engine.lose(pool)
            return [(number, Kill())]


# In a worker.

_pending: list[Setup] = []  # the setup, until it has run


def _start_worker(setup: Setup | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has a parent"
    threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    _pending[:] = [] if setup is None else [setup]


def _end_with(sentinel: int) -> None:
    wait_for([sentinel])
    os._exit(1)


def _run(task: Callable[[Any], Any], job: Any) -> Outcome:
    return perform(task, job, _prepare)


def _prepare() -> None:
    """Run the setup before the first task, so that its error is that of a task."""
    if _pending:
        _pending[0]()
        _pending.clear()
