"""Centers by the law of k-means++ over gradients g = a (x) z, without a pass over the pool for every center.

k-means++ (Arthur and Vassilvitskii 2007) draws every further center with probability proportional to D(x), the squared
distance of x from the nearest center so far. Keeping D for all rows costs n k distances. Here the rows carry weights w
that know only the *folded* centers, so w >= D; proposals are drawn by w, and one is accepted with probability D / w,
where D takes the pending centers, those not yet folded, into account: that is rejection sampling, and what is accepted
follows D exactly. Proposals come in batches, so that all distances are products of matrices; an accepted one counts as
a center for those behind it in its batch.

Folding the p pending centers costs n p, now or later; whoever never folds them pays for them in every check instead. So
folding is worth it early or not at all: `_Draw.is_due` compares what the checks of all centers to come would cost at
the rate of acceptance seen last with what they would cost after folding. Diffuse data folds almost nothing, n k turns
into about k^2 / 2; tight groups of near-duplicates, where the distances collapse once every group has a center, fold
nearly all. Whether to fold depends on the past alone, so the law is the same.

Not here: k-means itself, and the greedy variant that tries several candidates a center.
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
LEAST_BATCH, MOST_BATCH = 16, 1024  # proposals at a time: what they cost each other stays below what the centers cost
# What a batch or a fold costs beside its distances, in distances a row: reading the row, drawing, handing out tasks.
OVERHEAD = 64
FADING = 0.5  # the weight of a batch in the rate of acceptance, against the batch after it
_own = threading.local()


@dataclass(frozen=True, eq=False)
class Gradients:
    """The points g = a (x) z, as factors, and their squared norms. All three speak of the same positions."""

    points: RowSource
    residuals: ResidualSource
    norms: Floats

    def __len__(self) -> int:
        return len(self.norms)

    @property
    def block_rows(self) -> int:
        """Rows a block, a multiple of a segment: by the widths alone, so that no answer depends on threads."""
        segments = BLOCK_VALUES // (self.points.width + self.residuals.width) // kernels.SEGMENT
        return kernels.SEGMENT * min(max(1, segments), 16)


def factor_gradients(points: RowSource, probabilities: RowSource, team: Team) -> Gradients:
    """The gradients of the rows that both sources list. One read of both; 4 bytes a row."""
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
    """Up to k positions by k-means++, `first` the first; fewer when every row coincides with one of them.

    patience: 1 folds when it pays, 0 after every batch, infinity never (that ends only where k distinct points exist).
    1 <= k <= n. Memory: 5 bytes a row, d + C + 3 numbers a center.
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
    """A run in progress: the centers so far, the weights, and what tells whether to fold."""

    gradients: Gradients
    k: int
    rng: np.random.Generator
    team: Team
    patience: float
    count: int = 0  # centers
    folded: int = 0  # those that the weights know
    rent: float = 0.0  # distances spent on checks since the last fold
    kept: float = 0.0  # fading counts of acceptances and proposals since the last fold
    tried: float = 0.0
    centers: Rows = field(init=False)
    points: Floats = field(init=False)
    residuals: Floats = field(init=False)
    norms: Floats = field(init=False)
    weights: Floats = field(init=False)
    ends: npt.NDArray[np.float64] = field(init=False)  # running sums of the weights, a segment each

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
        """More centers, pending."""
        new = slice(self.count, self.count + len(positions))
        self.centers[new] = positions
        self.points[new] = self.gradients.points.take(positions)
        self.residuals[new] = self.gradients.residuals.take(positions)
        self.norms[new] = self.gradients.norms[positions]
        self.count = new.stop

    def advance(self) -> None:
        """A batch of proposals, those accepted as new centers, and a fold if it is due."""
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
        """Those of the proposals that follow the law, given all centers and each other."""
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
            kernels.multiply(points[some], residuals[some], points, residuals, *areas)

        self.over_tiles(multiply_some, size)
        return products

    def check(self, points: Floats, residuals: Floats, norms: Floats, weights: Floats) -> Floats:
        """The weights of the proposals, lowered to their distances from the pending centers."""
        nearest, pending = weights.copy(), slice(self.folded, self.count)
        if self.folded < self.count:

            def check_some(some: slice) -> None:
                self.lower(pending, points[some], residuals[some], norms[some], nearest[some])

            self.over_tiles(check_some, len(nearest))
        return nearest

    def over_tiles(self, task: Callable[[slice], None], size: int) -> None:
        """task(some rows) for all of `size` rows, whole tiles of them for each thread."""
        tile = kernels.ROW_TILE
        self.team.ranges(lambda first, last: task(slice(first * tile, last * tile)), -(-size // tile), least=1)

    def lower(self, new: slice, points: Floats, residuals: Floats, norms: Floats, weights: Floats) -> None:
        """The weights of some rows down to their distances from these centers."""
        centers = freeze(self.points[new]), freeze(self.residuals[new]), self.norms[new]
        kernels.lower(points, residuals, norms, *centers, *_find_areas(), weights)

    def is_due(self) -> bool:
        """Whether to fold now: if the checks to come, or those since the last fold, cost more than folding.

        With r centers to draw, p pending and acceptance at rate f, checks cost r (p + r / 2) / f from here on, and
        r^2 / 2 where the pending ones are folded and nothing is refused: the most that folding can save.
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
    """A thread's room for a tile of products, twice: made once, since fresh memory costs more than a small tile."""
    if not hasattr(_own, "areas"):
        values = kernels.ROW_TILE * kernels.CENTER_TILE
        _own.areas = np.empty(values, np.float32), np.empty(values, np.float32)
    areas: tuple[Floats, Floats] = _own.areas
    return areas


def _over_blocks(task: Callable[[int, int], None], gradients: Gradients, team: Team) -> None:
    """task(start, stop) for every block of rows; each thread takes a stretch of them."""
    n, rows = len(gradients), gradients.block_rows

    def work(first: int, last: int) -> None:
        for block in range(first, last):
            task(block * rows, min(n, (block + 1) * rows))

    team.ranges(work, -(-n // rows), least=2)
