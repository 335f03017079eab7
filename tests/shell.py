"""The command line as a user starts it, for tests that kill it."""

import csv
import subprocess
import sys
from pathlib import Path
from typing import Any

START = "from hedgerow.cli import main\nif __name__ == '__main__':\n    main()"


def start(*arguments: Any, program: str = START) -> list[str]:
    return [sys.executable, "-c", program, *map(str, arguments)]


def call(*arguments: Any, program: str = START) -> subprocess.CompletedProcess[str]:
    return subprocess.run(start(*arguments, program=program), capture_output=True, text=True, check=False)


def read_values(folder: Path) -> list[tuple[str, ...]]:
    """The results without their times and memory."""
    with (folder / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    return [tuple(value for key, value in row.items() if "seconds" not in key and "bytes" not in key) for row in rows]
