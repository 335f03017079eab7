"""`embed`: a folder of images or a table of texts -> embeddings in one .npy file, with its rows beside it.

The work is cut into ranges of rows, one file each, on an engine: the result is the same on every engine, and an
interrupted run continues. Memory hardly depends on the number of rows: hashes of ids, to find those that occur twice.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import __version__, checks
from hedgerow.encoders.choices import LEARNED, MODEL, Encoder, choose_encoder
from hedgerow.encoders.intake import (
    REJECTS,
    ROWS,
    Reject,
    Source,
    look,
    open_rows,
    read_rejects,
    take_in,
    write_rejects,
    write_rows,
)
from hedgerow.engines import VARIABLE, Engine, use_engine
from hedgerow.errors import InputError, StoreError
from hedgerow.machine import available
from hedgerow.progress import Progress, watch
from hedgerow.shards import Arrays, Job, fill_range, hold, list_ranges
from hedgerow.store import atomic_write, check_target
from hedgerow.store.checkpoints import holds_other_run, open_checkpoints, refuse_damage

WORK = ".work"  # added to the name of the result: the folder of a run
AUTO = "auto"  # an engine by how long the work takes
ALONE_SECONDS = 5.0  # work that takes one core less is not sent to other processes: starting them takes seconds


@dataclass(frozen=True)
class Embedded:
    """What `embed` wrote. rows: the file with ids and contents, in the order of the embeddings; rejects: None if all
    rows could be used. content: "text" or "uri"; root: the folder that uris are relative to. learned: what the encoder
    learned from these rows; None if it learns nothing.
    """

    n: int
    width: int
    encoder: str
    content: str
    root: Path | None
    rejected: int
    note: str
    embeddings: Path
    rows: Path
    rejects: Path | None
    learned: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """The same in the types of JSON."""
        return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}

    def __str__(self) -> str:
        aside = f"; {self.rejected:,} set aside in {self.rejects}" if self.rejected else ""
        return f"{self.n:,} x {self.width} by {self.encoder} -> {self.embeddings}, rows in {self.rows}{aside}"


def embed(
    source: str | Path,
    out: str | Path,
    *,
    encoder: str | None = None,
    column: str | None = None,
    id_column: str | None = None,
    engine: str | Engine | None = None,
    seed: int = 0,
    force: bool = False,
    progress: Progress | bool | None = None,
    tell: Callable[[str], None] | None = None,
) -> Embedded:
    """Embed a folder of images, or a CSV, JSON lines or Parquet file of texts (or of paths of images).

    out: a .npy file; beside it are OUT.rows.parquet, with ids and contents, and OUT.rejects.jsonl, if rows cannot be
    used. An interrupted run continues. encoder: "tfidf" (texts, the default: no weights, any language), "minilm" (texts
    in English), "efficientnet-lite0" (images, the default), or "module:function" of your own, which gets a list of
    texts or of paths and returns an array with as many rows. What tfidf learned is in OUT.encoder.npz; named as the
    encoder, it makes vectors of later texts that can be compared with those of the first. column, id_column: if they
    are not found. engine: where to run (see `hedgerow.engines`), or "auto": all cores if it takes long, as the command
    line does it; a script then needs `if __name__ == "__main__":` around its call. tell: called with a line about what
    was found, before the long work.
    """
    target = _check_out(out, force=force)
    checks.seed(seed)
    found = look(source, column=column, id_column=id_column)
    if tell is not None:
        tell(found.note)
    work = target.with_name(target.name + WORK)
    with watch(progress) as report:
        files = Files(target, name_rows(target), name_rejects(target), name_learned(target))
        run = open_run(found, work, encoder, seed, force=force)
        try:
            run_jobs(run, engine, seed, report)
            made = collect(run, files)
        except InputError:  # nothing to be continued: the source or the options must be others
            shutil.rmtree(work)
            raise
    shutil.rmtree(work)
    return made


def name_rows(embeddings: Path) -> Path:
    """The file with the rows of a file of embeddings."""
    return embeddings.with_suffix(".rows.parquet")


def name_rejects(embeddings: Path) -> Path:
    """The file with what was set aside for a file of embeddings."""
    return embeddings.with_suffix(".rejects.jsonl")


def name_learned(embeddings: Path) -> Path:
    """The file with what an encoder learned, beside a file of embeddings."""
    return embeddings.with_suffix(f".{MODEL}")


def _check_out(out: str | Path, *, force: bool) -> Path:
    if Path(out).suffix != ".npy":
        raise StoreError(f"{out} would hold an array: name a file that ends in .npy")
    check_target(out, force=force)
    return Path(out)


# A run.


@dataclass(frozen=True)
class Run:
    """A run: what is embedded, by what, where its files are, and its ranges of rows."""

    source: Source
    encoder: Encoder
    folder: Path
    n: int
    jobs: Sequence[Job]


@dataclass(frozen=True)
class Files:
    """Where the result goes."""

    embeddings: Path
    rows: Path
    rejects: Path
    learned: Path


def open_run(source: Source, folder: Path, encoder: str | None, seed: int, *, force: bool = False) -> Run:
    """Begin a run in a folder, or continue the one that is there: the rows are taken in and cut into ranges.

    force: a run with another source or other options that is there is removed, not refused.
    """
    chosen = choose_encoder(encoder, source, folder.absolute())
    settings = {"source": source.mark, "column": source.column, "id_column": source.id_column, "seed": seed}
    settings |= {"encoder": chosen.name, "version": __version__}
    if encoder is not None and encoder.endswith(LEARNED):
        settings["learned"] = hashlib.sha256(Path(encoder).read_bytes()).hexdigest()
    if holds_other_run(folder, (), settings):
        if not force:
            raise StoreError(f"{folder} is of a run with another source or other options: delete it to begin again")
        shutil.rmtree(folder)
    open_checkpoints(folder, (), settings)
    try:
        n = take_in(source, folder).rows
    except InputError:
        shutil.rmtree(folder)
        raise
    parts = folder.absolute() / "parts"
    parts.mkdir(exist_ok=True)
    return Run(source, chosen, folder.absolute(), n, list_ranges(parts, n, chosen.rows, ".npz"))


def run_jobs(run: Run, engine: str | Engine | None, seed: int, report: Progress) -> None:
    """Embed what is missing."""
    report(f"embedding {run.n:,} {run.source.noun}", 0.0)
    run.encoder.prepare(run.folder / ROWS, seed)
    missing = sum(not Path(job["path"]).exists() for job in run.jobs) * run.encoder.rows

    def look_on(done: int) -> None:
        report(f"embedding {run.n:,} {run.source.noun}", done / len(run.jobs))

    compute = EncodedRange(run.folder / ROWS, run.source.content, run.encoder)
    named = _choose_engine(run.encoder, missing) if engine == AUTO else engine
    with use_engine(os.environ.get(VARIABLE) or "serial" if named is None else named) as opened:
        opened.map(fill_range, run.jobs, setup=partial(hold, compute), workdir=run.folder, progress=look_on)


def _choose_engine(encoder: Encoder, rows: int) -> str:
    """All cores if it takes long; a function of the user's own may need the whole machine, so it runs alone."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    long = encoder.rate is not None and rows / encoder.rate > ALONE_SECONDS
    return f"processes:{available()}" if long and available() > 1 else "serial"


