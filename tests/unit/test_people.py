"""People of a campaign: counts by hand, agreement against nltk and statsmodels, in each kind of campaign."""

from typing import Any

import numpy as np
import pytest
from nltk.metrics.agreement import AnnotationTask
from statsmodels.stats.inter_rater import aggregate_raters, cohens_kappa, fleiss_kappa, to_table

from campaigns import CLASSES, Make
from hedgerow import Campaign, Pairs
from hedgerow.campaign import people
from hedgerow.campaign.answers import Answer

PAIRS = Pairs(np.repeat(np.arange(120), 2), np.tile(np.array([0, 2], np.int32), 120))
KINDS = {"multi-class": {}, "multi-label": {"kind": "multi-label"}, "pairs": {"kind": "pairs", "pairs": PAIRS}}
NAMES = ("ana", "ben", "cid")
SETS = [("cat",), ("cat", "dog"), ("fox",), ("dog", "fox")]


def draw(campaign: Campaign, *, missing: float, seed: int = 0) -> list[Answer]:
    """Answers of three people to a batch, who agree more often than by chance."""
    rng = np.random.default_rng(seed)
    columns = campaign.batch(campaign.next(80, answers=3))
    values: list[Any] = {"multi-class": CLASSES, "multi-label": SETS, "pairs": [0, 1]}[campaign.kind]
    classes = columns.get("class", [None] * 80)
    answers = []
    for id_, class_ in zip(columns["id"].tolist(), classes, strict=True):
        truth = rng.integers(len(values))
        for name in NAMES:
            value = values[truth if rng.random() < 0.6 else rng.integers(len(values))]
            if rng.random() >= missing:
                answers.append(Answer(id_, "answer", value, name, class_=class_))
    return answers


def as_task(answers: list[Answer]) -> AnnotationTask:
    return AnnotationTask([(one.annotator, f"{one.id}/{one.class_}", str(one.value)) for one in answers])


@pytest.mark.parametrize("kind", KINDS)
def test_agreement_is_that_of_nltk(make: Make, kind: str) -> None:
    campaign = make(**KINDS[kind])
    answers = draw(campaign, missing=0.4)
    campaign.ingest(answers)
    found = campaign.people()
    assert found.agreement.alpha == pytest.approx(as_task(answers).alpha(), abs=1e-12)
    assert [(one["first"], one["second"]) for one in found.kappas] == [("ana", "ben"), ("ana", "cid"), ("ben", "cid")]
    said = {name: {(one.id, one.class_): one for one in answers if one.annotator == name} for name in NAMES}
    equal = {}
    for one in found.kappas:
        common = said[one["first"]].keys() & said[one["second"]].keys()
        task = as_task([said[name][key] for key in common for name in (one["first"], one["second"])])
        assert one["units"] == len(common)
        assert one["observed"] == pytest.approx(task.Ao(one["first"], one["second"]), abs=1e-12)
        assert one["kappa"] == pytest.approx(task.kappa_pairwise(one["first"], one["second"]), abs=1e-12)
        equal[one["first"], one["second"]] = round(one["observed"] * one["units"])
    for person in found.people:
        mine = [pair for pair in equal if person.name in pair]
        units = sum(one["units"] for one in found.kappas if (one["first"], one["second"]) in mine)
        assert person.compared == units
        assert person.agreement == pytest.approx(sum(equal[pair] for pair in mine) / units)
        assert person.answers == len(said[person.name])
    differing = sum(one["units"] for one in found.kappas) - sum(equal.values())
    assert sum(one["count"] for one in found.confusion) == differing


