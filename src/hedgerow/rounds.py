"""The loop of active learning, in two halves: `choose` what to label next, and `learn` from the labels.

Algorithm 2 of the paper, seen from outside: draw a seed set uniformly, train a model on it, cluster the pool once by
its embeddings; then in every round predict the pool, select a batch, get its labels, train and measure. Whether rows or
pairs are labeled is up to the task (`tasks.py`).

`choose` and `learn` are independent calls: weeks may pass between them. What connects them is plain data that can be
stored: the positions that were picked, their labels, and the seed of each training, from which `restore` trains the
model of any round again.

`Trial` is the loop around them, for tasks with an oracle: experiments, the demo and the tests all use it. A trial's
number determines every random draw; the strategies of a trial share the seed set, the first model, the clusters and the
training seeds, so that they can be compared in pairs. Rounds that its `Archive` already has are not run again.

What it does not do: load data, summarize trials, or write files.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.batches import Batch, PairBatch
from hedgerow.clustering.clusters import Clusters, cluster
from hedgerow.errors import InputError
from hedgerow.machine import read_memory, reset_peak
from hedgerow.tasks import Labels, Picks, Task

# What the seed of a trial is used for. Each use has its own random numbers: one more draw of one changes no other.
DRAW, TRAIN, SELECT, CHECK = range(4)
NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Clustering:
    """How the pool is clustered; all but `average_size` as in `hedgerow.cluster`. join_by: only with "assign"."""

    average_size: float = 10.0
    method: str = "auto"
    metric: str = "cosine"
    join_by: str | None = None

    def describe(self) -> dict[str, Any]:
        """Its settings, without those that do not apply."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Plan:
    """The sizes of a trial: labels in the seed set, labels per round, rounds; and how the pool is clustered."""

    seed_size: int
    batch_size: int
    rounds: int
    clustering: Clustering = Clustering()

    def check(self, size: int, unit: str = "row") -> None:
        """Refuse a plan that needs more labels than the pool has units, before anything runs."""
        checks.integer(self.seed_size, "seed_size", least=1)
        checks.integer(self.batch_size, "batch_size", least=1)
        checks.integer(self.rounds, "rounds", least=1)
        needed = self.seed_size + self.rounds * self.batch_size
        if needed > size:
            raise InputError(
                f"a seed set of {self.seed_size:,} and {self.rounds} rounds of {self.batch_size:,} need {needed:,} "
                f"labels, but the pool has {size:,} {unit}s: use smaller batches or fewer rounds"
            )


@dataclass(frozen=True)
class Round:
    """What was labeled in one round, and the scores of the model trained after it.

    Two rounds are equal if they have the same number of labels and the same scores, whatever time they took.
    """

    trial: int
    strategy: str
    round: int  # 0 is the seed set
    labeled: int  # labels in all, those of this round included
    values: Mapping[str, float]  # by metric
    picked: Picks = field(compare=False, repr=False)  # in this round: rows, or positions in Pairs, in pick order
    labels: Labels = field(default_factory=lambda: NOTHING, compare=False, repr=False)  # of what was picked
    predict_seconds: float = field(default=0.0, compare=False)
    select_seconds: float = field(default=0.0, compare=False)
    train_seconds: float = field(default=0.0, compare=False)
    select_bytes: int | None = field(default=None, compare=False)  # memory that the selection used beyond its inputs


@dataclass(frozen=True)
class Check:
    """The scores of a model that was trained in one go, from the first model, on all labels of a strategy's rounds.

    If rounds train the model further and further, this shows what that costs: with uniform labels, the model after the
    last round should be as good.
    """

    trial: int
    batch_size: int
    strategy: str
    labeled: int
    values: Mapping[str, float]  # by metric
    train_seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class State:
    """Everything labeled so far, in the order in which it was labeled, and the model trained on it."""

    picked: Picks
    labels: Labels
    model: Any


EMPTY = State(NOTHING, NOTHING, None)  # before the seed set


@dataclass
class Meter:
    """The seconds and the memory of one round."""

    predict_seconds: float = 0.0
    select_seconds: float = 0.0
    train_seconds: float = 0.0
    select_bytes: int | None = None

    @contextmanager
    def time(self, part: str) -> Iterator[None]:
        """Add the time of a block to "predict", "select" or "train"."""
        began = time.perf_counter()
        yield
        setattr(self, f"{part}_seconds", getattr(self, f"{part}_seconds") + time.perf_counter() - began)


def choose(
    task: Task,
    state: State,
    strategy: Any,
    k: int,
    *,
    clusters: Clusters | None = None,
    seed: int = 0,
    meter: Meter | None = None,
) -> Batch | PairBatch:
    """The next k rows or pairs to label: predict the pool with the model of `state`, and select a batch.

    `strategy` is a name, an instance or a callable, as in `select` and `select_pairs`.
    """
    meter = meter or Meter()
    with meter.time("predict"):
        inputs = task.predict(state.model, clusters, strategy)
    labeled = _mask(state.picked, task.size)
    reset_peak()
    before = read_memory("VmRSS")
    with meter.time("select"):
        batch = task.select(strategy, k, labeled=labeled, seed=seed, **inputs)
    peak = read_memory("VmHWM")
    meter.select_bytes = None if before is None or peak is None else max(0, peak - before)
    return batch


