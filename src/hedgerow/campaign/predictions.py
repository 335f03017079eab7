"""`predict`: a model's predictions registered as a version, matched to the pool by id.

Of every row the margin, the most probable class and its probability are kept; of every pair the probability. All
probabilities are kept as well where they are not large, for the strategies that need them (`badge`, `entropy`).
A row without predictions is no candidate; that there are such rows must be asked for.

A model knows the rows and the classes of its day. Later rows have no predictions of it. Its guesses are class ids, so
that they follow renamed and merged classes; its margins and probabilities stay what they were. Of a pair whose class
was merged, the larger probability counts.

The predictions for what models are measured by, the holdout and a fixed set of other rows (`curves.py`), are kept in a
small file of their own: learning curves never read those of the whole pool.
"""

import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow import checks, pool, scores
from hedgerow.campaign import artifacts, tables
from hedgerow.campaign import database as db
from hedgerow.campaign.artifacts import Print, Shelf
from hedgerow.campaign.database import Database, now
from hedgerow.campaign.holdings import MULTI_CLASS, MULTI_LABEL, PAIRS, Holdings
from hedgerow.errors import CampaignError, HedgerowWarning, InputError
from hedgerow.pairs.files import Columns, NamedPairs, names_pairs
from hedgerow.pool.ids import align, find_ids
from hedgerow.pool.tables import Table, open_rows

MOST_KEPT = 1 << 30  # bytes of probabilities that are kept without being asked for
UNKNOWN_CLASS = -1
Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Watch:
    """What models are measured by: rows and classes, ordered by them. at: their places in predictions, -1 for none."""

    rows: Numbers
    classes: Numbers
    at: Numbers


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions in the order of the pool: one entry per row, or per pair. NaN where there are none.

    margin: as strategies see it. guess: the most probable class, UNKNOWN_CLASS if only margins are known; probability:
    that of the guess, or of a yes for a pair. matrix: all probabilities, if they are kept. watched: of a multi-label
    campaign, all probabilities of what models are measured by.
    """

    margin: Floats
    guess: npt.NDArray[np.int32]
    probability: Floats
    matrix: Floats | None = None
    watched: Floats | None = None

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """The rows or pairs with predictions."""
        return ~np.isnan(self.margin)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The columns of their file."""
        return {"margin": self.margin, "guess": self.guess, "probability": self.probability}


@dataclass(frozen=True)
class Reading:
    """How predictions are given. partial: rows may be without. keep: keep all probabilities, or None if not large."""

    logits: bool = False
    partial: bool = False
    keep: bool | None = None
    column: str | None = None


def read_predictions(source: Any, holdings: Holdings, how: Reading, watch: Watch) -> Predictions:
    """Read, match and check predictions."""
    name = "logits" if how.logits else "probabilities"
    opened = open_rows(source, "predictions")
    if holdings.kind == PAIRS:
        return _read_pairs(opened, holdings, how)
    if not how.logits and pool.holds_vector(opened, "margins", column=how.column):
        return _read_margins(opened, holdings, how)
    matrix = pool.open_matrix(opened, name, column=how.column)
    _check_width(matrix.width, holdings)
    if how.logits:
        matrix = scores.softmax(matrix)
    if holdings.kind == MULTI_CLASS:
        margin = scores.margins(matrix)
    else:
        margin = scores.independent_margins(matrix)
    guess, top = _find_top(matrix, holdings)
    order = _find_order(matrix.ids, matrix.n, holdings, how.partial)
    keep = 4 * holdings.n * matrix.width <= MOST_KEPT if how.keep is None else how.keep
    whole = _arrange_matrix(matrix, order) if keep else None
    watched = _take(matrix, watch.at if order is None else order[watch.at]) if holdings.kind == MULTI_LABEL else None
    return Predictions(
        _arrange(margin, order, np.nan),
        _arrange(guess, order, UNKNOWN_CLASS),
        _arrange(top, order, np.nan),
        whole,
        watched,
    )


def _take(matrix: pool.Matrix, rows: Numbers) -> Floats:
    """Some rows of a matrix; NaN where a row is -1."""
    taken = matrix.take(np.maximum(rows, 0)).astype(np.float32)
    taken[rows < 0] = np.nan
    return taken


