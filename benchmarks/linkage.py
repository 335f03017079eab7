"""Goal: certified average linkage compared with other libraries at 20,000 and 50,000 points, and alone at 1 and 10
million.

    python benchmarks/linkage.py                                  all but the last part
    python benchmarks/linkage.py --size 20000                     one part: 20000, 50000, 1000000
    python benchmarks/linkage.py --size 10000000 --scratch DIR    from a file of 5 GB on disk

Pools of `pools.py`, cosine distance, 128 dimensions, cut at an average size of 10. Every run has its own process,
limited to as many cores as it has threads; kernels are compiled before the clock starts. 20,000: fastcluster on
scipy's `pdist` and on distances from a matrix product, and hedgerow; labels are compared at the cut. 50,000:
scikit-learn's average linkage over a graph of 15 neighbors, and hedgerow. 1M: the shares of the first neighbor
search (sorting into cells, search) and of what follows, the growth from 100,000, and the cost of not knowing the
threshold. All runs of a part take turns; ratios are medians over the turns. Violations: sampled clusters that have
another one closer than the cut, by an exact check. 10M: also the floor, the time that the matrix products of all
searches would take by themselves (rows by centers of cells, and cells by cells), at the speed of products of cells that
stay in the cache.
"""

import gc
import os
import statistics
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from invariant import check_cut
from pools import write_pool
from runner import in_fresh_process, installed_version, parser, peak_memory, save, status_bytes

SEED = 0
WIDTH = 128
AVERAGE_SIZE = 10
PARTS = {20_000: "linkage_20k", 50_000: "linkage_50k", 1_000_000: "linkage_1m", 10_000_000: "linkage_10m"}


