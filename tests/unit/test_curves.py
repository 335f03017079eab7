"""Models measured on the holdout, and what the rules of stopping get to see."""

from typing import Any

import numpy as np
import pytest

from campaigns import CLASSES, Make, N
from hedgerow import Campaign
from hedgerow.campaign import curves
from hedgerow.campaign.answers import Answer
from hedgerow.campaign.curves import ACCURACY, PRECISION, bootstrap_precision
from hedgerow.campaign.stopping import CANNOT_TELL, GO_ON, RULES, STOP
from hedgerow.metrics import average_precision


def say(campaign: Campaign, rows: Any, value: Any = "cat", **options: Any) -> None:
    """The same answer of ana for some rows, or one by row."""
    values = value if isinstance(value, dict) else dict.fromkeys(rows, value)
    campaign.ingest([Answer(f"r{row}", "answer", values[row], "ana", **options) for row in rows], again=True)


def held(campaign: Campaign) -> list[int]:
    return sorted(set(campaign.batch(1)["row"].tolist()))


def guess(*columns: Any, n: int = N) -> Any:
    """Probabilities with these most probable classes, by row."""
    chances = np.full((n, 3), 0.1)
    chances[np.arange(n), np.resize(columns, n)] = 0.8
    return chances


# The curve.


def test_accuracy_on_the_labels_that_there_are_now(make: Make) -> None:
    campaign = make()
    rows = held(campaign)
    columns = np.ones(N, np.int64)
    columns[rows[:3]] = 0
    model = campaign.predict(guess(columns), name="first")
    assert model.labels == 0
    found = campaign.curve()[0]
    assert (found.model, found.metric, found.value, found.low, found.n) == ("first", ACCURACY, None, None, 0)
    say(campaign, rows[:4])  # three of four are right
    found = campaign.curve()[0]
    assert (found.value, found.n) == (0.75, 4)
    # Wilson's interval of 3 of 4, by hand: z = 1.96, center (0.75 + 0.4802) / 1.9604, half 0.3269.
    assert found.low == pytest.approx(0.3006, abs=1e-4)
    assert found.high == pytest.approx(0.9544, abs=1e-4)
    assert str(found) == "accuracy 75.0% (30.1% to 95.4%) on 4 rows: first, trained on 0 labels"
    say(campaign, rows[:8])
    assert campaign.curve()[0].value == 3 / 8
    campaign.retire([f"r{row}" for row in rows[3:7]])
    assert (campaign.curve()[0].value, campaign.curve()[0].n) == (0.75, 4)


def test_labels_are_those_outside_of_the_holdout_when_the_model_came(make: Make) -> None:
    campaign = make()
    rows = held(campaign)
    others = [row for row in range(N) if row not in rows]
    for count in (0, 5, 9):
        say(campaign, [*rows[:2], *others[:count]])
        campaign.predict(guess(0))
    assert [one.labels for one in campaign.curve()] == [0, 5, 9]
    assert [
        one.labels for one in curves.read_curve(campaign._database, campaign._shelf, campaign._holdings, last=2)
    ] == [
        5,
        9,
    ]


def test_models_of_which_no_guess_is_known(make: Make) -> None:
    campaign = make()
    campaign.predict(np.full(N, 0.5))  # margins
    say(campaign, held(campaign))
    found = campaign.curve()[0]
    assert (found.value, found.n) == (None, 0)
    assert str(found) == "accuracy not known: 0 labels can be compared with model-1"
    assert str(campaign.status()).count("accuracy not known") == 1


def test_rows_without_predictions_do_not_count(make: Make, tmp_path: Any) -> None:
    import pyarrow as pa

    campaign = make()
    rows = held(campaign)
    say(campaign, rows)
    some = [row for row in range(N) if row not in rows[:6]]
    columns = {"id": [f"r{row}" for row in some]} | {f"p{at}": guess(0)[some, at] for at in range(3)}
    campaign.predict(pa.table(columns), partial=True)
    assert (campaign.curve()[0].value, campaign.curve()[0].n) == (1.0, 4)


@pytest.mark.parametrize("keep", [True, False])
def test_average_precision_of_sets(make: Make, keep: bool) -> None:
    from sklearn.metrics import average_precision_score

    campaign = make(kind="multi-label")
    rows = held(campaign)
    chances = np.random.default_rng(3).random((N, 3)).astype(np.float32)
    campaign.predict(chances, keep=keep)
    truth = np.random.default_rng(4).random((10, 3)) < 0.4
    truth[0] = [True, False, False]
    truth[9] = False
    named = {row: tuple(np.array(CLASSES)[truth[at]]) for at, row in enumerate(rows)}
    say(campaign, [row for row in rows if named[row]], named)
    campaign.ingest([Answer(f"r{row}", "none-of-these", None, "ana") for row in rows if not named[row]])
    found = campaign.curve()[0]
    assert (found.metric, found.n) == (PRECISION, 30)
    assert found.value == pytest.approx(average_precision_score(truth.ravel(), chances[rows].ravel()))
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high


