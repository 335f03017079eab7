"""`init`: the pool registered, clustered, its holdout drawn. Interrupted, it continues when it is run again.

Ids and contents are copied into one Parquet file. Embeddings in a .npy file stay where they are; from anything else
they are copied into one, in the order of the pool. The holdout is drawn uniformly from the rows before anything is
picked, and no strategy ever picks from it, so that what is measured on it is unbiased.
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow import checks, pool, store
from hedgerow.campaign import database as db
from hedgerow.campaign import tables
from hedgerow.campaign.artifacts import MOST_HASHED, Print, Shelf, take_print
from hedgerow.campaign.database import Database, now
from hedgerow.campaign.holdings import CLUSTER, CONTENTS, ID, KINDS, MULTI_CLASS, PAIRS, check_classes
from hedgerow.clustering.clusters import METADATA_KEY, Clusters, cluster, name_beside
from hedgerow.errors import CampaignError, InputError
from hedgerow.pairs import Pairs
from hedgerow.pairs.files import Columns, read_pairs
from hedgerow.pool.ids import Ids, align, find_ids
from hedgerow.pool.tables import CONTENT_NAMES, Table, is_list, open_rows
from hedgerow.progress import Progress

MOST_PAIRS = 50_000_000  # all rows x classes; more must be listed
HOLDOUT_STREAM = 0x801D  # sets the draw of the holdout apart from other draws with the same seed
ROW_NUMBERS = "row numbers"  # what messages call the ids of a pool without a column of ids
READY = "ready"
GROUP_ROWS = 1 << 11  # of the pool's file: whoever claims tasks needs single rows, and reads a row group for each


@dataclass(frozen=True, eq=False)
class Given:
    """What `init` was given. content: the column with texts or uris, if its name does not say so."""

    pool: Any
    classes: list[str]
    kind: str = MULTI_CLASS
    embeddings: Any = None
    clusters: Any = True
    pairs: Any = None
    holdout: int = 0
    holdout_answers: int = 1
    average_size: float | None = None
    content: str | None = None
    id_column: str | None = None
    seed: int = 0
    progress: Progress | bool | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Files:
    """The registered files of a segment, by artifact number."""

    pool: int
    embeddings: int | None
    clusters: int | None
    pairs: int | None


def check_given(given: Given) -> Given:
    """The arguments of `init`, checked before anything is written."""
    checks.option(given.kind, "kind of campaign", KINDS)
    classes = check_classes(given.classes, given.kind)
    checks.integer(given.holdout, "holdout")
    checks.integer(given.holdout_answers, "holdout_answers", least=1)
    checks.seed(given.seed)
    if given.pairs is not None and given.kind != PAIRS:
        raise InputError("pairs are for campaigns of kind 'pairs': pass kind='pairs' (--kind pairs)")
    return Given(**{**vars(given), "classes": classes})


def start(database: Database, given: Given) -> None:
    """Create the tables and note what is to be done; an earlier `init` with other arguments is refused."""
    settings = {"kind": given.kind, "classes": given.classes, "holdout": given.holdout, "seed": given.seed}
    settings |= {"holdout_answers": given.holdout_answers, "average_size": given.average_size}
    db.use_wal(database)
    with database.begin() as connection:
        db.migrate(connection)
        held = db.read_meta(connection, "settings")
        if held is None:
            facts = {"uuid": str(uuid.uuid4()), "state": "starting", "generation": "0", "kind": given.kind}
            for key, value in {**facts, "settings": json.dumps(settings)}.items():
                db.write_meta(connection, key, value)
            return
        if db.read_meta(connection, "state") == READY:
            raise CampaignError(f"{database.title} holds a campaign already: use another folder")
        if json.loads(held) != settings:
            raise CampaignError(
                f"{database.title} was begun with other arguments ({held}): run init with them again, or use another "
                "folder"
            )


def forget(database: Database) -> None:
    """Let other arguments be given to an `init` that was refused."""
    with database.write() as connection:
        if db.read_meta(connection, "state") != READY:
            db.write_meta(connection, "settings", None)
            db.write_meta(connection, "pool", None)


def run(database: Database, shelf: Shelf, given: Given, work: Path) -> None:
    """Register everything, and open the campaign in one last transaction."""
    with shelf.hold():
        table, ids = open_pool(given.pool, given.id_column)
        n = ids.n
        if n == 0:
            raise InputError("the pool has no rows")
        if given.holdout >= n:
            raise InputError(f"a holdout of {given.holdout:,} leaves nothing of a pool of {n:,} rows: draw fewer")
        content = find_content(table, given.content)
        made: dict[str, tuple[Path, Print]] = {"pool": write_pool(shelf, table, ids, content)}
        _refuse_other_pool(database, made["pool"][1])
        source = find_embeddings(table, given.pool, given.embeddings)
        embeddings = None if source is None else keep_embeddings(shelf, source, ids)
        if embeddings is not None:
            made["embeddings"] = embeddings
        clusters = _keep_clusters(shelf, None if embeddings is None else embeddings[0], ids, n, given, work)
        if clusters is not None:
            made["clusters"] = clusters
        pairs = _read_pairs(ids, n, given)
        if given.pairs is not None:
            assert pairs is not None
            made["pairs"] = write_pairs(shelf, pairs)
        rows, classes = _draw_holdout(n, pairs, given)
        _finish(database, shelf, given, n, made, (rows, classes))


# The pool's file.


def open_pool(source: Any, id_column: str | None, first: int = 0) -> tuple[Any, Ids]:
    """(the pool as a table or array, its ids); without an id column the ids are row numbers, from `first` on."""
    opened = open_rows(source, "the pool")
    ids = find_ids(opened, id_column) if isinstance(opened, Table) else None
    if ids is None:
        n = opened.n if isinstance(opened, Table) else int(opened.shape[0])
        return opened, Ids(n, np.dtype(np.int64), ROW_NUMBERS, np.arange(first, first + n))
    ids.refuse_duplicates()
    return opened, ids


def find_content(table: Any, column: str | None, kinds: Sequence[str] = CONTENTS) -> tuple[str, str] | None:
    """(column, "text" or "uri") of the contents. column: its name, if that does not say so."""
    if not isinstance(table, Table):
        return None
    if column is not None:
        named = table.require(column)
        return named, next((kind for kind in kinds if named.lower() in CONTENT_NAMES[kind]), kinds[0])
    for kind in kinds:
        found = table.find(f"{kind}s", CONTENT_NAMES[kind])
        if found is not None:
            return found, kind
    return None


def write_pool(shelf: Shelf, table: Any, ids: Ids, content: tuple[str, str] | None) -> tuple[Path, Print]:
    """The ids and contents in a Parquet file of ours."""
    import pyarrow as pa

    id_type = pa.string() if ids.dtype == np.object_ else pa.int64()
    schema = pa.schema([(ID, id_type)] + ([] if content is None else [(content[1], pa.string())]))

    def pieces() -> Iterator[Any]:
        for start, values in ids.chunks():
            columns = [pa.array(values, id_type)]
            if content is not None:
                columns.append(_read_texts(table, content[0], start, start + len(values)))
            yield pa.table(columns, schema=schema)

    return save_pool(shelf, schema, pieces())


def save_pool(shelf: Shelf, schema: Any, pieces: Iterable[Any]) -> tuple[Path, Print]:
    """Arrow tables of ids and contents, one below the other, in a Parquet file of ours."""
    import pyarrow.parquet as pq

    def write(path: Path) -> None:
        # Hardly any value occurs twice. LZ4 takes half of the time that Snappy takes to read.
        with pq.ParquetWriter(path, schema, compression="lz4", use_dictionary=False) as writer:
            for piece in pieces:
                writer.write_table(piece, GROUP_ROWS)

    return shelf.add("pool", ".parquet", write)


def _read_texts(table: Table, column: str, start: int, stop: int) -> Any:
    import pyarrow as pa

    found = [batch.column(0).cast(pa.string()) for batch in table.batches([column], stop - start, start, stop)]
    return pa.chunked_array(found, pa.string())


def _refuse_other_pool(database: Database, taken: Print) -> None:
    """An interrupted `init` continues with the same pool only."""
    with database.write() as connection:
        held = db.read_meta(connection, "pool")
        if held is None:
            db.write_meta(connection, "pool", taken.sha256)
        elif held != taken.sha256:
            raise CampaignError(
                f"{database.title} was begun with another pool: run init with that pool again, or use another folder"
            )


# Embeddings and clusters.


def find_embeddings(table: Any, source: Any, given: Any) -> Any:
    """Where the embeddings are: where the caller says, or in the pool; None if it has none."""
    if given is None and isinstance(table, Table) and not any(is_list(kind) for kind in table.types.values()):
        return None
    return source if given is None else given


def keep_embeddings(shelf: Shelf, source: Any, ids: Ids, like: pool.Matrix | None = None) -> tuple[Path, Print]:
    """The embeddings in a .npy file in the order of the pool: the user's own where it is one, else a copy.

    like: those of earlier rows, with which they must agree.
    """
    matrix = pool.open_matrix(source, "embeddings")
    if like is not None and matrix.width != like.width:
        raise InputError(
            f"the embeddings have {matrix.width} columns, those of the campaign {like.width}: make them as the first "
            "ones were made (`hedgerow embed --encoder FILE.encoder.npz`, if by tfidf)"
        )
    dtype = np.dtype(np.float32) if like is None else like.dtype
    order = None if matrix.ids is None else align(matrix.ids, ids)
    if matrix.ids is None:
        checks.same_length({"embeddings": matrix.n, "the pool": ids.n})
    path = Path(source) if isinstance(source, (str, Path)) else None
    if path is not None and path.suffix == ".npy" and path.is_file() and (like is None or matrix.dtype == dtype):
        return path.resolve(), take_print(path, whole=path.stat().st_size <= MOST_HASHED)

    def write(target: Path) -> None:
        whole = np.lib.format.open_memmap(target, "w+", dtype, (ids.n, matrix.width))
        for start, chunk in _arranged(matrix, order):
            checks.finite(chunk, "embeddings", first_row=start)
            whole[start : start + len(chunk)] = chunk
        whole.flush()

    return shelf.add("embeddings", ".npy", write)


def _arranged(matrix: pool.Matrix, order: npt.NDArray[np.int64] | None) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """The rows of a matrix in the order of the pool, in chunks."""
    if order is None:
        yield from matrix.chunks()
        return
    step = max(1, (1 << 26) // max(1, 4 * matrix.width))
    for start in range(0, len(order), step):
        yield start, matrix.take(order[start : start + step])


def _keep_clusters(
    shelf: Shelf, embeddings: Path | None, ids: Ids, n: int, given: Given, work: Path
) -> tuple[Path, Print] | None:
    """The clusters that were given, or those of the embeddings, made here; phases are kept in `work`."""
    if given.clusters is None or given.clusters is False or (given.clusters is True and embeddings is None):
        return None
    if given.clusters is not True:
        return _keep_given(shelf, given.clusters, ids, n)
    work.mkdir(parents=True, exist_ok=True)
    made = cluster(
        embeddings,
        average_size=given.average_size,
        seed=given.seed,
        zeros="singletons",
        workdir=work / "clusters",
        progress=given.progress,
    )
    return save_clusters(shelf, made)


def save_clusters(shelf: Shelf, made: Clusters) -> tuple[Path, Print]:
    """Clusters in a file of ours; their centroids, if they have any, are beside it."""
    beside = shelf.folder / f".centroids-{uuid.uuid4().hex}.npz"

    def write(path: Path) -> None:
        made.save(path, centroids=made.centroids is not None, force=True)
        if made.centroids is not None:
            name_beside(path).rename(beside)

    path, taken = shelf.add("clusters", ".parquet", write)
    if made.centroids is not None:
        beside.replace(name_beside(path))
        store.sync(shelf.folder)
    return path, taken


def are_mere_labels(path: Path) -> bool:
    """Whether the clusters in a file of ours were given as labels, of which nothing else is known."""
    return METADATA_KEY not in pool.read_metadata(path)


def _keep_given(shelf: Shelf, source: Any, ids: Ids, n: int) -> tuple[Path, Print]:
    """Clusters that the caller has, in the order of the pool: with their centroids, or as mere labels."""
    whole = source if isinstance(source, Clusters) else None
    if isinstance(source, (str, Path)) and name_beside(source).is_file():
        whole = Clusters.load(source)
    if whole is not None:
        labels, own = whole.labels, whole.row_ids
    else:
        labels, own = pool.as_vector(source, "clusters"), pool.open_ids(source)
    if own is not None:
        order = align(own, ids)
        labels = labels if order is None else labels[order]
    labels = checks.cluster_labels(labels, n)
    if whole is not None and whole.centroids is not None and len(whole.labels) == n:
        return save_clusters(shelf, replace(whole, labels=labels, tree=None, row_ids=None))
    return shelf.add("clusters", ".parquet", lambda path: pool.write_table(path, {CLUSTER: labels}, {}, force=True))


# Pairs and the holdout.


def _read_pairs(ids: Ids, n: int, given: Given) -> Pairs | None:
    """The pairs with class ids, the places of the names in the list of classes; None unless it is about pairs."""
    if given.kind != PAIRS:
        return None
    if given.pairs is None:
        count = len(given.classes)
        if n * count > MOST_PAIRS:
            raise InputError(
                f"{n:,} rows and {count:,} classes make {n * count:,} pairs: list those to ask about in a "
                "file (--pairs)"
            )
        return Pairs(np.repeat(np.arange(n), count), np.tile(np.arange(count, dtype=np.int32), n))
    if isinstance(given.pairs, Pairs):
        given.pairs.refuse_outside(n, len(given.classes))
        return given.pairs
    return name_pairs(given.pairs, ids, {name: number for number, name in enumerate(given.classes)})


def name_pairs(source: Any, ids: Ids, known: Mapping[str, int]) -> Pairs:
    """The pairs in a table with ids (or rows) and classes. known: class ids by name."""
    columns = Columns()
    named = read_pairs(open_rows(source, "pairs"), ids, columns, rows_known=True, classes_known=False, title="pairs")
    if named.class_names is None:
        named.pairs.refuse_outside(ids.n, max(known.values(), default=-1) + 1)
        return named.pairs
    unknown = [str(name) for name in named.class_names if str(name) not in known]
    if unknown:
        raise InputError(f"pairs holds the class {unknown[0]!r}, which is not among the classes: add it to them")
    numbers = np.array([known[str(name)] for name in named.class_names], np.int32)
    return Pairs(named.pairs.rows, numbers[named.pairs.classes])


def write_pairs(shelf: Shelf, pairs: Pairs) -> tuple[Path, Print]:
    """Pairs in a file of ours."""
    columns: dict[str, npt.NDArray[Any]] = {"row": pairs.rows, "class": pairs.classes}
    return shelf.add("pairs", ".parquet", lambda path: pool.write_table(path, columns, {}, force=True))


def _draw_holdout(n: int, pairs: Pairs | None, given: Given) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(rows, classes) to ask about: rows drawn uniformly; of pairs, all those about the drawn rows."""
    rng = np.random.default_rng([HOLDOUT_STREAM, given.seed])
    if pairs is None:
        rows = rng.choice(n, given.holdout, replace=False).astype(np.int64)
        return rows, np.full(len(rows), tables.WHOLE_ROW, np.int64)
    asked = np.unique(pairs.rows)
    if given.holdout >= len(asked) > 0:
        raise InputError(f"a holdout of {given.holdout:,} rows leaves no pairs: {len(asked):,} rows have any")
    drawn = rng.choice(asked, given.holdout, replace=False)
    at = np.flatnonzero(np.isin(pairs.rows, drawn))
    return pairs.rows[at].astype(np.int64), pairs.classes[at].astype(np.int64)


