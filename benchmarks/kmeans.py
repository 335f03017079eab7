"""Goal: average linkage beside k-means with as many clusters, which is what people pick for large pools.

    python benchmarks/kmeans.py                    100,000 rows
    python benchmarks/kmeans.py --rows 1000000     half an hour, after the run above

Pools of `pools.py`, 64 dimensions, cosine distance. `cluster` cuts certified linkage at an average size of 10; faiss
(spherical k-means, 10 iterations, or 3 at a million rows) and scikit-learn (MiniBatchKMeans on unit rows, its defaults
but for one start, or one pass from random rows at a million) get its number of clusters. Each runs in a process of its
own on one core, with one thread, and kernels are compiled before the clock starts. Tightness, over all rows: the mean
cosine distance to the mean direction of the row's cluster, and the share of rows that are farther from it than the cut
of the linkage. Largest: rows in the largest cluster; empty: clusters that k-means left without a row.

The time of k-means grows with rows times clusters: at a million rows it is a hundred times that at 100,000. So both run
shorter there, and what the settings of the smaller pool would take is stored beside: for faiss, whose iterations all
take as long, from the time of 3; for scikit-learn, from its time at 100,000 rows.
"""

import json
import os
import tempfile
from pathlib import Path

import numpy as np

from pools import make_pool
from runner import RESULTS, in_fresh_process, installed_version, parser, save

SEED, WIDTH, AVERAGE_SIZE = 0, 64, 10
ITERATIONS, FEWER = 10, 3  # of faiss: at most SMALL rows, and beyond
BLOCK = 1 << 16
SMALL = 100_000


def pin():
    """One core and one thread for every library that is imported from now on."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")


def measure_tightness(points, labels, reach):
    """Distances of the rows to the mean direction of their cluster."""
    sums = np.zeros((int(labels.max()) + 1, points.shape[1]))
    np.add.at(sums, labels, points.astype(np.float64))
    sums /= np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-30)
    distance = np.concatenate([
        1 - np.einsum("ij,ij->i", points[start : start + BLOCK].astype(np.float64), sums[labels[start : start + BLOCK]])
        for start in range(0, len(points), BLOCK)
    ])  # fmt: skip
    sizes = np.bincount(labels)
    return {
        "mean_distance": float(distance.mean()),
        "beyond_the_cut": float((distance > reach).mean()),
        "largest": int(sizes.max()),
        "empty": int((sizes == 0).sum()),
    }


def prepare(path):
    """The unit rows of the pool, and warm kernels."""
    pin()
    points = np.load(path)
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def run_ours(path, labels_path):
    """Certified linkage: the labels go to a file; (clusters, threshold)."""
    from runner import peak_memory

    points = prepare(path)
    import hedgerow as hr

    hr.cluster(points[:30_000], method="certified", average_size=AVERAGE_SIZE, threads=1)
    usage = peak_memory(lambda: hr.cluster(points, method="certified", average_size=AVERAGE_SIZE, threads=1))
    made = usage.pop("result")
    np.save(labels_path, made.labels)
    return usage, made.n_clusters, made.threshold


def run_faiss(path, labels_path, count):
    """Spherical k-means of faiss."""
    from runner import peak_memory

    points = prepare(path)
    import faiss

    faiss.omp_set_num_threads(1)

    def fit():
        model = faiss.Kmeans(
            WIDTH, count, niter=count_iterations(len(points)), spherical=True, seed=SEED, min_points_per_centroid=1,
            max_points_per_centroid=len(points),
        )  # fmt: skip
        model.train(points)
        return model.index.search(points, 1)[1][:, 0]

    usage = peak_memory(fit)
    np.save(labels_path, usage.pop("result"))
    return usage


def count_iterations(n):
    return ITERATIONS if n <= SMALL else FEWER


def run_sklearn(path, labels_path, count):
    """MiniBatchKMeans of scikit-learn."""
    from runner import peak_memory

    points = prepare(path)
    from sklearn.cluster import MiniBatchKMeans

    given = {} if len(points) <= SMALL else {"init": "random", "max_iter": 1, "max_no_improvement": None}
    usage = peak_memory(lambda: MiniBatchKMeans(count, random_state=SEED, n_init=1, **given).fit_predict(points))
    np.save(labels_path, usage.pop("result"))
    return usage


def main():
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=100_000)
    options = options.parse_args()
    n = 5_000 if options.quick else options.rows
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        path, labels = Path(folder) / "pool.npy", Path(folder) / "labels.npy"
        points = make_pool(n, WIDTH, SEED)
        np.save(path, points)
        usage, count, reach = in_fresh_process(run_ours, path, labels)["result"]
        results["hedgerow, certified"] = tell(usage) | measure_tightness(points, np.load(labels), reach)
        for name, run in {"faiss, k-means": run_faiss, "scikit-learn, MiniBatchKMeans": run_sklearn}.items():
            usage = in_fresh_process(run, path, labels, count)["result"]
            results[name] = tell(usage) | measure_tightness(points, np.load(labels), reach)
            if n > SMALL:
                results[name]["expected_cpu_seconds"] = expect(name, n, usage["cpu"])
    versions = {name: installed_version(name) for name in ("faiss-cpu", "scikit-learn")}
    settings = {
        "n": n,
        "d": WIDTH,
        "clusters": count,
        "iterations": count_iterations(n),
        "threads": 1,
        **versions,
        "quick": options.quick,
    }
    save("kmeans" if n != 1_000_000 else "kmeans_1m", SEED, settings, results, options, script="kmeans")


def expect(name, n, cpu):
    """CPU seconds that a library would take with the settings of the smaller pool."""
    if name.startswith("faiss"):  # the last assignment of all rows takes as long as an iteration
        return cpu * (ITERATIONS + 1) / (FEWER + 1)
    stored = json.loads((RESULTS / "kmeans.json").read_text())["results"][name]
    return stored["cpu_seconds"] * (n / SMALL) ** 2


def tell(usage):
    """Time and memory as they are stored."""
    return {"cpu_seconds": usage["cpu"], "wall_seconds": usage["wall"], "peak_rss_bytes": usage["peak_rss_bytes"]}


if __name__ == "__main__":
    main()
