"""Refresh the generated parts of docs/advise.md: the rules of `hedgerow advise`, and what it says about the recipes.

    python docs/make_advice.py

The rules are those of `hedgerow.advice.rules`. The measurements are in experiments/advice.json, which
experiments/advice.py writes; the advice is what the present rules make of them. How the advice did on pools that it was
not made from is in experiments/unseen.json, which experiments/unseen.py writes, with the advice of that time.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from generated import fill_parts
from hedgerow.advice import Advice, give_advice
from hedgerow.advice.records import Measurements, read_measurements
from hedgerow.advice.rules import NOTES, RULES, Condition, Rule
from hedgerow.advice.wording import SHORT, name_choice, show_value
from hedgerow.experiments.findings import EQUIVALENCE, Comparison, Family
from make_results import mark, table
from make_savings import SHUFFLED, compare_areas, name_origin

HERE = Path(__file__).resolve().parent
PAGE = HERE / "advise.md"
STORED = HERE.parent / "experiments" / "advice.json"
UNSEEN = HERE.parent / "experiments" / "unseen.json"
UNITS = {("row",): "rows", ("pair",): "pairs", ("row", "pair"): "both"}
MEASURED = ("labels_per_class", "batch_to_labels", "margin_sharing", "chance_sharing", "agreement", "tightness")


def text() -> str:
    """The page with its generated parts."""
    return fill_parts(PAGE.read_text(), _make)


def _make(name: str) -> str:
    """One part, by its name."""
    if name in ("rules", "notes"):
        rules = RULES if name == "rules" else NOTES
        return f"{_tabulate([_describe(rule) for rule in rules])}\n\n{_join(_explain(rule) for rule in rules)}"
    if name == "thresholds":
        return _tabulate(_list_thresholds())
    if name == "recipes":
        return _tabulate(_list_recipes())
    if name == "unseen":
        return _report_unseen()
    recipe, batch = name.split("/")
    return f"```text\n{give_advice(_read()[recipe][batch])}\n```"


def _describe(rule: Rule) -> dict[str, str]:
    """A rule as a row of a table."""
    conditions = "; ".join(map(_write_condition, rule.conditions)) or "none of the above"
    row = {"rule": rule.name, "for": UNITS[rule.units], "if": conditions}
    if rule.strategy is not None:
        row["then"] = f"**{name_choice(rule.strategy, rule.options)}**" + ("" if rule.decided else " (undecided)")
    return row


def _explain(rule: Rule) -> str:
    """The reason of a rule, with links to the evidence."""
    links = ", ".join(f"[{_name_page(one)}]({one})" for one in rule.evidence)
    return f"- *{rule.name}*: {rule.reason}" + (f" Evidence: {links}." if links else "")


def _join(lines: Iterable[str]) -> str:
    return "\n".join(lines)


def _write_condition(condition: Condition) -> str:
    name, sign = condition.measurement, {"<": "<", ">=": "≥"}[condition.sign]
    return f"{SHORT[name]} {sign} {show_value(name, condition.threshold)}"


def _name_page(link: str) -> str:
    page, _, anchor = link.partition("#")
    return Path(page).stem + (f", {anchor.replace('-', ' ')}" if anchor else "")


def _list_thresholds() -> list[dict[str, str]]:
    """Every threshold once, with the runs on both sides of it."""
    rows: dict[str, dict[str, str]] = {}
    for rule in (*RULES, *NOTES):
        for one in rule.conditions:
            key = f"{one.measurement} {one.threshold}"
            shown = show_value(one.measurement, one.threshold)
            rows.setdefault(key, {"measurement": SHORT[one.measurement], "threshold": shown, "runs": one.origin})
    return list(rows.values())


def _list_recipes() -> list[dict[str, str]]:
    """What was measured before the first batch of each recipe, and the advice."""
    rows = []
    for recipe, batches in _read().items():
        for batch, measured in batches.items():
            advice: Advice = give_advice(measured)
            values = {SHORT.get(name, "by chance"): _show(measured, name) for name in MEASURED}
            verdict = advice.choice + ("" if advice.decided else " (undecided)")
            page = recipe.partition(",")[0]
            row = {"recipe": f"[{recipe}](results/{page}.md)", "batch": f"{int(batch):,} {measured.unit}s"}
            rows.append(row | values | {"advice": verdict})
    return rows


def _show(measured: Measurements, name: str) -> str:
    name_shown = "margin_sharing" if name == "chance_sharing" else name  # also a share
    value = measured.find(name)
    return "" if value is None else show_value(name_shown, value)


# Pools that the advice was not made from.


@cache
def read_unseen() -> dict[str, Any]:
    """The result file."""
    found: dict[str, Any] = json.loads(UNSEEN.read_text())
    return found


def name_arm(strategy: str, options: Mapping[str, float]) -> str:
    """The name of an advised strategy in the runs."""
    return f"{strategy}, factor {options['margin_factor']:g}" if strategy == "cluster-margin" else strategy


def list_comparisons() -> list[tuple[str, str, str, str]]:
    """(pool, what it is for, strategy, other), each once: clusters against shuffled ones, the advice against others."""
    found = []
    for pool, given in read_unseen()["pools"].items():
        clusters = "cluster-margin-pairs" if given["unit"] == "pair" else "cluster-margin, factor 3"
        advised = name_arm(given["advice"]["strategy"], given["advice"]["options"])
        found += [(pool, "clusters", clusters, f"{clusters}, {SHUFFLED}")]
        found += [(pool, other, advised, other) for other in ("margin", "random") if other != advised]
    return found


def compare_unseen() -> dict[str, dict[str, Comparison]]:
    """pool -> what it is for -> the comparison of areas, with one correction for all of them."""
    listed, found = list_comparisons(), {}
    for pool, kind, ours, theirs in listed:
        given = read_unseen()["pools"][pool]
        family = Family(len(listed), EQUIVALENCE[given["metric"]])
        found.setdefault(pool, {})[kind] = compare_areas(given, ours, theirs, family)
    return found


def _report_unseen() -> str:
    """How many comparisons there are, and one row per pool."""
    listed, compared, where = list_comparisons(), compare_unseen(), read_unseen()["machine"]
    pools = read_unseen()["pools"]
    trials = sorted({given["trials"] for given in pools.values()})
    confidence = Family(len(listed), 0.0).confidence
    note = (
        f"{len(pools)} pools, {' or '.join(map(str, trials))} trials each, {len(listed)} comparisons of areas: each "
        f"interval has {100 * confidence:.3f} % confidence, so that all hold jointly with 95 % (Bonferroni). Bold: "
        f"better or worse. With an equals sign: equal within 0.002. Plain: undecided. {name_origin(where)}"
    )
    return f"{note}\n\n{table([_describe_unseen(pool, given, compared[pool]) for pool, given in pools.items()])}"


def _describe_unseen(pool: str, given: Mapping[str, Any], compared: Mapping[str, Comparison]) -> dict[str, str]:
    measured = read_measurements(given["measured"])
    advice = given["advice"]
    return {
        "pool": pool,
        "labeled": f"{given['unit']}s",
        "share a cluster": _show(measured, "margin_sharing"),
        "by chance": _show(measured, "chance_sharing"),
        "tightness": _show(measured, "tightness"),
        "clusters should pay": "yes" if given["clusters_pay"] else "no",
        "clusters minus shuffled ones": mark(compared["clusters"]),
        "advice": name_choice(advice["strategy"], advice["options"]),
        "advice minus margin": mark(compared["margin"]) if "margin" in compared else "",
        "advice minus random": mark(compared["random"]) if "random" in compared else "",
    }


def _read() -> dict[str, dict[str, Measurements]]:
    stored: dict[str, dict[str, Any]] = json.loads(STORED.read_text())
    return {
        recipe: {batch: read_measurements(found) for batch, found in batches.items()}
        for recipe, batches in stored.items()
    }


def _tabulate(rows: list[dict[str, str]]) -> str:
    heads = list(rows[0])
    lines = [heads, ["---"] * len(heads), *([row[head] for head in heads] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(text())
