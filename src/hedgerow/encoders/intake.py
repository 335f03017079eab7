"""What users have, as rows to embed: a folder of images, or a table of texts or of paths of images.

`look` finds out what is there and which columns to take, and says so. `take_in` copies ids and contents into one
Parquet file, as a stream; rows that cannot be used are set aside in a file of rejects, with the reason.
"""

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hedgerow import pool
from hedgerow.encoders.pictures import SUFFIXES
from hedgerow.errors import InputError
from hedgerow.pool.parsing import SHOWN, Bad, iterate_csv, iterate_json_lines, read_heading
from hedgerow.pool.sources import file_kind, find_file
from hedgerow.pool.tables import CONTENT_NAMES, ID_NAMES
from hedgerow.store import atomic_write

TEXT, URI = "text", "uri"
ROWS, REJECTS = "rows.parquet", "rejects.jsonl"
ROOT = "hedgerow.root"  # in the metadata of the rows: the folder that uris are relative to
LOOKED = 1000  # records from which the columns are found
MOSTLY = 0.9  # the share of values that must look like paths of images
GROUP_ROWS = 1 << 12
TABLES = ".csv, .tsv, .jsonl or .parquet"

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Source:
    """What was found. content: "text" or "uri". root: the folder that uris are relative to. names: of image files."""

    path: Path
    content: str
    root: Path | None
    column: str | None
    id_column: str | None
    names: tuple[str, ...]
    note: str
    mark: str  # changes with the files

    @property
    def noun(self) -> str:
        """What a row is called."""
        return "texts" if self.content == TEXT else "images"


@dataclass(frozen=True)
class Reject:
    """A row that was set aside. place: its number in the source, from 0."""

    place: int
    reason: str
    text: str


@dataclass(frozen=True)
class Taken:
    """How many rows were taken, and how many were set aside."""

    rows: int
    rejected: int


def look(path: str | Path, *, column: str | None = None, id_column: str | None = None) -> Source:
    """What is at a path. column: with the texts or paths of images, id_column: with the ids, if they are not found."""
    found = find_file(path, "the source")
    if found.is_dir():
        if column is not None or id_column is not None:
            raise InputError(f"{found} is a folder of files, which has no columns")
        return _look_at_folder(found)
    if _table_kind(found) is None:
        hint = ": name the folder that it is in" if found.suffix.lower() in SUFFIXES else ""
        raise InputError(f"{found} is neither a folder of images nor a {TABLES} file{hint}")
    return _look_at_table(found, column, id_column)


# Folders.


