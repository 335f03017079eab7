"""Partial annotation: the pairs of a multi-label dataset that can be asked.

In pools such as Open Images an example is annotated for a few classes only (section 3.2 of the paper: about six, two of
three answers being no). Here all positive pairs of a row can be asked and a few negative ones, drawn by a seed. A
strategy sees the pairs and not their answers; all other pairs are hidden.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.pairs import Pairs
from hedgerow.tasks import Annotated, PairTask

Bools = npt.NDArray[np.bool_]

ENTRIES = 1 << 22  # of the matrix rows x classes, per block
NEGATIVES_A_POSITIVE = 2  # as in Open Images' training set: 19.9 M positives and 37.7 M negatives


@dataclass(frozen=True, eq=False)
class MultiLabel:
    """A pool and a test set of pairs, and optionally rows to train a first model on, which are in neither."""

    name: str
    names: tuple[str, ...]  # of its classes
    pool: Annotated
    test: Annotated
    first: Annotated | None = None

    @property
    def classes(self) -> int:
        return len(self.names)

    @property
    def task(self) -> PairTask:
        """The dataset as a task, whose oracle knows the answers."""
        pool = self.pool
        return PairTask(pool.features, len(pool.features), pool.pairs, pool.answers.__getitem__, self.test, self.first)

    @property
    def marks(self) -> tuple[npt.NDArray[Any], ...]:
        """The arrays that identify the data: all of them."""
        marks: list[npt.NDArray[Any]] = []
        for part in (self.pool, self.test, self.first):
            if part is not None:
                features = (part.features,) if isinstance(part.features, np.ndarray) else vars(part.features).values()
                marks += [*features, part.pairs.rows, part.pairs.classes, part.answers]
        return tuple(marks)


def annotate(
    features: Any,
    truth: Any,
    *,
    negatives: int | None = None,
    weights: npt.NDArray[np.float32] | None = None,
    kinds: npt.NDArray[np.int64] | None = None,
    scores: npt.NDArray[np.float32] | None = None,
    seed: Any = 0,
) -> Annotated:
    """All positive pairs of truth (n, C), a scipy CSR matrix, and `negatives` negative pairs per row.

    Negative pairs are drawn without replacement; a row with fewer has all of them. weights (kinds, C) > 0: draw classes
    by the weights of the row's kind, kinds (n,). scores (n, C): nothing is drawn; the negative pairs of a row are the
    wrong classes with the highest scores, as if a classifier had proposed them. negatives None: twice the mean number
    of positives per row, rounded up. seed: any seed of numpy.
    """
    n, classes = truth.shape
    if negatives is None:
        negatives = math.ceil(NEGATIVES_A_POSITIVE * truth.nnz / max(1, n))
    negatives = min(checks.integer(negatives, "negatives"), classes)
    rng = np.random.default_rng(seed)
    step = max(1, ENTRIES // classes)
    rows, asked, answers = [], [], []
    for start in range(0, n, step):
        known = truth[start : start + step].toarray() != 0  # (step, C)
        race = rng.standard_exponential(known.shape, np.float32) if scores is None else -scores[start : start + step]
        if scores is None and weights is not None and kinds is not None:
            race /= weights[kinds[start : start + step]]
        row, label = np.nonzero(known | _take_first(race, known, negatives))
        rows.append(row + start)
        asked.append(label.astype(np.int32))
        answers.append(known[row, label])
    pairs = Pairs(_join(rows, np.int64), _join(asked, np.int32))
    return Annotated(features, pairs, _join(answers, np.bool_))


def _take_first(race: npt.NDArray[np.float32], known: Bools, count: int) -> Bools:
    """The `count` lowest entries of every row among those that are not known: bool (r, C)."""
    taken = np.zeros(race.shape, np.bool_)
    if count:
        race[known] = np.inf
        first = np.argpartition(race, count - 1, axis=1)[:, :count]
        np.put_along_axis(taken, first, True, axis=1)
    return taken & ~known


def _join(parts: list[npt.NDArray[Any]], dtype: Any) -> npt.NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *parts])
