"""What the loop plays on: a pool whose rows are labeled, or one whose questions (row, class) are answered.

Both kinds have the same verbs: `ask` for labels by place, `train` a model on what is labeled, `predict` what a strategy
needs, `select`, `measure` on the test set. A place is a row of the pool, or a question's place in its `Pairs` (paper,
section 3.2). Rows are learned from scratch in every round; with questions the model of the last round is trained
further, as the paper trains on Open Images.

What it does not do: turn (`rounds.py`), or load data.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from hedgerow.clustering.clusters import Clusters
from hedgerow.errors import InputError
from hedgerow.metrics import METRICS, PAIR_METRICS
from hedgerow.models import Answering, Fitted, QuestionTrainer, Trainer
from hedgerow.pairs import PAIR_STRATEGIES, Pairs, select_pairs
from hedgerow.strategies import STRATEGIES, find_needs, select

Places = npt.NDArray[np.int64]
Labels = npt.NDArray[np.int64]
Oracle = Callable[[Places], npt.NDArray[Any]]

FROM_CHANCES = frozenset({"margins", "row_margins", "probabilities"})


class Playable(Protocol):
    """What the loop asks of a task; `size` is the number of labels to be had, `n` the number of rows."""

    unit: ClassVar[str]  # what a label is of

    @property
    def n(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def features(self) -> Any: ...

    def ask(self, places: Places) -> Labels: ...

    def train(self, trainer: Any, before: Any, places: Places, labels: Labels, *, seed: int) -> Any: ...

    def revive(self, trainer: Any, rounds: Iterable[tuple[Places, int]]) -> Any: ...

    def predict(self, model: Any, clusters: Clusters | None, strategy: Any) -> dict[str, Any]: ...

    def select(self, strategy: Any, k: int, *, labeled: Any, seed: int, **inputs: Any) -> Places: ...

    def measure(self, model: Any) -> dict[str, float]: ...

    def find_rows(self, places: Places) -> Places: ...


@dataclass(frozen=True)
class Task:
    """A pool, somebody who knows its labels, and a test set. `features[rows]` must give those rows' features."""

    features: Any
    n: int
    oracle: Oracle
    test_features: Any
    test_labels: Labels
    unit: ClassVar[str] = "row"

    @property
    def size(self) -> int:
        return self.n

    def ask(self, places: Places) -> Labels:
        """The labels of these rows."""
        return _ask(self.oracle, places, "iu", "rows and must answer with as many class numbers")

    def train(self, trainer: Trainer, before: Fitted | None, places: Places, labels: Labels, *, seed: int) -> Fitted:
        """A model of these rows, from scratch: what was there before does not count."""
        return trainer.fit(self.features[places], labels, seed=seed)

    def revive(self, trainer: Trainer, rounds: Iterable[tuple[Places, int]]) -> Fitted:
        """The model after the last of some rounds, from all that was labeled by then and the seed it was trained by."""
        *_, (places, seed) = rounds
        return self.train(trainer, None, places, self.ask(places), seed=seed)

    def predict(self, model: Fitted, clusters: Clusters | None, strategy: Any) -> dict[str, Any]:
        """What `select` has to be given for this strategy, and no more: a prediction of the pool is not free."""
        return _predict(
            find_needs(strategy, STRATEGIES), model.probabilities, model.embeddings, self.features, clusters
        )

    def select(self, strategy: Any, k: int, *, labeled: Any, seed: int, **inputs: Any) -> Places:
        return select(strategy, k, labeled=labeled, seed=seed, **inputs).rows

    def measure(self, model: Fitted) -> dict[str, float]:
        """The model's values on the test set, by the measure's name."""
        probabilities = model.probabilities(self.test_features)
        return {name: metric(probabilities, self.test_labels) for name, metric in METRICS.items()}

    def find_rows(self, places: Places) -> Places:
        """The pool's rows that these places are about, ascending."""
        return np.sort(places)


@dataclass(frozen=True, eq=False)
class Annotated:
    """Rows, the questions about them that can be answered, and the answers, bool (m,). features[rows] gives rows."""

    features: Any
    pairs: Pairs
    answers: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class PairTask:
    """A pool of n rows, the questions about them, somebody who can answer, a test set, perhaps a first training set.

    The first model is trained on `first`, which is not in the pool, before it is trained on the seed set.
    """

    features: Any
    n: int
    pairs: Pairs
    oracle: Oracle
    test: Annotated
    first: Annotated | None = None
    unit: ClassVar[str] = "question"

    @property
    def size(self) -> int:
        return len(self.pairs)

    def ask(self, places: Places) -> Labels:
        """The answers to these questions, 0 or 1."""
        return _ask(self.oracle, places, "biu", "questions and must answer each with 0 or 1 (or a bool)")

    def train(
        self, trainer: QuestionTrainer, before: Answering | None, places: Places, labels: Labels, *, seed: int
    ) -> Answering:
        """The model `before`, trained further on all these questions; without one, a first model is made."""
        if before is None:
            first = self.first
            before = trainer.begin(*((first.features, first.pairs, first.answers) if first else ()))
        rows, compact = np.unique(self.pairs.rows[places], return_inverse=True)
        asked = Pairs(compact, self.pairs.classes[places])
        return trainer.tune(before, self.features[rows], asked, labels.astype(np.bool_), seed=seed)

    def revive(self, trainer: QuestionTrainer, rounds: Iterable[tuple[Places, int]]) -> Answering:
        """The model after some rounds, trained through all of them again."""
        model: Answering | None = None
        for places, seed in rounds:
            model = self.train(trainer, model, places, self.ask(places), seed=seed)
        assert model is not None, "there is a first round"
        return model

    def predict(self, model: Answering, clusters: Clusters | None, strategy: Any) -> dict[str, Any]:
        """What `select_pairs` has to be given for this strategy, and no more."""
        needs = find_needs(strategy, PAIR_STRATEGIES)
        return _predict(needs, model.chances, model.embeddings, self.features, clusters)

    def select(self, strategy: Any, k: int, *, labeled: Any, seed: int, **inputs: Any) -> Places:
        return select_pairs(strategy, k, pairs=self.pairs, labeled=labeled, seed=seed, **inputs).index

    def measure(self, model: Answering) -> dict[str, float]:
        """The model's values on the test questions, by the measure's name."""
        asked = self.test.pairs
        scores = model.chances(self.test.features)[asked.rows, asked.classes]
        return {name: metric(scores, self.test.answers, asked.classes) for name, metric in PAIR_METRICS.items()}

    def find_rows(self, places: Places) -> Places:
        """The pool's rows that these questions are about, ascending."""
        return np.unique(self.pairs.rows[places])


def _predict(
    needs: frozenset[str], chances: Any, embeddings: Any, features: Any, clusters: Clusters | None
) -> dict[str, Any]:
    inputs: dict[str, Any] = {}
    if needs & FROM_CHANCES:
        inputs["probabilities"] = chances(features)
    if "embeddings" in needs:
        inputs["embeddings"] = embeddings(features)
    if "clusters" in needs:
        inputs["clusters"] = clusters
    return inputs


def _ask(oracle: Oracle, places: Places, kinds: str, how: str) -> Labels:
    """The oracle's answers, one a place."""
    labels = np.asarray(oracle(places))
    if labels.shape != places.shape or labels.dtype.kind not in kinds:
        raise InputError(
            f"the oracle was asked about {len(places):,} {how}; it gave shape {labels.shape} and dtype {labels.dtype}"
        )
    return labels.astype(np.int64)
