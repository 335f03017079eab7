"""The folder of a run: one file per round, complete or absent, from which everything else is derived.

    run.json                          the recipe and the data that the folder belongs to; another run is refused
    about.json                        what the recipe reproduces, and the machine and commit it was started with
    trials/000/seed.parquet           round 0: the seed set, and the scores of the first model
    trials/000/clusters-<how>.parquet clusters of the pool
    trials/000/<strategy>-<batch size>/1.parquet   a round: what was picked, in pick order, and the scores after it
    trials/000/check-<batch size>.json   with pairs: the scores of a model trained in one go on all uniform labels

A round file has the columns `row` and `label`, or `pair` and `answer` where (row, class) pairs are labeled: a row is a
position in the pool, a pair a position in the task's `Pairs`. The scores are in the file's metadata. Models are not
stored: a run that resumes trains them again, from the same labels and seeds to the same weights. `results.parquet` and
`results.csv` are written from these files.

Summaries and folders of earlier versions, with `seed_rows` and `batch_rows`, can be read too.
"""

import ast
import csv
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow import pool
from hedgerow.clustering.clusters import METADATA_KEY, Clusters
from hedgerow.errors import InputError, StoreError
from hedgerow.experiments.recipes import name_slug
from hedgerow.metrics import PAIR_METRICS
from hedgerow.pairs import PAIR_STRATEGIES
from hedgerow.rounds import NOTHING, Check, Clustering, Round
from hedgerow.store import UNREADABLE, atomic_write, hold_lock
from hedgerow.store.checkpoints import refuse_damage
from hedgerow.strategies import STRATEGIES

ROUND_KEY = "hedgerow.round"
SECONDS_KEY = "hedgerow.seconds"
TIMES = ("predict_seconds", "select_seconds", "train_seconds")
WHERE = ("dataset", "strategy", "batch_size", "trial", "round", "labeled", "metric", "value", "seconds")
COLUMNS = (*WHERE, *TIMES, "select_bytes")  # -1 where the system does not report memory
ROUND_COLUMNS = ("trial", "strategy", "round", "labeled", *TIMES, "select_bytes")  # of a summary, besides scores
LABEL_COLUMNS = {"row": "label", "pair": "answer"}
PROSE = ("reproduces", "takes", "reported_savings")  # keys of a recipe that change no result
ABOUT: Mapping[str, Any] = {"reproduces": "", "takes": "", "reported_savings": {}, "machine": {}}  # without about.json
SUMMARY_KINDS = {"recipe": dict, "machine": dict, "clusters": list, "unfinished": list, "rounds": dict}
RECIPE_KINDS = {"name": str, "strategies": list, "batch_size": list, "rounds": int, "metric": str}
KINDS = {dict: "a table", list: "a list", str: "text", int: "a whole number"}
RENAMED = {"seed_rows": "seed_size", "batch_rows": "batch_size"}  # keys of recipes and results, before and now
RENAMED_TRAINING = {"batch_rows": "minibatch"}
BEFORE = {"row_margin": "top2-all"}  # what strategies for pairs did before they had the option


