"""Words, pairs of words and parts of words as hash buckets, counted text by text.

Texts are concatenated as code points (t,) uint32, already in lower case: text i is codes[starts[i] : starts[i + 1]],
with starts (n + 1,) int64. kinds (0x110000,) uint8 says what each character is.
"""

import numpy as np

from hedgerow.kernels.compiling import helper, kernel

OTHER, LETTER, ALONE = 0, 1, 2  # between words; part of a word; a word of its own, as in Chinese
SHORTEST, LONGEST = 3, 4  # parts of words, in characters, the marks at both ends included
PER_CHARACTER = 2 + 2 * (LONGEST - SHORTEST + 1)  # at most so many buckets per character of a text
BEGIN = np.uint64(14695981039346656037)
PRIME = np.uint64(1099511628211)
MARK = np.uint64(0x110000)  # before and after a word: beyond the last character
PAIR, PART = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)  # keep the three kinds of keys apart


@helper
def count_key(key, shift, columns, places, found, counts, begun, total):
    """Counts one key of the text whose columns begin at found[begun]; returns the new end of found."""
    key ^= key >> np.uint64(29)
    key *= np.uint64(0xBF58476D1CE4E5B9)
    key ^= key >> np.uint64(32)
    key *= np.uint64(0x94D049BB133111EB)
    column = columns[np.int64(key >> shift)]
    if column < 0:
        return total
    place = places[column]
    if place >= begun and place < total and found[place] == column:
        counts[place] += np.float32(1)
        return total
    places[column] = total
    found[total] = column
    counts[total] = np.float32(1)
    return total + 1


@kernel
def count_words(codes, starts, kinds, shift, columns, places, found, counts, ends):
    """Counts how often the words, pairs of words and parts of words of each text occur, by column.

    shift: 64 minus the bits of a bucket; columns (2 ** bits,) int32: the column of each bucket, -1 for none; places
    (number of columns,) int64: scratch, any values. Writes columns to found and counts (PER_CHARACTER * t,), int32 and
    float32, and where each text's end to ends (n,) int64. Returns how many there are.
    """
    total = 0
    for text in range(starts.size - 1):
        begun, before = total, np.uint64(0)
        place, stop = starts[text], starts[text + 1]
        while place < stop:
            kind = kinds[codes[place]]
            if kind == OTHER:
                place += 1
                continue
            first, key = place, BEGIN
            while place < stop and (place == first or (kind == LETTER and kinds[codes[place]] == LETTER)):
                key = (key ^ np.uint64(codes[place])) * PRIME
                place += 1
            total = count_key(key, shift, columns, places, found, counts, begun, total)
            if before:
                pair = (before * PAIR) ^ key
                total = count_key(pair, shift, columns, places, found, counts, begun, total)
            before = key
            if kind == ALONE:
                continue
            for start in range(first - 1, place + 2 - SHORTEST):
                part = BEGIN
                for at in range(start, min(start + LONGEST, place + 1)):
                    part = (part ^ (np.uint64(codes[at]) if first <= at < place else MARK)) * PRIME
                    if at - start + 1 >= SHORTEST:
                        key = part ^ PART
                        total = count_key(key, shift, columns, places, found, counts, begun, total)
        ends[text] = total
    return total
