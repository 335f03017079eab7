"""The runs behind docs/savings.md: where do clusters save labels? One thing is varied at a time.

    python experiments/savings.py --scratch FOLDER [--data DATA] [--trials N] [--only LEVEL ...]

Every level is a small experiment with the controls that decide what is due to clusters: margin, random, Cluster-Margin
(the paper's two steps), our variant over pairs, and both with shuffled clusters. A level has a folder in the scratch
folder; what is there is not run again, and a larger --trials adds trials. `experiments/savings.json` gets the scores of
every trial of all levels that are complete so far, and how redundant their first batches are; a level that it has with
more trials is kept. Levels that need images are left out without --data, the folder with the files of CIFAR-100 and
SVHN as published.

The pools of words are a sixth of the recipe wordlangs-small, with the same shares: 30,000 words, 3,500 labels in the
seed set, four batches of 1,750, a first model from 1,750 words. Small runs allow more trials in the same time.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import hedgerow as hr
from hedgerow.experiments import Arm, Clustering, MultiLabel, Recipe, run_experiment
from hedgerow.experiments.architectures import NGrams, Perceptron
from hedgerow.experiments.data.datasets import Digits, load_redundant_digits
from hedgerow.experiments.data.multilabel import load_mulan
from hedgerow.experiments.data.variants import ImagePairs, VariedWords
from hedgerow.experiments.ngrams import HEADS, GramTraining
from hedgerow.experiments.records import Held, Ledger, join_tables
from hedgerow.experiments.runs import describe_machine
from hedgerow.models import Training
from hedgerow.models.protocol import draw_walk
from hedgerow.pairs import InformedClusterMargin, InformedRandom, ShuffledClusterMarginPairs
from hedgerow.pairs.two_steps import pick_by_rows
from hedgerow.rounds import Trial
from hedgerow.strategies import ShuffledClusterMargin
from hedgerow.strategies.controls import permute_labels

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "savings.json"
SEED_SIZE, BATCH_SIZE, ROUNDS = 3_500, 1_750, 4
CLUSTERS = Clustering(10.0, "certified")
MODEL = NGrams(width=32, hidden=64)  # half of the recipe's widths, for half of its time
PLACES = 5  # decimals that are stored: a tenth of the smallest standard error
SHUFFLED = "shuffled clusters"


# Arms.


def pair_up(name: str, strategy: Any, shuffled: Any, clusters: Clustering = CLUSTERS) -> list[Arm]:
    """A strategy and the same with shuffled clusters."""
    control = Arm(f"{name}, {SHUFFLED}", shuffled, clusters, (name,), "clusters")
    return [Arm(name, strategy, clusters), control]


def two_steps(name: str = "cluster-margin", factor: float = 10.0, row_margin: str = "top2-all") -> list[Arm]:
    """The paper's two steps: rows by margin and cluster, then random pairs of these rows."""
    options = {"margin_factor": factor, "row_margin": row_margin}
    return pair_up(name, hr.ClusterMargin(**options), ShuffledClusterMargin(**options))


def over_pairs(name: str = "cluster-margin-pairs", factor: float = 10.0, power: float | None = None) -> list[Arm]:
    """Cluster-Margin over the pairs themselves."""
    options = {"margin_factor": factor, "power": power}
    return pair_up(name, hr.ClusterMarginPairs(**options), ShuffledClusterMarginPairs(**options))


