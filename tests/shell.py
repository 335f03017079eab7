"""The command line in tests: as a process that can be killed, or in this process (the fixture `run`)."""

import csv
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Without progress lines, which would depend on how long kernels take to compile.
QUIET = "from hedgerow import progress\nprogress.QUIET_SECONDS = float('inf')\n"
START = QUIET + "from hedgerow.cli import main\nif __name__ == '__main__':\n    main()"


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit code."""

    code: int
    out: str
    error: str


Run = Callable[..., Answer]


def one_line(answer: Answer, code: int, *parts: str) -> None:
    """The command failed with one line on standard error that contains every part, and printed nothing else."""
    assert answer.code == code, answer
    assert answer.out == ""
    assert answer.error.startswith("hedgerow: ")
    assert answer.error.count("\n") == 1
    assert answer.error.endswith("\n")
    for part in parts:
        assert part in answer.error


def start(*arguments: Any, program: str = START) -> list[str]:
    return [sys.executable, "-c", program, *map(str, arguments)]


def call(*arguments: Any, program: str = START, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `hedgerow <arguments>` as a process to its end; `options` are those of `subprocess.run`."""
    return subprocess.run(start(*arguments, program=program), capture_output=True, text=True, check=False, **options)


def read_values(folder: Path) -> list[tuple[str, ...]]:
    """The results without times and memory."""
    with (folder / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    return [tuple(value for key, value in row.items() if "seconds" not in key and "bytes" not in key) for row in rows]
