"""Gold questions: when they are asked, to whom, and that nothing but the person's score follows from the answers."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from statsmodels.stats.proportion import proportion_confint

from campaigns import Make
from hedgerow import Campaign, CampaignError, InputError, Pairs
from hedgerow.campaign import gold, verdicts
from hedgerow.campaign.answers import Answer

PAIRS = Pairs(np.repeat(np.arange(120), 2), np.tile(np.array([0, 2], np.int32), 120))
KINDS = {"multi-class": {}, "multi-label": {"kind": "multi-label"}, "pairs": {"kind": "pairs", "pairs": PAIRS}}
RIGHT: dict[str, Any] = {"multi-class": "cat", "multi-label": ("cat", "fox"), "pairs": 1}
WRONG: dict[str, Any] = {"multi-class": "dog", "multi-label": ("cat",), "pairs": 0}


def say(campaign: Campaign, batch: int, name: str, value: Any, some: slice = slice(None), **more: Any) -> None:
    """The same answer to some tasks of a batch, from a file."""
    columns = campaign.batch(batch)
    classes = columns.get("class", [None] * len(columns["id"]))[some]
    ids = columns["id"].tolist()[some]
    campaign.ingest(
        [Answer(id_, "answer", value, name, class_=class_, **more) for id_, class_ in zip(ids, classes, strict=True)]
    )


def begin(make: Make, kind: str = "multi-class", **options: Any) -> tuple[Campaign, int, set[tuple[int, Any]]]:
    """(a campaign whose holdout eva and max have answered alike, an open batch, the gold questions)."""
    campaign = make(**{"holdout": 20, **KINDS[kind], **options})
    for name in ("eva", "max"):
        say(campaign, 1, name, RIGHT[kind])
    held = campaign.batch(1)
    questions = set(zip(held["row"].tolist(), held.get("class", [None] * len(held["row"])), strict=True))
    return campaign, campaign.next(90), questions


def work(campaign: Campaign, name: str, value: Any, n: int, at_once: int = 7) -> list[Any]:
    """What a person is asked, answered a few tasks at a time."""
    asked: list[Any] = []
    while len(asked) < n:
        some = campaign.claim(name, min(at_once, n - len(asked)))
        if not some:
            break
        for one in some:
            assert campaign.answer(name, one.task, value, seconds=2.0) == "new"
        asked += some
    return asked


def is_gold(one: Any, questions: set[tuple[int, Any]]) -> bool:
    return (one.row, one.class_) in questions


def count_events(campaign: Campaign, where: str = "1 = 1") -> int:
    with campaign._database.read() as connection:
        return int(connection.execute(sa.text(f"SELECT count(*) FROM event WHERE {where}")).scalar_one())


@pytest.mark.parametrize("kind", KINDS)
def test_gold_questions_are_mixed_in_and_change_no_verdict(make: Make, kind: str) -> None:
    campaign, batch, questions = begin(make, kind)
    assert campaign.gold().questions == len(questions)
    campaign.set_gold(share=0.25)
    before = campaign.labels()
    agreement = campaign.people().agreement
    asked = work(campaign, "ana", WRONG[kind], 40)
    mixed = [is_gold(one, questions) for one in asked]
    assert sum(mixed) == 10
    assert not any(one and other for one, other in pairwise(mixed))
    assert {one.batch for one in asked} == {batch}
    assert len({(one.row, one.class_) for one in asked}) == 40
    after = campaign.labels()
    held = after["split"] == "holdout"
    for name in ("id", "label", "how", "support", "given"):
        assert after[name][held].tolist() == before[name].tolist()
    assert len(after["id"]) == len(before["id"]) + 30
    found = campaign.people().agreement  # AC1 also looks at what one person answered, and there is more of that now
    assert (found.units, found.votes, found.observed) == (agreement.units, agreement.votes, agreement.observed)
    assert campaign.gold().answers == 10
    assert campaign.votes()["annotator"].tolist().count("ana") == 30
    with campaign._database.write() as connection:
        verdicts.refresh(campaign._database, connection, np.arange(120))
    again = campaign.labels()
    assert all(again[name].tolist() == after[name].tolist() for name in after)


@pytest.mark.parametrize("kind", KINDS)
def test_accuracy_has_an_interval_and_the_person_is_flagged(make: Make, kind: str) -> None:
    campaign, _, _ = begin(make, kind)
    campaign.set_gold(share=0.5)
    work(campaign, "ana", WRONG[kind], 24)
    work(campaign, "ben", RIGHT[kind], 22)
    people = {one.name: one for one in campaign.people().people}
    low, high = proportion_confint(0, 12, method="wilson")
    assert people["ana"].gold == {"right": 0, "asked": 12, "accuracy": 0.0, "low": 0.0, "high": pytest.approx(high)}
    assert people["ana"].flagged
    low, high = proportion_confint(11, 11, method="wilson")
    assert people["ben"].gold == {"right": 11, "asked": 11, "accuracy": 1.0, "low": pytest.approx(low), "high": 1.0}
    assert not people["ben"].flagged
    assert people["eva"].gold is None
    assert (people["ana"].answers, people["ana"].alone) == (12, 12)
    campaign.set_gold(threshold=0.2)
    assert not {one.name: one for one in campaign.people().people}["ana"].flagged
    number = campaign.relabel_annotator("ana")
    rows = list(zip(*(campaign.batch(number)[name].tolist() for name in ("id", "pick")), strict=True))
    assert len(rows) == 12
    assert campaign.claim("ana", 30, batch=number) == []
    assert campaign.status().batches[-1]["kind"] == "relabel"


def test_one_seed_asks_the_same_gold_questions(make: Make) -> None:
    campaign, _, _ = begin(make)
    with campaign._database.begin() as connection:
        first = dict(gold._draw_places(3, 1, 0.03, 0, 4000))
        assert first == {
            **dict(gold._draw_places(3, 1, 0.03, 0, 1234)),
            **dict(gold._draw_places(3, 1, 0.03, 1234, 4000)),
        }
        assert len(first) == 120
        assert set(first) != set(dict(gold._draw_places(4, 1, 0.03, 0, 4000)))
        assert set(first) != set(dict(gold._draw_places(3, 2, 0.03, 0, 4000)))
        for share in (0.03, 0.1, 0.3, 0.4, 0.5):
            places = np.array(sorted(dict(gold._draw_places(0, 1, share, 0, 2000))))
            assert len(places) == pytest.approx(2000 * share, abs=1)
            assert np.diff(places).min() > 1
        asked = [gold._find_question(campaign._database, connection, 99, 0.4, []) for _ in range(2)]
    assert asked[0] is not None
    assert asked[0] == asked[1]


def test_no_gold_without_two_that_agree_or_an_expert(make: Make) -> None:
    campaign = make(holdout=6)
    say(campaign, 1, "eva", "cat")
    campaign.set_gold(share=0.5)
    batch = campaign.next(60)
    assert campaign.gold().questions == 0
    holdout = set(campaign.batch(1)["row"].tolist())
    assert not holdout & {one.row for one in work(campaign, "ana", "cat", 10)}
    say(campaign, 1, "max", "cat", slice(0, 2))
    say(campaign, 1, "max", "dog", slice(2, 3))
    task = int(campaign.batch(1)["task"][2])
    campaign.answer("ida", int(campaign.batch(1)["task"][0]), kind="unsure")
    assert campaign.gold().questions == 1
    campaign.answer("tom", task, "fox", kind="adjudicate")
    assert campaign.gold().questions == 2
    asked = {one.row for one in work(campaign, "ana", "cat", 20) if one.batch == batch} & holdout
    assert asked == set(campaign.batch(1)["row"][[1, 2]].tolist())
    assert campaign.people().people[0].gold is not None


def test_nobody_is_asked_what_they_have_answered_before(make: Make) -> None:
    campaign, _, questions = begin(make, holdout=3)
    campaign.set_gold(share=0.5)
    assert not any(is_gold(one, questions) for one in work(campaign, "eva", "cat", 12))
    asked = work(campaign, "ana", "cat", 20)
    assert sum(is_gold(one, questions) for one in asked) == 3  # each once, and then there are no more
    assert len(asked) == 20


def test_what_is_held_comes_again_in_the_same_order(make: Make) -> None:
    campaign, batch, questions = begin(make)
    campaign.set_gold(share=0.4)
    first = campaign.claim("ana", 12)
    assert sum(is_gold(one, questions) for one in first) > 2
    for again in (campaign.claim("ana", 12), campaign.claim("ana", 12, batch=batch), campaign.claim("ana", 20)[:12]):
        assert [(one.task, one.batch) for one in again] == [(one.task, one.batch) for one in first]
    held = next(one for one in campaign.people().people if one.name == "ana").leases
    assert campaign.release("ana") == held == 20
    later = campaign.claim("ana", 20)
    mixed = [is_gold(one, questions) for one in later]
    assert not any(one and other for one, other in pairwise(mixed))


def test_a_gold_answer_is_corrected_sent_twice_and_taken_back(make: Make) -> None:
    campaign, _, questions = begin(make)
    campaign.set_gold(share=0.5)
    one = next(one for one in campaign.claim("ana", 4) if is_gold(one, questions))
    assert campaign.answer("ana", one.task, "dog", key="k1") == "new"
    assert campaign.answer("ana", one.task, "dog", key="k1") == "unchanged"
    assert campaign.answer("ana", one.task, "cat", key="k2") == "corrected"
    score = next(person.gold for person in campaign.people().people if person.name == "ana")
    assert score is not None
    assert (score["right"], score["asked"]) == (1, 1)
    assert campaign.answer("ana", one.task, kind="retract", key="k3") == "corrected"
    assert next(person.gold for person in campaign.people().people if person.name == "ana") is None
    assert count_events(campaign, "channel = 'gold'") == 3
    assert not is_gold(campaign.claim("ana", 1)[0], {(one.row, None)})
    answered = campaign.labels()
    assert answered["given"][answered["row"] == one.row].tolist() == [2]
    # The same person may answer the row itself, and this counts.
    campaign.ingest([Answer(one.id, "answer", "dog", "ana")])
    answered = campaign.labels()
    assert answered["given"][answered["row"] == one.row].tolist() == [3]
    campaign.retract(annotator="ana")
    answered = campaign.labels()
    assert answered["given"][answered["row"] == one.row].tolist() == [2]


def test_unsure_and_skip_are_no_answers_to_gold_questions(make: Make) -> None:
    campaign, _, questions = begin(make)
    campaign.set_gold(share=0.5)
    seen = []
    for kind in ("unsure", "skip", "broken"):
        while not is_gold(one := campaign.claim("ana", 1)[0], questions):
            campaign.answer("ana", one.task, "cat")
        assert campaign.answer("ana", one.task, kind=kind) == "new"
        seen.append(one.row)
    assert len(set(seen)) == 3
    assert next(person.gold for person in campaign.people().people if person.name == "ana") is None
    assert {one["kind"]: one["state"] for one in campaign.status().batches}["gold"] == "open"


def test_none_of_these_can_be_the_right_answer(make: Make) -> None:
    campaign = make(holdout=12)
    for name in ("eva", "max"):
        campaign.ingest([Answer(id_, "none-of-these", None, name) for id_ in campaign.batch(1)["id"]])
    campaign.next(60)
    campaign.set_gold(share=0.5)
    for one in campaign.claim("ana", 8):
        campaign.answer("ana", one.task, kind="none-of-these")
    score = next(person.gold for person in campaign.people().people if person.name == "ana")
    assert score is not None
    assert (score["right"], score["asked"]) == (4, 4)


def test_gold_is_a_setting_that_can_be_switched_off(make: Make) -> None:
    campaign, _, questions = begin(make)
    assert (campaign.gold().share, campaign.gold().threshold) == (0.03, 0.7)
    assert campaign.set_gold(share=0).share == 0
    assert not any(is_gold(one, questions) for one in work(campaign, "ana", "cat", 60, at_once=30))
    assert campaign.log(1)[0].command == "gold"
    assert "switched off" in str(campaign.gold())
    for given in ({"share": 0.6}, {"share": -0.1}, {"threshold": 1.5}):
        with pytest.raises(InputError, match=next(iter(given))):
            campaign.set_gold(**given)


def test_gold_questions_are_no_batch_to_claim_or_close(make: Make) -> None:
    campaign, _, _ = begin(make)
    campaign.set_gold(share=0.5)
    campaign.claim("ana", 4)
    number = next(one["id"] for one in campaign.status().batches if one["kind"] == "gold")
    with pytest.raises(CampaignError, match=f"batch {number} is not open"):
        campaign.claim("ana", 1, batch=number)
    for verb in (campaign.close, campaign.undo):
        with pytest.raises(CampaignError, match="gold questions are not a batch to close"):
            verb(number)


def test_gold_ends_with_the_batch(make: Make) -> None:
    campaign, batch, _ = begin(make)
    campaign.set_gold(share=0.5)
    assert len(campaign.claim("ana", 6)) == 6
    campaign.close(batch)
    assert campaign.claim("ana", 6) == []
    with pytest.raises(CampaignError, match="nothing that only 'ana' has answered"):
        campaign.relabel_annotator("ana")


def test_a_holdout_that_two_people_label_becomes_gold(make: Make) -> None:
    campaign = make(holdout=5, holdout_answers=2)
    for name in ("eva", "max"):
        for one in campaign.claim(name, 5):
            campaign.answer(name, one.task, "cat")
        assert campaign.gold().questions == (0 if name == "eva" else 5)
    assert campaign.batch(1)["state"].tolist() == ["settled"] * 5
    with pytest.raises(InputError, match="holdout_answers must be at least 1"):
        make(holdout_answers=0)
