"""Run a recipe: every trial with every batch size and strategy, one file per round.

What the strategies of a trial share (the seed set, the first model, the clusters) is made once. A run that was
interrupted continues after the last complete round, whose model it trains again from the same labels and seed
(`rounds.restore`), and so reaches the same results as an uninterrupted run. An engine distributes the strategies over
workers, one trial before the next.

What it does not do: compare strategies (`findings.py`).
"""

import json
import platform
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hedgerow import __version__, checks
from hedgerow.engines import Engine, check_name, use_engine
from hedgerow.errors import InputError, StoreError
from hedgerow.experiments.data.annotations import MultiLabel
from hedgerow.experiments.data.datasets import Dataset
from hedgerow.experiments.recipes import KNOWN_METRICS, Recipe, add_controls, load_recipe
from hedgerow.experiments.records import PROSE, Held, Ledger, has_old_names, list_results, read_run, write_results
from hedgerow.machine import available
from hedgerow.models.protocol import PairTrainer, Trainer
from hedgerow.rounds import Trial
from hedgerow.store import atomic_write
from hedgerow.store.checkpoints import open_checkpoints, refuse_damage
from hedgerow.strategies import Random
from hedgerow.tasks import Task

Progress = Callable[[str, float], None]
Turn = tuple[int, int, int]  # trial, batch size, number of the strategy in the recipe

HERE = Path(__file__).resolve().parent
OLD_FOLDER = (
    "{} was written by an earlier version of hedgerow: it can be reported and merged, but not continued. Use a new "
    "folder (with --first-trial for trials that are not in the old one)"
)
WITH_CONTROLS = (
    "{} was started with controls: continue it with --with-controls (with_controls=True), or use a new folder"
)
WITHOUT_CONTROLS = "{} was started without controls: continue it without them, or use a new folder for a run with them"


@dataclass(frozen=True)
class Job:
    """Everything a process needs to run trials. `dataset` and `trainer` are set if the recipe's are not used."""

    recipe: Recipe
    ledger: Ledger
    data: Path | None
    cache: Path
    dataset: Dataset | MultiLabel | None = None
    trainer: Trainer | PairTrainer | None = None

    def load(self, progress: Progress | None = None) -> tuple[Dataset | MultiLabel, Trainer | PairTrainer]:
        dataset = self.dataset or self.recipe.dataset.load(self.data, self.cache, progress)
        return dataset, self.trainer or self.recipe.model.make_trainer(dataset, self.data)

    def located(self) -> "Job":
        """The same job with absolute paths, for workers that may run in other folders."""
        ledger = replace(self.ledger, folder=self.ledger.folder.absolute())
        data = None if self.data is None else self.data.absolute()
        return replace(self, ledger=ledger, data=data, cache=self.cache.absolute())


def run_experiment(
    recipe: Recipe | str | Path,
    out: str | Path,
    *,
    data: str | Path | None = None,
    cache: str | Path | None = None,
    jobs: int | None = None,
    engine: str | Engine | None = None,
    trials: int | None = None,
    first_trial: int = 0,
    dataset: Dataset | MultiLabel | None = None,
    trainer: Trainer | PairTrainer | None = None,
    with_controls: bool = False,
    allow_programs: bool = False,
    progress: Progress | None = None,
) -> Held:
    """Run a recipe, or what is missing of it, in the folder `out`, and write its results there.

    recipe: a `Recipe`, a TOML file, or the name of a recipe that comes with the package. data: the folder with the
    files of the dataset. cache: where features are stored, by default `cache` in that folder. jobs: the number of
    processes that share the strategies, by default 1; engine: where to run, in more general terms: "serial",
    "processes:N", "dask://host:port" (see `hedgerow.engines`), or an engine that is open. trials: the number of trials,
    by default that of the recipe; it can be increased later. first_trial: the first trial to run, if another machine
    runs the earlier ones; `report_experiment` merges their folders. dataset, trainer: your own, in place of the
    recipe's; with several processes they must be picklable, and with Dask and Ray small. The folder records its recipe
    and its data, but not a trainer of your own: use a new folder for another trainer.
    with_controls: add to every strategy that uses clusters the same strategy without them (`add_controls`), so that the
    report shows what is due to the clusters.
    allow_programs: run the program that a recipe names (a model of kind "program"); such a recipe is refused otherwise.
    """
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe)
    if with_controls:
        recipe = add_controls(recipe, None if dataset is None else dataset.task.unit)
    engine = _name_engine(jobs, engine)
    numbers = _number_trials(recipe.trials if trials is None else trials, first_trial)
    data = None if data is None else Path(data)
    if trainer is None and not allow_programs:
        refuse_programs(recipe)
    _check(recipe, data, dataset, trainer)
    folder = _check_folder(Path(out))
    kept = Path(cache) if cache is not None else (data or folder) / "cache"
    job = Job(recipe, Ledger(folder), data, kept, dataset, trainer)
    loaded, trainer = job.load(progress)
    task = loaded.task
    recipe.check(task.size, task.unit)
    _claim(folder, recipe, loaded, task.unit)
    job = replace(job, ledger=Ledger(folder, task.unit))
    job.ledger.list_trials()  # refuses folders that read_run() refuses, before the work
    _run(job, task, trainer, numbers, engine, progress)
    held = read_run(folder)
    write_results(folder, list_results(held))
    return held


