"""The engine `processes:N`: tasks run in N processes of this machine.

Workers are spawned, not forked: a fork would copy threads that hold locks. They end with their parent, however it ends,
and leave an interrupt from the keyboard to it. When a task fails, the other workers are terminated at once: what they
have finished is in their files.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for
from types import TracebackType
from typing import Any, Self, TypeVar

from hedgerow.errors import EngineError

Job = TypeVar("Job")
Result = TypeVar("Result")

LOOK_SECONDS = 1.0  # how often `progress` is called while no job finishes
KILLED = (
    "a worker process ended without a result: it was killed, perhaps for lack of memory, or could not start. Finished "
    "work is kept: run the same command again to continue, with fewer processes if memory is short. (A Python script "
    "needs `if __name__ == '__main__':` around its call.)"
)


class Processes:
    """Runs tasks in `workers` processes, which are started when they are first needed and live until `close`."""

    def __init__(self, workers: int, setup: Callable[[], Any] | None = None) -> None:
        self.workers = workers
        self._setup = setup
        self._pool: ProcessPoolExecutor | None = None

    def map(
        self, task: Callable[[Job], Result], jobs: Sequence[Job], *, progress: Callable[[int], None] | None = None
    ) -> list[Result]:
        """The results of the task for all jobs, in the order of the jobs."""
        pool = self._open()
        try:
            futures = [pool.submit(_run, task, job) for job in jobs]
            waiting = set(futures)
            while waiting:
                done, waiting = wait(waiting, timeout=LOOK_SECONDS, return_when="FIRST_COMPLETED")
                for future in done:
                    future.result()
                if progress is not None:
                    progress(len(jobs) - len(waiting))
            return [future.result() for future in futures]
        except BrokenProcessPool as error:
            self._terminate()
            raise EngineError(KILLED) from error
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

    def _open(self) -> ProcessPoolExecutor:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.workers, context, _start_worker, (self._setup,))
        return self._pool

    def _terminate(self) -> None:
        """End the workers without waiting for their tasks, as `shutdown` would."""
        pool, self._pool = self._pool, None
        if pool is not None:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)


# In a worker.

_pending: list[Callable[[], Any]] = []  # the setup, until the first task has run it


def _start_worker(setup: Callable[[], Any] | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has a parent"
    threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    _pending[:] = [] if setup is None else [setup]


def _end_with(sentinel: int) -> None:
    wait_for([sentinel])
    os._exit(1)


def _run(task: Callable[[Job], Result], job: Job) -> Result:
    if _pending:  # here and not in `_start_worker`, so that its error is that of a task
        _pending.pop()()
    return task(job)