@dataclass(frozen=True)
class EncodedRange:
    """The vectors of a range of rows: what workers of an engine compute."""

    rows: Path
    content: str
    encoder: Encoder

    def __call__(self, start: int, stop: int) -> Arrays:
        contents = open_rows(self.rows).read(self.content, start, stop).tolist()
        vectors, faults = self.encoder.encode(contents)
        checks.finite(vectors, f"what {self.encoder.name} returned", first_row=start)
        bad = np.array(sorted(faults), np.int64)
        reasons = np.array([faults[place] for place in bad.tolist()], np.str_)
        return {"vectors": vectors, "bad": bad, "reasons": reasons}


# The result.


def collect(run: Run, files: Files) -> Embedded:
    """The parts as one file, without rows that have no vector; the rows beside it; rejects, if there are any."""
    rejects = read_rejects(run.folder / REJECTS)
    rejects += _list_faults(run, [one.place for one in rejects])
    n = run.n - sum(len(_read_part(job, "bad")[0]) for job in run.jobs)
    if n == 0:
        raise InputError(f"none of the {run.n:,} {run.source.noun} can be used; the first: {rejects[0].reason}")
    width = _read_part(run.jobs[0], "vectors")[0].shape[1]
    if rejects:
        write_rejects(files.rejects, rejects)
    with atomic_write(files.rows) as beside:
        write_rows(beside, run.source.content, _list_kept(run), run.source.root)
    learned = run.folder / MODEL  # absent if the encoder learned nothing, or from other rows
    if learned.exists():
        with atomic_write(files.learned) as beside:
            shutil.copyfile(learned, beside)
    with atomic_write(files.embeddings) as beside:
        _join(run, beside, n, width)
    found = run.source
    beside_it = (files.rejects if rejects else None, files.learned if learned.exists() else None)
    where = (files.embeddings, files.rows, *beside_it)
    return Embedded(n, width, run.encoder.name, found.content, found.root, len(rejects), found.note, *where)