def _run(job: Job, task: Task, trainer: Any, numbers: range, engine: str | Engine, progress: Progress | None) -> None:
    """Run everything that is missing: in this process, or in workers, which load the data themselves."""
    watch = _Watch(job, len(numbers), progress)
    turns = _list_turns(job.recipe, numbers)
    with use_engine(engine) as opened:
        if opened.name == "serial":
            opened.map(_Player(job, task, trainer, watch.report).play, turns)
        else:
            folder = job.ledger.folder
            opened.map(_play, turns, setup=partial(_prepare, job.located()), workdir=folder, progress=watch.look)


def _name_engine(jobs: int | None, engine: str | Engine | None) -> str | Engine:
    """`jobs` processes are the engine "processes:N"; one is "serial"."""
    if jobs is not None and engine is not None:
        raise InputError("jobs and engine both say where to run: pass one of them (--jobs 2 is --engine processes:2)")
    if engine is not None:
        return check_name(engine) if isinstance(engine, str) else engine
    jobs = checks.integer(1 if jobs is None else jobs, "jobs", least=1)
    return "serial" if jobs == 1 else f"processes:{jobs}"


def _number_trials(trials: int, first: int) -> range:
    trials, first = checks.integer(trials, "trials", least=1), checks.integer(first, "first_trial")
    if first >= trials:
        raise InputError(f"first_trial is {first}, but the {trials} trials are 0 to {trials - 1}: increase trials")
    return range(first, trials)


def _list_turns(recipe: Recipe, numbers: range) -> list[Turn]:
    """Everything there is to run, one trial after the other."""
    return [
        (trial, batch_size, place)
        for trial in numbers
        for batch_size in recipe.batch_size
        for place in range(len(recipe.strategies))
    ]


def find_uniform(recipe: Recipe) -> int | None:
    """The number of the first strategy that labels uniformly, None if there is none."""
    return next((place for place, arm in enumerate(recipe.strategies) if type(arm.strategy) is Random), None)


@dataclass
class _Player:
    """Runs turns in one process: the data, the trainer, and the current trial."""

    job: Job
    task: Task
    trainer: Any
    report: Callable[[str], None]
    trial: Trial | None = None

    def play(self, turn: Turn) -> None:
        """Run the rounds of one strategy in one trial that have no file yet.

        A model of pairs is also trained in one go on the uniform labels (`rounds.Check`), if there are any.
        """
        number, batch_size, place = turn
        recipe = self.job.recipe
        if self.trial is None or self.trial.number != number:
            plan = recipe.plan(recipe.batch_size[0])
            self.trial = Trial(self.task, self.trainer, plan, number, self.job.ledger, self.report)
        arm = recipe.strategies[place]
        rounds = self.trial.play(
            arm.strategy, name=arm.name, batch_size=batch_size, clustering=arm.clusters, stream=arm.stream
        )
        if self.task.unit == "pair" and place == find_uniform(recipe):
            self.trial.check(tuple(rounds), batch_size)
        else:
            deque(rounds, maxlen=0)  # every round is in its file: nothing to keep


# In a worker.

_player: list[_Player] = []


def _prepare(job: Job) -> None:
    dataset, trainer = job.load()
    _player[:] = [_Player(job, dataset.task, trainer, lambda phase: None)]


def _play(turn: Sequence[int]) -> None:
    number, batch_size, place = turn  # a list, if it came as JSON
    _player[0].play((number, batch_size, place))


