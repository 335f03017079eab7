"""Goal: a million of a hundred million rows chosen by Cluster-Margin, from margins and clusters in files by shards.

    python benchmarks/select_shards.py --scratch DIR     DIR needs 2 GB

Shards of a million rows: margins in float32 and cluster numbers in int32, 10 million clusters whose sizes have a heavy
tail; k = 1 million out of k_m = 10 million candidates. `select` reads the folders and writes the batch to a Parquet
file, in a process of its own and on one thread, after a small call has loaded what is compiled. The files were written
just before, so they come from the cache of the system. Input: bytes of the files. Memory: the peak of the process,
libraries included. A hundredth of the shards, selected from their files and from arrays, gives the same batch, row by
row, before anything is measured.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hedgerow as hr
from pick import make_pool
from runner import in_fresh_process, parser, peak_memory, save

SEED, FACTOR = 0, 10
FORMS = ("npy", "parquet")
SCRATCH = Path(tempfile.gettempdir()) / "hedgerow-select-shards"


def write_shards(folder, n, rows, clusters):
    """Margins and clusters in folders of their own, as .npy and as Parquet, unless they are there."""
    for kind in ("margin", "cluster"):
        for form in FORMS:
            (folder / form / kind).mkdir(parents=True, exist_ok=True)
    for shard, start in enumerate(range(0, n, rows)):
        if (folder / "parquet" / "cluster" / f"{shard:05}.parquet").exists():
            continue
        margins, labels = make_pool(min(rows, n - start), clusters, SEED + shard)
        for kind, values in {"margin": margins, "cluster": labels}.items():
            np.save(folder / "npy" / kind / f"{shard:05}.npy", values)
            pq.write_table(pa.table({kind: values}), folder / "parquet" / kind / f"{shard:05}.parquet")


def select(margins, clusters, k):
    """A batch of k rows."""
    return hr.select(hr.ClusterMargin(FACTOR), k, margins=margins, clusters=clusters, seed=SEED)


def check_rows(folder, form, k):
    """The first shard from its files and from arrays: the same rows in the same order."""
    paths = [str(min((folder / form / kind).iterdir())) for kind in ("margin", "cluster")]
    arrays = [np.load(min((folder / "npy" / kind).iterdir())) for kind in ("margin", "cluster")]
    assert np.array_equal(select(*paths, k).rows, select(*arrays, k).rows)


def measure_select(folder, form, k):
    """Time and memory of a selection from folders, and of writing it."""
    check_rows(folder, form, max(10, k // 100))
    margins, clusters = (str(folder / form / kind) for kind in ("margin", "cluster"))
    selected = peak_memory(lambda: select(margins, clusters, k))
    batch, path = selected.pop("result"), folder / "batch.parquet"
    written = peak_memory(lambda: batch.save(path, force=True))
    assert len(np.unique(batch.rows)) == k
    return {
        "cpu_seconds": selected["cpu"],
        "wall_seconds": selected["wall"],
        "saving_wall_seconds": written["wall"],
        "input_bytes": sum(file.stat().st_size for file in (folder / form).rglob("*.*")),
        "batch_bytes": path.stat().st_size,
        "peak_rss_bytes": selected["peak_rss_bytes"],
        "clusters_in_batch": len(np.unique(batch.clusters)),
        "highest_margin": float(batch.margins.max()),
    }


def main():
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=100_000_000)
    options.add_argument("--scratch", type=Path, default=SCRATCH, help="a folder for the shards")
    options = options.parse_args()
    n = 200_000 if options.quick else options.rows
    rows, clusters, k = n // 100, n // 10, n // 100
    folder = options.scratch / f"select-{n}"
    write_shards(folder, n, rows, clusters)
    results = {form: in_fresh_process(measure_select, folder, form, k)["result"] for form in FORMS}
    settings = {"n": n, "shards": 100, "clusters": clusters, "k": k, "candidates": k * FACTOR, "quick": options.quick}
    save("select_shards", SEED, settings, results, options)


if __name__ == "__main__":
    main()
