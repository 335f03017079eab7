"""Columns out: Parquet, CSV or JSON lines, chosen by the file's suffix; `-` is standard output.

A file is written whole or not at all. Only Parquet keeps metadata and exact types; CSV and JSON lines hold the columns
alone.
"""

import csv
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from hedgerow import __version__, checks, store
from hedgerow.errors import InputError, StoreError
from hedgerow.pool import sources, tables

Columns = Mapping[str, npt.NDArray[Any]]

STDOUT = "-"
SUFFIXES = (".parquet", ".csv", ".jsonl")
CHUNK = 1 << 16  # rows turned into Python objects at a time


def check_target(path: str | Path, *, force: bool, inputs: Iterable[Any] = ()) -> None:
    """Refuse a file that would not be Parquet, cannot be written or is one of the inputs; before the long work."""
    if Path(path).suffix.lower() != ".parquet":
        raise StoreError(f"{path} would be Parquet: name a file that ends in .parquet")
    _refuse_inputs(path, inputs)
    store.check_target(path, force=force)


def check_output(path: str | Path, *, force: bool, inputs: Iterable[Any] = ()) -> None:
    """Refuse a file that cannot be written or is one of the inputs; to be called before the long work."""
    if str(path) == STDOUT:
        return
    if Path(path).suffix.lower() not in SUFFIXES:
        raise StoreError(f"{path}: the suffix must be {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    _refuse_inputs(path, inputs)
    store.check_target(path, force=force)


def write_table(path: str | Path, columns: Columns, metadata: Mapping[str, str], *, force: bool = False) -> None:
    """Write one-dimensional columns of equal length as Parquet, whole or not at all."""
    import pyarrow.parquet as pq

    table = make_table(columns)
    check_target(path, force=force)
    with store.atomic_write(path, force=force) as temporary:
        stored = {"hedgerow.version": __version__, **metadata}
        pq.write_table(table.replace_schema_metadata(stored), temporary)


def write_columns(
    path: str | Path, columns: Columns, metadata: Mapping[str, str], *, force: bool = False, as_json: bool = False
) -> None:
    """Write columns of equal length in the format of the suffix. `-` prints CSV, or with `as_json` JSON lines."""
    checks.same_length({name: len(values) for name, values in columns.items()})
    if str(path) == STDOUT:
        _write_lines(sys.stdout, columns, as_json)
        return
    check_output(path, force=force)
    suffix = Path(path).suffix.lower()
    if suffix == ".parquet":
        write_table(path, columns, metadata, force=force)
        return
    with store.atomic_write(path, force=force) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        _write_lines(file, columns, suffix == ".jsonl")


def read_columns(path: str | Path, name: str) -> dict[str, npt.NDArray[Any]]:
    """The columns that `write_columns` wrote, in file order; `texts.py` says which types those of CSV have."""
    opened = tables.open_source(path, name)
    if not isinstance(opened, tables.Table):
        raise InputError(f"{name}: {path} has no named columns: a {', '.join(SUFFIXES)} file is needed")
    return {column: opened.read(column) for column in opened.types}


def read_metadata(path: str | Path) -> dict[str, str]:
    """The metadata that `write_table` stored; empty for a Parquet file without any."""
    import pyarrow.parquet as pq

    file = sources.find_file(path, "the file")
    with sources.reading(file, "Parquet"):
        found = pq.read_schema(file).metadata or {}
    return {key.decode(): value.decode(errors="replace") for key, value in found.items()}


def make_table(columns: Columns) -> Any:
    """One-dimensional columns of equal length as an Arrow table."""
    import pyarrow as pa

    checks.same_length({name: len(values) for name, values in columns.items()})
    return pa.table({name: _arrow_array(values, name) for name, values in columns.items()})


def _refuse_inputs(path: str | Path, inputs: Iterable[Any]) -> None:
    """Raises `StoreError` if the file to write is one of the inputs' files, or would be one the next time."""
    target = Path(path)
    for source in inputs:
        try:
            files = sources.find_files(source, "the input") if target.exists() and sources.is_location(source) else []
        except InputError:  # reported where the input is opened, by its name
            continue
        if any(not sources.is_url(file) and target.samefile(file) for file in files):
            raise StoreError(f"{path} is an input: name another file to write")
        is_folder = isinstance(source, (str, os.PathLike)) and not sources.is_url(source) and Path(source).is_dir()
        if is_folder and target.resolve().is_relative_to(Path(source).resolve()):
            raise StoreError(f"{path} is in the input folder {source} and would be read with it: write it elsewhere")


def _arrow_array(values: npt.NDArray[Any], name: str) -> Any:
    """An Arrow array of numbers or text, from their bytes, as `tables.as_arrow` does."""
    import pyarrow as pa

    if values.dtype.kind in "iuf":
        return tables.as_arrow(values)
    try:
        if values.dtype.kind not in "OU":
            return pa.array(values)
        encoded = [value.encode() for value in values.tolist()]
    except (pa.ArrowException, AttributeError, UnicodeEncodeError) as error:
        raise InputError(f"{name} cannot be written as Parquet: {error}") from error
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    if ends[-1] > np.iinfo(np.int32).max:  # more than one array of text can hold
        return pa.array(values, pa.string())
    return pa.StringArray.from_buffers(
        len(values), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(encoded))
    )


def _write_lines(file: TextIO, columns: Columns, as_json: bool) -> None:
    names = list(columns)
    writer = csv.writer(file, lineterminator="\n")
    if not as_json:
        writer.writerow(names)
    for start in range(0, len(columns[names[0]]), CHUNK):
        rows = zip(*(_shorten(values[start : start + CHUNK]) for values in columns.values()), strict=True)
        if as_json:
            file.writelines(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
        else:
            writer.writerows(rows)


def _shorten(values: npt.NDArray[Any]) -> list[Any]:
    """Python values; float32 by its shortest decimal that reads back the same, not by the digits of its float64."""
    if values.dtype == np.float32:
        return [float(str(value)) for value in values]
    listed: list[Any] = values.tolist()
    return listed
