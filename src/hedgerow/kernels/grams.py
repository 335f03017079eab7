"""Character n-grams of texts as bucket numbers, and texts with a typing error.

Texts are concatenated as code points (t,) uint32: text i is codes[starts[i] : starts[i + 1]], with starts (n + 1,)
int64. Each begins and ends with a mark, so that n-grams at the start and at the end of a text are distinct.
"""

import numpy as np

from hedgerow.kernels.compiling import helper, kernel
from hedgerow.kernels.draws import draw

GRAMS = 4  # the longest gram
BUCKETS = 1 << 18  # collisions are rare: there are tens of thousands of frequent n-grams
SHIFT = np.uint64(64 - 18)


@helper
def hash_grams(codes, out):
    """Writes the buckets of a text's 1- to 4-grams to out (at least GRAMS * codes.size,) int64; returns how many."""
    count = 0
    for first in range(codes.size):
        key = np.uint64(14695981039346656037)
        for last in range(first, min(first + GRAMS, codes.size)):
            key = (key ^ np.uint64(codes[last])) * np.uint64(1099511628211)
            out[count] = ((key ^ (key >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)) >> SHIFT
            count += 1
    return count


@kernel
def list_grams(codes, starts, grams, ends):
    """Writes the buckets of all texts to grams (GRAMS * t,) int64, and where each text's end to ends (n,); how many."""
    count = 0
    for text in range(starts.size - 1):
        count += hash_grams(codes[starts[text] : starts[text + 1]], grams[count:])
        ends[text] = count
    return count


@kernel(allocates=True)
def average_grams(codes, starts, vectors, out):
    """out (n, d) float32: the mean of the vectors (BUCKETS, d) of each text's grams."""
    longest = 0
    for text in range(starts.size - 1):
        longest = max(longest, starts[text + 1] - starts[text])
    grams = np.empty(GRAMS * longest, np.int64)
    for text in range(starts.size - 1):
        count = hash_grams(codes[starts[text] : starts[text + 1]], grams)
        out[text] = 0
        for place in range(count):
            for column in range(out.shape[1]):
                out[text, column] += vectors[grams[place], column]
        for column in range(out.shape[1]):
            out[text, column] /= count


@kernel
def misspell(codes, starts, key, out, ends):
    """Writes every text with one typing error to out (t + n,) uint32 and where it ends to ends (n,) int64.

    Two adjacent letters are swapped, or one is omitted, doubled, or replaced by another letter of the text. A single
    letter is doubled; an empty text stays empty. Marks are kept. Returns the length of all texts.
    """
    filled = 0
    for text in range(starts.size - 1):
        start, stop = starts[text], starts[text + 1]
        letters = stop - start - 2
        kind = int(draw(key, 3 * text) * 4) if letters > 1 else 2
        place = int(draw(key, 3 * text + 1) * (letters - (kind == 0))) if letters > 0 else -9
        other = start + 1 + int(draw(key, 3 * text + 2) * letters)
        for i in range(start, stop):
            at = i - start - 1
            if at == place and kind == 1:
                continue
            source = i
            if kind == 0 and at == place:
                source = i + 1
            elif kind == 0 and at == place + 1:
                source = i - 1
            elif kind == 3 and at == place:
                source = other
            out[filled] = codes[source]
            filled += 1
            if kind == 2 and at == place:
                out[filled] = codes[source]
                filled += 1
        ends[text] = filled
    return filled
