"""Stopping rules: statistics by hand, and simulated campaigns whose learning curves have or have not flattened."""

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hedgerow.campaign import stopping
from hedgerow.campaign.stopping import (
    CANNOT_TELL,
    GO_ON,
    STOP,
    Progress,
    RuleAdvice,
    Settings,
    StopAdvice,
    advise_stopping,
    bootstrap_mean,
    predict_change_of_f,
)
from hedgerow.errors import InputError


def look_up(advice: StopAdvice, name: str) -> RuleAdvice:
    return next(one for one in advice.rules if one.rule.name == name)


def answer_holdout(shares: list[float], n: int = 2000) -> list[npt.NDArray[np.bool_]]:
    """Whether each row is right, at these accuracies; what a model has right, the next one has too."""
    return [np.arange(n) < round(share * n) for share in shares]


def make_curve(shares: list[float], n: int = 2000) -> list[Progress]:
    return [Progress(labels=1000 * (place + 1), right=right) for place, right in enumerate(answer_holdout(shares, n))]


def simulate(ceiling: float, pace: float, *, rounds: int = 8, seed: int = 0) -> list[Progress]:
    """A campaign: accuracy approaches the ceiling; models change their mind where they are not yet right."""
    rng = np.random.default_rng(seed)
    difficulty, truth = rng.random(3000), rng.integers(0, 5, 3000)
    found = []
    for place in range(rounds):
        accuracy = ceiling * (1 - np.exp(-pace * (place + 1)))
        confused = (truth + rng.integers(1, 5, 3000)) % 5
        stable = (truth + 1) % 5  # what nobody learns is wrong in the same way every time
        guesses = np.where(difficulty < accuracy, truth, np.where(difficulty < ceiling, confused, stable))
        found.append(
            Progress(
                500 * (place + 1), guesses[:1500] == truth[:1500], guesses[1500:], accuracy, (int(100 * accuracy), 100)
            )
        )
    return found


# Each rule by hand.


def test_stable_predictions_stop() -> None:
    base = np.arange(1000) % 4
    moved = base.copy()
    moved[:4] = (moved[:4] + 1) % 4
    rounds = [Progress(10 * (place + 1), predictions=said) for place, said in enumerate([base, moved, moved, moved])]
    found = look_up(advise_stopping(rounds), "stabilizing predictions").found
    first = (0.996 - 0.25) / 0.75  # marginals are equal, so chance is 1/4
    assert found.verdict == STOP
    assert found.statistic == pytest.approx((first + 1 + 1) / 3)
    assert found.series == ((20, pytest.approx(first)), (30, 1.0), (40, 1.0))


def test_changing_predictions_go_on() -> None:
    rng = np.random.default_rng(0)
    rounds = [Progress(place + 1, predictions=rng.integers(0, 4, 1000)) for place in range(4)]
    advice = advise_stopping(rounds)
    found = look_up(advice, "stabilizing predictions").found
    assert found.verdict == GO_ON
    assert found.statistic == pytest.approx(0, abs=0.1)
    assert look_up(advice, "predicted change of F").found.verdict == GO_ON
    assert look_up(advice, "predicted change of F").found.statistic == pytest.approx(0.75, abs=0.05)


def test_predicted_change_of_f_by_hand() -> None:
    """Class 0: a 2, b 1, c 0 -> 1/5. Class 1: a 1, b 0, c 1 -> 1/3. Of pairs only yes counts."""
    before, after = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
    assert predict_change_of_f(before, after) == pytest.approx((1 / 5 + 1 / 3) / 2)
    assert predict_change_of_f(before, after, pairs=True) == pytest.approx(1 / 3)
    assert predict_change_of_f(before, before) == 0
    assert predict_change_of_f(np.zeros(3, int), np.zeros(3, int), pairs=True) is None


@pytest.mark.parametrize(
    ("confidence", "verdict", "falls"),
    [
        ([0.2, 0.5, 0.4, 0.3, 0.2], STOP, 3),
        ([0.2, 0.5, 0.4, 0.3], GO_ON, 2),
        ([0.5, 0.4, 0.3, 0.2, 0.3], GO_ON, 0),
        ([0.5, 0.4, 0.3], CANNOT_TELL, None),
    ],
)
def test_falling_confidence(confidence: list[float], verdict: str, falls: int | None) -> None:
    rounds = [Progress(place + 1, confidence=one) for place, one in enumerate(confidence)]
    found = look_up(advise_stopping(rounds), "falling confidence").found
    assert (found.verdict, found.statistic) == (verdict, falls)


