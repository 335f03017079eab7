"""Which tasks of a batch are shown: by state, by what people decided, by a model's guess, by who answered."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow.campaign import tables, verdicts
from hedgerow.campaign.answers import RETRACT, SKIP
from hedgerow.campaign.artifacts import Shelf
from hedgerow.campaign.database import Database
from hedgerow.campaign.holdings import PAIRS, Holdings
from hedgerow.campaign.predictions import find_model, load_predictions
from hedgerow.campaign.results import read_names
from hedgerow.campaign.tables import STATES
from hedgerow.campaign.verdicts import NO_VALUE, Numbers
from hedgerow.errors import InputError

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Filter:
    """What tasks must have, None for anything. label: the class that people decided on, or one of several.

    guess: the class that the newest model takes for the most probable. annotator: who has answered. Of pairs, label is
    a class that people said yes to, and guess one that the model does.
    """

    state: str | None = None
    label: str | None = None
    guess: str | None = None
    annotator: str | None = None

    def check(self) -> None:
        """Refuse a state that there is not."""
        if self.state is not None and self.state not in STATES:
            raise InputError(f"a task is {', '.join(STATES[:-1])} or {STATES[-1]}, not {self.state!r}")


def keep_tasks(
    database: Database, connection: sa.Connection, shelf: Shelf, holdings: Holdings, tasks: Numbers, wanted: Filter
) -> Numbers:
    """Those of some tasks that a filter lets through. tasks: columns id, row, class, state, and perhaps more."""
    wanted.check()
    if wanted.state is not None:
        tasks = tasks[tasks[:, 3] == STATES.index(wanted.state)]
    if wanted.annotator is not None:
        tasks = tasks[_is_answered(database, connection, tasks, wanted.annotator)]
    if wanted.label is not None:
        tasks = tasks[_is_labeled(database, connection, holdings, tasks, wanted.label)]
    if wanted.guess is not None:
        tasks = tasks[_is_guessed(connection, shelf, holdings, tasks, wanted.guess)]
    return tasks


def _require_class(holdings: Holdings, name: str) -> int:
    found = holdings.find_class(name)
    if found is None:
        raise InputError(holdings.explain_class(name))
    return found


def _match(tasks: Numbers, rows: Numbers, classes: Numbers) -> Mask:
    """The tasks that are about one of these rows or pairs."""
    known = set(zip(rows.tolist(), classes.tolist(), strict=True))
    return np.array([(row, class_) in known for row, class_ in tasks[:, 1:3].tolist()], np.bool_)


def _is_answered(database: Database, connection: sa.Connection, tasks: Numbers, name: str) -> Mask:
    who = connection.execute(sa.select(tables.annotator.c.id).where(tables.annotator.c.name == name)).scalar()
    said = verdicts.read_statements(database, connection, tasks[:, 1])
    theirs = (said.annotator == (-1 if who is None else who)) & ~np.isin(said.kind, (SKIP, RETRACT))
    return _match(tasks, said.row[theirs], said.class_[theirs])


def _is_labeled(database: Database, connection: sa.Connection, holdings: Holdings, tasks: Numbers, name: str) -> Mask:
    number = _require_class(holdings, name)
    decided = (verdicts.HOW[verdicts.MAJORITY], verdicts.HOW[verdicts.ADJUDICATED])
    sql = f'SELECT "row", "class", coalesce(value, {NO_VALUE}) FROM verdict WHERE how IN {decided} '
    sql += f"AND {database.among('row', 'rows')}"
    found = connection.execute(sa.text(sql), {"rows": database.listed(tasks[:, 1])}).all()
    rows, classes, values = verdicts.as_numbers(found, 3).T
    if holdings.kind == PAIRS:
        fits = (values == 1) & (classes == number)
    else:
        names = read_names(connection, holdings)
        shown = holdings.names[number]
        named = [shown in word if isinstance(word, tuple) else shown == word for word in names.words]
        fits = np.isin(values, names.codes[np.array(named, np.bool_)])
    return _match(tasks, rows[fits], classes[fits])


def _is_guessed(connection: sa.Connection, shelf: Shelf, holdings: Holdings, tasks: Numbers, name: str) -> Mask:
    number = _require_class(holdings, name)
    model = find_model(connection, None)
    if model is None:
        return np.zeros(len(tasks), np.bool_)
    stored, _ = load_predictions(connection, shelf, holdings, model)
    if holdings.kind == PAIRS:
        at = holdings.pairs.find(tasks[:, 1], tasks[:, 2], ignore_unknown=True)
        says = (at >= 0) & (stored.probability[at] >= 0.5)  # NaN says nothing
        fits: Mask = says & (tasks[:, 2] == number)
        return fits
    alike = [one for one in holdings.every_class if holdings.resolve_class(one) == holdings.resolve_class(number)]
    return np.isin(stored.guess[tasks[:, 1]], alike)
