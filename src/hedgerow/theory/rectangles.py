"""Rectangles [0, v] over a product distribution: the version space, its diameter, the sampler of Theorem 4.2.

With continuous marginals, F maps the points to the uniform distribution on [0, 1]^d, where all this is computed. Two
rectangles differ with probability prod v + prod w - 2 prod min(v, w). If the version space is a box [a, b], as after
labels of points on the axes, the most distant members are its corners, and the diameter is prod b - prod a.

For other points the version space is no box: points inside the true rectangle raise all of a, and a point outside it
only says that one of its coordinates, nobody knows which, is beyond the rectangle. The diameter for the worst true
rectangle is then the largest difference of two rectangles with the same points in both. Of two nested ones, [0, a] in
[0, w], the smaller is determined by the larger; of two others, either shares a nested pair with their intersection that
has at least half of their difference. So D / 2 <= nested <= D, and both are the same for a box. The nested diameter is
measured, exactly in low dimensions (`find_largest`), else by a search from many starts (`search_largest`), which can
only fall short.
"""

import math
from dataclasses import dataclass
from itertools import starmap
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import InputError
from hedgerow.kernels.shells import climb, search_all
from hedgerow.report import draw_curves
from hedgerow.theory.estimates import column, estimate_ratio, group_rows
from hedgerow.theory.measurements import Cell, Row, name_cell
from hedgerow.theory.parts import Part
from hedgerow.theory.samplers import SAMPLERS, Points, Rows, Sampler

Values = npt.NDArray[np.float64]

STARTS = 200  # of the search for the largest shell
TOP_GAPS = 20  # a start along the gaps takes one of so many, the largest, on each axis
MOST_CORNERS = 10**7  # that `find_largest` tries
NEIGHBORS = 8  # asked for at first, where the nearest point may be taken

DIMENSIONS = (1, 2, 3, 4, 5, 6, 7, 8)
FEW = (1, 2, 4, 8)  # d, where all would be too many
SIZES = (100, 300, 1_000, 3_000, 10_000)  # k, for points on the axes
QUICK_SIZE = 1_000  # the largest of these in the quick version
POOL = 1_000_000  # n, for k of 1,000
POOLS = (1_000, 10_000, 100_000, 1_000_000)  # n, for k of 100
HOLES = (0.0, 0.05, 0.1, 0.2)  # the least coordinate of any point, for k of 100 of 20,000 points
SAMPLERS_HERE = ("cluster-margin", "farthest-first", "k-means++")


def measure_difference(v: npt.ArrayLike, w: npt.ArrayLike) -> float:
    """The probability that the rectangles [0, v] and [0, w] differ on a point, uniform in [0, 1]^d."""
    first, second = np.asarray(v, np.float64), np.asarray(w, np.float64)
    return float(first.prod() + second.prod() - 2 * np.minimum(first, second).prod())


