"""Texts as rows of a pool: concatenated code points, and the n-grams that a model reads.

Millions of words are stored as a few numbers each, not as objects. Rows are taken as from an array: texts[rows].
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hedgerow.kernels import grams as kernels

BEGIN, END = 0x110000, 0x110001  # beyond the last character of Unicode
CODE_BITS = 21  # of a character or a mark
SORTED_BY = 9  # characters: three fit into one number


@dataclass(frozen=True, eq=False)
class Texts:
    """n texts, each between a begin and an end mark: codes uint32 (t,), text i is codes[starts[i] : starts[i + 1]]."""

    codes: npt.NDArray[np.uint32]
    starts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, rows: slice | npt.NDArray[np.int64]) -> "Texts":
        """Some of the texts, in the given order."""
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        begins = self.starts[:-1][rows]
        lengths = self.starts[1:][rows] - begins
        starts = np.concatenate([[0], np.cumsum(lengths)])
        positions = np.arange(starts[-1]) + np.repeat(begins - starts[:-1], lengths)
        return Texts(self.codes[positions], starts)

    def read(self, row: int) -> str:
        """One text as a string."""
        return self.codes[self.starts[row] + 1 : self.starts[row + 1] - 1].tobytes().decode("utf-32-le")

    @cached_property
    def sorted(self) -> "tuple[npt.NDArray[np.int64], Texts]":
        """(the rows of the texts in sorted order, the texts in that order): made once, for repeated predictions.

        Sorted by their first characters only: neighbors then have most of their n-grams in common.
        """
        lengths = np.diff(self.starts)
        keys = []
        for first in range(1, SORTED_BY + 1, 3):  # after the begin mark, which all have
            key = np.zeros(len(self), np.uint64)
            for place in range(first, first + 3):
                key <<= np.uint64(CODE_BITS)
                long = lengths > place
                key[long] |= self.codes[self.starts[:-1][long] + place]
            keys.append(key)
        order = np.lexsort(keys[::-1])
        return order, self[order]

    def list_grams(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(the hash buckets of all 1- to 4-grams, text by text; the offsets of the texts, and the end)."""
        found, ends = np.empty(kernels.GRAMS * len(self.codes), np.int64), np.empty(len(self), np.int64)
        count = kernels.list_grams(self.codes, self.starts, found, ends)
        return found[:count], np.concatenate([[0], ends])

    def average_grams(self, vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The mean of the vectors (BUCKETS, d) of the n-grams of each text, float32 (n, d); fastest if sorted."""
        out = np.empty((len(self), vectors.shape[1]), np.float32)
        kernels.average_grams(self.codes, self.starts, vectors, out)
        return out

    def misspell(self, rng: np.random.Generator) -> "Texts":
        """Every text with one typing error: a letter swapped with the next, omitted, doubled or replaced."""
        out, ends = np.empty(len(self.codes) + len(self), np.uint32), np.empty(len(self), np.int64)
        count = kernels.misspell(self.codes, self.starts, rng.integers(0, 2**64, dtype=np.uint64), out, ends)
        return Texts(out[:count], np.concatenate([[0], ends]))


def encode_texts(texts: Sequence[str]) -> Texts:
    """Strings as `Texts`."""
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)) + 2)
    starts = np.concatenate([[0], ends])
    codes = np.empty(starts[-1], np.uint32)
    inner = np.ones(len(codes), np.bool_)
    inner[starts[:-1]] = inner[ends - 1] = False
    codes[inner] = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    codes[starts[:-1]], codes[ends - 1] = BEGIN, END
    return Texts(codes, starts)


def join_texts(parts: Sequence[Texts]) -> Texts:
    """Several `Texts`, concatenated."""
    offsets = np.cumsum([0, *(len(part.codes) for part in parts)])
    starts = [part.starts[:-1] + offset for part, offset in zip(parts, offsets, strict=False)]
    return Texts(np.concatenate([part.codes for part in parts]), np.concatenate([*starts, offsets[-1:]]))
