"""What a campaign says about itself: its status, the tasks of a batch, the audit log."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow import checks
from hedgerow.campaign import tables, verdicts
from hedgerow.campaign.answers import Answers
from hedgerow.campaign.artifacts import Shelf
from hedgerow.campaign.asking import Task
from hedgerow.campaign.budget import Budget, find_budget
from hedgerow.campaign.curves import Measured, advise, read_curve
from hedgerow.campaign.database import Database, read_meta
from hedgerow.campaign.holdings import PAIRS, Holdings, read_holdout
from hedgerow.campaign.people import estimate_agreement
from hedgerow.campaign.planning import require_batch
from hedgerow.campaign.predictions import UNKNOWN_CLASS, find_model, load_predictions
from hedgerow.campaign.quality import Agreement
from hedgerow.campaign.tables import DISPUTED, GOLD, LIVE, STATES, VOID

Numbers = npt.NDArray[np.int64]
LOOKED_AT = 2  # models whose picks are looked at: of the newest there may be no answers yet


@dataclass(frozen=True)
class Asked:
    """A task as a person sees it. class_: the class that a pair asks about. until: when the lease ends (UTC)."""

    task: int
    batch: int
    row: int
    id: int | str
    content: str | None
    class_: str | None
    until: datetime


@dataclass(frozen=True)
class Entry:
    """A line of the audit log."""

    at: datetime
    who: str
    version: str
    command: str
    outcome: Mapping[str, Any]


@dataclass(frozen=True)
class Outline:
    """A campaign at a glance. content: what its contents are, "text" or "uri".

    edition: a number that changes with the pool and its classes.
    """

    uuid: str
    kind: str
    content: str | None
    rows: int
    classes: tuple[str, ...]
    edition: int


@dataclass(frozen=True)
class Status:
    """What there is in a campaign. labels: verdicts by how they came about; tasks: by state, of all open batches.

    measured: the newest model on the holdout; advice: whether to stop, and why. Both None before there is a model.
    disputed: tasks of open batches that wait for an expert. agreement: on what several people answered, of a part of it
    if that is much; None if nothing was. `Campaign.people` has all of it.
    """

    kind: str
    rows: int
    holdout: int
    classes: tuple[str, ...]
    clusters: int | None
    models: tuple[Mapping[str, Any], ...]
    batches: tuple[Mapping[str, Any], ...]
    labels: Mapping[str, int]
    annotators: Mapping[str, int]
    sources: tuple[Mapping[str, Any], ...]
    budget: Budget | None
    retired: int
    disputed: int
    agreement: Agreement | None
    measured: Measured | None = None
    advice: Mapping[str, str] | None = None

    def to_json(self) -> dict[str, Any]:
        """The same in plain types."""
        return asdict(self) | {"budget": None if self.budget is None else self.budget.to_json()}

    def __str__(self) -> str:
        retired = f" ({self.retired:,} retired)" if self.retired else ""
        clusters = "" if self.clusters is None else f", {self.clusters:,} clusters"
        lines = [
            f"{self.kind} campaign: {self.rows:,} rows{retired}{clusters}, holdout {self.holdout:,}",
            f"classes  {', '.join(self.classes)}",
        ]
        lines += [f"model    {one['name']}: {one['rows']:,} predictions" for one in self.models]
        for one in self.batches:
            outcome = f" ({one['outcome']})" if one["outcome"] else ""
            states = ", ".join(f"{count:,} {state}" for state, count in one["tasks"].items() if count)
            lines.append(f"batch {one['id']:<2} {one['kind']}, {one['strategy']}, {one['state']}{outcome}: {states}")
        labels = ", ".join(f"{count:,} {how}" for how, count in self.labels.items())
        lines.append(f"labels   {labels or 'none'}")
        people = ", ".join(f"{name} {count:,}" for name, count in self.annotators.items())
        lines.append(f"answers  {people or 'none'}")
        if self.agreement is not None:
            lines.append(f"agree    {self.agreement}")
        if self.disputed:
            lines.append(f"disputed {self.disputed:,} tasks, for `claim --expert`")
        if self.budget is not None:
            lines.append(f"budget   {self.budget}")
        if self.measured is not None and self.advice is not None:
            lines.append(f"holdout  {self.measured}")
            lines.append(f"stop?    {self.advice['verdict']}: {self.advice['reason']}")
        return "\n".join(lines)


def read_outline(database: Database, holdings: Holdings) -> Outline:
    """A campaign at a glance, from what is in memory."""
    with database.read() as connection:
        uuid = read_meta(connection, "uuid")
    assert uuid is not None
    names = tuple(holdings.classes.values())
    return Outline(uuid, holdings.kind, holdings.content, holdings.n, names, holdings.edition)


def read_status(database: Database, shelf: Shelf, holdings: Holdings) -> Status:
    """Count what there is, in one consistent view; and how good the newest model is."""
    measured = next(iter(read_curve(database, shelf, holdings, last=1)), None)
    advice = None if measured is None else advise(database, shelf, holdings, picks=LOOKED_AT)
    with database.read() as connection:
        models = connection.execute(sa.select(tables.model).order_by(tables.model.c.id)).all()
        how = _pairs(connection, "SELECT how, count(*) FROM verdict GROUP BY how ORDER BY how")
        people = _pairs(
            connection,
            f"SELECT a.name, count(e.id) {verdicts.FROM} WHERE {verdicts.STANDS} GROUP BY a.name ORDER BY a.name",
        )
        sources = connection.execute(sa.select(tables.source).order_by(tables.source.c.id)).all()
        holdout = len(read_holdout(connection))
        retired = connection.execute(sa.text("SELECT count(*) FROM retired")).scalar_one()
        batches = _read_batches(connection)
        budget = find_budget(connection)
        agreement = estimate_agreement(connection, holdings)
    return Status(
        holdings.kind,
        holdings.n,
        holdout,
        tuple(holdings.classes.values()),
        None if holdings.labels is None else int(np.count_nonzero(np.bincount(holdings.labels))),
        tuple({"name": row.name, "rows": row.rows, "metrics": json.loads(row.metrics)} for row in models),
        batches,
        how,
        people,
        tuple(
            {"id": row.id, "name": row.name, "complete": bool(row.complete), "retracted": row.retracted_at is not None}
            | {"summary": json.loads(row.summary)}
            for row in sources
        ),
        budget,
        int(retired),
        sum(one["tasks"].get(STATES[DISPUTED], 0) for one in batches if one["state"] == LIVE),
        agreement,
        measured,
        None if advice is None else {"verdict": advice.verdict, "reason": advice.reason},
    )


def _pairs(connection: sa.Connection, sql: str) -> dict[str, int]:
    return {str(row[0]): int(row[1]) for row in connection.execute(sa.text(sql))}


def read_open_batches(database: Database) -> tuple[Mapping[str, Any], ...]:
    """The batches that people are asked about, oldest first, with the answers that they want and those they lack."""
    live = f"state = '{LIVE}' AND kind <> '{GOLD}'"
    sql = (
        f"SELECT batch, sum(wanted), sum(CASE WHEN state < {DISPUTED} THEN wanted - given ELSE 0 END) FROM task "
        f"WHERE state <> {VOID} AND batch IN (SELECT id FROM batch WHERE {live}) GROUP BY batch"
    )
    with database.read() as connection:
        sums = {row[0]: (int(row[1]), int(row[2])) for row in connection.execute(sa.text(sql))}
        found = _read_batches(connection, live)
    return tuple({**one, **dict(zip(("wanted", "lacking"), sums.get(one["id"], (0, 0)), strict=True))} for one in found)


def _read_batches(connection: sa.Connection, some: str = "1 = 1") -> tuple[Mapping[str, Any], ...]:
    counts: dict[int, dict[str, int]] = {}
    sql = (
        f"SELECT batch, state, count(*) FROM task WHERE batch IN (SELECT id FROM batch WHERE {some}) "
        "GROUP BY batch, state ORDER BY batch, state"
    )
    for batch, state, count in connection.execute(sa.text(sql)):
        counts.setdefault(batch, {})[STATES[state]] = count
    rows = connection.execute(sa.select(tables.batch).where(sa.text(some)).order_by(tables.batch.c.id)).all()
    return tuple(
        {"id": row.id, "kind": row.kind, "strategy": row.strategy, "seed": row.seed, "model": row.model}
        | {"state": row.state, "outcome": row.outcome, "size": row.size, "tasks": counts.get(row.id, {})}
        for row in rows
    )


# Tasks.


def describe_tasks(holdings: Holdings, found: list[Task]) -> list[Asked]:
    """Tasks with the ids and contents of their rows."""
    rows = np.array([one.row for one in found], np.int64)
    ids, contents = holdings.take(rows)
    texts = [None] * len(rows) if contents is None else contents.tolist()
    return [
        Asked(one.task, one.batch, one.row, id_, text, holdings.names.get(one.class_), _when(one.until))
        for one, id_, text in zip(found, ids.tolist(), texts, strict=True)
    ]


def _when(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / 1e6, UTC)


def read_batch(database: Database, shelf: Shelf, holdings: Holdings, number: int) -> dict[str, npt.NDArray[Any]]:
    """The tasks of a batch by column, in pick order."""
    with database.read() as connection:
        batch = require_batch(connection, number)
        table = tables.task
        query = sa.select(table.c.id, table.c.row, table.c["class"], table.c.state, table.c.pick, table.c.weight)
        found = connection.execute(query.where(table.c.batch == number).order_by(table.c.pick)).all()
        guesses = None
        if batch.model is not None:
            guesses, _ = load_predictions(connection, shelf, holdings, find_model(connection, batch.model))
    whole = np.array([tuple(row[:5]) for row in found], np.int64).reshape(-1, 5)
    task, rows, classes, states, picks = whole.T
    ids, contents = holdings.take(rows)
    columns: dict[str, npt.NDArray[Any]] = {"id": ids, "task": task, "row": rows}
    if contents is not None:
        columns[str(holdings.content)] = contents
    if holdings.kind == PAIRS:
        columns["class"] = _name(classes, holdings)
    if holdings.labels is not None:
        columns["cluster"] = holdings.labels[rows]
    if guesses is not None:
        at = holdings.pairs.find(rows, classes, ignore_unknown=True) if holdings.kind == PAIRS else rows
        columns["margin"], columns["probability"] = _take(guesses.margin, at), _take(guesses.probability, at)
        if holdings.kind != PAIRS and (guesses.guess[at] != UNKNOWN_CLASS).all():
            columns["guess"] = _name(guesses.guess[at], holdings)
    weights = np.array([row.weight for row in found], np.float64)  # NaN where there is none
    if not np.isnan(weights).all():
        columns["weight"] = weights
    columns["state"] = np.array([STATES[state] for state in states.tolist()], np.object_)
    columns["pick"] = picks
    return columns


def _take(values: npt.NDArray[np.float32], at: Numbers) -> npt.NDArray[np.float32]:
    """values[at]; NaN where `at` is -1: a pair that the model does not know."""
    return np.append(values, np.float32(np.nan))[at]


def _name(classes: npt.NDArray[Any], holdings: Holdings) -> npt.NDArray[np.object_]:
    return np.array([holdings.names[number] for number in classes.tolist()], np.object_)


# The log.


def read_log(database: Database, n: int | None) -> list[Entry]:
    """The audit log, oldest first."""
    if n is not None:
        checks.integer(n, "n")
    table = tables.log
    query = sa.select(table).order_by(table.c.id.desc())
    with database.read() as connection:
        found = connection.execute(query if n is None else query.limit(n)).all()
    return [Entry(_when(row.at), row.who, row.version, row.command, json.loads(row.outcome)) for row in reversed(found)]


def hash_answers(answers: Answers) -> str:
    """A SHA-256 of answers that have no file."""
    digest = hashlib.sha256()
    for one in answers:
        digest.update(repr(one).encode())
    return digest.hexdigest()
