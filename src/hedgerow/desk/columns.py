"""The columns that a template shows, copied from their table once, so that single rows are found and read quickly.

Tables are made for reading as a whole: a CSV file has no index, and a row group of a Parquet file may have a million
rows. A desk reads thirty rows at a time, by id. So the columns are written into the campaign's folder in small row
groups, with the ids in ascending order beside them; what is there from an earlier run is used again until the table
changes. Memory of a desk: none of it, the files are mapped.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import pool, store
from hedgerow.desk.media import cut_text
from hedgerow.errors import InputError, StoreError
from hedgerow.pool import Ids, Table
from hedgerow.pool.copies import copy_rows
from hedgerow.pool.sources import file_kind, find_files, is_url, title_of

GROUP_ROWS = 256  # a row group is read for one row
VERSION = "1"  # of the copies: another one makes other files
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Columns:
    """Some columns of a table, in files. index (2, n): keys in ascending order, and the row of each; None: no ids.

    texts: ids are texts, and keys their hashes.
    """

    table: Table
    index: Numbers | None
    texts: bool

    def read(self, wanted: Sequence[int | str], names: list[str]) -> list[dict[str, str] | None]:
        """The values of some columns for each id; None for ids that the table does not have."""
        rows = self._find(wanted)
        found: list[dict[str, str] | None] = [None] * len(wanted)
        known = np.flatnonzero(rows >= 0)
        for places, columns in self.table.gather(names, rows[known]):
            values = [column.to_pylist() for column in columns]
            for at, *row in zip(places.tolist(), *values, strict=True):
                found[known[at]] = {name: show(value) for name, value in zip(names, row, strict=True)}
        return found

    def _find(self, wanted: Sequence[int | str]) -> Numbers:
        """The row of each id; -1 if there is none."""
        keys = [hash_text(str(one)) if self.texts else as_number(one) for one in wanted]
        held = np.array([key is not None for key in keys], np.bool_)
        numbers = np.array([key or 0 for key in keys], np.int64)
        if self.index is None:
            return np.where(held & (numbers >= 0) & (numbers < self.table.n), numbers, -1)
        sorted_, rows = self.index
        if not len(sorted_):
            return np.full(len(wanted), -1)
        at = np.minimum(np.searchsorted(sorted_, numbers), len(sorted_) - 1)
        return np.where(held & (sorted_[at] == numbers), rows[at], -1)


def as_number(id_: int | str) -> int | None:
    """An id as a number that fits into 64 bits; None if it is none."""
    number = int(id_) if isinstance(id_, int) or (id_.isascii() and id_.isdecimal() and len(id_) < 20) else None
    return number if number is not None and abs(number) < 1 << 63 else None


def hash_text(text: str) -> int:
    """64 bits that are the same in every process, as a signed number."""
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


# Files.


def open_columns(source: str | Path, folder: Path) -> Columns:
    """The columns of a table file, from their copy in a folder. It is made if there is none of the table as it is."""
    files = find_files(source, "fields")
    if file_kind(files[0]) not in ("CSV", "JSON lines", "Parquet"):
        raise InputError(f"{source} has no named columns: give a CSV, JSON lines or Parquet file")
    place = _digest(files)
    path = folder / f"columns-{place}-{_digest(map(_read_stamp, files))}.parquet"
    index = path.with_suffix(".npy")
    title = title_of(source)
    if is_url(files[0]) or not (path.exists() and index.exists()):
        _copy(files, title, path, index)
        for old in folder.glob(f"columns-{place}-*"):
            if old not in (path, index):
                old.unlink(missing_ok=True)
    table = _open_copy(path, title)
    ids = pool.find_ids(table)
    if ids is None:
        return Columns(table, None, texts=False)
    return Columns(table, np.load(index, mmap_mode="r", allow_pickle=False), _is_text(ids))


def _open_copy(path: Path, title: str) -> Table:
    opened = pool.open_source(path, "fields")
    assert isinstance(opened, Table)
    return replace(opened, title=title)


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join([VERSION, *parts]).encode()).hexdigest()[:16]


def _read_stamp(file: str) -> str:
    """What changes when a file does; of a URL nothing is known."""
    if is_url(file):
        return ""
    found = Path(file).stat()
    return f"{found.st_size} {found.st_mtime_ns}"


def _copy(files: list[str], title: str, path: Path, index: Path) -> None:
    """The index is written last: where it is, the copy is complete."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"the folder {path.parent} cannot be made: {error.strerror or error}") from error
    index.unlink(missing_ok=True)
    with store.atomic_write(path) as temporary:
        copy_rows(files, title, temporary, GROUP_ROWS, show)
    try:
        keys = _list_keys(_open_copy(path, title))
    except InputError:
        path.unlink()
        raise
    with store.atomic_write(index) as temporary, temporary.open("wb") as file:
        np.save(file, keys)


def _list_keys(table: Table) -> Numbers:
    """(2, n): the keys of all ids, ascending, and their rows; nothing if there are no ids."""
    ids = pool.find_ids(table)
    if ids is None:
        return np.empty((2, 0), np.int64)
    ids.refuse_duplicates()
    keys = np.empty(ids.n, np.int64)
    for start, values in ids.chunks():
        keys[start : start + len(values)] = [hash_text(one) for one in values] if _is_text(ids) else values
    order = np.argsort(keys, kind="stable")
    if (keys[order][1:] == keys[order][:-1]).any():  # once in 400,000 tables of ten million rows
        raise InputError(f"{ids.title}: two ids have one hash; change one of them")
    return np.stack([keys[order], order])


def _is_text(ids: Ids) -> bool:
    return ids.dtype == np.object_


# Values.


def show(value: Any) -> str:
    """A value as text: nothing for null, JSON for lists and records."""
    if value is None:
        return ""
    return cut_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
