"""What a run found: areas, savings and paired intervals against answers worked by hand and against scipy."""

import numpy as np
import pytest
from scipy import stats

from hedgerow.errors import InputError
from hedgerow.experiments import findings
from hedgerow.experiments.findings import Point
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


def make_curves(values: dict[str, list[list[float]]]) -> list[Round]:
    """strategy -> trial -> round -> accuracy."""
    return [
        Round(trial, strategy, number, 100 + 50 * number, {"accuracy": value}, np.arange(50))
        for strategy, trials in values.items()
        for trial, curve in enumerate(trials)
        for number, value in enumerate(curve)
    ]


def test_means_and_standard_errors_by_hand() -> None:
    points = findings.summarize(
        make_curves({"a": [[0.5, 0.7], [0.6, 0.9], [0.7, 0.8]], "b": [[0.1, 0.2], [0.1, 0.4], [0.1, 0.6]]})
    )
    assert [(point.strategy, point.round, point.labeled) for point in points] == [
        ("a", 0, 100),
        ("a", 1, 150),
        ("b", 0, 100),
        ("b", 1, 150),
    ]
    assert [point.mean for point in points] == pytest.approx([0.6, 0.8, 0.1, 0.4])
    # s = 0.1 over sqrt(3); no spread at all; s = 0.2 over sqrt(3)
    assert [point.error for point in points] == pytest.approx([0.057735, 0.057735, 0, 0.115470], abs=1e-6)
    assert {point.trials for point in points} == {3}


def test_differences_are_taken_within_a_trial() -> None:
    rounds = make_curves({"a": [[0.5, 0.7], [0.7, 0.8]], "b": [[0.5, 0.8], [0.7, 0.88]], "c": [[0.5, 0.6], [0.7, 0.9]]})
    points = [point for point in findings.compare(rounds, "a") if point.round == 1]
    # b gains 0.1 and 0.08: an error of 0.01, although accuracies differ more between trials; c -0.1 and 0.1
    assert [(point.strategy, f"{point:+}") for point in points] == [("b", "+0.090 ± 0.010"), ("c", "+0.000 ± 0.100")]


def test_one_trial_has_no_error() -> None:
    assert findings.estimate([0.25]) == (0.25, None)
    (point,) = findings.summarize(make_curves({"a": [[0.25]]}))
    assert str(point) == f"{point}" == "0.250"
    assert f"{point:+}" == "+0.250"
    assert str(Point("a", 0, 1, 0.25, 0.0125, 2)) == "0.250 ± 0.013"
    assert str(Point("a", 0, 1, 0.25, 0.0004, 2)) == "0.2500 ± 0.0004"


def test_trials_of_different_sizes_are_not_averaged() -> None:
    rounds = [Round(trial, "a", 1, 100 + trial, {"accuracy": 0.5}, np.arange(3)) for trial in range(2)]
    with pytest.raises(InputError, match="differ in labels after round 1"):
        findings.summarize(rounds)
