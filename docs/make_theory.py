"""Refresh docs/theory.md, its figures and the summaries in experiments/theory from the tables there.

    python docs/make_theory.py

`hedgerow theory STUDY -o FOLDER` writes the tables; the summaries and figures are made of them by the same functions.
The page is written by hand, except for marked numbers (marks.py) and parts from `<!-- generated: NAME -->` to
`<!-- end -->`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from generated import FIGURES as ALL_FIGURES
from generated import fill_parts, frame, write_figures
from hedgerow.theory import STUDIES
from hedgerow.theory.measurements import Row, read_rows, write_rows
from hedgerow.theory.parts import Part
from make_results import table
from marks import fill

HERE = Path(__file__).resolve().parent
PAGE = HERE / "theory.md"
TABLES = HERE.parent / "experiments" / "theory"
FIGURES = ALL_FIGURES / "theory"


def text() -> str:
    """The page with its generated parts and its marked numbers as the tables have them."""
    return fill(fill_parts(PAGE.read_text(), lambda name: PARTS[name]()))


def list_parts() -> list[Part]:
    """The parts of all studies that have been run."""
    return [part for parts in STUDIES.values() for part in parts if (TABLES / f"{part.table}.csv").is_file()]


def read(name: str) -> list[Row]:
    """The rows of a summary."""
    return read_rows(TABLES / f"{name}-summary.csv")


def draw(part: Part) -> dict[str, str]:
    """File name -> SVG of the figures of a part."""
    figures = part.draw(read(part.table))
    return {f"{part.table}-{name}.svg": frame(figure) for name, figure in figures.items()}


def show(value: Any, decimals: int = 3) -> str:
    """A number as text; whole numbers with commas."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.{decimals}f}"


def bracket(row: Row, decimals: int = 3, name: str = "beta") -> str:
    """A value with its interval."""
    return f"{row[name]:.{decimals}f} ({row['low']:.{decimals}f} to {row['high']:.{decimals}f})"


def pivot(rows: Sequence[Row], line: str, across: Callable[[Row], str], cell: Callable[[Row], str]) -> str:
    """A table with one line per value of a column, and the other columns named by `across`."""
    lines: dict[Any, dict[str, str]] = {}
    names = dict.fromkeys(across(row) for row in rows)
    for row in rows:
        lines.setdefault(row[line], dict.fromkeys(names, ""))[across(row)] = cell(row)
    return table([{line: show(value)} | cells for value, cells in sorted(lines.items())])


def tabulate_thresholds() -> str:
    """beta log k by k."""
    rows = [row for row in read("thresholds") if row["setting"] != "n varies" and "limit" not in row]
    return pivot(rows, "k", lambda row: f"{row['sampler']}, {row['setting']}", lambda row: f"{row['beta log k']:.2f}")


def tabulate_limits() -> str:
    """The limit of beta log k by curve."""
    fits = [row for row in read("thresholds") if "limit" in row]
    limit = "limit of beta log k"
    return table([{"sampler": row["sampler"], "pool": row["setting"], limit: bracket(row, 2, "limit")} for row in fits])


def tabulate_clusters() -> str:
    """The number of clusters and the widest, by k."""
    rows = read("clusters")
    return pivot(
        rows, "k", lambda row: row["setting"],
        lambda row: f"{row['clusters / k']:.3f} k clusters, widest {row['widest times k']:.2f} / k",
    )  # fmt: skip


def tabulate_segments() -> str:
    """beta of all samplers at the largest k."""
    rows = read("segments")
    most, bound = max((row["k"], row["bound"]) for row in rows)
    return table(
        [
            {"positions": positions, f"least of any sampler, k = {most:,}": show(bound)}
            | {row["sampler"]: bracket(row, 2) for row in rows if (row["positions"], row["k"]) == (positions, most)}
            for positions in dict.fromkeys(row["positions"] for row in rows)
        ]
    )


def tabulate_rectangles() -> str:
    """beta of the theorem's sampler on the axes beside d / log k, by d."""
    rows = [row for row in read("rectangles") if row["setting"] == "on the axes"]
    return pivot(rows, "d", lambda row: f"k = {row['k']:,}", lambda row: f"{row['beta']:.2f} ({row['d / log k']:.2f})")


def tabulate_pools() -> str:
    """beta of the theorem's sampler on points of a pool, by d and n or k."""
    rows = [row for row in read("rectangles") if row["setting"] in ("n varies", "pool")]
    kept = {(row["d"], row["k"], row["n"]): row for row in rows}
    chosen = sorted(kept.values(), key=lambda row: (row["k"], row["n"], row["d"]))
    return pivot(chosen, "d", lambda row: f"k = {row['k']:,}, n = {row['n']:,}", lambda row: f"{row['beta']:.2f}")


def tabulate_samplers() -> str:
    """beta of the samplers of practice on rectangles, by d."""
    rows = sorted((row for row in read("rectangles") if row["setting"] == "samplers"), key=lambda row: row["k"])
    return pivot(rows, "d", lambda row: f"{row['sampler']}, k = {row['k']:,}", lambda row: f"{row['beta']:.2f}")


