"""Batches about given rows: what was answered is asked again, of somebody else."""

import csv
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hedgerow import Campaign, CampaignError
from hedgerow.campaign.answers import Answer
from hedgerow.campaign.planning import reserve_rows

_numbers = itertools.count()


@pytest.fixture(params=["sqlite", "postgresql"])
def campaign(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Campaign]:
    """Ten texts; ana answered the first four, and r4 waits in batch 1."""
    url = None
    if request.param != "sqlite":
        url = str(request.getfixturevalue("server").create(f"again{next(_numbers)}"))
    with (tmp_path / "pool.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *((f"r{row}", "text") for row in range(10))])
    with Campaign.init(tmp_path / "campaign", tmp_path / "pool.csv", classes=["cat", "dog"], database=url) as made:
        made.ingest([Answer(f"r{row}", "answer", "cat", "ana") for row in (0, 1, 2, 3)])
        reserve_rows(made._database, np.array([4]), reason="first")
        yield made


def count(campaign: Campaign, batch: int) -> dict[str, int]:
    return next(dict(one["tasks"]) for one in campaign.status().batches if one["id"] == batch)


def test_rows_are_asked_again_of_somebody_else(campaign: Campaign) -> None:
    batch = reserve_rows(campaign._database, np.array([3, 1, 4, 9, 1]), reason="flagged ana")
    assert campaign.batch(batch)["row"].tolist() == [3, 1, 9]  # row 4 waits already
    assert count(campaign, batch) == {"answered": 2, "open": 1}
    assert [one.row for one in campaign.claim("ana", 5, batch=batch)] == [9]
    campaign.release("ana")
    (task,) = (one.task for one in campaign.claim("ben", 5, batch=batch) if one.row == 3)
    campaign.answer("ben", task, "dog")
    assert count(campaign, batch) == {"disputed": 1, "answered": 1, "open": 1}
    facts = campaign.status().batches[-1]
    assert (facts["kind"], facts["strategy"]) == ("relabel", "flagged ana")
    assert campaign.log(1)[0].command == "relabel"
    campaign.undo(1)


def test_two_answers_more_can_be_wanted(campaign: Campaign) -> None:
    batch = reserve_rows(campaign._database, np.array([0]), reason="check", answers=2)
    for name, state in (("ben", "answered"), ("cid", "settled")):
        campaign.answer(name, campaign.claim(name, 1, batch=batch)[0].task, "cat")
        assert count(campaign, batch) == {state: 1}
    assert campaign.labels()["given"].tolist() == [3, 1, 1, 1]


def test_nothing_to_ask_is_an_error(campaign: Campaign) -> None:
    for rows in ([4], []):
        with pytest.raises(CampaignError, match="there is nothing to ask again"):
            reserve_rows(campaign._database, np.array(rows, np.int64), reason="check")
