"""Refresh docs/results.md, docs/results/*.md and docs/figures from experiments/results/*.json.

    python docs/make_results.py

A result file is the `summary.json` that `hedgerow experiment report` writes, under the recipe's name. The pages are
written by hand, except for marked numbers (marks.py) and parts from `<!-- generated: NAME -->` to `<!-- end -->`.
Comparisons and savings in the result files are computed again from their rounds first, so that they follow from the
present definitions; verdicts on the pages are those of the files.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from generated import FIGURES, fill_parts, frame, write_figures
from hedgerow.experiments.claims import BY_CLUSTERS, CIFAR, CLAIMS, OPEN_IMAGES, SVHN, Claim
from hedgerow.experiments.findings import (
    EQUIVALENCE,
    SIGNIFICANCE,
    Comparison,
    Findings,
    check_training,
    find_all,
    gather_family,
    list_controlled,
)
from hedgerow.experiments.pages import (
    CREDIT,
    can_check,
    explain_training,
    explain_verdicts,
    mark_points,
    note_seed_best,
    split_series,
    tabulate_claims,
    tabulate_comparisons,
    tabulate_credits,
    tabulate_further,
    tabulate_points,
    tabulate_savings,
    tabulate_seconds,
    tabulate_sweep,
    tabulate_training,
)
from hedgerow.experiments.recipes import list_recipes, load_recipe
from hedgerow.experiments.records import list_settings, load_summary, read_summary, restore_checks, restore_rounds
from hedgerow.report import draw_curves
from hedgerow.report.figures import Point as Mark
from marks import fill

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "experiments" / "results"
OVERVIEW = HERE / "results.md"
PAGES = HERE / "results"
ORDER = (
    "cifar10", "cifar100", "svhn", "ablation-badge", "ablation-clusters", "ablation-assign", "covtype", "sweep-digits",
    "wordlangs", "wordlangs-million", "wordlangs-typos", "wordlangs-distinct", "delicious", "bibtex", "tmc2007",
    "corel5k", "enron", "goemotions", "wordlangs-small", "cifar10-vgg16", "cifar100-vgg16", "svhn-vgg16",
)  # fmt: skip
DRAWN_ELSEWHERE = ("out-of-core", "walk.svg", "savings-", "regimes.svg")  # how figures of other scripts begin
NO_FILES = ("redundant-digits", "words")  # data sets that come with packages
COMPARED = (
    "cluster-margin", "cluster-margin-pairs", "cluster-margin-pairs, power 1", "cluster-margin-pairs, power 1, quota",
    "stochastic-margin", "badge", "coreset", "random",
)  # fmt: skip
SAVINGS = (
    "Labels that the strategy in the row needs to reach the best mean score of the strategy in the column, as a "
    "percentage of the labels at which the latter reaches it. A dash: never reached. These are ratios of mean curves, "
    "without intervals."
)
EARLIER = "These are results of an earlier version of the recipe"
OPTION = re.compile(r"(\w+)=([^,)]+)")  # in the repr of a strategy
# The paper's settings: of section 3.3, and of section 3.2, where they depend on the batch size.
IMAGES = {
    "data": "CIFAR-10, CIFAR-100, SVHN", "model": "VGG-16", "seed set": "10,000", "labels per batch": "5,000",
    "rounds": "4", "trials": "10", "candidates k_m": "1.25 times the batch", "average cluster size": "1.25 or more",
    "partitions of badge": "1 (CIFAR-100: more, number not given)", "partitions of coreset": "1",
}  # fmt: skip
LARGE = {
    "data": "Open Images, 9.01 million rows, 19,957 classes", "model": "ResNet-101", "seed set": "300,000",
    "labels per batch": "100,000 and 1,000,000", "rounds": "10", "trials": "3",
    "candidates k_m": "10 times the batch: at 1,000,000 more than the rows of the pool",
    "average cluster size": "10 or more", "partitions of badge": "20 and 200", "partitions of coreset": "1 and 20",
}  # fmt: skip
AS_IMAGES = ("cifar10", "cifar100", "svhn", "ablation-badge", "ablation-clusters")
GROUPS = {
    "Section 3.3, CIFAR": CIFAR,
    "Section 3.3 and the appendix, SVHN": SVHN,
    "Section 3.2, Open Images": OPEN_IMAGES,
}


def text(path: Path) -> str:
    """A page with its generated parts and its marked numbers as the result files have them."""
    parts = OVERVIEW_PARTS if path == OVERVIEW else RECIPE_PARTS
    given = load_all() if path == OVERVIEW else read(path.stem)
    return fill(fill_parts(path.read_text(), lambda name: parts[name](given)))


def pages() -> list[Path]:
    """The overview, and a page for each recipe with results."""
    return [OVERVIEW, *(PAGES / f"{result['recipe']['name']}.md" for result in load_all())]


def load_all() -> list[dict[str, Any]]:
    """Every result file, in the order of the page."""
    return [read(name) for name in ORDER if (RESULTS / f"{name}.json").is_file()]


def read(name: str) -> dict[str, Any]:
    """One result file."""
    result = load_summary(RESULTS / f"{name}.json")
    assert result["recipe"]["name"] == name, f"{name}.json holds another recipe"
    return result


def refresh(path: Path) -> None:
    """Compute the comparisons and savings of a result file again, from its rounds."""
    result, held = json.loads(path.read_text()), read_summary(path)
    for stored, found in zip(result["findings"], find_all(held), strict=True):
        stored |= {key: found.to_json()[key] for key in ("savings", "comparisons", "credits")}
    result["family"] = asdict(gather_family(held.recipe))
    path.write_text(json.dumps(result))


def overview(results: Sequence[dict[str, Any]]) -> str:
    """One row per recipe and batch size: the area under each strategy's learning curve minus that of margin."""
    rows = []
    for result in results:
        for found in map(Findings.from_json, result["findings"]):
            areas = {one.strategy: one for one in found.minus("margin") if one.of == "area"}
            if "cluster-margin" in areas:
                cells = {name: mark(areas[name]) if name in areas else "" for name in COMPARED}
                rows.append(name_run(result, found.batch_size) | cells)
    return table(rows) if rows else ""


