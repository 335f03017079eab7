"""Collect the runs behind docs/regimes.md: which strategy is never far behind the best?

    hedgerow experiment run regimes-digits-1 -o runs/regimes-digits-1      # and so on, one folder per cell
    hedgerow experiment report runs/regimes-digits-1
    python experiments/regimes.py runs

Every recipe whose name begins with `regimes-` is a cell: a pool, a budget and a batch size. `experiments/regimes.json`
gets the learning curves of all trials of the cells in the folder whose runs are complete; cells that it has from before
and that are not in the folder are kept.
"""

import argparse
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "regimes.json"
FAMILY = "regimes-"
PLACES = 5  # decimals that are stored: a tenth of the smallest standard error


def collect(folder: Path) -> dict[str, Any]:
    """cell -> its sizes and curves, of every complete run in the folder."""
    found = {}
    for path in sorted(folder.glob("*/summary.json")):
        summary = json.loads(path.read_text())
        recipe = summary["recipe"]
        if recipe["name"].startswith(FAMILY) and not summary["unfinished"]:
            found[recipe["name"].removeprefix(FAMILY)] = describe(summary)
    return found


def describe(summary: dict[str, Any]) -> dict[str, Any]:
    """One cell: strategy -> trial -> the scores of its rounds, and the labels after each."""
    recipe, rounds = summary["recipe"], summary["rounds"]
    metric = recipe["metric"]
    curves: dict[str, dict[int, list[float]]] = {}
    labeled: dict[int, int] = {}
    for strategy, trial, number, count, value in zip(
        *(rounds[key] for key in ("strategy", "trial", "round", "labeled", metric)), strict=True
    ):
        assert len(curves.setdefault(strategy, {}).setdefault(trial, [])) == number, "rounds are in order"
        curves[strategy][trial].append(round(value, PLACES))
        labeled[number] = count
    return {
        "metric": metric,
        "labeled": list(labeled.values()),
        "commit": summary["machine"]["commit"],
        "controls": {arm["name"]: arm["control_of"] for arm in recipe["strategies"] if "control_of" in arm},
        "repeated": [arm["name"] for arm in recipe["strategies"] if "stream" in arm],
        "curves": {strategy: [trials[trial] for trial in sorted(trials)] for strategy, trials in curves.items()},
    }


def main() -> None:
    """Write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with the folders of the runs")
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    cells = before | collect(parser.parse_args().folder)
    RESULTS.write_text(json.dumps(dict(sorted(cells.items())), indent=None, separators=(",", ":")) + "\n")
    print(f"{len(cells)} cells -> {RESULTS}")


if __name__ == "__main__":
    main()
