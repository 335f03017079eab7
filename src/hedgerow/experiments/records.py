"""The folder of a run: one file a round, each whole or absent, from which everything else follows.

    run.json                          which recipe and data the folder belongs to; another run is refused
    about.json                        what it reproduces, and where it was started
    trials/000/seed.parquet           the rows of the seed set, and what the first model reached
    trials/000/clusters-<how>.parquet clusters of the pool
    trials/000/<strategy>-<batch>/1.parquet   the rows of a round in pick order, and what the model reached after it

What a round reached stands in its file's metadata. Models are not kept: they are trained again from their rows and
seeds, to the same weights, when a run goes on. `results.parquet` and `results.csv` are written from these files.
"""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow import pool
from hedgerow.clustering.clusters import METADATA_KEY, Clusters
from hedgerow.errors import InputError
from hedgerow.experiments.recipes import Arm, Clustering
from hedgerow.rounds import Round
from hedgerow.store import UNREADABLE, atomic_write
from hedgerow.store.checkpoints import refuse_damage

ROUND_KEY = "hedgerow.round"
SECONDS_KEY = "hedgerow.seconds"
TIMES = ("predict_seconds", "select_seconds", "train_seconds")
WHERE = ("dataset", "strategy", "batch_rows", "trial", "round", "labeled", "metric", "value", "seconds")
COLUMNS = (*WHERE, *TIMES, "select_bytes")  # -1 where the system does not tell
PROSE = ("reproduces", "takes", "reported_savings")  # of a recipe: what changes no result
NO_ROWS = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Ledger:
    """The files of a run."""

    folder: Path

    def name_seed(self, trial: int) -> Path:
        return self.folder / "trials" / f"{trial:03}" / "seed.parquet"

    def name_round(self, trial: int, slug: str, batch_rows: int, number: int) -> Path:
        return self.name_seed(trial).parent / f"{slug}-{batch_rows}" / f"{number}.parquet"

    def write_round(self, path: Path, done: Round) -> None:
        """Keep a round: its rows, and what was measured."""
        path.parent.mkdir(parents=True, exist_ok=True)
        told = {
            "trial": done.trial,
            "strategy": done.strategy,
            "round": done.round,
            "labeled": done.labeled,
            "values": dict(done.values),
            **{name: getattr(done, name) for name in (*TIMES, "select_bytes")},
        }
        pool.write_table(path, {"row": done.rows}, {ROUND_KEY: json.dumps(told)}, force=True)

    def read_round(self, path: Path) -> Round | None:
        """A round as it was kept, None if it was not."""
        if not path.exists():
            return None
        told = json.loads(pool.read_metadata(path)[ROUND_KEY])
        return Round(rows=pool.as_vector(path, "rows").astype(np.int64), **told)

    def read_arm(self, trial: int, slug: str, batch_rows: int, rounds: int) -> list[Round]:
        """The rounds of one strategy that are complete, from the first on."""
        found: list[Round] = []
        for number in range(1, rounds + 1):
            done = self.read_round(self.name_round(trial, slug, batch_rows, number))
            if done is None:
                break
            found.append(done)
        return found

    def name_clusters(self, trial: int, how: Clustering) -> Path:
        return self.name_seed(trial).parent / f"clusters-{how.slug}.parquet"

    def write_clusters(self, path: Path, clusters: Clusters, seconds: float) -> None:
        """Keep clusters, and how long they took."""
        told = {METADATA_KEY: json.dumps(clusters.settings()), SECONDS_KEY: json.dumps(seconds)}
        pool.write_table(path, {"cluster": clusters.labels}, told, force=True)

    def count_rounds(self) -> int:
        """How many round files there are, seed sets counted."""
        return sum(1 for _ in self.folder.glob("trials/*/seed.parquet")) + sum(
            1 for _ in self.folder.glob("trials/*/*/[0-9]*.parquet")
        )


@dataclass(frozen=True)
class Held:
    """All that a run's folder holds, read back; of a summary, without the rows that were bought."""

    recipe: dict[str, Any]
    machine: dict[str, Any]
    rounds: dict[int, tuple[Round, ...]]  # by batch size: every round of every complete trial, round 0 first
    clusters: tuple[dict[str, Any], ...]  # trial, settings and seconds of every clustering
    unfinished: tuple[int, ...]  # trials that lack rounds
    fingerprint: str | None  # of data, settings and version; None if a summary of before does not tell

    @property
    def numbers(self) -> tuple[int, ...]:
        """The complete trials."""
        return tuple(sorted({done.trial for done in next(iter(self.rounds.values()))}))

    @property
    def trials(self) -> int:
        """How many are complete."""
        return len(self.numbers)


def read_run(folder: str | Path) -> Held:
    """What a run has measured so far: its complete trials."""
    folder = Path(folder)
    if not (folder / "run.json").is_file():
        raise InputError(f"{folder} is not the folder of an experiment: name the --out of `hedgerow experiment run`")
    ledger = Ledger(folder)
    about: dict[str, Any] = {"reproduces": "", "takes": "", "reported_savings": {}, "machine": {}}
    with refuse_damage(folder):
        owner = json.loads((folder / "run.json").read_text())
        recipe = owner["settings"]["recipe"]
        if (folder / "about.json").is_file():
            about |= json.loads((folder / "about.json").read_text())
    machine = about.pop("machine")
    begun = sorted(int(path.parent.name) for path in folder.glob("trials/*/seed.parquet"))
    rounds: dict[int, list[Round]] = {batch_rows: [] for batch_rows in recipe["batch_rows"]}
    unfinished = []
    for trial in begun:
        found = {batch_rows: _read_trial(ledger, trial, recipe, batch_rows) for batch_rows in rounds}
        if any(several is None for several in found.values()):
            unfinished.append(trial)
            continue
        for batch_rows, several in found.items():
            rounds[batch_rows] += several or []
    if len(unfinished) == len(begun):
        raise InputError(f"{folder} holds no complete trial yet: let `hedgerow experiment run` go on")
    return Held(
        recipe | about,
        machine,
        {batch_rows: tuple(several) for batch_rows, several in rounds.items()},
        tuple(_read_clusterings(folder)),
        tuple(unfinished),
        owner["fingerprint"],
    )


