"""What a campaign knows of its pool: ids and contents, embeddings, clusters, pairs and classes, read from its files.

A pool that grew has several segments, each with files of its own. Rows are numbered through all of them, in the order
in which they were added, and never change their numbers; neither do classes. A file is checked when it is first used.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow import pool
from hedgerow.campaign import artifacts, tables
from hedgerow.campaign.artifacts import Artifact, Shelf
from hedgerow.campaign.database import Database, read_edition, read_meta
from hedgerow.errors import InputError
from hedgerow.pairs import Pairs
from hedgerow.pool import Ids
from hedgerow.pool.arrays import open_npy

MULTI_CLASS, MULTI_LABEL, PAIRS = "multi-class", "multi-label", "pairs"
KINDS = (MULTI_CLASS, MULTI_LABEL, PAIRS)
ID, CLUSTER = "id", "cluster"
CONTENTS = ("text", "uri")  # the column with the content is called what it is
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Segment:
    """Rows that were added together, from row `first` on, and their files."""

    id: int
    first: int
    n: int
    pool: Artifact
    embeddings: Artifact | None
    clusters: Artifact | None
    pairs: Artifact | None


@dataclass(frozen=True)
class Class:
    """A class. merged_into: the class that it is now. split_from: the class that it was a part of."""

    id: int
    name: str
    merged_into: int | None = None
    split_from: int | None = None
    is_split: bool = False

    @property
    def in_use(self) -> bool:
        """Whether people can name it in an answer."""
        return self.merged_into is None and not self.is_split


@dataclass(frozen=True, eq=False)
class Holdings:
    """The files of a campaign's pool, and its classes. kind: one of `KINDS`. edition: which state of both this is."""

    kind: str
    edition: int
    segments: tuple[Segment, ...]
    every_class: dict[int, Class]
    former_names: dict[str, int]

    @property
    def n(self) -> int:
        """The number of rows, those that were retired included."""
        return self.segments[-1].first + self.segments[-1].n

    # Ids and contents.

    @cached_property
    def _table(self) -> pool.Table:
        for segment in self.segments:
            artifacts.check(segment.pool)
        opened = pool.open_source([segment.pool.path for segment in self.segments], "the pool")
        assert isinstance(opened, pool.Table)
        return opened

    @cached_property
    def ids(self) -> Ids:
        """The user's keys, read whenever they are needed."""
        found = pool.find_ids(self._table, ID)
        assert found is not None, "the pool's own file has ids"
        return found

    @cached_property
    def content(self) -> str | None:
        """What the contents are: "text" or "uri", None if there are none."""
        return next((name for name in CONTENTS if name in self._table.types), None)

    def take(self, rows: Numbers, *, contents: bool = True) -> tuple[npt.NDArray[Any], npt.NDArray[np.object_] | None]:
        """(ids, texts or uris if they are wanted and there are any) of some rows; an empty text where there is none."""
        wanted = [self.content] if contents and self.content is not None else []
        ids = np.empty(len(rows), self.ids.dtype)
        texts = np.full(len(rows), "", np.object_)
        for places, (keys, *values) in self._table.gather([ID, *wanted], rows):
            ids[places] = keys.to_pylist()
            for column in values:
                texts[places] = column.fill_null("").to_pylist()
        return ids, texts if wanted else None

    # Clusters and embeddings.

    @property
    def clustered(self) -> bool:
        """Whether there are clusters."""
        return self.segments[0].clusters is not None

    @cached_property
    def labels(self) -> npt.NDArray[np.int32] | None:
        """The cluster of each row."""
        parts = []
        for segment in self.segments:
            if segment.clusters is None:
                return None
            artifacts.check(segment.clusters)
            parts.append(pool.as_vector(segment.clusters.path, "clusters", column=CLUSTER).astype(np.int32, copy=False))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @cached_property
    def embeddings(self) -> pool.Matrix | None:
        """The embeddings, where they are: the files of all segments as one matrix, of which nothing is held."""
        paths = []
        for segment in self.segments:
            if segment.embeddings is None:
                return None
            artifacts.check(segment.embeddings)
            paths.append(str(segment.embeddings.path))
        files = open_npy(paths)
        return pool.Matrix(files.shape[0], files.shape[1], files.dtype, None, files)

    # Classes and pairs.

    @cached_property
    def classes(self) -> dict[int, str]:
        """The names of the classes in use by class id, in the order of the columns of predictions."""
        return {number: one.name for number, one in self.every_class.items() if one.in_use}

    @cached_property
    def names(self) -> dict[int, str]:
        """The name to show for every class id: that of the class it was merged into; a split one has its own."""
        return {number: self.every_class[self.resolve_class(number)].name for number in self.every_class}

    def resolve_class(self, number: int) -> int:
        """The class that a class is now, after merges."""
        return resolve_class(self.every_class, number)

    @cached_property
    def class_ids(self) -> dict[str, int]:
        """Class ids by name, also by the names that classes had; those that were split cannot be named any more.

        The name of a merged class stands for the class that it is now. Of pairs it stays what was asked: a yes to it
        counts for the other, a no does not.
        """
        return {name: number for name, number in self._known_names.items() if not self._is_split(number)}

    @cached_property
    def _known_names(self) -> dict[str, int]:
        known = {one.name: one.id for one in self.every_class.values()} | self.former_names
        return known if self.kind == PAIRS else {name: self.resolve_class(number) for name, number in known.items()}

    def find_class(self, name: str) -> int | None:
        """The id of a class by name, or by the only name that differs in nothing but upper and lower case."""
        if name in self._known_names:
            return self.class_ids.get(name)
        alike = {number for known, number in self._known_names.items() if known.casefold() == name.casefold()}
        return alike.pop() if len(alike) == 1 and not self._is_split(min(alike)) else None

    def _is_split(self, number: int) -> bool:
        return self.every_class[self.resolve_class(number)].is_split

    @cached_property
    def parts(self) -> dict[int, list[int]]:
        """The classes that each class was split into."""
        found: dict[int, list[int]] = {}
        for one in self.every_class.values():
            if one.split_from is not None:
                found.setdefault(one.split_from, []).append(one.id)
        return found

    def explain_class(self, name: str) -> str:
        """Why answers cannot name a class."""
        known = {one.name: one.id for one in self.every_class.values()} | self.former_names
        if name not in known:
            return f"not a class of the campaign: {name}"
        parts = self.parts[self.resolve_class(known[name])]
        return f"{name} was split into {', '.join(self.every_class[part].name for part in parts)}"

    @property
    def lists_pairs(self) -> bool:
        """Whether the pairs to ask about were listed; otherwise they are all."""
        return self.segments[0].pairs is not None

    @cached_property
    def listed_pairs(self) -> tuple[Numbers, npt.NDArray[np.int32]]:
        """(rows, classes) of the pairs as they were listed."""
        rows, classes = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
        for segment in self.segments:
            if segment.pairs is not None:
                artifacts.check(segment.pairs)
                rows.append(pool.as_vector(segment.pairs.path, "rows", column="row").astype(np.int64))
                classes.append(pool.as_vector(segment.pairs.path, "classes", column="class").astype(np.int32))
        return np.concatenate(rows), np.concatenate(classes)

    @cached_property
    def pairs(self) -> Pairs:
        """The pairs that can be asked about, with class ids: those that were listed, or all.

        A listed pair of a class that was merged is one of the class it is now; of one that was split, one of each part.
        """
        if not self.lists_pairs:
            count = len(self.classes)
            return Pairs(np.repeat(np.arange(self.n), count), np.tile(np.array([*self.classes], np.int32), self.n))
        rows, classes = self.listed_pairs
        if len(self.classes) < len(self.every_class):
            rows, classes = self._translate_pairs(rows, classes)
        return Pairs(rows, classes)

    def _translate_pairs(self, rows: Numbers, classes: npt.NDArray[np.int32]) -> tuple[Numbers, npt.NDArray[np.int32]]:
        """Pairs in the classes of now, each once, in the order of their first appearance."""
        parts = self.parts

        def find_now(number: int) -> list[int]:
            now = self.resolve_class(number)
            return [last for part in parts[now] for last in find_now(part)] if now in parts else [now]

        found = {number: find_now(number) for number in self.every_class}
        counts = np.array([len(found.get(number, ())) for number in range(max(found) + 1)], np.int64)[classes]
        starts = np.cumsum(counts) - counts
        place = np.arange(int(counts.sum())) - np.repeat(starts, counts)
        widest = max(map(len, found.values()))
        table = np.full((max(found) + 1, widest), -1, np.int32)
        for number, now in found.items():
            table[number, : len(now)] = now
        rows, classes = np.repeat(rows, counts), table[np.repeat(classes, counts), place]
        keys = rows * (max(found) + 1) + classes
        first = np.sort(np.unique(keys, return_index=True)[1])
        return rows[first], classes[first]

    # Matching.

    def match(self, ids: npt.NDArray[Any]) -> Numbers:
        """The rows of these ids, -1 for those that the pool does not have.

        Whole numbers are compared with ids that are strings as their digits, and the other way around.
        """
        if self.ids.dtype == np.object_ and ids.dtype.kind in "iu":
            ids = ids.astype(str).astype(np.object_)
        elif self.ids.dtype != np.object_ and ids.dtype.kind not in "iu":
            return self._match_texts(ids)
        return pool.match_ids(ids, self.ids, "ids", partial=True)

    def _match_texts(self, ids: npt.NDArray[Any]) -> Numbers:
        """Texts that are whole numbers, as Python writes them, are rows of a pool whose ids are numbers."""
        rows = np.full(len(ids), -1, np.int64)
        texts = [str(one) for one in ids.tolist()]
        good = [at for at, text in enumerate(texts) if _is_whole(text)]
        numbers = np.array([int(texts[at]) for at in good], np.int64)
        rows[good] = pool.match_ids(numbers, self.ids, "ids", partial=True)
        return rows


