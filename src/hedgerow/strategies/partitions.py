"""What BADGE and CoreSet share: random parts of the pool, and random rows if distinct points run out.

The paper runs both in partitions where a full run is too expensive (section 3.1). Each part contributes its share of
the batch independently of the others, so the batch is less diverse than that of a full run.
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
    """k unlabeled rows: the picks of all parts, part after part, filled up at random if there are too few.

    pick(part, rows, share) returns at most `share` of a part's rows (ascending); fewer if no distinct ones are left.
    """
    parts = split(view.unlabeled_rows(), k, partitions, rng)
    picked = np.concatenate([pick(part, rows, share) for part, (rows, share) in enumerate(parts) if share > 0])
    return fill_up(picked, view, k, rng, name)


def split(rows: Rows, k: int, partitions: int, rng: np.random.Generator) -> list[tuple[Rows, int]]:
    """(rows, share of k) for every part: uniformly random parts, sizes and shares even to within one.

    The first parts take the remainders of both, so that no share exceeds its part if k <= len(rows).
    """
    if partitions == 1:
        return [(rows, k)]
    parts = np.array_split(rng.permutation(rows), partitions)
    return [(np.sort(part), k // partitions + (p < k % partitions)) for p, part in enumerate(parts)]


def fill_up(picked: Rows, view: View, k: int, rng: np.random.Generator, name: str) -> Rows:
    """`picked`, followed by random unlabeled rows up to k, with a warning if there are any."""
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
