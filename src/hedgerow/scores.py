"""How uncertain the model is about every row: margins, entropies, least confidences.

The margin is the largest minus the second largest class probability (paper, section 2): the lower, the less certain.
Scores take one pass over the (n, C) matrix, whatever holds it: an array, a memmap, files, a table, or an iterable of
chunks; nothing of the size of the matrix is allocated. Float64 is scored in float64, float16 and float32 in float32;
sums are float64.

Probabilities must be finite, not negative and sum to 1 within `TOLERANCE`; the error names the first row that is not.
Those of a multi-label model (independent sigmoids) do not sum to 1: only `independent_margins` accepts them.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks, pool
from hedgerow.engines import Engine
from hedgerow.errors import InputError
from hedgerow.kernels import freeze
from hedgerow.kernels.top2 import find_unfit, top2_and_sum, top2_and_sum_narrow, widen_halves
from hedgerow.machine import Team, available
from hedgerow.progress import Progress, watch
from hedgerow.shards import Arrays, count_rows, is_wanted, map_ranges, open_shards

Floats = npt.NDArray[Any]
Scores = npt.NDArray[np.float32]
Scorer = Callable[[Floats, int], Scores]  # (contiguous rows, the row number of the first) -> a score for each

# How far a row's sum may be from 1. Float16 rounds entries by up to 5e-4 of their value, those below 6e-5 by more.
TOLERANCE = {np.dtype(np.float16): 1e-2, np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-3}
BITS: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.float32): np.dtype(np.uint32),
    np.dtype(np.float64): np.dtype(np.uint64),
}
BLOCK = 1 << 16  # entries per block where a step needs buffers: a few of them fit in a second-level cache
NARROW = 32  # columns up to which a row is processed entry by entry; measured
HALF_SCALE = np.float32(2.0**112)  # the exponent biases of float32 and float16 are 127 and 15
LEAST_ENTRIES = 1 << 16  # a thread is not worth starting for less


def margins(
    probabilities: Any = None,
    *,
    logits: Any = None,
    threads: int | None = None,
    engine: str | Engine | None = None,
    workdir: str | Path | None = None,
    progress: Progress | bool | None = None,
) -> Scores:
    """Largest minus second largest probability of every row, float32 (n,).

    Give `probabilities` or `logits` (n, C), C >= 2: an array, a tensor, a sparse matrix, a table, the path, pattern or
    URL of files, or an iterable of 2-D chunks. For logits it is the margin of their softmax, computed without overflow.
    `threads`: all cores if None; the result does not depend on it. O(n C) time, 8 bytes of memory per row.
    `engine`: where to score files, in ranges of rows: "processes:N", "dask://host:port" (see `hedgerow.engines`), or an
    engine that is open; the result does not depend on it. A worker has one thread, unless `threads` says otherwise.
    `workdir`: a folder for finished ranges, which a run that was interrupted continues from; workers on other machines
    must share it. `progress`: for an engine; True shows a bar.
    """
    source, name, scorer = probabilities, "probabilities", _probability_margins
    if checks.exactly_one({"probabilities": probabilities, "logits": logits}) == "logits":
        source, name, scorer = logits, "logits", _logit_margins
    if is_wanted(engine, workdir):
        return _score_on(engine, workdir, source, name, scorer, threads, progress)
    return _score(source, name, scorer, threads)


def entropies(probabilities: Any, *, threads: int | None = None) -> Scores:
    """Entropy -sum p log p of every row in nats, float32 (n,); inputs, checks and cost as in `margins`."""
    return _score(probabilities, "probabilities", _entropies, threads)


def least_confidences(probabilities: Any, *, threads: int | None = None) -> Scores:
    """1 minus the largest probability of every row, float32 (n,); inputs, checks and cost as in `margins`."""
    return _score(probabilities, "probabilities", _least_confidences, threads)


def independent_margins(probabilities: Any, *, threads: int | None = None) -> Scores:
    """Largest minus second largest of every row's independent probabilities, each between 0 and 1, whatever their sum.

    The margin of a multi-label example (paper, section 3.2); inputs and cost as in `margins`. For a single class it is
    abs(2 p - 1), the difference between the probabilities of its two answers.
    """
    return _score(probabilities, "probabilities", _independent_margins, threads, least_columns=1)


def softmax(logits: Any, *, least_columns: int = 2) -> pool.Matrix:
    """The softmax of every row of `logits` as a matrix of float32 probabilities, computed whenever rows are read.

    Nothing is read or held here. A NaN or an infinity is refused with its row when it is read. The ids are those of the
    logits.
    """
    matrix = pool.open_matrix(logits, "logits", least_columns=least_columns)
    return replace(matrix, dtype=np.dtype(np.float32), data=SoftmaxRows(matrix))


@dataclass(frozen=True, eq=False)
class SoftmaxRows:
    """exp(l - l1) / sum exp(l - l1) of every row l of a matrix of logits, with l1 its largest."""

    logits: pool.Matrix

    def blocks(self, start: int, stop: int, rows: int) -> Iterator[Floats]:
        """The rows from start to stop in order, in new arrays of at most `rows` rows."""
        for at, chunk in self.logits.chunks(rows, start, stop):
            made = np.empty(chunk.shape, np.float32)
            for place, block in _blocks(chunk):
                checks.finite(block, "logits", first_row=at + place)
                with np.errstate(over="ignore", under="ignore"):  # a gap beyond float32: exp(-inf) = 0
                    powers = np.exp((block - block.max(axis=1, keepdims=True)).astype(np.float32, copy=False))
                    powers /= powers.sum(axis=1, keepdims=True, dtype=np.float64)
                made[place : place + len(block)] = powers
            yield made


# Reading the source.


def _score(source: Any, name: str, scorer: Scorer, threads: int | None, *, least_columns: int = 2) -> Scores:
    size = available() if threads is None else checks.integer(threads, "threads", least=1)
    return _score_chunks(_chunks(source, name, least_columns), scorer, size)


def _score_chunks(chunks: Iterable[tuple[int, Floats]], scorer: Scorer, threads: int) -> Scores:
    pieces = [np.zeros(0, np.float32)]
    # Not `team`, which limits BLAS to one thread: chunks may come from a model that computes them while we wait.
    with ThreadPoolExecutor(threads) as executor:
        crew = Team(threads, executor)
        for start, chunk in chunks:
            # Early binding: the ranges of one chunk are all processed before the next is read.
            task = _ranged(scorer, chunk, start)
            pieces += crew.ranges(task, len(chunk), least=max(1, LEAST_ENTRIES // chunk.shape[1]))
    return np.concatenate(pieces)


def _score_on(
    engine: str | Engine | None,
    workdir: str | Path | None,
    source: Any,
    name: str,
    scorer: Scorer,
    threads: int | None,
    progress: Progress | bool | None,
) -> Scores:
    """The scores of all rows of files, in ranges on an engine."""
    if threads is not None:
        checks.integer(threads, "threads", least=1)
    matrix = pool.open_matrix(source, name, least_columns=2)
    settings = {"scores": scorer.__name__, "rows": count_rows(matrix)}
    with open_shards(engine, workdir, matrix, settings) as (opened, folder), watch(progress) as report:
        if matrix.n == 0:
            return np.zeros(0, np.float32)
        alone = available() if opened.name == "serial" else 1
        compute = ScoredRange(matrix, scorer, threads or alone)
        return map_ranges(opened, folder, compute, matrix.n, count_rows(matrix), "scoring", report)["scores"]


@dataclass(frozen=True, eq=False)
class ScoredRange:
    """Scores of a range of rows: what workers of an engine compute."""

    matrix: pool.Matrix
    scorer: Scorer
    threads: int

    def __call__(self, start: int, stop: int) -> Arrays:
        return {"scores": _score_chunks(self.matrix.chunks(None, start, stop), self.scorer, self.threads)}


def _ranged(scorer: Scorer, chunk: Floats, first_row: int) -> Callable[[int, int], Scores]:
    return lambda start, stop: scorer(chunk[start:stop], first_row + start)


def _chunks(source: Any, name: str, least_columns: int) -> Iterator[tuple[int, Floats]]:
    """(row number of the first, contiguous rows) of a matrix, or of an iterable of matrices one below the other."""
    if not _is_iterable_of_chunks(source):
        yield from pool.open_matrix(source, name, least_columns=least_columns).chunks()
        return
    first_row, width = 0, None
    for piece in source:
        matrix = pool.open_matrix(piece, name, least_columns=least_columns)
        if width is not None and matrix.width != width:
            raise InputError(
                f"{name} has {matrix.width} columns in the chunk at row {first_row}, but {width} before: "
                "all chunks must have the same width"
            )
        width = matrix.width
        for start, chunk in matrix.chunks():
            yield first_row + start, chunk
        first_row += matrix.n


def _is_iterable_of_chunks(source: Any) -> bool:
    """An iterator, or a list of matrices; a list of lists of numbers is one matrix."""
    if isinstance(source, (list, tuple)):
        return len(source) > 0 and getattr(source[0], "ndim", 0) == 2
    return hasattr(source, "__next__")


def _blocks(rows: Floats) -> Iterator[tuple[int, Floats]]:
    """(start, rows) in cache-sized blocks; float16 is converted to float32."""
    step = max(1, BLOCK // rows.shape[1])
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        yield start, block.astype(np.float32) if block.dtype == np.float16 else block


# Scoring.


def _probability_margins(rows: Floats, first_row: int) -> Scores:
    first, second = _top2(rows, first_row)
    return np.asarray(first - second, np.float32)


def _independent_margins(rows: Floats, first_row: int) -> Scores:
    scores = np.empty(len(rows), np.float32)
    for start, block in _blocks(rows):
        bits = BITS[block.dtype]
        first, second, _ = _run(block.view(bits), block)
        most = np.array(1, block.dtype).view(bits)[()]  # above: larger numbers, NaN, and everything with a sign
        if len(first) and first.max() > most:
            unfit = int(np.argmax(first > most))
            refuse_beyond_one(block[unfit], f"row {first_row + start + unfit} of probabilities")
            first, second, _ = _run(np.abs(block).view(bits), block)
        top = first.view(block.dtype)
        gaps = top - second.view(block.dtype) if block.shape[1] > 1 else np.abs(2 * top - 1)
        scores[start : start + len(block)] = gaps
    return scores


def refuse_beyond_one(values: Floats, name: str) -> None:
    """Raises `InputError` if a value is not between 0 and 1; names the first."""
    unfit = ~((values >= 0) & (values <= 1))
    if unfit.any():
        raise InputError(
            f"{name} holds {values[unfit.argmax()]:g}: independent probabilities, such as those of a sigmoid, "
            "are between 0 and 1"
        )


def _least_confidences(rows: Floats, first_row: int) -> Scores:
    first, _ = _top2(rows, first_row)
    return np.asarray(np.maximum(1 - first, 0), np.float32)


def _entropies(rows: Floats, first_row: int) -> Scores:
    _top2(rows, first_row)
    scores = np.empty(len(rows), np.float32)
    for start, block in _blocks(rows):
        logs = np.maximum(block, np.finfo(block.dtype).tiny)  # 0 log 0 = 0
        np.log(logs, out=logs)
        logs *= block
        scores[start : start + len(block)] = np.maximum(-logs.sum(axis=1, dtype=np.float64), 0)
    return scores


def _logit_margins(rows: Floats, first_row: int) -> Scores:
    """(1 - exp(l2 - l1)) / sum_c exp(l_c - l1), with l1 >= l2 the two largest logits of a row."""
    scores = np.empty(len(rows), np.float32)
    for start, block in _blocks(rows):
        checks.finite(block, "logits", first_row=first_row + start)
        with np.errstate(over="ignore"):  # a gap beyond float32 may be infinite: exp(-inf) = 0
            gaps = np.subtract(block.max(axis=1, keepdims=True), block).astype(np.float32, copy=False)
        np.abs(gaps, out=gaps)  # -0 - 0 is -0
        # The smallest gap has the largest complement of its bits, so the second largest key is the gap of l2.
        _, second, total = _run(np.invert(gaps.view(np.uint32)), np.exp(-gaps))
        scores[start : start + len(block)] = -np.expm1(-np.invert(second).view(np.float32)) / total
    return scores


def _top2(rows: Floats, first_row: int) -> tuple[Floats, Floats]:
    """The two largest probabilities of every row, each (n,) in float32 or float64; invalid rows are refused."""
    if rows.dtype == np.float16:
        return _top2_of_halves(rows, first_row)
    return _checked_top2(rows, first_row, rows)


def _top2_of_halves(rows: Floats, first_row: int) -> tuple[Floats, Floats]:
    both = np.empty((2, len(rows)), np.float32)
    step = max(1, BLOCK // rows.shape[1])
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        wide = np.empty(block.shape, np.float32)
        widen_halves(freeze(block.view(np.uint16).ravel()), wide.view(np.uint32).ravel())
        wide *= HALF_SCALE
        both[:, start : start + len(block)] = _checked_top2(wide, first_row + start, block)
    return both[0], both[1]


def _checked_top2(rows: Floats, first_row: int, given: Floats) -> tuple[Floats, Floats]:
    """`given`: the rows as the caller passed them, whose dtype sets the tolerance; `rows` may be a wider copy."""
    bits, tolerance = BITS[rows.dtype], TOLERANCE[given.dtype]
    first, second, total = _run(rows.view(bits), rows)
    # Above the bits of 2: larger numbers, infinity, NaN, and everything with a sign.
    most = np.array(2, rows.dtype).view(bits)[()]
    unfit = find_unfit(first, total, most, tolerance)
    if unfit < 0:
        return first.view(rows.dtype), second.view(rows.dtype)
    _refuse_unfit(given[unfit], first_row + unfit, tolerance)
    # The row is valid but for a negative zero: drop the signs of zeros.
    return _checked_top2(rows + rows.dtype.type(0), first_row, given)


def _run(keys: npt.NDArray[Any], values: Floats) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[np.float64]]:
    n = len(keys)
    first, second, total = np.empty(n, keys.dtype), np.empty(n, keys.dtype), np.empty(n, np.float64)
    run = top2_and_sum_narrow if keys.shape[1] <= NARROW else top2_and_sum
    run(freeze(keys), freeze(values), first, second, total)
    return first, second, total


def _refuse_unfit(row: Floats, number: int, tolerance: float) -> None:
    """Raises `InputError` that says what is wrong with the row, if anything is."""
    wide = row.astype(np.float64)
    checks.finite(wide[None, :], "probabilities", first_row=number)
    if wide.min() < 0:
        raise InputError(
            f"probabilities has the negative entry {wide.min():g} in row {number}: "
            "pass logits=... (--logits) if these are logits"
        )
    if abs(wide.sum() - 1) > tolerance:
        raise InputError(
            f"row {number} of probabilities sums to {wide.sum():g}, not to 1 (within {tolerance:g}): "
            "normalize the rows, or pass logits=... (--logits) if these are logits"
        )