def compare_round_robin(results: Sequence[dict[str, Any]]) -> str:
    """One row per recipe with pairs: strategies with the round-robin over clusters minus those without it."""
    rows = []
    for result in results:
        for found in map(Findings.from_json, result["findings"]):
            row = name_run(result, found.batch_size)
            for ours, theirs in BY_CLUSTERS:
                for of in ("first round", "area"):
                    one = found.look_up(ours, theirs, of)
                    row |= {f"{ours}: {of}": mark(one)} if one else {}
            if len(row) == 3 + 2 * len(BY_CLUSTERS):
                rows.append(row)
    return table(rows) if rows else ""


def judge_claims(results: Sequence[dict[str, Any]]) -> str:
    """Every claim of the paper with its verdict on every recipe that can test it."""
    parts = []
    for heading, claims in GROUPS.items():
        rows = [
            name_run(result, found.batch_size) | judge_recipe(found, result["recipe"]["name"], claims)
            for result in results
            if CLAIMS.get(result["recipe"]["name"]) is claims
            for found in map(Findings.from_json, result["findings"])
        ]
        parts += [f"{heading}:", table(rows)] if rows else []
    return "\n\n".join(parts)


def judge_recipe(found: Findings, recipe: str, claims: Sequence[Claim]) -> dict[str, str]:
    """Claim -> whether it is replicated; empty where the recipe lacks a strategy."""
    judged = {claim: claim.judge(one.verdict) for claim, one in found.check_claims(recipe)}
    return {str(claim): judged.get(claim, "") for claim in claims}


