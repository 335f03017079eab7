"""Disputed tasks: listed blind, and decided by somebody who took no side.

Neither the listing nor the task that an expert claims says what was answered or by whom, so that the expert decides
from the example alone.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow.campaign.answers import ANSWER, BROKEN, NONE_OF_THESE, UNSURE
from hedgerow.campaign.asking import SAID
from hedgerow.campaign.database import Database
from hedgerow.campaign.holdings import PAIRS, Holdings
from hedgerow.campaign.tables import DISPUTED, LIVE
from hedgerow.errors import CampaignError

SIDES = (ANSWER, UNSURE, NONE_OF_THESE, BROKEN)


def read_disputed(database: Database, holdings: Holdings, batch: int | None = None) -> dict[str, npt.NDArray[Any]]:
    """The disputed tasks of open batches by column: task, batch, id, class (of pairs), the content, given."""
    sql = (
        'SELECT t.id, t.batch, t."row", t."class", t.given FROM task t JOIN batch b ON b.id = t.batch '
        "WHERE b.state = :live AND t.state = :state AND (:batch < 0 OR t.batch = :batch) ORDER BY t.batch, t.pick"
    )
    facts = {"live": LIVE, "state": DISPUTED, "batch": -1 if batch is None else batch}
    with database.read() as connection:
        found = connection.execute(sa.text(sql), facts).all()
    task, number, rows, classes, given = np.array([tuple(row) for row in found], np.int64).reshape(-1, 5).T
    ids, contents = holdings.take(rows)
    columns: dict[str, npt.NDArray[Any]] = {"task": task, "batch": number, "id": ids}
    if holdings.kind == PAIRS:
        columns["class"] = np.array([holdings.classes[one] for one in classes.tolist()], np.object_)
    if contents is not None:
        columns[str(holdings.content)] = contents
    return {**columns, "given": given}


def refuse_side(connection: sa.Connection, who: int, task: int) -> None:
    """Refuse an expert who has answered the task: one of those who differ would decide for themselves."""
    sql = f"SELECT {SAID} FROM task t WHERE t.id = :task"
    if connection.execute(sa.text(sql), {"who": who, "task": task}).scalar_one() in SIDES:
        raise CampaignError(
            f"task {task} is to be decided by somebody who has not answered it: ask another expert, or pass own=True "
            "(--own)"
        )
