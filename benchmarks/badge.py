"""Claim: BADGE over the whole pool, without partitions, follows the k-means++ distribution at no more than 1.1 times
the cost of the best plain method, on any kind of data.

Pools with 128 numbers per row. The plain method folds every center into all distances by matrix products; both run
on three kinds of data, and the potentials they reach are compared. CPU seconds of all threads unless marked wall.
The speed-up of all cores is the best wall time on one core over the best on all, in processes that take turns,
because a shared machine is not equally fast at all times.
"""

import os

import numpy as np

import hedgerow as hr
from hedgerow import machine as threads
from hedgerow.pool.blocks import open_rows
from hedgerow.strategies import seeding
from layers import make_pool
from runner import arguments, in_fresh_process, measure, save

SEED = 0


def select(probabilities, embeddings, k):
    return hr.select("badge", k, probabilities=probabilities, embeddings=embeddings, seed=SEED).rows


def warm_up(classes=10):
    select(*make_pool(2000, "clustered", classes), 50)


def run_alone(n, k, classes, repeats, cores):
    """One size, in a process held to some cores."""
    if cores:
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:cores]))
    warm_up(classes)
    probabilities, embeddings = make_pool(n, "clustered", classes)
    return measure(lambda: select(probabilities, embeddings, k), repeats)


def compare_cores(n, k, turns):
    """One core and all of them, in turns: the best turn of each."""
    tries = {1: [], 0: []}
    for _ in range(turns):
        for cores, runs in tries.items():
            runs.append(in_fresh_process(run_alone, n, k, 10, 3, cores)["result"])
    one, both = (min(runs, key=lambda run: run["wall_seconds"]) for runs in tries.values())
    return one, both


def compare_folding(n, k, kind, repeats):
    """Adaptive folding against folding always: time, and the potential each reaches."""
    probabilities, embeddings = make_pool(n, kind)
    rows = np.arange(n)
    figures = {}
    with threads.team() as team:
        gradients = seeding.factor_gradients(open_rows(embeddings, rows), open_rows(probabilities, rows), team)
        first = int(gradients.norms.argmax())
        for name, patience in (("adaptive", 1.0), ("folding always", 0.0)):
            picked = []

            def draw(patience=patience, picked=picked):
                rng = np.random.default_rng(SEED + len(picked))
                picked.append(seeding.draw_centers(gradients, k, first, rng, team, patience=patience))

            figures[name] = measure(draw, repeats)
            potentials = [seeding.measure_potential(gradients, centers, team) for centers in picked]
            figures[name]["potential"] = float(np.mean(potentials))
        random = np.random.default_rng(SEED).choice(n, k, replace=False)
        figures["random_potential"] = seeding.measure_potential(gradients, random, team)
    adaptive, always = figures["adaptive"], figures["folding always"]
    figures["time_of_folding_always"] = adaptive["cpu_seconds"] / always["cpu_seconds"]
    figures["potential_of_folding_always"] = adaptive["potential"] / always["potential"]
    figures["random_potential"] /= always["potential"]
    return figures


def main():
    options = arguments(__doc__)
    quick = options.quick
    n, k, large, most = (2000, 50, 5000, 200) if quick else (50_000, 1000, 1_000_000, 10_000)
    repeats = 1 if quick else 3
    one, both = compare_cores(large, most, repeats)
    longer_one, longer_both = compare_cores(3 * large, 3 * most, 1 if quick else 2)
    results = {
        "sizes": {
            f"n {n}, k {k}, 10 classes": in_fresh_process(run_alone, n, k, 10, repeats, 0)["result"],
            f"n {n}, k {k}, 100 classes": in_fresh_process(run_alone, n, k, 100, repeats, 0)["result"],
            f"n {large}, k {most}, 10 classes": both,
            f"n {large}, k {most}, 10 classes, one core": one,
            f"n {3 * large}, k {3 * most}, 10 classes": longer_both,
            f"n {3 * large}, k {3 * most}, 10 classes, one core": longer_one,
        },
        "folding": {kind: compare_folding(large // 5, most, kind, 2) for kind in ("clustered", "diffuse", "tight")},
        "speed_up_of_all_cores": one["wall_seconds"] / both["wall_seconds"],
        "speed_up_at_three_times_the_size": longer_one["wall_seconds"] / longer_both["wall_seconds"],
    }
    settings = {"repeats": repeats, "quick": quick}
    save("badge", SEED, settings, results, options)


if __name__ == "__main__":
    main()
