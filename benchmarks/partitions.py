"""Claim: partitions cost quality. In a pool with near-duplicates, BADGE in 20 partitions leaves more than twice the
k-means potential of a run without partitions, and random rows more than five times.

The potential is the sum of all squared distances (of gradients) from the nearest pick, relative to the run without
partitions; for CoreSet it is the largest distance from the nearest pick. 200,000 rows of 128 numbers, k = 10,000
(CoreSet: 50,000 and 1,000). `folding always` is k-means++ without a shortcut. Means over two seeds.
"""

import numpy as np

import hedgerow as hr
from hedgerow import machine as threads
from hedgerow.pool.blocks import open_rows
from hedgerow.strategies import centers, seeding
from layers import make_pool
from runner import arguments, measure, save

SEEDS = (0, 1)


def average(values):
    return float(np.mean(values))


def compare_badge(n, k, kind, parts):
    probabilities, embeddings = make_pool(n, kind)
    rows, view = np.arange(n), hr.View(n, probabilities=probabilities, embeddings=embeddings)
    with threads.team() as team:
        gradients = seeding.factor_gradients(open_rows(embeddings, rows), open_rows(probabilities, rows), team)
        first = int(gradients.norms.argmax())

        def fold_always(view, k, rng):
            return seeding.draw_centers(gradients, k, first, rng, team, patience=0.0)

        ways = {"whole": hr.Badge(), "folding always": fold_always}
        ways |= {f"{count} partitions": hr.Badge(partitions=count) for count in parts}
        figures = {}
        for name, pick in {**ways, "random": hr.Random()}.items():
            found = []
            time = measure(
                lambda pick=pick, found=found: found.append(pick_rows(pick, view, k, len(found))), len(SEEDS)
            )
            potential = average([seeding.measure_potential(gradients, picked, team) for picked in found])
            figures[name] = {"cpu_seconds": time["cpu_seconds"], "potential": potential}
    whole = figures["whole"]["potential"]
    return {name: {**one, "potential_of_whole": one["potential"] / whole} for name, one in figures.items()}


def compare_coreset(n, k, kind, parts):
    embeddings = make_pool(n, kind)[1]
    view, points = hr.View(n, embeddings=embeddings), centers.Points(embeddings, np.arange(n))
    ways = {"whole": hr.CoreSet(), **{f"{count} partitions": hr.CoreSet(partitions=count) for count in parts}}
    figures = {}
    with threads.team() as team:
        for name, pick in {**ways, "random": hr.Random()}.items():
            found = []
            time = measure(
                lambda pick=pick, found=found: found.append(pick_rows(pick, view, k, len(found))), len(SEEDS)
            )
            radius = average([centers.measure_radius(points, embeddings[picked], team) for picked in found])
            figures[name] = {"cpu_seconds": time["cpu_seconds"], "radius": radius}
    whole = figures["whole"]["radius"]
    return {name: {**one, "radius_of_whole": one["radius"] / whole} for name, one in figures.items()}


def pick_rows(pick, view, k, run):
    return pick(view, k, np.random.default_rng(SEEDS[run]))


def main():
    options = arguments(__doc__)
    n, k, small, few = (4000, 200, 2000, 50) if options.quick else (200_000, 10_000, 50_000, 1000)
    parts = (2, 5) if options.quick else (20, 200)
    results = {f"BADGE, {kind}": compare_badge(n, k, kind, parts) for kind in ("tight", "clustered", "diffuse")}
    results |= {f"CoreSet, {kind}": compare_coreset(small, few, kind, parts) for kind in ("tight", "clustered")}
    save("partitions", SEEDS[0], {"n": n, "k": k, "quick": options.quick}, results, options)


if __name__ == "__main__":
    main()
