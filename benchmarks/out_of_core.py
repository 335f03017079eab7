"""Goal: pools larger than memory, clustered on one machine in shards: time, memory, disk and bytes moved by size.

    python benchmarks/out_of_core.py                                    a million rows
    python benchmarks/out_of_core.py --rows 100000000 --scratch DIR     the same command again continues a run

Pools of `pools.py`, 64 dimensions in float16, written as files of a million rows; cosine distance, cut at an average
size of 10, in shards of an eighth of the pool, at least 250,000 and at most 2 million rows, on `processes:2`. Times add
up over interruptions; what a task did when it was interrupted is not counted. Memory: the peak of the driver and the
largest of a task, pages of mapped files included; the workers have one task each. Disk: the folder of the run at its
largest, without the pool. Bytes are those of system calls, and of mapped files those that came from disk. Violations:
3,000 sampled clusters that have another one closer than the cut, by an exact check.
"""

import json
import math
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from invariant import check_cut
from pools import write_shards
from runner import in_fresh_process, parser, peak_resident, reset_peak, save

SEED, WIDTH, AVERAGE_SIZE = 0, 64, 10
LEAST_ROWS, MOST_ROWS = 250_000, 2_000_000
NAMES = {1_000_000: "1m", 3_000_000: "3m", 10_000_000: "10m", 30_000_000: "30m", 50_000_000: "50m", 100_000_000: "100m"}
LOOK_SECONDS = 1.0
SCRATCH = Path(tempfile.gettempdir()) / "hedgerow-out-of-core"


def choose_shard(n):
    """Rows per shard."""
    return int(min(MOST_ROWS, max(LEAST_ROWS, n // 8)))


def measure_folder(folder):
    """Bytes of all files in a folder; those that vanish meanwhile do not count."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).stat().st_size
            except FileNotFoundError:
                continue
    return total


class Ledger:
    """What the driver has spent so far, also before an interruption: a file, written again every few seconds."""

    def __init__(self, path, folder):
        self.path, self.folder = path, folder
        self.before = json.loads(path.read_text()) if path.exists() else {"wall": 0, "cpu": 0, "peak": 0, "disk": 0}
        self.wall, self.cpu, self.last, self.disk = time.perf_counter(), time.process_time(), 0.0, 0
        reset_peak()

    def read(self):
        """Seconds and CPU seconds in all, the peak of memory and of the disk."""
        self.disk = max(self.disk, measure_folder(self.folder))
        return {
            "wall": self.before["wall"] + time.perf_counter() - self.wall,
            "cpu": self.before["cpu"] + time.process_time() - self.cpu,
            "peak": max(self.before["peak"], peak_resident()),
            "disk": max(self.before["disk"], self.disk),
        }

    def look(self, phase, share):
        """Called as the progress of the run."""
        if time.perf_counter() - self.last > LOOK_SECONDS:
            self.last = time.perf_counter()
            beside = self.path.with_suffix(".part")
            beside.write_text(json.dumps(self.read()))
            beside.replace(self.path)
            print(f"{phase}: {share:.0%}", flush=True)


def cluster_pool(pool, work, shard_rows, engine):
    """Cluster the files of a folder; the labels go to a file, what it cost is returned."""
    import hedgerow as hr

    ledger = Ledger(work.with_suffix(".json"), work)
    made = hr.cluster(
        pool, method="certified", average_size=AVERAGE_SIZE, shard_rows=shard_rows, engine=engine, workdir=work,
        centroids=False, progress=ledger.look,
    )  # fmt: skip
    np.save(work.with_suffix(".npy"), made.labels)
    return ledger.read() | {"clusters": made.n_clusters, "threshold": made.threshold}


def check_labels(pool, labels, threshold):
    """Violations of the cut."""
    from hedgerow.pool import open_matrix

    points = open_matrix(pool, "embeddings").view()
    return check_cut(points, np.load(labels), threshold)


def add_tasks(work):
    """What tasks cost, from engine.jsonl."""
    from hedgerow.engines.logs import read_tallies

    tallies = read_tallies(work)

    def total(key):
        return sum(tally.total(key) for tally in tallies)

    def by_task(key):
        names = dict.fromkeys(tally.begin["task"] for tally in tallies)
        return {name: sum(one.total(key) for one in tallies if one.begin["task"] == name) for name in names}

    return {
        "tasks": sum(len(tally.done) for tally in tallies),
        "tasks_cpu_seconds": total("cpu"),
        "task_peak_bytes": max(tally.most("peak") for tally in tallies),
        "read_bytes": total("read"),
        "written_bytes": total("written"),
        "from_disk_bytes": total("from_disk"),
        "cpu_seconds_by_task": by_task("cpu"),
        "read_bytes_by_task": by_task("read"),
        "written_bytes_by_task": by_task("written"),
    }


def main():
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--scratch", type=Path, default=SCRATCH, help="a folder with room for six times the pool")
    options.add_argument("--engine", default="processes:2")
    options = options.parse_args()
    n = 60_000 if options.quick else options.rows
    shard_rows = 10_000 if options.quick else choose_shard(n)
    pool, work = options.scratch / f"pool-{n}", options.scratch / f"work-{n}"
    pool.mkdir(parents=True, exist_ok=True)
    write_shards(pool, n, WIDTH, SEED)
    load = os.getloadavg()[0]
    spent = in_fresh_process(cluster_pool, pool, work, shard_rows, options.engine)["result"]
    tasks = add_tasks(work)
    check = in_fresh_process(check_labels, pool, work.with_suffix(".npy"), spent["threshold"])["result"]
    pool_bytes = n * WIDTH * 2
    results = {
        "wall_seconds": spent["wall"],
        "cpu_seconds": spent["cpu"] + tasks["tasks_cpu_seconds"],
        "driver_cpu_seconds": spent["cpu"],
        "driver_peak_bytes": spent["peak"],
        "disk_bytes": spent["disk"],
        "pool_bytes": pool_bytes,
        "clusters": spent["clusters"],
        "threshold": spent["threshold"],
        "load_before": load,
        **tasks,
        **check,
    }
    settings = {"n": n, "d": WIDTH, "dtype": "float16", "average_size": AVERAGE_SIZE, "shard_rows": shard_rows,
                "shards": math.ceil(n / shard_rows), "engine": options.engine, "quick": options.quick}  # fmt: skip
    save(f"out_of_core_{NAMES.get(n, n)}", SEED, settings, results, options, script="out_of_core")


if __name__ == "__main__":
    main()