@dataclass(frozen=True)
class Ledger:
    """The files of a run: an `Archive` for trials. `unit` is what gets a label, "row" or "pair".

    The rounds of an `old` run have one column, `row`, also for pairs, and no labels: they can be reported, not resumed.
    """

    folder: Path
    unit: str = "row"
    old: bool = False

    def name_seed(self, trial: int) -> Path:
        return self.folder / "trials" / f"{trial:03}" / "seed.parquet"

    def name_round(self, trial: int, strategy: str, batch_size: int, number: int) -> Path:
        return self.name_seed(trial).parent / f"{name_slug(strategy)}-{batch_size}" / f"{number}.parquet"

    def name_clusters(self, trial: int, how: Clustering) -> Path:
        settings = [how.method, how.metric, f"{how.average_size:g}", *([how.join_by] if how.join_by else [])]
        return self.name_seed(trial).parent / f"clusters-{'-'.join(settings)}.parquet"

    def read_first(self, trial: int) -> Round | None:
        return self._read(self.name_seed(trial), (trial, "", 0))

    def read_rounds(self, trial: int, strategy: str, batch_size: int) -> list[Round]:
        found: list[Round] = []
        while True:
            number = len(found) + 1
            path = self.name_round(trial, strategy, batch_size, number)
            done = self._read(path, (trial, strategy, number), batch_size)
            if done is None:
                return found
            found.append(done)

    def write_round(self, done: Round, batch_size: int) -> None:
        path = self.name_seed(done.trial)
        if done.round > 0:
            path = self.name_round(done.trial, done.strategy, batch_size, done.round)
        path.parent.mkdir(parents=True, exist_ok=True)
        facts = {
            "trial": done.trial,
            "strategy": done.strategy,
            "round": done.round,
            "labeled": done.labeled,
            "values": dict(done.values),
            **{name: getattr(done, name) for name in (*TIMES, "select_bytes")},
        }
        columns = {self.unit: done.picked, LABEL_COLUMNS[self.unit]: done.labels}
        pool.write_table(path, columns, {ROUND_KEY: json.dumps(facts)}, force=True)

    def _read(self, path: Path, expected: tuple[int, str, int], batch_size: int | None = None) -> Round | None:
        """The round of a trial, a strategy and a number, None if there is no file; a file of another one is refused."""
        if not path.exists():
            return None
        with refuse_file(path):
            facts = json.loads(pool.read_metadata(path)[ROUND_KEY])
            names = ("row",) if self.old else (self.unit, LABEL_COLUMNS[self.unit])
            picked, *labels = (pool.as_vector(path, name, column=name).astype(np.int64) for name in names)
            done = Round(picked=picked, labels=labels[0] if labels else NOTHING, **facts)
        if (done.trial, done.strategy, done.round) != expected or batch_size not in (None, len(picked)):
            held = _name_round(done.trial, done.strategy, done.round, len(picked))
            # Where a seed set is of another trial, the clusters and the rounds beside it may be, too.
            what = "this file" if expected[2] else "its folder"
            raise StoreError(
                f"{path} holds {held}, not {_name_round(*expected, batch_size)}: delete {what} and run again"
            )
        return done

    def name_check(self, trial: int, batch_size: int) -> Path:
        return self.name_seed(trial).parent / f"check-{batch_size}.json"

    def read_check(self, trial: int, batch_size: int) -> Check | None:
        path = self.name_check(trial, batch_size)
        if not path.exists():
            return None
        with refuse_file(path):
            done = Check(**json.loads(path.read_text()))
        if (done.trial, done.batch_size) != (trial, batch_size):
            raise StoreError(
                f"{path} holds the check of trial {done.trial} with batches of {done.batch_size:,}: delete this file "
                "and run again"
            )
        return done

    def write_check(self, done: Check) -> None:
        with atomic_write(self.name_check(done.trial, done.batch_size)) as beside:
            beside.write_text(json.dumps(asdict(done)))

    def share_clusters(
        self, trial: int, how: Clustering, make: Callable[[], tuple[Clusters, float]]
    ) -> tuple[Clusters, float]:
        """Clusters from their file; made and written first if it is not there, by one process at a time."""
        path = self.name_clusters(trial, how)
        path.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(path.with_name(f".{path.stem}.lock")):
            if not path.exists():
                made, seconds = make()
                metadata = {METADATA_KEY: json.dumps(made.settings()), SECONDS_KEY: json.dumps(seconds)}
                pool.write_table(path, {"cluster": made.labels}, metadata, force=True)
                return made, seconds
        with refuse_file(path):
            return Clusters.load(path), json.loads(pool.read_metadata(path)[SECONDS_KEY])

    def count_rounds(self) -> int:
        """The number of round files, seed sets included."""
        return len(self.find_files("seed.parquet")) + len(self.find_files("*/[0-9]*.parquet"))

    def list_trials(self) -> list[int]:
        """The trials that were begun. A folder with the number of one, but another name than its folder, is refused."""
        for path in self.find_files("*"):
            proper = self.name_seed(int(path.parent.name)).parent
            if path.parent != proper:
                raise StoreError(
                    f"{path.parent} is not the folder of a trial; that of trial {int(proper.name)} is called "
                    f"{proper.name}: move {path.parent.name} elsewhere, or delete it"
                )
        return sorted(int(path.parent.name) for path in self.find_files("seed.parquet"))

    def find_files(self, pattern: str) -> list[Path]:
        """The files of all trials; a folder that is not called by a number, such as a copy of a trial, is none."""
        found = self.folder.glob(f"trials/*/{pattern}")
        return sorted(path for path in found if path.relative_to(self.folder).parts[1].isdecimal())


@contextmanager
def refuse_file(path: Path) -> Iterator[None]:
    """Report a file of a run that cannot be read as damaged: a run without it makes it again."""
    try:
        yield
    except UNREADABLE as error:
        raise StoreError(f"{path} is damaged ({error}): delete this file and run again") from error