def measure_box(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """The diameter of a version space that is the box [a, b]: prod b - prod a."""
    return float(np.asarray(b, np.float64).prod() - np.asarray(a, np.float64).prod())


def measure_on_axes(d: int, k: int) -> float:
    """The diameter after the points of Theorem 4.2, if they lie on the axes: 1 - (1 - d / k)^d, at most d^2 / k.

    That is a box between two neighbors on each axis, at the far end. If d does not divide k, see `count_on_axes`.
    """
    return measure_box(1 - 1 / count_on_axes(d, k), np.ones(d))


def count_on_axes(d: int, k: int) -> Rows:
    """How many of the k points Theorem 4.2 puts on each axis, (d,): k / d, and one more on the first if need be."""
    return k // d + (np.arange(d) < k % d).astype(np.int64)


def find_largest(points: Points) -> float:
    """The largest nested diameter after labels at points (k, d), exactly. O(k^d d)."""
    k, d = points.shape
    if (k + 1) ** (d - 1) > MOST_CORNERS:
        raise InputError(
            f"{k:,} points in {d} dimensions have {float(k + 1) ** (d - 1):.2g} corners, and at most {MOST_CORNERS:,} "
            "are tried: use search_largest, which finds a large one"
        )
    return float(search_all(points, _order(points)))


def search_largest(points: Points, rng: np.random.Generator, *, starts: int = STARTS) -> float:
    """The largest nested diameter found after labels at points (k, d): exact for d = 1, else at most the largest.

    Starts at the full cube, at wide gaps between the points along each axis, at random corners, and at thin slabs.
    """
    d = points.shape[1]
    orders = _order(points)
    corners = np.ones((1 if d == 1 else max(4, starts), d))
    if d > 1:
        share = len(corners) // 3
        _start_at_gaps(points, orders, corners[1 : 1 + share], rng)
        corners[1 + share : 1 + 2 * share] = 1 - 0.5 * rng.random((share, d)) ** 2
        thin = corners[1 + 2 * share :]
        thin[np.arange(len(thin)), rng.integers(d, size=len(thin))] = rng.random(len(thin))
    return float(climb(points, orders, corners))


def _order(points: Points) -> Rows:
    """The points in ascending order along each axis, (d, k)."""
    return np.ascontiguousarray(np.argsort(points, axis=0).T)


def _start_at_gaps(points: Points, orders: Rows, corners: Values, rng: np.random.Generator) -> None:
    """Fill corners (m, d) with the upper ends of wide gaps, on each axis one of the widest."""
    for axis in range(points.shape[1]):
        along = points[orders[axis], axis]
        ends = np.append(along, 1.0)
        widest = np.argsort(np.diff(ends, prepend=0.0) * ends)[-TOP_GAPS:]
        corners[:, axis] = ends[rng.choice(widest, len(corners))]


@dataclass(frozen=True)
class AxisQuantiles:
    """The sampler of Theorem 4.2: for each axis, the point nearest to each of its k / d quantiles on that axis.

    Points are uniform in [0, 1]^d, so that the j-th quantile is j d / k. A nearest point that is taken already is
    replaced by the next nearest. If d does not divide k, the first axes have one point more.
    """

    def __call__(self, points: Points, k: int, rng: np.random.Generator) -> Rows:
        from scipy.spatial import KDTree

        tree = KDTree(points)
        taken: dict[int, None] = {}
        for target in place_targets(points.shape[1], k):
            taken[_find_free(tree, target, taken)] = None
        return np.fromiter(taken, np.int64, k)


def place_targets(d: int, k: int) -> Values:
    """The k targets on the axes, (k, d)."""
    targets = np.zeros((k, d))
    row = 0
    for axis, count in enumerate(count_on_axes(d, k)):
        targets[row : row + count, axis] = np.arange(1, count + 1) / count
        row += count
    return targets


def _find_free(tree: Any, target: Values, taken: dict[int, None]) -> int:
    """The nearest point to a target that is not taken."""
    count = NEIGHBORS
    while True:
        near = np.atleast_1d(tree.query(target, min(count, tree.n))[1]).tolist()
        free = next((row for row in near if row not in taken), None)
        if free is not None:
            return int(free)
        count *= 4


THEOREM = "theorem 4.2"
RECTANGLE_SAMPLERS: dict[str, Sampler] = {THEOREM: AxisQuantiles(), **SAMPLERS}


# The study.


def measure_cube(
    rng: np.random.Generator, *, sampler: str, d: int, k: int, n: int, hole: float, trials: int
) -> list[Row]:
    """The nested diameters after k of n points, uniform in [hole, 1]^d, one row per trial.

    Probabilities are those of the whole cube: the points near the axes are missing from the pool, not from the world.
    """
    rows = []
    for trial in range(trials):
        if sampler == "uniform":
            picked = hole + (1 - hole) * rng.random((k, d))
        else:
            points = hole + (1 - hole) * rng.random((n, d))
            picked = points[RECTANGLE_SAMPLERS[sampler](points, k, rng)]
        rows.append({"trial": trial, "largest": search_largest(picked, rng)})
    return rows


def measure_ideal(rng: np.random.Generator, *, d: int, k: int) -> list[Row]:
    """The diameter after the points of Theorem 4.2 on the axes, in closed form."""
    return [{"trial": 0, "largest": measure_on_axes(d, k)}]


def list_cells(quick: bool) -> list[Cell]:
    """Uniform points and the theorem's; points of a pool, of smaller pools, of pools without points near the axes."""
    cells = []
    for d in DIMENSIONS:
        for k in SIZES:
            if not quick or (k <= QUICK_SIZE and d in FEW):
                cells += [_cell("on the axes", "uniform", d, k, k, 0.0, 40 if k <= 1_000 else 20)]
                labels = {"setting": "on the axes", "sampler": THEOREM, "d": d, "k": k, "n": "", "hole": 0.0}
                cells += [Cell(name_cell(*labels.values()), measure_ideal, {"d": d, "k": k}, labels)]
    plan = [("pool", THEOREM, d, 1_000, POOL, 0.0, 20) for d in DIMENSIONS]
    plan += [("n varies", THEOREM, d, 100, n, 0.0, 20 if n == POOL else 30) for d in FEW for n in POOLS]
    for d in FEW:
        for hole in HOLES:
            names = (THEOREM, "uniform") if hole else (THEOREM,)  # without a hole they are measured above
            plan += [("hole", name, d, 100, 20_000, hole, 30) for name in names]
    for name in SAMPLERS_HERE:
        plan += [("samplers", name, d, 100, 1_000, 0.0, 40) for d in DIMENSIONS]
        plan += [("samplers", name, d, 1_000, 10_000, 0.0, 20) for d in FEW]
    return cells + [_cell(*one) for one in plan if not quick or (one[2] in FEW and one[3] <= 100 and one[4] <= 10_000)]


def _cell(setting: str, sampler: str, d: int, k: int, n: int, hole: float, trials: int) -> Cell:
    labels = {"setting": setting, "sampler": sampler, "d": d, "k": k, "n": n, "hole": hole}
    given = {"sampler": sampler, "d": d, "k": k, "n": n, "hole": hole, "trials": trials}
    return Cell(name_cell(*labels.values()), measure_cube, given, labels)


def summarize(rows: list[Row]) -> list[Row]:
    """beta by setting, sampler, d, k, n and hole, beside d / log k."""
    groups = group_rows(rows, ("setting", "sampler", "d", "k", "n", "hole"))
    uniform = {key[2:4] + key[5:]: column(groups.pop(key), "largest") for key in list(groups) if key[1] == "uniform"}
    summary = []
    for (setting, sampler, d, k, n, hole), some in groups.items():
        ours = column(some, "largest")
        beta = estimate_ratio(ours, uniform[d, k, hole])
        summary.append(
            {"setting": setting, "sampler": sampler, "d": d, "k": k, "n": n, "hole": hole, "trials": len(some)}
            | {"diameter": float(np.mean(ours)), "beta": beta.value, "low": beta.low, "high": beta.high}
            | {"d / log k": d / math.log(k), "uniform diameter": float(np.mean(uniform[d, k, hole]))}
        )
    return summary


def draw(summary: list[Row]) -> dict[str, str]:
    """beta log k / d over k for points on the axes; beta over d in a pool, over n, over the hole, of the samplers."""
    by: dict[str, list[Row]] = {}
    for row in summary:
        by.setdefault(row["setting"], []).append(row)
    axes = [(f"d = {row['d']}", row["k"], row, math.log(row["k"]) / row["d"]) for row in by["on the axes"]]
    drawn = {"beta": draw_curves(list(starmap(_point, axes)), x="k", y="beta log k / d", log=True)}
    if "pool" in by:
        pools = [("theorem 4.2, points of a pool", row["d"], row, 1.0) for row in by["pool"]]
        pools += [("d / log k", row["d"], {"beta": row["d / log k"], "low": 0, "high": 0}, 1.0) for row in by["pool"]]
        drawn["pool"] = draw_curves(list(starmap(_point, pools)), x="d, for k of 1,000 and n of 1,000,000", y="beta")
    sizes = [(f"d = {row['d']}", row["n"], row, 1.0) for row in by["n varies"]]
    drawn["sizes"] = draw_curves(list(starmap(_point, sizes)), x="n, for k of 100", y="beta", log=True)
    if "hole" in by:
        holes = [(f"d = {row['d']}", 100 * row["hole"], row, 1.0) for row in by["hole"]]
        drawn["hole"] = draw_curves(list(starmap(_point, holes)), x="least coordinate in %, for k of 100", y="beta")
    ours = [(f"{row['sampler']}, k = {row['k']:,}", row["d"], row, 1.0) for row in by["samplers"]]
    drawn["samplers"] = draw_curves(list(starmap(_point, ours)), x="d, for n of 10 k", y="beta")
    return drawn


def _point(name: str, x: float, row: Row, factor: float) -> tuple[str, float, float, float]:
    return name, x, factor * row["beta"], factor * (row["high"] - row["low"]) / 2


RECTANGLES = Part("rectangles", list_cells, summarize, draw)
