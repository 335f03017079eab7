"""Rounds of pairs: what is asked, how a model is trained further, and what is measured."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from hedgerow.errors import InputError
from hedgerow.pairs import ClusterMarginPairs, Pairs
from hedgerow.rounds import Clustering, Plan, Round, Trial, cluster_pool, restore
from hedgerow.tasks import Annotated, PairTask

PLAN = Plan(seed_size=12, batch_size=15, rounds=3, clustering=Clustering(average_size=4, method="exact"))
CLASSES = 4


@dataclass(frozen=True)
class Counts:
    """A model of pairs: the share of yes in every class, and everything it was ever trained on, in order."""

    yes: np.ndarray
    asked: np.ndarray
    history: tuple[tuple[int, int], ...] = ()

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        lean = (self.yes + 1) / (self.asked + 2)
        return np.clip(lean + 0.1 * np.tanh(features[:, :CLASSES]), 0.01, 0.99)

    def embeddings(self, features: np.ndarray) -> np.ndarray:
        return features + 5  # away from the origin, which cosine does not take


class CountTrainer:
    def begin(self, features: Any = None, pairs: Pairs | None = None, answers: Any = None) -> Counts:
        fresh = Counts(np.zeros(CLASSES), np.zeros(CLASSES))
        return fresh if pairs is None else self.tune(fresh, features, pairs, answers, seed=0)

    def tune(self, before: Counts, features: Any, pairs: Pairs, answers: np.ndarray, *, seed: int) -> Counts:
        assert len(features) == pairs.row_count, "the rows of the pairs and no others"
        yes = before.yes + np.bincount(pairs.classes, answers, CLASSES)
        asked = before.asked + np.bincount(pairs.classes, minlength=CLASSES)
        return Counts(yes, asked, (*before.history, (seed, len(pairs))))


class Oracle:
    def __init__(self, answers: np.ndarray) -> None:
        self.answers = answers
        self.asked: list[np.ndarray] = []

    def __call__(self, picked: np.ndarray) -> np.ndarray:
        self.asked.append(picked)
        return self.answers[picked]


def make_half(n: int, rng: np.random.Generator) -> Annotated:
    """Every row with three of four classes asked about; the likelier the higher the class."""
    features = rng.normal(size=(n, 5))
    rows = np.repeat(np.arange(n), 3)
    classes = np.concatenate([np.sort(rng.choice(CLASSES, 3, replace=False)) for _ in range(n)])
    return Annotated(features, Pairs(rows, classes), rng.random(3 * n) < (classes + 1) / 6)


def make_task(*, first: bool = False) -> tuple[PairTask, Oracle]:
    rng = np.random.default_rng(0)
    pool, test, beginning = (make_half(n, rng) for n in (50, 20, 10))
    oracle = Oracle(pool.answers)
    return PairTask(pool.features, 50, pool.pairs, oracle, test, beginning if first else None), oracle


def run(strategy: object, *, first: bool = False) -> tuple[list[Round], PairTask, Oracle]:
    task, oracle = make_task(first=first)
    return list(Trial(task, CountTrainer(), PLAN, 2).play(strategy, name="it")), task, oracle


@pytest.mark.parametrize(
    "strategy",
    ["random", "margin", "stochastic-margin", "badge", "coreset", "cluster-margin", ClusterMarginPairs(2.0, power=1.0)],
)
def test_no_pair_is_asked_twice_and_the_counts_add_up(strategy: object) -> None:
    rounds, _, oracle = run(strategy)
    assert [done.labeled for done in rounds] == [12, 27, 42, 57]
    asked = np.concatenate(oracle.asked)
    assert len(np.unique(asked)) == len(asked) == 57
    for done, picked in zip(rounds, oracle.asked, strict=True):
        np.testing.assert_array_equal(done.picked, picked)
        np.testing.assert_array_equal(done.labels, oracle.answers[picked])
    assert all(set(done.values) == {"average_precision", "macro_average_precision"} for done in rounds)


def test_a_model_is_trained_further_on_all_that_is_answered() -> None:
    task, _ = make_task(first=True)
    trial = Trial(task, CountTrainer(), PLAN)
    first, state = trial.open(), trial.open_state()
    assert [count for _, count in state.model.history] == [30, 12]  # the first split, then the seed set
    rounds, *_ = run("random", first=True)
    again = restore(replace(task, oracle=None), CountTrainer(), rounds)
    assert [count for _, count in again.model.history] == [30, 12, 27, 42, 57]
    assert len({seed for seed, _ in again.model.history[1:]}) == 4  # every round has a seed of its own
    assert task.measure(again.model) == rounds[-1].values
    assert first.values.keys() == rounds[-1].values.keys()


@dataclass(frozen=True)
class FirstTrainer(CountTrainer):
    """Every round starts from the first model."""

    start: str = "first"

    def tune(self, before: Counts, features: Any, pairs: Pairs, answers: np.ndarray, *, seed: int) -> Counts:
        first = Counts(before.yes * 0, before.asked * 0)
        return super().tune(first, features, pairs, answers, seed=seed)


def test_rounds_that_start_from_the_first_model_are_not_trained_again() -> None:
    task, _ = make_task()
    rounds = list(Trial(task, FirstTrainer(), PLAN, 2).play("random", name="it"))
    again = restore(replace(task, oracle=None), FirstTrainer(), rounds)
    assert [count for _, count in again.model.history] == [57]
    assert task.measure(again.model) == rounds[-1].values
    assert len(again.picked) == 57


def test_the_measures_are_those_of_the_test_pairs() -> None:
    task, _ = make_task()
    model = CountTrainer().begin(task.test.features, task.test.pairs, task.test.answers)
    asked, answers = task.test.pairs, task.test.answers
    scores = model.probabilities(task.test.features)[asked.rows, asked.classes]
    found = task.measure(model)
    assert found["average_precision"] == pytest.approx(average_precision_score(answers, scores))
    of_classes = [
        average_precision_score(answers[asked.classes == label], scores[asked.classes == label])
        for label in range(CLASSES)
    ]
    assert found["macro_average_precision"] == pytest.approx(np.mean(of_classes))


@pytest.mark.parametrize("method", ["exact", "assign"])
def test_clusters_are_of_rows_and_assignment_starts_from_the_seed_pairs(method: str) -> None:
    task, _ = make_task()
    state = Trial(task, CountTrainer(), PLAN).open_state()
    clusters, _ = cluster_pool(task, state, Clustering(4, method))
    assert len(clusters.labels) == task.n == 50
    assert clusters.method == method
    np.testing.assert_array_equal(task.find_rows(state.picked), np.unique(task.pairs.rows[state.picked]))


def test_a_plain_callable_sees_a_view_of_pairs() -> None:
    def take_first(view: Any, k: int, rng: np.random.Generator) -> np.ndarray:
        assert view.embeddings.shape == (50, 5)
        assert view.clusters.shape == (50,)
        return np.flatnonzero(~view.labeled)[:k]

    rounds, *_ = run(take_first)
    assert rounds[-1].labeled == 57


def test_more_than_all_pairs_is_refused_before_anything_is_asked() -> None:
    task, oracle = make_task()
    with pytest.raises(InputError, match="need 162 labels, but the pool has 150 pairs"):
        Trial(task, CountTrainer(), replace(PLAN, batch_size=50)).open()
    assert oracle.asked == []


@pytest.mark.parametrize("answer", [np.zeros(3, bool), np.zeros(12), np.full(12, 2)])
def test_an_oracle_that_answers_amiss_is_refused(answer: np.ndarray) -> None:
    task, _ = make_task()
    with pytest.raises(
        InputError, match=r"12 pairs need one answer, 0 or 1, each|the answer to a pair is 0 or 1 .*, got 2"
    ):
        Trial(replace(task, oracle=lambda picked: answer), CountTrainer(), PLAN).open()
