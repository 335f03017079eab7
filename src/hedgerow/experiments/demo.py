"""The demo: Cluster-Margin against Margin and Random on a redundant pool of digits, several trials, one HTML report.

The setting is the paper's (section 3.3) made small: a seed set drawn uniformly, a few rounds of batches that are large
against the number of really different images, a network trained from scratch each round, accuracy on a test set.
Cluster-Margin runs twice, with the paper's margin factor of 10 and with 3, because the two differ on a pool this size.
The table and the report state what was measured, whoever wins.

How far copies are distorted and the size of a minibatch were chosen by looking at accuracies on this very test set:
those of the seed set, of random batches and of the whole pool. The levels are thus not those of unseen data.

What it does not do: keep its rounds for a later run.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow import __version__, checks
from hedgerow.experiments.data.datasets import CLASSES, SIDE, RedundantDigits, load_redundant_digits
from hedgerow.models import SklearnMLP
from hedgerow.report import (
    Point,
    Section,
    compare,
    compose_page,
    draw_curves,
    estimate,
    paint_tiles,
    render_cards,
    render_facts,
    render_table,
    summarize,
    write_page,
)
from hedgerow.rounds import Plan, Round, begin, play
from hedgerow.store import check_target
from hedgerow.strategies import ClusterMargin, Margin, Random

Progress = Callable[[str, float], None]

STRATEGIES: Mapping[str, Any] = {
    "random": Random(),
    "margin": Margin(),
    "cluster-margin, factor 10": ClusterMargin(margin_factor=10.0),
    "cluster-margin, factor 3": ClusterMargin(margin_factor=3.0),
}
BASELINE = "margin"  # the best of the strategies that know no clusters
PARTS = ("predict", "select", "train")
CLUSTER_SHARE = 8.0  # clustering the pool takes about as long as this many rounds do: for the progress bar only


@dataclass(frozen=True)
class Settings:
    """How large the demo is."""

    originals: int
    plan: Plan
    trainer: SklearnMLP


FULL = Settings(1200, Plan(seed_rows=100, batch_rows=500, rounds=4), SklearnMLP(CLASSES))
# Enough of everything to run every line in seconds; its accuracies mean nothing.
QUICK = Settings(150, Plan(seed_rows=40, batch_rows=60, rounds=2), SklearnMLP(CLASSES, hidden=(32, 16), steps=60))


@dataclass(frozen=True)
class Trial:
    """One seed: its clusters and the rounds of every strategy."""

    average_size: float  # of the clusters, as reached
    cluster_seconds: float
    rounds: tuple[Round, ...]


@dataclass(frozen=True)
class DemoResult:
    """Everything the demo measured, and where the report is."""

    settings: Settings
    pool_rows: int
    test_rows: int
    trials: tuple[Trial, ...]
    originals: Mapping[str, tuple[int, ...]]  # different originals in the batch of round one, by trial
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
        """A row a strategy, as text: accuracy (mean ± standard error) after each round, and what round one held."""
        rows = _tabulate(self.points, "strategy", "{}")
        for row in rows:
            mean, error = estimate(self.originals[row["strategy"]])
            row["originals in batch 1"] = f"{mean:.0f}" if error is None else f"{mean:.0f} ± {error:.0f}"
        return rows

    @property
    def differences(self) -> tuple[dict[str, str], ...]:
        """The same rows less the baseline's accuracy, trial by trial: what the strategies' common start allows."""
        return _tabulate(compare(self.rounds, BASELINE), f"less {BASELINE}", "{:+}")

    def to_json(self) -> dict[str, Any]:
        """Settings, means and every round of every trial, in plain types."""
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
    """A row a strategy, a column a round from the first on."""
    rows: dict[str, dict[str, str]] = {}
    for point in points:
        row = rows.setdefault(point.strategy, {corner: point.strategy})
        if point.round > 0:
            row[f"{point.labeled:,} labels"] = form.format(point)
    return tuple(rows.values())


def run_demo(out: str | Path, *, seeds: int = 5, quick: bool = False, progress: Progress | None = None) -> DemoResult:
    """Run the demo over `seeds` trials and write the report to `out`, one HTML file; a former one is replaced.

    `quick` runs a toy of the same shape. `progress(phase, done)` is told what is going on and which part, 0 to 1, is
    done. Needs the extra `sklearn`.
    """
    began = time.perf_counter()
    checks.integer(seeds, "seeds", least=1)
    report = check_target(out)  # before the long work, not after
    settings = QUICK if quick else FULL
    clock = _Clock(progress, total=seeds * (CLUSTER_SHARE + len(STRATEGIES) * settings.plan.rounds))
    clock.tell("growing the pool")
    digits = load_redundant_digits(settings.originals)
    trials = tuple(
        _run_trial(digits, settings, trial, f"trial {trial + 1} of {seeds}", clock) for trial in range(seeds)
    )
    clock.tell("writing the report")
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
    clock.tell("done")
    return result


class _Clock:
    """Counts the work done, for whoever watches."""

    def __init__(self, progress: Progress | None, total: float) -> None:
        self.progress, self.total, self.done = progress, total, 0.0

    def tell(self, phase: str, *, after: float = 0.0) -> None:
        """Say that `after` more of the work is done and what comes now."""
        self.done += after
        if self.progress is not None:
            self.progress(phase, min(1.0, self.done / self.total))


def _run_trial(digits: RedundantDigits, settings: Settings, trial: int, place: str, clock: _Clock) -> Trial:
    task, plan, trainer = digits.task, settings.plan, settings.trainer
    clock.tell(f"{place}: clustering {task.n:,} images")
    start = begin(task, trainer, plan, trial=trial)
    clock.tell(f"{place}: first model", after=CLUSTER_SHARE)
    rounds: list[Round] = []
    for name, strategy in STRATEGIES.items():
        for done in play(task, trainer, plan, start, strategy, name=name):
            rounds.append(done)
            clock.tell(f"{place}: {name}", after=float(done.round > 0))
    return Trial(start.clusters.average_size, start.cluster_seconds, tuple(rounds))


def _count_originals(trials: Sequence[Trial], digits: RedundantDigits) -> dict[str, tuple[int, ...]]:
    """How many different originals each strategy's first batch holds: the images that are not copies of another."""
    return {
        name: tuple(len(np.unique(digits.origins[_find_first_batch(trial, name).rows])) for trial in trials)
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
        f"Which {plan.batch_rows:,} images to label next, {plan.rounds} times over? A pool of {result.pool_rows:,} "
        f"digits, grown from {result.settings.originals:,} originals by small turns, shifts and noise, a few of them "
        f"copied hundreds of times. Every strategy starts from the same {plan.seed_rows:,} labels; "
        f"{_count(len(result.trials), 'trial')}."
    )
    return compose_page(
        "hedgerow demo: choosing from a redundant pool",
        lead,
        [
            Section("Accuracy by labels", _tell_curves(result)),
            Section("The same in numbers", _tell_numbers(result)),
            Section("What each strategy picked in round one", _show_batches(result, digits)),
            Section("Time", render_table(_tell_times(result)) + _explain_times(result)),
            Section("Settings", render_facts(_tell_settings(result))),
        ],
    )


