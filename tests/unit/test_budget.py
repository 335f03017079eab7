"""What answers cost: in labels, money and hours; what is reserved, and what is refused."""

import json
from pathlib import Path

import pytest

from campaigns import Make
from hedgerow import Campaign, CampaignError, InputError
from hedgerow.campaign.answers import Answer
from shell import Run, one_line


def answer_all(campaign: Campaign, batch: int, annotator: str, value: str = "cat") -> None:
    campaign.ingest([Answer(id_, "answer", value, annotator) for id_ in campaign.batch(batch)["id"]])


def test_without_a_limit_answers_are_counted(make: Make) -> None:
    campaign = make()
    assert campaign.budget().to_json() == {
        "unit": "labels", "limit": None, "spent": 0.0, "answers": 0, "waiting": 10, "each": 1.0, "reserved": 10.0,
        "left": None,
    }  # fmt: skip
    assert str(campaign.budget()) == "0 labels spent, 10 reserved; no limit"
    assert "budget" not in str(campaign.status())


def test_a_batch_reserves_what_it_wants_and_gives_it_back(make: Make) -> None:
    campaign = make()
    campaign.set_budget(labels=50)
    batch = campaign.next(10, double=0.5)  # 15 answers, and 10 of the holdout
    assert (campaign.budget().spent, campaign.budget().reserved, campaign.budget().left) == (0, 25, 25)
    answer_all(campaign, batch, "ana")
    assert (campaign.budget().spent, campaign.budget().reserved, campaign.budget().left) == (10, 15, 25)
    assert campaign.close(batch) == "short"
    assert (campaign.budget().spent, campaign.budget().reserved, campaign.budget().left) == (10, 10, 30)
    assert str(campaign.status()).endswith("budget   10 of 50 labels spent, 10 reserved, 30 left")


def test_what_would_exceed_the_budget_is_refused_with_the_numbers(make: Make) -> None:
    campaign = make()
    campaign.set_budget(labels=30)
    with pytest.raises(
        CampaignError,
        match=r"would cost 21 labels, and of the budget 20 labels are left \(0 of 30 labels spent, 10 reserved, 20 "
        r"left\): ask for less.*--over-budget",
    ):
        campaign.next(21)
    assert len(campaign.status().batches) == 1
    campaign.next(20)
    with pytest.raises(CampaignError, match="0 labels are left"):
        campaign.next(1)
    campaign.next(5, over_budget=True)
    assert campaign.budget().left == -5
    with pytest.raises(CampaignError, match="of the budget 0 labels are left"):
        campaign.next(1)


def test_every_reply_costs_once(make: Make) -> None:
    campaign = make(holdout=0)
    tasks = campaign.batch(campaign.next(4, answers=2))["task"].tolist()
    for task, kind in zip(tasks, ["unsure", "skip", "broken", "none-of-these"], strict=True):
        campaign.answer("ana", task, kind=kind)
    assert campaign.budget().spent == 4
    campaign.answer("ana", tasks[0], "cat")  # corrected
    campaign.answer("ana", tasks[0], kind="retract")
    assert campaign.budget().spent == 4
    campaign.answer("ben", tasks[0], "dog")
    assert campaign.budget().spent == 5


def test_a_disputed_task_waits_for_one_more(make: Make) -> None:
    campaign = make(holdout=0)
    batch = campaign.next(1, answers=2)
    answer_all(campaign, batch, "ana", "cat")
    answer_all(campaign, batch, "ben", "dog")
    assert (campaign.budget().spent, campaign.budget().waiting) == (2, 1)


def test_a_retracted_file_costs_nothing_and_a_retracted_person_was_paid(make: Make) -> None:
    campaign = make(holdout=0)
    ids = campaign.batch(campaign.next(4))["id"].tolist()
    wrong = campaign.ingest([Answer(id_, "answer", "cat", "ana", 1) for id_ in ids]).source
    campaign.retract(source=wrong)
    assert campaign.budget().spent == 0
    campaign.ingest([Answer(id_, "answer", "dog", "ana", 2) for id_ in ids[:3]])
    assert campaign.budget().spent == 3
    campaign.retract(annotator="ana")
    assert campaign.budget().spent == 3
    assert campaign.budget().waiting == 4


