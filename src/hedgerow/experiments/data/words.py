"""The words of 42 languages as a multi-label pool: "is this a word of that language?".

The word lists come from the package `wordfreq` (the extra `words`): 7.2 million words, one in twelve in more than one
language, a real pool of about the size of Open Images (section 3.2 of the paper). The pairs of a word are all languages
that list it and five that do not, most of them with the same script. Some words are held out for the test set, and a
few for a first model.

`Words` is the record of the table [dataset] in a recipe. The model, which reads n-grams, is in `architectures.py`.
"""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError, MissingExtraError
from hedgerow.experiments.data.annotations import MultiLabel, annotate
from hedgerow.experiments.data.texts import Texts, encode_texts, join_texts
from hedgerow.pairs import Pairs
from hedgerow.tasks import Annotated

HELD_OUT = 125_000  # test words: the number of test images in Open Images
FIRST = 40_000  # words for a first model: the number of its validation images
NEGATIVES = 5
NEAR = 50.0  # how much more likely a pair is for a language with the script of the word
LEAST_SHARE = 0.25  # of the words of a language, for a script to be one of its own: every list has Latin names
FOLDED = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "KATAKANA-HIRAGANA": "CJK"}  # Japanese words mix them


@dataclass(frozen=True)
class Words:
    """The words of 42 languages: see `load_words`."""

    name: str = "words"
    limit: int | None = None
    held_out: int = HELD_OUT
    first: int = FIRST
    negatives: int = NEGATIVES
    typos: int = 0
    unit: ClassVar[str] = "pair"

    def check(self, data: Path | None) -> None:
        """Refuse to start without the word lists. The number of pairs is known after they are read."""
        if find_spec("wordfreq") is None:
            raise MissingExtraError("the word lists", "words")

    def load(self, data: Path | None, cache: Path, progress: Callable[[str, float], None] | None = None) -> MultiLabel:
        return load_words(
            self.limit, held_out=self.held_out, first=self.first, negatives=self.negatives, typos=self.typos
        )


def list_words(limit: int | None = None, *, seed: int = 0) -> tuple[list[str], npt.NDArray[np.uint64], tuple[str, ...]]:
    """(words in random order, the languages of each as bits, the languages); the first `limit` of the words."""
    try:
        import wordfreq
    except ImportError:
        raise MissingExtraError("the word lists", "words") from None
    languages = sorted(wordfreq.available_languages("best"))
    bits: dict[str, int] = {}
    for place, language in enumerate(languages):
        for bucket in wordfreq.get_frequency_list(language, "best"):
            for word in bucket:
                bits[word] = bits.get(word, 0) | 1 << place
        wordfreq.get_frequency_list.cache_clear()  # it would keep every list in memory
    words = sorted(bits)
    order = np.random.default_rng(seed).permutation(len(words))[:limit]
    words = [words[place] for place in order]
    return words, np.array([bits[word] for word in words], np.uint64), tuple(languages)


def load_words(
    limit: int | None = None,
    *,
    held_out: int = HELD_OUT,
    first: int = FIRST,
    negatives: int = NEGATIVES,
    typos: int = 0,
    seed: int = 0,
) -> MultiLabel:
    """`limit` words (all if None): `held_out` for the test set, `first` for a first model, the others the pool.

    typos: the number of copies of every word of the pool, each with its own typing error and the same answers.
    """
    words, bits, languages = list_words(limit, seed=seed)
    held_out, first = checks.integer(held_out, "held_out", least=1), checks.integer(first, "first")
    if held_out + first >= len(words):
        raise InputError(
            f"{held_out:,} words held out and {first:,} for a first model leave none of {len(words):,} for the pool"
        )
    kinds, weights = weigh_languages(words, bits, len(languages))
    truth = spread_bits(bits, len(languages))
    texts = encode_texts(words)

    def take(start: int, stop: int, part: int) -> Annotated:
        some = slice(start, stop)
        return annotate(
            texts[some], truth[some], negatives=negatives, weights=weights, kinds=kinds[some], seed=[seed, part]
        )

    test, beginning = take(0, held_out, 0), take(held_out, held_out + first, 1)
    pool = repeat_misspelled(take(held_out + first, len(words), 2), typos, seed=seed)
    return MultiLabel("wordlangs", languages, pool, test, beginning if first else None)


def repeat_misspelled(words: Annotated, copies: int, *, seed: int) -> Annotated:
    """The words, followed by `copies` of each with a typing error, which have the same pairs and answers."""
    if checks.integer(copies, "typos") == 0:
        return words
    rng = np.random.default_rng([checks.seed(seed), copies])
    texts: Texts = words.features
    pairs, n = words.pairs, len(words.features)
    rows = [pairs.rows + copy * n for copy in range(copies + 1)]
    asked = Pairs(np.concatenate(rows), np.tile(pairs.classes, copies + 1))
    written = join_texts([texts, *(texts.misspell(rng) for _ in range(copies))])
    return Annotated(written, asked, np.tile(words.answers, copies + 1))


def weigh_languages(
    words: list[str], bits: npt.NDArray[np.uint64], languages: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """(the script of each word, as a number; the weight of each language for words of a script (scripts, C))."""
    scripts: dict[str, int] = {"": 0}  # words without letters belong to no script
    known: dict[str, int] = {}
    kinds = np.empty(len(words), np.int64)
    for place, word in enumerate(words):
        letter = next(filter(str.isalpha, word), "")
        if letter not in known:
            known[letter] = scripts.setdefault(_name_script(letter), len(scripts))
        kinds[place] = known[letter]
    counts = np.empty((len(scripts), languages))
    for language in range(languages):
        listed = (bits >> np.uint64(language) & np.uint64(1)).astype(np.bool_)
        counts[:, language] = np.bincount(kinds[listed], minlength=len(scripts))
    near = counts >= LEAST_SHARE * np.maximum(1, counts.sum(axis=0))
    near[0] = False
    return kinds, np.where(near, NEAR, 1.0).astype(np.float32)


def _name_script(letter: str) -> str:
    """LATIN, CYRILLIC, ...: the first word of the Unicode name of a letter; "" for no letter."""
    name = unicodedata.name(letter, "").partition(" ")[0] if letter else ""
    return FOLDED.get(name, name)


def spread_bits(bits: npt.NDArray[np.uint64], languages: int) -> Any:
    """The bits as a CSR matrix (n, languages) of ones."""
    from scipy.sparse import csr_matrix, vstack

    step = 1 << 18  # rows per block
    columns = np.arange(languages, dtype=np.uint64)
    parts = [
        csr_matrix((bits[start : start + step, None] >> columns & np.uint64(1)).astype(np.bool_))
        for start in range(0, len(bits), step)
    ]
    return vstack(parts, format="csr")
