"""Label files from outside as answers: JSON lines, CSV, Parquet, exports of Label Studio and Prodigy.

The form of a file is found from its content, not from its name, and `LabelFile.taken` says what was taken from where.
Every row becomes an answer or a reject; ids, class names and people are compared with the campaign later.

Flat files (JSON lines, CSV, Parquet, a JSON array of flat objects) have named columns. `id` and `label` are needed; an
annotator, a time, a kind of answer, a key of the answer and seconds are read if they are there. With a column `class`
next to the label, rows are about pairs, and the label is yes or no. Lists are multi-label answers. Times are ISO 8601
or seconds since 1970; those without a time zone are in `Reading.time_zone`.

Label Studio: every annotation of a task is an answer. Its key is the annotation's id, its time `updated_at`; a
cancelled annotation is a skip. The example's id is `hedgerow_id` in the task's data, as `exports` writes it, or else
`id`. In JSON_MIN `id` is Label Studio's own number of the task, so only `hedgerow_id`, or a column that the caller
names, will do.

Prodigy: `accept` is an answer, with the options that were chosen or the label of a yes-or-no question, `ignore` a skip;
`reject` is no for a yes-or-no question and none-of-these for a choice.
"""

import hashlib
import math
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, repeat
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.campaign.answers import ABSENT, KINDS, NEVER, WITH_VALUE, Answers, LabelFile, Reject, Value
from hedgerow.errors import InputError
from hedgerow.pool import parsing, sources
from hedgerow.pool.parquet import open_parquet
from hedgerow.pool.parsing import Bad

FORMS = ("jsonl", "csv", "parquet", "json", "label-studio", "label-studio-min", "prodigy")
# In whose name keys and people are understood: both exports of Label Studio have the same.
CHANNELS = {"json": "jsonl", "label-studio-min": "label-studio"}
CHUNK = 1 << 14  # rows at a time
BLOCK = 1000  # records that are held at once

# The columns of flat files by what they hold; the first that is there is taken.
NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("hedgerow_id", "id", "item_id", "uid", "uuid", "example_id", "sample_id", "image_id", "doc_id", "key"),
    "label": ("label", "labels", "value", "answer", "answers", "choice", "choices", "target"),
    "annotator": ("annotator", "annotator_id", "worker", "user", "who"),
    "said_at": ("said_at", "updated_at", "timestamp", "created_at", "time"),
    "kind": ("kind",),
    "class": ("class", "class_name"),
    "external": ("external", "annotation_id"),
    "seconds": ("seconds", "lead_time"),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST, _LAST = (
    (moment - _EPOCH) // _MICROSECOND for moment in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
)
_MOST_SECONDS = float(np.finfo(np.float32).max)  # as they are stored
_SECONDS = re.compile(r"\d+(\.\d*)?")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
_YES_NO = {"1": 1, "0": 0, "yes": 1, "no": 0, "true": 1, "false": 0, "y": 1, "n": 0}
_SIGNATURES = {
    b"PK\x03\x04": "an Excel workbook or a zip file: save it as CSV, or unpack it",
    b"\x1f\x8b": "compressed with gzip: unpack it",
    b"\x80": "a pickle, which is never read: write JSON lines, CSV or Parquet",
    b"\xff\xfe": "UTF-16: save it as UTF-8",
    b"\xfe\xff": "UTF-16: save it as UTF-8",
    b"\x93NUMPY": "a .npy file: write JSON lines, CSV or Parquet with ids and labels",
}


