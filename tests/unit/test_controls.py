"""A recipe with controls: which arms are added, and what the report credits to them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import make_results
from hedgerow.errors import InputError, StoreError
from hedgerow.experiments import (
    Arm,
    Clustering,
    Dataset,
    Recipe,
    add_controls,
    list_recipes,
    load_recipe,
    report_experiment,
    run_experiment,
)
from hedgerow.experiments.findings import Findings, compare_pair, gather_family, list_controlled, measure_areas
from hedgerow.experiments.pages import CREDIT, split_series
from hedgerow.experiments.recipes import parse_recipe
from hedgerow.experiments.records import list_settings, read_run
from hedgerow.models import SklearnTrainer
from hedgerow.pairs import (
    ClusterMarginPairs,
    InformedClusterMargin,
    InformedRandom,
    ShuffledClusterMarginPairs,
    UniformCandidatePairs,
)
from hedgerow.strategies import (
    ClusterMargin,
    Hedge,
    Margin,
    Random,
    ShuffledClusterMargin,
    ShuffledHedge,
    UniformCandidates,
)

SIZES: dict[str, Any] = {"seed_size": 10, "batch_size": (10,), "rounds": 2, "trials": 3}
COARSE = Clustering(average_size=20.0)


def make_recipe(*arms: Arm) -> Recipe:
    return Recipe("mine", arms, **SIZES)


def list_added(recipe: Recipe, unit: str) -> dict[str, tuple[Any, tuple[str, ...], str]]:
    """name -> (strategy, what it is a control of, what it lacks) of the arms that are added."""
    whole = add_controls(recipe, unit)
    assert whole.strategies[: len(recipe.strategies)] == recipe.strategies
    added = whole.strategies[len(recipe.strategies) :]
    return {arm.name: (arm.strategy, arm.control_of, arm.lacks) for arm in added}


def test_rows_get_shuffled_clusters_and_uniform_candidates() -> None:
    recipe = make_recipe(Arm("ours", ClusterMargin(3.0, power=1.0), COARSE), Arm("margin", Margin()))
    assert list_added(recipe, "row") == {
        "ours, shuffled clusters": (ShuffledClusterMargin(3.0, 1.0), ("ours",), "clusters"),
        "ours, uniform candidates": (UniformCandidates(3.0, 1.0), ("ours",), "clusters and round-robin"),
    }
    assert add_controls(recipe, "row").strategies[2].clusters == COARSE


def test_pairs_get_controls_of_the_second_step_as_well() -> None:
    options: dict[str, Any] = {"margin_factor": 1.5, "power": 1.0, "by_class": True, "per_row": 1, "class_quota": 9}
    two = ClusterMargin(3.0, row_margin="mean")
    recipe = make_recipe(Arm("two", two), Arm("one", ClusterMarginPairs(**options)))
    assert list_added(recipe, "pair") == {
        "two, shuffled clusters": (ShuffledClusterMargin(3.0, row_margin="mean"), ("two",), "clusters"),
        "two, uniform candidates": (UniformCandidates(3.0, None, "mean"), ("two",), "clusters and round-robin"),
        "two, informed pairs": (InformedClusterMargin(3.0, row_margin="mean"), ("two",), "random second step"),
        "random rows, informed pairs": (InformedRandom(), ("two, informed pairs",), "choice of rows"),
        "one, shuffled clusters": (ShuffledClusterMarginPairs(**options), ("one",), "clusters"),
        "one, uniform candidates": (UniformCandidatePairs(**options), ("one",), "clusters and round-robin"),
    }


def test_an_informed_strategy_has_controls_of_its_own() -> None:
    recipe = make_recipe(Arm("informed", InformedClusterMargin(3.0)))
    assert list_added(recipe, "pair") == {
        "informed, shuffled clusters": (InformedClusterMargin(3.0, None, True), ("informed",), "clusters"),
        "random rows, informed pairs": (InformedRandom(), ("informed",), "choice of rows"),
    }


def test_controls_of_pairs_are_not_added_twice() -> None:
    recipe = make_recipe(Arm("two", ClusterMargin(3.0)), Arm("own", InformedClusterMargin(5.0)))
    whole = add_controls(recipe, "pair")
    assert add_controls(whole, "pair") == whole
    listed = load_recipe("bibtex")  # controls = true
    assert add_controls(listed) == listed
    assert replace(listed, trials=7).strategies == listed.strategies


def test_hedge_gets_shuffled_clusters_for_rows_and_for_pairs() -> None:
    recipe = make_recipe(Arm("hedge", Hedge(power=5.0)), Arm("margin", Margin()))
    for unit in ("row", "pair"):
        assert list_added(recipe, unit) == {
            "hedge, shuffled clusters": (ShuffledHedge(power=5.0), ("hedge",), "clusters")
        }


def test_strategies_share_the_controls_that_are_the_same() -> None:
    recipe = make_recipe(Arm("fine", ClusterMargin(3.0)), Arm("coarse", ClusterMargin(3.0), COARSE))
    added = list_added(recipe, "row")
    assert list(added) == ["fine, shuffled clusters", "fine, uniform candidates", "coarse, shuffled clusters"]
    assert added["fine, uniform candidates"][1] == ("fine", "coarse")
    assert add_controls(add_controls(recipe)) == add_controls(recipe)  # nothing is added twice
    listed = make_recipe(*recipe.strategies, Arm("thinned", UniformCandidates(3.0)))
    thinned = add_controls(listed).strategies[2]
    assert (thinned.name, thinned.control_of, thinned.lacks) == (
        "thinned",
        ("fine", "coarse"),
        "clusters and round-robin",
    )


def test_where_all_candidates_are_picked_clusters_are_not_controlled() -> None:
    recipe = make_recipe(Arm("all", ClusterMargin(1.0)), Arm("some", ClusterMargin(1.25)))
    assert {arm.control_of for arm in add_controls(recipe).strategies} == {(), ("some",)}
    with pytest.raises(InputError, match=r"'mine' has no strategy that controls are known for.*--with-controls"):
        add_controls(make_recipe(Arm("all", ClusterMargin(1.0)), Arm("random", Random())))
    assert list(list_added(make_recipe(Arm("all", ClusterMarginPairs(1.0, per_row=1))), "pair"))


@pytest.mark.parametrize("name", sorted(set(list_recipes()) - {"ablation-badge"}))
def test_every_shipped_recipe_with_clusters_can_have_controls(name: str) -> None:
    recipe = load_recipe(name)
    whole = add_controls(recipe)
    names = [arm.name for arm in recipe.strategies]
    assert [arm.name for arm in whole.strategies][: len(names)] == names
    controlled = {ours for ours, _ in list_controlled(whole.describe())}
    for arm in recipe.strategies:
        if arm.control_of:  # a recipe may have controls of its own
            continue
        if arm.stream:  # a strategy that is run twice is controlled once
            continue
        crowded = getattr(arm.strategy, "margin_factor", 1) > 1 or type(arm.strategy) is Hedge
        assert (arm.name in controlled) == crowded
        shuffled = [other for other in whole.strategies if arm.name in other.control_of and other.lacks == "clusters"]
        assert len(shuffled) == crowded


def test_a_recipe_may_name_its_controls() -> None:
    arms: list[dict[str, Any]] = [
        {"strategy": "cluster-margin"},
        {"strategy": "cluster-margin-shuffled", "control_of": "cluster-margin", "lacks": "clusters"},
        {"strategy": "uniform-candidates", "control_of": ["cluster-margin"], "lacks": "all clusters"},
    ]
    tables: dict[str, Any] = {
        "name": "mine",
        "dataset": {"name": "redundant-digits"},
        "model": {"kind": "perceptron"},
        **SIZES,
        "batch_size": 10,
    }
    recipe = parse_recipe(tables | {"strategies": arms})
    assert [arm.control_of for arm in recipe.strategies] == [(), ("cluster-margin",), ("cluster-margin",)]
    described = recipe.describe()["strategies"]
    assert [arm.get("lacks") for arm in described] == [None, "clusters", "all clusters"]
    for wrong, message in [
        ({"control_of": "cluster-margins"}, "unknown control_of of 'margin' 'cluster-margins': did you mean"),
        ({"control_of": "margin"}, "unknown control_of of 'margin' 'margin'"),
        ({"control_of": 3}, "must be the name of a strategy or a list of names, got 3"),
        ({"control_of": [3]}, "must be the name of a strategy or a list of names"),
        ({"lacks": "clusters"}, "has lacks = 'clusters', but no control_of"),
        ({"control_of": "cluster-margin"}, "'margin' has control_of, but no lacks: say what it lacks"),
        ({"control_of": "cluster-margin", "lacks": 3}, "lacks of 'margin' must be text"),
    ]:
        with pytest.raises(InputError, match=message):
            parse_recipe(tables | {"strategies": [*arms, {"strategy": "margin"} | wrong]})


def test_controls_in_a_circle_are_refused() -> None:
    one, other = Arm("one", Margin(), lacks="x"), Arm("other", Random(), lacks="y")
    with pytest.raises(InputError, match="'one' is a control of itself, by way of others: remove a control_of"):
        make_recipe(replace(one, control_of=("other",)), replace(other, control_of=("one",)))
    three = [replace(one, control_of=("other",)), replace(other, control_of=("third",))]
    with pytest.raises(InputError, match="a control of itself"):
        make_recipe(*three, Arm("third", Margin(), control_of=("one",), lacks="z"))
    assert make_recipe(*three, Arm("third", Margin()))  # a chain


@pytest.mark.parametrize(
    ("ours", "control", "fits"),
    [
        (ClusterMargin(3.0), ShuffledClusterMargin(3.0), True),
        (ClusterMargin(3.0), ShuffledClusterMargin(10.0), False),
        (ClusterMargin(1.0), ShuffledClusterMargin(10.0), False),
        (ClusterMargin(3.0), ShuffledClusterMargin(3.0, power=1.0), False),
        (ClusterMargin(3.0), UniformCandidates(3.0), True),
        (ClusterMargin(3.0), UniformCandidates(2.0), False),
        (ClusterMargin(3.0), InformedClusterMargin(3.0), True),
        (ClusterMargin(3.0), InformedClusterMargin(2.0), False),
        (ClusterMargin(3.0), InformedClusterMargin(2.0, shuffle_clusters=True), True),  # lacks two ideas: not known
        (InformedClusterMargin(3.0), InformedClusterMargin(3.0, shuffle_clusters=True), True),
        (InformedClusterMargin(3.0), InformedClusterMargin(2.0, shuffle_clusters=True), False),
        (InformedClusterMargin(3.0), InformedClusterMargin(2.0), True),
        (InformedClusterMargin(3.0), InformedRandom(), True),
        (Hedge(), ShuffledHedge(power=5.0), False),
        (ClusterMarginPairs(3.0), ShuffledClusterMarginPairs(3.0, per_row=1), False),
        (ClusterMargin(3.0), Margin(), True),
        (Margin(), ShuffledClusterMargin(3.0), True),
    ],
)
def test_a_known_control_has_the_options_of_its_strategy(ours: Any, control: Any, fits: bool) -> None:
    arms = Arm("ours", ours), Arm("control", control, control_of=("ours",), lacks="an idea")
    if fits:
        assert make_recipe(*arms)
    else:
        with pytest.raises(InputError, match=r"'control' differs from 'ours' in more than what a control .* use .*\("):
            make_recipe(*arms)


def test_a_known_control_has_the_clusters_of_its_strategy() -> None:
    ours, control = Arm("ours", ClusterMargin(3.0)), Arm("control", ShuffledClusterMargin(3.0), COARSE, ("ours",), "x")
    with pytest.raises(InputError, match=r"'control' differs from 'ours' .*average_size=10"):
        make_recipe(ours, control)
    thinned = Arm("control", UniformCandidates(3.0), COARSE, ("ours",), "clusters")  # which it does not use
    assert make_recipe(ours, thinned)


def test_a_recipe_with_controls_has_their_arms_and_no_other_setting() -> None:
    tables: dict[str, Any] = {
        "name": "mine",
        "dataset": {"name": "redundant-digits"},
        "model": {"kind": "perceptron"},
        "strategies": [{"strategy": "cluster-margin", "margin_factor": 3.0}, {"strategy": "margin"}],
        **SIZES,
        "batch_size": 10,
    }
    plain, whole = parse_recipe(tables), parse_recipe(tables | {"controls": True})
    assert [arm.name for arm in whole.strategies[2:]] == [
        "cluster-margin, shuffled clusters",
        "cluster-margin, uniform candidates",
    ]
    assert whole.describe() == add_controls(plain).describe()  # so a folder of --with-controls can be continued
    assert add_controls(whole) == whole
    assert replace(whole, trials=7).strategies == whole.strategies
    assert parse_recipe(tables | {"controls": False}) == plain
    with pytest.raises(InputError, match="controls in the recipe must be true or false, got 'yes'"):
        parse_recipe(tables | {"controls": "yes"})
    with pytest.raises(InputError, match="'mine' has no strategy that controls are known for"):
        parse_recipe(tables | {"controls": True, "strategies": [{"strategy": "margin"}]})
    with pytest.raises(InputError, match=r"'mine' has controls, but no dataset.*with_controls=True"):
        Recipe("mine", (Arm("ours", ClusterMargin(3.0)),), **SIZES, controls=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run without controls, and the same with them."""
    from sklearn.naive_bayes import GaussianNB

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 130)
    features = np.eye(3)[labels] + rng.normal(0, 0.6, (130, 3)) + 2
    blobs = Dataset("blobs", 3, features[:100], labels[:100], features[100:], labels[100:])
    arms = (Arm("cluster-margin", ClusterMargin(3.0), Clustering(3.0, "exact")), Arm("margin", Margin()))
    folder = tmp_path_factory.mktemp("controls")
    given: dict[str, Any] = {"dataset": blobs, "trainer": SklearnTrainer(GaussianNB, 3)}
    run_experiment(make_recipe(*arms), folder / "plain", **given)
    run_experiment(make_recipe(*arms), folder / "whole", with_controls=True, **given)
    with pytest.raises(StoreError, match=r"whole was started with controls: .* --with-controls"):
        run_experiment(make_recipe(*arms), folder / "whole", **given)
    with pytest.raises(StoreError, match="plain was started without controls"):
        run_experiment(make_recipe(*arms), folder / "plain", with_controls=True, **given)
    return folder / "plain", folder / "whole"


