"""Cluster-MarginV: the schedule of Theorem B.1 worked out by hand, its assumptions, and its promise."""

import math
import warnings
from itertools import pairwise

import numpy as np
import pytest

from hedgerow.errors import HedgerowWarning, InputError
from hedgerow.theory.algorithm import Plan, follow_plan, learn, run_plan, start
from hedgerow.theory.distributions import DISTRIBUTIONS, draw_directions
from hedgerow.theory.samplers import SAMPLERS

CHOSEN = ("uniform", "cluster-margin", "farthest-first", "k-means++")


def run(plan, sampler="uniform", seed=0):
    rng = np.random.default_rng(seed)
    truth = draw_directions(1, plan.d, rng)[0]
    return follow_plan(plan, lambda state: SAMPLERS[sampler], truth, rng), truth


def test_the_schedule_of_the_theorem_worked_out_by_hand():
    plan = Plan("gaussian", 4, 0.1, delta=0.1, beta=0.5, c1=2.0, c2=3.0)
    assert plan.rounds == 5  # log2(pi / 0.1) = 4.97
    assert [plan.band(i) for i in (1, 2, 5)] == [1.0, 0.5, 0.0625]
    assert plan.batch(1) == math.ceil(3 * (4 + math.log(50)))  # 2 beta C2 = 3, (1 + n - 1) / delta = 50
    assert plan.batch(5) == math.ceil(3 * (4 + math.log(10)))
    assert plan.labels == sum(plan.batch(i) for i in range(1, 6))
    assert Plan("cube", 4, 0.1).rounds == 6  # log2(1 / (0.2 * 0.1)) = 5.64


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"eps": 0.25}, "eps must be below 1/4, got 0.25: Theorem B.1 assumes it"),
        ({"eps": 0.0}, "eps must be greater than 0"),
        ({"delta": 1.0}, "delta must be below 1"),
        ({"beta": 1.5}, "beta must be between 0 and 1, got 1.5"),
        ({"beta": 0.0}, "beta must be greater than 0"),
        ({"gamma": 1.0}, "gamma must be greater than 1, got 1"),
        ({"gamma": math.nan}, "gamma must be finite"),
        ({"c1": -1.0}, "c1 must be greater than 0"),
        ({"distribution": "cauchy"}, "unknown distribution 'cauchy'"),
    ],
)
def test_parameters_outside_the_theorem_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        Plan(**{"distribution": "gaussian", "d": 4, "eps": 0.1} | given)


def test_few_dimensions_are_a_warning_that_names_the_assumption():
    with pytest.warns(HedgerowWarning, match="Theorem B.1 assumes d >= 4, got 3"):
        plan = Plan("gaussian", 3, 0.1, c2=2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Plan("gaussian", 4, 0.1)
    assert run(plan)[0][-1].error < 0.1


@pytest.mark.parametrize("sampler", CHOSEN)
def test_the_error_is_at_most_eps_in_nearly_all_trials(sampler):
    plan = Plan("gaussian", 5, 0.05, delta=0.1, gamma=5)
    errors = [run(plan, sampler, seed)[0][-1].error for seed in range(20)]
    assert np.mean(np.array(errors) <= plan.eps) >= 1 - plan.delta


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_every_distribution_keeps_the_promise(name):
    plan = Plan(name, 4, 0.05, delta=0.1)
    assert np.mean([run(plan, "uniform", seed)[0][-1].error <= plan.eps for seed in range(20)]) >= 0.9


def test_too_few_labels_break_it():
    plan = Plan("gaussian", 8, 0.01, delta=0.1, c2=0.1)  # 3 labels per round: the check above can fail
    assert np.mean([run(plan, "uniform", seed)[0][-1].error <= plan.eps for seed in range(20)]) < 0.5


def test_each_round_labels_its_batch_inside_its_band_and_stays_consistent():
    plan = Plan("logistic", 4, 0.1, gamma=3)
    steps, truth = run(plan, "cluster-margin")
    sizes = [len(step.state.points) for step in steps]
    assert np.diff(sizes, prepend=0).tolist() == [plan.batch(i) for i in range(1, plan.rounds + 1)]
    assert len(np.unique(steps[-1].state.points, axis=0)) == sizes[-1]
    for i, (before, after) in enumerate(pairwise(steps), start=2):
        new = after.state.points[len(before.state.points) :]
        assert np.abs(new @ before.state.w).max() < plan.band(i)
        labels = np.sign(after.state.points @ truth)
        assert (labels * (after.state.points @ after.state.w) > 0).all()


def test_a_run_follows_from_its_seed():
    plan = Plan("ball", 4, 0.1)
    first, second = (run(plan, "k-means++", 3)[0] for _ in range(2))
    assert [step.error for step in first] == [step.error for step in second]
    assert [step.error for step in first] != [step.error for step in run(plan, "k-means++", 4)[0]]


def test_a_plan_runs_with_a_sampler_by_name_or_of_ones_own():
    plan = Plan("gaussian", 4, 0.1)
    named = run_plan(plan, "uniform", seed=1)
    assert [step.error for step in named] == [step.error for step in run_plan(plan, SAMPLERS["uniform"], seed=1)]
    assert len(run_plan(plan, lambda points, k, rng: np.arange(k))[-1].state.points) == plan.labels
    with pytest.raises(InputError, match="more than once"):
        run_plan(plan, lambda points, k, rng: np.zeros(k, np.int64))
    with pytest.raises(InputError, match="unknown sampler 'quantiles'"):
        run_plan(plan, "quantiles")


def test_nothing_labeled_is_any_separator():
    rng = np.random.default_rng(0)
    state = start(4, rng)
    assert state.cone is None
    assert np.linalg.norm(state.w) == pytest.approx(1)
    assert learn(state, np.eye(4), np.ones(4)).cone is not None
