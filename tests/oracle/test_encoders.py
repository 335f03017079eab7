"""Encoders against the slow and obvious version, or against the library that their weights were made with."""

import itertools
import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from efficientnet_lite_pytorch import EfficientNet

from hedgerow.encoders import efficientnet, minilm, tfidf
from hedgerow.encoders.weights import find_package_file

TEXTS = [
    "The cat sat on the mat, the cat!", "A dog sat there.", "Zwei Katzen saßen auf der Matte", "猫坐在垫子上",
    "cats and dogs", "", "12 dogs, 12 cats", "The mat", "ça c'est un chat", "un chat, deux chats", "!!!", "cat",
]  # fmt: skip


def list_features(text: str) -> list[str]:
    """Words, pairs of words and parts of words of 3 and 4 characters, by regular expressions."""
    words = re.findall(r"[㐀-鿿]|(?:(?![㐀-鿿_])\w)+", text.lower())
    pairs = [f"pair {a} {b}" for a, b in itertools.pairwise(words)]
    parts = []
    for word in words:
        if not re.match("[㐀-鿿]", word):
            marked = f"<{word}>"
            parts += [f"part {marked[i : i + n]}" for i in range(len(marked)) for n in (3, 4) if i + n <= len(marked)]
    return [*(f"word {word}" for word in words), *pairs, *parts]


def make_tfidf(texts: list[str]) -> np.ndarray:
    """Rows of TF-IDF with a column per feature that occurs in two texts: as the module describes it."""
    found = [Counter(list_features(text)) for text in texts]
    frequency = Counter(feature for one in found for feature in one)
    columns = sorted(feature for feature in frequency if frequency[feature] >= 2)
    rows = np.array(
        [
            [
                (1 + math.log(one[name])) * (1 + math.log((1 + len(texts)) / (1 + frequency[name]))) if one[name] else 0
                for name in columns
            ]
            for one in found
        ]
    )
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths == 0, 1, lengths)


def test_similarities_are_those_of_plain_tfidf() -> None:
    """With as many directions as there are texts, the SVD loses nothing: all products of two texts are kept."""
    expected = make_tfidf(TEXTS)
    learned = tfidf.learn_tfidf(TEXTS, seed=0)
    made = learned.encode(TEXTS)
    np.testing.assert_allclose(made @ made.T, expected @ expected.T, atol=2e-4)


@pytest.mark.parametrize("seed", range(5))
def test_directions_are_those_of_an_exact_svd(seed: int) -> None:
    from scipy import sparse

    rng = np.random.default_rng(seed)
    # Singular values that fall off, as those of texts do.
    rows = (rng.normal(size=(60, 20)) * 0.5 ** np.arange(20)) @ rng.normal(size=(20, 90))
    rows[rng.random(rows.shape) < 0.3] = 0
    found = tfidf.find_directions(sparse.csr_matrix(rows.astype(np.float32)), 8, seed)
    np.testing.assert_allclose(found.T @ found, np.eye(8), atol=1e-3)
    kept = np.linalg.norm(rows @ found) ** 2
    assert kept > 0.999 * (np.linalg.svd(rows, compute_uv=False)[:8] ** 2).sum()


@pytest.mark.parametrize("side", [32, 96])
def test_efficientnet_is_that_of_torch(side: int) -> None:
    path = find_package_file(efficientnet.PACKAGE, efficientnet.FILE)
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=str(path)).eval()
    pixels = np.random.default_rng(side).integers(0, 256, (11, side, side, 3), np.uint8)
    with torch.inference_mode():
        given = torch.from_numpy((pixels.astype(np.float32) - 127) / 128).permute(0, 3, 1, 2)
        expected = network.extract_features(given).mean((2, 3)).numpy()
    np.testing.assert_allclose(efficientnet.extract_features(pixels), expected, atol=2e-4)


def test_the_transformer_is_that_of_torch(tmp_path: Path) -> None:
    """Random weights: two layers of torch's encoder, which BERT's are, after embeddings and a normalization."""
    torch.manual_seed(0)
    width, heads, wide = 24, 3, 48
    layers = [
        torch.nn.TransformerEncoderLayer(
            width, heads, wide, 0.0, "gelu", layer_norm_eps=minilm.EPSILON, batch_first=True
        ).eval()
        for _ in range(2)
    ]
    names = {"word": 50, "position": 16, "token_type": 2}
    held = {f"embeddings.{name}_embeddings.weight": torch.randn(count, width) for name, count in names.items()}
    first = torch.nn.LayerNorm(width, eps=minilm.EPSILON)
    held |= {f"embeddings.LayerNorm.{name}": value for name, value in first.state_dict().items()}
    for number, layer in enumerate(layers):
        held |= name_weights(f"encoder.layer.{number}.", dict(layer.state_dict()))
    numbers = torch.randint(0, 50, (4, 7))
    with torch.inference_mode():
        rows = held["embeddings.word_embeddings.weight"][numbers] + held["embeddings.position_embeddings.weight"][:7]
        rows = first(rows + held["embeddings.token_type_embeddings.weight"][0])
        for layer in layers:
            rows = layer(rows)
    ours = minilm.turn_matrices({name: value.numpy() for name, value in held.items()})
    made = minilm.run_transformer(minilm.Transformer(ours, 2, heads), numbers.numpy())
    np.testing.assert_allclose(made, rows.numpy(), atol=2e-5)


def name_weights(prefix: str, held: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights of a layer of torch's encoder under the names that BERT has for them."""
    named = {}
    for kind in ("weight", "bias"):
        parts = held[f"self_attn.in_proj_{kind}"].chunk(3)
        for name, part in zip(("query", "key", "value"), parts, strict=True):
            named[f"{prefix}attention.self.{name}.{kind}"] = part
        for ours, theirs in {
            "attention.output.dense": "self_attn.out_proj",
            "attention.output.LayerNorm": "norm1",
            "intermediate.dense": "linear1",
            "output.dense": "linear2",
            "output.LayerNorm": "norm2",
        }.items():
            named[f"{prefix}{ours}.{kind}"] = held[f"{theirs}.{kind}"]
    return named