def _finish(
    database: Database,
    shelf: Shelf,
    given: Given,
    n: int,
    made: dict[str, tuple[Path, Print]],
    holdout: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
) -> None:
    """The last transaction: everything becomes visible at once."""
    with database.write() as connection:
        if db.read_meta(connection, "state") == READY:
            raise CampaignError(f"{database.title}: another process has finished this init")
        numbers = {kind: shelf.register(connection, kind, *held) for kind, held in made.items()}
        files = Files(*(numbers.get(kind) for kind in ("pool", "embeddings", "clusters", "pairs")))  # type: ignore[arg-type]
        connection.execute(sa.insert(tables.segment).values(first_row=0, n_rows=n, **asdict(files)))
        since = now()
        for number, name in enumerate(given.classes):
            connection.execute(sa.insert(tables.class_).values(id=number, name=name, since=since))
        if given.holdout:
            insert_holdout(database, connection, given.seed, *holdout)
        db.write_meta(connection, "state", READY)
        facts = {"kind": given.kind, "rows": n, "classes": len(given.classes), "holdout": given.holdout}
        database.note(connection, "init", {**facts, "seed": given.seed})


def insert_holdout(
    database: Database,
    connection: sa.Connection,
    seed: int,
    rows: npt.NDArray[np.int64],
    classes: npt.NDArray[np.int64],
) -> None:
    """A batch of the holdout: rows, or pairs, that are measured on and never picked."""
    basis = db.last_event(connection)
    wanted = json.loads(db.read_meta(connection, "settings") or "{}")["holdout_answers"]
    values = {"kind": "holdout", "strategy": "random", "settings": "{}", "seed": seed, "basis": basis, "at": now()}
    values |= {"state": tables.LIVE, "size": len(rows)}
    batch = connection.execute(sa.insert(tables.batch).values(**values).returning(tables.batch.c.id)).scalar_one()
    columns = {"batch": batch, "pick": np.arange(len(rows)), "row": rows, "class": classes, "wanted": wanted}
    database.insert_many(connection, "task", {**columns, "given": 0, "state": tables.OPEN})
