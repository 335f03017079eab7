"""Neighbor searches on the workers of an engine: the same lists as in one process, to the last bit.

The driver writes the clusters, sorted by cell, to files. A task has a range of cells: it reads them and the cells that
are paired with them, and makes the lists of its own rows. A pair of cells in two ranges is compared twice, as the same
product of the same two matrices, so that no list has to be merged or sent. The pool's rows are sorted into cells in
ranges of whole blocks, because the rounding of a product depends on its shape.

Ranges follow from the clusters alone, so that a search that was interrupted continues on any engine. Merges are made by
the driver (`growth.py`); in `sharding.py` workers merge, too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.clustering import cells
from hedgerow.clustering.neighbors import Neighbors, find_in_cells
from hedgerow.clustering.parts import (
    CellFiles,
    Record,
    is_there,
    load_column,
    name_part,
    remove_folder,
    run_once,
    save_columns,
)
from hedgerow.clustering.vectors import BLOCK, Vectors
from hedgerow.engines import Engine
from hedgerow.kernels.rows import hash_rows
from hedgerow.machine import Team
from hedgerow.machine import team as use_team
from hedgerow.pool import Matrix
from hedgerow.shards import count_rows, mark_file
from hedgerow.store import atomic_write

LEAST_ROWS, MOST_ROWS = 50_000, 1_000_000  # per task: seconds of work, about a gigabyte of memory
TASKS = 16  # per search, unless that makes them too small or too large

Job = dict[str, Any]
Report = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class Source:
    """What tasks read the pool from. matrix: None if it is not in files. threads: of a task."""

    matrix: Matrix | None
    metric: str
    center: npt.NDArray[np.float64]
    factor: float
    threads: int | None

    def mark_files(self) -> list[list[Any]]:
        """What tells the pool's files from others: paths, sizes, times of change."""
        assert self.matrix is not None, "the pool is in files"
        return [mark_file(file) for file in self.matrix.list_files()]

    def read(self, start: int, stop: int, dtype: str) -> Vectors:
        """Some rows of the pool as vectors of this dtype."""
        assert self.matrix is not None, "the pool is in files"
        return self.prepare(self.matrix.read(start, stop), dtype)

    def prepare(self, raw: npt.NDArray[Any], dtype: str) -> Vectors:
        """Raw rows as vectors of this dtype."""
        return Vectors(raw, self.metric, np.dtype(dtype).type, self.center, self.factor)


@dataclass(frozen=True, eq=False)
class Workers:
    """An engine, the folder where its tasks write, and what they read the pool from.

    setup: one object for the whole run, because an engine starts its workers again for another one.
    """

    engine: Engine
    folder: Path
    source: Source
    setup: Callable[[], None]

    def map(self, task: Callable[[Job], Record], jobs: Sequence[Job], report: Report | None = None) -> list[Record]:
        """The records of the task for all jobs. report: called with the share done."""
        look = None if report is None else lambda done: report(done / len(jobs))
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.engine.map(task, jobs, setup=self.setup, workdir=self.folder, progress=look)

    def find_cells(
        self, n: int, centers: cells.Centers, dtype: Any, report: Report
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64]]:
        """The cell and the hash of each of n rows of the pool."""
        assert self.source.matrix is not None, "the pool is in files"
        folder, step = self._make_folder(f"cells-{np.dtype(dtype).name}"), count_rows(self.source.matrix, BLOCK)
        save_centers(folder, centers)
        starts = range(0, n, step)
        jobs = [
            {"folder": str(folder), "part": part, "start": start, "stop": min(start + step, n), "dtype": _name(dtype)}
            for part, start in enumerate(starts)
        ]
        self.map(find_range, jobs, report)
        stems = [name_part(folder, "rows", part) for part in range(len(jobs))]
        return (
            np.concatenate([load_column(stem, "cell") for stem in stems]),
            np.concatenate([load_column(stem, "hash") for stem in stems]),
        )

    def search(
        self,
        points: npt.NDArray[Any],
        half: npt.NDArray[Any],
        k: int,
        starts: npt.NDArray[np.int64],
        centers: cells.Centers,
        count: int,
        reach: float,
        team: Team,
        name: str,
        report: Report | None = None,
    ) -> Neighbors:
        """As `cells.rank_pairs` and `neighbors.find_in_cells`: the lists by the `count` best pairs of cells.

        name: of the folder of this search, which no other has.
        """
        k = min(k, max(len(points) - 1, 0))
        edges = cut_cells(starts, centers, choose_rows(len(points)))
        folder = self._make_folder(f"search-{name}")
        files = CellFiles(str(folder), "sorted", tuple(edges))
        write_cells(files, points, half, starts)
        save_centers(folder, centers)
        around = cells.list_around(centers, team)
        for part, (lo, hi) in enumerate(pairwise(edges)):
            save_columns(name_part(folder, "around", part), {"cells": around[lo:hi]})
        jobs = [{"folder": str(folder), "edges": edges, "part": part} for part in range(len(edges) - 1)]
        self.map(vote_cells, jobs)
        stems = [name_part(folder, "votes", part) for part in range(len(jobs))]
        votes = np.concatenate([load_column(stem, "votes") for stem in stems])
        save_pairs(folder, cells.rank_votes(votes, np.diff(starts), count), edges)
        self.map(search_cells, [{**job, "k": k, "reach": to_text(reach)} for job in jobs], report)
        return join_lists(folder, len(jobs), len(points), k, reach)

    def clear(self) -> None:
        """Remove the files of searches, which are of no use once the state after them is saved."""
        for pattern in ("cells-*", "search-*"):
            for folder in self.folder.glob(pattern):
                remove_folder(folder)

    def without_files(self) -> "Workers":
        """The same workers for points that are not the pool's rows: they only search."""
        return replace(self, source=replace(self.source, matrix=None))

    def _make_folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def open_workers(engine: Engine, folder: Path, matrix: Matrix | None, vectors: Vectors, threads: int | None) -> Workers:
    """The workers of an engine for this pool. threads: of a task; workers have one unless this is given."""
    threads = threads if threads is not None or engine.name == "serial" else 1
    source = Source(matrix, vectors.metric, vectors.center, vectors.factor, threads)
    return Workers(engine, folder.absolute(), source, partial(hold, source))


