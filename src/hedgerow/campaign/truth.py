"""What people decided, as models read it: the column of a class, or yes and no.

Only verdicts that name classes count: those of a majority or an expert. In a multi-label campaign "none of these" is
the empty set. Rows that were retired have no verdict. Labels to train on and those of the holdout are never mixed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow.campaign import tables
from hedgerow.campaign.holdings import MULTI_CLASS, MULTI_LABEL, Holdings
from hedgerow.campaign.verdicts import ADJUDICATED, MAJORITY, NO_VALUE, NONE, fetch_numbers, read_verdicts

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Truth:
    """Labels, ordered by row and class. classes: WHOLE_ROW unless they are about pairs.

    values: the column of the class, its place among the classes in use (multi-class); yes or no for every class
    (multi-label, two dimensions) or for the pair.
    """

    rows: Numbers
    classes: Numbers
    values: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, which: npt.NDArray[Any]) -> "Truth":
        """Some of the labels: a mask, or their places."""
        return Truth(self.rows[which], self.classes[which], self.values[which])


def read_truth(connection: sa.Connection, holdings: Holdings, *, holdout: bool) -> Truth:
    """The labels of the holdout, or all others, to train on."""
    whole = read_verdicts(connection)
    inside = np.zeros(holdings.n, np.bool_)
    inside[find_holdout(connection)[:, 0]] = True
    decided = (MAJORITY, ADJUDICATED, NONE) if holdings.kind == MULTI_LABEL else (MAJORITY, ADJUDICATED)
    keep = np.isin(whole.how, decided) & (inside[whole.row] == holdout)
    return _decode(connection, holdings, Truth(whole.row, whole.class_, whole.value).take(keep))


def _decode(connection: sa.Connection, holdings: Holdings, stored: Truth) -> Truth:
    """Stored values as models read them."""
    numbers = np.array([*holdings.classes], np.int64)
    if holdings.kind == MULTI_CLASS:
        stored = stored.take(np.isin(stored.values, numbers))
        return Truth(stored.rows, stored.classes, np.searchsorted(numbers, stored.values))
    if holdings.kind == MULTI_LABEL:
        return Truth(stored.rows, stored.classes, _decode_sets(connection, numbers, stored.values))
    stored = stored.take(np.isin(stored.classes, numbers))
    return Truth(stored.rows, stored.classes, stored.values == 1)


def _decode_sets(connection: sa.Connection, numbers: Numbers, values: Numbers) -> npt.NDArray[np.bool_]:
    """Sets of classes as yes and no for each class."""
    found = connection.execute(sa.select(tables.labelset).order_by(tables.labelset.c.id)).all()
    codes = np.array([NO_VALUE, *(row.id for row in found)], np.int64)
    members = np.zeros((len(codes), len(numbers)), np.bool_)
    for place, row in enumerate(found, 1):
        listed = [int(number) for number in row.classes.split(",") if number]
        members[place] = np.isin(numbers, listed)
    return members[np.searchsorted(codes, values)]


def find_holdout(connection: sa.Connection) -> Numbers:
    """The rows and classes (m, 2) of the holdout."""
    sql = 'SELECT t."row", t."class" FROM task t JOIN batch b ON b.id = t.batch WHERE b.kind = \'holdout\''
    return fetch_numbers(connection, sql, 2)


def find_retired(connection: sa.Connection, n: int) -> npt.NDArray[np.bool_]:
    """Which rows are retired."""
    retired = np.zeros(n, np.bool_)
    retired[fetch_numbers(connection, 'SELECT "row" FROM retired', 1)[:, 0]] = True
    return retired
