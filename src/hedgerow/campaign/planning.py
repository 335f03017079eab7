"""`next`: choose what to ask, and reserve it.

What waits for people, has a verdict, is retired or is in the holdout is no candidate. The selection runs outside any
transaction. If rows were reserved, released or retired meanwhile, it is repeated and never patched, so that one seed
still gives one answer. A batch is written in chunks under the state `planning`, and becomes open by the change of one
row; the planning batch is also the lock by which one reservation is written at a time. If its process dies, whoever
comes next removes what it wrote.
"""

import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow import checks
from hedgerow.campaign import database as db
from hedgerow.campaign import tables, verdicts
from hedgerow.campaign.artifacts import Shelf
from hedgerow.campaign.budget import refuse_beyond
from hedgerow.campaign.database import Database, now
from hedgerow.campaign.holdings import PAIRS, Holdings, read_holdings
from hedgerow.campaign.predictions import find_model, load_predictions
from hedgerow.campaign.tables import CLOSED, GOLD, LIVE, OPEN, PLANNING, QUEUED, SETTLED, VOID, WHOLE_ROW
from hedgerow.campaign.verdicts import ReservedError
from hedgerow.errors import CampaignError, InputError
from hedgerow.pairs import PAIR_STRATEGIES, select_pairs
from hedgerow.progress import Progress
from hedgerow.strategies import FROM_PREDICTIONS, STRATEGIES, Hedge, describe_options, find_needs, make, resolve, select
from hedgerow.strategies.cluster_margin import refuse_row_margin

Numbers = npt.NDArray[np.int64]
Result = TypeVar("Result")
CHUNK = 20_000  # tasks per transaction: a tenth of a second, in which annotators wait
HOLD_SECONDS = 60  # a planner that has not written for so long is taken for dead
WAIT_SECONDS = 0.05
MOST_REPEATS = 20
RELABEL = "relabel"  # the kind of batches about given rows
COLD = ("spread", "random")  # strategies that use no model even if there is one
DOUBLE_STREAM = 0xD0B1E  # sets the draw of doubled tasks apart from other draws with the same seed


class NothingToAskError(CampaignError):
    """None of the rows that were named can be asked about."""


class _RacedError(Exception):
    """Somebody else reserved, released or retired rows: choose again."""


class _TakenError(_RacedError):
    """A row that was chosen waits for people in another task since."""


@dataclass(frozen=True, eq=False)
class Wish:
    """What `next` is asked for. strategy: a name, an instance or None for the default. double: a share of the tasks."""

    k: int
    strategy: Any = None
    options: Mapping[str, Any] | None = None
    seed: int = 0
    model: str | int | None = None
    answers: int = 1
    double: float = 0.0
    allow_short: bool = False
    over_budget: bool = False
    progress: Progress | bool | None = None


@dataclass(frozen=True, eq=False)
class Choice:
    """What was chosen, in pick order, and on what basis."""

    rows: Numbers
    classes: Numbers
    kind: str  # pick, cold or relabel
    strategy: str
    settings: Mapping[str, Any]
    model: int | None
    basis: int
    generation: int
    given: Numbers | int = 0  # the answers that each has already, for batches that ask again
    weights: npt.NDArray[np.float64] | None = None  # one over the probability of each pick, if the strategy knows it


def check_wish(wish: Wish) -> Wish:
    """The arguments of `next`, checked."""
    checks.integer(wish.k, "k", least=1)
    checks.seed(wish.seed)
    checks.integer(wish.answers, "answers", least=1)
    double = checks.real(wish.double, "double", least=0)
    if double > 1:
        raise InputError(f"double must be a share between 0 and 1 (or 0% and 100%), got {double:g}")
    if double and wish.answers > 1:
        raise InputError("double is for batches with one answer per task: with answers=2 or more, all have several")
    return wish


def plan(database: Database, shelf: Shelf, holdings: Holdings, wish: Wish) -> int:
    """Choose and reserve; returns the number of the new batch."""
    for _ in range(MOST_REPEATS):
        clear(database)
        try:
            choice = choose(database, shelf, holdings, wish)
            if not wish.over_budget:  # whoever reserves meanwhile makes this choice be repeated
                refuse_beyond(database, int(_draw_wanted(len(choice.rows), wish).sum()))
            return reserve(database, choice, wish)
        except _RacedError:
            holdings = read_holdings(database, shelf)
    raise _give_up()


