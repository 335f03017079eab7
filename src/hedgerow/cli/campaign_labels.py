"""More commands of `hedgerow campaign`: what people's labels yield, and what they cost."""

from typing import Annotated

import typer

from hedgerow.cli.app import Json, report
from hedgerow.cli.campaigns import Database, Folder, open_campaign, read_metrics
from hedgerow.errors import InputError


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
