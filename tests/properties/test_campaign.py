"""A campaign against a slow and obvious model of it, over random sequences of commands."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow import Campaign, CampaignError
from hedgerow.campaign.answers import Answer

CLASSES = ["cat", "dog", "fox"]
PEOPLE = ["ana", "ben", "cid"]
VOTES = ("answer", "none-of-these")
N = 12
STEPS = 40
Thing = tuple[int, str | None]  # a row, or a row and a class


@dataclass
class Event:
    """What somebody said; `source` 0 is the page."""

    thing: Thing
    person: str
    kind: str
    value: Any
    said_at: int | None
    source: int
    external: str | None
    batch: int | None = None  # that asked for it
    counts: bool = True


@dataclass
class Model:
    """Everything in lists, everything computed anew."""

    events: list[Event] = field(default_factory=list)
    tasks: list[dict[str, Any]] = field(default_factory=list)
    batches: dict[int, str] = field(default_factory=dict)  # open, full, short, cancelled
    holdout: set[int] = field(default_factory=set)

    def said(self, thing: Thing, person: str) -> Event | None:
        found = [one for one in self.events if one.counts and (one.thing, one.person) == (thing, person)]
        return found[-1] if found else None

    def verdict(self, thing: Thing) -> tuple[Any, str, int, int] | None:
        """(label, how, support, given)."""
        last = [one for one in (self.said(thing, person) for person in [*PEOPLE, "eva"]) if one is not None]
        held = [one for one in last if one.kind not in ("skip", "retract")]
        if not held:
            return None
        experts = [one for one in held if one.kind == "adjudicate"]
        if experts:
            newest = max(experts, key=self.events.index)
            return newest.value, "adjudicated", 1, len(held)
        votes = Counter(one.value if one.kind == "answer" else None for one in held if one.kind in VOTES)
        broken = sum(one.kind == "broken" for one in held)
        if broken == len(held):
            return None, "broken", 0, len(held)
        if broken and votes:
            return None, "disputed", 0, len(held)
        if not votes:
            return None, "unsure", 0, len(held)
        most = max(votes.values())
        winners = [value for value, times in votes.items() if times == most]
        if len(winners) > 1:
            return None, "disputed", 0, len(held)
        how = "none-of-these" if winners[0] is None else "majority"
        return winners[0], how, most, len(held)

    def newest_task(self, thing: Thing) -> dict[str, Any] | None:
        found = [task for task in self.tasks if task["thing"] == thing]
        return found[-1] if found else None

    def settle(self, thing: Thing) -> None:
        task = self.newest_task(thing)
        if task is None or self.batches[task["batch"]] == "cancelled":
            return
        verdict = self.verdict(thing)
        given = verdict[3] if verdict else 0
        if verdict is None:
            state = "open"
        elif verdict[1] == "adjudicated":
            state = "settled"
        elif given < task["wanted"]:
            state = "answered"
        else:
            state = {"broken": "void", "disputed": "disputed"}.get(verdict[1], "settled")
        if self.batches[task["batch"]] != "open" and state in ("open", "answered", "disputed"):
            state = "void"
        task["state"] = state

    def apply(self, answer: Answer, thing: Thing, source: int) -> str:
        """One answer of a file, or of the page if source is 0."""
        live = source == 0
        person = str(answer.annotator)
        if answer.external is not None:
            for one in self.events:
                same_time = live or one.said_at == answer.said_at
                if one.counts and one.external == answer.external and same_time and (one.source == 0) == live:
                    return "unchanged"
        before = self.said(thing, person)
        outcome = self.judge(answer, before, live)
        keep = outcome in ("new", "corrected") or (
            outcome == "unchanged" and before is not None and before.kind != "retract" and later(answer, before)
        )
        task = self.newest_task(thing)
        if outcome == "new" and (task is None or task["state"] == "void"):
            outcome = "unsolicited"
        if keep:
            event = Event(thing, person, answer.kind, answer.value, answer.said_at, source, answer.external)
            event.batch = task["batch"] if task is not None and task["state"] != "void" else None
            self.events.append(event)
        return outcome

    def judge(self, answer: Answer, before: Event | None, live: bool) -> str:
        older = (
            not live
            and before is not None
            and answer.said_at is not None
            and before.said_at is not None
            and answer.said_at < before.said_at
        )
        if before is None or before.kind == "retract":
            return "unchanged" if answer.kind == "retract" else "stale" if older else "new"
        if (answer.kind, answer.value) == (before.kind, before.value):
            return "unchanged"
        return "stale" if older else "corrected"

    def answered(self, batch: int) -> bool:
        return any(one.counts and one.batch == batch for one in self.events)

    def is_candidate(self, thing: Thing) -> bool:
        task = self.newest_task(thing)
        waiting = task is not None and task["state"] in ("open", "answered", "disputed")
        return not waiting and self.verdict(thing) is None and thing[0] not in self.holdout


def later(answer: Answer, before: Event) -> bool:
    return answer.said_at is not None and (before.said_at is None or answer.said_at > before.said_at)


class Driver:
    """Runs the same commands on a campaign and on the model."""

    def __init__(self, campaign: Campaign, rng: np.random.Generator, pairs: bool) -> None:
        self.campaign, self.rng, self.pairs, self.model = campaign, rng, pairs, Model()
        self.clock = 10**15  # beyond the times in files: the page's own clock is not compared with them
        self.batch(1, 1)
        self.model.holdout = {task["thing"][0] for task in self.model.tasks}

    def batch(self, number: int, wanted: int) -> None:
        """Take over the tasks of a new batch."""
        self.model.batches[number] = "open"
        columns = self.campaign.batch(number)
        for at, row in enumerate(columns["row"].tolist()):
            thing = (row, columns["class"][at] if self.pairs else None)
            if self.model.batches.keys() != {1}:
                assert self.model.is_candidate(thing), thing
            task = {
                "thing": thing,
                "batch": number,
                "wanted": wanted,
                "state": "open",
                "task": int(columns["task"][at]),
            }
            self.model.tasks.append(task)

    def draw_answer(self, source: int) -> tuple[Answer, Thing]:
        kinds = ["answer"] * 6 + ["unsure", "none-of-these", "skip", "broken", "retract", "adjudicate"]
        if self.pairs:
            kinds.remove("none-of-these")
        kind = str(self.rng.choice(kinds))
        values: list[Any] = [0, 1] if self.pairs else CLASSES
        value = values[int(self.rng.integers(len(values)))] if kind in ("answer", "adjudicate") else None
        person = "eva" if kind == "adjudicate" else str(self.rng.choice(PEOPLE))
        said_at = int(self.rng.integers(1, 30)) if self.rng.random() < 0.6 else None
        external = f"k{self.rng.integers(40)}" if self.rng.random() < 0.3 else None
        thing = (int(self.rng.integers(N)), str(self.rng.choice(CLASSES)) if self.pairs else None)
        return Answer(f"r{thing[0]}", kind, value, person, said_at, external, class_=thing[1]), thing

    def ingest(self) -> None:
        drawn = [self.draw_answer(1) for _ in range(int(self.rng.integers(1, 9)))]
        done = self.campaign.ingest([answer for answer, _ in drawn], again=True)
        # The order of the pool, and within one row or pair and person that of the file.
        numbers = {name: number for number, name in enumerate(self.people())}
        order = sorted(
            range(len(drawn)),
            key=lambda at: (
                drawn[at][1][0],
                CLASSES.index(drawn[at][1][1]) if self.pairs else 0,
                numbers[str(drawn[at][0].annotator)],
                at,
            ),
        )
        # An answer is solicited if it was when the file came.
        counts = Counter(self.model.apply(*drawn[at], done.source) for at in order)
        assert +Counter(done.counts) == counts
        for _, thing in drawn:
            self.model.settle(thing)

    def people(self) -> list[str]:
        """All names, in the order in which the campaign met them."""
        import sqlalchemy as sa

        with self.campaign._database.read() as connection:
            return list(connection.execute(sa.text("SELECT name FROM annotator ORDER BY id")).scalars())

    def answer(self) -> None:
        if not self.model.tasks:
            return
        task = self.model.tasks[int(self.rng.integers(len(self.model.tasks)))]
        answer, _ = self.draw_answer(0)
        self.clock += 1
        given = Answer(0, answer.kind, answer.value, answer.annotator, self.clock, answer.external)
        outcome = self.campaign.answer(
            str(answer.annotator), task["task"], answer.value, kind=answer.kind, key=answer.external
        )
        assert outcome == self.model.apply(given, task["thing"], 0)
        self.model.settle(task["thing"])

    def next(self) -> None:
        wanted = int(self.rng.integers(1, 3))
        number = self.campaign.next(
            3, strategy="random", answers=wanted, seed=int(self.rng.integers(99)), allow_short=True
        )
        self.batch(number, wanted)

    def retract(self) -> None:
        sources = sorted({one.source for one in self.model.events if one.counts} - {0})
        if self.rng.random() < 0.3:
            person = str(self.rng.choice(PEOPLE))
            gone = [one for one in self.model.events if one.person == person and one.counts]
            if person not in self.people():
                return
            assert self.campaign.retract(annotator=person) == len(gone)
        elif sources:
            source = int(self.rng.choice(sources))
            gone = [one for one in self.model.events if one.source == source and one.counts]
            assert self.campaign.retract(source=source) == len(gone)
        else:
            return
        for one in gone:
            one.counts = False
        for one in gone:
            self.model.settle(one.thing)

    def close(self) -> None:
        live = [number for number, state in self.model.batches.items() if state == "open"]
        if not live:
            return
        number = int(self.rng.choice(live))
        if self.rng.random() < 0.5:
            self.undo(number)
        else:
            self.end(number, self.campaign.close(number))

    def undo(self, number: int) -> None:
        if number == 1 or self.model.answered(number):
            with pytest.raises(CampaignError, match="cannot be undone"):
                self.campaign.undo(number)
        else:
            self.campaign.undo(number)
            self.end(number, "cancelled")

    def end(self, number: int, outcome: str) -> None:
        waiting = [
            task
            for task in self.model.tasks
            if task["batch"] == number and task["state"] in ("open", "answered", "disputed")
        ]
        if outcome != "cancelled":
            assert outcome == ("short" if waiting else "full")
        self.model.batches[number] = outcome
        for task in waiting:
            task["state"] = "void"

    def compare(self) -> None:
        found = self.campaign.labels()
        names = found["class"].tolist() if self.pairs else [None] * len(found["row"])
        columns = [found[name].tolist() for name in ("label", "how", "support", "given")]
        held = {(row, name): rest for row, name, *rest in zip(found["row"].tolist(), names, *columns, strict=True)}
        things = {one.thing for one in self.model.events}
        expected = {thing: list(verdict) for thing in things if (verdict := self.model.verdict(thing)) is not None}
        assert held == expected
        for number in self.model.batches:
            batch = self.campaign.batch(number)
            states = [task["state"] for task in self.model.tasks if task["batch"] == number]
            assert batch["state"].tolist() == states


@pytest.mark.parametrize("kind", ["multi-class", "pairs"])
@pytest.mark.parametrize("seed", range(12))
def test_a_campaign_does_what_the_model_does(tmp_path: Path, seed: int, kind: str) -> None:
    (tmp_path / "pool.csv").write_text("id\n" + "".join(f"r{row}\n" for row in range(N)))
    rng = np.random.default_rng(seed)
    with Campaign.init(tmp_path / "c", tmp_path / "pool.csv", classes=CLASSES, kind=kind, holdout=2) as campaign:
        driver = Driver(campaign, rng, kind == "pairs")
        steps = ["ingest"] * 8 + ["answer"] * 8 + ["next"] * 4 + ["retract"] + ["close"] * 4
        for _ in range(STEPS):
            getattr(driver, str(rng.choice(steps)))()
            driver.compare()
        assert len(driver.model.events) > 10
