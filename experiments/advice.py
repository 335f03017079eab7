"""What `hedgerow advise` measures before the first batch of the recipes, which is where its thresholds come from.

    python experiments/advice.py sweep-digits tmc2007 --data DATA

For each recipe: the first trial's seed set, its first model and its clusters, as in the recipe, and the measurements
for each of the recipe's batch sizes, with the test set as holdout. They are stored in advice.json beside this file, in
place of what it has for the same recipe.
"""

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.advice.measuring import Question, measure
from hedgerow.clustering.clusters import cluster
from hedgerow.experiments.recipes import load_recipe
from hedgerow.rounds import Plan, Trial

OUT = Path(__file__).with_name("advice.json")


def measure_recipe(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """Measurements before the first batch, by batch size."""
    recipe, data = load_recipe(name), given.data
    loaded = recipe.dataset.load(data, given.cache or (data or OUT.parent) / "cache", None)
    task, trainer = loaded.task, recipe.model.make_trainer(loaded, data)
    how = next(arm.clusters for arm in recipe.strategies if "clusters" in arm.needs)
    if given.average_size is not None:
        how = replace(how, average_size=given.average_size)
    trial = Trial(task, trainer, Plan(recipe.seed_size, max(recipe.batch_size), 1, how))
    state = trial.open_state()
    sources = {
        "probabilities": state.model.probabilities(task.features),
        "embeddings": state.model.embeddings(task.features),
        "clusters": None if given.features else trial.cluster()[0],
        "pairs": getattr(task, "pairs", None),
    }
    if given.features:
        sources["embeddings"] = np.reshape(task.features, (task.n, -1))
        sources["clusters"] = cluster(sources["embeddings"], **asdict(how))
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
    parser.add_argument("--features", action="store_true", help="cluster the features, not the model's embeddings")
    given = parser.parse_args()
    for name in given.recipes:
        found = measure_recipe(name, given)
        stored = json.loads(OUT.read_text()) if OUT.exists() else {}
        size = "" if given.average_size is None else f", clusters of {given.average_size:g}"
        stored[f"{name}{size}{', by features' if given.features else ''}"] = found
        OUT.write_text(json.dumps(dict(sorted(stored.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
