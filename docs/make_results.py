"""Refresh docs/results.md, docs/results/*.md and docs/figures from experiments/results/*.json.

    python docs/make_results.py

A result file is the `summary.json` that `hedgerow experiment report` writes, under the recipe's name. The pages are
written by hand, except for marked numbers (marks.py) and parts from `<!-- generated: NAME -->` to `<!-- end -->`.
The paper's claims are listed here as pairs of strategies; whether one is replicated is computed from the trials, with
the same paired intervals as in the reports (over the area under the learning curve).
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hedgerow.experiments.findings import FEW_TRIALS, Comparison, Findings, compare_all, compare_pair, measure_areas
from hedgerow.experiments.pages import (
    CREDIT,
    mark_points,
    tabulate_credits,
    tabulate_points,
    tabulate_savings,
    tabulate_seconds,
    tabulate_sweep,
)
from hedgerow.experiments.recipes import list_recipes
from hedgerow.experiments.records import load_summary, restore_rounds
from hedgerow.metrics import HIGHER_IS_BETTER
from hedgerow.report import draw_curves, frame_figure
from marks import fill

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "experiments" / "results"
FIGURES = HERE / "figures"
OVERVIEW = HERE / "results.md"
PAGES = HERE / "results"
PART = re.compile(r"(?P<open><!-- generated: (?P<name>[\w-]+) -->\n).*?(?P<close><!-- end -->)", re.DOTALL)
ORDER = (
    "cifar10", "cifar100", "svhn", "ablation-badge", "ablation-clusters", "covtype", "sweep-digits",
    "wordlangs", "wordlangs-million", "wordlangs-typos", "wordlangs-distinct", "delicious", "bibtex", "tmc2007",
    "corel5k", "enron", "goemotions", "wordlangs-small", "cifar10-vgg16", "cifar100-vgg16", "svhn-vgg16",
)  # fmt: skip
DRAWN_ELSEWHERE = {"walk.svg"}  # by draw_walk.py
NO_FILES = ("redundant-digits", "words")  # data sets that come with packages
COMPARED = (
    "cluster-margin", "cluster-margin-pairs", "cluster-margin-pairs, power 1", "cluster-margin-pairs, power 1, quota",
    "stochastic-margin", "badge", "coreset", "random",
)  # fmt: skip
SAVINGS = (
    "Labels that the strategy in the row needs to reach the best mean score of the strategy in the column, in percent "
    "of the labels at which the latter reaches it (a dash: never reached):"
)
# A strategy that visits clusters in turn, and the one it is compared with: lowest margins, and a draw by margins.
BY_CLUSTERS = (("cluster-margin-pairs", "margin"), ("cluster-margin-pairs, power 1", "stochastic-margin"))
# What the paper reports: (strategy, relation, other strategy). "above" is better, "level" is no difference.
SMALL = (
    ("cluster-margin", "above", "margin"), ("cluster-margin", "above", "badge"), ("cluster-margin", "above", "coreset"),
    ("cluster-margin", "above", "random"), ("badge", "level", "margin"), ("coreset", "not above", "random"),
)  # fmt: skip
SVHN = (
    ("cluster-margin", "level", "margin"), ("cluster-margin", "above", "badge"), ("cluster-margin", "above", "coreset"),
    ("cluster-margin", "above", "random"), ("margin", "above", "badge"), ("coreset", "not above", "random"),
)  # fmt: skip
LARGE = tuple(("cluster-margin", "above", other) for other in ("margin", "badge", "coreset", "random"))
CLAIMS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "cifar10": SMALL, "cifar10-vgg16": SMALL, "cifar100": SMALL, "cifar100-vgg16": SMALL,
    "svhn": SVHN, "svhn-vgg16": SVHN, "covtype": LARGE,
    "wordlangs": (*LARGE, ("cluster-margin", "not above", "cluster-margin, assign")), "wordlangs-million": LARGE,
    "wordlangs-typos": LARGE, "delicious": LARGE, "bibtex": LARGE, "tmc2007": LARGE,
    "corel5k": LARGE, "enron": LARGE, "goemotions": LARGE,
    "ablation-badge": (("badge, 10 partitions", "level", "badge, 1 partition"),),
    "ablation-clusters": (
        ("cluster-margin, certified", "not above", "cluster-margin, assign"),
        ("cluster-margin, multiround", "level", "cluster-margin, certified"),
    ),
}  # fmt: skip


def text(path: Path) -> str:
    """A page with its generated parts and its marked numbers as the result files have them."""
    parts = OVERVIEW_PARTS if path == OVERVIEW else RECIPE_PARTS
    given = load_all() if path == OVERVIEW else read(path.stem)
    page = PART.sub(
        lambda found: f"{found['open']}\n{parts[found['name']](given)}\n\n{found['close']}", path.read_text()
    )
    return fill(page)


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


def overview(results: Sequence[dict[str, Any]]) -> str:
    """One row per recipe and batch size: the area under each strategy's learning curve minus that of margin."""
    rows = []
    for result in results:
        for found in map(Findings.from_json, result["findings"]):
            areas = {one.strategy: one for one in found.comparisons if (one.of, one.baseline) == ("area", "margin")}
            if "cluster-margin" in areas:
                cells = {name: mark(areas[name]) if name in areas else "" for name in COMPARED}
                rows.append(name_run(result, found.batch_size) | cells)
    return table(rows) if rows else ""


