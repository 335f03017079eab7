"""Encoders by name: what turns the contents of some rows into vectors.

An encoder is a small record that pickles; workers load what it needs from files. `prepare` does what must be done once,
before the first row: `tfidf` learns from a sample of the texts.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.encoders import efficientnet, minilm
from hedgerow.encoders.intake import TEXT, URI, Source, open_rows
from hedgerow.encoders.pictures import read_pixels
from hedgerow.encoders.tfidf import SAMPLE, learn_tfidf, load_tfidf
from hedgerow.errors import InputError, StoreError
from hedgerow.functions import find_function
from hedgerow.machine import limit_blas
from hedgerow.pool.arrays import open_array

TFIDF, MINILM, EFFICIENTNET = "tfidf", "minilm", "efficientnet-lite0"
CONTENTS = {TFIDF: TEXT, MINILM: TEXT, EFFICIENTNET: URI}
DEFAULTS = {TEXT: TFIDF, URI: EFFICIENTNET}
LEARNED = ".npz"
MODEL = f"encoder{LEARNED}"  # what `tfidf` learned, in the folder of the run
SIDE = 128  # of images, in pixels
SAMPLE_STREAM = 0x5A3B  # sets the draw of the sample apart from other draws with the same seed

Floats = npt.NDArray[np.float32]
Faults = dict[int, str]  # by place: why a row has no vector


class Encoder(Protocol):
    """What turns contents into vectors."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def rows(self) -> int:
        """The rows of a job."""

    @property
    def rate(self) -> int | None:
        """The rows that a core does in a second; None if nobody knows."""

    def prepare(self, rows: Path, seed: int) -> None:
        """What must be done once. rows: the file of all rows."""

    def encode(self, contents: Sequence[str]) -> tuple[Floats, Faults]:
        """Vectors (n, d), and why some of the rows have none."""


def choose_encoder(name: str | None, source: Source, work: Path) -> Encoder:
    """The encoder of this name for a source; without a name, the one for its kind of contents."""
    if name is not None and name.endswith(LEARNED):
        return _open_learned(Path(name), source)
    if name is not None and ":" in name:
        find_function(name)
        return OwnFunction(name, source.root)
    name = checks.option(DEFAULTS[source.content] if name is None else name, "encoder", CONTENTS)
    if CONTENTS[name] != source.content:
        fitting = [one for one, content in CONTENTS.items() if content == source.content]
        raise InputError(
            f"the encoder {name} is not for {source.noun}, which {source.path} holds: use {' or '.join(fitting)}, or "
            "a function of your own (module:function)"
        )
    if name == TFIDF:
        return TfidfTexts(work / MODEL)
    if name == MINILM:
        minilm.find_files()
        return MiniLMTexts()
    efficientnet.find_weights()
    assert source.root is not None, "images are files"
    return EfficientNetImages(source.root)


def _open_learned(path: Path, source: Source) -> Encoder:
    """What `tfidf` learned from other texts, for rows that are to be compared with these."""
    if source.content != TEXT:
        raise InputError(f"{path} is for texts, and {source.path} holds {source.noun}: name another encoder")
    if not path.is_file():
        raise InputError(f"the encoder {path} does not exist: `hedgerow embed` writes it beside embeddings by tfidf")
    try:
        _load_tfidf(path.absolute())
    except StoreError:
        raise InputError(f"{path} is not what tfidf learned: name a file that `hedgerow embed` wrote") from None
    return TfidfTexts(path.absolute())


@dataclass(frozen=True)
class TfidfTexts:
    """TF-IDF and SVD, learned from a sample of the texts. model: the file of what was learned."""

    model: Path
    name = TFIDF
    rows = 1 << 13
    rate = 50_000

    def prepare(self, rows: Path, seed: int) -> None:
        """Learn from a sample that is drawn uniformly, unless that was done."""
        if not self.model.exists():
            table = open_rows(rows)
            rng = np.random.default_rng([seed, SAMPLE_STREAM])
            chosen = np.sort(rng.choice(table.n, min(SAMPLE, table.n), replace=False))
            texts = np.empty(len(chosen), np.object_)
            for places, (values,) in table.gather([TEXT], chosen):
                texts[places] = values.to_pylist()
            learn_tfidf(texts.tolist(), seed=seed).save(self.model)

    def encode(self, contents: Sequence[str]) -> tuple[Floats, Faults]:
        """Vectors of length 1."""
        return _load_tfidf(self.model).encode(contents), {}


@functools.lru_cache(maxsize=1)
def _load_tfidf(path: Path) -> Any:
    return load_tfidf(path)


@dataclass(frozen=True)
class MiniLMTexts:
    """all-MiniLM-L6-v2: sentences in English."""

    name = MINILM
    rows = 1 << 9
    rate = 100

    def prepare(self, rows: Path, seed: int) -> None:
        """Nothing to be done."""

    def encode(self, contents: Sequence[str]) -> tuple[Floats, Faults]:
        """Vectors of length 1."""
        with limit_blas():
            return minilm.encode_texts(contents), {}


@dataclass(frozen=True)
class EfficientNetImages:
    """EfficientNet-lite0: photos. root: what the paths of images are relative to."""

    root: Path
    name = EFFICIENTNET
    rows = 1 << 8
    rate = 100

    def prepare(self, rows: Path, seed: int) -> None:
        """Nothing to be done."""

    def encode(self, contents: Sequence[str]) -> tuple[Floats, Faults]:
        """Features; of an image that cannot be read those of a black one, which nobody sees."""
        pixels = np.zeros((len(contents), SIDE, SIDE, 3), np.uint8)
        faults = {}
        for place, name in enumerate(contents):
            try:
                pixels[place] = read_pixels(self.root / name, SIDE)
            except InputError as error:
                faults[place] = str(error)
        with limit_blas():
            return efficientnet.extract_features(pixels), faults


@dataclass(frozen=True)
class OwnFunction:
    """A function of the user's own. It gets a list of texts, or of paths of images, and returns as many vectors."""

    name: str
    root: Path | None
    rows = 1 << 9
    rate = None

    def prepare(self, rows: Path, seed: int) -> None:
        """Nothing to be done."""

    def encode(self, contents: Sequence[str]) -> tuple[Floats, Faults]:
        """What the function returns, checked."""
        given = list(contents) if self.root is None else [str(self.root / name) for name in contents]
        made = checks.matrix(open_array(find_function(self.name)(given), f"the result of {self.name}"), self.name)
        if len(made) != len(given):
            raise InputError(
                f"{self.name} returned {len(made):,} vectors for {len(given):,} rows: it must return one each"
            )
        return made.astype(np.float32), {}
