"""`spread`: labels carried from people's examples to the rest of a pure cluster.

A cluster is pure if people labeled at least `least` of its rows and the share of these that agree is at least `purity`.
That is the plain share and no confidence bound: three of three are 100%, and say little alone. What makes the labels
trustworthy is measured instead, on the holdout, which takes no part in finding pure clusters: of its labeled rows in
such clusters, how many have another label than the one that would be carried? Wilson's interval for that share must end
below `max_error`; if the holdout is too small to show it, a run needs `unmeasured`. Rows that people found unsure or
disputed count as examples that do not agree; broken ones do not count.

In a multi-label campaign whole sets of classes must agree. In a campaign of pairs each class is treated by itself: a
cluster may be pure for one class and not for another, and the pairs of that class get the yes or no.

A run is a file, named by its row in the database. It is no verdict: nothing trains on it, its rows can still be picked,
and where a person says something, that rules. Only the newest run that was not undone is in use.
"""

import json
import math
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow import checks, pool
from hedgerow.campaign import artifacts, tables, verdicts
from hedgerow.campaign import database as db
from hedgerow.campaign.artifacts import Shelf
from hedgerow.campaign.database import Database, now
from hedgerow.campaign.holdings import MULTI_LABEL, PAIRS, Holdings, read_holdout
from hedgerow.campaign.quality import find_leading, find_wilson
from hedgerow.campaign.tables import WHOLE_ROW
from hedgerow.campaign.verdicts import NO_VALUE, Numbers, Verdicts
from hedgerow.errors import CampaignError, InputError

CURRENT, REPLACED, UNDONE, TRIAL = "current", "replaced", "undone", "trial"
Z = 1.959964  # of the 95% interval
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Rule:
    """Which clusters are pure, and what error is accepted. unmeasured: also one that the holdout cannot show."""

    purity: float = 0.95
    least: int = 3
    max_error: float = 0.05
    unmeasured: bool = False


@dataclass(frozen=True, eq=False)
class Marks:
    """Which rows are in the holdout, and which are retired; a row is not both."""

    holdout: Mask
    retired: Mask


def read_marks(connection: sa.Connection, n: int) -> Marks:
    """The marks of n rows."""
    holdout, retired = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    holdout[read_holdout(connection)] = True
    retired[verdicts.fetch_numbers(connection, 'SELECT "row" FROM retired', 1)[:, 0]] = True
    return Marks(holdout, retired)


@dataclass(frozen=True, eq=False)
class Carried:
    """Labels that were carried over, by row and class. support: how many examples of the cluster have the label."""

    row: Numbers
    class_: Numbers
    value: Numbers
    support: Numbers


