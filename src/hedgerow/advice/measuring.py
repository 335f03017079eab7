"""Measures a pool before labels are bought: batches are selected as `select` would, and looked at.

The batches are those that `select` and `select_pairs` return for the same inputs and seed. Everything takes a few
passes over the pool's margins and clusters. Of the predictions, after a first pass for the margins, only picked and
labeled rows are read, and of the embeddings only picked rows; those of a table are read whole.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import pairs, pool, scores, strategies
from hedgerow.advice import copies
from hedgerow.advice.labels import Known, calibrate, count_classes, find_answers, find_labels, read_holdout
from hedgerow.advice.records import FACTORS, Calibration, Measurements, SimulatedBatch
from hedgerow.clustering import hac
from hedgerow.clustering.clusters import METADATA_KEY
from hedgerow.errors import InputError
from hedgerow.pairs.files import Columns
from hedgerow.progress import Progress
from hedgerow.strategies import inputs
from hedgerow.strategies.inputs import ABSENT, Closed, Joined
from hedgerow.strategies.ranking import MOST_MARGIN

Rows = npt.NDArray[np.int64]

NEEDS = frozenset({"margins", "clusters"})
STREAM = 0xAD715E  # sets the random numbers of the measurements apart from those of the batches
SUMS_TO_ONE = 0.01  # as near as float16 gets with a thousand classes
SORTED_PAIRS = 1 << 21  # about as many pairs are grouped by cluster and class: half a second
DEFAULT_METRIC = "cosine"


@dataclass(frozen=True)
class Question:
    """What `advise` was asked: the inputs by name, as they were given, and how to read them.

    metric: of distances; None for that of the clusters.
    """

    k: int
    sources: Mapping[str, Any]
    labeled: Any = None
    labels: Any = None
    holdout: Any = None
    classes: int | None = None
    metric: str | None = None
    seed: int = 0
    ignore_unknown: bool = False
    columns: Mapping[str, str | None] = field(default_factory=dict)  # predictions, ids, classes, labels

    def column(self, name: str) -> str | None:
        """The column of an input, where its name does not say so."""
        return self.columns.get(name)


@dataclass(frozen=True, eq=False)
class Pool:
    """A pool as the measurements see it. Positions are rows or, if `asked` is given, positions in these pairs.

    pick: the name of a strategy and the strategy -> the positions that it picks. margins: of all positions. clusters,
    embeddings: of the rows, if they are given.
    """

    closed: Closed
    pick: Callable[[str, Any], Rows]
    margins: npt.NDArray[np.float32]
    clusters: npt.NDArray[np.int32] | None
    embeddings: pool.Matrix | None
    asked: pairs.Pairs | None = None

    def rows(self, positions: Rows) -> Rows:
        """The rows of positions."""
        return positions if self.asked is None else self.asked.rows[positions]

    def classes(self, positions: Rows) -> npt.NDArray[Any] | None:
        """The classes of positions; None for rows."""
        return None if self.asked is None else self.asked.classes[positions]


def measure(question: Question, report: Progress) -> Measurements:
    """Everything that the inputs allow to measure."""
    report("reading", 0.0)
    return measure_rows(question, report) if question.sources.get("pairs") is None else measure_pairs(question, report)


def measure_rows(question: Question, report: Progress) -> Measurements:
    """The measurements of a pool of rows."""
    sources = {name: question.sources.get(name) for name in inputs.ORDER}
    joined = strategies.open_sources(
        sources, NEEDS, question.column("predictions"), question.column("ids"), None, question.ignore_unknown
    )
    matrix, name = _find_matrix(joined)
    if name is None:
        raise InputError("predictions are missing: pass probabilities=..., logits=... or margins=...")
    labeled = inputs.open_labeled(question.labeled)
    closed = strategies.close_rows(joined, labeled, question.column("ids"), question.ignore_unknown)
    closed.require(question.k, may_be_short=False)
    known = find_labels(
        labeled, question.labels, joined.n, joined.ids, column=_find_label_column(question),
        id_column=question.column("ids"),
    )  # fmt: skip
    classes = count_classes(known, None if matrix is None else matrix.width, question.classes)
    report("scoring", 0.1)
    view = strategies.look(joined, closed, NEEDS)

    def pick(_: str, strategy: Any) -> Rows:
        picked = strategy(view, question.k, np.random.default_rng([strategies.STREAM, question.seed]))
        return np.asarray(picked, np.int64)

    assert view.margins is not None
    seen = Pool(closed, pick, view.margins, view.clusters, _find_embeddings(joined))
    facts = _measure_pool(seen, question, classes, known if _is_complete(known, closed) else None, report)
    facts["calibration"] = _calibrate_rows(question, joined, known, classes)
    if matrix is not None:
        facts |= _measure_classes(matrix, _look_up(joined, name, pick("margin", strategies.Margin())))
    return Measurements(**facts)


def measure_pairs(question: Question, report: Progress) -> Measurements:
    """The measurements of a pool of pairs."""
    sources = {name: question.sources.get(name) for name in ("pairs", "probabilities", "embeddings", "clusters")}
    if sources["probabilities"] is None:
        sources["probabilities"] = question.sources.get("predictions")
    for name in ("logits", "margins"):
        if question.sources.get(name) is not None:
            raise InputError(f"{name} cannot be used with pairs: give probabilities, as from a sigmoid")
    if sources["probabilities"] is None:
        raise InputError("predictions are missing: pass probabilities=..., one per pair or per row and class")
    columns = Columns(question.column("ids"), question.column("classes"))
    given = pairs.open_sources(sources, question.column("predictions"), columns, question.ignore_unknown)
    closed = pairs.close_pairs(given, question.labeled, question.ignore_unknown)
    closed.require(question.k, may_be_short=False)
    known = find_answers(
        question.labeled, question.labels, given.named, column=_find_label_column(question),
        ignore_unknown=question.ignore_unknown,
    )  # fmt: skip
    report("scoring", 0.1)
    wanted = {"margins", "probabilities", *({"clusters"} & given.joined.inputs.keys())}
    view = pairs.look(given, closed, frozenset(wanted))
    matrix = given.joined.inputs["probabilities"].data if "probabilities" in given.joined else None
    classes = _count_pair_classes(question.classes, matrix, given.pairs)

    def pick(name: str, strategy: Any) -> Rows:
        return pairs.pick(name, strategy, view, question.k, question.seed, False)[0]

    assert view.margins is not None
    assert view.probabilities is not None
    seen = Pool(closed, pick, view.margins, view.clusters, _find_embeddings(given.joined), given.pairs)
    yes = None
    if known is not None and _is_complete(known, closed):
        positive = known.rows[known.numbers == 1]
        yes = Known(positive, given.pairs.classes[positive].astype(np.int64))
    facts = _measure_pool(seen, question, classes, yes, report)
    facts["calibration"] = _calibrate_pairs(question, known, view.probabilities, given.absent)
    picked = pick("margin", strategies.Margin())
    if matrix is not None:
        facts["exclusive"] = _measure_sums(matrix, _look_up(given.joined, "probabilities", given.pairs.rows[picked]))
    asked = np.bincount(given.pairs.classes[picked], minlength=classes)
    facts |= {"unasked_classes": int(np.count_nonzero(asked == 0)), "largest_class": float(asked.max() / question.k)}
    return Measurements(**facts)


def _count_pair_classes(asked: int | None, matrix: pool.Matrix | None, given: pairs.Pairs) -> int:
    """The columns of the probabilities, or as asked, or the classes of the pairs."""
    if matrix is not None:
        return count_classes(None, matrix.width, asked) or matrix.width
    if asked is not None and asked < given.class_count:
        raise InputError(f"classes is {asked}, but the pairs have {given.class_count} classes: leave it out")
    return asked or given.class_count


# What rows and pairs have in common.


def _is_complete(known: Known | None, closed: Closed) -> bool:
    """Whether the labels of all that is labeled are known: of a part of them, no class can be called rare."""
    return known is not None and len(known.rows) == closed.describe()["labeled"]


def _measure_pool(
    seen: Pool, question: Question, classes: int | None, known: Known | None, report: Progress
) -> dict[str, Any]:
    """The sizes, the labels per class and the simulated batches."""
    k, counts = question.k, seen.closed.describe()
    facts: dict[str, Any] = {"unit": "row" if seen.asked is None else "pair"}
    facts |= {"k": k, "n": seen.closed.size, "unlabeled": seen.closed.available}
    facts |= {"labeled": counts["labeled"], "without_predictions": counts["without_predictions"], "classes": classes}
    facts |= {"labeled_given": question.labeled is not None}
    facts |= {"batch_to_pool": k / seen.closed.available}
    if counts["labeled"]:
        facts |= {"batch_to_labels": k / counts["labeled"]}
    if question.labeled is not None and classes:
        facts |= {"labels_per_class": counts["labeled"] / classes}
    if known is not None and classes:
        per_class = known.count(classes)
        facts |= {"fewest_labels": int(per_class.min())}
        facts |= {"classes_without_labels": int(np.count_nonzero(per_class == 0))}
    return facts | _simulate(seen, question, report)


def _simulate(seen: Pool, question: Question, report: Progress) -> dict[str, Any]:
    """The batches, and what they would share by chance."""
    facts: dict[str, Any] = {}
    sizes, near = None, None
    rng = np.random.default_rng([STREAM, question.seed])
    if seen.clusters is not None:
        sizes = np.bincount(seen.clusters).astype(np.int64)
        n_clusters = int(np.count_nonzero(sizes))
        facts |= {"n_clusters": n_clusters, "average_size": len(seen.clusters) / n_clusters}
        facts |= {"agreement": _measure_agreement(seen, seen.clusters, sizes, rng)}
    if seen.embeddings is not None:
        distances, near = _measure_distances(seen, seen.embeddings, question, sizes, rng)
        facts |= distances
    batches = []
    planned = list(_list_strategies(seen))
    for done, (name, strategy) in enumerate(planned):
        report("simulating batches", 0.4 + 0.6 * done / len(planned))
        picked = seen.pick(name, strategy)
        batches.append(_describe_batch(seen, name, strategy, picked, sizes, near, rng))
        if name != "margin":
            continue
        facts |= {"tied": _measure_ties(seen, picked)}
        if sizes is not None:
            classes = seen.classes(picked)
            expected = copies.expect_groups(sizes, np.array([len(picked)]) if classes is None else np.bincount(classes))
            facts |= {"chance_sharing": expected.sharing, "chance_clusters_per_100": expected.groups_per_100}
    return facts | {"batches": tuple(batches)}


def _measure_distances(
    seen: Pool,
    embeddings: pool.Matrix,
    question: Question,
    sizes: npt.NDArray[np.int64] | None,
    rng: np.random.Generator,
) -> tuple[dict[str, Any], copies.Near | None]:
    """(the distances and their metric, what finds near-copies by them if there are clusters of two)."""
    known = question.metric or find_metric(question.sources.get("clusters"))
    metric, cut = known or DEFAULT_METRIC, None
    facts: dict[str, Any] = {"metric": metric, "metric_assumed": known is None}
    if seen.clusters is not None and sizes is not None:
        cut = copies.measure_cut(embeddings, metric, seen.clusters, sizes, rng)
    if cut is None:
        return facts | {"usual_distance": copies.measure_usual(embeddings, metric, rng)}, None
    compared = copies.count_compared(question.k, embeddings.width)
    facts |= {"close_distance": cut[0], "usual_distance": cut[1], "close_count": compared}
    return facts, copies.Near(embeddings, metric, cut[0])


def find_metric(clusters: Any) -> str | None:
    """The metric that clusters were made with; None if they do not say so."""
    metric = getattr(clusters, "metric", None)
    if isinstance(clusters, (str, os.PathLike)) and str(clusters).lower().endswith(".parquet"):
        stored = pool.read_metadata(str(clusters)).get(METADATA_KEY)
        try:
            metric = None if stored is None else json.loads(stored)["metric"]
        except (ValueError, KeyError, TypeError):
            metric = None
    return metric if isinstance(metric, str) and metric in hac.METRICS else None


def _measure_ties(seen: Pool, picked: Rows) -> float:
    """The share of the margin batch with its highest margin, if more has that margin than was picked."""
    margins = seen.margins[picked]
    last = margins.max()
    tied = seen.margins == last
    if seen.closed.mask is not None:
        tied &= ~seen.closed.mask
    inside = np.count_nonzero(margins == last)
    return float(inside / len(picked)) if np.count_nonzero(tied) > inside else 0.0


def _measure_agreement(
    seen: Pool, clusters: npt.NDArray[np.int32], sizes: npt.NDArray[np.int64], rng: np.random.Generator
) -> float | None:
    """How alike margins are within a cluster, over everything that may be picked; for pairs, within one class.

    Many pairs are grouped by a sort, so these are pairs of a random part of the clusters.
    """
    mask = seen.closed.mask
    if seen.asked is None:
        open_rows = slice(None) if mask is None else ~mask
        return copies.measure_agreement(seen.margins[open_rows], clusters[open_rows])
    kept = rng.random(len(sizes)) < SORTED_PAIRS / seen.closed.available
    wanted = kept[clusters][seen.asked.rows]
    if mask is not None:
        wanted &= ~mask
    places = np.flatnonzero(wanted)
    keys = clusters[seen.asked.rows[places]].astype(np.int64) * seen.asked.class_count + seen.asked.classes[places]
    return copies.measure_agreement(seen.margins[places], np.unique(keys, return_inverse=True)[1])


def _list_strategies(seen: Pool) -> Iterator[tuple[str, Any]]:
    """The strategies to simulate, by name; those with clusters are followed by their controls."""
    yield "margin", strategies.Margin()
    yield "random", strategies.Random()
    if seen.margins.max(initial=0) <= MOST_MARGIN:
        yield "stochastic-margin", strategies.StochasticMargin()
    if seen.clusters is None:
        return
    for factor in FACTORS:
        if seen.asked is None:
            yield "cluster-margin", strategies.ClusterMargin(factor)
            yield "cluster-margin-shuffled", strategies.ShuffledClusterMargin(factor)
        else:
            yield "cluster-margin-pairs", pairs.ClusterMarginPairs(factor)
            yield "cluster-margin-pairs-shuffled", pairs.ShuffledClusterMarginPairs(factor)


def _describe_batch(
    seen: Pool,
    name: str,
    strategy: Any,
    picked: Rows,
    sizes: npt.NDArray[np.int64] | None,
    near: copies.Near | None,
    rng: np.random.Generator,
) -> SimulatedBatch:
    factor = getattr(strategy, "margin_factor", None)
    candidates = None
    if factor is not None:
        wanted = strategies.ClusterMargin(factor).count_candidates(len(picked))
        candidates = min(wanted, seen.closed.available)
    if seen.clusters is None or sizes is None:
        return SimulatedBatch(name, factor, candidates)
    rows, classes = seen.rows(picked), seen.classes(picked)
    clusters = seen.clusters[rows]
    counts = copies.count_groups(clusters, classes)
    alone = float(np.count_nonzero(sizes[clusters] == 1) / len(rows))
    close = None if near is None else near.measure(rows, classes, rng)
    return SimulatedBatch(name, factor, candidates, counts.sharing, counts.groups_per_100, alone, close)


def _find_embeddings(joined: Joined) -> pool.Matrix | None:
    """The embeddings as something of which rows can be read: those of a table are read once, not for each batch."""
    if "embeddings" not in joined:
        return None
    return pool.open_matrix(joined.inputs["embeddings"].data.array(), "embeddings")


def _find_label_column(question: Question) -> str | None:
    """That of what is labeled; with a holdout table, the column may be in that one only."""
    return None if question.holdout is not None and question.labeled is None else question.column("labels")


# Classes and calibration.


def _find_matrix(joined: Joined) -> tuple[pool.Matrix | None, str | None]:
    """(the probabilities or logits, if they are given; what they are called, or "margins", or None)."""
    for name in ("probabilities", "logits"):
        if name in joined:
            return joined.inputs[name].data, name
    return None, "margins" if "margins" in joined else None


def _look_up(joined: Joined, name: str, rows: Rows) -> Rows:
    """For rows of the pool, the rows of an input."""
    lookup = joined.rows[name]
    return rows if lookup is None else lookup[rows]


def _measure_classes(matrix: pool.Matrix, rows: Rows) -> dict[str, Any]:
    """Which classes a batch is about: the two most likely ones of each row."""
    asked, first = np.zeros(matrix.width, np.bool_), np.zeros(matrix.width, np.int64)
    for _, block in matrix.gather(rows):
        asked[np.argpartition(block, -2, axis=1)[:, -2:]] = True
        first += np.bincount(block.argmax(axis=1), minlength=matrix.width)
    return {"unasked_classes": int(np.count_nonzero(~asked)), "largest_class": float(first.max() / len(rows))}


def _measure_sums(matrix: pool.Matrix, rows: Rows) -> float:
    """The share of the rows whose probabilities sum to 1."""
    summed = sum(np.count_nonzero(np.abs(block.sum(axis=1) - 1) < SUMS_TO_ONE) for _, block in matrix.gather(rows))
    return float(summed / len(rows))


def _calibrate_rows(question: Question, joined: Joined, known: Known | None, classes: int | None) -> Calibration | None:
    """On the holdout, or else on labeled rows that the predictions cover."""
    matrix, name = _find_matrix(joined)
    if question.holdout is not None:
        return read_holdout(
            question.holdout, logits=name == "logits", column=question.column("predictions"),
            label_column=question.column("labels"), classes=classes,
        )  # fmt: skip
    if matrix is None or name is None or known is None or known.names is not None:
        return None
    rows = _look_up(joined, name, known.rows)
    covered = rows != ABSENT
    taken = matrix.take(rows[covered])
    if name == "logits":
        taken = scores.softmax(taken).array()
    return calibrate(taken, known.numbers[covered], "labeled")


def _calibrate_pairs(
    question: Question, known: Known | None, chances: npt.NDArray[Any], absent: npt.NDArray[np.bool_] | None
) -> Calibration | None:
    """The same for answers: a pair has two classes, no and yes."""
    if question.holdout is not None:
        return read_holdout(
            question.holdout, logits=False, column=question.column("predictions"),
            label_column=question.column("labels"), classes=None, answers=True,
        )  # fmt: skip
    if known is None:
        return None
    covered = np.ones(len(known.rows), np.bool_) if absent is None else ~absent[known.rows]
    yes = chances[known.rows[covered]]
    return calibrate(np.column_stack([1 - yes, yes]), known.numbers[covered], "labeled")
