"""`grow`: new rows for the pool of a campaign, as a segment of its own. What is there is not written again.

New rows join the clusters that there are (`Clusters.assign`); those that are too far from all of them are clustered
among themselves, and later rows can join these as well. The segment becomes visible in one transaction, when its files
are complete.

The holdout was drawn uniformly from the rows there were, so of new rows the same share is drawn, before anybody can
pick from them: every row of the pool has then been drawn with the same probability, and a mean over the holdout is
unbiased for the whole pool. The number is rounded at random, because many small segments would otherwise never be
drawn from. With any other number the plain mean speaks for a mixture that is not the pool; with 0 for the earlier rows.
"""

import json
import shutil
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow import checks, pool
from hedgerow.campaign import artifacts, registering, tables
from hedgerow.campaign import database as db
from hedgerow.campaign.artifacts import Print, Shelf
from hedgerow.campaign.database import Database
from hedgerow.campaign.holdings import PAIRS, Holdings, read_holdings, read_holdout
from hedgerow.campaign.registering import HOLDOUT_STREAM, ROW_NUMBERS
from hedgerow.clustering.assignment import Centroids
from hedgerow.clustering.clusters import Clusters, cluster
from hedgerow.errors import CampaignError, HedgerowWarning, InputError
from hedgerow.pairs import Pairs
from hedgerow.pool.ids import Ids
from hedgerow.progress import Progress

Numbers = npt.NDArray[np.int64]
MOST_REPEATS = 5


@dataclass(frozen=True, eq=False)
class Growth:
    """What `grow` was given. holdout: how many of the new rows to draw; None for the share of the earlier ones."""

    pool: Any
    embeddings: Any = None
    pairs: Any = None
    holdout: int | None = None
    content: str | None = None
    id_column: str | None = None
    seed: int = 0
    progress: Progress | bool | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Grown:
    """What was added. first: the number of the first new row. new_clusters: None if there are no clusters."""

    first: int
    rows: int
    new_clusters: int | None
    holdout: int


class _RacedError(Exception):
    """The pool or its classes changed meanwhile: begin again."""


def grow(database: Database, shelf: Shelf, growth: Growth, work: Path) -> Grown:
    """Add rows. work: a folder for the finished phases of clustering, removed when all is done."""
    checks.seed(growth.seed)
    if growth.holdout is not None:
        checks.integer(growth.holdout, "holdout")
    for _ in range(MOST_REPEATS):
        held = read_holdings(database, shelf)
        try:
            with shelf.hold():
                done = _add(database, shelf, held, growth, work)
        except _RacedError:
            continue
        shutil.rmtree(work, ignore_errors=True)
        return done
    raise CampaignError(f"other processes changed the pool during each of {MOST_REPEATS} attempts: try again later")


def _add(database: Database, shelf: Shelf, held: Holdings, growth: Growth, work: Path) -> Grown:
    table, ids = registering.open_pool(growth.pool, growth.id_column, held.n)
    if ids.n == 0:
        raise InputError("there are no new rows: the file has none")
    ids = _check_ids(ids, held)
    made = {"pool": registering.write_pool(shelf, table, ids, _find_content(table, held, growth))}
    pairs = _find_pairs(held, ids, made["pool"][0], growth)
    if pairs is not None and held.lists_pairs:
        made["pairs"] = registering.write_pairs(shelf, pairs)
    with database.read() as connection:
        holdout = _draw_holdout(connection, held, growth, ids.n, pairs)
    if held.embeddings is not None:
        source = registering.find_embeddings(table, growth.pool, growth.embeddings)
        if source is None:
            raise InputError("the campaign has embeddings: give those of the new rows (--embeddings FILE)")
        made["embeddings"] = registering.keep_embeddings(shelf, source, ids, held.embeddings)
    elif growth.embeddings is not None:
        raise InputError("the campaign has no embeddings: leave out those of the new rows")
    more = None
    if held.clustered:
        path = made["embeddings"][0] if "embeddings" in made else None
        clusters, more = _find_clusters(held, path, growth, work / f"grow-{made['pool'][1].sha256}")
        made["clusters"] = registering.save_clusters(shelf, clusters)
    grown = Grown(held.n, ids.n, more, holdout.drawn)
    _finish(database, shelf, held, growth, grown, made, holdout)
    return grown


# Ids and contents.


