"""What the loop asks of a model: three verbs, or four where questions are answered.

A `Trainer` is fitted from scratch on features and labels and gives a `Fitted`, which answers with class probabilities
and with embeddings, the output of its last hidden layer (the paper's section 3.1: "the penultimate layer"). Where a
label is the answer to a question (row, class), a `QuestionTrainer` begins a model and trains it further in every round
(section 3.2), and an `Answering` model gives a chance for every row and class. Anything with these methods is a model;
nothing is inherited or registered.
"""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError
from hedgerow.pairs import Pairs

Floats = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.int64]


class Fitted(Protocol):
    """A trained model: answers for any rows' features, and never changes."""

    def probabilities(self, features: Any) -> Floats:
        """Class probabilities (n, classes), each row summing to 1."""

    def embeddings(self, features: Any) -> Floats:
        """The last hidden layer's output (n, width)."""


class Trainer(Protocol):
    """How a model is made. `fit` starts from scratch: the same features, labels and seed give the same model."""

    def fit(self, features: Any, labels: Labels, *, seed: int) -> Fitted:
        """Train on the labeled rows' features; `labels` are class numbers 0.., in the same order."""


class Answering(Protocol):
    """A model of a multi-label pool: answers for any rows' features, and never changes."""

    def chances(self, features: Any) -> Floats:
        """The probability that each row has each class (n, classes), independent of each other."""

    def embeddings(self, features: Any) -> Floats:
        """The last hidden layer's output (n, width)."""


class QuestionTrainer(Protocol):
    """How a model of questions is made and trained further: the same input gives the same model."""

    def begin(self, features: Any = None, pairs: Pairs | None = None, answers: Any = None) -> Answering:
        """A first model, trained on these questions and answers, bool (m,), if there are any."""

    def tune(self, before: Any, features: Any, pairs: Pairs, answers: Any, *, seed: int) -> Answering:
        """Another model: `before`, one of its own, trained further on these questions about rows of `features`."""


def check_labels(labels: Labels, features: Any, classes: int) -> None:
    """As many labels as rows, at least one, each a class number below `classes`."""
    checks.integer(classes, "classes", least=2)
    checks.same_length({"features": len(features), "labels": len(labels)})
    if len(labels) == 0:
        raise InputError("a model needs labels to be trained on, got none: draw a seed set first")
    if labels.min() < 0 or labels.max() >= classes:
        bad = labels[(labels < 0) | (labels >= classes)][0]
        raise InputError(f"labels hold class {bad}, but the classes are 0 to {classes - 1}")


def draw_walk(n: int, length: int, rng: np.random.Generator) -> Labels:
    """Rows 0..n-1 in permutation after permutation, until `length` are drawn: every row as often as every other."""
    passes = -(-length // n)
    return np.concatenate([rng.permutation(n) for _ in range(passes)])[:length]
