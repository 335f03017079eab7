"""The commands of `hedgerow campaign`: each is one method of `Campaign`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.cli.app import Force, IdColumn, Json, Seed, open_output, report
from hedgerow.errors import InputError
from hedgerow.progress import watch

if TYPE_CHECKING:
    from hedgerow.campaign.campaign import Campaign

Folder = Annotated[Path, typer.Argument(metavar="CAMPAIGN", help="Folder of the campaign.")]
BatchNumber = Annotated[int, typer.Argument(metavar="BATCH", help="Number of the batch, as `next` prints it.")]
Database = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="PostgreSQL database, e.g. postgresql://user@host/name, or in the variable HEDGEROW_DATABASE. "
        "Default: SQLite, in the folder.",
    ),
]
Who = Annotated[str, typer.Argument(metavar="ANNOTATOR", help="Name of the annotator.")]
Own = Annotated[bool, typer.Option("--own", help="An expert may decide what they have answered themselves.")]


def open_campaign(folder: Path, database: str | None, *, verify: bool = False) -> "Campaign":
    """The campaign in a folder."""
    from hedgerow.campaign.campaign import Campaign

    return Campaign.open(folder, database=database, verify=verify)


def init(
    folder: Annotated[Path, typer.Argument(metavar="CAMPAIGN", help="Folder to make, new or empty.")],
    pool: Annotated[
        str,
        typer.Argument(
            metavar="POOL",
            help="Table with ids and perhaps texts, uris or embeddings (.csv, .jsonl, .parquet), or .npy.",
        ),
    ],
    classes: Annotated[
        str, typer.Option(help="Class names, separated by commas; or @FILE with one name per line.", metavar="NAMES")
    ],
    kind: Annotated[
        str,
        typer.Option(help="multi-class (one class per row), multi-label (any number) or pairs (yes or no per class)."),
    ] = "multi-class",
    holdout: Annotated[
        int, typer.Option(help="Number of rows, drawn at random, that are labeled to measure models and never picked.")
    ] = 0,
    holdout_answers: Annotated[
        int, typer.Option(help="Number of people who label each row of the holdout; gold questions need 2.")
    ] = 1,
    embeddings: Annotated[
        str | None, typer.Option(metavar="FILE", help="Embeddings, if POOL has none; matched by id if they have ids.")
    ] = None,
    clusters: Annotated[
        str | None, typer.Option(metavar="FILE", help="Clusters that exist. Default: made from the embeddings.")
    ] = None,
    no_clusters: Annotated[bool, typer.Option("--no-clusters", help="Make no clusters.")] = False,
    average_size: Annotated[float | None, typer.Option(help="Average size of the clusters. Default: 10.")] = None,
    pairs: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="With --kind pairs: the pairs to ask about, ids and classes. Default: all."),
    ] = None,
    content: Annotated[
        str | None, typer.Option(help="Column with the texts or uris, if it is not called text, uri or similar.")
    ] = None,
    id_column: IdColumn = None,
    seed: Seed = 0,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Begin a campaign: register a pool, cluster it, draw the holdout.

    Run the command again with the same arguments to resume after an interruption.
    """
    from hedgerow.campaign.campaign import Campaign

    with (
        watch(True) as progress,
        Campaign.init(
            folder,
            pool,
            classes=read_names(classes),
            kind=kind,
            embeddings=embeddings,
            clusters=None if no_clusters else clusters or True,
            pairs=pairs,
            holdout=holdout,
            holdout_answers=holdout_answers,
            average_size=average_size,
            content=content,
            id_column=id_column,
            seed=seed,
            database=database,
            progress=progress,
        ) as campaign,
    ):
        status = campaign.status()
    report(as_json, status.to_json(), str(status))
    if status.clusters is None and not no_clusters:
        typer.echo(
            "hedgerow: without embeddings there are no clusters, and `learn` has nothing to train on; `hedgerow embed` "
            "makes them from texts or images, for --embeddings",
            err=True,
        )


def read_names(text: str) -> list[str]:
    """Names separated by commas, or those in the lines of @FILE."""
    if not text.startswith("@"):
        return [name.strip() for name in text.split(",")]
    try:
        lines = Path(text[1:]).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{text[1:]} cannot be read: {error}") from error
    return [line.strip() for line in lines if line.strip()]


