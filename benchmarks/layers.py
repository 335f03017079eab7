"""Synthetic pools for the benchmarks of BADGE and CoreSet that resemble the last hidden layer of a network.

`clustered`: 2,000 subclusters of very different sizes in 100 classes, rectified; `diffuse`: one Gaussian without
structure; `tight`: the subclusters are groups of near-duplicates. Probabilities come from a linear layer over the
rows.
"""

import numpy as np

CLASSES, SUBCLUSTERS, WIDTH, RANK = 100, 2000, 128, 24
# (spread within a subcluster along RANK common directions, spread in all directions)
SPREAD = {"clustered": (1.6, 0.35), "tight": (0.1, 0.03)}
ROWS = 100_000  # made at a time


def fill_embeddings(out, kind, seed):
    """Fills out (n, 128) float32; returns the layer (128, 100) that gives logits."""
    rng = np.random.default_rng(seed)
    if kind == "diffuse":
        for start in range(0, len(out), ROWS):
            out[start : start + ROWS] = rng.standard_normal(out[start : start + ROWS].shape, np.float32)
        return rng.standard_normal((WIDTH, CLASSES), np.float32) * np.float32(3 / np.sqrt(WIDTH))
    classes = rng.standard_normal((CLASSES, WIDTH), np.float32)
    owners = rng.permutation(np.repeat(np.arange(CLASSES), SUBCLUSTERS // CLASSES))
    middles = classes[owners] + np.float32(0.7) * rng.standard_normal((SUBCLUSTERS, WIDTH), np.float32)
    share = np.arange(1, SUBCLUSTERS + 1) ** -0.8
    ends = np.cumsum(share / share.sum())
    directions = rng.standard_normal((RANK, WIDTH), np.float32) / np.float32(np.sqrt(RANK))
    directions *= np.arange(1, RANK + 1, dtype=np.float32)[:, None] ** np.float32(-0.5)
    along, around = np.float32(SPREAD[kind])
    for start in range(0, len(out), ROWS):
        block = out[start : start + ROWS]
        member = np.minimum(np.searchsorted(ends, rng.random(len(block))), SUBCLUSTERS - 1)
        made = middles[member] + along * (rng.standard_normal((len(block), RANK), np.float32) @ directions)
        made += around * rng.standard_normal(block.shape, np.float32)
        np.maximum(made, 0, out=block)
    middles = np.maximum(classes, 0)
    layer = np.float32(0.16) * (middles - middles.mean(axis=0)).T
    return layer + np.float32(0.02) * rng.standard_normal(layer.shape, np.float32)


def make_probabilities(embeddings, layer, classes):
    """Softmax of the first `classes` logits (sharper where there are few), float32 (n, classes)."""
    made = np.empty((len(embeddings), classes), np.float32)
    sharpness = np.float32(1.6 if classes < CLASSES else 1.0)
    for start in range(0, len(embeddings), ROWS):
        logits = embeddings[start : start + ROWS] @ (sharpness * layer[:, :classes])
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        made[start : start + ROWS] = powers / powers.sum(axis=1, keepdims=True)
    return made


def make_pool(n, kind, classes=10, seed=0):
    """(probabilities (n, classes), embeddings (n, 128)), float32."""
    embeddings = np.empty((n, WIDTH), np.float32)
    layer = fill_embeddings(embeddings, kind, seed)
    return make_probabilities(embeddings, layer, classes), embeddings
