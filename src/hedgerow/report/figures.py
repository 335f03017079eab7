"""Figures: curves as inline SVG, images as tiles, in colors that follow the reader's light or dark mode.

`draw_curves` takes points (series, x, y, error), `draw_intervals` intervals (row, series, middle, low, high); neither
knows where they come from. `paint_tiles` takes images.
Colors are CSS variables, which `style_colors` defines for a page; `frame_figure` makes a figure a file of its own.
matplotlib is imported when the first figure is drawn.
"""

import base64
import html
import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import InputError

Ends = tuple[float, float]
Point = tuple[str, float, float, float | Ends | None]  # series, x, y, and a band: its half-width or its ends, if any
Interval = tuple[str, str, float, float, float]  # row, series, and on the x axis: middle, low, high

# The color of a line on a light and on a dark page, and its marker: of equal weight, and distinguishable by color-blind
# readers with the help of the markers.
SERIES = (
    ("#6b7280", "#a3abb8", "o"),
    ("#c2410c", "#fb923c", "s"),
    ("#1d4ed8", "#7aa8ff", "D"),
    ("#047857", "#34d399", "^"),
    ("#7e22ce", "#c59cf5", "v"),
    ("#a16207", "#eac54f", "P"),
    ("#be185d", "#f48ab8", "X"),
    ("#0e7490", "#4fd1e8", "<"),
    ("#111827", "#f3f4f6", "*"),
)
# matplotlib has no CSS variables: it draws in these near-blacks, which are then replaced by variables.
INK, GRID = "#000100", "#000200"
LEGEND_LETTERS = 54  # of two names side by side that fit below a figure, at its font size
TICK_LETTERS = 60  # that fit along an axis
SERIES_STAND_IN = "#0003{:02x}"
DRAWING = {"svg.fonttype": "none", "svg.hashsalt": "hedgerow", "font.size": 12}

TILE_COLORS = ("#d9694f", "#f7d9d0", "#ffffff", "#d3e0fa", "#5b8def")  # of numbers: far below 0, 0, far above
TILE_TEXT = "#16181d"  # on any of them, on light and dark pages

# Background of a tile: white for an image that is alone in its group, two alternating tints for groups of several.
PAPERS = np.array([[255, 255, 255], [255, 214, 153], [173, 216, 255]], np.float64)
TILE_INK = np.array([24, 24, 32], np.float64)


def draw_curves(
    points: Sequence[Point],
    *,
    x: str = "labels",
    y: str = "accuracy",
    log: bool = False,
    log_y: bool = False,
    percent: bool = False,
    first: int = 0,
) -> str:
    """Curves as inline SVG: one line per series through its points, with a band of one error on either side or between
    two ends.

    x, y: the titles of the axes. log, log_y: a logarithmic x or y axis. percent: shares on the y axis as percentages.
    first: the place in `SERIES` of the first color; there are at most as many series as colors from there on.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    series = _list_series((point[0] for point in points), len(SERIES) - first)
    with rc_context(DRAWING):
        # In inches: readable on a phone. The legend is below the axes.
        columns = _count_columns(series)
        figure = Figure(figsize=(6.4, 3.9 + 0.25 * -(-len(series) // columns)), layout="constrained")
        axes = figure.add_subplot()
        for number, name in enumerate(series):
            _draw_curve(axes, [point for point in points if point[0] == name], first + number)
        if log_y:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        if log:
            axes.set_xscale("log")
            axes.minorticks_off()
        ticks = _choose_ticks({point[1] for point in points})
        axes.set_xticks(_thin_ticks(ticks) if log else ticks)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        if percent:
            axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        _style_axes(axes, x, y)
        figure.legend(loc="outside lower center", ncols=columns, frameon=False, labelcolor=INK)
        return _inline_svg(_write_svg(figure), f"Curves: {y} by {x}, for {', '.join(series)}")


def draw_intervals(marks: Sequence[Interval], *, x: str, middle: float = 0.0, band: float = 0.0) -> str:
    """Intervals as inline SVG: below each other, one line of the figure per row and series, rows in the given order.

    x: the title of the axis. middle: the value of a vertical line, such as "no difference"; band: values that are no
    farther from it are shaded.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    series = _list_series(mark[1] for mark in marks)
    rows = list(dict.fromkeys(mark[0] for mark in marks))
    with rc_context(DRAWING):
        columns = _count_columns(series)
        height = 1.1 + len(rows) * (0.2 + 0.14 * len(series)) + 0.25 * -(-len(series) // columns)
        figure = Figure(figsize=(6.4, height), layout="constrained")
        axes = figure.add_subplot()
        if band:
            axes.axvspan(middle - band, middle + band, color=GRID, alpha=0.5, linewidth=0)
        axes.axvline(middle, color=INK, linewidth=1)
        for number, name in enumerate(series):
            _draw_intervals(axes, [mark for mark in marks if mark[1] == name], rows, number, len(series))
        axes.set_yticks(range(len(rows)), list(map(_escape, rows)))
        axes.set_ylim(len(rows) - 0.5, -0.5)
        _style_axes(axes, x, "")
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="outside lower center", ncols=columns, frameon=False, labelcolor=INK)
        return _inline_svg(_write_svg(figure), f"Intervals: {x}, for {', '.join(series)}")


