"""What is known about labels: how many there are per class, and how well the model is calibrated on them.

Labels come from the files that list what is labeled, if these have a column of labels, or as an array. They are class
numbers, which are the columns of the predictions, or names. Names are counted, but calibration needs numbers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks, metrics, pool, scores
from hedgerow.advice.records import Calibration
from hedgerow.errors import InputError
from hedgerow.pairs.files import NamedPairs
from hedgerow.pool import tables
from hedgerow.pool.ids import Ids
from hedgerow.pool.sources import is_location, title_of
from hedgerow.strategies import inputs

Rows = npt.NDArray[np.int64]

MOST_NUMBER = np.float64(2**63)  # class numbers are int64


@dataclass(frozen=True, eq=False)
class Known:
    """Positions in the pool with known labels, and the labels: class numbers, or positions in `names`."""

    rows: Rows
    numbers: npt.NDArray[np.int64]
    names: npt.NDArray[Any] | None = None

    def count(self, classes: int) -> npt.NDArray[np.int64]:
        """How many labels each class has; of named classes, the last ones may have no name yet."""
        return np.bincount(self.numbers, minlength=classes)


def find_labels(
    labeled: Any, labels: Any, n: int, ids: Ids | None, *, column: str | None, id_column: str | None
) -> Known | None:
    """The labels of rows, from the tables and files of `labeled`, or from the array `labels`; None if there are none.

    labeled: as `inputs.open_labeled` gives it. labels: one per entry of `labeled` (a mask: one per row that it marks),
    or one per row of the pool.
    """
    if labels is None:
        if not (is_location(labeled) or isinstance(labeled, tables.Table)):
            _refuse_column(column)
            return None
        found = pool.read_labels(labeled, "labeled", n, ids, column=column, id_column=id_column)
        if not found:
            return None
        rows = np.concatenate([one.rows for one in found])
        return make_known(rows, _join_values([one.values for one in found]), "row")
    _refuse_column(column)
    if labeled is None or is_location(labeled) or isinstance(labeled, tables.Table):
        raise InputError(
            "labels goes with an array labeled=... of rows, ids or a mask; in files, labels are a column called label"
        )
    values = pool.as_vector(labels, "labels")
    rows = _list_rows(labeled, n, ids)
    if len(values) == n and len(rows) != n:
        values = values[rows]
    checks.same_length({"labels": len(values), "labeled": len(rows)})
    return make_known(rows, values, "row")


def find_answers(
    labeled: Any, labels: Any, named: NamedPairs, *, column: str | None, ignore_unknown: bool
) -> Known | None:
    """The answers of pairs, 1 for yes and 0 for no, from the files of `labeled` or the array `labels`; None without.

    labels: one per entry of `labeled` (a mask: one per pair that it marks), or one per pair.
    """
    paths = inputs.list_paths(labeled)
    if labels is None:
        found = [] if paths is None else _read_answers(paths, named, column, ignore_unknown)
        if not found:
            _refuse_column(column)
            return None
        index, values = (np.concatenate(pieces) for pieces in zip(*found, strict=True))
    else:
        _refuse_column(column)
        if labeled is None or paths is not None:
            raise InputError(
                "labels goes with an array labeled=... of positions or a mask; in files, answers are a column called "
                "answer or label"
            )
        values = pool.as_vector(labels, "labels")
        index = _list_rows(labeled, len(named.pairs), None)
        if len(values) == len(named.pairs) and len(index) != len(values):
            values = values[index]
        checks.same_length({"labels": len(values), "labeled": len(index)})
    return make_known(index, as_answers(values, "labels"), "pair")


def _read_answers(
    paths: list[str], named: NamedPairs, column: str | None, ignore_unknown: bool
) -> list[tuple[Rows, npt.NDArray[Any]]]:
    """(positions, answers) of the files that have a column of answers; if it is named, one of them must."""
    found, seen = [], []
    for path in paths:
        opened = tables.open_source(path, "labeled")
        if isinstance(opened, tables.Table):
            seen.append(opened)
            given = column if column in opened.types else None
            key = opened.find("answers", tables.VECTOR_NAMES["answers"]) if column is None else given
            if key is not None:
                index, values = named.locate(opened, f"labeled ({path})", ignore_unknown), opened.read(key)
                found.append((index[index >= 0], as_answers(values, opened.describe(key))[index >= 0]))
    if column is not None and seen and not found:
        seen[0].require(column)
    return found


def as_answers(values: npt.NDArray[Any], name: str) -> npt.NDArray[np.int64]:
    """Answers as 0 and 1; in text, which CSV files hold, they are true and false."""
    values = _unpack(values, name)
    if values.dtype.kind == "U":
        words = np.char.lower(values)
        answers, fits = words == "true", np.isin(words, ("true", "false"))
    else:
        answers = values
        fits = np.isin(values, (0, 1)) if values.dtype.kind in "iufb" else np.zeros(len(values), np.bool_)
    if not fits.all():
        wrong = values[~fits][:1].tolist()[0]
        raise InputError(f"{name} holds {wrong!r}: answers are 0 or 1, or true or false")
    return np.asarray(answers, np.int64)


def _refuse_column(column: str | None) -> None:
    if column is not None:
        raise InputError(f"label_column {column!r} is that of a file in labeled=..., but none was given")


def _list_rows(labeled: Any, n: int, ids: Ids | None) -> Rows:
    """The rows of an array `labeled`, in its order."""
    given = np.asarray(labeled)
    if given.dtype == np.bool_:
        return np.flatnonzero(given)
    if given.dtype.kind in "OU":
        if ids is None:
            raise InputError("labeled holds strings, but the pool has no ids: give rows, or inputs with an id column")
        return pool.match_ids(given.astype(np.object_), ids, "labeled")
    return checks.rows(given, n, "labeled")


def _join_values(pieces: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    kinds = {piece.dtype.kind in "OU" for piece in pieces}
    if len(kinds) > 1:
        raise InputError("labeled: one file has labels that are numbers, another names: give one kind")
    return np.concatenate(pieces)


def make_known(rows: Rows, values: npt.NDArray[Any], unit: str) -> Known:
    """Labels of any type as numbers; a row or pair that is listed twice must have one label."""
    values = _unpack(values, "labels")
    if values.dtype.kind == "U":
        names, numbers = np.unique(values, return_inverse=True)
    else:
        names, numbers = None, as_numbers(values, "labels")
    order = np.argsort(rows, kind="stable")
    rows, numbers = rows[order], numbers[order].astype(np.int64)
    again = rows[1:] == rows[:-1]
    differ = np.flatnonzero(again & (numbers[1:] != numbers[:-1]))
    if len(differ):
        first, second = (numbers[differ[0] + at] if names is None else names[numbers[differ[0] + at]] for at in (0, 1))
        raise InputError(f"labeled: {unit} {rows[differ[0]]} has two labels, {first} and {second}: keep one of them")
    kept = np.concatenate([np.ones(min(1, len(rows)), np.bool_), ~again])
    return Known(rows[kept], numbers[kept], names)


def _unpack(values: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Python objects as an array of strings or numbers."""
    if values.dtype.kind != "O":
        return values
    for one in values:
        if not isinstance(one, (str, int, float, np.generic)) or one != one:  # only NaN differs from itself
            raise InputError(f"{name} holds {one}, which is no class number or name: leave out what has no label")
    texts = np.array([isinstance(one, str) for one in values], np.bool_)
    if texts.any() and not texts.all():
        text, number = values[int(np.argmax(texts))], values[int(np.argmin(texts))]
        raise InputError(f"{name} holds names and numbers, such as {text!r} and {number!r}: give one kind")
    return np.array(values.tolist()) if len(values) else values.astype(np.str_)


