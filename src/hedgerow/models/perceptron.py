"""A multi-layer perceptron by scikit-learn, for small pools: the demo's model.

What it does not do: run on a GPU, or train on more than fits in memory. Its steps cost little on a few hundred features
and a few thousand rows; `networks.py` is for the rest.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError, MissingExtraError
from hedgerow.machine import limit_blas
from hedgerow.models.protocol import Floats, check_labels, draw_walk

PREDICT_ROWS = 8192  # rows that go through the network at a time: hidden layers of 128 then take 4 MiB, not the pool's


@dataclass(frozen=True)
class SklearnMLP:
    """A multi-layer perceptron by scikit-learn's `MLPClassifier` (Adam, ReLU), as a `Trainer`.

    It takes exactly `steps` gradient steps of `batch_rows` rows, however many rows are labeled, so that a strategy
    gains nothing by the longer training that more labels would otherwise bring. All `classes` have a column in the
    probabilities, whether or not the labels hold them. Needs the extra `sklearn`.
    """

    classes: int
    hidden: tuple[int, ...] = (128, 64)
    steps: int = 600
    batch_rows: int = 128
    learning_rate: float = 1e-3

    def fit(self, features: Floats, labels: npt.NDArray[np.int64], *, seed: int) -> "FittedMLP":
        self._check(features, labels)
        batch_rows = min(self.batch_rows, len(labels))
        network = _make_network(self, batch_rows, checks.seed(seed))
        rows = draw_walk(len(labels), self.steps * batch_rows, np.random.default_rng(seed))
        # One pass over the walk is `steps` steps, and one call: scikit-learn's checks cost more than a step does.
        # One thread: products this small gain nothing from more, and the sums' order must not depend on their number.
        with limit_blas():
            network.partial_fit(features[rows], labels[rows], classes=np.arange(self.classes))
        weights, biases = list(network.coefs_), list(network.intercepts_)
        if self.classes == 2:  # scikit-learn keeps one logit then: class 1's, against a zero for class 0
            weights[-1], biases[-1] = np.insert(weights[-1], 0, 0, axis=1), np.insert(biases[-1], 0, 0)
        return FittedMLP(tuple(weights), tuple(biases))

    def _check(self, features: Floats, labels: npt.NDArray[np.int64]) -> None:
        checks.integer(self.steps, "steps", least=1)
        checks.integer(self.batch_rows, "batch_rows", least=1)
        if not self.hidden:
            raise InputError("hidden must name at least one layer: its output is the embedding; got ()")
        checks.matrix(features, "features")
        check_labels(labels, features, self.classes)


@dataclass(frozen=True)
class FittedMLP:
    """A perceptron's weights and biases, layer by layer: ReLU between them, softmax at the end."""

    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]

    def probabilities(self, features: Floats) -> npt.NDArray[np.float32]:
        out = np.empty((len(features), len(self.biases[-1])), np.float32)
        with limit_blas():
            for start in range(0, len(features), PREDICT_ROWS):
                hidden = self._hide(features[start : start + PREDICT_ROWS])
                out[start : start + PREDICT_ROWS] = _softmax(hidden @ self.weights[-1] + self.biases[-1])
        return out

    def embeddings(self, features: Floats) -> npt.NDArray[np.float32]:
        out = np.empty((len(features), len(self.biases[-2])), np.float32)
        with limit_blas():
            for start in range(0, len(features), PREDICT_ROWS):
                out[start : start + PREDICT_ROWS] = self._hide(features[start : start + PREDICT_ROWS])
        return out

    def _hide(self, features: Floats) -> Floats:
        hidden = features
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = np.maximum(hidden @ weight + bias, 0)
        return hidden


def _make_network(trainer: SklearnMLP, batch_rows: int, seed: int) -> Any:
    try:
        from sklearn.neural_network import MLPClassifier
    except ImportError:
        raise MissingExtraError("SklearnMLP", "sklearn") from None
    return MLPClassifier(
        hidden_layer_sizes=trainer.hidden,
        batch_size=batch_rows,
        learning_rate_init=trainer.learning_rate,
        shuffle=False,  # the walk is shuffled already
        random_state=seed % 2**32,  # scikit-learn takes no wider seed
    )


def _softmax(logits: Floats) -> Floats:
    """Rows of probabilities; the largest logit is taken off first, so that nothing overflows."""
    odds: Floats = np.exp(logits - logits.max(axis=1, keepdims=True))
    odds /= odds.sum(axis=1, keepdims=True)
    return odds
