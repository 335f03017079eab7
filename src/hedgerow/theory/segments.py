"""Theorem 4.3's distribution: points on a segment in R^d, where hyperplanes are thresholds.

k points leave k + 1 gaps whose probabilities sum to 1, so the largest is at least 1 / (k + 1), whatever the sampler.
After k uniform points it is H_{k+1} / (k + 1) on average. So beta >= 1 / H_{k+1} for every sampler and every
distribution on the segment: log k is the most that can be gained.

The samplers see points in R^d, d = 4, in a direction drawn anew in every trial; only quantiles are given the positions
along the segment. Where the points are not uniform along it, the samplers of practice, which know distances and no
probabilities, may lose all of log k: a normal and a Cauchy distribution are measured beside the uniform one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from hedgerow.report import draw_curves
from hedgerow.theory.estimates import column, estimate_ratio, group_rows
from hedgerow.theory.measurements import Cell, Row, name_cell
from hedgerow.theory.parts import Part
from hedgerow.theory.samplers import SAMPLERS, Quantiles
from hedgerow.theory.thresholds import measure_gaps

Values = npt.NDArray[np.float64]

DIMENSION = 4
GAMMA = 10  # n / k
# Trials by k. With 6 to 50 trials, an earlier run had intervals of +-10 % (more for k of 10,000 and Cauchy positions).
TRIALS = {10: 100, 30: 100, 100: 100, 300: 100, 1_000: 100, 3_000: 40, 10_000: 20}
QUICK_SIZE = 100


@dataclass(frozen=True)
class Positions:
    """The distribution of the positions along the segment: F and its inverse."""

    cdf: Callable[[Values], Values]
    quantile: Callable[[Values], Values]


POSITIONS = {
    "uniform": Positions(lambda x: np.clip(x, 0, 1), lambda p: p),
    "normal": Positions(special.ndtr, special.ndtri),
    "cauchy": Positions(lambda x: 0.5 + np.arctan(x) / np.pi, lambda p: np.tan(np.pi * (p - 0.5))),
}


def bound_beta(k: int) -> float:
    """The least beta of any sampler on a segment: 1 / H_{k+1}."""
    return 1 / float(np.sum(1 / np.arange(1, k + 2)))


def measure_segment(rng: np.random.Generator, *, positions: str, sampler: str, k: int, trials: int) -> list[Row]:
    """The largest gap after k of 10 k points on a segment, one row per trial."""
    spread = POSITIONS[positions]
    rows = []
    for trial in range(trials):
        places = spread.quantile(rng.random(GAMMA * k))
        if sampler == "quantiles":
            chosen = Quantiles(tuple(spread.quantile(np.arange(1, k + 1) / k)))(places[:, None], k, rng)
        else:
            direction = rng.normal(size=DIMENSION)
            points = places[:, None] * (direction / np.linalg.norm(direction))
            chosen = SAMPLERS[sampler](points, k, rng)
        rows.append({"trial": trial, "largest": measure_gaps(spread.cdf(places[chosen]))[0]})
    return rows


def list_cells(quick: bool) -> list[Cell]:
    """Every sampler on every distribution of positions."""
    cells = []
    for positions in POSITIONS:
        for k in TRIALS:
            if quick and k > QUICK_SIZE:
                continue
            for sampler in SAMPLERS:
                labels = {"positions": positions, "sampler": sampler, "k": k}
                given = labels | {"trials": TRIALS[k]}
                cells.append(Cell(name_cell(*labels.values()), measure_segment, given, labels))
    return cells


def summarize(rows: list[Row]) -> list[Row]:
    """beta by distribution, sampler and k, beside the least that any sampler can have."""
    groups = group_rows(rows, ("positions", "sampler", "k"))
    summary = []
    for (positions, sampler, k), some in groups.items():
        if sampler == "uniform":
            continue
        uniform = groups[positions, "uniform", k]
        beta = estimate_ratio(column(some, "largest"), column(uniform, "largest"))
        summary.append(
            {"positions": positions, "sampler": sampler, "k": k, "trials": len(some)}
            | {"beta": beta.value, "low": beta.low, "high": beta.high, "beta log k": beta.value * math.log(k)}
            | {"bound": bound_beta(k)}
        )
    return summary


def draw(summary: list[Row]) -> dict[str, str]:
    """beta log k over k, one figure for every distribution of positions."""
    figures = {}
    for positions in POSITIONS:
        rows = [row for row in summary if row["positions"] == positions]
        points: list[tuple[str, float, float, float | None]] = []
        for row in rows:
            factor = math.log(row["k"])
            points.append((row["sampler"], row["k"], factor * row["beta"], factor * (row["high"] - row["low"]) / 2))
        bounds = {row["k"]: math.log(row["k"]) * row["bound"] for row in rows}
        points += [("least of any sampler", k, bound, None) for k, bound in bounds.items()]
        figures[positions] = draw_curves(points, x="k", y="beta log k", log=True)
    return figures


SEGMENTS = Part("segments", list_cells, summarize, draw)