@pytest.mark.parametrize("kind", KINDS)
def test_agreement_is_that_of_statsmodels(make: Make, kind: str) -> None:
    campaign = make(**KINDS[kind])
    answers = draw(campaign, missing=0.0)
    campaign.ingest(answers)
    found = campaign.people()
    codes = {value: code for code, value in enumerate(dict.fromkeys(one.value for one in answers))}
    ratings = np.array([codes[one.value] for one in answers]).reshape(-1, 3)
    table, _ = aggregate_raters(ratings)
    n = len(answers)
    assert found.agreement.units == 80
    assert found.agreement.alpha == pytest.approx(1 - (n - 1) / n * (1 - fleiss_kappa(table)), abs=1e-12)
    for one, (first, second) in zip(found.kappas, [(0, 1), (0, 2), (1, 2)], strict=True):
        pair = to_table(ratings[:, [first, second]], bins=len(codes))[0]
        assert one["kappa"] == pytest.approx(cohens_kappa(pair).kappa, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_agreement_by_class_is_that_of_a_yes_or_no(make: Make, kind: str) -> None:
    campaign = make(**KINDS[kind])
    answers = draw(campaign, missing=0.3)
    campaign.ingest(answers)
    found = campaign.people().by_class
    assert list(found) == (["cat", "fox"] if kind == "pairs" else CLASSES)
    for name, one in found.items():
        if kind == "pairs":
            yes = [(a.annotator, a.id, a.value) for a in answers if a.class_ == name]
        else:
            yes = [(a.annotator, a.id, int(name == a.value or name in a.value)) for a in answers]
        assert one.alpha == pytest.approx(AnnotationTask(yes).alpha(), abs=1e-12)


def test_ac1_knows_how_many_classes_there_are(make: Make) -> None:
    """Four rows, two people, equal on three: observed 3/4. Shares: cat 5/8, dog 3/8, fox 0. Chance: 2 * 15/64 / 2."""
    campaign = make()
    ids = campaign.batch(campaign.next(4, answers=2))["id"].tolist()
    said = [("cat", "cat"), ("cat", "cat"), ("dog", "dog"), ("cat", "dog")]
    answers = [
        Answer(id_, "answer", value, name)
        for id_, values in zip(ids, said, strict=True)
        for name, value in zip(("ana", "ben"), values, strict=True)
    ]
    campaign.ingest(answers)
    found = campaign.people()
    chance = 15 / 64
    assert found.agreement.ac1 == pytest.approx((0.75 - chance) / (1 - chance))
    assert found.confusion == ({"first": "cat", "second": "dog", "count": 1, "share": 0.25},)
    assert campaign.status().agreement == found.agreement
    assert "agree    alpha 0.53, AC1 0.67, equal 0.75 on 4 answered by several" in str(campaign.status())
    assert "disputed 1 tasks" in str(campaign.status())


def test_what_each_person_did(make: Make) -> None:
    campaign = make()
    batch = campaign.next(12, answers=2)
    tasks = campaign.batch(batch)["task"].tolist()
    for place, (kind, seconds) in enumerate([("unsure", 1.0), ("broken", 2.0), ("skip", 9.0), ("none-of-these", 4.0)]):
        campaign.answer("ana", tasks[place], kind=kind, seconds=seconds)
    campaign.answer("ana", tasks[4], "cat", seconds=100)
    campaign.answer("ana", tasks[4], "dog", seconds=6.0)  # what counts is the last
    campaign.answer("ana", tasks[5], "dog")
    campaign.answer("ana", tasks[5], kind="retract")
    campaign.answer("ben", tasks[4], "dog")
    campaign.answer("ben", tasks[6], "cat")
    campaign.answer("cid", tasks[6], "dog")
    campaign.answer("eva", tasks[6], "fox", kind="adjudicate")
    campaign.claim("ana", 2, batch=batch)
    found = {one.name: one for one in campaign.people().people}
    ana = found["ana"]
    assert (ana.answers, ana.unsure, ana.broken, ana.skips, ana.decided) == (2, 1, 1, 1, 0)
    assert ana.seconds == 4.0
    assert (ana.agreement, ana.compared, ana.leases, ana.alone) == (1.0, 1, 2, 3)
    assert (found["ben"].answers, found["ben"].agreement, found["ben"].compared) == (2, 0.5, 2)
    assert (found["eva"].decided, found["eva"].answers, found["eva"].alone) == (1, 0, 0)
    assert found["eva"].agreement is found["eva"].seconds is found["ben"].gold is None
    assert list(found) == ["ana", "ben", "cid", "eva"]
    campaign.retract(annotator="ana")
    assert {one.name: one for one in campaign.people().people}["ana"].answers == 0


def test_before_anybody_said_anything(make: Make) -> None:
    found = make().people()
    assert (found.people, found.kappas, found.confusion, found.by_class) == ((), (), (), {})
    assert found.agreement.units == 0
    assert found.to_json()["threshold"] == 0.7


def test_a_glance_takes_every_mth_row(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = make()
    answers = draw(campaign, missing=0.0)
    campaign.ingest(answers)
    assert campaign.status().agreement == campaign.people().agreement
    monkeypatch.setattr(people, "SAMPLE", 20)
    some = [one for one in answers if int(str(one.id)[1:]) % 4 == 0]
    found = campaign.status().agreement
    assert found is not None
    assert found.votes == len(some)
    assert found.alpha == pytest.approx(as_task(some).alpha(), abs=1e-12)


def test_relabeling_asks_others_and_deletes_nothing(make: Make) -> None:
    campaign = make()
    batch = campaign.next(6)
    ids = campaign.batch(batch)["id"].tolist()
    campaign.ingest([Answer(id_, "answer", "cat", "ana") for id_ in ids])
    campaign.ingest([Answer(ids[0], "answer", "cat", "ben")])
    before = campaign.labels()["label"].tolist()
    number = campaign.relabel_annotator("ana")
    assert set(campaign.batch(number)["id"].tolist()) == set(ids[1:])
    assert campaign.labels()["label"].tolist() == before
    tasks = campaign.batch(number)["task"].tolist()
    campaign.answer("ben", tasks[0], "cat")
    campaign.answer("ben", tasks[1], "dog")
    assert campaign.batch(number)["state"].tolist() == ["settled", "disputed", "answered", "answered", "answered"]
    assert campaign.status().disputed == 1