def _check_width(width: int, holdings: Holdings) -> None:
    if width != len(holdings.classes):
        raise InputError(
            f"the predictions have {width:,} columns, but the campaign has {len(holdings.classes):,} classes: give one "
            f"column per class, in the order {', '.join(holdings.classes.values())}"
        )


def _find_top(matrix: pool.Matrix, holdings: Holdings) -> tuple[npt.NDArray[np.int32], Floats]:
    """(the most probable class of each row, its probability)."""
    numbers = np.array([*holdings.classes], np.int32)
    guess, top = np.empty(matrix.n, np.int32), np.empty(matrix.n, np.float32)
    for start, chunk in matrix.chunks():
        best = chunk.argmax(axis=1)
        guess[start : start + len(chunk)] = numbers[best]
        top[start : start + len(chunk)] = chunk[np.arange(len(chunk)), best]
    return guess, top


def _find_order(ids: pool.Ids | None, n: int, holdings: Holdings, partial: bool) -> npt.NDArray[np.int64] | None:
    """The place of each row of the pool in the predictions, -1 if it has none; None if they are in order."""
    if ids is None:
        if n != holdings.n:
            raise InputError(
                f"the predictions have {n:,} rows, the pool {holdings.n:,}: give one per row in the order of the pool, "
                "or a file with a column of ids"
            )
        return None
    _refuse_strangers(ids, holdings)
    try:
        return align(ids, holdings.ids, partial=partial)
    except InputError as error:
        if partial or " lacks " not in str(error):
            raise
        raise InputError(f"{error}: pass partial=True (--partial) if these rows have no predictions") from None


def _refuse_strangers(ids: pool.Ids, holdings: Holdings) -> None:
    """Refuse predictions none of whose ids is in the pool, which --partial would take for none at all."""
    if ids.n and ids.dtype == holdings.ids.dtype:
        unknown = int((pool.match_ids(ids.array(), holdings.ids, "predictions", partial=True) < 0).sum())
        if unknown == ids.n:
            raise InputError(f"none of the {ids.n:,} ids of the predictions is in the pool")
        if unknown:
            warnings.warn(
                f"{unknown:,} of the {ids.n:,} ids of the predictions are not in the pool and are left out",
                HedgerowWarning,
                stacklevel=2,
            )


def _arrange(values: npt.NDArray[Any], order: npt.NDArray[np.int64] | None, absent: float) -> npt.NDArray[Any]:
    if order is None:
        return values
    arranged = values[order]
    arranged[order < 0] = absent
    return arranged


def _arrange_matrix(matrix: pool.Matrix, order: npt.NDArray[np.int64] | None) -> Floats:
    whole = matrix.array().astype(np.float32, copy=False)
    if order is None:
        return whole
    arranged = whole[order]
    arranged[order < 0] = _make_sure(matrix.width)
    return arranged


def _read_margins(opened: Any, holdings: Holdings, how: Reading) -> Predictions:
    margin = checks.vector(pool.as_vector(opened, "margins", column=how.column), "margins").astype(np.float32)
    checks.finite(margin, "margins")
    if margin.min(initial=0) < 0:
        raise InputError(f"margins holds {margin.min():g}: a margin is the top-1 minus the top-2 probability, >= 0")
    ids = find_ids(opened) if isinstance(opened, Table) else None
    order = _find_order(ids, len(margin), holdings, how.partial)
    nobody = np.full(holdings.n, UNKNOWN_CLASS, np.int32)
    return Predictions(_arrange(margin, order, np.nan), nobody, np.full(holdings.n, np.nan, np.float32))


def _read_pairs(opened: Any, holdings: Holdings, how: Reading) -> Predictions:
    """The probability of every pair, from a matrix (rows, classes) or from one number per pair."""
    if how.logits:
        raise InputError("logits cannot be used for pairs: give probabilities, as from a sigmoid")
    pairs = holdings.pairs
    if pool.holds_vector(opened, "pair probabilities", column=how.column):
        chances = _read_vector(opened, holdings, how)
    else:
        matrix = pool.open_matrix(opened, "probabilities", column=how.column)
        _check_width(matrix.width, holdings)
        order = _find_order(matrix.ids, matrix.n, holdings, how.partial)
        rows = pairs.rows if order is None else order[pairs.rows]
        columns = np.searchsorted(np.array([*holdings.classes]), pairs.classes)  # class ids ascend
        chances = matrix.array()[rows, columns].astype(np.float32)
        chances[rows < 0] = np.nan
    known = chances[~np.isnan(chances)]
    scores.refuse_beyond_one(known, "probabilities")
    margin = np.abs(2 * chances - 1)
    return Predictions(margin, pairs.classes.astype(np.int32), chances)


