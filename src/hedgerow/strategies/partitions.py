"""What BADGE and CoreSet share: the pool in random parts, and rows for when points run out.

The paper runs both in partitions where a full run is too dear (section 3.1). Each part gives its share of the batch
without a look at the others, so the batch is less diverse than a whole run's.
"""

import warnings
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hedgerow.errors import HedgerowWarning
from hedgerow.strategies.view import View

Rows = npt.NDArray[np.int64]


def pick_by_parts(
    view: View, k: int, partitions: int, rng: np.random.Generator, pick: Callable[[int, Rows, int], Rows], name: str
) -> Rows:
    """k unlabeled rows: the picks of every part joined, part after part, filled up at random if they fall short.

    pick(part, rows, share) gives at most `share` of a part's rows (ascending); fewer if they are no longer distinct.
    """
    parts = split(view.unlabeled_rows(), k, partitions, rng)
    picked = np.concatenate([pick(part, rows, share) for part, (rows, share) in enumerate(parts) if share > 0])
    return fill_up(picked, view, k, rng, name)


def split(rows: Rows, k: int, partitions: int, rng: np.random.Generator) -> list[tuple[Rows, int]]:
    """(rows, share of k) for every part: uniformly random parts, sizes and shares even to within one.

    The first parts take the remainders of both, so that with k <= len(rows) no share exceeds its part.
    """
    if partitions == 1:
        return [(rows, k)]
    parts = np.array_split(rng.permutation(rows), partitions)
    return [(np.sort(part), k // partitions + (p < k % partitions)) for p, part in enumerate(parts)]


def fill_up(picked: Rows, view: View, k: int, rng: np.random.Generator, name: str) -> Rows:
    """`picked`, and random unlabeled rows behind it up to k; says so when it has to."""
    short = k - len(picked)
    if short == 0:
        return picked
    warnings.warn(
        f"{name} found {len(picked):,} distinct points for a batch of {k:,} (the others are duplicates of these or of "
        f"labeled ones): {short:,} rows were drawn at random from the unlabeled rest",
        HedgerowWarning,
        stacklevel=2,
    )
    free = np.zeros(view.n, np.bool_)
    free[view.unlabeled_rows()] = True
    free[picked] = False
    return np.concatenate([picked, rng.choice(np.flatnonzero(free), short, replace=False)])