def pin(cores):
    """Limits this process to some cores, so that every library in it starts that many threads."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


def cost(usage):
    """`system_seconds` is part of the CPU time: on a virtual machine that gives free memory back to its host, the first
    use of a GiB costs seconds there, which no algorithm can help and large runs meet more of than small ones."""
    seconds = {"cpu_seconds": usage["cpu"], "system_seconds": usage["system"], "wall_seconds": usage["wall"]}
    return seconds | {"peak_rss_bytes": usage["peak_rss_bytes"]}


@contextmanager
def watch(functions):
    """Note (name, CPU seconds, wall seconds) of every call of these (module, name) functions."""
    calls, kept = [], [(module, name, getattr(module, name)) for module, name in functions]

    def timed(name, function):
        def call(*args, **kwargs):
            cpu, wall = time.process_time(), time.perf_counter()
            result = function(*args, **kwargs)
            calls.append((name, time.process_time() - cpu, time.perf_counter() - wall))
            return result

        return call

    try:
        for module, name, function in kept:
            setattr(module, name, timed(name, function))
        yield calls
    finally:
        for module, name, function in kept:
            setattr(module, name, function)


@contextmanager
def count_products():
    """Collects the floating-point operations of all products of rows with centers and of cells with cells."""
    from hedgerow.clustering import cells, layout

    counts, assign, search = [], cells.run_nearest, layout.find_in_cells

    def assign_counted(rows, order, edges, centers, shares, out):
        counts.append(2.0 * rows.shape[1] * float(np.dot(np.diff(edges), np.diff(shares))))
        return assign(rows, order, edges, centers, shares, out)

    def search_counted(points, half, k, starts, pairs, *rest, **named):
        sizes = np.diff(starts).astype(float)
        compared = float(sizes @ sizes) + float(sizes[pairs[:, 0]] @ sizes[pairs[:, 1]])
        counts.append(2.0 * points.shape[1] * compared)
        return search(points, half, k, starts, pairs, *rest, **named)

    try:
        cells.run_nearest, layout.find_in_cells = assign_counted, search_counted
        yield counts
    finally:
        cells.run_nearest, layout.find_in_cells = assign, search


def measure_floor(operations, threads, rows=125, seconds=2.0):
    """The seconds that these operations take as products of cells of so many rows, on some threads."""
    from concurrent.futures import ThreadPoolExecutor

    from threadpoolctl import threadpool_limits

    def multiply(seed):
        cell = np.random.default_rng(seed).normal(size=(rows, WIDTH)).astype(np.float32)
        out, turns, begun = np.empty((rows, rows), np.float32), 0, time.perf_counter()
        while (spent := time.perf_counter() - begun) < seconds:
            for _ in range(100):
                np.dot(cell, cell.T, out)
            turns += 100
        return turns * 2.0 * rows * rows * WIDTH / spent

    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        rate = sum(pool.map(multiply, range(threads)))
    return operations / rate


@contextmanager
def sample_peak(field):
    """The most that a field of /proc/self/status shows, ten times a second: memory without the pages of a file."""
    peak, done = [0], threading.Event()

    def look():
        while not done.wait(0.1):
            peak[0] = max(peak[0], status_bytes(field))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()


def run_ours(path, threads, settings, sampled=0, mapped=False, repeats=1):
    """(labels, record): one clustering, its phases, its memory, its violations; of repeats the one of median time."""
    pin(threads)
    import hedgerow as hr
    from hedgerow.clustering import clusters as opening
    from hedgerow.clustering import growth

    points = np.load(path, mmap_mode="r" if mapped else None)
    hr.cluster(np.array(points[:10_000]), method="certified", average_size=AVERAGE_SIZE, threads=threads)
    rounds = [(growth, name) for name in ("sort_points", "search_neighbors", "merge_round")]
    records = []
    for _ in range(repeats):
        with watch([(opening, "survey_rows"), *rounds]) as calls:
            load = os.getloadavg()[0]
            with sample_peak("RssAnon") as own:
                usage = peak_memory(lambda: hr.cluster(points, method="certified", threads=threads, **settings))
        record = {"threads": threads, **cost(usage), "peak_own_rss_bytes": own[0], **split(calls, usage)}
        records.append(record | {"load_before": load})
    clusters = usage["result"]
    record = sorted(records, key=lambda one: one["cpu_seconds"])[repeats // 2]
    record |= {"clusters": clusters.n_clusters, "threshold": clusters.threshold}
    if sampled:
        record |= check_cut(points, clusters.labels, clusters.threshold, sampled, SEED)
    return clusters.labels, record


def split(calls, usage):
    """Where the time went: the first search (sorting into cells and search), what follows, and its parts."""
    looks = [call for call in calls if call[0] == "search_neighbors"]
    opening = next(call for call in calls if call[0] == "survey_rows")
    first = [next(call for call in calls if call[0] == "sort_points"), looks[0]]
    parts = {}
    for place, kind in ((1, "cpu"), (2, "wall")):
        search = sum(call[place] for call in first)
        after = usage[kind] - search - opening[place]
        parts |= {f"checking_{kind}": opening[place], f"sorting_{kind}": first[0][place]}
        parts |= {f"first_search_{kind}": search, f"after_{kind}": after, f"after_over_first_{kind}": after / search}
        parts[f"merging_{kind}"] = sum(call[place] for call in calls if call[0] == "merge_round")
        parts[f"searching_again_{kind}"] = sum(call[place] for call in looks[1:])
    return parts | {"searches": len(looks)}


def run_fastcluster(path, by_product):
    """fastcluster from the points to labels, one core; the time of the distances apart."""
    pin(1)
    import fastcluster
    from scipy.cluster.hierarchy import fcluster
    from scipy.spatial.distance import pdist

    points = np.load(path)
    took = {}

    def cluster():
        cpu = time.process_time()
        distances = multiply_distances(points) if by_product else pdist(points, "cosine")
        took["distances_cpu"] = time.process_time() - cpu
        tree = fastcluster.linkage(distances, "average", preserve_input=False)
        return fcluster(tree, len(points) // AVERAGE_SIZE, "maxclust")

    load = os.getloadavg()[0]
    usage = peak_memory(cluster)
    return usage["result"], {"threads": 1, **cost(usage), **took, "load_before": load}


def multiply_distances(points):
    """Condensed cosine distances of unit vectors by float32 matrix products, block by block."""
    n = len(points)
    out = np.empty(n * (n - 1) // 2)
    end = 0
    for start in range(0, n, 512):
        products = points[start : start + 512] @ points[start:].T
        for row in range(len(products)):
            distances = 1 - products[row, row + 1 :]
            out[end : end + len(distances)] = np.maximum(distances, 0)
            end += len(distances)
    return out


def run_sklearn(path):
    """scikit-learn's average linkage over a graph of 15 neighbors, the graph included, one core."""
    pin(1)
    from sklearn.cluster import AgglomerativeClustering
    from sklearn.neighbors import kneighbors_graph

    points = np.load(path)
    took = {}

    def cluster():
        cpu = time.process_time()
        graph = kneighbors_graph(points, 15, include_self=False, n_jobs=1)
        took["graph_cpu"] = time.process_time() - cpu
        model = AgglomerativeClustering(
            len(points) // AVERAGE_SIZE, metric="cosine", linkage="average", connectivity=graph
        )
        return model.fit_predict(points)

    load = os.getloadavg()[0]
    usage = peak_memory(cluster)
    return usage["result"], {"threads": 1, **cost(usage), **took, "load_before": load}