def compare_round_robin(results: Sequence[dict[str, Any]]) -> str:
    """One row per recipe with pairs: strategies with the round-robin over clusters minus those without it."""
    rows = []
    for result in results:
        recipe = result["recipe"]
        for batch_size, rounds in restore_rounds(result).items():
            row = name_run(result, batch_size)
            for ours, theirs in BY_CLUSTERS:
                both = [done for done in rounds if done.strategy in (ours, theirs)]
                if len({done.strategy for done in both}) == 2:
                    means = {one.of: mark(one) for one in compare_all(both, theirs, recipe["metric"])}
                    row |= {f"{ours}: {of}": means[of] for of in ("first round", "area")}
            if len(row) == 3 + 2 * len(BY_CLUSTERS):
                rows.append(row)
    return table(rows) if rows else ""


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
    """A mean difference; bold if it is significant."""
    return f"{one.mean:+.4f}" if one.verdict == "undecided" else f"**{one.mean:+.4f}**"


def describe_setting(result: dict[str, Any]) -> str:
    """The commands that run a recipe; sizes, trials, machine and date of the run shown."""
    recipe, name = result["recipe"], result["recipe"]["name"]
    needs_data = "" if recipe["dataset"] and recipe["dataset"]["name"] in NO_FILES else " --data DATA"
    controls = " --with-controls" if any("control_of" in arm for arm in recipe["strategies"]) else ""
    commands = f"```text\nhedgerow experiment run {name} --out {name}{needs_data} --jobs 2{controls}\n"
    commands += f"hedgerow experiment report {name}\n```"
    sizes = " and ".join(f"{size:,}" for size in recipe["batch_size"])
    trials = "one trial" if result["trials"] == 1 else f"{result['trials']} trials"
    run = f"Seed set of {recipe['seed_size']:,}, {recipe['rounds']} rounds of {sizes}, {trials}"
    rough = " With so few trials the intervals are rough." if 1 < result["trials"] < FEW_TRIALS else ""
    return f"{commands}\n\n{run}; {', '.join(f'{key} {value}' for key, value in result['machine'].items())}.{rough}"


def describe_sweep(result: dict[str, Any]) -> str:
    """Every strategy minus the baseline, by batch size."""
    recipe, name = result["recipe"], result["recipe"]["name"]
    findings = [Findings.from_json(found) for found in result["findings"]]
    parts = []
    for of in result["sweep"]:
        parts += [f"{recipe['metric']} after the {of}, minus {recipe['baseline']}, by batch size:"]
        parts += [show_figure(name, f"sweep-{of.split()[0]}", f"{of}, minus {recipe['baseline']}, by batch size")]
        parts += [table(tabulate_sweep(findings, of))]
    return "\n\n".join(parts)


def describe_findings(result: dict[str, Any]) -> str:
    """Figure, curves, differences, claims, savings and seconds of every batch size."""
    return "\n\n".join(describe_batches(result, Findings.from_json(found)) for found in result["findings"])


def describe_batches(result: dict[str, Any], found: Findings) -> str:
    """The same for one batch size."""
    recipe, name, rows = result["recipe"], result["recipe"]["name"], found.batch_size
    parts = [f"## Batches of {rows:,}"]
    parts += [show_figure(name, str(rows), f"{recipe['metric']} by labels, batches of {rows:,}")]
    parts += [table(tabulate_points(found.points))]
    areas = [spell(one) for one in found.comparisons if one.of == "area"]
    parts += [f"Area under the learning curve, minus {recipe['baseline']} in the same trial:", table(areas)]
    if found.credits:
        parts += [f"{CREDIT}, in the same trial:", table(tabulate_credits(recipe, found.credits))]
    if name in CLAIMS:
        parts += [
            "Claims of the paper, and the difference measured here:",
            table(check_claims(result, rows, CLAIMS[name])),
        ]
    savings = table(tabulate_savings(found, recipe.get("reported_savings")))
    parts += [SAVINGS, savings]
    return "\n\n".join([*parts, "Median seconds per round:", table(tabulate_seconds(found))])


