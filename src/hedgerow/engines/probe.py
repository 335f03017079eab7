"""What decides the bits of a result: versions of libraries, and what kernels and BLAS make of fixed numbers.

OpenBLAS and numba choose code by the processor, and other code rounds otherwise: the same input then has clusters that
differ here and there. So workers are compared before they work together, by versions and by a hash.
"""

import functools
import hashlib
import platform
import socket
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import __version__, machine
from hedgerow.kernels import freeze

LIBRARIES = ("numpy", "scipy", "numba", "llvmlite", "pyarrow")
WIDTHS = (16, 100, 1280)  # products of a few columns and of many are computed by different code
ROWS, NEIGHBORS, SEED = 300, 15, 7


def list_versions() -> dict[str, str]:
    """The versions that results may depend on."""
    return {
        "hedgerow": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
    }


@functools.cache
def hash_bits() -> str:
    """16 digits that agree where neighbors, norms, products, draws and logarithms agree to the last bit.

    A second; where kernels have yet to be compiled, up to a minute.
    """
    rng = np.random.default_rng(SEED)
    digest = hashlib.sha256()
    with machine.team(1):
        for width in WIDTHS:
            rows = rng.standard_normal((ROWS, width), dtype=np.float32)
            for made in (*_search(_normalize(rows)), rows @ rows[:37].T, np.exp(-np.abs(rows)), np.log(np.abs(rows))):
                digest.update(np.ascontiguousarray(made).tobytes())
        digest.update(_draw(rng.random(1000, dtype=np.float32)).tobytes())
    return digest.hexdigest()[:16]


def describe_worker(job: int) -> dict[str, Any]:
    """A task: the host, the versions and the bits of the worker that runs it."""
    return {"host": socket.gethostname(), "versions": list_versions(), "bits": hash_bits()}


def describe_blas() -> str:
    """The BLAS libraries that are loaded, with the kind of processor that they chose their code for."""
    found = (library for library in machine.find_pools(0).info() if library["user_api"] == "blas")
    return ", ".join(sorted({f"{one['internal_api']} {one['version']} {one.get('architecture')}" for one in found}))


def _normalize(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    from hedgerow.kernels.rows import normalize

    out = np.empty_like(rows)
    normalize(freeze(rows), out)
    return out


def _search(points: npt.NDArray[np.float32]) -> tuple[npt.NDArray[Any], ...]:
    """The neighbor lists of two cells, each within and both with each other."""
    from hedgerow.kernels import nearest

    n = len(points)
    ids, gaps = np.full((n, NEIGHBORS), -1, np.int32), np.full((n, NEIGHBORS), np.inf, np.float32)
    worst, half = np.full(n, np.inf, np.float32), np.full(n, 0.5, np.float32)
    scratch, starts = nearest.make_scratch(np.float32), np.array([0, 125, n])
    for first, second in ((np.array([0, 1]), np.array([0, 1])), (np.array([0]), np.array([1]))):
        nearest.search_cells(points, half, starts, first, second, scratch, ids, gaps, worst)
    return ids, gaps


def _draw(margins: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    from hedgerow.kernels.race import race

    arrivals = np.empty_like(margins)
    race(freeze(margins), 1.5, np.uint64(SEED), 0, arrivals)
    return arrivals