def learn(
    task: Task, trainer: Any, state: State, picked: Any, labels: Any, *, seed: int = 0, meter: Meter | None = None
) -> State:
    """The state after these labels arrived: they are added to what was labeled before, and a model is trained.

    picked: rows or positions in Pairs, such as `task.find_picked(batch)` of a batch from `choose`, in any order and not
    necessarily all of it. labels: one per position: class numbers for rows, 0 or 1 for pairs. The seed set is learned
    from `EMPTY`.
    """
    meter = meter or Meter()
    new = checks.rows(picked, task.size, "picked", kind=task.unit)
    added = task.check_labels(new, labels)
    repeated = new[_mask(state.picked, task.size)[new]]
    if len(repeated):
        raise InputError(
            f"{task.unit} {repeated[0]} has a label already; each {task.unit} is labeled once: leave it out"
        )
    whole, added = np.concatenate([state.picked, new]), np.concatenate([state.labels, added])
    with meter.time("train"):
        model = task.train(trainer, state.model, whole, added, seed=seed)
    return State(whole, added, model)


def restore(task: Task, trainer: Any, done: Sequence[Round]) -> State:
    """The state after these rounds, round 0 first. Models are not stored: this trains the same one again."""
    picked = np.concatenate([one.picked for one in done])
    labels = np.concatenate([one.labels for one in done])
    if len(labels) != len(picked):
        raise InputError("these rounds have no labels, such as those of a summary: restore() needs picks and labels")
    ends = np.cumsum([len(one.picked) for one in done])
    seeds = [derive_seed(one.trial, one.round, TRAIN) for one in done]
    history = ((picked[:end], labels[:end], seed) for end, seed in zip(ends, seeds, strict=True))
    return State(picked, labels, task.retrain(trainer, history))


def derive_seed(trial: int, number: int, use: int, *further: int) -> int:
    """The seed for one use (`DRAW`, `TRAIN`, `SELECT` or `CHECK`) in one round of one trial."""
    return int(np.random.SeedSequence([trial, number, use, *further]).generate_state(1)[0])


def cluster_pool(task: Task, state: State, how: Clustering) -> tuple[Clusters, float]:
    """Clusters of the pool by the embeddings of a model, and the seconds that took.

    The method "assign" clusters the labeled rows and assigns the others to them, as in the paper (appendix A.2).
    """
    embeddings = state.model.embeddings(task.features)
    began = time.perf_counter()
    clusters = cluster(
        embeddings,
        **how.describe(),
        subset=task.find_rows(state.picked) if how.method == "assign" else None,
        zeros="singletons",  # all units of a hidden layer of ReLUs may be zero for a row
        centroids=False,
    )
    return clusters, time.perf_counter() - began


class Archive(Protocol):
    """Where a trial stores what it has made, and looks for what was made before."""

    def read_first(self, trial: int) -> Round | None:
        """Round 0 of a trial, if it is there."""

    def read_rounds(self, trial: int, strategy: str, batch_size: int) -> Sequence[Round]:
        """The rounds of a strategy from round 1 on, up to the first that is missing."""

    def write_round(self, done: Round, batch_size: int) -> None:
        """Store a round. Round 0 belongs to all batch sizes."""

    def read_check(self, trial: int, batch_size: int) -> Check | None:
        """The check of a trial with one batch size, if it is there."""

    def write_check(self, done: Check) -> None:
        """Store a check."""

    def share_clusters(
        self, trial: int, how: Clustering, make: Callable[[], tuple[Clusters, float]]
    ) -> tuple[Clusters, float]:
        """The stored clusters and the seconds they took; if there are none, those of `make()`, which are stored."""


class NoArchive:
    """Stores nothing: every round is run."""

    def read_first(self, trial: int) -> Round | None:
        return None

    def read_rounds(self, trial: int, strategy: str, batch_size: int) -> Sequence[Round]:
        return ()

    def write_round(self, done: Round, batch_size: int) -> None:
        pass

    def read_check(self, trial: int, batch_size: int) -> Check | None:
        return None

    def write_check(self, done: Check) -> None:
        pass

    def share_clusters(
        self, trial: int, how: Clustering, make: Callable[[], tuple[Clusters, float]]
    ) -> tuple[Clusters, float]:
        return make()