def choose_rows(n: int) -> int:
    """Rows of a task, from the number of clusters alone."""
    return min(MOST_ROWS, max(LEAST_ROWS, -(-n // TASKS)))


def cut_cells(starts: npt.NDArray[np.int64], centers: cells.Centers, rows: int) -> list[int]:
    """The edges of ranges of cells of about so many rows: whole coarse groups, so that few pairs cross an edge."""
    n = int(starts[-1])
    parts = max(1, -(-n // rows))
    groups = centers.edges()
    inner = groups[np.searchsorted(starts[groups], np.linspace(0, n, parts + 1)[1:-1])]
    return sorted({0, len(starts) - 1, *inner.tolist()})


def write_cells(
    files: CellFiles, points: npt.NDArray[Any], half: npt.NDArray[Any], starts: npt.NDArray[np.int64]
) -> None:
    """Write clusters in memory as files of cells, unless they are there."""
    for part, (lo, hi) in enumerate(pairwise(files.edges)):
        mine = slice(int(starts[lo]), int(starts[hi]))
        columns = {"means": points[mine], "half": half[mine], "starts": starts[lo : hi + 1] - starts[lo]}
        if not is_there(files.stem(part), columns):
            save_columns(files.stem(part), columns)


def save_centers(folder: Path, centers: cells.Centers) -> None:
    """Write the centers of cells, unless they are there."""
    path = folder / "centers.npz"
    if not path.exists():
        with atomic_write(path) as beside:
            np.savez(beside, **vars(centers))


def load_centers(folder: Path) -> cells.Centers:
    """Read what `save_centers` wrote."""
    with np.load(folder / "centers.npz", allow_pickle=False) as held:
        return cells.Centers(held["coarse"], held["fine"], held["coarse_of"])


def save_pairs(folder: Path, pairs: npt.NDArray[np.int64], edges: Sequence[int]) -> None:
    """Write for each range of cells the pairs that touch it, in the order of their rank."""
    low, high = (np.searchsorted(edges, pairs[:, side], side="right") - 1 for side in (0, 1))
    crossing = np.flatnonzero(low != high)
    place = np.concatenate([np.arange(len(pairs)), crossing])
    owner = np.concatenate([low, high[crossing]])
    order = np.lexsort([place, owner])
    ends = np.searchsorted(owner[order], np.arange(len(edges)))
    for part in range(len(edges) - 1):
        mine = place[order[ends[part] : ends[part + 1]]]
        save_columns(name_part(folder, "pairs", part), {"cells": pairs[mine]})


def join_lists(folder: Path, parts: int, n: int, k: int, reach: float) -> Neighbors:
    """The lists of all parts."""
    found: Neighbors | None = None
    start = 0
    for part in range(parts):
        stem = name_part(folder, "lists", part)
        ids, gaps = load_column(stem, "ids"), load_column(stem, "gaps")
        if found is None:
            found = Neighbors(np.empty((n, k), np.int32), np.empty((n, k), gaps.dtype), reach)
        found.ids[start : start + len(ids)], found.gaps[start : start + len(ids)] = ids, gaps
        start += len(ids)
    assert found is not None
    return found


def _name(dtype: Any) -> str:
    return str(np.dtype(dtype).name)


def to_text(number: float) -> str:
    """A float as text, because JSON has no infinity."""
    return float(number).hex()


def from_text(text: str) -> float:
    """What `to_text` was given."""
    return float.fromhex(text)


# In a worker.

_held: list[Source] = []


def hold(source: Source) -> None:
    """Keep what the pool is read from, for the tasks that follow."""
    _held[:] = [source]


def held() -> Source:
    """What the pool is read from."""
    return _held[0]


def find_range(job: Job) -> Record:
    """The cells and hashes of a range of the pool's rows."""
    folder, part, start, stop = Path(job["folder"]), int(job["part"]), int(job["start"]), int(job["stop"])
    stem = name_part(folder, "rows", part)

    def work() -> Record:
        with use_team(held().threads) as team:
            cell, hashes = assign_rows(held().read(start, stop, job["dtype"]), load_centers(folder), team)
        save_columns(stem, {"cell": cell, "hash": hashes})
        return {"rows": stop - start}

    return run_once(stem.with_suffix(".json"), work)


def assign_rows(
    vectors: Vectors, centers: cells.Centers | None, team: Team, near: int = 1
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64]]:
    """The cell of every row (0 without centers; near: see there), and a hash that is equal for equal rows."""
    n, d = vectors.raw.shape
    cell, hashes = np.zeros(n, np.int32), np.empty(n, np.uint64)
    # In words of 32 bits also for float64: as one word, a sign is the highest bit of the sum, and any two would cancel.
    words = d * np.dtype(vectors.dtype).itemsize // 4
    factors = np.random.default_rng(0).integers(0, 2**63, words, np.uint64) * 2 + 1

    def read(start: int) -> None:
        rows = vectors.block(start)
        stop = start + len(rows)
        hash_rows(rows.view(np.uint32), factors, hashes[start:stop])
        if centers is not None:
            cell[start:stop] = centers.assign(rows, near)

    team.map(read, vectors.starts())
    return cell, hashes


def vote_cells(job: Job) -> Record:
    """The votes of a range of cells."""
    folder, part = Path(job["folder"]), int(job["part"])
    stem = name_part(folder, "votes", part)

    def work() -> Record:
        files = CellFiles(str(folder), "sorted", tuple(job["edges"]))
        around = load_column(name_part(folder, "around", part), "cells")
        points, starts = load_column(files.stem(part), "means"), load_column(files.stem(part), "starts")
        with use_team(held().threads) as team:
            votes = cells.count_votes(points, starts, load_centers(folder), around, team, files.edges[part])
        save_columns(stem, {"votes": votes.astype(np.int32)})
        return {"votes": len(votes)}

    return run_once(stem.with_suffix(".json"), work)


def search_cells(job: Job) -> Record:
    """The lists of a range of cells, in the numbers of all rows."""
    folder, part = Path(job["folder"]), int(job["part"])
    stem = name_part(folder, "lists", part)

    def work() -> Record:
        files = CellFiles(str(folder), "sorted", tuple(job["edges"]))
        chosen, own, pairs = find_halo(folder, files, part)
        columns, starts = files.load(chosen, ("means", "half"))
        with use_team(held().threads) as team:
            found = find_in_cells(
                columns["means"], columns["half"], int(job["k"]), starts, pairs, team,
                from_text(job["reach"]), own=own,
            )  # fmt: skip
        mine = slice(int(starts[own[0]]), int(starts[own[1]]))
        ids = found.ids[mine]
        ids = np.where(ids >= 0, number_rows(files, chosen, starts)[ids], -1).astype(np.int32)
        save_columns(stem, {"ids": ids, "gaps": found.gaps[mine]})
        return {"own": len(ids), "halo": int(starts[-1]) - len(ids)}

    return run_once(stem.with_suffix(".json"), work)


def find_halo(
    folder: Path, files: CellFiles, part: int
) -> tuple[npt.NDArray[np.int64], tuple[int, int], npt.NDArray[np.int64]]:
    """The cells of a part and those paired with them; where its own are among these; the pairs in local numbers."""
    pairs = load_column(name_part(folder, "pairs", part), "cells")
    lo, hi = files.edges[part], files.edges[part + 1]
    chosen = np.union1d(np.arange(lo, hi), pairs.ravel())
    first, last = np.searchsorted(chosen, [lo, hi]).tolist()
    return chosen, (first, last), np.searchsorted(chosen, pairs)


def number_rows(
    files: CellFiles, chosen: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The numbers among all rows of the rows of some cells, which begin at `starts` when only these are counted."""
    first_rows = []
    base = 0
    for part in range(len(files.edges) - 1):
        held_starts = load_column(files.stem(part), "starts")
        first_rows.append(base + held_starts[:-1])
        base += int(held_starts[-1])
    offset = np.concatenate(first_rows)[chosen] - starts[:-1]
    return np.arange(starts[-1]) + np.repeat(offset, np.diff(starts))
