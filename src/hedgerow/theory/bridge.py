"""From theory to practice: does the sampler that leaves the smaller version space give the better next model?

A trial trains a linear head (multinomial logistic regression) on a few random labels, takes the gamma k unlabeled rows
with the lowest margins, and lets every sampler choose k of them by their embeddings. For each choice, a new head is
trained with the new labels, and its accuracy on the test set is measured. Real labels leave no version space: no head
is consistent with all of them. In its place are `HEADS` heads, each trained on a bootstrap resample of the same labels;
the *diameter* is the largest share of the pool on which two of them differ, and the *spread* the mean share.

Both are compared within trials. The correlation of diameter and accuracy, after the mean of the trial is subtracted
from each, is taken among the samplers (uniform once), and as a control among several uniform choices, where there is no
sampler that both could be due to. Its interval is a percentile bootstrap over trials. The theory suggests a negative
correlation. A batch from the whole pool is measured beside them.

Datasets: scikit-learn's digits, once each and with redundancy (`load_redundant_digits`), and CIFAR-10 as features of
EfficientNet-lite0, reduced to their principal components.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import InputError
from hedgerow.experiments.architectures import Estimator
from hedgerow.experiments.data.datasets import Dataset, Images, load_redundant_digits
from hedgerow.metrics import accuracy
from hedgerow.models import SklearnTrainer
from hedgerow.report import draw_curves
from hedgerow.scores import margins
from hedgerow.theory.estimates import CONFIDENCE, RESAMPLES, SEED, estimate_mean, estimate_ratio
from hedgerow.theory.measurements import Cell, Row
from hedgerow.theory.parts import Part
from hedgerow.theory.samplers import SAMPLERS, Sampler

Rows = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
Generator = np.random.Generator

GAMMA = 10
HEADS = 8
UNIFORM_DRAWS = 3
CHOSEN = ("cluster-margin", "farthest-first", "k-means++")
WHOLE = "uniform, whole pool"
JUDGED = 2000  # unlabeled rows on which heads are compared
COMPONENTS = 64  # of CIFAR-10's 1,280 features: the samplers and heads see a space of small dimension, as in section 4
COMPONENT_ROWS = 10_000  # that the components are computed from
TRIALS = 60  # per dataset; an earlier run of 20 to 30 had intervals of correlations of about +-0.2: now about +-0.14
AT_ONCE = 10  # trials per cell
SIDE = 96  # pixels to which the images are enlarged


@dataclass(frozen=True)
class Bench:
    """A dataset of the study: labels of the first head, size of the batch, the regularization of heads."""

    load: Callable[[Path | None, Path | None], Dataset]
    labels: int
    k: int
    strength: float  # C of scikit-learn's LogisticRegression
    is_public: bool = True  # made by scikit-learn: no files are needed


def load_digits(data: Path | None, cache: Path | None) -> Dataset:
    """1,200 digits as a pool and the other 597 as the test set, one copy of each."""
    grown = load_redundant_digits()
    pool, test = (np.unique(origins, return_index=True)[1] for origins in (grown.origins, grown.test_origins))
    labels, test_labels = grown.labels[pool], grown.test_labels[test]
    return Dataset("digits", 10, grown.images[pool], labels, grown.test_images[test], test_labels)


def load_redundant(data: Path | None, cache: Path | None) -> Dataset:
    """The pool of the demo, where a few digits have hundreds of copies."""
    grown = load_redundant_digits()
    return Dataset("redundant-digits", 10, grown.images, grown.labels, grown.test_images, grown.test_labels)


def load_cifar10(data: Path | None, cache: Path | None) -> Dataset:
    """Features of a frozen network, reduced to principal components with a mean variance of 1."""
    if data is None:
        raise InputError("CIFAR-10 is read from your copy: pass its folder with --data")
    whole = Images("cifar10", "efficientnet-lite0", SIDE).load(data, cache or data / "cache")
    some = np.asarray(whole.features[:COMPONENT_ROWS], np.float64)
    middle = some.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov((some - middle).T))
    axes = vectors[:, -COMPONENTS:] / math.sqrt(values[-COMPONENTS:].mean())
    pool, test = (((half - middle) @ axes).astype(np.float32) for half in (whole.features, whole.test_features))
    return Dataset("cifar10", whole.classes, pool, whole.labels, test, whole.test_labels)


BENCHES: Mapping[str, Bench] = {
    "digits": Bench(load_digits, 60, 20, 1.0),
    "redundant-digits": Bench(load_redundant, 100, 50, 1.0),
    "cifar10": Bench(load_cifar10, 200, 100, 0.1, is_public=False),
}


@lru_cache(maxsize=1)
def _load(name: str, data: Path | None, cache: Path | None) -> Dataset:
    return BENCHES[name].load(data, cache)


def measure_batches(
    rng: Generator, *, dataset: str, trials: int, data: str | None = None, cache: str | None = None
) -> list[Row]:
    """What each sampler's batch leads to: one row per trial and batch."""
    folders = (None if folder is None else Path(folder) for folder in (data, cache))
    held, bench = _load(dataset, *folders), BENCHES[dataset]
    return [row | {"trial": trial} for trial in range(trials) for row in run_trial(held, bench, rng)]


