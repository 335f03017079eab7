"""A recipe run: all trials x batch sizes x strategies, a file a round, resumable at any point with the same results.

A trial's strategies share its seed set, first model and clusters (paper, section 3.3); what is on disk is not done
again. A run that goes on from the middle of a strategy trains the model of the last complete round again, from its
rows and seed (`rounds.revive`), and so comes to the rounds that an uninterrupted run has. With `jobs` the strategies
are shared out over processes, one trial's before the next's; a worker whose parent is gone ends itself.

What it does not do: compare strategies (`findings.py`).
"""

import json
import multiprocessing
import os
import platform
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any

from hedgerow import __version__, checks
from hedgerow.clustering.clusters import Clusters
from hedgerow.errors import EngineError, InputError, StoreError
from hedgerow.experiments.data.annotations import MultiLabel
from hedgerow.experiments.data.datasets import Dataset
from hedgerow.experiments.recipes import Arm, Clustering, Recipe, load_recipe
from hedgerow.experiments.records import PROSE, Held, Ledger, list_results, read_run, write_results
from hedgerow.machine import available
from hedgerow.models import QuestionTrainer, Trainer
from hedgerow.rounds import Round, State, cluster_pool, open_trial, revive, take_turn
from hedgerow.store import atomic_write
from hedgerow.store.checkpoints import open_checkpoints
from hedgerow.tasks import Playable

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
    dataset: Dataset | MultiLabel | None = None
    trainer: Trainer | QuestionTrainer | None = None

    def load(self, progress: Progress | None = None) -> tuple[Dataset | MultiLabel, Trainer | QuestionTrainer]:
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
    first_trial: int = 0,
    dataset: Dataset | MultiLabel | None = None,
    trainer: Trainer | QuestionTrainer | None = None,
    progress: Progress | None = None,
) -> Held:
    """Run a recipe, or what is left of it, in the folder `out`, and write its results there.

    recipe: a `Recipe`, a TOML file, or the name of a recipe that comes with the package. data: the folder with the
    dataset's files; cache: where features are kept, `cache` in that folder if not given. jobs: processes that share
    the strategies; trials: how many, if not as in the recipe (more can be asked for later); first_trial: from which of
    them on, where another machine runs those before (`report_experiment` joins their folders). dataset, trainer: your
    own, in place of the recipe's; with several jobs they must be picklable. The folder knows its recipe and its data,
    but not a trainer of your own: with another one, take another folder.
    """
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe)
    jobs = checks.integer(jobs, "jobs", least=1)
    numbers = _number_trials(recipe.trials if trials is None else trials, first_trial)
    data = None if data is None else Path(data)
    _check(recipe, data, dataset, trainer)
    folder = _check_folder(Path(out))
    kept = Path(cache) if cache is not None else (data or folder) / "cache"
    job = Job(recipe, Ledger(folder), data, kept, max(1, available() // jobs), dataset, trainer)
    loaded, trainer = job.load(progress)
    recipe.check(loaded.task.size, loaded.task.unit)
    _claim(folder, recipe, loaded)
    watch = _Watch(job, len(numbers), progress)
    if jobs == 1:
        desk = _Desk(job, loaded.task, trainer, watch.tell)
        for turn in _list_turns(recipe, numbers):
            desk.play(*turn)
    else:
        del loaded, trainer  # the workers load their own
        _share_out(job, numbers, jobs, watch)
    held = read_run(folder)
    write_results(folder, list_results(held))
    return held


def _number_trials(trials: int, first: int) -> range:
    trials, first = checks.integer(trials, "trials", least=1), checks.integer(first, "first_trial")
    if first >= trials:
        raise InputError(f"first_trial is {first}, but {trials} trials are numbered 0 to {trials - 1}: ask for more")
    return range(first, trials)


def _list_turns(recipe: Recipe, numbers: range) -> list[tuple[int, int, int]]:
    """(trial, batch size, place of the strategy): everything there is to play, a trial whole before the next."""
    return [
        (trial, batch_rows, place)
        for trial in numbers
        for batch_rows in recipe.batch_rows
        for place in range(len(recipe.strategies))
    ]


@dataclass
class _Desk:
    """Where one process plays: the data, the trainer, and the trial under way."""

    job: Job
    task: Playable
    trainer: Any
    tell: Callable[[str], None]
    alone: AbstractContextManager[Any] = field(default_factory=nullcontext)  # held while clusters are made
    trial: "_Trial | None" = None

    def play(self, number: int, batch_rows: int, place: int) -> None:
        """The rounds of one strategy in one trial that are not on disk yet."""
        if self.trial is None or self.trial.number != number:
            self.trial = _Trial(self.job, self.task, self.trainer, number, self.tell, self.alone)
        self.trial.play(self.trial.begin(), self.job.recipe.strategies[place], batch_rows)


@dataclass
class _Trial:
    """One trial under way: what its strategies share is made when the first of them asks for it."""

    job: Job
    task: Playable
    trainer: Any
    number: int
    tell: Callable[[str], None]
    alone: AbstractContextManager[Any]
    opened: State | None = None
    clusters: dict[Clustering, Clusters] = field(default_factory=dict)

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
        if done:
            return revive(self.task, self.trainer, (first, *done))
        if self.opened is None:
            self.opened = revive(self.task, self.trainer, (first,))
        return self.opened

    def find_clusters(self, first: Round, arm: Arm) -> Clusters:
        """The clusters a strategy asks for: made once a trial, kept in a file."""
        how = arm.clusters
        path = self.job.ledger.name_clusters(self.number, how)
        if how not in self.clusters:
            with self.alone:
                self.clusters[how] = Clusters.load(path) if path.exists() else self.make_clusters(first, how, path)
        return self.clusters[how]

    def make_clusters(self, first: Round, how: Clustering, path: Path) -> Clusters:
        self.tell(f"trial {self.number + 1}: clustering {self.task.n:,} rows ({how.method})")
        plan = self.job.recipe.plan(self.job.recipe.batch_rows[0], how)
        # On all cores: the other processes are mostly those that wait for these clusters.
        made, seconds = cluster_pool(self.task, self.find_state(first, ()), plan, threads=available())
        self.job.ledger.write_clusters(path, made, seconds)
        return made


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


_given: list[Any] = []  # a worker's job, and its lock


def _share_out(job: Job, numbers: range, jobs: int, watch: _Watch) -> None:
    """Play in processes, each the next strategy that nobody has; the first error ends them all."""
    context = multiprocessing.get_context("spawn")  # a fork would copy threads that hold locks
    turns = _list_turns(job.recipe, numbers)
    with ProcessPoolExecutor(min(jobs, len(turns)), context, _sit_down, (job, context.Lock())) as processes:
        waiting = {processes.submit(_play, *turn) for turn in turns}
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


def _sit_down(job: Job, alone: AbstractContextManager[Any]) -> None:
    """What a worker does first."""
    _end_with_parent()
    _given[:] = [job, alone]


@cache
def _open_desk() -> _Desk:
    """A worker's desk; made with its first strategy, so that an error in loading is told as any other."""
    job, alone = _given
    dataset, trainer = job.load()
    return _Desk(job, dataset.task, trainer, _ignore, alone)


def _play(number: int, batch_rows: int, place: int) -> None:
    _open_desk().play(number, batch_rows, place)


def _stop(processes: ProcessPoolExecutor) -> None:
    """End the workers at once: every round they finished is on disk. A shutdown alone would wait for them."""
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


def _check(recipe: Recipe, data: Path | None, dataset: Any, trainer: Any) -> None:
    """Refuse what cannot be run: parts that are missing, files that are, sizes that the pool cannot serve."""
    for name, given in (("dataset", dataset), ("model", trainer)):
        if given is None and getattr(recipe, name) is None:
            raise InputError(f"the recipe {recipe.name!r} has no {name}: give one, as dataset=... or trainer=...")
    size = dataset.task.size if dataset is not None else recipe.dataset.check(data)
    if data is not None and not data.is_dir():
        raise InputError(f"the data folder {data} does not exist")
    if size is not None:  # else it is known once the data are read
        recipe.check(size, recipe.unit or dataset.task.unit)
    if trainer is None:
        recipe.model.check(data)


def _check_folder(out: Path) -> Path:
    if out.exists() and not out.is_dir():
        raise StoreError(f"{out} is not a folder: name a folder to write the run to")
    if not out.absolute().parent.is_dir():
        raise StoreError(f"{out} cannot be made: the folder {out.absolute().parent} does not exist")
    return out


def _claim(folder: Path, recipe: Recipe, dataset: Dataset | MultiLabel) -> None:
    """Make the folder this run's, or find that it is; the number of trials may grow."""
    open_checkpoints(folder, dataset.marks, {"recipe": recipe.describe(), "version": __version__})
    if not (folder / "about.json").exists():
        prose = {key: getattr(recipe, key) for key in PROSE}
        with atomic_write(folder / "about.json") as beside:
            beside.write_text(json.dumps(prose | {"machine": describe_machine()}, indent=2))


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
