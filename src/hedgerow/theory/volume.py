"""A volume-based sampler for hyperplanes: the reference that the samplers of practice are compared with.

The samplers of `samplers.py` see only the points. This one also sees the version space, through separators drawn from
it by hit-and-run: it chooses the points whose hyperplanes cut it into small cells, whatever the labels will be. Two
drawn separators on the same side of all chosen hyperplanes are one pair that the labels will not tell apart; each pick
removes much of the sum of squared distances over such pairs: the most that one of `TRIED` random points can. When
hardly any pair is left, all are to be told apart once more.

What it does not do: wait for labels. The batch is chosen as a whole, as the paper's definition has it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hedgerow.theory.cones import Cone, walk
from hedgerow.theory.distributions import Floats, Generator

Rows = npt.NDArray[np.int64]

HYPOTHESES = 256
TRIED = 64  # random points that each pick is the best of: greedy enough (Mirzasoleiman et al. 2015), at any n
SEPARATED = 1e-3  # of the distances may be left when a new cover begins


@dataclass(frozen=True, eq=False)
class Volume:
    """k rows that cut the version space into small cells; a `Sampler`."""

    cone: Cone

    def __call__(self, points: Floats, k: int, rng: Generator) -> Rows:
        separators = self.cone.lift(walk(self.cone, HYPOTHESES, rng))
        sides = np.where(points @ separators.T > 0, 1.0, -1.0)  # (n, hypotheses)
        distances = np.maximum(2 - 2 * separators @ separators.T, 0.0)  # squared chords
        np.fill_diagonal(distances, 0.0)
        return cover(sides, distances, k, rng)


def cover(sides: Floats, distances: Floats, k: int, rng: Generator) -> Rows:
    """k rows of sides (n, m), entries -1 or 1, that greedily separate pairs with the largest distances (m, m)."""
    free = np.arange(len(sides))
    left = distances.copy()
    chosen = np.empty(k, np.int64)
    for turn in range(k):
        tried = rng.choice(len(free), min(TRIED, len(free)), replace=False, shuffle=False)
        some = sides[free[tried]]
        gains = left.sum() - np.einsum("ij,ij->i", some @ left, some)  # twice the distances of separated pairs
        best = int(gains.argmax())
        chosen[turn] = free[tried[best]]
        left *= np.equal.outer(some[best], some[best])
        if left.sum() <= SEPARATED * distances.sum():
            left = distances.copy()
        free = np.delete(free, tried[best])
    return chosen
