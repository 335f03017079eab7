"""Which rows to label next: `select`, and one module per strategy.

A strategy is anything callable as strategy(view, k, rng) -> k distinct unlabeled rows, or `Drawn`: rows and weights. It
may declare what it needs in an attribute `needs`, a set of "margins", "probabilities", "embeddings", "clusters"; a
strategy that declares nothing gets everything that is given. `select` checks the inputs and what the strategy returns.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks, pool, scores
from hedgerow.batches import Batch
from hedgerow.engines import Engine
from hedgerow.errors import InputError
from hedgerow.machine import team
from hedgerow.progress import Progress, watch
from hedgerow.shards import is_wanted
from hedgerow.strategies import inputs
from hedgerow.strategies.badge import Badge
from hedgerow.strategies.cluster_margin import ClusterMargin, refuse_row_margin
from hedgerow.strategies.controls import ShuffledClusterMargin, ShuffledHedge, UniformCandidates
from hedgerow.strategies.coreset import CoreSet
from hedgerow.strategies.hedge import Hedge
from hedgerow.strategies.herding import MaxHerding, UHerding
from hedgerow.strategies.inputs import Closed, Joined
from hedgerow.strategies.margin import Margin, StochasticMargin
from hedgerow.strategies.options import make as make_known
from hedgerow.strategies.probcover import ProbCover
from hedgerow.strategies.random import Random
from hedgerow.strategies.typiclust import TypiClust
from hedgerow.strategies.uncertainty import Entropy, LeastConfidence
from hedgerow.strategies.view import Drawn, View
from hedgerow.strategies.workers import check_parts, pick_on_engine

__all__ = [
    "STRATEGIES",
    "Badge",
    "ClusterMargin",
    "CoreSet",
    "Drawn",
    "Entropy",
    "Hedge",
    "LeastConfidence",
    "Margin",
    "MaxHerding",
    "ProbCover",
    "Random",
    "ShuffledClusterMargin",
    "ShuffledHedge",
    "StochasticMargin",
    "TypiClust",
    "UHerding",
    "UniformCandidates",
    "View",
    "find_needs",
    "make",
    "select",
]

STRATEGIES: dict[str, type[Any]] = {
    "cluster-margin": ClusterMargin,
    "margin": Margin,
    "stochastic-margin": StochasticMargin,
    "hedge": Hedge,
    "badge": Badge,
    "coreset": CoreSet,
    "typiclust": TypiClust,
    "probcover": ProbCover,
    "maxherding": MaxHerding,
    "uherding": UHerding,
    "random": Random,
    "entropy": Entropy,
    "least-confidence": LeastConfidence,
    "cluster-margin-shuffled": ShuffledClusterMargin,
    "uniform-candidates": UniformCandidates,
    "hedge-shuffled": ShuffledHedge,
}
GIVEN_AS = {
    "margins": "pass probabilities=... or margins=... or logits=...",
    "probabilities": "pass probabilities=... or logits=...",
    "embeddings": "pass embeddings=... (--embeddings FILE)",
    "clusters": "pass clusters=... (--clusters FILE), as hedgerow.cluster makes them",
}
EVERYTHING = frozenset(GIVEN_AS)
FROM_PREDICTIONS = frozenset({"margins", "probabilities"})
PATHS = (str, os.PathLike)
PLAIN = (bool, int, float, str, type(None))
STREAM = 0x5E1EC7  # sets select's random numbers apart from what others draw from the same seed
INFINITY_BITS = np.float32(np.inf).view(np.uint32)


def select(
    strategy: Any,
    k: int,
    *,
    probabilities: Any = None,
    margins: Any = None,
    logits: Any = None,
    predictions: Any = None,
    embeddings: Any = None,
    clusters: Any = None,
    labeled: Any = None,
    seed: int = 0,
    allow_short: bool = False,
    ignore_unknown: bool = False,
    column: str | None = None,
    id_column: str | None = None,
    engine: str | Engine | None = None,
    workdir: str | Path | None = None,
    progress: Progress | bool | None = None,
) -> Batch:
    """The k unlabeled rows to label next, chosen by `strategy`.

    strategy: a name out of `STRATEGIES`, an instance such as `ClusterMargin(margin_factor=5)`, or a callable of your
    own.

    probabilities (n, C), margins (n,), logits (n, C): what the model predicts; one is enough. predictions: a file or
    table that holds probabilities or margins, distinguished by its columns. embeddings (n, d). clusters: what `cluster`
    returned, an integer array (n,), or a clusters file. All of them: arrays, tables or paths; only what the strategy
    needs is read. column: the column of the predictions, where its name does not say so.

    Inputs with an id column are joined by id, whatever their order. The order of the pool, which is what `row` means,
    is that of the embeddings if they are given, else that of the clusters, else that of the predictions. Predictions
    may lack rows of the pool: these are not candidates, and `batch.settings["without_predictions"]` counts those of
    them that are not labeled. Inputs without ids are matched by position. id_column: the column with the ids, where its
    name does not say so.

    labeled: a bool mask (n,), rows, ids that are strings, or the path of a file that lists ids or rows (.parquet, .csv,
    .jsonl, .txt, .npy), or a list of such paths. ignore_unknown: leave out ids that are not in the pool, instead of an
    error. allow_short: take what is there when fewer than k rows are unlabeled, instead of `PoolExhaustedError`.

    engine: where the parts of `Badge` and `CoreSet` with `partitions` are worked on (see `hedgerow.engines`), with the
    same batch. workdir: a folder for finished parts, from which an interrupted selection continues; workers on other
    machines must share it.
    progress: True shows a progress bar; or a callable progress(phase, share).

    Time and memory: see the strategy; predictions in another order than the pool are copied.
    """
    name, chosen = resolve(strategy, STRATEGIES)
    refuse_row_margin(chosen)
    k, seed = checks.integer(k, "k"), checks.seed(seed)
    on_engine = check_parts(chosen, name) if is_wanted(engine, workdir) else None
    sources = {"probabilities": probabilities, "margins": margins, "logits": logits, "predictions": predictions}
    sources |= {"embeddings": embeddings, "clusters": clusters}
    with watch(progress) as report:
        report("reading", 0.0)
        needs = find_needs(chosen)
        joined = open_sources(sources, needs, column, id_column, labeled, ignore_unknown)
        _check_needs(name, getattr(chosen, "needs", None), joined)
        closed = close_rows(joined, labeled, id_column, ignore_unknown)
        if not allow_short:
            closed.require(k)
        report("scoring", 0.2)
        view = look(joined, closed, needs)
        report("selecting", 0.8)
        taken = min(k, closed.available)
        picked: Any = np.zeros(0, np.int64)
        rng = np.random.default_rng([STREAM, seed])
        if taken and on_engine is not None:
            picked = pick_on_engine(on_engine, view, taken, rng, name, engine, workdir, report)
        elif taken:
            picked = chosen(view, taken, rng)
        rows, weights = check_drawn(picked, view, taken, name)
    settings = {"options": describe_options(chosen), "k": k, "n": joined.n}
    settings |= closed.describe()
    settings["inputs"] = inputs.describe_inputs({**sources, "labeled": labeled})
    return Batch(
        rows,
        name,
        seed,
        None if joined.ids is None else joined.ids.take(rows),
        None if view.margins is None else view.margins[rows],
        joined.take_clusters(rows, view.clusters),
        settings,
        weights,
    )


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


def describe_options(strategy: Any) -> dict[str, Any]:
    """A strategy's options in plain types, for the settings of a batch."""
    if not is_dataclass(strategy):
        return {}
    values = {field.name: getattr(strategy, field.name) for field in fields(strategy)}
    return {key: value if isinstance(value, PLAIN) else repr(value) for key, value in values.items()}


