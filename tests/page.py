"""A reader of HTML pages: holds that they are well formed and need nothing but themselves."""

import re
from html.parser import HTMLParser

VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Reads a page, holds that every element is closed in turn, and keeps what refers to somewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.references: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.references += [value or "" for name, value in attrs if name in {"src", "href", "xlink:href", "srcset"}]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_self_contained(text: str) -> Page:
    """A well-formed page without scripts whose references stay inside it."""
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    assert not {"script", "link", "iframe", "object", "base"} & set(page.tags)
    assert all(reference.startswith(("#", "data:")) for reference in page.references)
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    policy = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; """
    assert text.count(policy) == 1
    assert "http" not in text.replace(policy, "")
    return page