def as_numbers(
    values: npt.NDArray[Any], name: str, needed: str = "class numbers 0, 1, ... or names"
) -> npt.NDArray[np.int64]:
    """Class numbers 0, 1, ..., which a table may hold as floats or bools. needed: what errors ask for."""
    values = _unpack(values, name)
    if values.dtype.kind not in "iufb":
        raise InputError(f"{name} holds values such as {values[:1].tolist()}: {needed} are needed")
    whole = np.isfinite(values) & (values == np.floor(values)) & (values < MOST_NUMBER)
    if not whole.all():
        raise InputError(f"{name} holds {values[int(np.argmin(whole))]}: {needed} are needed")
    numbers = values.astype(np.int64)
    if len(numbers) and numbers.min() < 0:
        raise InputError(f"{name} holds {numbers.min()}: class numbers are 0 or more; leave out what has no label")
    return numbers


def count_classes(known: Known | None, columns: int | None, given: int | None) -> int | None:
    """The number of classes: as given, or the columns of the predictions, or the labels that there are so far."""
    if given is not None and columns is not None and given != columns:
        raise InputError(f"classes is {given}, but the predictions have {columns} columns: leave it out")
    classes = columns if given is None else given
    if known is None or len(known.numbers) == 0:
        return classes
    seen = int(known.numbers.max()) + 1
    if classes is not None and seen > classes:
        if known.names is not None:
            raise InputError(f"labels has {seen} different names, but there are {classes} classes")
        raise InputError(f"labels holds class {seen - 1}, but the {classes} classes are numbered from 0")
    return classes