BASELINES = [Arm("random", hr.Random()), Arm("margin", hr.Margin())]
CORE = (*BASELINES, *two_steps(), *over_pairs())
DRAWN = over_pairs("cluster-margin-pairs, power 1", 1.5, 1.0)
INFORMED = (
    *pair_up(
        "cluster-margin, informed pairs",
        InformedClusterMargin(10.0, row_margin="lowest"),
        InformedClusterMargin(10.0, shuffle_clusters=True, row_margin="lowest"),
    ),
    Arm("random rows, informed pairs", InformedRandom()),
)
CANDIDATES = (
    *(
        arm
        for factor in (1.25, 2.0, 3.0, 5.0)
        for arm in over_pairs(f"cluster-margin-pairs, factor {factor:g}", factor)
    ),
    *(arm for factor in (1.25, 3.0) for arm in two_steps(f"cluster-margin, factor {factor:g}", factor)),
)
ROW_MARGINS = tuple(
    arm
    for kind in ("lowest", "mean", "top2")
    for arm in two_steps(f"cluster-margin, row margin {kind}", row_margin=kind)
)
TWO, PAIRS = {"margin_factor": 10.0, "row_margin": "top2-all"}, {"margin_factor": 10.0}
SIZES = tuple(
    arm
    for size in (3.0, 50.0)
    for name, strategy, shuffled in (
        ("cluster-margin", hr.ClusterMargin(**TWO), ShuffledClusterMargin(**TWO)),
        ("cluster-margin-pairs", hr.ClusterMarginPairs(**PAIRS), ShuffledClusterMarginPairs(**PAIRS)),
    )
    for arm in pair_up(f"{name}, size {size:g}", strategy, shuffled, Clustering(size, "certified"))
)
BY_ROWS = (
    *BASELINES,
    *(
        arm
        for factor in (1.25, 3.0, 10.0)
        for arm in pair_up(
            f"cluster-margin, factor {factor:g}", hr.ClusterMargin(factor), ShuffledClusterMargin(factor)
        )
    ),
)


@dataclass(frozen=True)
class OtherClusters:
    """A strategy over pairs with clusters from a file (.npy) in place of those of the trial."""

    strategy: Any
    path: str
    needs: ClassVar[frozenset[str]] = frozenset({"margins", "row_margins"})

    @property
    def row_margin(self) -> str | None:
        """Which margins of rows the view is to hold."""
        return getattr(self.strategy, "row_margin", None)

    def __call__(self, view: Any, k: int, rng: np.random.Generator) -> Any:
        view = replace(view, clusters=np.load(self.path))
        if isinstance(self.strategy, hr.ClusterMargin):
            return pick_by_rows(self.strategy, view, k, rng)
        return self.strategy(view, k, rng)


@dataclass(frozen=True)
class OtherRowClusters(OtherClusters):
    """The same for a strategy over rows."""

    needs: ClassVar[frozenset[str]] = frozenset({"margins"})

    def __call__(self, view: Any, k: int, rng: np.random.Generator) -> Any:
        return self.strategy(replace(view, clusters=np.load(self.path)), k, rng)


# A linear model on features that never change.


