"""Synthetic pools for the benchmarks: unit vectors in groups whose sizes have a heavy tail, as is common in embeddings.

A group's center is a class center plus an offset, and its members are the center plus noise; both have a decaying
spectrum, so that the intrinsic dimension is far below d. One in two hundred rows is an exact copy of another.
"""

import numpy as np

SPREAD, NOISE, COPIES = 0.55, 0.45, 0.005
ROWS = 200_000  # rows made at a time


def draw_group_sizes(n, rng, mean_size):
    """Group sizes with a Pareto(1.5) tail that sum to n."""
    sizes = np.zeros(0, np.int64)
    while sizes.sum() < n:
        more = 1 + rng.pareto(1.5, 4096) * mean_size / 2
        sizes = np.concatenate([sizes, np.minimum(more, n // 20 + 1).astype(np.int64)])
    ends = np.minimum(np.cumsum(sizes), n)
    return np.diff(ends[: int(np.searchsorted(ends, n)) + 1], prepend=0)


def write_pool(out, seed=0, mean_size=25, classes=None):
    """Fills out (n, d) float32 (an array or a memmap) with unit rows in random order. classes: their centers."""
    n, d = out.shape
    rng = np.random.default_rng(seed)
    sizes = draw_group_sizes(n, rng, mean_size)
    groups = len(sizes)
    spectrum = (1 / np.sqrt(1 + np.arange(d) / 8)).astype(np.float32)
    spectrum /= np.linalg.norm(spectrum)
    if classes is None:
        classes = rng.standard_normal((max(10, int(np.sqrt(groups))), d), dtype=np.float32)
    centers = classes[rng.integers(0, len(classes), groups)]
    centers += SPREAD * rng.standard_normal((groups, d), dtype=np.float32)
    noise = (NOISE * rng.lognormal(0, 0.35, groups)).astype(np.float32)
    group = rng.permutation(np.repeat(np.arange(groups, dtype=np.int32), sizes))
    for start in range(0, n, ROWS):
        mine = group[start : start + ROWS]
        rows = centers[mine] + noise[mine, None] * rng.standard_normal((len(mine), d), dtype=np.float32)
        rows *= spectrum
        out[start : start + ROWS] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    copies = int(COPIES * n)
    out[rng.integers(0, n, copies)] = out[rng.integers(0, n, copies)]


def write_shards(folder, n, d, seed=0, mean_size=25, rows=1_000_000):
    """Writes n rows of float16 as .npy files of `rows` rows in a folder; those that are there are left. Groups do not
    cross files, classes do."""
    classes = np.random.default_rng(seed).standard_normal((max(10, int(np.sqrt(n / mean_size))), d), dtype=np.float32)
    for part, start in enumerate(range(0, n, rows)):
        path = folder / f"{part:05}.npy"
        if not path.exists():
            out = np.empty((min(rows, n - start), d), np.float32)
            write_pool(out, [seed, part], mean_size, classes)
            beside = path.with_suffix(".part")
            with beside.open("wb") as file:
                np.save(file, out.astype(np.float16))
            beside.replace(path)


def make_pool(n, d=128, seed=0, mean_size=25):
    """An (n, d) float32 pool in memory."""
    out = np.empty((n, d), np.float32)
    write_pool(out, seed, mean_size)
    return out