def agree(labels, reference):
    """How two labelings agree."""
    from sklearn.metrics import adjusted_rand_score

    _, first, place = np.unique(labels, return_index=True, return_inverse=True)
    _, other_first, other_place = np.unique(reference, return_index=True, return_inverse=True)
    same = np.array_equal(first[place], other_first[other_place])  # a cluster is named by its first point
    return {"ari": adjusted_rand_score(reference, labels), "equal_labels": bool(same)}


def compare_fastcluster(path, n):
    """n = 20,000: ours and fastcluster, labels against fastcluster's on exact distances."""
    reference, peer = in_fresh_process(run_fastcluster, path, False)["result"]
    other, product = in_fresh_process(run_fastcluster, path, True)["result"]
    runs = {"fastcluster (pdist)": peer, "fastcluster (product)": product | agree(other, reference)}
    for slack in (1.0, 1.1):
        settings = {"average_size": AVERAGE_SIZE, "slack": slack}
        # a third of a second is at the mercy of the moment, which the peers' ten and thirty are not
        labels, record = in_fresh_process(run_ours, path, 1, settings, 3_000, False, 5)["result"]
        runs[f"ours, slack {slack}"] = record | agree(labels, reference)
    ratios = {}
    for slack in ("1.0", "1.1"):
        ours = runs[f"ours, slack {slack}"]
        for name in ("fastcluster (pdist)", "fastcluster (product)"):
            ratios[f"{name} / ours, slack {slack}, cpu"] = runs[name]["cpu_seconds"] / ours["cpu_seconds"]
        ratios[f"memory, fastcluster / ours, slack {slack}"] = peer["peak_rss_bytes"] / ours["peak_rss_bytes"]
    return {"runs": runs, **{key.removesuffix(", cpu"): value for key, value in ratios.items()}}


def compare_sklearn(path, n):
    """n = 50,000: ours and scikit-learn with a neighbor graph, labels against our exact ones."""
    exact, reference = in_fresh_process(run_exact, path)["result"]
    settings = {"average_size": AVERAGE_SIZE}
    labels, ours = in_fresh_process(run_ours, path, 1, settings, 3_000)["result"]
    other, peer = in_fresh_process(run_sklearn, path)["result"]
    runs = {"ours": ours | agree(labels, exact), "scikit-learn": peer | agree(other, exact), "ours, exact": reference}
    ratios = {
        "scikit-learn / ours": peer["cpu_seconds"] / ours["cpu_seconds"],
        "memory, scikit-learn / ours": peer["peak_rss_bytes"] / ours["peak_rss_bytes"],
    }
    return {"runs": runs, **ratios}


def run_exact(path):
    """The exact cut by our own brute force, all cores."""
    import hedgerow as hr

    points = np.load(path)
    usage = peak_memory(lambda: hr.cluster(points, method="exact", average_size=AVERAGE_SIZE).labels)
    return usage["result"], {"threads": len(os.sched_getaffinity(0)), **cost(usage)}