def read_holdings(database: Database, shelf: Shelf) -> Holdings:
    """The pool of a campaign, from its one or more segments, and its classes."""
    with database.read() as connection:
        kind, edition = read_meta(connection, "kind"), read_edition(connection)
        assert kind is not None
        held = connection.execute(sa.select(tables.segment).order_by(tables.segment.c.first_row)).all()
        segments = tuple(_read_segment(connection, shelf, row) for row in held)
        classes = read_classes(connection)
        former = connection.execute(sa.select(tables.former_name)).all()
    return Holdings(kind, edition, segments, classes, {row[0]: row[1] for row in former})


def read_classes(connection: sa.Connection) -> dict[int, Class]:
    """All classes by id, which are numbered from 0 on."""
    table = tables.class_
    columns = (table.c.id, table.c.name, table.c.merged_into, table.c.split_from, table.c.split_at)
    rows = connection.execute(sa.select(*columns).order_by(table.c.id)).all()
    return {row[0]: Class(row[0], row[1], row[2], row[3], row[4] is not None) for row in rows}


def resolve_class(classes: Mapping[int, Class], number: int) -> int:
    """The class that a class is now, after merges."""
    while (into := classes[number].merged_into) is not None:
        number = into
    return number


def _read_segment(connection: sa.Connection, shelf: Shelf, row: Any) -> Segment:
    files = (row.embeddings, row.clusters, row.pairs)
    embeddings, clusters, pairs = (None if number is None else shelf.find(connection, number) for number in files)
    return Segment(row.id, row.first_row, row.n_rows, shelf.find(connection, row.pool), embeddings, clusters, pairs)


