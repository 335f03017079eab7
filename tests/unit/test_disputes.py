"""Disputed tasks, and the answers that are no votes: what each of them leads to, in each kind of campaign."""

from typing import Any

import numpy as np
import pytest

from campaigns import Make
from hedgerow import Campaign, CampaignError, InputError, Pairs

PAIRS = Pairs(np.repeat(np.arange(120), 2), np.tile(np.array([0, 2], np.int32), 120))
KINDS = {"multi-class": {}, "multi-label": {"kind": "multi-label"}, "pairs": {"kind": "pairs", "pairs": PAIRS}}
VALUES: dict[str, tuple[Any, Any]] = {
    "multi-class": ("cat", "dog"),
    "multi-label": (("cat", "fox"), ("cat",)),
    "pairs": (1, 0),
}
NOTHING = {"multi-class": None, "multi-label": ()}  # the label of a row that has none of the classes


def dispute(make: Make, kind: str = "multi-class", **options: Any) -> tuple[Campaign, int]:
    """(a campaign with a batch of three tasks, the task on which ana and ben differ)."""
    campaign = make(**KINDS[kind], **options)
    task = int(campaign.batch(campaign.next(3, answers=2))["task"][0])
    for name, value in zip(("ana", "ben"), VALUES[kind], strict=True):
        campaign.answer(name, task, value)
    return campaign, task


def label(campaign: Campaign, task: int) -> tuple[Any, str]:
    """(label, how) of a task of the batch."""
    columns, found = campaign.batch(2), campaign.labels()
    at = columns["task"].tolist().index(task)
    same = found["row"] == columns["row"][at]
    if "class" in found:
        same &= found["class"] == columns["class"][at]
    return found["label"][same].tolist()[0], found["how"][same].tolist()[0]


def state(campaign: Campaign, task: int) -> str:
    columns = campaign.batch(2)
    return str(columns["state"][columns["task"].tolist().index(task)])


@pytest.mark.parametrize("kind", KINDS)
def test_an_expert_decides_corrects_and_takes_back(make: Make, kind: str) -> None:
    campaign, task = dispute(make, kind)
    first, second = VALUES[kind]
    assert (state(campaign, task), label(campaign, task)) == ("disputed", (None, "disputed"))
    assert campaign.disputed()["task"].tolist() == [task]
    assert campaign.status().disputed == 1
    (asked,) = campaign.claim("eva", 5, expert=True)
    assert asked.task == task
    assert campaign.answer("eva", task, first, kind="adjudicate") == "new"
    assert (state(campaign, task), label(campaign, task)) == ("settled", (VALUES[kind][0], "adjudicated"))
    assert campaign.claim("eva", 5, expert=True) == []
    assert campaign.disputed()["task"].tolist() == []
    assert campaign.answer("eva", task, second, kind="adjudicate") == "corrected"
    assert label(campaign, task) == (VALUES[kind][1], "adjudicated")
    assert campaign.answer("max", task, first, kind="adjudicate") == "new"
    assert label(campaign, task) == (VALUES[kind][0], "adjudicated")  # the newest decides
    assert campaign.answer("max", task, kind="retract") == "corrected"
    assert label(campaign, task) == (VALUES[kind][1], "adjudicated")
    assert campaign.answer("eva", task, kind="retract") == "corrected"
    assert (state(campaign, task), label(campaign, task)) == ("disputed", (None, "disputed"))
    assert [one.task for one in campaign.claim("eva", 5, expert=True)] == [task]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_shows_who_said_what(make: Make, kind: str) -> None:
    campaign, task = dispute(make, kind)
    listed = campaign.disputed()
    assert set(listed) == {"task", "batch", "id", "text", "given"} | ({"class"} if kind == "pairs" else set())
    assert listed["given"].tolist() == [2]
    (asked,) = campaign.claim("eva", 1, expert=True)
    assert set(vars(asked)) == {"task", "batch", "row", "id", "content", "class_", "until"}
    shown = f"{listed} {asked}"
    assert not [name for name in ("ana", "ben", "dog") if name in shown]
    assert campaign.disputed(2)["task"].tolist() == [task]
    assert campaign.disputed(1)["task"].tolist() == []


def test_who_differs_does_not_decide_unless_allowed(make: Make) -> None:
    campaign, task = dispute(make)
    assert campaign.claim("ana", 5, expert=True) == []
    with pytest.raises(CampaignError, match=r"task \d+ is to be decided by somebody who has not answered it.*--own"):
        campaign.answer("ana", task, "cat", kind="adjudicate")
    assert label(campaign, task) == (None, "disputed")
    (asked,) = campaign.claim("ana", 5, expert=True, own=True)
    campaign.answer("ana", asked.task, "cat", kind="adjudicate", own=True)
    assert label(campaign, task) == ("cat", "adjudicated")
    campaign.answer("ana", task, "dog", kind="adjudicate")  # her own decision may be corrected
    assert label(campaign, task) == ("dog", "adjudicated")


