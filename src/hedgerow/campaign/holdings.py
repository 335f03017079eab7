"""What a campaign knows of its pool: ids and contents, embeddings, clusters, pairs and classes, read from its files.

Rows are numbered through all segments, in the order in which they were added, and never change their numbers. A file is
checked when it is first used.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow import pool
from hedgerow.campaign import artifacts, tables
from hedgerow.campaign.artifacts import Artifact, Shelf
from hedgerow.campaign.database import Database, read_meta
from hedgerow.errors import InputError
from hedgerow.pairs import Pairs
from hedgerow.pool import Ids

MULTI_CLASS, MULTI_LABEL, PAIRS = "multi-class", "multi-label", "pairs"
KINDS = (MULTI_CLASS, MULTI_LABEL, PAIRS)
ID, CLUSTER = "id", "cluster"
CONTENTS = ("text", "uri")  # the column with the content is called what it is
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Holdings:
    """The files of a campaign's pool. kind: one of `KINDS`. classes: the names by class id."""

    kind: str
    n: int
    classes: dict[int, str]
    pool: Artifact
    embeddings: Artifact | None
    clusters: Artifact | None
    listed_pairs: Artifact | None

    @cached_property
    def ids(self) -> Ids:
        """The user's keys, read whenever they are needed."""
        artifacts.check(self.pool)
        found = pool.find_ids(_open(self.pool.path), ID)
        assert found is not None, "the pool's own file has ids"
        return found

    @cached_property
    def content(self) -> str | None:
        """What the contents are: "text" or "uri", None if there are none."""
        return next((name for name in CONTENTS if name in _open(self.pool.path).types), None)

    def take_contents(self, rows: Numbers) -> npt.NDArray[np.object_] | None:
        """The texts or uris of some rows, in their order; an empty text where there is none."""
        if self.content is None:
            return None
        artifacts.check(self.pool)
        taken = np.full(len(rows), "", np.object_)
        order = np.argsort(rows, kind="stable")
        ascending, start = rows[order], 0
        for batch in _open(self.pool.path).batches([self.content], 1 << 16, 0, None):
            low, high = np.searchsorted(ascending, [start, start + batch.num_rows])
            if low < high:
                values = batch.column(0).take(_indices(ascending[low:high] - start)).to_pylist()
                taken[order[low:high]] = ["" if value is None else value for value in values]
            start += batch.num_rows
        return taken

    @cached_property
    def labels(self) -> npt.NDArray[np.int32] | None:
        """The cluster of each row."""
        if self.clusters is None:
            return None
        artifacts.check(self.clusters)
        return pool.as_vector(self.clusters.path, "clusters", column=CLUSTER).astype(np.int32, copy=False)

    @property
    def embeddings_path(self) -> Path | None:
        """The file with the embeddings, checked."""
        if self.embeddings is None:
            return None
        artifacts.check(self.embeddings)
        return self.embeddings.path

    @cached_property
    def pairs(self) -> Pairs:
        """The pairs that can be asked about, with class ids: those that were listed, or all."""
        if self.listed_pairs is None:
            count = len(self.classes)
            return Pairs(np.repeat(np.arange(self.n), count), np.tile(np.arange(count, dtype=np.int32), self.n))
        artifacts.check(self.listed_pairs)
        path = self.listed_pairs.path
        rows = pool.as_vector(path, "rows", column="row")
        return Pairs(rows, pool.as_vector(path, "classes", column="class").astype(np.int32))

    @cached_property
    def class_ids(self) -> dict[str, int]:
        """Class ids by name."""
        return {name: number for number, name in self.classes.items()}

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
    """The pool of a campaign, from its one or more segments."""
    with database.read() as connection:
        kind = read_meta(connection, "kind")
        segments = connection.execute(sa.select(tables.segment).order_by(tables.segment.c.first_row)).all()
        classes = connection.execute(sa.select(tables.class_.c.id, tables.class_.c.name)).all()
        assert kind is not None
        assert len(segments) == 1, "pools that grew are read by a later version"
        held = segments[0]
        files = [
            None if number is None else shelf.find(connection, number)
            for number in (held.pool, held.embeddings, held.clusters, held.pairs)
        ]
    first = files[0]
    assert first is not None
    return Holdings(kind, held.n_rows, dict(sorted((row[0], row[1]) for row in classes)), first, *files[1:])


def _open(path: Path) -> pool.Table:
    opened = pool.open_source(path, "the pool")
    assert isinstance(opened, pool.Table)
    return opened


def _indices(places: Numbers) -> Any:
    import pyarrow as pa

    return pa.array(places)


def _is_whole(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isdecimal() and digits.isascii() and len(digits) < 19 and (digits == "0" or digits[0] != "0")


def check_classes(names: Any, kind: str) -> list[str]:
    """Class names, checked: distinct and not empty; at least two, or one for pairs and label sets."""
    listed = [names] if isinstance(names, str) else [str(name).strip() for name in names]
    if any(not name for name in listed):
        raise InputError("a class has an empty name: name every class")
    if len(set(listed)) < len(listed):
        twice = next(name for name in listed if listed.count(name) > 1)
        raise InputError(f"the class {twice!r} is named twice: name each class once")
    least = 2 if kind == MULTI_CLASS else 1
    if len(listed) < least:
        raise InputError(f"a {kind} campaign needs at least {least} classes, got {len(listed)}: pass classes=[...]")
    return listed
