"""The engine `serial`: tasks run in this process, one after the other. An error is raised as it is, whosever it is."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from hedgerow.engines.logs import Log
from hedgerow.engines.work import Meter, name_task

Job = TypeVar("Job")
Result = TypeVar("Result")


class Serial:
    """Runs tasks in this process."""

    name = "serial"
    workers = 1
    is_remote = False

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
        log = Log(workdir)
        log.begin(self, name_task(task), len(jobs))
        if setup is not None and len(jobs):
            setup()
        results = []
        for number, job in enumerate(jobs):
            meter = Meter()
            results.append(task(job))
            log.write({"task": name_task(task), "job": number, "tries": 1, **meter.read()})
            if progress is not None:
                progress(len(results))
        return results

    def close(self) -> None:
        """Nothing to end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
