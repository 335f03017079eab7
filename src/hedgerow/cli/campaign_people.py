"""Commands of `hedgerow campaign` about people: how well they do, gold questions, disputes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.cli.app import Json, print_rows, report
from hedgerow.cli.campaigns import Database, Folder, Who, open_campaign, read_share

if TYPE_CHECKING:
    from hedgerow.campaign.people import People, Person

MOST_LINES = 5  # pairs of values and classes that are printed; --json has all


def people(folder: Folder, database: Database = None, as_json: Json = False) -> None:
    """Show how much each person said, how far they agree, and how often they are right on gold questions."""
    with open_campaign(folder, database) as campaign:
        found = campaign.people()
    if as_json:
        report(True, found.to_json(), "")
        return
    if found.people:
        print_rows([_describe_person(one) for one in found.people])
    report(False, {}, "\n".join(_list_findings(found)))


def _describe_person(one: "Person") -> dict[str, str]:
    right = "-"
    if one.gold is not None:
        right = f"{one.gold['right']} of {one.gold['asked']} ({one.gold['low']:.2f}-{one.gold['high']:.2f})"
    return {
        "person": one.name + (" (flagged)" if one.flagged else ""), "answers": f"{one.answers:,}",
        "seconds": _show(one.seconds, ".1f"), "skips": f"{one.skips:,}", "unsure": f"{one.unsure:,}",
        "broken": f"{one.broken:,}", "decided": f"{one.decided:,}", "agreement": _show(one.agreement, ".2f"),
        "gold": right, "leases": f"{one.leases:,}",
    }  # fmt: skip


def _show(figure: float | None, form: str) -> str:
    return "-" if figure is None else format(figure, form)


def _list_findings(found: "People") -> list[str]:
    if not found.agreement.units:
        lines = ["nothing was answered by two people yet: `next --double 10%` asks for it"]
    else:
        lines = [f"agree    {found.agreement}"]
        lowest = sorted(found.by_class.items(), key=lambda one: 2.0 if one[1].alpha is None else one[1].alpha)
        lines += [f"class    {name}: {_show_class(one)}" for name, one in lowest[:MOST_LINES]]
        lines += [
            f"pair     {one['first']} and {one['second']}: kappa {_show(one['kappa'], '.2f')} on {one['units']:,}"
            for one in sorted(found.kappas, key=_rank)[:MOST_LINES]
        ]
        lines += [
            f"confused {one['first']} and {one['second']}: {one['count']:,} times ({one['share']:.1%})"
            for one in found.confusion[:MOST_LINES]
        ]
    for one in found.people:
        if one.flagged and one.alone:
            lines.append(f"relabel  {one.name} alone answered {one.alone:,}: `relabel CAMPAIGN {one.name}` asks others")
    return lines


def _show_class(one: Any) -> str:
    return f"alpha {_show(one.alpha, '.2f')}, AC1 {_show(one.ac1, '.2f')}"


def _rank(one: Mapping[str, Any]) -> float:
    """The lowest kappa first."""
    return 2.0 if one["kappa"] is None else float(one["kappa"])


def gold(
    folder: Folder,
    share: Annotated[
        str | None, typer.Option(help="Share of each person's tasks, 3% or 0.03; 0 switches it off. Default: 3%.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="People whose accuracy is surely below it are flagged. Default: 0.7.")
    ] = None,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Show how gold questions are asked; with options, change it.

    Gold questions are rows of the holdout on which two people agree or an expert decided. They look like other tasks.
    """
    with open_campaign(folder, database) as campaign:
        if share is None and threshold is None:
            found = campaign.gold()
        else:
            found = campaign.set_gold(share=None if share is None else read_share(share), threshold=threshold)
    report(as_json, vars(found), str(found))


def relabel(
    folder: Folder,
    annotator: Who,
    answers: Annotated[int, typer.Option(help="Number of other people to ask about each.")] = 1,
    over_budget: Annotated[
        bool, typer.Option("--over-budget", help="Reserve the batch even if the budget does not suffice.")
    ] = False,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Ask others about everything that an annotator alone has answered. Nothing is deleted."""
    with open_campaign(folder, database) as campaign:
        number = campaign.relabel_annotator(annotator, answers=answers, over_budget=over_budget)
        size = len(campaign.batch(number)["row"])
    report(as_json, {"batch": number, "size": size}, f"batch {number}: {size:,} that only {annotator} has answered")


def disputed(
    folder: Folder,
    batch: Annotated[int | None, typer.Option(help="Number of the batch. Default: all open ones.")] = None,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """List the disputed tasks, without what was said or by whom: an expert decides from the example alone."""
    with open_campaign(folder, database) as campaign:
        columns = campaign.disputed(batch)
    tasks = [
        dict(zip(columns, row, strict=True))
        for row in zip(*(column.tolist() for column in columns.values()), strict=True)
    ]
    lines = [" ".join(str(part) for name, part in one.items() if name not in ("batch", "given")) for one in tasks]
    report(as_json, {"tasks": tasks}, "\n".join(lines) or "nothing is disputed")