def _read_vector(opened: Any, holdings: Holdings, how: Reading) -> Floats:
    pairs = holdings.pairs
    values = checks.vector(pool.as_vector(opened, "pair probabilities", column=how.column), "probabilities")
    checks.finite(values, "probabilities")
    names = np.array([one.name for one in holdings.every_class.values()], np.object_)
    numbered = isinstance(opened, Table) and names_pairs(opened, Columns())
    if not numbered:
        checks.same_length({"probabilities": len(values), "the pairs": len(pairs)})
        return values.astype(np.float32)
    named = NamedPairs(pairs, Columns(), holdings.ids, class_names=names)
    arranged, absent, _ = named.arrange(opened, values, "predictions", False)
    found = arranged.astype(np.float32)
    if absent is not None:
        if not how.partial and absent.any():
            raise InputError(
                f"the predictions lack {int(absent.sum()):,} of {len(pairs):,} pairs: pass partial=True (--partial) if "
                "these have none"
            )
        found[absent] = np.nan
    return found


# Registering.


@dataclass(frozen=True)
class Model:
    """A registered model. rows: how many rows or pairs have predictions. labels: how many it was trained on.

    settings: how `learn` trained it; empty if it was trained elsewhere.
    """

    id: int
    name: str
    rows: int
    labels: int
    labels_upto: int
    metrics: Mapping[str, Any]
    settings: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Origin:
    """Where predictions come from. labels, labels_upto: how many labels the model was trained on, and the last event.

    command: the verb in the log.
    """

    watch: Watch
    labels: int
    labels_upto: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    command: str = "predict"


def register(
    database: Database,
    shelf: Shelf,
    holdings: Holdings,
    found: Predictions,
    origin: Origin,
    name: str | None,
    metrics: Mapping[str, Any],
) -> Model:
    """Write the files of a model and its row. name: `model-N` if it is None."""
    columns = found.columns()
    if holdings.kind == PAIRS:
        columns |= {"row": holdings.pairs.rows, "class": holdings.pairs.classes}
    with shelf.hold():
        made: dict[str, tuple[Path, Print]] = {
            "scores": shelf.add("scores", ".parquet", lambda path: _write(path, columns)),
            "watched": shelf.add("watched", ".parquet", lambda path: _write(path, _watch(found, origin.watch))),
        }
        matrix = found.matrix
        if matrix is not None:
            made["probabilities"] = shelf.add("probabilities", ".npy", lambda path: _save(path, matrix))
        with database.write() as connection:
            if db.read_edition(connection) != holdings.edition:
                raise CampaignError("the pool or its classes changed meanwhile: run it again")
            table = tables.model
            taken = set(connection.execute(sa.select(table.c.name)).scalars())
            name = name or next(
                f"model-{number}" for number in range(1, len(taken) + 2) if f"model-{number}" not in taken
            )
            if name in taken:
                raise CampaignError(f"a model called {name!r} is registered already: give another name")
            numbers = {kind: shelf.register(connection, kind, *held) for kind, held in made.items()}
            rows = int(found.known.sum())
            values = {"name": name, "labels_upto": origin.labels_upto, "labels": origin.labels, "rows": rows}
            values |= {**numbers, "at": now(), "classes": json.dumps([*holdings.classes])}
            values |= {"metrics": json.dumps(dict(metrics)), "settings": json.dumps(dict(origin.settings))}
            number = connection.execute(sa.insert(table).values(**values).returning(table.c.id)).scalar_one()
            database.note(connection, origin.command, {"model": name, "rows": rows, "labels": origin.labels})
            return Model(number, name, rows, origin.labels, origin.labels_upto, dict(metrics), dict(origin.settings))