def _check_ids(ids: Ids, held: Holdings) -> Ids:
    """The new ids, of the type of the old ones and none of them among those."""
    if ids.title == ROW_NUMBERS and not _are_row_numbers(held.ids):
        raise InputError(
            "the new rows have no ids, but the campaign has: give a table with a column of ids (--id-column NAME if it "
            "is not called id)"
        )
    if ids.dtype != held.ids.dtype:
        if held.ids.dtype != np.object_:
            raise InputError(f"{ids.title} holds strings, but the ids of the campaign are whole numbers")
        ids = Ids(ids.n, np.dtype(np.object_), ids.title, ids.array().astype(str).astype(np.object_))
    rows = held.match(ids.array())
    known = np.flatnonzero(rows >= 0)
    if len(known):
        first = ids.read(int(known[0]), int(known[0]) + 1)[0]
        raise InputError(
            f"{len(known):,} of the {ids.n:,} new ids are in the pool already, the first is {first!s} (row "
            f"{rows[known[0]]:,}): leave these rows out"
        )
    return ids


def _are_row_numbers(ids: Ids) -> bool:
    if ids.dtype == np.object_:
        return False
    return all(bool((values == np.arange(start, start + len(values))).all()) for start, values in ids.chunks())


def _find_content(table: Any, held: Holdings, growth: Growth) -> tuple[str, str] | None:
    """(column, kind) of the contents, of the kind that the campaign has."""
    if held.content is None:
        return None
    found = registering.find_content(table, growth.content, [held.content])
    if found is None:
        raise InputError(
            f"the campaign has contents ({held.content}), the new rows have none: name their column {held.content}, or "
            "say which it is (--content NAME)"
        )
    return found


# Clusters.


def _find_clusters(held: Holdings, path: Path | None, growth: Growth, work: Path) -> tuple[Clusters, int]:
    """(the clusters of the new rows with the centroids of the new clusters, how many these are)."""
    known = _load_clusters(held)
    if path is None or known is None:
        raise CampaignError(
            "the clusters of this campaign have no centroids, so that new rows cannot be assigned to them: begin a "
            "campaign whose clusters init makes, or that gets clusters with centroids (`hedgerow cluster --centroids`)"
        )
    matrix = pool.open_matrix(path, "embeddings")
    labels = np.empty(matrix.n, np.int32)
    whole = _find_whole(matrix)
    found = known.find_nearest(path if whole.all() else matrix.take(np.flatnonzero(whole)), progress=growth.progress)
    joined = whole.copy()
    joined[whole] = found.joined
    labels[joined] = found.labels[found.joined]
    left = np.flatnonzero(~joined)
    if not len(left):
        return replace(known, labels=labels, method="assign", centroids=None), 0
    work.mkdir(parents=True, exist_ok=True)
    own = cluster(
        matrix.take(left),
        threshold=known.threshold,
        metric=known.metric,
        zeros="singletons",
        seed=growth.seed,
        workdir=work,
        progress=growth.progress,
    )
    labels[left] = known.n_clusters + own.labels
    return replace(known, labels=labels, method="assign", centroids=own.centroids), own.n_clusters


def _find_whole(matrix: pool.Matrix) -> npt.NDArray[np.bool_]:
    """The rows that are not all zero, which have no direction and are clusters of their own."""
    whole = np.empty(matrix.n, np.bool_)
    for start, chunk in matrix.chunks():
        checks.finite(chunk, "embeddings", first_row=start)
        whole[start : start + len(chunk)] = chunk.any(axis=1)
    return whole


def _load_clusters(held: Holdings) -> Clusters | None:
    """The clusters of all rows with all centroids; None if they have none."""
    parts = []
    for segment in held.segments:
        assert segment.clusters is not None
        artifacts.check(segment.clusters)
        if registering.are_mere_labels(segment.clusters.path):
            return None
        parts.append(Clusters.load(segment.clusters.path))
    if parts[0].centroids is None or held.labels is None:
        return None
    stacked = stack_centroids([part.centroids for part in parts if part.centroids is not None])
    return replace(parts[0], labels=held.labels, centroids=stacked)


def stack_centroids(parts: list[Centroids]) -> Centroids:
    """The centroids of several lots of clusters, numbered one after the other, in the coordinates of the first."""
    like = parts[0]
    means = [((part.means / part.factor + part.center) - like.center) * like.factor for part in parts[1:]]
    spread = [part.spread * (like.factor / part.factor) ** 2 for part in parts[1:]]
    return replace(
        like,
        means=np.concatenate([like.means, *means]),
        spread=np.concatenate([like.spread, *spread]),
    )


# Pairs and the holdout.


