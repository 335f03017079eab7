"""What people said about the pool: one answer, many answers by column, and what was read from a label file.

An answer names its example by the user's id, and says when and by whom it was given as far as the file tells. Ids,
class names and people are not compared with a campaign here: reading a file and applying it are two steps. Bulk paths
use `Answers`, columns with interned values; `Answer` is one of its rows, for the paths where people wait.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError

ANSWER, UNSURE, NONE_OF_THESE, SKIP, BROKEN, ADJUDICATE, RETRACT = range(7)
# The place of a kind is its number in the database: new kinds are added at the end.
KINDS = ("answer", "unsure", "none-of-these", "skip", "broken", "adjudicate", "retract")
SPOKEN = ("unsure", "none-of-these", "skip", "broken")  # what people can say instead of a class
WITH_VALUE = frozenset({"answer", "adjudicate"})  # the kinds that carry a value; the others say nothing about classes

NEVER = np.iinfo(np.int64).min  # in `said_at`: the file does not say when
ABSENT = -1  # in columns of codes: no value, no annotator, no class

Value = str | tuple[str, ...] | int  # a class name, the names of a multi-label answer, or 0 or 1 for a pair
Codes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Answer:
    """What one person said about one example, or about one pair.

    id: the example's. kind: one of `KINDS`. value: a class name, a tuple of names (multi-label), 0 or 1 (a pair), or
    None for the kinds without a value. annotator: the person's name in the file, None if it has none. said_at:
    microseconds since 1970 in UTC, None if unknown. external: the key of this answer in the tool that it comes from;
    the same key with the same `said_at` is the same answer. seconds: how long it took. class_: the class that a pair
    asks about.
    """

    id: int | str
    kind: str
    value: Value | None = None
    annotator: str | None = None
    said_at: int | None = None
    external: str | None = None
    seconds: float | None = None
    class_: str | None = None

    def __post_init__(self) -> None:
        checks.option(self.kind, "kind of answer", KINDS)
        if self.kind in WITH_VALUE and self.value is None:
            raise InputError(f"the {self.kind} for {self.id!s} has no value: name a class, or 0 or 1 for a pair")
        if self.kind not in WITH_VALUE and self.value is not None:
            raise InputError(f"{self.kind!r} has no value, but the one for {self.id!s} has {self.value!r}")


@dataclass(frozen=True, eq=False)
class Answers:
    """Many answers by column, all of the same length; what `Answer` says about each field holds here.

    ids: int64, or strings (dtype object). kinds: int8, places in `KINDS`. values: codes, places in `vocabulary`;
    annotators: places in `names`; classes: places in `class_names`; in all three `ABSENT` means none. said_at: int64,
    `NEVER` if unknown. external: strings and None (dtype object), or None if the file has no keys. seconds: float32,
    NaN if unknown, or None. places: int64, the position of each answer in its file (line, element or row, from 0).
    """

    ids: npt.NDArray[Any]
    kinds: npt.NDArray[np.int8]
    values: Codes
    vocabulary: tuple[Value, ...]
    annotators: Codes
    names: tuple[str, ...]
    said_at: npt.NDArray[np.int64]
    external: npt.NDArray[np.object_] | None
    seconds: npt.NDArray[np.float32] | None
    classes: Codes
    class_names: tuple[str, ...]
    places: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        columns = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        checks.same_length({name: len(column) for name, column in columns.items()})

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Answer]:
        return (self.read(at) for at in range(len(self)))

    def read(self, at: int) -> Answer:
        """One row as an `Answer`."""
        said_at, seconds = int(self.said_at[at]), None if self.seconds is None else float(self.seconds[at])
        return Answer(
            self.ids[at : at + 1].tolist()[0],
            KINDS[self.kinds[at]],
            _look_up(self.vocabulary, self.values[at]),
            _look_up(self.names, self.annotators[at]),
            None if said_at == NEVER else said_at,
            None if self.external is None else self.external[at],
            None if seconds is None or np.isnan(seconds) else seconds,
            _look_up(self.class_names, self.classes[at]),
        )

    @classmethod
    def of(cls, answers: Iterable[Answer]) -> "Answers":
        """The same answers by column."""
        held = list(answers)
        values, vocabulary = _intern(one.value for one in held)
        annotators, names = _intern(one.annotator for one in held)
        classes, class_names = _intern(one.class_ for one in held)
        external = np.array([one.external for one in held], np.object_)
        seconds = [np.nan if one.seconds is None else one.seconds for one in held]
        return cls(
            _pack_ids([one.id for one in held]),
            np.array([KINDS.index(one.kind) for one in held], np.int8),
            values,
            vocabulary,
            annotators,
            names,
            np.array([NEVER if one.said_at is None else one.said_at for one in held], np.int64),
            external,
            np.array(seconds, np.float32),
            classes,
            class_names,
            np.arange(len(held), dtype=np.int64),
        )


@dataclass(frozen=True)
class Reject:
    """A row of a label file that could not be used. reason: "unreadable", "unknown id" or "unknown class"."""

    place: int
    reason: str
    detail: str
    text: str  # the row as it stands in the file, cut where it is long; or what was read from it, as JSON


@dataclass(frozen=True, eq=False)
class LabelFile:
    """What a label file holds. Every row of it is in `answers` or in `rejects`: `rows` counts both.

    channel: the kind of file ("jsonl", "csv", "parquet", "label-studio", "prodigy"), in whose name the keys of answers
    and the names of people are understood. sha256: of the bytes of the file. taken: what was read from where, in words.
    """

    answers: Answers
    rejects: tuple[Reject, ...]
    channel: str
    sha256: str
    taken: str = ""

    @property
    def rows(self) -> int:
        """How many rows the file has."""
        return len(self.answers) + len(self.rejects)


def _look_up(held: tuple[Any, ...], code: Any) -> Any:
    return None if code == ABSENT else held[code]


def _intern(values: Iterable[Any]) -> tuple[Codes, tuple[Any, ...]]:
    """(codes, the distinct values in order of appearance); None has no code."""
    known: dict[Any, int] = {}
    codes = [ABSENT if value is None else known.setdefault(value, len(known)) for value in values]
    return np.array(codes, np.int32), tuple(known)


def _pack_ids(ids: list[int | str]) -> npt.NDArray[Any]:
    """Ids in one array: whole numbers if all are, else strings."""
    if ids and all(isinstance(one, int) for one in ids):
        return np.array(ids, np.int64)
    return np.array([str(one) for one in ids], np.object_)
