"""Refresh docs/savings.md and its figures from experiments/savings.json, which experiments/savings.py writes.

    python docs/make_savings.py

Areas are compared as in every report (`findings.py`): paired t intervals, one correction for all comparisons of the
page. Label savings are ratios of mean curves; their intervals are percentiles over 1,000 resamples of the trials.
Numbers in the text are followed by a comment that says which they are, LEVEL/STRATEGY/OTHER/WHAT, and are written anew.
"""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from generated import FIGURES, fill_parts, frame, write_figures
from hedgerow.experiments.findings import EQUIVALENCE, Comparison, Family, compare_pair, measure_area, reach
from hedgerow.report import draw_intervals
from make_results import mark, table

HERE = Path(__file__).resolve().parent
PAGE = HERE / "savings.md"
RESULTS = HERE.parent / "experiments" / "savings.json"
SHUFFLED = "shuffled clusters"
OTHERS = ("margin", "random", SHUFFLED)
RESAMPLES = 1_000
SHOWN = (10.0, 300.0)  # percent of labels, in figures: intervals are cut there
WIDEST = 0.03  # difference of areas, in figures
TWO, PAIRS = "cluster-margin", "cluster-margin-pairs"
SHORT = {TWO: "two steps", PAIRS: "over pairs"}
NUMBER = re.compile(r"(?P<number>[+−-]?\d[\d,]*(?:\.\d+)?)(?P<unit> ?%?) ?<!-- ?savings: (?P<place>[^<>\n]+?) ?-->")

Curves = npt.NDArray[np.float64]  # trials x rounds


@dataclass(frozen=True)
class Entry:
    """One line of an axis: a level, and the strategy that is looked at there, with a short name."""

    label: str
    level: str
    arm: str
    kind: str


def both(label: str, level: str) -> list[Entry]:
    """The two strategies of every level."""
    return [Entry(label, level, arm, SHORT[arm]) for arm in (TWO, PAIRS)]


def factors(arm: str, values: tuple[str, ...], level: str = "base", others: str = "choices") -> list[Entry]:
    """A strategy with several factors; 10 is its usual one, the `others` have a level of their own."""
    return [
        Entry(f"{value} k", level, arm, SHORT[arm])
        if value == "10"
        else Entry(f"{value} k", others, f"{arm}, factor {value}", SHORT[arm])
        for value in values
    ]


