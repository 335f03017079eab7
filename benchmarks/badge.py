"""Claim: BADGE over the whole pool, without partitions, is 500 times as fast as scikit-activeml's, and follows the law
of k-means++ at no more than 1.1 times the cost of the best plain way, on any kind of data.

50,000 rows of 128 numbers and a batch of 1,000 against scikit-activeml's `Badge`, which is given the same
probabilities, in one run; 100 classes, where it needs 10 GiB and is left out; a million rows; and, for three kinds of
data, against folding every center into all distances by products of matrices. CPU seconds of all threads unless marked
wall. The speed-up of two cores is wall time against wall time, the same run on one core.
"""

import os
import sys

import numpy as np

import hedgerow as hr
from hedgerow import seeding, threads
from hedgerow.blocks import open_rows
from layers import make_pool
from runner import arguments, in_fresh_process, installed_version, measure, save

SEED = 0


def select(probabilities, embeddings, k):
    return hr.select("badge", k, probabilities=probabilities, embeddings=embeddings, seed=SEED).rows


def warm_up(classes=10):
    select(*make_pool(2000, "clustered", classes), 50)


def run_peer(probabilities, embeddings, k):
    """scikit-activeml's own loop, with a classifier that only hands out the probabilities."""
    from skactiveml.base import SkactivemlClassifier
    from skactiveml.pool import Badge
    from skactiveml.utils import MISSING_LABEL

    class Given(SkactivemlClassifier):
        def fit(self, X, y, sample_weight=None):
            return self

        def predict_proba(self, X):
            return probabilities[: len(X)]

    n, classes = probabilities.shape
    model = Given(classes=list(range(classes)))
    model.classes_ = np.arange(classes)
    query = Badge(missing_label=MISSING_LABEL, random_state=SEED)
    return query.query(embeddings, np.full(n, MISSING_LABEL), model, fit_clf=False, batch_size=k)


def compare_peer(n, k, repeats):
    probabilities, embeddings = make_pool(n, "clustered")
    warm_up()
    assert len(np.unique(run_peer(probabilities[:500], embeddings[:500], 20))) == 20  # its first call imports
    ours = measure(lambda: select(probabilities, embeddings, k), repeats)
    theirs = measure(lambda: run_peer(probabilities, embeddings, k), 1)
    return {
        "hedgerow": ours,
        "scikit-activeml": theirs,
        "times_scikit_activeml": theirs["cpu_seconds"] / ours["cpu_seconds"],
    }


def run_alone(n, k, classes, repeats, cores):
    """One size, in a process held to some cores."""
    if cores:
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:cores]))
    warm_up(classes)
    probabilities, embeddings = make_pool(n, "clustered", classes)
    return measure(lambda: select(probabilities, embeddings, k), repeats)


def compare_folding(n, k, kind, repeats):
    """Adaptive folding against folding always: time, and the potential each reaches."""
    probabilities, embeddings = make_pool(n, kind)
    rows = np.arange(n)
    told = {}
    with threads.team() as team:
        gradients = seeding.factor_gradients(open_rows(embeddings, rows), open_rows(probabilities, rows), team)
        first = int(gradients.norms.argmax())
        for name, patience in (("adaptive", 1.0), ("folding always", 0.0)):
            picked = []

            def draw(patience=patience, picked=picked):
                rng = np.random.default_rng(SEED + len(picked))
                picked.append(seeding.draw_centers(gradients, k, first, rng, team, patience=patience))

            told[name] = measure(draw, repeats)
            potentials = [seeding.measure_potential(gradients, centers, team) for centers in picked]
            told[name]["potential"] = float(np.mean(potentials))
        random = np.random.default_rng(SEED).choice(n, k, replace=False)
        told["random_potential"] = seeding.measure_potential(gradients, random, team)
    adaptive, always = told["adaptive"], told["folding always"]
    told["time_of_folding_always"] = adaptive["cpu_seconds"] / always["cpu_seconds"]
    told["potential_of_folding_always"] = adaptive["potential"] / always["potential"]
    told["random_potential"] /= always["potential"]
    return told


def main():
    options = arguments(__doc__)
    quick = options.quick
    n, k, large, most = (2000, 50, 5000, 200) if quick else (50_000, 1000, 1_000_000, 10_000)
    repeats = 1 if quick else 3
    one, both = (in_fresh_process(run_alone, large, most, 10, repeats, cores)["result"] for cores in (1, 0))
    results = {
        "sizes": {
            f"n {n}, k {k}, 10 classes": in_fresh_process(run_alone, n, k, 10, repeats, 0)["result"],
            f"n {n}, k {k}, 100 classes": in_fresh_process(run_alone, n, k, 100, repeats, 0)["result"],
            f"n {large}, k {most}, 10 classes": both,
            f"n {large}, k {most}, 10 classes, one core": one,
        },
        "folding": {kind: compare_folding(large // 5, most, kind, 2) for kind in ("clustered", "diffuse", "tight")},
        "speed_up_of_all_cores": one["wall_seconds"] / both["wall_seconds"],
    }
    try:
        results["peer"] = compare_peer(n, k, repeats)
    except ImportError:
        sys.stderr.write("scikit-activeml is absent: pip install 'hedgerow[bench]'\n")
    settings = {"scikit-activeml": installed_version("scikit-activeml"), "repeats": repeats, "quick": quick}
    save("badge", SEED, settings, results, options)


if __name__ == "__main__":
    main()
