"""Pools in which one thing can be changed at a time, to find out what a result depends on (docs/savings.md).

`VariedWords` is the pool of words (`words.py`) at a fixed number of rows, with a choice of classes, of words for the
first model, of annotated classes per row, and of the share of rows that are copies of others. `ImagePairs` is an image
set as (row, class) pairs on the features of a frozen network. `WithCopies` is another dataset at a fixed number of
rows, a share of which are copies.

The records are used from Python: a recipe takes them as its `dataset`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError
from hedgerow.experiments.data.annotations import MultiLabel, annotate
from hedgerow.experiments.data.datasets import Dataset
from hedgerow.experiments.data.features import load_features
from hedgerow.experiments.data.files import PUBLICATIONS
from hedgerow.experiments.data.texts import Texts, encode_texts, join_texts
from hedgerow.experiments.data.words import NEGATIVES, Words, list_words, spread_bits, weigh_languages
from hedgerow.pairs import Pairs
from hedgerow.tasks import Annotated

Index = npt.NDArray[np.int64]
Progress = Callable[[str, float], None]
Scorer = Callable[[Texts], npt.NDArray[np.float32]]  # texts -> scores (n, C)

LISTED = 250_000  # words that are listed, of which each pool takes the first it needs: pools share most of their words
TAIL = 1.1  # Pareto exponent of the number of copies: few words have most of them
MOST_COPIES = 1_000
COPIES = ("heavy-tailed", "equal")
LOST = 0.1  # share of the numbers of a row that its altered copy has lost
TEST, POOL, FIRST = range(3)


@dataclass(frozen=True)
class VariedWords:
    """Words of 42 languages, `rows` of them in the pool.

    bands: classes are pairs of a language and one of so many frequency bands, so there are 42 * bands. copies: the
    share of the pool's rows that are copies of one of the others, each with its own typing error if `misspelled`, and
    with the pairs and answers of the original. counts: how many copies a word has, "heavy-tailed" (up to 1,000) or
    "equal" as far as possible.
    """

    name: str = "varied-words"
    rows: int = 30_000
    held_out: int = 12_000
    first: int = 1_750
    negatives: int = NEGATIVES
    bands: int = 1
    copies: float = 0.0
    counts: str = "heavy-tailed"
    misspelled: bool = True
    seed: int = 0
    unit: ClassVar[str] = "pair"

    @property
    def originals(self) -> int:
        """The number of rows of the pool that are not copies."""
        return self.rows - round(self.copies * self.rows)

    def check(self, data: Path | None) -> None:
        """Refuse to start without the word lists, or with sizes that are too large for them."""
        Words().check(data)
        checks.integer(self.bands, "bands", least=1)
        checks.option(self.counts, "counts", COPIES)
        check_copies(self.copies, self.rows, self.originals)
        if (needed := self.held_out + self.originals + self.first) > LISTED:
            raise InputError(f"the pool needs {needed:,} words, but only {LISTED:,} are listed: use fewer rows")

    def find_origins(self) -> Index:
        """The original of each row of the pool, as a row: the originals first, then their copies."""
        self.check(None)
        return list_origins(self.rows, self.originals, self.counts, self.seed)

    def load(self, data: Path | None, cache: Path, progress: Progress | None = None) -> MultiLabel:
        return self.make()

    def make(self, propose: Callable[[Annotated], Scorer] | None = None) -> MultiLabel:
        """The dataset.

        propose: from the words of the first model, a function whose highest-scored wrong classes are the negatives.
        """
        self.check(None)
        words, truth, kinds, weights, names = list_classes(self.bands, self.seed)
        ends = np.cumsum([0, self.held_out, self.originals, self.first])

        def take(part: int, score: Scorer | None = None) -> Annotated:
            some = slice(ends[part], ends[part + 1])
            texts = encode_texts(words[some])
            how: dict[str, Any] = {"weights": weights, "kinds": kinds[some], "seed": [self.seed, part]}
            if score is not None:
                how = {"scores": score(texts)}
            return annotate(texts, truth[some], negatives=self.negatives, **how)

        first = take(FIRST)
        score = None if propose is None else propose(first)
        pool = take(POOL, score)
        if self.copies:
            rng = np.random.default_rng([self.seed, self.rows, self.originals, 1]) if self.misspelled else None
            pool = copy_rows(pool, self.find_origins(), self.originals, rng)
        return MultiLabel(self.name, names, pool, take(TEST, score), first if self.first else None)


@lru_cache(maxsize=4)
def list_classes(bands: int, seed: int) -> tuple[list[str], Any, Index, npt.NDArray[np.float32], tuple[str, ...]]:
    """(words, truth (n, 42 * bands) as CSR, the script of each word, weights (scripts, 42 * bands), class names)."""
    words, bits, languages = list_words(LISTED, seed=seed)
    kinds, weights = weigh_languages(words, bits, len(languages))
    truth = spread_bits(bits, len(languages)) if bands == 1 else band_words(words, languages, bands)
    names = tuple(f"{language} {band}" if bands > 1 else language for language in languages for band in range(bands))
    return words, truth, kinds, np.repeat(weights, bands, axis=1), names


def band_words(words: list[str], languages: tuple[str, ...], bands: int) -> Any:
    """A CSR matrix (n, languages * bands) of ones: the languages of each word, and its frequency band in each.

    The bands of a language have as many words each as its steps of frequency allow; band 0 has the most frequent.
    """
    import wordfreq
    from scipy.sparse import csr_matrix

    places = {word: place for place, word in enumerate(words)}
    rows, columns = [], []
    for number, language in enumerate(languages):
        buckets = wordfreq.get_frequency_list(language, "best")
        total, passed = sum(map(len, buckets)), 0
        for bucket in buckets:
            band = min(bands - 1, bands * (2 * passed + len(bucket)) // (2 * total))  # that of its middle word
            found = [places[word] for word in bucket if word in places]
            rows += found
            columns += [number * bands + band] * len(found)
            passed += len(bucket)
        wordfreq.get_frequency_list.cache_clear()  # it would keep every list in memory
    return csr_matrix((np.ones(len(rows), np.bool_), (rows, columns)), shape=(len(words), len(languages) * bands))


def draw_copies(words: int, copies: int, rng: np.random.Generator) -> Index:
    """How many of `copies` each word has: heavy-tailed, at most `MOST_COPIES`, in all exactly `copies`."""
    sizes = rng.pareto(TAIL, words)
    low, high = 0.0, 1.0
    while _scale(sizes, high).sum() < copies:
        high *= 2
    for _ in range(60):  # to the precision of a float
        middle = (low + high) / 2
        low, high = (middle, high) if _scale(sizes, middle).sum() < copies else (low, middle)
    counts = _scale(sizes, high)
    for word in np.argsort(-counts, kind="stable")[: counts.sum() - copies]:  # several words may reach a step at once
        counts[word] -= 1
    return counts


def _scale(sizes: npt.NDArray[np.float64], factor: float) -> Index:
    return np.minimum(factor * sizes, MOST_COPIES).astype(np.int64)


def spread_evenly(words: int, copies: int, rng: np.random.Generator) -> Index:
    """How many of `copies` each word has: the same number, and one more for some words drawn at random."""
    counts = np.full(words, copies // words)
    counts[rng.choice(words, copies % words, replace=False)] += 1
    return counts


def check_copies(share: float, rows: int, originals: int) -> None:
    """Refuse a share of copies that so many originals cannot have."""
    if not 0 <= share < 1:
        raise InputError(f"copies must be a share of the rows, from 0 to below 1; got {share!r}")
    if originals < 1 or rows - originals > MOST_COPIES * originals:
        raise InputError(f"{originals:,} originals cannot have {rows - originals:,} copies")


def list_origins(rows: int, originals: int, counts: str, seed: int) -> Index:
    """The original of each row: the originals first, then their copies."""
    draw = draw_copies if counts == "heavy-tailed" else spread_evenly
    rng = np.random.default_rng([checks.seed(seed), rows, originals])
    first = np.arange(originals)
    return np.concatenate([first, np.repeat(first, draw(originals, rows - originals, rng))])


def copy_rows(part: Annotated, origins: Index, originals: int, rng: np.random.Generator | None) -> Annotated:
    """The rows `origins` with their pairs and answers; after the first `originals` they are altered if rng is given."""
    starts = np.searchsorted(part.pairs.rows, np.arange(len(part.features) + 1))  # pairs are in the order of their rows
    counts = np.diff(starts)[origins]
    ends = np.cumsum(counts)
    places = np.arange(ends[-1]) + np.repeat(starts[:-1][origins] - (ends - counts), counts)
    asked = Pairs(np.repeat(np.arange(len(origins)), counts), part.pairs.classes[places])
    return Annotated(copy_features(part.features, origins, originals, rng), asked, part.answers[places])


def copy_features(features: Any, origins: Index, originals: int, rng: np.random.Generator | None) -> Any:
    """features[origins]; if rng is given, those after the first `originals` have a typing error or lost numbers."""
    first, further = features[origins[:originals]], features[origins[originals:]]
    if isinstance(features, Texts):
        return join_texts([first, further if rng is None else further.misspell(rng)])
    kept = further if rng is None else further * (rng.random(further.shape, np.float32) >= LOST)
    return np.concatenate([first, kept])


@dataclass(frozen=True)
class WithCopies:
    """The pool of another dataset, `rows` of them, of which the share `copies` are copies of the others, heavy-tailed.

    altered: each copy has a typing error, or has lost a tenth of its numbers; otherwise it is exact. The originals are
    drawn by the seed. The test set stays as it is.
    """

    source: Any
    rows: int
    copies: float = 0.0
    altered: bool = True
    seed: int = 0

    @property
    def originals(self) -> int:
        """The number of rows of the pool that are not copies."""
        return self.rows - round(self.copies * self.rows)

    def load(self, data: Path | None, cache: Path, progress: Progress | None = None) -> MultiLabel | Dataset:
        check_copies(self.copies, self.rows, self.originals)
        loaded = self.source.load(data, cache, progress)
        n = loaded.task.n
        if self.originals > n:
            raise InputError(f"{self.originals:,} rows are not copies, but the pool of {loaded.name} has {n:,}")
        rng = np.random.default_rng([checks.seed(self.seed), n, self.originals])
        chosen = rng.permutation(n)[: self.originals]
        origins = chosen[list_origins(self.rows, self.originals, "heavy-tailed", self.seed)]
        how = (origins, self.originals, rng if self.altered else None)
        if isinstance(loaded, MultiLabel):
            return replace(loaded, pool=copy_rows(loaded.pool, *how))
        assert isinstance(loaded, Dataset)
        return replace(loaded, features=copy_features(loaded.features, *how), labels=loaded.labels[origins])


@dataclass(frozen=True)
class ImagePairs:
    """An image set as pairs: the class of an image and `negatives` others, on features of a frozen network.

    images: cifar10, cifar100 or svhn. rows, held_out: images of the pool and of the test set, drawn once from the two
    halves as published. side: the images are enlarged to so many pixels.
    """

    images: str = "cifar100"
    name: str = "image-pairs"
    rows: int = 8_000
    held_out: int = 3_000
    negatives: int = NEGATIVES
    side: int = 64
    seed: int = 0
    unit: ClassVar[str] = "pair"

    def check(self, data: Path | None) -> None:
        """Refuse to start if files are missing."""
        PUBLICATIONS[checks.option(self.images, "images", ("cifar10", "cifar100", "svhn"))].find(data)

    def load(self, data: Path | None, cache: Path, progress: Progress | None = None) -> MultiLabel:
        published = PUBLICATIONS[self.images]
        halves = published.open(data)
        parts = []
        for number, (half, count) in enumerate(zip(halves, (self.rows, self.held_out), strict=True)):
            assert half is not None, "image sets are published in two halves"
            rng = np.random.default_rng([checks.seed(self.seed), number])
            some = np.sort(rng.choice(len(half.labels), checks.integer(count, "images", least=1), replace=False))
            features = load_features(
                half.features[some], f"{self.images}-{number}", side=self.side, cache=cache, progress=progress
            )
            truth = mark_classes(half.labels[some], published.classes)
            parts.append(annotate(features, truth, negatives=self.negatives, seed=[self.seed, number]))
        return MultiLabel(f"{self.images}-pairs", tuple(map(str, range(published.classes))), *parts)


def mark_classes(labels: Index, classes: int) -> Any:
    """Class numbers (n,) as a CSR matrix (n, classes) with a one per row."""
    from scipy.sparse import csr_matrix

    return csr_matrix((np.ones(len(labels), np.bool_), labels, np.arange(len(labels) + 1)), (len(labels), classes))
