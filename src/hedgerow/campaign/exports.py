"""Batches, labels and votes out: JSON lines, CSV, Parquet, tasks for Label Studio, a data set of Hugging Face.

A table is a mapping from names to columns of equal length: numpy arrays or lists, None where a value is missing. Files
are written whole or not at all, a chunk of rows at a time.

CSV is often opened in a spreadsheet, which runs text that begins with = + - @, a tab or a carriage return as a formula.
Such text gets a ' in front, and so does text that begins with ' and one of these, so that `formats` can take the mark
off again and always gets back what was written. Numbers are left alone. Several labels of one row are joined with |.

Tasks for Label Studio have the example's id as `hedgerow_id` in their data, because its exports put the number of the
task in the place of `id`, and the class of a pair as `hedgerow_class`; `formats` reads both.
"""

import csv
import itertools
import json
import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TextIO
from xml.sax.saxutils import quoteattr

import numpy as np
import numpy.typing as npt

from hedgerow import checks, store
from hedgerow.campaign.answers import NEVER
from hedgerow.errors import InputError, MissingExtraError, StoreError

Column = npt.NDArray[Any] | Sequence[Any]
Columns = Mapping[str, Column]

LABEL_STUDIO, HF = "label-studio", "hf"
FORMS = ("jsonl", "csv", "parquet", LABEL_STUDIO, HF)
LAYOUTS = ("crowd-kit", "cleanlab")
CHUNK = 1 << 14  # rows turned into Python objects at a time
TASKS_PER_FILE = 10_000  # Label Studio imports larger files in one request, and times out
SEPARATOR = "|"

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_PLAIN = {str, int, bool, type(None)}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class TaskLayout:
    """How tasks for Label Studio are laid out: the names of its controls, and of the model that made the guesses.

    control: the name of <Choices>; target: the name of the <Text>, <Image> or <Audio> that it belongs to.
    """

    control: str = "choice"
    target: str = "example"
    model: str = "hedgerow"
    tasks_per_file: int = TASKS_PER_FILE


def write_export(
    path: str | Path, columns: Columns, to: str, *, layout: TaskLayout | None = None, force: bool = False
) -> list[Path]:
    """Write a table in one of `FORMS`; the files that were written, which for Label Studio may be several."""
    checks.option(to, "export format", FORMS)
    if not columns:
        raise InputError("there is nothing to export: the table has no columns")
    checks.same_length({name: len(column) for name, column in columns.items()})
    if to == LABEL_STUDIO:
        return write_tasks(path, columns, layout or TaskLayout(), force=force)
    if to == HF:
        return [write_dataset(path, columns, force=force)]
    with store.atomic_write(path, force=force) as temporary:
        if to == "parquet":
            _write_parquet(temporary, columns)
        else:
            with temporary.open("w", encoding="utf-8", newline="") as file:
                write_lines(file, columns, to)
    return [Path(path)]


def write_lines(file: TextIO, columns: Columns, to: str) -> None:
    """Write a table as "jsonl" or "csv"."""
    if checks.option(to, "export format", FORMS) not in ("jsonl", "csv"):
        raise InputError(f"only jsonl and csv can be printed, got {to!r}: name a file (-o FILE)")
    if to == "jsonl":
        file.writelines(_dump(record) + "\n" for record in iterate_records(columns))
    else:
        _write_csv(csv.writer(file, lineterminator="\n"), columns)


def find_form(path: str | Path) -> str:
    """The form that the suffix of a file names; a path without one is the folder of a data set."""
    suffix = Path(path).suffix.lower()
    known = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet", ".json": LABEL_STUDIO, "": HF}
    if suffix not in known:
        raise InputError(f"{path}: the suffix must be .parquet, .csv or .jsonl, or say what to write (--to)")
    return known[suffix]


# Records.


def iterate_records(columns: Columns) -> Iterator[dict[str, Any]]:
    """The rows of a table in the types of JSON; NaN is None."""
    names = list(columns)
    for rows in _iterate_chunks(columns):
        yield from (dict(zip(names, row, strict=True)) for row in zip(*rows, strict=True))


def _iterate_chunks(columns: Columns) -> Iterator[list[list[Any]]]:
    """A chunk of rows of every column at a time, in the types of JSON."""
    n = len(next(iter(columns.values()), ()))
    for start in range(0, n, CHUNK):
        yield [_list_values(column[start : start + CHUNK]) for column in columns.values()]


