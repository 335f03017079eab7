"""Claim: certified linkage is closer to exact than both of the paper's accelerations, at about the same cost.

A synthetic pool of 100,000 x 128, average size 10, cosine distance. `ari`: adjusted Rand index compared with
method="exact". `violations`: the share of sampled final clusters that have another cluster closer than the cut of
exact, found by comparing with all clusters; exact has none. `cut`: the threshold, in average linkage (for
multiround: over the edges of its graphs). CPU seconds of all threads, best of the repeats; exact ran once.
"""

import numpy as np

import hedgerow as hr
from pools import make_pool
from runner import arguments, measure, save

SEED = 0
SAMPLED = 3_000
RUNS = {
    "exact": {"method": "exact"},
    "certified": {"method": "certified"},
    "certified, slack 1": {"method": "certified", "slack": 1.0},
    "multiround, 1 round": {"method": "multiround", "rounds": 1},
    "multiround, 3 rounds": {"method": "multiround", "rounds": 3},
    "assign, 10% of the pool": {"method": "assign", "subset": 0.1},
    "assign, 50% of the pool": {"method": "assign", "subset": 0.5},
}


def adjusted_rand(first, second):
    """How far two labelings agree beyond chance: 1 for the same clusters (Hubert and Arabie 1985)."""
    both = np.unique(first.astype(np.int64) * (int(second.max()) + 1) + second, return_counts=True)[1]
    pairs, one, other = (float((c * (c - 1.0)).sum() / 2) for c in (both, np.bincount(first), np.bincount(second)))
    chance = one * other / (len(first) * (len(first) - 1) / 2)
    return (pairs - chance) / ((one + other) / 2 - chance)


def share_of_violations(points, clusters, threshold):
    """Of sampled clusters, how many have another at an average cosine distance below the threshold."""
    means = np.zeros((clusters.n_clusters, points.shape[1]))
    np.add.at(means, clusters.labels, points)
    means /= clusters.sizes[:, None]
    asked = np.random.default_rng(SEED).permutation(len(means))[:SAMPLED]
    linkage = 1 - means[asked] @ means.T
    linkage[np.arange(len(asked)), asked] = np.inf
    return float((linkage.min(axis=1) < threshold * (1 - 1e-5)).mean())


def main():
    options = arguments(__doc__)
    n = 5_000 if options.quick else 100_000
    repeats = 1 if options.quick else 3
    points = make_pool(n, seed=SEED)
    for settings in RUNS.values():  # compile
        hr.cluster(points[:300], **settings)
    hr.cluster(points[:9_000], method="assign", subset=1.0)  # enough for cells
    results, made = {}, {}
    for name, settings in RUNS.items():

        def run(name=name, settings=settings):
            made[name] = hr.cluster(points, average_size=10, seed=SEED, centroids=False, **settings)

        time = measure(run, 1 if name == "exact" else repeats)
        clusters = made[name]
        results[name] = {
            **time,
            "clusters": clusters.n_clusters,
            "cut": clusters.threshold,
            "ari": adjusted_rand(made["exact"].labels, clusters.labels),
            "violations": share_of_violations(points, clusters, made["exact"].threshold),
        }
    save("accelerations", SEED, {"n": n, "d": 128, "average_size": 10, "sampled": SAMPLED, "repeats": repeats,
                                 "quick": options.quick}, results, options)  # fmt: skip


if __name__ == "__main__":
    main()
