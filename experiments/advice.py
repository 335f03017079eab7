"""What `hedgerow advise` measures before the first batch of the recipes, which is where its thresholds come from.

    python experiments/advice.py sweep-digits tmc2007 --data DATA

For each recipe: the first trial's seed set, its first model and its clusters, as in the recipe, and the measurements
for each of the recipe's batch sizes, with the test set as holdout. They are stored in advice.json beside this file, in
place of what it has for the same recipe.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from hedgerow.advice.measuring import Question, measure
from hedgerow.experiments.recipes import load_recipe
from hedgerow.rounds import Plan, Trial

OUT = Path(__file__).with_name("advice.json")


def measure_recipe(name: str, data: Path | None, cache: Path | None, average_size: float | None) -> dict[str, Any]:
    """Measurements before the first batch, by batch size. average_size: of the clusters, instead of the recipe's."""
    recipe = load_recipe(name)
    loaded = recipe.dataset.load(data, cache or (data or OUT.parent) / "cache", None)
    task, trainer = loaded.task, recipe.model.make_trainer(loaded, data)
    how = next(arm.clusters for arm in recipe.strategies if "clusters" in arm.needs)
    if average_size is not None:
        how = replace(how, average_size=average_size)
    trial = Trial(task, trainer, Plan(recipe.seed_size, max(recipe.batch_size), 1, how))
    state = trial.open_state()
    sources = {
        "probabilities": state.model.probabilities(task.features),
        "embeddings": state.model.embeddings(task.features),
        "clusters": trial.cluster()[0],
        "pairs": getattr(task, "pairs", None),
    }
    if sources["pairs"] is None:
        holdout = state.model.probabilities(task.test_features), task.test_labels
    else:
        asked = task.test.pairs
        holdout = state.model.probabilities(task.test.features)[asked.rows, asked.classes], task.test.answers
    found = {}
    for k in recipe.batch_size:
        question = Question(k, sources, labeled=state.picked, labels=state.labels, holdout=holdout)
        found[str(k)] = measure(question, lambda phase, share: None).to_json()
    return found


def main() -> None:
    """Measure the recipes named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="+")
    parser.add_argument("--data", type=Path, help="the folder with the files of the data sets")
    parser.add_argument("--cache", type=Path, help="where features are stored; default: cache in that folder")
    parser.add_argument("--average-size", type=float, help="that of the clusters; default: as in the recipe")
    given = parser.parse_args()
    for name in given.recipes:
        found = measure_recipe(name, given.data, given.cache, given.average_size)
        stored = json.loads(OUT.read_text()) if OUT.exists() else {}
        stored[name if given.average_size is None else f"{name}, clusters of {given.average_size:g}"] = found
        OUT.write_text(json.dumps(dict(sorted(stored.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