def _list_values(values: Column) -> list[Any]:
    """Python values; float32 by its shortest decimal that reads back the same, times as ISO 8601 in UTC."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iub":
        return list(values.tolist())
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        return [None if text == "NaT" else text for text in np.datetime_as_string(values, timezone="UTC").tolist()]
    if isinstance(values, np.ndarray):
        listed = [float(str(value)) for value in values] if values.dtype == np.float32 else values.tolist()
    else:
        listed = list(values)
    return _plain_all(listed)


def _plain_all(values: list[Any]) -> list[Any]:
    """Values in the types of JSON; texts, of which there may be millions, are not looked at one by one."""
    if set(map(type, values)) <= _PLAIN:
        return values
    return [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (tuple, frozenset, set)):
        return sorted(value)
    return value.item() if isinstance(value, np.generic) else value


def _dump(record: Any) -> str:
    return json.dumps(record, ensure_ascii=False, allow_nan=False)


def format_times(said_at: npt.NDArray[np.int64]) -> list[str | None]:
    """Microseconds since 1970 as ISO 8601 in UTC; None where the time is not known."""
    return [
        None if value == NEVER else (_EPOCH + timedelta(microseconds=value)).isoformat() for value in said_at.tolist()
    ]


# CSV.


def guard(text: str) -> str:
    """Text that a spreadsheet does not take for a formula: with a ' in front if it begins like one."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def _write_csv(writer: Any, columns: Columns) -> None:
    writer.writerow([guard(name) for name in columns])
    for rows in _iterate_chunks(columns):
        writer.writerows(zip(*([_as_cell(value) for value in column] for column in rows), strict=True))


def _as_cell(value: Any) -> Any:
    if isinstance(value, str):
        return guard(value)
    if isinstance(value, list):
        if any(SEPARATOR in str(one) for one in value):
            raise InputError(
                f"{value!r} cannot be written as CSV, where {SEPARATOR} stands between labels: write JSON lines or "
                "Parquet"
            )
        return guard(SEPARATOR.join(map(str, value)))
    return value


# Tables.


def _write_parquet(path: Path, columns: Columns) -> None:
    import pyarrow.parquet as pq

    pq.write_table(make_table(columns), path)


def make_table(columns: Columns) -> Any:
    """The columns as an Arrow table; tuples become lists, times are in UTC, and NaN stays NaN in columns of numbers."""
    import pyarrow as pa

    arrays = {}
    for name, column in columns.items():
        numeric = isinstance(column, np.ndarray) and column.dtype != np.object_
        when = pa.timestamp("us", tz="UTC") if isinstance(column, np.ndarray) and column.dtype.kind == "M" else None
        try:
            arrays[name] = pa.array(column if numeric else _plain_all(list(column)), when)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InputError(f"{name} cannot be written as Parquet: {str(error).partition('.')[0]}") from error
    return pa.table(arrays)


