"""k-means over a pool: groups of rows, as many as are asked for. What TypiClust and ProbCover call clusters.

k-means++ (`seeding.py`) and Lloyd's algorithm on a random sample of the rows, all of them if they are few; then every
row joins its nearest center. Up to `FEW` groups, the best of several runs is taken, because one run often splits a
group and merges two others. Groups may be fewer than asked for, where distinct rows are.
"""

import numpy as np
import numpy.typing as npt

from hedgerow.clustering import cells
from hedgerow.clustering.vectors import BLOCK, Vectors
from hedgerow.machine import Team
from hedgerow.pool.blocks import open_rows
from hedgerow.strategies.seeding import draw_centers, factor_gradients

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]

SAMPLE, LEAST_SAMPLE = 256, 1 << 15  # training rows per group, and in all: more would change the centers little
ITERATIONS = 20  # Lloyd's steps: the sum of squares changes by less than a percent beyond
FEW, RUNS = 50, 10  # up to this many groups, the best of so many runs: scikit-learn's KMeans in the authors' code


def group_rows(vectors: Vectors, rows: Rows, count: int, rng: np.random.Generator, team: Team) -> npt.NDArray[np.int32]:
    """The group of each of `rows` (m,), 0 to count - 1; some may be empty. O(m count d) time, d float32 per sampled
    row."""
    size = min(len(rows), max(LEAST_SAMPLE, SAMPLE * count))
    sample = vectors.take(np.sort(rng.choice(rows, size, replace=False)))
    centers = train_centers(sample, count, rng, team)
    labels = np.empty(len(rows), np.int32)

    def assign(start: int) -> None:
        labels[start : start + BLOCK] = cells.nearest_centers(vectors.take(rows[start : start + BLOCK]), centers)

    team.map(assign, range(0, len(rows), BLOCK))
    return labels


def train_centers(sample: Floats, count: int, rng: np.random.Generator, team: Team) -> Floats:
    """Up to `count` centers of a sample (m, d): the run with the smallest sum of squares."""
    runs = [_train_once(sample, count, rng, team) for _ in range(RUNS if 1 < count <= FEW else 1)]
    return min(runs, key=lambda centers: measure_spread(sample, centers, team)) if len(runs) > 1 else runs[0]


def measure_spread(sample: Floats, centers: Floats, team: Team) -> float:
    """The sum of the squared distances from the nearest center."""
    apart = sample - centers[cells.spread_nearest(sample, centers, team)]
    return float(np.einsum("ij,ij->", apart, apart, dtype=np.float64))


def _train_once(sample: Floats, count: int, rng: np.random.Generator, team: Team) -> Floats:
    # With two classes of equal probability, BADGE's gradient is half the embedding: k-means++ over the rows.
    equal = np.full((len(sample), 2), 0.5, np.float32)
    order = np.arange(len(sample), dtype=np.int64)
    gradients = factor_gradients(open_rows(sample, order), open_rows(equal, order), team)
    first = int(rng.integers(len(sample)))
    centers = sample[draw_centers(gradients, min(count, len(sample)), first, rng, team)]
    return cells.move_centers(sample, centers, lambda rows, held: cells.spread_nearest(rows, held, team), ITERATIONS)
