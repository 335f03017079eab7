"""The parts of a report: figures, tables, pictures, and a page that needs nothing but itself."""

import base64
import io
from pathlib import Path

import numpy as np
import pytest

from hedgerow.errors import InputError, StoreError
from hedgerow.report import (
    PAPERS,
    SERIES,
    Section,
    compose_page,
    draw_curves,
    draw_grid,
    draw_intervals,
    paint_tiles,
    render_bars,
    render_cards,
    render_facts,
    render_table,
    render_texts,
    write_page,
)
from page import Page, check_self_contained

POINTS = [
    ("random", 100, 0.5, 0.05),
    ("random", 150, 0.6, 0.05),
    ("a <b> & c", 100, 0.5, None),
    ("a <b> & c", 150, 0.8, None),
]


def test_curves_are_one_labeled_figure_in_the_pages_colors() -> None:
    svg = draw_curves(POINTS)
    page = Page(svg)
    assert page.tags.count("svg") == 1
    assert all(reference.startswith("#") for reference in page.references)
    assert "var(--series-0)" in svg
    assert "var(--series-1)" in svg
    assert "var(--ink)" in svg
    assert "#0003" not in svg
    assert "<b>" not in svg
    assert draw_curves(POINTS) == svg
    assert draw_curves(POINTS, x="batch size", y="gain").count("batch size") == 2  # the axis, and the label for readers


def test_names_in_figures_are_shown_as_they_are() -> None:
    names = ["_ours", r"$\frac$", "from $1 to $2"]
    svg = draw_curves([(name, 10, 0.5, None) for name in names], y="minus $a$")
    assert [svg.count(f">{text}</text>") for text in (" _ours", *names[1:], "minus $a$")] == [1] * 4
    svg = draw_intervals([(name, name, 0.5, 0.2, 0.9) for name in names], x="x")
    assert [svg.count(f">{name}</text>") for name in names[1:]] == [2] * 2  # the row, and the legend
    svg = draw_grid(np.ones((1, 1)), ["$a$"], ["$b$"], limit=1, label="")
    assert [svg.count(f">{name}</text>") for name in ("$a$", "$b$")] == [1, 1]


@pytest.mark.parametrize(("last", "step"), [(4, 1), (10, 2), (25, 5)])
def test_numbers_below_a_figure_do_not_run_into_each_other(last: int, step: int) -> None:
    labeled = [300_000 + 100_000 * turn for turn in range(last + 1)]
    svg = draw_curves([("a", labels, 0.5, None) for labels in labeled])
    assert [f"{labels:,}" in svg for labels in labeled] == [turn % step == 0 for turn in range(last + 1)]


@pytest.mark.parametrize(("letters", "lines"), [((20, 30), 1), ((36, 29), 2), ((60,), 1)])
def test_names_that_do_not_fit_side_by_side_stand_below_each_other(letters: tuple[int, ...], lines: int) -> None:
    svg = draw_curves([(letter * n, 10, 0.5, None) for letter, n in zip("ab", letters, strict=False)])
    inches = 3.9 + 0.25 * lines
    assert float(svg.split('viewBox="')[1].split('"')[0].split()[3]) == pytest.approx(72 * inches)


def test_more_strategies_than_can_be_told_apart_are_refused() -> None:
    points = [(str(number), 10, 0.5, None) for number in range(len(SERIES) + 1)]
    with pytest.raises(InputError, match="draw several figures"):
        draw_curves(points)


def test_intervals_are_below_each_other_in_the_given_order() -> None:
    marks = [("one & two", "a", 0.5, 0.2, 0.9), ("three", "a", -1.0, -1.5, 2.0), ("three", "b", 0.1, 0.0, 0.2)]
    svg = draw_intervals(marks, x="difference", middle=0.25, band=0.1)
    assert Page(svg).tags.count("svg") == 1
    assert svg.index("one &amp; two") < svg.index("three")
    assert svg.count("difference") == 2  # the axis, and the label for readers
    assert "var(--series-1)" in svg
    assert "#0003" not in svg
    assert draw_intervals(marks, x="difference", middle=0.25, band=0.1) == svg
    taller = draw_intervals([*marks, ("four", "a", 0.0, 0.0, 0.1)], x="difference")
    heights = [float(one.split('viewBox="')[1].split('"')[0].split()[3]) for one in (svg, taller)]
    assert heights[1] > heights[0]
    with pytest.raises(InputError, match="draw several figures"):
        draw_intervals([("row", str(number), 0, 0, 0) for number in range(len(SERIES) + 1)], x="")


def read_tiles(uri: str) -> np.ndarray:
    from matplotlib.image import imread

    head, data = uri.split(",")
    assert head == "data:image/png;base64"
    return np.round(imread(io.BytesIO(base64.b64decode(data)), format="png") * 255).astype(int)


