"""What a run found: areas, savings and paired intervals against answers worked by hand and against scipy."""

import numpy as np
import pytest
from scipy import stats

from hedgerow.experiments import findings
from hedgerow.report import Point
from hedgerow.rounds import Round


def make_rounds(values: dict[str, list[list[float]]]) -> list[Round]:
    """strategy -> trial -> accuracy by round; 10, 20, ... labels."""
    return [
        Round(trial, name, number, 10 * (number + 1), {"accuracy": value, "log_loss": -value}, np.zeros(0, np.int64))
        for name, trials in values.items()
        for trial, curve in enumerate(trials)
        for number, value in enumerate(curve)
    ]


def test_area_is_the_mean_height_of_the_curve() -> None:
    assert findings.measure_area([(10, 0.5), (20, 0.7), (40, 0.9)]) == pytest.approx((10 * 0.6 + 20 * 0.8) / 30)
    areas = findings.measure_areas(make_rounds({"a": [[0.5, 0.7], [0.6, 0.6]]}), "accuracy")
    assert areas == {"a": {0: pytest.approx(0.6), 1: pytest.approx(0.6)}}


@pytest.mark.parametrize(
    ("level", "labels"), [(0.5, 10.0), (0.4, 10.0), (0.6, 15.0), (0.7, 20.0), (0.8, 30.0), (0.9, 40.0), (0.91, None)]
)
def test_the_labels_at_which_a_curve_reaches_a_level(level: float, labels: float | None) -> None:
    assert findings.reach([(10, 0.5), (20, 0.7), (40, 0.9)], level) == (
        None if labels is None else pytest.approx(labels)
    )


def test_savings_as_in_the_papers_table_2() -> None:
    """Margin ends at 0.76 after 1.3M labels; Cluster-Margin is there after 920K: 71 %."""
    curves = {"cluster-margin": [(300, 0.70), (920, 0.76), (1300, 0.78)], "margin": [(300, 0.70), (1300, 0.76)]}
    points = [Point(name, i, n, mean, None, 1) for name, curve in curves.items() for i, (n, mean) in enumerate(curve)]
    ours, theirs = findings.weigh_savings(points)
    assert (ours.strategy, ours.other) == ("cluster-margin", "margin")
    assert round(100 * ours.share) == 71
    assert ours.best == 0.76
    assert (theirs.labels, theirs.share) == (None, None)


def test_savings_of_a_measure_that_is_better_when_lower() -> None:
    points = [Point("a", 0, 10, 0.9, None, 1), Point("a", 1, 20, 0.5, None, 1)]
    points += [Point("b", 0, 10, 0.9, None, 1), Point("b", 1, 20, 0.7, None, 1)]
    ours, theirs = findings.weigh_savings(points, higher_is_better=False)
    assert ours.share == pytest.approx(15 / 20)
    assert theirs.share is None


def test_the_interval_is_that_of_a_paired_t_test() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(0.8, 0.01, 8), rng.normal(0.79, 0.01, 8)
    for comparisons in (1, 5):
        found = findings.compare_pair(
            dict(enumerate(ours)), dict(enumerate(theirs)), "a", "b", "area", True, comparisons
        )
        peer = stats.ttest_rel(ours, theirs).confidence_interval(1 - 0.05 / comparisons)
        assert (found.low, found.high) == (pytest.approx(peer.low), pytest.approx(peer.high))
        assert found.trials == 8


@pytest.mark.parametrize(
    ("ours", "higher", "verdict"),
    [([0.91, 0.92, 0.93], True, "better"), ([0.71, 0.72, 0.73], True, "worse"), ([0.91, 0.92, 0.93], False, "worse"),
     ([0.71, 0.92, 0.83], True, "undecided")],
)  # fmt: skip
def test_a_difference_is_called_one_only_if_it_is(ours: list[float], higher: bool, verdict: str) -> None:
    theirs = {0: 0.81, 1: 0.82, 2: 0.8301}
    assert findings.compare_pair(dict(enumerate(ours)), theirs, "a", "b", "area", higher, 1).verdict == verdict


def test_one_trial_decides_nothing() -> None:
    rounds = make_rounds({"a": [[0.5, 0.7, 0.9]], "b": [[0.5, 0.6, 0.6]]})
    first, last, area = findings.compare_all(rounds, "b", "accuracy")
    assert (first.mean, last.mean, area.mean) == (pytest.approx(0.1), pytest.approx(0.3), pytest.approx(0.125))
    assert (last.low, last.high, last.verdict) == (None, None, "undecided")


def test_only_trials_that_both_have_are_compared() -> None:
    found = findings.compare_pair({0: 1.0, 1: 2.0, 5: 9.0}, {0: 0.0, 1: 1.0, 2: 7.0}, "a", "b", "area", True, 1)
    assert (found.mean, found.trials) == (1.0, 2)
