"""A team of threads for kernels that let go of the interpreter lock.

The work is cut into parts that write to different rows, the parts are worked in any order and their results come back
in order: one thread and many give the same answer. BLAS is held to one thread while a team works; two layers of threads
would fight for the same cores, and its rounding would depend on their number. No processes: those live in `engines/`.
"""

import importlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

T = TypeVar("T")
Pair = tuple[int, int]


def available() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


@dataclass(frozen=True)
class Team:
    """`size` threads that share one queue of tasks."""

    size: int
    _pool: ThreadPoolExecutor | None

    def map(self, task: Callable[[Any], T], items: Sequence[Any]) -> list[T]:
        """task(item) for every item, results in the order of the items."""
        if self._pool is None or len(items) < 2:
            return [task(item) for item in items]
        return list(self._pool.map(task, items))

    def ranges(self, task: Callable[[int, int], T], n: int, *, least: int = 1024, step: int = 1) -> list[T]:
        """task(start, stop) over a range for each thread, none shorter than `least`: waking a thread is not free.

        Ranges begin at multiples of `step`: a task that goes to BLAS in blocks of so many rows has the same blocks, and
        with them the same rounding, for any number of threads.
        """
        parts = max(1, min(self.size, n // max(least, step)))
        edges = [n * part // parts // step * step for part in range(parts)] + [n]
        return self.map(lambda part: task(edges[part], edges[part + 1]), range(parts))

    def pairs(self, task: Callable[[Pair], None], pairs: Sequence[Pair]) -> None:
        """task((a, b)) for every pair; two tasks that share an a or a b never run at once."""
        waiting = list(pairs)
        busy: set[int] = set()
        change = threading.Condition()

        def take() -> Pair | None:
            with change:
                while waiting:
                    for pair in waiting:
                        if busy.isdisjoint(pair):
                            waiting.remove(pair)
                            busy.update(pair)
                            return pair
                    change.wait()
                return None

        def work(_: int) -> None:
            while (pair := take()) is not None:
                try:
                    task(pair)
                finally:
                    with change:
                        busy.difference_update(pair)
                        change.notify_all()

        self.map(work, range(self.size))


@contextmanager
def team(threads: int | None = None) -> Iterator[Team]:
    """A team of `threads` (all cores if None) for the length of a `with` block."""
    # Kernels reach BLAS through scipy: only a library that is loaded by now can be held to one thread.
    importlib.import_module("scipy.linalg.cython_blas")
    size = threads or available()
    with threadpool_limits(limits=1, user_api="blas"):
        if size == 1:
            yield Team(1, None)
            return
        with ThreadPoolExecutor(size, thread_name_prefix="hedgerow") as pool:
            yield Team(size, pool)