def _watch(found: Predictions, watch: Watch) -> dict[str, npt.NDArray[Any]]:
    """The columns of the small file: rows and classes, their predictions, all probabilities of multi-label rows."""
    known = np.append(found.known, False)[watch.at]
    columns: dict[str, npt.NDArray[Any]] = {"row": watch.rows[known], "class": watch.classes[known]}
    columns |= {name: values[watch.at[known]] for name, values in found.columns().items()}
    if found.watched is not None:
        columns |= {f"p_{place}": column for place, column in enumerate(found.watched[known].T)}
    return columns


def _write(path: Path, columns: dict[str, npt.NDArray[Any]]) -> None:
    pool.write_table(path, columns, {}, force=True)


def _save(path: Path, matrix: Floats) -> None:
    with path.open("wb") as file:
        np.save(file, matrix)


def find_model(connection: sa.Connection, name: str | int | None) -> Any:
    """The row of a model, by name or number; the newest if that is None; None if there is none."""
    table = tables.model
    query = sa.select(table).order_by(table.c.id.desc()).limit(1)
    if name is not None:
        query = query.where(table.c.id == name if isinstance(name, int) else table.c.name == name)
    found = connection.execute(query).first()
    if found is None and name is not None:
        raise CampaignError(f"no model called {name!r} is registered")
    return found


def load_predictions(
    connection: sa.Connection, shelf: Shelf, holdings: Holdings, row: Any
) -> tuple[Predictions, pool.Matrix | None]:
    """The predictions of a model for the pool as it is now, and all probabilities if they were kept."""
    held = shelf.find(connection, row.scores)
    artifacts.check(held)
    stored = Predictions(*(pool.as_vector(held.path, name, column=name) for name in ("margin", "guess", "probability")))
    if holdings.kind == PAIRS:
        return _arrange_pairs(stored, holdings, json.loads(row.classes), held.path), None
    rest = holdings.n - len(stored.margin)
    if rest:
        nothing = np.full(rest, np.nan, np.float32)
        stored = Predictions(
            np.append(stored.margin, nothing),
            np.append(stored.guess, np.full(rest, UNKNOWN_CLASS, np.int32)),
            np.append(stored.probability, nothing),
        )
    if row.probabilities is None:
        return stored, None
    whole = shelf.find(connection, row.probabilities)
    artifacts.check(whole)
    matrix = pool.open_matrix(whole.path, "probabilities")
    if rest:
        matrix = pool.Matrix(holdings.n, matrix.width, matrix.dtype, None, _Padded(matrix))
    return stored, matrix


@dataclass(frozen=True, eq=False)
class _Padded:
    """The rows of a matrix of probabilities, and below them as many as are needed that are sure of the first class."""

    matrix: pool.Matrix

    def blocks(self, start: int, stop: int, rows: int) -> Iterator[npt.NDArray[Any]]:
        """The rows from start to stop in order, in blocks of at most `rows` rows."""
        inside = min(stop, self.matrix.n)
        if start < inside:
            yield from (chunk for _, chunk in self.matrix.chunks(rows, start, inside))
        for at in range(max(start, self.matrix.n), stop, rows):
            yield np.repeat(_make_sure(self.matrix.width), min(rows, stop - at), axis=0).astype(self.matrix.dtype)


def _make_sure(width: int) -> Floats:
    """(1, width): sure of the first class, for rows without predictions, which are never candidates."""
    return np.eye(1, width, dtype=np.float32)


def _arrange_pairs(stored: Predictions, holdings: Holdings, classes: list[int], path: Path) -> Predictions:
    """Predictions of the pairs there were, for the pairs there are. path: of their file."""
    if len(stored.margin) == len(holdings.pairs) and classes == [*holdings.classes]:
        return stored
    rows, asked = (pool.as_vector(path, name, column=name) for name in ("row", "class"))
    now = np.array([holdings.resolve_class(number) for number in holdings.every_class], np.int64)
    at = holdings.pairs.find(rows, now[asked], ignore_unknown=True)
    chances = np.full(len(holdings.pairs), -1, np.float32)
    np.maximum.at(chances, at[at >= 0], np.nan_to_num(stored.probability[at >= 0], nan=-1))
    chances[chances < 0] = np.nan
    return Predictions(np.abs(2 * chances - 1), holdings.pairs.classes.astype(np.int32), chances)