@dataclass(frozen=True)
class Reading:
    """How to read a label file.

    columns: what -> the name of its column, where the usual names do not fit ("id", "label", ...; for Label Studio
    "label" is the name of the control, and "id" a field of the task's data). multi: labels are sets of classes, so that
    one choice is a set of one. pairs: yes or no to one class. separator: splits a text into several labels. kinds:
    labels that stand for another kind of answer, for example {"none of these": "none-of-these"}. time_zone: of times
    that do not name theirs.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    multi: bool = False
    pairs: bool = False
    separator: str | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    time_zone: str = "UTC"


class _Said(NamedTuple):
    """One answer as read: what `answers.Answer` holds. A tuple, because a million of them are made."""

    id: int | str
    kind: str
    value: Value | None
    annotator: str | None
    said_at: int
    external: str | None
    seconds: float
    class_: str | None


class _UnusableError(ValueError):
    """A record without the answer that it should have; the message is the reason."""


def read_answers(path: str | Path, reading: Reading | None = None, *, form: str | None = None) -> LabelFile:
    """Read a label file. form: one of `FORMS`, found from the content by default."""
    reading = reading or Reading()
    _check(reading)
    file = sources.find_file(path, "the label file")
    if file.is_dir():
        raise InputError(f"the label file: {file} is a folder: name one file")
    form = detect(file) if form is None else checks.option(form, "form", FORMS)
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    collector = _Collector()
    taken = _READERS[form](file, reading, collector)
    return collector.finish(CHANNELS.get(form, form), digest, taken)


def detect(path: str | Path) -> str:
    """The form of a label file, from its first record. Files that are no label files are refused, with advice."""
    file = sources.find_file(path, "the label file")
    with file.open("rb") as opened:
        start = opened.read(1 << 16)
        if start.startswith(b"PAR1"):
            return "parquet"
        for signature, what in _SIGNATURES.items():
            if start.startswith(signature):
                raise InputError(f"the label file: {file} is {what}")
        first = start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        opened.seek(0)
        if first == b"[":
            return _detect_array(next(parsing.iterate_json_array(opened, str(file)), None))
        if first == b"{":
            return _detect_object(next(parsing.iterate_json_lines(opened), None))
    return "csv"


def _detect_array(element: Any) -> str:
    if not isinstance(element, dict):
        return "json"
    if isinstance(element.get("data"), dict):
        return "label-studio"
    return "label-studio-min" if {"annotation_id", "annotator"} <= set(element) else "json"


def _detect_object(record: Any) -> str:
    if not isinstance(record, dict):
        return "jsonl"
    if isinstance(record.get("data"), dict) and "annotations" in record:
        return "label-studio"
    marks = {"_task_hash", "_input_hash", "_session_id", "_annotator_id", "_view_id"}
    return "prodigy" if record.get("answer") in ("accept", "reject", "ignore") and marks & set(record) else "jsonl"


def _check(reading: Reading) -> None:
    for what in reading.columns:
        checks.option(what, "column", NAMES)
    for label, kind in reading.kinds.items():
        checks.option(kind, f"kind for {label!r}", [kind for kind in KINDS if kind not in WITH_VALUE])
    _find_zone(reading.time_zone)
    if reading.separator == "":
        raise InputError("separator must not be empty")


# Collecting.


class _Collector:
    """Answers by column as they are read, with values, people and classes interned; and rejects."""

    def __init__(self) -> None:
        self.ids: list[int | str] = []
        self.kinds = array("b")
        self.columns = {"value": array("i"), "annotator": array("i"), "class": array("i")}
        self.known: dict[str, dict[Any, int]] = {"value": {}, "annotator": {}, "class": {}}
        self.said_at = array("q")
        self.external: list[str | None] = []
        self.seconds = array("f")
        self.places = array("q")
        self.rejects: list[Reject] = []
        self.rows = 0
        self.met: dict[str, dict[Any, tuple[int, int]]] = {"label": {}, "annotator": {}}  # as written -> codes

    def add(self, said: _Said) -> None:
        """One more answer."""
        self.ids.append(said.id)
        self.kinds.append(_KIND_CODES[said.kind])
        self._intern("value", said.value)
        self._intern("annotator", said.annotator)
        self._intern("class", said.class_)
        self.said_at.append(said.said_at)
        self.external.append(said.external)
        self.seconds.append(said.seconds)
        self.places.append(self.rows)
        self.rows += 1

    def learn(self, what: str, texts: Iterable[Any], read: Callable[[Any], tuple[str, Any]]) -> None:
        """Find what labels or people as they are written mean. read: returns a kind of answer, if any, and a value."""
        met, name = self.met[what], "value" if what == "label" else what
        for text in dict.fromkeys(texts):  # in the order of the file
            if text not in met:
                kind, value = read(text)
                met[text] = (_KIND_CODES.get(kind, ABSENT), self._code(name, value))

    def add_many(self, ids: list[Any], labels: list[str], people: list[Any], said_at: npt.NDArray[np.int64]) -> None:
        """More answers, whose labels and people have been learned."""
        n = len(ids)
        meant = [self.met["label"][label] for label in labels]
        self.ids += ids
        self.kinds.extend([kind for kind, _ in meant])
        self.columns["value"].extend([value for _, value in meant])
        self.columns["annotator"].extend([self.met["annotator"][person][1] for person in people])
        self.columns["class"].extend(repeat(ABSENT, n))
        self.said_at.frombytes(said_at.tobytes())
        self.external += repeat(None, n)
        self.seconds.extend(repeat(math.nan, n))
        self.places.extend(range(self.rows, self.rows + n))
        self.rows += n

    def _intern(self, name: str, value: Any) -> None:
        self.columns[name].append(self._code(name, value))

    def _code(self, name: str, value: Any) -> int:
        known = self.known[name]
        return ABSENT if value is None else known.setdefault(value, len(known))

    def reject(self, reason: str, text: str) -> None:
        """One row that is no answer."""
        self.rejects.append(Reject(self.rows, "unreadable", reason, text[: parsing.SHOWN]))
        self.rows += 1

    def finish(self, channel: str, digest: str, taken: str) -> LabelFile:
        """What was collected."""
        values, annotators, classes = (
            np.array(self.columns[name], np.int32) for name in ("value", "annotator", "class")
        )
        seconds = np.array(self.seconds, np.float32)
        answers = Answers(
            _pack_ids(self.ids),
            np.array(self.kinds, np.int8),
            values,
            tuple(self.known["value"]),
            annotators,
            tuple(self.known["annotator"]),
            np.array(self.said_at, np.int64),
            np.array(self.external, np.object_) if any(one is not None for one in self.external) else None,
            None if np.isnan(seconds).all() else seconds,
            classes,
            tuple(self.known["class"]),
            np.array(self.places, np.int64),
        )
        return LabelFile(answers, tuple(self.rejects), channel, digest, taken)


_KIND_CODES = {kind: code for code, kind in enumerate(KINDS)}


def _pack_ids(ids: list[int | str]) -> Any:
    """Ids in one array: whole numbers if all are, else strings."""
    if ids and all(type(one) is int for one in ids):
        return np.array(ids, np.int64)
    return np.array([str(one) for one in ids], np.object_)


def _collect(records: Iterable[Any], understand: Callable[[Any], Iterable[_Said | Bad]], into: _Collector) -> None:
    """Every record as answers and rejects. Whatever a record holds, it ends as one or the other."""
    for record in records:
        if isinstance(record, Bad):
            into.reject(record.reason, record.text)
            continue
        try:
            for said in understand(record):
                if isinstance(said, Bad):
                    into.reject(said.reason, said.text)
                else:
                    into.add(said)
        except _UnusableError as error:
            into.reject(str(error), _show(record))


# Flat files.


@dataclass(frozen=True)
class _Flat:
    """Which field holds what in the rows of a flat file."""

    fields: Mapping[str, str]
    reading: Reading
    zone: tzinfo
    pairs: bool

    def collect(self, records: Iterable[Any], into: "_Collector") -> None:
        """All rows, a block at a time by column where that can be done."""
        held = iter(records)
        while block := list(islice(held, BLOCK)):
            plain = self.is_plain and all(type(record) is dict for record in block)
            columns = (
                {what: [record.get(name) for record in block] for what, name in self.fields.items()} if plain else {}
            )
            if not plain or not self.collect_columns(columns, into):
                _collect(block, self.understand, into)

    @property
    def is_plain(self) -> bool:
        """Whether rows have nothing but an id, a label, a person and a time, so that they can be read by column."""
        return set(self.fields) <= {"id", "label", "annotator", "said_at"}

    def collect_columns(self, columns: Mapping[str, Any], into: "_Collector") -> bool:
        """The rows of a block by what they hold, if all are plain answers; otherwise nothing, and False.

        Most files repeat a few labels and people a million times, so what these mean is looked up.
        """
        ids, labels = columns["id"], columns["label"]
        people, times = columns.get("annotator"), columns.get("said_at")
        if not _are_plain_ids(ids) or {type(label) for label in labels} != {str}:
            return False
        said_at = _read_times(times, len(ids), self.zone)
        people = [None] * len(ids) if people is None else people
        if said_at is None or not {type(one) for one in people} <= {str, int, type(None)}:
            return False
        try:
            into.learn("label", labels, self._read_label)
            into.learn("annotator", people, lambda person: ("", _read_person(person)))
        except _UnusableError:  # row by row, this one becomes a reject
            return False
        into.add_many(ids, labels, people, said_at)
        return True

    def _read_label(self, label: str) -> tuple[str, Value | None]:
        kind = _read_kind(None, label, self.reading)
        return kind, _read_label(label, self.reading) if kind in WITH_VALUE else None

    def understand(self, record: Any) -> Iterator[_Said]:
        """The answer of one row."""
        if not isinstance(record, dict):
            raise _UnusableError("it is not an object with fields")
        get, fields = record.get, self.fields
        label = get(fields["label"])
        kind = _read_kind(get(fields["kind"]) if "kind" in fields else None, label, self.reading)
        class_ = _read_name(get(fields["class"]), "class") if self.pairs else None
        yield _Said(
            _read_id(get(fields["id"]), fields["id"]),
            kind,
            None if kind not in WITH_VALUE else _read_yes(label) if self.pairs else _read_label(label, self.reading),
            _read_person(get(fields["annotator"])) if "annotator" in fields else None,
            _read_time(get(fields["said_at"]), self.zone) if "said_at" in fields else NEVER,
            _read_text(get(fields["external"])) if "external" in fields else None,
            _read_seconds(get(fields["seconds"])) if "seconds" in fields else math.nan,
            class_,
        )


def _find_fields(names: Sequence[str], reading: Reading, title: str, needed: Iterable[str] = ("id", "label")) -> _Flat:
    """Which column holds what, by name. Columns that are needed and missing are an error that lists what there is."""
    lower = {name.lower(): name for name in reversed(names)}
    fields: dict[str, str] = {}
    for what, usual in NAMES.items():
        wanted = reading.columns.get(what)
        if wanted is not None and wanted not in names:
            raise InputError(f"{title} has no column {wanted!r}: it has {_list(names)}")
        found = wanted or next((lower[name] for name in usual if name in lower), None)
        if found is not None:
            fields[what] = found
    if "label" not in fields and "class" in fields:
        fields["label"] = fields.pop("class")  # a class alone is the label
    for what in needed:
        if what not in fields:
            raise InputError(
                f"{title} has no column for the {what}: it has {_list(names)}; call it {what!r}, or name it "
                f"(--column {what}=NAME)"
            )
    if reading.pairs and "class" not in fields:
        raise InputError(f"{title} has no column for the class of a pair: it has {_list(names)}; call it 'class'")
    return _Flat(fields, reading, _find_zone(reading.time_zone), "class" in fields)


def _describe(flat: _Flat, what: str) -> str:
    return f"{what}: " + ", ".join(f"{name} from {column!r}" for name, column in flat.fields.items())


def _read_json_records(records: Iterator[Any], title: str, what: str, reading: Reading, into: _Collector) -> str:
    """Objects whose fields may differ from one to the next: names are looked for in the first thousand."""
    ahead: list[Any] = []
    names: dict[str, None] = {}
    for record in records:
        ahead.append(record)
        names.update(dict.fromkeys(record if isinstance(record, dict) else ()))
        if len(ahead) == BLOCK:
            break
    if not names:
        for record in (*ahead, *records):
            into.reject(record.reason if isinstance(record, Bad) else "it is not an object with fields", _show(record))
        if not into.rows:
            raise InputError(f"{title} holds no records")
        return f"{what}: nothing"
    flat = _find_fields(list(names), reading, title)
    flat.collect(ahead, into)
    flat.collect(records, into)
    return _describe(flat, what)


def _read_jsonl(file: Path, reading: Reading, into: _Collector) -> str:
    with file.open("rb") as opened:
        return _read_json_records(parsing.iterate_json_lines(opened), str(file), "JSON lines", reading, into)


def _read_json(file: Path, reading: Reading, into: _Collector) -> str:
    with file.open("rb") as opened:
        return _read_json_records(parsing.iterate_json_array(opened, str(file)), str(file), "JSON", reading, into)


def _read_csv(file: Path, reading: Reading, into: _Collector) -> str:
    with file.open("rb") as opened:
        heading = parsing.read_heading(opened, str(file))
        flat = _find_fields([name for name in heading.names if name], reading, str(file))
        place = {name: at for at, name in enumerate(heading.names)}
        kept = [(name, place[name]) for name in flat.fields.values()]
        rows = parsing.iterate_csv(opened, heading, str(file))
        records = (row if isinstance(row, Bad) else {name: row[at] for name, at in kept} for row in rows)
        flat.collect(records, into)
    if into.ids and all(_WHOLE.fullmatch(str(one)) and abs(int(one)) < 2**63 for one in into.ids):
        into.ids = [int(one) for one in into.ids]  # as the pool's own CSV files are read: 007 stays a string
    mark = {",": "commas", ";": "semicolons", "\t": "tabs"}[heading.delimiter]
    return _describe(flat, f"CSV with {mark}")


def _read_parquet(file: Path, reading: Reading, into: _Collector) -> str:
    data = open_parquet([str(file)])
    names = list(data.schema.names)
    if len(names) > parsing.FIELDS:
        raise InputError(f"{file} has {len(names):,} columns; at most {parsing.FIELDS:,} are read")
    flat = _find_fields(names, reading, str(file))
    kind = str(data.schema.field(flat.fields["id"]).type)
    if not re.fullmatch(r"u?int\d+|(large_)?string(_view)?|dictionary<.*string.*>", kind):
        raise InputError(f"{file}: {flat.fields['id']!r} holds {kind}: ids must be whole numbers or strings")
    wanted = list(dict.fromkeys(flat.fields.values()))
    for batch in data.batches(wanted, CHUNK, 0, data.n):
        if flat.is_plain and flat.collect_columns(_take_columns(flat, batch), into):
            continue
        columns = {name: _list_column(batch.column(name)) for name in wanted}
        records = (dict(zip(wanted, row, strict=True)) for row in zip(*columns.values(), strict=True))
        _collect(records, flat.understand, into)
    return _describe(flat, "Parquet")


def _take_columns(flat: _Flat, batch: Any) -> dict[str, Any]:
    """A batch by what its columns hold, as Python values; times stay as they are."""
    taken = {what: batch.column(name) for what, name in flat.fields.items()}
    return {what: column if what == "said_at" else column.to_pylist() for what, column in taken.items()}


def _list_column(column: Any) -> list[Any]:
    """Python values; times become microseconds, marked as such, because nanoseconds do not fit Python's."""
    import pyarrow as pa

    if not pa.types.is_timestamp(column.type):
        values: list[Any] = column.to_pylist()
        return values
    zoned = column.type.tz is not None
    micro = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64()).to_pylist()
    return [None if one is None else _Micro(one, zoned) for one in micro]


