"""Label complexity, measured: the labels that the Margin Algorithm and Cluster-MarginV need (Theorem B.1).

A plan runs with a factor in place of beta C2, for several factors and with several trials each. A trial ends with the
error of its separator, and for d <= 8 with the diameter of its version space, which bounds the error of every
consistent separator: this is what the proof of the theorem bounds. The labels that a sampler *needs* are those at which
the (1 - delta)-quantile over trials of either is eps: log quantile is nearly a line in log labels, and the line through
the nearest factors is solved for eps. The interval is a percentile bootstrap over trials.

The bound beside them is the sum of the theorem's batches for beta = 1, with the C2 that the Margin Algorithm needed in
the setting `BASE`: the theorem does not know C2, so one setting calibrates it and the others test its form. The labels
of a sampler divided by those of the Margin Algorithm are the beta that it had.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.report import draw_curves
from hedgerow.theory.algorithm import Plan, State, follow_plan
from hedgerow.theory.cones import EXACT_DIMENSION, measure_diameter
from hedgerow.theory.distributions import DISTRIBUTIONS, Generator, draw_directions
from hedgerow.theory.estimates import CONFIDENCE, SEED
from hedgerow.theory.measurements import Cell, Row
from hedgerow.theory.parts import Part
from hedgerow.theory.samplers import SAMPLERS, Sampler
from hedgerow.theory.volume import Volume

BASE: Mapping[str, Any] = {"distribution": "gaussian", "d": 8, "eps": 0.02, "gamma": 10}
PRACTICE = ("uniform", "cluster-margin", "farthest-first", "k-means++")
# What varies from the base setting, and the samplers that are measured there. Uniform does not depend on gamma.
VARIED: Sequence[tuple[str, Sequence[Any], Sequence[str]]] = (
    ("d", (4, 16, 32), PRACTICE),
    ("eps", (0.1, 0.05, 0.005), PRACTICE),
    ("gamma", (2, 40), PRACTICE[1:3]),
    ("distribution", tuple(name for name in DISTRIBUTIONS if name != BASE["distribution"]), PRACTICE[:2]),
)
DELTA = 0.1
MARGIN = "uniform"  # Cluster-MarginV with this sampler is the Margin Algorithm
FACTORS = (0.2, 0.3, 0.45, 0.7, 1.0)
# Trials by d, for each setting, sampler and factor. With 30, an earlier run had intervals of beta of about +-0.25
# (d = 4), +-0.08 (8, and twice that for eps of 0.1), +-0.07 (16) and +-0.04 (32).
TRIALS = {4: 200, 8: 60, 16: 40, 32: 20}
AT_ONCE = 10  # trials per cell
NEAREST = 4  # factors that the line goes through
RESAMPLES = 400
GOALS = ("error", "diameter")

Values = npt.NDArray[np.float64]
Point = tuple[str, float, float, float | None]


def measure_plan(
    rng: Generator, *, distribution: str, d: int, eps: float, gamma: float, sampler: str, factor: float, trials: int
) -> list[Row]:
    """How runs of Algorithm 3 end: one row per trial."""
    plan = Plan(distribution, d, eps, DELTA, gamma, c2=factor)
    rows = []
    for trial in range(trials):
        truth = draw_directions(1, d, rng)[0]
        *_, last = follow_plan(plan, lambda state: make_sampler(sampler, state), truth, rng)
        row: Row = {"trial": trial, "labels": len(last.state.points), "error": last.error}
        if d - 1 <= EXACT_DIMENSION and last.state.cone is not None:
            widest = measure_diameter(last.state.cone).pair
            row["diameter"] = plan.law.measure_disagreement(*widest).value
        rows.append(row)
    return rows


def make_sampler(name: str, state: State) -> Sampler:
    """The sampler of a round; the volume-based one sees the version space, which is everything before the first."""
    if name != "volume":
        return SAMPLERS[name]
    return SAMPLERS[MARGIN] if state.cone is None else Volume(state.cone)


def list_cells(quick: bool) -> list[Cell]:
    """Every setting with every sampler and factor; the volume-based sampler, which is slow, in the base setting."""
    if quick:
        return [_cell({**BASE, "d": 4}, name, factor, 0) for name in PRACTICE for factor in FACTORS]
    chosen = [(BASE, name) for name in (*PRACTICE, "volume")]
    chosen += [({**BASE, key: value}, name) for key, values, names in VARIED for value in values for name in names]
    return [_cell(*one, factor, part) for one in chosen for factor in FACTORS for part in _parts(one[0])]


def _parts(setting: Mapping[str, Any]) -> range:
    return range(TRIALS[setting["d"]] // AT_ONCE)


def _cell(setting: Mapping[str, Any], sampler: str, factor: float, part: int) -> Cell:
    name = "-".join(map(str, (*setting.values(), sampler, factor, part)))
    given = {**setting, "sampler": sampler, "factor": factor}
    return Cell(name, measure_plan, given | {"trials": AT_ONCE}, given | {"part": part})


def summarize(rows: list[Row]) -> list[Row]:
    """The labels needed by setting and sampler, for the error and for the diameter, the beta they imply, the bound."""
    groups: dict[tuple[Any, ...], dict[float, list[Row]]] = {}
    for row in rows:
        key = (*(row[name] for name in BASE), row["sampler"])
        groups.setdefault(key, {}).setdefault(row["factor"], []).append(row)
    summary = []
    for goal in GOALS:
        needed = {
            key: _need(of, goal, key[2], int(key[-1] != MARGIN))
            for key, of in groups.items()
            if goal in next(iter(of.values()))[0]
        }
        calibrated = _calibrate(needed)
        for key, found in needed.items():
            named = {"goal": goal, **dict(zip((*BASE, "sampler"), key, strict=True))}
            margin = needed.get((*key[:3], BASE["gamma"], MARGIN))
            summary.append(named | _describe(found, margin, _bound(key, calibrated)))
    return summary


def _need(by_factor: Mapping[float, Sequence[Row]], goal: str, eps: float, stream: int) -> Values:
    """The labels needed, and after them what the resamples of the trials need; NaN where the line never gets there.

    stream: of the resamples; trials of two samplers are not paired, and theirs must not be either.
    """
    labels = np.log([float(np.mean([row["labels"] for row in rows])) for rows in by_factor.values()])
    drawn = []
    for place, rows in enumerate(by_factor.values()):
        values = np.array([row[goal] for row in rows])
        rng = np.random.default_rng([SEED, stream, place])
        picked = values[rng.integers(len(values), size=(RESAMPLES, len(values)))]
        drawn.append(np.quantile(np.concatenate([values[None], picked]), 1 - DELTA, axis=1))
    return np.array([solve(labels, column, eps) for column in np.log(drawn).T])


def solve(x: Values, y: Values, eps: float) -> float:
    """exp of the x at which the line through the points with y nearest to log eps is log eps.

    NaN if the line does not fall, or if that x is more than one step between points outside of them.
    """
    near = np.argsort(np.abs(y - math.log(eps)), kind="stable")[:NEAREST]
    slope, offset = np.polyfit(x[near], y[near], 1)
    step = float(np.diff(np.sort(x)).max())
    found = (math.log(eps) - offset) / slope if slope < 0 else math.nan
    return math.exp(found) if x.min() - step <= found <= x.max() + step else math.nan


def _describe(found: Values, margin: Values | None, bound: float | None) -> Row:
    """The labels and their ratio to those of the Margin Algorithm, with intervals; left out where they are NaN."""
    row = _interval("labels", found)
    if margin is not None and margin is not found:
        row |= _interval("beta", found / margin)
    return row | ({} if bound is None else {"bound": bound})


def _interval(name: str, found: Values) -> Row:
    if np.isnan(found[0]):
        return {}
    tail = (1 - CONFIDENCE) / 2
    low, high = np.nanquantile(found[1:], [tail, 1 - tail])
    return {name: float(found[0]), f"{name} low": float(low), f"{name} high": float(high)}


def _calibrate(needed: Mapping[tuple[Any, ...], Values]) -> float | None:
    """C2: what the Margin Algorithm needed in the base setting, divided by the theorem's sum for C2 = 1."""
    found = needed.get((*BASE.values(), MARGIN))
    return None if found is None or np.isnan(found[0]) else float(found[0]) / sum_batches(BASE["d"], BASE["eps"])


