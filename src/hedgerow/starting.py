"""`start`: from a folder of images or a table of texts to a campaign whose first batch waits for labels.

The steps are those of `embed` and of `Campaign`: rows, embeddings, clusters, holdout, first batch. Each is kept when it
is done, so that the same call continues after an interruption, and on a finished campaign changes nothing. Kernels are
compiled by another process while embedding runs.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow import checks, pool
from hedgerow.campaign.campaign import Campaign
from hedgerow.campaign.holdings import MULTI_CLASS, check_classes
from hedgerow.campaign.summaries import Status
from hedgerow.encoders.embedding import Embedded, embed, name_rejects, name_rows
from hedgerow.encoders.intake import ROOT, Source, look, read_rejects
from hedgerow.engines import Engine
from hedgerow.errors import InputError, StoreError
from hedgerow.pool.sources import find_file
from hedgerow.progress import Progress
from hedgerow.store import atomic_write, is_temporary
from hedgerow.store.checkpoints import refuse_damage
from hedgerow.warming import is_warm

SUFFIX = ".hedgerow"  # of the folder of a campaign
BEGUN, NOTES, EMBEDDINGS = "start", "start.json", "embeddings.npy"
BATCH, HOLDOUT = 100, 200
HOLDOUT_SHARE = 10  # of a small pool, one in ten rows

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Started:
    """A campaign that is ready for labels. roots: folders with its images. batch: the newest that was reserved."""

    folder: Path
    rows: int
    classes: tuple[str, ...]
    clusters: int | None
    holdout: int
    batch: int | None
    roots: tuple[Path, ...]
    rejected: int
    continued: bool

    def to_json(self) -> dict[str, Any]:
        """The same in the types of JSON."""
        return {**asdict(self), "folder": str(self.folder), "roots": [str(root) for root in self.roots]}


@dataclass(frozen=True)
class Notes:
    """What a start was given, kept in its folder."""

    source: str
    mark: str
    classes: list[str]
    kind: str
    holdout: int | None
    encoder: str | None
    column: str | None
    id_column: str | None
    seed: int
    roots: list[str]
    rejected: int = 0


def start(
    source: str | Path,
    folder: str | Path | None = None,
    *,
    classes: Sequence[str] | None = None,
    kind: str = MULTI_CLASS,
    embeddings: str | Path | None = None,
    root: str | Path | None = None,
    holdout: int | None = None,
    batch: int = BATCH,
    encoder: str | None = None,
    column: str | None = None,
    id_column: str | None = None,
    engine: str | Engine | None = None,
    seed: int = 0,
    progress: Progress | bool | None = None,
    tell: Tell | None = None,
) -> Started:
    """Make a campaign of what you have, and reserve its first batch. Run again, it continues.

    source: a folder of images; a CSV, JSON lines or Parquet file of texts or of paths of images; or a .npy file of
    embeddings, with the rows that `embed` wrote beside it. folder: of the campaign, by default SOURCE.hedgerow here.
    classes: their names; needed the first time. embeddings: of a source that is a table, if they exist. root: the
    folder that uris are relative to, if it is not that of the source. holdout: how many rows, drawn at random, are
    labeled to measure models; by default 200, or a tenth of a small pool. batch: how many rows are reserved first. The
    other options are those of `embed` and `Campaign.init`. tell: called with lines about what was done.
    """
    path = find_file(source, "the source")
    target = Path(path.resolve().stem + SUFFIX if path.is_file() else path.resolve().name + SUFFIX)
    target = target if folder is None else Path(folder)
    say = tell or (lambda line: None)
    checks.integer(batch, "batch", least=1)
    notes = read_notes(target)
    if notes is not None and Campaign.is_ready(target):
        return _continue(target, notes, path, batch, seed, progress, say)
    if classes is None and notes is None:
        raise InputError("name the classes: --classes spam,ham (classes= in Python); more can be added later")
    named = check_classes(list(classes), kind) if classes is not None else (notes.classes if notes else [])
    wanted = Wanted(path, embeddings, root, encoder, column, id_column, engine, seed, progress)
    given = _find(wanted)
    begun = Notes(
        str(path.resolve()), given.mark, named, kind, holdout, encoder, column, id_column, seed, [*given.roots]
    )
    _begin(target, notes, begun)
    say(given.note)
    try:
        with compile_meanwhile():
            made = _embed(target, wanted, given, say)
        _init(target, begun, made, progress, say)
    except InputError:  # nothing to be continued: the source or the options must be others
        shutil.rmtree(target)
        raise
    write_notes(target, Notes(**{**asdict(begun), "rejected": made.rejected}))
    return _finish(target, read_notes(target) or begun, batch, seed, progress, say, continued=notes is not None)


# What is given.


@dataclass(frozen=True, eq=False)
class Wanted:
    """The source and how to embed it."""

    path: Path
    embeddings: str | Path | None
    root: str | Path | None
    encoder: str | None
    column: str | None
    id_column: str | None
    engine: str | Engine | None
    seed: int
    progress: Progress | bool | None


@dataclass(frozen=True)
class Given:
    """What was found: a source to embed, or rows with embeddings. roots: folders with files that uris name."""

    source: Source | None
    rows: Path | None
    embeddings: Path | None
    roots: tuple[str, ...]
    note: str
    mark: str


@dataclass(frozen=True, eq=False)
class Made:
    """Rows and their embeddings, for `Campaign.init`."""

    rows: Any
    embeddings: Any
    n: int
    column: str | None
    id_column: str | None
    rejected: int


def _find(wanted: Wanted) -> Given:
    if wanted.path.suffix == ".npy" or wanted.embeddings is not None:
        return _find_embedded(wanted)
    source = look(wanted.path, column=wanted.column, id_column=wanted.id_column)
    root = source.root if wanted.root is None else Path(wanted.root).resolve()
    return Given(source, None, None, () if root is None else (str(root),), source.note, source.mark)


def _find_embedded(wanted: Wanted) -> Given:
    """Embeddings that exist: with the table they were given with, or the rows that `embed` wrote beside them."""
    if wanted.encoder is not None:
        raise InputError("the embeddings exist: --encoder is for a source that is to be embedded")
    alone = wanted.embeddings is None
    embeddings = wanted.path if alone else find_file(str(wanted.embeddings), "the embeddings")
    rows = wanted.path
    if alone:
        rows = name_rows(wanted.path) if name_rows(wanted.path).exists() else wanted.path
    held = pool.read_metadata(rows).get(ROOT) if rows.suffix == ".parquet" else None
    near = rows.resolve().parent if held is None else held
    root = Path(near if wanted.root is None else wanted.root).resolve()
    what = f"rows in {rows}" if rows != embeddings else "there are no rows beside them, so nothing can be shown"
    stat = embeddings.stat()
    mark = f"{embeddings.resolve()} {stat.st_size} {stat.st_mtime_ns}"
    return Given(None, rows, embeddings, (str(root),), f"{embeddings}: embeddings; {what}", mark)


# The folder.


def read_notes(folder: Path) -> Notes | None:
    """What `start` was given in a folder; None if it never ran there."""
    path = folder / BEGUN / NOTES
    if not path.exists():
        return None
    with refuse_damage(path):
        return Notes(**json.loads(path.read_text()))


def write_notes(folder: Path, notes: Notes) -> None:
    """Keep what `start` was given."""
    with atomic_write(folder / BEGUN / NOTES) as beside:
        beside.write_text(json.dumps(asdict(notes), indent=2) + "\n")


def _begin(folder: Path, held: Notes | None, begun: Notes) -> None:
    """Note what is to be done; a folder that was begun with something else is refused."""
    if held is None:
        if folder.exists() and not _is_fresh(folder):
            raise StoreError(f"{folder} exists, and start did not make it: name another folder (--folder)")
        try:
            (folder / BEGUN).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{folder} cannot be made: {error.strerror}: name another folder (--folder)") from error
        write_notes(folder, begun)
        return
    differ = [name for name, value in asdict(begun).items() if name != "rejected" and value != getattr(held, name)]
    if differ:
        raise StoreError(
            f"{folder} was begun with another {' and '.join(differ)}: run it with the same again, delete the folder, "
            "or name another one (--folder)"
        )


def _is_fresh(folder: Path) -> bool:
    """Whether a folder is empty, but for what a start leaves that was killed at once."""
    if not folder.is_dir():
        return False
    held = [path for path in folder.rglob("*") if path != folder / BEGUN]
    return all(path.parent == folder / BEGUN and is_temporary(path, folder / BEGUN / NOTES) for path in held)


# Steps.


def _embed(folder: Path, wanted: Wanted, given: Given, say: Tell) -> Made:
    if given.source is None:
        assert given.embeddings is not None, "embeddings exist"
        matrix = pool.open_matrix(given.embeddings, "embeddings")
        return Made(given.rows, given.embeddings, matrix.n, wanted.column, wanted.id_column, 0)
    target = folder / BEGUN / EMBEDDINGS
    if not target.exists():
        began = time.perf_counter()
        made = embed(
            given.source.path,
            target,
            encoder=wanted.encoder,
            column=wanted.column,
            id_column=wanted.id_column,
            engine=wanted.engine,
            seed=wanted.seed,
            progress=wanted.progress,
        )
        say(_describe(made, given.source, time.perf_counter() - began))
    rejected = len(read_rejects(name_rejects(target)))
    # As an array: the campaign then has its own copy, and its folder can be moved as a whole.
    vectors = np.load(target, mmap_mode="r", allow_pickle=False)
    return Made(name_rows(target), vectors, len(vectors), given.source.content, "id", rejected)


def _describe(made: Embedded, source: Source, seconds: float) -> str:
    aside = f"; {made.rejected:,} set aside ({made.rejects})" if made.rejected else ""
    line = f"embedded  {made.n:,} {source.noun} by {made.encoder} on this machine, nothing is uploaded"
    return f"{line}{aside}  {seconds:.0f} s"


def _init(folder: Path, begun: Notes, made: Made, progress: Progress | bool | None, say: Tell) -> None:
    began = time.perf_counter()
    holdout = min(HOLDOUT, made.n // HOLDOUT_SHARE) if begun.holdout is None else begun.holdout
    with Campaign.init(
        folder,
        made.rows,
        classes=begun.classes,
        kind=begun.kind,
        embeddings=made.embeddings,
        holdout=holdout,
        content=made.column,
        id_column=made.id_column,
        seed=begun.seed,
        progress=progress,
    ) as campaign:
        status = campaign.status()
    for file in (folder / BEGUN / EMBEDDINGS, name_rows(folder / BEGUN / EMBEDDINGS)):
        file.unlink(missing_ok=True)  # the campaign has them
    if status.clusters:
        size = status.rows / status.clusters
        say(f"clusters  {status.clusters:,}, average size {size:.0f}  {time.perf_counter() - began:.0f} s")
    if status.holdout:
        say(f"holdout   {status.holdout:,} at random, never picked: what models are measured on")


def _continue(
    folder: Path, notes: Notes, path: Path, batch: int, seed: int, progress: Progress | bool | None, say: Tell
) -> Started:
    if notes.source != str(path.resolve()):
        raise StoreError(f"{folder} is the campaign of {notes.source}: name another folder (--folder)")
    say(f"{folder}: this campaign exists and goes on")
    if path.is_dir() or path.suffix != ".npy":
        changed = look(path, column=notes.column, id_column=notes.id_column).mark != notes.mark
        if changed:
            say(f"{path} has changed since; the campaign keeps its rows (`hedgerow campaign grow` adds new ones)")
    return _finish(folder, notes, batch, seed, progress, say, continued=True)


def _finish(
    folder: Path, notes: Notes, batch: int, seed: int, progress: Progress | bool | None, say: Tell, *, continued: bool
) -> Started:
    """Reserve the first batch, unless there is one."""
    with Campaign.open(folder) as campaign:
        status = campaign.status()
        number = _find_batch(status)
        if number is None:
            number = campaign.next(batch, seed=seed, allow_short=True, progress=progress)
            count = min(batch, status.rows - status.holdout)
            say(f"round 1   {count:,} rows, from as many clusters as possible: there is no model yet")
    roots = tuple(Path(root) for root in notes.roots)
    facts = (status.rows, status.classes, status.clusters, status.holdout)
    return Started(folder, *facts, number, roots, notes.rejected, continued)


def _find_batch(status: Status) -> int | None:
    numbers = [int(one["id"]) for one in status.batches if one["kind"] != "holdout"]
    return max(numbers, default=None)


# Compiling.


@contextmanager
def compile_meanwhile() -> Iterator[None]:
    """Another process compiles what clustering needs; at the end of the block it is waited for.

    A process and not a thread: two threads would change the number of BLAS's threads under each other.
    """
    if is_warm():
        yield
        return
    command = [sys.executable, "-P", "-c", "from hedgerow.warming import warm_clustering; warm_clustering()"]
    running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
        running.wait()  # whatever became of it: what is not compiled by now is compiled when it is needed
    finally:
        running.kill()
        running.wait()
