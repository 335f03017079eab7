"""Claim: `import hedgerow` takes under half a second, and kernels are compiled once: the first call with an empty cache
of compiled code, the first call with a filled cache, and the second call.

Every number is the median of several processes that run one after the other. `starting` measures whole processes,
including the start of the interpreter; `calling` measures the call alone, without the imports before it.
"""

import os
import resource
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runner import arguments, in_fresh_process, save

SEED = 0
TARGET_SECONDS = 0.5
HEDGEROW = str(Path(sysconfig.get_path("scripts")) / "hedgerow")
STARTS = {
    "python": [sys.executable, "-c", "pass"],
    "import_numpy": [sys.executable, "-c", "import numpy"],
    "import_hedgerow": [sys.executable, "-c", "import hedgerow"],
    "import_all_names": [sys.executable, "-c", "from hedgerow import *"],
    "hedgerow_help": [HEDGEROW, "--help"],
}
CALLS = ("cluster", "margins", "select")


def main() -> None:
    options = arguments(__doc__.partition("\n\n")[0])
    repeats = 2 if options.quick else 10
    results = {
        "starting": {name: time_starts(command, repeats) for name, command in STARTS.items()},
        "calling": {name: time_calls(name, 1 if options.quick else 3) for name in CALLS},
        "commands": time_commands(1 if options.quick else 3),
        "target_seconds": TARGET_SECONDS,
    }
    save("import_time", SEED, {"repeats": repeats, "quick": options.quick}, results, options)


def time_starts(command: list[str], repeats: int) -> dict[str, Any]:
    """Median wall and CPU seconds of a command, after one run that fills the page cache."""
    run(command)
    times = [run(command) for _ in range(repeats)]
    return {
        "wall_seconds": statistics.median(wall for wall, _ in times),
        "cpu_seconds": statistics.median(cpu for _, cpu in times),
        "all_wall_seconds": [wall for wall, _ in times],
    }


def run(command: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of one run."""
    before, start = children_seconds(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start, children_seconds() - before


def children_seconds() -> float:
    """CPU seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def time_calls(name: str, repeats: int) -> dict[str, Any]:
    """The first call with an empty and with a filled cache, and the second call, medians of `repeats` fresh caches."""
    pairs = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["NUMBA_CACHE_DIR"] = folder  # the new process reads it when it imports numba
            pairs.append([in_fresh_process(call_twice, name)["result"] for _ in ("empty", "filled")])
    moments = {
        "compiling": [empty[0] for empty, _ in pairs],
        "cached": [filled[0] for _, filled in pairs],
        "second": [filled[1] for _, filled in pairs],
    }
    return {
        f"{moment}_{clock}_seconds": statistics.median(times[clock] for times in found)
        for moment, found in moments.items()
        for clock in ("wall", "cpu")
    }


def time_commands(repeats: int) -> dict[str, Any]:
    """Median wall and CPU seconds of commands as processes, imports included: with an empty cache, then a filled one.

    `cluster_small` has 1,000 rows, `cluster_large` 25,000, beyond what is compared exactly; `select` has 10,000.
    """
    import numpy as np

    rng = np.random.default_rng(SEED)
    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, rows in (("small", 1_000), ("large", 25_000), ("pool", 10_000)):
            np.save(folder / f"{name}.npy", rng.normal(size=(rows, 32)).astype(np.float32))
        np.save(folder / "chances.npy", rng.dirichlet(np.ones(10), 10_000).astype(np.float32))
        clusters = str(folder / "clusters.parquet")
        run([HEDGEROW, "cluster", str(folder / "pool.npy"), "-o", clusters])
        inputs = {
            "cluster_small": ["cluster", "small.npy"],
            "cluster_large": ["cluster", "large.npy"],
            "select": ["select", "chances.npy", "--strategy", "cluster-margin", "--clusters", clusters, "-k", "100"],
        }
        for name, (command, source, *rest) in inputs.items():
            line = [HEDGEROW, command, str(folder / source), *rest, "-o", str(folder / "out.parquet"), "--force"]
            for turn in range(repeats):
                os.environ["NUMBA_CACHE_DIR"] = str(folder / f"{name}-{turn}")
                for moment in ("compiling", "cached"):
                    found.setdefault(f"{name}_{moment}", []).append(run(line))
    return {
        name: {
            "wall_seconds": statistics.median(wall for wall, _ in times),
            "cpu_seconds": statistics.median(cpu for _, cpu in times),
        }
        for name, times in found.items()
    }


def call_twice(name: str) -> list[dict[str, float]]:
    """Wall and CPU seconds of the first and the second call of a public function, on a small pool."""
    call = prepare(name)
    times = []
    for _ in range(2):
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        times.append({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu})
    return times


def prepare(name: str) -> Callable[[], Any]:
    """The call, its inputs made and its module imported."""
    import numpy as np

    import hedgerow as hr

    rng = np.random.default_rng(SEED)
    embeddings = rng.normal(size=(1000, 32)).astype(np.float32)
    probabilities = rng.dirichlet(np.ones(10), size=1000).astype(np.float32)
    labels = np.arange(1000) // 10
    scores = probabilities[:, 0].copy()
    function = getattr(hr, name)
    return {
        "cluster": lambda: function(embeddings, average_size=10),
        "margins": lambda: function(probabilities),
        "select": lambda: function("cluster-margin", 100, margins=scores, clusters=labels),
    }[name]


if __name__ == "__main__":
    main()