def explain_margins(_: Sequence[dict[str, Any]]) -> str:
    """The meaning of verdicts, with the margins of equivalence and the confidence as the program has them."""
    margins: dict[float, list[str]] = {}
    for metric, delta in EQUIVALENCE.items():
        margins.setdefault(delta, []).append(metric.replace("_", " "))
    deltas = "; ".join(f"{delta:g} for {', '.join(names)}" for delta, names in margins.items())
    return f"""- **Equal within δ**: the interval of the difference lies between −δ and δ, even if it excludes zero. δ
  is the same for all runs: {deltas}. It was set after the curves on these pages were known, for the reason that
  follows and not because of their outcomes; for every later run it is stated in advance. A fifth of a point of accuracy
  or average precision is too little to see in the paper's curves, whose claims are about gaps that can be seen.
- **Better** or **worse**: otherwise, the interval excludes zero.
- **Undecided**: neither. This is no evidence for equality, and confirms no claim. In the text, a gain or a loss is
  *decided* if its verdict is better or worse: significant after the correction, and not equal within δ.
- **One trial**: there is no interval, so there is no verdict.

Intervals are paired t intervals. The correction (Bonferroni) covers all comparisons on a recipe's page, in all its
tables and batch sizes: with m comparisons, each interval has a confidence of 1 − {SIGNIFICANCE:g}/m, and all of them
hold jointly with {100 * (1 - SIGNIFICANCE):g} % confidence. Each page states its m. There is no further
correction across pages. With three trials only large differences can be decided in this way."""


def list_missing(results: Sequence[dict[str, Any]]) -> str:
    """The recipes that nobody has run yet."""
    names = {result["recipe"]["name"] for result in results}
    missing = [f"`{name}`" for name in ORDER if name not in names]
    return f"Recipes without results: {', '.join(missing) or 'none'}."


def name_run(result: dict[str, Any], batch_size: int) -> dict[str, str]:
    """The first cells of a row of a table over recipes."""
    name = result["recipe"]["name"]
    page = f"[{name}](results/{name}.md)"
    return {"recipe": page, "labels per batch": f"{batch_size:,}", "trials": str(result["trials"])}


def mark(one: Comparison) -> str:
    """A mean difference: bold if better or worse, with an equals sign if equal within the margin."""
    if one.verdict in ("better", "worse"):
        return f"**{one.mean:+.4f}**"
    return f"{one.mean:+.4f}\N{NO-BREAK SPACE}=" if one.verdict.startswith("equal") else f"{one.mean:+.4f}"


def describe_setting(result: dict[str, Any]) -> str:
    """The commands that run a recipe, the machine, the settings here and in the paper, and what verdicts mean."""
    recipe, name = result["recipe"], result["recipe"]["name"]
    needs_data = "" if recipe["dataset"] and recipe["dataset"]["name"] in NO_FILES else " --data DATA"
    own = {arm.name for arm in load_recipe(name).strategies} if name in list_recipes() else set()
    added = any("control_of" in arm and arm["name"] not in own for arm in recipe["strategies"])
    controls = " --with-controls" if added else ""
    commands = f"```text\nhedgerow experiment run {name} --out {name}{needs_data} --jobs 2{controls}\n"
    commands += f"hedgerow experiment report {name}\n```"
    machine = ", ".join(f"{key} {value}" for key, value in result["machine"].items())
    parts = [commands, f"Measured on: {machine}.{note_changes(recipe)}", "## Settings", table(list_protocol(result))]
    if candidates := list_candidates(result):
        parts += ["Candidates k_m of each batch, and their share of the rows of the pool:", table(candidates)]
    return "\n\n".join([*parts, "## Verdicts", explain_verdicts(recipe, result["trials"])])


def note_changes(recipe: Mapping[str, Any]) -> str:
    """A sentence about results of an earlier version of the recipe, with which new trials cannot be merged."""
    if recipe["name"] not in list_recipes():
        return ""
    then, now = list_settings(recipe), list_settings(load_recipe(recipe["name"]).describe())
    changed = [key.replace("_", " ") for key in now if now[key] != then.get(key)]
    if not changed:
        return ""
    return f" {EARLIER}: {', '.join(changed)} differ now, and it has not been run again."


