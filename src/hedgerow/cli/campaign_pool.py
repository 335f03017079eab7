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


def restore(
    folder: Folder,
    rows: Rows,
    reason: Reason = None,
    id_column: IdColumn = None,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Bring back rows that were retired: what people said about them counts again. Purged rows stay away."""
    with open_campaign(folder, database) as campaign:
        done = campaign.restore(rows, reason=reason, id_column=id_column)
    others = f" ({done.others:,} were not retired)" if done.others else ""
    report(as_json, vars(done), f"{done.rows:,} rows restored{others}")


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


# Classes.

ClassName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the class.")]


def list_classes(folder: Folder, database: Database = None, as_json: Json = False) -> None:
    """Show all classes with the number of their labels, also those that were merged or split."""
    from hedgerow.campaign.classes import describe

    with open_campaign(folder, database) as campaign:
        found = campaign.classes()
    report(as_json, {"classes": [vars(one) for one in found]}, describe(found))


def add_class(folder: Folder, name: ClassName, database: Database = None, as_json: Json = False) -> None:
    """Add a class; labels stay as they are, and predictions need one column more from now on."""
    with open_campaign(folder, database) as campaign:
        number = campaign.add_class(name)
    report(as_json, {"class": number, "name": name}, f"{name} is a class")


def rename_class(
    folder: Folder,
    old: Annotated[str, typer.Argument(metavar="OLD", help="Name of the class.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="New name.")],
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Rename a class; files with the former name are still understood."""
    with open_campaign(folder, database) as campaign:
        campaign.rename_class(old, new)
    report(as_json, {"from": old, "to": new}, f"{old} is now called {new}")


def merge_classes(
    folder: Folder,
    gone: Annotated[str, typer.Argument(metavar="FROM", help="Class that goes.")],
    into: Annotated[str, typer.Argument(metavar="INTO", help="Class that it becomes a part of.")],
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Merge a class into another: votes for either agree; of pairs, a yes to either is a yes."""
    with open_campaign(folder, database) as campaign:
        campaign.merge_classes(gone, into)
    report(as_json, {"from": gone, "into": into}, f"{gone} is merged into {into}")


def split_class(
    folder: Folder,
    old: Annotated[str, typer.Argument(metavar="OLD", help="Class that goes.")],
    parts: Annotated[list[str], typer.Argument(metavar="NEW...", help="Names of the new classes, two or more.")],
    relabel: Annotated[
        bool, typer.Option("--relabel", help="Reserve the rows that lose their label as a batch, to be asked again.")
    ] = False,
    answers: Annotated[int, typer.Option(help="With --relabel: number of people who answer each task.")] = 1,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Split a class into new ones: answers that name it no longer count."""
    with open_campaign(folder, database) as campaign:
        batch = campaign.split_class(old, parts, relabel=relabel, answers=answers)
    again = f"; batch {batch} asks again" if batch is not None else "; nothing is to be asked again" if relabel else ""
    report(as_json, {"from": old, "into": parts, "batch": batch}, f"{old} is split into {', '.join(parts)}{again}")


def relabel_class(
    folder: Folder,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Class that was split.")],
    answers: Annotated[int, typer.Option(help="Number of people who answer each task.")] = 1,
    over_budget: Annotated[bool, typer.Option("--over-budget", help="Even if the budget does not allow it.")] = False,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Reserve as a batch, to be asked again, what the split of a class left without a label."""
    with open_campaign(folder, database) as campaign:
        number = campaign.relabel(name, answers=answers, over_budget=over_budget)
        size = next(one["size"] for one in campaign.status().batches if one["id"] == number)
    report(as_json, {"batch": number, "size": size}, f"batch {number}: {size:,} by split {name}")