def show_figure(name: str, which: str, label: str) -> str:
    return f"![{name}: {label}](../figures/{name}-{which}.svg)"


def spell(one: Comparison) -> dict[str, str]:
    """A comparison as the cells of a table."""
    interval = "" if one.low is None else f"{one.low:+.4f} to {one.high:+.4f}"
    return {"strategy": one.strategy, "mean": f"{one.mean:+.4f}", "interval": interval, "verdict": one.verdict}


def check_claims(
    result: dict[str, Any], batch_size: int, claims: Sequence[tuple[str, str, str]]
) -> list[dict[str, str]]:
    """Each claim of the paper with the paired difference found here."""
    metric = result["recipe"]["metric"]
    areas = measure_areas(restore_rounds(result)[batch_size], metric)
    rows = []
    for ours, relation, theirs in claims:
        pair = (areas[ours], areas[theirs], ours, theirs, "area")
        found = compare_pair(*pair, higher_is_better=HIGHER_IS_BETTER[metric], comparisons=len(claims))
        cells = spell(found)
        claim = f"{ours} is {relation} {'with' if relation == 'level' else ''} {theirs}".replace("  ", " ")
        rows.append(
            {"claim": claim, "difference here": cells["mean"], "interval": cells["interval"]}
            | {"replicated": judge(relation, found.verdict) if found.trials > 1 else "undecided: one trial"}
        )
    return rows


def judge(relation: str, verdict: str) -> str:
    """Whether a claim is replicated. An interval that includes zero neither confirms nor refutes a difference."""
    if verdict == "undecided":
        return {
            "above": "undecided",
            "level": "consistent: no significant difference",
            "not above": "consistent: not significantly above",
        }[relation]
    if relation == "above":
        return "yes" if verdict == "better" else "no: below"
    if relation == "level":
        return f"no: {verdict}"
    return "yes" if verdict == "worse" else "no: above"


def table(rows: Sequence[dict[str, str]]) -> str:
    """Rows with the same keys, in Markdown; a number is not torn from its error or its unit."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return re.sub(r"(?<=\d) (?=[±%])|(?<=±) (?=\d)", "\N{NO-BREAK SPACE}", text)


def draw(result: dict[str, Any]) -> dict[str, str]:
    """File name -> SVG of every figure of a recipe."""
    name, metric = result["recipe"]["name"], result["recipe"]["metric"].replace("_", " ")
    drawn = {
        f"{name}-{found.batch_size}.svg": draw_curves(mark_points(found.points), y=metric)
        for found in map(Findings.from_json, result["findings"])
    }
    label = f"minus {result['recipe']['baseline']}"
    for of, marks in result["sweep"].items():
        points = [(one["series"], one["x"], one["y"], one["error"]) for one in marks]
        drawn[f"{name}-sweep-{of.split()[0]}.svg"] = draw_curves(points, y=label, x="labels per batch", log=True)
    return {file: add_background(frame_figure(figure)) for file, figure in drawn.items()}


def add_background(figure: str) -> str:
    """The figure on the page color of its own scheme, so that it is legible on a page of the other one too."""
    head, rest = figure.split("</style>", 1)
    return f'{head}</style><rect width="100%" height="100%" rx="6" fill="var(--page)"/>{rest}'


OVERVIEW_PARTS: dict[str, Callable[[list[dict[str, Any]]], str]] = {
    "overview": overview,
    "round-robin": compare_round_robin,
    "missing": list_missing,
}
RECIPE_PARTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "setting": describe_setting,
    "sweep": describe_sweep,
    "findings": describe_findings,
}


def main() -> None:
    """Refresh pages and figures; figures of results that are gone are removed."""
    assert set(ORDER) == set(list_recipes()), "every recipe has its place in the order of the page"
    FIGURES.mkdir(exist_ok=True)
    drawn = {file: figure for result in load_all() for file, figure in draw(result).items()}
    for path in FIGURES.glob("*.svg"):
        if path.name not in drawn and path.name not in DRAWN_ELSEWHERE:
            path.unlink()
    for file, figure in drawn.items():
        (FIGURES / file).write_text(figure)
    for path in pages():
        path.write_text(text(path))


if __name__ == "__main__":
    main()