# Calibration.


def calibrate(probabilities: npt.NDArray[Any], numbers: npt.NDArray[np.int64], source: str) -> Calibration | None:
    """The calibration of probabilities (m, C) against class numbers (m,); None without any."""
    if len(numbers) == 0:
        return None
    error, accuracy = (METRIC(probabilities, numbers) for METRIC in (metrics.calibration_error, metrics.accuracy))
    return Calibration(error, accuracy, len(numbers), source)


def read_holdout(
    holdout: Any,
    *,
    logits: bool,
    column: str | None,
    label_column: str | None,
    classes: int | None,
    answers: bool = False,
) -> Calibration | None:
    """Calibration on a table of predictions and labels, or on a tuple (predictions, labels). answers: of pairs."""
    if isinstance(holdout, tuple) and len(holdout) == 2:
        source, values, column = holdout[0], pool.as_vector(holdout[1], "labels"), None
    else:
        source, values = holdout, _read_label_column(holdout, label_column, "answers" if answers else "labels")
    title = inputs.name_source("holdout", source)
    if len(values) == 0:
        raise InputError(f"{title} has no rows: predictions with labels are needed")
    if answers:
        chances = checks.vector(pool.as_vector(source, "pair probabilities", column=column), "probabilities")
        checks.same_length({f"probabilities of {title}": len(chances), "its answers": len(values)})
        scores.refuse_beyond_one(chances, f"probabilities of {title}")
        return calibrate(np.column_stack([1 - chances, chances]), as_answers(values, f"labels of {title}"), "holdout")
    name = "logits" if logits else "probabilities"
    matrix = _check_matrix(source, name, column)
    checks.same_length({f"{name} of {title}": matrix.n, "its labels": len(values)})
    if classes is not None and matrix.width != classes:
        raise InputError(f"{title} has {matrix.width} columns of {name}, but there are {classes} classes")
    numbers = as_numbers(values, f"labels of {title}", "class numbers 0, 1, ..., the columns of the predictions,")
    if numbers.max() >= matrix.width:
        raise InputError(f"labels of {title} holds {numbers.max()}, but its classes are 0 to {matrix.width - 1}")
    return calibrate((scores.softmax(matrix) if logits else matrix).array(), numbers, "holdout")


def _check_matrix(source: Any, name: str, column: str | None) -> pool.Matrix:
    """The probabilities or logits of a holdout, checked; errors say that they are not those of the pool."""
    try:
        matrix = pool.open_matrix(source, name, column=column, least_columns=2)
        scores.margins(logits=matrix) if name == "logits" else scores.margins(matrix)  # checks the numbers
    except InputError as error:
        raise InputError(f"holdout: {error}") from error
    return matrix


def _read_label_column(holdout: Any, column: str | None, name: str) -> npt.NDArray[Any]:
    opened = tables.open_source(holdout, "holdout")
    if not isinstance(opened, tables.Table):
        what = title_of(holdout) if is_location(holdout) else "an array"
        raise InputError(f"holdout: {what} has no named columns: a table with probabilities and label is needed")
    key = opened.find(name, tables.VECTOR_NAMES[name]) if column is None else opened.require(column)
    if key is None:
        raise InputError(f"{opened.title} has no column of {name} (label): it has {opened.list_columns()}")
    return opened.read(key)
