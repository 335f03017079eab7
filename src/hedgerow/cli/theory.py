"""The commands of `hedgerow theory`: the statements of the paper's section 4, measured."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from hedgerow.cli.app import Json, Seed, print_rows, report
from hedgerow.cli.engines import Engine, Insecure, MixedWorkers

Out = Annotated[
    Path, typer.Option("--out", "-o", help="Folder for tables and figures. A run that was started there is continued.")
]
Quick = Annotated[bool, typer.Option("--quick", help="A small version that takes seconds.")]


class Where(NamedTuple):
    """Where a study runs."""

    engine: str | None
    insecure: bool
    mixed_workers: bool


def beta(
    out: Out,
    quick: Quick = False,
    engine: Engine = None,
    insecure: Insecure = False,
    mixed_workers: MixedWorkers = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure beta: how much smaller a sampler makes the version space than uniform sampling.

    For thresholds on a line, points on a segment, rectangles, and hyperplanes. Writes one CSV file per table with one
    row per trial, its summary, and figures.
    """
    _run("beta", out, quick, Where(engine, insecure, mixed_workers), seed, as_json)


def label_complexity(
    out: Out,
    quick: Quick = False,
    engine: Engine = None,
    insecure: Insecure = False,
    mixed_workers: MixedWorkers = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure the labels that Cluster-MarginV and the Margin Algorithm need to reach an error.

    For hyperplanes under isotropic log-concave distributions, by dimension, error and gamma, with the bound of Theorem
    B.1 beside them, and by the size of a batch. Writes tables and figures as `hedgerow theory beta` does.
    """
    _run("label-complexity", out, quick, Where(engine, insecure, mixed_workers), seed, as_json)


def bridge(
    out: Out,
    data: Annotated[
        Path | None, typer.Option(help="Folder with CIFAR-10, as its authors publish it. Default: digits only.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder for features of frozen networks. Default: DATA/cache.")
    ] = None,
    quick: Quick = False,
    engine: Engine = None,
    insecure: Insecure = False,
    mixed_workers: MixedWorkers = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure whether the sampler with the smaller version space gives the better next model, on real embeddings.

    Heads trained on bootstrap resamples stand for the version space. Needs the extra `sklearn`, and `experiments` for
    CIFAR-10.
    """
    _run("bridge", out, quick, Where(engine, insecure, mixed_workers), seed, as_json, data=data, cache=cache)


def _run(study: str, out: Path, quick: bool, where: Where, seed: int, as_json: bool, **more: Path | None) -> None:
    """Run a study and print its summaries."""
    from hedgerow.engines import open_engine
    from hedgerow.theory import run_study
    from hedgerow.theory.measurements import format_value

    with open_engine(where.engine, insecure=where.insecure, mixed_workers=where.mixed_workers) as opened:
        summaries = run_study(study, out, quick=quick, engine=opened, seed=seed, progress=True, **more)
    if as_json:
        report(True, summaries, "")
        return
    for table, rows in summaries.items():
        typer.echo(f"{table}:")
        columns = dict.fromkeys(key for row in rows for key in row)
        print_rows([{key: str(format_value(row.get(key, ""))) for key in columns} for row in rows])
        typer.echo("")
    typer.echo(f"tables and figures: {out}")
