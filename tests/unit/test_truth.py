"""What models read of what people said: which verdicts count, and as what."""

import numpy as np
import pytest

from campaigns import Make
from hedgerow import Campaign
from hedgerow.campaign.answers import Answer
from hedgerow.campaign.truth import Truth, read_truth


def read(campaign: Campaign, *, holdout: bool = False) -> Truth:
    with campaign._database.read() as connection:
        return read_truth(connection, campaign._holdings, holdout=holdout)


def find_rows(campaign: Campaign, *, holdout: bool) -> list[int]:
    drawn = set(campaign.batch(1)["row"].tolist())
    return [row for row in range(120) if (row in drawn) == holdout]


def test_verdicts_that_name_a_class(make: Make) -> None:
    campaign = make()
    rows, (held, *_) = find_rows(campaign, holdout=False), find_rows(campaign, holdout=True)
    campaign.ingest(
        [
            Answer(f"r{rows[0]}", "answer", "fox", "ana"),
            Answer(f"r{rows[1]}", "unsure", None, "ana"),
            Answer(f"r{rows[2]}", "none-of-these", None, "ana"),
            Answer(f"r{rows[3]}", "answer", "cat", "ana"),
            Answer(f"r{rows[3]}", "answer", "dog", "ben"),
            Answer(f"r{rows[4]}", "answer", "cat", "ana"),
            Answer(f"r{rows[4]}", "answer", "dog", "ben"),
            Answer(f"r{rows[4]}", "adjudicate", "dog", "eve"),
            Answer(f"r{held}", "answer", "dog", "ana"),
        ]
    )
    train = read(campaign)
    assert train.rows.tolist() == [rows[0], rows[4]]
    assert train.values.tolist() == [2, 1]
    assert train.classes.tolist() == [-1, -1]
    assert read(campaign, holdout=True).rows.tolist() == [held]


def test_sets_have_a_column_per_class_and_none_of_these_is_empty(make: Make) -> None:
    campaign = make(kind="multi-label", holdout=0)
    campaign.ingest(
        [
            Answer("r5", "answer", ("fox", "cat"), "ana"),
            Answer("r3", "none-of-these", None, "ana"),
            Answer("r4", "unsure", None, "ana"),
            Answer("r9", "answer", ("dog",), "ana"),
        ]
    )
    found = read(campaign)
    assert found.rows.tolist() == [3, 5, 9]
    np.testing.assert_array_equal(found.values, [[0, 0, 0], [1, 0, 1], [0, 1, 0]])


def test_pairs_are_yes_or_no(make: Make) -> None:
    campaign = make(kind="pairs", holdout=0)
    campaign.ingest([Answer("r5", "answer", 1, "ana", class_="fox"), Answer("r5", "answer", 0, "ana", class_="dog")])
    found = read(campaign)
    assert found.rows.tolist() == [5, 5]
    assert found.classes.tolist() == [1, 2]
    assert found.values.tolist() == [False, True]
    assert len(found.take(found.values)) == 1


@pytest.mark.parametrize("kind", ["multi-class", "multi-label"])
def test_retired_rows_are_left_out(make: Make, kind: str) -> None:
    campaign = make(kind=kind, holdout=0)
    label = "cat" if kind == "multi-class" else ("cat",)
    campaign.ingest([Answer(f"r{row}", "answer", label, "ana") for row in (3, 4)])
    campaign.retire(["r3"])
    assert read(campaign).rows.tolist() == [4]