def _read_part(job: Job, *names: str) -> list[npt.NDArray[Any]]:
    """Some arrays of a range."""
    with refuse_damage(Path(job["path"])), np.load(job["path"], allow_pickle=False) as held:
        return [held[name] for name in names]


def _find_kept(job: Job) -> npt.NDArray[np.int64]:
    """The places of the rows of a range that have a vector."""
    return np.setdiff1d(np.arange(job["stop"] - job["start"]), _read_part(job, "bad")[0])


def _list_kept(run: Run) -> Iterator[tuple[str, str]]:
    """(id, content) of the rows that have a vector."""
    table = open_rows(run.folder / ROWS)
    for job in run.jobs:
        kept = _find_kept(job)
        columns = [table.read(column, job["start"], job["stop"])[kept] for column in ("id", run.source.content)]
        yield from zip(*columns, strict=True)


def _list_faults(run: Run, rejected: list[int]) -> list[Reject]:
    """The rows without a vector. rejected: the places in the source of those that were set aside before."""
    table, found = open_rows(run.folder / ROWS), []
    places = np.setdiff1d(np.arange(run.n + len(rejected)), rejected)
    for job in run.jobs:
        bad, reasons = _read_part(job, "bad", "reasons")
        if len(bad):
            names = table.read("id", job["start"], job["stop"])
            for place, reason in zip(bad.tolist(), reasons.tolist(), strict=True):
                found.append(Reject(int(places[job["start"] + place]), reason, names[place]))
    return found


def _join(run: Run, path: Path, n: int, width: int) -> None:
    """Write the .npy file part by part; pages of a memory map would count as memory of this process."""
    heading = {"descr": np.dtype(np.float32).str, "fortran_order": False, "shape": (n, width)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, heading)
        for job in run.jobs:
            _read_vectors(run, job, width).tofile(file)


def _read_vectors(run: Run, job: Job, width: int) -> npt.NDArray[np.float32]:
    """The vectors of a range, without those of rows that are set aside."""
    (vectors,) = _read_part(job, "vectors")
    if vectors.shape[1] != width:
        raise InputError(
            f"{run.encoder.name} returned vectors of {width} and of {vectors.shape[1]} numbers: all must be equal"
        )
    kept: npt.NDArray[np.float32] = vectors[_find_kept(job)]
    return kept