@dataclass(frozen=True)
class _Micro:
    """A time in microseconds; without a zone, on the clock of the file's time zone."""

    value: int
    zoned: bool


# Label Studio.


def _read_label_studio(file: Path, reading: Reading, into: _Collector) -> str:
    zone = _find_zone(reading.time_zone)
    with file.open("rb") as opened:
        _collect(_iterate_tasks(opened, file), lambda task: _understand_task(task, reading, zone), into)
    return "Label Studio JSON: annotations of type choices, people from completed_by, times from updated_at"


def _iterate_tasks(opened: BinaryIO, file: Path) -> Iterator[Any]:
    """The tasks of an export, which is an array; or of a file with one task per line."""
    first = opened.read(1 << 10).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    opened.seek(0)
    return parsing.iterate_json_lines(opened) if first == b"{" else parsing.iterate_json_array(opened, str(file))


def _understand_task(task: Any, reading: Reading, zone: tzinfo) -> Iterator[_Said | Bad]:
    """The answers of one task; a task without annotations has none."""
    if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
        raise _UnusableError("it is not a task with data")
    annotations = task.get("annotations", task.get("completions"))
    if not isinstance(annotations, list):
        raise _UnusableError("it has no list of annotations")
    for annotation in annotations:
        try:
            yield _understand_annotation(annotation, task["data"], reading, zone)
        except _UnusableError as error:
            yield Bad(str(error), _show({"data": task["data"], "annotation": annotation}))


