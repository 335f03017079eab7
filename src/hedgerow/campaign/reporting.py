"""`report`: the state of a campaign as one self-contained HTML file.

The learning curve on the holdout with its intervals, what every rule says about stopping, labels per class, clusters
with labels after every batch, the budget, the agreement between people and the time that their answers took. Everything
is computed from the events and files of the campaign when the report is written.
"""

import html
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow.campaign import budget, curves, summaries, tables
from hedgerow.campaign.artifacts import Shelf
from hedgerow.campaign.curves import Measured
from hedgerow.campaign.database import Database
from hedgerow.campaign.holdings import MULTI_LABEL, PAIRS, Holdings
from hedgerow.campaign.people import People, read_people
from hedgerow.campaign.stopping import BUDGET, StopAdvice
from hedgerow.campaign.summaries import Status
from hedgerow.campaign.truth import Truth, read_truth
from hedgerow.campaign.verdicts import COUNTS, FROM, fetch_numbers, find_places
from hedgerow.report import (
    Section,
    compose_page,
    draw_curves,
    render_bars,
    render_facts,
    render_table,
    render_texts,
    write_page,
)

MOST_CLASSES = 40  # shown; the others are summed up
MOST_LINES = 20  # of a table of people, or of pairs of people
COLOR = 2  # of the first curve in a figure; the one before is that of baselines
Numbers = npt.NDArray[np.int64]


def write_report(database: Database, shelf: Shelf, holdings: Holdings, path: Path) -> Path:
    """Write the page."""
    status = summaries.read_status(database, shelf, holdings)
    curve = curves.read_curve(database, shelf, holdings)
    advice = curves.advise(database, shelf, holdings)
    people = read_people(database, holdings)
    with database.read() as connection:
        costs = budget.count_costs(connection)
        train, holdout = (read_truth(connection, holdings, holdout=which) for which in (False, True))
        covered = _read_coverage(connection, holdings, train)
        names = _read_names(connection)
        times = _read_times(connection)
        models = {row.id: row.name for row in connection.execute(sa.select(tables.model.c.id, tables.model.c.name))}
    sections = [
        Section("At a glance", render_facts(_list_facts(status, train, holdout, costs))),
        Section("Learning curve", _show_curve(curve, len(holdout))),
        Section("Stop labeling?", _show_advice(advice)),
        Section("Labels per class", _show_classes(train, holdout, holdings)),
        Section("Clusters with labels", _show_coverage(covered, holdings)),
        Section("Batches", _show_batches(status, models)),
        Section("Agreement", _show_agreement(people, holdings)),
        Section("Time per answer", _show_times(times, names)),
    ]
    at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    lead = f"A {status.kind} campaign of {status.rows:,} rows and {len(status.classes):,} classes, as of {at}."
    write_page(path, compose_page("Labeling campaign", lead, [one for one in sections if one.body]))
    return path


def _say(text: str, kind: str = "") -> str:
    return f"<p{f' class={kind!r}' if kind else ''}>{html.escape(text)}</p>"


def _list_facts(status: Status, train: Truth, holdout: Truth, costs: budget.Budget) -> dict[str, str]:
    unit = "pairs" if status.kind == PAIRS else "rows"
    facts = {"labels to train on": f"{len(train):,} {unit}", "holdout": f"{len(holdout):,} {unit} with a label"}
    if status.measured is not None and status.measured.value is not None:
        facts["newest model"] = str(status.measured)
    if status.advice is not None:
        facts["stop?"] = f"{status.advice['verdict']}: {status.advice['reason']}"
    facts["budget"] = str(costs)
    undecided = {how: count for how, count in status.labels.items() if how not in ("majority", "adjudicated")}
    if undecided:
        facts["without a class"] = ", ".join(f"{count:,} {how}" for how, count in undecided.items())
    return facts


# The curve and the advice.


def _show_curve(curve: Sequence[Measured], labeled: int) -> str:
    if not curve:
        return _say("There is no model yet: `hedgerow campaign learn` trains one on the labels so far.")
    known = [one for one in curve if one.value is not None]
    text = ""
    if known:
        name = known[0].metric
        points = [("on the holdout", float(one.labels), one.value or 0.0, _find_ends(one)) for one in known]
        text += draw_curves(sorted(points, key=lambda point: point[1]), x="labels", y=name, percent=True, first=COLOR)
        text += _say(f"{name.capitalize()} on rows that no strategy ever picks, with 95 % intervals.", "note")
    elif not labeled:
        text += _say("The holdout has no labels yet: its batch can be exported and answered like any other.")
    return text + render_table([_list_model(one) for one in curve])