@pytest.mark.parametrize(
    ("picked", "verdict"), [((980, 1000), STOP), ((500, 1000), GO_ON), ((9, 10), CANNOT_TELL), (None, CANNOT_TELL)]
)
def test_selected_accuracy(picked: Any, verdict: str) -> None:
    found = look_up(
        advise_stopping([Progress(1, picked=(1, 10)), Progress(2, picked=picked)]), "selected accuracy"
    ).found
    expected = GO_ON if picked is None else verdict  # the batch before is judged while this one has no answers
    assert found.verdict == expected
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.statistic < found.high  # type: ignore[operator]


def test_gradient_and_plateau_of_a_straight_line() -> None:
    """Accuracy 0.5, 0.55, 0.6 at 1,000, 2,000, 3,000 labels: 0.05 per 1,000 labels, so 0.1 for 2,000."""
    advice = advise_stopping(make_curve([0.5, 0.55, 0.6]), Settings(batch=2000))
    gradient, plateau = look_up(advice, "gradient").found, look_up(advice, "plateau").found
    assert gradient.statistic == pytest.approx(0.1)
    assert plateau.statistic == pytest.approx(0.05)
    assert gradient.low < 0.1 < gradient.high  # type: ignore[operator]
    assert gradient.verdict == plateau.verdict == advice.verdict == GO_ON
    assert plateau.series == ((1000, 0.5), (2000, 0.55), (3000, 0.6))


def test_a_flat_curve_stops_and_a_small_holdout_cannot_tell() -> None:
    flat = advise_stopping(make_curve([0.8, 0.8, 0.8]))
    assert [look_up(flat, name).found.verdict for name in ("gradient", "plateau")] == [STOP, STOP]
    assert flat.verdict == STOP
    small = advise_stopping(make_curve([0.5, 0.6, 0.6], 10))
    assert look_up(small, "plateau").found.verdict == CANNOT_TELL
    assert "a holdout of 10 is too small" in look_up(small, "plateau").found.reason
    assert small.verdict == CANNOT_TELL


def test_least_gain_is_the_users_to_set() -> None:
    """Each round adds one point: too little for whom two points per batch are the least."""
    curve = make_curve([0.80, 0.81, 0.82], 4000)
    assert advise_stopping(curve).verdict == GO_ON
    advice = advise_stopping(curve, Settings(least_gain=0.02))
    assert advice.verdict == STOP
    assert look_up(advice, "plateau").threshold == 0.02


def test_the_bootstrap_interval_is_that_of_the_normal_approximation() -> None:
    values = np.repeat([-1.0, 0.0, 1.0], [100, 700, 200])
    low, high = bootstrap_mean(values)
    half = 1.96 * values.std() / np.sqrt(1000)
    assert (low, high) == pytest.approx((0.1 - half, 0.1 + half), abs=0.004)
    assert bootstrap_mean(values) == (low, high)
    assert bootstrap_mean(values, seed=1) != (low, high)


def test_budget() -> None:
    rounds = make_curve([0.5, 0.55, 0.6])
    spent = advise_stopping(rounds, Settings(budget=3000))
    assert (spent.verdict, look_up(spent, "budget").found.verdict) == (STOP, STOP)
    assert "The budget of 3,000 labels is spent" in spent.reason
    left = advise_stopping(rounds, Settings(budget=3500))
    assert (left.verdict, look_up(left, "budget").found.reason) == (GO_ON, "500 of 3,500 labels are left.")
    assert look_up(advise_stopping(rounds), "budget").found.verdict == CANNOT_TELL


# Campaigns.


@pytest.mark.parametrize("seed", range(5))
def test_a_campaign_that_has_flattened_may_stop(seed: int) -> None:
    advice = advise_stopping(simulate(0.85, 3.0, seed=seed))
    verdicts = {one.rule.name: one.found.verdict for one in advice.rules}
    assert advice.verdict == STOP
    assert verdicts["stabilizing predictions"] == verdicts["predicted change of F"] == verdicts["plateau"] == STOP


