"""Measurements in cells: each cell is one call with plain arguments, measured once, on any engine.

A cell's rows are written to FOLDER/cells/TABLE/<cell>.json when it is complete. A run that was interrupted measures
only the cells that are missing, and ends with the same FOLDER/TABLE.csv: the rows of all cells, in the order of the
cells. The random numbers of a cell follow from the seed and its own name, so that they do not depend on the engine, on
the order, or on which other cells there are. Neither do its sums: a cell multiplies its matrices, which are small, in
one thread. More threads mostly wait for each other, at twenty times the cost.
"""

import csv
import importlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow import __version__
from hedgerow.engines import Engine, use_engine
from hedgerow.errors import StoreError
from hedgerow.machine import limit_blas
from hedgerow.progress import Progress, ignore
from hedgerow.store import UNREADABLE, atomic_write
from hedgerow.store.checkpoints import open_checkpoints

Row = dict[str, Any]  # column -> text, a whole number or a float
DIGITS = 6  # significant digits of floats in CSV files


@dataclass(frozen=True)
class Cell:
    """One measurement: task(rng, **arguments) -> rows. The name is unique in its table, and fit for a file.

    task: a function at the top of a module. labels: columns that all of its rows begin with.
    """

    name: str
    task: Callable[..., list[Row]]
    arguments: Mapping[str, Any]
    labels: Mapping[str, Any] = field(default_factory=dict)

    def describe(self) -> Row:
        """The cell as an engine sends it: the task by its module and name."""
        task = f"{self.task.__module__}:{self.task.__qualname__}"
        return {"name": self.name, "task": task, "arguments": dict(self.arguments), "labels": dict(self.labels)}


@dataclass(frozen=True)
class Run:
    """Where and how cells are measured."""

    folder: Path
    seed: int = 0
    engine: str | Engine = "serial"
    progress: Progress = ignore

    def measure(self, table: str, cells: Sequence[Cell]) -> list[Row]:
        """The rows of all cells, measured or read; also as FOLDER/TABLE.csv."""
        held = self.folder / "cells" / table
        try:
            held.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the folder {held.parent} cannot be created: {error.strerror}") from error
        open_checkpoints(held, [], {"seed": self.seed, "version": __version__})
        jobs = [{"folder": str(held.absolute()), "seed": self.seed, **cell.describe()} for cell in cells]
        with use_engine(self.engine) as engine:

            def look(done: int) -> None:
                self.progress(f"{table}: {done:,} of {len(cells):,} cells", done / len(cells))

            workdir = None if engine.name == "serial" else self.folder
            measured = engine.map(measure_cell, jobs, workdir=workdir, progress=look)
        rows = [row for some in measured for row in some]
        write_rows(self.folder / f"{table}.csv", rows)
        return rows


def name_cell(*parts: Any) -> str:
    """The name of a cell from what tells it apart."""
    return re.sub(r"[^\w.+]+", "-", " ".join(map(str, parts))).strip("-")


def measure_cell(job: Row) -> list[Row]:
    """The rows of a cell, given as `Cell.describe` says, a folder and a seed: of its file, or measured and written."""
    path = Path(job["folder"]) / f"{job['name']}.json"
    if path.exists():
        try:
            found: list[Row] = json.loads(path.read_text())
        except UNREADABLE as error:
            raise StoreError(f"{path} cannot be read: {error}; delete it to measure it again") from error
        return found
    module, _, name = job["task"].partition(":")
    task = getattr(importlib.import_module(module), name)
    rng = np.random.default_rng([job["seed"], *job["name"].encode()])
    with limit_blas():
        rows = [{**job["labels"], **row} for row in task(rng, **job["arguments"])]
    with atomic_write(path) as beside:
        beside.write_text(json.dumps(rows))
    return rows


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Rows as CSV; a column that a row lacks stays empty, and floats have six significant digits."""
    columns = dict.fromkeys(key for row in rows for key in row)
    with atomic_write(path) as beside, beside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: format_value(value) for key, value in row.items()} for row in rows)


def format_value(value: Any) -> Any:
    """A float in six significant digits, anything else as it is."""
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else value


def read_rows(path: Path) -> list[Row]:
    """The rows of a CSV file of `write_rows`: numbers as numbers, empty cells left out."""
    with path.open(encoding="utf-8", newline="") as file:
        return [{key: read_value(text) for key, text in row.items() if text} for row in csv.DictReader(file)]


def read_value(text: str) -> str | int | float:
    """A whole number, a float, or text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
