"""Does the advice of `hedgerow advise` hold on pools that its thresholds were not read off?

    python experiments/unseen.py --scratch FOLDER --data DATA [--trials N] [--only POOL ...]

Thresholds and strategies of the rules are those of commit 395bf21, written before any of these pools was run with
copies. Those for clusters were read off words and digits with copies. These pools are flight reports, tags, comments
and images as pairs, and images and forest cover as rows, each without copies, with 80 % exact copies and with 95 %
altered ones, heavy-tailed. Every strategy that `advise` can name is run, and Cluster-Margin with shuffled clusters too.
Then `advise` is asked with the first trial's model before its first batch.

The rule for batches full of copies was read off the first runs of rows; the pools of rows with 1,000 labels, which were
run after it was written, test it.

Every pool has a folder in the scratch folder; what is there is not run again, and a larger --trials adds trials.
`experiments/unseen.json` gets the measurements and the scores of every trial; docs/make_advice.py makes the table of
docs/advise.md from it. DATA has the files of CIFAR-10, CIFAR-100, SVHN, Covertype, Mulan and GoEmotions as published.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from savings import CLUSTERS, DIGITS, IMAGES, SMALL, LinearPairs, compress_images, pair_up, summarize

import hedgerow as hr
from hedgerow.advice import give_advice
from hedgerow.advice.measuring import Question, measure
from hedgerow.advice.rules import BEYOND_CHANCE, FULL_OF_COPIES, LARGE_BATCH, NEAR_COPIES
from hedgerow.experiments import Arm, Recipe, run_experiment
from hedgerow.experiments.architectures import NGrams, Perceptron
from hedgerow.experiments.data.datasets import Covtype, Images
from hedgerow.experiments.data.multilabel import GoEmotions, Mulan
from hedgerow.experiments.data.variants import ImagePairs, WithCopies
from hedgerow.experiments.ngrams import GramTraining
from hedgerow.experiments.records import Ledger, join_tables
from hedgerow.experiments.runs import describe_machine
from hedgerow.models import Training
from hedgerow.pairs import ShuffledClusterMarginPairs
from hedgerow.rounds import Trial
from hedgerow.strategies import ShuffledClusterMargin

RESULTS = Path(__file__).with_name("unseen.json")
COPIES = {"no copies": (0.0, False), "80 % exact copies": (0.8, False), "95 % altered copies": (0.95, True)}
# As `advise` names them: what it can advise, and the controls.
PAIR_ARMS = (
    Arm("random", hr.Random()),
    Arm("margin", hr.Margin()),
    Arm("stochastic-margin", hr.StochasticMargin(power=1.0)),
    *pair_up("cluster-margin-pairs", hr.ClusterMarginPairs(10.0), ShuffledClusterMarginPairs(10.0), CLUSTERS),
)
ROW_ARMS = (
    Arm("random", hr.Random()),
    Arm("margin", hr.Margin()),
    Arm("hedge", hr.Hedge(), CLUSTERS),
    *(
        arm
        for factor in (1.25, 3.0)
        for arm in pair_up(
            f"cluster-margin, factor {factor:g}", hr.ClusterMargin(factor), ShuffledClusterMargin(factor), CLUSTERS
        )
    ),
)


@dataclass(frozen=True)
class Source:
    """A dataset, its rows of length 1 if `scaled`."""

    inner: Any
    scaled: bool = False

    def load(self, data: Path, cache: Path, progress: Any = None) -> Any:
        if isinstance(self.inner, ImagePairs):
            return compress_images(self.inner, data, cache)
        loaded = self.inner.load(data, cache, progress)
        if not self.scaled:
            return loaded
        parts = [replace(part, features=scale(part.features)) for part in (loaded.pool, loaded.test)]
        return replace(loaded, pool=parts[0], test=parts[1])


def scale(rows: Any) -> Any:
    """Rows of length 1; rows of zeros stay."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)


@dataclass(frozen=True)
class Kind:
    """What the pools of one dataset have in common; a model of None is linear, on features that never change."""

    source: Source
    rows: int
    sizes: tuple[int, int, int]
    model: Any = None
    arms: Sequence[Arm] = PAIR_ARMS
    metric: str = "average_precision"


