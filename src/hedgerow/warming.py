"""All kernels compiled ahead of time, for container images and shared installations.

Kernels are compiled for the types of what they are called with, so every public function is called here with a small
pool of each type. What was compiled is kept as usual (`kernels/compiling.py`): beside the package where that can be
written to, and there other users find it, even where they can write nothing.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow import kernels, machine
from hedgerow.campaign.placing import Landmarks, place_landmarks
from hedgerow.clustering.clusters import cluster
from hedgerow.clustering.hac import linkage
from hedgerow.encoders.tfidf import learn_tfidf
from hedgerow.errors import HedgerowWarning
from hedgerow.experiments.data.texts import encode_texts
from hedgerow.experiments.ngrams import NGramTrainer
from hedgerow.kernels import compiling, convolutions, freeze, grams, maps
from hedgerow.metrics import average_precision, macro_average_precision
from hedgerow.pairs import PAIR_STRATEGIES, Pairs, select_pairs
from hedgerow.scores import entropies, margins
from hedgerow.strategies import STRATEGIES, ClusterMargin, CoreSet, StochasticMargin, centers, select
from hedgerow.strategies.cluster_margin import ROW_MARGINS
from hedgerow.theory.rectangles import find_largest, search_largest
from hedgerow.theory.samplers import cut_line

FLOATS = (np.float32, np.float64)
ROWS, WIDTH = 5_000, 6  # more rows than are compared pair by pair, so that cells are used
SOME = 500  # rows where that does not matter


@dataclass(frozen=True)
class Warmed:
    """What `warm` did: where compiled kernels are kept (None: nowhere), how many it compiled, and in what time."""

    folder: Path | None
    compiled: int
    seconds: float


def warm(*, progress: Callable[[str, float], None] | None = None) -> Warmed:
    """Compile every kernel now, so that no later process has to. A minute; seconds where all is compiled already.

    Run it where the package is installed, as a user who may write there, and other users need not compile anything:
    `RUN hedgerow warm` in a container's recipe. Machine code is made for the processor at hand: another kind of
    processor compiles again. NUMBA_CACHE_DIR sets another folder.
    """
    began, compiled = time.perf_counter(), 0

    def count() -> None:
        nonlocal compiled
        compiled += 1

    calls = list(_list_calls())
    with kernels.listen(count), warnings.catch_warnings():
        warnings.simplefilter("ignore", HedgerowWarning)  # of made-up pools; the folder is reported
        for done, call in enumerate(calls):
            call()
            if progress is not None:
                progress("compiling, once", (done + 1) / len(calls))
    folders = compiling.find_folders()
    return Warmed(folders.target if folders.lasting else None, compiled, time.perf_counter() - began)


def warm_clustering() -> None:
    """Compile what clustering embeddings in float32 needs, and nothing else."""
    rows = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)
    for some in (rows, rows[:SOME]):
        cluster(some, average_size=3)


def is_warm() -> bool:
    """Whether clustering was compiled before, as far as can be told without compiling."""
    return any(next(folder.glob("merging.*.nbc"), None) is not None for folder in compiling.find_folders().sources)


def _list_calls() -> Iterator[Callable[[], Any]]:
    """Calls that, together, use every kernel with every type it is meant for."""
    rng = np.random.default_rng(0)
    pool = rng.normal(size=(ROWS, WIDTH))
    for kind in FLOATS:
        yield from _list_clusterings(pool.astype(kind))
        yield from _list_selections(pool[:SOME].astype(kind), rng)
        yield from _list_pair_selections(pool[:SOME].astype(kind), rng)
        answers, scores = rng.random(SOME) < 0.5, rng.random(SOME).astype(kind)
        yield partial(average_precision, answers, scores)
        yield partial(macro_average_precision, answers, scores, np.arange(SOME) % 3)
    yield partial(margins, rng.dirichlet(np.ones(3), SOME).astype(np.float16))
    yield partial(_cover_pool, pool.astype(np.float32))
    yield partial(_split_pool, rng.random((2 * centers.LEAST_STRETCH, 2), np.float32))
    yield partial(cut_line, rng.random(SOME), 0.1)
    yield partial(find_largest, rng.random((9, 2)))
    yield partial(search_largest, rng.random((9, 2)), rng)
    yield _read_texts
    yield partial(learn_tfidf, ["hedge", "row"], seed=0)
    yield _filter_images
    yield _look_at_maps


def _list_clusterings(pool: Any) -> Iterator[Callable[[], Any]]:
    for metric in ("cosine", "sqeuclidean"):
        for method in ("exact", "certified", "multiround", "assign"):
            yield partial(_cluster, pool if method == "certified" else pool[:SOME], metric, method)
        # A cut that float32 is too coarse for.
        yield partial(linkage, pool, metric=metric, method="certified", threshold=1e-12)
    yield lambda: linkage(pool[:SOME]).to_scipy()


def _cluster(pool: Any, metric: str, method: str) -> None:
    cluster(pool, metric=metric, method=method, average_size=3).assign(pool[:SOME])


def _list_selections(pool: Any, rng: np.random.Generator) -> Iterator[Callable[[], Any]]:
    for classes in (2, 3, 200):
        chances = rng.dirichlet(np.ones(classes), SOME).astype(pool.dtype)
        given = {"probabilities": chances, "embeddings": pool, "clusters": np.arange(SOME) // 5}
        for strategy, labeled in product((*STRATEGIES, StochasticMargin()), (None, np.arange(9))):
            yield partial(select, strategy, 20, labeled=labeled, **given)
        yield partial(entropies, chances)
        yield partial(margins, logits=chances)


def _list_pair_selections(pool: Any, rng: np.random.Generator) -> Iterator[Callable[[], Any]]:
    pairs = Pairs(np.repeat(np.arange(SOME), 3), np.tile(np.arange(3), SOME))
    chances = rng.random((SOME, 3)).astype(pool.dtype)
    given = {"pairs": pairs, "probabilities": chances, "embeddings": pool, "clusters": np.arange(SOME) // 5}
    for strategy, labeled in product(PAIR_STRATEGIES, (None, np.arange(9))):
        yield partial(select_pairs, strategy, 20, labeled=labeled, **given)
    for row_margin, labeled in product(ROW_MARGINS, (None, np.arange(9))):
        yield partial(select_pairs, ClusterMargin(row_margin=row_margin), 20, labeled=labeled, **given)


def _cover_pool(pool: Any) -> None:
    """More labeled rows than are compared with every row."""
    select(CoreSet(), 5, embeddings=pool, labeled=np.arange(centers.AT_ONCE + 1))


def _split_pool(pool: Any) -> None:
    """A pool large enough for two threads, whatever this machine has."""
    points = centers.Points(pool, np.arange(len(pool)))
    with machine.team(2) as two:
        centers.choose_centers(points, centers.shelve(pool[:0], two), 3, 0, 0.0, two)


def _read_texts() -> None:
    texts = encode_texts(["hedge", "row"]).misspell(np.random.default_rng(0))
    texts.list_grams()
    texts.average_grams(np.zeros((grams.BUCKETS, 2), np.float32))
    pairs = Pairs(np.arange(2), np.arange(2, dtype=np.int32))
    NGramTrainer(2, width=2, hidden=2).begin(texts, pairs, np.array([True, False]))


def _filter_images() -> None:
    """As `encoders/efficientnet.py` does, without its weights."""
    images, bias = np.zeros((1, 4, 4, 2), np.float32), np.zeros(2, np.float32)
    convolutions.convolve_channels(images, np.zeros((3, 3, 2), np.float32), bias, 1, 1, np.empty_like(images))
    convolutions.cap(images.reshape(-1, 2), bias)


def _look_at_maps() -> None:
    """As `campaign/atlas.py` does, without a campaign."""
    points = np.random.default_rng(0).normal(size=(SOME, WIDTH)).astype(np.float32)
    landmarks, _ = place_landmarks(points, points[:, :2].astype(np.float64), 0, lambda _: None)
    Landmarks.of(points, landmarks, 0).place(points)
    x, hidden, axis = (freeze(np.zeros(SOME, kind)) for kind in (np.uint16, np.bool_, np.int16))
    counts, rows = np.zeros((1, 1), np.int64), np.empty(SOME, np.int64)
    maps.count_window(x, x, hidden, axis, axis, counts, counts.copy())
    maps.list_window(x, x, hidden, axis, axis, rows)
    maps.find_nearest(x, x, hidden, 0, 0, 0)
    maps.list_inside(x, x, hidden, freeze(np.zeros((3, 2), np.int64)), rows)
