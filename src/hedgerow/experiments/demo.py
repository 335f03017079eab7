"""The demo: Hedge and Cluster-Margin compared with Margin and Random on a redundant pool of digits, as one HTML report.

The setting is a small version of section 3.3 of the paper: a seed set drawn uniformly, a few rounds whose batches are
large compared with the number of really different images, a network trained from scratch in every round, accuracy on a
test set. Hedge is the default of hedgerow; Cluster-Margin, the paper's strategy, runs twice, with its margin factor of
10 and with 3, because the two differ on a pool of this size. The table and the report show what was measured, whichever
strategy is best.

How much copies are distorted and the size of a minibatch were chosen by the accuracies on this same test set: those of
the seed set, of random batches and of the whole pool. So the accuracies are not those on unseen data.

What it does not do: store its rounds for a later run.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow import __version__, checks
from hedgerow.experiments.data.datasets import CLASSES, SIDE, RedundantDigits, load_redundant_digits
from hedgerow.experiments.findings import Point, compare, estimate, summarize
from hedgerow.experiments.pages import count, mark_points
from hedgerow.models import SklearnMLP
from hedgerow.report import (
    Section,
    compose_page,
    draw_curves,
    paint_tiles,
    render_cards,
    render_facts,
    render_table,
    write_page,
)
from hedgerow.rounds import Clustering, Plan, Round
from hedgerow.rounds import Trial as Play
from hedgerow.store import check_target
from hedgerow.strategies import ClusterMargin, Hedge, Margin, Random

Progress = Callable[[str, float], None]

STRATEGIES: Mapping[str, Any] = {
    "random": Random(),
    "margin": Margin(),
    "cluster-margin, factor 10": ClusterMargin(margin_factor=10.0),
    "cluster-margin, factor 3": ClusterMargin(margin_factor=3.0),
    "hedge": Hedge(),
}
BASELINE = "margin"  # the best of the strategies without clusters
PARTS = ("predict", "select", "train")
CLUSTER_SHARE = 8.0  # clustering the pool takes about as long as this many rounds; for the progress bar only


@dataclass(frozen=True)
class Settings:
    """The size of the demo."""

    originals: int
    plan: Plan
    trainer: SklearnMLP


EXACT = Clustering(average_size=10.0, method="exact")
FULL = Settings(1200, Plan(seed_size=100, batch_size=500, rounds=4, clustering=EXACT), SklearnMLP(CLASSES))
# Small enough to run in seconds; its accuracies mean nothing.
QUICK = Settings(150, Plan(40, 60, 2, EXACT), SklearnMLP(CLASSES, hidden=(32, 16), steps=60))


@dataclass(frozen=True)
class Trial:
    """The results of one seed: its clusters and the rounds of every strategy."""

    average_size: float  # of the clusters
    cluster_seconds: float
    rounds: tuple[Round, ...]


@dataclass(frozen=True)
class DemoResult:
    """Everything the demo measured, and the path of the report."""

    settings: Settings
    pool_rows: int
    test_rows: int
    trials: tuple[Trial, ...]
    originals: Mapping[str, tuple[int, ...]]  # different originals in the first batch, by trial
    seconds: float
    report: Path

    @property
    def rounds(self) -> tuple[Round, ...]:
        return tuple(done for trial in self.trials for done in trial.rounds)

    @property
    def points(self) -> tuple[Point, ...]:
        return summarize(self.rounds)

    @property
    def table(self) -> tuple[dict[str, str], ...]:
        """One row per strategy: accuracy (mean ± standard error) after each round, and the originals in batch 1."""
        rows = _tabulate(self.points, "strategy", "{}")
        for row in rows:
            mean, error = estimate(self.originals[row["strategy"]])
            row["originals in batch 1"] = f"{mean:.0f}" if error is None else f"{mean:.0f} ± {error:.0f}"
        return rows

    @property
    def differences(self) -> tuple[dict[str, str], ...]:
        """The same rows minus the accuracy of the baseline in the same trial, which had the same seed set."""
        return _tabulate(compare(self.rounds, BASELINE), f"minus {BASELINE}", "{:+}")

    def to_json(self) -> dict[str, Any]:
        """Settings, means and every round of every trial, in the types of JSON."""
        return {
            "settings": asdict(self.settings) | {"trials": len(self.trials)},
            "pool_rows": self.pool_rows,
            "test_rows": self.test_rows,
            "points": [asdict(point) for point in self.points],
            "differences_from_margin": [asdict(point) for point in compare(self.rounds, BASELINE)],
            "originals_in_batch_1": {name: list(counts) for name, counts in self.originals.items()},
            "rounds": [_flatten(done) for done in self.rounds],
            "average_sizes": [trial.average_size for trial in self.trials],
            "cluster_seconds": [trial.cluster_seconds for trial in self.trials],
            "seconds": self.seconds,
            "report": str(self.report),
        }


def _tabulate(points: Sequence[Point], corner: str, form: str) -> tuple[dict[str, str], ...]:
    """One row per strategy, one column per round after the seed set."""
    rows: dict[str, dict[str, str]] = {}
    for point in points:
        row = rows.setdefault(point.strategy, {corner: point.strategy})
        if point.round > 0:
            row[f"{point.labeled:,} labels"] = form.format(point)
    return tuple(rows.values())


def run_demo(out: str | Path, *, seeds: int = 5, quick: bool = False, progress: Progress | None = None) -> DemoResult:
    """Run the demo with `seeds` trials and write the report to `out`, one HTML file; an existing file is replaced.

    `quick` runs a tiny version. `progress(phase, done)` is called with the current phase and the share done, 0 to 1.
    Needs the extra `sklearn`.
    """
    began = time.perf_counter()
    checks.integer(seeds, "seeds", least=1)
    report = check_target(out)  # before the long work, not after
    settings = QUICK if quick else FULL
    clock = _Clock(progress, total=seeds * (CLUSTER_SHARE + len(STRATEGIES) * settings.plan.rounds))
    clock.report("making the pool")
    digits = load_redundant_digits(settings.originals)
    trials = tuple(
        _run_trial(digits, settings, trial, f"trial {trial + 1} of {seeds}", clock) for trial in range(seeds)
    )
    clock.report("writing the report")
    result = DemoResult(
        settings=settings,
        pool_rows=len(digits.images),
        test_rows=len(digits.test_images),
        trials=trials,
        originals=_count_originals(trials, digits),
        seconds=time.perf_counter() - began,
        report=report,
    )
    write_page(report, _compose(result, digits))
    clock.report("done")
    return result


class _Clock:
    """Counts the work done, for the progress."""

    def __init__(self, progress: Progress | None, total: float) -> None:
        self.progress, self.total, self.done = progress, total, 0.0

    def report(self, phase: str, *, after: float = 0.0) -> None:
        """Report the next phase, after `after` more of the work is done."""
        self.done += after
        if self.progress is not None:
            self.progress(phase, min(1.0, self.done / self.total))


def _run_trial(digits: RedundantDigits, settings: Settings, trial: int, title: str, clock: _Clock) -> Trial:
    play = Play(digits.task, settings.trainer, settings.plan, trial)
    clock.report(f"{title}: clustering {play.task.n:,} images")
    clusters, seconds = play.cluster()
    clock.report(f"{title}: first model", after=CLUSTER_SHARE)
    rounds: list[Round] = []
    for name, strategy in STRATEGIES.items():
        for done in play.play(strategy, name=name):
            rounds.append(done)
            clock.report(f"{title}: {name}", after=float(done.round > 0))
    return Trial(clusters.average_size, seconds, tuple(rounds))


def _count_originals(trials: Sequence[Trial], digits: RedundantDigits) -> dict[str, tuple[int, ...]]:
    """The number of different originals in the first batch of each strategy: copies of one original count once."""
    return {
        name: tuple(len(np.unique(digits.origins[_find_first_batch(trial, name).picked])) for trial in trials)
        for name in STRATEGIES
    }


def _find_first_batch(trial: Trial, name: str) -> Round:
    return next(done for done in trial.rounds if done.strategy == name and done.round == 1)


def _flatten(done: Round) -> dict[str, Any]:
    """A round as one row of a table."""
    return {
        "trial": done.trial,
        "strategy": done.strategy,
        "round": done.round,
        "labeled": done.labeled,
        **done.values,
        "predict_seconds": done.predict_seconds,
        "select_seconds": done.select_seconds,
        "train_seconds": done.train_seconds,
    }


def _compose(result: DemoResult, digits: RedundantDigits) -> str:
    plan = result.settings.plan
    lead = (
        f"Which {plan.batch_size:,} images should be labeled next, in each of {plan.rounds} rounds? The pool has "
        f"{result.pool_rows:,} digits, made from {result.settings.originals:,} originals by small rotations, shifts "
        f"and noise; a few originals have hundreds of copies. Every strategy starts from the same {plan.seed_size:,} "
        f"labels; {count(len(result.trials), 'trial')}."
    )
    return compose_page(
        "hedgerow demo: choosing from a redundant pool",
        lead,
        [
            Section("Accuracy by labels", _show_curves(result)),
            Section("Accuracy in numbers", _show_numbers(result)),
            Section("The first batch of each strategy", _show_batches(result, digits)),
            Section("Time", render_table(_list_times(result)) + _explain_times(result)),
            Section("Settings", render_facts(_list_settings(result))),
        ],
    )


def _show_curves(result: DemoResult) -> str:
    """The outcome in words, best first, and the curves from the first batch on: before it all strategies are equal."""
    seed_set, *_ = result.points
    last = [point for point in result.points if point.round == result.settings.plan.rounds]
    ranking = "; ".join(f"{point.strategy}: {point}" for point in sorted(last, key=lambda point: -point.mean))
    band = " Bands show one standard error on either side." if len(result.trials) > 1 else ""
    sentence = (
        f"The first model, trained on {seed_set.labeled:,} labels, has accuracy {seed_set}. After {last[0].labeled:,} "
        f"labels: {ranking}."
    ).replace(" ± ", "&nbsp;±&nbsp;")  # keep a mean and its error on one line
    return f"<p>{sentence}{band}</p>" + draw_curves(mark_points([point for point in result.points if point.round > 0]))


def _show_numbers(result: DemoResult) -> str:
    trials = len(result.trials)
    errors = f"Mean ± standard error over {trials} trials" if trials > 1 else "One trial, so no standard errors"
    return (
        f"{render_table(result.table)}<p>{errors}. Originals in batch 1: the number of really different images in "
        "the first batch; the others are copies of these.</p>"
        f"{render_table(result.differences)}<p>The accuracy minus that of {BASELINE} in the same trial, which had the "
        "same seed set, first model and clusters. A difference of one or two standard errors may be chance.</p>"
    )


def _show_batches(result: DemoResult, digits: RedundantDigits) -> str:
    cards = []
    for name in STRATEGIES:
        rows = _find_first_batch(result.trials[0], name).picked
        origins = digits.origins[rows]
        sentence = f"{len(np.unique(origins)):,} originals among {len(rows):,} images"
        cards.append((name, sentence, paint_tiles(digits.images[rows].reshape(-1, SIDE, SIDE), origins)))
    return (
        "<p>All images of the first batch in the first trial. Copies of one original are side by side on a tint, the "
        "most frequent first; an image on white is the only one of its original.</p>" + render_cards(cards)
    )


def _list_times(result: DemoResult) -> list[dict[str, str]]:
    """Mean seconds per round, by strategy."""
    rows = []
    for name in STRATEGIES:
        several = [done for done in result.rounds if done.strategy == name and done.round > 0]
        mean = {part: np.mean([getattr(done, f"{part}_seconds") for done in several]) for part in PARTS}
        rows.append({"strategy": name} | {part: f"{mean[part]:.3f}" for part in PARTS})
    return rows


def _explain_times(result: DemoResult) -> str:
    seconds = np.mean([trial.cluster_seconds for trial in result.trials])
    return (
        f"<p>Mean seconds per round. Clustering the pool, once per trial for all strategies: {seconds:.1f} s. "
        f"The whole demo: {result.seconds:.0f} s.</p>"
    )


def _list_settings(result: DemoResult) -> dict[str, str]:
    settings, plan, trainer = result.settings, result.settings.plan, result.settings.trainer
    size = np.mean([trial.average_size for trial in result.trials])
    layers = "-".join(str(width) for width in (SIDE * SIDE, *trainer.hidden, trainer.classes))
    return {
        "pool": f"{result.pool_rows:,} images from {settings.originals:,} originals (scikit-learn's digits)",
        "test": f"{result.test_rows:,} images from other originals",
        "labels": f"{plan.seed_size:,} in the seed set, then {plan.rounds} rounds of {plan.batch_size:,}",
        "model": f"perceptron {layers}, {trainer.steps} Adam steps of {trainer.minibatch} rows, new in every round",
        "clusters": (
            f"average linkage ({plan.clustering.method}, {plan.clustering.metric}) of the last hidden layer of the "
            f"first model, average size {size:.1f}"
        ),
        "strategies": "; ".join(f"{name}: {strategy!r}" for name, strategy in STRATEGIES.items()),
        "trials": f"seeds 0 to {len(result.trials) - 1}" if len(result.trials) > 1 else "seed 0",
        "version": f"hedgerow {__version__}",
    }
