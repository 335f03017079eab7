"""Measured numbers on pages: each is followed by a comment that names the result file and the place in it.

    0.12 s <!-- import_time:results.hedgerow.seconds -->                  benchmarks/results/import_time.json
    +0.0054 <!-- wordlangs-typos/100000/cluster-margin-pairs/area -->      experiments/results/wordlangs-typos.json
    74 % <!-- wordlangs-typos/100000/cluster-margin-pairs/reaches margin -->
    0.94 <!-- theory/thresholds: limit; n = k^2; quantiles -->             experiments/theory/thresholds-summary.csv

`fill` writes the numbers anew. The unit on the page decides how a value is converted (seconds to ms, minutes or hours,
bytes to MiB or GiB, shares to %), and the number of decimals and the sign stay as they were written.

Places of an experiment are RECIPE/BATCH/STRATEGY/WHAT, where WHAT is `area`, `first round` or `last round` (the
difference from the baseline), the same with ` minus CONTROL` (the difference from a control of the strategy),
`reaches OTHER` (the labels needed to reach the best score of OTHER, as a share), `at N` (the mean score with N labels),
or `select_seconds` and its like.
With `reported` for BATCH, `reaches OTHER` is what the paper reports.

Places of a study of `hedgerow theory` are "theory/TABLE: COLUMN; VALUE; ...", in the one row of the summary that has
all of these values; a value may be given as k=1000, where another column could have the same.
"""

import csv
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
PLACE = r"(?P<file>\w+):(?P<place>(?:results|settings|machine)\.[^<>\n]+?)|(?P<found>[\w-]+/(?:\d+|reported)/[^<>\n]+?)"
PLACE += r"|theory/(?P<measured>[^<>\n]+?)"
MARKED = re.compile(
    r"(?P<number>[+−-]?\d[\d,]*(?:\.\d+)?)"
    r"(?P<between> ?(?P<unit>[\w/%]*)[^<>|\d\n]{0,20}?)"  # the unit, and a word or two behind it
    rf"(?P<mark><!-- ?(?:{PLACE}) ?-->)"
)
# From what the file holds (seconds, bytes, ratios) to the unit on the page.
UNITS = {
    "ms": 1e3,
    "minutes": 1 / 60,
    "hours": 1 / 3600,
    "MB": 1e-6,
    "GB": 1e-9,
    "KiB": 2**-10,
    "MiB": 2**-20,
    "GiB": 2**-30,
    "%": 100,
}


def fill(page: str) -> str:
    """The page with every marked number as its file has it; fenced blocks stay as they are."""
    parts = FENCE.split(page)
    return "".join(part if FENCE.fullmatch(part) else MARKED.sub(_filled, part) for part in parts)


def _filled(found: re.Match[str]) -> str:
    """One marked number, anew."""
    if found["measured"]:
        value = find_measurement(found["measured"])
    else:
        value = find_experiment(found["found"]) if found["found"] else find_benchmark(found["file"], found["place"])
    assert isinstance(value, (int, float)), f"{found['mark']} is no number"
    decimals = len(found["number"].partition(".")[2])
    sign = "+" if found["number"][0] in "+−-" else ""
    number = f"{value * UNITS.get(found['unit'], 1):{sign},.{decimals}f}".replace("-", "−" if sign else "-")
    return f"{number}{found['between']}{found['mark']}"


def find_benchmark(file: str, place: str) -> Any:
    """What benchmarks/results/<file>.json holds at a place; the dot of "slack 1.1" is part of a key."""
    value = read(f"benchmarks/results/{file}.json")
    for key in re.split(r"(?<!\d)\.|\.(?!\d)", place):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def find_experiment(place: str) -> float:
    """What experiments/results/<recipe>.json holds at RECIPE/BATCH/STRATEGY/WHAT."""
    recipe, batch, strategy, what = place.split("/")
    result = read(f"experiments/results/{recipe}.json")
    other = what.removeprefix("reaches ")
    if batch == "reported":
        return float(result["recipe"]["reported_savings"][strategy][other]) / 100
    found = next(one for one in result["findings"] if one["batch_size"] == int(batch))
    if other != what:
        (share,) = (one["share"] for one in found["savings"] if (one["strategy"], one["other"]) == (strategy, other))
        return float(share)
    if what.startswith("at "):
        wanted = (strategy, int(what.removeprefix("at ")))
        (mean,) = (one["mean"] for one in found["points"] if (one["strategy"], one["labeled"]) == wanted)
        return float(mean)
    if what.endswith("_seconds"):
        return float(found["seconds"][strategy][what])
    of, _, control = what.partition(" minus ")
    compared_with = (strategy, control or result["recipe"]["baseline"], of)
    compared = found["credits" if control else "comparisons"]
    (mean,) = (one["mean"] for one in compared if (one["strategy"], one["baseline"], one["of"]) == compared_with)
    return float(mean)


def find_measurement(place: str) -> float:
    """What experiments/theory/<table>-summary.csv has at "TABLE: COLUMN; VALUE; k=10"."""
    name, _, rest = place.partition(": ")
    wanted, *values = rest.split("; ")
    with (ROOT / f"experiments/theory/{name}-summary.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row[wanted]]
    for value in values:
        rows = [row for row in rows if value in row.values() or value in {f"{key}={held}" for key, held in row.items()}]
    (row,) = rows
    return float(row[wanted])


@cache
def read(path: str) -> Any:
    """A result file, by its path from the root."""
    return json.loads((ROOT / path).read_text())