def _understand_annotation(annotation: Any, data: Mapping[str, Any], reading: Reading, zone: tzinfo) -> _Said:
    if not isinstance(annotation, dict):
        raise _UnusableError("the annotation is not an object")
    skipped = annotation.get("was_cancelled") is True
    choices = [] if skipped else _find_choices(annotation.get("result"), reading.columns.get("label"))
    kind = "skip" if skipped else _read_kind(None, choices[0] if len(choices) == 1 else "several", reading)
    class_ = _find_class(data, reading)
    value: Value | None = None
    if kind in WITH_VALUE and class_ is not None:
        value = _read_yes(choices[0] if len(choices) == 1 else choices)
    elif kind in WITH_VALUE:
        value = _read_label(choices if reading.multi or len(choices) != 1 else choices[0], reading)
    key = annotation.get("id")
    said_at = annotation.get("updated_at") or annotation.get("created_at")
    return _Said(
        _find_id(data, reading),
        kind,
        value,
        _read_person(annotation.get("completed_by")),
        _read_time(said_at, zone),
        None if key is None else _read_text(key),
        _read_seconds(annotation.get("lead_time")),
        class_,
    )


def _find_choices(result: Any, control: str | None) -> list[str]:
    """The choices of an annotation; if several controls have choices, the caller must name one."""
    regions = [one for one in result if isinstance(one, dict)] if isinstance(result, list) else []
    regions = [one for one in regions if one.get("type") == "choices" and control in (None, one.get("from_name"))]
    controls = sorted({str(one.get("from_name")) for one in regions})
    if len(controls) > 1:
        raise _UnusableError(
            f"choices come from several controls ({', '.join(controls)}): name one (--column label=NAME)"
        )
    found: list[str] = []
    for region in regions:
        value = region.get("value")
        listed = value.get("choices") if isinstance(value, dict) else None
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            raise _UnusableError("its choices are not a list of names")
        found += listed
    return found