def read_holdout(connection: sa.Connection) -> Numbers:
    """The rows of the holdout that were not retired."""
    sql = (
        "SELECT DISTINCT t.row FROM task t JOIN batch b ON b.id = t.batch WHERE b.kind = 'holdout' AND NOT EXISTS "
        "(SELECT 1 FROM retired r WHERE r.row = t.row) ORDER BY t.row"
    )
    return np.array(connection.execute(sa.text(sql)).scalars().all(), np.int64)


def _is_whole(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isdecimal() and digits.isascii() and len(digits) < 19 and (digits == "0" or digits[0] != "0")


def check_class_name(name: Any, kind: str | None) -> str:
    """The name of a class, without spaces around it."""
    text = str(name).strip()
    if not text:
        raise InputError("a class has an empty name: name every class")
    if kind == MULTI_LABEL and "|" in text:
        raise InputError(
            f"the class {text!r} has a | in its name, which stands between the labels of one row: rename it"
        )
    return text


def check_classes(names: Any, kind: str) -> list[str]:
    """Class names, checked: distinct and not empty; at least two, or one for pairs and label sets."""
    listed = [check_class_name(name, kind) for name in ([names] if isinstance(names, str) else names)]
    if len(set(listed)) < len(listed):
        twice = next(name for name in listed if listed.count(name) > 1)
        raise InputError(f"the class {twice!r} is named twice: name each class once")
    least = 2 if kind == MULTI_CLASS else 1
    if len(listed) < least:
        raise InputError(
            f"a {kind} campaign needs at least {least} classes, got {len(listed)}: name more (--classes, or classes=)"
        )
    return listed