def run_trial(held: Dataset, bench: Bench, rng: Generator) -> list[Row]:
    """One random start, and one batch per sampler from its low-margin rows."""
    trainer = make_trainer(bench.strength, held.classes)
    n = len(held.labels)
    labeled = rng.choice(n, bench.labels, replace=False, shuffle=False)
    free = np.setdiff1d(np.arange(n), labeled)
    judged = rng.choice(free, min(JUDGED, len(free)), replace=False, shuffle=False)
    first = trainer.fit(held.features[labeled], held.labels[labeled], seed=0)
    unsure = np.argsort(margins(first.probabilities(held.features[free])), kind="stable")[: GAMMA * bench.k]
    pool = free[unsure]
    points = np.asarray(held.features[pool], np.float64)
    uniform = SAMPLERS["uniform"]
    arms: list[tuple[str, Sampler]] = [("uniform", uniform)] * UNIFORM_DRAWS
    arms += [(name, SAMPLERS[name]) for name in CHOSEN]
    batches = [(name, pool[sampler(points, bench.k, rng)]) for name, sampler in arms]
    batches.append((WHOLE, rng.choice(free, bench.k, replace=False, shuffle=False)))
    start = accuracy(first.probabilities(held.test_features), held.test_labels)
    return [
        {"sampler": name, "before": start} | judge(held, trainer, np.append(labeled, batch), judged, rng)
        for name, batch in batches
    ]


def make_trainer(strength: float, classes: int) -> SklearnTrainer:
    """Linear heads: multinomial logistic regression."""
    return SklearnTrainer(Estimator(options={"C": strength, "max_iter": 2000}).make, classes)


def judge(held: Dataset, trainer: SklearnTrainer, labeled: Rows, judged: Rows, rng: Generator) -> Row:
    """The head trained on these labels, and how much heads of bootstrap resamples differ on the judged rows."""

    def fit(rows: Rows) -> Any:
        return trainer.fit(held.features[rows], held.labels[rows], seed=0)

    heads = [fit(rng.choice(labeled, len(labeled))) for _ in range(HEADS)]
    guesses = [head.probabilities(held.features[judged]).argmax(axis=1) for head in heads]
    shares = [float(np.mean(one != other)) for one, other in combinations(guesses, 2)]
    score = accuracy(fit(labeled).probabilities(held.test_features), held.test_labels)
    return {"diameter": max(shares), "spread": float(np.mean(shares)), "accuracy": score}


