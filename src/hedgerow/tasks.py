"""What the loop runs on: a pool whose rows are labeled, or a pool whose (row, class) pairs are answered.

Both kinds of task have the same methods: `ask` an oracle for labels, `train` a model on what is labeled, `predict` what
a strategy needs, `select` a batch, `measure` a model on the test set. What is picked is a position: a row of the pool
in a `RowTask`, the position of a pair in `Pairs` in a `PairTask` (paper, section 3.2). Row models are trained from
scratch in every round; pair models are trained further, as the paper does on Open Images, or from their first model.

What it does not do: run rounds (`rounds.py`), or load data.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from hedgerow.batches import Batch, PairBatch
from hedgerow.clustering.clusters import Clusters
from hedgerow.errors import InputError
from hedgerow.metrics import METRICS, PAIR_METRICS
from hedgerow.models.protocol import Fitted, FittedPairs, PairTrainer, Trainer
from hedgerow.pairs import PAIR_STRATEGIES, Pairs, select_pairs
from hedgerow.strategies import STRATEGIES, find_needs, select

Picks = npt.NDArray[np.int64]  # rows of the pool, or positions in Pairs
Labels = npt.NDArray[np.int64]
Oracle = Callable[[Picks], npt.NDArray[Any]]
# (everything labeled after a round, its labels, the seed of the round's training), one entry per round
History = Iterable[tuple[Picks, Labels, int]]

FROM_PROBABILITIES = frozenset({"margins", "row_margins", "probabilities"})
NO_ORACLE = "this task has no oracle to ask: pass the labels to rounds.learn()"


class Task(Protocol):
    """What the loop needs from a task. `n` is the number of rows, `size` the number of labels that can be asked for."""

    unit: ClassVar[str]  # what gets a label: "row" or "pair"

    @property
    def n(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def features(self) -> Any: ...

    def ask(self, picked: Picks) -> npt.NDArray[Any]: ...

    def check_labels(self, picked: Picks, labels: Any) -> Labels: ...

    def train(self, trainer: Any, before: Any, picked: Picks, labels: Labels, *, seed: int) -> Any: ...

    def retrain(self, trainer: Any, history: History) -> Any: ...

    def find_needs(self, strategy: Any) -> frozenset[str]: ...

    def predict(self, model: Any, clusters: Clusters | None, strategy: Any) -> dict[str, Any]: ...

    def select(self, strategy: Any, k: int, *, labeled: Any, seed: int, **inputs: Any) -> Batch | PairBatch: ...

    def find_picked(self, batch: Any) -> Picks: ...

    def find_rows(self, picked: Picks) -> Picks: ...

    def measure(self, model: Any) -> dict[str, float]: ...


@dataclass(frozen=True)
class RowTask:
    """A pool of n rows, an oracle that knows their labels, and a test set. `features[rows]` must give those rows."""

    features: Any
    n: int
    oracle: Oracle | None
    test_features: Any
    test_labels: Labels
    unit: ClassVar[str] = "row"

    @property
    def size(self) -> int:
        return self.n

    def ask(self, picked: Picks) -> npt.NDArray[Any]:
        """The labels of these rows, from the oracle."""
        return _ask(self.oracle, picked)

    def check_labels(self, picked: Picks, labels: Any) -> Labels:
        """Labels as int64, one class number per row."""
        return _check_labels(picked, labels, "iu", "rows", "class number")

    def train(self, trainer: Trainer, before: Fitted | None, picked: Picks, labels: Labels, *, seed: int) -> Fitted:
        """A model of these rows, trained from scratch: `before` is not used."""
        return trainer.fit(self.features[picked], labels, seed=seed)

    def retrain(self, trainer: Trainer, history: History) -> Fitted:
        """The model after the last round of a history. Earlier models have no influence on it."""
        *_, (picked, labels, seed) = history
        return self.train(trainer, None, picked, labels, seed=seed)

    def find_needs(self, strategy: Any) -> frozenset[str]:
        return find_needs(strategy, STRATEGIES)

    def predict(self, model: Fitted, clusters: Clusters | None, strategy: Any) -> dict[str, Any]:
        """The arguments of `select` that this strategy needs, and no others: predicting a pool is expensive."""
        return _predict(self.find_needs(strategy), model, self.features, clusters)

    def select(self, strategy: Any, k: int, *, labeled: Any, seed: int, **inputs: Any) -> Batch:
        return select(strategy, k, labeled=labeled, seed=seed, **inputs)

    def find_picked(self, batch: Batch) -> Picks:
        """The rows of a batch."""
        return batch.rows

    def find_rows(self, picked: Picks) -> Picks:
        """The rows of the pool that were picked, ascending."""
        return np.sort(picked)

    def measure(self, model: Fitted) -> dict[str, float]:
        """Every metric on the test set, by name."""
        probabilities = model.probabilities(self.test_features)
        return {name: metric(probabilities, self.test_labels) for name, metric in METRICS.items()}


@dataclass(frozen=True, eq=False)
class Annotated:
    """Rows, the pairs about them that can be answered, and the answers, bool (m,). `features[rows]` gives rows."""

    features: Any
    pairs: Pairs
    answers: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class PairTask:
    """A pool of n rows, its pairs, an oracle that knows the answers, a test set, and optionally a first training set.

    The first model is trained on `first`, which is not in the pool, before it is trained on the seed set.
    """

    features: Any
    n: int
    pairs: Pairs
    oracle: Oracle | None
    test: Annotated
    first: Annotated | None = None
    unit: ClassVar[str] = "pair"

    @property
    def size(self) -> int:
        return len(self.pairs)

    def ask(self, picked: Picks) -> npt.NDArray[Any]:
        """The answers to these pairs, from the oracle."""
        return _ask(self.oracle, picked)

    def check_labels(self, picked: Picks, labels: Any) -> Labels:
        """Answers as int64, one 0 or 1 per pair."""
        answers = _check_labels(picked, labels, "biu", "pairs", "answer, 0 or 1,")
        if wrong := set(np.unique(answers)) - {0, 1}:
            raise InputError(f"the answer to a pair is 0 or 1 (or a bool), got {min(wrong)}")
        return answers

    def train(
        self, trainer: PairTrainer, before: FittedPairs | None, picked: Picks, labels: Labels, *, seed: int
    ) -> FittedPairs:
        """The model `before`, trained further on all these pairs; without one, a first model is begun."""
        if before is None:
            first = self.first
            before = trainer.begin(*((first.features, first.pairs, first.answers) if first else ()))
        rows, compact = np.unique(self.pairs.rows[picked], return_inverse=True)
        asked = Pairs(compact, self.pairs.classes[picked])
        return trainer.tune(before, self.features[rows], asked, labels.astype(np.bool_), seed=seed)

    def retrain(self, trainer: PairTrainer, history: History) -> FittedPairs:
        """The model after the last round of a history, trained through all of its rounds again.

        If every round starts from the first model, earlier rounds have no influence on it and are not trained.
        """
        if getattr(trainer, "start", "previous") == "first":
            *_, last = history
            history = (last,)
        model: FittedPairs | None = None
        for picked, labels, seed in history:
            model = self.train(trainer, model, picked, labels, seed=seed)
        assert model is not None, "a history has a first round"
        return model

    def find_needs(self, strategy: Any) -> frozenset[str]:
        return find_needs(strategy, PAIR_STRATEGIES)

    def predict(self, model: FittedPairs, clusters: Clusters | None, strategy: Any) -> dict[str, Any]:
        """The arguments of `select_pairs` that this strategy needs, and no others."""
        return _predict(self.find_needs(strategy), model, self.features, clusters)

    def select(self, strategy: Any, k: int, *, labeled: Any, seed: int, **inputs: Any) -> PairBatch:
        return select_pairs(strategy, k, pairs=self.pairs, labeled=labeled, seed=seed, **inputs)

    def find_picked(self, batch: PairBatch) -> Picks:
        """The positions of a batch in `pairs`."""
        return batch.index

    def find_rows(self, picked: Picks) -> Picks:
        """The rows of the pool that these pairs are about, ascending."""
        return np.unique(self.pairs.rows[picked])

    def measure(self, model: FittedPairs) -> dict[str, float]:
        """Every metric on the test pairs, by name."""
        asked = self.test.pairs
        scores = model.probabilities(self.test.features)[asked.rows, asked.classes]
        return {name: metric(scores, self.test.answers, asked.classes) for name, metric in PAIR_METRICS.items()}


def _predict(
    needs: frozenset[str], model: Fitted | FittedPairs, features: Any, clusters: Clusters | None
) -> dict[str, Any]:
    inputs: dict[str, Any] = {}
    if needs & FROM_PROBABILITIES:
        inputs["probabilities"] = model.probabilities(features)
    if "embeddings" in needs:
        inputs["embeddings"] = model.embeddings(features)
    if "clusters" in needs:
        inputs["clusters"] = clusters
    return inputs


def _ask(oracle: Oracle | None, picked: Picks) -> npt.NDArray[Any]:
    if oracle is None:
        raise InputError(NO_ORACLE)
    return np.asarray(oracle(picked))


def _check_labels(picked: Picks, labels: Any, kinds: str, units: str, label: str) -> Labels:
    found = np.asarray(labels)
    if found.shape != picked.shape or found.dtype.kind not in kinds:
        raise InputError(
            f"{len(picked):,} {units} need one {label} each, got shape {found.shape} and dtype {found.dtype}"
        )
    return found.astype(np.int64)