def test_controls_change_nothing_about_the_other_strategies(runs: tuple[Path, Path]) -> None:
    plain, whole = (read_run(folder) for folder in runs)
    names = {done.strategy for done in plain.rounds[10]}
    assert tuple(done for done in whole.rounds[10] if done.strategy in names) == plain.rounds[10]
    assert len({done.strategy for done in whole.rounds[10]}) == len(names) + 2
    assert list_settings(whole.recipe) != list_settings(plain.recipe)


def test_the_report_credits_a_strategy_with_its_difference_from_its_controls(runs: tuple[Path, Path]) -> None:
    plain, summary = (report_experiment(folder) for folder in runs)
    assert not plain.findings[0].credits
    assert CREDIT.lower() not in plain.tables()
    assert CREDIT not in plain.report.read_text()
    (found,) = summary.findings
    areas = measure_areas(summary.held.rounds[10], "accuracy")
    controls = ["cluster-margin, shuffled clusters", "cluster-margin, uniform candidates"]
    family = gather_family(summary.held.recipe)
    assert family.comparisons == 3 * (3 + 2)  # three strategies minus margin, two pairs with a control: one correction
    assert len(found.comparisons) == family.comparisons
    expected = [
        compare_pair(("cluster-margin", areas["cluster-margin"]), (name, areas[name]), "area", True, family)
        for name in controls
    ]
    assert set(expected) <= set(found.comparisons)
    assert [one for one in found.credits if one.of == "area"] == expected
    rows = summary.tables()[CREDIT.lower()]
    assert [(row["strategy"], row["minus its control"], row["credited to"]) for row in rows] == [
        ("cluster-margin", controls[0], "clusters"),
        ("cluster-margin", controls[1], "clusters and round-robin"),
    ]
    assert rows[0]["area"].startswith(f"{expected[0].mean:+.4f} [")
    page = summary.report.read_text()
    assert CREDIT in page
    assert "control of cluster-margin" in page
    stored = summary.to_json()["findings"][0]
    assert Findings.from_json(stored) == found
    old = {key: value for key, value in stored.items() if key != "credits"}  # a summary of an earlier version
    assert Findings.from_json(old) == replace(found, credits=())


def test_the_page_of_results_has_the_controls(runs: tuple[Path, Path]) -> None:
    plain, whole = (report_experiment(folder).to_json() for folder in runs)
    assert "--with-controls" in make_results.describe_setting(whole)
    assert "--with-controls" not in make_results.describe_setting(plain)
    text = make_results.describe_findings(whole)
    assert "| strategy | minus its control | credited to | first round | last round | area |" in text
    assert "credited to" not in make_results.describe_findings(plain)


def test_many_series_are_split_with_the_baseline_in_every_figure() -> None:
    few = [(name, float(x), 0.5, None) for name in "abc" for x in (1, 2)]
    assert split_series(few, "b") == [few]
    assert split_series([], "b") == []
    names = ["a", "b", "margin", *"cdefghijkl"]
    many = [(name, float(x), 0.5, None) for name in names for x in (1, 2)]
    groups = [list(dict.fromkeys(mark[0] for mark in group)) for group in split_series(many, "margin")]
    assert groups == [["margin", *"abcdefgh"], ["margin", *"ijkl"]]
    assert [mark for group in split_series(many) for mark in group] == many
