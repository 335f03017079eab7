"""The cost of a run on an engine as one page, from the `engine.jsonl` in its folder.

Time, CPU, bytes and memory by map; how busy the workers were; the longest tasks, and those that failed.
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hedgerow.engines.logs import Entry, Tally, read_tallies
from hedgerow.errors import InputError
from hedgerow.report.pages import Section, compose_page, render_bars, render_table, render_texts, write_page

PAGE = "engine.html"
MOST_WORKERS, MOST_TASKS = 40, 10  # on the page; the log has all
LEGEND = (
    '<p class="note">Read and written: by system calls; pages of mapped files count only as from disk. Peak: the '
    "largest memory of a worker during a task. Times of day are UTC.</p>"
)
UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def report_costs(folder: str | Path) -> Path:
    """Write `engine.html` to the folder of a run, replacing an earlier one: the path."""
    tallies = read_tallies(folder)
    if not tallies:
        raise InputError(f"{folder} has a log without tasks: nothing was run there on an engine")
    path = Path(folder) / PAGE
    write_page(path, compose_costs(tallies))
    return path


def compose_costs(tallies: Sequence[Tally]) -> str:
    """The HTML of the page."""
    done = [entry for tally in tallies for entry in tally.done]
    failed = [entry for tally in tallies for entry in tally.failed]
    again = sum(tally.tried_again for tally in tallies)
    lead = (
        f"{len(done):,} tasks in {format_seconds(sum(tally.seconds for tally in tallies))}, with "
        f"{format_seconds(sum(tally.total('cpu') for tally in tallies))} of CPU time. Tasks were repeated {again:,} "
        f"{'time' if again == 1 else 'times'}, and {len(failed):,} failed."
    )
    sections = [Section("Maps", render_table([_describe_tally(tally) for tally in tallies]) + LEGEND)]
    if failed:
        sections.append(Section("Failures", render_texts([_describe_failure(entry) for entry in failed])))
    if done:
        longest = sorted(done, key=lambda entry: -entry["seconds"])[:MOST_TASKS]
        sections.append(Section("Workers", _draw_workers(done)))
        sections.append(Section("Longest tasks", render_table([_describe_task(entry) for entry in longest])))
    return compose_page("What the run cost", lead, sections)


def _describe_tally(tally: Tally) -> dict[str, str]:
    begin = tally.begin
    return {
        "task": str(begin["task"]),
        "engine": str(begin["engine"]),
        "workers": f"{begin['workers']:,}",
        "begun": str(begin["at"])[5:16].replace("T", " "),
        "done": f"{len(tally.done):,} of {begin['jobs']:,}",
        "time": format_seconds(tally.seconds),
        "CPU": format_seconds(tally.total("cpu")),
        "read": format_bytes(tally.total("read")),
        "written": format_bytes(tally.total("written")),
        "from disk": format_bytes(tally.total("from_disk")),
        "peak": format_bytes(tally.most("peak")),
        "repeated": f"{tally.tried_again:,}",
    }


def _describe_failure(entry: Entry) -> dict[str, str]:
    return {
        "task": str(entry["task"]),
        "job": f"{entry['job']:,}",
        "tries": f"{entry['tries']:,}",
        "host": str(entry.get("host", "")),
        "error": str(entry["error"]),
    }


def _describe_task(entry: Entry) -> dict[str, str]:
    return {
        "task": str(entry["task"]),
        "job": f"{entry['job']:,}",
        "host": str(entry["host"]),
        "time": format_seconds(entry["seconds"]),
        "CPU": format_seconds(entry["cpu"]),
        "read": format_bytes(entry.get("read")),
        "written": format_bytes(entry.get("written")),
        "peak": format_bytes(entry.get("peak")),
    }


def _draw_workers(done: Sequence[Entry]) -> str:
    """Bars of the seconds that each worker spent on tasks: computing, and waiting for files or for a core."""
    spent: dict[str, Any] = defaultdict(lambda: [0.0, 0.0])
    for entry in done:
        busy = spent[f"{entry['host']}, {entry['process']}"]
        busy[0] += min(entry["cpu"], entry["seconds"])
        busy[1] += max(0.0, entry["seconds"] - entry["cpu"])
    first = sorted(spent.items(), key=lambda item: -sum(item[1]))[:MOST_WORKERS]
    left = len(spent) - len(first)
    note = f'<p class="note">{left:,} more workers are in the log.</p>' if left else ""
    return render_bars(first, ("computing", "waiting"), number="seconds") + note


def format_seconds(seconds: float) -> str:
    """Seconds, minutes or hours."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def format_bytes(count: float | None) -> str:
    """Bytes in the largest unit that they fill; nothing where they are unknown."""
    if count is None:
        return ""
    value, unit = float(count), 0
    while value >= 1000 and unit < len(UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} {UNITS[unit]}" if value >= 10 or unit == 0 else f"{value:.1f} {UNITS[unit]}"
