"""What a campaign yields: labels and votes by column, ready for training.

A label is a verdict that names a class: a name (multi-class), a tuple of names (multi-label, empty for "none of
these"), 0 or 1 (pairs). Unsure, disputed and broken rows have none, and neither has "none of these" in a multi-class
campaign. The holdout is apart: a model that was trained on it cannot be measured on it. Labels that were carried over
by `spread` come only if they are asked for, and never in the place of what people said.

A million rows are read as numbers; names are looked up by code.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow import checks
from hedgerow.campaign import exports, tables, verdicts
from hedgerow.campaign.answers import ANSWER, KINDS, NEVER, NONE_OF_THESE
from hedgerow.campaign.database import Database
from hedgerow.campaign.holdings import MULTI_LABEL, PAIRS, Holdings
from hedgerow.campaign.spreading import Carried, Marks, read_marks
from hedgerow.campaign.verdicts import HOW, NO_VALUE, Numbers, Verdicts
from hedgerow.errors import InputError

TRAIN, HOLDOUT, ALL = "train", "holdout", "all"
SPLITS = (TRAIN, HOLDOUT, ALL)
RETIRED, SPREAD = "retired", "spread"
MOST_EXPANDED = 50_000_000  # votes of a multi-label campaign, one per class
Mask = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]
Columns = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Wanted:
    """Which labels or votes. split: one of `SPLITS`. undecided: also those that name no class. content: with texts."""

    split: str = ALL
    undecided: bool = True
    content: bool = False


@dataclass(frozen=True, eq=False)
class Found:
    """Labels or votes by column, in the order of the pool, and how many were left out, by reason."""

    columns: Columns
    left_out: Mapping[str, int]


@dataclass(frozen=True)
class Exported:
    """What was written. rows: how many; left_out: how many are not in the files, by reason."""

    files: tuple[Path, ...]
    rows: int
    left_out: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """The same in plain types."""
        return {"files": [str(path) for path in self.files], "rows": self.rows, "left_out": dict(self.left_out)}


def describe_left_out(left_out: Mapping[str, int]) -> str:
    """The counts of what was left out in words; empty if that is nothing."""
    parts = [f"{count:,} {reason}" for reason, count in left_out.items() if count]
    return f"left out: {', '.join(parts)}" if parts else ""


# Labels.


def read_labels(database: Database, holdings: Holdings, wanted: Wanted, carried: Carried | None = None) -> Found:
    """The verdicts: id, row, class (of pairs), label, how, support, given, round, split, and weight if there are any.

    carried: labels of `spread`, for the rows (or pairs) of which nobody said anything.
    """
    checks.option(wanted.split, "split", SPLITS)
    with database.read() as connection:
        found = verdicts.read_verdicts(connection)
        rounds = _read_rounds(connection, found)
        weighted = _read_weights(connection)
        names = read_names(connection, holdings)
        marks = read_marks(connection, holdings.n)
        retired = _count_retired(connection)
    if carried is not None:
        found, rounds = _add_carried(found, rounds, carried)
    none = (found.how == verdicts.ADJUDICATED) & (found.value == NO_VALUE)  # an expert may find none of the classes
    how_known = np.where(none, verdicts.NONE, found.how)
    undecided = _undecided(holdings)
    decided = ~np.isin(how_known, undecided)
    keep, left_out = _choose(found.row, marks, wanted, {HOW[how]: how_known == how for how in undecided})
    kept = Verdicts(*(column[keep] for column in vars(found).values()))
    columns = _identify(kept.row, kept.class_, holdings, wanted)
    columns["label"] = names.find(kept.value, decided[keep])
    columns["how"] = _list_names((*HOW, SPREAD))[kept.how]
    columns |= {"support": kept.support, "given": kept.given, "round": rounds[keep]}
    columns["split"] = _list_names((TRAIN, HOLDOUT))[marks.holdout[kept.row].astype(np.int64)]
    if len(weighted):
        columns["weight"] = _find_weights(weighted, kept)
    if retired:
        left_out[RETIRED] = left_out.get(RETIRED, 0) + retired
    return Found(columns, left_out)


def _count_retired(connection: sa.Connection) -> int:
    """The retired rows, or pairs of them, that people have answered: they have no verdict any more."""
    sql = (
        'SELECT count(*) FROM (SELECT DISTINCT e."row", e."class" FROM event e JOIN retired r ON r."row" = e."row") AS '
        "answered"
    )
    return int(connection.execute(sa.text(sql)).scalar_one())


def _undecided(holdings: Holdings) -> list[int]:
    """The kinds of verdicts that name no class; for sets of classes, none of these is the empty set."""
    without = [verdicts.UNSURE_ONLY, verdicts.DISPUTE, verdicts.BROKEN_ONLY]
    return without if holdings.kind == MULTI_LABEL else [*without, verdicts.NONE]


def _add_carried(found: Verdicts, rounds: Numbers, carried: Carried) -> tuple[Verdicts, Numbers]:
    """Verdicts with the labels that were carried over, in the order of the pool; what people said rules."""
    fresh = np.flatnonzero(verdicts.find_places(carried.row, carried.class_, found.row, found.class_) < 0)
    none = np.zeros(len(fresh), np.int64)
    row, class_, value, support = (column[fresh] for column in vars(carried).values())
    more = (row, class_, value, np.full(len(fresh), len(HOW)), support, none)
    both = [np.concatenate(columns) for columns in zip((*vars(found).values(), rounds), (*more, none), strict=True)]
    order = np.lexsort((both[1], both[0]))
    return Verdicts(*(column[order] for column in both[:-1])), both[-1][order]


def _read_rounds(connection: sa.Connection, found: Verdicts) -> Numbers:
    """The round in which each row or pair was asked: 1 without a model, 2 with the first one, and so on.

    0 is the holdout, and what nobody asked for. A row that is asked again stays in the round that picked it.
    """
    models = connection.execute(sa.select(tables.model.c.id).order_by(tables.model.c.id)).scalars().all()
    place = {None: 1} | {number: at for at, number in enumerate(models, 2)}
    table = tables.batch
    picked = sa.select(table.c.id, table.c.model).where(table.c.kind.in_(["pick", "cold"]))
    by_batch = {row.id: place[row.model] for row in connection.execute(picked)}
    rounds_of = np.zeros(max(by_batch, default=0) + 1, np.int64)
    rounds_of[list(by_batch)] = list(by_batch.values())
    sql = (
        'SELECT t."row", t."class", t.batch FROM task t JOIN batch b ON b.id = t.batch WHERE t.given > 0 AND '
        "b.kind IN ('pick', 'cold') ORDER BY t.id"
    )
    asked = verdicts.fetch_numbers(connection, sql, 3)
    at = verdicts.find_places(asked[:, 0], asked[:, 1], found.row, found.class_)
    rounds = np.zeros(len(found.row), np.int64)
    rounds[at[at >= 0]] = rounds_of[asked[at >= 0, 2]]  # with several, numpy keeps the last
    return rounds


def _read_weights(connection: sa.Connection) -> Doubles:
    """(row, class, weight) of what was answered in batches with weights (m, 3); rows are exact in float64."""
    sql = 'SELECT "row", "class", weight FROM task WHERE weight IS NOT NULL AND given > 0 ORDER BY id'
    found: Any = connection.execute(sa.text(sql)).cursor
    return np.fromiter(chain.from_iterable(found), np.float64).reshape(-1, 3)


def _find_weights(weighted: Doubles, kept: Verdicts) -> Doubles:
    """The weights of some verdicts; NaN where there is none."""
    keys = weighted[:, :2].astype(np.int64)
    at = verdicts.find_places(keys[:, 0], keys[:, 1], kept.row, kept.class_)
    weights = np.full(len(kept.row), np.nan)
    weights[at[at >= 0]] = weighted[at >= 0, 2]
    return weights


# Votes.


def read_votes(database: Database, holdings: Holdings, wanted: Wanted) -> Found:
    """What each person says now: id, row, class (of pairs), annotator, value, said_at; `kind` if all kinds are wanted.

    Answers are votes; an expert's adjudication, "unsure", skips and "broken" are not. said_at: NaT if unknown.
    """
    checks.option(wanted.split, "split", SPLITS)
    sql = (
        f'SELECT e."row", e."class", e.annotator, e.kind, coalesce(e.value, {NO_VALUE}), e.id, e.seq, '
        f"coalesce(e.said_at, {NEVER}) {verdicts.FROM} WHERE {verdicts.COUNTS}"
    )
    with database.read() as connection:
        whole = verdicts.take_last(verdicts.fetch_numbers(connection, sql, 8), verdicts.read_meaning(connection))
        people = {row.id: row.name for row in connection.execute(sa.select(tables.annotator))}
        names = read_names(connection, holdings)
        marks = read_marks(connection, holdings.n)
    row, class_, annotator, kind, value, _, _, said_at = whole.T
    votes = [ANSWER, NONE_OF_THESE] if holdings.kind == MULTI_LABEL else [ANSWER]
    others = {KINDS[number]: kind == number for number in range(len(KINDS)) if number not in votes}
    keep, left_out = _choose(row, marks, wanted, others)
    columns = _identify(row[keep], class_[keep], holdings, wanted)
    columns["annotator"] = _by_code(people, annotator[keep])
    if wanted.undecided:
        columns["kind"] = _list_names(KINDS)[kind[keep]]
    decided = (value[keep] != NO_VALUE) | np.isin(kind[keep], votes)
    columns["value"] = names.find(value[keep], decided)
    columns["said_at"] = said_at[keep].astype("M8[us]")  # NEVER is NaT
    return Found(columns, left_out)


def arrange_votes(votes: Columns, holdings: Holdings, layout: str) -> Columns:
    """Votes as crowd-kit or cleanlab expect them; those for sets of classes become one yes or no per class."""
    names = list(holdings.classes.values())
    if holdings.kind == MULTI_LABEL:
        votes = _expand_sets(votes, names)
    return {name: np.asarray(column) for name, column in exports.arrange_votes(votes, layout, names).items()}


def _expand_sets(votes: Columns, names: list[str]) -> Columns:
    n, width = len(votes["id"]), len(names)
    if n * width > MOST_EXPANDED:
        raise InputError(f"{n:,} votes on {width:,} classes are {n * width:,} answers: export the votes as they are")
    said = [set(value) for value in votes["value"].tolist()]
    return {
        "id": np.repeat(votes["id"], width),
        "class": np.tile(_list_names(names), n),
        "annotator": np.repeat(votes["annotator"], width),
        "value": np.array([[name in one for name in names] for one in said], np.int64).reshape(-1),
    }


# Both.


@dataclass(frozen=True, eq=False)
class Names:
    """Stored values in words: `words` by place, for the values in `codes`, which ascend."""

    codes: Numbers
    words: npt.NDArray[Any]
    numeric: bool

    def find(self, values: Numbers, decided: Mask) -> npt.NDArray[Any]:
        """The words of some values; None where nothing was decided."""
        if self.numeric and decided.all():
            return values
        words: npt.NDArray[Any] = self.words[np.searchsorted(self.codes, values)]
        words[~decided] = None
        return words


def read_names(connection: sa.Connection, holdings: Holdings) -> Names:
    """The words of all values that verdicts and votes can have."""
    if holdings.kind == PAIRS:
        return Names(np.array([NO_VALUE, 0, 1]), np.array([None, 0, 1], np.object_), True)
    named: dict[int, Any] = dict(holdings.names)
    if holdings.kind == MULTI_LABEL:
        table = connection.execute(sa.select(tables.labelset.c.id, tables.labelset.c.classes)).all()
        named = {row[0]: _name_set(row[1], holdings) for row in table}
    named[NO_VALUE] = ()
    codes = sorted(named)
    return Names(np.array(codes, np.int64), _list_names([named[code] for code in codes]), False)


def _name_set(text: str, holdings: Holdings) -> tuple[str, ...]:
    """The names of a stored set of classes, such as "0,3"; classes that were merged since are one."""
    return tuple(dict.fromkeys(holdings.names[int(number)] for number in text.split(",")))


def _list_names(names: Any) -> npt.NDArray[np.object_]:
    """Any Python objects, tuples among them, as an array of them."""
    listed = np.empty(len(names), np.object_)
    listed[:] = list(names)
    return listed


def _by_code(names: Mapping[int, str], codes: Numbers) -> npt.NDArray[np.object_]:
    listed = np.empty(max(names, default=0) + 1, np.object_)
    for code, name in names.items():
        listed[code] = name
    taken: npt.NDArray[np.object_] = listed[codes]
    return taken


def _choose(rows: Numbers, marks: Marks, wanted: Wanted, undecided: Mapping[str, Mask]) -> tuple[Mask, dict[str, int]]:
    """(which to keep, how many are left out by reason: each is counted once)."""
    reasons = {RETIRED: marks.retired[rows]}
    if wanted.split != ALL:
        other = HOLDOUT if wanted.split == TRAIN else TRAIN
        reasons[other] = marks.holdout[rows] == (other == HOLDOUT)
    if not wanted.undecided:
        reasons |= undecided
    keep = np.ones(len(rows), np.bool_)
    left_out = {}
    for reason, out in reasons.items():
        left_out[reason] = int((out & keep).sum())
        keep &= ~out
    return keep, {reason: count for reason, count in left_out.items() if count}


def _identify(rows: Numbers, classes: Numbers, holdings: Holdings, wanted: Wanted) -> Columns:
    """The columns that say what a label or vote is about."""
    if wanted.content and holdings.content is None:
        raise InputError("the pool has no texts or uris to write along")
    ids, contents = holdings.take(rows, contents=wanted.content)
    columns: Columns = {"id": ids, "row": rows}
    if contents is not None:
        columns[str(holdings.content)] = contents
    if holdings.kind == PAIRS:
        columns["class"] = _by_code(holdings.names, classes)
    return columns


# Files.

LABEL_COLUMNS = ("id", "text", "uri", "class", "label", "how", "support", "round", "split", "weight")
VOTE_COLUMNS = ("id", "class", "annotator", "kind", "value", "said_at")
Target = str | Path | TextIO


def export_labels(
    database: Database,
    holdings: Holdings,
    target: Target,
    wanted: Wanted,
    carried: Carried | None,
    *,
    to: str | None,
    force: bool,
) -> Exported:
    """Write labels. to: one of `exports.FORMS`, by default what the suffix says; an open file gets CSV."""
    form = _find_form(target, to)
    if form == exports.LABEL_STUDIO and holdings.content is not None:
        wanted = replace(wanted, content=True)  # what people are to look at
    found = read_labels(database, holdings, wanted, carried)
    columns = {name: found.columns[name] for name in LABEL_COLUMNS if name in found.columns}
    return _write(target, columns, form, found.left_out, force)


def export_votes(
    database: Database,
    holdings: Holdings,
    target: Target,
    wanted: Wanted,
    *,
    to: str | None,
    layout: str | None,
    force: bool,
) -> Exported:
    """Write votes, perhaps in the layout of another library."""
    form = _find_form(target, to)
    if form == exports.LABEL_STUDIO:
        raise InputError("votes are no tasks for Label Studio: export the labels, or votes as jsonl, csv or parquet")
    if layout is not None and wanted.undecided:
        raise InputError(f"{layout} has a place for votes only: leave out the other kinds of answers")
    found = read_votes(database, holdings, wanted)
    columns = {name: found.columns[name] for name in VOTE_COLUMNS if name in found.columns}
    if layout is not None:
        columns = arrange_votes(columns, holdings, layout)
    return _write(target, columns, form, found.left_out, force)


def _find_form(target: Target, to: str | None) -> str:
    if to is not None:
        return checks.option(to, "export format", exports.FORMS)
    return exports.find_form(target) if isinstance(target, (str, Path)) else "csv"


def _write(target: Target, columns: Columns, form: str, left_out: Mapping[str, int], force: bool) -> Exported:
    rows = len(next(iter(columns.values())))
    if isinstance(target, (str, Path)):
        return Exported(tuple(exports.write_export(target, columns, form, force=force)), rows, left_out)
    exports.write_lines(target, columns, form)
    return Exported((), rows, left_out)
