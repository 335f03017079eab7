"""Report: first batches for low budgets (`typiclust`, `probcover`, `maxherding`) out of a million rows.

Rows of 128 numbers in groups, nothing labeled; batches of 10, 100 and 1,000. `uherding` is run as a later batch: with
random probabilities and as many labeled rows as picks. CPU and wall seconds of the whole selection, validation
included, and the peak memory of its process. `coverage` is the mean over 10,000 other rows of the largest Gaussian
kernel (sigma 1, rows of length 1) between a row and any pick, next to that of random rows.
"""

import numpy as np

import hedgerow as hr
from layers import make_pool
from runner import arguments, in_fresh_process, peak_memory, save

SEED = 0
STRATEGIES = ("typiclust", "probcover", "maxherding", "uherding")
JUDGES = 10_000  # rows by which coverage is measured


def measure_coverage(embeddings, picked):
    """The mean of the largest kernel between rows and picks; picks themselves are not left out, being few."""
    rows = np.random.default_rng(SEED + 1).choice(len(embeddings), min(JUDGES, len(embeddings)), replace=False)
    judges, centers = embeddings[np.sort(rows)].astype(np.float64), embeddings[picked].astype(np.float64)
    judges /= np.linalg.norm(judges, axis=1, keepdims=True)
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    return float(np.exp(2 * (judges @ centers.T).max(axis=1) - 2).mean())


def run(n, strategy, k):
    probabilities, embeddings = make_pool(n, "clustered")[:2]
    given = {"embeddings": embeddings}
    if strategy == "uherding":
        given |= {"probabilities": probabilities, "labeled": np.random.default_rng(SEED).choice(n, k, replace=False)}
    small = {name: values[:2000] for name, values in given.items() if name != "labeled"}
    hr.select(strategy, 10, **small)  # compiled before the clock runs
    found = peak_memory(lambda: hr.select(strategy, k, seed=SEED, **given).rows)
    by_chance = hr.select("random", k, seed=SEED, embeddings=embeddings).rows
    return {
        "cpu_seconds": found["cpu"],
        "wall_seconds": found["wall"],
        "input_bytes": embeddings.nbytes,
        "peak_rss_bytes": found["peak_rss_bytes"],
        "coverage": measure_coverage(embeddings, found["result"]),
        "coverage_by_chance": measure_coverage(embeddings, by_chance),
    }


def main():
    options = arguments(__doc__)
    n, batches = (3000, (10, 50)) if options.quick else (1_000_000, (10, 100, 1000))
    results = {
        strategy: {f"k {k}": in_fresh_process(run, n, strategy, k)["result"] for k in batches}
        for strategy in STRATEGIES
    }
    save("low_budget", SEED, {"n": n, "batches": list(batches), "quick": options.quick}, results, options)


if __name__ == "__main__":
    main()
