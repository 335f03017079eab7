"""The commands of `hedgerow theory`: the statements of the paper's section 4, measured."""

from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.app import Json, Seed, print_rows, report

Out = Annotated[
    Path, typer.Option("--out", "-o", help="Folder for tables and figures. A run that was started there is continued.")
]
Quick = Annotated[bool, typer.Option("--quick", help="A small version that takes seconds.")]
Engine = Annotated[str, typer.Option(help="Where to run: serial, or processes:N.")]


def beta(out: Out, quick: Quick = False, engine: Engine = "serial", seed: Seed = 0, as_json: Json = False) -> None:
    """Measure beta: how much smaller a sampler makes the version space than uniform sampling.

    For thresholds on a line, points on a segment, and rectangles. Writes one CSV file per table with one row per
    trial, its summary, and figures.
    """
    _run("beta", out, quick, engine, seed, as_json)


def _run(study: str, out: Path, quick: bool, engine: str, seed: int, as_json: bool) -> None:
    """Run a study and print its summaries."""
    from hedgerow.theory import run_study
    from hedgerow.theory.measurements import format_value

    summaries = run_study(study, out, quick=quick, engine=engine, seed=seed, progress=True)
    if as_json:
        report(True, summaries, "")
        return
    for table, rows in summaries.items():
        typer.echo(f"{table}:")
        columns = dict.fromkeys(key for row in rows for key in row)
        print_rows([{key: str(format_value(row.get(key, ""))) for key in columns} for row in rows])
        typer.echo("")
    typer.echo(f"tables and figures: {out}")