def draw_grid(
    values: npt.NDArray[np.float64], rows: Sequence[str], columns: Sequence[str], *, limit: float, label: str
) -> str:
    """Numbers (rows, columns) as inline SVG: tiles with their values, from red (-limit) over white (0) to blue (limit).

    Values beyond the limit take its color; a NaN is left blank. label: the text for screen readers.
    """
    from matplotlib import rc_context
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    colors = LinearSegmentedColormap.from_list("regrets", TILE_COLORS)
    with rc_context(DRAWING):
        figure = Figure(figsize=(2.4 + 0.72 * len(columns), 1.7 + 0.36 * len(rows)), layout="constrained")
        axes = figure.add_subplot()
        axes.pcolormesh(values, cmap=colors, vmin=-limit, vmax=limit, edgecolors=GRID, linewidth=0.6)
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                shown = f"{value:+.0f}".replace("-", "\N{MINUS SIGN}")
                axes.text(column + 0.5, row + 0.5, shown, ha="center", va="center", color=TILE_TEXT, fontsize=9)
        names = list(map(_escape, columns))
        axes.set_xticks(np.arange(len(columns)) + 0.5, names, rotation=40, ha="left", rotation_mode="anchor")
        axes.set_yticks(np.arange(len(rows)) + 0.5, list(map(_escape, rows)))
        axes.xaxis.tick_top()
        axes.tick_params(colors=INK, length=0)
        axes.invert_yaxis()
        axes.spines[:].set_visible(False)
        return _inline_svg(_write_svg(figure), label)


def _draw_intervals(axes: Any, marks: Sequence[Interval], rows: Sequence[str], number: int, count: int) -> None:
    """The intervals of one series of `count`, a little below those of the previous one."""
    color = SERIES_STAND_IN.format(number)
    places = [rows.index(mark[0]) + (number - (count - 1) / 2) * 0.7 / count for mark in marks]
    middles, lows, highs = (np.array([mark[at] for mark in marks]) for at in (2, 3, 4))
    axes.hlines(places, lows, highs, color=color, linewidth=2)
    label = _label_line(marks[0][1])
    axes.plot(middles, places, color=color, marker=SERIES[number][2], markersize=5, linewidth=0, label=label)


def _escape(text: str) -> str:
    """Text that matplotlib shows as it is: it takes what is between two dollars for a formula."""
    return text.replace("$", r"\$")


def _label_line(name: str) -> str:
    """The name of a series for the legend, which leaves out names that begin with an underscore."""
    return _escape(f" {name}" if name.startswith("_") else name)


def _list_series(names: Iterable[str], colors: int = len(SERIES)) -> list[str]:
    """The names of the series, each once; more than there are colors are refused."""
    series = list(dict.fromkeys(names))
    if len(series) > colors:
        raise InputError(f"a figure can show {colors} series, got {len(series)}: draw several figures")
    return series


def _write_svg(figure: Any) -> str:
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return file.getvalue()


