"""The machine: how many cores and how much memory this process may use, and a team of threads.

Limits of control groups (containers, batch systems) count: a container with two of a host's 64 cores gets two threads.

A team runs kernels that release the interpreter lock. The work is cut into parts that write to different rows; parts
may finish in any order and their results are returned in order, so one thread and many give the same answer. BLAS is
limited to one thread while a team works: two layers of threads would compete for the same cores, and BLAS's rounding
would depend on their number. No processes: those are in `engines/`.
"""

import functools
import importlib
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
Pair = tuple[int, int]

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


def available() -> int:
    """The cores this process may use: its affinity, and the CPU quota of its control groups, rounded up."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    return max(1, math.ceil(min(cores, read_quota(PROC, CGROUPS))))


@dataclass(frozen=True)
class Memory:
    """Bytes of memory that this process may use: in all, and free now."""

    total: int
    free: int


def memory(proc: Path = PROC, cgroups: Path = CGROUPS) -> Memory:
    """The memory of the machine, or of the tightest control group that this process is in."""
    total = free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, KeyError):
        free = read_fields(proc / "meminfo")["MemAvailable:"] * 1024
    for group in list_groups("memory", proc, cgroups):
        limit = read_number(group / "memory.max") or read_number(group / "memory.limit_in_bytes")
        if limit is None or limit >= total:  # version 1 writes a huge number where there is no limit
            continue
        total, free = limit, min(free, max(0, limit - read_usage(group)))
    return Memory(total, min(free, total))


def read_usage(group: Path) -> int:
    """Bytes that a control group holds and cannot give back: its usage minus cached pages of files."""
    used = read_number(group / "memory.current") or read_number(group / "memory.usage_in_bytes") or 0
    try:
        held = read_fields(group / "memory.stat")
    except OSError:
        return used
    prefix = "total_" if "total_inactive_file" in held else ""  # version 1: the group and those below it
    return max(0, used - held.get(f"{prefix}inactive_file", 0) - held.get(f"{prefix}active_file", 0))


@functools.cache
def read_quota(proc: Path, cgroups: Path) -> float:
    """The CPU seconds per second that the control groups of this process allow; infinite without a limit.

    Read once per process: a team is started for every selection.
    """
    quota = math.inf
    for group in list_groups("cpu", proc, cgroups):
        try:
            limit, period = (group / "cpu.max").read_text().split()
        except (OSError, ValueError):
            limit, period = (str(read_number(group / f"cpu.cfs_{name}_us") or "") for name in ("quota", "period"))
        if limit.isdigit() and period.isdigit() and int(limit) > 0 and int(period) > 0:  # else "max", or -1
            quota = min(quota, int(limit) / int(period))
    return quota


def list_groups(controller: str, proc: Path, cgroups: Path) -> list[Path]:
    """The folders of the control groups that this process is in, versions 1 and 2, the root first.

    A limit of any group on the path holds. A container without a namespace of its own sees the host's path in /proc,
    but its own group as the root of the file system: of a path, the folders that exist count.
    """
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return []
    found: list[Path] = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            roots = [cgroups, cgroups / "unified"]
        elif controller in controllers.split(","):
            roots = [cgroups / controllers, cgroups / controller]
        else:
            continue
        parts = Path(path.lstrip("/"))
        nested = [parts, *parts.parents][::-1]
        found += [root / part for root in roots for part in nested if (root / part).is_dir()]
    return list(dict.fromkeys(found))


def read_number(path: Path) -> int | None:
    """The whole number in a file; None without the file or with another text in it, such as "max"."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def read_fields(path: Path) -> dict[str, int]:
    """The lines "name number ..." of a file."""
    words = (line.split() for line in path.read_text().splitlines())
    return {word[0]: int(word[1]) for word in words if len(word) > 1 and word[1].isdigit()}


def reset_peak() -> None:
    """Reset the peak memory of this process, which `read_memory("VmHWM")` reads. Linux only; nothing elsewhere."""
    with suppress(OSError):
        (PROC / "self" / "clear_refs").write_text("5")  # 5: the peak resident set, see proc(5)


def read_memory(field: str) -> int | None:
    """Bytes of this process in memory: "VmRSS" now, "VmHWM" at the peak. None where the system does not say."""
    try:
        size = read_fields(PROC / "self" / "status").get(f"{field}:")
    except OSError:
        return None
    return None if size is None else size * 1024


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
        """task(start, stop) over one range per thread, none shorter than `least`: waking a thread has a cost.

        Ranges begin at multiples of `step`: a task that calls BLAS in blocks of that many rows has the same blocks,
        and so the same rounding, for any number of threads.
        """
        parts = max(1, min(self.size, n // max(least, step)))
        edges = [n * part // parts // step * step for part in range(parts)] + [n]
        return self.map(lambda part: task(edges[part], edges[part + 1]), range(parts))

    def pairs(self, task: Callable[[Pair], None], pairs: Sequence[Pair]) -> None:
        """task((a, b)) for every pair; two tasks that share an a or a b never run at the same time."""
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
def team(threads: int | None = None, *, products: bool = True) -> Iterator[Team]:
    """A team of `threads` (by default one for each available core) for the length of a `with` block.

    products: kernels will multiply matrices. They reach BLAS through scipy, and only a library that is loaded by now
    can be limited; without products the import of scipy, a fifth of a second, is spared.
    """
    if products:
        importlib.import_module("scipy.linalg.cython_blas")
    size = threads or available()
    with limit_blas():
        if size == 1:
            yield Team(1, None)
            return
        with ThreadPoolExecutor(size, thread_name_prefix="hedgerow") as pool:
            yield Team(size, pool)


def limit_blas() -> Any:
    """A context in which every BLAS that is loaded by now works with one thread."""
    return find_pools(len(sys.modules)).limit(limits=1, user_api="blas")


@functools.lru_cache(maxsize=1)
def find_pools(_modules: int) -> Any:
    """The thread pools of the loaded libraries. A look through them takes a millisecond, so it is only repeated when
    modules were imported since: one of them may have brought a BLAS of its own."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
