"""One turn of the loop of active learning, and the loop itself: the only file that joins the rooms.

The paper's Algorithm 2 from outside: a seed set drawn uniformly, a model trained on it, its embeddings clustered once
(`begin`); then in every round the pool is predicted, a batch selected, the oracle asked, the model trained from scratch
and measured (`play`, one `take_turn` a round). A trial's seed fixes everything; strategies of one trial share the seed
set, the first model, the clusters and the training seeds, so that they can be compared in pairs. Whoever keeps the rows
of every round can go on from any of them: `revive` trains the model that was there.

What it does not do: load data, summarize trials, or keep anything on disk.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.clusters import Clusters, cluster
from hedgerow.errors import InputError
from hedgerow.metrics import METRICS
from hedgerow.models import Fitted, Trainer
from hedgerow.strategies import STRATEGIES, select

T = TypeVar("T")
Rows = npt.NDArray[np.int64]
Oracle = Callable[[Rows], npt.NDArray[np.int64]]

EVERYTHING = frozenset({"margins", "probabilities", "embeddings", "clusters"})

# What a trial's seed is spent on: each use draws its own numbers, so that one more of one changes none of the others.
DRAW, TRAIN, SELECT = range(3)


@dataclass(frozen=True)
class Task:
    """A pool, somebody who knows its labels, and a test set. `features[rows]` must give those rows' features."""

    features: Any
    n: int
    oracle: Oracle
    test_features: Any
    test_labels: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
    """The sizes of a trial: labels at the start, labels a round, rounds; and how the pool is clustered."""

    seed_rows: int
    batch_rows: int
    rounds: int
    average_size: float = 10.0
    metric: str = "cosine"
    method: str = "exact"

    def check(self, n: int) -> None:
        """Refuse sizes that a pool of n rows cannot serve, before anything runs."""
        checks.integer(self.seed_rows, "seed_rows", least=1)
        checks.integer(self.batch_rows, "batch_rows", least=1)
        checks.integer(self.rounds, "rounds", least=1)
        asked = self.seed_rows + self.rounds * self.batch_rows
        if asked > n:
            raise InputError(
                f"a seed set of {self.seed_rows:,} and {self.rounds} rounds of {self.batch_rows:,} ask for {asked:,} "
                f"labels, but the pool has {n:,} rows: take smaller batches or fewer rounds"
            )


@dataclass(frozen=True)
class Round:
    """What one round bought. Two are equal if they brought the same labels and values, however long they took."""

    trial: int
    strategy: str
    round: int  # 0 is the seed set
    labeled: int
    values: Mapping[str, float]
    rows: Rows = field(compare=False, repr=False)  # those labeled in this round, in pick order
    predict_seconds: float = field(default=0.0, compare=False)
    select_seconds: float = field(default=0.0, compare=False)
    train_seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class State:
    """Where a trial stands between two rounds: what is labeled, with what, and the model trained on it."""

    rows: Rows
    labels: npt.NDArray[np.int64]
    model: Fitted


@dataclass(frozen=True)
class Start:
    """A trial's common beginning, shared by its strategies."""

    trial: int
    state: State
    clusters: Clusters
    first: Round
    cluster_seconds: float


def begin(task: Task, trainer: Trainer, plan: Plan, *, trial: int) -> Start:
    """Draw the seed set, train on it, cluster the pool by that model's embeddings."""
    state, first = open_trial(task, trainer, plan, trial=trial)
    clusters, cluster_seconds = cluster_pool(task, state, plan)
    return Start(trial, state, clusters, first, cluster_seconds)


def open_trial(task: Task, trainer: Trainer, plan: Plan, *, trial: int) -> tuple[State, Round]:
    """Draw the seed set, train on it and measure: round 0."""
    plan.check(task.n)
    rng = np.random.default_rng(_derive_seed(trial, 0, DRAW))
    rows = rng.choice(task.n, plan.seed_rows, replace=False).astype(np.int64)
    labels = _ask(task, rows)
    state, train_seconds = _time(lambda: _train(task, trainer, rows, labels, trial, 0))
    return state, Round(trial, "", 0, len(rows), measure(state.model, task), rows, train_seconds=train_seconds)


def revive(task: Task, trainer: Trainer, rows: Rows, *, trial: int, number: int) -> State:
    """Where a trial stands after a round, from the rows labeled until then: asks and trains as that round did."""
    return _train(task, trainer, rows, _ask(task, rows), trial, number)


