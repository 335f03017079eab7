"""What BADGE and CoreSet share: random parts of the pool, and random rows if distinct points run out.

The paper runs both in partitions where a full run is too expensive (section 3.1). Each part contributes its share of
the batch independently of the others, so the batch is less diverse than that of a full run. A part has random numbers
of its own, so that parts can be worked on in any order and place: `workers.py` has them on an engine.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hedgerow.errors import HedgerowWarning
from hedgerow.machine import Team
from hedgerow.strategies.view import View

Rows = npt.NDArray[np.int64]
NO_ROWS = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Part:
    """A part of the unlabeled rows (ascending), how many of them to pick, and the labeled rows to keep away from.

    seed: of the part's random numbers; None if it is the only part, which continues those of the selection.
    """

    rows: Rows
    share: int
    centers: Rows
    seed: int | None

    def draw(self, rng: np.random.Generator) -> np.random.Generator:
        """The part's random numbers. rng: those of the selection."""
        return rng if self.seed is None else np.random.default_rng(self.seed)


class Parted(Protocol):
    """A strategy that can run on parts."""

    @property
    def partitions(self) -> int:
        """The number of parts."""

    def plan(self, view: View, k: int, rng: np.random.Generator) -> list[Part]:
        """The parts, in the order of their picks in the batch."""

    def prepare(self, view: View, centers: Rows, threads: Team) -> Any:
        """What picking from a part needs to know of these labeled rows."""

    def pick(self, view: View, rows: Rows, given: Any, k: int, rng: np.random.Generator, threads: Team) -> Rows:
        """Up to k of the rows; fewer if no distinct ones are left. given: what `prepare` returned."""


def split(
    rows: Rows, k: int, partitions: int, rng: np.random.Generator, centers: Sequence[Rows] = (NO_ROWS,)
) -> list[Part]:
    """Uniformly random parts, sizes and shares even to within one.

    The first parts take the remainders of both, so that no share exceeds its part if k <= len(rows). centers: those of
    each part, or one array for all of them.
    """
    if partitions == 1:
        return [Part(rows, k, centers[0], None)]
    parts = np.array_split(rng.permutation(rows), partitions)
    seeds = rng.integers(0, 2**63, partitions).tolist()
    return [
        Part(np.sort(part), k // partitions + (p < k % partitions), centers[p % len(centers)], seeds[p])
        for p, part in enumerate(parts)
    ]


def pick_parts(
    strategy: Parted, view: View, parts: Sequence[Part], rng: np.random.Generator, threads: Team
) -> list[Rows]:
    """What the strategy picks from each part with a share, in this process."""
    picked: list[Rows] = []
    centers, given = None, None
    for part in (part for part in parts if part.share):
        if part.centers is not centers:  # the same for all parts, unless they are split as well
            centers, given = part.centers, strategy.prepare(view, part.centers, threads)
        picked.append(strategy.pick(view, part.rows, given, part.share, part.draw(rng), threads))
    return picked


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
