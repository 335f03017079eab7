"""Which questions (row, class) of a multi-label pool to ask next: `select_pairs` (paper, section 3.2).

One does not label an example of such a pool, one asks whether a class is in it. The strategies are those of `select`,
each as the paper turns it to pairs: `margin`, `stochastic-margin` and `random` see the questions as a pool of their
own, `badge` too, with two classes a question; `cluster-margin` and `coreset` pick rows and then draw their questions;
`cluster-margin-pairs` is ours. Answers, training and metrics are not here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks, pool, scores
from hedgerow.batches import PairBatch
from hedgerow.errors import InputError, PoolExhaustedError
from hedgerow.kernels import freeze
from hedgerow.kernels.pairs import lower_rows
from hedgerow.pairs.cluster_margin import ClusterMarginPairs
from hedgerow.pairs.pairs import STEP, Pairs
from hedgerow.pairs.two_steps import ask_of_rows
from hedgerow.pairs.view import PairView
from hedgerow.strategies import (
    Badge,
    ClusterMargin,
    CoreSet,
    Margin,
    Random,
    StochasticMargin,
    check_picked,
    read_embeddings,
    resolve,
)
from hedgerow.strategies.view import NO_MASK

__all__ = ["PAIR_STRATEGIES", "ClusterMarginPairs", "PairView", "Pairs", "select_pairs"]

PAIR_STRATEGIES: dict[str, type[Any]] = {
    "cluster-margin": ClusterMargin,
    "cluster-margin-pairs": ClusterMarginPairs,
    "margin": Margin,
    "stochastic-margin": StochasticMargin,
    "badge": Badge,
    "coreset": CoreSet,
    "random": Random,
}
TWO_STEPS = (ClusterMargin, CoreSet)
OVER_PAIRS = (Margin, StochasticMargin, Badge, Random)  # they see the questions as a pool of rows
GIVEN_AS = {
    "margins": "pass probabilities=...",
    "row_margins": "pass probabilities=...",
    "probabilities": "pass probabilities=...",
    "embeddings": "pass embeddings=..., a row each",
    "clusters": "pass clusters=..., a row each, as hedgerow.cluster makes them",
}
STREAM = 0x9A125  # sets these random numbers apart from what others draw from the same seed


def select_pairs(
    strategy: Any,
    k: int,
    *,
    pairs: Pairs,
    probabilities: Any = None,
    embeddings: Any = None,
    clusters: Any = None,
    labeled: Any = None,
    seed: int = 0,
    allow_short: bool = False,
) -> PairBatch:
    """The k unlabeled pairs (row, class) that `strategy` would have asked next.

    strategy: a name out of `PAIR_STRATEGIES`, an instance such as `ClusterMarginPairs(power=1)` or `CoreSet(20)`, or a
    callable of your own, strategy(view: PairView, k, rng) -> places in `pairs`. probabilities: (m,) that a pair's
    answer is yes, or (n, C) that row i has class c, independent of each other. embeddings (n, d) and clusters (n,) are
    the rows'. Arrays, tables or paths; only what the strategy needs is read. labeled: a bool mask (m,) over the pairs,
    or places. allow_short: take what is there when fewer than k are unlabeled, or within the strategy's limits. Time
    and memory: see the strategy; 4 bytes a pair for the margins, 4 more where probabilities are (n, C).
    """
    name, chosen = resolve(strategy, PAIR_STRATEGIES)
    if not isinstance(pairs, Pairs):
        raise InputError(f"pairs must be hedgerow.Pairs(rows, classes), got {type(pairs).__name__}")
    k = checks.integer(k, "k")
    seed = checks.seed(seed)
    given = _open({"probabilities": probabilities, "embeddings": embeddings, "clusters": clusters})
    n = _count_rows(pairs, given)
    wanted = _check_needs(name, chosen, given)
    mask = checks.labeled_mask(labeled, len(pairs), kind="pair")
    available = len(pairs) if mask is None else len(pairs) - int(np.count_nonzero(mask))
    if k > available and not allow_short:
        raise PoolExhaustedError(k, available, "questions")
    view = _look(pairs, n, given, mask, wanted)
    k = min(k, available)
    picked = _pick(chosen, view, k, np.random.default_rng([STREAM, seed])) if k else np.zeros(0, np.int64)
    if isinstance(chosen, ClusterMarginPairs) and len(picked) < k:
        k = _accept_short(len(picked), k, allow_short)
    index = check_picked(picked, view.flat, k, name, kind="pair")
    return PairBatch(_freeze(pairs.rows[index]), _freeze(pairs.classes[index]), index, name, seed)


def _pick(chosen: Callable[..., Any], view: PairView, k: int, rng: np.random.Generator) -> Any:
    if isinstance(chosen, TWO_STEPS):
        return ask_of_rows(chosen, view, k, rng)
    return chosen(view.flat if isinstance(chosen, OVER_PAIRS) else view, k, rng)


def _accept_short(found: int, k: int, allow_short: bool) -> int:
    if not allow_short:
        raise InputError(
            f"{k:,} questions were asked for, but the walk found {found:,} within per_row and class_quota: loosen "
            "them, try another seed, or pass allow_short=True (--allow-short) to take what is there"
        )
    return found


def _freeze(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    values.flags.writeable = False
    return values


# What goes in.


def _open(sources: dict[str, Any]) -> dict[str, Any]:
    """What is given, opened: matrices not yet read, vectors as arrays. Probabilities may be either."""
    opened: dict[str, Any] = {}
    for key, source in sources.items():
        if source is None:
            continue
        if key == "clusters":
            opened[key] = pool.as_vector(getattr(source, "labels", source), key)
        elif key == "probabilities" and _is_a_pair_each(source):
            opened[key] = checks.vector(pool.as_vector(source, "pair probabilities"), key)
        else:
            opened[key] = pool.open_matrix(source, key)
    return opened


def _is_a_pair_each(source: Any) -> bool:
    return not isinstance(source, pool.Matrix) and pool.holds_vector(source, "pair probabilities")


def _count_rows(pairs: Pairs, given: dict[str, Any]) -> int:
    """The pool's size: that of what is given a row each, or as many rows as the pairs speak of."""
    chances = given.get("probabilities")
    matrices = {key: one.n for key, one in given.items() if isinstance(one, pool.Matrix)}
    lengths = matrices | ({"clusters": len(given["clusters"])} if "clusters" in given else {})
    if isinstance(chances, np.ndarray) and len(chances) != len(pairs):
        raise InputError(
            f"probabilities has {len(chances):,} numbers, but there are {len(pairs):,} pairs: "
            "pass one a pair, or a matrix (rows, classes)"
        )
    n = checks.same_length(lengths) if lengths else pairs.row_count
    pairs.refuse_outside(n, chances.width if isinstance(chances, pool.Matrix) else None)
    return n