def _find_pairs(held: Holdings, ids: Ids, path: Path, growth: Growth) -> Pairs | None:
    """The new pairs: those that are listed, also of earlier rows, or all of the new rows."""
    if growth.pairs is not None and not held.lists_pairs:
        raise InputError("pairs are listed only where `init` got a list of them: leave them out")
    if held.kind != PAIRS:
        return None
    if not held.lists_pairs:
        count = len(held.classes)
        rows = np.repeat(np.arange(held.n, held.n + ids.n), count)
        return Pairs(rows, np.tile(np.array([*held.classes], np.int32), ids.n))
    if growth.pairs is None:
        raise InputError("the pairs of this campaign are listed: list those of the new rows (--pairs FILE)")
    if isinstance(growth.pairs, Pairs):
        pairs = growth.pairs
        pairs.refuse_outside(held.n + ids.n, len(held.every_class))
    else:
        everything = pool.open_source([*(segment.pool.path for segment in held.segments), path], "the pool")
        assert isinstance(everything, pool.Table)
        all_ids = pool.find_ids(everything, held.ids.column)
        assert all_ids is not None
        pairs = registering.name_pairs(growth.pairs, all_ids, {name: number for number, name in held.classes.items()})
    known = held.pairs.find(pairs.rows, pairs.classes, ignore_unknown=True) >= 0
    if known.any():
        at = int(np.argmax(known))
        name = held.names[int(pairs.classes[at])]
        raise InputError(
            f"{int(known.sum()):,} of the {len(pairs):,} pairs are there already, the first is row "
            f"{pairs.rows[at]:,}, class {name!r}: list new ones only"
        )
    return pairs


@dataclass(frozen=True, eq=False)
class _Holdout:
    """What to ask about: rows, or pairs, and of how many rows that were drawn now."""

    rows: Numbers
    classes: Numbers
    drawn: int


def _draw_holdout(connection: sa.Connection, held: Holdings, growth: Growth, n: int, pairs: Pairs | None) -> _Holdout:
    """Some of the new rows. Of pairs, all of the drawn rows, and also new ones of rows that were drawn earlier."""
    settings = json.loads(db.read_meta(connection, "settings") or "{}")
    rng = np.random.default_rng([HOLDOUT_STREAM, growth.seed, held.n])
    share = settings.get("holdout", 0) / held.segments[0].n
    candidates = np.arange(held.n, held.n + n)
    if pairs is not None:
        candidates = np.unique(pairs.rows[pairs.rows >= held.n])
        if held.lists_pairs:
            first = held.pairs.rows[held.pairs.rows < held.segments[0].n]
            share = settings.get("holdout", 0) / max(1, len(np.unique(first)))
    fair = share * len(candidates)
    count = int(fair) + int(rng.random() < fair - int(fair)) if growth.holdout is None else growth.holdout
    if growth.holdout is not None and abs(growth.holdout - fair) >= 1:
        warnings.warn(
            f"{growth.holdout:,} of {len(candidates):,} new rows are drawn for the holdout, where the share of the "
            f"earlier rows would be {fair:,.4g}: a mean over the whole holdout is not one over the pool",
            HedgerowWarning,
            stacklevel=2,
        )
    if growth.holdout and count >= len(candidates):
        raise InputError(f"a holdout of {count:,} leaves nothing of {len(candidates):,} new rows: draw fewer")
    drawn = rng.choice(candidates, count, replace=False).astype(np.int64)
    if pairs is None:
        return _Holdout(drawn, np.full(count, tables.WHOLE_ROW, np.int64), count)
    asked = np.isin(pairs.rows, np.append(drawn, read_holdout(connection)))
    return _Holdout(pairs.rows[asked].astype(np.int64), pairs.classes[asked].astype(np.int64), count)


def _finish(
    database: Database,
    shelf: Shelf,
    held: Holdings,
    growth: Growth,
    grown: Grown,
    made: dict[str, tuple[Path, Print]],
    holdout: _Holdout,
) -> None:
    """The one transaction in which the segment appears."""
    with database.write() as connection:
        if db.read_edition(connection) != held.edition:
            raise _RacedError
        numbers = {kind: shelf.register(connection, kind, *file) for kind, file in made.items()}
        connection.execute(sa.insert(tables.segment).values(first_row=held.n, n_rows=grown.rows, **numbers))
        if len(holdout.rows):
            registering.insert_holdout(database, connection, growth.seed, holdout.rows, holdout.classes)
        db.begin_edition(connection)
        database.note(connection, "grow", {**vars(grown), "seed": growth.seed})
