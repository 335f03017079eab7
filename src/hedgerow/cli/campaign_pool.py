"""The commands of `hedgerow campaign` that change the pool or its classes: each is one method of `Campaign`."""

from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.cli.app import IdColumn, Json, Seed, report
from hedgerow.cli.campaigns import Database, Folder, open_campaign
from hedgerow.progress import watch

if TYPE_CHECKING:
    from hedgerow.campaign.retiring import Retired


def grow(
    folder: Folder,
    pool: Annotated[str, typer.Argument(metavar="FILE", help="Table with new ids, as for init.")],
    embeddings: Annotated[
        str | None, typer.Option(metavar="FILE", help="Embeddings of the new rows, if FILE has none.")
    ] = None,
    pairs: Annotated[
        str | None, typer.Option(metavar="FILE", help="New pairs to ask about, if those of the campaign are listed.")
    ] = None,
    holdout: Annotated[
        int | None,
        typer.Option(help="Number of new rows for the holdout. Default: the share of the first rows, which is fair."),
    ] = None,
    content: Annotated[
        str | None, typer.Option(help="Column with the texts or uris, if it is not called text, uri or similar.")
    ] = None,
    id_column: IdColumn = None,
    seed: Seed = 0,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Add rows to the pool; they join the clusters that there are, or make new ones."""
    with open_campaign(folder, database) as campaign, watch(True) as progress:
        done = campaign.grow(
            pool,
            embeddings=embeddings,
            pairs=pairs,
            holdout=holdout,
            content=content,
            id_column=id_column,
            seed=seed,
            progress=progress,
        )
    clusters = "" if done.new_clusters is None else f"{done.new_clusters:,} new clusters, "
    line = f"{done.rows:,} rows from row {done.first:,} on: {clusters}{done.holdout:,} of them in the holdout"
    report(as_json, vars(done), line)


Rows = Annotated[str, typer.Argument(metavar="FILE", help="Rows by id: a table, or text with one id per line.")]
Reason = Annotated[str | None, typer.Option(help="Why, for the record.")]


def retire(
    folder: Folder,
    rows: Rows,
    reason: Reason = None,
    id_column: IdColumn = None,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Retire rows: they are never picked, nobody is asked about them, and their labels are left out of exports."""
    with open_campaign(folder, database) as campaign:
        done = campaign.retire(rows, reason=reason, id_column=id_column)
    report(as_json, vars(done), f"{done.rows:,} rows retired{_tell_others(done)}")


def purge(
    folder: Folder,
    rows: Rows,
    reason: Reason = None,
    id_column: IdColumn = None,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Retire rows and remove their ids and contents from the campaign's files.

    Their embeddings and what people said about them stay, by row number. Files of yours stay as they are.
    """
    with open_campaign(folder, database) as campaign:
        done = campaign.purge(rows, reason=reason, id_column=id_column)
    report(as_json, vars(done), f"{done.rows + done.before:,} rows purged{_tell_others(done)}")


def _tell_others(done: "Retired") -> str:
    parts = [(done.before, "retired before"), (done.unknown, "not in the pool")]
    listed = ", ".join(f"{count:,} {what}" for count, what in parts if count)
    return f" ({listed})" if listed else ""