def tabulate_hyperplanes() -> str:
    """beta of every sampler for hyperplanes, by distribution, d and k."""
    rows = [row for row in read("hyperplanes") if row["sampler"] != "uniform"]
    lines: dict[tuple[str, int, int], dict[str, str]] = {}
    for row in rows:
        setting = (row["distribution"], row["d"], row["k"])
        named = {"distribution": row["distribution"], "d": show(row["d"]), "k": show(row["k"])}
        value = bracket(row, 2) if "low" in row else show(row["beta"], 2)
        lines.setdefault(setting, named)[row["sampler"]] = value
        lines[setting]["trials"] = show(row["trials"])
    return table(
        [
            {key: value for key, value in line.items() if key != "trials"} | {"trials": line["trials"]}
            for line in lines.values()
        ]
    )


def tabulate_labels() -> str:
    """The labels that uniform needs by setting, the bound, and the other samplers' labels divided by uniform's."""
    return _compare_labels("label-complexity", ("distribution", "d", "eps", "gamma"))


def tabulate_batch_sizes() -> str:
    """The same by the size of a batch."""
    return _compare_labels("batch-sizes", ("k",))


def _compare_labels(name: str, settings: Sequence[str]) -> str:
    lines: dict[tuple[Any, ...], dict[str, str]] = {}
    for row in read(name):
        setting = (row["goal"], *(row[key] for key in settings))
        named = {"until": f"{row['goal']} is eps"} | {key: str(row[key]) for key in settings}
        line = lines.setdefault(setting, named | {"labels, uniform": "", "bound": ""})
        line["bound"] = f"{row['bound']:.0f}" if "bound" in row else ""
        if "beta" in row:
            line[row["sampler"]] = f"{row['beta']:.2f} ({row['beta low']:.2f} to {row['beta high']:.2f})"
        else:
            line["labels, uniform"] = f"{row['labels']:.0f}"
    columns = dict.fromkeys(key for line in lines.values() for key in line)
    return table([{key: line.get(key, "") for key in columns} for line in lines.values()])


def count_intervals(name: str, low: str, high: str, **among: str) -> str:
    """How many intervals of beta are below 1 and above it, by goal and sampler, among the rows with these values."""
    lines: dict[tuple[Any, ...], list[Row]] = {}
    for row in read(name):
        if low in row and row["sampler"] != "uniform" and all(row[key] == value for key, value in among.items()):
            lines.setdefault((row.get("goal"), row["sampler"]), []).append(row)
    return table(
        [
            ({} if goal is None else {"until": f"{goal} is eps"})
            | {"sampler": sampler, "intervals of beta": str(len(rows))}
            | {"below 1": str(sum(row[high] < 1 for row in rows)), "above 1": str(sum(row[low] > 1 for row in rows))}
            for (goal, sampler), rows in lines.items()
        ]
    )


def tabulate_bridge() -> str:
    """Samplers relative to uniform on real embeddings."""
    rows = [row for row in read("bridge") if row["of"] == "sampler"]
    return table(
        [
            {"dataset": row["dataset"], "sampler": row["sampler"], "trials": show(row["trials"])}
            | {"diameter / uniform's": f"{row['ratio']:.2f} ({row['ratio low']:.2f} to {row['ratio high']:.2f})"}
            | {"accuracy minus uniform's, points": f"{row['gain']:+.2f} ({row['low']:+.2f} to {row['high']:+.2f})"}
            for row in rows
        ]
    )


def tabulate_correlations() -> str:
    """The correlations of diameter and accuracy within trials."""
    rows = [row for row in read("bridge") if row["of"].startswith("correlation")]
    return table(
        [
            {"dataset": row["dataset"], "among": row["among"], "measure": row["of"].removeprefix("correlation with ")}
            | {"correlation with accuracy": bracket(row, 2, "correlation")}
            for row in rows
        ]
    )


PARTS: dict[str, Callable[[], str]] = {
    "thresholds": tabulate_thresholds,
    "limits": tabulate_limits,
    "clusters": tabulate_clusters,
    "segments": tabulate_segments,
    "rectangles": tabulate_rectangles,
    "pools": tabulate_pools,
    "samplers": tabulate_samplers,
    "hyperplanes": tabulate_hyperplanes,
    "hyperplanes-intervals": partial(count_intervals, "hyperplanes", "low", "high", distribution="gaussian"),
    "labels": tabulate_labels,
    "labels-intervals": partial(count_intervals, "label-complexity", "beta low", "beta high"),
    "batch-sizes": tabulate_batch_sizes,
    "batch-sizes-intervals": partial(count_intervals, "batch-sizes", "beta low", "beta high"),
    "bridge": tabulate_bridge,
    "correlations": tabulate_correlations,
}


def main() -> None:
    """Refresh summaries, figures and the page; figures of parts that are gone are removed."""
    drawn: dict[str, str] = {}
    for part in list_parts():
        write_rows(TABLES / f"{part.table}-summary.csv", part.summarize(read_rows(TABLES / f"{part.table}.csv")))
        drawn |= draw(part)
    write_figures(drawn, FIGURES)
    PAGE.write_text(text())


if __name__ == "__main__":
    main()
