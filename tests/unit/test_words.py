"""Words of several languages as a pool of pairs, on lists of a few words."""

import hashlib
import sys
import types
from collections import Counter
from functools import cache

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.experiments.data import words

LISTS = {
    "de": ["und", "haus", "tee", "straße"],
    "en": ["and", "house", "tee", "is"],
    "nl": ["en", "huis", "is", "tee"],
    "ru": ["дом", "и", "чай"],
    "uk": ["дім", "і", "чай"],
    "ja": ["家", "お茶", "カード", "12"],
}


@pytest.fixture
def lists(monkeypatch):
    """A package of that name with lists of a few words."""

    @cache
    def get_frequency_list(language, wordlist):
        assert wordlist == "best"
        return [LISTS[language][:2], [], LISTS[language][2:]]

    fake = types.ModuleType("wordfreq")
    fake.available_languages = lambda wordlist: dict.fromkeys(LISTS)
    fake.get_frequency_list = get_frequency_list
    monkeypatch.setitem(sys.modules, "wordfreq", fake)


def test_a_word_knows_its_languages(lists):
    found, bits, languages = words.list_words()
    assert languages == ("de", "en", "ja", "nl", "ru", "uk")
    assert sorted(found) == sorted({word for listed in LISTS.values() for word in listed})
    for word, mask in zip(found, bits.tolist(), strict=True):
        assert {language for place, language in enumerate(languages) if mask >> place & 1} == {
            language for language, listed in LISTS.items() if word in listed
        }
    assert words.list_words(5)[0] == found[:5]
    assert words.list_words(seed=1)[0] != found


def test_pairs_are_all_positives_and_negatives_mostly_of_the_script(lists):
    near = Counter()
    for seed in range(40):
        loaded = words.load_words(held_out=3, first=2, negatives=1, seed=seed)
        assert (len(loaded.test.features), len(loaded.first.features)) == (3, 2)
        everything = [
            part.features.read(row)
            for part in (loaded.pool, loaded.test, loaded.first)
            for row in range(len(part.features))
        ]
        assert len(everything) == len(set(everything)) == 18
        pool = loaded.pool
        listed = {row: pool.features.read(row) for row in range(len(pool.features))}
        answers = {}
        for row, label, answer in zip(pool.pairs.rows, pool.pairs.classes, pool.answers, strict=True):
            language = loaded.names[label]
            assert answer == (listed[row] in LISTS[language])
            answers.setdefault(int(row), []).append(bool(answer))
            if not answer and listed[row] in ("haus", "and", "huis", "и"):
                near[(language in ("ru", "uk")) == (listed[row] == "и")] += 1
        for row, given in answers.items():
            assert given.count(True) == sum(listed[row] in one for one in LISTS.values())
            assert given.count(False) == 1
    assert near[True] > 5 * near[False] > 0


def test_all_negatives_where_there_are_no_more(lists):
    loaded = words.load_words(held_out=1, first=0, negatives=99)
    assert loaded.first is None
    assert len(loaded.pool.pairs) == 17 * 6


def test_copies_with_typing_errors_have_the_same_answers(lists):
    plain, noisy = (words.load_words(held_out=3, first=2, typos=typos, seed=4) for typos in (0, 2))
    n, m = len(plain.pool.features), len(plain.pool.pairs)
    assert len(noisy.pool.features) == 3 * n
    assert np.array_equal(
        noisy.pool.pairs.rows, np.concatenate([plain.pool.pairs.rows + copy * n for copy in range(3)])
    )
    assert np.array_equal(noisy.pool.answers, np.tile(plain.pool.answers, 3))
    assert len(noisy.test.pairs) == len(plain.test.pairs)
    assert len(noisy.pool.pairs) == 3 * m
    for row in range(n):
        assert noisy.pool.features.read(row) == plain.pool.features.read(row)
    changed = [noisy.pool.features.read(n + row) != plain.pool.features.read(row) for row in range(n)]
    assert sum(changed) > n // 2  # two equal letters swapped are no error


def test_the_real_lists_give_the_words_that_the_recipes_ran_on():
    """The only test that reads the real package: 7 million words."""
    found, bits, languages = words.list_words(2_000)
    assert len(languages) == 42
    assert found[:3] == ["zegeltjes", "tideswell", "totenblass"]
    digest = hashlib.sha256("\n".join(found).encode() + bits.tobytes()).hexdigest()
    assert digest == "a88e9057bffa631b0f0c1b6df5e03c8ab22a077ef7febd7b93e373a689201f55"


def test_too_few_words_and_no_package(lists, monkeypatch):
    with pytest.raises(hr.InputError, match="leave none of 18 for the pool"):
        words.load_words(held_out=10, first=8)
    monkeypatch.setitem(sys.modules, "wordfreq", None)
    with pytest.raises(hr.MissingExtraError, match=r"pip install .\.\[words\]"):
        words.load_words()
