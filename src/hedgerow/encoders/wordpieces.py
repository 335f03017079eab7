"""Texts as numbers of word pieces, as BERT reads them: lower case, no accents, each word in its longest known pieces.

What the tokenizers of BERT do, in their order: characters without a form are dropped, white space is one space, Chinese
characters and punctuation are words of their own. Devlin et al., BERT, NAACL 2019.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

LONGEST = 100  # a longer word is unknown
CHINESE = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip
ASCII_MARKS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


@dataclass(frozen=True)
class Pieces:
    """The known pieces and their numbers; a piece within a word begins with ##."""

    numbers: Mapping[str, int]

    def read(self, text: str, most: int) -> list[int]:
        """The numbers of the pieces of a text, at most so many, between the marks for its begin and its end."""
        found: list[int] = []
        for word in list_words(text):
            found += self._split(word)
            if len(found) >= most - 2:
                break
        return [self.numbers["[CLS]"], *found[: most - 2], self.numbers["[SEP]"]]

    def _split(self, word: str) -> list[int]:
        """The longest known piece, then the longest known of the rest; an unknown word if one is unknown."""
        found: list[int] = []
        start = 0
        while start < len(word) <= LONGEST:
            prefix = "##" if start else ""
            ends = range(len(word), start, -1)
            stop = next((stop for stop in ends if prefix + word[start:stop] in self.numbers), None)
            if stop is None:
                break
            found.append(self.numbers[prefix + word[start:stop]])
            start = stop
        return found if start == len(word) else [self.numbers["[UNK]"]]


def read_pieces(content: bytes) -> Pieces:
    """The pieces from a file with one per line."""
    return Pieces({piece: number for number, piece in enumerate(content.decode().splitlines())})


def list_words(text: str) -> Iterator[str]:
    """The words of a text in lower case and without accents, with punctuation as words."""
    spaced = "".join(_space(character) for character in text)
    plain = unicodedata.normalize("NFD", spaced)
    bare = "".join(character for character in plain if unicodedata.category(character) != "Mn").lower()
    for chunk in bare.split():
        word = ""
        for character in chunk:
            if not _is_mark(character):
                word += character
                continue
            if word:
                yield word
            yield character
            word = ""
        if word:
            yield word


def _space(character: str) -> str:
    """A space for white space, spaces around a Chinese character, nothing for what has no form."""
    if character in "\t\n\r":
        return " "
    category = unicodedata.category(character)
    if character == "�" or category in ("Cc", "Cf", "Cs", "Co", "Cn"):
        return ""
    if category == "Zs":
        return " "
    code = ord(character)
    return f" {character} " if any(first <= code <= last for first, last in CHINESE) else character


def _is_mark(character: str) -> bool:
    return character in ASCII_MARKS or unicodedata.category(character)[0] == "P"