def _name_round(trial: int, strategy: str, number: int, labels: int | None) -> str:
    what = f"round {number} of {strategy!r} in trial {trial}" if number else f"the seed set of trial {trial}"
    return what if labels is None else f"{what} ({labels:,} labels)"


def check_kinds(table: Mapping[str, Any], kinds: Mapping[str, type]) -> None:
    """Refuse a table from JSON that has no such keys, or whose values are of other kinds."""
    for key, kind in kinds.items():
        if not isinstance(table[key], kind):
            raise InputError(f"{key} must be {KINDS[kind]}, got {table[key]!r}")


@dataclass(frozen=True)
class Held:
    """Everything a run's folder has, read back; from a summary, without what was picked."""

    recipe: dict[str, Any]
    machine: dict[str, Any]
    rounds: dict[int, tuple[Round, ...]]  # by batch size: every round of every complete trial, round 0 first
    clusters: tuple[dict[str, Any], ...]  # trial, settings and seconds of every clustering
    unfinished: tuple[int, ...]  # trials with missing rounds
    fingerprint: (
        str | None
    )  # of data, settings and version; None if a summary of an older version has no comparable one
    checks: tuple[Check, ...] = ()  # of the complete trials; none where rows are labeled, and in older runs

    @property
    def numbers(self) -> tuple[int, ...]:
        """The complete trials."""
        return tuple(sorted({done.trial for done in next(iter(self.rounds.values()))}))

    @property
    def trials(self) -> int:
        """The number of complete trials."""
        return len(self.numbers)


def read_run(folder: str | Path) -> Held:
    """The complete trials of a run so far."""
    folder = Path(folder)
    if not (folder / "run.json").is_file():
        raise InputError(f"{folder} is not the folder of an experiment: pass the --out of `hedgerow experiment run`")
    with refuse_damage(folder):
        owner = json.loads((folder / "run.json").read_text())
        old = has_old_names(owner["settings"]["recipe"])
        recipe = update_recipe(owner["settings"]["recipe"])
        ledger = Ledger(folder, owner["settings"].get("unit", "row"), old=old)
    about = _read_about(folder / "about.json")
    machine = about.pop("machine")
    begun = ledger.list_trials()
    rounds: dict[int, list[Round]] = {batch_size: [] for batch_size in recipe["batch_size"]}
    unfinished = []
    for trial in begun:
        found = {batch_size: _read_trial(ledger, trial, recipe, batch_size) for batch_size in rounds}
        if any(several is None for several in found.values()):
            unfinished.append(trial)
            continue
        for batch_size, several in found.items():
            rounds[batch_size] += several or []
    if len(unfinished) == len(begun):
        raise InputError(f"{folder} has no complete trial yet: continue it with `hedgerow experiment run`")
    return Held(
        recipe | about,
        machine,
        {batch_size: tuple(several) for batch_size, several in rounds.items()},
        tuple(_read_clusterings(ledger)),
        tuple(unfinished),
        None if old else owner["fingerprint"],
        tuple(
            check
            for trial in begun
            if trial not in unfinished
            for batch_size in rounds
            if (check := ledger.read_check(trial, batch_size)) is not None
        ),
    )


def _read_about(path: Path) -> dict[str, Any]:
    """The description of a run; without its file, an empty one."""
    about = dict(ABOUT)
    if path.is_file():
        with refuse_file(path):
            about |= json.loads(path.read_text())
            check_kinds(about, {key: type(empty) for key, empty in ABOUT.items()})
    return about


def _read_trial(ledger: Ledger, trial: int, recipe: dict[str, Any], batch_size: int) -> list[Round] | None:
    """All rounds of a trial with one batch size; None if some are missing."""
    first = ledger.read_first(trial)
    assert first is not None, "trials are listed by their seed sets"
    found: list[Round] = []
    for arm in recipe["strategies"]:
        rounds = ledger.read_rounds(trial, arm["name"], batch_size)[: recipe["rounds"]]
        if len(rounds) < recipe["rounds"]:
            return None
        found += [replace(first, strategy=arm["name"]), *rounds]
    return found


def _read_clusterings(ledger: Ledger) -> Iterator[dict[str, Any]]:
    for path in ledger.find_files("clusters-*.parquet"):
        with refuse_file(path):
            metadata = pool.read_metadata(path)
            settings, seconds = json.loads(metadata[METADATA_KEY]), json.loads(metadata[SECONDS_KEY])
        yield {"trial": int(path.parent.name), **settings, "seconds": seconds}


