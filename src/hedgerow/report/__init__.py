"""Curves, tables and pictures in one self-contained HTML file.

`summarize` turns the rounds of several trials into means and standard errors; `draw_curves`, `render_table` and
`paint_tiles` turn numbers and images into pieces of a page; `compose_page` sets them under headings and `write_page`
writes the file. A page refers to nothing outside itself, fits a phone, and follows the reader's light or dark mode:
figures name their colors by CSS variables.

What it does not do: run anything, or decide which strategy is better.
"""

import base64
import html
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import InputError
from hedgerow.rounds import Round
from hedgerow.store import atomic_write

# A line's color on a light and on a dark page: of equal weight there, and told apart by color-blind readers
# together with the markers.
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
# matplotlib knows no CSS variables: it draws in these near-blacks, which are then replaced by the variable.
INK, GRID = "#000100", "#000200"
LEGEND_LETTERS = 54  # of two names that fit side by side below a figure, at its size of letters
TICK_LETTERS = 60  # that an axis has room for
SERIES_STAND_IN = "#0003{:02x}"

# Paper behind a tile: white for an image that is alone in its group, then two tints in turn for groups of several.
PAPERS = np.array([[255, 255, 255], [255, 214, 153], [173, 216, 255]], np.float64)
TILE_INK = np.array([24, 24, 32], np.float64)


@dataclass(frozen=True)
class Point:
    """One point of a learning curve: a measure's mean over trials, and its standard error (None for one trial)."""

    strategy: str
    round: int
    labeled: int
    mean: float
    error: float | None
    trials: int

    def __str__(self) -> str:
        return format(self, "")

    def __format__(self, sign: str) -> str:
        """The mean ± its error, to three places, or to four if three would show hardly any error.

        With "+" a positive mean has its sign, as a difference should.
        """
        places = 4 if self.error is not None and self.error < 0.001 else 3
        mean = f"{self.mean:{sign}.{places}f}"
        return mean if self.error is None else f"{mean} ± {self.error:.{places}f}"


@dataclass(frozen=True)
class Section:
    """A heading and the HTML beneath it."""

    heading: str
    body: str


def summarize(rounds: Iterable[Round], measure: str = "accuracy") -> tuple[Point, ...]:
    """Mean and standard error over trials of every strategy and round, in the order in which they first come."""
    groups: dict[tuple[str, int], list[Round]] = {}
    for done in rounds:
        groups.setdefault((done.strategy, done.round), []).append(done)
    points = []
    for (strategy, number), several in groups.items():
        labeled = {done.labeled for done in several}
        if len(labeled) > 1:
            raise InputError(f"trials of {strategy!r} differ in labels after round {number}: {sorted(labeled)}")
        values = [done.values[measure] for done in several]
        points.append(Point(strategy, number, labeled.pop(), *estimate(values), len(values)))
    return tuple(points)


def compare(rounds: Iterable[Round], baseline: str, measure: str = "accuracy") -> tuple[Point, ...]:
    """Mean and standard error of every other strategy's difference from the baseline in the same trial and round."""
    rounds = tuple(rounds)
    level = {(done.trial, done.round): done.values[measure] for done in rounds if done.strategy == baseline}
    return summarize(
        (
            replace(done, values={measure: done.values[measure] - level[done.trial, done.round]})
            for done in rounds
            if done.strategy != baseline
        ),
        measure,
    )


