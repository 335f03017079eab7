"""The driver's side of a map: which jobs wait, which are out, and which are tried again.

A few jobs per worker are out at a time, so that no scheduler holds a long queue and an interrupt leaves little behind.
What every engine does about a failure:

- an error of hedgerow's own is final and is raised as it is;
- any other error is tried again, `RETRIES` times, then it is an `EngineError` with the host and the traceback;
- a job whose worker was killed is run again, up to `KILLS` times.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from hedgerow.engines.logs import Log
from hedgerow.engines.work import Kill, Outcome
from hedgerow.errors import EngineError

RETRIES = 3  # of an error that is not ours
KILLS = 5  # of the worker that had the job; innocent jobs were in its queue, so more than RETRIES
IN_FLIGHT = 8  # jobs per worker: enough to hide the way there and back, about 10 ms
LOOK_SECONDS = 1.0  # how often `progress` is called while no job finishes
KILLED = (
    "a worker ended without a result {times} times in a row with job {job} of {task}: it was killed, probably because "
    "it ran out of memory, or could not start. Finished work is kept: run the same command again to continue, with "
    "fewer workers or more memory for each. (A Python script needs `if __name__ == '__main__':` around its call.)"
)


class Carrier(Protocol):
    """Takes jobs to workers and brings back what became of them."""

    @property
    def workers(self) -> int:
        """How many workers there are now."""

    def send(self, number: int, job: Any) -> None:
        """Let some worker run the job."""

    def collect(self, seconds: float) -> list[tuple[int, Outcome | Kill]]:
        """What became of jobs since the last call; waits for the first, at most so long."""


def deliver(
    carrier: Carrier, task: str, jobs: Sequence[Any], log: Log, progress: Callable[[int], None] | None = None
) -> list[Any]:
    """The results of all jobs, in their order."""
    results: dict[int, Any] = {}
    waiting, out = deque(range(len(jobs))), 0
    tries, failures, kills = Counter[int](), Counter[int](), Counter[int]()
    while len(results) < len(jobs):
        room = IN_FLIGHT * max(1, carrier.workers) - out if waiting else 0
        for _ in range(min(room, len(waiting))):
            number = waiting.popleft()
            tries[number] += 1
            carrier.send(number, jobs[number])
            out += 1
        for number, outcome in carrier.collect(LOOK_SECONDS):
            out -= 1
            where = {"task": task, "job": number, "tries": tries[number]}
            if isinstance(outcome, Kill):
                kills[number] += outcome.times
                tries[number] += outcome.times - 1
                if kills[number] > KILLS:
                    log.write({**where, "error": "killed"})
                    raise EngineError(KILLED.format(times=kills[number], job=number, task=task))
                waiting.appendleft(number)
            elif outcome.error is not None:
                log.write({**where, **outcome.usage, "error": f"{type(outcome.error).__name__}: {outcome.error}"})
                raise outcome.error
            elif outcome.trace is not None:
                failures[number] += 1
                if failures[number] > RETRIES:
                    raise give_up(where, outcome, log)
                waiting.append(number)
            else:
                results[number] = outcome.result
                log.write({**where, **outcome.usage})
        if progress is not None:
            progress(len(results))
    return [results[number] for number in range(len(jobs))]


def give_up(where: dict[str, Any], outcome: Outcome, log: Log) -> EngineError:
    """The error for a job that failed too often. The traceback is a note, so that the message stays a line."""
    assert outcome.trace is not None, "only an error that is not ours is tried again"
    last = outcome.trace.strip().splitlines()[-1]
    log.write({**where, **outcome.usage, "error": last, "trace": outcome.trace})
    text = (
        f"job {where['job']} of {where['task']} failed {where['tries']} times, the last time on "
        f"{outcome.usage['host']} (process {outcome.usage['process']}): {last}"
    )
    if last.startswith("MemoryError") or "_ArrayMemoryError" in last:
        text += ". The worker is out of memory: give each worker more, or use fewer workers"
    error = EngineError(text + ("" if log.path is None else f". The traceback is in {log.path}"))
    error.trace = outcome.trace
    error.add_note(outcome.trace)
    return error
