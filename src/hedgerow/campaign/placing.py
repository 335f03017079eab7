"""Places of rows in two dimensions such that rows that are alike are close together.

Landmarks, a sample of the distinct rows, are moved to where neighbors attract and random rows repel each other; pairs
in between attract at first, which keeps the large structure (PaCMAP's losses and phases: Wang, Huang, Rudin and
Shaposhnik, JMLR 2021). A pool that is not larger than the sample is placed so as a whole. Otherwise every row goes to
the middle of its nearest landmarks on the map, their geometric median: if one of five is elsewhere, their mean would be
where nothing belongs. One thread and one seed: the same rows give the same map.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import machine
from hedgerow.clustering import cells
from hedgerow.clustering.layout import search_rows
from hedgerow.kernels import freeze, placing

NEAR, MIDDLE, FAR = 10, 5, 20  # pairs of each kind per landmark
AMONG = 6  # of so many random rows, the second nearest makes a middle pair
PHASES = (100, 100, 250)  # steps: the large structure, its parts, and what is next to what
FIRST_PULL, LATER_PULL = 1000.0, 3.0  # strength of middle pairs: from the first to the second in the first phase
DECAY, SPREAD_DECAY = 0.9, 0.999  # of Adam's averages of forces and of their squares; the rate is 1
START = 0.01  # times the principal components: where landmarks are at first
LEAST = 50  # landmarks: fewer have no neighborhoods to keep
NEIGHBORS = 5  # landmarks that a row is placed among
PROBES = 3  # cells that these are looked for in

Floats = npt.NDArray[np.float64]
Points = npt.NDArray[np.float32]


def place_landmarks(points: Points, start: Floats, seed: int, report: Callable[[float], None]) -> tuple[Floats, float]:
    """Places (m, 2) of points (m, d), and the share of neighbors that they keep. start (m, 2): where they begin."""
    rng = np.random.default_rng(seed)
    with machine.team(1) as team:
        near = np.ascontiguousarray(search_rows(points, NEAR, team, exact_up_to=len(points)).ids)
    middle = choose_middle(points, rng)
    far = rng.integers(0, len(points), (len(points), FAR), np.int32)
    places = START * start
    forces, mean, square = np.empty_like(places), np.zeros_like(places), np.zeros_like(places)
    for step in range(sum(PHASES)):
        placing.add_forces(places, near, middle, far, find_strengths(step), forces)
        mean += (1 - DECAY) * (forces - mean)
        square += (1 - SPREAD_DECAY) * (forces**2 - square)
        rate = np.sqrt(1 - SPREAD_DECAY ** (step + 1)) / (1 - DECAY ** (step + 1))
        places += rate * mean / (np.sqrt(square) + 1e-7)
        report((step + 1) / sum(PHASES))
    return places, measure_kept(places, near)


def find_strengths(step: int) -> Floats:
    """The strengths of near, middle and far pairs in a step."""
    first, second, _ = PHASES
    if step < first:
        return np.array([2.0, FIRST_PULL + (LATER_PULL - FIRST_PULL) * step / first, 1.0])
    return np.array([3.0, LATER_PULL, 1.0] if step < first + second else [1.0, 0.0, 1.0])


def choose_middle(points: Points, rng: np.random.Generator) -> npt.NDArray[np.int32]:
    """Rows that are neither near nor far, (m, MIDDLE)."""
    found = np.empty((len(points), MIDDLE), np.int32)
    for column in range(MIDDLE):
        drawn = rng.integers(0, len(points), (len(points), AMONG), np.int32)
        gaps = np.empty(drawn.shape)
        for at in range(AMONG):  # one at a time: memory for one copy of the points
            gaps[:, at] = np.square(points[drawn[:, at]] - points).sum(axis=1)
        second = gaps.argsort(axis=1, kind="stable")[:, 1]
        found[:, column] = drawn[np.arange(len(points)), second]
    return found


def measure_kept(places: Floats, near: npt.NDArray[np.int32]) -> float:
    """The share of near pairs (m, k) whose second row is among the k nearest of the first on the map."""
    from scipy.spatial import cKDTree

    _, there = cKDTree(places).query(places, near.shape[1] + 1)  # a row is its own nearest
    return float((near[:, :, None] == there[:, None, :]).any(axis=2).mean())


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Points with places, sorted by cell: cell c is rows starts[c]:starts[c + 1]."""

    points: Points
    places: Floats
    centers: Points
    starts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, points: Points, places: Floats, seed: int) -> "Landmarks":
        """The same landmarks in about as many cells as each has landmarks."""
        count = max(1, round(len(points) ** 0.5))
        centers = cells.refine_centers(points, count, np.random.default_rng(seed))
        order, starts = cells.sort_groups(cells.nearest_centers(points, centers), len(centers))
        return cls(freeze(points[order]), freeze(places[order]), freeze(centers), freeze(starts))

    def place(self, rows: Points) -> Floats:
        """Where rows (n, d) are, (n, 2)."""
        out = np.empty((len(rows), 2))
        half, center_half = freeze(cells.half_norms(self.points)), freeze(cells.half_norms(self.centers))
        scratch: tuple[Any, ...] = (
            np.empty(min(PROBES, len(self.centers)), np.int64),
            np.empty(NEIGHBORS, np.int64),
            np.empty(min(PROBES, len(self.centers)) + NEIGHBORS, np.float32),
        )
        placing.place_rows(
            freeze(rows), self.points, half, self.places, self.centers, center_half, self.starts, *scratch, out
        )
        return out
