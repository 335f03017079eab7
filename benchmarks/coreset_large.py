"""Report: CoreSet selects 100,000 of 9 million rows without partitions; time and memory of one run.

The pool of `badge_large.py`: 9 million rows of 128 numbers in a file, read through a memory map whose pages count as
memory. Validation is included; creating the pool is not counted. The first picks are compared with the plain loop.
"""

import tempfile
from pathlib import Path

import numpy as np

from badge_large import write_pool
from coreset import SEED, count_common, select, take_plainly
from layers import WIDTH, make_pool
from runner import in_fresh_process, parser, peak_memory, save

PREFIX = 20


def run(folder, k):
    select(make_pool(2000, "clustered")[1], 10)
    embeddings = np.load(folder / "embeddings.npy", mmap_mode="r")
    np.fromfile(folder / "embeddings.npy", np.uint8).max()  # into the page cache
    found = peak_memory(lambda: select(embeddings, k))
    plain = take_plainly(embeddings, PREFIX, found["result"][0])
    return {
        "cpu_seconds": found["cpu"],
        "wall_seconds": found["wall"],
        "input_bytes": embeddings.nbytes,
        "peak_rss_bytes": found["peak_rss_bytes"],
        "prefix_in_common": count_common(found["result"], plain),
    }


def main():
    made = parser(__doc__)
    made.add_argument("--pool", type=Path, help="keep the pool's files here, and use them if they are there")
    options = made.parse_args()
    n, k = (20_000, 500) if options.quick else (9_000_000, 100_000)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.pool or Path(temporary)
        folder.mkdir(exist_ok=True)
        if not (folder / "embeddings.npy").exists():
            in_fresh_process(write_pool, folder, n)
        results = {f"k {k}": in_fresh_process(run, folder, k)["result"]}
    save("coreset_large", SEED, {"n": n, "d": WIDTH, "prefix": PREFIX, "quick": options.quick}, results, options)


if __name__ == "__main__":
    main()
