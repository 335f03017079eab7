"""One turn of the loop of active learning, and the loop itself: the only file that joins the rooms.

The paper's Algorithm 2 from outside: a seed set drawn uniformly, a model trained on it, its embeddings clustered once
(`begin`); then in every round the pool is predicted, a batch selected, the oracle asked, the model trained and measured
(`play`, one `take_turn` a round). What is labeled, rows or questions about rows, is the task's matter (`tasks.py`). A
trial's seed fixes everything; strategies of one trial share the seed set, the first model, the clusters and the
training seeds, so that they can be compared in pairs. Whoever keeps what was labeled in every round can go on from any
of them: `revive` trains the model that was there.

What it does not do: load data, summarize trials, or keep anything on disk.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.clustering.clusters import Clusters, cluster
from hedgerow.errors import InputError
from hedgerow.machine import read_memory, reset_peak
from hedgerow.tasks import Labels, Places, Playable

T = TypeVar("T")

# What a trial's seed is spent on: each use draws its own numbers, so that one more of one changes none of the others.
DRAW, TRAIN, SELECT = range(3)


@dataclass(frozen=True)
class Plan:
    """The sizes of a trial: labels at the start, labels a round, rounds; and how the pool is clustered."""

    seed_rows: int
    batch_rows: int
    rounds: int
    average_size: float = 10.0
    metric: str = "cosine"
    method: str = "exact"

    def check(self, size: int, unit: str = "row") -> None:
        """Refuse sizes that a pool with so many labels to be had cannot serve, before anything runs."""
        checks.integer(self.seed_rows, "seed_rows", least=1)
        checks.integer(self.batch_rows, "batch_rows", least=1)
        checks.integer(self.rounds, "rounds", least=1)
        asked = self.seed_rows + self.rounds * self.batch_rows
        if asked > size:
            raise InputError(
                f"a seed set of {self.seed_rows:,} and {self.rounds} rounds of {self.batch_rows:,} ask for {asked:,} "
                f"labels, but the pool has {size:,} {unit}s: take smaller batches or fewer rounds"
            )


@dataclass(frozen=True)
class Round:
    """What one round bought. Two are equal if they brought the same labels and values, however long they took."""

    trial: int
    strategy: str
    round: int  # 0 is the seed set
    labeled: int
    values: Mapping[str, float]
    rows: Places = field(compare=False, repr=False)  # those labeled in this round, in pick order
    predict_seconds: float = field(default=0.0, compare=False)
    select_seconds: float = field(default=0.0, compare=False)
    train_seconds: float = field(default=0.0, compare=False)
    select_bytes: int | None = field(default=None, compare=False)  # memory the selection took beyond what it was given


@dataclass(frozen=True)
class State:
    """Where a trial stands between two rounds: what is labeled, with what, and the model trained on it."""

    rows: Places
    labels: Labels
    model: Any


@dataclass(frozen=True)
class Start:
    """A trial's common beginning, shared by its strategies."""

    trial: int
    state: State
    clusters: Clusters
    first: Round
    cluster_seconds: float


def begin(task: Playable, trainer: Any, plan: Plan, *, trial: int) -> Start:
    """Draw the seed set, train on it, cluster the pool by that model's embeddings."""
    state, first = open_trial(task, trainer, plan, trial=trial)
    clusters, cluster_seconds = cluster_pool(task, state, plan)
    return Start(trial, state, clusters, first, cluster_seconds)


def open_trial(task: Playable, trainer: Any, plan: Plan, *, trial: int) -> tuple[State, Round]:
    """Draw the seed set, train on it and measure: round 0."""
    plan.check(task.size, task.unit)
    rng = np.random.default_rng(_derive_seed(trial, 0, DRAW))
    rows = rng.choice(task.size, plan.seed_rows, replace=False).astype(np.int64)
    labels = task.ask(rows)
    seed = _derive_seed(trial, 0, TRAIN)
    model, train_seconds = _time(lambda: task.train(trainer, None, rows, labels, seed=seed))
    first = Round(trial, "", 0, len(rows), task.measure(model), rows, train_seconds=train_seconds)
    return State(rows, labels, model), first


