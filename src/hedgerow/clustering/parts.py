"""Arrays in files, in numbered parts: what tasks on an engine read and write.

A part is one `.npy` file per column, complete or absent, and a mark that is written after them: a task that finds its
mark does nothing. No task writes a file that another one of the same phase reads.
"""

import json
import math
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.clustering.vectors import release_pages
from hedgerow.store import atomic_write
from hedgerow.store.checkpoints import refuse_damage

Array = npt.NDArray[Any]
Columns = dict[str, Array]
Record = dict[str, Any]


def run_once(mark: Path, work: Callable[[], Record]) -> Record:
    """What `work` returned, now or when it was done before; it is JSON."""
    if not mark.exists():
        record = work()
        with atomic_write(mark) as beside:
            beside.write_text(json.dumps(record))
    with refuse_damage(mark):
        held: Record = json.loads(mark.read_text())
        return held


def name_part(folder: Path | str, name: str, part: int) -> Path:
    """The path that the files of a part begin with."""
    return Path(folder) / f"{name}-{part:05}"


def save_columns(stem: Path, columns: Mapping[str, Array]) -> None:
    """Write the columns of a part."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    for name, column in columns.items():
        with atomic_write(_name_file(stem, name)) as beside:
            np.save(beside, column, allow_pickle=False)


def is_there(stem: Path, names: Iterable[str]) -> bool:
    """Whether all of these columns of a part are written."""
    return all(_name_file(stem, name).exists() for name in names)


def map_column(stem: Path, name: str) -> Array:
    """One column of a part, mapped."""
    path = _name_file(stem, name)
    with refuse_damage(path):
        held: Array = np.load(path, mmap_mode="r", allow_pickle=False)
        return held


def load_column(stem: Path, name: str) -> Array:
    """One column of a part, in memory."""
    path = _name_file(stem, name)
    with refuse_damage(path):
        held: Array = np.load(path, allow_pickle=False)
        return held


def load_slices(stem: Path, name: str, slices: Iterable[slice]) -> list[Array]:
    """Some slices of a column, each read at its place: mapped pages would count as memory, and not as bytes read."""
    path = _name_file(stem, name)
    with refuse_damage(path), path.open("rb") as file:
        assert np.lib.format.read_magic(file) == (1, 0), "as `save_columns` wrote it"
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        first, width = file.tell(), dtype.itemsize * math.prod(shape[1:])
        taken = []
        for one in slices:
            held = np.empty((one.stop - one.start, *shape[1:]), dtype)
            file.seek(first + one.start * width)
            if file.readinto(held.reshape(-1).view(np.uint8).data) != held.nbytes:
                raise ValueError("it is shorter than its header says")
            taken.append(held)
        return taken


def _name_file(stem: Path, name: str) -> Path:
    return stem.with_name(f"{stem.name}.{name}.npy")


@dataclass(frozen=True)
class Parts:
    """Rows with the columns of all parts of one name in a folder: counts[p] rows in part p."""

    folder: str
    name: str
    counts: tuple[int, ...]

    def __len__(self) -> int:
        return sum(self.counts)

    def stem(self, part: int) -> Path:
        """The path that the files of a part begin with."""
        return name_part(self.folder, self.name, part)

    def load(self, name: str) -> Array:
        """A column of all rows."""
        return np.concatenate([load_column(self.stem(part), name) for part in range(len(self.counts))])

    def take(self, name: str, rows: npt.NDArray[np.int64]) -> Array:
        """A column of these rows, which ascend."""
        ends = np.cumsum(self.counts)
        places = np.searchsorted(rows, [0, *ends.tolist()])
        taken = []
        for part, end in enumerate(ends.tolist()):
            mine = rows[places[part] : places[part + 1]] - (end - self.counts[part])
            held = map_column(self.stem(part), name)
            taken.append(held[mine])
            release_pages(held)
        return np.concatenate(taken)


@dataclass(frozen=True)
class CellFiles:
    """Rows sorted by cell, in files: part p has the cells edges[p]:edges[p + 1] and a column `starts`."""

    folder: str
    name: str
    edges: tuple[int, ...]

    def stem(self, part: int) -> Path:
        """The path that the files of a part begin with."""
        return name_part(self.folder, self.name, part)

    def load(self, chosen: npt.NDArray[np.int64], names: Iterable[str]) -> tuple[Columns, npt.NDArray[np.int64]]:
        """Columns of the rows of these cells, which ascend, and where each cell begins among them, and the end."""
        part_of = np.searchsorted(self.edges, chosen, side="right") - 1
        columns: dict[str, list[Array]] = {name: [] for name in names}
        counts = []
        for part in np.unique(part_of).tolist():
            mine = chosen[part_of == part] - self.edges[part]
            starts = load_column(self.stem(part), "starts")
            counts.append(np.diff(starts)[mine])
            runs = np.split(mine, np.flatnonzero(np.diff(mine) > 1) + 1)
            slices = [slice(int(starts[run[0]]), int(starts[run[-1] + 1])) for run in runs]
            for name, taken in columns.items():
                taken += load_slices(self.stem(part), name, slices)
        starts = np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int64)
        return {name: np.concatenate(taken) for name, taken in columns.items()}, starts


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it, if it is there."""
    if folder.exists():
        shutil.rmtree(folder)