@pytest.mark.parametrize("seed", range(5))
def test_a_campaign_that_still_learns_goes_on(seed: int) -> None:
    advice = advise_stopping(simulate(0.9, 0.15, seed=seed))
    verdicts = {one.rule.name: one.found.verdict for one in advice.rules}
    assert advice.verdict == GO_ON
    assert STOP not in verdicts.values()
    assert verdicts["stabilizing predictions"] == verdicts["gradient"] == verdicts["plateau"] == GO_ON


def test_before_the_first_round_no_rule_can_tell() -> None:
    advice = advise_stopping([])
    assert {one.found.verdict for one in advice.rules} == {advice.verdict} == {CANNOT_TELL}


def test_rules_without_a_holdout_do_not_decide() -> None:
    steady = np.arange(1000) % 4
    advice = advise_stopping([Progress(place + 1, predictions=steady) for place in range(4)])
    assert look_up(advice, "stabilizing predictions").found.verdict == STOP
    assert advice.verdict == CANNOT_TELL
    assert "stabilizing predictions, predicted change of F: stop" in advice.reason


def test_a_small_or_degenerate_stop_set_cannot_tell() -> None:
    few = advise_stopping([Progress(place + 1, predictions=np.arange(100) % 4) for place in range(4)])
    assert "The stop set has 100 rows" in look_up(few, "stabilizing predictions").found.reason
    one_class = advise_stopping([Progress(place + 1, predictions=np.zeros(1000, int)) for place in range(4)])
    assert look_up(one_class, "stabilizing predictions").found.verdict == CANNOT_TELL
    no_yes = advise_stopping(
        [Progress(place + 1, predictions=np.zeros(1000, int)) for place in range(4)], Settings(pairs=True)
    )
    assert look_up(no_yes, "predicted change of F").found.verdict == CANNOT_TELL


def test_advice_is_json_with_a_citation_for_every_rule() -> None:
    found = json.loads(json.dumps(advise_stopping(simulate(0.85, 3.0)).to_json(), allow_nan=False))
    assert found["verdict"] == STOP
    assert len(found["rules"]) == len(stopping.RULES) == 7
    assert found["rules"][-1]["threshold"] is None  # no budget
    assert all(one["citation"] and one["reason"] and one["needs"] and one["origin"] for one in found["rules"])


@pytest.mark.parametrize(
    ("rounds", "settings", "message"),
    [
        ([Progress(5), Progress(5)], Settings(), "oldest first"),
        ([Progress(1, np.ones(3, bool)), Progress(2, np.ones(4, bool))], Settings(), "same holdout, but their sizes"),
        ([Progress(1, np.ones(0, bool))], Settings(), "same holdout"),
        ([], Settings(least_gain=0), "least_gain must be greater than 0"),
        ([], Settings(confidence=1.5), "confidence must be between 0 and 1"),
        ([], Settings(batch=0), "batch must be at least 1"),
    ],
)
def test_wrong_input_is_refused(rounds: list[Progress], settings: Settings, message: str) -> None:
    with pytest.raises(InputError, match=message):
        advise_stopping(rounds, settings)


def test_what_is_spent_may_be_counted_elsewhere() -> None:
    rounds = make_curve([0.5])  # 1,000 labels
    found = look_up(advise_stopping(rounds, Settings(budget=1500, spent=1500)), "budget").found
    assert (found.verdict, found.statistic) == (STOP, 1500)
    found = look_up(advise_stopping(rounds, Settings(budget=1500)), "budget").found
    assert (found.verdict, found.statistic) == (GO_ON, 1000)
    with pytest.raises(InputError, match="spent"):
        advise_stopping(rounds, Settings(spent=-1))


def test_rules_without_the_holdout_that_say_go_on() -> None:
    advice = advise_stopping([Progress(100, picked=(10, 100))])
    assert advice.verdict == CANNOT_TELL
    assert advice.reason == "selected accuracy: go on; but the holdout does not decide it."
    # A budget that is not spent is no reason to go on.
    advice = advise_stopping([Progress(100)], Settings(budget=1000))
    assert advice.reason == "No rule has enough to go on: see what each of them needs."
