"""Templates: examples of several columns, shown as a file of HTML with {{column}} in it says.

A template becomes a tree of known elements, and whatever else is in it is refused. Pages get the tree and the values
apart and make the elements themselves. So a value is never read as HTML, whatever it holds, and a template has nothing
that could run or load something.
"""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from hedgerow.errors import InputError

MOST_CHARACTERS = 100_000
TAGS = (
    "article", "aside", "b", "blockquote", "br", "caption", "code", "dd", "div", "dl", "dt", "em", "figcaption",
    "figure", "footer", "h2", "h3", "h4", "h5", "h6", "header", "hr", "i", "li", "mark", "ol", "p", "pre", "s",
    "section", "small", "span", "strong", "sub", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "time", "tr",
    "u", "ul",
)  # fmt: skip
VOID = ("br", "hr")
ATTRIBUTES = ("class", "colspan", "dir", "lang", "rowspan", "scope", "title")
LOOKS = ("box", "large", "muted", "row", "small")  # classes, as the page's style sheet has them
CONTENT = "content"  # the placeholder of what would be shown without a template
PLACEHOLDER = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")
Part = str | dict[str, Any]


def read_template(path: str | Path) -> list[Part]:
    """The parts of a template: texts, {"field": name}, and {"tag", "attributes", "children"}."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the template {path} cannot be read: {error}") from None
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"{path}: a template has at most {MOST_CHARACTERS:,} characters")
    reader = _Reader(str(path))
    reader.feed(text)
    reader.close()
    return reader.finish()


def list_fields(parts: list[Part]) -> list[str]:
    """The names in the placeholders, each once, in their order."""
    found: list[str] = []
    for part in parts:
        if isinstance(part, dict):
            found += [part["field"]] if "field" in part else list_fields(part["children"])
    return list(dict.fromkeys(found))


class _Reader(HTMLParser):
    """Reads a template, and refuses what is not known."""

    def __init__(self, name: str) -> None:
        super().__init__(convert_charrefs=True)
        self._name = name
        self._open: list[tuple[str, list[Part]]] = [("", [])]

    def finish(self) -> list[Part]:
        """What was read."""
        if len(self._open) > 1:
            self._refuse(f"<{self._open[-1][0]}> is not closed")
        return self._open[0][1]

    def _refuse(self, reason: str) -> None:
        raise InputError(f"{self._name}, line {self.getpos()[0]}: {reason}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in TAGS:
            self._refuse(f"<{tag}> cannot be used: a template has {', '.join(TAGS)}")
        for name, value in attrs:
            self._check_attribute(tag, name, value or "")
        children: list[Part] = []
        self._open[-1][1].append(
            {"tag": tag, "attributes": {name: value or "" for name, value in attrs}, "children": children}
        )
        if tag not in VOID:
            self._open.append((tag, children))

    def _check_attribute(self, tag: str, name: str, value: str) -> None:
        if name not in ATTRIBUTES:
            self._refuse(f"<{tag} {name}> cannot be used: elements have {', '.join(ATTRIBUTES)}")
        if PLACEHOLDER.search(value):
            self._refuse(f"a value cannot stand in an attribute: put {value.strip()} between tags")
        strange = sorted(set(value.split()) - set(LOOKS)) if name == "class" else []
        if strange:
            self._refuse(f"the class {strange[0]!r} is not known: there are {', '.join(LOOKS)}")

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if tag != self._open[-1][0]:
            inner = self._open[-1][0]
            self._refuse(f"</{tag}> closes nothing" if not inner else f"</{tag}> comes before </{inner}>")
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for turn, piece in enumerate(PLACEHOLDER.split(data)):
            if piece:
                self._open[-1][1].append({"field": piece} if turn % 2 else piece)

    def handle_decl(self, decl: str) -> None:
        self._refuse(f"<!{decl}> cannot be used: a template is a part of a page")

    def handle_pi(self, data: str) -> None:
        self._refuse(f"<?{data[:20]} cannot be used")

    def unknown_decl(self, data: str) -> None:
        self._refuse(f"<![{data[:20]} cannot be used")
