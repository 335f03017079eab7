"""How the model of the recipe sweep-digits is trained, chosen on originals of the pool; the test set is not used.

    python benchmarks/row_training.py

A fifth of the pool's originals is held out with all their copies. Uniform rows of the others are labeled, as many as
the recipe's seed set and its rounds with batches of 300, 1,000 and 3,000 end with, and a new model is trained on each
number of labels. `accuracy` and `log_loss` on the held-out rows are means over these numbers and over draws of the
labels; `with N` is the accuracy with N labels; `error` is the standard error of the accuracy over draws. The setting
with the highest accuracy is the best; of those within 0.002 of it, the one with the fewest steps is chosen, then that
with the lowest log loss.
"""

import time
from dataclasses import replace
from itertools import product

import numpy as np

from hedgerow.experiments import Dataset, load_recipe
from hedgerow.experiments.data.datasets import load_redundant_digits
from hedgerow.metrics import METRICS
from runner import arguments, installed_version, save

SEED = 0
RECIPE = "sweep-digits"
HELD_OUT_SHARE = 0.2
LABELS = (100, 1_300, 4_100, 12_100)
DRAWS = 3
CLOSE = 0.002  # the difference that verdicts call equal
STEPS = (600, 1_200, 2_400, 4_800)
RATES = (1e-3, 3e-3, 1e-2)
SCHEDULES = ("constant", "one-cycle")


def split(pool, draw):
    """(rows to train on in a random order, held-out rows) of one draw: no original has rows on both sides."""
    rng = np.random.default_rng([SEED, draw])
    originals = rng.permutation(np.unique(pool.origins))
    apart = np.isin(pool.origins, originals[: int(HELD_OUT_SHARE * len(originals))])
    return rng.permutation(np.flatnonzero(~apart)), np.flatnonzero(apart)


def measure(pool, model, draw, labels):
    """(accuracy, log loss) on the held-out rows, with each number of labels."""
    free, held = split(pool, draw)
    dataset = Dataset("digits", 10, pool.images[free], pool.labels[free], pool.images[held], pool.labels[held])
    trainer = model.make_trainer(dataset, None)
    scores = []
    for count in labels:
        fitted = trainer.fit(pool.images[free[:count]], pool.labels[free[:count]], seed=count + draw)
        probabilities = fitted.probabilities(pool.images[held])
        scores.append([METRICS[name](probabilities, pool.labels[held]) for name in ("accuracy", "log_loss")])
    return scores


def try_setting(pool, recipe, setting, draws, labels):
    """The record of a setting."""
    model = replace(recipe.model, training=replace(recipe.model.training, **setting))
    began = time.process_time()
    scores = np.array([measure(pool, model, draw, labels) for draw in range(draws)])  # (draws, labels, 2)
    accuracy = scores[:, :, 0]
    found = setting | {"accuracy": accuracy.mean(), "log_loss": scores[:, :, 1].mean()}
    found |= {f"with {count:,}": mean for count, mean in zip(labels, accuracy.mean(axis=0), strict=True)}
    found["error"] = accuracy.mean(axis=1).std(ddof=1) / np.sqrt(draws) if draws > 1 else None
    found["cpu_seconds"] = (time.process_time() - began) / (draws * len(labels))
    print(found, flush=True)
    return found


def choose(records):
    """The cheapest of the records that are close to the best."""
    best = max(record["accuracy"] for record in records)
    close = [record for record in records if record["accuracy"] > best - CLOSE]
    return min(close, key=lambda record: (record["steps"], record["log_loss"]))


def main():
    options = arguments(__doc__)
    recipe = load_recipe(RECIPE)
    pool = load_redundant_digits(60 if options.quick else 1_200)
    labels, draws = (LABELS[:2], 1) if options.quick else (LABELS, DRAWS)
    steps = (30, 60) if options.quick else STEPS
    varied = product(steps, RATES, SCHEDULES)
    records = [
        try_setting(pool, recipe, {"steps": count, "learning_rate": rate, "schedule": schedule}, draws, labels)
        for count, rate, schedule in varied
    ]
    chosen = choose(records)
    records = [record | {"chosen": record is chosen} for record in records]
    settings = {"recipe": RECIPE, "rows": len(pool.images), "originals": len(np.unique(pool.origins))}
    settings |= {"held_out_share": HELD_OUT_SHARE, "draws": draws, "labels": list(labels)}
    settings |= {"torch": installed_version("torch"), "quick": options.quick}
    save("row_training", SEED, settings, records, options)


if __name__ == "__main__":
    main()