def list_protocol(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """The settings of a run next to those of the paper; only those that the recipe has."""
    recipe = result["recipe"]
    arms = {arm["name"]: dict(OPTION.findall(arm["strategy"])) for arm in recipe["strategies"]}
    rows = {clustering["n"] for clustering in result["clusters"]}
    sizes = {f"{arm['clusters']['average_size']:g}" for arm in recipe["strategies"] if "clusters" in arm}
    factors = {name: float(options["margin_factor"]) for name, options in arms.items() if "margin_factor" in options}
    here = {
        "data": (recipe["dataset"] or {}).get("name", "") + (f", {max(rows):,} rows in the pool" if rows else ""),
        "model": (recipe["model"] or {}).get("kind", ""),
        "seed set": f"{recipe['seed_size']:,}",
        "labels per batch": " and ".join(f"{size:,}" for size in recipe["batch_size"]),
        "rounds": str(recipe["rounds"]),
        "trials": str(result["trials"]),
        "candidates k_m": "; ".join(f"{name}: {factor:g} times the batch" for name, factor in factors.items()),
        "average cluster size": " and ".join(sorted(sizes)),
        **{
            f"partitions of {kind}": ", ".join(
                arms[name]["partitions"]
                + (", labeled rows split too" if "split_labeled=True" in arm["strategy"] else "")
                for arm in recipe["strategies"]
                if (name := arm["name"]).split(",")[0] == kind
            )
            for kind in ("badge", "coreset")
        },
    }
    paper = IMAGES if recipe["name"] in AS_IMAGES else LARGE
    return [{"setting": key, "here": value, "paper": paper[key]} for key, value in here.items() if value]


def list_candidates(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """For every strategy with a margin factor: how many candidates it has, by batch size.

    Strategies that choose pairs have pairs as candidates; result files do not have the number of pairs of the pool.
    """
    recipe = result["recipe"]
    pool = max((clustering["n"] for clustering in result["clusters"]), default=0)
    rows = []
    for arm in recipe["strategies"]:
        factor = dict(OPTION.findall(arm["strategy"])).get("margin_factor")
        if factor and pool:
            in_pairs = arm["strategy"].partition("(")[0].endswith("Pairs")
            cells = {
                f"batches of {size:,}": show_candidates(float(factor) * size, None if in_pairs else pool)
                for size in recipe["batch_size"]
            }
            rows.append({"strategy": arm["name"]} | cells)
    return rows


def show_candidates(candidates: float, pool: int | None) -> str:
    """The number of candidates with its share of the pool; None for pairs."""
    if pool is None:
        return f"{candidates:,.0f} pairs"
    if candidates >= pool:
        return f"{candidates:,.0f} rows: more than the pool has, so margins play no part"
    return f"{candidates:,.0f} rows, {100 * candidates / pool:.0f} %"


def describe_sweep(result: dict[str, Any]) -> str:
    """Every strategy minus the baseline, by batch size."""
    recipe = result["recipe"]
    findings = [Findings.from_json(found) for found in result["findings"]]
    parts = []
    for of in result["sweep"]:
        parts += [f"{recipe['metric']} after the {of}, minus {recipe['baseline']}, by batch size:"]
        parts += show_figures(result, f"sweep-{of.split()[0]}", f"{of}, minus {recipe['baseline']}, by batch size")
        parts += [table(tabulate_sweep(findings, of, recipe["baseline"]))]
    return "\n\n".join(parts)


def describe_findings(result: dict[str, Any]) -> str:
    """Figure, curves, differences, claims, savings and seconds of every batch size."""
    parts = [describe_batches(result, Findings.from_json(found)) for found in result["findings"]]
    return "\n\n".join([*parts, *([describe_training(result)] if can_check(result["recipe"]) else [])])


def describe_training(result: dict[str, Any]) -> str:
    """The check of the training: uniform labels, trained round by round and in one go."""
    recipe = result["recipe"]
    checks = check_training(recipe, restore_rounds(result), restore_checks(result))
    rows = tabulate_training(checks)
    return "\n\n".join(["## Training check", *([table(rows)] if rows else []), explain_training(recipe, checks)])


def describe_batches(result: dict[str, Any], found: Findings) -> str:
    """The same for one batch size."""
    recipe, name, rows = result["recipe"], result["recipe"]["name"], found.batch_size
    parts, controls = [f"## Batches of {rows:,}"], list_control_names(recipe)
    parts += show_figures(result, str(rows), f"{recipe['metric']} by labels, batches of {rows:,}")
    parts += [table(tabulate_points(found.points))]
    compared = table(tabulate_comparisons(found.minus(recipe["baseline"])))
    parts += [f"Minus {recipe['baseline']} in the same trial, with intervals and verdicts:", compared]
    if found.credits:
        parts += [f"{CREDIT}, in the same trial:", table(tabulate_credits(recipe, found.credits))]
    if claims := tabulate_claims(found, name):
        parts += ["Claims of the paper, for the area under the learning curve:", table(claims)]
    if further := tabulate_further(found, recipe):
        parts += ["Further comparisons:", table(further)]
    credited = replace(found, savings=tuple(one for one in found.savings if not {one.strategy, one.other} & controls))
    parts += [f"{SAVINGS}{note_seed_best(credited)}", table(tabulate_savings(credited, recipe.get("reported_savings")))]
    return "\n\n".join([*parts, "Median seconds per round:", table(tabulate_seconds(found))])


def show_figures(result: dict[str, Any], which: str, label: str) -> list[str]:
    """The figures of one kind, in Markdown: those of the strategies, then those with controls."""
    name = result["recipe"]["name"]
    return [
        f"![{name}: {label}{', with controls' if 'controls' in part else ''}](../figures/{name}-{which}{part}.svg)"
        for part in split_marks(result["recipe"], list_marks(result)[which])
    ]


def table(rows: Sequence[dict[str, str]]) -> str:
    """Rows with the same keys, in Markdown; a number is not torn from its error or its unit."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return re.sub(r"(?<=\d) (?=[±%])|(?<=±) (?=\d)", "\N{NO-BREAK SPACE}", text)


def list_control_names(recipe: Mapping[str, Any]) -> set[str]:
    return {arm["name"] for arm in recipe["strategies"] if "control_of" in arm}


def list_marks(result: dict[str, Any]) -> dict[str, list[Mark]]:
    """Kind of figure -> its points: the curves by batch size, and differences from the baseline over batch sizes."""
    findings = map(Findings.from_json, result["findings"])
    curves = {str(found.batch_size): mark_points(found.points) for found in findings}
    sweeps = {
        f"sweep-{of.split()[0]}": [(one["series"], one["x"], one["y"], one["error"]) for one in marks]
        for of, marks in result["sweep"].items()
    }
    return curves | sweeps


def split_marks(recipe: Mapping[str, Any], marks: Sequence[Mark]) -> dict[str, list[Mark]]:
    """End of the file name -> the points of a figure: the strategies, then those that have controls, with them."""
    controls = list_control_names(recipe)
    shown = list(dict.fromkeys(name for pair in list_controlled(recipe) for name in pair))
    kinds = {
        "": split_series([mark for mark in marks if mark[0] not in controls], recipe["baseline"]),
        "-controls": split_series([mark for name in shown for mark in marks if mark[0] == name]),
    }
    return {
        f"{kind}{f'-{number + 1}' if number else ''}": group
        for kind, groups in kinds.items()
        for number, group in enumerate(groups)
    }


def draw(result: dict[str, Any]) -> dict[str, str]:
    """File name -> SVG of every figure of a recipe."""
    recipe = result["recipe"]
    drawn = {}
    for which, marks in list_marks(result).items():
        axes: dict[str, Any] = {"y": recipe["metric"].replace("_", " ")}
        if which.startswith("sweep"):
            axes = {"y": f"minus {recipe['baseline']}", "x": "labels per batch", "log": True}
        for part, points in split_marks(recipe, marks).items():
            drawn[f"{recipe['name']}-{which}{part}.svg"] = frame(draw_curves(points, **axes))
    return drawn


OVERVIEW_PARTS: dict[str, Callable[[list[dict[str, Any]]], str]] = {
    "overview": overview,
    "round-robin": compare_round_robin,
    "claims": judge_claims,
    "verdicts": explain_margins,
    "missing": list_missing,
}
RECIPE_PARTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "setting": describe_setting,
    "sweep": describe_sweep,
    "findings": describe_findings,
}


def main() -> None:
    """Refresh pages and figures; figures of results that are gone are removed."""
    for name in ORDER:
        if (path := RESULTS / f"{name}.json").is_file():
            refresh(path)
    drawn = {file: figure for result in load_all() for file, figure in draw(result).items()}
    write_figures(drawn, FIGURES, mine=lambda name: not name.startswith(DRAWN_ELSEWHERE))
    for path in pages():
        path.write_text(text(path))


if __name__ == "__main__":
    main()