def test_experts_and_annotators_hold_different_tasks(make: Make) -> None:
    campaign, task = dispute(make)
    assert [one.task for one in campaign.claim("eva", 9, expert=True)] == [task]
    assert campaign.claim("max", 9, expert=True) == []  # eva has it
    others = {one.task for one in campaign.claim("eva", 2, batch=2)}
    assert len(others) == 2
    assert task not in others
    assert [one.task for one in campaign.claim("eva", 9, expert=True)] == [task]
    campaign.release("eva", [task])
    assert [one.task for one in campaign.claim("max", 9, expert=True)] == [task]
    campaign.answer("max", task, kind="skip")
    assert campaign.claim("max", 9, expert=True, own=True) == []
    assert [one.task for one in campaign.claim("eva", 9, expert=True)] == [task]


@pytest.mark.parametrize("kind", ["multi-class", "multi-label"])
def test_an_expert_may_find_none_of_the_classes(make: Make, kind: str) -> None:
    campaign, task = dispute(make, kind)
    campaign.answer("eva", task, (), kind="adjudicate")
    assert (state(campaign, task), label(campaign, task)) == ("settled", (NOTHING[kind], "adjudicated"))


def test_an_expert_needs_a_value(make: Make) -> None:
    campaign, task = dispute(make, "pairs")
    with pytest.raises(InputError, match="has no value"):
        campaign.answer("eva", task, kind="adjudicate")
    with pytest.raises(InputError, match="0 or 1"):
        campaign.answer("eva", task, (), kind="adjudicate")


# Answers that are no votes.


@pytest.mark.parametrize("kind", KINDS)
def test_skip_gives_the_task_to_somebody_else(make: Make, kind: str) -> None:
    campaign = make(**KINDS[kind])
    batch = campaign.next(1)
    (asked,) = campaign.claim("ana", 1, batch=batch)
    campaign.answer("ana", asked.task, kind="skip")
    assert state(campaign, asked.task) == "open"
    assert campaign.status().labels == {}
    assert campaign.claim("ana", 1, batch=batch) == []
    (again,) = campaign.claim("ben", 1, batch=batch)
    campaign.answer("ben", again.task, VALUES[kind][0])
    assert label(campaign, again.task) == (VALUES[kind][0], "majority")
    assert {one.name: (one.answers, one.skips) for one in campaign.people().people} == {"ana": (0, 1), "ben": (1, 0)}


@pytest.mark.parametrize("kind", KINDS)
def test_unsure_is_an_answer_that_trains_nothing(make: Make, kind: str) -> None:
    campaign = make(**KINDS[kind])
    task = int(campaign.batch(campaign.next(1, answers=2))["task"][0])
    campaign.answer("ana", task, kind="unsure")
    assert state(campaign, task) == "answered"
    campaign.answer("ben", task, kind="unsure")
    assert (state(campaign, task), label(campaign, task)) == ("settled", (None, "unsure"))
    assert campaign.status().labels == {"unsure": 1}
    campaign.answer("ben", task, VALUES[kind][0])
    assert label(campaign, task) == (VALUES[kind][0], "majority")  # one vote, nobody against it
    assert campaign.labels()["support"].tolist() == [1]
    assert campaign.people().agreement.units == 0


@pytest.mark.parametrize("kind", ["multi-class", "multi-label"])
def test_none_of_these_is_a_vote(make: Make, kind: str) -> None:
    campaign = make(**KINDS[kind])
    tasks = campaign.batch(campaign.next(2, answers=2))["task"].tolist()
    campaign.answer("ana", tasks[0], kind="none-of-these")
    campaign.answer("ben", tasks[0], ())
    assert (state(campaign, tasks[0]), label(campaign, tasks[0])) == ("settled", (NOTHING[kind], "none-of-these"))
    campaign.answer("ana", tasks[1], kind="none-of-these")
    campaign.answer("ben", tasks[1], VALUES[kind][0])
    assert (state(campaign, tasks[1]), label(campaign, tasks[1])) == ("disputed", (None, "disputed"))
    found = campaign.people()
    assert found.agreement.observed == 0.5
    assert {one["first"] for one in found.confusion} | {one["second"] for one in found.confusion} == {
        "none of these",
        "cat" if kind == "multi-class" else "cat|fox",
    }


def test_a_pair_is_never_none_of_these(make: Make) -> None:
    campaign, task = dispute(make, "pairs")
    with pytest.raises(InputError, match="answer 0 or 1"):
        campaign.answer("eva", task, kind="none-of-these")


@pytest.mark.parametrize("kind", KINDS)
def test_broken_voids_a_task_if_all_say_so(make: Make, kind: str) -> None:
    campaign = make(**KINDS[kind])
    tasks = campaign.batch(campaign.next(2, answers=2))["task"].tolist()
    for task in tasks:
        campaign.answer("ana", task, kind="broken")
        assert state(campaign, task) == "answered"
    campaign.answer("ben", tasks[0], kind="broken")
    campaign.answer("ben", tasks[1], VALUES[kind][0])
    assert (state(campaign, tasks[0]), label(campaign, tasks[0])) == ("void", (None, "broken"))
    assert (state(campaign, tasks[1]), label(campaign, tasks[1])) == ("disputed", (None, "disputed"))
    assert campaign.claim("cid", 9, batch=2) == []
    asked = campaign.batch(2)["row"][0], campaign.batch(2).get("class", [None])[0]
    columns = campaign.batch(campaign.next(50))
    assert asked not in set(zip(columns["row"].tolist(), columns.get("class", [None] * 50), strict=True))
    campaign.answer("eva", tasks[1], VALUES[kind][0], kind="adjudicate")
    assert label(campaign, tasks[1]) == (VALUES[kind][0], "adjudicated")
