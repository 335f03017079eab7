"""Parquet files as small records: paths and row offsets, from which any range of rows is read."""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import InputError
from hedgerow.pool.frames import trim
from hedgerow.pool.sources import as_absolute, is_url, open_file, reading

BUFFER_BYTES = 1 << 20  # the size of a Parquet page with most writers


@dataclass(frozen=True)
class ParquetFile:
    """A Parquet file by its path or URL, and where its row groups begin."""

    path: str
    groups: tuple[int, ...]  # the first row of each row group, and at last the number of rows

    def __reduce__(self) -> tuple[type["ParquetFile"], tuple[str, tuple[int, ...]]]:
        return ParquetFile, (as_absolute(self.path), self.groups)

    @property
    def n(self) -> int:
        """How many rows."""
        return self.groups[-1]

    def batches(self, columns: list[str], rows: int, start: int, stop: int) -> Iterator[Any]:
        """Reads only the row groups that overlap the rows from start to stop."""
        first = bisect_right(self.groups, start) - 1
        wanted = [group for group in range(first, len(self.groups) - 1) if self.groups[group] < stop]
        with self._open() as file:
            found = file.iter_batches(batch_size=rows, columns=columns, row_groups=wanted)
            yield from trim(found, start - self.groups[first], stop - start)

    def batches_with(self, wanted: npt.NDArray[np.int64], columns: list[str], rows: int) -> Iterator[tuple[int, Any]]:
        """(first row, record batch) of the row groups that hold some of these rows, which ascend."""
        with self._open() as file:
            for group in np.unique(np.searchsorted(self.groups, wanted, "right") - 1).tolist():
                start, stop = self.groups[group : group + 2]
                if stop - start <= rows:  # a row group at once takes half the time
                    batches = file.read_row_group(group, columns, use_threads=False).to_batches()
                else:
                    batches = file.iter_batches(batch_size=rows, columns=columns, row_groups=[group])
                for batch in batches:
                    yield start, batch
                    start += batch.num_rows

    @contextmanager
    def _open(self) -> Iterator[Any]:
        import pyarrow.parquet as pq

        # Without both options the reader holds a row group's columns whole, and a file may be one row group.
        with (
            reading(self.path, "Parquet"),
            open_file(self.path) as opened,
            pq.ParquetFile(
                opened, metadata=_find_footer(self.path), buffer_size=BUFFER_BYTES, pre_buffer=False
            ) as file,
        ):
            if file.metadata.num_rows != self.n:
                raise InputError(f"{self.path} has changed since it was opened: open it again")
            yield file


@dataclass(frozen=True)
class ParquetData:
    """Parquet files of the same columns, one below the other."""

    files: tuple[ParquetFile, ...]
    schema: Any

    @property
    def n(self) -> int:
        """How many rows."""
        return sum(file.n for file in self.files)

    def batches(self, columns: list[str], rows: int, start: int, stop: int) -> Iterator[Any]:
        """The rows from start to stop in order, as record batches of 1 to `rows` rows."""
        first = 0
        for file in self.files:
            low, high = max(start - first, 0), min(stop - first, file.n)
            first += file.n
            if low < high:
                yield from file.batches(columns, rows, low, high)

    def batches_with(self, wanted: npt.NDArray[np.int64], columns: list[str], rows: int) -> Iterator[tuple[int, Any]]:
        """(first row, record batch) of the row groups that hold some of these rows, which ascend."""
        first = 0
        for file in self.files:
            low, high = np.searchsorted(wanted, [first, first + file.n])
            if low < high:
                for start, batch in file.batches_with(wanted[low:high] - first, columns, rows):
                    yield first + start, batch
            first += file.n


def _find_footer(path: str) -> Any:
    """The footer of a local file, kept while the file is what it was: of ten million rows it takes 10 ms to read."""
    if is_url(path):
        return None
    found = Path(path).stat()
    return _read_footer(path, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=4)
def _read_footer(path: str, size: int, changed: int) -> Any:
    """size, changed: of the file, so that another one is not taken for it."""
    import pyarrow.parquet as pq

    return pq.read_metadata(path)


def open_parquet(paths: list[str]) -> ParquetData:
    """The files as one table; they must have the same columns. Only their footers are read."""
    import pyarrow.parquet as pq

    files: list[ParquetFile] = []
    schema = None
    for path in paths:
        with reading(path, "Parquet"), open_file(path) as opened, pq.ParquetFile(opened) as file:
            rows = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
            found = file.schema_arrow.remove_metadata()
        schema = schema or found
        if _describe_fields(found) != _describe_fields(schema):
            raise InputError(
                f"{path} and {paths[0]} have different columns or types: files that are read as one must agree"
            )
        files.append(ParquetFile(path, (0, *np.cumsum(rows, dtype=np.int64).tolist())))
    return ParquetData(tuple(files), schema)


def _describe_fields(schema: Any) -> dict[str, Any]:
    return {field.name: field.type for field in schema}