def _read_label_studio_min(file: Path, reading: Reading, into: _Collector) -> str:
    """JSON_MIN: one object per annotation, the task's data and the controls side by side."""
    with file.open("rb") as opened:
        first = next((one for one in parsing.iterate_json_array(opened, str(file)) if isinstance(one, dict)), {})
    names = list(first)
    if "hedgerow_id" not in names and "id" not in reading.columns:
        raise InputError(
            f"{file}: in Label Studio's JSON_MIN `id` is the number of the task, and there is no hedgerow_id: export "
            f"as JSON, or name the column of your ids (--column id=NAME): {_list(names)}"
        )
    inner = Reading(**{**vars(reading), "columns": {"external": "annotation_id", **reading.columns}})
    flat = _find_fields(names, inner, str(file))
    with file.open("rb") as opened:
        records = (_flatten_choices(one) for one in parsing.iterate_json_array(opened, str(file)))
        flat.collect(records, into)
    return _describe(flat, "Label Studio JSON_MIN")


def _flatten_choices(record: Any) -> Any:
    """{"choices": [...]}, which JSON_MIN has for several choices, as the list itself."""
    if not isinstance(record, dict):
        return record
    return {
        name: value["choices"] if isinstance(value, dict) and set(value) == {"choices"} else value
        for name, value in record.items()
    }