AXES: dict[str, list[Entry]] = {
    "copies": [
        *both("none", "base"),
        *both("50 %, misspelled", "copies-heavy-50"),
        *both("80 %, misspelled", "copies-heavy-80"),
        *both("80 %, four of each word", "copies-equal-80"),
        *both("95 %, misspelled", "copies-heavy-95"),
        *both("50 %, exact", "exact-heavy-50"),
        *both("80 %, exact", "exact-heavy-80"),
        *both("95 %, exact", "exact-heavy-95"),
    ],
    "copies-share": [
        *both("1 %", "exact-80-share-1"), *both("6 %", "exact-heavy-80"), *both("25 %", "exact-80-share-25"),
    ],
    "copies-candidates": [
        *factors(TWO, ("1.25", "3", "10"), "exact-heavy-80", "exact-80-choices"),
        *factors(PAIRS, ("1.25", "2", "3", "5", "10"), "exact-heavy-80", "exact-80-choices"),
    ],
    "paper": [
        *both("none, small batches", "paper-small"), *both("none, large batches", "paper-large"),
        *both("80 %, exact, small batches", "paper-small-exact-80"),
        *both("80 %, exact, large batches", "paper-large-exact-80"),
        *both("95 %, exact, small batches", "paper-small-exact-95"),
        *both("95 %, exact, large batches", "paper-large-exact-95"),
        *both("95 %, misspelled, small batches", "paper-small-copies-95"),
        *both("95 %, misspelled, large batches", "paper-large-copies-95"),
    ],
    "candidates": [*factors(TWO, ("1.25", "3", "10")), *factors(PAIRS, ("1.25", "2", "3", "5", "10"))],
    "row-margin": [
        *(Entry(name, "choices", f"{TWO}, row margin {name}", SHORT[TWO]) for name in ("lowest", "mean", "top2")),
        Entry("top2-all", "base", TWO, SHORT[TWO]),
        Entry("lowest, informed second step", "choices", f"{TWO}, informed pairs", SHORT[TWO]),
    ],
    "cluster-size": [
        *(Entry("3", "sizes", f"{arm}, size 3", SHORT[arm]) for arm in (TWO, PAIRS)),
        *both("10", "base"),
        *(Entry("50", "sizes", f"{arm}, size 50", SHORT[arm]) for arm in (TWO, PAIRS)),
    ],
    "classes": [
        *both("42", "base"), *both("504", "classes-504"), *both("1,008", "classes-1008"),
        *both("983 (delicious)", "delicious"),
    ],
    "first-model": [
        *both("300 words", "first-300"), *both("1,750 words", "base"), *both("10,000 words", "first-10000"),
    ],
    "embeddings": [
        *both("after the seed set", "base"), *both("of the first model", "first-clusters"),
        *both("frozen, CIFAR-100", "cifar100"), *both("frozen, SVHN", "svhn"),
    ],
    "head": [
        *both("words, independent", "base"), *both("words, softmax", "softmax"),
        *both("CIFAR-100, independent", "cifar100"), *both("CIFAR-100, softmax", "cifar100-softmax"),
        *both("SVHN, independent", "svhn"), *both("SVHN, softmax", "svhn-softmax"),
    ],
    "share": [*both("1 %", "share-1"), *both("6 %", "base"), *both("25 %", "share-25")],
    "negatives": [
        *both("1", "negatives-1"), *both("5", "base"), *both("20", "negatives-20"),
        *both("5, proposed", "negatives-proposed"),
    ],
    "training": [*both("from the first model", "base"), *both("from the previous round", "training-previous")],
    "rows": [
        Entry(f"{value} k", "digits", f"{TWO}, factor {value}", "rows") for value in ("1.25", "3", "10")
    ],
    "row-clusters": [
        *(Entry("of the model", "digits", f"{TWO}, factor {value}", f"{value} k") for value in ("3", "10")),
        *(
            Entry(kind, "digits-clusters", f"{TWO}, factor {value}, {kind}", f"{value} k")
            for kind in ("true copies", "pixels, size 10", "pixels, size 20") for value in ("3", "10")
        ),
    ],
}  # fmt: skip
FURTHER = ("choices", "sizes", "digits-clusters", "exact-80-choices")  # the trials of another level, with other arms
DRAWN = "cluster-margin-pairs, power 1"  # where it was run, its comparisons belong to the family too


@cache
def read() -> dict[str, Any]:
    """The result file."""
    found: dict[str, Any] = json.loads(RESULTS.read_text())
    return found


def entries(axis: str) -> list[Entry]:
    """The lines of an axis whose runs have at least two trials; none if there is nothing to compare."""
    found = [
        entry
        for entry in AXES[axis]
        if entry.level in read()["levels"]
        and entry.arm in read()["levels"][entry.level]["curves"]
        and read()["levels"][entry.level]["trials"] > 1
    ]
    return found if len({entry.label for entry in found}) > 1 else []


def name_other(entry: Entry, other: str) -> str:
    """The strategy that an entry is compared with: its own control, margin or random."""
    return f"{entry.arm}, {SHUFFLED}" if other == SHUFFLED else other


def count_labels(level: dict[str, Any]) -> list[int]:
    """The labels after each round of a level as it is stored."""
    return [level["seed_size"] + number * level["batch_size"] for number in range(level["rounds"] + 1)]


def look_up(level: str, arm: str) -> Curves:
    """The scores of a strategy in every trial and round."""
    return np.array(read()["levels"][level]["curves"][arm], np.float64)


# Areas.


@cache
def list_pairs() -> tuple[tuple[str, str, str], ...]:
    """(level, strategy, other) of every comparison on the page, each once."""
    wanted: dict[tuple[str, str, str], None] = {}
    for axis in AXES:
        for entry in entries(axis):
            wanted |= {(entry.level, entry.arm, name_other(entry, other)): None for other in OTHERS}
    for level in levels():
        shuffled = f"{PAIRS}, {SHUFFLED}"
        if shuffled in read()["levels"][level]["curves"]:
            wanted[level, shuffled, "margin"] = None
        if DRAWN in read()["levels"][level]["curves"]:
            wanted |= {(level, DRAWN, other): None for other in ("margin", f"{DRAWN}, {SHUFFLED}")}
    informed = ("choices", f"{TWO}, informed pairs, {SHUFFLED}", "margin")  # quoted in the text
    if informed[0] in read()["levels"]:
        wanted[informed] = None
    return tuple(wanted)


