"""Certified linkage on shards: workers search and merge, the driver holds tens of bytes per row.

For pools that do not fit in the memory of one machine. In a round
1. the driver trains some thousand coarse centers on a sample; a shard is a range of them. Every row goes to the shard
   of its nearest center, by way of files: a task reads a range of rows and sorts it by shard;
2. a shard collects its rows, and divides each coarse group into cells by k-means of its own. With two levels of coarse
   centers that makes three, so that sorting n rows costs about n^(4/3);
3. the points of its cells vote for the cells around them, and the driver ranks the pairs of cells of all shards;
4. a shard makes the lists of its clusters, from its own cells and those paired with them (its halo), and merges.

Clusters of the halo stand still, as they were when the round began. A and B of the shard merge if they are each other's
nearest in their lists, the halo included, and within both radii. Whatever other shards did meanwhile, a cluster Y
elsewhere is a union of clusters x of the halo, or beyond the radius, and its gap to A is the weighted mean of theirs:
never smaller than the smallest. So A and B are each other's nearest in every state that the others can reach, and
average linkage, which is reducible, makes this merge. A cluster whose nearest is in the halo waits for the next round,
where shards are drawn anew. When the clusters fit in one shard, `growth.py` goes on in memory.

Shards follow from the data, the seed and their size, never from the engine. With exact lists and slack 1 the tree is
that of average linkage; otherwise it depends on the size of shards, because a merge that waits may come after another.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.clustering import cells
from hedgerow.clustering.dendrogram import Log, join_logs
from hedgerow.clustering.layout import CELL, Search, order_rows, unite_copies
from hedgerow.clustering.merges import Active, Limits, merge_round
from hedgerow.clustering.neighbors import find_in_cells
from hedgerow.clustering.parts import (
    CellFiles,
    Columns,
    Parts,
    Record,
    load_column,
    load_slices,
    map_column,
    name_part,
    remove_folder,
    run_once,
    save_columns,
)
from hedgerow.clustering.vectors import BLOCK, Vectors, measure_half
from hedgerow.clustering.workers import (
    Job,
    Workers,
    assign_rows,
    find_halo,
    from_text,
    held,
    load_centers,
    save_centers,
    save_pairs,
    to_text,
)
from hedgerow.kernels.rows import add_rows
from hedgerow.machine import Team
from hedgerow.machine import team as use_team
from hedgerow.progress import Progress
from hedgerow.shards import count_rows

ROUND = ("round-", "active-", "sums-", "clusters-")  # folders that serve one round
SAMPLE = 64  # training points per coarse center
# A row is compared with the coarse centers below this many of the level above. With 1, three rows in ten would get into
# a wrong group at ten million rows, and pass after pass would miss their neighbors. With 16 it is one in a hundred.
NEAR = 16
BESIDE = 45  # groups whose cells are considered as neighbors: more than `cells.NEAR`, because groups are smaller
LOG = ("left", "right", "heights")
CLUSTER = ("point", "means", "half", "size")  # columns of a cluster
POINT = ("rows", "point", "size")  # columns of distinct points: rows as the pool has them, half as large as means

Report = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class Shards:
    """Where and how large: the workers, the most rows of a shard, and the folder of the run's shards.

    left_out: rows of the pool that are in no shard, because they are zero and have no direction; they never merge. The
    folder holds `base` (the pool's distinct rows by shard), the clusters after the last round, and the files of the
    round at work, which are removed when it is done.
    """

    workers: Workers
    rows: int
    folder: Path
    left_out: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def within(self, name: str) -> "Shards":
        """The same, for another part of the run."""
        return replace(self, folder=self.folder / name)

    def open_pool(self, n: int) -> Parts:
        """The pool's rows as parts, where no cluster has been made yet."""
        return Parts("", "pool", (n,))

    def find_rows(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The rows of the pool at these places among those that are not left out."""
        before = self.left_out - np.arange(len(self.left_out))  # rows in shards before each that is left out
        return places + np.searchsorted(before, places, side="right")

    def load(self, parts: Parts) -> Active:
        """Clusters in memory."""
        return Active(*(parts.load(name) for name in CLUSTER))

    def sweep(self, parts: Parts | None) -> None:
        """Remove all files except the base and these clusters."""
        for folder in self.folder.glob("*"):
            if folder.name.startswith(ROUND) and (parts is None or str(folder) != parts.folder):
                remove_folder(folder)


@dataclass(frozen=True)
class Merged:
    """What a round on shards leaves: clusters that can merge later, if any `is_open`, the merges, and how many of them
    are of equal points."""

    active: Parts
    log: Log
    is_open: bool
    copies: int


def merge_shards(
    shards: Shards, source: Parts, vectors: Vectors, search: Search, limits: Limits, turn: int, team: Team,
    progress: Progress,
) -> Merged:  # fmt: skip
    """One round: all merges that shards can make by themselves. source: the clusters, or the pool's rows."""
    folder = shards.folder / f"round-{turn:03}"
    folder.mkdir(parents=True, exist_ok=True)
    is_pool = not source.folder
    home = shards.folder / "base" if is_pool else folder
    base: Job = {"folder": str(folder), "home": str(home), "dtype": np.dtype(vectors.dtype).name, "pool": is_pool}

    def report(phase: str) -> Report:
        return lambda done: progress(f"round {turn + 1}, {phase}", done)

    edges = plan_shards(folder, source, vectors, search, shards, team)
    base["groups"] = edges
    jobs = [{**base, "part": part} for part in range(len(edges) - 1)]
    if not all(_mark(folder, "sorted", part).exists() for part in range(len(jobs))):
        ranges = list_ranges(source, shards.workers, base)
        shards.workers.map(scatter_rows, ranges, report("reading"))
        if not is_pool:
            remove_folder(Path(source.folder))  # all of it is in the files of this round: a third of the disk
        sorting = {"ranges": len(ranges), "seed": search.seed, "cell": CELL}
        shards.workers.map(collect_shard, [{**job, **sorting} for job in jobs], report("sorting"))
    for path in folder.glob("scattered-*.npy"):
        path.unlink()
    files = join_cells(folder, home, len(jobs))
    jobs = [{**job, "edges": list(files.edges)} for job in jobs]
    shards.workers.map(vote_shard, jobs, report("pairing cells"))
    save_pairs(folder, choose_pairs(folder, files, search), files.edges)
    after = shards.folder / f"active-{turn:03}"
    merging: Job = {"k": search.k, "limits": [to_text(limits.threshold), *_list(limits)], "after": str(after)}
    records = shards.workers.map(merge_shard, [{**job, **merging} for job in jobs], report("merging"))
    copies = join_logs([load_log(name_part(folder, "copies", part)) for part in range(len(jobs))])
    logs = [load_log(name_part(folder, "merges", part)) for part in range(len(jobs))]
    active = Parts(str(after), "active", tuple(int(record["kept"]) for record in records))
    return Merged(active, join_logs([copies, *logs]), any(record["open"] for record in records), len(copies))


def plan_shards(folder: Path, source: Parts, vectors: Vectors, search: Search, shards: Shards, team: Team) -> list[int]:
    """Train the coarse centers, and cut them into ranges of about so many rows: the edges of the ranges."""
    path = folder / "plan.json"

    def plan() -> Record:
        n = len(source) if source.folder else len(source) - len(shards.left_out)
        count = max(1, round((n / CELL) ** (2 / 3)))
        rng = np.random.default_rng([search.seed, n])
        chosen = np.sort(rng.choice(n, min(n, SAMPLE * count), replace=False))
        sample = source.take("means", chosen) if source.folder else vectors.take(shards.find_rows(chosen))
        centers = cells.train_centers(sample, count, rng, team)
        save_centers(folder, centers)
        weights = np.bincount(cells.assign_cells(sample, centers, team, NEAR), minlength=len(centers.fine))
        targets = np.linspace(0, len(sample), max(1, -(-n // shards.rows)) + 1)[1:-1]
        inner = 1 + np.searchsorted(np.cumsum(weights), targets)
        return {"edges": sorted({0, len(weights), *np.minimum(inner, len(weights)).tolist()})}

    edges: list[int] = run_once(path, plan)["edges"]
    return edges


def list_ranges(source: Parts, workers: Workers, base: Job) -> list[Job]:
    """One job for each range of the pool's rows, or for each part of the clusters."""
    if source.folder:
        return [{**base, "part": part, "path": str(source.stem(part))} for part in range(len(source.counts))]
    assert workers.source.matrix is not None, "the pool is in files"
    n, step = len(source), count_rows(workers.source.matrix, BLOCK)
    return [
        {**base, "part": part, "start": start, "stop": min(start + step, n)}
        for part, start in enumerate(range(0, n, step))
    ]


def join_cells(folder: Path, home: Path, parts: int) -> CellFiles:
    """The cells of all shards as one set, and their centers in a file."""
    coarse = load_centers(folder).fine
    stems = [name_part(folder, "centers", part) for part in range(parts)]
    fine = [load_column(stem, "fine") for stem in stems]
    shares = np.concatenate([load_column(stem, "shares") for stem in stems])
    (folder / "cells").mkdir(exist_ok=True)
    save_centers(
        folder / "cells", cells.Centers(coarse, np.concatenate(fine), np.repeat(np.arange(len(coarse)), shares))
    )
    edges = np.concatenate([[0], np.cumsum([len(part) for part in fine])])
    return CellFiles(str(home), "sorted", tuple(edges.tolist()))


def choose_pairs(folder: Path, files: CellFiles, search: Search) -> npt.NDArray[np.int64]:
    """The pairs of cells to compare, by the votes of all shards."""
    parts = range(len(files.edges) - 1)
    votes = np.concatenate([load_column(name_part(folder, "votes", part), "votes") for part in parts])
    sizes = np.concatenate([np.diff(load_column(files.stem(part), "starts")) for part in parts])
    return cells.rank_votes(votes, sizes, int(search.pairs * len(sizes)))


def load_log(stem: Path) -> Log:
    """Merges in files."""
    return Log(*(load_column(stem, name) for name in LOG))


def gather_shards(
    shards: Shards, labels: npt.NDArray[np.int32], point: npt.NDArray[np.int64], dtype: Any, name: str,
    measure: str = "half",
) -> Parts:  # fmt: skip
    """Clusters from the labels of all rows, with means computed from the points. point: a point of each cluster.

    measure: what `half` is the mean of, "half" of the vectors or their "norm" (`measure_half`). Clusters of rows that
    are left out are left out, unless the measure is "norm": then their means are 0.
    """
    folder, after = shards.folder / f"sums-{name}", shards.folder / f"clusters-{name}"
    parts = len(list((shards.folder / "base").glob("sorted-*.starts.npy")))
    count = len(point)
    edges = np.linspace(0, count, max(1, -(-count // shards.rows)) + 1).astype(np.int64).tolist()
    save_columns(name_part(folder, "all", 0), {"labels": labels, "point": point})
    base: Job = {"folder": str(folder), "home": str(shards.folder / "base"), "after": str(after), "edges": edges,
                 "dtype": np.dtype(dtype).name, "measure": measure, "parts": parts}  # fmt: skip
    shards.workers.map(sum_shard, [{**base, "part": part} for part in range(parts)])
    records = shards.workers.map(join_sums, [{**base, "part": part} for part in range(len(edges) - 1)])
    remove_folder(folder)
    return Parts(str(after), "active", tuple(int(record["clusters"]) for record in records))


def _mark(folder: Path | str, name: str, part: int) -> Path:
    return name_part(folder, name, part).with_suffix(".json")


def _list(limits: Limits) -> list[str]:
    return [to_text(limits.slack), to_text(limits.tolerance), to_text(limits.doubt)]


# In a worker.


def scatter_rows(job: Job) -> Record:
    """A range of the pool's rows, or a part of the clusters, sorted by shard."""
    folder, part, edges = Path(job["folder"]), int(job["part"]), job["groups"]
    stem = name_part(folder, "scattered", part)

    def work() -> Record:
        centers = load_centers(folder)
        with use_team(held().threads) as team:
            columns, group = (read_pool if job["pool"] else read_clusters)(job, centers, team)
        shard = (np.searchsorted(edges, group, side="right") - 1).astype(np.int32)
        order, ends = cells.sort_groups(shard, len(edges) - 1)
        columns["group"] = group
        save_columns(stem, {name: column[order] for name, column in columns.items()})
        return {"ends": ends.tolist()}

    return run_once(stem.with_suffix(".json"), work)


def read_pool(job: Job, centers: cells.Centers, team: Team) -> tuple[Columns, npt.NDArray[np.int32]]:
    """Some of the pool's rows, with a hash of each, and their coarse groups."""
    start, stop = int(job["start"]), int(job["stop"])
    vectors, point = held().read(start, stop, job["dtype"]), np.arange(start, stop)
    if vectors.metric == "cosine" and not (has_direction := vectors.raw.any(axis=1)).all():
        vectors, point = replace(vectors, raw=vectors.raw[has_direction]), point[has_direction]
    group, hashes = assign_rows(vectors, centers, team, NEAR)
    return {"rows": vectors.raw, "point": point, "hash": hashes}, group


def read_clusters(job: Job, centers: cells.Centers, team: Team) -> tuple[Columns, npt.NDArray[np.int32]]:
    """A part of the clusters, and their coarse groups."""
    columns = {name: load_column(Path(job["path"]), name) for name in CLUSTER}
    return columns, cells.assign_cells(columns["means"], centers, team, NEAR)


def collect_shard(job: Job) -> Record:
    """The rows of a shard, divided into cells and sorted by them; of the pool's rows, only distinct ones."""
    folder, part = Path(job["folder"]), int(job["part"])

    def work() -> Record:
        columns = collect_columns(folder, part, int(job["ranges"]), (*_names(job), "group"))
        first = int(job["groups"][part])
        group = columns.pop("group") - np.int32(first)
        rows = prepare_rows(columns["rows"], job["dtype"]) if job["pool"] else columns["means"]
        counts = np.bincount(group, minlength=int(job["groups"][part + 1]) - first)
        shares = np.where(counts > 0, np.maximum(1, np.rint(counts / int(job["cell"]))), 0).astype(np.int64)
        with use_team(held().threads) as team:
            fine, cell = divide_groups(rows, group, shares, [int(job["seed"]), len(group), first], team)
        save_columns(name_part(folder, "centers", part), {"fine": fine, "shares": shares})
        if job["pool"]:
            columns, cell, copies = drop_copies(columns, rows, cell, len(fine))
        else:
            order, _ = cells.sort_groups(cell, len(fine))
            columns, cell, copies = (
                {name: column[order] for name, column in columns.items()},
                cell[order],
                join_logs([]),
            )
        starts = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=len(fine)))]).astype(np.int64)
        save_columns(name_part(folder, "copies", part), vars(copies))
        save_columns(name_part(job["home"], "sorted", part), {**columns, "starts": starts})
        return {"rows": len(group), "kept": len(cell), "cells": len(fine)}

    return run_once(_mark(folder, "sorted", part), work)


def prepare_rows(raw: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """Rows of the pool as the metric sees them."""
    return held().prepare(raw, dtype).prepare(raw)


def _names(job: Job) -> tuple[str, ...]:
    return ("rows", "point", "hash") if job["pool"] else CLUSTER


def collect_columns(folder: Path, shard: int, ranges: int, names: Sequence[str]) -> Columns:
    """What all ranges have for a shard, in their order."""
    taken: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in names}
    for part in range(ranges):
        ends = json.loads(_mark(folder, "scattered", part).read_text())["ends"]
        for name, pieces in taken.items():
            stem = name_part(folder, "scattered", part)
            pieces += load_slices(stem, name, [slice(ends[shard], ends[shard + 1])])
    return {name: np.concatenate(pieces) for name, pieces in taken.items()}


def divide_groups(
    rows: npt.NDArray[Any], group: npt.NDArray[np.int32], shares: npt.NDArray[np.int64], seed: list[int], team: Team
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """The centers of the cells of each group g, shares[g] of them, and the cell of every row."""
    order, edges = cells.sort_groups(group, len(shares))

    def split(g: int) -> npt.NDArray[Any]:
        rng = np.random.default_rng([*seed, g])
        members = order[edges[g] : edges[g + 1]]
        sample = np.sort(rng.choice(members, min(len(members), cells.SAMPLE * shares[g]), replace=False))
        return cells.refine_centers(rows[sample], shares[g], rng)

    fine = np.concatenate([rows[:0], *team.map(split, np.flatnonzero(shares).tolist())])
    cell, ends = np.empty(len(rows), np.int32), np.concatenate([[0], np.cumsum(shares)])
    team.ranges(
        lambda lo, hi: cells.run_nearest(rows, order, edges[lo : hi + 1], fine, ends[lo : hi + 1], cell), len(shares)
    )
    return fine, cell


def drop_copies(
    columns: Columns, rows: npt.NDArray[Any], cell: npt.NDArray[np.int32], count: int
) -> tuple[Columns, npt.NDArray[np.int32], Log]:
    """The distinct rows of a shard, sorted by cell, their cells, and the merges of equal rows."""
    cell, order = order_rows(cell, columns["hash"], count)
    first, size, copies = unite_copies(rows[order], order, np.empty_like(order))
    point = columns["point"]
    kept = {"rows": columns["rows"][first], "point": point[first], "size": size}
    return kept, cell[first], replace(copies, left=point[copies.left], right=point[copies.right])


def load_clusters(
    files: CellFiles, chosen: npt.NDArray[np.int64], is_pool: bool, dtype: str
) -> tuple[Active, npt.NDArray[np.int64]]:
    """The clusters of some cells, and where each cell begins."""
    columns, starts = files.load(chosen, POINT if is_pool else CLUSTER)
    if not is_pool:
        return Active(**columns), starts
    vectors = held().prepare(columns["rows"], dtype)
    means = vectors.prepare(vectors.raw)
    return Active(columns["point"], means, vectors.half(means), columns["size"]), starts


def vote_shard(job: Job) -> Record:
    """The votes of the cells of a shard."""
    folder, part = Path(job["folder"]), int(job["part"])
    stem = name_part(folder, "votes", part)

    def work() -> Record:
        files = CellFiles(job["home"], "sorted", tuple(job["edges"]))
        lo, hi = files.edges[part], files.edges[part + 1]
        active, starts = load_clusters(files, np.arange(lo, hi), job["pool"], job["dtype"])
        centers = load_centers(folder / "cells")
        with use_team(held().threads) as team:
            groups = range(job["groups"][part], job["groups"][part + 1])
            around = cells.list_around(centers, team, groups, BESIDE)
            votes = cells.count_votes(active.means, starts, centers, around, team, lo)
        save_columns(stem, {"votes": votes.astype(np.int32)})
        return {"votes": len(votes)}

    return run_once(stem.with_suffix(".json"), work)


def merge_shard(job: Job) -> Record:
    """The merges of a shard that need no other, and its clusters that can merge later."""
    folder, part = Path(job["folder"]), int(job["part"])
    stem = name_part(folder, "merges", part)

    def work() -> Record:
        files = CellFiles(job["home"], "sorted", tuple(job["edges"]))
        chosen, own, pairs = find_halo(folder, files, part)
        active, starts = load_clusters(files, chosen, job["pool"], job["dtype"])
        limits = Limits(*map(from_text, job["limits"]))
        mine = (int(starts[own[0]]), int(starts[own[1]]))
        n, reach = len(active), limits.threshold + limits.doubt
        with use_team(held().threads) as team:
            found = find_in_cells(active.means, active.half, int(job["k"]), starts, pairs, team, reach, own=own)
            merged = merge_round(active, found, limits, team, mine)
        save_columns(name_part(job["after"], "active", part), {name: getattr(merged.active, name) for name in CLUSTER})
        save_columns(stem, vars(merged.log))
        counts = {"kept": len(merged.active), "merges": len(merged.log), "open": merged.is_open}
        return {**counts, "blocked": merged.blocked, "own": mine[1] - mine[0], "halo": n - (mine[1] - mine[0])}

    return run_once(stem.with_suffix(".json"), work)


def sum_shard(job: Job) -> Record:
    """The sums of the clusters that have rows in a shard of the base, by label."""
    folder, part = Path(job["folder"]), int(job["part"])
    stem = name_part(folder, "sums", part)

    def work() -> Record:
        source = name_part(job["home"], "sorted", part)
        labels = map_column(name_part(folder, "all", 0), "labels")[load_column(source, "point")]
        label, place = np.unique(labels, return_inverse=True)
        size, raw = load_column(source, "size"), map_column(source, "rows")
        vectors = held().prepare(raw, job["dtype"])
        sums, measured = np.zeros((len(label), raw.shape[1])), np.empty(len(labels))
        for start in vectors.starts():
            block, at = vectors.block(start), slice(start, start + BLOCK)
            measured[at] = size[at] * (vectors.half(block) if job["measure"] == "half" else measure_half(block))
            add_rows(block * size[at, None].astype(np.float64), place[at].astype(np.int32), sums)
        sizes = np.bincount(place, size, len(label)).astype(np.int64)
        half = np.bincount(place, measured, len(label))
        save_columns(stem, {"label": label, "sums": sums, "half": half, "size": sizes})
        return {"ends": np.searchsorted(label, job["edges"]).tolist()}

    return run_once(stem.with_suffix(".json"), work)


def join_sums(job: Job) -> Record:
    """The clusters with labels in a range, from the sums of all shards."""
    folder, part, dtype = Path(job["folder"]), int(job["part"]), np.dtype(job["dtype"])
    stem = name_part(job["after"], "active", part)

    def work() -> Record:
        lo, hi = int(job["edges"][part]), int(job["edges"][part + 1])
        total: Columns = {}
        for shard in range(int(job["parts"])):
            ends = json.loads(_mark(folder, "sums", shard).read_text())["ends"]
            mine = slice(ends[part], ends[part + 1])
            held_sums = {name: load_slices(name_part(folder, "sums", shard), name, [mine])[0]
                         for name in ("label", "sums", "half", "size")}  # fmt: skip
            place = held_sums.pop("label") - lo
            for name, column in held_sums.items():
                into = total.setdefault(name, np.zeros((hi - lo, *column.shape[1:]), column.dtype))
                into[place] += column
        size = np.maximum(total["size"], 1)
        means, half = (total["sums"] / size[:, None]).astype(dtype), (total["half"] / size).astype(dtype)
        point = np.array(map_column(name_part(folder, "all", 0), "point")[lo:hi])
        columns = {"point": point, "means": means, "half": half, "size": total["size"]}
        if job["measure"] == "half" and not (in_shards := total["size"] > 0).all():
            columns = {name: column[in_shards] for name, column in columns.items()}
        save_columns(stem, columns)
        return {"clusters": len(columns["point"])}

    return run_once(stem.with_suffix(".json"), work)