def resolve(strategy: Any, known: Mapping[str, type[Any]]) -> tuple[str, Callable[..., Any]]:
    """(name, callable) of a strategy: known ones by their name in `known`, others by their own name."""
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
        raise InputError(f"{type(strategy).__name__} cannot be used here: known strategies are {', '.join(known)}")
    return getattr(strategy, "__name__", type(strategy).__name__), strategy


# Inputs.


def open_sources(
    sources: dict[str, Any],
    needs: frozenset[str],
    column: str | None,
    id_column: str | None,
    labeled: Any,
    ignore_unknown: bool,
) -> Joined:
    """The inputs joined; without any, a mask of what is labeled tells the size of the pool."""
    checks.exactly_one({name: sources[name] for name in ("probabilities", "logits")}, allow_none=True)
    predictions = sources["predictions"]
    if predictions is not None and needs & FROM_PREDICTIONS:
        checks.exactly_one({name: sources[name] for name in inputs.PREDICTIONS})
        opened = inputs.open_rows(predictions, "predictions")
        kind = "margins" if pool.holds_vector(opened, "margins", column=column) else "probabilities"
        sources = {**sources, "predictions": None, kind: predictions if isinstance(predictions, PATHS) else opened}
    opened_inputs = inputs.open_inputs(sources, column=column, id_column=id_column)
    if opened_inputs:
        return inputs.join(opened_inputs, ignore_unknown=ignore_unknown)
    if labeled is not None and (mask := np.asarray(labeled)).dtype == np.bool_ and mask.ndim == 1:
        return Joined(len(mask), None, {}, {})
    raise InputError(
        "the size of the pool is unknown: pass probabilities, margins, embeddings, clusters, or labeled as a bool mask"
    )


def close_rows(joined: Joined, labeled: Any, id_column: str | None, ignore_unknown: bool) -> Closed:
    """The rows that may not be picked. labeled: as `select` takes it."""
    mask, ignored = inputs.find_labeled(
        labeled, joined.n, joined.ids, id_column=id_column, ignore_unknown=ignore_unknown
    )
    absent = inputs.drop_labeled(joined.find_absent(), mask)
    return Closed(joined.n, mask, absent, ignored + joined.unknown)


