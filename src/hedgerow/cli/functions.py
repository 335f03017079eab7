"""The command `hedgerow apply`: a function of the user's own over the rows of files."""

from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.app import Json, report
from hedgerow.cli.engines import Engine, Insecure, MixedWorkers
from hedgerow.cli.selection import FORMS


def apply(
    function: Annotated[
        str,
        typer.Argument(metavar="MODULE:FUNCTION", help="Takes an array of rows; returns an array with as many rows."),
    ],
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=f"The rows: {FORMS}.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Folder for the results, .npy files. A run that was started there is continued."
        ),
    ],
    column: Annotated[
        str | None, typer.Option(help="Column with the rows, or the common prefix of several columns.")
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Rows per call. Default: a quarter of a gigabyte of them.")] = None,
    engine: Engine = None,
    insecure: Insecure = False,
    mixed_workers: MixedWorkers = False,
    as_json: Json = False,
) -> None:
    """Apply a function of your own to all rows of files: predictions, projections, features.

    The function is imported and run, here and by every worker: name only code that you trust. It must be installed, or
    on PYTHONPATH. The folder can then be given to other commands in place of a file.
    """
    from hedgerow import functions
    from hedgerow.engines import open_engine

    functions.find_function(function)
    with open_engine(engine, insecure=insecure, mixed_workers=mixed_workers) as opened:
        files = functions.apply(function, source, out, column=column, rows=rows, engine=opened, progress=True)
    facts = {"function": function, "files": len(files), "engine": opened.name, "out": str(out)}
    report(as_json, facts, f"{function} applied to {source}: {len(files):,} files -> {out}")