def _choose_ticks(values: Iterable[float]) -> list[float]:
    """All of these values from the first on, or every second, third, ... so that their labels do not overlap."""
    ticks = sorted(values)
    letters = sum(len(f"{tick:,.0f} ") for tick in ticks)
    return ticks[:: -(-letters // TICK_LETTERS) or 1]


def _thin_ticks(ticks: Sequence[float]) -> list[float]:
    """Those of ascending ticks > 0 whose labels do not overlap the one before on a logarithmic axis."""
    if len(ticks) < 2:
        return list(ticks)
    scale = TICK_LETTERS / float(np.log(ticks[-1] / ticks[0]))
    kept = [ticks[0]]
    for tick in ticks[1:]:
        needed = 1 + (len(f"{kept[-1]:,.0f}") + len(f"{tick:,.0f}")) / 2
        if scale * float(np.log(tick / kept[-1])) > needed:
            kept.append(tick)
    return kept


def _count_columns(names: Sequence[str]) -> int:
    """The columns of a legend: two, or one if two would be cut off."""
    half = -(-len(names) // 2)
    widest = sum(max(map(len, column), default=0) for column in (names[:half], names[half:]))
    return 2 if widest <= LEGEND_LETTERS else 1


def _draw_curve(axes: Any, points: Sequence[Point], number: int) -> None:
    color = SERIES_STAND_IN.format(number)
    x = [point[1] for point in points]
    y = np.array([point[2] for point in points])
    ends = np.array([_find_ends(point) for point in points])
    axes.fill_between(x, ends[:, 0], ends[:, 1], color=color, alpha=0.18, linewidth=0)
    label = _label_line(points[0][0])
    axes.plot(x, y, color=color, marker=SERIES[number][2], markersize=5, linewidth=2, label=label)


def _find_ends(point: Point) -> Ends:
    _, _, y, band = point
    return band if isinstance(band, tuple) else (y - (band or 0.0), y + (band or 0.0))


def _style_axes(axes: Any, x: str, y: str) -> None:
    """Axes in the text color of the page: no frame above and to the right, a faint grid."""
    axes.set_xlabel(_escape(x), color=INK)
    axes.set_ylabel(_escape(y), color=INK)
    axes.tick_params(colors=INK)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color(INK)


def _inline_svg(text: str, label: str) -> str:
    """The SVG file of matplotlib as an element of a page: no prolog, no fixed size, colors as CSS variables."""
    body = text[text.index("<svg") :]
    head, rest = body.split(">", 1)
    view = head[head.index('viewBox="') :].split('"')[1]
    for number in range(len(SERIES)):
        rest = rest.replace(SERIES_STAND_IN.format(number), f"var(--series-{number})")
    rest = rest.replace(INK, "var(--ink)").replace(GRID, "var(--grid)")
    return f'<svg class="figure" role="img" aria-label="{html.escape(label)}" viewBox="{view}">{rest.strip()}'


def frame_figure(figure: str) -> str:
    """A figure of `draw_curves` as the text of an SVG file, in the same colors."""
    spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    style = f"<style>{style_colors()}text{{font-family:system-ui,sans-serif!important}}</style>"
    head, rest = figure.split(">", 1)
    return f"{head.replace('<svg', f'<svg {spaces}', 1)}>{style}{rest}\n"


def style_colors() -> str:
    """CSS: the color variables of figures and pages, in light and dark mode."""
    light = "".join(f"--series-{number}:{colors[0]};" for number, colors in enumerate(SERIES))
    dark = "".join(f"--series-{number}:{colors[1]};" for number, colors in enumerate(SERIES))
    return (
        f":root{{color-scheme:light dark;--page:#fff;--ink:#1f2328;--faint:#59636e;--grid:#d8dee4;{light}}}"
        f"@media(prefers-color-scheme:dark){{:root{{--page:#14171c;--ink:#e6e9ee;--faint:#9aa4b1;--grid:#343a44;{dark}}}}}"
    )


def paint_tiles(images: npt.NDArray[Any], groups: npt.NDArray[np.int64], *, columns: int = 25) -> str:
    """Images (m, height, width) with ink from 0 to 1 as one PNG (a data URI), `columns` images per line.

    Members of a group are side by side on the same tint, the largest groups first; an image that is alone in its group
    is on white. So the tinted part of the picture shows how much the images repeat each other.
    """
    _, member, counts = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.lexsort((member, -counts[member]))
    rank = np.cumsum(np.diff(member[order], prepend=member[order][:1]) != 0)  # number of the group, in display order
    paper = np.where(counts[member[order]] > 1, 1 + rank % 2, 0)
    count, height, width = images.shape
    lines = -(-count // columns)
    canvas = np.zeros((lines * (height + 1) - 1, columns * (width + 1) - 1, 4), np.uint8)  # the gaps stay transparent
    for tile in range(count):
        top, left = tile // columns * (height + 1), tile % columns * (width + 1)
        ink = np.clip(images[order[tile]], 0, 1)[..., None]  # (height, width, 1)
        canvas[top : top + height, left : left + width, :3] = PAPERS[paper[tile]] * (1 - ink) + TILE_INK * ink
        canvas[top : top + height, left : left + width, 3] = 255
    return _encode_png(canvas)


def _encode_png(pixels: npt.NDArray[np.uint8]) -> str:
    from matplotlib.image import imsave

    file = io.BytesIO()
    imsave(file, pixels, format="png")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