def gather() -> Family:
    """All comparisons of the page."""
    return Family(len(list_pairs()), EQUIVALENCE["average_precision"])


@cache
def compare(level: str, ours: str, theirs: str) -> Comparison:
    """The difference of the areas under two curves, within trials."""
    assert (level, ours, theirs) in list_pairs(), "every comparison on the page is counted"
    return compare_areas(read()["levels"][level], ours, theirs, gather())


def compare_areas(level: dict[str, Any], ours: str, theirs: str, family: Family) -> Comparison:
    """The same for a level as it is stored."""
    labels = count_labels(level)

    def measure(arm: str) -> dict[int, float]:
        return {
            trial: measure_area(list(zip(labels, one, strict=True))) for trial, one in enumerate(level["curves"][arm])
        }

    return compare_pair((ours, measure(ours)), (theirs, measure(theirs)), "area", True, family)


# Savings.


def divide_labels(ours: npt.NDArray[np.float64], theirs: npt.NDArray[np.float64], labels: list[int]) -> float:
    """The labels that `ours` needs for the best score of `theirs`, over the labels that `theirs` needs for it.

    If it is never reached: all labels of `ours`, over those with which `theirs` has reached the best score of `ours`,
    which is 1 or more. NaN if `theirs` is best with the seed set, which both share.
    """
    at = labels[int(np.argmax(theirs))]
    if at == labels[0]:
        return float("nan")
    needed = reach(list(zip(labels, ours, strict=True)), float(theirs.max()))
    if needed is not None:
        return needed / at
    reached = reach(list(zip(labels, theirs, strict=True)), float(ours.max()))
    assert reached is not None, "the best of theirs is above the best of ours"
    return labels[-1] / reached


@cache
def estimate_ratio(level: str, ours: str, theirs: str) -> tuple[float, float, float]:
    """The ratio of labels by the mean curves, in percent, and its interval; NaN where it has no meaning."""
    mine, other, labels = look_up(level, ours), look_up(level, theirs), count_labels(read()["levels"][level])
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(mine), (RESAMPLES, len(mine)))
    ratios = np.array([divide_labels(mine[some].mean(axis=0), other[some].mean(axis=0), labels) for some in drawn])
    if np.isnan(ratios).mean() > 0.05:
        return (float("nan"),) * 3
    low, high = np.nanpercentile(ratios, [2.5, 97.5])
    return 100 * divide_labels(mine.mean(axis=0), other.mean(axis=0), labels), 100 * float(low), 100 * float(high)


def show_ratio(found: tuple[float, float, float]) -> str:
    """Percent, with its interval."""
    middle, low, high = found
    return "–" if np.isnan(middle) else f"{middle:.0f} ({low:.0f} to {high:.0f})"


# Tables.


def tabulate_axis(axis: str) -> str:
    """One row per entry: labels needed in percent of those of the others, and differences of areas."""
    rows = []
    for entry in entries(axis):
        row = {"level": entry.label, "strategy": entry.kind, "trials": str(read()["levels"][entry.level]["trials"])}
        pairs = {other: (entry.level, entry.arm, name_other(entry, other)) for other in OTHERS}
        row |= {f"labels, % of {other}": show_ratio(estimate_ratio(*pairs[other])) for other in OTHERS}
        row |= {f"area minus {other}": mark(compare(*pairs[other])) for other in OTHERS}
        rows.append(row)
    figure = f"![Labels needed, as % of those of margin, random and shuffled clusters](figures/savings-{axis}.svg)"
    return f"{figure}\n\n{table(rows)}" if rows else "Not run yet."


