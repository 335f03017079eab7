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

from hedgerow import checks, store
from hedgerow.errors import InputError, StoreError
from hedgerow.pool import matrices, sources, tables

Columns = Mapping[str, npt.NDArray[Any]]

STDOUT = "-"
SUFFIXES = (".parquet", ".csv", ".jsonl")
CHUNK = 1 << 16  # rows turned into Python objects at a time


def check_output(path: str | Path, *, force: bool, inputs: Iterable[Any] = ()) -> None:
    """Refuse a file that cannot be written, or that is one of the inputs; to be called before the long work."""
    if str(path) == STDOUT:
        return
    if Path(path).suffix.lower() not in SUFFIXES:
        raise StoreError(f"{path}: the suffix must be {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    for given in inputs:
        if isinstance(given, (str, os.PathLike)) and _is_same_file(Path(path), Path(given)):
            raise StoreError(f"{path} is an input: name another file to write")
    store.check_target(path, force=force)


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
        matrices.write_table(path, columns, metadata, force=force)
        return
    with store.atomic_write(path, force=force) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        _write_lines(file, columns, suffix == ".jsonl")


def read_columns(path: str | Path, name: str) -> dict[str, npt.NDArray[Any]]:
    """What `write_columns` wrote, columns in file order.

    CSV does not tell "7" from 7: a column whose values are all written as whole numbers (without leading zeros) is
    int64, as decimal numbers float64, else strings.
    """
    file = sources.find_file(path, name)
    suffix = file.suffix.lower()
    if suffix == ".csv":
        return _read_csv(file, name)
    if suffix == ".jsonl":
        return _read_json_lines(file, name)
    opened = tables.open_source(file, name)
    if not isinstance(opened, tables.Table):
        raise InputError(f"{name}: {path} has no named columns: a {', '.join(SUFFIXES)} file is needed")
    return {column: opened.read(column) for column in opened.types}


def _is_same_file(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


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


def _read_csv(path: Path, name: str) -> dict[str, npt.NDArray[Any]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            heading, *records = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{name}: {path} cannot be read as CSV: {sources.first_line(error)}") from error
    for line, record in enumerate(records, 2):
        if len(record) != len(heading):
            raise InputError(f"{name}: line {line} of {path} has {len(record)} fields, the heading has {len(heading)}")
    return {key: _parse_texts([record[at] for record in records]) for at, key in enumerate(heading)}


def _parse_texts(texts: list[str]) -> npt.NDArray[Any]:
    try:
        numbers = [int(text) for text in texts]
        if [str(number) for number in numbers] == texts:
            return np.array(numbers, np.int64)
        return np.array(texts, np.object_)
    except (ValueError, OverflowError):
        pass
    try:
        return np.array([float(text) for text in texts], np.float64)
    except ValueError:
        return np.array(texts, np.object_)


def _read_json_lines(path: Path, name: str) -> dict[str, npt.NDArray[Any]]:
    records: list[dict[str, Any]] = []
    try:
        for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            records.append(json.loads(text))
            if not isinstance(records[-1], dict) or records[-1].keys() != records[0].keys():
                raise InputError(f"{name}: line {line} of {path} does not have the keys of line 1")
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{name}: {path} cannot be read as JSON lines: {sources.first_line(error)}") from error
    return {key: _gather([record[key] for record in records]) for key in (records[0] if records else {})}


def _gather(values: list[Any]) -> npt.NDArray[Any]:
    kinds = {type(value) for value in values}
    if kinds <= {int}:
        return np.array(values, np.int64)
    return np.array(values, np.float64 if kinds <= {int, float} else np.object_)