# Prodigy.


def _read_prodigy(file: Path, reading: Reading, into: _Collector) -> str:
    with file.open("rb") as opened:
        _collect(parsing.iterate_json_lines(opened), lambda task: _understand_prodigy(task, reading), into)
    return "Prodigy JSON lines: answers from answer and accept, people from _annotator_id, times from _timestamp"


def _understand_prodigy(task: Any, reading: Reading) -> Iterator[_Said]:
    if not isinstance(task, dict):
        raise _UnusableError("it is not an object with fields")
    meta = task.get("meta") if isinstance(task.get("meta"), dict) else {}
    person = _read_person(task.get("_annotator_id", task.get("_session_id")))
    stamp = task.get("_timestamp")
    said_at = _read_time(stamp, UTC)
    kind, value, class_ = _understand_decision(task, reading)
    key = task.get("_task_hash")
    yield _Said(
        _find_id({**(meta or {}), **task}, reading),
        kind,
        value,
        person,
        said_at,
        # Without a time, the key alone would make every later correction look like the same answer.
        f"{key}/{person or ''}" if isinstance(key, int) and said_at != NEVER else None,
        math.nan,
        class_,
    )


def _understand_decision(task: Mapping[str, Any], reading: Reading) -> tuple[str, Value | None, str | None]:
    """(kind, value, class) of a choice or of a yes-or-no question."""
    answer = task.get("answer")
    if answer == "ignore":
        return "skip", None, _read_name(task["label"], "label") if reading.pairs and "label" in task else None
    if answer not in ("accept", "reject"):
        raise _UnusableError(f"its answer is {_show(answer)}: accept, reject or ignore is needed")
    if "accept" in task or "options" in task:
        if answer == "reject":
            return "none-of-these", None, None
        chosen = task.get("accept", [])
        if not isinstance(chosen, list):
            raise _UnusableError("accept is not a list")
        kind = _read_kind(None, chosen[0] if len(chosen) == 1 else "several", reading)
        single = len(chosen) == 1 and not reading.multi
        return kind, _read_label(chosen[0] if single else chosen, reading) if kind in WITH_VALUE else None, None
    label = _read_name(task.get("label"), "label")
    if reading.pairs:
        return "answer", int(answer == "accept"), label
    if answer == "reject":
        raise _UnusableError(f"it says no to {label!r}, which does not answer the question for the class of a row")
    return "answer", (label,) if reading.multi else label, None