def _give_up() -> CampaignError:
    return CampaignError(f"other processes reserved rows during each of {MOST_REPEATS} selections: try again later")


# Choosing.


def choose(database: Database, shelf: Shelf, holdings: Holdings, wish: Wish) -> Choice:
    """The next picks, without reserving them."""
    wait(database)
    with database.read() as connection:
        if find_planning(connection) or db.read_edition(connection) != holdings.edition:
            raise _RacedError  # rows are not all here yet, or not all known
        generation = int(db.read_meta(connection, "generation") or 0)
        basis = db.last_event(connection)
        closed, apart = find_closed(connection, holdings), find_apart(connection, holdings)
        row = find_model(connection, wish.model)
        predictions, whole = (None, None) if row is None else load_predictions(connection, shelf, holdings, row)
    known = PAIR_STRATEGIES if holdings.kind == PAIRS else STRATEGIES
    strategy = wish.strategy or _default(database, holdings, predictions is not None)
    if isinstance(strategy, str):
        checks.option(strategy, "strategy", dict.fromkeys([*known, *COLD]))
    cold = isinstance(strategy, str) and strategy in COLD
    inputs: dict[str, Any] = {}
    if strategy == "spread":
        chosen: Any = _spread_pairs if holdings.kind == PAIRS else _spread
        inputs["clusters"] = _require(holdings.labels, "spread", "clusters")
    else:
        chosen = make(strategy, wish.options, known) if isinstance(strategy, str) else strategy
        if isinstance(chosen, Hedge):
            chosen = count_labels(database, holdings, chosen)
        needs = find_needs(chosen, known)
        if predictions is None:
            cold = True
            inputs = _gather_cold(holdings, strategy, needs, known)
        else:
            inputs = _gather(holdings, needs, predictions, whole)
            if not cold:
                if holdings.kind != PAIRS:
                    apart |= ~(predictions.known | closed)
                closed |= ~predictions.known
    common: dict[str, Any] = {
        "labeled": closed,
        "seed": wish.seed,
        "allow_short": wish.allow_short,
        "progress": wish.progress,
    }
    settings = {"options": describe_options(chosen), "k": wish.k, "answers": wish.answers, "double": wish.double}
    name = strategy if isinstance(strategy, str) else resolve(strategy, known)[0]
    model = None if cold or row is None else row.id
    batch: Any
    if holdings.kind == PAIRS:
        batch = select_pairs(chosen, wish.k, pairs=holdings.pairs, **inputs, **common)
        classes = batch.classes.astype(np.int64)
    else:
        batch = select(_set_apart(chosen, apart), wish.k, **inputs, **common)
        classes = np.full(len(batch), WHOLE_ROW, np.int64)
    kind = "cold" if cold else "pick"
    return Choice(batch.rows, classes, kind, name, settings, model, basis, generation, weights=batch.weights)


def count_labels(database: Database, holdings: Holdings, strategy: Hedge) -> Hedge:
    """The strategy with the numbers of labels and classes, where it has none of its own."""
    if strategy.labels is not None and strategy.classes is not None:
        return strategy
    found = {"labels": _count_verdicts(database), "classes": max(1, len(holdings.classes))}
    return replace(strategy, **{key: value for key, value in found.items() if getattr(strategy, key) is None})


def _count_verdicts(database: Database) -> int:
    """The labels that a model can learn from: rows of the holdout are none, though no candidates either."""
    with database.read() as connection:
        labels = connection.execute(
            sa.text(
                "SELECT count(*) FROM verdict WHERE row NOT IN "
                "(SELECT t.row FROM task t JOIN batch b ON b.id = t.batch WHERE b.kind = 'holdout')"
            )
        ).scalar_one()
    return int(labels)


def _default(database: Database, holdings: Holdings, has_model: bool) -> str:
    """The strategy to use if none is named."""
    if not has_model:
        return "spread" if holdings.clustered else "random"
    if holdings.kind == PAIRS:
        return "stochastic-margin"
    if not holdings.clustered:
        return "margin"
    # A model that learned elsewhere, from labels that the campaign does not know: hedge would not trust it at all.
    return "hedge" if _count_verdicts(database) else "cluster-margin"


