"""The loop's bookkeeping: who is asked what, what a round records, and that a trial's seed fixes it all."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from hedgerow.errors import InputError
from hedgerow.rounds import Plan, Round, begin, cluster_pool, open_trial, play, revive
from hedgerow.strategies import ClusterMargin
from hedgerow.tasks import Task

PLAN = Plan(seed_rows=12, batch_rows=15, rounds=3, average_size=4)


@dataclass(frozen=True)
class NearestMean:
    """The smallest trainer there is: a class is its labeled rows' mean."""

    classes: int

    def fit(self, features: np.ndarray, labels: np.ndarray, *, seed: int) -> "FittedMean":
        present = [
            features[labels == c].mean(axis=0) if np.any(labels == c) else np.zeros(2) for c in range(self.classes)
        ]
        return FittedMean(np.array(present))


@dataclass(frozen=True)
class FittedMean:
    means: np.ndarray

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        odds = np.exp(-((features[:, None] - self.means) ** 2).sum(axis=2))
        return odds / odds.sum(axis=1, keepdims=True)

    def embeddings(self, features: np.ndarray) -> np.ndarray:
        return features + 5  # away from the origin, which cosine does not take


class Oracle:
    """Knows all labels and remembers what it was asked."""

    def __init__(self, labels: np.ndarray) -> None:
        self.labels = labels
        self.asked: list[np.ndarray] = []

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        self.asked.append(rows)
        return self.labels[rows]


def make_task(n: int = 150) -> tuple[Task, Oracle]:
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=n)
    features = np.array([[0, 0], [2, 0], [0, 2]])[labels] + rng.normal(0, 0.8, (n, 2))
    oracle = Oracle(labels)
    return Task(features[:-30], n - 30, oracle, features[-30:], labels[-30:]), oracle


def run(strategy: object, *, trial: int = 0, plan: Plan = PLAN) -> tuple[list[Round], Oracle]:
    task, oracle = make_task()
    start = begin(task, NearestMean(3), plan, trial=trial)
    return list(play(task, NearestMean(3), plan, start, strategy, name="it")), oracle


@pytest.mark.parametrize(
    "strategy", ["random", "margin", "cluster-margin", ClusterMargin(margin_factor=2.0), "coreset"]
)
def test_no_row_is_asked_twice_and_the_counts_add_up(strategy: object) -> None:
    rounds, oracle = run(strategy)
    assert [done.round for done in rounds] == [0, 1, 2, 3]
    assert [done.labeled for done in rounds] == [12, 27, 42, 57]
    assert [len(done.rows) for done in rounds] == [12, 15, 15, 15]
    asked = np.concatenate(oracle.asked)
    assert len(np.unique(asked)) == len(asked) == 57
    for done, rows in zip(rounds, oracle.asked, strict=True):
        np.testing.assert_array_equal(done.rows, rows)
    assert {done.strategy for done in rounds} == {"it"}
    assert all(0 <= done.values["accuracy"] <= 1 for done in rounds)


def test_one_seed_one_answer() -> None:
    first, again, other = (run("cluster-margin", trial=trial)[0] for trial in (3, 3, 4))
    assert first == again
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.rows, two.rows)
    assert not np.array_equal(first[0].rows, other[0].rows)


def test_strategies_of_a_trial_share_their_beginning() -> None:
    task, _ = make_task()
    start = begin(task, NearestMean(3), PLAN, trial=0)
    rounds = [next(play(task, NearestMean(3), PLAN, start, name, name=name)) for name in ("random", "margin")]
    np.testing.assert_array_equal(rounds[0].rows, rounds[1].rows)
    assert replace(rounds[0], strategy="margin") == rounds[1]
    assert len(start.clusters.labels) == task.n
    assert start.clusters.average_size >= PLAN.average_size


def test_the_last_round_may_empty_the_pool() -> None:
    rounds, oracle = run("cluster-margin", plan=Plan(seed_rows=20, batch_rows=50, rounds=2))
    assert rounds[-1].labeled == 120
    np.testing.assert_array_equal(np.sort(np.concatenate(oracle.asked)), np.arange(120))


def test_a_plain_callable_is_given_everything() -> None:
    seen = []

    def take_first(view: object, k: int, rng: np.random.Generator) -> np.ndarray:
        seen.append((view.probabilities.shape, view.embeddings.shape, view.clusters.shape, view.margins.shape))
        return view.unlabeled_rows()[:k]

    rounds, _ = run(take_first)
    assert seen == [((120, 3), (120, 2), (120,), (120,))] * 3
    assert rounds[-1].labeled == 57


def test_measure_is_the_share_of_right_answers() -> None:
    means = np.array([[0.0, 0.0], [4.0, 0.0]])
    features = np.array([[0.1, 0.0], [3.9, 0.0], [3.8, 0.0], [0.2, 0.0]])
    task = Task(features, 4, np.asarray, features, np.array([0, 1, 0, 0]))
    assert task.measure(FittedMean(means))["accuracy"] == 0.75


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan(seed_rows=0, batch_rows=5, rounds=1), "seed_rows must be at least 1"),
        (Plan(seed_rows=5, batch_rows=0, rounds=1), "batch_rows must be at least 1"),
        (Plan(seed_rows=5, batch_rows=5, rounds=0), "rounds must be at least 1"),
        (Plan(seed_rows=21, batch_rows=50, rounds=2), "ask for 121 labels, but the pool has 120 rows"),
    ],
)
def test_a_plan_that_cannot_be_served_is_refused_before_anything_is_asked(plan: Plan, message: str) -> None:
    task, oracle = make_task()
    with pytest.raises(InputError, match=message):
        begin(task, NearestMean(3), plan, trial=0)
    assert oracle.asked == []


@pytest.mark.parametrize("answer", [np.zeros(3, int), np.zeros(12)])
def test_an_oracle_that_answers_amiss_is_refused(answer: np.ndarray) -> None:
    task, _ = make_task()
    with pytest.raises(InputError, match="the oracle was asked about 12 rows"):
        begin(replace(task, oracle=lambda rows: answer), NearestMean(3), PLAN, trial=0)


def test_an_unknown_strategy_is_answered_with_the_one_that_was_meant() -> None:
    with pytest.raises(InputError, match="did you mean 'cluster-margin'"):
        run("cluster-margins")


@pytest.mark.parametrize("method", ["exact", "multiround", "assign"])
def test_the_pool_is_clustered_by_the_method_asked_for(method: str) -> None:
    task, _ = make_task()
    plan = replace(PLAN, method=method)
    state, _ = open_trial(task, NearestMean(3), plan, trial=0)
    clusters, _ = cluster_pool(task, state, plan)
    assert clusters.method == method
    assert clusters.average_size >= plan.average_size


def test_a_model_comes_back_from_the_rows_it_was_trained_on() -> None:
    task, _ = make_task()
    trainer = NearestMean(3)
    start = begin(task, trainer, PLAN, trial=4)
    rounds = list(play(task, trainer, PLAN, start, "margin", name="margin"))
    again = revive(task, trainer, rounds)
    np.testing.assert_array_equal(again.rows, np.concatenate([done.rows for done in rounds]))
    assert task.measure(again.model) == rounds[-1].values
