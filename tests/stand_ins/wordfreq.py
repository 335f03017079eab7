"""A stand-in for the package `wordfreq`: 500 invented words in each of twelve languages of three scripts.

The real lists hold 7 million words and take ten seconds to read; `tests/unit/test_words.py` reads them once. Languages
of a script share words, as the real ones do.
"""

import random
from functools import cache

ALPHABETS = {
    "abcdefghijklmnopqrstuvwxyz": ("de", "en", "es", "fr", "it", "nl"),
    "абвгдежзийклмнопрстуфхцчшщыьэюя": ("bg", "mk", "ru", "uk"),
    "αβγδεζηθικλμνξοπρστυφχψω": ("el", "grc"),
}
LANGUAGES = {language: alphabet for alphabet, languages in ALPHABETS.items() for language in languages}
WORDS, SHARED = 500, 60


def available_languages(wordlist: str) -> dict[str, str]:
    assert wordlist == "best"
    return dict.fromkeys(LANGUAGES, "")


@cache
def get_frequency_list(language: str, wordlist: str) -> list[list[str]]:
    """Buckets of words, the most frequent first; some buckets are empty."""
    assert wordlist == "best"
    alphabet = LANGUAGES[language]
    own = invent(language, alphabet, WORDS - SHARED)
    return [own[:40], [], own[40:] + invent(alphabet, alphabet, SHARED)]


def invent(seed: str, alphabet: str, count: int) -> list[str]:
    """Words from half of the letters: which half depends on the seed, so that languages can be told apart."""
    rng = random.Random(seed)
    letters = rng.sample(alphabet, len(alphabet) // 2)
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(rng.choices(letters, k=rng.randint(3, 9)))] = None
    return list(found)
