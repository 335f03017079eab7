"""Goal: predictions in half of the time: of texts against torch, of images against large blocks.

Missed for texts: sorting halves the time, but torch reads scattered vectors faster than our kernel does, so it takes
only a quarter longer than sorted words.

Texts: the words of `wordfreq` through the network of the recipe wordlangs, in sorted order and in random order, and
through torch's EmbeddingBag and linear layers. Torch either hashes the n-grams, as ours does, or is given them, which
takes some 300 bytes of memory per word. An experiment sorts its words once and predicts them in every round, so sorting
is timed separately. Images: random pixels through the network of the recipe svhn, 64 and 1,024 at a time. CPU seconds
on one thread.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import torch

from hedgerow.experiments.architectures import build_convnet, center_pixels
from hedgerow.experiments.data.texts import Texts, encode_texts
from hedgerow.experiments.data.words import list_words
from hedgerow.experiments.ngrams import PREDICT_TEXTS, NGramTrainer
from hedgerow.models import TorchTrainer, Training
from hedgerow.models.networks import CPU_ROWS, PREDICT_ROWS
from runner import arguments, installed_version, measure, save

SEED = 0
CLASSES = 42


def build_twin(weights):
    """The same network of torch's own layers."""
    vectors, hidden, hidden_bias, out, out_bias = map(torch.from_numpy, weights.parts)
    bag = torch.nn.EmbeddingBag.from_pretrained(vectors, mode="mean", include_last_offset=True)
    layers = [torch.nn.Linear(*weight.shape[::-1]) for weight in (hidden, out)]
    for layer, weight, bias in zip(layers, (hidden, out), (hidden_bias, out_bias), strict=True):
        layer.load_state_dict({"weight": weight, "bias": bias})
    return bag, torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.Sigmoid())


@torch.inference_mode()
def predict_twin(bag, layers, grams, starts):
    found = torch.empty(len(starts) - 1, CLASSES)
    for first in range(0, len(found), PREDICT_TEXTS):
        edges = starts[first : first + PREDICT_TEXTS + 1]
        found[first : first + PREDICT_TEXTS] = layers(bag(grams[edges[0] : edges[-1]], edges - edges[0]))
    return found.numpy()


def leave_unsorted(texts):
    """The same texts, whose sorted order is the one that they are in."""
    same = Texts(texts.codes, texts.starts)
    vars(same)["sorted"] = (np.arange(len(texts)), texts)
    return same


def compare_texts(limit, repeats):
    texts = encode_texts(list_words(limit, seed=SEED)[0])
    model = NGramTrainer(CLASSES).begin()
    model.probabilities(texts[:100])  # compiled before the clock runs
    unsorted, twin = leave_unsorted(texts), build_twin(model.weights)
    grams, starts = map(torch.from_numpy, texts.list_grams())
    runs = {
        "sorting, once": measure(lambda: texts.sorted, 1),
        "sorted": measure(lambda: model.probabilities(texts), repeats),
        "in random order": measure(lambda: model.probabilities(unsorted), repeats),
        "torch, n-grams given": measure(lambda: predict_twin(*twin, grams, starts), repeats),
        "torch": measure(lambda: predict_twin(*twin, *map(torch.from_numpy, texts.list_grams())), repeats),
    }
    np.testing.assert_allclose(predict_twin(*twin, grams, starts), model.probabilities(texts), atol=1e-5)
    return runs


def compare_images(n, repeats):
    rng = np.random.default_rng(SEED)
    images, labels = rng.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8), np.arange(n) % 10
    make = partial(build_convnet, images.shape[1:], (16, 32, 64), 128, 10)
    model = TorchTrainer(make, 10, Training(steps=1), prepare=center_pixels).fit(images, labels, seed=SEED)
    blocks = {rows: replace(model, block_rows=rows) for rows in (CPU_ROWS, PREDICT_ROWS)}
    return {f"{rows} at a time": measure(lambda m=m: m.probabilities(images), repeats) for rows, m in blocks.items()}


def main():
    options = arguments(__doc__)
    words, images, repeats = (2_000, 200, 1) if options.quick else (None, 20_000, 3)
    torch.set_num_threads(1)
    texts, pictures = compare_texts(words, repeats), compare_images(images, repeats)
    small, large = (run["cpu_seconds"] for run in pictures.values())
    ours = texts["sorted"]["cpu_seconds"]
    results = {
        "texts": texts,
        "images": pictures,
        "torch_over_sorted": texts["torch"]["cpu_seconds"] / ours,
        "torch_with_given_n_grams_over_sorted": texts["torch, n-grams given"]["cpu_seconds"] / ours,
        "random_order_over_sorted": texts["in random order"]["cpu_seconds"] / ours,
        "large_over_small_blocks": large / small,
    }
    settings = {"words": words or "all", "images": images, "repeats": repeats, "quick": options.quick}
    settings |= {name: installed_version(name) for name in ("wordfreq", "torch")}
    save("predictions", SEED, settings, results, options)


if __name__ == "__main__":
    main()
