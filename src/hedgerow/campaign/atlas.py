"""The pool as a map: how many rows are where, which were picked, labeled or disputed, and what is at a place.

All rows are counted in the bins of a window, whatever its size; where few are in it, they are listed. Rows that people
are asked about, have labeled or disagree on are layers over that; of each, at most `MOST_MARKED` rows are listed,
evenly chosen. Retired rows are not on the map.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow.campaign import layouts, verdicts
from hedgerow.campaign.database import Database, read_moment
from hedgerow.campaign.holdings import Holdings
from hedgerow.campaign.layouts import SIDE, Layout
from hedgerow.campaign.tables import DISPUTED, GOLD, LIVE
from hedgerow.campaign.verdicts import Numbers
from hedgerow.errors import CampaignError, InputError
from hedgerow.kernels import freeze, maps
from hedgerow.progress import Progress, ignore

BINS = 256  # per axis of a square window; others have about as many bins in all, and these are about square
STRETCH = 2  # at most so many times more bins along the longer side
MOST_POINTS = 3_000  # with more rows in a window, only their density is given
MOST_MARKED = 2_000  # rows of a layer that are listed
MOST_CORNERS = 500  # of a polygon
MOST_INSIDE = 100_000  # rows of a polygon that are listed
FARTHEST = 1 << 20  # of a corner or an edge of a window, outside of the map
PEAKS = 8  # examples are looked for in 8 x 8 parts of a window
EXAMPLES = 12
LAYERS = {  # all rows of each, once
    "picked": (
        'SELECT DISTINCT t."row" FROM task t JOIN batch b ON b.id = t.batch '
        f"WHERE t.state < {DISPUTED} AND b.state = '{LIVE}' AND b.kind NOT IN ('holdout', '{GOLD}')"
    ),
    "labeled": (
        'SELECT DISTINCT "row" FROM verdict WHERE how IN '
        f"({', '.join(repr(verdicts.HOW[how]) for how in (verdicts.MAJORITY, verdicts.ADJUDICATED, verdicts.NONE))})"
    ),
    "disputed": f'SELECT DISTINCT "row" FROM task WHERE state = {DISPUTED}',
}


class Window(NamedTuple):
    """A part of the map: from `left` to below `right`, from `top` to below `bottom`."""

    left: int = 0
    top: int = 0
    right: int = SIDE
    bottom: int = SIDE


@dataclass(frozen=True, eq=False)
class Points:
    """Rows and where they are."""

    row: Numbers
    x: npt.NDArray[np.uint16]
    y: npt.NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class Layer:
    """A kind of rows. total: on the whole map; within: in the window; points: at most `MOST_MARKED` of these."""

    total: int
    within: int
    points: Points


@dataclass(frozen=True, eq=False)
class View:
    """A window of the map. total: rows on the map; within: in the window; counts: per bin, line by line.

    way, share: how rows are placed (`Layout`).
    points: the rows in the window, None if there are many. examples: one row each from where most rows are.
    """

    window: Window
    total: int
    within: int
    way: str
    share: float
    counts: Numbers
    points: Points | None
    examples: Points
    layers: dict[str, Layer]


@dataclass(frozen=True, eq=False)
class Marks:
    """What is known of rows at one time. state: which time."""

    state: tuple[int, ...]
    hidden: npt.NDArray[np.bool_]
    layers: dict[str, Numbers]


class Atlas:
    """The map of a campaign. folder: where it is kept. holdings: reads the pool as it is now. Threads may share it."""

    def __init__(self, folder: Path, database: Database, holdings: Callable[[], Holdings]) -> None:
        self._folder, self._database, self._holdings = folder, database, holdings
        self._drawn: tuple[str, Layout] | None = None
        self._marked: Marks | None = None
        self._drawing = threading.Lock()

    # Drawing.

    def is_drawn(self) -> bool:
        """Whether the map of the pool as it is now can be shown at once."""
        return self._find_layout() is not None

    def draw(self, progress: Progress = ignore) -> None:
        """Give every row its place, unless that is done. Seconds for a million rows."""
        with self._drawing:
            if self.is_drawn():
                return
            holdings = self._holdings()
            name = _name(holdings)
            assert holdings.embeddings is not None
            made = layouts.make_layout(holdings.embeddings, progress)
            layouts.save_layout(made, self._folder / name)
            self._drawn = (name, _freeze(made))

    def _find_layout(self) -> Layout | None:
        holdings, drawn = self._holdings(), self._drawn
        name = _name(holdings)
        if drawn is None or drawn[0] != name:
            found = layouts.load_layout(self._folder / name, holdings.n)
            drawn = self._drawn = None if found is None else (name, _freeze(found))
        return None if drawn is None else drawn[1]

    def _require(self) -> tuple[Layout, Marks]:
        layout = self._find_layout()
        if layout is None:
            raise CampaignError("the map is not drawn yet")
        return layout, self._mark(len(layout.x))

    def _mark(self, n: int) -> Marks:
        """Layers and retired rows, read again once anything was said or done."""
        with self._database.read() as connection:
            state = (n, *read_moment(connection))
            marked = self._marked
            if marked is None or marked.state != state:
                marked = self._marked = _read_marks(connection, state)
        return marked

    # Looking.

    def view(self, window: Window | None = None) -> View:
        """What is in a window, by default all."""
        window = _check_window(window or Window())
        layout, marks = self._require()
        lines, columns = shape = choose_bins(window)
        column, line = cut_axis(window.left, window.right, columns), cut_axis(window.top, window.bottom, lines)
        counts, first = np.zeros(shape, np.int64), np.full(shape, -1, np.int64)
        maps.count_window(layout.x, layout.y, marks.hidden, column, line, counts, first)
        within, points = int(counts.sum()), None
        if within <= MOST_POINTS:
            rows = np.empty(within, np.int64)
            maps.list_window(layout.x, layout.y, marks.hidden, column, line, rows)
            points = _locate(layout, rows)
        layers = {name: _view_layer(layout, rows, column, line) for name, rows in marks.layers.items()}
        total = len(layout.x) - int(np.count_nonzero(marks.hidden))
        examples = _locate(layout, find_examples(counts, first))
        return View(window, total, within, layout.way, layout.share, counts, points, examples, layers)

    def find_near(self, x: int, y: int, reach: int) -> Numbers:
        """The row nearest to a place and not farther than `reach`, if there is one."""
        layout, marks = self._require()
        found = maps.find_nearest(layout.x, layout.y, marks.hidden, x, y, reach)
        return np.array([found] if found >= 0 else [], np.int64)

    def find_inside(self, corners: Any) -> tuple[int, Numbers]:
        """(how many rows are inside a polygon, at most `MOST_INSIDE` of them). corners: (x, y) of each."""
        held = np.array(corners, np.int64)
        if held.ndim != 2 or held.shape[1] != 2 or not 3 <= len(held) <= MOST_CORNERS or np.abs(held).max() > FARTHEST:
            raise InputError(f"a polygon has 3 to {MOST_CORNERS:,} corners (x, y) on the map")
        layout, marks = self._require()
        rows = np.empty(min(MOST_INSIDE, len(layout.x)), np.int64)
        total = int(maps.list_inside(layout.x, layout.y, marks.hidden, freeze(held), rows))
        return total, rows[:total]


def _read_marks(connection: sa.Connection, state: tuple[int, ...]) -> Marks:
    """The marks of the first state[0] rows: the pool may have grown since its map was drawn."""

    def read(sql: str) -> Numbers:
        rows = np.sort(verdicts.fetch_numbers(connection, sql, 1)[:, 0])
        return rows[rows < state[0]]

    hidden = np.zeros(state[0], np.bool_)
    hidden[read('SELECT "row" FROM retired')] = True
    layers = {name: read(sql) for name, sql in LAYERS.items()}
    return Marks(state, freeze(hidden), {name: rows[~hidden[rows]] for name, rows in layers.items()})


def _name(holdings: Holdings) -> str:
    """The file of the map of a pool; another one once it has grown."""
    files = [segment.embeddings for segment in holdings.segments]
    prints = [file.sample for file in files if file is not None]
    if len(prints) < len(files):
        raise CampaignError("a map needs embeddings, and this campaign was begun without")
    return layouts.name_layout(prints)


def choose_bins(window: Window) -> tuple[int, int]:
    """(lines, columns) of a window, multiples of PEAKS."""
    ratio = ((window.right - window.left) / (window.bottom - window.top)) ** 0.5
    stretch = min(max(ratio, 1 / STRETCH), STRETCH)
    return PEAKS * round(BINS / stretch / PEAKS), PEAKS * round(BINS * stretch / PEAKS)


def cut_axis(start: int, stop: int, count: int) -> npt.NDArray[np.int16]:
    """The bin, of so many, of each place from start to below stop; -1 outside."""
    places = np.arange(SIDE)
    bins = (places - start) * count // (stop - start)
    return freeze(np.where((places >= start) & (places < stop), bins, -1).astype(np.int16))


def find_examples(counts: Numbers, first: Numbers) -> Numbers:
    """A row from the fullest bin of each of the fullest parts of a window, the fullest first."""
    high, wide = counts.shape[0] // PEAKS, counts.shape[1] // PEAKS
    parts = counts.reshape(PEAKS, high, PEAKS, wide).swapaxes(1, 2).reshape(PEAKS * PEAKS, -1)
    rows = first.reshape(PEAKS, high, PEAKS, wide).swapaxes(1, 2).reshape(PEAKS * PEAKS, -1)
    fullest = np.argsort(-parts.sum(axis=1), kind="stable")[:EXAMPLES]
    found: Numbers = rows[fullest, parts[fullest].argmax(axis=1)]
    return found[found >= 0]


def _check_window(window: Window) -> Window:
    near = all(abs(edge) <= FARTHEST for edge in window)
    if not near or window.left >= window.right or window.top >= window.bottom:
        raise InputError("a window is left, top, right, bottom, with left before right and top above bottom")
    return window


def _freeze(layout: Layout) -> Layout:
    return replace(layout, x=freeze(layout.x), y=freeze(layout.y))


def _locate(layout: Layout, rows: Numbers) -> Points:
    return Points(rows, layout.x[rows], layout.y[rows])


def _view_layer(layout: Layout, rows: Numbers, column: npt.NDArray[np.int16], line: npt.NDArray[np.int16]) -> Layer:
    within = rows[(column[layout.x[rows]] >= 0) & (line[layout.y[rows]] >= 0)]
    listed = within[np.arange(min(MOST_MARKED, len(within))) * len(within) // max(1, min(MOST_MARKED, len(within)))]
    return Layer(len(rows), len(within), _locate(layout, listed))
