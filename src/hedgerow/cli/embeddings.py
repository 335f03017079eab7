"""The command `hedgerow embed`: a folder of images or a table of texts -> embeddings."""

from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.app import Force, IdColumn, Json, Seed, report

Source = Annotated[
    Path,
    typer.Argument(metavar="PATH", help="Folder of images, or a .csv, .jsonl or .parquet file of texts (or of paths)."),
]
Encoder = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="tfidf (texts, the default; any language), minilm (texts in English), efficientnet-lite0 (images, the "
        "default), or MODULE:FUNCTION of your own: a list of texts or paths in, an array out. For rows added to a "
        "campaign: the FILE.encoder.npz that tfidf wrote for its first rows.",
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        help="Where to run: serial, processes:N, dask:N, dask://HOST:PORT, dask+tls://HOST:PORT, ray:N or "
        "ray://HOST:PORT. Default: the variable HEDGEROW_ENGINE, else all cores if it takes long."
    ),
]
Column = Annotated[
    str | None, typer.Option(help="Column with the texts or the paths of images, if it is not found automatically.")
]


def embed(
    source: Source,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The .npy file to write.")],
    encoder: Encoder = None,
    column: Column = None,
    id_column: IdColumn = None,
    engine: Engine = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Embed a folder of images or a table of texts, on this machine: nothing is uploaded or downloaded.

    Beside FILE.npy there are FILE.rows.parquet, with ids and contents in the order of the embeddings, and
    FILE.rejects.jsonl, if some rows cannot be used; by tfidf also FILE.encoder.npz, what it learned. Run the command
    again to resume after an interruption.
    """
    from hedgerow.encoders import embed as embed_source
    from hedgerow.encoders.embedding import AUTO

    made = embed_source(
        source,
        out,
        encoder=encoder,
        column=column,
        id_column=id_column,
        engine=engine or AUTO,
        seed=seed,
        force=force,
        progress=True,
        tell=lambda line: typer.echo(line, err=True),
    )
    report(as_json, made.to_json(), str(made))
