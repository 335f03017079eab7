"""The command `hedgerow margins`: scores of a pool's predictions, for one round or several selections."""

from typing import Annotated

import typer

from hedgerow.cli.app import Force, IdColumn, Json, Threads, print_columns, report
from hedgerow.cli.engines import Engine, Insecure, MixedWorkers, RangeWorkdir
from hedgerow.cli.selection import FORMS, OUTPUTS


def margins(
    predictions: Annotated[str, typer.Argument(metavar="PREDICTIONS", help=f"Probabilities: {FORMS}.")],
    out: Annotated[str, typer.Option("--out", "-o", help=f"File to write, with id (if known) and margin: {OUTPUTS}")],
    logits: Annotated[bool, typer.Option("--logits", help="The predictions are logits, not probabilities.")] = False,
    column: Annotated[
        str | None, typer.Option(help="Column with the predictions, or the common prefix of several columns.")
    ] = None,
    id_column: IdColumn = None,
    engine: Engine = None,
    workdir: RangeWorkdir = None,
    insecure: Insecure = False,
    mixed_workers: MixedWorkers = False,
    threads: Threads = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compute the margin of every row: its largest minus its second largest probability.

    `hedgerow select` reads the file in place of the predictions, which may be a thousand times larger.
    """
    from hedgerow import pool, scores
    from hedgerow.engines import open_engine
    from hedgerow.pool.outputs import STDOUT, check_output, write_columns

    check_output(out, force=force, inputs=[predictions])
    name = "logits" if logits else "probabilities"
    matrix = pool.open_matrix(predictions, name, column=column, id_column=id_column)
    with open_engine(engine, insecure=insecure, mixed_workers=mixed_workers) as opened:
        found = scores.margins(**{name: matrix}, threads=threads, engine=opened, workdir=workdir, progress=True)
    columns = ({} if matrix.ids is None else {"id": matrix.ids.array()}) | {"margin": found}
    if out == STDOUT:
        print_columns(columns, as_json)
    else:
        write_columns(out, columns, {}, force=force)
    mean = float(found.mean(dtype="float64")) if len(found) else None
    line = f"{len(found):,} margins" + ("" if mean is None else f", {mean:.4g} on average")
    facts = {"n": len(found), "mean": mean, "engine": opened.name, "out": out}
    report(as_json, facts, line if out == STDOUT else f"{line} -> {out}", err=out == STDOUT)
