"""A recipe run: all trials x batch sizes x strategies, a file a round, resumable at any point with the same results.

A trial's strategies share its seed set, first model and clusters (paper, section 3.3); what is on disk is not done
again. A run that goes on from the middle of a strategy trains the model of the last complete round again, from its
rows and seed (`rounds.revive`), and so comes to the rounds that an uninterrupted run has. With `jobs` the trials are
shared out over processes; a worker whose parent is gone ends itself.

What it does not do: compare strategies (`findings.py`).
"""

import hashlib
import json
import multiprocessing
import os
import platform
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow import __version__, checks
from hedgerow.checkpoints import open_checkpoints
from hedgerow.clusters import Clusters
from hedgerow.errors import EngineError, InputError, StoreError
from hedgerow.experiments.datasets import Dataset
from hedgerow.experiments.recipes import Arm, Clustering, Recipe, load_recipe
from hedgerow.experiments.records import Held, Ledger, list_results, read_run, write_results
from hedgerow.models import Trainer
from hedgerow.rounds import Round, State, Task, cluster_pool, open_trial, revive, take_turn
from hedgerow.store import atomic_write
from hedgerow.threads import available

Progress = Callable[[str, float], None]
LOOK_SECONDS = 1.0  # how often the files of workers are counted, for progress


@dataclass(frozen=True)
class Job:
    """What a process needs to run trials. `dataset` and `trainer` are given where the recipe names none."""

    recipe: Recipe
    ledger: Ledger
    data: Path | None
    cache: Path
    threads: int
    dataset: Dataset | None = None
    trainer: Trainer | None = None

    def load(self, progress: Progress | None = None) -> tuple[Dataset, Trainer]:
        dataset = self.dataset or self.recipe.dataset.load(self.data, self.cache, progress)
        return dataset, self.trainer or self.recipe.model.make_trainer(dataset, self.data)