def scale_up(path, n):
    """100,000 and n = 1M: one core, two cores, and one core with a known threshold."""
    small = path.with_name("small.npy")
    make_file(small, n // 10)
    runs = {}
    size = {"average_size": AVERAGE_SIZE}
    for name, file in ((f"{n // 10:,} points", small), (f"{n:,} points", path)):
        for threads in (1, 2):
            record = in_fresh_process(run_record, file, threads, size, 3_000)["result"]
            runs[f"{name}, {threads} threads"] = record
            gc.collect()
        cut = {"threshold": record["threshold"]}
        runs[f"{name}, threshold known"] = in_fresh_process(run_record, file, 1, cut, 3_000)["result"]
    one, two, known = (runs[f"{n:,} points, {what}"] for what in ("1 threads", "2 threads", "threshold known"))
    tenth = runs[f"{n // 10:,} points, 1 threads"]
    ratios = {
        "time of ten times as many points, cpu": one["cpu_seconds"] / tenth["cpu_seconds"],
        "the same without the system's time, cpu": own_seconds(one) / own_seconds(tenth),
        "average size / known threshold, cpu": one["cpu_seconds"] / known["cpu_seconds"],
        "two-core speed-up, elapsed": one["wall_seconds"] / two["wall_seconds"],
        "after / first search, one core, cpu": one["after_over_first_cpu"],
    }
    return {"runs": runs, **{key.removesuffix(", cpu"): value for key, value in ratios.items()}}


def own_seconds(run):
    return run["cpu_seconds"] - run["system_seconds"]


def run_record(path, threads, settings, sampled=0, mapped=False):
    return run_ours(path, threads, settings, sampled, mapped)[1]


def run_large(path, n):
    """n = 10M from a file: two cores."""
    size = {"average_size": AVERAGE_SIZE}
    record = in_fresh_process(run_counted, path, 2, size)["result"]
    return {"runs": {"two cores": record}, "times the floor": record["wall_seconds"] / record["floor_wall_seconds"]}


def run_counted(path, threads, settings):
    """A run from a file, and the time of its products alone."""
    with count_products() as counts:
        record = run_record(path, threads, settings, 3_000, mapped=True)
    return record | {"operations": sum(counts), "floor_wall_seconds": measure_floor(sum(counts), threads)}


def make_file(path, n):
    """A pool in a .npy file; one that is there is taken."""
    if not path.exists():
        beside = path.with_suffix(".part")
        write_pool(np.lib.format.open_memmap(beside, "w+", np.float32, (n, WIDTH)), SEED)
        beside.replace(path)


def take_turns(task, path, n, turns):
    """All runs of a part, one after the other, again and again, since a machine's speed drifts within minutes.

    Of each run the turn of the median CPU time; of each ratio, which compares runs of one turn, the median.
    """
    parts = [task(path, n) for _ in range(turns)]
    runs = {}
    for name in parts[0]["runs"]:
        mine = [turn["runs"][name] for turn in parts]
        spent = {f"all_{key}": [run[key] for run in mine] for key in ("cpu_seconds", "wall_seconds")}
        runs[name] = sorted(mine, key=lambda run: run["cpu_seconds"])[turns // 2] | spent
    every = {name: [turn[name] for turn in parts] for name in parts[0] if name != "runs"}
    return {"runs": runs, "turns": every, **{name: statistics.median(values) for name, values in every.items()}}


TURNS = {20_000: 5, 50_000: 1, 1_000_000: 3, 10_000_000: 1}
TASKS = {20_000: compare_fastcluster, 50_000: compare_sklearn, 1_000_000: scale_up, 10_000_000: run_large}


def main():
    made = parser(__doc__.split("\n\n")[0])
    made.add_argument("--size", type=int, choices=list(PARTS), default=None, help="one part only")
    made.add_argument("--scratch", type=Path, default=None, help="where a pool of 10 million is written and kept")
    options = made.parse_args()
    sizes = [options.size] if options.size else [size for size in PARTS if size < 10_000_000 or options.quick]
    for size in sizes:
        n = {1_000_000: 100_000, 10_000_000: 100_000}.get(size, 5_000) if options.quick else size
        with tempfile.TemporaryDirectory() as folder:
            path = Path(options.scratch or folder) / f"pool_{n}.npy"
            path.parent.mkdir(parents=True, exist_ok=True)
            make_file(path, n)
            turns = 1 if options.quick else TURNS[size]
            results = take_turns(TASKS[size], path, n, turns)
        peers = {name: installed_version(name) for name in ("fastcluster", "scikit-learn")}
        settings = {"n": n, "width": WIDTH, "average_size": AVERAGE_SIZE, "turns": turns, **peers}
        settings["quick"] = options.quick
        save(PARTS[size], SEED, settings, results, options, script="linkage")


if __name__ == "__main__":
    main()