COMMENTS = NGrams(
    width=32, hidden=64, spread=1.0, start="first",
    training=GramTraining(epochs=4, minibatch=200, learning_rate=0.1, schedule="linear"),
)  # fmt: skip
SEED_SIZE = 1_000
NETWORK = Perceptron((128, 64), training=Training(steps=600, minibatch=128, learning_rate=1e-3))  # that of the demo
ROWS = {"sizes": DIGITS.sizes, "model": NETWORK, "arms": ROW_ARMS, "metric": "accuracy"}
KINDS = {
    "tmc2007": Kind(Source(Mulan("tmc2007_500"), scaled=True), 20_000, SMALL),
    "delicious": Kind(Source(Mulan("delicious"), scaled=True), 12_000, SMALL),
    "goemotions": Kind(Source(GoEmotions()), 20_000, SMALL, COMMENTS),
    "cifar100 pairs": Kind(Source(ImagePairs("cifar100")), 8_000, IMAGES),
    "svhn pairs": Kind(Source(ImagePairs("svhn")), 8_000, IMAGES),
    "covtype": Kind(Source(Covtype()), 24_000, **ROWS),
    "cifar10": Kind(Source(Images("cifar10", "efficientnet-lite0", side=64)), 24_000, **ROWS),
}
POOLS = {f"{name}, {copies}": (kind, *how) for name, kind in KINDS.items() for copies, how in COPIES.items()}
# Rows once more, with as many labels before the first batch as it has. These runs were added after the others.
POOLS |= {
    f"{name}, {copies}, {SEED_SIZE:,} labels": (replace(kind, sizes=(SEED_SIZE, 1_000, 4)), *how)
    for name, kind in KINDS.items()
    if kind.arms is ROW_ARMS
    for copies, how in COPIES.items()
}


def run_pool(name: str, trials: int, scratch: Path, data: Path) -> dict[str, Any]:
    """Run what is missing of a pool, and summarize it."""
    kind, share, altered = POOLS[name]
    loaded = WithCopies(kind.source, kind.rows, share, altered).load(data, scratch / "cache")
    trainer = LinearPairs(loaded.classes) if kind.model is None else kind.model.make_trainer(loaded, data)
    seed_size, batch_size, rounds = kind.sizes
    recipe = Recipe(
        name, tuple(kind.arms), seed_size, (batch_size,), rounds, 1, metric=kind.metric, baseline="margin",
        dataset=None, model=None,
    )  # fmt: skip
    folder = scratch / name
    held = run_experiment(recipe, folder, dataset=loaded, trainer=trainer, trials=trials)
    return summarize(held, loaded.task) | ask_advice(loaded.task, trainer, recipe, folder)


def ask_advice(task: Any, trainer: Any, recipe: Recipe, folder: Path) -> dict[str, Any]:
    """The advice before the first batch of the first trial, and whether its thresholds say that clusters pay."""
    (batch_size,) = recipe.batch_size
    trial = Trial(task, trainer, recipe.plan(batch_size), 0, Ledger(folder, task.unit))
    state = trial.open_state()
    sources = {
        "probabilities": state.model.probabilities(task.features),
        "embeddings": state.model.embeddings(task.features),
        "clusters": trial.cluster(CLUSTERS)[0],
        "pairs": getattr(task, "pairs", None),
    }
    question = Question(batch_size, sources, labeled=state.picked, labels=state.labels)
    measured = measure(question, lambda phase, share: None)
    advice = give_advice(measured)
    kinds = ((BEYOND_CHANCE,),) if task.unit == "pair" else (FULL_OF_COPIES, (*NEAR_COPIES, LARGE_BATCH))
    return {
        "advice": {"strategy": advice.strategy, "options": dict(advice.options), "rule": advice.reason.rule},
        "clusters_pay": any(all(condition.holds(measured) for condition in kind) for kind in kinds),
        "measured": measured.to_json(),
    }


def write_results(scratch: Path, where: dict[str, Any]) -> None:
    """experiments/unseen.json from the summaries in the scratch folder, and what it has with more trials."""
    stored = json.loads(RESULTS.read_text())
    held, pools = stored["pools"], {}
    for name in POOLS:
        path = scratch / name / "summary.json"
        found = [json.loads(path.read_text())] if path.is_file() else []
        found += [held[name]] if name in held else []
        if found:
            pools[name] = max(found, key=lambda summary: int(summary["trials"]))
    machine = stored["machine"] if pools == held else join_tables(stored["machine"], where)
    RESULTS.write_text(json.dumps({"machine": machine, "pools": pools}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--data", type=Path, required=True, help="folder with the files of the data sets")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--only", nargs="+", choices=POOLS, default=list(POOLS))
    given = parser.parse_args()
    given.scratch.mkdir(parents=True, exist_ok=True)
    where = describe_machine()  # before the file of results changes, which would make the commit "-dirty"
    for name in given.only:
        summary = run_pool(name, given.trials, given.scratch, given.data)
        (given.scratch / name / "summary.json").write_text(json.dumps(summary))
        write_results(given.scratch, where)
        print(f"{name}: {summary['trials']} trials, {time.process_time():.0f} s so far", flush=True)


if __name__ == "__main__":
    main()
