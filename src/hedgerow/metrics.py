"""Metrics of predicted probabilities, for rows or pairs with known labels.

A metric of `METRICS` takes probabilities (n, classes) and labels (n,) and returns one number; one of `PAIR_METRICS`
takes the scores (m,) of pairs, their answers and their classes. `HIGHER_IS_BETTER` gives the direction of each. The
paper reports accuracy in section 3.3 and pooled average precision in section 3.2.

Average precision is exact, also with ties, and equal to that of scikit-learn: the sum over distinct scores, in
descending order, of the gain in recall times the precision. Recall grows only at positives, so positives and negatives
are sorted separately, as integers with the bits of the scores, and merged. There is no interpolation and no weighting.

What it does not do: compare models, or summarize trials (`experiments/findings.py`).
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks, pool
from hedgerow.errors import InputError
from hedgerow.kernels import freeze
from hedgerow.kernels.precision import add_precisions, count_groups, spread_keys
from hedgerow.kernels.race import order_bits

Probabilities = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.int64]

LEAST_PROBABILITY = float(np.finfo(np.float32).eps)  # a probability of zero has a loss of -log of this, not infinity
STEP = 1 << 22  # scores converted to keys at a time
NO_CLASSES = np.zeros(0, np.int32)
CALIBRATION_BINS = 15  # as in Guo et al. 2017


def accuracy(probabilities: Probabilities, labels: Labels) -> float:
    """The share of rows whose most probable class is correct."""
    return float(np.mean(probabilities.argmax(axis=1) == labels))


def balanced_accuracy(probabilities: Probabilities, labels: Labels) -> float:
    """The mean over classes of their recall; classes without rows are left out."""
    right = probabilities.argmax(axis=1) == labels
    present, member = np.unique(labels, return_inverse=True)
    return float(np.mean(np.bincount(member, right) / np.bincount(member, minlength=len(present))))


def log_loss(probabilities: Probabilities, labels: Labels) -> float:
    """The mean of -log of the probability of the correct class."""
    right = probabilities[np.arange(len(labels)), labels].astype(np.float64)
    return float(-np.mean(np.log(np.clip(right, LEAST_PROBABILITY, 1.0))))


def calibration_error(probabilities: Probabilities, labels: Labels) -> float:
    """Expected calibration error: |accuracy - confidence| in 15 bins of equal width, weighted by their rows."""
    confidence = probabilities.max(axis=1).astype(np.float64)
    right = probabilities.argmax(axis=1) == labels
    bins = np.minimum((confidence * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    gaps = np.bincount(bins, right, CALIBRATION_BINS) - np.bincount(bins, confidence, CALIBRATION_BINS)
    return float(np.abs(gaps).sum() / len(labels))


def average_precision(labels: Any, scores: Any) -> float:
    """Average precision of all pairs ranked together: labels (m,) of 0 and 1, scores (m,), higher for likelier pairs.

    O(m log m) time; 4 bytes per pair beyond the inputs, 8 if the scores are float64.
    """
    answers, ranked = _read(labels, scores)
    return float(_average_precisions(answers, ranked, NO_CLASSES, 1)[0])


def macro_average_precision(labels: Any, scores: Any, classes: Any) -> float:
    """The mean average precision over classes with a positive pair; classes (m,) are integers 0, 1, ...

    Time and memory as for `average_precision`.
    """
    answers, ranked = _read(labels, scores)
    numbers = checks.cluster_labels(pool.as_vector(classes, "classes"), len(answers), name="classes")
    return float(np.nanmean(_average_precisions(answers, ranked, numbers, int(numbers.max()) + 1)))


def _read(labels: Any, scores: Any) -> tuple[npt.NDArray[np.bool_], npt.NDArray[Any]]:
    """Labels as bool, at least one of them true; scores as float32 or float64, finite."""
    ranked = checks.vector(pool.as_vector(scores, "scores"), "scores")
    answers = pool.as_vector(labels, "labels")
    checks.same_length({"labels": len(answers), "scores": len(ranked)})
    checks.finite(ranked, "scores")
    if answers.dtype != np.bool_:
        if answers.dtype.kind not in "iuf" or not np.isin(answers, (0, 1)).all():
            raise InputError("labels must be 0 or 1 (or bool), one per score")
        answers = answers.astype(np.bool_)
    if not answers.any():
        raise InputError("labels has no positive: average precision is not defined")
    return answers, ranked


def _average_precisions(
    labels: npt.NDArray[np.bool_], scores: npt.NDArray[Any], classes: npt.NDArray[np.int32], count: int
) -> npt.NDArray[np.float64]:
    """One per class, NaN for a class without positives."""
    counts = np.zeros(2 * count, np.int64)
    labels, classes = freeze(labels), freeze(classes)
    count_groups(labels, classes, counts)
    ends = np.cumsum(counts)
    places = ends - counts
    keys = np.empty(len(scores), np.uint64 if scores.dtype == np.float64 else np.uint32)
    for start in range(0, len(scores), STEP):
        some = slice(start, start + STEP)
        spread_keys(_make_keys(scores[some], keys.dtype), labels[some], classes[some], places, keys)
    found = np.full(count, np.nan)
    groups = np.split(keys, ends[:-1])
    for label in np.flatnonzero(counts[1::2]):
        negatives, positives = groups[2 * label : 2 * label + 2]
        negatives.sort()
        positives.sort()
        found[label] = add_precisions(negatives, positives)
    return found


def _make_keys(scores: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Unsigned integers that order like the scores, both zeros one."""
    wide = np.float64 if dtype == np.uint64 else np.float32
    bits: npt.NDArray[Any] = np.add(scores, 0, dtype=wide).view(dtype)  # -0 + 0 is 0
    order_bits(bits)
    return bits


METRICS: Mapping[str, Callable[[Probabilities, Labels], float]] = {
    "accuracy": accuracy,
    "balanced_accuracy": balanced_accuracy,
    "log_loss": log_loss,
    "calibration_error": calibration_error,
}
PAIR_METRICS: Mapping[str, Callable[[Any, Any, Any], float]] = {
    "average_precision": lambda scores, answers, classes: average_precision(answers, scores),
    "macro_average_precision": lambda scores, answers, classes: macro_average_precision(answers, scores, classes),
}
HIGHER_IS_BETTER: Mapping[str, bool] = {
    "accuracy": True,
    "balanced_accuracy": True,
    "log_loss": False,
    "calibration_error": False,
    "average_precision": True,
    "macro_average_precision": True,
}