def _gather_cold(holdings: Holdings, strategy: Any, needs: frozenset[str], known: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a strategy while there is no model; an error if it cannot do without."""
    if needs & FROM_PREDICTIONS:
        free = [name for name in known if not find_needs(name, known) & FROM_PREDICTIONS]
        raise CampaignError(
            f"the strategy {strategy!s} needs a model: register predictions with `hedgerow campaign predict`, or use "
            f"{', '.join(sorted({*free, *COLD}))}"
        )
    inputs: dict[str, Any] = {}
    if "clusters" in needs:
        inputs["clusters"] = _require(holdings.labels, str(strategy), "clusters")
    if "embeddings" in needs:
        inputs["embeddings"] = _require(holdings.embeddings, str(strategy), "embeddings")
    return inputs


def _gather(holdings: Holdings, needs: frozenset[str], predictions: Any, whole: Any) -> dict[str, Any]:
    """The inputs that a strategy needs, in the order of the pool."""
    inputs: dict[str, Any] = {}
    if "clusters" in needs and holdings.clustered:
        inputs["clusters"] = holdings.labels
    if "embeddings" in needs and holdings.embeddings is not None:
        inputs["embeddings"] = holdings.embeddings
    if holdings.kind == PAIRS:
        return inputs | {"probabilities": np.where(predictions.known, predictions.probability, np.float32(0.5))}
    if "probabilities" in needs and whole is not None:
        return inputs | {"probabilities": whole}
    if "margins" in needs or not needs:
        inputs["margins"] = np.where(predictions.known, predictions.margin, np.float32(1))
    return inputs


def _set_apart(strategy: Any, apart: npt.NDArray[np.bool_]) -> Any:
    """The strategy on a view whose rows `apart` count as closed, but not as labeled."""
    refuse_row_margin(strategy)

    def choose(view: Any, k: int, rng: np.random.Generator) -> Any:
        return strategy(replace(view, absent=apart), k, rng)

    if hasattr(strategy, "needs"):
        choose.needs = strategy.needs  # type: ignore[attr-defined]
    return choose


def _require(value: Any, strategy: str, what: str) -> Any:
    if value is None:
        raise CampaignError(f"the strategy {strategy!r} needs {what}, which this campaign does not have")
    return value


def _spread(view: Any, k: int, rng: np.random.Generator) -> Numbers:
    """Random rows, at most one of a cluster before every cluster had one, and so on."""
    rows = rng.permutation(view.unlabeled_rows())
    return rows[_first_of_each(view.clusters[rows])[:k]]


def _spread_pairs(view: Any, k: int, rng: np.random.Generator) -> Numbers:
    """Random pairs, in the same way by the clusters of their rows."""
    open_ = np.arange(len(view.pairs)) if view.labeled is None else np.flatnonzero(~view.labeled)
    index = rng.permutation(open_)
    return index[_first_of_each(view.clusters[view.pairs.rows[index]])[:k]]


def _first_of_each(groups: npt.NDArray[Any]) -> Numbers:
    """Positions: the first of every group in order of appearance, then the second of every group, and so on."""
    order = np.argsort(groups, kind="stable")
    starts = np.ones(len(groups), np.bool_)
    starts[1:] = groups[order][1:] != groups[order][:-1]
    place = np.arange(len(groups))
    rank = np.empty(len(groups), np.int64)
    rank[order] = place - np.maximum.accumulate(np.where(starts, place, 0))
    return np.argsort(rank, kind="stable")


def find_apart(connection: sa.Connection, holdings: Holdings) -> npt.NDArray[np.bool_]:
    """The rows of the holdout, which no model is trained on, and retired ones: closed, whatever their labels."""
    apart = np.zeros(holdings.n, np.bool_)
    holdout = "SELECT t.row FROM task t JOIN batch b ON b.id = t.batch WHERE b.kind = 'holdout'"
    for query in (holdout, "SELECT row FROM retired"):
        apart[_column(connection, query)] = True
    return apart


def find_closed(connection: sa.Connection, holdings: Holdings) -> npt.NDArray[np.bool_]:
    """The rows (or pairs) that are no candidates: waiting, with a verdict, retired, in the holdout."""
    taken = connection.execute(
        sa.text(f"SELECT row, class FROM task WHERE state < {SETTLED} UNION ALL SELECT row, class FROM verdict")
    ).all()
    rows = np.fromiter((row[0] for row in taken), np.int64, len(taken))
    whole = find_apart(connection, holdings)
    if holdings.kind != PAIRS:
        whole[rows] = True
        return whole
    pairs = holdings.pairs
    closed = whole[pairs.rows]
    classes = np.fromiter((row[1] for row in taken), np.int64, len(taken))
    found = pairs.find(rows, classes, ignore_unknown=True)
    closed[found[found >= 0]] = True
    return closed


def _column(connection: sa.Connection, sql: str) -> Numbers:
    return np.array(connection.execute(sa.text(sql)).scalars().all(), np.int64)


# Reserving.


def reserve(database: Database, choice: Choice, wish: Wish) -> int:
    """Write a choice as a batch, if nothing was reserved since it was made."""
    planner = f"{socket.gethostname()}:{os.getpid()}"
    with database.write() as connection:
        if int(db.read_meta(connection, "generation") or 0) != choice.generation or find_planning(connection):
            raise _RacedError
        db.bump(connection)
        values = {"kind": choice.kind, "model": choice.model, "strategy": choice.strategy, "seed": wish.seed}
        values |= {"settings": json.dumps(choice.settings), "basis": choice.basis, "state": PLANNING, "at": now()}
        values |= {"size": len(choice.rows), "planner": planner, "until": now() + HOLD_SECONDS * 1_000_000}
        insert = sa.insert(tables.batch).values(**values).returning(tables.batch.c.id)
        number = int(connection.execute(insert).scalar_one())
    wanted = _draw_wanted(len(choice.rows), wish) + choice.given
    # In the order of the pool, as answers are applied: both then go through tables and indices from front to back.
    order = np.lexsort((choice.classes, choice.rows))
    try:
        for start in range(0, len(order), CHUNK):
            _write_tasks(database, number, choice, order[start : start + CHUNK], wanted)
    except _TakenError:
        _drop(database, number)
        raise
    with database.write() as connection:
        _renew(connection, number)
        _open_batch(database, connection, number)
        facts = {"batch": number, "strategy": choice.strategy, "size": len(choice.rows), "seed": wish.seed}
        database.note(connection, "relabel" if choice.kind == RELABEL else "next", facts)
    return number


def _write_tasks(database: Database, number: int, choice: Choice, picks: Numbers, wanted: Numbers) -> None:
    """Some of the tasks of a batch that is planned."""
    columns = {"batch": number, "pick": picks, "row": choice.rows[picks], "class": choice.classes[picks]}
    columns |= {"wanted": wanted[picks], "given": 0, "state": OPEN}
    if choice.weights is not None:
        columns["weight"] = choice.weights[picks]
    with database.write() as connection:
        _renew(connection, number)
        try:
            database.insert_many(connection, "task", columns)
        except sa.exc.IntegrityError:  # answers were taken back, so that an older task about one of the rows is open
            raise _TakenError from None


def reserve_rows(
    database: Database,
    rows: Numbers,
    classes: Numbers | None = None,
    *,
    reason: str,
    answers: int = 1,
    over_budget: bool = False,
) -> int:
    """Ask about given rows (of pairs, about these classes of them) as a batch of kind `relabel`; returns its number.

    Each task wants so many answers more than there are: whoever has answered is not asked again. What waits for people
    already, or was retired, is left out. reason: takes the place of a strategy, as in "split dog".
    """
    asked = np.full(len(rows), WHOLE_ROW, np.int64) if classes is None else classes
    wish = check_wish(Wish(max(1, len(rows)), answers=answers))
    for _ in range(MOST_REPEATS):
        clear(database)
        wait(database)
        try:
            choice = _choose_again(database, rows, asked, reason, wish)
            if not over_budget:
                refuse_beyond(database, answers * len(choice.rows))
            return reserve(database, choice, wish)
        except _RacedError:
            continue
    raise _give_up()


def _choose_again(database: Database, rows: Numbers, classes: Numbers, reason: str, wish: Wish) -> Choice:
    """Those of some rows or pairs that can be asked about, each once, in their order."""
    with database.read() as connection:
        if find_planning(connection):
            raise _RacedError
        generation, basis = int(db.read_meta(connection, "generation") or 0), db.last_event(connection)
        some = {"rows": database.listed(np.unique(rows))}
        here = database.among("row", "rows")
        sql = f'SELECT row, "class" FROM task WHERE state < {SETTLED} AND {here}'
        waiting = set(map(tuple, connection.execute(sa.text(sql), some)))
        gone = set(connection.execute(sa.text(f"SELECT row FROM retired WHERE {here}"), some).scalars())
        sql = f'SELECT row, "class", given FROM verdict WHERE {here}'
        given = {(row[0], row[1]): int(row[2]) for row in connection.execute(sa.text(sql), some)}
    pairs = dict.fromkeys(zip(rows.tolist(), classes.tolist(), strict=True))
    kept = [pair for pair in pairs if pair not in waiting and pair[0] not in gone]
    if not kept:
        raise NothingToAskError("there is nothing to ask again: every row waits for people already, or was retired")
    chosen = np.array(kept, np.int64)
    counts = np.array([given.get(pair, 0) for pair in kept], np.int64)
    settings = {"answers": wish.answers}
    return Choice(chosen[:, 0], chosen[:, 1], RELABEL, reason, settings, None, basis, generation, counts)


def _draw_wanted(n: int, wish: Wish) -> Numbers:
    """How many answers each task is to get."""
    wanted = np.full(n, wish.answers, np.int64)
    if wish.double:
        rng = np.random.default_rng([DOUBLE_STREAM, wish.seed])
        wanted[rng.choice(n, round(wish.double * n), replace=False)] = 2
    return wanted


def _renew(connection: sa.Connection, number: int) -> None:
    """Note that the planner of a batch is alive; refused if the batch was taken for dead."""
    table = tables.batch
    mine = (table.c.id == number) & (table.c.state == PLANNING)
    renewed = connection.execute(sa.update(table).where(mine).values(until=now() + HOLD_SECONDS * 1_000_000))
    if renewed.rowcount != 1:
        raise _RacedError


def _open_batch(database: Database, connection: sa.Connection, number: int) -> None:
    table = tables.batch
    connection.execute(sa.update(table).where(table.c.id == number).values(state=LIVE, planner=None, until=None))
    db.bump(connection)
    # Rows that were retired, or that somebody answered, between the selection and now.
    gone = f"UPDATE task SET state = {VOID} WHERE batch = :batch AND row IN (SELECT row FROM retired)"
    connection.execute(sa.text(gone), {"batch": number})
    sql = "SELECT t.row FROM task t JOIN verdict v ON v.row = t.row AND v.class = t.class WHERE t.batch = :batch"
    answered = connection.execute(sa.text(sql), {"batch": number}).scalars().all()
    if answered:
        verdicts.refresh(database, connection, answered)


def find_planning(connection: sa.Connection) -> list[Any]:
    """The batches that are just being written, one at most."""
    table = tables.batch
    return list(connection.execute(sa.select(table).where(table.c.state == PLANNING)).all())


def _is_alive(row: Any) -> bool:
    """Whether the planner of a batch may still be writing."""
    host, _, process = str(row.planner).rpartition(":")
    if host == socket.gethostname():
        try:
            os.kill(int(process), 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
    return bool(row.until > now())


def wait(database: Database) -> None:
    """Wait until nobody plans."""
    while True:
        with database.read() as connection:
            planning = find_planning(connection)
        if not planning:
            return
        if not all(_is_alive(row) for row in planning):
            clear(database)
        else:
            time.sleep(WAIT_SECONDS)


def repeat(database: Database, change: Callable[[], Result]) -> Result:
    """What `change` returns, tried again when nobody plans if it opens a task about a row that is being reserved."""
    for _ in range(MOST_REPEATS):
        try:
            return change()
        except ReservedError:
            wait(database)
    return change()


# Ending batches, and finishing what was interrupted.


def clear(database: Database) -> None:
    """Remove the batches of dead planners; void the tasks that closed batches still have open."""
    with database.read() as connection:
        dead = [row.id for row in find_planning(connection) if not _is_alive(row)]
        sql = f"SELECT 1 FROM task t JOIN batch b ON b.id = t.batch WHERE b.state = '{CLOSED}' AND t.{QUEUED}"
        leftover = connection.execute(sa.text(f"{sql} LIMIT 1")).first() is not None
    for number in dead:
        _drop(database, number)
    if leftover:
        void_closed(database)


def _drop(database: Database, number: int) -> None:
    """Delete the tasks of a dead planner in chunks, and then its batch."""
    some = "SELECT id FROM task WHERE batch = :batch ORDER BY id LIMIT :most"
    while True:
        with database.write() as connection:
            mark = sa.update(tables.batch).where((tables.batch.c.id == number) & (tables.batch.c.state == PLANNING))
            connection.execute(mark.values(planner="nobody:0", until=0))
            gone = connection.execute(
                sa.text(f"DELETE FROM task WHERE id IN ({some})"), {"batch": number, "most": CHUNK}
            )
            if gone.rowcount < CHUNK:
                db.bump(connection)
                here = (tables.batch.c.id == number) & (tables.batch.c.state == PLANNING)
                connection.execute(sa.delete(tables.batch).where(here))
                return


def void_closed(database: Database) -> None:
    """Void, in chunks, what closed batches still have open, and end its leases."""
    some = (
        f"SELECT t.id FROM task t JOIN batch b ON b.id = t.batch WHERE b.state = '{CLOSED}' AND t.{QUEUED} LIMIT :most"
    )
    while True:
        with database.write() as connection:
            numbers = connection.execute(sa.text(some), {"most": CHUNK}).scalars().all()
            listed = {"tasks": database.listed(numbers)}
            connection.execute(sa.text(f"DELETE FROM lease WHERE {database.among('task', 'tasks')}"), listed)
            void = f"UPDATE task SET state = {VOID} WHERE {database.among('id', 'tasks')}"
            connection.execute(sa.text(void), listed)
            if len(numbers) < CHUNK:
                db.bump(connection)
                return


def close(database: Database, number: int, *, undo: bool) -> str:
    """Close a batch; returns the outcome. undo: cancel it, which is possible while nobody has answered."""
    with database.write() as connection:
        row = require_batch(connection, number)
        if row.kind == GOLD:
            raise CampaignError("gold questions are not a batch to close: switch them off with `gold --share 0`")
        if row.state != LIVE:
            raise CampaignError(f"batch {number} is {row.state}{f' ({row.outcome})' if row.outcome else ''} already")
        if undo:
            _refuse_undo(connection, row)
        left = f"SELECT count(*) FROM task WHERE batch = :batch AND {QUEUED}"
        short = connection.execute(sa.text(left), {"batch": number}).scalar_one()
        outcome = "cancelled" if undo else "short" if short else "full"
        values = {"state": CLOSED, "outcome": outcome, "closed_at": now()}
        connection.execute(sa.update(tables.batch).where(tables.batch.c.id == number).values(**values))
        db.bump(connection)
        database.note(connection, "undo" if undo else "close", {"batch": number, "outcome": outcome})
    void_closed(database)
    return outcome


def _refuse_undo(connection: sa.Connection, row: Any) -> None:
    if row.kind == "holdout":
        raise CampaignError("the holdout cannot be undone: it is drawn once, before anything is picked")
    answered = (
        f"SELECT count(*) {verdicts.FROM} JOIN task t ON t.id = e.task WHERE t.batch = :batch AND {verdicts.COUNTS}"
    )
    count = connection.execute(sa.text(answered), {"batch": row.id}).scalar_one()
    if count:
        raise CampaignError(f"batch {row.id} has {count:,} answers and cannot be undone: close it instead")


def require_batch(connection: sa.Connection, number: int) -> Any:
    """The row of a batch that is not just being planned."""
    found = connection.execute(sa.select(tables.batch).where(tables.batch.c.id == number)).first()
    if found is None or found.state == PLANNING:
        raise CampaignError(f"there is no batch {number}")
    return found
