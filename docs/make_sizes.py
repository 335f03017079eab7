"""Refresh the generated parts of docs/distributed.md, and their figure, from what benchmarks/out_of_core.py measured.

    python docs/make_sizes.py

Costs are fitted by a power of the number of rows, a line in logarithms, through all sizes there are. A billion rows are
that line, drawn on from the largest size. Memory, disk and bytes are fitted by a straight line.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from generated import FIGURES, fill_parts, frame
from hedgerow.report import draw_curves
from make_benchmarks import BENCHMARKS, digits, read, shown, table

PAGE = Path(__file__).resolve().parent / "distributed.md"
FIGURE = "out-of-core.svg"
BILLION = 1e9
CREWS = (16, 64, 256)  # workers
COLUMNS = {
    "CPU": "cpu_seconds",
    "wall": "wall_seconds",
    "driver memory": "driver_peak_bytes",
    "largest task": "task_peak_bytes",
    "pool": "pool_bytes",
    "disk": "disk_bytes",
    "written": "written_bytes",
}
PHASES = {
    "scatter_rows": ("rows sorted by shard", "the pool, then all clusters, once per round"),
    "collect_shard": ("rows of a shard collected, divided into cells", "the same"),
    "vote_shard": ("votes for pairs of cells", "the cells of a shard"),
    "merge_shard": ("neighbors and merges", "the cells of a shard and its halo"),
    "sum_shard": ("sums of clusters, for a pass", "the pool, once per pass"),
    "join_sums": ("means of clusters", "the sums"),
    "vote_cells": ("votes, once all clusters fit in a shard", "all clusters"),
    "search_cells": ("neighbors, likewise", "all clusters"),
}

Numbers = npt.NDArray[np.float64]


def read_sizes() -> list[dict[str, Any]]:
    """What was measured, by size."""
    names = [path.stem for path in (BENCHMARKS / "results").glob("out_of_core_*.json")]
    return sorted(map(read, names), key=lambda result: result["settings"]["n"])


def list_rows(found: list[dict[str, Any]]) -> Numbers:
    """How many rows each size has."""
    return np.array([result["settings"]["n"] for result in found], np.float64)


def list_costs(found: list[dict[str, Any]], key: str) -> Numbers:
    """One cost of all sizes."""
    return np.array([result["results"][key] for result in found], np.float64)


def fit_slope(sizes: Numbers, costs: Numbers) -> float:
    """The power of the size that a cost grows with, to nine digits: the last ones depend on the processor."""
    return round(float(np.polyfit(np.log(sizes), np.log(costs), 1)[0]), 9)


def extend(sizes: Numbers, costs: Numbers, n: float) -> float:
    """The cost of n rows, from the largest size by the slope of all."""
    return float(costs[-1] * (n / sizes[-1]) ** fit_slope(sizes, costs))


def make_part(name: str) -> str:
    """A part of the page."""
    return {"sizes": tell_sizes, "phases": tell_phases, "billion": tell_billion}[name](read_sizes())


def tell_sizes(found: list[dict[str, Any]]) -> str:
    """The table of costs by size, the slope, and the figure."""
    sizes = list_rows(found)
    records = [
        {"rows": result["settings"]["n"], "shards": result["settings"]["shards"]}
        | {name: shown(key, result["results"][key]) for name, key in COLUMNS.items()}
        | {"closer than the cut": f"{result['results']['violations']} of {result['results']['sampled']:,}"}
        for result in found
    ]
    slope = fit_slope(sizes, list_costs(found, "cpu_seconds"))
    return (
        f"{table(records)}\nCPU time grows with the power **{slope:.2f}** of the number of rows, from "
        f"{sizes[0]:,.0f} to {sizes[-1]:,.0f} of them.\n\n![CPU seconds by rows, and the line](figures/{FIGURE})"
    )


def tell_phases(found: list[dict[str, Any]]) -> str:
    """What each phase computes and moves per row of the pool, at the largest size whose bytes were counted by phase."""
    counted = [result for result in found if "read_bytes_by_task" in result["results"]]
    n, costs = counted[-1]["settings"]["n"], counted[-1]["results"]
    records = [
        {
            "phase": f"{words} (`{task}`)",
            "reads": reads,
            "read, bytes per row": round(costs["read_bytes_by_task"][task] / n),
            "written, bytes per row": round(costs["written_bytes_by_task"][task] / n),
            "CPU, µs per row": digits(costs["cpu_seconds_by_task"][task] / n * 1e6),
        }
        for task, (words, reads) in PHASES.items()
        if task in costs["cpu_seconds_by_task"]
    ]
    total = {"phase": "all, and the driver"}
    total |= {f"{verb}, bytes per row": round(costs[f"{verb}_bytes"] / n) for verb in ("read", "written")}
    total |= {"CPU, µs per row": digits(costs["cpu_seconds"] / n * 1e6)}
    width = counted[-1]["settings"]["d"]
    return f"{n:,} rows of {width} numbers in float16, {2 * width} bytes each:\n\n{table([*records, total])}".rstrip()


def tell_billion(found: list[dict[str, Any]]) -> str:
    """What a billion rows would take, by the number of workers."""
    sizes = list_rows(found)
    tasks, driver = (extend(sizes, list_costs(found, f"{who}_cpu_seconds"), BILLION) for who in ("tasks", "driver"))
    records = [{"workers": crew, "hours": f"{(tasks / crew + driver) / 3600:.1f}"} for crew in CREWS]
    sized = {
        key: np.polyval(np.polyfit(sizes, list_costs(found, f"{key}_bytes"), 1), BILLION)
        for key in ("driver_peak", "disk", "written")
    }
    return (
        f"By the same lines, fitted to {sizes[0]:,.0f} to {sizes[-1]:,.0f} rows, a billion rows of "
        f"{found[-1]['settings']['d']} numbers in float16 would take "
        f"{tasks / 3600:,.0f} hours of CPU time in tasks and {driver / 3600:.1f} in the driver, with "
        f"{sized['driver_peak'] / 2**30:,.0f} GiB of memory there, {sized['disk'] / 1e9:,.0f} GB of disk and "
        f"{sized['written'] / 1e12:,.1f} TB written. Hours by the number of workers, if none waits for storage or for "
        f"another one:\n\n{table(records)}"
    ).rstrip()


def draw_sizes() -> str:
    """CPU seconds by rows on logarithmic axes, with the fitted line up to a billion."""
    found = read_sizes()
    sizes, costs = list_rows(found), list_costs(found, "cpu_seconds")
    slope = fit_slope(sizes, costs)
    line = f"fitted: rows to the power {slope:.2f}"
    points = [(line, n / 1e6, extend(sizes, costs, n), None) for n in (sizes[0], BILLION)]
    points += [("measured", n / 1e6, cost, None) for n, cost in zip(sizes, costs, strict=True)]
    return frame(draw_curves(points, x="million rows", y="CPU seconds", log=True, log_y=True))


def text() -> str:
    """The page with its parts."""
    return fill_parts(PAGE.read_text(), make_part)


def main() -> None:
    """Refresh the page and its figure."""
    PAGE.write_text(text())
    (FIGURES / FIGURE).write_text(draw_sizes())


if __name__ == "__main__":
    main()
