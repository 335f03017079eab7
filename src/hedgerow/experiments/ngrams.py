"""A network over character n-grams, trained on (row, class) pairs: no training library needed.

A text is the mean of the vectors of its hashed 1- to 4-grams, then one hidden layer of ReLUs, the embedding, then one
logit per class, of which the head makes probabilities. With independent classes, each is the sigmoid of its logit. With
a softmax they sum to 1, as if a text had exactly one class. The loss of a pair is the cross-entropy of its probability.

Training is Adagrad on minibatches of pairs; only the vectors that a minibatch uses are touched, so a step costs the
same whatever the size of the table. On one thread the same pairs, answers and seed give the same weights, bit for bit.

A round's model starts either from the model of the previous round (`start = "previous"`, as in the paper, section 3.2)
or, in every round, from the first model (`start = "first"`), so that no answer is trained on more often because it came
early.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from hedgerow import checks
from hedgerow.errors import InputError
from hedgerow.experiments.data.texts import Texts
from hedgerow.kernels import grams as kernels
from hedgerow.models.protocol import draw_walk
from hedgerow.pairs import Pairs

Floats = npt.NDArray[np.float32]

SCHEDULES = ("constant", "linear")
BEGIN_SEED = 0  # all trials start from the same first model, as in the paper
PREDICT_TEXTS = 2048  # texts predicted at a time: a hidden layer of 128 then takes 1 MiB
EPSILON = np.float32(1e-10)


@dataclass(frozen=True)
class GramTraining:
    """How the network is trained: `epochs` passes over the pairs, or exactly `steps` minibatches if given.

    learning_rate: that of Adagrad; with the schedule "linear" it decays to zero.
    """

    epochs: int = 2
    steps: int | None = None
    minibatch: int = 500
    learning_rate: float = 0.1
    schedule: str = "linear"

    def check(self) -> None:
        """Refuse values that cannot be used."""
        for name in ("epochs", "minibatch"):
            checks.integer(getattr(self, name), name, least=1)
        if self.steps is not None:
            checks.integer(self.steps, "steps", least=1)
        checks.real(self.learning_rate, "learning_rate", above=0)
        checks.option(self.schedule, "schedule", SCHEDULES)


@dataclass(frozen=True)
class Weights:
    """The vectors of the n-grams, the hidden layer and the logits; all float32."""

    vectors: Floats  # (BUCKETS, width)
    hidden: Floats  # (hidden, width)
    hidden_bias: Floats  # (hidden,)
    out: Floats  # (classes, hidden)
    out_bias: Floats  # (classes,)

    def copy(self) -> "Weights":
        return Weights(*(part.copy() for part in self.parts))

    @property
    def parts(self) -> tuple[Floats, ...]:
        return self.vectors, self.hidden, self.hidden_bias, self.out, self.out_bias

    def activate(self, means: Floats) -> Floats:
        """The hidden layer (m, hidden) of texts by the means of their vectors (m, width)."""
        active: Floats = means @ self.hidden.T
        active += self.hidden_bias
        np.maximum(active, 0, out=active)
        return active


@dataclass(frozen=True)
class NGramTrainer:
    """A `PairTrainer` for `Texts`.

    spread: the standard deviation of a new network's vectors. A small one keeps n-grams that were never trained on from
    adding noise to the mean. head: "independent" or "softmax".
    """

    classes: int
    width: int = 64
    hidden: int = 128
    spread: float = 0.01
    start: str = "first"
    head: str = "independent"
    training: GramTraining = GramTraining()
    first_training: GramTraining = GramTraining(epochs=4)

    def begin(self, features: Any = None, pairs: Pairs | None = None, answers: Any = None) -> "FittedNGrams":
        """A new network, trained on these pairs if any are given."""
        fresh = FittedNGrams(self._draw(np.random.default_rng(BEGIN_SEED)), self.head)
        if pairs is None:
            return fresh
        return self._train(fresh, features, pairs, answers, self.first_training, BEGIN_SEED)

    def tune(self, before: "FittedNGrams", features: Any, pairs: Pairs, answers: Any, *, seed: int) -> "FittedNGrams":
        """A copy of `before`, or of the first model, trained on these pairs."""
        first = before.first or before
        after = self._train(
            first if self.start == "first" else before, features, pairs, answers, self.training, checks.seed(seed)
        )
        return replace(after, first=first)

    def _draw(self, rng: np.random.Generator) -> Weights:
        """New weights: normal vectors, layers uniform within one over the root of their inputs, as torch has them."""

        def layer(outputs: int, inputs: int) -> tuple[Floats, Floats]:
            bound = inputs**-0.5
            drawn = rng.uniform(-bound, bound, (outputs, inputs + 1)).astype(np.float32)
            return np.ascontiguousarray(drawn[:, :-1]), drawn[:, -1].copy()

        vectors = rng.standard_normal((kernels.BUCKETS, self.width), np.float32) * np.float32(self.spread)
        return Weights(vectors, *layer(self.hidden, self.width), *layer(self.classes, self.hidden))

    def _train(
        self, before: "FittedNGrams", texts: Texts, pairs: Pairs, answers: Any, training: GramTraining, seed: int
    ) -> "FittedNGrams":
        training.check()
        checks.same_length({"pairs": len(pairs), "answers": len(answers)})
        if len(pairs) == 0:
            raise InputError("a model needs answers to train on, got none: draw a seed set first")
        pairs.refuse_outside(len(texts), self.classes)
        weights, truth = before.weights.copy(), np.asarray(answers, np.float32)
        minibatch = min(training.minibatch, len(pairs))
        steps = training.steps or training.epochs * max(1, len(pairs) // minibatch)
        walk = draw_walk(len(pairs), steps * minibatch, np.random.default_rng(seed)).reshape(steps, minibatch)
        descent = Descent(weights, HEADS[self.head], texts, minibatch)
        with threadpool_limits(1, "blas"):  # the sums must not depend on the number of cores
            for number, some in enumerate(walk):
                decay = 1 - number / steps if training.schedule == "linear" else 1.0
                descent.step(pairs.rows[some], pairs.classes[some], truth[some], training.learning_rate * decay)
        return FittedNGrams(weights, self.head)


class Descent:
    """Adagrad (Duchi, Hazan and Singer 2011) on the weights of one network, which it changes in place."""

    def __init__(self, weights: Weights, head: "Head", texts: Texts, minibatch: int) -> None:
        self.weights, self.head, self.texts = weights, head, texts
        self.squares = [np.zeros_like(part) for part in weights.parts]
        longest = int(np.diff(texts.starts).max())
        width = weights.vectors.shape[1]
        self.grams = np.empty(minibatch * kernels.GRAMS * longest, np.int32)
        self.ends = np.empty(minibatch, np.int64)
        self.means = np.empty((minibatch, width), np.float32)
        self.slots = np.full(kernels.BUCKETS, -1, np.int32)
        most = min(len(self.grams), kernels.BUCKETS)
        self.touched, self.totals = np.empty(most, np.int32), np.empty((most, width), np.float32)

    def step(self, rows: npt.NDArray[Any], classes: npt.NDArray[Any], truth: Floats, rate: float) -> None:
        """One step on a minibatch of pairs."""
        weights, means = self.weights, self.means
        kernels.gather(self.texts.codes, self.texts.starts, rows, weights.vectors, self.grams, self.ends, means)
        active = weights.activate(means)
        toward, out, out_bias = self.head.slope(weights, active, classes, truth)
        back = np.where(active > 0, toward, np.float32(0))
        downward = back @ weights.hidden
        gradients = (back.T @ means, back.sum(axis=0), out, out_bias)
        for part, squares, gradient in zip(weights.parts[1:], self.squares[1:], gradients, strict=True):
            squares += gradient * gradient
            part -= np.float32(rate) * gradient / (np.sqrt(squares) + EPSILON)
        kernels.descend(
            weights.vectors, self.squares[0], self.grams, self.ends, downward, np.float32(rate), EPSILON,
            self.slots, self.touched, self.totals,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class FittedNGrams:
    """A trained network; `first` is the model that it began from, None if it is one itself."""

    weights: Weights
    head: str = "independent"
    first: "FittedNGrams | None" = None

    def probabilities(self, features: Texts) -> Floats:
        weights, spread = self.weights, HEADS[self.head].spread
        return self._predict(features, lambda active: spread(active @ weights.out.T + weights.out_bias))

    def embeddings(self, features: Texts) -> Floats:
        return self._predict(features, lambda active: active)

    def _predict(self, texts: Texts, action: Any) -> Floats:
        if len(texts) == 0:
            raise InputError("features has no rows: there is nothing to predict")
        order, ordered = texts.sorted
        out: Floats | None = None
        with threadpool_limits(1, "blas"):
            for start in range(0, len(texts), PREDICT_TEXTS):
                part = Texts(ordered.codes, ordered.starts[start : start + PREDICT_TEXTS + 1])
                found = action(self.weights.activate(part.average_grams(self.weights.vectors)))
                if out is None:
                    out = np.empty((len(texts), found.shape[1]), np.float32)
                out[order[start : start + PREDICT_TEXTS]] = found
        assert out is not None
        return out


def sigmoid(logits: Floats) -> Floats:
    """1 / (1 + exp(-x)), without overflow."""
    half: Floats = np.tanh(logits * np.float32(0.5))
    return half * np.float32(0.5) + np.float32(0.5)


def softmax(logits: Floats) -> Floats:
    """exp(x) over its sum in each row, without overflow; a logit of minus infinity has no share."""
    shares: Floats = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return shares


Slopes = tuple[Floats, Floats, Floats]  # of the hidden layer (m, hidden), the logits' weights and their bias


def slope_independent(weights: Weights, active: Floats, classes: npt.NDArray[Any], truth: Floats) -> Slopes:
    """The gradients of the loss of pairs where every class is for itself."""
    asked = weights.out[classes]
    logits = np.einsum("ij,ij->i", active, asked) + weights.out_bias[classes]
    errors = sigmoid(logits) - truth
    out, out_bias = np.zeros_like(weights.out), np.zeros_like(weights.out_bias)
    kernels.add_rows(out, out_bias, classes, active, errors)
    return asked * errors[:, None], out, out_bias


def slope_softmax(weights: Weights, active: Floats, classes: npt.NDArray[Any], truth: Floats) -> Slopes:
    """The same where probabilities sum to 1: -log p of the class for a yes, -log(1 - p) for a no.

    Its gradient by the logits is the probabilities minus those that the answer leaves: all on the class after a yes,
    the softmax of the other classes after a no.
    """
    logits = active @ weights.out.T
    logits += weights.out_bias
    errors = softmax(logits)  # (m, C)
    places = np.arange(len(classes))
    logits[places, classes] = -np.inf
    yes = truth > 0
    errors[~yes] -= softmax(logits[~yes])
    errors[places[yes], classes[yes]] -= 1
    return errors @ weights.out, errors.T @ active, errors.sum(axis=0)


@dataclass(frozen=True)
class Head:
    """What makes probabilities of logits, and the gradients of their loss."""

    spread: Callable[[Floats], Floats]
    slope: Callable[[Weights, Floats, npt.NDArray[Any], Floats], Slopes]


HEADS = {"independent": Head(sigmoid, slope_independent), "softmax": Head(softmax, slope_softmax)}
