"""Heads: small models on embeddings that stay as they are, in numpy and scipy alone.

`LinearHead` is logistic regression: multinomial for rows with one class, one sigmoid per class for rows with any number
of classes and for (row, class) pairs. It minimizes

    sum of log losses + strength / 2 * sum of squared weights (not of biases)

by L-BFGS. If no strength is given, that of `STRENGTHS` with the least log loss under 5-fold cross-validation on the
training labels is taken. `PerceptronHead` has one hidden layer of ReLUs, trained by Adam on minibatches.

Columns are centered and scaled by what is labeled; those that are constant there are ignored. Classes that the labels
say nothing about are not trained: a class without a label has probability 0 in a multinomial model; one with only yes
or only no has (yes + 1/2) / (answers + 1) everywhere, 1/2 without any answer, so that pairs of a new class are asked.

The same labels and seed give the same head, whatever the number of threads. Training holds the labeled rows in float32;
prediction runs on all cores in blocks of rows.

What it does not do: change the embeddings, or stop early on rows that were set aside.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError
from hedgerow.machine import Team, team
from hedgerow.models.protocol import Floats, Labels, check_labels, draw_walk

STRENGTHS = (1000.0, 100.0, 10.0, 1.0, 0.1, 0.01)  # tried from the strongest on, until the loss rises
FEW_STRENGTH = 1.0  # with too few labels for cross-validation
FOLDS = 5
LEAST_CHECKED = 2 * FOLDS  # labels for cross-validation: two per fold
MOST_CHECKED = 5_000  # labels that are cross-validated on; the best strength hardly changes with more
MOST_CHECKED_LOGITS = 1 << 21  # labels times classes
BLOCK = 4096  # rows multiplied at a time: fixed, so that sums do not depend on the number of threads
PARTS = 16  # parts of the labels whose gradients are summed separately, at most
MOST_STEPS = 500  # of L-BFGS
TOLERANCE, ROUGH = 1e-6, 1e-4  # of the gradient of the mean loss: for the model, and in cross-validation

Doubles = npt.NDArray[np.float64]
Theta = tuple[Doubles, Doubles]  # weights (columns, classes), biases (classes,)


# What is to be learned. Each kind has the same methods:
#
# strata          a number for each label: folds get the same share of each
# take            some of the labels
# find_columns    the classes that can be trained
# restrict        (positions of the labels that say something about some classes, those labels for these classes alone)
# fixed           the probability of every class that is not trained
# judge           the sum of the log losses of the labels `at`; the logits become the derivatives


@dataclass(frozen=True, eq=False)
class Classes:
    """One class per row."""

    labels: Labels
    width: int

    def __len__(self) -> int:
        return len(self.labels)

    def strata(self) -> Labels:
        return self.labels

    def take(self, at: Labels) -> "Classes":
        return Classes(self.labels[at], self.width)

    def find_columns(self) -> Labels:
        present = np.unique(self.labels)
        return present if len(present) > 1 else present[:0]

    def restrict(self, columns: Labels) -> tuple[Labels, "Classes"]:
        place = np.full(self.width, -1, np.int64)
        place[columns] = np.arange(len(columns))
        kept = np.flatnonzero(place[self.labels] >= 0)
        return kept, Classes(place[self.labels[kept]], len(columns))

    def fixed(self) -> npt.NDArray[np.float32]:
        found = np.zeros(self.width, np.float32)
        found[self.labels[0]] = 1  # counts if it is the only class
        return found

    def judge(self, logits: Doubles, at: Any) -> float:
        labels = self.labels[at]
        rows = np.arange(len(labels))
        logits -= logits.max(axis=1, keepdims=True)
        right = logits[rows, labels]
        np.exp(logits, out=logits)
        sums = logits.sum(axis=1, keepdims=True)
        logits /= sums
        logits[rows, labels] -= 1
        return float(np.log(sums).sum() - right.sum())


@dataclass(frozen=True, eq=False)
class Sets:
    """Any number of classes per row: answers (m, width) of 0 and 1."""

    answers: npt.NDArray[np.bool_]

    @property
    def width(self) -> int:
        return int(self.answers.shape[1])

    def __len__(self) -> int:
        return len(self.answers)

    def strata(self) -> Labels:
        return np.zeros(len(self), np.int64)

    def take(self, at: Labels) -> "Sets":
        return Sets(self.answers[at])

    def find_columns(self) -> Labels:
        yes = self.answers.sum(axis=0)
        return np.flatnonzero((yes > 0) & (yes < len(self)))

    def restrict(self, columns: Labels) -> tuple[Labels, "Sets"]:
        return np.arange(len(self)), Sets(self.answers[:, columns])

    def fixed(self) -> npt.NDArray[np.float32]:
        return _share(self.answers.sum(axis=0), np.full(self.width, len(self)))

    def judge(self, logits: Doubles, at: Any) -> float:
        return _judge_yes(logits, self.answers[at])


@dataclass(frozen=True, eq=False)
class Answers:
    """Yes or no for one class of each row: a row is listed once for each of its pairs."""

    classes: Labels
    answers: npt.NDArray[np.bool_]
    width: int

    def __len__(self) -> int:
        return len(self.classes)

    def strata(self) -> Labels:
        return 2 * self.classes + self.answers

    def take(self, at: Labels) -> "Answers":
        return Answers(self.classes[at], self.answers[at], self.width)

    def find_columns(self) -> Labels:
        yes, asked = self._count()
        return np.flatnonzero((yes > 0) & (yes < asked))

    def restrict(self, columns: Labels) -> tuple[Labels, "Answers"]:
        place = np.full(self.width, -1, np.int64)
        place[columns] = np.arange(len(columns))
        kept = np.flatnonzero(place[self.classes] >= 0)
        kept = kept[np.argsort(self.classes[kept], kind="stable")]  # a class is then a range
        return kept, Answers(place[self.classes[kept]], self.answers[kept], len(columns))

    def fixed(self) -> npt.NDArray[np.float32]:
        return _share(*self._count())

    def _count(self) -> tuple[Labels, Labels]:
        """(yes, answers) per class."""
        return (
            np.bincount(self.classes[self.answers], minlength=self.width),
            np.bincount(self.classes, minlength=self.width),
        )

    def judge(self, logits: Doubles, at: Any) -> float:
        classes = self.classes[at]
        rows = np.arange(len(classes))
        asked = logits[rows, classes]
        loss = _judge_yes(asked, self.answers[at])
        logits[:] = 0
        logits[rows, classes] = asked
        return loss


Target = Classes | Sets | Answers


def _share(yes: Labels, asked: Labels) -> npt.NDArray[np.float32]:
    return ((yes + 0.5) / (asked + 1)).astype(np.float32)


def _judge_yes(logits: Doubles, answers: npt.NDArray[np.bool_]) -> float:
    """The sum of the binary log losses; `logits` become the derivatives."""
    from scipy.special import expit

    loss = float(np.logaddexp(0, logits).sum() - logits[answers].sum())
    expit(logits, out=logits)
    logits -= answers
    return loss


# The heads.


@dataclass(frozen=True)
class LinearHead:
    """Logistic regression on `classes` classes. strength: of the L2 penalty; None: chosen by cross-validation."""

    classes: int
    strength: float | None = None

    def fit(self, features: Any, labels: Any, *, seed: int) -> "FittedHead":
        """Train on class numbers (m,), answers (m, classes) of 0 and 1, or `PairAnswers`, one for each row."""
        target = read_target(labels, features, self.classes)
        checks.seed(seed)
        if self.strength is not None:
            checks.real(self.strength, "strength", above=0)
        scaling = Scaling.measure(features)
        columns = target.find_columns()
        strength = self.strength
        layers: tuple[tuple[Floats, Floats], ...] = ()
        if len(columns):
            kept, restricted = target.restrict(columns)
            x = scaling.apply(features[kept])
            with team() as crew:
                strength = choose_strength(x, restricted, seed, crew) if strength is None else strength
                weights, biases = minimize_loss(x, restricted, strength, crew)
            layers = ((weights.astype(np.float32), biases.astype(np.float32)),)
        independent = not isinstance(target, Classes)
        return FittedHead(scaling, layers, columns, target.fixed(), independent, strength)


@dataclass(frozen=True)
class PerceptronHead:
    """One hidden layer of ReLUs, trained by exactly `steps` steps of Adam, however many labels there are.

    decay: the share of the weights that a step takes off, per learning rate (AdamW).
    """

    classes: int
    hidden: int = 128
    steps: int = 1000
    minibatch: int = 64
    learning_rate: float = 1e-3
    decay: float = 0.1

    def fit(self, features: Any, labels: Any, *, seed: int) -> "FittedHead":
        """Train on class numbers (m,), answers (m, classes) of 0 and 1, or `PairAnswers`, one for each row."""
        target = read_target(labels, features, self.classes)
        for name in ("hidden", "steps", "minibatch"):
            checks.integer(getattr(self, name), name, least=1)
        checks.real(self.learning_rate, "learning_rate", above=0)
        checks.real(self.decay, "decay", least=0)
        scaling = Scaling.measure(features)
        columns = target.find_columns()
        layers: tuple[tuple[Floats, Floats], ...] = ()
        if len(columns):
            kept, restricted = target.restrict(columns)
            with team(1):
                layers = self._descend(scaling.apply(features[kept]), restricted, checks.seed(seed))
        return FittedHead(scaling, layers, columns, target.fixed(), not isinstance(target, Classes))

    def _descend(self, x: Floats, target: Target, seed: int) -> tuple[tuple[Floats, Floats], ...]:
        rng = np.random.default_rng(seed)
        minibatch = min(self.minibatch, len(target))
        shapes = ((x.shape[1], self.hidden), (self.hidden, target.width))
        found = [part for shape in shapes for part in (_draw_weights(rng, shape), np.zeros(shape[1]))]
        moments = [(np.zeros_like(part), np.zeros_like(part)) for part in found]
        walk = draw_walk(len(target), self.steps * minibatch, rng).reshape(self.steps, minibatch)
        for step, at in enumerate(walk, 1):
            inputs = x[at].astype(np.float64)
            hidden = np.maximum(inputs @ found[0] + found[1], 0)
            slope = hidden @ found[2] + found[3]
            target.judge(slope, at)
            slope /= minibatch
            inner = (slope @ found[2].T) * (hidden > 0)
            slopes = (inputs.T @ inner, inner.sum(axis=0), hidden.T @ slope, slope.sum(axis=0))
            rate = self.learning_rate * (1 - (step - 1) / self.steps)
            for part, part_slope, held in zip(found, slopes, moments, strict=True):
                _step(part, part_slope, held, step, rate, self.decay if part.ndim > 1 else 0.0)
        whole = [part.astype(np.float32) for part in found]
        return (whole[0], whole[1]), (whole[2], whole[3])


def _draw_weights(rng: np.random.Generator, shape: tuple[int, int]) -> Doubles:
    """As He et al. (2015) draw them for ReLUs: with variance 2 / inputs."""
    return rng.normal(0, np.sqrt(2 / shape[0]), shape)


def _step(part: Doubles, slope: Doubles, held: tuple[Doubles, Doubles], step: int, rate: float, decay: float) -> None:
    """One step of Adam (Kingma and Ba 2015, with their constants), with decoupled weight decay; in place."""
    first, second = held
    first += 0.1 * (slope - first)
    second += 0.001 * (slope * slope - second)
    part -= rate * decay * part
    part -= rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)


# Checks.


@dataclass(frozen=True, eq=False)
class PairAnswers:
    """What people said about pairs: the class of each and 0 or 1, beside the features of its row."""

    classes: npt.NDArray[Any]
    answers: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.classes)


def read_target(labels: Any, features: Any, classes: int) -> Target:
    """Labels, checked: class numbers (m,), answers (m, classes) of 0 and 1, or `PairAnswers`."""
    if isinstance(labels, PairAnswers):
        checks.integer(classes, "classes", least=1)
        checks.same_length({"classes": len(labels.classes), "answers": len(labels.answers)})
        answers = _read_yes(labels.answers, features)
        numbers = labels.classes
        if numbers.min() < 0 or numbers.max() >= classes:
            raise InputError(f"pairs have classes {numbers.min()} to {numbers.max()}, but there are 0 to {classes - 1}")
        return Answers(numbers.astype(np.int64), answers, classes)
    if np.ndim(labels) == 2:
        checks.integer(classes, "classes", least=1)
        if labels.shape[1] != classes:
            raise InputError(f"answers has {labels.shape[1]:,} columns, but there are {classes:,} classes")
        return Sets(_read_yes(labels, features))
    check_labels(labels, features, classes)
    return Classes(np.asarray(labels, np.int64), classes)


def _read_yes(answers: npt.NDArray[Any], features: Any) -> npt.NDArray[np.bool_]:
    checks.same_length({"features": len(features), "answers": len(answers)})
    if len(answers) == 0:
        raise InputError("a model needs labels to train on, got none: draw a seed set first")
    if answers.dtype != np.bool_ and not np.isin(answers, (0, 1)).all():
        raise InputError("answers must be 0 or 1, or bool")
    return answers.astype(np.bool_)


# Columns in one scale.


@dataclass(frozen=True, eq=False)
class Scaling:
    """The mean of each column, and 1 / standard deviation, 0 for a column that is constant; float32."""

    mean: Floats
    inverse: Floats

    @staticmethod
    def measure(features: Any) -> "Scaling":
        """Of the labeled rows, with sums in float64."""
        checks.matrix(features, "features")
        total, n = np.zeros(features.shape[1]), len(features)
        for start in range(0, n, BLOCK):
            block = np.asarray(features[start : start + BLOCK], np.float64)
            checks.finite(block, "features", first_row=start)
            total += block.sum(axis=0)
        mean = total / n
        squares = np.zeros_like(mean)
        for start in range(0, n, BLOCK):
            squares += np.square(np.asarray(features[start : start + BLOCK], np.float64) - mean).sum(axis=0)
        deviation = np.sqrt(squares / n)
        constant = deviation <= 1e-6 * np.abs(mean)  # float32 cannot tell less
        inverse = np.where(constant, 0, 1 / np.where(constant, 1, deviation))
        return Scaling(mean.astype(np.float32), inverse.astype(np.float32))

    def apply(self, features: Any) -> Floats:
        """Rows in one scale, as a new float32 array."""
        scaled: Floats = np.subtract(features, self.mean, dtype=np.float32)
        scaled *= self.inverse
        return scaled


# Logistic regression.


def choose_strength(x: Floats, target: Target, seed: int, crew: Team) -> float:
    """The strength with the least log loss on labels that were set aside, each once; the stronger if two are equal.

    A class that is not in the labels that a fold trains on is left out of its loss: no strength would change it.
    """
    rng = np.random.default_rng(seed)
    most = min(MOST_CHECKED, MOST_CHECKED_LOGITS // target.width)
    drawn = rng.permutation(len(target))[:most]
    if len(drawn) < LEAST_CHECKED:
        return FEW_STRENGTH
    fold = np.empty(len(drawn), np.int64)
    fold[np.argsort(target.strata()[drawn], kind="stable")] = np.arange(len(drawn)) % FOLDS
    parts = [
        _split(x, target, np.sort(drawn[fold != number]), np.sort(drawn[fold == number])) for number in range(FOLDS)
    ]
    parts = [(train, test) for train, test in parts if train[1].width and len(test[1])]
    if not parts:
        return FEW_STRENGTH
    starts: list[Theta | None] = [None] * len(parts)
    best, least = STRENGTHS[0], np.inf
    for strength in STRENGTHS:
        loss = 0.0
        for number, (train, test) in enumerate(parts):
            theta = minimize_loss(*train, strength, crew, start=starts[number], tolerance=ROUGH)
            loss += measure(*test, theta, crew)[0]
            starts[number] = theta
        if loss >= least:
            break
        best, least = strength, loss
    return best


def _split(
    x: Floats, target: Target, train: Labels, test: Labels
) -> tuple[tuple[Floats, Target], tuple[Floats, Target]]:
    """(rows and labels to train on, those to measure on), for the classes that can be trained on the former."""
    columns = target.take(train).find_columns()
    found = []
    for at in (train, test):
        kept, restricted = target.take(at).restrict(columns)
        found.append((x[at[kept]], restricted))
    return found[0], found[1]


def minimize_loss(
    x: Floats,
    target: Target,
    strength: float,
    crew: Team,
    *,
    start: Theta | None = None,
    tolerance: float = TOLERANCE,
) -> Theta:
    """The weights and biases with the least penalized loss, by L-BFGS from `start` or zero."""
    from scipy.optimize import minimize

    m, columns, width = len(target), x.shape[1], target.width

    def assess(flat: Doubles) -> tuple[float, Doubles]:
        weights, biases = flat[:-width].reshape(columns, width), flat[-width:]
        loss, *slopes = measure(x, target, (weights, biases), crew)
        slope = np.concatenate([(slopes[0] + strength * weights).ravel(), slopes[1]])
        return (loss + strength / 2 * float(np.vdot(weights, weights))) / m, slope / m

    first = np.zeros((columns + 1) * width) if start is None else np.concatenate([start[0].ravel(), start[1]])
    options = {"maxiter": MOST_STEPS, "gtol": tolerance, "ftol": 64 * np.finfo(float).eps, "maxls": 50}
    found = minimize(assess, first, jac=True, method="L-BFGS-B", options=options).x
    return found[:-width].reshape(columns, width), found[-width:]


def measure(x: Floats, target: Target, theta: Theta, crew: Team) -> tuple[float, Doubles, Doubles]:
    """(sum of the losses, its derivatives by weights and biases)."""
    if isinstance(target, Answers):
        return _measure_pairs(x, target, theta)
    weights, biases = theta
    m = len(target)
    edges = [m * part // PARTS for part in range(PARTS + 1)] if m > PARTS * BLOCK else [*range(0, m, BLOCK), m]

    def assess(part: int) -> tuple[float, Doubles, Doubles]:
        loss, slope, bias_slope = 0.0, np.zeros_like(weights), np.zeros_like(biases)
        for start in range(edges[part], edges[part + 1], BLOCK):
            at = slice(start, min(start + BLOCK, edges[part + 1]))
            block = x[at].astype(np.float64)
            logits = block @ weights
            logits += biases
            loss += target.judge(logits, at)
            slope += block.T @ logits
            bias_slope += logits.sum(axis=0)
        return loss, slope, bias_slope

    return _add(crew.map(assess, range(len(edges) - 1)))


def _measure_pairs(x: Floats, target: Answers, theta: Theta) -> tuple[float, Doubles, Doubles]:
    """The same for pairs, class by class: logits of classes that were not asked are not computed."""
    weights, biases = theta
    slope, bias_slope, loss = np.zeros_like(weights), np.zeros_like(biases), 0.0
    edges = np.searchsorted(target.classes, np.arange(target.width + 1))
    for number in range(target.width):
        at = slice(edges[number], edges[number + 1])
        block = x[at].astype(np.float64)
        logits = block @ weights[:, number] + biases[number]
        loss += _judge_yes(logits, target.answers[at])
        slope[:, number], bias_slope[number] = logits @ block, logits.sum()
    return loss, slope, bias_slope


def _add(parts: Sequence[tuple[float, Doubles, Doubles]]) -> tuple[float, Doubles, Doubles]:
    """Sums in the order of the parts."""
    loss, slope, bias_slope = parts[0]
    for more in parts[1:]:
        loss += more[0]
        slope += more[1]
        bias_slope += more[2]
    return loss, slope, bias_slope


# Prediction.


@dataclass(frozen=True, eq=False)
class FittedHead:
    """A trained head. layers: (weights, biases), with ReLUs between them; none if no class could be trained.

    columns: the classes of the last layer; the others have the probabilities `fixed`. independent: one sigmoid per
    class, else one softmax. strength: of the penalty of a linear head.
    """

    scaling: Scaling
    layers: tuple[tuple[Floats, Floats], ...]
    columns: Labels
    fixed: npt.NDArray[np.float32]
    independent: bool
    strength: float | None = None

    def probabilities(self, features: Any) -> npt.NDArray[np.float32]:
        """The probability of every class (n, classes): of rows that sum to 1, or independent of each other."""
        checks.matrix(features, "features")
        n, width = len(features), len(self.scaling.mean)
        if features.shape[1] != width:
            raise InputError(f"features has {features.shape[1]:,} columns, but the head was trained on {width:,}")
        out = np.empty((n, len(self.fixed)), np.float32)

        def predict(start: int, stop: int) -> None:
            for first in range(start, stop, BLOCK):
                at = slice(first, min(first + BLOCK, stop))
                out[at] = self._predict(features[at])

        with team() as crew:
            crew.ranges(predict, n, least=BLOCK, step=BLOCK)
        return out

    def _predict(self, features: Any) -> npt.NDArray[np.float32]:
        whole = np.tile(self.fixed, (len(features), 1))
        if not self.layers:
            return whole
        hidden = self.scaling.apply(features)
        for place, (weights, biases) in enumerate(self.layers):
            hidden = (np.maximum(hidden, 0) if place else hidden) @ weights + biases
        if self.independent:
            from scipy.special import expit

            whole[:, self.columns] = expit(hidden)
            return whole
        hidden -= hidden.max(axis=1, keepdims=True)
        np.exp(hidden, out=hidden)
        hidden /= hidden.sum(axis=1, keepdims=True)
        whole[:] = 0
        whole[:, self.columns] = hidden
        return whole

    def embeddings(self, features: Any) -> npt.NDArray[np.float32]:
        """The embeddings that the head was trained on: a head changes nothing about them."""
        return np.asarray(features, np.float32)
