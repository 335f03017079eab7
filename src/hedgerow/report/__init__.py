"""Reports: figures (`figures.py`) and self-contained HTML pages (`pages.py`).

What it does not do: run anything, or compute statistics.
"""

from hedgerow.report.figures import PAPERS, SERIES, draw_curves, draw_grid, draw_intervals, frame_figure, paint_tiles
from hedgerow.report.pages import (
    Section,
    compose_page,
    render_bars,
    render_cards,
    render_facts,
    render_table,
    render_texts,
    write_page,
)

__all__ = [
    "PAPERS",
    "SERIES",
    "Section",
    "compose_page",
    "draw_curves",
    "draw_grid",
    "draw_intervals",
    "frame_figure",
    "paint_tiles",
    "render_bars",
    "render_cards",
    "render_facts",
    "render_table",
    "render_texts",
    "write_page",
]
