"""The learning curve of a campaign: every model measured on the labeled holdout, with an interval.

Models are measured whenever somebody asks, by their stored predictions and the labels that the holdout has by then:
answers for it may come later than the models, and the curve is always that of today. Rows that were retired are left
out. What is measured, by kind of campaign:

- multi-class: accuracy, with Wilson's interval;
- multi-label and pairs: average precision of all (row, class) pairs ranked together, as in the paper (section 3.2).
  Unlike the share of exact sets or an F-measure it needs no threshold, which a model in its first rounds rarely has
  right, and unlike a mean over classes it does not jump with the few positives that rare classes have in a holdout. Its
  interval is a bootstrap over rows: the pairs of a row are not independent.

Besides the holdout, models are watched on the stop set: a fixed set of rows (or pairs) drawn when the first model was
registered from those without a label, which rules for stopping compare successive models on.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from hedgerow import metrics
from hedgerow.campaign import artifacts, tables
from hedgerow.campaign import database as db
from hedgerow.campaign.artifacts import Shelf
from hedgerow.campaign.budget import Budget, find_budget
from hedgerow.campaign.database import Database
from hedgerow.campaign.holdings import MULTI_CLASS, MULTI_LABEL, PAIRS, Holdings
from hedgerow.campaign.planning import find_closed
from hedgerow.campaign.predictions import UNKNOWN_CLASS, Watch, load_predictions
from hedgerow.campaign.quality import find_wilson
from hedgerow.campaign.stopping import Progress, Settings, StopAdvice, advise_stopping
from hedgerow.campaign.tables import WHOLE_ROW
from hedgerow.campaign.truth import Truth, find_holdout, find_retired, read_truth
from hedgerow.campaign.verdicts import fetch_numbers, find_places

Numbers = npt.NDArray[np.int64]
ACCURACY, PRECISION = "accuracy", "average precision"
STOP_SET = "stop_set"  # in `meta`
STOP_SET_SIZE = 2000  # Bloodgood and Vijay-Shanker (2009) use at least 2,000
STOP_STREAM = 0x57095E7  # sets the draw of the stop set apart from other draws with the same seed
MOST_DRAWS, LEAST_DRAWS = 1000, 200  # of the bootstrap; fewer where a draw is long
DRAWN_PAIRS = 200_000_000  # pairs of all draws together
CONFIDENCE = 0.95
THRESHOLD = 0.5  # a probability from which on the answer is yes


@dataclass(frozen=True)
class Measured:
    """A model on the labeled holdout. n: how many of its rows (or pairs) have a label and a prediction.

    value: None if the metric is not defined there: without labels, without a yes, or if the model's classes are not
    known. low, high: the ends of a 95 % interval.
    """

    model: str
    labels: int
    metric: str
    value: float | None
    low: float | None
    high: float | None
    n: int

    def to_json(self) -> dict[str, Any]:
        """In the types of JSON."""
        return asdict(self)

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.metric} not known: {self.n:,} labels can be compared with {self.model}"
        unit = "rows" if self.metric == ACCURACY else "answers"
        interval = f"({self.low:.1%} to {self.high:.1%})"
        trained = f"{self.model}, trained on {self.labels:,} labels"
        return f"{self.metric} {self.value:.1%} {interval} on {self.n:,} {unit}: {trained}"


# What models are watched on.


def find_watch(database: Database, holdings: Holdings, *, seed: int = 0) -> Watch:
    """The holdout and the stop set, which is drawn now if there is none."""
    with database.read() as connection:
        held = db.read_meta(connection, STOP_SET)
        holdout = find_holdout(connection)
        drawn = None if held is not None else _draw_stop_set(find_closed(connection, holdings), holdings, seed)
    if drawn is not None:
        with database.write() as connection:
            held = db.read_meta(connection, STOP_SET)
            if held is None:
                held = json.dumps(drawn.tolist())
                db.write_meta(connection, STOP_SET, held)
    assert held is not None
    whole = np.concatenate([_resolve(holdout, holdings), _read_units(held, holdings)])
    rows, classes = np.ascontiguousarray(np.unique(whole, axis=0).T)
    at = holdings.pairs.find(rows, classes, ignore_unknown=True) if holdings.kind == PAIRS else rows
    return Watch(rows, classes, at)


def _draw_stop_set(closed: npt.NDArray[np.bool_], holdings: Holdings, seed: int) -> Numbers:
    """Rows and classes (m, 2), drawn uniformly from what has no label, waits for none and is not in the holdout."""
    rng = np.random.default_rng([STOP_STREAM, seed])
    candidates = np.flatnonzero(~closed)
    at = np.sort(rng.choice(candidates, min(STOP_SET_SIZE, len(candidates)), replace=False))
    if holdings.kind == PAIRS:
        return np.column_stack([holdings.pairs.rows[at], holdings.pairs.classes[at]]).astype(np.int64)
    return np.column_stack([at, np.full(len(at), WHOLE_ROW)]).astype(np.int64)


def _read_units(held: str, holdings: Holdings) -> Numbers:
    """The rows and classes (m, 2) of a stored set, of the classes that there are now."""
    return _resolve(np.array(json.loads(held), np.int64).reshape(-1, 2), holdings)


def _resolve(units: Numbers, holdings: Holdings) -> Numbers:
    """The same rows with the classes that theirs are now, after merges."""
    if holdings.kind != PAIRS or not len(units):
        return units
    now = np.array([holdings.resolve_class(number) for number in holdings.every_class], np.int64)
    return np.unique(np.column_stack([units[:, 0], now[units[:, 1]]]), axis=0)


@dataclass(frozen=True, eq=False)
class _Watched:
    """The predictions of one model for the holdout and the stop set, ordered by row and class.

    guess: columns of classes; whole: all probabilities, in a multi-label campaign.
    """

    rows: Numbers
    classes: Numbers
    margin: npt.NDArray[np.float32]
    guess: Numbers
    probability: npt.NDArray[np.float32]
    whole: npt.NDArray[np.float32] | None

    def find(self, rows: Numbers, classes: Numbers) -> Numbers:
        """The places of some rows or pairs; -1 for those without predictions."""
        return find_places(rows, classes, self.rows, self.classes)


def _read_watched(connection: sa.Connection, shelf: Shelf, holdings: Holdings, row: Any) -> _Watched:
    held = shelf.find(connection, row.watched)
    artifacts.check(held)
    import pyarrow.parquet as pq

    table = pq.read_table(held.path)
    columns = {name: table.column(name).to_numpy() for name in table.column_names}
    chances = [columns[name] for name in table.column_names if name.startswith("p_")]
    whole = _arrange(np.stack(chances, axis=1), json.loads(row.classes), holdings) if chances else None
    found = _Watched(
        columns["row"],
        columns["class"],
        columns["margin"],
        _find_columns(columns["guess"], holdings),
        columns["probability"],
        whole,
    )
    return _merge(found, holdings) if holdings.kind == PAIRS else found


def _arrange(chances: npt.NDArray[np.float32], known: Sequence[int], holdings: Holdings) -> npt.NDArray[np.float32]:
    """Probabilities of the classes that a model knows, for those in use: the largest of merged ones, 0 for new ones."""
    places = {number: place for place, number in enumerate(holdings.classes)}
    whole = np.zeros((len(chances), len(places)), np.float32)
    for column, number in enumerate(known):
        place = places.get(holdings.resolve_class(number))
        if place is not None:
            whole[:, place] = np.maximum(whole[:, place], chances[:, column])
    return whole


def _merge(found: _Watched, holdings: Holdings) -> _Watched:
    """Predictions for pairs of merged classes as one: the larger probability counts."""
    units = np.column_stack([found.rows, found.classes])
    now = _resolve(units, holdings)
    if np.array_equal(now, units):
        return found
    numbers = np.array([holdings.resolve_class(number) for number in holdings.every_class], np.int64)
    at = find_places(found.rows, numbers[found.classes], *np.ascontiguousarray(now.T))
    chances = np.zeros(len(now), np.float32)
    np.maximum.at(chances, at, found.probability)
    rows, classes = np.ascontiguousarray(now.T)
    return _Watched(rows, classes, np.abs(2 * chances - 1), _find_columns(classes, holdings), chances, None)


def _find_columns(guess: npt.NDArray[Any], holdings: Holdings) -> Numbers:
    """Class ids as columns of the classes in use, after merges; UNKNOWN_CLASS for those that are in use no more."""
    places = {number: place for place, number in enumerate(holdings.classes)}
    listed = [places.get(holdings.resolve_class(number), UNKNOWN_CLASS) for number in holdings.every_class]
    found: Numbers = np.array([*listed, UNKNOWN_CLASS], np.int64)[guess]  # the last is that of UNKNOWN_CLASS, -1
    return found


# The curve.


def read_curve(database: Database, shelf: Shelf, holdings: Holdings, *, last: int | None = None) -> list[Measured]:
    """Every model on the holdout, the oldest first; the last few if that is given."""
    with database.read() as connection:
        models = _read_models(connection)[-(last or 0) :]
        truth = read_truth(connection, holdings, holdout=True)
        watched = [_read_watched(connection, shelf, holdings, row) for row in models]
    return [_measure(row, found, truth, holdings.kind) for row, found in zip(models, watched, strict=True)]


def _read_models(connection: sa.Connection) -> Sequence[Any]:
    return connection.execute(sa.select(tables.model).order_by(tables.model.c.id)).all()


def _measure(row: Any, found: _Watched, truth: Truth, kind: str) -> Measured:
    at = _find_judged(found, truth, kind)
    truth, at = truth.take(at >= 0), at[at >= 0]
    n = int(truth.values.size)
    metric = ACCURACY if kind == MULTI_CLASS else PRECISION
    if not n or (kind != MULTI_CLASS and not truth.values.any()):
        return Measured(row.name, row.labels, metric, None, None, None, n)
    if kind == MULTI_CLASS:
        hits = int((found.guess[at] == truth.values).sum())
        low, high = (float(end) for end in find_wilson(hits, n, confidence=CONFIDENCE))
        return Measured(row.name, row.labels, metric, hits / n, low, high, n)
    if kind == MULTI_LABEL:
        assert found.whole is not None
        scores, groups = found.whole[at].ravel(), np.repeat(np.arange(len(at)), truth.values.shape[1])
    else:
        scores, groups = found.probability[at], np.unique(truth.rows, return_inverse=True)[1]
    answers = truth.values.ravel()
    low, high = bootstrap_precision(answers, scores, groups)
    return Measured(row.name, row.labels, metric, metrics.average_precision(answers, scores), low, high, n)


def _find_judged(found: _Watched, truth: Truth, kind: str) -> Numbers:
    """The place of each label in the predictions of a model; -1 where it says nothing that could be right."""
    at = found.find(truth.rows, truth.classes)
    if kind == MULTI_CLASS and len(found.guess):
        return np.where(found.guess[at] == UNKNOWN_CLASS, -1, at)
    return np.full(len(truth), -1, np.int64) if kind == MULTI_LABEL and found.whole is None else at


def bootstrap_precision(
    answers: npt.NDArray[np.bool_], scores: npt.NDArray[Any], groups: npt.NDArray[Any], *, seed: int = 0
) -> tuple[float, float]:
    """The percentile interval of average precision if groups of pairs, numbered from 0, are drawn with replacement.

    Pairs are sorted once; a draw is how often each group occurs in it. Draws without a yes are left out.
    """
    order = np.argsort(-scores, kind="stable")
    ranked, positive, group = scores[order], answers[order].astype(np.float64), groups[order]
    ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)  # of equal scores
    count = int(groups.max()) + 1
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(int(np.clip(DRAWN_PAIRS // len(ranked), LEAST_DRAWS, MOST_DRAWS))):
        weights = np.bincount(rng.integers(0, count, count), minlength=count).astype(np.float64)[group]
        hits, drawn = np.cumsum(weights * positive)[ends], np.cumsum(weights)[ends]
        if hits[-1]:
            gains = np.diff(hits, prepend=0.0)
            found.append(float((gains * hits / np.maximum(drawn, 1)).sum() / hits[-1]))
    low, high = np.quantile(found, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]) if found else (0.0, 1.0)
    return float(low), float(high)


# Rounds, for the rules of stopping.


def advise(
    database: Database, shelf: Shelf, holdings: Holdings, settings: Settings | None = None, *, picks: int | None = None
) -> StopAdvice:
    """The verdicts of all rules on the campaign so far; picks: as in `read_rounds`."""
    with database.read() as connection:
        costs = find_budget(connection)
    settings = replace(settings or Settings(), pairs=holdings.kind != MULTI_CLASS, **_count_labels(costs))
    return advise_stopping(read_rounds(database, shelf, holdings, picks=picks), settings)


def _count_labels(costs: Budget | None) -> dict[str, int]:
    """A budget of any unit in answers: how many it pays for, and how many were given; nothing if there is none."""
    if costs is None or costs.limit is None or not costs.each:
        return {}
    more = int((costs.limit - costs.spent) / costs.each + 1e-6)  # sums of prices such as 0.1 are not exact
    return {"budget": max(1, costs.answers + max(0, more)), "spent": costs.answers}


def read_rounds(database: Database, shelf: Shelf, holdings: Holdings, *, picks: int | None = None) -> list[Progress]:
    """What is known after each model, oldest first. picks: of how many models, the newest, the picks are looked at.

    A model is a round if every later one was trained on more labels: of two with as many the newer counts, and labels
    that were taken back end the rounds that had them. In a multi-label campaign a row of the holdout is right if all of
    its classes are, and the stop set is made of (row, class) pairs.
    """
    with database.read() as connection:
        models = _keep_growing(_read_models(connection))
        truth = read_truth(connection, holdings, holdout=True)
        held = db.read_meta(connection, STOP_SET)
        gone = find_retired(connection, holdings.n)
        watched = [_read_watched(connection, shelf, holdings, row) for row in models]
        answered = read_truth(connection, holdings, holdout=False)
        looked_at = {row.id for row in models[-(picks or 0) :]}
        picked = [
            _read_picked(connection, shelf, holdings, row, answered) if row.id in looked_at else None for row in models
        ]
    stop_set = _read_units(held or "[]", holdings)
    stop_set = stop_set[~gone[stop_set[:, 0]]]
    rights = _judge_holdout(watched, truth, holdings.kind)
    predictions = _compare(watched, stop_set, holdings.kind)
    return [
        Progress(row.labels, right, *said, batch)
        for row, right, said, batch in zip(models, rights, predictions, picked, strict=True)
    ]


def _keep_growing(models: Sequence[Any]) -> list[Any]:
    kept: list[Any] = []
    for row in reversed(models):
        if not kept or row.labels < kept[-1].labels:
            kept.append(row)
    return kept[::-1]


def _judge_holdout(watched: Sequence[_Watched], truth: Truth, kind: str) -> list[npt.NDArray[np.bool_] | None]:
    """Whether each model is right about each label of the holdout that all of them have predictions for."""
    found = [_find_judged(one, truth, kind) for one in watched]
    able = [at for at in found if (at >= 0).any()]
    common = np.logical_and.reduce([at >= 0 for at in able]) if able else np.zeros(len(truth), np.bool_)
    if not common.any():
        return [None] * len(watched)
    shared = truth.take(common)
    return [
        _is_right(one, at[common], shared.values, kind) if (at >= 0).any() else None
        for one, at in zip(watched, found, strict=True)
    ]


def _is_right(one: _Watched, at: Numbers, values: npt.NDArray[Any], kind: str) -> npt.NDArray[np.bool_]:
    if kind == MULTI_CLASS:
        return np.asarray(one.guess[at] == values)
    if kind == MULTI_LABEL:
        assert one.whole is not None
        return np.asarray(((one.whole[at] >= THRESHOLD) == values).all(axis=1))
    return np.asarray((one.probability[at] >= THRESHOLD) == values)


def _compare(watched: Sequence[_Watched], stop_set: Numbers, kind: str) -> list[tuple[Numbers | None, float | None]]:
    """(classes, or 0 and 1, on the stop set; the mean margin there) of each model, where it covers all of it."""
    said: list[tuple[Numbers | None, float | None]] = []
    for one in watched:
        at = one.find(*np.ascontiguousarray(stop_set.T))
        if not len(at) or at.min() < 0:
            said.append((None, None))
            continue
        confidence = float(one.margin[at].mean(dtype=np.float64))
        if kind == MULTI_CLASS:
            classes = one.guess[at]
            said.append((None if (classes == UNKNOWN_CLASS).any() else classes, confidence))
        elif kind == MULTI_LABEL and one.whole is None:
            said.append((None, confidence))
        else:
            chances = one.probability[at] if one.whole is None else one.whole[at].ravel()
            said.append(((chances >= THRESHOLD).astype(np.int64), confidence))
    return said


def _read_picked(
    connection: sa.Connection, shelf: Shelf, holdings: Holdings, row: Any, truth: Truth
) -> tuple[int, int] | None:
    """(guesses that were right, answers) of the batches that a model picked; None if there are none."""
    sql = (
        'SELECT t."row", t."class" FROM task t JOIN batch b ON b.id = t.batch '
        f"WHERE b.kind = 'pick' AND b.model = {int(row.id)} ORDER BY t.row, t.class"
    )
    asked = np.unique(fetch_numbers(connection, sql, 2), axis=0)
    if not len(asked):
        return None
    at = find_places(truth.rows, truth.classes, *np.ascontiguousarray(asked.T))
    truth = truth.take(at >= 0)
    if not len(truth):
        return None
    stored, whole = load_predictions(connection, shelf, holdings, row)
    if holdings.kind == PAIRS:
        chances = stored.probability[holdings.pairs.find(truth.rows, truth.classes)]
        right = ((chances >= THRESHOLD) == truth.values)[~np.isnan(chances)]
    elif holdings.kind == MULTI_CLASS:
        guess = _find_columns(stored.guess[truth.rows], holdings)
        right = (guess == truth.values)[guess != UNKNOWN_CLASS]
    elif whole is not None:
        chances = _arrange(whole.take(truth.rows), json.loads(row.classes), holdings)
        right = ((chances >= THRESHOLD) == truth.values).all(axis=1)
    else:
        return None
    return (int(right.sum()), len(right)) if len(right) else None