class _Watch:
    """Reports the share of rounds that are on disk."""

    def __init__(self, job: Job, trials: int, progress: Progress | None) -> None:
        recipe = job.recipe
        self.ledger, self.progress = job.ledger, progress
        self.trials = trials
        self.total = trials * (1 + len(recipe.strategies) * len(recipe.batch_size) * recipe.rounds)

    def report(self, phase: str) -> None:
        if self.progress is not None:
            done = self.ledger.count_rounds()
            self.progress(
                f"{phase} ({done:,} of {self.total:,} rounds, {self.trials} trials)", min(1.0, done / self.total)
            )

    def look(self, finished: int) -> None:
        """Report the newest file: the workers themselves report nothing."""
        if self.progress is None:
            return
        paths = self.ledger.find_files("*/[0-9]*.parquet")
        newest = max(paths, key=lambda path: path.stat().st_mtime_ns, default=None)
        phase = "starting"
        if newest is not None:
            phase = f"trial {int(newest.parts[-3]) + 1}: {newest.parts[-2]}, round {newest.stem}"
        self.report(phase)


# Before anything runs.


def refuse_programs(recipe: Recipe) -> None:
    """A recipe whose model runs a program, or imports a module of the user's, needs permission."""
    if code := describe_code(recipe):
        raise InputError(
            f"the recipe {recipe.name!r} {code}: read it, and if you trust it pass --allow-programs "
            "(allow_programs=True in Python)"
        )


def describe_code(recipe: Recipe) -> str | None:
    """What a recipe executes besides hedgerow and its libraries, such as "runs the program python train.py"."""
    code: str | None = getattr(recipe.model, "code", None)
    return code


def _check(recipe: Recipe, data: Path | None, dataset: Any, trainer: Any) -> None:
    """Refuse what cannot be run: missing parts, missing files, sizes that are too large for the pool."""
    for name, given in (("dataset", dataset), ("model", trainer)):
        if given is None and getattr(recipe, name) is None:
            raise InputError(f"the recipe {recipe.name!r} has no {name}: pass one, as dataset=... or trainer=...")
    if dataset is not None:
        checks.option(recipe.metric, f"metric of labels of {dataset.task.unit}s", KNOWN_METRICS[dataset.task.unit])
    size = dataset.task.size if dataset is not None else recipe.dataset.check(data)
    if data is not None and not data.is_dir():
        raise InputError(f"the data folder {data} does not exist")
    if size is not None:  # otherwise it is known after the data are read
        recipe.check(size, recipe.unit or dataset.task.unit)
    if trainer is None:
        recipe.model.check(data)


def _check_folder(out: Path) -> Path:
    if out.exists() and not out.is_dir():
        raise StoreError(f"{out} is not a folder: choose a folder for the run")
    if not out.absolute().parent.is_dir():
        raise StoreError(f"{out} cannot be created: the folder {out.absolute().parent} does not exist")
    return out


def _claim(folder: Path, recipe: Recipe, dataset: Dataset | MultiLabel, unit: str) -> None:
    """Create the folder of this run, or check that it belongs to it; the number of trials may grow."""
    if (folder / "run.json").is_file():
        with refuse_damage(folder):
            stored = json.loads((folder / "run.json").read_text())["settings"]["recipe"]
            had_controls = any("control_of" in arm for arm in stored["strategies"])
        if has_old_names(stored):
            raise StoreError(OLD_FOLDER.format(folder))
        if had_controls != any(arm.control_of for arm in recipe.strategies):
            raise StoreError((WITH_CONTROLS if had_controls else WITHOUT_CONTROLS).format(folder))
    settings = {"recipe": recipe.describe(), "unit": unit, "version": __version__}
    open_checkpoints(folder, dataset.marks, settings)
    if not (folder / "about.json").exists():
        prose = {key: getattr(recipe, key) for key in PROSE}
        with atomic_write(folder / "about.json") as beside:
            beside.write_text(json.dumps(prose | {"machine": describe_machine()}, indent=2))


def describe_machine() -> dict[str, Any]:
    """The machine, the date, the versions and the commit that a run was started with."""
    machine: dict[str, Any] = {
        "cores": available(),
        "processor": platform.machine(),
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "hedgerow": __version__,
        "commit": find_commit(),
    }
    for name in ("numpy", "torch", "scikit-learn"):
        try:
            machine[name] = version(name)
        except PackageNotFoundError:
            continue
    return machine


def find_commit(folder: Path = HERE) -> str | None:
    """The commit of the source tree, with "-dirty" if tracked files were changed; None for an installed package.

    Only a repository that tracks this package counts: an environment may be inside the repository of another project.
    """
    tracked = ["ls-files", "--error-unmatch", "__init__.py"]
    describe = ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        for arguments in (tracked, describe):
            done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