def cluster_pool(task: Task, state: State, plan: Plan, *, threads: int | None = None) -> tuple[Clusters, float]:
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
            subset=np.sort(state.rows) if plan.method == "assign" else None,
            zeros="singletons",  # a hidden layer of ReLU units may be silent on a row
            centroids=False,
            threads=threads,
        )
    )


def play(task: Task, trainer: Trainer, plan: Plan, start: Start, strategy: Any, *, name: str) -> Iterator[Round]:
    """The rounds of one strategy, round 0 first. `strategy` is as in `select`; `name` is what its records carry."""
    state = start.state
    yield replace(start.first, strategy=name)
    for number in range(1, plan.rounds + 1):
        before = replace(start.first, strategy=name, round=number)
        state, done = take_turn(task, trainer, state, start.clusters, strategy, plan.batch_rows, before)
        yield done


def take_turn(
    task: Task, trainer: Trainer, state: State, clusters: Clusters | None, strategy: Any, k: int, turn: Round
) -> tuple[State, Round]:
    """Predict, select k rows, ask, train, measure. `turn` says which trial, strategy and round this is."""
    seed = _derive_seed(turn.trial, turn.round, SELECT)
    inputs, predict_seconds = _time(lambda: _predict(task, state.model, clusters, strategy))
    batch, select_seconds = _time(lambda: select(strategy, k, labeled=_mask(state.rows, task.n), seed=seed, **inputs))
    rows = np.concatenate([state.rows, batch.rows])
    labels = np.concatenate([state.labels, _ask(task, batch.rows)])
    after, train_seconds = _time(lambda: _train(task, trainer, rows, labels, turn.trial, turn.round))
    done = replace(
        turn,
        labeled=len(rows),
        values=measure(after.model, task),
        rows=batch.rows,
        predict_seconds=predict_seconds,
        select_seconds=select_seconds,
        train_seconds=train_seconds,
    )
    return after, done


def measure(model: Fitted, task: Task) -> dict[str, float]:
    """The model's values on the test set, by the measure's name."""
    probabilities = model.probabilities(task.test_features)
    return {name: metric(probabilities, task.test_labels) for name, metric in METRICS.items()}


def _predict(task: Task, model: Fitted, clusters: Clusters | None, strategy: Any) -> dict[str, Any]:
    """What `select` has to be given for this strategy, and no more: a prediction of the pool is not free."""
    needs = _needs(strategy)
    inputs: dict[str, Any] = {}
    if needs & {"margins", "probabilities"}:
        inputs["probabilities"] = model.probabilities(task.features)
    if "embeddings" in needs:
        inputs["embeddings"] = model.embeddings(task.features)
    if "clusters" in needs:
        inputs["clusters"] = clusters
    return inputs


def _needs(strategy: Any) -> frozenset[str]:
    """A strategy's declared needs; a plain callable that declares none is given everything."""
    if isinstance(strategy, str):
        strategy = STRATEGIES[checks.option(strategy, "strategy", STRATEGIES)]
    needs: frozenset[str] = getattr(strategy, "needs", EVERYTHING)
    return needs


def _train(task: Task, trainer: Trainer, rows: Rows, labels: npt.NDArray[np.int64], trial: int, number: int) -> State:
    """The model of one round: its seed is the trial's and the round's, not the strategy's."""
    seed = _derive_seed(trial, number, TRAIN)
    return State(rows, labels, trainer.fit(task.features[rows], labels, seed=seed))


def _ask(task: Task, rows: Rows) -> npt.NDArray[np.int64]:
    labels = np.asarray(task.oracle(rows))
    if labels.shape != rows.shape or labels.dtype.kind not in "iu":
        raise InputError(
            f"the oracle was asked about {len(rows):,} rows and must answer with as many class numbers; "
            f"it gave shape {labels.shape} and dtype {labels.dtype}"
        )
    return labels.astype(np.int64)


def _mask(rows: Rows, n: int) -> npt.NDArray[np.bool_]:
    mask = np.zeros(n, np.bool_)
    mask[rows] = True
    return mask


def _derive_seed(trial: int, number: int, use: int) -> int:
    """A seed for one use in one round of one trial."""
    return int(np.random.SeedSequence([trial, number, use]).generate_state(1)[0])


def _time(action: Callable[[], T]) -> tuple[T, float]:
    began = time.perf_counter()
    return action(), time.perf_counter() - began
