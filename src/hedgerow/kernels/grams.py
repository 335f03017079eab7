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
EMPTY = np.uint64(14695981039346656037)  # the key of no letters


@helper
def extend(key, code):
    """The key of a gram with one more code point at its end (FNV-1a)."""
    return (key ^ np.uint64(code)) * np.uint64(1099511628211)


@helper
def find_bucket(key):
    """The bucket of a gram."""
    return np.int64(((key ^ (key >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)) >> SHIFT)


@helper
def hash_grams(codes, out):
    """Writes the buckets of a text's 1- to 4-grams to out (at least GRAMS * codes.size,) int64; returns how many."""
    count = 0
    for first in range(codes.size):
        key = EMPTY
        for last in range(first, min(first + GRAMS, codes.size)):
            key = extend(key, codes[last])
            out[count] = find_bucket(key)
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
    """out (n, d) float32: the mean of the vectors (BUCKETS, d) of each text's grams.

    The sums over every prefix of the text before are kept, so only what follows the prefix that two texts have in
    common is added up: sorted texts take half of the time. The mean of a text does not depend on the others.
    """
    longest = 0
    for text in range(starts.size - 1):
        longest = max(longest, starts[text + 1] - starts[text])
    sums = np.zeros((longest + 1, vectors.shape[1]), np.float32)  # over the grams that end within a prefix
    keys = np.empty((longest + 1, GRAMS - 1), np.uint64)  # of the last 1, 2, 3 code points of a prefix
    nothing = np.zeros(vectors.shape[1], np.float32)
    before = codes[:0]
    for text in range(starts.size - 1):
        own = codes[starts[text] : starts[text + 1]]
        shared = 0
        while shared < min(before.size, own.size) and before[shared] == own[shared]:
            shared += 1
        for place in range(shared, own.size):
            one = extend(EMPTY, own[place])
            two, three = extend(keys[place, 0], own[place]), extend(keys[place, 1], own[place])
            four = extend(keys[place, 2], own[place])
            keys[place + 1, 0], keys[place + 1, 1], keys[place + 1, 2] = one, two, three
            first = vectors[find_bucket(one)]
            second = vectors[find_bucket(two)] if place >= 1 else nothing
            third = vectors[find_bucket(three)] if place >= 2 else nothing
            fourth = vectors[find_bucket(four)] if place >= 3 else nothing
            sofar, total = sums[place], sums[place + 1]
            for column in range(total.size):  # all four in one loop: a loop for each would take twice as long
                total[column] = sofar[column] + ((first[column] + second[column]) + (third[column] + fourth[column]))
        count = 0
        for place in range(own.size):
            count += min(place + 1, GRAMS)
        total, mean = sums[own.size], out[text]
        for column in range(mean.size):
            mean[column] = total[column] / np.float32(count)
        before = own


@kernel
def gather(codes, starts, rows, vectors, grams, ends, out):
    """out (m, d): the mean of the vectors (BUCKETS, d) of the grams of each text in rows (m,).

    Writes the buckets of these texts to grams int32, and where each text's end to ends (m,) int64.
    """
    filled = 0
    for i in range(rows.size):
        first = starts[rows[i]]
        count = hash_grams(codes[first : starts[rows[i] + 1]], grams[filled:])
        for t in range(out.shape[1]):
            out[i, t] = 0
        for place in range(filled, filled + count):
            bucket = grams[place]
            for t in range(out.shape[1]):
                out[i, t] += vectors[bucket, t]
        share = np.float32(1) / np.float32(count)
        for t in range(out.shape[1]):
            out[i, t] *= share
        filled += count
        ends[i] = filled


@kernel
def add_rows(sums, totals, places, rows, weights):
    """Adds weights[i] * rows[i] to sums[places[i]] and weights[i] to totals[places[i]], i = 0, 1, ..."""
    for i in range(places.size):
        place, weight = places[i], weights[i]
        totals[place] += weight
        for t in range(sums.shape[1]):
            sums[place, t] += weight * rows[i, t]


@kernel(error_model="numpy")  # checks for division by zero prevent vectorization
def descend(table, squares, grams, ends, gradients, rate, epsilon, slots, touched, totals):
    """A step of Adagrad on the rows of table (BUCKETS, d) that a minibatch uses.

    gradients (m, d) are those of the means of the texts' vectors; grams and ends are as in `gather`. squares: the sums
    of squared gradients of all earlier steps. Scratch: slots (BUCKETS,) int32, all -1 before and after; touched and
    totals (the number of distinct buckets, d) at least.
    """
    count, first = 0, 0
    for i in range(ends.size):
        share = np.float32(1) / np.float32(ends[i] - first)
        for place in range(first, ends[i]):
            bucket = grams[place]
            slot = slots[bucket]
            if slot < 0:
                slots[bucket] = count
                touched[count] = bucket
                for t in range(table.shape[1]):
                    totals[count, t] = gradients[i, t] * share
                count += 1
            else:
                for t in range(table.shape[1]):
                    totals[slot, t] += gradients[i, t] * share
        first = ends[i]
    for slot in range(count):
        bucket = touched[slot]
        slots[bucket] = -1
        for t in range(table.shape[1]):
            total = totals[slot, t]
            squares[bucket, t] += total * total
            table[bucket, t] -= rate * total / (np.sqrt(squares[bucket, t]) + epsilon)


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
