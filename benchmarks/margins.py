"""Goal: margins, validation included, at 30% of the traffic of memcpy and 15 times as fast as numpy's partition.

400,000 x 1,000 float32, one thread each, CPU seconds, in one run; also margins on all cores in wall time, which on a
busy machine depends on the other programs. Traffic is bytes read plus bytes written. numpy has two ways to compute
margins: partition at the second largest value only (the value to its right must then be the largest), which numpy 2
does with vector instructions, and partition at both places, which it does not. Both are shown; the goal refers to
the first. numpy's maximum shows the time of reading the matrix once in one stream; margins read four streams at
once.
"""

import numpy as np

import hedgerow as hr
from runner import arguments, measure, save

SEED = 0


def make_probabilities(n, width, seed):
    """Softmax of normal logits, float32 (n, width)."""
    rng = np.random.default_rng(seed)
    probabilities = rng.standard_normal((n, width), dtype=np.float32)
    np.exp(probabilities, out=probabilities)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    return probabilities


def partition_once(probabilities):
    top2 = np.partition(probabilities, -2, axis=1)[:, -2:]
    return top2[:, 1] - top2[:, 0]


def partition_twice(probabilities):
    top2 = np.partition(probabilities, (-2, -1), axis=1)[:, -2:]
    return top2[:, 1] - top2[:, 0]


def rate(nbytes, took):
    return took | {"gigabytes_per_cpu_second": nbytes / took["cpu_seconds"] / 1e9}


def compare_float32(n, width, repeats):
    """Memcpy, ours and numpy over one matrix."""
    given = make_probabilities(n, width, SEED)
    copy = np.empty_like(given)
    hr.margins(given[:1000])  # compiled before the clock runs
    np.copyto(copy, given)  # and the copy's pages are there
    runs = {
        "memcpy": rate(2 * given.nbytes, measure(lambda: np.copyto(copy, given), repeats)),
        "one read (numpy max)": rate(given.nbytes, measure(lambda: given.view(np.uint32).max(), repeats)),
        "margins, one thread": rate(given.nbytes, measure(lambda: hr.margins(given, threads=1), repeats)),
        "margins, all cores": rate(given.nbytes, measure(lambda: hr.margins(given), repeats)),
        "numpy partition, one place": rate(given.nbytes, measure(lambda: partition_once(given), min(repeats, 5))),
        "numpy partition, both places": rate(given.nbytes, measure(lambda: partition_twice(given), 1)),
    }
    assert np.array_equal(hr.margins(given), partition_once(given))
    return runs


def weigh(runs):
    """The claim's numbers."""
    ours, ours_on_all = runs["margins, one thread"], runs["margins, all cores"]
    peer = runs["numpy partition, one place"]
    return {
        "share_of_memcpy_traffic": ours["gigabytes_per_cpu_second"] / runs["memcpy"]["gigabytes_per_cpu_second"],
        "times_numpy_partition_one_place": peer["cpu_seconds"] / ours["cpu_seconds"],
        # Numpy's CPU seconds are what it would take by the clock undisturbed: our own clock is not granted that.
        "all_cores_wall_times_numpy_partition_one_place": peer["cpu_seconds"] / ours_on_all["wall_seconds"],
        "times_numpy_partition_both_places": runs["numpy partition, both places"]["cpu_seconds"] / ours["cpu_seconds"],
    }


def compare_others(n, width, repeats):
    """Other dtypes, scores and widths, one thread each."""
    given = make_probabilities(n, width, SEED)
    halves, doubles = given.astype(np.float16), given.astype(np.float64)
    doubles /= doubles.sum(axis=1, keepdims=True)
    narrow = make_probabilities(n * width // 10, 10, SEED)
    tasks = {
        "margins of float16": (halves, lambda: hr.margins(halves, threads=1)),
        "margins of float64": (doubles, lambda: hr.margins(doubles, threads=1)),
        "margins of logits": (given, lambda: hr.margins(logits=given, threads=1)),
        "entropies": (given, lambda: hr.entropies(given, threads=1)),
        "least confidences": (given, lambda: hr.least_confidences(given, threads=1)),
        "margins of 10 classes": (narrow, lambda: hr.margins(narrow, threads=1)),
        "numpy partition of 10 classes": (narrow, lambda: partition_once(narrow)),
    }
    found = {}
    for name, (array, task) in tasks.items():
        task()
        found[name] = {"rows": array.shape[0], "classes": array.shape[1]} | rate(array.nbytes, measure(task, repeats))
    return found


def main():
    options = arguments(__doc__)
    n, width = (4_000, 1_000) if options.quick else (400_000, 1_000)
    repeats = 1 if options.quick else 10  # the shorter a run, the more of them until one is undisturbed
    runs = compare_float32(n, width, repeats)
    results = {"runs": runs, "others": compare_others(n // 4, width, repeats), **weigh(runs)}
    settings = {"n": n, "classes": width, "repeats": repeats, "quick": options.quick}
    save("margins", SEED, settings, results, options)


if __name__ == "__main__":
    main()
