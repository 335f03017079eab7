"""The loop's bookkeeping: who is asked what, what a round records, and that a trial's seed fixes it all."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.errors import InputError
from hedgerow.rounds import EMPTY, Clustering, Plan, Round, State, Trial, choose, learn, restore
from hedgerow.strategies import ClusterMargin
from hedgerow.tasks import RowTask

PLAN = Plan(seed_size=12, batch_size=15, rounds=3, clustering=Clustering(average_size=4, method="exact"))


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


def make_task(n: int = 150) -> tuple[RowTask, Oracle]:
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=n)
    features = np.array([[0, 0], [2, 0], [0, 2]])[labels] + rng.normal(0, 0.8, (n, 2))
    oracle = Oracle(labels)
    return RowTask(features[:-30], n - 30, oracle, features[-30:], labels[-30:]), oracle


def run(strategy: object, *, trial: int = 0, plan: Plan = PLAN) -> tuple[list[Round], Oracle]:
    task, oracle = make_task()
    return list(Trial(task, NearestMean(3), plan, trial).play(strategy, name="it")), oracle


@pytest.mark.parametrize(
    "strategy", ["random", "margin", "cluster-margin", ClusterMargin(margin_factor=2.0), "coreset"]
)
def test_no_row_is_asked_twice_and_the_counts_add_up(strategy: object) -> None:
    rounds, oracle = run(strategy)
    assert [done.round for done in rounds] == [0, 1, 2, 3]
    assert [done.labeled for done in rounds] == [12, 27, 42, 57]
    assert [len(done.picked) for done in rounds] == [12, 15, 15, 15]
    asked = np.concatenate(oracle.asked)
    assert len(np.unique(asked)) == len(asked) == 57
    for done, rows in zip(rounds, oracle.asked, strict=True):
        np.testing.assert_array_equal(done.picked, rows)
        np.testing.assert_array_equal(done.labels, oracle.labels[rows])
    assert {done.strategy for done in rounds} == {"it"}
    assert all(0 <= done.values["accuracy"] <= 1 for done in rounds)


def test_one_seed_one_answer() -> None:
    first, again, other = (run("cluster-margin", trial=trial)[0] for trial in (3, 3, 4))
    assert first == again
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.picked, two.picked)
    assert not np.array_equal(first[0].picked, other[0].picked)


def test_strategies_of_a_trial_share_their_beginning() -> None:
    task, oracle = make_task()
    trial = Trial(task, NearestMean(3), PLAN)
    rounds = [next(trial.play(name, name=name)) for name in ("random", "margin")]
    np.testing.assert_array_equal(rounds[0].picked, rounds[1].picked)
    assert replace(rounds[0], strategy="margin") == rounds[1]
    assert len(oracle.asked) == 1
    clusters, _ = trial.cluster()
    assert trial.cluster()[0] is clusters
    assert len(clusters.labels) == task.n
    assert clusters.average_size >= PLAN.clustering.average_size


def test_the_last_round_may_empty_the_pool() -> None:
    rounds, oracle = run("cluster-margin", plan=Plan(seed_size=20, batch_size=50, rounds=2))
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
    task = RowTask(features, 4, np.asarray, features, np.array([0, 1, 0, 0]))
    assert task.measure(FittedMean(means))["accuracy"] == 0.75


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan(seed_size=0, batch_size=5, rounds=1), "seed_size must be at least 1"),
        (Plan(seed_size=5, batch_size=0, rounds=1), "batch_size must be at least 1"),
        (Plan(seed_size=5, batch_size=5, rounds=0), "rounds must be at least 1"),
        (Plan(seed_size=21, batch_size=50, rounds=2), "need 121 labels, but the pool has 120 rows"),
    ],
)
def test_a_plan_that_cannot_be_served_is_refused_before_anything_is_asked(plan: Plan, message: str) -> None:
    task, oracle = make_task()
    with pytest.raises(InputError, match=message):
        Trial(task, NearestMean(3), plan).open()
    assert oracle.asked == []


@pytest.mark.parametrize("answer", [np.zeros(3, int), np.zeros(12)])
def test_an_oracle_that_answers_amiss_is_refused(answer: np.ndarray) -> None:
    task, _ = make_task()
    with pytest.raises(InputError, match="12 rows need one class number each, got shape"):
        Trial(replace(task, oracle=lambda rows: answer), NearestMean(3), PLAN).open()


def test_an_unknown_strategy_is_answered_with_the_one_that_was_meant() -> None:
    with pytest.raises(InputError, match="did you mean 'cluster-margin'"):
        run("cluster-margins")


@pytest.mark.parametrize("method", ["exact", "multiround", "assign"])
def test_the_pool_is_clustered_by_the_method_asked_for(method: str) -> None:
    task, _ = make_task()
    clusters, _ = Trial(task, NearestMean(3), PLAN).cluster(Clustering(4, method))
    assert clusters.method == method
    assert clusters.average_size >= 4


@pytest.mark.parametrize("join_by", ["average", "centroid"])
def test_rows_join_clusters_of_the_seed_set_by_the_distance_asked_for(join_by: str) -> None:
    task, _ = make_task()
    trial = Trial(task, NearestMean(3), PLAN)
    clusters, _ = trial.cluster(Clustering(4, "assign", "sqeuclidean", join_by))
    state = trial.open_state()
    expected = hr.cluster(
        state.model.embeddings(task.features), average_size=4, metric="sqeuclidean", method="assign",
        subset=state.picked, join_by=join_by,
    )  # fmt: skip
    assert clusters.join_by == join_by
    np.testing.assert_array_equal(clusters.labels, expected.labels)


def test_a_model_comes_back_from_the_rows_it_was_trained_on() -> None:
    task, _ = make_task()
    trainer = NearestMean(3)
    rounds = list(Trial(task, trainer, PLAN, 4).play("margin", name="margin"))
    again = restore(replace(task, oracle=None), trainer, rounds)  # the labels are in the rounds: nobody is asked
    np.testing.assert_array_equal(again.picked, np.concatenate([done.picked for done in rounds]))
    assert task.measure(again.model) == rounds[-1].values


def test_people_may_answer_later_and_in_another_order() -> None:
    """The two halves apart, with a state that went through a file: what a campaign does."""
    task, oracle = make_task()
    trainer, hidden = NearestMean(3), replace(task, oracle=None)
    state = learn(hidden, trainer, EMPTY, np.arange(12), oracle.labels[:12], seed=1)
    batch = choose(hidden, state, "margin", 15, seed=2)
    assert len(batch) == 15
    assert not set(batch.rows) & set(range(12))
    stored = [state.picked.tolist(), state.labels.tolist(), batch.rows.tolist()]
    picked, labels, rows = (np.array(one, np.int64) for one in stored)
    back = State(picked, labels, trainer.fit(task.features[picked], labels, seed=1))
    order = np.argsort(rows)[3:]  # three of them are never answered
    after = learn(hidden, trainer, back, rows[order], oracle.labels[rows[order]], seed=3)
    assert after.picked.tolist() == [*range(12), *rows[order]]
    assert after.labels.tolist() == oracle.labels[after.picked].tolist()
    assert not set(choose(hidden, after, "margin", 15, seed=4).rows) & set(after.picked)
    with pytest.raises(InputError, match=r"no oracle to ask: pass the labels to rounds\.learn"):
        Trial(hidden, trainer, PLAN).open()


@pytest.mark.parametrize(
    ("picked", "labels", "message"),
    [
        ([3], [0], "row 3 has a label already; each row is labeled once"),
        ([20, 21, 20], [0, 1, 2], "picked holds row 20 more than once"),
        ([120], [0], "picked holds row 120, but the pool's rows are 0 to 119"),
        ([-1], [0], "picked holds row -1"),
        ([20, 21], [0], "2 rows need one class number each, got shape"),
        ([2.5], [0], "picked must be a list of whole row numbers"),
        ([20], [0.5], "1 rows need one class number each"),
    ],
)
def test_labels_that_do_not_fit_are_refused(picked: list[float], labels: list[float], message: str) -> None:
    task, oracle = make_task()
    state = learn(task, NearestMean(3), EMPTY, np.arange(12), oracle.labels[:12])
    with pytest.raises(InputError, match=message):
        learn(task, NearestMean(3), state, np.array(picked), labels)


def test_rounds_without_labels_cannot_be_restored() -> None:
    rounds, _ = run("margin")
    task, _ = make_task()
    bare = [replace(done, labels=np.zeros(0, np.int64)) for done in rounds]
    with pytest.raises(InputError, match="these rounds have no labels"):
        restore(task, NearestMean(3), bare)


class Shelf:
    """An archive in memory that counts."""

    def __init__(self) -> None:
        self.rounds: dict[tuple[str, int], list[Round]] = {}
        self.first: Round | None = None
        self.made = 0

    def read_first(self, trial: int) -> Round | None:
        return self.first

    def read_rounds(self, trial: int, strategy: str, batch_size: int) -> list[Round]:
        return list(self.rounds.get((strategy, batch_size), []))

    def write_round(self, done: Round, batch_size: int) -> None:
        if done.round == 0:
            self.first = done
        else:
            self.rounds.setdefault((done.strategy, batch_size), []).append(done)

    def share_clusters(self, trial: int, how: Clustering, make: Callable[[], Any]) -> Any:
        self.made += 1
        return make()


def test_the_loop_goes_on_from_what_its_archive_has() -> None:
    task, _ = make_task()
    trainer, whole = NearestMean(3), Shelf()
    expected = list(Trial(task, trainer, PLAN, archive=whole).play("cluster-margin", name="ours"))
    assert [done.round for done in whole.rounds["ours", 15]] == [1, 2, 3]
    for kept in range(4):
        shelf, phases = Shelf(), []
        shelf.first, shelf.rounds["ours", 15] = whole.first, whole.rounds["ours", 15][:kept]
        task, oracle = make_task()
        again = list(Trial(task, trainer, PLAN, 0, shelf, phases.append).play("cluster-margin", name="ours"))
        assert again == expected
        for one, two in zip(again, expected, strict=True):
            np.testing.assert_array_equal(one.picked, two.picked)
        assert len(oracle.asked) == 3 - kept  # only for the rounds that were missing
        assert shelf.made == (kept < 3)
        assert [phase.rpartition(" ")[2] for phase in phases if "batches" in phase] == ["1", "2", "3"][kept:]


def test_a_stream_of_its_own_selects_other_rows_from_the_same_start() -> None:
    task, _ = make_task()
    trial = Trial(task, NearestMean(3), PLAN)
    first, again, other = (list(trial.play("random", name="it", stream=stream)) for stream in (0, 0, 1))
    assert [one.picked.tolist() for one in first] == [one.picked.tolist() for one in again]
    assert first[0].picked.tolist() == other[0].picked.tolist()  # the seed set
    assert first[1].picked.tolist() != other[1].picked.tolist()
