"""How the models of recipes with pairs are trained, chosen on rows of the pool; the test set is not used.

    python benchmarks/pair_training.py bibtex --data DATA

A fifth of the rows of the recipe's pool, at most 20,000, is held out. Uniform pairs of the other rows are labeled in
the recipe's sizes, seed set and rounds, and a model is trained as the rounds would train it: with start "first" from
the first model on all labels, with start "previous" through every round, each from the model of the one before.
`seed_set` and `final`: average precision on the held-out rows with the seed set and after the last round, means over
draws of the labels; `one_go`: with the labels of the last round, trained once from the first model; `error`: the
standard error of `final`; `trained`: labels that the rounds train on. A few options are varied at a time, the others
as in the setting chosen so far. The setting with the highest mean of `seed_set` and `final` is the best; of those
within 0.001 of it, the one that trains on the fewest labels is chosen, with start "first" before "previous", as no
label is then trained on more often because it came early. Settings that the file of results has already, with the same
sizes, are not measured again. With more than a million labels a training takes minutes, so fewer settings are tried,
each with one draw of the labels.
"""

import json
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.experiments import load_recipe
from hedgerow.pairs import Pairs
from hedgerow.tasks import Annotated, PairTask
from runner import RESULTS, installed_version, parser, save

SEED = 0
HELD_OUT_SHARE, HELD_OUT = 0.2, 20_000
DRAWS = 3
CLOSE = 0.001  # half of the difference that verdicts call equal
# By kind of model: where the search begins, and the options that each stage varies, every combination of them.
SEARCHES = {
    "Perceptron": (
        {"dropout": 0.5, "epochs": 20, "learning_rate": 1e-3, "minibatch": 100, "schedule": "cosine"}
        | {"start": "first", "weight_decay": 0.0},
        (
            {"learning_rate": (1e-3, 3e-3, 1e-2), "epochs": (5, 10, 20, 40)},
            {"dropout": (0.0, 0.5), "weight_decay": (0.0, 1e-4, 1e-3)},
            {"schedule": ("constant", "cosine")},
            {"start": ("previous", "first"), "epochs": (5, 10, 20)},
        ),
    ),
    "NGrams": (
        {"spread": 0.01, "epochs": 2, "learning_rate": 0.1, "minibatch": 500, "schedule": "linear", "start": "first"},
        (
            {"learning_rate": (0.03, 0.1, 0.3), "epochs": (1, 2, 4, 8)},
            {"spread": (0.01, 0.1, 1.0, 3.0)},
            {"schedule": ("constant", "linear"), "minibatch": (200, 500)},
            {"start": ("previous", "first"), "epochs": (1, 2, 4)},
        ),
    ),
}
# With more labels than this a training takes minutes, so the search has one stage: all of what a round costs.
LARGE = 1_000_000
LARGE_STAGES = ({"epochs": (1, 2), "minibatch": (500, 1_000), "learning_rate": (0.1, 0.2)},)
QUICK_STAGES = ({"epochs": (1, 2)}, {"start": ("previous", "first")})


@dataclass
class Bench:
    """A recipe's pool without its test set: rows to train on, rows to measure on, and what was measured so far."""

    recipe: Any
    dataset: Any
    data: Path | None
    draws: int
    found: dict[tuple, dict] = field(default_factory=dict)
    begun: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self):
        task = self.dataset.task
        rng = np.random.default_rng([SEED, 0])
        held = np.zeros(task.n, np.bool_)
        held[rng.choice(task.n, min(HELD_OUT, int(HELD_OUT_SHARE * task.n)), replace=False)] = True
        apart = held[task.pairs.rows]
        self.task, self.held_out = hide(task, np.flatnonzero(apart)), int(held.sum())
        self.free = np.flatnonzero(~apart)
        self.sizes = np.cumsum([self.recipe.seed_size, *[self.recipe.batch_size[0]] * self.recipe.rounds])
        assert self.sizes[-1] <= len(self.free), "the rounds need more pairs than are not held out"

    def measure(self, setting):
        """The record of a setting."""
        key = tuple(sorted(setting.items()))
        if key not in self.found:
            model = change(self.recipe.model, setting)
            scores = np.array([self.train(model, draw) for draw in range(self.draws)])  # (draws, 3)
            seed_set, final, one_go = scores.mean(axis=0)
            error = scores[:, 1].std(ddof=1) / np.sqrt(self.draws) if self.draws > 1 else None
            trained = int(setting["epochs"] * self.sizes.sum())
            self.found[key] = setting | {"seed_set": seed_set, "final": final, "one_go": one_go, "error": error}
            self.found[key] |= {"trained": trained}
            print(self.found[key], flush=True)
        return self.found[key]

    def train(self, model, draw):
        """Average precision with the seed set, after the last round, and at that size in one go."""
        picked = np.random.default_rng([SEED, 1, draw]).permutation(self.free)[: self.sizes[-1]]
        trainer = model.make_trainer(self.dataset, self.data)
        first = self.begin(model, trainer)
        needed = self.sizes if trainer.start == "previous" else self.sizes[[0, -1]]
        before, scores = first, []
        for size in needed:
            before = self.tune(trainer, before, picked[:size], draw)
            if size in (self.sizes[0], self.sizes[-1]):
                scores.append(self.score(before))
        if trainer.start == "first":
            return [*scores, scores[-1]]
        return [*scores, self.score(self.tune(trainer, first, picked, draw))]

    def begin(self, model, trainer):
        """The first model, made once if it is trained: the same for all draws, and for all trainings of a round."""
        first = self.task.first
        if first is None:
            return trainer.begin()
        key = model.spread, model.first_training
        if key not in self.begun:
            self.begun = {key: trainer.begin(first.features, first.pairs, first.answers)}
        return self.begun[key]

    def tune(self, trainer, before, picked, draw):
        labels = self.task.check_labels(picked, self.task.ask(picked))
        return self.task.train(trainer, before, picked, labels, seed=len(picked) + draw)

    def score(self, model):
        return self.task.measure(model)[self.recipe.metric]