def _find_ends(one: Measured) -> tuple[float, float]:
    assert one.low is not None
    assert one.high is not None
    return one.low, one.high


def _list_model(one: Measured) -> dict[str, str]:
    known = one.value is not None
    return {
        "model": one.model,
        "labels": f"{one.labels:,}",
        one.metric: f"{one.value:.1%}" if known else "not known",
        "95 % interval": f"{one.low:.1%} to {one.high:.1%}" if known else "",
        "measured on": f"{one.n:,}",
    }


def _show_advice(advice: StopAdvice) -> str:
    rows = []
    for one in advice.rules:
        known = one.found.statistic is not None and np.isfinite(one.threshold)
        figure = f" Figure {one.found.statistic:,.4g}, threshold {one.threshold:,.4g}." if known else ""
        rows.append({"rule": one.rule.name, "says": one.found.verdict, "because": one.found.reason + figure})
    cited = render_facts({one.rule.name: one.rule.citation for one in advice.rules if one.rule is not BUDGET})
    verdict = f"<p><b>{html.escape(advice.verdict.capitalize())}.</b> {html.escape(advice.reason)}</p>"
    return f"{verdict}{render_texts(rows)}<details><summary>Where the rules come from</summary>{cited}</details>"


# Labels and clusters.


def _show_classes(train: Truth, holdout: Truth, holdings: Holdings) -> str:
    names = list(holdings.classes.values())
    if holdings.kind == PAIRS:
        parts = ("yes", "no")
        counts = [_count_pairs(train, holdings, answer) for answer in (True, False)]
    else:
        parts = ("to train on", "holdout")
        counts = [_count_classes(one, holdings) for one in (train, holdout)]
    if not sum(int(one.sum()) for one in counts):
        return ""
    order = np.argsort(-(counts[0] + counts[1]), kind="stable")
    shown = order[:MOST_CLASSES]
    text = render_bars(
        [(names[at], [float(one[at]) for one in counts]) for at in shown.tolist()], parts, number="labels"
    )
    absent = int((counts[0] == 0).sum())
    if len(order) > len(shown):
        text += _say(f"The {len(shown)} of {len(order):,} classes with the most labels.", "note")
    if absent:
        missing = "a yes" if holdings.kind == PAIRS else "a label to train on"
        text += _say(f"{absent:,} of {len(order):,} classes are without {missing}.", "note")
    return text


def _count_classes(truth: Truth, holdings: Holdings) -> Numbers:
    if holdings.kind == MULTI_LABEL:
        return np.asarray(truth.values.sum(axis=0), np.int64)
    return np.bincount(truth.values, minlength=len(holdings.classes))


def _count_pairs(truth: Truth, holdings: Holdings, answer: bool) -> Numbers:
    columns = np.searchsorted(np.array([*holdings.classes]), truth.classes[truth.values == answer])
    return np.bincount(columns, minlength=len(holdings.classes))


def _read_coverage(connection: sa.Connection, holdings: Holdings, train: Truth) -> Numbers:
    """After each batch (m, 4): its number, the labels so far, the clusters with a label, the rows in those.

    Labels that nobody asked for come first, as batch 0.
    """
    if holdings.labels is None or not len(train):
        return np.zeros((0, 4), np.int64)
    sql = 'SELECT "row", "class", min(batch) FROM task WHERE given > 0 GROUP BY "row", "class" ORDER BY "row", "class"'
    asked = fetch_numbers(connection, sql, 3)
    at = find_places(train.rows, train.classes, asked[:, 0], asked[:, 1])
    batch = np.where(at >= 0, np.append(asked[:, 2], 0)[at], 0)
    order = np.argsort(batch, kind="stable")
    found, first = np.unique(holdings.labels[train.rows[order]], return_index=True)
    batches, counts = np.unique(batch, return_counts=True)
    came = np.searchsorted(batches, batch[order][first])  # when each cluster got its first label
    new = np.bincount(came, minlength=len(batches))
    gained = np.bincount(came, np.bincount(holdings.labels)[found], len(batches))
    return np.column_stack([batches, counts.cumsum(), new.cumsum(), gained.cumsum()]).astype(np.int64)


