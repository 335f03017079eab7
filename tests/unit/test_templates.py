"""Templates of the desk: what they may hold, what is refused, and where values come from."""

import json
from pathlib import Path

import pytest

from hedgerow import InputError
from hedgerow.desk.cards import Card
from hedgerow.desk.templates import list_fields, read_template


def write(folder: Path, text: str) -> Path:
    path = folder / "card.html"
    path.write_text(text)
    return path


def test_a_template_is_a_tree_of_elements_texts_and_fields(tmp_path: Path) -> None:
    parts = read_template(
        write(tmp_path, '<!-- a note --><h2 class="large">{{ title }}</h2><p>by {{who}}<br>&amp; co</p>')
    )
    assert parts == [
        {"tag": "h2", "attributes": {"class": "large"}, "children": [{"field": "title"}]},
        {
            "tag": "p",
            "attributes": {},
            "children": ["by ", {"field": "who"}, {"tag": "br", "attributes": {}, "children": []}, "& co"],
        },
    ]
    assert list_fields(parts) == ["title", "who"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<script>alert(1)</script>", "<script> cannot be used"),
        ("<SCRIPT src=x></SCRIPT>", "<script> cannot be used"),
        ("<p><svg/onload=alert(1)></p>", "<svg> cannot be used"),
        ("<img src=x onerror=alert(1)>", "<img> cannot be used"),
        ("<style>p {}</style>", "<style> cannot be used"),
        ("<iframe></iframe>", "<iframe> cannot be used"),
        ("<a href='https://example.org'>x</a>", "<a> cannot be used"),
        ("<!doctype html><html></html>", "a template is a part of a page"),
        ("<p onclick='alert(1)'>x</p>", "<p onclick> cannot be used"),
        ("<p style='background: url(//example.org)'>x</p>", "<p style> cannot be used"),
        ("<p\n id=x>x</p>", "<p id> cannot be used"),
        ("<p title='{{title}}'>x</p>", "a value cannot stand in an attribute"),
        ("<p class='toast'>x</p>", "the class 'toast' is not known"),
        ("<?php x ?>", "cannot be used"),
        ("<ul><li>one<li>two</ul>", "</ul> comes before </li>"),
        ("<p>x", "<p> is not closed"),
        ("x</p>", "</p> closes nothing"),
        ("x" * 100_001, "at most 100,000 characters"),
    ],
)
def test_what_could_run_or_load_something_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(InputError) as raised:
        read_template(write(tmp_path, text))
    assert reason in str(raised.value)
    assert "card.html" in str(raised.value)


def test_the_line_of_a_mistake_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"card\.html, line 3: <script>"):
        read_template(write(tmp_path, "<p>\n</p>\n<script></script>"))


def test_values_come_from_the_campaign_and_from_a_table_by_id(tmp_path: Path) -> None:
    table = tmp_path / "fields.jsonl"
    lines = [{"id": "b", "title": "B", "tags": ["x", "y"]}, {"id": "a", "title": None, "tags": None}]
    table.write_text("".join(json.dumps(line) + "\n" for line in lines))
    card = Card.of(write(tmp_path, "{{id}} {{title}} {{tags}} {{text}} {{content}}"), table, "text", tmp_path)
    assert card is not None
    assert card.read(["a", "z", "b"], ["first", "second", None]) == [
        {"id": "a", "title": "", "tags": "", "text": "first"},
        None,
        {"id": "b", "title": "B", "tags": '["x", "y"]', "text": ""},
    ]
    assert card.read([], []) == []


@pytest.mark.parametrize("ids", [[2, 0, 9], ["2", "0", "nine"]])
def test_without_ids_the_rows_of_a_table_are_numbered(tmp_path: Path, ids: list[int | str]) -> None:
    table = tmp_path / "fields.csv"
    table.write_text("title\nzero\none\ntwo\n")
    card = Card.of(write(tmp_path, "{{title}}"), table, None, tmp_path)
    assert card is not None
    assert card.read(ids, [None] * 3) == [{"title": "two"}, {"title": "zero"}, None]


def test_numbers_are_found_by_ids_that_are_texts(tmp_path: Path) -> None:
    table = tmp_path / "fields.csv"
    table.write_text("id,title\n7,seven\n8,eight\n")
    card = Card.of(write(tmp_path, "{{title}}"), table, None, tmp_path)
    assert card is not None
    assert card.read(["8", "x"], [None, None]) == [{"title": "eight"}, None]


def test_mistakes_are_told_when_the_desk_starts(tmp_path: Path) -> None:
    template = write(tmp_path, "{{text}} {{price}}")
    with pytest.raises(InputError, match=r"shows \{\{price\}\}, but the columns are id, content, text; name a table"):
        Card.of(template, None, "text", tmp_path)
    table = tmp_path / "fields.csv"
    table.write_text("id,title\n7,seven\n7,eight\n")
    with pytest.raises(InputError, match="7"):
        Card.of(template, table, "text", tmp_path)
    with pytest.raises(InputError, match="give --template FILE"):
        Card.of(None, table, "text", tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        Card.of(tmp_path / "away.html", None, "text", tmp_path)
    assert Card.of(None, None, "text", tmp_path) is None
