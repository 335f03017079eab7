"""Progress of long work: a bar on a terminal, lines elsewhere, on standard error.

Long functions report by calling progress(phase, share), share from 0 to 1. Their callers pass None (silent), True
(shown here) or a callable of their own.
"""

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeAlias

from hedgerow import kernels
from hedgerow.errors import InputError

Progress: TypeAlias = Callable[[str, float], None]

QUIET_SECONDS = 5.0  # without a terminal, work that takes less reports nothing
LINE_SECONDS = 60.0  # and after that a phase reports at most so often


def ignore(phase: str, share: float) -> None:
    """Report nothing."""


@contextmanager
def watch(progress: Progress | bool | None) -> Iterator[Progress]:
    """A function to report to, for the length of a `with` block: the caller's own, or for True one that shows it.

    Kernels that have to be compiled report there, too.
    """
    if progress is None or progress is False:
        yield ignore
    elif progress is not True:
        if not callable(progress):
            raise InputError(f"progress must be True, False or a callable progress(phase, share), got {progress!r}")
        with kernels.announce(progress):
            yield progress
    else:
        on_terminal = sys.stderr is not None and sys.stderr.isatty()
        with _show_bar() if on_terminal else nullcontext(Lines().report) as show, kernels.announce(show):
            yield show


class Lines:
    """Lines for a log: each new kind of phase, and otherwise at most one line a minute. Quick work prints nothing.

    Phases that differ only in numbers ("round 2", "round 3") are of one kind.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self._last = -LINE_SECONDS
        self._seen: set[str] = set()

    def report(self, phase: str, share: float) -> None:
        """Print a line if it is due."""
        passed = self._clock() - self._started
        kind = re.sub(r"[\d.,]+", "#", phase)
        if passed < QUIET_SECONDS or (kind in self._seen and passed - self._last < LINE_SECONDS):
            return
        self._seen.add(kind)
        self._last = passed
        print(f"hedgerow: {phase}, {100 * share:.0f}% after {_format_time(passed)}", file=sys.stderr, flush=True)


def _format_time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


@contextmanager
def _show_bar() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns: tuple[Any, ...] = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with Bar(*columns, *times, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=1.0)

        def show(phase: str, share: float) -> None:
            if share < bar.tasks[0].completed:  # another part begins: the time left is that of the part that runs
                bar.reset(task)
            bar.update(task, description=phase, completed=share)

        yield show
