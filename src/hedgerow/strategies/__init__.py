"""A view of the pool in, the rows to label next out: `select`, and one module a strategy.

A strategy is anything callable as strategy(view, k, rng) -> k distinct unlabeled rows. It may declare what it needs of
the view in an attribute `needs`, a set of "margins", "probabilities", "embeddings", "clusters"; one that declares
nothing sees whatever is given. `select` checks what goes in and what comes out.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks, pool, scores
from hedgerow.batches import Batch
from hedgerow.errors import InputError, PoolExhaustedError
from hedgerow.machine import team
from hedgerow.strategies.badge import Badge
from hedgerow.strategies.cluster_margin import ClusterMargin
from hedgerow.strategies.coreset import CoreSet
from hedgerow.strategies.margin import Margin, StochasticMargin
from hedgerow.strategies.options import make as make_known
from hedgerow.strategies.random import Random
from hedgerow.strategies.uncertainty import Entropy, LeastConfidence
from hedgerow.strategies.view import View

__all__ = [
    "STRATEGIES",
    "Badge",
    "ClusterMargin",
    "CoreSet",
    "Entropy",
    "LeastConfidence",
    "Margin",
    "Random",
    "StochasticMargin",
    "View",
    "find_needs",
    "make",
    "select",
]

STRATEGIES: dict[str, type[Any]] = {
    "cluster-margin": ClusterMargin,
    "margin": Margin,
    "stochastic-margin": StochasticMargin,
    "badge": Badge,
    "coreset": CoreSet,
    "random": Random,
    "entropy": Entropy,
    "least-confidence": LeastConfidence,
}
GIVEN_AS = {
    "margins": "pass probabilities=... or margins=...",
    "probabilities": "pass probabilities=...",
    "embeddings": "pass embeddings=...",
    "clusters": "pass clusters=..., as hedgerow.cluster makes them",
}
EVERYTHING = frozenset(GIVEN_AS)
LEAST_COLUMNS = {"probabilities": 2, "embeddings": 1}  # the matrices among them
STREAM = 0x5E1EC7  # sets select's random numbers apart from what others draw from the same seed
INFINITY_BITS = np.float32(np.inf).view(np.uint32)


def select(
    strategy: Any,
    k: int,
    *,
    probabilities: Any = None,
    margins: Any = None,
    embeddings: Any = None,
    clusters: Any = None,
    labeled: Any = None,
    seed: int = 0,
    allow_short: bool = False,
) -> Batch:
    """The k unlabeled rows that `strategy` would have labeled next.

    strategy: a name out of `STRATEGIES`, an instance such as `ClusterMargin(margin_factor=5)`, or a callable of your
    own. probabilities (n, C) and embeddings (n, d): arrays, tables or paths; only what the strategy needs is read.
    margins (n,): taken in float32; if absent and needed, computed from the probabilities. clusters: what `cluster`
    returned, an integer array (n,), or the path of a clusters file. labeled: a bool mask (n,) or rows. allow_short:
    take what is there when fewer than k rows are unlabeled, instead of `PoolExhaustedError`. Time and memory: see the
    strategy.
    """
    name, chosen = resolve(strategy, STRATEGIES)
    k = checks.integer(k, "k")
    seed = checks.seed(seed)
    given = _open({"probabilities": probabilities, "margins": margins, "embeddings": embeddings, "clusters": clusters})
    n = _count_rows(given, labeled)
    wanted = _check_needs(name, getattr(chosen, "needs", None), given)
    mask = checks.labeled_mask(labeled, n)
    available = n if mask is None else n - int(np.count_nonzero(mask))
    if k > available and not allow_short:
        raise PoolExhaustedError(k, available)
    view = _look(given, n, mask, wanted)
    k = min(k, available)
    rows = chosen(view, k, np.random.default_rng([STREAM, seed])) if k else np.zeros(0, np.int64)
    return Batch(check_picked(rows, view, k, name), name, seed)


def make(name: str, options: Mapping[str, Any] | None = None, known: Mapping[str, type[Any]] = STRATEGIES) -> Any:
    """The strategy called `name`, with options by name: values, or text as on the command line ("5", "true", "none").

    known: `PAIR_STRATEGIES` for a strategy of pairs.
    """
    return make_known(name, options or {}, known)


def find_needs(strategy: Any, known: Mapping[str, type[Any]] = STRATEGIES) -> frozenset[str]:
    """What a strategy, or the one of that name, needs of the view; everything if it does not declare its needs."""
    if isinstance(strategy, str):
        strategy = known[checks.option(strategy, "strategy", known)]
    declared = getattr(strategy, "needs", None)
    return EVERYTHING if declared is None else frozenset(declared)


def resolve(strategy: Any, known: Mapping[str, type[Any]]) -> tuple[str, Callable[..., Any]]:
    """(name, callable): a name or an instance of those known by its name there, anything else by its own."""
    if isinstance(strategy, str):
        name = checks.option(strategy, "strategy", known)
        return name, known[name]()
    if isinstance(strategy, type) or not callable(strategy):
        raise InputError(
            f"strategy must be a name ({', '.join(known)}), an instance such as ClusterMargin(), or a callable "
            f"strategy(view, k, rng), got {strategy!r}"
        )
    for name, kind in known.items():
        if type(strategy) is kind:
            return name, strategy
    if type(strategy).__module__.startswith("hedgerow."):
        raise InputError(f"{type(strategy).__name__} does not go here: known are {', '.join(known)}")
    return getattr(strategy, "__name__", type(strategy).__name__), strategy


# What goes in.


def _open(sources: dict[str, Any]) -> dict[str, Any]:
    """What is given, opened: matrices not yet read, vectors as arrays."""
    opened: dict[str, Any] = {}
    for key, source in sources.items():
        if source is None:
            continue
        if key in LEAST_COLUMNS:
            opened[key] = pool.open_matrix(source, key, least_columns=LEAST_COLUMNS[key])
        else:
            opened[key] = pool.as_vector(getattr(source, "labels", source), key)
    return opened


def _count_rows(given: dict[str, Any], labeled: Any) -> int:
    """The pool's size: that of the inputs, or of the mask where there is nothing else."""
    if given:
        return checks.same_length({key: one.n if key in LEAST_COLUMNS else len(one) for key, one in given.items()})
    if labeled is not None and (mask := np.asarray(labeled)).dtype == np.bool_ and mask.ndim == 1:
        return len(mask)
    raise InputError(
        "the size of the pool is unknown: pass probabilities, margins, embeddings, clusters, or labeled as a bool mask"
    )