@dataclass
class Trial:
    """One trial of a task with an oracle. What its strategies share is made once, when one of them first needs it.

    `report(phase)` is called before every step that takes time.
    """

    task: Task
    trainer: Any
    plan: Plan
    number: int = 0
    archive: Archive = field(default_factory=NoArchive)
    report: Callable[[str], None] = field(default=lambda phase: None)
    _first: Round | None = field(default=None, init=False)
    _opened: State | None = field(default=None, init=False)
    _clusters: dict[Clustering, tuple[Clusters, float]] = field(default_factory=dict, init=False)

    def play(
        self,
        strategy: Any,
        *,
        name: str,
        batch_size: int | None = None,
        clustering: Clustering | None = None,
        stream: int = 0,
    ) -> Iterator[Round]:
        """Yield the rounds of one strategy, round 0 first: from the archive, or run now and written to it.

        name: what the records call the strategy. batch_size, clustering: those of the plan if not given. stream: other
        numbers select with other random numbers.
        """
        k = batch_size or self.plan.batch_size
        first, done = self.open(), self.archive.read_rounds(self.number, name, k)[: self.plan.rounds]
        yield replace(first, strategy=name)
        yield from done
        if len(done) == self.plan.rounds:
            return
        needs = self.task.find_needs(strategy)
        state = restore(self.task, self.trainer, (first, *done)) if done else self.open_state()
        clusters = self.cluster(clustering)[0] if "clusters" in needs else None
        for number in range(len(done) + 1, self.plan.rounds + 1):
            self.report(f"trial {self.number + 1}: {name}, batches of {k:,}, round {number}")
            state, after = self._run_round(state, strategy, clusters, k, number, stream)
            after = replace(after, strategy=name)
            self.archive.write_round(after, k)
            yield after

    def check(self, rounds: Sequence[Round], batch_size: int | None = None) -> Check:
        """A model trained in one go on what all rounds of a strategy labeled: from the archive, or made now.

        rounds: those of `play`, round 0 first.
        """
        k = batch_size or self.plan.batch_size
        done = self.archive.read_check(self.number, k)
        if done is None:
            name, number = rounds[-1].strategy, rounds[-1].round
            self.report(f"trial {self.number + 1}: {name}, batches of {k:,}, trained in one go")
            picked, labels = (np.concatenate([getattr(one, of) for one in rounds]) for of in ("picked", "labels"))
            meter = Meter()
            with meter.time("train"):
                seed = derive_seed(self.number, number, CHECK)
                model = self.task.train(self.trainer, None, picked, labels, seed=seed)
            values = self.task.measure(model)
            done = Check(self.number, k, name, len(picked), values, meter.train_seconds)
            self.archive.write_check(done)
        return done

    def open(self) -> Round:
        """Round 0: a seed set drawn uniformly, and the model trained on it."""
        if self._first is None:
            self._first = self.archive.read_first(self.number)
        if self._first is None:
            self.plan.check(self.task.size, self.task.unit)
            self.report(f"trial {self.number + 1}: first model")
            rng = np.random.default_rng(derive_seed(self.number, 0, DRAW))
            picked = rng.choice(self.task.size, self.plan.seed_size, replace=False).astype(np.int64)
            self._opened, self._first = self._learn(EMPTY, picked, 0, Meter())
            self.archive.write_round(self._first, 0)
        return self._first

    def open_state(self) -> State:
        """The state after round 0."""
        first = self.open()
        if self._opened is None:
            self._opened = restore(self.task, self.trainer, (first,))
        return self._opened

    def cluster(self, how: Clustering | None = None) -> tuple[Clusters, float]:
        """Clusters of the pool by the first model's embeddings, and the seconds that took."""
        how = how or self.plan.clustering

        def make() -> tuple[Clusters, float]:
            self.report(f"trial {self.number + 1}: clustering {self.task.n:,} rows ({how.method})")
            return cluster_pool(self.task, self.open_state(), how)

        if how not in self._clusters:
            self._clusters[how] = self.archive.share_clusters(self.number, how, make)
        return self._clusters[how]

    def _run_round(
        self, state: State, strategy: Any, clusters: Clusters | None, k: int, number: int, stream: int
    ) -> tuple[State, Round]:
        meter = Meter()
        seed = derive_seed(self.number, number, SELECT, *(() if stream == 0 else (stream,)))
        batch = choose(self.task, state, strategy, k, clusters=clusters, seed=seed, meter=meter)
        return self._learn(state, self.task.find_picked(batch), number, meter)

    def _learn(self, state: State, picked: Picks, number: int, meter: Meter) -> tuple[State, Round]:
        seed = derive_seed(self.number, number, TRAIN)
        after = learn(self.task, self.trainer, state, picked, self.task.ask(picked), seed=seed, meter=meter)
        labels, values = after.labels[len(state.labels) :], self.task.measure(after.model)
        done = Round(self.number, "", number, len(after.picked), values, picked, labels, **asdict(meter))
        return after, done


def _mask(picked: Picks, size: int) -> npt.NDArray[np.bool_]:
    mask = np.zeros(size, np.bool_)
    mask[picked] = True
    return mask
