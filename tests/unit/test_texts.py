"""Texts as rows: read again, taken, cut into grams, misspelled."""

from collections import Counter

import numpy as np
import pytest

from hedgerow.experiments.data.texts import encode_texts, join_texts
from hedgerow.kernels.grams import BUCKETS

STRINGS = ["abc", "", "ñandú", "日本語", "a", "😀x"]


def test_texts_are_read_again_and_taken_as_rows():
    texts = encode_texts(STRINGS)
    assert [texts.read(row) for row in range(len(texts))] == STRINGS
    some = texts[np.array([4, 0, 0, 1])]
    assert [some.read(row) for row in range(4)] == ["a", "abc", "abc", ""]
    assert [texts[2:4].read(row) for row in range(2)] == STRINGS[2:4]
    joined = join_texts([texts, some])
    assert [joined.read(row) for row in range(10)] == [*STRINGS, "a", "abc", "abc", ""]
    assert len(encode_texts([])) == 0
    assert len(texts[np.zeros(0, int)]) == 0


def test_grams_are_those_of_each_text():
    texts = encode_texts(STRINGS)
    grams, starts = texts.list_grams()
    assert ((grams >= 0) & (grams < BUCKETS)).all()
    for row, string in enumerate(STRINGS):
        length = len(string) + 2
        assert starts[row + 1] - starts[row] == sum(max(0, length - size + 1) for size in (1, 2, 3, 4))
        alone = encode_texts([string]).list_grams()[0]
        assert np.array_equal(grams[starts[row] : starts[row + 1]], alone)
    assert len(set(grams[: starts[1]])) == starts[1]  # of "abc": all different
    vectors = np.random.default_rng(0).normal(size=(BUCKETS, 3)).astype(np.float32)
    means = texts.average_grams(vectors)
    expected = [vectors[grams[starts[row] : starts[row + 1]]].mean(axis=0) for row in range(len(STRINGS))]
    assert means == pytest.approx(np.array(expected), abs=1e-5)


def test_typing_errors_are_one_edit():
    texts = encode_texts(["abcdef", "x", "", "ab"] * 200)
    wrong = texts.misspell(np.random.default_rng(0))
    kinds = Counter()
    for row in range(0, 800, 4):
        word = wrong.read(row)
        kinds[len(word) - 6] += 1
        if len(word) == 6:
            assert sum(one != other for one, other in zip(word, "abcdef", strict=True)) <= 2
        else:
            longer, shorter = sorted((word, "abcdef"), key=len, reverse=True)
            assert any(longer[:at] + longer[at + 1 :] == shorter for at in range(len(longer)))
        assert wrong.read(row + 1) == "xx"
        assert wrong.read(row + 2) == ""
        assert wrong.read(row + 3) in ("ba", "a", "b", "aab", "abb", "aa", "bb", "ab")
    assert set(kinds) == {-1, 0, 1}