@dataclass(frozen=True)
class Measured:
    """How often labels turned out wrong, of those that could be checked, with Wilson's interval."""

    checked: int
    wrong: int

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the 95% interval; 0 to 1 if nothing was checked."""
        low, high = find_wilson(self.wrong, self.checked)
        return float(low), float(high)

    def to_json(self) -> dict[str, Any]:
        """The same in plain types."""
        return asdict(self) | {"low": self.interval[0], "high": self.interval[1]}

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.wrong / max(1, self.checked):.1%} ({low:.1%} to {high:.1%}, {self.wrong:,} of {self.checked:,})"


@dataclass(frozen=True)
class Spread:
    """A run of `spread`. run: its number, None for a trial. state: current, replaced, undone or trial.

    rows: how many rows (or pairs) got a label, in how many clusters. holdout: the error that was measured before.
    later: what people said about these rows afterwards.
    """

    run: int | None
    state: str
    rows: int
    clusters: int
    rule: Rule
    holdout: Measured
    later: Measured
    at: datetime

    def to_json(self) -> dict[str, Any]:
        """The same in plain types."""
        measured = {"holdout": self.holdout.to_json(), "later": self.later.to_json()}
        return asdict(self) | measured | {"at": self.at.isoformat(timespec="seconds")}

    def __str__(self) -> str:
        name = "trial" if self.run is None else f"spread {self.run} ({self.state})"
        error = f"error on the holdout {self.holdout}" if self.holdout.checked else "error not measured"
        said = f"; later contradicted by people {self.later}" if self.later.checked else ""
        return f"{name}: {self.rows:,} labels in {self.clusters:,} clusters; {error}{said}"


def check_rule(rule: Rule) -> Rule:
    """The arguments of `spread`, checked."""
    if not 0.5 < checks.real(rule.purity, "purity") <= 1:
        raise InputError(f"purity must be above 0.5 and at most 1, got {rule.purity:g}")
    if not 0 < checks.real(rule.max_error, "max_error") <= 1:
        raise InputError(f"max_error must be above 0 and at most 1, got {rule.max_error:g}")
    checks.integer(rule.least, "least", least=1)
    return rule


def spread(database: Database, shelf: Shelf, holdings: Holdings, rule: Rule, *, trial: bool) -> Spread:
    """Carry labels over, if their error is small enough. trial: only say what would be done, whatever the error."""
    if holdings.labels is None:
        raise CampaignError(
            "spread needs clusters, which this campaign does not have: begin one with embeddings (`hedgerow campaign "
            "init --embeddings FILE`) or clusters (--clusters FILE)"
        )
    with database.read() as connection:
        found = verdicts.read_verdicts(connection)
        marks = read_marks(connection, holdings.n)
        basis = db.last_event(connection)
    groups = _find_pure(found, marks, holdings, rule)
    carried = _carry(found, marks, holdings, groups)
    measured = _measure(found, marks, holdings, groups)
    clusters = len(np.unique(holdings.labels[carried.row]))
    done = Spread(
        None,
        TRIAL,
        len(carried.row),
        clusters,
        rule,
        measured,
        Measured(0, 0),
        datetime.fromtimestamp(now() / 1e6, UTC),
    )
    if trial:
        return done
    if not done.rows:
        raise CampaignError(
            f"nothing to spread: no cluster with unlabeled rows has at least {rule.least} labels of which "
            f"{rule.purity:.0%} agree"
        )
    _refuse_error(measured, rule)
    return _store(database, shelf, carried, done, basis)


# Pure clusters. A group is a cluster, or in a campaign of pairs a cluster and a class.


@dataclass(frozen=True, eq=False)
class _Groups:
    """The pure groups, ordered by cluster and class, with the value that their examples agree on."""

    cluster: Numbers
    class_: Numbers
    value: Numbers
    support: Numbers

    def find(self, clusters: npt.NDArray[Any], classes: Numbers) -> Numbers:
        """The place of each cluster and class among these; -1 if it is not pure."""
        return verdicts.find_places(clusters.astype(np.int64), classes, self.cluster, self.class_)


def _find_pure(found: Verdicts, marks: Marks, holdings: Holdings, rule: Rule) -> _Groups:
    assert holdings.labels is not None
    taught = ~marks.holdout[found.row] & ~marks.retired[found.row] & (found.how != verdicts.BROKEN_ONLY)
    cluster = holdings.labels[found.row].astype(np.int64)[taught]
    class_, value = found.class_[taught], found.value[taught]
    width = len(holdings.classes) + 1
    width = max(width, int(class_.max(initial=WHOLE_ROW)) + 2)
    keys, group = np.unique(cluster * width + class_ - WHOLE_ROW, return_inverse=True)
    total = np.bincount(group, minlength=len(keys))
    named = _name_a_label(found.how, holdings)[taught]
    best, support, _ = find_leading(group[named], value[named], len(keys))
    pure = (total >= rule.least) & (support >= rule.purity * total * (1 - 1e-12)) & (support > 0)
    clusters, classes = np.divmod(keys[pure], width)
    return _Groups(clusters, classes + WHOLE_ROW, best[pure], support[pure])


def _name_a_label(how: Numbers, holdings: Holdings) -> Mask:
    """Whether verdicts name a label; for sets of classes, none of these is the empty set."""
    naming = [verdicts.MAJORITY, verdicts.ADJUDICATED]
    named: Mask = np.isin(how, [*naming, verdicts.NONE] if holdings.kind == MULTI_LABEL else naming)
    return named


def _carry(found: Verdicts, marks: Marks, holdings: Holdings, groups: _Groups) -> Carried:
    """The labels for rows (or pairs) of pure groups of which nobody said anything."""
    assert holdings.labels is not None
    if holdings.kind == PAIRS:
        rows, classes = holdings.pairs.rows.astype(np.int64), holdings.pairs.classes.astype(np.int64)
        said = holdings.pairs.find(found.row, found.class_, ignore_unknown=True)
        said = said[said >= 0]
    else:
        rows, classes = np.arange(holdings.n), np.full(holdings.n, WHOLE_ROW, np.int64)
        said = found.row
    place = groups.find(holdings.labels[rows], classes)
    open_ = (place >= 0) & ~marks.holdout[rows] & ~marks.retired[rows]
    open_[said] = False
    at = np.flatnonzero(open_)
    at = at[np.lexsort((classes[at], rows[at]))]
    return Carried(rows[at], classes[at], groups.value[place[at]], groups.support[place[at]])


def _measure(found: Verdicts, marks: Marks, holdings: Holdings, groups: _Groups) -> Measured:
    """How many labeled rows (or pairs) of the holdout in pure groups have another label than would be carried."""
    assert holdings.labels is not None
    place = groups.find(holdings.labels[found.row], found.class_)
    named = _name_a_label(found.how, holdings)
    decided = named | (found.how == verdicts.NONE)
    held = marks.holdout[found.row] & decided & (place >= 0)
    wrong = ~named[held] | (found.value[held] != groups.value[place[held]])
    return Measured(int(held.sum()), int(wrong.sum()))


def _refuse_error(measured: Measured, rule: Rule) -> None:
    low, high = measured.interval
    few = Measured(measured.checked, 0).interval[1] > rule.max_error  # even without a wrong one
    if low > rule.max_error or (high > rule.max_error and not few):
        raise CampaignError(
            f"the error on the holdout is {measured}, and it must be shown to be at most {rule.max_error:.1%}: raise "
            "purity, least or max_error"
        )
    if few and not rule.unmeasured:
        needed = math.ceil(Z * Z * (1 - rule.max_error) / rule.max_error)
        raise CampaignError(
            f"the error cannot be estimated: {measured.checked:,} labels of the holdout are in pure clusters, and at "
            f"least {needed:,} are needed to show an error of at most {rule.max_error:.1%}: label more of the holdout, "
            "or pass unmeasured=True (--unmeasured)"
        )


# Runs.


def _store(database: Database, shelf: Shelf, carried: Carried, done: Spread, basis: int) -> Spread:
    columns = {"row": carried.row, "class": carried.class_, "value": carried.value, "support": carried.support}

    def write(path: Path) -> None:
        pool.write_table(path, columns, {}, force=True)

    with shelf.hold():
        made = shelf.add("spread", ".parquet", write)
        with database.write() as connection:
            facts = {"rows": done.rows, "clusters": done.clusters, **asdict(done.holdout)}
            values = {**facts, "file": shelf.register(connection, "spread", *made), "basis": basis, "at": now()}
            insert = sa.insert(tables.spread).values(**values, settings=json.dumps(asdict(done.rule)))
            number = int(connection.execute(insert.returning(tables.spread.c.id)).scalar_one())
            database.note(connection, "spread", {"run": number, **facts})
    return Spread(number, CURRENT, *list(vars(done).values())[2:])


def undo(database: Database, run: int) -> None:
    """Take a run out of use; the one before it, if there is one, is in use again."""
    table = tables.spread
    with database.write() as connection:
        found = connection.execute(sa.select(table).where(table.c.id == run)).first()
        if found is None:
            raise CampaignError(f"there is no spread {run}")
        if found.undone_at is not None:
            raise CampaignError(f"spread {run} is undone already")
        connection.execute(sa.update(table).where(table.c.id == run).values(undone_at=now()))
        database.note(connection, "spread", {"run": run, "undone": True})


def list_runs(database: Database, shelf: Shelf, holdings: Holdings) -> list[Spread]:
    """All runs, oldest first, each with what people said about its rows later."""
    with database.read() as connection:
        rows = connection.execute(sa.select(tables.spread).order_by(tables.spread.c.id)).all()
        found = verdicts.read_verdicts(connection) if rows else None
        files = [_load(connection, shelf, row) for row in rows]
    newest = max((row.id for row in rows if row.undone_at is None), default=None)
    listed = []
    for row, carried in zip(rows, files, strict=True):
        assert found is not None
        state = UNDONE if row.undone_at is not None else CURRENT if row.id == newest else REPLACED
        facts = (row.rows, row.clusters, Rule(**json.loads(row.settings)), Measured(row.checked, row.wrong))
        at = datetime.fromtimestamp(row.at / 1e6, UTC)
        listed.append(Spread(row.id, state, *facts, _contradict(found, carried, holdings), at))
    return listed


def _contradict(found: Verdicts, carried: Carried, holdings: Holdings) -> Measured:
    """How often people said something else about a row that had got a label."""
    place = verdicts.find_places(found.row, found.class_, carried.row, carried.class_)
    named = _name_a_label(found.how, holdings)
    checked = (place >= 0) & (named | (found.how == verdicts.NONE))
    wrong = ~named[checked] | (found.value[checked] != carried.value[place[checked]])
    return Measured(int(checked.sum()), int(wrong.sum()))


def read_current(database: Database, shelf: Shelf) -> Carried:
    """The labels of the run in use."""
    table = tables.spread
    newest = sa.select(table).where(table.c.undone_at.is_(None)).order_by(table.c.id.desc()).limit(1)
    with database.read() as connection:
        row = connection.execute(newest).first()
        if row is None:
            raise CampaignError("no labels were spread: run `hedgerow campaign spread` first")
        return _load(connection, shelf, row)


def _load(connection: sa.Connection, shelf: Shelf, row: Any) -> Carried:
    held = shelf.find(connection, row.file)
    artifacts.check(held)
    columns = (pool.as_vector(held.path, name, column=name) for name in ("row", "class", "value", "support"))
    carried = Carried(*(column.astype(np.int64, copy=False) for column in columns))
    return translate(carried, verdicts.read_meaning(connection))


def translate(carried: Carried, meaning: Numbers) -> Carried:
    """Labels in the classes of now; those that mean nothing any more, as after a split, are dropped."""
    at = verdicts.find_meaning(carried.class_, carried.value, meaning)
    changed = at >= 0
    if not changed.any():
        return carried
    class_, value = carried.class_.copy(), carried.value.copy()
    class_[changed], value[changed] = meaning[at[changed], 2], meaning[at[changed], 3]
    order = np.lexsort((class_, carried.row))
    row, class_, value, support = (column[order] for column in (carried.row, class_, value, carried.support))
    keep = class_ != NO_VALUE
    keep[1:] &= (row[1:] != row[:-1]) | (class_[1:] != class_[:-1])  # two classes of a row may have become one
    return translate(Carried(row[keep], class_[keep], value[keep], support[keep]), meaning)  # one merge after another
