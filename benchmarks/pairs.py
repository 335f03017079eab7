"""Claim: a million of 43 million (row, class) pairs are selected within seconds, in a few arrays of one number per
pair.

7.2 million rows with 6 pairs each out of 42 classes, one in ten labeled, 720,000 clusters. Each strategy runs in its
own process after a small call that loads compiled code; memory is in addition to the inputs. Probabilities are given
per pair, or as a matrix where stated. `select_pairs` is timed as a whole, validation included; so is creating
`Pairs`, in order and shuffled. Compared with numpy's argpartition of the margins (for `margin`) and with
scikit-learn's average precision over 50 million scores with many ties.
"""

import time

import numpy as np

import hedgerow as hr
from runner import arguments, in_fresh_process, installed_version, measure, peak_memory, save

SEED = 0
CLASSES, PER_ROW = 42, 6
STRATEGIES = {
    "random": hr.Random(),
    "margin": hr.Margin(),
    "stochastic-margin": hr.StochasticMargin(),
    "cluster-margin-pairs": hr.ClusterMarginPairs(),
    "cluster-margin-pairs, power 1": hr.ClusterMarginPairs(1.5, power=1.0),
    "cluster-margin-pairs, clusters x class": hr.ClusterMarginPairs(by_class=True),
    "cluster-margin-pairs, limits": hr.ClusterMarginPairs(per_row=1, class_quota=100_000),
    "cluster-margin": hr.ClusterMargin(),
    "cluster-margin, matrix": hr.ClusterMargin(row_margin="top2-all"),
}


def make_pairs(n):
    """(rows, classes): six classes a row, in ascending order."""
    first = np.random.default_rng(SEED).integers(0, CLASSES, n, dtype=np.int32)
    step = CLASSES // PER_ROW
    classes = np.sort((first[:, None] + step * np.arange(PER_ROW, dtype=np.int32)) % CLASSES, axis=1)
    return np.repeat(np.arange(n), PER_ROW), classes.ravel()


def make_inputs(n, of_matrix):
    rng = np.random.default_rng(SEED + 1)
    pairs = hr.Pairs(*make_pairs(n))
    shape = (n, CLASSES) if of_matrix else len(pairs)
    return {
        "pairs": pairs,
        "probabilities": rng.random(shape, np.float32),
        "clusters": rng.integers(0, max(1, n // 10), n, dtype=np.int32),
        "labeled": rng.random(len(pairs), np.float32) < 0.1,
    }


def run_strategy(name, n, k, repeats):
    """Time, and peak beyond the inputs, of one strategy."""
    strategy, of_matrix = STRATEGIES[name], name.endswith("matrix")
    hr.select_pairs(strategy, 50, **make_inputs(1000, of_matrix))
    given = make_inputs(n, of_matrix)
    found = peak_memory(lambda: len(hr.select_pairs(strategy, k, **given, seed=SEED)))
    beyond = found["peak_rss_bytes"] - found["baseline_rss_bytes"]
    return {
        **measure(lambda: hr.select_pairs(strategy, k, **given, seed=SEED), repeats),
        "beyond_inputs_bytes": beyond,
        "beyond_inputs_bytes_a_pair": beyond / len(given["pairs"]),
    }


def run_partition(n, k, repeats):
    """numpy's way to the k lowest margins."""
    given = make_inputs(n, False)

    def select():
        margins = np.abs(2 * given["probabilities"] - 1)
        margins[given["labeled"]] = np.inf
        lowest = np.argpartition(margins, k)[:k]
        return lowest[np.argsort(margins[lowest], kind="stable")]

    found = peak_memory(lambda: len(select()))
    beyond = found["peak_rss_bytes"] - found["baseline_rss_bytes"]
    return {
        **measure(select, repeats),
        "beyond_inputs_bytes": beyond,
        "beyond_inputs_bytes_a_pair": beyond / len(given["pairs"]),
    }


def run_making(n, shuffled):
    hr.Pairs([0], [0])
    rows, classes = make_pairs(n)
    if shuffled:
        order = np.random.default_rng(SEED).permutation(len(rows))
        rows, classes = rows[order], classes[order]
    found = peak_memory(lambda: len(hr.Pairs(rows, classes)))
    beyond = found["peak_rss_bytes"] - found["baseline_rss_bytes"]
    return {"cpu_seconds": found["cpu"], "wall_seconds": found["wall"], "beyond_inputs_bytes": beyond}


def run_precision(m, who):
    """Average precision of scores rounded to a million levels: its value, time and memory."""
    rng = np.random.default_rng(SEED)
    labels = rng.random(m, np.float32) < 0.22
    scores = rng.random(m, np.float32)
    scores += np.float32(0.2) * labels
    scores = np.round(scores, 6)
    if who == "scikit-learn":
        from sklearn.metrics import average_precision_score as rank
    else:
        rank = hr.average_precision
    if who == "hedgerow, macro":
        classes = rng.integers(0, CLASSES, m, dtype=np.int32)

        def rank(labels, scores):
            return hr.macro_average_precision(labels, scores, classes[: len(labels)])

    rank(labels[:100], scores[:100])
    found = peak_memory(lambda: rank(labels, scores))
    beyond = found["peak_rss_bytes"] - found["baseline_rss_bytes"]
    return {
        "cpu_seconds": found["cpu"],
        "wall_seconds": found["wall"],
        "beyond_inputs_bytes_a_score": beyond / m,
        "value": found["result"],
    }


def main():
    options = arguments(__doc__)
    n, k, scores, repeats = (10_000, 2_000, 50_000, 1) if options.quick else (7_200_000, 1_000_000, 50_000_000, 2)
    begun = time.perf_counter()
    precision = {
        who: in_fresh_process(run_precision, scores, who)["result"]
        for who in ("hedgerow", "scikit-learn", "hedgerow, macro")
    }
    assert abs(precision["hedgerow"]["value"] - precision["scikit-learn"]["value"]) < 1e-9
    results = {
        "strategies": {name: in_fresh_process(run_strategy, name, n, k, repeats)["result"] for name in STRATEGIES},
        "numpy": {"argpartition": in_fresh_process(run_partition, n, k, repeats)["result"]},
        "making Pairs": {
            name: in_fresh_process(run_making, n, name == "shuffled")["result"] for name in ("in order", "shuffled")
        },
        "average precision": precision,
    }
    settings = {"rows": n, "pairs": n * PER_ROW, "classes": CLASSES, "k": k, "scores": scores, "repeats": repeats}
    settings |= {"scikit-learn": installed_version("scikit-learn"), "quick": options.quick}
    settings["minutes"] = (time.perf_counter() - begun) / 60
    save("pairs", SEED, settings, results, options)


if __name__ == "__main__":
    main()
