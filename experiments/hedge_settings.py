"""Choose the settings of `hedge` on rows of the pools that are held out, never on test sets.

    python experiments/hedge_settings.py runs --data DATA               all beds
    python experiments/hedge_settings.py runs --bed digits-1            one of them

A bed is a recipe of the family `regimes`, some with other sizes, whose test set is replaced by a fifth of its pool. The
folder gets one run per bed, which can be interrupted and continued. `experiments/hedge-settings.json` gets, for every
variant, the difference of the area under its learning curve from that of the earlier settings, in ten-thousandths, with
its standard error; beds that it has from before are kept.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.experiments import run_experiment
from hedgerow.experiments.arms import Arm
from hedgerow.experiments.data.annotations import MultiLabel
from hedgerow.experiments.recipes import Recipe, load_recipe
from hedgerow.experiments.records import Held
from hedgerow.pairs import Pairs
from hedgerow.rounds import Clustering
from hedgerow.strategies import Drawn, Hedge, make
from hedgerow.strategies.hedge import Frame
from hedgerow.tasks import Annotated

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "hedge-settings.json"
HELD_OUT, SEED = 0.2, 0
# recipe, what is different, trials
BEDS: dict[str, tuple[str, dict[str, Any], int]] = {
    "digits-1": ("digits-1", {}, 20),
    "digits-3": ("digits-1", {"seed_size": 30, "batch_size": (30,)}, 20),
    "copies-10": ("copies-10", {}, 10),
    "corel5k": ("corel5k", {}, 10),
    "covtype-10": ("covtype-large", {"seed_size": 70, "batch_size": (70,)}, 10),
    "cifar10-1": ("cifar10-1", {}, 12),
    "cifar10-10": ("cifar10-10", {}, 10),
    "cifar100-1": ("cifar100-10", {"seed_size": 100, "batch_size": (100,)}, 10),
}
EARLIER = "tau 10"  # the settings before
BASELINES = ("random", "margin", "stochastic-margin")


@dataclass(frozen=True)
class ByClass(Hedge):
    """Spread over the predicted classes first, then over the clusters."""

    needs = Hedge.needs | {"probabilities"}

    def __call__(self, view: Any, k: int, rng: np.random.Generator) -> Drawn:
        labels, classes = len(view.labeled_rows()), view.probabilities.shape[1]
        predicted = np.asarray(view.probabilities).argmax(axis=1).astype(np.int32)
        made = Frame(view.margins, view.clusters, view.mask, view.unlabeled_count, predicted, np.arange(view.n))
        return self.draw(made, k, labels, labels / classes, rng)


def list_variants(unit: str) -> dict[str, Any]:
    """What is compared: the settings, and baselines to see how much is at stake."""
    variants: dict[str, Any] = {f"tau {tau:g}": Hedge(tau=tau) for tau in (10, 5, 3, 1)}
    if unit == "row":
        variants["tau 3, by class"] = ByClass(tau=3)
    return variants | {name: name for name in BASELINES}


def hold_out(dataset: Any) -> Any:
    """The dataset with a fifth of its pool as the test set, and without its own."""
    n = dataset.task.n
    rows = np.random.default_rng(SEED).permutation(n)
    cut = int(HELD_OUT * n)
    test, pool = np.sort(rows[:cut]), np.sort(rows[cut:])
    if isinstance(dataset, MultiLabel):
        return replace(dataset, pool=take_rows(dataset.pool, pool), test=take_rows(dataset.pool, test))
    features, labels = np.asarray(dataset.features), np.asarray(dataset.labels)
    return replace(
        dataset, features=features[pool], labels=labels[pool], test_features=features[test], test_labels=labels[test]
    )


def take_rows(whole: Annotated, rows: np.ndarray) -> Annotated:
    """The pairs of some of the rows, which are numbered anew."""
    numbers = np.full(len(whole.features), -1, np.int64)
    numbers[rows] = np.arange(len(rows))
    kept = numbers[whole.pairs.rows] >= 0
    pairs = Pairs(numbers[whole.pairs.rows[kept]], whole.pairs.classes[kept])
    return Annotated(whole.features[rows], pairs, whole.answers[kept])


def make_recipe(bed: str, list_arms: Callable[[str], dict[str, Any]] = list_variants) -> Recipe:
    name, changes, trials = BEDS[bed]
    recipe = load_recipe(f"regimes-{name}")
    clusters = next(arm.clusters for arm in recipe.strategies if arm.name == "hedge")
    arms = [make_arm(name, variant, clusters, recipe.unit) for name, variant in list_arms(recipe.unit).items()]
    return replace(
        recipe, name=f"hedge-settings-{bed}", strategies=tuple(arms), trials=trials, baseline="random", **changes
    )


def make_arm(name: str, variant: Any, clusters: Clustering, unit: str) -> Arm:
    from hedgerow.pairs import PAIR_STRATEGIES

    if isinstance(variant, str):
        variant = make(variant, {}, PAIR_STRATEGIES) if unit == "pair" else make(variant)
    return Arm(name, variant, clusters)


def summarize(held: Held, metric: str, against: str = EARLIER) -> dict[str, Any]:
    """arm -> [difference of the areas from those of the arm `against`, its standard error], and the trials."""
    areas: dict[str, dict[int, list[float]]] = {}
    for done in (done for rounds in held.rounds.values() for done in rounds):
        if done.round:  # the first model is the same for all
            areas.setdefault(done.strategy, {}).setdefault(done.trial, []).append(done.values[metric])
    means = {arm: np.array([np.mean(trials[one]) for one in sorted(trials)]) for arm, trials in areas.items()}
    trials = min(map(len, means.values()))
    found: dict[str, Any] = {"trials": trials, "area": round(float(means[against][:trials].mean()), 4)}
    for arm, values in means.items():
        gaps = 1e4 * (values[:trials] - means[against][:trials])
        found[arm] = [round(float(gaps.mean())), round(float(gaps.std(ddof=1) / np.sqrt(trials)))]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder for the runs")
    parser.add_argument("--data", type=Path, help="folder with the data sets")
    parser.add_argument("--bed", action="append", choices=BEDS, help="only this one; may be repeated")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    for bed in options.bed or BEDS:
        recipe = make_recipe(bed)
        data = options.data / "mulan" if options.data and bed == "corel5k" else options.data
        loaded = recipe.dataset.load(data, options.folder / "cache", None)
        held = run_experiment(recipe, options.folder / bed, data=data, dataset=hold_out(loaded))
        found = summarize(held, recipe.metric)
        before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        RESULTS.write_text(json.dumps(before | {bed: found}, indent=1) + "\n")
        print(bed, found, flush=True)


if __name__ == "__main__":
    main()