def _check_needs(name: str, declared: Any, given: dict[str, Any]) -> frozenset[str]:
    """What the view is to hold: what the strategy declares, found to be given, or everything if it declares nothing."""
    if declared is None:
        return EVERYTHING
    needs = frozenset(declared)
    if needs - EVERYTHING:
        raise InputError(f"strategy {name!r} needs {min(needs - EVERYTHING)!r}: known: {', '.join(GIVEN_AS)}")
    for need in sorted(needs - given.keys()):
        if need != "margins" or "probabilities" not in given:
            raise InputError(f"strategy {name!r} needs {need}: {GIVEN_AS[need]}")
    return needs


def _look(given: dict[str, Any], n: int, mask: npt.NDArray[np.bool_] | None, wanted: frozenset[str]) -> View:
    """The view of what is given, checked; matrices are read only where they are wanted."""
    read = wanted & given.keys()
    return View(
        n,
        mask,
        _resolve_margins(given.get("margins"), given.get("probabilities"), wanted),
        given["probabilities"].array() if "probabilities" in read else None,
        read_embeddings(given["embeddings"]) if "embeddings" in read else None,
        checks.cluster_labels(given["clusters"], n) if "clusters" in given else None,
    )


def _resolve_margins(
    given: npt.NDArray[Any] | None, probabilities: pool.Matrix | None, wanted: frozenset[str]
) -> npt.NDArray[np.float32] | None:
    """The margins given, or those of the probabilities. Computing them is also the check of the probabilities."""
    computed = None
    if probabilities is not None and ("probabilities" in wanted or (given is None and "margins" in wanted)):
        computed = scores.margins(probabilities)
    return computed if given is None else _check_margins(given)


def _check_margins(given: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Float32, contiguous, finite, >= 0, no negative zero (whose bits would rank last); a copy only where needed."""
    with np.errstate(over="ignore"):
        margins = np.ascontiguousarray(checks.vector(given, "margins"), np.float32)
    if margins.size == 0 or margins.view(np.uint32).max() < INFINITY_BITS:
        return margins
    checks.finite(margins, "margins")
    if margins.min() < 0:
        row = int(margins.argmin())
        raise InputError(f"margins holds {margins[row]:g} in row {row}: a margin is the top-1 minus the top-2, >= 0")
    return margins + np.float32(0)


def read_embeddings(matrix: pool.Matrix) -> npt.NDArray[Any]:
    """The embeddings, found to be finite, also in the float32 that strategies work in."""
    array = matrix.array()
    step = max(1, checks.CHECK_BYTES // max(1, matrix.width * matrix.dtype.itemsize))

    def check(start: int) -> None:
        with np.errstate(over="ignore"):
            checks.finite(array[start : start + step].astype(np.float32, copy=False), "embeddings", first_row=start)

    with team() as threads:  # the first row that offends is told, whoever finds it: results are looked at in order
        threads.map(check, range(0, matrix.n, step))
    return array


# What comes out.


def check_picked(rows: Any, view: View, k: int, name: str, *, kind: str = "row") -> npt.NDArray[np.int64]:
    """k distinct unlabeled rows, as a strategy of anybody's must give them. kind: what messages call one of them."""
    title = f"what strategy {name!r} returned"
    picked = checks.rows(rows, view.n, title, kind=kind)
    if len(picked) != k:
        raise InputError(f"{title} has {len(picked):,} {kind}s, but {k:,} were asked for")
    if view.labeled is not None and view.labeled[picked].any():
        row = picked[view.labeled[picked].argmax()]
        raise InputError(f"{title} holds {kind} {row}, which is labeled: view.labeled tells which are")
    picked.flags.writeable = False
    return picked
