"""The commands `hedgerow engine check` and `report`: whether workers agree, and what a run on them cost.

Also the options of all commands that run on an engine.
"""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.app import Json, report

Engine = Annotated[
    str | None,
    typer.Option(
        help="Where to run: serial, processes:N, dask:N, dask://HOST:PORT, dask+tls://HOST:PORT, ray:N or "
        "ray://HOST:PORT. Default: the variable HEDGEROW_ENGINE, else serial."
    ),
]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", help="With dask:// and ray://: use a cluster on another machine without encryption."),
]
MixedWorkers = Annotated[
    bool,
    typer.Option("--mixed-workers", help="With dask:// and ray://: accept workers whose processors round differently."),
]
RangeWorkdir = Annotated[
    Path | None,
    typer.Option(
        "--workdir",
        help="Folder for finished ranges of rows: an interrupted run continues from there. Workers must share it.",
    ),
]


def check(
    engine: Engine = None,
    workdir: Annotated[
        Path | None, typer.Option(help="Folder that the workers are to share: they must see what is written there.")
    ] = None,
    insecure: Insecure = False,
    mixed_workers: MixedWorkers = False,
    as_json: Json = False,
) -> None:
    """Check the workers of an engine before a long run.

    Each must have the same versions, compute the same bits, and see the folder of the run. Otherwise the error says
    which does not, and what to do.
    """
    from hedgerow.engines import open_engine
    from hedgerow.engines.probe import describe_worker
    from hedgerow.store import make_temporary

    made = nullcontext() if workdir is None else make_temporary(workdir)
    with made as folder, open_engine(engine, insecure=insecure, mixed_workers=mixed_workers) as opened:
        workers = opened.workers
        found = opened.map(describe_worker, range(8 * workers), workdir=folder)
    hosts = sorted({one["host"] for one in found})
    facts = {"engine": opened.name, "workers": workers, "hosts": hosts}
    bits = sorted({one["bits"] for one in found})
    shared = "" if workdir is None else f", {workdir} is shared"
    line = f"{opened.name}: {workers} ready on {', '.join(hosts)}, bits {', '.join(bits)}{shared}"
    report(as_json, {**facts, "bits": bits, "versions": found[0]["versions"]}, line)


def report_run(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a run on an engine.")],
    as_json: Json = False,
) -> None:
    """Summarize what a run on an engine cost: one HTML file.

    Reads engine.jsonl in the folder and writes engine.html beside it: time, CPU, bytes and memory, the workers, the
    longest tasks and those that failed.
    """
    from hedgerow.engines.logs import read_tallies
    from hedgerow.report.costs import format_seconds, report_costs

    path = report_costs(folder)
    tallies = read_tallies(folder)
    done, cpu = sum(len(tally.done) for tally in tallies), sum(tally.total("cpu") for tally in tallies)
    failed, again = sum(len(tally.failed) for tally in tallies), sum(tally.tried_again for tally in tallies)
    facts = {"tasks": done, "failed": failed, "repeated": again, "cpu_seconds": round(cpu, 3), "report": str(path)}
    report(as_json, facts, f"{done:,} tasks, {format_seconds(cpu)} of CPU time, {again:,} tries repeated -> {path}")
