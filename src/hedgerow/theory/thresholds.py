"""Thresholds on a line: the version space and its diameter, in closed form (Lemma B.2 and Theorem 4.3).

A hypothesis says 1 at and beyond its threshold v; two of them differ where a point falls between their thresholds, with
probability |F(v) - F(v')|. Labels at s_1 < ... < s_k leave the gap between two neighbors in which the true threshold
is, so the diameter of the version space is F(s_{i+1}) - F(s_i), with F(s_0) = 0 and F(s_{k+1}) = 1.

Which gap that is depends on the true threshold. The paper takes the worst: the largest gap. The mean gap, for a
threshold drawn from the distribution of the points, is measured beside it: sum of squared gaps.

A pool of n points has gaps of its own. The quantile sampler looks only at the points next to the quantiles, and those
can be drawn without the others (`draw_neighbors`): n = k^2 is measured for k of a million.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.report import draw_curves
from hedgerow.theory.estimates import column, estimate_ratio, fit_limit, group_rows
from hedgerow.theory.measurements import Cell, Row, name_cell
from hedgerow.theory.parts import Part
from hedgerow.theory.samplers import SAMPLERS, Clustered, Quantiles, Sampler, cut_line

Values = npt.NDArray[np.float64]

SIZES = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)  # k
QUICK_SIZE = 3_000  # the largest k of the quick version
SWEEP_SIZE = 1_000  # k of the sweep over the size of the pool
SWEEP_TRIALS = 40
CLUSTER_TRIALS = 20  # the same for all k: the widest cluster is the widest of all trials
FACTORS = (1.25, 2.0, 5.0, 10.0, 30.0, 100.0, 1000.0)  # n / k of that sweep
MOST_DENSE = 100_000  # the largest k for which 100 k points are clustered
GAMMA = 10  # n / k otherwise, as in the paper's experiments
FIT_FROM = 1_000  # smaller k are left out of the fits: terms that vanish for large k still count there
EPSILON = "cluster-margin, epsilon 1/k"


def measure_gaps(picked: Values) -> tuple[float, float]:
    """(largest, mean) diameter of the version space after labels at F(s) = picked (k,), in any order.

    largest: for the worst true threshold. mean: for one drawn from the distribution of the points.
    """
    gaps = np.diff(np.sort(picked), prepend=0.0, append=1.0)
    return float(gaps.max()), float(gaps @ gaps)


def expect_largest(k: int) -> float:
    """The expected largest gap after k uniform points: H_{k+1} / (k + 1), the longest of k + 1 pieces of a stick."""
    return _harmonic(k + 1) / (k + 1)


def expect_mean(k: int) -> float:
    """The expected mean gap after k uniform points: 2 / (k + 2)."""
    return 2 / (k + 2)


def _harmonic(n: int) -> float:
    return float(np.sum(1.0 / np.arange(1, n + 1)))


def draw_neighbors(n: int, k: int, rng: np.random.Generator) -> Values:
    """F at the points that the quantile sampler takes from n uniform points, without drawing the n points.

    The quantiles i / k cut [0, 1] into k cells. The nearest point to a cut is the last one of the cell before it or the
    first one of the cell behind it, and the first and last of c uniform points have a closed form. k float64 a few
    times, whatever n is. A cell without points leaves the cut to the other side, and none if both are empty.
    """
    counts = rng.multinomial(n, np.full(k, 1 / k))
    with np.errstate(divide="ignore"):
        last = rng.random(k) ** (1 / counts)  # the largest of c uniform numbers
        first = last * (1 - rng.random(k) ** (1 / (counts - 1.0)))  # the smallest of the other c - 1 below it
    first = np.where(counts == 1, last, first)
    below = np.where(counts > 0, 1 - last, np.inf)  # from each cut down to the nearest point, in cells
    above = np.append(np.where(counts > 0, first, np.inf)[1:], np.inf)
    offsets = np.where(below <= above, -below, above)
    cuts = np.arange(1, k + 1)
    kept = np.isfinite(offsets)
    return (cuts[kept] + offsets[kept]) / k


def measure_line(
    rng: np.random.Generator, *, sampler: str, k: int, n: int, trials: int, whole: bool = True
) -> list[Row]:
    """The diameters after k of n uniform points, one row per trial. whole: draw all n points, not only those needed."""
    rows = []
    for trial in range(trials):
        if sampler == "uniform":
            picked = rng.random(k)
        elif whole:
            points = rng.random((n, 1))
            picked = points[make_sampler(sampler, k)(points, k, rng), 0]
        else:
            picked = draw_neighbors(n, k, rng)
        largest, mean = measure_gaps(picked)
        rows.append({"trial": trial, "largest": largest, "mean": mean})
    return rows


def make_sampler(name: str, k: int) -> Sampler:
    """A sampler on [0, 1]: quantiles of the uniform distribution, Cluster-Margin with epsilon = 1 / k, or by name."""
    if name == "quantiles":
        return Quantiles(tuple(np.arange(1, k + 1) / k))
    return Clustered(threshold=1 / k) if name == EPSILON else SAMPLERS[name]


# The study.


def list_cells(quick: bool) -> list[Cell]:
    """Uniform points, quantiles of n = k^2 and n = 10 k points, Cluster-Margin on 10 k; a sweep over n for one k."""
    cells = []
    for k in SIZES:
        if quick and k > QUICK_SIZE:
            continue
        many, few = min(100, max(60, 10**7 // k)), min(100, max(20, 2 * 10**6 // k))
        cells += [
            _cell("any pool", "uniform", k, k, many),
            _cell("n = k^2", "quantiles", k, k * k, many, whole=False),
            _cell("n = 10 k", "quantiles", k, GAMMA * k, many, whole=False),
            _cell("n = 10 k", EPSILON, k, GAMMA * k, few),
        ]
        if k <= MOST_DENSE:
            cells.append(_cell("n = 100 k", EPSILON, k, 100 * k, min(40, few)))
    factors = [factor for factor in FACTORS if not quick or factor <= GAMMA]
    for n in (int(factor * SWEEP_SIZE) for factor in factors):
        cells += [
            _cell("n varies", name, SWEEP_SIZE, n, SWEEP_TRIALS) for name in ("quantiles", EPSILON, "farthest-first")
        ]
    return cells


def _cell(setting: str, sampler: str, k: int, n: int, trials: int, *, whole: bool = True) -> Cell:
    given = {"sampler": sampler, "k": k, "n": n, "trials": trials, "whole": whole}
    labels = {"setting": setting, "sampler": sampler, "k": k, "n": n}
    return Cell(name_cell(*labels.values()), measure_line, given, labels)


def summarize(rows: list[Row]) -> list[Row]:
    """beta by setting, sampler, k and n, for the worst threshold and for a random one; and the limits of beta log k."""
    groups = group_rows(rows, ("setting", "sampler", "k", "n"))
    uniform = {key[2]: groups.pop(key) for key in list(groups) if key[1] == "uniform"}
    summary = []
    for (setting, sampler, k, n), some in groups.items():
        beta, mean = (estimate_ratio(column(some, of), column(uniform[k], of)) for of in ("largest", "mean"))
        summary.append(
            {"setting": setting, "sampler": sampler, "k": k, "n": n, "trials": len(some)}
            | {"beta": beta.value, "low": beta.low, "high": beta.high, "beta log k": beta.value * math.log(k)}
            | {"diameter times k": k * float(np.mean(column(some, "largest")))}
            | {"uniform times k": k * float(np.mean(column(uniform[k], "largest")))}
            | {"mean beta": mean.value, "mean low": mean.low, "mean high": mean.high}
        )
    return summary + _fit_all(groups, uniform)


def _fit_all(groups: Mapping[tuple[Any, ...], list[Row]], uniform: Mapping[int, list[Row]]) -> list[Row]:
    """One row per curve over k: the limit of beta log k."""
    fits = []
    for setting, sampler in dict.fromkeys(key[:2] for key in groups):
        ours = {
            key[2]: column(some, "largest")
            for key, some in groups.items()
            if key[:2] == (setting, sampler) and key[2] >= FIT_FROM
        }
        if len(ours) < 2:
            continue
        limit = fit_limit(ours, {k: column(uniform[k], "largest") for k in ours}).limit
        fits.append(
            {"setting": setting, "sampler": sampler, "limit": limit.value, "low": limit.low, "high": limit.high}
        )
    return fits


def draw(summary: list[Row]) -> dict[str, str]:
    """beta log k over k; beta for a random threshold over k; beta over the size of the pool."""
    curves = [row for row in summary if "limit" not in row]
    over_k = [row for row in curves if row["setting"] != "n varies"]
    varied = [row for row in curves if row["setting"] == "n varies"]
    named = [(f"{row['sampler']}, {row['setting']}", row) for row in over_k]
    bound = [("least of any sampler", row["k"], math.log(row["k"]) / _harmonic(row["k"] + 1), None) for row in over_k]
    worst = [_point(name, row, "", math.log(row["k"])) for name, row in named] + list(dict.fromkeys(bound))
    floor = [("the pool itself", row["n"], expect_largest(row["n"]) / expect_largest(row["k"]), None) for row in varied]
    pools = [(row["sampler"], row["n"], row["beta"], (row["high"] - row["low"]) / 2) for row in varied]
    return {
        "beta": draw_curves(worst, x="k", y="beta log k", log=True),
        "mean": draw_curves([_point(name, row, "mean ", 1.0) for name, row in named], x="k", y="beta", log=True),
        "pool": draw_curves(pools + list(dict.fromkeys(floor)), x="n, for k of 1,000", y="beta", log=True),
    }


def _point(name: str, row: Row, of: str, factor: float) -> tuple[str, float, float, float]:
    half = (row[f"{of}high"] - row[f"{of}low"]) / 2
    return name, row["k"], factor * row[f"{of}beta"], factor * half


THRESHOLDS = Part("thresholds", list_cells, summarize, draw)


# The clusters themselves.


def measure_clusters(rng: np.random.Generator, *, k: int, n: int, trials: int) -> list[Row]:
    """The number of clusters of n uniform points at epsilon = 1 / k, over k, and the widest, times k."""
    rows = []
    for trial in range(trials):
        points = np.sort(rng.random(n))
        labels = cut_line(points, 1 / k)
        first = np.flatnonzero(np.diff(labels, prepend=-1))
        widths = points[np.append(first[1:], n) - 1] - points[first]
        rows.append({"trial": trial, "clusters": len(first) / k, "widest": k * float(widths.max())})
    return rows


def list_cluster_cells(quick: bool) -> list[Cell]:
    """The clusters of 10 k and of 100 k points."""
    cells = []
    for factor in (GAMMA, 100):
        for k in SIZES:
            if k > (QUICK_SIZE if quick else MOST_DENSE if factor > GAMMA else SIZES[-1]):
                continue
            labels = {"setting": f"n = {factor} k", "k": k, "n": factor * k}
            given = {"k": k, "n": factor * k, "trials": CLUSTER_TRIALS}
            cells.append(Cell(name_cell(*labels.values()), measure_clusters, given, labels))
    return cells


def summarize_clusters(rows: list[Row]) -> list[Row]:
    """The mean number of clusters and the widest cluster of any trial, by k and n."""
    return [
        {"setting": setting, "k": k, "n": n, "trials": len(some)}
        | {"clusters / k": float(np.mean(column(some, "clusters"))), "widest times k": max(column(some, "widest"))}
        for (setting, k, n), some in group_rows(rows, ("setting", "k", "n")).items()
    ]


def draw_clusters(summary: list[Row]) -> dict[str, str]:
    """Both over k, in units of the paper's claim: k clusters, of a width of at most 2 / k."""
    points: list[tuple[str, float, float, float | None]] = []
    for name in ("clusters / k", "widest times k"):
        points += [(f"{name}, {row['setting']}", row["k"], row[name], None) for row in summary]
    return {"widths": draw_curves(points, x="k", y="clusters / k, and width times k", log=True)}


CLUSTERS = Part("clusters", list_cluster_cells, summarize_clusters, draw_clusters)