def predict(
    folder: Folder,
    source: Annotated[
        str,
        typer.Argument(
            metavar="PREDICTIONS",
            help="Probabilities (one column per class, in order) or margins; with ids, in any order.",
        ),
    ],
    name: Annotated[str | None, typer.Option(help="Name of the model version. Default: model-N.")] = None,
    logits: Annotated[bool, typer.Option("--logits", help="The predictions are logits, not probabilities.")] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Rows may be without predictions; these are not picked.")
    ] = False,
    keep: Annotated[
        bool | None,
        typer.Option("--keep/--no-keep", help="Keep all probabilities (for badge, entropy). Default: up to 1 GiB."),
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="A known metric, e.g. accuracy=0.81; can be given several times.")
    ] = None,
    column: Annotated[str | None, typer.Option(help="Column with the predictions.")] = None,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Register the predictions of a model for the pool."""
    with open_campaign(folder, database) as campaign:
        model = campaign.predict(
            source,
            name=name,
            logits=logits,
            partial=partial,
            keep=keep,
            column=column,
            metrics=read_metrics(metric or []),
        )
    report(as_json, vars(model), f"{model.name}: {model.rows:,} predictions")


def read_metrics(texts: list[str], what: str = "metric", example: str = "accuracy=0.81") -> dict[str, float]:
    """["accuracy=0.81"] as numbers by name."""
    metrics = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            metrics[name.strip()] = float(number)
        except ValueError:
            raise InputError(f"{text!r} is not a {what} of the form name=number, such as {example}") from None
    return metrics


def next_batch(
    folder: Folder,
    k: Annotated[int, typer.Option("-k", help="Number of rows to ask about; in a campaign of pairs, of pairs.")],
    strategy: Annotated[
        str | None,
        typer.Option(
            help="Strategy. Default: hedge, for pairs stochastic-margin; without a model spread: random rows, one "
            "cluster after the other."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Option of the strategy; can be given several times."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model version. Default: the newest.")] = None,
    answers: Annotated[int, typer.Option(help="Number of people who answer each task.")] = 1,
    double: Annotated[str, typer.Option(help="Share of the tasks that two people answer: 10% or 0.1.")] = "0",
    allow_short: Annotated[
        bool, typer.Option("--allow-short", help="Take what is left if there is less, instead of an error.")
    ] = False,
    over_budget: Annotated[
        bool, typer.Option("--over-budget", help="Reserve the batch even if the budget does not suffice.")
    ] = False,
    seed: Seed = 0,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Choose what to ask next, and reserve it as a batch."""
    from hedgerow.strategies.options import parse_settings

    with open_campaign(folder, database) as campaign, watch(True) as progress:
        number = campaign.next(
            k,
            strategy=strategy,
            options=parse_settings(settings or []),
            seed=seed,
            model=model,
            answers=answers,
            double=read_share(double),
            allow_short=allow_short,
            over_budget=over_budget,
            progress=progress,
        )
        batch = next(one for one in campaign.status().batches if one["id"] == number)
    report(as_json, batch, f"batch {number}: {batch['size']:,} by {batch['strategy']}")


def read_share(text: str) -> float:
    """10% or 0.1 as a number."""
    try:
        return float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise InputError(f"{text!r} is not a share: write 10% or 0.1") from None


def claim(
    folder: Folder,
    annotator: Who,
    n: Annotated[int, typer.Option("-n", help="Number of tasks, at most.")] = 1,
    batch: Annotated[
        int | None, typer.Option(help="Number of the batch. Default: all open ones, oldest first.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="How long the tasks are kept for the annotator.")] = 600,
    expert: Annotated[
        bool, typer.Option("--expert", help="Disputed tasks, to be decided with `answer --kind adjudicate`.")
    ] = False,
    own: Own = False,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Lease tasks to an annotator; nobody else gets them meanwhile."""
    with open_campaign(folder, database) as campaign:
        found = campaign.claim(annotator, n, batch=batch, seconds=seconds, expert=expert, own=own)
    facts = [{**vars(one), "until": one.until.isoformat()} for one in found]
    lines = [
        " ".join(str(part) for part in (one.task, one.id, one.class_, one.content) if part is not None) for one in found
    ]
    report(as_json, {"tasks": facts}, "\n".join(lines) or "nothing to do")


def release(folder: Folder, annotator: Who, database: Database = None, as_json: Json = False) -> None:
    """Give back the tasks that an annotator holds."""
    with open_campaign(folder, database) as campaign:
        count = campaign.release(annotator)
    report(as_json, {"released": count}, f"{count:,} released")


def answer(
    folder: Folder,
    annotator: Who,
    task: Annotated[int, typer.Argument(metavar="TASK", help="Number of the task, as `claim` prints it.")],
    value: Annotated[
        str | None,
        typer.Argument(metavar="VALUE", help='Class; classes separated by |; "" for none; or 0 or 1 for a pair.'),
    ] = None,
    kind: Annotated[
        str, typer.Option(help="answer, unsure, none-of-these, skip, broken, adjudicate or retract.")
    ] = "answer",
    key: Annotated[str | None, typer.Option(help="Sent again with the same key, an answer is applied once.")] = None,
    own: Own = False,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Answer a task."""
    with open_campaign(folder, database) as campaign:
        several = value is not None and (campaign.kind == "multi-label" or value == "")
        given: Any = tuple(filter(None, str(value).split("|"))) if several else value
        outcome = campaign.answer(annotator, task, given, kind=kind, key=key, own=own)
    report(as_json, {"outcome": outcome}, outcome)


def ingest(
    folder: Folder,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Labels: JSON lines, CSV, Parquet, Label Studio (JSON or JSON_MIN) or Prodigy JSON lines.",
        ),
    ],
    again: Annotated[bool, typer.Option("--again", help="Apply a file that was ingested before once more.")] = False,
    annotator: Annotated[str | None, typer.Option(help="Whose answers they are, where the file does not say.")] = None,
    rejects: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where rows that cannot be used go. Default: FILE.rejects.jsonl."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="WHAT=NAME",
            help="Name of the column with the id, label, annotator, said_at, kind, class, external or seconds, if it "
            "is not called that or similar; can be given several times.",
        ),
    ] = None,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Apply a file of labels.

    The counts add up to the rows of the file. The same answer twice is applied once, and an old file reverts nothing.
    """
    from hedgerow.strategies.options import parse_settings

    target = rejects or Path(f"{file}.rejects.jsonl")
    named = parse_settings(columns or [], "label=topic")
    with open_campaign(folder, database) as campaign:
        done = campaign.ingest(file, again=again, annotator=annotator, rejects=target, columns=named)
    facts = {"source": done.source, "rows": done.rows, **done.counts}
    where = f"; rejects in {target}, the first: {done.rejects[0].detail}" if done.rejects else ""
    report(as_json, facts, f"{done}{where}")


def retract(
    folder: Folder,
    source: Annotated[int | None, typer.Option(help="Number of the ingested file, as `ingest` prints it.")] = None,
    annotator: Annotated[str | None, typer.Option(help="Take back everything this annotator said so far.")] = None,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Take back an ingested file, or what an annotator said; earlier answers count again."""
    with open_campaign(folder, database) as campaign:
        count = campaign.retract(source=source, annotator=annotator)
    report(as_json, {"retracted": count}, f"{count:,} answers retracted")