def estimate(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean and its standard error, s / sqrt(t) with t - 1 in the variance; one value has no error."""
    array = np.asarray(values, np.float64)
    error = float(array.std(ddof=1) / math.sqrt(len(array))) if len(array) > 1 else None
    return float(array.mean()), error


def draw_curves(
    points: Sequence[Point], *, measure: str = "accuracy", labels: str = "labels", log: bool = False
) -> str:
    """Learning curves as inline SVG: a line through the means, a band of one standard error on either side.

    `labels` is what the points' `labeled` count, and `log` spreads their axis by factors.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    strategies = list(dict.fromkeys(point.strategy for point in points))
    if len(strategies) > len(SERIES):
        raise InputError(f"a figure tells {len(SERIES)} strategies apart, got {len(strategies)}: draw several figures")
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "hedgerow", "font.size": 12}):
        # inches; small enough to be read on a phone. The legend is below: curves fill the rest.
        columns = _count_columns(strategies)
        figure = Figure(figsize=(6.4, 3.9 + 0.25 * -(-len(strategies) // columns)), layout="constrained")
        axes = figure.add_subplot()
        for number, strategy in enumerate(strategies):
            _draw_curve(axes, [point for point in points if point.strategy == strategy], number)
        if log:
            axes.set_xscale("log")
            axes.minorticks_off()
        axes.set_xticks(_choose_ticks({point.labeled for point in points}))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        _dress(axes, labels, measure)
        figure.legend(loc="outside lower center", ncols=columns, frameon=False, labelcolor=INK)
        file = io.StringIO()
        figure.savefig(
            file, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
        )
    return _inline_svg(file.getvalue(), f"Curves: {measure} by {labels}, for {', '.join(strategies)}")


def _choose_ticks(labeled: Iterable[int]) -> list[int]:
    """All of these numbers from the first on, or every second, third, ... so that they do not run into each other."""
    ticks = sorted(labeled)
    letters = sum(len(f"{tick:,} ") for tick in ticks)
    return ticks[:: -(-letters // TICK_LETTERS) or 1]


def _count_columns(names: Sequence[str]) -> int:
    """Of a legend: two names a line, or one where two would be cut off."""
    half = -(-len(names) // 2)
    widest = sum(max(map(len, column), default=0) for column in (names[:half], names[half:]))
    return 2 if widest <= LEGEND_LETTERS else 1


def _draw_curve(axes: Any, points: Sequence[Point], number: int) -> None:
    color = SERIES_STAND_IN.format(number)
    labeled = [point.labeled for point in points]
    mean = np.array([point.mean for point in points])
    error = np.array([point.error or 0.0 for point in points])
    axes.fill_between(labeled, mean - error, mean + error, color=color, alpha=0.18, linewidth=0)
    axes.plot(labeled, mean, color=color, marker=SERIES[number][2], markersize=5, linewidth=2, label=points[0].strategy)


def _dress(axes: Any, labels: str, measure: str) -> None:
    """Axes in the page's ink: no frame above and to the right, a faint grid."""
    axes.set_xlabel(labels, color=INK)
    axes.set_ylabel(measure, color=INK)
    axes.tick_params(colors=INK)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color(INK)


def _inline_svg(text: str, label: str) -> str:
    """matplotlib's SVG file as an element of a page: no prolog, no size of its own, colors by CSS variables."""
    body = text[text.index("<svg") :]
    head, rest = body.split(">", 1)
    view = head[head.index('viewBox="') :].split('"')[1]
    for number in range(len(SERIES)):
        rest = rest.replace(SERIES_STAND_IN.format(number), f"var(--series-{number})")
    rest = rest.replace(INK, "var(--ink)").replace(GRID, "var(--grid)")
    return f'<svg class="figure" role="img" aria-label="{html.escape(label)}" viewBox="{view}">{rest.strip()}'


def frame_figure(figure: str) -> str:
    """A figure that `draw_curves` drew, as the text of an SVG file of its own, in the same colors."""
    spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    style = f"<style>{_colors()}text{{font-family:system-ui,sans-serif!important}}</style>"
    head, rest = figure.split(">", 1)
    return f"{head.replace('<svg', f'<svg {spaces}', 1)}>{style}{rest}\n"


def render_table(rows: Sequence[Mapping[str, str]]) -> str:
    """Rows with the same keys as an HTML table; where it is too wide, it scrolls and the page does not."""
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in rows[0])
    body = "".join(_render_row(list(row.values())) for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _render_row(cells: Sequence[str]) -> str:
    rest = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells[1:])
    return f'<tr><th scope="row">{html.escape(cells[0])}</th>{rest}</tr>'


def render_facts(facts: Mapping[str, str]) -> str:
    """Names and values, as a list of definitions."""
    return "<dl>" + "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in facts.items()) + "</dl>"


def render_cards(cards: Iterable[tuple[str, str, str]]) -> str:
    """(title, sentence, data URI of an image) side by side where there is room, one below the other on a phone."""
    return '<div class="cards">' + "".join(_render_card(*card) for card in cards) + "</div>"


def _render_card(title: str, sentence: str, image: str) -> str:
    title, sentence = html.escape(title), html.escape(sentence)
    caption = f"<figcaption><b>{title}</b> {sentence}</figcaption>"
    return f'<figure>{caption}<img alt="{title}: {sentence}" src="{image}"></figure>'


def paint_tiles(images: npt.NDArray[Any], groups: npt.NDArray[np.int64], *, columns: int = 25) -> str:
    """Images (m, height, width) of ink from 0 to 1 as one PNG (a data URI), `columns` to a row.

    Members of a group stand side by side on the same tint, the largest groups first; an image that is alone in its
    group is on white. So the tinted part of the picture is what the images repeat of each other.
    """
    _, member, counts = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.lexsort((member, -counts[member]))
    rank = np.cumsum(np.diff(member[order], prepend=member[order][:1]) != 0)  # 0.. by group, in the order shown
    paper = np.where(counts[member[order]] > 1, 1 + rank % 2, 0)
    count, height, width = images.shape
    lines = -(-count // columns)
    canvas = np.zeros((lines * (height + 1) - 1, columns * (width + 1) - 1, 4), np.uint8)  # the gaps stay clear
    for place in range(count):
        top, left = place // columns * (height + 1), place % columns * (width + 1)
        ink = np.clip(images[order[place]], 0, 1)[..., None]  # (height, width, 1)
        canvas[top : top + height, left : left + width, :3] = PAPERS[paper[place]] * (1 - ink) + TILE_INK * ink
        canvas[top : top + height, left : left + width, 3] = 255
    return _encode_png(canvas)


def _encode_png(pixels: npt.NDArray[np.uint8]) -> str:
    from matplotlib.image import imsave

    file = io.BytesIO()
    imsave(file, pixels, format="png")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def compose_page(title: str, lead: str, sections: Iterable[Section]) -> str:
    """The whole page. `title` and `lead` are plain text; a section's body is HTML."""
    parts = "".join(f"<section><h2>{html.escape(part.heading)}</h2>{part.body}</section>\n" for part in sections)
    title = html.escape(title)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{_style()}</style>\n</head>\n"
        f'<body>\n<main>\n<h1>{title}</h1>\n<p class="lead">{html.escape(lead)}</p>\n{parts}</main>\n</body>\n</html>\n'
    )


def write_page(path: Path, page: str) -> None:
    """Write the page, whole or not at all; a page that stood there is replaced."""
    with atomic_write(path) as beside:
        beside.write_text(page, encoding="utf-8")


def _style() -> str:
    return _colors() + RULES


def _colors() -> str:
    """The variables that figures and rules name their colors by, for light and dark pages."""
    light = "".join(f"--series-{number}:{colors[0]};" for number, colors in enumerate(SERIES))
    dark = "".join(f"--series-{number}:{colors[1]};" for number, colors in enumerate(SERIES))
    return (
        f":root{{color-scheme:light dark;--page:#fff;--ink:#1f2328;--faint:#59636e;--grid:#d8dee4;{light}}}"
        f"@media(prefers-color-scheme:dark){{:root{{--page:#14171c;--ink:#e6e9ee;--faint:#9aa4b1;--grid:#343a44;{dark}}}}}"
    )


RULES = """
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,sans-serif}
main{max-width:60rem;margin:0 auto;padding:1.5rem 1rem 3rem}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .5rem}h2{font-size:1.2rem;margin:2.2rem 0 .6rem}
p{max-width:46rem}.lead{font-size:1.08rem}
.figure{display:block;width:100%;max-width:44rem;height:auto}
.figure text{font-family:system-ui,sans-serif!important}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.35rem .9rem .35rem 0;text-align:right;white-space:nowrap;border-bottom:1px solid var(--grid)}
th:first-child{position:sticky;left:0;background:var(--page);text-align:left;white-space:normal;min-width:9rem}
thead th{color:var(--faint);font-weight:500}tbody th{font-weight:500}
.cards{display:grid;gap:1.4rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,23rem),1fr))}
figure{margin:0}figcaption{margin-bottom:.4rem}figcaption b{display:block}
img{display:block;width:100%;image-rendering:pixelated}
dl{display:grid;grid-template-columns:minmax(8rem,max-content) 1fr;gap:.25rem 1rem;margin:0}
dt{color:var(--faint)}dd{margin:0;overflow-wrap:anywhere}
"""
