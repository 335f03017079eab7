"""`learn`: a model trained on the embeddings and what people said, registered with its predictions for the pool.

Training reads the labeled rows only, never those of the holdout. The pool is predicted in chunks on all cores, and of
the predictions the same is kept as of those from outside (`predictions.py`). If it is interrupted, nothing is left of
it, and it is run again.
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks, pool, scores
from hedgerow.campaign import curves, predictions
from hedgerow.campaign import database as db
from hedgerow.campaign.artifacts import Shelf
from hedgerow.campaign.curves import Measured
from hedgerow.campaign.database import Database
from hedgerow.campaign.holdings import MULTI_CLASS, MULTI_LABEL, PAIRS, Holdings
from hedgerow.campaign.predictions import MOST_KEPT, Model, Origin, Predictions, Watch
from hedgerow.campaign.truth import Truth, read_truth
from hedgerow.errors import CampaignError, InputError
from hedgerow.models.heads import LinearHead, PairAnswers, PerceptronHead
from hedgerow.models.programs import ProgramTrainer
from hedgerow.progress import Progress, ignore, watch

LINEAR, PERCEPTRON, PROGRAM = "linear", "perceptron", "program"
HEADS = (LINEAR, PERCEPTRON)
CHUNK_ENTRIES = 1 << 24  # of embeddings or probabilities at a time: 64 MiB of float32
PROGRAM_ENTRIES = 1 << 28  # a program is started for every chunk, which takes seconds
UNKNOWN, NO, YES = -1, 0, 1  # in the labels that a program gets


@dataclass(frozen=True)
class Lesson:
    """What `learn` is asked for. program: a command instead of a head. keep: all probabilities, None if not large."""

    head: str | None = None
    program: str | None = None
    name: str | None = None
    keep: bool | None = None
    seed: int = 0
    progress: Progress | bool | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Learned:
    """A trained model. classes: how many classes the labels name, of all; measured: the model on the holdout."""

    model: Model
    labels: int
    classes: tuple[int, int]
    measured: Measured

    def to_json(self) -> dict[str, Any]:
        """In the types of JSON."""
        model = {**vars(self.model), "metrics": dict(self.model.metrics), "settings": dict(self.model.settings)}
        return {**model, "classes_with_labels": self.classes[0], "holdout": self.measured.to_json()}

    def __str__(self) -> str:
        how = self.model.settings.get("program") or f"a {self.model.settings['head']} head on the embeddings"
        named = f"{self.classes[0]:,} of {self.classes[1]:,} classes"
        found = str(self.measured) if self.measured.n else "no labels yet"
        labels = f"{self.labels:,} label{'' if self.labels == 1 else 's'}"
        return f"{labels} of {named} -> {self.model.name}, {how}\nholdout: {found}"


def check_lesson(lesson: Lesson) -> Lesson:
    """The arguments of `learn`, checked."""
    checks.seed(lesson.seed)
    if lesson.head is not None:
        checks.option(lesson.head, "head", HEADS)
        if lesson.program is not None:
            raise InputError("a program trains its own model: give a head or a program, not both")
    return lesson


def learn(database: Database, shelf: Shelf, holdings: Holdings, lesson: Lesson) -> Learned:
    """Train, predict the pool, register, measure."""
    matrix = open_embeddings(holdings)
    with database.read() as connection:
        upto = db.last_event(connection)
        truth = read_truth(connection, holdings, holdout=False)
    if not len(truth):
        raise CampaignError(
            "there are no labels to train on: reserve a batch with `hedgerow campaign next` and ingest its answers; "
            "those of the holdout are for measuring only"
        )
    watched = curves.find_watch(database, holdings)
    with watch(lesson.progress) as report:
        report(f"training on {len(truth):,} labels", 0.0)
        fitted, settings = _train(matrix, truth, holdings, lesson)
        found = _predict(fitted, matrix, holdings, watched, lesson, report)
    origin = Origin(watched, len(truth), upto, settings, "learn")
    model = predictions.register(database, shelf, holdings, found, origin, lesson.name, {})
    measured = curves.read_curve(database, shelf, holdings, last=1)[0]
    return Learned(model, len(truth), (_count_classes(truth, holdings), len(holdings.classes)), measured)


def open_embeddings(holdings: Holdings) -> pool.Matrix:
    """The embeddings of the pool; a campaign without them is refused."""
    if holdings.embeddings is None:
        raise CampaignError(
            "this campaign has no embeddings to train on: begin one with them (`hedgerow embed` makes them from texts "
            "and images, `hedgerow campaign init --embeddings FILE` takes them), or train elsewhere and register the "
            "predictions with `hedgerow campaign predict`"
        )
    return holdings.embeddings


def _count_classes(truth: Truth, holdings: Holdings) -> int:
    """How many classes the labels name."""
    if holdings.kind == PAIRS:
        return len(np.unique(truth.classes[truth.values]))
    if holdings.kind == MULTI_LABEL:
        return int(truth.values.any(axis=0).sum())
    return len(np.unique(truth.values))


# Training.


def _train(matrix: pool.Matrix, truth: Truth, holdings: Holdings, lesson: Lesson) -> tuple[Any, dict[str, Any]]:
    """(the model, how it was trained)."""
    count = len(holdings.classes)
    if lesson.program is not None:
        rows, known = _lay_out(truth, holdings)
        trainer = ProgramTrainer(_read_command(lesson.program), count)
        fitted: Any = trainer.fit(_take(matrix, rows), known, seed=lesson.seed)
        return fitted, {"program": lesson.program, "seed": lesson.seed}
    head = lesson.head or LINEAR
    made = LinearHead(count) if head == LINEAR else PerceptronHead(count)
    labels: Any = truth.values
    if holdings.kind == PAIRS:
        labels = PairAnswers(_find_columns(truth.classes, holdings), truth.values)
    fitted = made.fit(_take(matrix, truth.rows), labels, seed=lesson.seed)
    settings: dict[str, Any] = {"head": head, "seed": lesson.seed}
    return fitted, settings | ({} if fitted.strength is None else {"strength": fitted.strength})


def _read_command(text: str) -> tuple[str, ...]:
    """A command in its parts, as a shell divides it."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise InputError(f"{text!r} cannot be read as a command: {error}") from None