def hide(task: PairTask, apart: np.ndarray) -> PairTask:
    """The task with these pairs of the pool as its test set."""
    rows, compact = np.unique(task.pairs.rows[apart], return_inverse=True)
    answers = np.asarray(task.ask(apart)).astype(np.bool_)
    return replace(task, test=Annotated(task.features[rows], Pairs(compact, task.pairs.classes[apart]), answers))


def change(model, setting):
    """A model with these options; those that it does not have itself are of the training of a round."""
    own = {entry.name for entry in fields(model)}
    training = {key: value for key, value in setting.items() if key not in own} | {"steps": None}
    return replace(
        model,
        training=replace(model.training, **training),
        **{key: value for key, value in setting.items() if key in own},
    )


def choose(records):
    """The cheapest of the records that are close to the best."""
    best = max(rate(record) for record in records)
    close = [record for record in records if rate(record) > best - CLOSE]
    return min(close, key=lambda record: (record["trained"], record["start"] != "first", -rate(record)))


def rate(record):
    return (record["seed_set"] + record["final"]) / 2


def search(bench, start, stages):
    """Every setting that was measured, the chosen one marked."""
    setting, options = start, list(start)
    for stage in stages:
        varied = [dict(zip(stage, values, strict=True)) for values in product(*stage.values())]
        tried = [bench.measure(setting | values) for values in ({}, *varied)]
        setting = {name: value for name, value in choose(tried).items() if name in options}
    records = list(bench.found.values())
    return [record | {"chosen": {**record, **setting} == record} for record in records]


def shrink(recipe):
    """The recipe on a few thousand words, for a trial run."""
    dataset = replace(recipe.dataset, limit=3_000, held_out=500, first=300)
    return replace(recipe, dataset=dataset, seed_size=600, batch_size=(400,), rounds=2)


def read_earlier(path, settings, options):
    """Setting -> its record, from a file of results with the same recipe and sizes; empty if there is none."""
    if not path.is_file():
        return {}
    earlier = json.loads(path.read_text())
    if any(earlier["settings"][key] != value for key, value in settings.items()):
        return {}
    records = [{key: value for key, value in record.items() if key != "chosen"} for record in earlier["results"]]
    return {tuple(sorted((name, record[name]) for name in options)): record for record in records}


def main():
    made = parser(__doc__)
    made.add_argument("recipe", nargs="?", default="wordlangs-small", help="a recipe with pairs")
    made.add_argument("--data", type=Path, default=None, help="folder with the dataset's files")
    options = made.parse_args()
    recipe = load_recipe(options.recipe)
    recipe = shrink(recipe) if options.quick else recipe
    large = recipe.seed_size + recipe.rounds * recipe.batch_size[0] > LARGE
    draws = 1 if options.quick or large else DRAWS
    bench = Bench(recipe, recipe.dataset.load(options.data, Path()), options.data, draws)
    start, stages = SEARCHES[type(recipe.model).__name__]
    stages = LARGE_STAGES if large else stages
    settings = {"recipe": recipe.name, "rows": bench.task.n, "held_out_rows": bench.held_out, "draws": bench.draws}
    settings |= {"labels": [int(bench.sizes[0]), int(bench.sizes[-1])], "rounds": recipe.rounds}
    settings |= {"torch": installed_version("torch"), "quick": options.quick}
    name = f"pair_training_{recipe.name.replace('-', '_')}"
    bench.found |= read_earlier(options.out or RESULTS / f"{name}.json", settings, start)
    records = search(bench, start, QUICK_STAGES if options.quick else stages)
    save(name, SEED, settings, records, options, script="pair_training")


if __name__ == "__main__":
    main()