def _read_trial(ledger: Ledger, trial: int, recipe: dict[str, Any], batch_rows: int) -> list[Round] | None:
    """All rounds of a trial with one batch size; None if some are missing."""
    first = ledger.read_round(ledger.name_seed(trial))
    assert first is not None, "its seed set is what the trial was found by"
    found: list[Round] = []
    for told in recipe["strategies"]:
        arm = Arm(told["name"], None)
        rounds = ledger.read_arm(trial, arm.slug, batch_rows, recipe["rounds"])
        if len(rounds) < recipe["rounds"]:
            return None
        start = Round(
            first.trial, arm.name, 0, first.labeled, first.values, first.rows, train_seconds=first.train_seconds
        )
        found += [start, *rounds]
    return found


def _read_clusterings(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("trials/*/clusters-*.parquet")):
        told = pool.read_metadata(path)
        yield {
            "trial": int(path.parent.name),
            **json.loads(told[METADATA_KEY]),
            "seconds": json.loads(told[SECONDS_KEY]),
        }


def read_summary(path: Path) -> Held:
    """What `summary.json` tells of a run whose folder is elsewhere, or gone."""
    try:
        told = json.loads(path.read_text())
        return Held(
            told["recipe"],
            told["machine"],
            restore_rounds(told),
            tuple(told["clusters"]),
            tuple(told["unfinished"]),
            told.get("fingerprint"),
        )
    except (*UNREADABLE, AttributeError) as error:
        raise InputError(f"{path} is not the summary.json of an experiment: {error!r}") from error


def restore_rounds(told: Mapping[str, Any]) -> dict[int, tuple[Round, ...]]:
    """The rounds of a summary by batch size, without their rows."""
    rounds: dict[int, list[Round]] = {batch_rows: [] for batch_rows in told["recipe"]["batch_rows"]}
    columns = told["rounds"]
    for cells in zip(*columns.values(), strict=True):
        one = dict(zip(columns, cells, strict=True))
        where = {name: one.pop(name) for name in ("trial", "strategy", "round", "labeled", *TIMES, "select_bytes")}
        rounds[one.pop("batch_rows")].append(Round(values=one, rows=NO_ROWS, **where))
    return {batch_rows: tuple(several) for batch_rows, several in rounds.items()}


def join_runs(runs: Sequence[Held]) -> Held:
    """Runs of one recipe on the same data, each with trials of its own, as one."""
    first, *others = runs
    for other in others:
        if _strip(other.recipe) != _strip(first.recipe):
            raise InputError(f"runs of different recipes or settings cannot be joined: {_tell_unlike(first, other)}")
        if None not in (marks := {first.fingerprint, other.fingerprint}) and len(marks) > 1:
            raise InputError("runs on different data, or by different versions, cannot be joined")
        if both := set(first.numbers) & set(other.numbers):
            raise InputError(
                f"trial {min(both)} stands in two of the runs: run others, with first_trial (--first-trial)"
            )
        first = replace(
            first,
            machine=_join_tables(first.machine, other.machine),
            rounds={rows: (*several, *other.rounds[rows]) for rows, several in first.rounds.items()},
            clusters=(*first.clusters, *other.clusters),
            unfinished=tuple(sorted({*first.unfinished, *other.unfinished} - {*first.numbers, *other.numbers})),
            fingerprint=first.fingerprint or other.fingerprint,
        )
    return first


def _strip(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that results depend on, in the types that JSON has."""
    settings: dict[str, Any] = json.loads(json.dumps({key: recipe[key] for key in recipe if key not in PROSE}))
    return settings


def _tell_unlike(one: Held, other: Held) -> str:
    ours, theirs = _strip(one.recipe), _strip(other.recipe)
    if ours["name"] != theirs["name"]:
        return f"{ours['name']} and {theirs['name']}"
    return f"{', '.join(key for key in ours if ours[key] != theirs.get(key))} of {ours['name']} differ"


def _join_tables(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """A table with both values where two differ."""
    return {key: one[key] if one[key] == other.get(key) else f"{one[key]} and {other.get(key)}" for key in one}


def list_results(held: Held) -> list[dict[str, Any]]:
    """Every value of every round as one row, with the columns of `COLUMNS`."""
    dataset = (held.recipe["dataset"] or {}).get("name", held.recipe["name"])
    rows = []
    for batch_rows, rounds in held.rounds.items():
        for done in rounds:
            times = {name: getattr(done, name) for name in TIMES}
            where = {"dataset": dataset, "strategy": done.strategy, "batch_rows": batch_rows, "trial": done.trial}
            where |= {"round": done.round, "labeled": done.labeled}
            for metric, value in done.values.items():
                told = {"metric": metric, "value": value, "seconds": sum(times.values()), **times}
                rows.append({**where, **told, "select_bytes": -1 if done.select_bytes is None else done.select_bytes})
    return rows


def write_results(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    """results.parquet and results.csv, each whole or as it was."""
    columns = {name: np.array([row[name] for row in rows]) for name in COLUMNS}
    pool.write_table(folder / "results.parquet", columns, {}, force=True)
    with atomic_write(folder / "results.csv") as beside, beside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
