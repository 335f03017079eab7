"""How good a model's probabilities are, on rows whose labels are known.

Each measure of `METRICS` takes probabilities (n, classes) and labels (n,) and gives one number; each of `PAIR_METRICS`
takes the scores (m,) of questions, their answers and their classes. `HIGHER_IS_BETTER` says in which direction each is
read. The paper measures accuracy in section 3.3 and pooled average precision in section 3.2.

What it does not do: compare models, or summarize trials (`report.py`).
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.precision import average_precision, macro_average_precision

Probabilities = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.int64]

LEAST_PROBABILITY = float(np.finfo(np.float32).eps)  # a probability of zero costs -log of this, not infinity
CALIBRATION_BINS = 15  # Guo et al. 2017, as everybody since


def accuracy(probabilities: Probabilities, labels: Labels) -> float:
    """The share of rows whose most probable class is the right one."""
    return float(np.mean(probabilities.argmax(axis=1) == labels))


def balanced_accuracy(probabilities: Probabilities, labels: Labels) -> float:
    """The mean over classes of the share of their rows that are found; classes without rows do not count."""
    right = probabilities.argmax(axis=1) == labels
    present, member = np.unique(labels, return_inverse=True)
    return float(np.mean(np.bincount(member, right) / np.bincount(member, minlength=len(present))))


def log_loss(probabilities: Probabilities, labels: Labels) -> float:
    """The mean of -log of the right class's probability."""
    right = probabilities[np.arange(len(labels)), labels].astype(np.float64)
    return float(-np.mean(np.log(np.clip(right, LEAST_PROBABILITY, 1.0))))


def calibration_error(probabilities: Probabilities, labels: Labels) -> float:
    """Expected calibration error: |accuracy - confidence| over 15 bins of equal width, weighted by their rows."""
    confidence = probabilities.max(axis=1).astype(np.float64)
    right = probabilities.argmax(axis=1) == labels
    bins = np.minimum((confidence * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    gaps = np.bincount(bins, right, CALIBRATION_BINS) - np.bincount(bins, confidence, CALIBRATION_BINS)
    return float(np.abs(gaps).sum() / len(labels))


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