def _bound(key: tuple[Any, ...], c2: float | None) -> float | None:
    distribution, d, eps, *_ = key
    return None if c2 is None else c2 * sum_batches(d, eps, distribution)


def sum_batches(d: int, eps: float, distribution: str = "gaussian") -> float:
    """The labels of all rounds for beta = C2 = 1, not rounded."""
    plan = Plan(distribution, d, eps, DELTA)
    return sum(2 * (d + math.log((1 + plan.rounds - i) / DELTA)) for i in range(1, plan.rounds + 1))


def draw(summary: list[Row]) -> dict[str, str]:
    """Labels over d, over 1 / eps and over gamma, for the error and the diameter; the bound for d and eps."""
    figures = {}
    for goal in GOALS:
        rows = [row for row in summary if row["goal"] == goal and "labels" in row]
        for key in ("d", "eps", "gamma"):
            shown = [row for name in PRACTICE for row in _vary(rows, key, name)]
            if not shown:
                continue
            curve: list[Point] = [_point(row, key) for row in shown]
            if key != "gamma":
                curve += [("bound for beta = 1", _place(r, key), r["bound"], None) for r in shown if _has_bound(r)]
            figures[f"{goal}-{key}"] = draw_curves(curve, x=_title(key), y=f"labels until the {goal} is eps", log=True)
    return figures


def _vary(rows: Sequence[Row], key: str, sampler: str) -> list[Row]:
    """The rows of a sampler where all but one of the settings are those of the base, if that one has three values."""
    fixed = [name for name in BASE if name != key]
    near = [row for row in rows if all(row[name] == BASE[name] for name in fixed)]
    found = [row for row in near if row["sampler"] == sampler]
    if key == "gamma" and sampler == MARGIN:  # it does not depend on gamma
        found = [row | {key: value} for row in found for value in {row[key] for row in near}]
    found.sort(key=lambda row: _place(row, key))
    return found if len(found) > 2 else []


def _has_bound(row: Row) -> bool:
    return row["sampler"] == MARGIN and "bound" in row


def _place(row: Row, key: str) -> float:
    return float(1 / row[key] if key == "eps" else row[key])


def _title(key: str) -> str:
    return "1 / eps" if key == "eps" else key


def _point(row: Row, key: str) -> Point:
    error = (row["labels high"] - row["labels low"]) / 2
    return name_sampler(row["sampler"]), _place(row, key), row["labels"], error


def name_sampler(name: str) -> str:
    """The name of a sampler in figures."""
    return "uniform (Margin)" if name == MARGIN else name


LABEL_COMPLEXITY = Part("label-complexity", list_cells, summarize, draw)
