"""What a run found: areas, savings and paired intervals against answers worked by hand and against scipy."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hedgerow.errors import InputError
from hedgerow.experiments import findings
from hedgerow.experiments.claims import CIFAR, CLAIMS, OPEN_IMAGES, SVHN, Claim, list_claims
from hedgerow.experiments.findings import Comparison, Family, Findings, Point, judge_training
from hedgerow.experiments.pages import show_interval
from hedgerow.experiments.recipes import list_recipes
from hedgerow.experiments.records import Held
from hedgerow.metrics import HIGHER_IS_BETTER
from hedgerow.rounds import Round

ALONE = Family(1, 0.002)


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


def compare(
    ours: dict[int, float], theirs: dict[int, float], family: Family = ALONE, higher: bool = True
) -> Comparison:
    return findings.compare_pair(("a", ours), ("b", theirs), "area", higher, family)


def test_savings_over_a_strategy_that_is_best_with_the_seed_set_are_none() -> None:
    """All strategies have the seed set, so all of them "reach" it, with 100 % of its labels."""
    points = [Point("a", 0, 10, 0.9, None, 1), Point("a", 1, 20, 0.95, None, 1)]
    points += [Point("b", 0, 10, 0.9, None, 1), Point("b", 1, 20, 0.7, None, 1)]
    ours, theirs = findings.weigh_savings(points)
    assert (ours.other, ours.labels, ours.share, ours.at) == ("b", None, None, 10)
    assert (theirs.other, theirs.share, theirs.at) == ("a", None, 20)


def test_the_interval_is_that_of_a_paired_t_test() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(0.8, 0.01, 8), rng.normal(0.79, 0.01, 8)
    for comparisons in (1, 5):
        found = compare(dict(enumerate(ours)), dict(enumerate(theirs)), Family(comparisons, 0.002))
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
    assert compare(dict(enumerate(ours)), theirs, higher=higher).verdict == verdict


# Differences d, 2d, 3d: mean 2d, standard error d / sqrt(3). By the tables, t with 2 degrees of freedom has the
# quantile 4.302653 at 0.975 and 6.205347 at 0.9875, so the half-widths are 2.484138 d (m = 1) and 3.582659 d (m = 2).
@pytest.mark.parametrize(
    ("step", "comparisons", "low", "high", "verdict"),
    [
        (0.0004, 1, -0.000194, 0.001794, "equal within 0.002"),
        (0.0004, 2, -0.000633, 0.002233, "undecided"),  # the same data among two comparisons
        (0.00044, 1, -0.000213, 0.001973, "equal within 0.002"),
        (0.00045, 1, -0.000218, 0.002018, "undecided"),  # it crosses the margin
        (-0.0004, 1, -0.001794, 0.000194, "equal within 0.002"),
        (-0.00045, 1, -0.002018, 0.000218, "undecided"),
    ],
)
def test_equality_by_two_one_sided_tests(step: float, comparisons: int, low: float, high: float, verdict: str) -> None:
    found = compare({0: step, 1: 2 * step, 2: 3 * step}, {0: 0.0, 1: 0.0, 2: 0.0}, Family(comparisons, 0.002))
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-6), pytest.approx(high, abs=1e-6))
    assert found.verdict == verdict
    values = np.array([step, 2 * step, 3 * step])
    sides = [
        stats.ttest_1samp(values, -0.002, alternative="greater").pvalue,
        stats.ttest_1samp(values, 0.002, alternative="less").pvalue,
    ]
    assert (max(sides) < 0.05 / comparisons / 2) == verdict.startswith("equal")


@pytest.mark.parametrize(
    ("low", "high", "higher", "verdict"),
    [
        (0.0001, 0.0019, True, "equal within 0.002"),  # above zero, but by less than matters
        (0.0001, 0.0021, True, "better"),
        (0.0001, 0.0021, False, "worse"),
        (-0.0021, -0.0001, True, "worse"),
        (-0.0021, -0.0001, False, "better"),
        (-0.0019, 0.0019, True, "equal within 0.002"),
        (-0.002, 0.0, True, "undecided"),  # the margin itself is outside
        (0.0, 0.003, True, "undecided"),
        (-0.0021, 0.0021, True, "undecided"),
    ],
)
def test_every_interval_has_one_verdict(low: float, high: float, higher: bool, verdict: str) -> None:
    assert ALONE.judge(low, high, higher) == verdict
    assert ALONE.judge(-high, -low, not higher) == verdict


def test_one_trial_decides_nothing() -> None:
    rounds = make_rounds({"a": [[0.5, 0.7, 0.9]], "b": [[0.5, 0.6, 0.6]], "c": [[0.5, 0.6, 0.6]]})
    wanted = findings.list_comparisons(make_recipe("abc", baseline="b"))
    found = findings.compare_all(rounds, wanted, "accuracy", ALONE)
    first, last, area = (one for one in found if one.strategy == "a")
    assert (first.mean, last.mean, area.mean) == (pytest.approx(0.1), pytest.approx(0.3), pytest.approx(0.125))
    assert {(one.low, one.high, one.verdict) for one in found} == {(None, None, "one trial")}  # c is not called equal


def test_only_trials_that_both_have_are_compared() -> None:
    found = compare({0: 1.0, 1: 2.0, 5: 9.0}, {0: 0.0, 1: 1.0, 2: 7.0})
    assert (found.mean, found.trials) == (1.0, 2)


def test_the_same_difference_in_every_trial_is_no_verdict() -> None:
    """Accuracy is a count over the test set, so this happens by chance; the interval would have no width."""
    ours, theirs = {0: 505 / 597, 1: 503 / 597}, {0: 516 / 597, 1: 514 / 597}
    found = compare(ours, theirs, Family(21, 0.002))
    assert found.mean == pytest.approx(-11 / 597)
    assert (found.low, found.high, found.trials, found.verdict) == (None, None, 2, "undecided")
    assert found.flip() == replace(compare(theirs, ours, Family(21, 0.002)), strategy="b", baseline="a")
    assert show_interval(found) == "-0.0184 [same in all trials]"
    assert compare({0: 0.5, 1: 0.6, 2: 0.7}, {0: 0.49, 1: 0.59, 2: 0.69}).verdict == "undecided"
    assert compare({0: 0.5, 1: 0.6}, {0: 0.4999, 1: 0.5999}).verdict == "undecided"  # nor is it equality
    assert judge_training(found, 0.002, True) == "undecided: the same difference in every trial"


def test_identical_curves_are_equal() -> None:
    same = compare({0: 0.5, 1: 0.6}, {0: 0.5, 1: 0.6})
    assert (same.low, same.high, same.verdict) == (0, 0, "equal within 0.002")
    assert compare({0: 0.5, 1: 0.1 + 0.2}, {0: 0.5, 1: 0.3}).verdict == "equal within 0.002"  # up to rounding


def make_recipe(names: Iterable[str], **settings: Any) -> dict[str, Any]:
    recipe = {"name": "none", "baseline": "margin", "rounds": 2, "batch_size": [10], "metric": "accuracy"}
    return recipe | {"strategies": [{"name": name} for name in names]} | settings


SVHN_ARMS = ("cluster-margin", "margin", "badge", "coreset", "random")


def test_a_comparison_is_counted_once_however_many_tables_show_it() -> None:
    recipe = make_recipe(SVHN_ARMS, name="svhn", batch_size=[10, 20])
    wanted = findings.list_comparisons(recipe)
    # 4 strategies minus margin, 3 times; of the 8 claims about these on SVHN, 4 are about areas minus margin already
    assert len(wanted) == 4 * 3 + 4
    assert len({(frozenset((ours, theirs)), of) for ours, theirs, of in wanted}) == len(wanted)
    assert findings.gather_family(recipe) == Family(2 * 16, 0.002)
    assert findings.gather_family(recipe).confidence == pytest.approx(1 - 0.05 / 32)
    assert len(findings.list_comparisons(recipe | {"rounds": 1})) == 4 * 2 + 4  # the first round is the last
    assert len(findings.list_comparisons(recipe | {"name": "somebody's"})) == 4 * 3


def test_the_reverse_of_a_comparison_has_the_reverse_verdict() -> None:
    rng = np.random.default_rng(2)
    arms = {name: rng.normal(0.8 + 0.02 * place, 0.004, (6, 3)).tolist() for place, name in enumerate(SVHN_ARMS)}
    recipe = make_recipe(arms, name="svhn")
    held = Held(recipe, {}, {10: tuple(make_rounds(arms))}, (), (), None)
    found = findings.find(held, 10)
    assert {one.verdict for one in found.comparisons} >= {"better", "worse"}
    assert len(found.comparisons) == findings.gather_family(recipe).comparisons
    for one in found.comparisons:
        areas = findings.measure_areas(held.rounds[10], "accuracy")
        back = found.look_up(one.baseline, one.strategy, one.of)
        assert back == one.flip()
        assert found.look_up(one.strategy, one.baseline, one.of) == one == one.flip().flip()
        if one.of == "area":
            sides = (one.baseline, areas[one.baseline]), (one.strategy, areas[one.strategy])
            assert findings.compare_pair(*sides, "area", True, findings.gather_family(recipe)) == back
    claims = found.check_claims("svhn")
    assert len(claims) == len(SVHN) - 1  # without BADGE in ten partitions
    assert all(one == found.look_up(claim.strategy, claim.other, "area") for claim, one in claims)
    assert found.look_up("cluster-margin", "nobody", "area") is None
    assert Findings.from_json(found.to_json()) == found


def test_verdicts_do_not_depend_on_the_order_of_rounds_or_strategies() -> None:
    rng = np.random.default_rng(3)
    arms = {name: rng.normal(0.8 + 0.003 * place, 0.004, (5, 3)).tolist() for place, name in enumerate(SVHN_ARMS)}
    rounds, shuffled = make_rounds(arms), make_rounds(arms)
    rng.shuffle(shuffled)  # type: ignore[arg-type]
    one = findings.find(Held(make_recipe(arms, name="svhn"), {}, {10: tuple(rounds)}, (), (), None), 10)
    other = findings.find(Held(make_recipe(reversed(arms), name="svhn"), {}, {10: tuple(shuffled)}, (), (), None), 10)
    for found in one.comparisons:
        assert other.look_up(found.strategy, found.baseline, found.of) == found


@pytest.mark.parametrize(
    ("shift", "false"),
    [(0.0, {"better", "worse"}), (0.002, {"worse", "equal within 0.002"}), (0.001, {"worse"})],
    ids=["no difference", "a difference of the margin", "a difference within the margin"],
)
def test_a_report_without_differences_rarely_claims_one(shift: float, false: set[str]) -> None:
    """2,000 reports of ten comparisons with one baseline: at most 5 % have a false verdict, within three errors."""
    rng = np.random.default_rng(4)
    reports, family = 2_000, Family(10, 0.002)
    wrong, uncorrected = 0, 0
    for scale in (0.0004, 0.004):  # one at which equality is often found, and one at which nothing is
        for _ in range(reports // 2):
            baseline = dict(enumerate(rng.normal(0, scale, 5)))
            arms = [dict(enumerate(rng.normal(shift, scale, 5))) for _ in range(family.comparisons)]
            wrong += any(compare(arm, baseline, family).verdict in false for arm in arms)
            uncorrected += any(compare(arm, baseline, ALONE).verdict in false for arm in arms)
    allowed = 0.05 + 3 * (0.05 * 0.95 / reports) ** 0.5
    assert wrong / reports <= allowed
    assert (uncorrected / reports > allowed) == (shift != 0.001)  # so the correction is what keeps it


@pytest.mark.parametrize(
    ("relation", "verdict", "judgment"),
    [
        ("above", "better", "yes"),
        ("above", "worse", "no: below"),
        ("above", "equal within 0.002", "no: equal within 0.002"),
        ("level", "equal within 0.002", "yes"),
        ("level", "better", "no: above"),
        ("level", "worse", "no: below"),
        ("not above", "worse", "yes"),
        ("not above", "equal within 0.002", "yes"),
        ("not above", "better", "no: above"),
        *((relation, verdict, verdict) for relation in ("above", "level", "not above")
          for verdict in ("undecided", "one trial")),
    ],
)  # fmt: skip
def test_a_claim_is_judged_by_its_verdict(relation: str, verdict: str, judgment: str) -> None:
    assert Claim("a", relation, "b").judge(verdict) == judgment


def test_the_claims_of_the_paper_point_both_ways() -> None:
    large = {str(claim) for claim in OPEN_IMAGES}
    assert {f"{name} is above random" for name in ("cluster-margin", "margin", "badge", "coreset")} <= large
    assert {"margin is above badge", "margin is above coreset", "cluster-margin is above margin"} <= large
    assert set(CLAIMS) <= set(list_recipes())
    assert {"badge is level with margin", "coreset is not above random"} <= {str(claim) for claim in CIFAR}
    assert list_claims("bibtex", ["margin", "random"]) == (Claim("margin", "above", "random"),)
    assert set(findings.EQUIVALENCE) == set(HIGHER_IS_BETTER)


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
