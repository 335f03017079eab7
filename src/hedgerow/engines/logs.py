"""`engine.jsonl`: what every task cost, one JSON object per line, appended while the run goes on.

A line that begins a map has `engine`, `task`, `jobs` and `workers`; a line that ends a task has `job` (its number),
`tries`, `host`, `process`, `seconds`, `cpu`, the bytes `read` and `written` by system calls, those `from_disk` and
`to_disk`, and `peak`, the largest resident set in bytes. A task that failed for good has its `error` and `trace`. What
the system does not say is null.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hedgerow.errors import StoreError

LOG = "engine.jsonl"

Entry = dict[str, Any]


class Log:
    """The log in a folder; without a folder nothing is kept."""

    def __init__(self, folder: str | Path | None) -> None:
        self.path = None if folder is None else Path(folder) / LOG

    def begin(self, engine: Any, task: str, jobs: int) -> None:
        """The line that begins a map."""
        if self.path is not None:
            self.write({"engine": engine.name, "workers": engine.workers, "task": task, "jobs": jobs})

    def write(self, entry: Mapping[str, Any]) -> None:
        """Append a line, which begins with the time."""
        if self.path is None:
            return
        line = json.dumps({"at": datetime.now(UTC).isoformat(timespec="milliseconds"), **entry}) + "\n"
        try:
            with self.path.open("a+b") as file:
                if file.tell() and not _ends_line(file):  # the writer before this one was killed
                    line = "\n" + line
                file.write(line.encode())
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}") from error


def _ends_line(file: Any) -> bool:
    file.seek(-1, 2)
    return bool(file.read(1) == b"\n")


def read_log(folder: str | Path) -> list[Entry]:
    """The entries of a folder's log, in order; a line that a killed writer left unfinished is passed over."""
    path = Path(folder) / LOG
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}): give the folder of a run on an engine") from error
    return [entry for line in lines if (entry := _parse(line)) is not None]


def _parse(line: str) -> Entry | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


@dataclass(frozen=True)
class Tally:
    """One map as the log has it: the line that begins it, the tasks that ended well, and those that did not."""

    begin: Entry
    done: list[Entry]
    failed: list[Entry]

    @property
    def seconds(self) -> float:
        """From the beginning to the last line."""
        ends = [datetime.fromisoformat(entry["at"]) for entry in (*self.done, *self.failed)]
        began = datetime.fromisoformat(self.begin["at"])
        return max(((end - began).total_seconds() for end in ends), default=0.0)

    @property
    def tried_again(self) -> int:
        """How often tasks were run again."""
        return sum(entry["tries"] - 1 for entry in (*self.done, *self.failed))

    def total(self, key: str) -> float:
        """The sum of a cost over the tasks."""
        return float(sum(entry.get(key) or 0 for entry in (*self.done, *self.failed)))

    def most(self, key: str) -> float:
        """The largest cost of a task."""
        return float(max((entry.get(key) or 0 for entry in (*self.done, *self.failed)), default=0))


def read_tallies(folder: str | Path) -> list[Tally]:
    """The maps of a folder's log, in order. What was run after an interruption is a map of its own."""
    tallies: list[Tally] = []
    for entry in read_log(folder):
        if "engine" in entry:
            tallies.append(Tally(entry, [], []))
        elif tallies and "job" in entry:
            (tallies[-1].failed if "error" in entry else tallies[-1].done).append(entry)
    return tallies
