"""Report: points assigned to the clusters of a subset by the average distance to a cluster's members, or by the
distance to its centroid, as the paper's appendix says. Which clusters are closer to those of average linkage?

Each pool is clustered by `exact` at an average size of 10, and by `assign` with both distances: at the same average
size, and at the threshold of `exact`. The subset is 3, 10 or 30 % of the pool; numbers are means over three draws of
it. `ari`: adjusted Rand index with `exact`; `ari_certified`: with `certified`. `closer_than_cut`: the share of
clusters that have another one at an average linkage below the cut of `exact`. `farther_than_cut`: the share of points
whose mean distance to the other members of their cluster is above that cut. `within`: the mean of that distance over
all points, in cuts; a point of its own has 0. `single`: the share of points that are a cluster of their own. `better`
counts the settings (pools, metrics, subsets) in which each distance is better; lower is better but for `ari`.

Pools of 8,000 points: the demo's distorted digits (pixels), CIFAR-10 (features of EfficientNet-lite0, images enlarged
to 96 x 96; `--data` names the folder that contains `cifar-10-batches-py`), words (embeddings of a small character
model, as in `words.py`), and the synthetic pool of `accelerations.py`. Without `--data`, CIFAR-10 is left out.
"""

from pathlib import Path

import numpy as np

import hedgerow as hr
from accelerations import adjusted_rand
from hedgerow.experiments.data.datasets import load_redundant_digits
from hedgerow.experiments.data.features import load_features
from hedgerow.experiments.data.files import PUBLICATIONS
from pools import make_pool
from runner import parser, save
from words import write_embeddings

SEED = 0
POINTS, QUICK = 8_000, 1_500
AVERAGE_SIZE = 10
SUBSETS = (0.03, 0.1, 0.3)
DRAWS = 3
RULES = ("average", "centroid")
METRICS = ("cosine", "sqeuclidean")


def list_pools(n, options):
    """(name, points) of each pool, at most n points drawn from it."""
    yield "digits", draw(load_redundant_digits(seed=SEED).images, n)
    if options.data is not None:
        train, _ = PUBLICATIONS["cifar10"].open(options.data)
        yield "CIFAR-10", draw(load_features(train.features, "cifar10-train", side=96, cache=options.scratch), n)
    path = options.scratch / f"words_{n}.npy"
    write_embeddings(path, n, n)
    yield "words", np.load(path)
    yield "synthetic", make_pool(n, seed=SEED)


def draw(rows, n):
    """n rows drawn uniformly, in the order of the pool."""
    chosen = np.random.default_rng(SEED).choice(len(rows), min(n, len(rows)), replace=False)
    return np.ascontiguousarray(rows[np.sort(chosen)])


def prepare(points, metric):
    """(rows, half norms) in float64, such that a distance is scale * (half + half - product)."""
    rows = points.astype(np.float64)
    if metric == "cosine":
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    else:
        rows -= rows.mean(axis=0)
    return rows, (rows**2).sum(axis=1) / 2, 1.0 if metric == "cosine" else 2.0


def judge(points, metric, labels, cut):
    """What is said of clusters without comparing them with others; every mean is over all pairs of points."""
    rows, half, scale = prepare(points, metric)
    sizes = np.bincount(labels)
    sums, halves = np.zeros((len(sizes), rows.shape[1])), np.bincount(labels, half)
    np.add.at(sums, labels, rows)
    means, middle = sums / sizes[:, None], halves / sizes
    linkage = scale * (middle[:, None] + middle - means @ means.T)
    np.fill_diagonal(linkage, np.inf)
    others = np.maximum(sizes[labels] - 1, 1)
    own = np.einsum("ij,ij->i", sums[labels] - rows, rows)
    mean = scale * ((halves[labels] - half) / others + half - own / others)
    mean[sizes[labels] == 1] = 0
    return {
        "clusters": len(sizes),
        "single": float((sizes == 1).sum() / len(labels)),
        "closer_than_cut": float((linkage.min(axis=1) < cut * (1 - 1e-5)).mean()),
        "farther_than_cut": float((mean > cut * (1 + 1e-5)).mean()),
        "within": float(mean.mean() / cut),
    }


def compare(points, metric):
    """Records by how the pool was clustered."""
    exact, certified = (hr.cluster(points, metric=metric, method=method, average_size=AVERAGE_SIZE, seed=SEED)
                        for method in ("exact", "certified"))  # fmt: skip
    cut = exact.threshold

    def describe(labels):
        others = {"ari": exact, "ari_certified": certified}
        agreement = {key: adjusted_rand(other.labels, labels) for key, other in others.items()}
        return agreement | judge(points, metric, labels, cut)

    found = {"exact": describe(exact.labels), "certified": describe(certified.labels)}
    for wish, how in (("size", {"average_size": AVERAGE_SIZE}), ("threshold", {"threshold": cut})):
        for share in SUBSETS:
            for rule in RULES:
                made = [
                    hr.cluster(points, metric=metric, method=hr.Assign(share, join_by=rule), seed=seed, **how)
                    for seed in range(DRAWS)
                ]
                several = [describe(clusters.labels) for clusters in made]
                means = {key: float(np.mean([one[key] for one in several])) for key in several[0]}
                found[f"{wish}, {share:.0%}, {rule}"] = means
    return found


def count_wins(results):
    """In how many settings (pools, metrics, subsets) each rule is better, by what is compared."""
    wins = {}
    signs = {"ari": 1, "closer_than_cut": -1, "farther_than_cut": -1, "single": -1, "within": -1}
    for wish in ("size", "threshold"):
        for key, sign in signs.items():
            gains = [
                sign * (found[f"{wish}, {share:.0%}, average"][key] - found[f"{wish}, {share:.0%}, centroid"][key])
                for found in results.values()
                for share in SUBSETS
            ]
            counts = {"average": sum(gain > 0 for gain in gains), "centroid": sum(gain < 0 for gain in gains)}
            wins[f"{wish}, {key}"] = counts | {"settings": len(gains)}
    return wins


def main():
    made = parser(__doc__)
    made.add_argument("--data", type=Path, default=None, help="the folder that holds cifar-10-batches-py")
    made.add_argument("--scratch", type=Path, default=Path("scratch"), help="where features are kept (256 MB)")
    options = made.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    results, shapes = {}, {}
    for name, points in list_pools(QUICK if options.quick else POINTS, options):
        shapes[name] = "x".join(map(str, points.shape))
        for metric in METRICS:
            results[f"{name}, {metric}"] = compare(points, metric)
    settings = {"pools": shapes, "average_size": AVERAGE_SIZE, "draws": DRAWS, "quick": options.quick}
    save("assignment", SEED, settings, results | {"better": count_wins(results)}, options)


if __name__ == "__main__":
    main()
