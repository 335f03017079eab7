"""Why a row is worth a label, for the person who looks at it: the model's guess, the cluster, the nearest labeled rows.

Nothing here depends on which task a row is asked by, so that a gold question looks like any other. Labels of the
holdout are never shown: some of them are the answers to gold questions. One row is read at a time, and of the pool only
what is near it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow import pool
from hedgerow.campaign import artifacts
from hedgerow.campaign.artifacts import Shelf
from hedgerow.campaign.database import Database
from hedgerow.campaign.holdings import PAIRS, Holdings
from hedgerow.campaign.planning import require_batch
from hedgerow.campaign.predictions import UNKNOWN_CLASS, find_model, load_predictions
from hedgerow.campaign.results import read_names
from hedgerow.campaign.tables import WHOLE_ROW
from hedgerow.campaign.verdicts import Numbers

MOST_NEAR = 4  # neighbors that are shown
MOST_COMPARED = 5000  # labeled rows that are compared with one: those of its cluster first


@dataclass(frozen=True)
class Neighbor:
    """A labeled row. label: a name, several names, or yes or no; similarity: the cosine between the embeddings."""

    row: int
    id: int | str
    content: str | None
    label: str
    similarity: float


@dataclass(frozen=True)
class Reason:
    """Why a row was picked. model: that of the batch; the guess, its probability and the margin are the model's.

    cluster: None if there are no clusters; size: how many rows are in it, and labeled how many of them have a label.
    """

    strategy: str
    model: str | None
    guess: str | None
    probability: float | None
    margin: float | None
    cluster: int | None
    size: int
    labeled: int
    neighbors: tuple[Neighbor, ...]


def find_reason(database: Database, shelf: Shelf, holdings: Holdings, row: int, class_: int, batch: int) -> Reason:
    """The reason for a row, or for a pair if `class_` is a class, in a batch."""
    with database.read() as connection:
        found = require_batch(connection, batch)
        model = None if found.model is None else find_model(connection, found.model)
        guess, probability, margin = _read_guess(connection, shelf, holdings, model, row, class_)
        inside = np.zeros(0, np.int64) if holdings.labels is None else _find_members(holdings, row)
        labeled = _find_labeled(database, connection, inside, row, class_)
        near = _find_near(database, connection, holdings, labeled, row, class_)
    return Reason(
        found.strategy,
        None if model is None else model.name,
        guess,
        probability,
        margin,
        None if holdings.labels is None else int(holdings.labels[row]),
        len(inside),
        len(labeled),
        near,
    )


# The model.


def _read_guess(
    connection: sa.Connection, shelf: Shelf, holdings: Holdings, model: Any, row: int, class_: int
) -> tuple[str | None, float | None, float | None]:
    """(the model's guess, its probability, the margin); None where the model says nothing."""
    if model is None:
        return None, None, None
    if holdings.kind == PAIRS:
        stored, _ = load_predictions(connection, shelf, holdings, model)
        at = int(holdings.pairs.find(np.array([row]), np.array([class_]), ignore_unknown=True)[0])
        chance = None if at < 0 else _know(stored.probability[at])
        return None if chance is None else _say(chance >= 0.5), chance, None if at < 0 else _know(stored.margin[at])
    held = shelf.find(connection, model.scores)
    artifacts.check(held)
    table = pool.open_source(held.path, "predictions")
    assert isinstance(table, pool.Table)
    if row >= table.n:  # a row that is younger than the model
        return None, None, None
    guess, probability, margin = _read_one(table, ["guess", "probability", "margin"], row)
    known = guess is not None and int(guess) != UNKNOWN_CLASS
    return holdings.names[int(guess)] if known else None, _know(probability), _know(margin)


def _read_one(table: pool.Table, names: list[str], row: int) -> list[Any]:
    """Some columns of one row."""
    _, columns = next(table.gather(names, np.array([row], np.int64)))
    return [values.to_pylist()[0] for values in columns]


def _know(figure: Any) -> float | None:
    return None if figure is None or np.isnan(figure) else float(figure)


def _say(yes: bool) -> str:
    return "yes" if yes else "no"


# The cluster and the neighbors.


def _find_members(holdings: Holdings, row: int) -> Numbers:
    assert holdings.labels is not None
    return np.flatnonzero(holdings.labels == holdings.labels[row])


_LABELED = """
SELECT v."row" FROM verdict v WHERE v.how IN ('majority', 'adjudicated') AND v.value IS NOT NULL
AND v."row" <> :row AND v."class" = :class AND NOT EXISTS (
    SELECT 1 FROM task t JOIN batch b ON b.id = t.batch WHERE t."row" = v."row" AND b.kind = 'holdout'
)
"""


def _find_labeled(database: Database, connection: sa.Connection, rows: Numbers, row: int, class_: int) -> Numbers:
    """Those of some rows that have a label, but for the row itself and the holdout."""
    sql = f"{_LABELED} AND {database.among('v.row', 'rows')} ORDER BY v.row"
    facts = {"row": row, "class": class_, "rows": database.listed(rows)}
    return np.array(connection.execute(sa.text(sql), facts).scalars().all(), np.int64)


def _find_near(
    database: Database, connection: sa.Connection, holdings: Holdings, labeled: Numbers, row: int, class_: int
) -> tuple[Neighbor, ...]:
    if holdings.embeddings is None:
        return ()
    sql = f"{_LABELED} ORDER BY v.row LIMIT :most"
    facts = {"row": row, "class": class_, "most": MOST_COMPARED}
    others = np.array(connection.execute(sa.text(sql), facts).scalars().all(), np.int64)
    rows = np.union1d(labeled[:MOST_COMPARED], others)
    if not len(rows):
        return ()
    alike = compare(holdings.embeddings.take(np.append(rows, row)))
    best = np.argsort(-alike, kind="stable")[:MOST_NEAR]
    return _describe(database, connection, holdings, rows[best], alike[best], class_)


def compare(vectors: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The cosine between the last row and each other one; 0 where a row has no direction."""
    whole = vectors.astype(np.float64)
    lengths = np.linalg.norm(whole, axis=1)
    unit = whole / np.where(lengths > 0, lengths, 1)[:, None]
    return np.asarray(unit[:-1] @ unit[-1], np.float64)


def _describe(
    database: Database,
    connection: sa.Connection,
    holdings: Holdings,
    rows: Numbers,
    alike: npt.NDArray[np.float64],
    class_: int,
) -> tuple[Neighbor, ...]:
    sql = f'SELECT v."row", v.value FROM verdict v WHERE v."class" = :class AND {database.among("v.row", "rows")}'
    facts = {"class": class_, "rows": database.listed(rows)}
    values = {int(found): int(value) for found, value in connection.execute(sa.text(sql), facts)}
    codes = np.array([values[row] for row in rows.tolist()], np.int64)
    words = read_names(connection, holdings).find(codes, np.ones(len(codes), np.bool_)).tolist()
    ids, contents = holdings.take(rows)
    texts = [None] * len(rows) if contents is None else contents.tolist()
    return tuple(
        Neighbor(row, id_, text, _name(word, class_), similarity)
        for row, id_, text, word, similarity in zip(
            rows.tolist(), ids.tolist(), texts, words, alike.tolist(), strict=True
        )
    )


def _name(word: Any, class_: int) -> str:
    """A label in words."""
    if class_ != WHOLE_ROW:
        return _say(word == 1)
    return ", ".join(word) if isinstance(word, tuple) else str(word)