def _take(matrix: pool.Matrix, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    return matrix.take(rows).astype(np.float32, copy=False)


def _find_columns(classes: npt.NDArray[Any], holdings: Holdings) -> npt.NDArray[np.int64]:
    """Class ids as columns of predictions."""
    return np.searchsorted(np.array([*holdings.classes]), classes)


def _lay_out(truth: Truth, holdings: Holdings) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """(rows, labels) as a program gets them: class numbers; or 1, 0 and -1 for every class."""
    if holdings.kind == MULTI_CLASS:
        return truth.rows, truth.values
    if holdings.kind == MULTI_LABEL:
        return truth.rows, truth.values.astype(np.int8)
    rows, place = np.unique(truth.rows, return_inverse=True)
    labels = np.full((len(rows), len(holdings.classes)), UNKNOWN, np.int8)
    labels[place, _find_columns(truth.classes, holdings)] = np.where(truth.values, YES, NO)
    return rows, labels


# Predicting.


def _predict(
    fitted: Any, matrix: pool.Matrix, holdings: Holdings, watched: Watch, lesson: Lesson, report: Progress = ignore
) -> Predictions:
    """The predictions for the pool, of which one chunk at a time is held in full."""
    count = len(holdings.classes)
    entries = CHUNK_ENTRIES if lesson.program is None else PROGRAM_ENTRIES
    chunks = _iterate(fitted, matrix, max(1, entries // max(matrix.width, count)), report)
    if holdings.kind == PAIRS:
        return _predict_pairs(chunks, holdings)
    keep = 4 * holdings.n * count <= MOST_KEPT if lesson.keep is None else lesson.keep
    numbers = np.array([*holdings.classes], np.int32)
    margin, top = (np.empty(holdings.n, np.float32) for _ in range(2))
    guess = np.empty(holdings.n, np.int32)
    whole = np.empty((holdings.n, count), np.float32) if keep else None
    seen = np.empty((len(watched.rows), count), np.float32) if holdings.kind == MULTI_LABEL else None
    score = scores.margins if holdings.kind == MULTI_CLASS else scores.independent_margins
    for start, chances in chunks:
        some = slice(start, start + len(chances))
        margin[some] = score(chances)
        best = chances.argmax(axis=1)
        guess[some], top[some] = numbers[best], chances[np.arange(len(best)), best]
        if whole is not None:
            whole[some] = chances
        if seen is not None:
            low, high = np.searchsorted(watched.rows, (start, start + len(chances)))
            seen[low:high] = chances[watched.rows[low:high] - start]
    return Predictions(margin, guess, top, whole, seen)


def _iterate(
    fitted: Any, matrix: pool.Matrix, rows: int, report: Progress
) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """(first row, probabilities (rows, classes)) for all of the pool."""
    for start, chunk in matrix.chunks(rows):
        checks.finite(chunk, "embeddings", first_row=start)
        yield start, fitted.probabilities(chunk).astype(np.float32, copy=False)
        report("predicting the pool", (start + len(chunk)) / matrix.n)


def _predict_pairs(chunks: Iterator[tuple[int, npt.NDArray[np.float32]]], holdings: Holdings) -> Predictions:
    """The probability of a yes for every pair."""
    pairs = holdings.pairs
    columns = _find_columns(pairs.classes, holdings)
    chances = np.empty(len(pairs), np.float32)
    order = None if (np.diff(pairs.rows) >= 0).all() else np.argsort(pairs.rows, kind="stable")
    ascending = pairs.rows if order is None else pairs.rows[order]
    for start, found in chunks:
        low, high = np.searchsorted(ascending, (start, start + len(found)))
        at: Any = slice(low, high) if order is None else order[low:high]
        chances[at] = found[pairs.rows[at] - start, columns[at]]
    scores.refuse_beyond_one(chances, "probabilities")
    return Predictions(np.abs(2 * chances - 1), pairs.classes.astype(np.int32), chances)
