"""Texts -> vectors without weights: TF-IDF of words, pairs of words and parts of words, and the SVD of a sample.

Words are what the Unicode tables call letters, marks and digits; in scripts without spaces every character is a word.
Parts of words (3 and 4 characters) make forms of one word similar, in any language. All are hashed: there is no list of
words, and memory does not depend on their number. The most frequent buckets of a sample of the texts are the columns;
their weights are the usual ones, (1 + log tf) (1 + log((1 + n) / (1 + df))), on rows of length 1. Directions are the
first right singular vectors of the sample, by a randomized SVD (Halko, Martinsson and Tropp, SIAM Review 2011).
"""

import functools
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse

from hedgerow.kernels import words as kernels
from hedgerow.machine import limit_blas
from hedgerow.store import atomic_write
from hedgerow.store.checkpoints import refuse_damage

WIDTH = 256
SAMPLE = 20_000  # texts that columns and directions are computed from: more hardly change them
COLUMNS = 1 << 14  # rarer buckets are left out
BITS = 18
LEAST_TEXTS = 2  # that a bucket must occur in
EXTRA, TURNS = 16, 2  # additional directions and power iterations of the SVD
PIECE = 1 << 20  # characters that are counted at a time
LENGTH = 1 << 16  # of a text, the first characters are read
SHIFT = np.uint64(64 - BITS)
# Scripts without spaces between words: CJK, kana, Thai, Lao, Myanmar, Khmer.
UNSPACED = (
    (0x2E80, 0xA4CF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
)

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Tfidf:
    """What was learned from a sample. columns (2 ** BITS,): of each bucket, -1 for none; weights (m,); directions."""

    columns: npt.NDArray[np.int32]
    weights: Floats
    directions: Floats  # (m, d)

    def encode(self, texts: Sequence[str]) -> Floats:
        """Vectors (n, d) of length 1; zeros for a text of which nothing is known."""
        out = np.zeros((len(texts), self.directions.shape[1]), np.float32)
        with limit_blas():
            for start, rows in _count(texts, self.columns, len(self.weights)):
                out[start : start + rows.shape[0]] = _weigh(rows, self.weights) @ self.directions
        return _unit(out)

    def save(self, path: Path) -> None:
        """Write it to a .npz file."""
        with atomic_write(path) as beside:
            np.savez(beside, columns=self.columns, weights=self.weights, directions=self.directions)


def load_tfidf(path: Path) -> Tfidf:
    """What `Tfidf.save` wrote."""
    with refuse_damage(path), np.load(path, allow_pickle=False) as held:
        return Tfidf(held["columns"], held["weights"], held["directions"])


def learn_tfidf(texts: Sequence[str], *, seed: int, width: int = WIDTH) -> Tfidf:
    """Columns, weights and directions from a sample of texts; fewer directions than `width` if they have no more."""
    parts = [rows for _, rows in _count(texts, np.arange(1 << BITS, dtype=np.int32), 1 << BITS)]
    counts = sparse.vstack(parts, format="csr")
    frequency = np.bincount(counts.indices, minlength=1 << BITS)
    least = min(LEAST_TEXTS, int(frequency.max()))
    common = np.argsort(-frequency, kind="stable")[:COLUMNS]
    chosen = np.sort(common[frequency[common] >= max(1, least)])
    columns = np.full(1 << BITS, -1, np.int32)
    columns[chosen] = np.arange(len(chosen), dtype=np.int32)
    if len(chosen) == 0:  # texts without a letter or a digit
        return Tfidf(columns, np.ones(1, np.float32), np.zeros((1, 1), np.float32))
    weights = (np.log((1 + len(texts)) / (1 + frequency[chosen])) + 1).astype(np.float32)
    with limit_blas():
        return Tfidf(columns, weights, find_directions(_weigh(counts[:, chosen], weights), width, seed))


def find_directions(rows: sparse.csr_matrix, width: int, seed: int) -> Floats:
    """The first right singular vectors (m, d) of a sparse matrix (n, m), d at most `width`."""
    width = min(width, *rows.shape)
    rng = np.random.default_rng(seed)
    basis = rng.standard_normal((rows.shape[1], min(width + EXTRA, *rows.shape)), np.float32)
    turned = rows.T.tocsr()
    for _ in range(TURNS):
        basis = _make_orthonormal(turned @ (rows @ basis))
    image = (rows @ basis).astype(np.float64)
    _, vectors = np.linalg.eigh(image.T @ image)
    return np.ascontiguousarray(basis @ vectors[:, ::-1][:, :width].astype(np.float32))


def _make_orthonormal(matrix: Floats) -> Floats:
    """Orthonormal columns that span the same space, by the inverse root of the matrix of their products."""
    doubled = matrix.astype(np.float64)
    squares, vectors = np.linalg.eigh(doubled.T @ doubled)
    roots = np.sqrt(np.maximum(squares, max(float(squares[-1]), 1e-30) * 1e-12))
    made: Floats = matrix @ (vectors / roots).astype(np.float32)
    return made


# Counting.


def _count(texts: Sequence[str], columns: npt.NDArray[np.int32], width: int) -> Iterator[tuple[int, sparse.csr_matrix]]:
    """(first text, counts by column as a sparse matrix), some texts at a time."""
    kinds, places = find_kinds(), np.zeros(max(1, width), np.int64)
    for start, stop in _divide(texts):
        codes, starts = _encode_characters(texts[start:stop])
        found = np.empty(kernels.PER_CHARACTER * len(codes), np.int32)
        counts, ends = np.empty(len(found), np.float32), np.empty(stop - start, np.int64)
        total = kernels.count_words(codes, starts, kinds, SHIFT, columns, places, found, counts, ends)
        offsets = np.concatenate([[0], ends])
        # Copies: the arrays have room for many more.
        made = (counts[:total].copy(), found[:total].copy(), offsets)
        yield start, sparse.csr_matrix(made, shape=(stop - start, max(1, width)))


def _divide(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Ranges of texts with about `PIECE` characters, at least one text each."""
    start, held = 0, 0
    for place, text in enumerate(texts):
        held += min(len(text), LENGTH)
        if held >= PIECE:
            yield start, place + 1
            start, held = place + 1, 0
    if start < len(texts):
        yield start, len(texts)


def _encode_characters(texts: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """The code points of all texts in lower case, and where each begins, with the end."""
    plain = [_simplify(text[:LENGTH]) for text in texts]
    starts = np.zeros(len(plain) + 1, np.int64)
    np.cumsum([len(text) for text in plain], out=starts[1:])
    return np.frombuffer("".join(plain).encode("utf-32-le", "surrogatepass"), np.uint32), starts


def _simplify(text: str) -> str:
    """Lower case, and one form of characters that can be written in several ways."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).lower()


@functools.cache
def find_kinds() -> npt.NDArray[np.uint8]:
    """What each character of Unicode is: part of a word, a word of its own, or between words."""
    categories = [unicodedata.category(chr(code))[0] for code in range(0x110000)]
    kinds = np.where(np.isin(categories, list("LMN")), kernels.LETTER, kernels.OTHER).astype(np.uint8)
    for first, last in UNSPACED:
        part = kinds[first : last + 1]
        part[part == kernels.LETTER] = kernels.ALONE
    return kinds


# Weights.


def _weigh(counts: sparse.csr_matrix, weights: Floats) -> sparse.csr_matrix:
    """TF-IDF in rows of length 1."""
    rows = counts.copy()
    rows.data = (1 + np.log(rows.data)) * weights[rows.indices]  # float32
    owners = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    lengths = np.sqrt(np.bincount(owners, rows.data.astype(np.float64) ** 2, rows.shape[0]))
    lengths[lengths == 0] = 1
    rows.data = (rows.data / lengths[owners]).astype(np.float32)
    return rows


def _unit(rows: Floats) -> Floats:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    rows /= lengths
    return rows
