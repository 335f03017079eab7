"""Claim: of a table of a million rows, 500 MB as CSV, the desk reads the columns of thirty examples in milliseconds.

Thirty rows by id, as a page claims them, at random, each of 50 times; from the copy that the desk makes of a table when
it is first started with it, and from the table itself: all ids are looked through, then the row groups with these rows
are read (a CSV file is in memory). `copied`: the first start, `opened`: each later one, in fresh processes, with the
memory that they took at most. CPU seconds are those of one thread, and Arrow's threads while a CSV file is read.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from hedgerow import pool
from hedgerow.desk.columns import open_columns
from runner import arguments, in_fresh_process, save

SEED = 0
ROWS, LETTERS = 1_000_000, 440  # letters of the longest column
AT_ONCE, TIMES = 30, 50
NAMES = ["title", "body"]


def write_tables(folder, n):
    """The same table as Parquet, in one row group, and as CSV; ids are texts."""
    rng = np.random.default_rng(SEED)
    words = np.array(["".join(chr(97 + letter) for letter in rng.integers(0, 26, 7)) for _ in range(5000)])
    bodies = [" ".join(words[rng.integers(0, 5000, LETTERS // 8)]) for _ in range(min(n, 20_000))]
    columns = {
        "id": [f"ticket-{row}" for row in range(n)],
        "title": [f"title of {row}" for row in range(n)],
        "body": [f"{row} {bodies[row % len(bodies)]}" for row in range(n)],
    }
    table = pa.table(columns)
    pq.write_table(table, folder / "table.parquet", row_group_size=n)
    pyarrow.csv.write_csv(table, folder / "table.csv")
    return {"Parquet": folder / "table.parquet", "CSV": folder / "table.csv"}


def draw(n):
    """The ids of thirty rows, again and again."""
    rng = np.random.default_rng(SEED)
    return [[f"ticket-{row}" for row in rng.choice(n, AT_ONCE, replace=False)] for _ in range(TIMES)]


def start(source, folder):
    began = time.perf_counter()
    open_columns(source, folder)
    return time.perf_counter() - began


def read_all(read, ids):
    """Wall seconds of a read: the median, and the longest."""
    took = []
    for one in ids:
        began = time.perf_counter()
        found = read(one)
        took.append(time.perf_counter() - began)
        assert found[3]["title"] == f"title of {one[3].partition('-')[2]}"
    return {"median_seconds": float(np.median(took)), "longest_seconds": max(took)}


def read_plainly(table, ids, wanted):
    """Thirty rows without a copy."""
    rows = pool.match_ids(np.array(wanted, np.object_), ids, "fields")
    found = [None] * len(wanted)
    for places, columns in table.gather(NAMES, rows):
        for at, *values in zip(places, *(column.to_pylist() for column in columns), strict=True):
            found[at] = dict(zip(NAMES, values, strict=True))
    return found


def tell(usage):
    """What a start took."""
    return {
        "seconds": usage["result"],
        "cpu_seconds": usage["cpu"],
        "peak_bytes": usage["peak_rss_bytes"] - usage["baseline_rss_bytes"],
    }


def measure_table(source, folder, n):
    ids = draw(n)
    copied, opened = (tell(in_fresh_process(start, source, folder)) for _ in range(2))
    columns = open_columns(source, folder)
    plain = pool.open_source(source, "fields")
    own = pool.find_ids(plain)
    return {
        "copied": copied | {"disk_bytes": sum(file.stat().st_size for file in folder.iterdir())},
        "opened": opened,
        "thirty rows": read_all(lambda one: columns.read(one, NAMES), ids),
        "thirty rows of the table itself": read_all(lambda one: read_plainly(plain, own, one), ids[:5]),
    }


def main():
    options = arguments(__doc__)
    n = 20_000 if options.quick else ROWS
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        tables = write_tables(folder, n)
        sizes = {f"{name} bytes": path.stat().st_size for name, path in tables.items()}
        results = {name: measure_table(path, folder / name, n) for name, path in tables.items()}
    save("fields", SEED, {"n": n, **sizes, "quick": options.quick}, results, options)


if __name__ == "__main__":
    main()