def _show_coverage(covered: Numbers, holdings: Holdings) -> str:
    if not len(covered) or holdings.labels is None:
        return ""
    total = len(np.unique(holdings.labels))
    points = [("clusters with a label", float(line[1]), line[2] / total, None) for line in covered.tolist()]
    points += [("rows in these clusters", float(line[1]), line[3] / holdings.n, None) for line in covered.tolist()]
    last = covered[-1]
    text = f"{last[2]:,} of {total:,} clusters have a label; {last[3]:,} of {holdings.n:,} rows are in them."
    return draw_curves(points, x="labels", y="share of the pool", percent=True, first=COLOR) + _say(text, "note")


def _show_batches(status: Status, models: Mapping[int, str]) -> str:
    rows = []
    for one in status.batches:
        tasks = one["tasks"]
        answered = sum(count for state, count in tasks.items() if state in ("answered", "disputed", "settled"))
        state = f"{one['state']} ({one['outcome']})" if one["outcome"] else one["state"]
        rows.append({
            "batch": str(one["id"]), "kind": one["kind"], "strategy": one["strategy"],
            "model": models.get(one["model"], ""), "state": state, "tasks": f"{one['size']:,}",
            "answered": f"{answered:,}", "disputed": f"{tasks.get('disputed', 0):,}",
        })  # fmt: skip
    return render_table(rows) if rows else _say("Nothing was asked yet.")


# People.


def _read_names(connection: sa.Connection) -> dict[int, str]:
    return {row.id: row.name for row in connection.execute(sa.select(tables.annotator))}


def _show_agreement(people: People, holdings: Holdings) -> str:
    found = people.agreement
    if not found.units:
        return _say("No task has two answers yet: `hedgerow campaign next --double 10%` asks two people.")
    unit = "pairs" if holdings.kind == PAIRS else "rows"
    facts = {
        "answered by several": f"{found.units:,} {unit}, {found.votes:,} answers",
        "equal answers": _format(found.observed, share=True),
        "Krippendorff's alpha": _format(found.alpha),
        "Gwet's AC1": _format(found.ac1),
    }
    rows = [
        {
            "people": f"{one['first']} and {one['second']}", unit: f"{one['units']:,}",
            "equal": _format(one["observed"], share=True), "Cohen's kappa": _format(one["kappa"]),
        }
        for one in sorted(people.kappas, key=lambda one: -one["units"])[:MOST_LINES]
    ]  # fmt: skip
    return render_facts(facts) + render_table(rows)


def _format(value: float | None, *, share: bool = False) -> str:
    if value is None:
        return "not defined"
    return f"{value:.1%}" if share else f"{value:.3f}"


def _read_times(connection: sa.Connection) -> list[tuple[int, npt.NDArray[np.float64]]]:
    """The seconds of the answers of each person, where they are known."""
    sql = f"SELECT e.annotator, e.seconds {FROM} WHERE {COUNTS} AND e.seconds IS NOT NULL ORDER BY e.annotator"
    found = connection.execute(sa.text(sql)).all()
    who, seconds = np.array([row[0] for row in found], np.int64), np.array([row[1] for row in found], np.float64)
    numbers, starts = np.unique(who, return_index=True)
    return list(zip(numbers.tolist(), np.split(seconds, starts[1:]), strict=True)) if len(numbers) else []


def _show_times(times: Sequence[tuple[int, npt.NDArray[np.float64]]], names: Mapping[int, str]) -> str:
    if not times:
        return _say("No answer says how long it took.")
    lines: list[tuple[str, npt.NDArray[np.float64]]] = [(names[who], seconds) for who, seconds in times]
    lines.sort(key=lambda one: -len(one[1]))
    if len(lines) > 1:
        lines.insert(0, ("everybody", np.concatenate([seconds for _, seconds in lines])))
    return render_table([_list_times(name, seconds) for name, seconds in lines[: MOST_LINES + 1]])


def _list_times(name: str, seconds: npt.NDArray[np.float64]) -> dict[str, str]:
    low, middle, high = np.quantile(seconds, [0.1, 0.5, 0.9])
    return {
        "person": name, "answers": f"{len(seconds):,}", "median": f"{middle:,.1f} s",
        "quick (10 %)": f"{low:,.1f} s", "slow (90 %)": f"{high:,.1f} s", "in all": f"{seconds.sum() / 3600:,.1f} h",
    }  # fmt: skip
