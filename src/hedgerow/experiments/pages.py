"""An experiment's report: tables for the terminal, one self-contained HTML file, and a summary that other pages read.

The page shows the learning curves (mean and standard error), the same in numbers, the label savings of the paper's
Table 2, the paired comparisons with their intervals, the seconds of prediction, selection and training, and the
settings. With several batch sizes it opens with the answer to where diversity pays: every strategy less the baseline,
by batch size.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hedgerow.experiments.findings import DOUBT, FEW_TRIALS, Comparison, Findings, find
from hedgerow.experiments.records import TIMES, Held, join_runs, list_results, read_run, read_summary, write_results
from hedgerow.report import (
    SERIES,
    Point,
    Section,
    compose_page,
    draw_curves,
    render_facts,
    render_table,
    summarize,
    write_page,
)
from hedgerow.store import atomic_write

Rows = tuple[dict[str, str], ...]


@dataclass(frozen=True)
class Summary:
    """What a run found, for every batch size."""

    held: Held
    findings: tuple[Findings, ...]
    report: Path

    def tables(self) -> dict[str, Rows]:
        """Heading -> rows, as text: curves and savings of every batch size."""
        told: dict[str, Rows] = {}
        reported = self.held.recipe["reported_savings"]
        for found in self.findings:
            after = f", batches of {found.batch_rows:,}" if len(self.findings) > 1 else ""
            told[f"{self.held.recipe['metric']}{after}"] = tabulate_points(found.points)
            told[f"less {self.held.recipe['baseline']}{after}"] = tabulate_comparisons(found.comparisons)
            told[f"percent of labels to reach the best of{after}"] = tabulate_savings(found, reported)
        return {heading: rows for heading, rows in told.items() if rows}  # one strategy alone is compared with none

    def to_json(self) -> dict[str, Any]:
        """Settings, findings, and every round of every trial (as columns: there may be thousands), in plain types."""
        rounds = [
            {"batch_rows": batch_rows, "strategy": done.strategy, "trial": done.trial, "round": done.round}
            | {"labeled": done.labeled, **done.values}
            | {part: round(getattr(done, part), 3) for part in TIMES}
            | {"select_bytes": done.select_bytes}
            for batch_rows, several in self.held.rounds.items()
            for done in several
        ]
        return {
            "recipe": self.held.recipe,
            "machine": self.held.machine,
            "trials": self.held.trials,
            "unfinished": list(self.held.unfinished),
            "fingerprint": self.held.fingerprint,
            "findings": [found.to_json() for found in self.findings],
            "sweep": {
                of: [asdict(point) for point in sweep_points(self.held, turn)]
                for of, turn in name_turns(self.held.recipe).items()
                if len(self.findings) > 1
            },
            "clusters": list(self.held.clusters),
            "rounds": {name: [done[name] for done in rounds] for name in rounds[0]},
            "report": self.report.name,
        }


def report_experiment(folder: str | Path, *others: str | Path) -> Summary:
    """Read a run's folder; write results.parquet, results.csv, summary.json and report.html there.

    others: folders of the same recipe with other trials, or the summary.json of such; they are told together.
    """
    folder = Path(folder)
    held = join_runs([read_run(folder), *(_read_other(Path(other)) for other in others)])
    summary = Summary(held, tuple(find(held, batch_rows) for batch_rows in held.rounds), folder / "report.html")
    write_results(folder, list_results(held))
    with atomic_write(folder / "summary.json") as beside:
        beside.write_text(json.dumps(summary.to_json()))
    write_page(summary.report, compose(summary))
    return summary


def _read_other(path: Path) -> Held:
    return read_summary(path) if path.is_file() else read_run(path)


def compose(summary: Summary) -> str:
    """The whole page."""
    recipe, held = summary.held.recipe, summary.held
    sections = []
    if len(summary.findings) > 1 and len(recipe["strategies"]) > 1:
        sections.append(Section("Where diversity pays", tell_sweep(summary)))
    for found in summary.findings:
        after = f", batches of {found.batch_rows:,}" if len(summary.findings) > 1 else ""
        sections.append(Section(f"{name_metric(recipe['metric'])} by labels{after}", tell_curves(held, found)))
        if found.comparisons:  # one strategy alone is compared with none
            sections.append(Section(f"Differences{after}", tell_comparisons(held, found)))
            sections.append(Section(f"Label savings{after}", tell_savings(held, found)))
        sections.append(Section(f"Seconds a round{after}", tell_seconds(held, found)))
    sections.append(Section("Other measures after the last round", render_table(tabulate_measures(held))))
    sections.append(Section("Settings", render_facts(tell_settings(held))))
    lead = recipe["reproduces"] or f"The recipe {recipe['name']}."
    return compose_page(f"hedgerow experiment: {recipe['name']}", " ".join(lead.split()), sections)


def tell_sweep(summary: Summary) -> str:
    """Every strategy less the baseline, by batch size: what one batch brought, and where the last one left it."""
    recipe, trials = summary.held.recipe, count(summary.held.trials, "trial")
    told = [
        f"<p>Each strategy's {name_metric(recipe['metric']).lower()} less that of {recipe['baseline']} in the same "
        f"trial: mean and standard error over {trials}. Above zero, the strategy is ahead of {recipe['baseline']} at "
        "that batch size.</p>"
    ]
    for of, turn in name_turns(recipe).items():
        told += [f"<h3>{of.capitalize()}</h3>"]
        told += [
            draw_curves(part, measure=f"less {recipe['baseline']}", labels="rows a batch", log=True)
            for part in split_points(sweep_points(summary.held, turn))
        ]
        told += [render_table(tabulate_sweep(summary.findings, of))]
    return "".join(told)


def name_turns(recipe: Mapping[str, Any]) -> dict[str, int]:
    """The rounds by which strategies are compared over batch sizes, as comparisons name them."""
    return {"first round": 1, "last round": recipe["rounds"]}


def sweep_points(held: Held, turn: int) -> tuple[Point, ...]:
    """A point a strategy and batch size: the paired difference from the baseline in a round.

    The baseline's own is the line at zero; with it every strategy has the color that it has in the learning curves.
    """
    metric, baseline = held.recipe["metric"], held.recipe["baseline"]
    points: list[Point] = []
    for batch_rows, rounds in held.rounds.items():
        chosen = [done for done in rounds if done.round == turn]
        level = {done.trial: done.values[metric] for done in chosen if done.strategy == baseline}
        less = [replace(done, values={metric: done.values[metric] - level[done.trial]}) for done in chosen]
        points += [replace(point, labeled=batch_rows) for point in summarize(less, metric)]
    order = list(dict.fromkeys(point.strategy for point in points))
    return tuple(sorted(points, key=lambda point: (order.index(point.strategy), point.labeled)))


def tabulate_sweep(findings: Sequence[Findings], of: str) -> Rows:
    """A row a batch size: every strategy less the baseline, and whether that is a difference."""
    return tuple(
        {"rows a batch": f"{found.batch_rows:,}"}
        | {one.strategy: f"{one.mean:+.4f} {one.verdict}" for one in found.comparisons if one.of == of}
        for found in findings
    )


def tell_curves(held: Held, found: Findings) -> str:
    band = "Bands are one standard error on either side" if held.trials > 1 else "One trial, so no standard errors"
    measure = name_metric(held.recipe["metric"]).lower()
    figures = "".join(draw_curves(part, measure=measure) for part in split_points(found.points))
    return f"<p>{band}; {count(held.trials, 'trial')}.</p>{figures}{render_table(tabulate_points(found.points))}"


def split_points(points: Sequence[Point]) -> list[list[Point]]:
    """The points in as many figures as it takes to tell the strategies apart."""
    names = list(dict.fromkeys(point.strategy for point in points))
    groups = [names[start : start + len(SERIES)] for start in range(0, len(names), len(SERIES))]
    return [[point for point in points if point.strategy in group] for group in groups]


def tell_comparisons(held: Held, found: Findings) -> str:
    doubt = f"{100 * (1 - DOUBT):g} %"
    few = f" With {held.trials} trials the intervals are rough." if 1 < held.trials < FEW_TRIALS else ""
    single = " One trial has no interval: nothing is decided." if held.trials == 1 else ""
    return (
        f"{render_table(tabulate_comparisons(found.comparisons))}<p>Less {held.recipe['baseline']} in the same trial. "
        f"Intervals are paired t intervals, wide enough that those of a column hold together with {doubt} confidence "
        f"(Bonferroni); a difference is called one only if its interval leaves zero out.{few}{single}</p>"
    )


def tell_savings(held: Held, found: Findings) -> str:
    reported = held.recipe["reported_savings"]
    return (
        f"{render_table(tabulate_savings(found, reported))}<p>Percent of the labels that the strategy of the column "
        "had at its best mean score, with which the strategy of the row reaches that score: below 100 % it saves "
        f"labels. A dash: it never reached it.{' As reported: by what this recipe reproduces.' if reported else ''}</p>"
    )


def tell_seconds(held: Held, found: Findings) -> str:
    made = [f"{one['method']}: {one['seconds']:.1f} s" for one in held.clusters]
    clusters = f" Clustering the pool, once a trial: {', '.join(made)}." if made else ""
    memory = (
        "; the most memory that a selection took beyond what it was given" if any(found.select_bytes.values()) else ""
    )
    return f"{render_table(tabulate_seconds(found))}<p>Median wall-clock seconds of one round{memory}.{clusters}</p>"


def tabulate_points(points: Sequence[Point]) -> Rows:
    """A row a strategy, a column a round."""
    rows: dict[str, dict[str, str]] = {}
    for point in points:
        rows.setdefault(point.strategy, {"strategy": point.strategy})[f"{point.labeled:,} labels"] = str(point)
    return tuple(rows.values())


def tabulate_comparisons(comparisons: Sequence[Comparison]) -> Rows:
    """A row a strategy: first round, last round and area, each with its interval and verdict."""
    rows: dict[str, dict[str, str]] = {}
    for one in comparisons:
        interval = "" if one.low is None else f" [{one.low:+.4f}, {one.high:+.4f}]"
        row = rows.setdefault(one.strategy, {"strategy": one.strategy})
        row[one.of] = f"{one.mean:+.4f}{interval} {one.verdict}"
    return tuple(rows.values())


def tabulate_savings(found: Findings, reported: Mapping[str, Mapping[str, float]] | None = None) -> Rows:
    """A row a strategy, a column for each whose best it is to reach; then what somebody else reports, in percent."""
    names = list(dict.fromkeys(saving.strategy for saving in found.savings))
    shares = {(one.strategy, one.other): one.share for one in found.savings}
    ours = [
        {"strategy": name} | {other: "" if other == name else _tell_share(shares[name, other]) for other in names}
        for name in names
    ]
    theirs = [
        {"strategy": f"{name}, as reported"}
        | {other: _tell_share(percents[other] / 100) if other in percents else "" for other in names}
        for name, percents in (reported or {}).items()
    ]
    return (*ours, *theirs)


def tabulate_seconds(found: Findings) -> Rows:
    """A row a strategy, a column a part of a round, and the memory of its selection where it is known."""
    rows = []
    for name, parts in found.seconds.items():
        row = {"strategy": name} | {part.removesuffix("_seconds"): f"{parts[part]:.2f}" for part in TIMES}
        peak = found.select_bytes.get(name)
        rows.append(row | ({} if peak is None else {"MiB of select": f"{peak / 2**20:,.0f}"}))
    return tuple(rows)


def _tell_share(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def tabulate_measures(held: Held) -> Rows:
    """A row a strategy and batch size: every measure after the last round."""
    rows = []
    for batch_rows, rounds in held.rounds.items():
        final = [done for done in rounds if done.round == held.recipe["rounds"]]
        columns = {metric: summarize(final, metric) for metric in final[0].values}
        for place, point in enumerate(columns[held.recipe["metric"]]):
            values = {name_metric(metric).lower(): str(points[place]) for metric, points in columns.items()}
            rows.append({"strategy": point.strategy, "batch": f"{batch_rows:,}", **values})
    return tuple(rows)


def tell_settings(held: Held) -> dict[str, str]:
    recipe = held.recipe
    batches = " and ".join(f"{batch_rows:,}" for batch_rows in recipe["batch_rows"])
    told = {
        "dataset": tell_table(recipe["dataset"]),
        "model": tell_table(recipe["model"]),
        "labels": f"{recipe['seed_rows']:,} at the start, then {recipe['rounds']} rounds of {batches}",
        "trials": f"{held.trials} complete" + (f", {len(held.unfinished)} unfinished" if held.unfinished else ""),
    }
    for arm in recipe["strategies"]:
        clusters = f", clusters: {tell_table(arm['clusters'])}" if "clusters" in arm else ""
        told[arm["name"]] = f"{arm['strategy']}{clusters}"
    reached = sorted({f"{one['method']}: {one['average_size']:.3f}" for one in held.clusters})
    if reached:
        told["average sizes reached"] = "; ".join(reached)
    return told | {"started on": tell_table(held.machine)}


def tell_table(table: Mapping[str, Any] | None) -> str:
    """A table of options in one line."""
    if table is None:
        return "given in Python"
    return ", ".join(f"{key} {value}" for key, value in table.items())


def name_metric(metric: str) -> str:
    """A measure's name as a heading has it."""
    return metric.replace("_", " ").capitalize()


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
