"""One task in a worker: run, measured, and its error told apart.

An error of hedgerow's own says that the job cannot be done, wherever it runs. Any other may be due to the worker, and
goes back as text: its class may not exist where the driver runs.
"""

import os
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hedgerow import machine
from hedgerow.errors import HedgerowError

IO_FIELDS = {"read": "rchar:", "written": "wchar:", "from_disk": "read_bytes:", "to_disk": "write_bytes:"}

Usage = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What became of a job: its result, or one of the three ways to fail."""

    usage: Usage
    result: Any = None
    error: HedgerowError | None = None  # final
    trace: str | None = None  # the traceback of any other error
    refusal: str | None = None  # why this worker may not take part: nothing was run


@dataclass(frozen=True)
class Kill:
    """A worker ended while it had the job, this many times."""

    times: int = 1


class Meter:
    """What this process uses from now on."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        self._traffic = read_traffic()

    def read(self) -> Usage:
        """Host, process, seconds, CPU seconds, bytes read and written so far, and the peak of memory."""
        now = read_traffic()
        moved = {
            key: None if now is None or self._traffic is None else now[key] - self._traffic[key] for key in IO_FIELDS
        }
        return {
            "host": socket.gethostname(),
            "process": os.getpid(),
            "seconds": round(time.perf_counter() - self._wall, 4),
            "cpu": round(time.process_time() - self._cpu, 4),
            **moved,
            "peak": machine.read_memory("VmHWM"),
        }


def read_traffic(path: Path = machine.PROC / "self" / "io") -> dict[str, int] | None:
    """Bytes that this process has read and written; None where the system does not say."""
    try:
        held = machine.read_fields(path)
        return {key: held[field] for key, field in IO_FIELDS.items()}
    except (OSError, KeyError):
        return None


def perform(task: Callable[[Any], Any], job: Any, prepare: Callable[[], str | None] | None = None) -> Outcome:
    """Run a task in a worker. prepare: called before it; the text that it returns is why this worker is refused."""
    machine.reset_peak()
    meter = Meter()
    try:
        refusal = None if prepare is None else prepare()
        if refusal is not None:
            return Outcome(meter.read(), refusal=refusal)
        result = task(job)
    except HedgerowError as error:
        return Outcome(meter.read(), error=error)
    except Exception:
        return Outcome(meter.read(), trace=traceback.format_exc())
    return Outcome(meter.read(), result)


def name_task(task: Any) -> str:
    """The name of a task in logs and messages; that of its function, if some arguments are bound."""
    return str(getattr(getattr(task, "func", task), "__name__", task))