def alias(
    folder: Folder,
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="Kind of file: label-studio, prodigy, csv, ...")],
    external: Annotated[str, typer.Argument(metavar="NAME", help="Name or number of the person in such files.")],
    annotator: Who,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Say who a person in files of one kind is."""
    with open_campaign(folder, database) as campaign:
        campaign.alias(channel, external, annotator)
    facts = {"channel": channel, "name": external, "annotator": annotator}
    report(as_json, facts, f"{external} in {channel} is {annotator}")


def status(
    folder: Folder,
    verify: Annotated[bool, typer.Option("--verify", help="Read all registered files and compare them.")] = False,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Show what there is: the pool, models, batches, labels, annotators."""
    with open_campaign(folder, database, verify=verify) as campaign:
        found = campaign.status()
    report(as_json, found.to_json(), str(found))


def export(
    folder: Folder,
    batch: BatchNumber,
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="FILE", help="File to write; - prints CSV, with --json JSON lines.")
    ] = "-",
    to: Annotated[
        str | None,
        typer.Option(help="jsonl, csv, parquet, label-studio or hf. Default: what the suffix of the file says."),
    ] = None,
    force: Force = False,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Write the tasks of a batch, in order: ids, contents, clusters, margins, the model's guess."""
    from hedgerow.campaign.exports import write_lines

    with open_campaign(folder, database) as campaign:
        if out == "-":
            write_lines(open_output(), campaign.batch(batch), to or ("jsonl" if as_json else "csv"))
            return
        files = [str(path) for path in campaign.export(batch, out, to=to, force=force)]
    report(as_json, {"batch": batch, "files": files}, f"batch {batch} -> {', '.join(files)}")


def close(folder: Folder, batch: BatchNumber, database: Database = None, as_json: Json = False) -> None:
    """Close a batch: its open tasks are given up, its answers stay."""
    with open_campaign(folder, database) as campaign:
        outcome = campaign.close(batch)
    report(as_json, {"batch": batch, "outcome": outcome}, f"batch {batch} is closed ({outcome})")


def undo(folder: Folder, batch: BatchNumber, database: Database = None, as_json: Json = False) -> None:
    """Cancel a batch that nobody has answered; its rows can be picked again."""
    with open_campaign(folder, database) as campaign:
        campaign.undo(batch)
    report(as_json, {"batch": batch, "outcome": "cancelled"}, f"batch {batch} is cancelled")


def show_log(
    folder: Folder,
    n: Annotated[int | None, typer.Option("-n", help="Number of lines, the newest. Default: all.")] = None,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Show which commands changed the campaign, when and by whom."""
    with open_campaign(folder, database) as campaign:
        entries = campaign.log(n)
    facts = [{**vars(one), "at": one.at.isoformat(timespec="seconds")} for one in entries]
    lines = [f"{one['at']} {one['who']} {one['command']} {json.dumps(one['outcome'])}" for one in facts]
    report(as_json, {"log": facts}, "\n".join(lines))


def upgrade(folder: Folder, database: Database = None, as_json: Json = False) -> None:
    """Bring the database of an older release to this one; a SQLite file is copied first."""
    from hedgerow.campaign.campaign import Campaign

    done = Campaign.upgrade(folder, database=database)
    if done is None:
        report(as_json, {"upgraded": False}, "nothing to do")
        return
    copy = None if done.copy is None else str(done.copy)
    line = f"tables of revision {done.before} are now of revision {done.after}"
    report(as_json, {"upgraded": True, **vars(done), "copy": copy}, line if copy is None else f"{line}; copy: {copy}")
