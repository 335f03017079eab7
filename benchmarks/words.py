"""Goal: cluster the 7.2 million words of `wordfreq` at an average size of 10, on two cores within 5 minutes and 12 GiB.

Real embeddings: hashed character 1- to 4-grams, the mean of their 64-d vectors, one hidden layer of 128 (the
embedding), trained for a few epochs to predict which languages list a word. Written once to the scratch folder (3.7
GB) in random order and read from there as a memory map, whose pages count in the peak; the peak without them is
reported too. Also the first million words, on one core and on two. Violations: of 3,000 sampled clusters, those that
have another one closer than the cut, by an exact check.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from hedgerow.experiments.data.texts import encode_texts
from hedgerow.experiments.data.words import list_words
from hedgerow.kernels.grams import BUCKETS
from linkage import AVERAGE_SIZE, run_record
from runner import in_fresh_process, installed_version, parser, save

SEED = 0
WIDTH, HIDDEN = 64, 128
TRAINED = 200_000  # words the model learns from
EPOCHS, BATCH, RATE = 3, 1_000, 3e-3
ROWS = 50_000  # words embedded at a time


def train(words, bits, languages):
    """(vectors, weights, offsets) of the layers up to the embedding."""
    import torch

    torch.manual_seed(SEED)
    grams, starts = map(torch.from_numpy, encode_texts(words).list_grams())
    truth = torch.from_numpy((bits[:, None] >> np.arange(languages, dtype=np.uint64) & 1).astype(np.float32))
    bag = torch.nn.EmbeddingBag(BUCKETS, WIDTH, mode="mean")
    hidden, out = torch.nn.Linear(WIDTH, HIDDEN), torch.nn.Linear(HIDDEN, languages)
    optimizer = torch.optim.Adam([*bag.parameters(), *hidden.parameters(), *out.parameters()], RATE)
    for _ in range(EPOCHS):
        for first in range(0, len(words), BATCH):
            last = min(first + BATCH, len(words))
            places = starts[first : last + 1]
            found = bag(grams[places[0] : places[-1]], places[:-1] - places[0])
            loss = torch.nn.functional.binary_cross_entropy_with_logits(
                out(torch.relu(hidden(found))), truth[first:last], reduction="sum"
            )
            optimizer.zero_grad()
            (loss / (last - first)).backward()
            optimizer.step()
    return [part.detach().numpy().copy() for part in (bag.weight, hidden.weight, hidden.bias)]


def write_embeddings(path, limit, trained):
    """Embeddings of the words into a .npy file; nothing is done if it is there."""
    if path.exists():
        return
    words, bits, languages = list_words(limit, seed=SEED)
    vectors, weights, offsets = train(words[-trained:], bits[-trained:], len(languages))
    beside = path.with_suffix(".part")
    out = np.lib.format.open_memmap(beside, "w+", np.float32, (len(words), HIDDEN))

    def embed(first):
        means = encode_texts(words[first : first + ROWS]).average_grams(vectors)
        out[first : first + ROWS] = np.maximum(means @ weights.T + offsets, 0)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        list(threads.map(embed, range(0, len(words), ROWS)))
    out.flush()
    beside.replace(path)


def compare(path, subset):
    size = {"average_size": AVERAGE_SIZE}
    n = len(np.load(path, mmap_mode="r"))
    part = path.with_name("words_part.npy")
    np.save(part, np.load(path, mmap_mode="r")[:subset])
    runs = {}
    for threads in (1, 2):
        runs[f"{subset:,} words, {threads} threads"] = in_fresh_process(run_record, part, threads, size, 3_000)[
            "result"
        ]
    runs[f"{n:,} words, 2 threads"] = in_fresh_process(run_record, path, 2, size, 3_000, True)["result"]
    part.unlink()
    return n, runs


def main():
    made = parser(__doc__)
    made.add_argument("--scratch", type=Path, default=Path("scratch"), help="where embeddings are kept (3.7 GB)")
    options = made.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    limit, trained, subset = (60_000, 5_000, 20_000) if options.quick else (None, TRAINED, 1_000_000)
    path = options.scratch / ("words_quick.npy" if options.quick else "words.npy")
    write_embeddings(path, limit, trained)
    n, runs = compare(path, subset)
    settings = {"n": n, "width": HIDDEN, "average_size": AVERAGE_SIZE, "trained on": trained}
    settings |= {name: installed_version(name) for name in ("wordfreq", "torch")}
    save("words", SEED, settings | {"quick": options.quick}, runs, options)


if __name__ == "__main__":
    main()
