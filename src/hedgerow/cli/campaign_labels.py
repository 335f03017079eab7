"""More commands of `hedgerow campaign`: what people's labels yield, and what they cost."""

from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from hedgerow.cli.app import Force, Json, open_output, report
from hedgerow.cli.campaigns import Database, Folder, open_campaign, read_metrics, read_share
from hedgerow.errors import InputError

if TYPE_CHECKING:
    from hedgerow.campaign.results import Exported

Out = Annotated[
    str,
    typer.Option("--out", "-o", metavar="FILE", help="File (or folder, for hf); - prints CSV, with --json JSON lines."),
]
Split = Annotated[str, typer.Option(help="train, holdout or all.")]


def labels(
    folder: Folder,
    out: Out = "-",
    to: Annotated[
        str | None, typer.Option(help="jsonl, csv, parquet, label-studio or hf. Default: what the suffix says.")
    ] = None,
    split: Split = "train",
    undecided: Annotated[
        bool, typer.Option("--undecided", help="Also rows without a class: unsure, disputed, broken, none of these.")
    ] = False,
    content: Annotated[bool, typer.Option("--content", help="With the texts or uris.")] = False,
    with_spread: Annotated[
        bool, typer.Option("--with-spread", help="Also labels that `spread` carried over, marked as such.")
    ] = False,
    force: Force = False,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Write the labels, for training: id, label, how, support, round, split, and weight if batches had weights."""
    with open_campaign(folder, database) as campaign:
        target, form = _find_target(out, to, as_json)
        done = campaign.export_labels(
            target, to=form, split=split, undecided=undecided, content=content, spread=with_spread, force=force
        )
    _report_export(done, "labels", as_json)


def votes(
    folder: Folder,
    out: Out = "-",
    to: Annotated[str | None, typer.Option(help="jsonl, csv, parquet or hf. Default: what the suffix says.")] = None,
    layout: Annotated[
        str | None, typer.Option("--as", metavar="LIBRARY", help="Columns as crowd-kit or cleanlab expects them.")
    ] = None,
    split: Split = "train",
    every: Annotated[
        bool, typer.Option("--every", help="Also adjudications, unsure, skips and the like, with their kind.")
    ] = False,
    force: Force = False,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Write what each person said: id, class (of pairs), annotator, value, said_at."""
    with open_campaign(folder, database) as campaign:
        target, form = _find_target(out, to, as_json)
        done = campaign.export_votes(target, to=form, split=split, every=every, layout=layout, force=force)
    _report_export(done, "votes", as_json)


def _find_target(out: str, to: str | None, as_json: bool) -> tuple[str | TextIO, str | None]:
    """(where to write, in which form): standard output gets CSV or JSON lines."""
    if out != "-":
        return out, to
    if to not in (None, "csv", "jsonl"):
        raise InputError(f"{to} cannot be printed: name a file with --out")
    return open_output(), to or ("jsonl" if as_json else "csv")


def _report_export(done: "Exported", what: str, as_json: bool) -> None:
    from hedgerow.campaign.results import describe_left_out

    left_out = describe_left_out(done.left_out)
    where = f" -> {', '.join(map(str, done.files))}" if done.files else ""
    line = f"{done.rows:,} {what}{where}{f'; {left_out}' if left_out else ''}"
    facts: dict[str, Any] = done.to_json()
    report(as_json and bool(done.files), facts, line, err=not done.files)


def spread(
    folder: Folder,
    purity: Annotated[str, typer.Option(help="Share of a cluster's labels that must agree: 95% or 0.95.")] = "0.95",
    least: Annotated[int, typer.Option(help="Number of labels that a cluster must have.")] = 3,
    max_error: Annotated[
        str, typer.Option(help="Largest error: the 95% interval of the holdout's error must end below it.")
    ] = "0.05",
    unmeasured: Annotated[
        bool, typer.Option("--unmeasured", help="Go on although the holdout is too small to tell the error.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and keep nothing.")] = False,
    list_: Annotated[
        bool, typer.Option("--list", help="List the runs, with how often people contradicted them later.")
    ] = False,
    undo: Annotated[int | None, typer.Option(metavar="RUN", help="Take a run out of use.")] = None,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Carry labels from people's examples to the rest of pure clusters.

    These labels are kept apart from what people said: see `labels --with-spread`.
    """
    if list_ and undo is not None:
        raise InputError("give --list or --undo, not both")
    with open_campaign(folder, database) as campaign:
        if list_:
            runs = campaign.spreads()
            lines = "\n".join(map(str, runs)) or "no labels were spread"
            report(as_json, {"runs": [run.to_json() for run in runs]}, lines)
        elif undo is not None:
            campaign.undo_spread(undo)
            report(as_json, {"run": undo, "state": "undone"}, f"spread {undo} is undone")
        else:
            done = campaign.spread(
                purity=read_share(purity),
                least=least,
                max_error=read_share(max_error),
                unmeasured=unmeasured,
                trial=dry_run,
            )
            report(as_json, done.to_json(), str(done))


def budget(
    folder: Folder,
    labels: Annotated[float | None, typer.Option(help="Limit on the number of answers.")] = None,
    money: Annotated[float | None, typer.Option(help="Limit on the money; needs --per-answer.")] = None,
    hours: Annotated[float | None, typer.Option(help="Limit on the hours that people work.")] = None,
    per_answer: Annotated[
        float | None,
        typer.Option(
            help="With --money: what an answer costs from people without a --rate. With --hours: seconds of an answer "
            "without a time. Default: the mean of those with one."
        ),
    ] = None,
    rate: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=MONEY", help="What one annotator gets per answer; can be given several times."),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the limit.")] = False,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Show what is spent, reserved by open batches and left; with a limit, set it.

    `next` refuses a batch that would cost more than is left.
    """
    change = any(value is not None for value in (labels, money, hours, per_answer, rate))
    if remove and change:
        raise InputError("--remove takes no amounts")
    with open_campaign(folder, database) as campaign:
        if remove:
            campaign.remove_budget()
        elif change:
            campaign.set_budget(
                labels=labels,
                money=money,
                hours=hours,
                per_answer=per_answer,
                rates=read_metrics(rate or [], "rate", "ana=0.05"),
            )
        found = campaign.budget()
    report(as_json, found.to_json(), str(found))