def _check_needs(name: str, chosen: Any, given: dict[str, Any]) -> frozenset[str]:
    """What the view is to hold: what the strategy declares, found to be given, or all of it if it declares nothing."""
    derived = {"margins", "row_margins"} if "probabilities" in given else set()
    known = frozenset(given.keys() | derived)
    declared = getattr(chosen, "needs", None)
    if declared is None:
        return known
    needs = frozenset(declared)
    if isinstance(chosen, ClusterMargin):
        needs = needs - {"margins"} | {"row_margins"}
    for need in sorted(needs - known):
        raise InputError(f"strategy {name!r} needs {need}: {GIVEN_AS.get(need, 'known: ' + ', '.join(GIVEN_AS))}")
    return needs


def _look(
    pairs: Pairs, n: int, given: dict[str, Any], mask: npt.NDArray[np.bool_] | None, wanted: frozenset[str]
) -> PairView:
    """The view of what is given, checked; matrices are read only where they are wanted."""
    chances = given.get("probabilities")
    is_matrix = isinstance(chances, pool.Matrix)
    from_pairs = "row_margins" in wanted and not is_matrix  # a row's margin is then its questions' lowest
    a_pair_each = margins = row_margins = None
    if from_pairs or wanted & {"margins", "probabilities"}:
        a_pair_each = _read_chances(chances, pairs)
        margins = measure_margins(a_pair_each) if from_pairs or "margins" in wanted else None
    if from_pairs:
        row_margins = np.ones(n, np.float32)
        lower_rows(freeze(pairs.rows), NO_MASK if mask is None else freeze(mask), freeze(margins), row_margins)
    elif "row_margins" in wanted:
        row_margins = scores.independent_margins(chances)
    return PairView(
        pairs,
        n,
        mask,
        margins,
        a_pair_each,
        row_margins,
        read_embeddings(given["embeddings"]) if "embeddings" in wanted else None,
        checks.cluster_labels(given["clusters"], n) if "clusters" in given else None,
    )


def _read_chances(given: Any, pairs: Pairs) -> npt.NDArray[Any]:
    """The probability that each pair's answer is yes (m,), found to be one; float32 unless given in float64."""
    if isinstance(given, pool.Matrix):
        matrix = given.array()
        given = np.empty(len(pairs), matrix.dtype)
        for start in range(0, len(pairs), STEP):
            some = slice(start, start + STEP)
            given[some] = matrix[pairs.rows[some], pairs.classes[some]]
    chances: npt.NDArray[Any] = np.ascontiguousarray(given, np.float64 if given.dtype == np.float64 else np.float32)
    if len(chances) and not (chances.min() >= 0 and chances.max() <= 1):  # a NaN fails both
        at = int(np.argmin((chances >= 0) & (chances <= 1)))
        told = f"probabilities of pair {at} (row {pairs.rows[at]}, class {pairs.classes[at]})"
        scores.refuse_beyond_one(chances[at : at + 1], told)
    return chances


def measure_margins(chances: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """abs(2 p - 1), float32 (m,): what the two answers to a question differ by."""
    margins = np.empty(len(chances), np.float32)
    for start in range(0, len(chances), STEP):
        margins[start : start + STEP] = np.abs(2 * chances[start : start + STEP] - 1)
    return margins