def test_money_by_person(make: Make) -> None:
    campaign = make(holdout=0)
    campaign.set_budget(money=1, per_answer=0.02, rates={"ana": 0.05})
    batch = campaign.next(10)
    assert campaign.budget().reserved == pytest.approx(0.20)
    ids = campaign.batch(batch)["id"].tolist()
    campaign.ingest([Answer(id_, "answer", "cat", "ana") for id_ in ids[:4]])
    campaign.ingest([Answer(id_, "answer", "cat", "ben") for id_ in ids[4:7]])
    found = campaign.budget()
    assert found.spent == pytest.approx(4 * 0.05 + 3 * 0.02)
    assert found.left == pytest.approx(1 - 0.26 - 0.06)
    assert str(found) == "0.26 of 1.00 spent, 0.06 reserved, 0.68 left"
    assert campaign.set_budget(rates={"ben": 0.1}).spent == pytest.approx(0.5)
    assert campaign.set_budget(per_answer=0.01).reserved == pytest.approx(0.03)
    campaign.next(47)  # costs all of what is left, but for rounding
    assert campaign.budget().left == pytest.approx(0, abs=1e-9)


def test_hours_from_the_times_that_are_known(make: Make) -> None:
    campaign = make(holdout=0)
    assert str(campaign.set_budget(hours=1)).endswith("1.0 left; how long an answer takes is not known yet")
    tasks = campaign.batch(campaign.next(5))["task"].tolist()
    assert campaign.budget().left == 1
    campaign.answer("ana", tasks[0], "cat", seconds=360)
    campaign.answer("ana", tasks[0], "dog", seconds=360)  # the time of the correction counts
    campaign.answer("ana", tasks[1], "cat")  # no time: as long as the others
    found = campaign.budget()
    assert (found.spent, found.each, found.reserved) == pytest.approx((0.4, 0.2, 0.6))
    with pytest.raises(CampaignError, match=r"would cost 0\.2 hours, and of the budget 0\.0 hours are left"):
        campaign.next(1)
    assert campaign.set_budget(hours=2, per_answer=10).each == pytest.approx(0.2)


def test_the_price_per_answer_is_used_before_any_time_is_known(make: Make) -> None:
    campaign = make()
    assert campaign.set_budget(hours=1, per_answer=36).reserved == pytest.approx(0.1)


def test_wrong_budgets(make: Make) -> None:
    campaign = make()
    with pytest.raises(InputError, match="nothing to set"):
        campaign.set_budget()
    with pytest.raises(InputError, match="exactly one of labels, money, hours; got labels and hours"):
        campaign.set_budget(labels=5, hours=5)
    with pytest.raises(InputError, match="a budget of money needs per_answer"):
        campaign.set_budget(money=5)
    with pytest.raises(InputError, match="no price per answer"):
        campaign.set_budget(labels=5, per_answer=1)
    with pytest.raises(InputError, match="labels must be greater than 0, got -5"):
        campaign.set_budget(labels=-5)
    with pytest.raises(InputError, match="no budget whose prices could change"):
        campaign.set_budget(per_answer=1)
    with pytest.raises(InputError, match="rates are for a budget of money, and this one is of labels"):
        campaign.set_budget(labels=5, rates={"ana": 1})
    with pytest.raises(InputError, match="the rate of ana must be at least 0"):
        campaign.set_budget(money=5, per_answer=1, rates={"ana": -1})
    assert campaign.set_budget(labels=5).limit == 5
    with pytest.raises(InputError, match="no price per answer"):
        campaign.set_budget(per_answer=1)
    campaign.remove_budget()
    with pytest.raises(CampaignError, match="no budget to remove"):
        campaign.remove_budget()


def test_the_command(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pool.csv").write_text("id,text\n" + "".join(f"{row},t{row}\n" for row in range(20)))
    folder = tmp_path / "c"
    run("campaign", "init", folder, tmp_path / "pool.csv", "--classes", "a,b")
    assert run("campaign", "budget", folder).out == "0 labels spent, 0 reserved; no limit\n"
    done = run("campaign", "budget", folder, "--money", 1, "--per-answer", 0.1, "--rate", "ana=0.2", "--json")
    assert json.loads(done.out)["left"] == 1
    one_line(run("campaign", "next", folder, "-k", 11), 1, "would cost 1.10, and of the budget 1.00 are left")
    assert run("campaign", "next", folder, "-k", 11, "--over-budget").code == 0
    assert json.loads(run("campaign", "status", folder, "--json").out)["budget"]["waiting"] == 11
    one_line(run("campaign", "budget", folder, "--rate", "ana"), 1, "'ana' is not a rate of the form name=number")
    one_line(run("campaign", "budget", folder, "--remove", "--labels", 5), 1, "--remove takes no amounts")
    assert run("campaign", "budget", folder, "--remove").out == "0 labels spent, 11 reserved; no limit\n"
    assert run("campaign", "log", folder).out.count("budget") == 2