def test_average_precision_of_pairs(make: Make) -> None:
    campaign = make(kind="pairs")
    rows = held(campaign)
    chances = np.full((N, 3), 0.2)
    chances[rows[0]] = [0.9, 0.8, 0.7]
    campaign.predict(chances)
    say(campaign, rows[:1], 0, class_="cat")
    found = campaign.curve()[0]
    assert (found.value, found.n) == (None, 1)  # no yes
    say(campaign, rows[:1], 1, class_="dog")
    say(campaign, rows[:1], 1, class_="fox")
    found = campaign.curve()[0]
    assert found.value == pytest.approx((1 / 2 + 2 / 3) / 2)  # ranks: no, yes, yes
    assert found.n == 3
    assert (found.low, found.high) == (found.value, found.value)  # one row: every draw is the same


def test_the_bootstrap_draws_groups() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 3)
    answers = rng.random(36) < 0.4
    scores = np.round(rng.random(36), 1)  # with ties
    expected = []
    draws = np.random.default_rng(7)
    for _ in range(curves.MOST_DRAWS):
        drawn = np.concatenate([np.flatnonzero(groups == group) for group in draws.integers(0, 12, 12)])
        expected.append(average_precision(answers[drawn], scores[drawn]))
    np.testing.assert_allclose(
        bootstrap_precision(answers, scores, groups, seed=7), np.quantile(expected, [0.025, 0.975])
    )


def test_draws_without_a_yes_are_left_out_and_long_ones_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "DRAWN_PAIRS", 0)
    answers, scores, groups = np.array([True, False]), np.array([0.5, 0.4]), np.array([0, 1])
    assert bootstrap_precision(answers, scores, groups) == (1.0, 1.0)
    assert bootstrap_precision(answers & False, scores, groups) == (0.0, 1.0)


def test_guesses_follow_merged_classes(make: Make) -> None:
    campaign = make()
    say(campaign, held(campaign))
    campaign.predict(guess(1, 2))
    assert campaign.curve()[0].value == 0
    campaign.merge_classes("dog", "cat")
    half = campaign.curve()[0]
    assert half.value == np.mean([row % 2 == 0 for row in held(campaign)])
    assert half.n == 10


def test_probabilities_follow_merged_classes(make: Make) -> None:
    campaign = make(kind="multi-label")
    rows = held(campaign)
    say(campaign, rows[:5], ("cat",))
    campaign.ingest([Answer(f"r{row}", "none-of-these", None, "ana") for row in rows[5:]])
    chances = np.full((N, 3), 0.1)
    chances[rows[:5], 1] = 0.9
    campaign.predict(chances)
    campaign.merge_classes("dog", "cat")
    assert campaign.curve()[0].value == 1
    assert campaign.curve()[0].n == 20


def test_pairs_follow_merged_classes(make: Make) -> None:
    campaign = make(kind="pairs")
    rows = held(campaign)
    say(campaign, rows[:5], 1, class_="cat")
    say(campaign, rows[5:], 0, class_="cat")
    chances = np.full((N, 3), 0.1)
    chances[rows[:5], 1] = 0.9
    campaign.predict(chances)
    campaign.merge_classes("dog", "cat")
    found = campaign.curve()[0]
    assert (found.value, found.n) == (1, 10)
    assert [one.right.all() for one in rounds(campaign)] == [True]


# The stop set and rounds.


def rounds(campaign: Campaign) -> list[Any]:
    return curves.read_rounds(campaign._database, campaign._shelf, campaign._holdings)


def test_the_stop_set_is_drawn_once_from_what_has_no_label(make: Make) -> None:
    campaign = make()
    rows = held(campaign)
    say(campaign, range(20))
    batch = campaign.next(7)
    first = curves.find_watch(campaign._database, campaign._holdings)
    assert not set(first.rows.tolist()) & set(range(20)).difference(rows)
    assert not set(first.rows.tolist()) & set(campaign.batch(batch)["row"].tolist())
    assert set(rows) < set(first.rows.tolist())
    say(campaign, range(60))
    again = curves.find_watch(campaign._database, campaign._holdings, seed=3)
    np.testing.assert_array_equal(first.rows, again.rows)


def test_the_stop_set_is_no_larger_than_needed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "STOP_SET_SIZE", 6)
    campaign = make(kind="pairs")
    found = curves.find_watch(campaign._database, campaign._holdings)
    assert len(found.rows) == 10 * 3 + 6
    np.testing.assert_array_equal(campaign._holdings.pairs.rows[found.at], found.rows)


