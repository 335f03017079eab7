"""How well scores rank the answers: average precision, pooled over all questions or by class (paper, section 3.2).

Exact, ties included, and equal to scikit-learn's: AP = sum over the distinct scores, from the highest down, of the
recall gained there times the precision reached there. Only where a positive lies is recall gained, so positives and
negatives are sorted apart, as the integers that share the scores' bits, and merged. No interpolation, no weights.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks, pool
from hedgerow.errors import InputError
from hedgerow.kernels.precision import add_precisions, count_groups, spread_keys
from hedgerow.kernels.race import order_bits

STEP = 1 << 22  # scores made into keys at a time
NO_CLASSES = np.zeros(0, np.int32)


def average_precision(labels: Any, scores: Any) -> float:
    """Average precision of all questions ranked together: labels (m,) of 0 and 1, scores (m,), higher is likelier.

    O(m log m) time; 4 bytes a question beyond the inputs, 8 if the scores are float64.
    """
    answers, ranked = _read(labels, scores)
    return float(_average_precisions(answers, ranked, NO_CLASSES, 1)[0])


def macro_average_precision(labels: Any, scores: Any, classes: Any) -> float:
    """The mean of the average precisions of the classes that have a positive; classes (m,) of whole numbers 0, 1, ...

    Cost as in `average_precision`.
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
            raise InputError("labels must be 0 or 1 (or bools), one a score")
        answers = answers.astype(np.bool_)
    if not answers.any():
        raise InputError("labels holds no positive: average precision is not defined")
    return answers, ranked


def _average_precisions(
    labels: npt.NDArray[np.bool_], scores: npt.NDArray[Any], classes: npt.NDArray[np.int32], count: int
) -> npt.NDArray[np.float64]:
    """One a class, NaN where a class has no positive."""
    counts = np.zeros(2 * count, np.int64)
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
