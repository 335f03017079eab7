"""Claim: hedge draws a million of 10 million rows within 3 CPU seconds and 24 bytes per row beyond the margins, and
pairs at the same rate.

10 million rows in a million clusters, one in a hundred labeled, ten classes; and 43.2 million pairs of 7.2 million rows
in 720,000 clusters, out of 42 classes. `select` is given margins, `select_pairs` one probability per pair; both are
timed as a whole, validation included. Each strategy runs in its own process after a small call that loads compiled
code; memory is in addition to the inputs. Compared with margin and Cluster-Margin on the same inputs.
"""

import numpy as np

import hedgerow as hr
from runner import arguments, in_fresh_process, measure, peak_memory, save

SEED = 0
CLASSES, PER_ROW = 42, 6
ROWS = {"hedge": hr.Hedge(classes=10), "cluster-margin": hr.ClusterMargin(), "margin": hr.Margin()}
PAIRS = {"hedge": hr.Hedge(), "cluster-margin-pairs": hr.ClusterMarginPairs(), "margin": hr.Margin()}


def make_rows(n):
    """Margins that are mostly high, clusters and a mask."""
    rng = np.random.default_rng(SEED)
    margins = 1 - rng.random(n, np.float32) ** 3
    return {
        "margins": margins,
        "clusters": rng.integers(0, max(1, n // 10), n, dtype=np.int32),
        "labeled": rng.random(n, np.float32) < 0.01,
    }


def make_pairs(n):
    """Six classes a row, mostly answered with no; clusters and a mask."""
    rng = np.random.default_rng(SEED)
    first = rng.integers(0, CLASSES, n, dtype=np.int32)
    classes = np.sort((first[:, None] + CLASSES // PER_ROW * np.arange(PER_ROW, dtype=np.int32)) % CLASSES, axis=1)
    return {
        "pairs": hr.Pairs(np.repeat(np.arange(n), PER_ROW), classes.ravel()),
        "probabilities": rng.random(n * PER_ROW, np.float32) ** 3,
        "clusters": rng.integers(0, max(1, n // 10), n, dtype=np.int32),
        "labeled": rng.random(n * PER_ROW, np.float32) < 0.01,
    }


KINDS = {"rows": (ROWS, make_rows, hr.select), "pairs": (PAIRS, make_pairs, hr.select_pairs)}


def run(kind, name, n, k, repeats):
    """The cost of one strategy, in a process of its own."""
    strategies, make, select = KINDS[kind]
    strategy = strategies[name]
    select(strategy, 10, **make(1_000), seed=SEED)
    given = make(n)
    found = peak_memory(lambda: len(select(strategy, k, **given, seed=SEED)))
    size = len(given["labeled"])
    beyond = found["peak_rss_bytes"] - found["baseline_rss_bytes"]
    return {
        "n": size,
        "k": k,
        **measure(lambda: select(strategy, k, **given, seed=SEED), repeats),
        "beyond_inputs_bytes": beyond,
        "beyond_inputs_bytes_a_row": beyond / size,
    }


def main():
    options = arguments(__doc__)
    sizes = {"rows": 100_000, "pairs": 20_000} if options.quick else {"rows": 10_000_000, "pairs": 7_200_000}
    repeats = 1 if options.quick else 3
    results = {
        kind: {name: in_fresh_process(run, kind, name, n, n // 10, repeats)["result"] for name in KINDS[kind][0]}
        for kind, n in sizes.items()
    }
    save("hedge", SEED, {**sizes, "repeats": repeats, "quick": options.quick}, results, options)


if __name__ == "__main__":
    main()
