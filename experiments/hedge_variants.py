"""Variants of `hedge` that were tried beside its settings, on rows of the pools that are held out, never on test sets.

    python experiments/hedge_variants.py runs

- The order of the clusters in the frame. By default it is that of their numbers; here the order of the leaves of an
  average-linkage tree of their centroids, and a recursive bisection of the centroids along their principal direction.
- A sharpness that learns from surprises: how often the model that chose a batch was wrong about it. With the odds of a
  margin, P(wrong) = 1 / (1 + odds^t); the trust t is the most likely one for the answers to the last two batches, each
  weighted by one over its probability, and for as many imagined answers per class as `prior` says, which agree with the
  trust that `hedge` has by default.

Beds, held-out rows and measures are those of `hedge_settings.py`. `experiments/hedge-variants.json` gets, for every
variant, the difference of the area under its learning curve from that of the default, in ten-thousandths, with its
standard error; beds that it has from before are kept.
"""

import argparse
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from hedge_settings import hold_out, make_recipe, summarize

from hedgerow.experiments import run_experiment
from hedgerow.strategies import Drawn, Hedge
from hedgerow.strategies.hedge import Frame

RESULTS = Path(__file__).resolve().parent / "hedge-variants.json"
BEDS = {"digits-1": 16, "digits-3": 12, "copies-10": 6}  # trials
DEFAULT = "default"
TRUSTS = np.linspace(0.02, 1.5, 75)
IMAGINED = np.linspace(0.2, 4, 20)  # the log odds of imagined answers
BATCHES = 2  # that are learned from

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Ordered(Hedge):
    """The clusters in an order along which neighbors are alike. order: "leaves" or "bisection"."""

    order: str = "leaves"
    needs = Hedge.needs | {"embeddings"}

    def __call__(self, view: Any, k: int, rng: np.random.Generator) -> Drawn:
        points = np.asarray(view.embeddings, np.float64)
        points = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
        sizes = np.bincount(view.clusters)
        centers = np.zeros((len(sizes), points.shape[1]))
        np.add.at(centers, view.clusters, points)
        rank = (list_leaves if self.order == "leaves" else bisect)(centers / sizes[:, None])
        labels = len(view.labeled_rows())
        made = Frame(view.margins, rank[view.clusters], view.mask, view.unlabeled_count)
        return self.draw(made, k, labels, labels / view.classes, rng)


def list_leaves(centers: Doubles) -> npt.NDArray[np.int32]:
    """The place of each center among the leaves of their average-linkage tree."""
    from scipy.cluster.hierarchy import leaves_list, linkage

    rank = np.empty(len(centers), np.int32)
    rank[leaves_list(linkage(centers, "average"))] = np.arange(len(centers))
    return rank


def bisect(centers: Doubles) -> npt.NDArray[np.int32]:
    """The place of each center if halves along the principal direction are divided again and again."""
    rank = np.empty(len(centers), np.int32)
    count = 0
    stack = [np.arange(len(centers))]
    while stack:
        some = stack.pop()
        if len(some) <= 2:
            rank[some] = np.arange(count, count + len(some))
            count += len(some)
            continue
        around = centers[some] - centers[some].mean(axis=0)
        axis = np.linalg.svd(around, full_matrices=False)[2][0]
        order, half = np.argsort(around @ axis, kind="stable"), len(some) // 2
        stack += [some[order[half:]], some[order[:half]]]
    return rank


@dataclass(frozen=True)
class Surprised(Hedge):
    """The trust from how often answers surprised the model. answers: the labels of the pool, of which it sees picks."""

    answers: npt.NDArray[Any] = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)
    prior: float = 1.0
    seen: dict[str, Any] = field(default_factory=dict, repr=False)  # of this trial
    needs = Hedge.needs | {"probabilities"}

    def __call__(self, view: Any, k: int, rng: np.random.Generator) -> Drawn:
        labels = len(view.labeled_rows())
        if labels != self.seen.get("labels"):  # another trial
            self.seen.clear()
        per_class = labels / view.classes
        if self.seen:
            trust = self.find_trust(per_class / (per_class + self.tau), view.classes)
            per_class = self.tau * trust / (1 - trust) if trust < 1 else 1e12
        made = Frame(view.margins, view.clusters, view.mask, view.unlabeled_count)
        drawn = self.draw(made, k, labels, per_class, rng)
        margins = np.clip(view.margins[drawn.rows].astype(np.float64), 0, 1 - 1e-6)
        wrong = np.asarray(view.probabilities)[drawn.rows].argmax(axis=1) != self.answers[drawn.rows]
        batch = (np.log((1 + margins) / (1 - margins)), wrong, drawn.weights / drawn.weights.mean())
        self.seen.update(labels=labels + k, batches=[*self.seen.get("batches", []), batch][-BATCHES:])
        return drawn

    def find_trust(self, usual: float, classes: int) -> float:
        """The most likely trust."""
        odds, wrong, weights = (np.concatenate(some) for some in zip(*self.seen["batches"], strict=True))
        expected = 1 / (1 + np.exp(usual * IMAGINED))
        found = [
            np.sum(weights * find_loss(trust, odds, wrong))
            + self.prior * classes * find_loss(trust, IMAGINED, expected).mean()
            for trust in TRUSTS
        ]
        return float(min(1, TRUSTS[int(np.argmin(found))]))


def find_loss(trust: float, odds: Doubles, wrong: npt.NDArray[Any]) -> Doubles:
    """The log loss of P(wrong) = 1 / (1 + exp(trust odds)), for log odds."""
    return wrong * trust * odds + np.log1p(np.exp(-trust * odds))


def list_variants(answers: npt.NDArray[Any]) -> dict[str, Hedge | str]:
    """What is compared."""
    return {
        DEFAULT: Hedge(),
        "random": "random",
        "leaf order": Ordered(order="leaves"),
        "bisection": Ordered(order="bisection"),
        "surprises": Surprised(answers=answers),
        "surprises, prior 3": Surprised(answers=answers, prior=3.0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder for the runs")
    parser.add_argument("--bed", action="append", choices=BEDS, help="only this one; may be repeated")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    for bed in options.bed or BEDS:
        recipe = make_recipe(bed, lambda unit: {"random": "random"})
        dataset = hold_out(recipe.dataset.load(None, options.folder / "cache", None))
        recipe = make_recipe(bed, lambda unit, dataset=dataset: list_variants(np.asarray(dataset.labels)))
        recipe = replace(recipe, name=f"hedge-variants-{bed}", trials=BEDS[bed])
        held = run_experiment(recipe, options.folder / bed, dataset=dataset)
        found = summarize(held, recipe.metric, DEFAULT)
        before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        RESULTS.write_text(json.dumps(before | {bed: found}, indent=1) + "\n")
        print(bed, found, flush=True)


if __name__ == "__main__":
    main()