def _tell_curves(result: DemoResult) -> str:
    """The outcome in words, best first, and the curves from the first batch on: before it all strategies are one."""
    seed_set, *_ = result.points
    last = [point for point in result.points if point.round == result.settings.plan.rounds]
    told = "; ".join(f"{point.strategy}: {point}" for point in sorted(last, key=lambda point: -point.mean))
    band = " Bands are one standard error on either side." if len(result.trials) > 1 else ""
    sentence = (
        f"The first model, from {seed_set.labeled:,} labels, has {seed_set}. After {last[0].labeled:,} labels, {told}."
    ).replace(" ± ", "&nbsp;±&nbsp;")  # a mean and its error stay on one line
    return f"<p>{sentence}{band}</p>" + draw_curves([point for point in result.points if point.round > 0])


def _tell_numbers(result: DemoResult) -> str:
    trials = len(result.trials)
    errors = f"Mean ± standard error over {trials} trials" if trials > 1 else "One trial, so no standard errors"
    return (
        f"{render_table(result.table)}<p>{errors}. Originals in batch 1: how many really different images the first "
        "batch bought; the rest are copies of one another.</p>"
        f"{render_table(result.differences)}<p>The same less {BASELINE}'s accuracy in the same trial, which shared "
        "its seed set, first model and clusters. A difference of one or two standard errors may be chance.</p>"
    )


def _show_batches(result: DemoResult, digits: RedundantDigits) -> str:
    cards = []
    for name in STRATEGIES:
        rows = _find_first_batch(result.trials[0], name).rows
        origins = digits.origins[rows]
        sentence = f"{len(np.unique(origins)):,} originals among {len(rows):,} images"
        cards.append((name, sentence, paint_tiles(digits.images[rows].reshape(-1, SIDE, SIDE), origins)))
    return (
        "<p>The whole batch of the first trial. Copies of one original stand side by side on a tint, the most copied "
        "first; an image on white is the only one of its original.</p>" + render_cards(cards)
    )


def _tell_times(result: DemoResult) -> list[dict[str, str]]:
    """Mean seconds a round, by strategy."""
    rows = []
    for name in STRATEGIES:
        bought = [done for done in result.rounds if done.strategy == name and done.round > 0]
        mean = {part: np.mean([getattr(done, f"{part}_seconds") for done in bought]) for part in PARTS}
        rows.append({"strategy": name} | {part: f"{mean[part]:.3f}" for part in PARTS})
    return rows


def _explain_times(result: DemoResult) -> str:
    seconds = np.mean([trial.cluster_seconds for trial in result.trials])
    return (
        f"<p>Mean seconds a round. Clustering the pool, once a trial and for all strategies: {seconds:.1f} s. "
        f"The whole demo: {result.seconds:.0f} s.</p>"
    )


def _tell_settings(result: DemoResult) -> dict[str, str]:
    settings, plan, trainer = result.settings, result.settings.plan, result.settings.trainer
    size = np.mean([trial.average_size for trial in result.trials])
    layers = "-".join(str(width) for width in (SIDE * SIDE, *trainer.hidden, trainer.classes))
    return {
        "pool": f"{result.pool_rows:,} images from {settings.originals:,} originals (scikit-learn's digits)",
        "test": f"{result.test_rows:,} images from other originals",
        "labels": f"{plan.seed_rows:,} at the start, then {plan.rounds} rounds of {plan.batch_rows:,}",
        "model": f"perceptron {layers}, {trainer.steps} steps of {trainer.batch_rows} by Adam, from scratch each round",
        "clusters": (
            f"average linkage ({plan.method}, {plan.metric}) of the first model's last hidden layer, "
            f"average size {size:.1f}"
        ),
        "strategies": "; ".join(f"{name}: {strategy!r}" for name, strategy in STRATEGIES.items()),
        "trials": f"seeds 0 to {len(result.trials) - 1}" if len(result.trials) > 1 else "seed 0",
        "version": f"hedgerow {__version__}",
    }


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
