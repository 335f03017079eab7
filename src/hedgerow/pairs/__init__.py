"""Which (row, class) pairs of a multi-label pool to ask about next: `select_pairs` (paper, section 3.2).

In such a pool one does not label an example but answers whether it has a class. The strategies are those of `select`,
adapted to pairs as in the paper: `margin`, `stochastic-margin` and `random` treat the pairs as a pool of their own,
`badge` too, with two classes per pair; `cluster-margin` and `coreset` pick rows and then draw their pairs;
`cluster-margin-pairs` and `hedge` are ours, and so are the controls (`controls.py`). Answers, training and metrics are
not here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks, pool, scores
from hedgerow.batches import PairBatch
from hedgerow.errors import InputError
from hedgerow.pairs import row_margins
from hedgerow.pairs.cluster_margin import ClusterMarginPairs
from hedgerow.pairs.controls import (
    InformedClusterMargin,
    InformedRandom,
    ShuffledClusterMarginPairs,
    UniformCandidatePairs,
)
from hedgerow.pairs.files import Columns, NamedPairs, names_pairs, read_pairs
from hedgerow.pairs.hedge import hedge_pairs
from hedgerow.pairs.pairs import STEP, Pairs
from hedgerow.pairs.two_steps import pick_by_rows
from hedgerow.pairs.view import PairView
from hedgerow.pool.tables import Table, refuse_column
from hedgerow.progress import Progress, watch
from hedgerow.strategies import (
    Badge,
    ClusterMargin,
    CoreSet,
    Hedge,
    Margin,
    Random,
    ShuffledClusterMargin,
    ShuffledHedge,
    StochasticMargin,
    UniformCandidates,
    check_drawn,
    describe_options,
    inputs,
    read_embeddings,
    resolve,
)
from hedgerow.strategies.inputs import ABSENT, Closed, Joined

__all__ = [
    "PAIR_STRATEGIES",
    "ClusterMarginPairs",
    "InformedClusterMargin",
    "InformedRandom",
    "PairView",
    "Pairs",
    "ShuffledClusterMarginPairs",
    "UniformCandidatePairs",
    "select_pairs",
]

PAIR_STRATEGIES: dict[str, type[Any]] = {
    "cluster-margin": ClusterMargin,
    "cluster-margin-pairs": ClusterMarginPairs,
    "margin": Margin,
    "stochastic-margin": StochasticMargin,
    "hedge": Hedge,
    "badge": Badge,
    "coreset": CoreSet,
    "random": Random,
    "cluster-margin-shuffled": ShuffledClusterMargin,
    "uniform-candidates": UniformCandidates,
    "cluster-margin-pairs-shuffled": ShuffledClusterMarginPairs,
    "uniform-candidate-pairs": UniformCandidatePairs,
    "cluster-margin-informed": InformedClusterMargin,
    "random-informed": InformedRandom,
    "hedge-shuffled": ShuffledHedge,
}
TWO_STEPS = (ClusterMargin, CoreSet)  # the first two controls as well, which are kinds of ClusterMargin
OVER_PAIRS = (Margin, StochasticMargin, Badge, Random)  # they treat the pairs as a pool of rows
GIVEN_AS = {
    "margins": "pass probabilities=...",
    "row_margins": "pass probabilities=...",
    "probabilities": "pass probabilities=...",
    "embeddings": "pass embeddings=... (--embeddings FILE), one per row",
    "clusters": "pass clusters=... (--clusters FILE), one per row, as hedgerow.cluster makes them",
}
STREAM = 0x9A125  # sets these random numbers apart from what others draw from the same seed
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Given:
    """The inputs, opened and joined. chances: one probability per pair, or None where they are a matrix or absent."""

    named: NamedPairs
    joined: Joined
    chances: npt.NDArray[Any] | None
    absent: Mask | None  # the pairs without predictions
    ignored: int

    @property
    def pairs(self) -> Pairs:
        """The pairs by their numbers."""
        return self.named.pairs


def select_pairs(
    strategy: Any,
    k: int,
    *,
    pairs: Any,
    probabilities: Any = None,
    embeddings: Any = None,
    clusters: Any = None,
    labeled: Any = None,
    seed: int = 0,
    allow_short: bool = False,
    ignore_unknown: bool = False,
    column: str | None = None,
    id_column: str | None = None,
    class_column: str | None = None,
    progress: Progress | bool | None = None,
) -> PairBatch:
    """The k unlabeled pairs (row, class) to answer next, chosen by `strategy`.

    strategy: a name out of `PAIR_STRATEGIES`, an instance such as `ClusterMarginPairs(power=1)` or `CoreSet(20)`, or a
    callable of your own, strategy(view: PairView, k, rng) -> positions in `pairs`.

    pairs: `Pairs(rows, classes)`, or a table or file with a column of ids or rows and one of classes (numbers or
    names). probabilities: (m,) that the answer of a pair is yes, or (n, C) that row i has class c, independent of each
    other. Both forms of the same probabilities give the same batch; only `row_margin="top2-all"` needs the second.
    embeddings (n, d) and clusters (n,): one per row. Arrays, tables or paths; only what the strategy needs is read.

    Inputs per row are joined by id as in `select`; probabilities (m,) in a table that has the columns of the pairs are
    joined by pair. Pairs without predictions are not candidates, and `batch.settings["without_predictions"]` counts
    those of them that are not labeled. column, id_column, class_column: the columns of the probabilities, ids and
    classes, where the names do not say so.

    labeled: a bool mask (m,) over the pairs, positions, or the path of a file that lists pairs (.parquet, .csv, .jsonl)
    or positions (.npy), or a list of such paths. ignore_unknown: leave out ids and pairs that are not in the pool,
    instead of an error. allow_short: take what is there when fewer than k are unlabeled, or within the strategy's
    limits. progress: True shows a progress bar; or a callable progress(phase, share).

    Time and memory: see the strategy; 4 bytes per pair for the margins, 4 more where probabilities are (n, C).
    """
    name, chosen = resolve(strategy, PAIR_STRATEGIES)
    k, seed = checks.integer(k, "k"), checks.seed(seed)
    sources = {"pairs": pairs, "probabilities": probabilities, "embeddings": embeddings, "clusters": clusters}
    with watch(progress) as report:
        report("reading", 0.0)
        given = open_sources(sources, column, Columns(id_column, class_column), ignore_unknown)
        wanted = _check_needs(name, chosen, given)
        closed = close_pairs(given, labeled, ignore_unknown)
        if not allow_short:
            closed.require(k)
        view = look(given, closed, wanted, getattr(chosen, "row_margin", None) or row_margins.DEFAULT)
        report("selecting", 0.5)
        index, weights = pick(name, chosen, view, min(k, closed.available), seed, allow_short)
    settings = {"options": describe_options(chosen), "k": k, "n": len(given.pairs)}
    settings |= closed.describe()
    settings["inputs"] = inputs.describe_inputs({**sources, "labeled": labeled})
    rows = given.pairs.rows[index]
    classes = given.named.name_classes(given.pairs.classes[index])
    return PairBatch(
        rows, classes, index, name, seed, given.named.take_ids(rows), _take_margins(given, view, index),
        given.joined.take_clusters(rows, view.clusters), settings, weights,
    )  # fmt: skip


def pick(
    name: str, chosen: Callable[..., Any], view: PairView, k: int, seed: int, allow_short: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64] | None]:
    """What the strategy picks, checked, and the weights if it has any."""
    rng = np.random.default_rng([STREAM, seed])
    if k == 0:
        picked: Any = np.zeros(0, np.int64)
    elif isinstance(chosen, TWO_STEPS):
        picked = pick_by_rows(chosen, view, k, rng)
    elif isinstance(chosen, Hedge):
        picked = hedge_pairs(chosen, view, k, rng)
    else:
        picked = chosen(view.flat if isinstance(chosen, OVER_PAIRS) else view, k, rng)
    if isinstance(chosen, ClusterMarginPairs) and len(picked) < k:
        if not allow_short:
            raise InputError(
                f"{k:,} pairs were asked for, but only {len(picked):,} were found within per_row and class_quota: "
                "loosen them, try another seed, or pass allow_short=True (--allow-short) to take what is there"
            )
        k = len(picked)
    return check_drawn(picked, view.flat, k, name, kind="pair")


def _take_margins(given: Given, view: PairView, index: npt.NDArray[np.int64]) -> npt.NDArray[np.float32] | None:
    """The margins of the picks, where the probabilities were read."""
    if view.margins is not None:
        return view.margins[index]
    chances = view.probabilities if view.probabilities is not None else given.chances
    return None if chances is None else measure_margins(chances[index])


# Inputs.


def open_sources(sources: dict[str, Any], column: str | None, columns: Columns, ignore_unknown: bool) -> Given:
    """The pairs and everything that is known about them and their rows; matrices are not read."""
    pairs, probabilities = sources["pairs"], sources["probabilities"]
    is_matrix = probabilities is not None and not _has_one_per_pair(probabilities, column)
    per_row = {name: sources[name] for name in ("embeddings", "clusters")}
    per_row["probabilities"] = probabilities if is_matrix else None
    joined = _join_rows(per_row, column, columns.ids, [pairs, None if is_matrix else probabilities], ignore_unknown)
    if isinstance(pairs, Pairs):
        named = NamedPairs(pairs, columns, joined.ids)
    else:
        opened = _open_pairs(pairs)
        named = read_pairs(
            opened, joined.ids, columns, rows_known=bool(joined.inputs), classes_known=is_matrix,
            title=inputs.name_source("pairs", pairs),
        )  # fmt: skip
    chances, absent, unknown = None, None, 0
    if probabilities is not None and not is_matrix:
        chances, absent, unknown = _read_vector(probabilities, column, named, ignore_unknown)
    matrix = joined.inputs["probabilities"].data if is_matrix else None
    n = joined.n if joined.inputs else named.pairs.row_count
    named.pairs.refuse_outside(n, None if matrix is None else matrix.width)
    without = joined.find_absent()
    if without is not None:
        absent = without[named.pairs.rows]
    return Given(named, Joined(n, joined.ids, joined.inputs, joined.rows), chances, absent, joined.unknown + unknown)


def _open_pairs(source: Any) -> Any:
    if isinstance(source, (tuple, np.ndarray)):
        raise InputError(f"pairs must be hedgerow.Pairs(rows, classes), a table or a path, got {type(source).__name__}")
    return inputs.open_rows(source, "pairs")


def _has_one_per_pair(source: Any, column: str | None) -> bool:
    return not isinstance(source, pool.Matrix) and pool.holds_vector(source, "pair probabilities", column=column)


def _join_rows(
    per_row: dict[str, Any], column: str | None, id_column: str | None, others: list[Any], ignore_unknown: bool
) -> Joined:
    """The inputs with one entry per row, joined. others: inputs per pair, which may have the id column too."""
    if id_column is not None:
        sources = {name: source for name, source in per_row.items() if source is not None}
        sources |= {f"#{at}": one for at, one in enumerate(others) if one is not None and not isinstance(one, Pairs)}
        opened = {name: inputs.open_rows(source, name) for name, source in sources.items()}
        inputs.require_column(id_column, sources, opened)
        tables = [opened[name] for name in per_row if name in opened and isinstance(opened[name], Table)]
        id_column = id_column if any(id_column in table.types for table in tables) else None
    least = {"probabilities": 1, "embeddings": 1}
    found = inputs.open_inputs(per_row, column=column, id_column=id_column, least_columns=least)
    return inputs.join(found, ignore_unknown=ignore_unknown) if found else Joined(0, None, {}, {})


def _read_vector(
    source: Any, column: str | None, named: NamedPairs, ignore_unknown: bool
) -> tuple[npt.NDArray[Any], Mask | None, int]:
    """(one probability per pair, the pairs without one, how many were for other pairs)."""
    title = inputs.name_source("probabilities", source)
    opened = inputs.open_rows(source, "pair probabilities")
    if not isinstance(opened, Table):
        refuse_column(column, "probabilities", source)
    values = checks.vector(pool.as_vector(opened, "pair probabilities", column=column), "probabilities")
    if names_pairs(opened, named.columns):
        return named.arrange(opened, values, title, ignore_unknown)
    if len(values) != len(named.pairs):
        raise InputError(
            f"{title} has {len(values):,} numbers, but there are {len(named.pairs):,} pairs: "
            "pass one per pair, or a matrix (rows, classes)"
        )
    return values, None, 0


def close_pairs(given: Given, labeled: Any, ignore_unknown: bool) -> Closed:
    """The pairs that may not be picked. labeled: as `select_pairs` takes it."""
    mask, ignored = _find_labeled(labeled, given.named, ignore_unknown)
    absent = inputs.drop_labeled(given.absent, mask)
    return Closed(len(given.pairs), mask, absent, ignored + given.ignored, "pairs")


def _find_labeled(labeled: Any, named: NamedPairs, ignore_unknown: bool) -> tuple[Mask | None, int]:
    """(the labeled pairs as a mask, or None; how many were ignored)."""
    paths = inputs.list_paths(labeled)
    if paths is None:
        return checks.labeled_mask(labeled, len(named.pairs), kind="pair"), 0
    mask, ignored = np.zeros(len(named.pairs), np.bool_), 0
    for path in paths:
        found, unknown = named.find(path, "labeled", ignore_unknown=ignore_unknown)
        mask[found] = True
        ignored += unknown
    return mask, ignored


def _check_needs(name: str, chosen: Any, given: Given) -> frozenset[str]:
    """What the view is to hold: what the strategy declares, or all that is given if it declares nothing."""
    known = set(given.joined.inputs)
    if given.chances is not None or "probabilities" in known:
        known |= {"probabilities", "margins", "row_margins"}
    declared = getattr(chosen, "needs", None)
    if declared is None:
        return frozenset(known)
    needs = frozenset(declared)
    if isinstance(chosen, ClusterMargin):
        needs = needs - {"margins"} | {"row_margins"}
    elif isinstance(chosen, Hedge):
        needs = needs | {"probabilities"}
    for need in sorted(needs - known):
        raise InputError(f"strategy {name!r} needs {need}: {GIVEN_AS.get(need, 'known: ' + ', '.join(GIVEN_AS))}")
    return needs


def look(given: Given, closed: Closed, wanted: frozenset[str], row_margin: str = row_margins.DEFAULT) -> PairView:
    """The view of what is given, checked; matrices are read only where they are wanted."""
    joined, pairs = given.joined, given.pairs
    chances = margins = of_rows = None
    by_pairs = row_margin if "row_margins" in wanted and row_margin != row_margins.OVER_ALL else None
    if by_pairs or wanted & {"margins", "probabilities"}:
        matrix = _find_matrix(joined)
        chances = _check_chances(given.chances if matrix is None else _gather(matrix.array(), given), pairs)
        margins = measure_margins(chances) if by_pairs in ("lowest", "mean") or "margins" in wanted else None
    if "row_margins" in wanted:
        of_rows = _measure_rows(given, closed.mask, margins, chances, row_margin)
    clusters = joined.inputs["clusters"].data if "clusters" in joined else None
    if clusters is not None:
        clusters = joined.arrange("clusters", checks.cluster_labels(clusters, len(clusters)), 0)
    embeddings = joined.inputs["embeddings"].data if "embeddings" in wanted & joined.inputs.keys() else None
    return PairView(
        pairs, joined.n, closed.mask, margins, chances, of_rows,
        None if embeddings is None else read_embeddings(embeddings), clusters, closed.absent, given.absent,
    )  # fmt: skip


def _find_matrix(joined: Joined) -> pool.Matrix | None:
    """The probabilities, if they are a matrix (rows, classes)."""
    return joined.inputs["probabilities"].data if "probabilities" in joined else None


def _measure_rows(given: Given, closed: Mask | None, margins: Any, chances: Any, row_margin: str) -> Any:
    """The margin of every row by one of the definitions in `row_margins.py`, float32 (n,)."""
    rows, n = given.pairs.rows, given.joined.n
    match row_margin:
        case "lowest":
            return row_margins.find_lowest(rows, closed, margins, n)
        case "mean":
            return row_margins.average(rows, closed, margins, n)
        case "top2":
            return row_margins.find_gaps(rows, given.absent, chances, n)
    return given.joined.arrange("probabilities", row_margins.find_gaps_of_all(_find_matrix(given.joined)), 1)


def _gather(matrix: npt.NDArray[Any], given: Given) -> npt.NDArray[Any]:
    """The entries of a matrix (rows, classes) for the pairs; 0 for pairs of rows that it lacks."""
    lookup, pairs = given.joined.rows["probabilities"], given.pairs
    chances = np.empty(len(pairs), matrix.dtype)
    for start in range(0, len(pairs), STEP):
        some = slice(start, start + STEP)
        rows = pairs.rows[some] if lookup is None else lookup[pairs.rows[some]]
        chances[some] = matrix[rows, pairs.classes[some]]
        if lookup is not None:
            chances[some][rows == ABSENT] = 0
    return chances


def _check_chances(given: Any, pairs: Pairs) -> npt.NDArray[Any]:
    """Probabilities (m,), each checked to be 0 to 1; float32 unless given in float64."""
    chances: npt.NDArray[Any] = np.ascontiguousarray(given, np.float64 if given.dtype == np.float64 else np.float32)
    if len(chances) and not (chances.min() >= 0 and chances.max() <= 1):  # a NaN fails both
        at = int(np.argmin((chances >= 0) & (chances <= 1)))
        title = f"probabilities of pair {at} (row {pairs.rows[at]}, class {pairs.classes[at]})"
        scores.refuse_beyond_one(chances[at : at + 1], title)
    return chances


def measure_margins(chances: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """abs(2 p - 1), float32 (m,): the difference between the probabilities of the two answers."""
    margins = np.empty(len(chances), np.float32)
    for start in range(0, len(chances), STEP):
        margins[start : start + STEP] = np.abs(2 * chances[start : start + STEP] - 1)
    return margins