def _look_at_folder(folder: Path) -> Source:
    names: list[str] = []
    digest, others = hashlib.sha256(), 0
    for file in sorted(folder.rglob("*"), key=lambda file: _order(file.relative_to(folder).as_posix())):
        name = file.relative_to(folder)
        if any(part.startswith(".") or part.endswith(".hedgerow") for part in name.parts) or not file.is_file():
            continue
        if file.suffix.lower() not in SUFFIXES:
            others += 1
            continue
        names.append(name.as_posix())
        stat = file.stat()
        digest.update(f"{name.as_posix()}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode(errors="surrogateescape"))
    if not names:
        held = f"{others:,} files of other kinds" if others else "nothing"
        raise InputError(
            f"the folder {folder} holds no images ({', '.join(sorted(SUFFIXES))}), but {held}: name a folder of "
            f"images, or a {TABLES} file"
        )
    left = f"; {others:,} other files left alone" if others else ""
    note = f"{folder}: {len(names):,} images{left}"
    return Source(folder, URI, folder.resolve(), None, None, tuple(names), note, digest.hexdigest())


def _order(name: str) -> tuple[Any, ...]:
    """Numbers in names by value: 2.png before 10.png."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name)], name


# Tables.


def _table_kind(path: Path) -> str | None:
    kind = "CSV" if path.suffix.lower() == ".tsv" else file_kind(path)
    return kind if kind in ("CSV", "JSON lines", "Parquet") else None


def _look_at_table(path: Path, column: str | None, id_column: str | None) -> Source:
    some = [record for record in itertools.islice(iterate_records(path), LOOKED) if not isinstance(record, Bad)]
    if not some:
        raise InputError(f"{path} has no rows that can be read")
    names = list(dict.fromkeys(itertools.chain.from_iterable(some)))
    for wanted in (column, id_column):
        if wanted is not None and wanted not in names:
            raise InputError(f"{path} has no column {wanted!r}: it has {', '.join(names[:20])}")
    ids = id_column or _find_ids(names)
    chosen = column or _find_content(path, names, some, ids)
    content = URI if _hold_images(_list_values(some, chosen)) else TEXT
    others = [name for name in names if name not in (chosen, ids)]
    left = f"; not used: {', '.join(others[:5])}{' ...' if len(others) > 5 else ''}" if others else ""
    kind = "texts" if content == TEXT else "paths of images"
    note = f"{path}: {kind} in `{chosen}`, ids {f'in `{ids}`' if ids else 'are row numbers'}{left}"
    stat = path.stat()
    mark = f"{path.resolve()}\0{stat.st_size}\0{stat.st_mtime_ns}"
    root = path.resolve().parent if content == URI else None
    return Source(path, content, root, chosen, ids, (), note, hashlib.sha256(mark.encode()).hexdigest())


def _find_ids(names: Sequence[str]) -> str | None:
    """`id`, else one of the usual names, else the only name that ends in _id."""
    fitting = [name for name in names if name.lower() == "id"] or [name for name in names if name.lower() in ID_NAMES]
    if not fitting:
        ending = [name for name in names if name.lower().endswith(("_id", " id", "-id"))]
        fitting = ending if len(ending) == 1 else []
    return fitting[0] if fitting else None


def _find_content(path: Path, names: Sequence[str], some: Sequence[Record], ids: str | None) -> str:
    """The column called like a text or a uri, else the one with the longest texts; of several the longest, too."""
    mean = {name: _measure(_list_values(some, name)) for name in names if name != ids}
    for known in (CONTENT_NAMES[TEXT], CONTENT_NAMES[URI], set(map(str.lower, mean))):
        fitting = {name: mean[name] for name in mean if name.lower() in known and mean[name] > 0}
        if fitting:
            return max(fitting, key=lambda name: fitting[name])
    raise InputError(
        f"{path} has no column of texts or of paths of images: it has {', '.join(names[:20])}; name one (--column, or "
        "column=)"
    )


def _list_values(some: Sequence[Record], name: str) -> list[str]:
    return [value for record in some if isinstance(value := record.get(name), str) and value.strip()]


def _measure(values: Sequence[str]) -> float:
    """The mean length of texts; 0 for a column of numbers, or of nothing."""
    if not values or all(re.fullmatch(r"\s*[-+]?[\d.,]+([eE][-+]?\d+)?\s*", value) for value in values):
        return 0.0
    return sum(map(len, values)) / len(values)


def _hold_images(values: Sequence[str]) -> bool:
    good = sum(Path(value.strip()).suffix.lower() in SUFFIXES and "\n" not in value for value in values)
    return bool(values) and good >= MOSTLY * len(values)


def iterate_records(path: Path) -> Iterator[Record | Bad]:
    """The rows of a table, as a stream; a row that cannot be read is a `Bad`."""
    kind = _table_kind(path)
    if kind == "Parquet":
        yield from _iterate_parquet(path)
        return
    with path.open("rb") as file:
        if kind == "CSV":
            heading = read_heading(file, str(path))
            for row in iterate_csv(file, heading, str(path)):
                yield row if isinstance(row, Bad) else dict(zip(heading.names, row, strict=True))
            return
        for value in iterate_json_lines(file):
            known = isinstance(value, (dict, Bad))
            yield value if known else Bad("it is not an object", json.dumps(value)[:SHOWN])


def _iterate_parquet(path: Path) -> Iterator[Record]:
    table = pool.open_source(path, "the source")
    assert isinstance(table, pool.Table), "a Parquet file is a table"
    names = [name for name, kind in table.types.items() if not str(kind).startswith(("list", "fixed_size", "large_li"))]
    for batch in table.batches(names, GROUP_ROWS):
        yield from batch.to_pylist()


# Taking in.


def take_in(source: Source, folder: Path) -> Taken:
    """Write the rows and rejects of a source to a folder, unless they are there."""
    if not (folder / ROWS).exists():
        rejects: list[Reject] = []
        with atomic_write(folder / ROWS) as beside:
            write_rows(beside, source.content, _check_rows(_list_rows(source), rejects))
            write_rejects(folder / REJECTS, rejects)
    rows = count_rows(folder / ROWS)
    rejected = len(read_rejects(folder / REJECTS))
    if rows == 0:
        first = read_rejects(folder / REJECTS)[0]
        raise InputError(f"none of the {rejected:,} rows of {source.path} can be used; the first: {first.reason}")
    return Taken(rows, rejected)


def _list_rows(source: Source) -> Iterator[tuple[Any, Any] | Bad]:
    """(id, content) of each row, as they are in the source."""
    if source.names:
        yield from ((name, name) for name in source.names)
        return
    assert source.column is not None, "a table has a column of contents"
    for place, record in enumerate(iterate_records(source.path)):
        if isinstance(record, Bad):
            yield record
        else:
            yield place if source.id_column is None else record.get(source.id_column), record.get(source.column)


def _check_rows(rows: Iterable[tuple[Any, Any] | Bad], rejects: list[Reject]) -> Iterator[tuple[str, str]]:
    """The rows that can be used; the others become rejects."""
    seen: set[int] = set()  # hashes: a twentieth of the memory that ids would take
    for place, row in enumerate(rows):
        if isinstance(row, Bad):
            rejects.append(Reject(place, row.reason, row.text))
            continue
        name, content = ("" if value is None else str(value).strip() for value in row)
        reason = "it has no id" if not name else "it has no content" if not content else _find_fault(name + content)
        if reason is None and hash(name) in seen:
            reason = f"the id {name[:SHOWN]} occurs before"
        if reason is not None:
            rejects.append(Reject(place, reason, _show(f"{name} {content}")))
            continue
        seen.add(hash(name))
        yield name, content


def _find_fault(text: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return "it has bytes that are not UTF-8"
    return "it has a null character" if "\0" in text else None


def _show(text: str) -> str:
    return text[:SHOWN].encode(errors="replace").decode()


# Files.


def write_rows(path: Path, content: str, rows: Iterable[tuple[str, str]], root: Path | None = None) -> None:
    """Ids and contents as a Parquet file, in small row groups: ranges of rows are read from it. root: of the uris."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("id", pa.string()), (content, pa.string())], {} if root is None else {ROOT: str(root)})
    left = iter(rows)
    with pq.ParquetWriter(path, schema, compression="lz4", use_dictionary=False) as writer:
        while some := list(itertools.islice(left, GROUP_ROWS)):
            columns = [pa.array(values, pa.string()) for values in zip(*some, strict=True)]
            writer.write_table(pa.table(columns, schema=schema))


def count_rows(path: Path) -> int:
    """The rows of a file that `write_rows` wrote."""
    return open_rows(path).n


def open_rows(path: Path) -> pool.Table:
    """A file that `write_rows` wrote."""
    table = pool.open_source(path, "the rows")
    assert isinstance(table, pool.Table), "rows are a table"
    return table


def write_rejects(path: Path, rejects: Iterable[Reject]) -> None:
    """One JSON object per line."""
    with atomic_write(path) as beside, beside.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in rejects)


def read_rejects(path: Path) -> list[Reject]:
    """What `write_rejects` wrote."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        return [Reject(**json.loads(line)) for line in file]
