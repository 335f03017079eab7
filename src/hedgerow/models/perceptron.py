"""scikit-learn's multi-layer perceptron, for small pools: the model of the demo.

It is fast for a few hundred features and a few thousand rows; `networks.py` is for everything larger.

What it does not do: run on a GPU, or train on more than fits in memory.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError, MissingExtraError
from hedgerow.machine import limit_blas
from hedgerow.models.protocol import Floats, check_labels, draw_walk

PREDICT_ROWS = 8192  # rows predicted at a time: hidden layers of 128 then take 4 MiB


@dataclass(frozen=True)
class SklearnMLP:
    """scikit-learn's `MLPClassifier` (Adam, ReLU) as a `Trainer`.

    It takes exactly `steps` gradient steps of `minibatch` rows, however many rows are labeled, so that more labels do
    not also mean longer training. The probabilities have a column for each of the `classes`, whether or not a label has
    it. Needs the extra `sklearn`.
    """

    classes: int
    hidden: tuple[int, ...] = (128, 64)
    steps: int = 600
    minibatch: int = 128
    learning_rate: float = 1e-3

    def fit(self, features: Floats, labels: npt.NDArray[np.int64], *, seed: int) -> "FittedMLP":
        self._check(features, labels)
        minibatch = min(self.minibatch, len(labels))
        network = _make_network(self, minibatch, checks.seed(seed))
        rows = draw_walk(len(labels), self.steps * minibatch, np.random.default_rng(seed))
        # One pass over these rows is `steps` steps in one call: scikit-learn's checks cost more than a step does.
        # One thread: more do not help with products this small, and their number must not change the order of sums.
        with limit_blas():
            network.partial_fit(features[rows], labels[rows], classes=np.arange(self.classes))
        weights, biases = list(network.coefs_), list(network.intercepts_)
        if self.classes == 2:  # scikit-learn then has one logit, that of class 1; class 0 has logit 0
            weights[-1], biases[-1] = np.insert(weights[-1], 0, 0, axis=1), np.insert(biases[-1], 0, 0)
        return FittedMLP(tuple(weights), tuple(biases))

    def _check(self, features: Floats, labels: npt.NDArray[np.int64]) -> None:
        checks.integer(self.steps, "steps", least=1)
        checks.integer(self.minibatch, "minibatch", least=1)
        if not self.hidden:
            raise InputError("hidden must have at least one layer, whose output is the embedding; got ()")
        checks.matrix(features, "features")
        check_labels(labels, features, self.classes)


@dataclass(frozen=True)
class FittedMLP:
    """The weights and biases of a perceptron, by layer: ReLU between layers, softmax at the end."""

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


def _make_network(trainer: SklearnMLP, minibatch: int, seed: int) -> Any:
    try:
        from sklearn.neural_network import MLPClassifier
    except ImportError:
        raise MissingExtraError("SklearnMLP", "sklearn") from None
    return MLPClassifier(
        hidden_layer_sizes=trainer.hidden,
        batch_size=minibatch,
        learning_rate_init=trainer.learning_rate,
        shuffle=False,  # the rows are shuffled already
        random_state=seed % 2**32,  # scikit-learn takes no wider seed
    )


def _softmax(logits: Floats) -> Floats:
    """Rows of probabilities; the largest logit is subtracted first, so that nothing overflows."""
    odds: Floats = np.exp(logits - logits.max(axis=1, keepdims=True))
    odds /= odds.sum(axis=1, keepdims=True)
    return odds