def revive(task: Playable, trainer: Any, done: Sequence[Round]) -> State:
    """Where a trial stands after these rounds, the first of them round 0: asks and trains as they did."""
    rows = np.concatenate([one.rows for one in done])
    ends = np.cumsum([len(one.rows) for one in done])
    seeds = [_derive_seed(one.trial, one.round, TRAIN) for one in done]
    trained = ((rows[:end], seed) for end, seed in zip(ends, seeds, strict=True))
    return State(rows, task.ask(rows), task.revive(trainer, trained))


def cluster_pool(task: Playable, state: State, plan: Plan, *, threads: int | None = None) -> tuple[Clusters, float]:
    """Clusters of the pool by the first model's embeddings, and the seconds that took.

    The method "assign" clusters the seed set and assigns the rest, as the paper does (appendix A.2).
    """
    embeddings = state.model.embeddings(task.features)
    return _time(
        lambda: cluster(
            embeddings,
            average_size=plan.average_size,
            metric=plan.metric,
            method=plan.method,
            subset=task.find_rows(state.rows) if plan.method == "assign" else None,
            zeros="singletons",  # a hidden layer of ReLU units may be silent on a row
            centroids=False,
            threads=threads,
        )
    )


def play(task: Playable, trainer: Any, plan: Plan, start: Start, strategy: Any, *, name: str) -> Iterator[Round]:
    """The rounds of one strategy, round 0 first. `strategy` is as in `select`; `name` is what its records carry."""
    state = start.state
    yield replace(start.first, strategy=name)
    for number in range(1, plan.rounds + 1):
        before = replace(start.first, strategy=name, round=number)
        state, done = take_turn(task, trainer, state, start.clusters, strategy, plan.batch_rows, before)
        yield done


def take_turn(
    task: Playable, trainer: Any, state: State, clusters: Clusters | None, strategy: Any, k: int, turn: Round
) -> tuple[State, Round]:
    """Predict, select k labels to ask for, ask, train, measure. `turn` says which trial, strategy and round this is."""
    chosen, spent = _choose(task, state, clusters, strategy, k, _derive_seed(turn.trial, turn.round, SELECT))
    rows = np.concatenate([state.rows, chosen])
    labels = np.concatenate([state.labels, task.ask(chosen)])
    seed = _derive_seed(turn.trial, turn.round, TRAIN)
    model, train_seconds = _time(lambda: task.train(trainer, state.model, rows, labels, seed=seed))
    values = task.measure(model)
    done = replace(turn, labeled=len(rows), values=values, rows=chosen, train_seconds=train_seconds, **spent)
    return State(rows, labels, model), done


def _choose(
    task: Playable, state: State, clusters: Clusters | None, strategy: Any, k: int, seed: int
) -> tuple[Places, dict[str, Any]]:
    """What to ask for next, and the seconds and bytes that took; the predictions are gone afterwards."""
    inputs, predict_seconds = _time(lambda: task.predict(state.model, clusters, strategy))
    labeled = _mask(state.rows, task.size)
    reset_peak()
    before = read_memory("VmRSS")
    chosen, select_seconds = _time(lambda: task.select(strategy, k, labeled=labeled, seed=seed, **inputs))
    peak = read_memory("VmHWM")
    spent: dict[str, Any] = {"predict_seconds": predict_seconds, "select_seconds": select_seconds}
    return chosen, spent | {"select_bytes": None if before is None or peak is None else max(0, peak - before)}


def _mask(rows: Places, size: int) -> npt.NDArray[np.bool_]:
    mask = np.zeros(size, np.bool_)
    mask[rows] = True
    return mask


def _derive_seed(trial: int, number: int, use: int) -> int:
    """A seed for one use in one round of one trial."""
    return int(np.random.SeedSequence([trial, number, use]).generate_state(1)[0])


def _time(action: Callable[[], T]) -> tuple[T, float]:
    began = time.perf_counter()
    return action(), time.perf_counter() - began