def tabulate_drawn() -> str:
    """The variant that draws its candidates by margin, on every level where it was run."""
    rows = [
        {
            "level": name_level(level),
            "labels, % of margin": show_ratio(estimate_ratio(level, DRAWN, "margin")),
            f"labels, % of {SHUFFLED}": show_ratio(estimate_ratio(level, DRAWN, f"{DRAWN}, {SHUFFLED}")),
            "area minus margin": mark(compare(level, DRAWN, "margin")),
            f"area minus {SHUFFLED}": mark(compare(level, DRAWN, f"{DRAWN}, {SHUFFLED}")),
        }
        for level in levels()
        if DRAWN in read()["levels"][level]["curves"]
    ]
    return table(rows)


def name_level(level: str) -> str:
    """A level in the words of its axis."""
    if level == "base":
        return "base"
    axis, label = next((axis, entry.label) for axis in AXES for entry in AXES[axis] if entry.level == level)
    return f"{axis.replace('-', ' ')}: {label}" if axis != "rows" else "redundant digits (rows)"


def tabulate_redundancy() -> str:
    """Every level with copies: what the first batch of margin repeats, and what clusters gained; most first."""
    rows = []
    for level in levels():
        found = read()["levels"][level]["redundancy"].get("margin", {})
        if "copies: groups" not in found and level != "base":
            continue
        repeats = 100 / found.get("copies: groups", 100)  # without copies every pick is an original
        row = {
            "level": name_level(level),
            "picks per distinct original": f"{repeats:.2f}",
            "picks with a copy in the batch": f"{100 * found.get('copies: sharing', 0):.0f} %",
            "picks per cluster": f"{100 / found['clusters: groups']:.2f}",
            "by chance": f"{100 / found['by chance: groups']:.2f}",
            "gain, two steps": mark(compare(level, TWO, f"{TWO}, {SHUFFLED}")),
            "gain, over pairs": mark(compare(level, PAIRS, f"{PAIRS}, {SHUFFLED}")),
        }
        rows.append((repeats, row))
    return table([row for _, row in sorted(rows, key=lambda pair: -pair[0])])


def tabulate_threshold() -> str:
    """What `advise` measures before the first batch, next to what clusters gained; most excess first."""
    rows = []
    for level in levels():
        measured, excess = read()["levels"][level]["measured"], measure_excess(level)
        if excess is not None:
            row = {
                "level": name_level(level),
                "picks that share a cluster": f"{100 * measured['margin_sharing']:.0f} %",
                "by chance": f"{100 * measured['chance_sharing']:.0f} %",
                "excess": f"{100 * excess:+.0f} points",
                "agreement": f"{measured['agreement']:.2f}",
                "tightness": f"{measured['tightness']:.2f}",
            }
            gains = {
                f"gain, {kind}": mark(compare(level, arm, f"{arm}, {SHUFFLED}")) if arm in credited(level) else ""
                for kind, arm in (("two steps", TWO), ("over pairs", PAIRS), ("rows", f"{TWO}, factor 3"))
            }
            rows.append((excess, row | gains))
    return table([row for _, row in sorted(rows, key=lambda pair: -pair[0])])


def measure_excess(level: str) -> float | None:
    """The share of margin's picks that share a cluster, minus what it would be by chance; None if not measured."""
    measured = read()["levels"][level]["measured"]
    return measured["margin_sharing"] - measured["chance_sharing"] if measured else None


def levels() -> list[str]:
    """The levels that have the two strategies, or for rows the one, and their controls."""
    return [level for level, given in read()["levels"].items() if given["trials"] > 1 and level not in FURTHER]


def credited(level: str) -> tuple[str, ...]:
    """The strategies whose gain over shuffled clusters is shown for every level."""
    return (f"{TWO}, factor 3",) if level == "digits" else (TWO, PAIRS)


def describe_family() -> str:
    """How many comparisons the page makes, and what its verdicts mean."""
    family = gather()
    trials = sorted({given["trials"] for given in read()["levels"].values() if given["trials"] > 1})
    span = str(trials[0]) if len(trials) == 1 else f"{trials[0]} to {trials[-1]}"
    verdicts = [compare(*pair).verdict.split(" within")[0] for pair in list_pairs()]
    counts = ", ".join(f"{verdicts.count(kind)} {kind}" for kind in ("better", "worse", "equal", "undecided"))
    return (
        f"{len(levels())} levels, {span} trials each (the seeds are the numbers of the trials), {family.comparisons} "
        f"comparisons of areas: each interval has {100 * family.confidence:.3f} % confidence, so that all hold jointly "
        f"with 95 % (Bonferroni). Verdicts: {counts}. Bold: better or worse (decided). With an equals sign: equal "
        f"within {family.equivalence:g}. Plain: undecided. Intervals of label ratios are 95 % each, not corrected, "
        "and with so few trials too narrow rather than too wide. "
        f"{name_origin(read()['machine'])}"
    )