def run_experiment(
    recipe: Recipe | str | Path,
    out: str | Path,
    *,
    data: str | Path | None = None,
    cache: str | Path | None = None,
    jobs: int = 1,
    trials: int | None = None,
    dataset: Dataset | None = None,
    trainer: Trainer | None = None,
    progress: Progress | None = None,
) -> Held:
    """Run a recipe, or what is left of it, in the folder `out`, and write its results there.

    recipe: a `Recipe`, a TOML file, or the name of a recipe that comes with the package. data: the folder with the
    dataset's files; cache: where features are kept, `cache` in that folder if not given. jobs: processes that share
    the trials; trials: how many, if not as in the recipe (more can be asked for later). dataset, trainer: your own, in
    place of the recipe's; with several jobs they must be picklable. The folder knows its recipe and its data, but not
    a trainer of your own: with another one, take another folder.
    """
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe)
    jobs = checks.integer(jobs, "jobs", least=1)
    trials = recipe.trials if trials is None else checks.integer(trials, "trials", least=1)
    data = None if data is None else Path(data)
    _check(recipe, data, dataset, trainer)
    folder = _check_folder(Path(out))
    kept = Path(cache) if cache is not None else (data or folder) / "cache"
    threads = max(1, available() // jobs)
    job = Job(recipe, Ledger(folder), data, kept, threads, dataset, trainer)
    loaded = job.load(progress)
    recipe.check(len(loaded[0].labels))
    _claim(folder, recipe, loaded[0])
    watch = _Watch(job, trials, progress)
    if jobs == 1:
        run_trials(job, range(trials), loaded=loaded, tell=watch.tell)
    else:
        _share_out(job, trials, jobs, watch)
    held = read_run(folder)
    write_results(folder, list_results(held))
    return held


def run_trials(
    job: Job,
    trials: Sequence[int],
    *,
    loaded: tuple[Dataset, Trainer] | None = None,
    tell: Callable[[str], None] | None = None,
) -> None:
    """Every round of these trials that is not on disk yet."""
    dataset, trainer = loaded or job.load()
    for trial in trials:
        _Trial(job, dataset.task, trainer, trial, tell or _ignore).run()


@dataclass
class _Trial:
    """One trial under way: what its strategies share is made when the first of them asks for it."""

    job: Job
    task: Task
    trainer: Trainer
    number: int
    tell: Callable[[str], None]
    opened: State | None = None
    clusters: dict[Clustering, Clusters] = field(default_factory=dict)

    def run(self) -> None:
        first = self.begin()
        for batch_rows in self.job.recipe.batch_rows:
            for arm in self.job.recipe.strategies:
                self.play(first, arm, batch_rows)

    def begin(self) -> Round:
        """Round 0, from its file or made now."""
        ledger, path = self.job.ledger, self.job.ledger.name_seed(self.number)
        first = ledger.read_round(path)
        if first is None:
            self.tell(f"trial {self.number + 1}: first model")
            plan = self.job.recipe.plan(self.job.recipe.batch_rows[0])
            self.opened, first = open_trial(self.task, self.trainer, plan, trial=self.number)
            ledger.write_round(path, first)
        return first

    def play(self, first: Round, arm: Arm, batch_rows: int) -> None:
        """The rounds of one strategy that are missing."""
        recipe, ledger = self.job.recipe, self.job.ledger
        done = ledger.read_arm(self.number, arm.slug, batch_rows, recipe.rounds)
        if len(done) == recipe.rounds:
            return
        state = self.find_state(first, done)
        clusters = self.find_clusters(first, arm) if "clusters" in arm.needs else None
        for number in range(len(done) + 1, recipe.rounds + 1):
            self.tell(f"trial {self.number + 1}: {arm.name}, batches of {batch_rows:,}, round {number}")
            turn = Round(self.number, arm.name, number, 0, {}, first.rows)
            state, after = take_turn(self.task, self.trainer, state, clusters, arm.strategy, batch_rows, turn)
            ledger.write_round(ledger.name_round(self.number, arm.slug, batch_rows, number), after)

    def find_state(self, first: Round, done: Sequence[Round]) -> State:
        """The model of the last round that is complete; that of the seed set is trained once."""
        if not done:
            if self.opened is None:
                self.opened = revive(self.task, self.trainer, first.rows, trial=self.number, number=0)
            return self.opened
        rows = np.concatenate([first.rows, *(one.rows for one in done)])
        return revive(self.task, self.trainer, rows, trial=self.number, number=done[-1].round)

    def find_clusters(self, first: Round, arm: Arm) -> Clusters:
        """The clusters a strategy asks for: made once a trial, kept in a file."""
        how = arm.clusters
        path = self.job.ledger.name_clusters(self.number, how)
        if how not in self.clusters and path.exists():
            self.clusters[how] = Clusters.load(path)
        if how not in self.clusters:
            self.tell(f"trial {self.number + 1}: clustering {self.task.n:,} rows ({how.method})")
            plan = self.job.recipe.plan(self.job.recipe.batch_rows[0], how)
            made, seconds = cluster_pool(self.task, self.find_state(first, ()), plan, threads=self.job.threads)
            self.job.ledger.write_clusters(path, made, seconds)
            self.clusters[how] = made
        return self.clusters[how]


class _Watch:
    """Tells whoever watches which part of the rounds is on disk."""

    def __init__(self, job: Job, trials: int, progress: Progress | None) -> None:
        recipe = job.recipe
        self.ledger, self.progress = job.ledger, progress
        self.trials = trials
        self.total = trials * (1 + len(recipe.strategies) * len(recipe.batch_rows) * recipe.rounds)

    def tell(self, place: str) -> None:
        if self.progress is not None:
            done = self.ledger.count_rounds()
            self.progress(
                f"{place} ({done:,} of {self.total:,} rounds, {self.trials} trials)", min(1.0, done / self.total)
            )

    def look(self) -> None:
        """What the newest file says."""
        if self.progress is None:
            return
        paths = list(self.ledger.folder.glob("trials/*/*/[0-9]*.parquet"))
        newest = max(paths, key=lambda path: path.stat().st_mtime_ns, default=None)
        place = "starting"
        if newest is not None:
            place = f"trial {int(newest.parts[-3]) + 1}: {newest.parts[-2]}, round {newest.stem}"
        self.tell(place)


def _share_out(job: Job, trials: int, jobs: int, watch: _Watch) -> None:
    """Run the trials in processes, each with its share; the first error ends them all."""
    shares = [range(number, trials, jobs) for number in range(min(jobs, trials))]
    context = multiprocessing.get_context("spawn")  # a fork would copy threads that hold locks
    with ProcessPoolExecutor(len(shares), mp_context=context, initializer=_end_with_parent) as processes:
        waiting = {processes.submit(run_trials, job, share) for share in shares}
        try:
            while waiting:
                done, waiting = wait(waiting, timeout=LOOK_SECONDS, return_when="FIRST_COMPLETED")
                watch.look()
                for future in done:
                    future.result()
        except BrokenProcessPool as error:
            raise EngineError("a worker process was ended from outside: run the same command to go on") from error
        finally:
            if waiting:
                _stop(processes)


def _stop(processes: ProcessPoolExecutor) -> None:
    """End the workers at once: every round they finished is on disk. A shutdown alone would wait for their trials."""
    for process in list((processes._processes or {}).values()):
        process.terminate()
    processes.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """Have this worker end when its parent does, however that came about; an interrupt is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has a parent"

    def watch() -> None:
        wait_for([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


# Before anything runs.


def _check(recipe: Recipe, data: Path | None, dataset: Dataset | None, trainer: Trainer | None) -> None:
    """Refuse what cannot be run: parts that are missing, files that are, sizes that the pool cannot serve."""
    for name, given in (("dataset", dataset), ("model", trainer)):
        if given is None and getattr(recipe, name) is None:
            raise InputError(f"the recipe {recipe.name!r} has no {name}: give one, as dataset=... or trainer=...")
    rows = len(dataset.labels) if dataset is not None else recipe.dataset.check(data)
    if data is not None and not data.is_dir():
        raise InputError(f"the data folder {data} does not exist")
    recipe.check(rows)
    if trainer is None:
        recipe.model.check(data)


def _check_folder(out: Path) -> Path:
    if out.exists() and not out.is_dir():
        raise StoreError(f"{out} is not a folder: name a folder to write the run to")
    if not out.absolute().parent.is_dir():
        raise StoreError(f"{out} cannot be made: the folder {out.absolute().parent} does not exist")
    return out


def _claim(folder: Path, recipe: Recipe, dataset: Dataset) -> None:
    """Make the folder this run's, or find that it is; the number of trials may grow."""
    labels = hashlib.sha256(np.ascontiguousarray(dataset.labels, np.int64).tobytes()).hexdigest()
    flat = dataset.features.reshape(len(dataset.features), -1)
    open_checkpoints(folder, flat, {"recipe": recipe.describe(), "labels": labels, "version": __version__})
    if not (folder / "about.json").exists():
        told = {"reproduces": recipe.reproduces, "takes": recipe.takes, "machine": describe_machine()}
        with atomic_write(folder / "about.json") as beside:
            beside.write_text(json.dumps(told, indent=2))


def describe_machine() -> dict[str, Any]:
    """Where and with what a run was started."""
    from importlib.metadata import PackageNotFoundError, version

    told: dict[str, Any] = {
        "cores": available(),
        "processor": platform.machine(),
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "hedgerow": __version__,
    }
    for name in ("numpy", "torch", "scikit-learn"):
        try:
            told[name] = version(name)
        except PackageNotFoundError:
            continue
    return told


def _ignore(place: str) -> None:
    """Nobody watches."""
