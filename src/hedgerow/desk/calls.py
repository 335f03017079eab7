"""What the LABEL screen asks for: tasks, answers, and why a row was picked. Each call is one function.

A call gets the desk, the person who asks and what was sent, and returns what becomes JSON. People name themselves in no
call: who somebody is comes from their session. Answers carry a key that the page made up; the same key again changes
nothing, so that a page may send whatever it is not sure of once more.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hedgerow.campaign.answers import ADJUDICATE, KINDS
from hedgerow.campaign.asking import LEASE_SECONDS, MOST_CLAIMED
from hedgerow.campaign.campaign import Campaign
from hedgerow.campaign.summaries import Asked
from hedgerow.desk.cards import Card
from hedgerow.desk.drawing import Drawing
from hedgerow.desk.given import Given
from hedgerow.desk.kept import Kept
from hedgerow.desk.media import IMAGE, TEXT, Media, cut_text
from hedgerow.desk.visitors import ADJUDICATE as EXPERT
from hedgerow.desk.visitors import Visitor
from hedgerow.errors import CampaignError, InputError

MOST_ANSWERS = 100  # in one request
MOST_SECONDS = 3600.0  # a longer time is a page that was left open
KEY = re.compile(r"[\w-]{8,64}", re.ASCII)
TRIES = 3  # of an answer while classes are being changed
DECIDE = KINDS[ADJUDICATE]


@dataclass(frozen=True)
class Desk:
    """An open campaign, and where its contents may come from. title: what pages call it. drawing: of its map.

    card: how examples are shown, if a template says so. curves: what CURVES shows.
    """

    campaign: Campaign
    media: Media
    title: str
    lease: float = LEASE_SECONDS
    drawing: Drawing = field(default_factory=Drawing)
    card: Card | None = None
    curves: Kept = field(default_factory=Kept)


def describe(desk: Desk, visitor: Visitor, _given: Given) -> dict[str, Any]:
    """What a page must know before anything else."""
    outline = desk.campaign.outline()
    return {
        "person": visitor.name,
        "role": visitor.role,
        "campaign": outline.uuid,
        "title": desk.title,
        "kind": outline.kind,
        "rows": outline.rows,
        "classes": list(outline.classes),
        "edition": outline.edition,
        "lease": desk.lease,
        "prefetch": MOST_CLAIMED,
        "template": None if desk.card is None else desk.card.parts,
    }


def claim(desk: Desk, visitor: Visitor, given: Given) -> dict[str, Any]:
    """Tasks for a person: those they hold, renewed, and others. decide: disputed ones, for an expert."""
    expert = given.flag("decide")
    _require_expert(visitor, expert)
    n = given.number("n", least=1, most=2 * MOST_CLAIMED, default=MOST_CLAIMED)
    outline = desk.campaign.outline()
    found = desk.campaign.claim(visitor.name, n, seconds=desk.lease, expert=expert)
    tasks = [describe_task(desk, one, outline.content) for one in found]
    return {"edition": outline.edition, "tasks": fill_card(desk, tasks, [(one.id, one.content) for one in found])}


def fill_card(
    desk: Desk, rows: list[dict[str, Any]], held: Sequence[tuple[int | str, str | None]]
) -> list[dict[str, Any]]:
    """The same rows with the values that a template shows. held: the id and content of each."""
    if desk.card is None:
        return rows
    values = desk.card.read([id_ for id_, _ in held], [content for _, content in held])
    return [{**row, "fields": found} for row, found in zip(rows, values, strict=True)]


def _require_expert(visitor: Visitor, expert: bool) -> None:
    if expert and not visitor.may(EXPERT):
        raise InputError("disputed tasks are decided by people with the role adjudicate or own")


def describe_task(desk: Desk, asked: Asked, content: str | None) -> dict[str, Any]:
    """A task as a page shows it. Nothing tells whether it is a gold question."""
    shown = describe_content(desk.media, asked.row, asked.content, content)
    return {"task": asked.task, "batch": asked.batch, "id": str(asked.id), "class": asked.class_, **shown}


def describe_content(media: Media, row: int, held: str | None, content: str | None) -> dict[str, Any]:
    """What to show of a row: a text at once, anything else by an address."""
    if content is None or not held:
        return {"row": row, "show": "nothing"}
    if content == TEXT:
        return {"row": row, "show": TEXT, "text": cut_text(held)}
    kind, remote = media.find_kind(held), media.find_remote(held)
    return {"row": row, "show": kind, "url": remote or f"media/{row}", "small": _find_small(row, kind, remote)}


def _find_small(row: int, kind: str, remote: str | None) -> str | None:
    """The address of a small picture, if there is one."""
    return (remote or f"media/{row}?small=1") if kind == IMAGE else None


def answer(desk: Desk, visitor: Visitor, given: Given) -> dict[str, Any]:
    """Apply answers in their order; of each, what became of it, or why it is refused."""
    listed = [Given.of(one) for one in given.items("answers", MOST_ANSWERS)]
    return {"results": [_answer(desk, visitor, one) for one in listed]}


def _answer(desk: Desk, visitor: Visitor, given: Given) -> dict[str, Any]:
    key = given.text("key", 64)
    try:
        return {"key": key, "outcome": _apply(desk, visitor, given, key)}
    except (InputError, CampaignError) as error:
        return {"key": key, "refused": str(error)}


def _apply(desk: Desk, visitor: Visitor, given: Given, key: str) -> str:
    if not KEY.fullmatch(key):
        raise InputError("a key has 8 to 64 letters, digits, - or _")
    kind = given.text("kind", default="answer")
    _require_expert(visitor, kind == DECIDE)
    task, seconds = given.number("task", least=1), given.real("seconds", MOST_SECONDS)
    for turn in range(TRIES):
        edition = desk.campaign.outline().edition
        try:
            # The name is a part of the key: nobody can keep out the answers of somebody else.
            return desk.campaign.answer(
                visitor.name, task, given.value("value"), kind=kind, key=f"{visitor.name}:{key}", seconds=seconds
            )
        except CampaignError:
            if turn + 1 == TRIES or desk.campaign.outline().edition == edition:
                raise
    raise AssertionError("the last try returns or raises")


def release(desk: Desk, visitor: Visitor, given: Given) -> dict[str, Any]:
    """Give back tasks, so that others get them at once."""
    return {"released": desk.campaign.release(visitor.name, given.numbers("tasks", 2 * MOST_CLAIMED))}


def count(desk: Desk, _visitor: Visitor, _given: Given) -> dict[str, Any]:
    """How far the open batches are."""
    return {"batches": [dict(one) for one in desk.campaign.open_batches()]}


def explain(desk: Desk, _visitor: Visitor, given: Given) -> dict[str, Any]:
    """Why a row was picked."""
    found = desk.campaign.explain(given.number("task", least=1), given.number("batch", least=1))
    content = desk.campaign.outline().content
    near = [
        {"id": str(one.id), "label": one.label, **describe_content(desk.media, one.row, one.content, content)}
        for one in found.neighbors
    ]
    return {**vars(found), "neighbors": near}
