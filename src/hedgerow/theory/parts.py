"""The parts of a study: each measures one table, and makes a summary and figures of it.

    part = Part("thresholds", list_cells, summarize, draw)
    run_parts([part], Run(folder, engine="processes:2"), quick=True)

writes to the folder `thresholds.csv` (one row per trial), `thresholds-summary.csv` (what `summarize` makes of them) and
a figure `thresholds-NAME.svg` for each that `draw` returns. The documentation is made from the same tables by the same
functions (docs/make_theory.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hedgerow.report import frame_figure
from hedgerow.store import atomic_write
from hedgerow.theory.measurements import Cell, Row, Run, write_rows


@dataclass(frozen=True)
class Part:
    """A table of measurements. `list_cells(quick)` says what to measure; the others work on its rows.

    summarize: rows -> rows of the summary. draw: rows of the summary -> figures by name, inline SVG of `report`.
    """

    table: str
    list_cells: Callable[[bool], list[Cell]]
    summarize: Callable[[list[Row]], list[Row]]
    draw: Callable[[list[Row]], dict[str, str]]


def run_parts(parts: Sequence[Part], run: Run, *, quick: bool) -> dict[str, list[Row]]:
    """Measure what is missing, and write tables, summaries and figures: the summaries by table."""
    summaries = {}
    plans = [(part, part.list_cells(quick)) for part in parts]
    total = sum(len(cells) for _, cells in plans)
    done = 0
    for part, cells in plans:
        share = replace(run, progress=_shift(run, done / total, len(cells) / total))
        summary = part.summarize(share.measure(part.table, cells))
        write_rows(run.folder / f"{part.table}-summary.csv", summary)
        for name, figure in part.draw(summary).items():
            with atomic_write(run.folder / f"{part.table}-{name}.svg") as beside:
                beside.write_text(frame_figure(figure), encoding="utf-8")
        summaries[part.table] = summary
        done += len(cells)
    return summaries


def _shift(run: Run, start: float, length: float) -> Callable[[str, float], None]:
    """Progress of a part as progress of the whole."""
    return lambda phase, share: run.progress(phase, start + length * share)