@dataclass(frozen=True)
class LinearPairs:
    """One logit per class on frozen features, which are the embeddings too; trained from scratch by Adagrad."""

    classes: int
    head: str = "independent"
    epochs: int = 8
    minibatch: int = 200
    learning_rate: float = 0.2

    def begin(self, features: Any = None, pairs: Any = None, answers: Any = None) -> "FittedLinear":
        return FittedLinear(np.zeros((self.classes, 0), np.float32), np.zeros(self.classes, np.float32), self.head)

    def tune(self, before: Any, features: Any, pairs: hr.Pairs, answers: Any, *, seed: int) -> "FittedLinear":
        parts = np.zeros((self.classes, features.shape[1]), np.float32), np.zeros(self.classes, np.float32)
        model, squares = FittedLinear(*parts, self.head), [np.full_like(part, 1e-8) for part in parts]
        truth = np.asarray(answers, np.float32)
        minibatch = min(self.minibatch, len(pairs))
        steps = self.epochs * max(1, len(pairs) // minibatch)
        walk = draw_walk(len(pairs), steps * minibatch, np.random.default_rng(seed)).reshape(steps, minibatch)
        for number, some in enumerate(walk):
            rows, asked = features[pairs.rows[some]], pairs.classes[some]
            _, *gradients = HEADS[self.head].slope(model, rows, asked, truth[some])
            rate = np.float32(self.learning_rate * (1 - number / steps))
            for part, square, gradient in zip(parts, squares, gradients, strict=True):
                square += gradient**2
                part -= rate * gradient / np.sqrt(square)
        return model


@dataclass(frozen=True, eq=False)
class FittedLinear:
    """The weights (C, d) and bias (C,) of the logits, and the head."""

    out: Any
    out_bias: Any
    head: str

    def probabilities(self, features: Any) -> Any:
        return HEADS[self.head].spread(features @ self.out.T + self.out_bias)

    def embeddings(self, features: Any) -> Any:
        return features


# Levels.


@dataclass(frozen=True)
class Level:
    """One experiment. `load` makes its data, if they are not those of the record `dataset`."""

    dataset: Any
    arms: Sequence[Arm] = CORE
    sizes: tuple[int, int, int] = (SEED_SIZE, BATCH_SIZE, ROUNDS)
    model: Any = MODEL
    load: Callable[[Path | None, Path], MultiLabel] | None = None
    metric: str = "average_precision"
    linear: bool = False
    head: str = "independent"  # of a linear model

    def recipe(self, name: str) -> Recipe:
        seed_size, batch_size, rounds = self.sizes
        return Recipe(
            name, tuple(self.arms), seed_size, (batch_size,), rounds, 1, metric=self.metric, baseline="margin",
            dataset=self.dataset if self.load is None else None, model=None if self.linear else self.model,
        )  # fmt: skip


def propose_pairs(dataset: VariedWords, data: Path | None, cache: Path) -> MultiLabel:
    """Words whose negative pairs are the wrong languages that the first model is most sure of."""

    def train(first: Any) -> Callable[[Any], Any]:
        trainer = MODEL.make_trainer(VariedWords(rows=1, first=dataset.first).make(), None)
        return trainer.begin(first.features, first.pairs, first.answers).probabilities

    return dataset.make(train)


def compress_images(dataset: ImagePairs, data: Path | None, cache: Path) -> MultiLabel:
    """Features of images on the first 128 principal axes of the pool, scaled to a mean square of 1."""
    loaded = dataset.load(data, cache)
    pool = np.asarray(loaded.pool.features, np.float64)
    mean = pool.mean(axis=0)
    _, axes = np.linalg.eigh((pool - mean).T @ (pool - mean))
    axes = axes[:, ::-1][:, :128]
    scale = np.sqrt((((pool - mean) @ axes) ** 2).mean())
    parts = [
        replace(part, features=(((np.asarray(part.features, np.float64) - mean) @ axes) / scale).astype(np.float32))
        for part in (loaded.pool, loaded.test)
    ]
    return replace(loaded, pool=parts[0], test=parts[1])


def load_delicious(dataset: None, data: Path | None, cache: Path) -> MultiLabel:
    assert data is not None
    loaded = load_mulan(data, "delicious")
    parts = [
        replace(part, features=part.features / np.maximum(1, np.linalg.norm(part.features, axis=1, keepdims=True)))
        for part in (loaded.pool, loaded.test)
    ]
    return replace(loaded, pool=parts[0], test=parts[1])


WORDS = VariedWords()
EXACT = replace(WORDS, copies=0.8, misspelled=False)
AS_IN_THE_PAPER = replace(MODEL, start="previous", training=GramTraining(steps=200, schedule="constant"))
LINEAR = {"model": None, "linear": True, "arms": (*CORE, *DRAWN)}
SMALL = (3_500, 700, 4)  # delicious has 12,884 rows in its pool
IMAGES = (3_000, 480, 4)
# The shares of section 3.2: 300,000 labels in the seed set, batches of 100,000 or 1,000,000, of 57.5 million in all.
PAPER_SMALL, PAPER_LARGE = (1_000, 333, 10), (1_000, 3_330, 10)
DIGITS = Level(
    Digits(), BY_ROWS, (100, 1_000, 4), metric="accuracy",
    model=Perceptron(
        (128, 64), training=Training(steps=1_200, minibatch=128, learning_rate=1e-2, schedule="one-cycle")
    ),
)  # fmt: skip
LEVELS: dict[str, Level] = {
    "base": Level(WORDS, (*CORE, *DRAWN)),
    "exact-heavy-95": Level(replace(WORDS, copies=0.95, misspelled=False), (*CORE, *DRAWN)),
    "copies-heavy-95": Level(replace(WORDS, copies=0.95), (*CORE, *DRAWN)),
    "exact-heavy-80": Level(EXACT),
    "exact-80-choices": Level(EXACT, (*BASELINES, *CANDIDATES)),  # the trials of exact-heavy-80, other arms
    "exact-80-share-1": Level(EXACT, sizes=(SEED_SIZE, 300, 4)),
    "exact-80-share-25": Level(EXACT, sizes=(SEED_SIZE, 7_500, 4)),
    "copies-heavy-80": Level(replace(WORDS, copies=0.8)),
    "digits": DIGITS,
    "digits-clusters": DIGITS,  # the trials of digits, other clusters
    "choices": Level(WORDS, (*BASELINES, *CANDIDATES, *ROW_MARGINS, *INFORMED)),  # the trials of base, other arms
    "sizes": Level(WORDS, (*BASELINES, *SIZES)),
    "delicious": Level(None, load=partial(load_delicious, None), sizes=SMALL, **LINEAR),
    "classes-1008": Level(replace(WORDS, bands=24)),
    "training-previous": Level(WORDS, model=AS_IN_THE_PAPER),
    "first-clusters": Level(WORDS),
    "first-300": Level(replace(WORDS, first=300)),
    "first-10000": Level(replace(WORDS, first=10_000)),
    "share-25": Level(WORDS, sizes=(SEED_SIZE, 7_500, 4)),
    "negatives-proposed": Level(WORDS, load=partial(propose_pairs, WORDS)),
    "cifar100": Level(
        ImagePairs("cifar100"), load=partial(compress_images, ImagePairs("cifar100")), sizes=IMAGES, **LINEAR
    ),
    "svhn": Level(ImagePairs("svhn"), load=partial(compress_images, ImagePairs("svhn")), sizes=IMAGES, **LINEAR),
    "share-1": Level(WORDS, sizes=(SEED_SIZE, 300, 4)),
    "negatives-1": Level(replace(WORDS, negatives=1)),
    "negatives-20": Level(replace(WORDS, negatives=20)),
    "copies-equal-80": Level(replace(WORDS, copies=0.8, counts="equal")),
    "classes-504": Level(replace(WORDS, bands=12)),
    "exact-heavy-50": Level(replace(WORDS, copies=0.5, misspelled=False)),
    "copies-heavy-50": Level(replace(WORDS, copies=0.5)),
    "softmax": Level(WORDS, model=replace(MODEL, head="softmax")),
    "cifar100-softmax": Level(
        ImagePairs("cifar100"), load=partial(compress_images, ImagePairs("cifar100")), sizes=IMAGES, linear=True,
        head="softmax",
    ),
    "svhn-softmax": Level(
        ImagePairs("svhn"), load=partial(compress_images, ImagePairs("svhn")), sizes=IMAGES, linear=True, head="softmax"
    ),
    "paper-small-exact-80": Level(EXACT, sizes=PAPER_SMALL),
    "paper-large-exact-80": Level(EXACT, sizes=PAPER_LARGE),
    "paper-small": Level(WORDS, sizes=PAPER_SMALL),
    "paper-large": Level(WORDS, sizes=PAPER_LARGE),
    "paper-small-copies-95": Level(replace(WORDS, copies=0.95), sizes=PAPER_SMALL),
    "paper-large-copies-95": Level(replace(WORDS, copies=0.95), sizes=PAPER_LARGE),
    "paper-small-exact-95": Level(replace(WORDS, copies=0.95, misspelled=False), sizes=PAPER_SMALL),
    "paper-large-exact-95": Level(replace(WORDS, copies=0.95, misspelled=False), sizes=PAPER_LARGE),
}  # fmt: skip


def use_first_clusters(level: Level, scratch: Path) -> Level:
    """Clusters by the first model, before the seed set, as in the paper: the same in all trials."""
    path = scratch / "first-clusters.npy"
    if not path.exists():
        loaded = level.dataset.make()
        first = loaded.first
        model = level.model.make_trainer(loaded, None).begin(first.features, first.pairs, first.answers)
        found = hr.cluster(
            model.embeddings(loaded.pool.features), average_size=CLUSTERS.average_size, method=CLUSTERS.method,
            zeros="singletons", centroids=False,
        )  # fmt: skip
        np.save(path, found.labels)
    arms = [
        arm if arm in BASELINES else replace(arm, strategy=OtherClusters(arm.strategy, str(path))) for arm in level.arms
    ]
    return replace(level, arms=arms)


def use_other_clusters(level: Level, scratch: Path) -> Level:
    """Digits by their originals, which bounds what the removal of copies can give, and by their pixels."""
    digits = load_redundant_digits()
    made = {"true copies": np.unique(digits.origins, return_inverse=True)[1].astype(np.int32)}
    for size in (10, 20):
        made[f"pixels, size {size}"] = hr.cluster(digits.images, average_size=size, method="certified").labels
    arms = list(BASELINES)
    for (kind, labels), factor in product(made.items(), (3.0, 10.0)):
        path = scratch / f"digits, {kind}.npy"
        np.save(path, labels)
        strategies = (OtherRowClusters(of(factor), str(path)) for of in (hr.ClusterMargin, ShuffledClusterMargin))
        arms += pair_up(f"cluster-margin, factor {factor:g}, {kind}", *strategies)
    return replace(level, arms=arms)


OTHER_CLUSTERS = {"first-clusters": use_first_clusters, "digits-clusters": use_other_clusters}


# Redundancy.


def count_groups(groups: Sequence[Any]) -> dict[str, float]:
    """Of picks, each with its group: the share whose group has another pick, and distinct groups per 100 picks."""
    _, place, counts = np.unique(np.stack(groups), axis=1, return_inverse=True, return_counts=True)
    return {"sharing": float((counts[place.ravel()] > 1).mean()), "groups": 100 * len(counts) / place.size}


def measure_redundancy(held: Held, folder: Path, task: Any, origins: Any) -> dict[str, dict[str, float]]:
    """What the first batch of each strategy repeats, mean of trials; near-copies are pairs of one cluster and class.

    by chance: the same with shuffled clusters. copies: of one original and class, where originals are known.
    """
    found: dict[str, dict[str, list[float]]] = {}
    ledger = Ledger(folder, task.unit)
    (rounds,) = held.rounds.values()
    for done in rounds:
        if done.round != 1:
            continue
        path = ledger.name_clusters(done.trial, CLUSTERS)
        if not path.exists():
            continue
        clusters = hr.Clusters.load(path).labels
        rows = task.pairs.rows[done.picked] if task.unit == "pair" else done.picked
        asked = [task.pairs.classes[done.picked]] if task.unit == "pair" else []
        shuffled = permute_labels(clusters, np.random.default_rng(done.trial))
        kinds = {"clusters": clusters, "by chance": shuffled} | ({} if origins is None else {"copies": origins})
        mine = found.setdefault(done.strategy, {})
        for kind, of in kinds.items():
            for name, value in count_groups([of[rows], *asked]).items():
                mine.setdefault(f"{kind}: {name}", []).append(value)
        mine.setdefault("rows", []).append(100 * len(np.unique(rows)) / len(rows))
    return {
        strategy: {name: round(float(np.mean(values)), 4) for name, values in mine.items()}
        for strategy, mine in found.items()
    }


def measure_pool(task: Any, trainer: Any, recipe: Recipe, folder: Path) -> dict[str, float | None]:
    """What `hedgerow advise` measures before the first batch of the first trial."""
    (batch_size,) = recipe.batch_size
    trial = Trial(task, trainer, recipe.plan(batch_size), 0, Ledger(folder, task.unit))
    state = trial.open_state()
    given = {"pairs": task.pairs} if task.unit == "pair" else {}
    measured = hr.advise(
        batch_size,
        probabilities=state.model.probabilities(task.features),
        embeddings=state.model.embeddings(task.features),
        clusters=trial.cluster(CLUSTERS)[0],
        labeled=state.picked,
        **given,
    ).measurements
    names = ("margin_sharing", "chance_sharing", "agreement", "tightness", "labels_per_class", "batch_to_labels")
    found = {name: getattr(measured, name) for name in names}
    margin = measured.find_batch("margin")
    assert margin is not None
    found |= {"clusters_per_100": margin.clusters_per_100, "close": margin.close}
    return {name: None if value is None else round(value, 4) for name, value in found.items()}


# Running.


def run_level(name: str, level: Level, trials: int, scratch: Path, data: Path | None) -> dict[str, Any]:
    """Run what is missing of a level, and summarize it."""
    folder = scratch / name
    loaded = (level.dataset.load if level.load is None else level.load)(data, scratch / "cache")
    if name in OTHER_CLUSTERS:
        level = OTHER_CLUSTERS[name](level, scratch)
    trainer = LinearPairs(loaded.classes, level.head) if level.linear else None
    recipe = level.recipe(name)
    held = run_experiment(recipe, folder, dataset=loaded, trainer=trainer, trials=trials)
    task = loaded.task
    trainer = trainer or level.model.make_trainer(loaded, None)
    measured = {} if name in OTHER_CLUSTERS else measure_pool(task, trainer, recipe, folder)
    origins = level.dataset.find_origins() if getattr(level.dataset, "copies", 0) else None
    redundancy = measure_redundancy(held, folder, task, origins)
    return summarize(held, task) | {"measured": measured, "redundancy": redundancy}


def summarize(held: Held, task: Any) -> dict[str, Any]:
    """The scores of every trial: strategy -> trials -> rounds."""
    (batch_size,) = held.rounds
    metric = held.recipe["metric"]
    curves: dict[str, dict[int, list[float]]] = {}
    for done in held.rounds[batch_size]:
        curves.setdefault(done.strategy, {}).setdefault(done.trial, []).append(round(done.values[metric], PLACES))
    return {
        "metric": metric,
        "model": held.recipe["model"],
        "unit": task.unit,
        "rows": task.n,
        "size": task.size,
        "seed_size": held.recipe["seed_size"],
        "batch_size": batch_size,
        "rounds": held.recipe["rounds"],
        "trials": held.trials,
        "curves": {name: [of[trial] for trial in held.numbers] for name, of in curves.items()},
    }


def write_results(scratch: Path, where: dict[str, Any]) -> None:
    """experiments/savings.json from the summaries in the scratch folder, and what it has with more trials."""
    stored = json.loads(RESULTS.read_text())
    held, levels = stored["levels"], {}
    for name in LEVELS:
        path = scratch / name / "summary.json"
        found = [json.loads(path.read_text())] if path.is_file() else []
        found += [held[name]] if name in held and not (found and is_outdated(held[name], found[0])) else []
        if found:
            levels[name] = max(found, key=lambda summary: int(summary["trials"]))
    machine = stored["machine"] if levels == held else join_tables(stored["machine"], where)
    RESULTS.write_text(json.dumps({"machine": machine, "levels": levels}) + "\n")


def is_outdated(held: dict[str, Any], found: dict[str, Any]) -> bool:
    """Whether the stored trials of a level are of another model than new ones; the first did not say of which."""
    return bool(held.get("model", found["model"]) != found["model"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--data", type=Path, help="folder with CIFAR-100, SVHN and delicious")
    parser.add_argument("--trials", type=int, nargs="+", default=[10], help="trials of every level; or of each pass")
    parser.add_argument("--only", nargs="+", choices=LEVELS, default=list(LEVELS))
    given = parser.parse_args()
    given.scratch.mkdir(parents=True, exist_ok=True)
    where = describe_machine()  # before the file of results changes, which would make the commit "-dirty"
    for trials, name in product(given.trials, given.only):
        level = LEVELS[name]
        if level.linear and given.data is None:
            print(f"{name}: left out, it needs --data", flush=True)
            continue
        summary = run_level(name, level, trials, given.scratch, given.data)
        (given.scratch / name / "summary.json").write_text(json.dumps(summary))
        write_results(given.scratch, where)
        print(f"{name}: {summary['trials']} trials, {time.process_time():.0f} s so far", flush=True)


if __name__ == "__main__":
    main()
