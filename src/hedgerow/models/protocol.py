"""What the loop needs from a model: protocols with two or three methods each.

A `Trainer` fits a model from scratch on features and labels. The result is a `Fitted`, which predicts class
probabilities and embeddings, the output of its last hidden layer ("the penultimate layer" in section 3.1 of the paper).
For (row, class) pairs, a `PairTrainer` begins a model and trains it in every round (section 3.2), from the model of the
previous round or from the first one; the result is a `FittedPairs`, which predicts a probability for every row and
class. Any object with these methods will do: nothing is inherited or registered. This module imports no numba and no
training library.
"""

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError

if TYPE_CHECKING:
    from hedgerow.pairs import Pairs

Floats = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.int64]
STARTS = ("previous", "first")  # the model that a round's training starts from, for pairs


class Fitted(Protocol):
    """A trained model of rows. It never changes."""

    def probabilities(self, features: Any) -> Floats:
        """Class probabilities (n, classes); each row sums to 1."""

    def embeddings(self, features: Any) -> Floats:
        """The output of the last hidden layer (n, width)."""


class Trainer(Protocol):
    """Trains models from scratch: the same features, labels and seed give the same model."""

    def fit(self, features: Any, labels: Labels, *, seed: int) -> Fitted:
        """Train on the features of the labeled rows; `labels` are class numbers 0.., in the same order."""


class FittedPairs(Protocol):
    """A trained model of a multi-label pool. It never changes."""

    def probabilities(self, features: Any) -> Floats:
        """The probability that each row has each class (n, classes), independent of each other."""

    def embeddings(self, features: Any) -> Floats:
        """The output of the last hidden layer (n, width)."""


class PairTrainer(Protocol):
    """Begins models of (row, class) pairs and trains them further: the same input gives the same model.

    If it has an attribute `start` that is "first", `tune` trains from the model of `begin()` whatever `before` is, and
    earlier rounds need not be trained again to continue after a later one.
    """

    def begin(self, features: Any = None, pairs: "Pairs | None" = None, answers: Any = None) -> FittedPairs:
        """A first model, trained on these pairs and their answers, bool (m,), if any are given."""

    def tune(self, before: Any, features: Any, pairs: "Pairs", answers: Any, *, seed: int) -> FittedPairs:
        """A new model: `before`, a model of this trainer, trained further on these pairs about rows of `features`.

        With `start` "first" it is the model that `before` began from, trained on these pairs.
        """


def check_labels(labels: Labels, features: Any, classes: int) -> None:
    """Check that there is one label per row, at least one, and that each is a class number below `classes`."""
    checks.integer(classes, "classes", least=2)
    checks.same_length({"features": len(features), "labels": len(labels)})
    if len(labels) == 0:
        raise InputError("a model needs labels to train on, got none: draw a seed set first")
    if labels.min() < 0 or labels.max() >= classes:
        bad = labels[(labels < 0) | (labels >= classes)][0]
        raise InputError(f"labels contain class {bad}, but the classes are 0 to {classes - 1}")


def draw_walk(n: int, length: int, rng: np.random.Generator) -> Labels:
    """Rows 0..n-1, one permutation after another, cut to `length`: every row is drawn equally often, to within one."""
    passes = -(-length // n)
    return np.concatenate([rng.permutation(n) for _ in range(passes)])[:length]