def test_tiles_put_copies_side_by_side_on_a_tint() -> None:
    images = np.zeros((6, 2, 3))
    images[4, 0, 0] = 1.0  # ink in a corner marks row 4
    pixels = read_tiles(paint_tiles(images, np.array([9, 5, 7, 5, 7, 5]), columns=4))
    assert pixels.shape == (2 * 3 - 1, 4 * 4 - 1, 4)
    papers = [pixels[top + 1, left + 1, :3].tolist() for top in (0, 3) for left in (0, 4, 8, 12)][:6]
    white, one, two = PAPERS.astype(int).tolist()
    assert papers[:3] in ([one] * 3, [two] * 3)  # three copies of 5
    assert papers[3:5] in ([one] * 2, [two] * 2)  # two copies of 7
    assert papers[0] != papers[3]
    assert papers[5] == white  # 9 is alone
    assert pixels[3, 0, :3].max() < 40  # row 4 is the second copy of 7
    assert pixels[2, :, 3].max() == 0  # gaps are clear


def test_table_facts_and_cards_escape_what_they_are_given() -> None:
    table = render_table([{"name": "<a>", "x": "1 & 2"}, {"name": "b", "x": "3"}])
    assert "<a>" not in table
    assert "1 &amp; 2" in table
    assert Page(table).tags.count("tr") == 3
    facts = render_facts({"k<": "v>"})
    assert "k&lt;" in facts
    assert "v&gt;" in facts
    cards = render_cards([('t"', "<s>", "data:image/png;base64,")])
    assert Page(cards).tags == ["div", "figure", "figcaption", "b", "img"]


def test_page_is_self_contained_and_follows_the_reader() -> None:
    text = compose_page("A & B", "lead <x>", [Section("One", draw_curves(POINTS)), Section("Two", "<p>body</p>")])
    page = check_self_contained(text)
    assert page.tags.count("section") == 2
    assert "<title>A &amp; B</title>" in text
    assert "lead &lt;x&gt;" in text
    assert "width=device-width" in text
    assert "prefers-color-scheme:dark" in text


def test_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    write_page(target, "ä ± 1")
    assert target.read_text(encoding="utf-8") == "ä ± 1"
    assert list(tmp_path.iterdir()) == [target]
    with pytest.raises(StoreError):
        write_page(tmp_path / "absent" / "page.html", "x")


def test_labels_of_a_logarithmic_axis_do_not_overlap():
    sizes = (1_250, 2_000, 5_000, 10_000, 30_000, 100_000, 1_000_000)
    figure = draw_curves([("one", float(size), 0.5, None) for size in sizes], log=True)
    shown = [f">{size:,}<" in figure for size in sizes]
    assert shown == [True, False, True, False, True, True, True]


def test_a_logarithmic_y_axis_has_whole_powers() -> None:
    figure = draw_curves([("one", 1.0, 30.0, None), ("one", 10.0, 40_000.0, None)], log=True, log_y=True)
    assert [f">{power:,}<" in figure for power in (100, 1_000, 10_000)] == [True, True, True]


def test_bands_between_two_ends_shares_as_percentages_and_another_first_color() -> None:
    figure = draw_curves([("one", 1.0, 0.5, (0.2, 0.6)), ("one", 2.0, 0.6, (0.5, 0.8))], percent=True, first=2)
    assert "50 %" in figure
    assert "var(--series-2)" in figure
    assert "var(--series-0)" not in figure
    same = [("one", 1.0, 0.5, 0.1), ("one", 2.0, 0.6, 0.1)]
    ends = [("one", 1.0, 0.5, (0.4, 0.6)), ("one", 2.0, 0.6, (0.5, 0.7))]
    assert draw_curves(same) == draw_curves(ends)
    with pytest.raises(InputError, match="can show 1 series, got 2"):
        draw_curves([("one", 1.0, 0.5, None), ("two", 1.0, 0.5, None)], first=len(SERIES) - 1)


def test_bars_have_parts_and_escape_their_names() -> None:
    text = render_bars([("<a>", [3, 1]), ("b", [2, 0])], ["seen & done", "rest"], number="n")
    page = Page(text)
    assert page.tags.count("rect") == 4
    assert "&lt;a&gt;" in text
    assert "seen &amp; done" in text
    assert 'x="0.000" width="75.000"' in text
    assert 'x="75.000" width="25.000"' in text
    assert 'x="0.000" width="50.000"' in text
    assert Page(render_bars([("none", [0])], ["one"])).tags.count("rect") == 1
    with pytest.raises(InputError, match="1 to 2 parts, got 3"):
        render_bars([], ["a", "b", "c"])
    assert 'class="wide text"' in render_texts([{"a": "<b>"}])


def test_a_grid_has_a_tile_for_every_number() -> None:
    values = np.array([[-250.0, 0.0, np.nan], [12.0, 400.0, -3.0]])
    figure = draw_grid(values, ["one", "two"], ["a", "b", "c"], limit=300, label="Regrets <by cell>")
    assert 'aria-label="Regrets &lt;by cell&gt;"' in figure
    for shown in ("\N{MINUS SIGN}250", "+0", "+12", "+400", "\N{MINUS SIGN}3", "one", "two", "a", "b", "c"):
        assert f">{shown}<" in figure
    assert "nan" not in figure.lower()
