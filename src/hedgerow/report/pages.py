"""Pages: tables, lists and figures under headings, in one self-contained HTML file.

A page refers to nothing outside itself, fits a phone, and follows the reader's light or dark mode.
"""

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hedgerow.errors import InputError
from hedgerow.report.figures import style_colors
from hedgerow.store import atomic_write

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
.bars td.bar{width:60%;padding-right:.6rem}.bars table{width:100%;max-width:44rem}
.bars th:first-child{min-width:5rem;max-width:16rem;overflow-wrap:anywhere}
.bar svg{display:block;width:100%;height:.8rem}
.part-0{fill:var(--series-2);background:var(--series-2)}.part-1{fill:var(--series-0);background:var(--series-0)}
.key{display:inline-block;width:.8rem;height:.8rem;margin:0 .35rem 0 .9rem;vertical-align:-.08rem}
.key:first-child{margin-left:0}
.text td{text-align:left;white-space:normal;min-width:3.8rem;vertical-align:top}.text td:last-child{min-width:10rem}
.text th{vertical-align:top}.text thead th{text-align:left}.text th:first-child{min-width:5.5rem}
dl+.wide,details{margin-top:1rem}summary{cursor:pointer}details dl{margin-top:.6rem}
.note{color:var(--faint);font-size:.9rem}
"""
# Nothing is loaded from anywhere: not even a mistake in what a page shows can make a browser ask for something.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
MOST_PARTS = 2  # of a bar


@dataclass(frozen=True)
class Section:
    """A heading and the HTML below it."""

    heading: str
    body: str


def render_table(rows: Sequence[Mapping[str, str]]) -> str:
    """Rows with the same keys as an HTML table; a table that is too wide scrolls, the page does not."""
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in rows[0])
    body = "".join(_render_row(list(row.values())) for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def render_texts(rows: Sequence[Mapping[str, str]]) -> str:
    """The same for cells with sentences, which are wrapped."""
    return render_table(rows).replace('class="wide"', 'class="wide text"', 1)


def render_bars(bars: Sequence[tuple[str, Sequence[float]]], parts: Sequence[str], *, number: str = "total") -> str:
    """A bar per name, of at most two parts one after the other; parts: what they are called."""
    if not 1 <= len(parts) <= MOST_PARTS:
        raise InputError(f"bars have 1 to {MOST_PARTS} parts, got {len(parts)}")
    longest = max((sum(values) for _, values in bars), default=0) or 1
    keys = "".join(f'<span class="key part-{place}"></span>{html.escape(part)}' for place, part in enumerate(parts))
    head = (
        f'<thead><tr><th scope="col"></th><th scope="col"></th><th scope="col">{html.escape(number)}</th></tr></thead>'
    )
    body = "".join(_render_bar(name, values, longest) for name, values in bars)
    return f'<p class="note">{keys}</p><div class="wide bars"><table>{head}<tbody>{body}</tbody></table></div>'


def _render_bar(name: str, values: Sequence[float], longest: float) -> str:
    drawn, start = "", 0.0
    for place, value in enumerate(values):
        width = 100 * value / longest
        drawn += f'<rect class="part-{place}" x="{start:.3f}" width="{width:.3f}" height="8"></rect>'
        start += width
    picture = f'<svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">{drawn}</svg>'
    total = f"<td>{sum(values):,.0f}</td>"
    return f'<tr><th scope="row">{html.escape(name)}</th><td class="bar">{picture}</td>{total}</tr>'


def _render_row(cells: Sequence[str]) -> str:
    rest = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells[1:])
    return f'<tr><th scope="row">{html.escape(cells[0])}</th>{rest}</tr>'


def render_facts(facts: Mapping[str, str]) -> str:
    """Names and values as a definition list."""
    return "<dl>" + "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in facts.items()) + "</dl>"


def render_cards(cards: Iterable[tuple[str, str, str]]) -> str:
    """(title, sentence, data URI of an image) side by side, or below each other on a narrow screen."""
    return '<div class="cards">' + "".join(_render_card(*card) for card in cards) + "</div>"


def _render_card(title: str, sentence: str, image: str) -> str:
    title, sentence = html.escape(title), html.escape(sentence)
    caption = f"<figcaption><b>{title}</b> {sentence}</figcaption>"
    return f'<figure>{caption}<img alt="{title}: {sentence}" src="{image}"></figure>'


def compose_page(title: str, lead: str, sections: Iterable[Section]) -> str:
    """The HTML of a page. `title` and `lead` are plain text; the body of a section is HTML."""
    parts = "".join(f"<section><h2>{html.escape(part.heading)}</h2>{part.body}</section>\n" for part in sections)
    title = html.escape(title)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{style_colors()}{RULES}</style>\n</head>\n"
        f'<body>\n<main>\n<h1>{title}</h1>\n<p class="lead">{html.escape(lead)}</p>\n{parts}</main>\n</body>\n</html>\n'
    )


def write_page(path: Path, page: str) -> None:
    """Write a page atomically, replacing an existing file."""
    with atomic_write(path) as beside:
        beside.write_text(page, encoding="utf-8")