def _check_needs(name: str, declared: Any, given: Joined) -> None:
    """Refuse a selection without what the strategy declares to need."""
    if declared is None:
        return
    needs = frozenset(declared)
    if needs - EVERYTHING:
        raise InputError(f"strategy {name!r} needs {min(needs - EVERYTHING)!r}: known: {', '.join(GIVEN_AS)}")
    serves = {"margins": ("margins", "probabilities", "logits"), "probabilities": ("probabilities", "logits")}
    for need in sorted(needs):
        if not any(source in given for source in serves.get(need, (need,))):
            raise InputError(f"strategy {name!r} needs {need}: {GIVEN_AS[need]}")


def look(given: Joined, closed: Closed, wanted: frozenset[str]) -> View:
    """The view of what is given, checked; matrices are read only where they are wanted."""
    clusters = given.inputs["clusters"].data if "clusters" in given else None
    if clusters is not None:
        clusters = checks.cluster_labels(clusters, len(clusters))
    embeddings = None
    if "embeddings" in wanted and "embeddings" in given:
        embeddings = read_embeddings(given.inputs["embeddings"].data)
        assert given.rows["embeddings"] is None, "the pool has the order of the embeddings"
    return View(
        given.n,
        closed.mask,
        _resolve_margins(given, wanted),
        _read_probabilities(given) if "probabilities" in wanted else None,
        embeddings,
        None if clusters is None else given.arrange("clusters", clusters, 0),
        absent=closed.absent,
        classes=next((given.inputs[name].data.width for name in ("probabilities", "logits") if name in given), None),
    )


def _resolve_margins(given: Joined, wanted: frozenset[str]) -> npt.NDArray[np.float32] | None:
    """The margins given, or those of the probabilities or logits. Computing them also checks these."""
    source = "logits" if "logits" in given else "probabilities"
    computed = None
    if source in given and ("probabilities" in wanted or ("margins" not in given and "margins" in wanted)):
        computed = scores.margins(**{source: given.inputs[source].data})
    if "margins" in given:
        return given.arrange("margins", _check_margins(given.inputs["margins"].data), 1)
    return None if computed is None else given.arrange(source, computed, 1)


def _read_probabilities(given: Joined) -> npt.NDArray[Any] | None:
    """The probabilities (n, C) in the order of the pool; a row without any is sure of the first class."""
    if "probabilities" in given:
        values = given.inputs["probabilities"].data.array()
    elif "logits" in given:
        values = scores.softmax(given.inputs["logits"].data).array()
    else:
        return None
    sure = np.zeros(values.shape[1], values.dtype)
    sure[0] = 1
    return given.arrange("logits" if "logits" in given else "probabilities", values, sure)


def _check_margins(given: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Margins as contiguous float32, checked to be finite and >= 0, without negative zeros (their bits rank last)."""
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
    """The embeddings, checked to be finite in float32, which strategies work in."""
    array = matrix.array()
    step = max(1, checks.CHECK_BYTES // max(1, matrix.width * matrix.dtype.itemsize))

    def check(start: int) -> None:
        with np.errstate(over="ignore"):
            checks.finite(array[start : start + step].astype(np.float32, copy=False), "embeddings", first_row=start)

    with team(products=False) as threads:  # errors come in row order, whichever thread is first
        threads.map(check, range(0, matrix.n, step))
    return array


# Results.


def check_drawn(
    picked: Any, view: View, k: int, name: str, *, kind: str = "row"
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64] | None]:
    """What a strategy returned as (rows, their weights if it has any), checked."""
    if not isinstance(picked, Drawn):
        return check_picked(picked, view, k, name, kind=kind), None
    rows = check_picked(picked.rows, view, k, name, kind=kind)
    weights = np.asarray(picked.weights, np.float64)
    if weights.shape != rows.shape or not (np.isfinite(weights) & (weights > 0)).all():
        raise InputError(f"what strategy {name!r} returned needs one weight above 0 for each of its {k:,} {kind}s")
    return rows, weights


def check_picked(rows: Any, view: View, k: int, name: str, *, kind: str = "row") -> npt.NDArray[np.int64]:
    """What a strategy returned, checked to be k distinct unlabeled rows. kind: what messages call one of them."""
    title = f"what strategy {name!r} returned"
    picked = checks.rows(rows, view.n, title, kind=kind)
    if len(picked) != k:
        raise InputError(f"{title} has {len(picked):,} {kind}s, but {k:,} were asked for")
    if view.labeled is not None and view.labeled[picked].any():
        row = picked[view.labeled[picked].argmax()]
        raise InputError(f"{title} holds {kind} {row}, which is labeled: view.labeled marks the labeled ones")
    picked.flags.writeable = False
    return picked
