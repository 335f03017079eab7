"""A function of the user's own over the rows of files, in ranges on an engine: predictions, projections, features.

The function is named as "module:function", so that every worker imports it for itself. It gets an array with some
rows of the pool and returns one with as many rows. What it computes should depend on each row alone: rows come in
ranges, whose size is an option.
"""

import importlib
import operator
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow import checks, pool
from hedgerow.engines import Engine
from hedgerow.errors import InputError, StoreError
from hedgerow.pool.arrays import open_array
from hedgerow.progress import Progress, watch
from hedgerow.shards import Arrays, count_rows, list_ranges, open_shards, run_ranges

RUN = "_run"  # in the folder of the results; readers of a folder pass over names with an underscore


def apply(
    function: str,
    source: Any,
    out: str | Path,
    *,
    column: str | None = None,
    rows: int | None = None,
    engine: str | Engine | None = None,
    progress: Progress | bool | None = None,
) -> list[Path]:
    """Apply a function to all rows of files and write what it returns: one .npy file per range of rows, in order.

    function: "module:function", importable by every worker; called with an array (m, d), it returns one with m rows,
    of numbers. source: the path, pattern or URL of .npy or Parquet files. out: a folder, which can then be read as one
    matrix; an interrupted run continues there. A function that has changed is not noticed: use a new folder. column: of
    the source, if there are several. rows: the rows per range, by default a quarter of a gigabyte of them. engine:
    where to run (see `hedgerow.engines`); workers on other machines must share the folder.
    """
    find_function(function)
    matrix = pool.open_matrix(source, "source", column=column)
    size = count_rows(matrix) if rows is None else checks.integer(rows, "rows", least=1)
    folder = Path(out).absolute()
    if folder.is_dir() and not (folder / RUN).is_dir() and any(folder.iterdir()):
        raise StoreError(f"{out} is not empty, and not a folder of such results: use a new or empty folder")
    settings = {"function": function, "rows": size}
    with open_shards(engine, folder / RUN, matrix, settings) as (opened, run), watch(progress) as report:
        jobs = list_ranges(folder, matrix.n, size, ".npy")
        run_ranges(opened, run, AppliedRange(matrix, function), jobs, "applying", report)
    return [Path(job["path"]) for job in jobs]


@dataclass(frozen=True, eq=False)
class AppliedRange:
    """What a function makes of a range of rows: what workers of an engine compute."""

    matrix: pool.Matrix
    function: str

    def __call__(self, start: int, stop: int) -> Arrays:
        made = open_array(find_function(self.function)(self.matrix.read(start, stop)), f"the result of {self.function}")
        if made.ndim == 0 or len(made) != stop - start or not np.issubdtype(made.dtype, np.number):
            raise InputError(
                f"{self.function} returned {made.dtype} of shape {made.shape} for {stop - start:,} rows: it must "
                "return as many rows of numbers"
            )
        return {"rows": made}


def find_function(name: str) -> Callable[[Any], Any]:
    """The function of the name "module:function"."""
    module, colon, path = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not (module and colon and path):
        raise InputError(f'function must be named as "module:function", got {name!r}')
    try:
        found = operator.attrgetter(path)(importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise InputError(f"the function {name!r} cannot be imported: {error}") from error
    if not callable(found):
        raise InputError(f"{name!r} is not a function, but {type(found).__name__}")
    function: Callable[[Any], Any] = found
    return function
