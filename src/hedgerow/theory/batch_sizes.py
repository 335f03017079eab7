"""Label complexity by the size of a batch: the labels until the error is eps, if every round asks for k.

Theorem B.1 prescribes k. Here it is given, and the rounds of Algorithm 3 go on, with bands of half the width each time,
until the error of the separator is at most eps, and until the diameter of the version space is. Larger batches need
fewer rounds and more labels, since the points of one round are chosen without the labels of the others. A sampler's
labels divided by those of the Margin Algorithm are the beta that it had for batches of this size. The setting is
`label_complexity.BASE`.

The theorem holds for larger batches than its own as well, so its bound for a k of at least k_2, the largest of its
batches for beta = C2 = 1, is k in each of its n rounds.
"""

from hedgerow.report import draw_curves
from hedgerow.theory.algorithm import BAND, Plan, start, take_round
from hedgerow.theory.cones import measure_diameter
from hedgerow.theory.distributions import Generator, draw_directions, make_distribution
from hedgerow.theory.estimates import column, estimate_mean, estimate_ratio, group_rows
from hedgerow.theory.label_complexity import BASE, DELTA, GOALS, MARGIN, PRACTICE, make_sampler, name_sampler
from hedgerow.theory.measurements import Cell, Row, name_cell
from hedgerow.theory.parts import Part

SIZES = (4, 8, 16, 32, 64, 128, 256)  # k
QUICK_SIZES = (8, 32)
SAMPLERS_HERE = (*PRACTICE, "volume")
TRIALS = 60  # the labels needed vary by about a fifth from trial to trial: an interval of +-0.07 for beta
AT_ONCE = 10  # trials per cell
MOST_ROUNDS = 60  # a band is then narrower than what can be measured
THEOREM = Plan(BASE["distribution"], BASE["d"], BASE["eps"], DELTA, BASE["gamma"])


def measure_labels(rng: Generator, *, sampler: str, k: int, trials: int) -> list[Row]:
    """The labels until the error is eps, and until the diameter is: one row per trial."""
    law, eps = make_distribution(BASE["distribution"], BASE["d"]), BASE["eps"]
    rows = []
    for trial in range(trials):
        truth = draw_directions(1, law.d, rng)[0]
        state = start(law.d, rng)
        needed: dict[str, int] = {}
        for i in range(1, MOST_ROUNDS + 1):
            band = BAND * 0.5**i
            state = take_round(state, law, band, BASE["gamma"], k, make_sampler(sampler, state), truth, rng)
            assert state.cone is not None
            if law.measure_disagreement(state.w, truth).value <= eps:
                needed.setdefault("error", i * k)
            if law.measure_disagreement(*measure_diameter(state.cone).pair).value <= eps:
                needed["diameter"] = i * k
                break
        rows.append({"trial": trial, **needed})
    return rows


def list_cells(quick: bool) -> list[Cell]:
    """Every sampler for every k; the volume-based one is slow, and left out if quick."""
    if quick:
        return [_cell(name, k, 0) for name in PRACTICE for k in QUICK_SIZES]
    return [_cell(name, k, part) for name in SAMPLERS_HERE for k in SIZES for part in range(TRIALS // AT_ONCE)]


def _cell(sampler: str, k: int, part: int) -> Cell:
    given = {"sampler": sampler, "k": k}
    return Cell(name_cell(sampler, k, part), measure_labels, given | {"trials": AT_ONCE}, given | {"part": part})


def summarize(rows: list[Row]) -> list[Row]:
    """The mean labels by goal, sampler and k, and their ratio to those of the Margin Algorithm.

    A goal that some trial did not reach is left out.
    """
    groups = group_rows(rows, ("sampler", "k"))
    summary = []
    for goal in GOALS:
        reached = {key: column(some, goal) for key, some in groups.items() if all(goal in row for row in some)}
        for (sampler, k), labels in reached.items():
            row = {"goal": goal, "sampler": sampler, "k": k, "trials": len(labels)}
            row |= estimate_mean(labels).describe("labels")
            if k >= THEOREM.batch(1):
                row["bound"] = k * THEOREM.rounds
            if sampler != MARGIN and (MARGIN, k) in reached:
                row |= estimate_ratio(labels, reached[MARGIN, k]).describe("beta")
            summary.append(row)
    return summary


def draw(summary: list[Row]) -> dict[str, str]:
    """Labels and beta over k, for the error and for the diameter. The bound is several times as high, and not shown."""
    figures = {}
    for goal in GOALS:
        for value, title in (("labels", f"labels until the {goal} is eps"), ("beta", f"beta, until the {goal} is eps")):
            curve = [_point(row, value) for row in summary if row["goal"] == goal and value in row]
            if curve:
                figures[f"{goal}-{value}"] = draw_curves(curve, x="k, labels per round", y=title, log=True)
    return figures


def _point(row: Row, value: str) -> tuple[str, float, float, float]:
    error = (row[f"{value} high"] - row[f"{value} low"]) / 2
    return name_sampler(row["sampler"]), row["k"], row[value], error


BATCH_SIZES = Part("batch-sizes", list_cells, summarize, draw)