# Fields.


def _find_id(data: Mapping[str, Any], reading: Reading) -> int | str:
    """The example's id in the data of a task: the field that the caller names, hedgerow_id or id."""
    for name in [reading.columns["id"]] if "id" in reading.columns else ["hedgerow_id", "id"]:
        if name in data:
            return _read_id(data[name], name)
    wanted = reading.columns.get("id", "hedgerow_id or id")
    raise _UnusableError(f"it has no {wanted}: it has {_list(list(data))}")


def _find_class(data: Mapping[str, Any], reading: Reading) -> str | None:
    """The class of a pair, which `exports` writes into the data of the task."""
    name = reading.columns.get("class", "hedgerow_class")
    if name in data:
        return _read_name(data[name], name)
    if reading.pairs:
        raise _UnusableError(f"its data has no {name}, the class of the pair")
    return None


def _read_id(value: Any, name: str) -> int | str:
    if type(value) is int:
        if abs(value) >= 2**63:
            raise _UnusableError(f"{name} is {value}, which is beyond int64: use strings")
        return value
    if isinstance(value, str) and value and _is_text(value):
        return value
    raise _UnusableError(f"{name} is {_show(value)}: a whole number or a string is needed")


def _are_plain_ids(ids: list[Any]) -> bool:
    """Whether all are whole numbers, or all are strings that are not empty."""
    kinds = {type(one) for one in ids}
    if kinds == {int}:
        return bool(max(ids) < 2**63 and min(ids) > -(2**63))
    return kinds == {str} and all(ids) and _is_text("".join(ids))


def _read_label(value: Any, reading: Reading) -> Value:
    """A class name, or a tuple of names in alphabetical order."""
    if isinstance(value, str) and reading.separator is not None:
        value = [part.strip() for part in value.split(reading.separator) if part.strip()]
    if isinstance(value, (list, tuple)):
        if not value and not reading.multi:
            raise _UnusableError("it has no label")
        return tuple(sorted({_read_name(one, "label") for one in value}))
    name = _read_name(value, "label")
    return (name,) if reading.multi else name