def load_summary(path: Path) -> dict[str, Any]:
    """The content of a summary.json, with the present names if it was written with older ones."""
    try:
        summary: dict[str, Any] = json.loads(path.read_text())
        if has_old_names(summary["recipe"]):
            summary |= {
                "recipe": update_recipe(summary["recipe"]),
                "findings": [_rename(found, RENAMED) for found in summary["findings"]],
                "sweep": {of: list(map(_update_mark, marks)) for of, marks in summary["sweep"].items()},
                "rounds": _rename(summary["rounds"], RENAMED),
                "fingerprint": None,  # it covered the old names, so it cannot be compared
            }
        return summary
    except (*UNREADABLE, AttributeError) as error:
        raise InputError(f"{path} is not the summary.json of an experiment: {error!r}") from error


def has_old_names(recipe: Mapping[str, Any]) -> bool:
    """Whether a stored recipe was written before sizes were named `seed_size` and `batch_size`."""
    return any(name in recipe for name in RENAMED)


def update_recipe(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """A stored recipe with the present names of its settings."""
    updated = _rename(recipe, RENAMED)
    if isinstance(updated.get("model"), dict):
        updated["model"] = {
            key: _rename(value, RENAMED_TRAINING) if isinstance(value, dict) else value
            for key, value in updated["model"].items()
        }
    return updated


def _update_mark(point: Mapping[str, Any]) -> dict[str, Any]:
    """A point over batch sizes, whose `labeled` was the batch size."""
    return {"series": point["strategy"], "x": point["labeled"], "y": point["mean"], "error": point["error"]}


def _rename(table: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in table.items()}


def read_summary(path: Path) -> Held:
    """The results in the `summary.json` of a run whose folder is elsewhere, or deleted."""
    summary = load_summary(path)
    try:
        check_kinds(summary, SUMMARY_KINDS)
        return Held(
            summary["recipe"],
            summary["machine"],
            restore_rounds(summary),
            tuple(summary["clusters"]),
            tuple(summary["unfinished"]),
            summary.get("fingerprint"),
            restore_checks(summary),
        )
    except (*UNREADABLE, AttributeError) as error:
        reason = str(error) if isinstance(error, InputError) else repr(error)
        raise InputError(f"{path} is not the summary.json of an experiment: {reason}") from error


def restore_rounds(summary: Mapping[str, Any]) -> dict[int, tuple[Round, ...]]:
    """The rounds of a summary by batch size, without what was picked. Each must be there exactly once."""
    recipe, columns = summary["recipe"], summary["rounds"]
    check_kinds(recipe, RECIPE_KINDS)
    for arm in recipe["strategies"]:
        check_kinds({"a strategy": arm}, {"a strategy": dict})
        check_kinds(arm, {"name": str, "strategy": str})
    for name in (recipe["metric"], "batch_size", *ROUND_COLUMNS):
        if name not in columns:
            raise InputError(f"its rounds have no {name}")
    rounds: dict[int, list[Round]] = {batch_size: [] for batch_size in recipe["batch_size"]}
    for cells in zip(*columns.values(), strict=True):
        one = dict(zip(columns, cells, strict=True))
        _check_numbers(one)
        where = {name: one.pop(name) for name in ROUND_COLUMNS}
        batch_size = one.pop("batch_size")
        if batch_size not in rounds:
            raise InputError(f"batches of {batch_size} are not in its recipe")
        rounds[batch_size].append(Round(values=one, picked=NOTHING, **where))
    _check_complete(recipe, rounds)
    return {batch_size: tuple(several) for batch_size, several in rounds.items()}


def _check_numbers(one: Mapping[str, Any]) -> None:
    """The columns of a round in a summary are numbers, except the strategy, and memory that is not known."""
    for name, value in one.items():
        if name == "strategy" or (name == "select_bytes" and value is None):
            continue
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise InputError(f"{name} must be a number, got {value!r}")


def _check_complete(recipe: Mapping[str, Any], rounds: Mapping[int, Sequence[Round]]) -> None:
    """Every trial has each round of each strategy of the recipe once, with each batch size."""
    trials = sorted({done.trial for several in rounds.values() for done in several})
    if not trials:
        raise InputError("it has no rounds")
    names = [arm["name"] for arm in recipe["strategies"]]
    expected = Counter(product(names, trials, range(recipe["rounds"] + 1)))
    for batch_size, several in rounds.items():
        counts = Counter((done.strategy, done.trial, done.round) for done in several)
        for key in expected | counts:
            if counts[key] != expected[key]:
                name, trial, number = key
                raise InputError(
                    f"round {number} of {name!r} in trial {trial}, batches of {batch_size:,}, is there {counts[key]} "
                    f"times instead of {expected[key]}"
                )


def restore_checks(summary: Mapping[str, Any]) -> tuple[Check, ...]:
    """The checks of the training in a summary; those of earlier versions have none."""
    return tuple(Check(**one) for one in summary.get("checks", ()))


def join_runs(runs: Sequence[Held]) -> Held:
    """Merge runs of one recipe on the same data, each with its own trials."""
    first, *others = runs
    for other in others:
        if list_settings(other.recipe) != list_settings(first.recipe):
            raise InputError(f"runs with different recipes or settings cannot be merged: {_name_changes(first, other)}")
        if None not in (marks := {first.fingerprint, other.fingerprint}) and len(marks) > 1:
            raise InputError("runs with different data or versions cannot be merged")
        if both := set(first.numbers) & set(other.numbers):
            raise InputError(
                f"trial {min(both)} is in two of the runs: run other trials, with first_trial (--first-trial)"
            )
        first = replace(
            first,
            machine=join_tables(first.machine, other.machine),
            rounds={size: (*several, *other.rounds[size]) for size, several in first.rounds.items()},
            clusters=(*first.clusters, *other.clusters),
            unfinished=tuple(sorted({*first.unfinished, *other.unfinished} - {*first.numbers, *other.numbers})),
            fingerprint=first.fingerprint or other.fingerprint,
            checks=(*first.checks, *other.checks),
        )
    return first


def list_settings(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that results depend on, in the types of JSON, with all options of the strategies spelled out."""
    settings: dict[str, Any] = json.loads(json.dumps({key: recipe[key] for key in recipe if key not in PROSE}))
    for arm in settings["strategies"]:
        arm["strategy"] = _spell_out(arm["strategy"], BEFORE if settings["metric"] in PAIR_METRICS else {})
    return settings


def _spell_out(strategy: str, before: Mapping[str, Any]) -> str:
    """The repr of a strategy with all options: those it lacks are as in `before`, or have their defaults."""
    kinds = {kind.__name__: kind for kind in (*STRATEGIES.values(), *PAIR_STRATEGIES.values())}
    try:
        call = ast.parse(strategy, mode="eval").body
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in kinds:
            options = {str(option.arg): ast.literal_eval(option.value) for option in call.keywords}
            kind = kinds[call.func.id]
            known = {option.name for option in fields(kind)}
            return repr(kind(**{key: before[key] for key in before if key in known} | options))
    except (SyntaxError, ValueError, TypeError):  # a strategy of the user's own
        pass
    return strategy


def _name_changes(one: Held, other: Held) -> str:
    ours, theirs = list_settings(one.recipe), list_settings(other.recipe)
    if ours["name"] != theirs["name"]:
        return f"{ours['name']} and {theirs['name']}"
    changed = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
    return f"{ours['name']} differs in {', '.join(changed)}"


def join_tables(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """One table; where two differ, it has the values of both, each once."""
    joined = {}
    for key in dict.fromkeys((*one, *other)):
        given = [table[key] for table in (one, other) if table.get(key) is not None]
        parts = dict.fromkeys(part for value in given for part in str(value).split(" and "))
        joined[key] = given[0] if len({*map(str, given)}) == 1 else " and ".join(parts) or None
    return joined


def list_results(held: Held) -> list[dict[str, Any]]:
    """One row per value of every round, with the columns of `COLUMNS`."""
    dataset = (held.recipe["dataset"] or {}).get("name", held.recipe["name"])
    rows = []
    for batch_size, rounds in held.rounds.items():
        for done in rounds:
            times = {name: getattr(done, name) for name in TIMES}
            where = {"dataset": dataset, "strategy": done.strategy, "batch_size": batch_size, "trial": done.trial}
            where |= {"round": done.round, "labeled": done.labeled}
            memory = -1 if done.select_bytes is None else done.select_bytes
            for metric, value in done.values.items():
                scores = {"metric": metric, "value": value, "seconds": sum(times.values())}
                rows.append({**where, **scores, **times, "select_bytes": memory})
    return rows


def write_results(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write results.parquet and results.csv, each atomically."""
    columns = {name: np.array([row[name] for row in rows]) for name in COLUMNS}
    pool.write_table(folder / "results.parquet", columns, {}, force=True)
    with atomic_write(folder / "results.csv") as beside, beside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
