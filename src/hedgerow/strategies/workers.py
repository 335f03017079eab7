"""Partitions of BADGE and CoreSet on the workers of an engine: the same batch as in one process, to the last bit.

The driver copies the rows of each part to files, in the pool's own number type, because the rows of a part are
scattered over the pool. A task picks from one part, and writes the places of its picks. The parts and their random
numbers follow from the seed, never from the engine; a part that has its picks is not worked on again.
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow import __version__
from hedgerow.clustering.parts import Record, is_there, load_column, map_column, name_part, run_once, save_columns
from hedgerow.engines import Engine
from hedgerow.errors import InputError
from hedgerow.kernels import freeze
from hedgerow.machine import team as use_team
from hedgerow.pool.blocks import copy_rows, take_rows
from hedgerow.progress import Progress
from hedgerow.shards import open_folder
from hedgerow.store.checkpoints import open_checkpoints
from hedgerow.strategies.badge import Badge
from hedgerow.strategies.coreset import CoreSet, measure_lengths
from hedgerow.strategies.partitions import Part, Rows, fill_up
from hedgerow.strategies.view import View

MATRICES = ("embeddings", "probabilities")  # of a view; those that the strategy does not need are None

Job = dict[str, Any]


def check_parts(strategy: Any, name: str) -> Badge | CoreSet:
    """A strategy that can run on an engine, refused if it cannot."""
    if not isinstance(strategy, Badge | CoreSet):
        raise InputError(
            f"{name} does not run on an engine: it needs none. Engines are for badge and coreset with partitions"
        )
    if strategy.partitions == 1:
        raise InputError(f"{name} runs on an engine in parts: set partitions, by default 1, to the number of them")
    return strategy


def pick_on_engine(
    strategy: Badge | CoreSet, view: View, k: int, rng: np.random.Generator, name: str, engine: str | Engine | None,
    workdir: str | Path | None, report: Progress,
) -> Rows:  # fmt: skip
    """The rows that `strategy(view, k, rng)` picks."""
    parts = [part for part in strategy.plan(view, k, rng) if part.share]
    with open_folder(engine, workdir) as (opened, folder):
        if workdir is not None:
            held = [matrix for matrix in (view.embeddings, view.probabilities) if matrix is not None]
            settings = {"strategy": name, **asdict(strategy), "k": k, "seeds": [part.seed for part in parts]}
            open_checkpoints(folder, [*held, view.mask], {**settings, "version": __version__})
        write_parts(strategy, view, parts, folder)
        threads = None if opened.name == "serial" else 1
        jobs = [
            {"folder": str(folder), "part": number, "share": part.share, "seed": part.seed, "threads": threads,
             "centers": number_centers(parts, number)}
            for number, part in enumerate(parts)
        ]  # fmt: skip

        def look(done: int) -> None:
            report(f"selecting: {done:,} of {len(jobs):,} parts", done / len(jobs))

        opened.map(pick_part, jobs, setup=partial(hold, strategy), workdir=folder, progress=look)
        picked = [part.rows[load_column(name_part(folder, "picks", p), "places")] for p, part in enumerate(parts)]
        for path in (*folder.glob("rows-*.npy"), *folder.glob("centers-*.npy")):
            path.unlink()
    return fill_up(np.concatenate(picked), view, k, rng, name)


def number_centers(parts: Sequence[Part], number: int) -> int:
    """The first part with the same labeled rows, which has their file."""
    return next(other for other, part in enumerate(parts) if part.centers is parts[number].centers)


def write_parts(strategy: Badge | CoreSet, view: View, parts: Sequence[Part], folder: Path) -> None:
    """Copy the rows of all parts that have no picks yet, and the labeled rows that they keep away from."""
    missing = [p for p in range(len(parts)) if not _mark(folder, p).exists()]
    for number in missing:
        copy_part(strategy, view, parts[number].rows, name_part(folder, "rows", number))
    if isinstance(strategy, CoreSet):
        for number in sorted({number_centers(parts, p) for p in missing}):
            copy_part(strategy, view, parts[number].centers, name_part(folder, "centers", number))


def copy_part(strategy: Badge | CoreSet, view: View, rows: Rows, stem: Path) -> None:
    """Copy these rows of a view to files. Rows without a direction are refused here, where their number is known."""
    matrices = {name: matrix for name in MATRICES if (matrix := getattr(view, name)) is not None}
    if is_there(stem, matrices):
        return
    columns = {name: take_rows(matrix, rows) for name, matrix in matrices.items()}
    if isinstance(strategy, CoreSet) and strategy.metric == "cosine":
        measure_lengths(copy_rows(columns["embeddings"], np.arange(len(rows))), rows)
    save_columns(stem, columns)


def _mark(folder: Path | str, part: int) -> Path:
    return name_part(folder, "picks", part).with_suffix(".json")


# In a worker.

_held: list[Badge | CoreSet] = []


def hold(strategy: Badge | CoreSet) -> None:
    """Keep the strategy, for the tasks that follow."""
    for module in ("seeding", "centers"):  # before a team, which can only limit the threads of a BLAS that is loaded
        importlib.import_module(f"hedgerow.strategies.{module}")
    _held[:] = [strategy]


def pick_part(job: Job) -> Record:
    """The picks from one part, as places among its rows."""
    strategy, folder, part = _held[0], Path(job["folder"]), int(job["part"])

    def work() -> Record:
        view = open_part(strategy, name_part(folder, "rows", part))
        with use_team(job["threads"]) as threads:
            given = None
            if isinstance(strategy, CoreSet):
                near = open_part(strategy, name_part(folder, "centers", int(job["centers"])))
                given = strategy.prepare(near, near.unlabeled_rows(), threads)
            pick: Callable[..., Rows] = strategy.pick
            places = pick(view, view.unlabeled_rows(), given, job["share"], np.random.default_rng(job["seed"]), threads)
        save_columns(name_part(folder, "picks", part), {"places": places})
        return {"rows": view.n, "picked": len(places)}

    return run_once(_mark(folder, part), work)


def open_part(strategy: Badge | CoreSet, stem: Path) -> View:
    """The rows that `copy_part` wrote, as a view."""
    matrices: dict[str, Any] = {name: freeze(map_column(stem, name)) for name in MATRICES if name in strategy.needs}
    return View(len(matrices["embeddings"]), **matrices)
