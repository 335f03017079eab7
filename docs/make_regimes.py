"""Refresh docs/regimes.md and its figure from the JSON files of regimes, hedge-settings and hedge-variants.

They are in experiments/, with the scripts that write them: regimes.py, hedge_settings.py and hedge_variants.py.

    python docs/make_regimes.py

The score of a strategy in a trial is the area under its learning curve. Its regret is that score minus the score of the
best baseline in the same trial. The best baseline of a cell is chosen on half of the trials (even or odd) and compared
with on the other half, so that it is not the best by the luck of the trials that it is judged by. Intervals are 95 %,
by Student's t over trials.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from generated import FIGURES, fill_parts, frame, write_figures
from hedgerow.experiments.findings import measure_area
from hedgerow.experiments.recipes import load_recipe
from hedgerow.report import draw_grid
from make_results import table

HERE = Path(__file__).resolve().parent
PAGE = HERE / "regimes.md"
RESULTS = HERE.parent / "experiments" / "regimes.json"
SETTINGS = HERE.parent / "experiments" / "hedge-settings.json"
VARIANTS = HERE.parent / "experiments" / "hedge-variants.json"
FAMILY = "regimes-"
OURS = "hedge"
UNIT = 1e4  # regrets are shown in ten-thousandths
GOAL = -20.0  # the worst regret that is still called "not worse"
SHOWN = 300.0  # where the colors end
CONFIDENCE = 0.95
UNITS = ("rows", "pairs")
SAME = {"cluster-margin-pairs": "cluster-margin", "cluster-margin-pairs-shuffled": "cluster-margin-shuffled"}

Areas = npt.NDArray[np.float64]  # one per trial


@dataclass(frozen=True)
class Regret:
    """Of a strategy in a cell, in ten-thousandths: the mean over trials and its standard error."""

    mean: float
    error: float
    trials: int

    def reach(self, confidence: float = CONFIDENCE) -> float:
        """Half of the width of the interval."""
        from scipy.stats import t

        return self.error * float(t.ppf((1 + confidence) / 2, self.trials - 1))

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.mean - self.reach()

    def __str__(self) -> str:
        return f"{show(self.mean)} ± {self.error:.0f}"


def show(value: float) -> str:
    """A number with its sign."""
    return f"{value:+.0f}".replace("-", "−")


@cache
def load() -> dict[str, Any]:
    """cell -> what `experiments/regimes.py` stored."""
    cells: dict[str, Any] = json.loads(RESULTS.read_text())
    return cells


def measure(cell: dict[str, Any]) -> dict[str, Areas]:
    """strategy -> the area under its curve in each trial."""
    return {
        SAME.get(name, name): np.array(
            [measure_area(list(zip(cell["labeled"], curve, strict=True))) for curve in curves]
        )
        for name, curves in cell["curves"].items()
    }


def list_baselines(cell: dict[str, Any]) -> list[str]:
    """The strategies that the best is chosen from: not ours, not controls, not repetitions."""
    left_out = {OURS, *cell["controls"], *cell["repeated"]}
    return [SAME.get(name, name) for name in cell["curves"] if name not in left_out]


def find_regrets(cell: dict[str, Any]) -> dict[str, Regret]:
    """strategy -> its regret."""
    areas, baselines = measure(cell), list_baselines(cell)
    trials = len(next(iter(areas.values())))
    halves = np.arange(trials) % 2
    best = np.empty(trials)
    for half in (0, 1):
        chosen = max(baselines, key=lambda name: float(areas[name][halves != half].mean()))
        best[halves == half] = areas[chosen][halves == half]
    return {name: summarize(values - best) for name, values in areas.items()}


def find_floor(cell: dict[str, Any]) -> Regret:
    """How far two runs of one strategy are apart by chance: the second minus the first."""
    areas = measure(cell)
    return summarize(areas[cell["repeated"][0]] - areas[OURS])


def summarize(differences: Areas) -> Regret:
    """The mean and the standard error of differences, in ten-thousandths."""
    count = len(differences)
    return Regret(UNIT * float(differences.mean()), UNIT * float(differences.std(ddof=1) / np.sqrt(count)), count)


def list_strategies() -> list[str]:
    """The strategies of all cells, in the order in which they first appear; repetitions are left out."""
    repeated = {name for cell in load().values() for name in cell["repeated"]}
    names = dict.fromkeys(name for cell in load().values() for name in measure(cell))
    return [name for name in names if name not in repeated]


def tabulate() -> str:
    """The regrets of all strategies in all cells; then the worst and the mean."""
    names, cells = list_strategies(), load()
    found = {cell: find_regrets(of) for cell, of in cells.items()}
    rows = [
        {"cell": f"`{cell}`", **{name: str(found[cell][name]) if name in found[cell] else "" for name in names}}
        | {"by chance": str(find_floor(cells[cell])), "trials": str(found[cell][OURS].trials)}
        for cell in cells
    ]
    for unit in UNITS:
        mine = [found[cell] for cell in cells if find_unit(cells[cell]) == unit]
        for title, choose in (("worst", min), ("mean", np.mean)):
            values = {name: [of[name].mean for of in mine if name in of] for name in names}
            line = {name: f"**{show(float(choose(some)))}**" if some else "" for name, some in values.items()}
            rows.append({"cell": f"**{title}, {unit}**", **line, "by chance": "", "trials": ""})
    return table(rows)


def find_unit(cell: dict[str, Any]) -> str:
    """Whether a cell asks about rows or pairs: pairs have no accuracy."""
    return UNITS[cell["metric"] != "accuracy"]


def judge() -> str:
    """Whether the goal is reached, in one paragraph."""
    found = {cell: find_regrets(of) for cell, of in load().items()}
    lows = {cell: of[OURS].low for cell, of in found.items()}
    short = [f"`{cell}` ({show(low)})" for cell, low in lows.items() if low < GOAL]
    goal = show(GOAL)
    first = (
        f"The lower end of the interval of `{OURS}` is above {goal} in all {len(lows)} cells."
        if not short
        else f"The lower end of the interval of `{OURS}` is below {goal} in {len(short)} of {len(lows)} cells, so that "
        f"nothing is claimed there: {', '.join(short)}."
    )
    return " ".join([first, *(compare_means(unit, found) for unit in UNITS)])


def compare_means(unit: str, found: dict[str, dict[str, Regret]]) -> str:
    """The mean regret of `hedge` beside that of the best baseline on average, over the cells of rows or of pairs."""
    cells = {cell: of for cell, of in load().items() if find_unit(of) == unit}
    names = {name for of in cells.values() for name in list_baselines(of)}
    means = {
        name: float(np.mean([found[cell][name].mean for cell in cells if name in found[cell]]))
        for name in (OURS, *sorted(names))
    }
    best = max(names, key=lambda name: means[name])
    ahead = "above" if means[OURS] > means[best] else "below"
    numbers = f"{show(means[OURS])} and {show(means[best])}"
    return f"Over {unit} its mean regret is {ahead} that of the baseline with the highest mean, `{best}`: {numbers}."


def count_duels() -> str:
    """In how many cells `hedge` is better or worse than each baseline and its control; intervals hold jointly."""
    duels: dict[str, dict[str, Regret]] = {}
    for cell, of in load().items():
        areas = measure(of)
        control = [name for name, controlled in of["controls"].items() if OURS in controlled]
        for name in [*list_baselines(of), *control]:
            duels.setdefault(name, {})[cell] = summarize(areas[OURS] - areas[name])
    comparisons = sum(map(len, duels.values()))
    confidence = 1 - (1 - CONFIDENCE) / comparisons
    rows = []
    for name, cells in duels.items():
        reach = {cell: of.reach(confidence) for cell, of in cells.items()}
        better = [cell for cell, of in cells.items() if of.mean > reach[cell]]
        worse = [cell for cell, of in cells.items() if of.mean < -reach[cell]]
        rows.append(
            {
                f"{OURS} minus": name,
                "mean over cells": show(float(np.mean([of.mean for of in cells.values()]))),
                "better": f"{len(better)} of {len(cells)}",
                "worse": ", ".join([f"{len(worse)} of {len(cells)}", *(f"`{cell}`" for cell in worse)]),
            }
        )
    return f"{comparisons} comparisons, each interval with {100 * confidence:.3f} % confidence:\n\n{table(rows)}"


def list_cells() -> str:
    """What the cells are, and which of the family have not been run."""
    from hedgerow.experiments.recipes import list_recipes

    rows = []
    for name in (name for name in list_recipes() if name.startswith(FAMILY)):
        recipe, cell = load_recipe(name), name.removeprefix(FAMILY)
        rows.append(
            {
                "cell": f"`{cell}`",
                "what it is": recipe.reproduces,
                "seed set": f"{recipe.seed_size:,}",
                "batches": f"{recipe.rounds} of {recipe.batch_size[0]:,}",
                "run": "yes" if cell in load() else "no",
            }
        )
    return table(rows)


def compare_settings(path: Path) -> str:
    """The settings or variants of `hedge` that were compared on held-out rows."""
    beds = json.loads(path.read_text())
    rows = []
    for bed, found in beds.items():
        variants = {name: of for name, of in found.items() if isinstance(of, list)}
        shown = {name: f"{show(mean)} ± {error}" if error else "0" for name, (mean, error) in variants.items()}
        rows.append({"pool": f"`{bed}`", **shown, "trials": str(found["trials"])})
    names = list(dict.fromkeys(name for row in rows for name in row if name != "trials"))
    return table([{name: row.get(name, "") for name in [*names, "trials"]} for row in rows])


PARTS: dict[str, Callable[[], str]] = {
    "cells": list_cells,
    "regrets": tabulate,
    "judgment": judge,
    "duels": count_duels,
    "settings": partial(compare_settings, SETTINGS),
    "variants": partial(compare_settings, VARIANTS),
}


def draw() -> dict[str, str]:
    """The figure: strategies by cells."""
    names = list_strategies()
    values = [
        [found[name].mean if name in found else np.nan for name in names]
        for found in (find_regrets(cell) for cell in load().values())
    ]
    figure = draw_grid(np.array(values), list(load()), names, limit=SHOWN, label="Regrets of strategies by cells")
    return {"regimes.svg": frame(figure)}


def text() -> str:
    """The page with its generated parts."""
    return fill_parts(PAGE.read_text(), lambda name: PARTS[name]())


def main() -> None:
    """Refresh the page and its figure."""
    write_figures(draw(), FIGURES, mine=lambda name: name == "regimes.svg")
    PAGE.write_text(text())


if __name__ == "__main__":
    main()
