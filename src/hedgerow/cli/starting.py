"""The command `hedgerow start`: from a folder of images or a table of texts to the first label."""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.cli.app import IdColumn, Json, Seed
from hedgerow.cli.campaigns import read_names
from hedgerow.cli.embeddings import Column, Encoder, Engine
from hedgerow.errors import MissingExtraError

if TYPE_CHECKING:
    from hedgerow.starting import Started


def start(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="Folder of images; .csv, .jsonl or .parquet file of texts (or of paths of images); or .npy file of "
            "embeddings.",
        ),
    ],
    classes: Annotated[
        str | None,
        typer.Option(
            help="Class names, separated by commas; or @FILE with one name per line. Needed the first time.",
            metavar="NAMES",
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Folder of the campaign. Default: PATH's name and .hedgerow, here.")
    ] = None,
    kind: Annotated[
        str,
        typer.Option(help="multi-class (one class per row), multi-label (any number) or pairs (yes or no per class)."),
    ] = "multi-class",
    batch: Annotated[int, typer.Option("--batch", "-k", help="Number of rows in the first batch.")] = 100,
    holdout: Annotated[
        int | None,
        typer.Option(help="Number of random rows to measure models on. Default: 200, or a tenth of a small pool."),
    ] = None,
    encoder: Encoder = None,
    embeddings: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Embeddings of a table's rows, if they exist.")
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="Folder that the paths of images are relative to. Default: that of the file.")
    ] = None,
    column: Column = None,
    id_column: IdColumn = None,
    engine: Engine = None,
    seed: Seed = 0,
    no_desk: Annotated[bool, typer.Option("--no-desk", help="Do not open the desk.")] = False,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the link of the desk.")] = False,
    as_json: Json = False,
) -> None:
    """Start labeling what you have: embed it, cluster it, reserve the first batch, open the desk.

    Everything is kept in one folder. Run the command again to resume, also after an interruption. Nothing is uploaded.
    """
    from hedgerow.encoders.embedding import AUTO
    from hedgerow.starting import start as start_campaign

    made = start_campaign(
        source,
        folder,
        classes=None if classes is None else read_names(classes),
        kind=kind,
        embeddings=embeddings,
        root=root,
        holdout=holdout,
        batch=batch,
        encoder=encoder,
        column=column,
        id_column=id_column,
        engine=engine or AUTO,
        seed=seed,
        progress=True,
        tell=lambda line: typer.echo(line, err=as_json),
    )
    if as_json:
        typer.echo(json.dumps(made.to_json()))
        return
    typer.echo(f"campaign  in {made.folder} (keep it; everything is there)")
    if no_desk:
        typer.echo(f"label     {name_desk(made)}")
        return
    try:
        _open_desk(made, browser=not no_browser)
    except MissingExtraError as error:  # the campaign is there all the same
        typer.echo(f"label     {name_desk(made)}")
        typer.echo(f"          {error}")


def name_desk(made: "Started") -> str:
    """The command that opens the desk of a campaign."""
    words = ["hedgerow", "desk", str(made.folder)]
    for root in made.roots:
        words += ["--root", str(root)]
    return shlex.join(words)


def _open_desk(made: "Started", *, browser: bool) -> None:
    from hedgerow.desk import serve

    serve(made.folder, roots=made.roots, browser=browser, say=typer.echo)