def _is_text(value: str) -> bool:
    """Whether databases can hold it: no half of a character, as JSON may have by an escape, and no NUL."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def _read_name(value: Any, what: str) -> str:
    if type(value) is int:
        return str(value)
    if isinstance(value, str) and value.strip() and _is_text(value):
        return value.strip()
    if value is None or (isinstance(value, str) and not value.strip()):
        raise _UnusableError(f"it has no {what}")
    raise _UnusableError(f"its {what} is {_show(value)}: a class name is needed")


def _read_yes(value: Any) -> int:
    found = _YES_NO.get(str(value).strip().lower()) if isinstance(value, (str, int, bool)) else None
    if found is None:
        raise _UnusableError(f"its label is {_show(value)}: a pair is answered by 1 or 0, yes or no")
    return found


def _read_kind(value: Any, label: Any, reading: Reading) -> str:
    """The kind of an answer: as its column says, or as the label stands for, or a plain answer."""
    if isinstance(label, str) and (meant := reading.kinds.get(label.strip(), reading.kinds.get(label.strip().lower()))):
        return meant
    if value is None or value == "":
        return "answer"
    if not isinstance(value, str) or value not in _KIND_CODES:
        raise _UnusableError(f"its kind is {_show(value)}: known are {', '.join(KINDS)}")
    return value


def _read_person(value: Any) -> str | None:
    """A name. Label Studio has a number, or an object with number and address."""
    if isinstance(value, dict):
        value = value.get("email") or value.get("id")
    return _read_text(value.strip() if isinstance(value, str) else value)


def _read_text(value: Any) -> str | None:
    if value is None or value == "":
        return None
    if type(value) is int or (isinstance(value, str) and _is_text(value)):
        return str(value)
    raise _UnusableError(f"{_show(value)} is neither text nor a whole number")


def _read_seconds(value: Any) -> float:
    if value is None or value == "":
        return math.nan
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        raise _UnusableError(f"its seconds are {_show(value)}: a number is needed") from None
    return seconds if 0 <= seconds <= _MOST_SECONDS else math.nan


def _read_time(value: Any, zone: tzinfo) -> int:
    """Microseconds since 1970 in UTC; `NEVER` if there is no time."""
    if value is None or value == "":
        return NEVER
    try:
        if isinstance(value, _Micro):
            moment = _EPOCH + timedelta(microseconds=value.value)
            moment = moment if value.zoned else moment.replace(tzinfo=zone)
        elif isinstance(value, str) and not _SECONDS.fullmatch(value):
            moment = datetime.fromisoformat(value.strip())
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
        elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
            moment = _EPOCH + timedelta(seconds=float(value))
        else:
            raise ValueError
        return (moment - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        raise _UnusableError(f"its time is {_show(value)}: ISO 8601 or seconds since 1970 are needed") from None


def _read_times(values: Any, n: int, zone: tzinfo) -> npt.NDArray[np.int64] | None:
    """The same for a whole column, a list or an Arrow array, if all of it is in one common form; otherwise None."""
    import pyarrow as pa

    if values is None:
        return np.full(n, NEVER, np.int64)
    try:
        column = values if isinstance(values, pa.Array) else pa.array([one or None for one in values])
        if pa.types.is_null(column.type):
            return np.full(n, NEVER, np.int64)
        if not pa.types.is_string(column.type) and not pa.types.is_timestamp(column.type):
            return None
        zoned = column.type.tz is not None if pa.types.is_timestamp(column.type) else _name_zones(column)
        if not zoned and zone is not UTC:
            return None
        micro = column.cast(pa.timestamp("us", "UTC" if zoned else None), safe=False).cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return None
    found: npt.NDArray[np.int64] = micro.fill_null(NEVER).to_numpy()
    known = found[found != NEVER]
    return found if not len(known) or (known.min() >= _FIRST and known.max() <= _LAST) else None


def _name_zones(column: Any) -> bool:
    """Whether the first of a column of ISO 8601 texts names its zone; Arrow refuses to read both kinds at once."""
    text = next((str(one) for one in column if one.is_valid), "")
    return text.endswith("Z") or bool(re.search(r"\d[+-]\d\d:?\d\d$", text[10:]))


def _find_zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(f"unknown time zone {name!r}: a name such as Europe/Berlin is needed") from None


def _show(value: Any) -> str:
    text = value.text if isinstance(value, Bad) else repr(value)
    return text if len(text) <= parsing.SHOWN else text[: parsing.SHOWN] + "..."


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:20]))
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "") if names else "none"


_READERS: Mapping[str, Callable[[Path, Reading, _Collector], str]] = {
    "jsonl": _read_jsonl,
    "json": _read_json,
    "csv": _read_csv,
    "parquet": _read_parquet,
    "label-studio": _read_label_studio,
    "label-studio-min": _read_label_studio_min,
    "prodigy": _read_prodigy,
}