def name_origin(where: dict[str, Any]) -> str:
    """When, on what and by which commits a result file was measured."""
    commits = " and ".join(f"`{commit[:10]}`" for commit in str(where["commit"]).split(" and "))
    return f"Measured on {where['date']}, {where['cores']} cores, commit {commits}."


# Figures.


def draw_axis(axis: str) -> str:
    """Labels needed in percent of those of the others, one line per entry."""
    marks = []
    for other in OTHERS:
        for entry in entries(axis):
            found = estimate_ratio(entry.level, entry.arm, name_other(entry, other))
            if not np.isnan(found[0]):
                cut = [float(np.clip(value, *SHOWN)) for value in found]
                marks.append((f"{entry.label}: {entry.kind}", f"% of {other}", *cut))
    order = [f"{entry.label}: {entry.kind}" for entry in entries(axis)]
    marks.sort(key=lambda one: order.index(one[0]))
    return draw_intervals(marks, x="labels needed (%)", middle=100.0)


def draw_gains() -> str:
    """What clusters gain over shuffled clusters on every level: the difference of the areas; most excess first."""
    marks = []
    for level in levels():
        for arm in credited(level):
            found = compare(level, arm, f"{arm}, {SHUFFLED}")
            assert found.low is not None, "there are several trials"
            assert found.high is not None
            kind = "one step, over pairs" if arm == PAIRS else "two steps (rows: one)"
            cut = [float(np.clip(value, -WIDEST, WIDEST)) for value in (found.mean, found.low, found.high)]
            marks.append((name_level(level), kind, *cut))
    excess = {name_level(level): measure_excess(level) for level in levels()}
    marks = [(f"{row} ({100 * excess[row]:+.0f})", *rest) for row, *rest in marks if excess[row] is not None]
    marks.sort(key=lambda one: -int(one[0].rpartition("(")[2].rstrip(")")))
    return draw_intervals(marks, x=f"area minus {SHUFFLED}", band=gather().equivalence)


def draw() -> dict[str, str]:
    """File name -> SVG of every figure of the page."""
    drawn = {f"savings-{axis}.svg": draw_axis(axis) for axis in AXES if entries(axis)}
    drawn["savings-gains.svg"] = draw_gains()
    return {file: frame(figure) for file, figure in drawn.items()}


# The page.


def find_number(place: str) -> float:
    """A number of the text by its place LEVEL/STRATEGY/OTHER/WHAT; WHAT is area or labels."""
    level, arm, other, what = place.split("/")
    if what == "groups" or what == "sharing":
        return float(read()["levels"][level]["redundancy"][arm][f"{other}: {what}"]) * (100 if what == "sharing" else 1)
    theirs = f"{arm}, {SHUFFLED}" if other == "shuffled" else other
    return estimate_ratio(level, arm, theirs)[0] if what == "labels" else compare(level, arm, theirs).mean


def fill_number(found: re.Match[str]) -> str:
    """A marked number, written with the decimals and the sign that it had."""
    decimals = len(found["number"].partition(".")[2])
    sign = "+" if found["number"][0] in "+−-" else ""
    return (
        f"{find_number(found['place']):{sign}.{decimals}f}{found['unit'].rstrip()} <!-- savings: {found['place']} -->"
    )


def text() -> str:
    """The page with its generated parts and numbers."""
    parts = {f"axis-{axis}": lambda axis=axis: tabulate_axis(axis) for axis in AXES}
    parts |= {"family": describe_family, "redundancy": tabulate_redundancy, "drawn": tabulate_drawn}
    parts |= {"threshold": tabulate_threshold}
    return NUMBER.sub(fill_number, fill_parts(PAGE.read_text(), lambda name: parts[name]()))


def main() -> None:
    """Refresh the page and its figures."""
    write_figures(draw(), FIGURES, mine=lambda name: name.startswith("savings-"))
    PAGE.write_text(text())


if __name__ == "__main__":
    main()
