"""Claim: BADGE selects 100,000 of 9 million rows without partitions, in 150 CPU seconds and 1.2 times the memory of its
inputs.

The embeddings, 9 million rows of 128 numbers, are in a file and read through a memory map, whose pages count as
memory; the probabilities of two classes are in memory. Validation is included. Time and memory are those of one run;
creating the pool is not counted. The speed-up of all cores is the wall time on one core over the wall time on all.
"""

import os
import tempfile
from pathlib import Path

import numpy as np

import hedgerow as hr
from badge import warm_up
from layers import WIDTH, fill_embeddings, make_probabilities
from runner import in_fresh_process, parser, peak_memory, save

SEED = 0


def write_pool(folder, n):
    """The pool's two files, unless they are there."""
    embeddings = np.lib.format.open_memmap(folder / "embeddings.part.npy", "w+", np.float32, (n, WIDTH))
    layer = fill_embeddings(embeddings, "clustered", SEED)
    np.save(folder / "probabilities.npy", make_probabilities(embeddings, layer, 2))
    embeddings.flush()
    (folder / "embeddings.part.npy").rename(folder / "embeddings.npy")


def run(folder, k, cores):
    if cores:
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:cores]))
    warm_up(2)
    embeddings, probabilities = np.load(folder / "embeddings.npy", mmap_mode="r"), np.load(folder / "probabilities.npy")
    np.fromfile(folder / "embeddings.npy", np.uint8).max()  # into the page cache: every run reads from there
    input_bytes = embeddings.nbytes + probabilities.nbytes
    found = peak_memory(
        lambda: hr.select("badge", k, probabilities=probabilities, embeddings=embeddings, seed=SEED).rows
    )
    assert len(np.unique(found["result"])) == k
    return {
        "cpu_seconds": found["cpu"],
        "wall_seconds": found["wall"],
        "input_bytes": input_bytes,
        "peak_rss_bytes": found["peak_rss_bytes"],
        "memory_of_inputs": found["peak_rss_bytes"] / input_bytes,
    }


def main():
    options_parser = parser(__doc__)
    options_parser.add_argument("--pool", type=Path, help="keep the pool's files here, and use them if they are there")
    options_parser.add_argument("-k", type=int, nargs="+", default=[100_000], help="batches; the first on one core too")
    options = options_parser.parse_args()
    n = 20_000 if options.quick else 9_000_000
    batches = [500] if options.quick else options.k
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.pool or Path(temporary)
        folder.mkdir(exist_ok=True)
        if not (folder / "embeddings.npy").exists():
            in_fresh_process(write_pool, folder, n)
        alone = in_fresh_process(run, folder, batches[0], 1)["result"]
        results = {f"k {k}": in_fresh_process(run, folder, k, 0)["result"] for k in batches}
        speed_up = alone["wall_seconds"] / results[f"k {batches[0]}"]["wall_seconds"]
        results |= {f"k {batches[0]}, one core": alone, "speed_up_of_all_cores": speed_up}
    save("badge_large", SEED, {"n": n, "d": WIDTH, "classes": 2, "quick": options.quick}, results, options)


if __name__ == "__main__":
    main()
