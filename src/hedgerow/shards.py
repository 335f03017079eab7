"""Ranges of rows on an engine, one file per range: what scoring and assignment have in common.

The ranges follow from the data, never from the engine, and a range that has its file is not computed again. So the
result is the same on every engine, and a run that was interrupted continues on any of them. Ranges are read from the
files of the pool, which every worker must be able to open by the same paths.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import __version__
from hedgerow.engines import Engine, use_engine
from hedgerow.errors import InputError
from hedgerow.pool import Matrix
from hedgerow.progress import Progress
from hedgerow.store import atomic_write
from hedgerow.store.checkpoints import open_checkpoints, refuse_damage

RANGE_BYTES = 1 << 28  # read per range: seconds of work, so that sending a job costs nothing

Arrays = dict[str, npt.NDArray[Any]]
Job = dict[str, Any]
Compute = Callable[[int, int], Arrays]  # (start, stop) -> what is computed of these rows; it can be pickled


def is_wanted(engine: str | Engine | None, workdir: str | Path | None) -> bool:
    """Whether the work is to be cut in ranges: not if this process would do all of it and keep nothing."""
    name = engine if engine is None or isinstance(engine, str) else engine.name
    return workdir is not None or name not in (None, "serial")


@contextmanager
def open_shards(
    engine: str | Engine | None,
    workdir: str | Path | None,
    matrix: Matrix,
    settings: Mapping[str, Any],
    data: Sequence[npt.NDArray[Any]] = (),
) -> Iterator[tuple[Engine, Path]]:
    """The engine, and the folder for the files of this run: `workdir`, or without it one that is removed at the end.

    A workdir of another run, by settings, data or the files of the matrix, is refused.
    """
    files = matrix.list_files()
    if not files:
        raise InputError(
            "an engine reads the pool from files that every worker can open: pass the path of .npy or Parquet files, "
            "not what is in memory"
        )
    with open_folder(engine, workdir) as (opened, folder):
        held = {**settings, "version": __version__, "files": [mark_file(file) for file in files]}
        open_checkpoints(folder, data, held)
        yield opened, folder


@contextmanager
def open_folder(engine: str | Engine | None, workdir: str | Path | None) -> Iterator[tuple[Engine, Path]]:
    """The engine, and the folder of a run: `workdir`, or without it a temporary one. It need not exist yet."""
    with use_engine("serial" if engine is None else engine) as opened:
        if workdir is None and opened.is_remote:
            raise InputError(f"{opened.name} needs a folder that all workers share: pass workdir=... (--workdir)")
        with tempfile.TemporaryDirectory(prefix="hedgerow-") as made:
            yield opened, (Path(made) / "shards" if workdir is None else Path(workdir)).absolute()


def mark_file(file: str) -> list[Any]:
    """The path, the size and the time of the last change; of a URL the address alone."""
    path = Path(file)
    return [file, path.stat().st_size, path.stat().st_mtime_ns] if path.is_file() else [file]


def count_rows(matrix: Matrix, step: int = 1) -> int:
    """Rows per range, a multiple of `step`."""
    return max(1, RANGE_BYTES // max(1, matrix.width * matrix.dtype.itemsize) // step) * step


def run_ranges(
    engine: Engine, folder: Path, compute: Compute, jobs: Sequence[Job], phase: str, report: Progress
) -> None:
    """Let `compute` fill the files of all ranges that are missing. folder: that of the run."""

    def look(done: int) -> None:
        report(f"{phase}: {done:,} of {len(jobs):,} ranges", done / len(jobs))

    engine.map(fill_range, jobs, setup=partial(hold, compute), workdir=folder, progress=look)


def list_ranges(folder: Path, n: int, rows: int, suffix: str) -> list[Job]:
    """One job for each range of `rows` of n rows, with the path of its file in the folder."""
    return [
        {"start": start, "stop": min(start + rows, n), "path": str(folder / f"rows-{start:012}{suffix}")}
        for start in range(0, n, rows)
    ]


def map_ranges(
    engine: Engine, folder: Path, compute: Compute, n: int, rows: int, phase: str, report: Progress
) -> Arrays:
    """What `compute` makes of all n > 0 rows, in ranges of `rows`: its arrays, one below the other."""
    jobs = list_ranges(folder, n, rows, ".npz")
    run_ranges(engine, folder, compute, jobs, phase, report)
    whole: Arrays = {}
    for job in jobs:
        with refuse_damage(Path(job["path"])), np.load(job["path"], allow_pickle=False) as held:
            for key in held.files:
                part = held[key]
                whole.setdefault(key, np.empty((n, *part.shape[1:]), part.dtype))[job["start"] : job["stop"]] = part
    return whole


# In a worker.

_held: list[Compute] = []


def hold(compute: Compute) -> None:
    """Keep what computes ranges, for the tasks that follow."""
    _held[:] = [compute]


def fill_range(job: Job) -> int:
    """Compute one range and write its file (.npz, or .npy for one array), unless it is there. The number of rows."""
    start, stop, path = int(job["start"]), int(job["stop"]), Path(job["path"])
    if not path.exists():
        arrays = _held[0](start, stop)
        with atomic_write(path) as beside:
            if path.suffix == ".npy":
                (array,) = arrays.values()
                np.save(beside, array, allow_pickle=False)
            else:
                np.savez(beside, **arrays)  # type: ignore[arg-type]
    return stop - start
