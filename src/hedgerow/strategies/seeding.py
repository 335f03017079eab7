"""Centers drawn by k-means++ over gradients g = a (x) z, without a pass over the pool for every center.

k-means++ (Arthur and Vassilvitskii 2007) draws each further center with probability proportional to D(x), the squared
distance of x from the nearest center so far. Maintaining D for all rows costs n k distances. Here each row has a weight
w that accounts only for the *folded* centers, so w >= D. Proposals are drawn by w, and a proposal is accepted with
probability D / w, where D also accounts for the pending centers, those not yet folded. This is rejection sampling: the
accepted rows follow D exactly. Proposals are drawn in batches, so that all distances are matrix products; an accepted
proposal counts as a center for those after it in its batch.

Folding p pending centers costs n p distances; not folding them makes every later check more expensive. So folding pays
early or not at all: `_Draw.is_due` compares the cost of the remaining checks, at the recent rate of acceptance, with
their cost after folding. Diffuse data folds almost nothing, and n k becomes about k^2 / 2. Tight groups of
near-duplicates, whose distances collapse once every group has a center, fold nearly everything. The decision depends on
past draws only, so the distribution does not change.

Not here: k-means itself, and the greedy variant that tries several candidates per center.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hedgerow.errors import InputError
from hedgerow.kernels import freeze
from hedgerow.kernels import seeding as kernels
from hedgerow.machine import Team
from hedgerow.pool.blocks import ResidualSource, RowSource

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]

BLOCK_VALUES = 1 << 18  # a block of rows and residuals is about 1 MiB of float32
LEAST_BATCH, MOST_BATCH = (
    16,
    1024,
)  # proposals at a time: comparing them with each other costs less than with the centers
# The cost of a batch or a fold beyond its distances, in distances per row: reading the row, drawing, starting tasks.
OVERHEAD = 64
FADING = 0.5  # the weight of a batch in the rate of acceptance, relative to the next batch
_own = threading.local()


@dataclass(frozen=True, eq=False)
class Gradients:
    """The points g = a (x) z as factors, and their squared norms, all by position."""

    points: RowSource
    residuals: ResidualSource
    norms: Floats

    def __len__(self) -> int:
        return len(self.norms)

    @property
    def block_rows(self) -> int:
        """Rows per block, a multiple of a segment; by the widths only, so that results do not depend on threads."""
        segments = BLOCK_VALUES // (self.points.width + self.residuals.width) // kernels.SEGMENT
        return kernels.SEGMENT * min(max(1, segments), 16)


def factor_gradients(points: RowSource, probabilities: RowSource, team: Team) -> Gradients:
    """The gradients of the rows of both sources. Reads both once; 4 bytes per row."""
    made = Gradients(points, ResidualSource(probabilities), np.empty(len(points), np.float32))

    def measure(start: int, stop: int) -> None:
        kernels.measure_norms(points.block(start, stop), made.residuals.block(start, stop), made.norms[start:stop])

    _over_blocks(measure, made, team)
    if not np.isfinite(made.norms).all():
        raise InputError("embeddings has rows whose squared length is beyond float32: scale the embeddings down")
    return made


def draw_centers(
    gradients: Gradients, k: int, first: int, rng: np.random.Generator, team: Team, *, patience: float = 1.0
) -> Rows:
    """Up to k positions by k-means++, starting with `first`; fewer if every row coincides with one of them.

    patience: 1 folds when it pays, 0 after every batch, infinity never (which ends only if there are k distinct
    points). 1 <= k <= n. Memory: 5 bytes per row, d + C + 3 numbers per center.
    """
    draw = _Draw(gradients, k, rng, team, patience)
    draw.add(np.array([first]))
    draw.fold()
    while draw.count < k and draw.total > 0:
        draw.advance()
    return draw.centers[: draw.count]


def measure_potential(gradients: Gradients, centers: Rows, team: Team) -> float:
    """The k-means potential: the sum of all squared distances from the nearest of the centers."""
    draw = _Draw(gradients, len(centers), np.random.default_rng(0), team, 0.0)
    draw.add(centers)
    draw.fold()
    return draw.total


@dataclass(eq=False)
class _Draw:
    """A run in progress: the centers so far, the weights, and the counts that decide whether to fold."""

    gradients: Gradients
    k: int
    rng: np.random.Generator
    team: Team
    patience: float
    count: int = 0  # centers
    folded: int = 0  # those that the weights account for
    rent: float = 0.0  # distances spent on checks since the last fold
    kept: float = 0.0  # fading counts of acceptances and proposals since the last fold
    tried: float = 0.0
    centers: Rows = field(init=False)
    points: Floats = field(init=False)
    residuals: Floats = field(init=False)
    norms: Floats = field(init=False)
    weights: Floats = field(init=False)
    ends: npt.NDArray[np.float64] = field(init=False)  # running sums of the weights, one per segment

    def __post_init__(self) -> None:
        n, k = len(self.gradients), self.k
        self.centers = np.empty(k, np.int64)
        self.points = np.empty((k, self.gradients.points.width), np.float32)
        self.residuals = np.empty((k, self.gradients.residuals.width), np.float32)
        self.norms = np.empty(k, np.float32)
        self.weights = np.full(n, np.inf, np.float32)
        self.ends = np.zeros(-(-n // kernels.SEGMENT))

    @property
    def total(self) -> float:
        """The sum of the weights."""
        return float(self.ends[-1])

    def add(self, positions: Rows) -> None:
        """Add pending centers."""
        new = slice(self.count, self.count + len(positions))
        self.centers[new] = positions
        self.points[new] = self.gradients.points.take(positions)
        self.residuals[new] = self.gradients.residuals.take(positions)
        self.norms[new] = self.gradients.norms[positions]
        self.count = new.stop

    def advance(self) -> None:
        """Draw a batch of proposals, add the accepted ones as centers, and fold if it is due."""
        size = min(max(LEAST_BATCH, self.count // 2), MOST_BATCH)
        uniforms = self.rng.random((2, size))
        proposals = np.empty(size, np.int64)
        kernels.draw_rows(self.weights, self.ends, uniforms[0], proposals)
        accepted = self.accept(proposals, uniforms[1])
        self.rent += size * (self.count - self.folded + size + OVERHEAD)
        self.kept = FADING * self.kept + len(accepted)
        self.tried = FADING * self.tried + size
        self.add(accepted)
        if self.count < self.k and self.is_due():
            self.fold()

    def accept(self, proposals: Rows, uniforms: npt.NDArray[np.float64]) -> Rows:
        """The accepted proposals, given all centers and each other."""
        points, residuals = self.gradients.points.take(proposals), self.gradients.residuals.take(proposals)
        norms, weights = self.gradients.norms[proposals], self.weights[proposals]
        nearest = self.check(points, residuals, norms, weights)
        products = self.multiply(points, residuals)
        accepted = np.empty(min(len(proposals), self.k - self.count), np.int64)
        count = kernels.accept(products, points, residuals, norms, weights, nearest, uniforms, accepted)
        return proposals[accepted[:count]]

    def multiply(self, points: Floats, residuals: Floats) -> Floats:
        """The products of the proposals with each other."""
        size = len(points)
        products, mixing = np.empty((2, size, size), np.float32)

        def multiply_some(some: slice) -> None:
            areas = products[some].reshape(-1), mixing[some].reshape(-1)
            kernels.multiply_factors(points[some], residuals[some], points, residuals, *areas)

        self.over_tiles(multiply_some, size)
        return products

    def check(self, points: Floats, residuals: Floats, norms: Floats, weights: Floats) -> Floats:
        """The weights of the proposals, lowered to the distances from the pending centers."""
        nearest, pending = weights.copy(), slice(self.folded, self.count)
        if self.folded < self.count:

            def check_some(some: slice) -> None:
                self.lower(pending, points[some], residuals[some], norms[some], nearest[some])

            self.over_tiles(check_some, len(nearest))
        return nearest

    def over_tiles(self, task: Callable[[slice], None], size: int) -> None:
        """Call task(slice) over `size` rows, with whole tiles for each thread."""
        tile = kernels.ROW_TILE
        self.team.ranges(lambda first, last: task(slice(first * tile, last * tile)), -(-size // tile), least=1)

    def lower(self, new: slice, points: Floats, residuals: Floats, norms: Floats, weights: Floats) -> None:
        """Lower the weights of some rows to their distances from these centers."""
        centers = freeze(self.points[new]), freeze(self.residuals[new]), self.norms[new]
        kernels.lower(points, residuals, norms, *centers, *_find_areas(), weights)

    def is_due(self) -> bool:
        """Whether to fold now: if the remaining checks, or those since the last fold, cost more than folding.

        With r centers to draw, p pending and acceptance at rate f, the remaining checks cost r (p + r / 2) / f, and
        r^2 / 2 if the pending centers are folded and nothing is rejected: folding saves at most the difference.
        """
        pending, left = self.count - self.folded, self.k - self.count
        rate = (self.kept + 1) / (self.tried + 1)
        saving = left * (pending + left / 2) / rate - left * left / 2
        return max(saving, self.rent) > self.patience * len(self.gradients) * (pending + OVERHEAD)

    def fold(self) -> None:
        """Lower the weights to the pending centers. n p distances, by blocks of rows."""
        new = slice(self.folded, self.count)
        sums = np.empty_like(self.ends)

        def fold_block(start: int, stop: int) -> None:
            weights, segments = self.weights[start:stop], slice(start // kernels.SEGMENT, -(-stop // kernels.SEGMENT))
            rows = self.gradients.points.block(start, stop), self.gradients.residuals.block(start, stop)
            self.lower(new, *rows, self.gradients.norms[start:stop], weights)
            kernels.add_segments(weights, sums[segments])

        _over_blocks(fold_block, self.gradients, self.team)
        self.ends = np.cumsum(sums)
        self.folded, self.rent, self.kept, self.tried = self.count, 0.0, 0.0, 0.0


def _find_areas() -> tuple[Floats, Floats]:
    """Two buffers per thread for a tile of products, allocated once: fresh memory costs more than a small tile."""
    if not hasattr(_own, "areas"):
        values = kernels.ROW_TILE * kernels.CENTER_TILE
        _own.areas = np.empty(values, np.float32), np.empty(values, np.float32)
    areas: tuple[Floats, Floats] = _own.areas
    return areas


def _over_blocks(task: Callable[[int, int], None], gradients: Gradients, team: Team) -> None:
    """Call task(start, stop) for every block of rows; each thread takes a range of blocks."""
    n, rows = len(gradients), gradients.block_rows

    def work(first: int, last: int) -> None:
        for block in range(first, last):
            task(block * rows, min(n, (block + 1) * rows))

    team.ranges(work, -(-n // rows), least=2)
