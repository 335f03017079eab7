"""The report of an experiment: tables for the terminal, one self-contained HTML file, and a summary for other pages.

The page has the learning curves (mean and standard error) and their numbers, the label savings of Table 2 in the paper,
the paired comparisons with their intervals, what each strategy gains over its controls, the seconds of prediction,
selection and training, the check of the training (for pairs), and the settings. With several batch sizes it begins with
the difference of every strategy from the baseline, by batch size.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hedgerow.experiments.findings import (
    FEW_TRIALS,
    Comparison,
    Findings,
    Point,
    TrainingCheck,
    check_training,
    find_all,
    gather_family,
    subtract_baseline,
    summarize,
)
from hedgerow.experiments.records import TIMES, Held, join_runs, list_results, read_run, read_summary, write_results
from hedgerow.metrics import HIGHER_IS_BETTER, PAIR_METRICS
from hedgerow.report import SERIES, Section, compose_page, draw_curves, render_facts, render_table, write_page
from hedgerow.report.figures import Point as Mark
from hedgerow.store import atomic_write
from hedgerow.strategies import Random

Rows = tuple[dict[str, str], ...]

TRAINING = "Training check: uniform labels, trained round by round and in one go"
CREDIT = "Credited to clusters: each strategy minus its controls"


@dataclass(frozen=True)
class Summary:
    """The statistics of a run, for every batch size."""

    held: Held
    findings: tuple[Findings, ...]
    report: Path

    def tables(self) -> dict[str, Rows]:
        """Heading -> rows of text: curves, comparisons, claims and savings for every batch size."""
        tables: dict[str, Rows] = {}
        reported = self.held.recipe["reported_savings"]
        for found in self.findings:
            after = f", batches of {found.batch_size:,}" if len(self.findings) > 1 else ""
            tables[f"{self.held.recipe['metric']}{after}"] = tabulate_points(found.points)
            baseline = self.held.recipe["baseline"]
            tables[f"minus {baseline}{after}"] = tabulate_comparisons(found.minus(baseline))
            tables[f"{CREDIT.lower()}{after}"] = tabulate_credits(self.held.recipe, found.credits)
            tables[f"claims of the paper{after}"] = tabulate_claims(found, self.held.recipe["name"])
            tables[f"labels needed to reach the best score of another strategy, in percent{after}"] = tabulate_savings(
                found, reported
            )
        tables[TRAINING.lower()] = tabulate_training(self.training)
        return {heading: rows for heading, rows in tables.items() if rows}  # a single strategy has no comparisons

    def notes(self) -> tuple[str, ...]:
        """The number of trials, and what the verdicts in the tables mean."""
        compared = any(found.comparisons for found in self.findings)  # a single strategy has none
        verdicts = (explain_verdicts(self.held.recipe, self.held.trials),) if compared else ()
        return (f"trials: {count_trials(self.held)}", *verdicts)

    @property
    def training(self) -> tuple[TrainingCheck, ...]:
        """The checks of the training, for every batch size that has one."""
        return check_training(self.held.recipe, self.held.rounds, self.held.checks)

    def to_json(self) -> dict[str, Any]:
        """Settings, statistics, and every round of every trial (by columns: there may be thousands), as JSON types."""
        rounds = [
            {"batch_size": batch_size, "strategy": done.strategy, "trial": done.trial, "round": done.round}
            | {"labeled": done.labeled, **done.values}
            | {part: round(getattr(done, part), 3) for part in TIMES}
            | {"select_bytes": done.select_bytes}
            for batch_size, several in self.held.rounds.items()
            for done in several
        ]
        return {
            "recipe": self.held.recipe,
            "machine": self.held.machine,
            "trials": self.held.trials,
            "unfinished": list(self.held.unfinished),
            "fingerprint": self.held.fingerprint,
            "family": asdict(gather_family(self.held.recipe)),
            "findings": [found.to_json() for found in self.findings],
            "sweep": {
                of: [
                    dict(zip(("series", "x", "y", "error"), mark, strict=True))
                    for mark in list_sweep(self.held, number)
                ]
                for of, number in name_rounds(self.held.recipe).items()
                if len(self.findings) > 1
            },
            "clusters": list(self.held.clusters),
            "checks": [asdict(one) for one in self.held.checks],
            "rounds": {name: [done[name] for done in rounds] for name in rounds[0]},
            "report": self.report.name,
        }


def report_experiment(folder: str | Path, *others: str | Path) -> Summary:
    """Read the folder of a run; write results.parquet, results.csv, summary.json and report.html there.

    others: folders of the same recipe with other trials, or their summary.json files; all are merged in one report.
    """
    folder = Path(folder)
    held = join_runs([read_run(folder), *(_read_other(Path(other)) for other in others)])
    summary = Summary(held, find_all(held), folder / "report.html")
    write_results(folder, list_results(held))
    with atomic_write(folder / "summary.json") as beside:
        beside.write_text(json.dumps(summary.to_json()))
    write_page(summary.report, compose(summary))
    return summary


def _read_other(path: Path) -> Held:
    return read_summary(path) if path.is_file() else read_run(path)


def compose(summary: Summary) -> str:
    """The HTML of the report."""
    recipe, held = summary.held.recipe, summary.held
    sections = []
    if len(summary.findings) > 1 and len(recipe["strategies"]) > 1:
        sections.append(Section(f"Difference from {recipe['baseline']} by batch size", show_sweep(summary)))
    for found in summary.findings:
        after = f", batches of {found.batch_size:,}" if len(summary.findings) > 1 else ""
        sections.append(Section(f"{name_metric(recipe['metric'])} by labels{after}", show_curves(held, found)))
        if found.comparisons:  # a single strategy has none
            sections.append(Section(f"Comparison with {recipe['baseline']}{after}", show_comparisons(held, found)))
            if found.credits:
                sections.append(Section(f"{CREDIT}{after}", show_credits(held, found)))
            sections.append(Section(f"Label savings{after}", show_savings(held, found)))
        sections.append(Section(f"Seconds per round{after}", show_seconds(held, found)))
    if can_check(recipe):
        sections.append(Section(TRAINING, show_training(summary)))
    sections.append(Section("All metrics after the last round", render_table(tabulate_metrics(held))))
    sections.append(Section("Settings", render_facts(list_settings(held))))
    lead = recipe["reproduces"] or f"The recipe {recipe['name']}."
    return compose_page(f"hedgerow experiment: {recipe['name']}", " ".join(lead.split()), sections)


def show_sweep(summary: Summary) -> str:
    """The difference of every strategy from the baseline, by batch size: after the first batch and after the last."""
    recipe, trials = summary.held.recipe, summary.held.trials
    errors = "one trial, so no standard errors" if trials == 1 else f"mean and standard error over {trials} trials"
    side = "Above" if HIGHER_IS_BETTER[recipe["metric"]] else "Below"
    parts = [
        f"<p>The {name_metric(recipe['metric']).lower()} of each strategy minus that of {recipe['baseline']} in the "
        f"same trial: {errors}. {side} zero, the strategy is better than {recipe['baseline']} at that batch size.</p>"
    ]
    for of, number in name_rounds(recipe).items():
        parts += [f"<h3>{of.capitalize()}</h3>"]
        parts += [
            draw_curves(marks, y=f"difference from {recipe['baseline']}", x="batch size", log=True)
            for marks in split_series(list_sweep(summary.held, number), recipe["baseline"])
        ]
        parts += [render_table(tabulate_sweep(summary.findings, of, recipe["baseline"]))]
    return "".join(parts)


def name_rounds(recipe: Mapping[str, Any]) -> dict[str, int]:
    """The rounds after which strategies are compared over batch sizes, by their names in comparisons."""
    last = {"last round": recipe["rounds"]} if recipe["rounds"] > 1 else {}
    return {"first round": 1, **last}


def list_sweep(held: Held, number: int) -> list[Mark]:
    """One mark per strategy and batch size: the paired difference from the baseline in a round.

    The baseline itself is the line at zero: with it, every strategy has the same color as in the learning curves.
    """
    metric, baseline = held.recipe["metric"], held.recipe["baseline"]
    marks: list[Mark] = []
    for batch_size, rounds in held.rounds.items():
        chosen = [done for done in rounds if done.round == number]
        zeros = {done.strategy: (0.0, 0.0 if held.trials > 1 else None) for done in chosen}
        means = {
            one.strategy: (one.mean, one.error)
            for one in summarize(subtract_baseline(chosen, baseline, metric), metric)
        }
        marks += [(name, batch_size, *mean) for name, mean in (zeros | means).items()]
    order = list(dict.fromkeys(mark[0] for mark in marks))
    return sorted(marks, key=lambda mark: (order.index(mark[0]), mark[1]))


def tabulate_sweep(findings: Sequence[Findings], of: str, baseline: str) -> Rows:
    """One row per batch size: the difference of every strategy from the baseline, and its verdict."""
    return tuple(
        {"batch size": f"{found.batch_size:,}"}
        | {one.strategy: f"{one.mean:+.4f} {one.verdict}" for one in found.minus(baseline) if one.of == of}
        for found in findings
    )


def show_curves(held: Held, found: Findings) -> str:
    band = "Bands show one standard error on either side" if held.trials > 1 else "One trial, so no standard errors"
    metric = name_metric(held.recipe["metric"]).lower()
    groups = split_series(mark_points(found.points), held.recipe["baseline"])
    figures = "".join(draw_curves(marks, y=metric) for marks in groups)
    return f"<p>{band}; {count(held.trials, 'trial')}.</p>{figures}{render_table(tabulate_points(found.points))}"


def mark_points(points: Sequence[Point]) -> list[Mark]:
    """The points of learning curves as a figure takes them."""
    return [(point.strategy, point.labeled, point.mean, point.error) for point in points]


def split_series(marks: Sequence[Mark], baseline: str | None = None) -> list[list[Mark]]:
    """The marks in as many figures as are needed to distinguish the series; if several, all begin with the baseline."""
    names = list(dict.fromkeys(mark[0] for mark in marks))
    if len(names) <= len(SERIES):
        return [list(marks)] if marks else []
    first = [baseline] if baseline in names else []
    others = [name for name in names if name not in first]
    room = len(SERIES) - len(first)
    groups = [first + others[start : start + room] for start in range(0, len(others), room)]
    return [[mark for name in group for mark in marks if mark[0] == name] for group in groups]


def show_comparisons(held: Held, found: Findings) -> str:
    recipe = held.recipe
    tables = render_table(tabulate_comparisons(found.minus(recipe["baseline"])))
    if claims := tabulate_claims(found, recipe["name"]):
        tables += f"<h3>Claims of the paper, for the area</h3>{render_table(claims)}"
    if further := tabulate_further(found, recipe):
        tables += f"<h3>Further comparisons</h3>{render_table(further)}"
    return f"{tables}<p>{explain_verdicts(recipe, held.trials)}</p>"


def show_credits(held: Held, found: Findings) -> str:
    return (
        f"{render_table(tabulate_credits(held.recipe, found.credits))}<p>A control is the strategy without one idea: "
        "the difference is what the idea contributes, and a strategy is credited with no more than that. Intervals and "
        "verdicts as in the comparison with the baseline: they are corrected together.</p>"
    )


def can_check(recipe: Mapping[str, Any]) -> bool:
    """Whether the training of a stored recipe can be checked: with pairs, and with uniform labels."""
    uniform = any(arm["strategy"] == repr(Random()) for arm in recipe["strategies"])
    return recipe["metric"] in PAIR_METRICS and uniform


def show_training(summary: Summary) -> str:
    rows = tabulate_training(summary.training)
    return f"{render_table(rows) if rows else ''}<p>{explain_training(summary.held.recipe, summary.training)}</p>"


def explain_training(recipe: Mapping[str, Any], checks: Sequence[TrainingCheck]) -> str:
    """What the check of the training compares, and what its verdict means."""
    if not checks:
        return "The check was not run: continue the run to add it (`hedgerow experiment run`)."
    trials = " and ".join(map(str, sorted({one.difference.trials for one in checks})))
    start = (recipe["model"] or {}).get("start", "previous")
    same = (
        " Every round of this recipe starts from the first model, so the two differ in their random numbers alone: the "
        "check says nothing about too much or too little training, which only rows of the pool that are held out can "
        "show."
        if start == "first"
        else ""
    )
    return (
        "Two models of the same labels, those of the strategy random: trained on them round by round, and in one go "
        f"from the first model.{same} If one go is better, the rounds cost a part of the score, whatever the strategy. "
        f"Means over trials ({trials}); the difference is paired, with a 95 % interval that is not corrected together "
        "with the comparisons of strategies."
    )


def explain_verdicts(recipe: Mapping[str, Any], trials: int) -> str:
    """What intervals and verdicts mean, with the number of comparisons and the margin of equivalence."""
    family = gather_family(recipe)
    made, delta = count(family.comparisons, "comparison"), f"{family.equivalence:g}"
    if trials == 1:
        return (
            f"The report makes {made} in all of its tables. One trial has no interval, so none of them has a verdict, "
            f"neither for a difference nor for equality within {delta}."
        )
    few = f" With {trials} trials the intervals are rough." if trials < FEW_TRIALS else ""
    return (
        f"Differences within trials, with paired t intervals. The report makes {made} in all of its tables; each "
        f"interval has {100 * family.confidence:.5g} % confidence, so that all hold jointly with "
        f"{100 * (1 - family.significance):g} % confidence (Bonferroni). Equal within {delta}: the interval lies "
        f"between -{delta} and {delta}, a margin that is the same for all runs. Better or worse: otherwise, "
        f"the interval excludes zero. Undecided: neither, which is no evidence for equality.{few}"
    )


def show_savings(held: Held, found: Findings) -> str:
    reported = held.recipe["reported_savings"]
    return (
        f"{render_table(tabulate_savings(found, reported))}<p>The labels that the strategy of the row needs to reach "
        "the best mean score of the strategy of the column, as a percentage of those that the latter had at that "
        "score: below 100 % it saves labels. A dash means that it never reached it."
        f"{note_seed_best(found)}"
        f"{' Rows marked as reported are the published numbers that this recipe reproduces.' if reported else ''}</p>"
    )


def show_seconds(held: Held, found: Findings) -> str:
    made = [f"{name_method(one)}: {one['seconds']:.1f} s" for one in held.clusters]
    clusters = f" Clustering the pool, once per trial: {', '.join(made)}." if made else ""
    memory = (
        " Selection memory is the largest that a selection used beyond its inputs."
        if any(found.select_bytes.values())
        else ""
    )
    return f"{render_table(tabulate_seconds(found))}<p>Median wall-clock seconds per round.{memory}{clusters}</p>"


def name_method(made: Mapping[str, Any]) -> str:
    """The method of a clustering, with the distance by which rows were assigned if it is not the default."""
    return f"{made['method']} by centroid" if made.get("join_by") == "centroid" else str(made["method"])


def tabulate_points(points: Sequence[Point]) -> Rows:
    """One row per strategy, one column per round."""
    rows: dict[str, dict[str, str]] = {}
    for point in points:
        rows.setdefault(point.strategy, {"strategy": point.strategy})[f"{point.labeled:,} labels"] = str(point)
    return tuple(rows.values())


def tabulate_comparisons(comparisons: Sequence[Comparison]) -> Rows:
    """One row per strategy: first round, last round and area, each with its interval and verdict."""
    rows: dict[str, dict[str, str]] = {}
    for one in comparisons:
        rows.setdefault(one.strategy, {"strategy": one.strategy})[one.of] = describe_difference(one)
    return tuple(rows.values())


def tabulate_credits(recipe: Mapping[str, Any], credits: Sequence[Comparison]) -> Rows:
    """One row per strategy and control: what the difference is credited to; first round, last round and area."""
    lacks = {arm["name"]: arm.get("lacks", "") for arm in recipe["strategies"]}
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for one in credits:
        start = {"strategy": one.strategy, "minus its control": one.baseline, "credited to": lacks[one.baseline]}
        rows.setdefault((one.strategy, one.baseline), start)[one.of] = describe_difference(one)
    return tuple(rows.values())


def tabulate_training(checks: Sequence[TrainingCheck]) -> Rows:
    """One row per batch size: the score of the rounds and of one go, their difference and the verdict."""
    return tuple(
        {"batch size": f"{one.batch_size:,}", "labels": f"{one.labeled:,}"}
        | {"by rounds": f"{one.incremental:.4f}", "in one go": f"{one.one_go:.4f}"}
        | {"difference": show_interval(one.difference), "verdict": one.verdict}
        for one in checks
    )


def describe_difference(one: Comparison) -> str:
    """The mean of a comparison, its interval and its verdict."""
    return f"{show_interval(one)} {one.verdict}"


def tabulate_claims(found: Findings, recipe: str) -> Rows:
    """One row per claim of the paper: the difference of its areas here, its verdict, and whether the claim holds."""
    return tuple(
        {"claim": str(claim), "difference": show_interval(one), "verdict": one.verdict}
        | {"replicated": claim.judge(one.verdict)}
        for claim, one in found.check_claims(recipe)
    )


def tabulate_further(found: Findings, recipe: Mapping[str, Any]) -> Rows:
    """The comparisons that are in no other table: not with the baseline or a control, and no claim of the paper."""
    shown = [{one.strategy, one.other, "area"} for one, _ in found.check_claims(recipe["name"])]
    shown += [{one.strategy, one.baseline, one.of} for one in found.credits]
    return tuple(
        {"strategy": one.strategy, "minus": one.baseline, "of": one.of, "difference": show_interval(one)}
        | {"verdict": one.verdict}
        for one in found.comparisons
        if one.baseline != recipe["baseline"] and {one.strategy, one.baseline, one.of} not in shown
    )


def show_interval(one: Comparison) -> str:
    """The mean difference and its interval, if there is one."""
    if one.low is None:
        return f"{one.mean:+.4f}" + ("" if one.trials == 1 else " [same in all trials]")
    return f"{one.mean:+.4f} [{one.low:+.4f}, {one.high:+.4f}]"


def note_seed_best(found: Findings) -> str:
    """A sentence about strategies whose best score is that of the seed set, if there are any."""
    start = min(point.labeled for point in found.points)
    names = list(dict.fromkeys(one.other for one in found.savings if one.at == start))
    if not names:
        return ""
    return f" No savings over {' and '.join(names)}: the best score is that of the seed set, before any batch."


def tabulate_savings(found: Findings, reported: Mapping[str, Mapping[str, float]] | None = None) -> Rows:
    """One row per strategy, one column per strategy whose best score is to be reached; then published percentages."""
    names = list(dict.fromkeys(saving.strategy for saving in found.savings))
    shares = {(one.strategy, one.other): one.share for one in found.savings}
    ours = [
        {"strategy": name} | {other: "" if other == name else _show_share(shares[name, other]) for other in names}
        for name in names
    ]
    theirs = [
        {"strategy": f"{name}, as reported"}
        | {other: _show_share(percents[other] / 100) if other in percents else "" for other in names}
        for name, percents in (reported or {}).items()
    ]
    return (*ours, *theirs)


def tabulate_seconds(found: Findings) -> Rows:
    """One row per strategy, one column per part of a round, and the memory of its selection where it is known."""
    rows = []
    for name, parts in found.seconds.items():
        row = {"strategy": name} | {part.removesuffix("_seconds"): f"{parts[part]:.2f}" for part in TIMES}
        peak = found.select_bytes.get(name)
        rows.append(row | ({} if peak is None else {"selection memory (MiB)": f"{peak / 2**20:,.0f}"}))
    return tuple(rows)


def _show_share(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def tabulate_metrics(held: Held) -> Rows:
    """One row per strategy and batch size: every metric after the last round."""
    rows = []
    for batch_size, rounds in held.rounds.items():
        final = [done for done in rounds if done.round == held.recipe["rounds"]]
        columns = {metric: summarize(final, metric) for metric in final[0].values}
        for place, point in enumerate(columns[held.recipe["metric"]]):
            values = {name_metric(metric).lower(): str(points[place]) for metric, points in columns.items()}
            rows.append({"strategy": point.strategy, "batch size": f"{batch_size:,}", **values})
    return tuple(rows)


def list_settings(held: Held) -> dict[str, str]:
    recipe = held.recipe
    batches = " and ".join(f"{batch_size:,}" for batch_size in recipe["batch_size"])
    settings = {
        "dataset": show_options(recipe["dataset"]),
        "model": show_options(recipe["model"]),
        "labels": f"{recipe['seed_size']:,} in the seed set, then {recipe['rounds']} rounds of {batches}",
        "trials": count_trials(held),
    }
    for arm in recipe["strategies"]:
        clusters = f", clusters: {show_options(arm['clusters'])}" if "clusters" in arm else ""
        control = f", control of {', '.join(arm['control_of'])}" if "control_of" in arm else ""
        settings[arm["name"]] = f"{arm['strategy']}{clusters}{control}"
    reached = sorted({f"{name_method(one)}: {one['average_size']:.3f}" for one in held.clusters})
    if reached:
        settings["average cluster sizes"] = "; ".join(reached)
    return settings | {"started on": show_options(held.machine)}


def count_trials(held: Held) -> str:
    """How many trials are complete, and how many are left out because they are not."""
    return f"{held.trials} complete" + (f", {len(held.unfinished)} unfinished" if held.unfinished else "")


def show_options(table: Mapping[str, Any] | None) -> str:
    """A table of options in one line."""
    if table is None:
        return "passed in Python"
    return ", ".join(f"{key} {value}" for key, value in table.items())


def name_metric(metric: str) -> str:
    """The name of a metric, for a heading."""
    return metric.replace("_", " ").capitalize()


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