def write_dataset(path: str | Path, columns: Columns, *, force: bool = False) -> Path:
    """A data set that `datasets.load_from_disk` opens. The folder is written beside, then renamed."""
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError("exporting a data set", "hf") from error
    target = Path(path)
    if target.exists() and not force:
        raise StoreError(f"{path} exists: pass --force (force=True in Python) to replace it, or choose another path")
    if target.exists() and not (target / "dataset_info.json").is_file():  # never remove a folder of something else
        raise StoreError(f"{path} is not a data set, so it is not replaced: choose another path")
    beside, old = (target.with_name(f".{target.name}.{os.getpid()}.{end}") for end in ("tmp", "old"))
    try:
        datasets.Dataset(make_table(columns)).save_to_disk(str(beside))
        if target.exists():
            target.rename(old)
        beside.rename(target)
    except OSError as error:
        if old.exists():
            old.rename(target)
        raise StoreError(f"writing {path} failed: {error.strerror or error}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    return target


# Votes for other libraries.


def arrange_votes(votes: Columns, layout: str, class_names: Sequence[str] = ()) -> dict[str, Column]:
    """Votes (id, annotator, value; for pairs also class) in the columns that another library expects.

    crowd-kit: task, worker, label. cleanlab: task, annotator, label, to be passed to its convert_long_to_wide_dataset;
    labels are numbers, the positions in `class_names`. A pair is the task "id/class".
    """
    checks.option(layout, "layout of votes", LAYOUTS)
    missing = [name for name in ("id", "annotator", "value") if name not in votes]
    if missing:
        raise InputError(f"votes need the columns id, annotator and value: {', '.join(missing)} is missing")
    tasks, values = votes["id"], _list_values(votes["value"])
    if "class" in votes:
        pairs = zip(_list_values(votes["id"]), _list_values(votes["class"]), strict=True)
        tasks = [f"{one}/{number}" for one, number in pairs]
    if any(isinstance(value, list) for value in values):
        raise InputError(f"{layout} has no multi-label votes: export the votes of pairs")
    if layout == "crowd-kit":
        return {"task": tasks, "worker": votes["annotator"], "label": values}
    codes = {name: code for code, name in enumerate(class_names)}
    unknown = [value for value in values if isinstance(value, str) and value not in codes]
    if unknown:
        raise InputError(f"cleanlab needs numbers for labels, and {unknown[0]!r} is not one of the class names")
    labels = np.array([codes[value] if isinstance(value, str) else value for value in values], np.int64)
    return {"task": tasks, "annotator": votes["annotator"], "label": labels}


# Label Studio.


def write_tasks(path: str | Path, columns: Columns, layout: TaskLayout, *, force: bool = False) -> list[Path]:
    """Tasks in the order of the table, several files if there are many: tasks.json becomes tasks-001.json and so on.

    Columns: `id` is needed; `class` makes tasks about pairs; `guess` (a class name; 0 or 1 for a pair) and
    `probability` become a prediction, which annotators see filled in; `label` becomes an annotation; all others are
    data. Which of them is shown, for
    example `text` or `uri`, is up to the labeling configuration.
    """
    checks.integer(layout.tasks_per_file, "tasks_per_file", least=1)
    if "id" not in columns:
        raise InputError(f"tasks need a column id: there is {', '.join(columns) or 'none'}")
    n = len(columns["id"])
    files = max(1, -(-n // layout.tasks_per_file))
    target = Path(path)
    width = max(3, len(str(files)))
    numbered = [target.with_stem(f"{target.stem}-{number + 1:0{width}}") for number in range(files)]
    names = numbered if files > 1 else [target]
    for name in names:
        store.check_target(name, force=force)
    tasks = (_make_task(record, layout) for record in iterate_records(columns))
    for name in names:
        with store.atomic_write(name, force=force) as temporary, temporary.open("w", encoding="utf-8") as file:
            file.write("[")
            for place, task in enumerate(itertools.islice(tasks, layout.tasks_per_file)):
                file.write(("," if place else "") + "\n" + _dump(task))
            file.write("\n]\n")
    return names


def _make_task(record: dict[str, Any], layout: TaskLayout) -> dict[str, Any]:
    guess, probability, label = (record.pop(name, None) for name in ("guess", "probability", "label"))
    data = {"hedgerow_id": record.pop("id")}
    class_ = record.pop("class", None)
    if class_ is not None:
        data["hedgerow_class"] = class_
    task: dict[str, Any] = {"data": data | {name: value for name, value in record.items() if value is not None}}
    if guess is not None:
        prediction: dict[str, Any] = {"model_version": layout.model, "result": _choose(guess, class_, layout)}
        if probability is not None:
            prediction["score"] = probability
        task["predictions"] = [prediction]
    if label is not None:
        task["annotations"] = [{"result": _choose(label, class_, layout)}]
    return task


def _choose(value: Any, class_: Any, layout: TaskLayout) -> list[dict[str, Any]]:
    """The choice of one or several classes in Label Studio; of a pair, yes or no."""
    if class_ is not None and not isinstance(value, str):
        value = "yes" if value else "no"
    choices = value if isinstance(value, list) else [value]
    return [{"from_name": layout.control, "to_name": layout.target, "type": "choices", "value": {"choices": choices}}]


def make_label_config(
    class_names: Sequence[str], shown: str, *, kind: str = "Text", multi: bool = False, layout: TaskLayout | None = None
) -> str:
    """The labeling configuration of a Label Studio project for such tasks. shown: the column to show.

    kind: Text, Image, Audio or HyperText.
    """
    layout = layout or TaskLayout()
    checks.option(kind, "kind of object", ("Text", "Image", "Audio", "HyperText"))
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in class_names)
    return (
        f"<View>\n  <{kind} name={quoteattr(layout.target)} value={quoteattr('$' + shown)}/>\n"
        f"  <Choices name={quoteattr(layout.control)} toName={quoteattr(layout.target)} "
        f'choice="{"multiple" if multi else "single"}">\n{choices}\n  </Choices>\n</View>\n'
    )