def test_rounds_of_rows(make: Make) -> None:
    campaign = make()
    rows = held(campaign)
    say(campaign, rows)
    others = [row for row in range(N) if row not in rows]
    for count, columns in ((4, (0, 1)), (9, (0, 0, 1)), (15, (0,))):
        say(campaign, others[:count])
        campaign.predict(guess(columns))
    picked = campaign.batch(campaign.next(3, strategy="margin"))["row"].tolist()
    say(campaign, picked, dict(zip(picked, ("cat", "cat", "dog"), strict=True)))
    found = rounds(campaign)
    assert [one.labels for one in found] == [4, 9, 15]
    assert [one.right.tolist() for one in found] == [
        [row % 2 == 0 for row in rows],
        [row % 3 < 2 for row in rows],
        [True] * 10,
    ]
    assert [len(one.predictions) for one in found] == [N - 10 - 4] * 3
    assert set(found[2].predictions.tolist()) == {0}
    assert found[0].confidence == pytest.approx(0.7)
    assert [one.picked for one in found] == [None, None, (2, 3)]


def test_rounds_of_sets(make: Make) -> None:
    campaign = make(kind="multi-label")
    rows = held(campaign)
    say(campaign, rows, ("cat", "dog"))
    chances = np.full((N, 3), 0.1)
    chances[:, 0] = 0.9
    chances[rows[:4], 1] = 0.6
    campaign.predict(chances)
    (found,) = rounds(campaign)
    assert found.right.tolist() == [True] * 4 + [False] * 6
    assert len(found.predictions) == 3 * (N - 10)
    assert found.predictions.reshape(-1, 3)[0].tolist() == [1, 0, 0]


def test_rounds_of_pairs(make: Make) -> None:
    campaign = make(kind="pairs")
    rows = held(campaign)
    say(campaign, rows, 1, class_="cat")
    say(campaign, rows, 1, class_="dog")
    chances = np.full((N, 3), 0.1)
    chances[:, 0] = 0.9
    campaign.predict(chances)
    batch = campaign.next(4, strategy="margin")
    tasks = campaign.batch(batch)
    campaign.ingest(
        [
            Answer(id_, "answer", 1, "ana", class_=class_)
            for id_, class_ in zip(tasks["id"].tolist(), tasks["class"].tolist(), strict=True)
        ]
    )
    (found,) = rounds(campaign)
    assert found.right.tolist() == [True, False] * 10
    assert sorted(set(found.predictions.tolist())) == [0, 1]
    assert found.picked == ((tasks["class"] == "cat").sum(), 4)


def test_rounds_grow(make: Make) -> None:
    campaign = make()
    for count in (4, 9, 9):
        say(campaign, range(20, 20 + count))
        campaign.predict(guess(0))
    assert len({one.labels for one in campaign.curve()}) == 2
    assert len(rounds(campaign)) == 2
    campaign.retract(annotator="ana")
    say(campaign, range(40, 46))
    campaign.predict(guess(0))
    counts = [one.labels for one in rounds(campaign)]
    assert counts == sorted(set(counts))
    assert counts[-1] == campaign.curve()[-1].labels


def test_retired_rows_leave_the_stop_set(make: Make) -> None:
    campaign = make()
    campaign.predict(guess(0))
    before = len(rounds(campaign)[0].predictions)
    gone = next(row for row in range(N) if row not in held(campaign))
    campaign.retire([f"r{gone}"])
    assert len(rounds(campaign)[0].predictions) == before - 1


# Advice.


def test_every_rule_speaks(make: Make) -> None:
    campaign = make()
    assert campaign.stop_advice().verdict == CANNOT_TELL
    rows = held(campaign)
    say(campaign, rows)
    others = [row for row in range(N) if row not in rows]
    for count in range(1, 5):
        say(campaign, others[: 5 * count])
        columns = 1 + np.arange(N) % 2
        columns[rows[: 2 * count]] = 0
        campaign.predict(guess(columns))
        campaign.next(2, strategy="margin", seed=count)
    advice = campaign.stop_advice(batch=10)
    assert advice.verdict == GO_ON
    assert [one.rule.name for one in advice.rules] == [rule.name for rule in RULES]
    by_name = {one.rule.name: one.found for one in advice.rules}
    assert by_name["plateau"].statistic == pytest.approx(0.2)
    assert by_name["gradient"].statistic is not None
    assert by_name["falling confidence"].statistic is not None
    assert "rows; at least" in by_name["stabilizing predictions"].reason
    assert len(by_name["stabilizing predictions"].series) == 3
    status = campaign.status()
    assert status.measured == campaign.curve()[-1]
    assert str(status).splitlines()[-1] == f"stop?    go on: {advice.reason}"


def test_a_spent_budget_means_stop(make: Make) -> None:
    campaign = make()
    say(campaign, range(30))
    campaign.predict(guess(0))
    campaign.set_budget(money=3.0, per_answer=0.1)
    advice = campaign.stop_advice()
    assert (advice.verdict, advice.reason) == (STOP, "The budget of 30 labels is spent.")
    campaign.set_budget(labels=100)
    assert "70 of 100 labels are left" in campaign.stop_advice().rules[-1].found.reason
