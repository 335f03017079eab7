"""The pool as people browse it: clusters with their labels, the rows of one, and the tasks of a batch a page at a time.

Numbers are read for all of it, ids and contents only for the rows that are shown. Labels of the holdout count for no
cluster: they measure what is concluded from the others, as in `spread`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow import checks
from hedgerow.campaign import tables, verdicts
from hedgerow.campaign.artifacts import Shelf
from hedgerow.campaign.database import Database
from hedgerow.campaign.filters import Filter, keep_tasks
from hedgerow.campaign.holdings import MULTI_LABEL, PAIRS, Holdings
from hedgerow.campaign.planning import require_batch
from hedgerow.campaign.predictions import find_model, load_predictions
from hedgerow.campaign.quality import find_leading
from hedgerow.campaign.results import Names, read_names
from hedgerow.campaign.spreading import read_marks
from hedgerow.campaign.tables import STATES
from hedgerow.campaign.verdicts import NO_VALUE, Numbers
from hedgerow.errors import CampaignError

ORDERS = ("size", "labeled", "purity", "margin")
MOST = 500  # rows of one page


@dataclass(frozen=True)
class Cluster:
    """A cluster. labeled: rows that people named a label for; purity: the share of these that the leading label has.

    margin: the mean of the newest model. None where something is not known; of pairs there is no leading label.
    """

    cluster: int
    size: int
    labeled: int
    label: str | None
    purity: float | None
    margin: float | None


@dataclass(frozen=True)
class Shown:
    """A row as people browse it. task and state: None outside of a batch. label: what people decided, if they did."""

    row: int
    id: int | str
    content: str | None
    cluster: int | None
    label: str | None
    class_: str | None = None
    task: int | None = None
    state: str | None = None


@dataclass(frozen=True)
class Page:
    """Some rows, and how many there are in all."""

    total: int
    rows: tuple[Shown, ...]


# Clusters.


def list_clusters(
    database: Database, shelf: Shelf, holdings: Holdings, order: str, n: int
) -> tuple[int, list[Cluster]]:
    """(how many clusters there are, the first n of them), by size, labels, lowest purity or lowest margin."""
    checks.option(order, "order", ORDERS)
    if holdings.labels is None:
        raise CampaignError("this campaign has no clusters: begin one with embeddings, or with --clusters FILE")
    with database.read() as connection:
        names = read_names(connection, holdings)
        rows, values = _read_labels(connection, holdings)
        margins = _read_margins(connection, shelf, holdings)
    size = np.bincount(holdings.labels)
    cluster = holdings.labels[rows].astype(np.int64)
    labeled = np.bincount(cluster, minlength=len(size))
    leading, support, _ = find_leading(cluster, values, len(size))
    purity = np.where(labeled > 0, support / np.maximum(labeled, 1), np.nan)
    mean = _mean(holdings.labels, margins, len(size))
    keys = {"size": -size, "labeled": -labeled, "purity": purity, "margin": mean}
    ranked = np.lexsort((-size, keys[order]))  # NaN comes last
    ranked = ranked[size[ranked] > 0]
    shown = ranked[:n].tolist()
    words = [None if holdings.kind == PAIRS else _name(names, int(leading[at])) for at in shown]
    return len(ranked), [
        Cluster(
            at,
            int(size[at]),
            int(labeled[at]),
            word,
            None if holdings.kind == PAIRS else _know(purity[at]),
            _know(mean[at]),
        )
        for at, word in zip(shown, words, strict=True)
    ]


def count_labeled(database: Database, holdings: Holdings) -> tuple[int, int] | None:
    """(how many clusters there are, how many of them have a label); None without clusters."""
    if holdings.labels is None:
        return None
    with database.read() as connection:
        rows, _ = _read_labels(connection, holdings)
    return int(np.count_nonzero(np.bincount(holdings.labels))), len(np.unique(holdings.labels[rows]))


def _read_labels(connection: sa.Connection, holdings: Holdings) -> tuple[Numbers, Numbers]:
    """(rows, values) of the verdicts that name a label, without the holdout; of pairs each row once."""
    found = verdicts.read_verdicts(connection)
    marks = read_marks(connection, holdings.n)
    naming = [verdicts.MAJORITY, verdicts.ADJUDICATED]
    named = np.isin(found.how, [*naming, verdicts.NONE] if holdings.kind == MULTI_LABEL else naming)
    keep = named & ~marks.holdout[found.row] & ~marks.retired[found.row]
    rows, values = found.row[keep], found.value[keep]
    if holdings.kind != PAIRS:
        return rows, values
    once = np.unique(rows)
    return once, np.zeros(len(once), np.int64)


def _read_margins(connection: sa.Connection, shelf: Shelf, holdings: Holdings) -> npt.NDArray[np.float32] | None:
    """The margins of the newest model, one per row; of pairs none."""
    model = find_model(connection, None)
    if model is None or holdings.kind == PAIRS:
        return None
    return load_predictions(connection, shelf, holdings, model)[0].margin


def _mean(labels: npt.NDArray[Any], margins: npt.NDArray[np.float32] | None, n: int) -> npt.NDArray[np.float64]:
    """The mean margin of each cluster, over the rows that have one."""
    if margins is None:
        return np.full(n, np.nan)
    known = ~np.isnan(margins)
    count = np.bincount(labels[known], minlength=n)
    total = np.bincount(labels[known], margins[known].astype(np.float64), n)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _know(figure: Any) -> float | None:
    return None if np.isnan(figure) else float(figure)


def read_cluster(database: Database, holdings: Holdings, cluster: int, start: int, n: int) -> Page:
    """Rows of a cluster, in the order of the pool."""
    if holdings.labels is None:
        raise CampaignError("this campaign has no clusters")
    members = np.flatnonzero(holdings.labels == cluster)
    return read_rows(database, holdings, members, start, n)


def read_rows(database: Database, holdings: Holdings, rows: Numbers, start: int = 0, n: int = MOST) -> Page:
    """Some of these rows, in their order."""
    some = rows[start : start + min(n, MOST)]
    with database.read() as connection:
        labels = _read_words(database, connection, holdings, some)
    ids, texts = _take(holdings, some)
    clusters = [None] * len(some) if holdings.labels is None else holdings.labels[some].tolist()
    found = zip(some.tolist(), ids, texts, clusters, strict=True)
    return Page(
        len(rows),
        tuple(Shown(row, id_, text, cluster, labels.get((row, tables.WHOLE_ROW))) for row, id_, text, cluster in found),
    )


# Batches.


def read_page(
    database: Database, shelf: Shelf, holdings: Holdings, number: int, wanted: Filter, start: int, n: int
) -> Page:
    """Tasks of a batch, cluster by cluster: first the cluster that was picked first. wanted: which of them."""
    sql = 'SELECT id, "row", "class", state, pick FROM task WHERE batch = :batch'
    with database.read() as connection:
        require_batch(connection, number)
        every = verdicts.as_numbers(connection.execute(sa.text(sql), {"batch": number}).all(), 5)
        whole = keep_tasks(database, connection, shelf, holdings, every, wanted)
        some = whole[order_by_cluster(whole[:, 1], whole[:, 4], holdings.labels)][start : start + min(n, MOST)]
        labels = _read_words(database, connection, holdings, some[:, 1])
    task, rows, classes, states, _ = (column.tolist() for column in some.T)
    ids, texts = _take(holdings, some[:, 1])
    clusters = [None] * len(rows) if holdings.labels is None else holdings.labels[some[:, 1]].tolist()
    return Page(
        len(whole),
        tuple(
            Shown(row, id_, text, cluster, labels.get((row, class_)), holdings.names.get(class_), one, STATES[at])
            for row, id_, text, cluster, class_, one, at in zip(
                rows, ids, texts, clusters, classes, task, states, strict=True
            )
        ),
    )


def order_by_cluster(rows: Numbers, picks: Numbers, labels: npt.NDArray[Any] | None) -> Numbers:
    """Positions that put the rows of a cluster together, clusters by their first pick, rows by theirs."""
    if labels is None or not len(rows):
        return np.argsort(picks, kind="stable")
    _, group = np.unique(labels[rows], return_inverse=True)
    first = np.full(int(group.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, group, picks)
    return np.lexsort((picks, first[group]))


# Both.


def _take(holdings: Holdings, rows: Numbers) -> tuple[list[Any], list[Any]]:
    if not len(rows):
        return [], []
    ids, contents = holdings.take(rows)
    return ids.tolist(), [None] * len(rows) if contents is None else contents.tolist()


def _read_words(
    database: Database, connection: sa.Connection, holdings: Holdings, rows: Numbers
) -> dict[tuple[int, int], str]:
    """What people decided about some rows, in words, by row and class."""
    sql = f'SELECT "row", "class", coalesce(value, {NO_VALUE}), how FROM verdict WHERE {database.among("row", "rows")}'
    found = connection.execute(sa.text(sql), {"rows": database.listed(rows)}).all()
    names = read_names(connection, holdings)
    named = (verdicts.HOW[verdicts.MAJORITY], verdicts.HOW[verdicts.ADJUDICATED])
    return {
        (row, class_): (_name(names, value) or "none of these") if how in named else how
        for row, class_, value, how in found
    }


def _name(names: Names, value: int) -> str | None:
    """A value in words; None if it is none."""
    if value == NO_VALUE:
        return None
    (word,) = names.find(np.array([value], np.int64), np.array([True])).tolist()
    if names.numeric:
        return "yes" if word == 1 else "no"
    return ", ".join(word) if isinstance(word, tuple) else str(word)