def list_cells(quick: bool, data: Path | None = None, cache: Path | None = None) -> list[Cell]:
    """All datasets whose files are here; a few trials of digits if quick."""
    if quick:
        return [_cell("digits", 0, None, None)]
    chosen = [name for name, bench in BENCHES.items() if bench.is_public or data is not None]
    return [_cell(name, part, data, cache) for name in chosen for part in range(TRIALS // AT_ONCE)]


def _cell(dataset: str, part: int, data: Path | None, cache: Path | None) -> Cell:
    given: Row = {"dataset": dataset, "trials": AT_ONCE}
    if not BENCHES[dataset].is_public:
        given |= {"data": str(data), "cache": None if cache is None else str(cache)}
    return Cell(f"{dataset}-{part}", measure_batches, given, {"dataset": dataset, "part": part})


def summarize(rows: list[Row]) -> list[Row]:
    """By dataset: diameter and accuracy of every sampler relative to uniform, the correlations, accuracy by rank."""
    summary = []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        trials: dict[tuple[int, int], list[Row]] = {}
        for row in rows:
            if row["dataset"] == dataset:
                trials.setdefault((row["part"], row["trial"]), []).append(row)
        held = [_average_uniform(some) for some in trials.values()]
        described = [{"of": "sampler", "sampler": name, **_compare(held, name)} for name in (*CHOSEN, WHOLE)]
        draws = [[row for row in some if row["sampler"] == "uniform"] for some in trials.values()]
        among = [[row for row in some if row["sampler"] != WHOLE] for some in held]
        described += [
            {"of": f"correlation with {measure}", "among": name, **correlate(groups, measure)}
            for name, groups in (("samplers", among), ("uniform choices", draws))
            for measure in ("diameter", "spread")
        ]
        everything = [[row for row in some if row["sampler"] != WHOLE] for some in trials.values()]
        described += [{"of": "rank", **row} for row in _rank(everything)]
        summary += [{"dataset": dataset, **row} for row in described]
    return summary


def _average_uniform(rows: Sequence[Row]) -> list[Row]:
    """The rows of a trial with one row for the mean of all uniform choices."""
    draws = [row for row in rows if row["sampler"] == "uniform"]
    means = {key: float(np.mean([row[key] for row in draws])) for key in ("diameter", "spread", "accuracy")}
    return [draws[0] | means, *(row for row in rows if row["sampler"] != "uniform")]


def _compare(trials: Sequence[Sequence[Row]], sampler: str) -> Row:
    """A sampler relative to uniform: the ratio of diameters, and the difference of accuracies in points."""
    found = [{row["sampler"]: row for row in some} for some in trials]
    ours, theirs = ([some[name] for some in found] for name in (sampler, "uniform"))
    ratio = estimate_ratio([row["diameter"] for row in ours], [row["diameter"] for row in theirs], paired=True)
    gains = 100 * np.array([one["accuracy"] - other["accuracy"] for one, other in zip(ours, theirs, strict=True)])
    low, high = _bootstrap(lambda drawn: float(gains[drawn].mean()), len(gains))
    ends = {"ratio": ratio.value, "ratio low": ratio.low, "ratio high": ratio.high}
    return ends | {"gain": float(gains.mean()), "low": low, "high": high, "trials": len(gains)}


def correlate(trials: Sequence[Sequence[Row]], measure: str) -> Row:
    """The correlation of a measure with accuracy within trials, over all trials, with its interval."""
    centered = [[_center([row[key] for row in some]) for key in (measure, "accuracy")] for some in trials]
    held = np.array(centered)  # (trials, 2, batches)

    def correlation(drawn: Rows) -> float:
        x, y = held[drawn].transpose(1, 0, 2).reshape(2, -1)
        return float(x @ y / math.sqrt((x @ x) * (y @ y)))

    low, high = _bootstrap(correlation, len(held))
    return {"correlation": correlation(np.arange(len(held))), "low": low, "high": high, "trials": len(held)}


def _center(values: Sequence[float]) -> Values:
    found: Values = np.asarray(values) - np.mean(values)
    return found


def _bootstrap(statistic: Callable[[Rows], float], n: int) -> tuple[float, float]:
    """The percentile interval of a statistic of n trials."""
    rng = np.random.default_rng(SEED)
    drawn = [statistic(rng.integers(n, size=n)) for _ in range(RESAMPLES)]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return float(low), float(high)


def _rank(trials: Sequence[Sequence[Row]]) -> list[Row]:
    """Mean accuracy in points above the mean of the trial, by rank of the diameter within it; the smallest is first."""
    gains = []
    for some in trials:
        order = np.argsort([row["diameter"] for row in some], kind="stable")
        gains.append(100 * _center([some[place]["accuracy"] for place in order]))
    held = np.array(gains)
    means = [estimate_mean(some.tolist()) for some in held.T]
    return [{"rank": rank + 1, **mean.describe("gain"), "trials": len(held)} for rank, mean in enumerate(means)]


def draw(summary: list[Row]) -> dict[str, str]:
    """Accuracy by rank of the diameter, one curve per dataset."""
    ranks = [
        (row["dataset"], row["rank"], row["gain"], (row["gain high"] - row["gain low"]) / 2)
        for row in summary
        if row["of"] == "rank"
    ]
    return {"rank": draw_curves(ranks, x="rank of the batch by diameter, 1 is the smallest", y="accuracy gain, points")}


def make_bridge(data: Path | None = None, cache: Path | None = None) -> Part:
    """The study with the datasets that are here; data: the folder with CIFAR-10, cache: where its features are kept."""
    return Part("bridge", partial(list_cells, data=data, cache=cache), summarize, draw)
