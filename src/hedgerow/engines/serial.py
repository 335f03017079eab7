"""The engine `serial`: tasks run in this process, one after the other."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


class Serial:
    """Runs tasks in this process."""

    workers = 1

    def __init__(self, setup: Callable[[], Any] | None = None) -> None:
        self._setup = setup

    def map(
        self, task: Callable[[Job], Result], jobs: Sequence[Job], *, progress: Callable[[int], None] | None = None
    ) -> list[Result]:
        """The results of the task for all jobs, in the order of the jobs."""
        results = []
        for job in jobs:
            if self._setup is not None:
                setup, self._setup = self._setup, None
                setup()
            results.append(task(job))
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
