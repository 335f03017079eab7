"""Claim: a million texts and a hundred thousand images are embedded on one machine, in memory that hardly grows with
their number.

Rates of the built-in encoders on one core, beside those of the libraries that would do the same (scikit-learn's TF-IDF
and SVD; torch with the same EfficientNet-lite0), in CPU seconds; and whole runs of `hedgerow embed` on all cores, with
the memory of the largest process. The texts are comments (GoEmotions), with words of one put into another until there
are enough of them; the images are those of CIFAR-10 and CIFAR-100, training and test sets, enlarged to 128 pixels as
photos are made smaller, saved as PNG. The parts (`--part core`, `texts`, `images`) have a result each; on a busy
machine CPU seconds count, and wall seconds are too many. Without `--data`, which names the folder with `goemotions`,
`cifar-10-batches-py` and `cifar-100-python`, or with `--quick`, made-up words and noise show that the script works.

    python benchmarks/embed.py --data FOLDER
"""

import csv
import pickle
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from PIL import Image

import hedgerow as hr
from hedgerow.encoders import efficientnet, tfidf
from hedgerow.machine import limit_blas
from runner import in_fresh_process, measure, parser, save

SEED = 0
TEXTS, IMAGES = 1_000_000, 100_000
CORE_TEXTS, CORE_IMAGES = 20_000, 512  # for rates on one core
QUICK = 20  # times fewer


def read_texts(data, n):
    """n texts: real ones, and then real ones of which each has a few words of another."""
    rng = np.random.default_rng(SEED)
    if data is None:
        words = np.array([f"word{number}" for number in range(5000)])
        return [" ".join(words[rng.zipf(1.3, 12) % 5000]) for _ in range(n)]
    files = sorted((data / "goemotions").glob("*.parquet"))
    real = [text for file in files for text in pq.read_table(file, columns=["text"])["text"].to_pylist()]
    texts = real[:n]
    while len(texts) < n:
        first, second = (real[at].split() for at in rng.integers(0, len(real), 2))
        cut = int(rng.integers(0, len(first) + 1))
        texts.append(" ".join(first[:cut] + second[:4] + first[cut:]))
    return texts


def read_images(data, n):
    """n images uint8 (32, 32, 3)."""
    if data is None:
        return np.random.default_rng(SEED).integers(0, 256, (n, 32, 32, 3), np.uint8)
    files = [
        *sorted((data / "cifar-10-batches-py").glob("*_batch*")),
        *(data / "cifar-100-python" / name for name in ("train", "test")),
    ]
    parts = [pickle.loads(file.read_bytes(), encoding="bytes")[b"data"] for file in files]
    return np.concatenate(parts).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)[:n]


def write_texts(path, texts):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *enumerate(texts)])


def write_images(folder, images):
    for number, image in enumerate(images):
        part = folder / f"{number // 1000}"
        part.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).resize((128, 128)).save(part / f"{number}.png", compress_level=1)


# On one core.


def rate(fn, n):
    """Rows per CPU second, the best of three times."""
    with limit_blas():
        found = measure(fn)
    return {"rows_per_cpu_second": n / found["cpu_seconds"], **found}


def measure_texts(texts):
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    tfidf.learn_tfidf(texts[:100], seed=SEED)  # compiled before
    plain = make_pipeline(TfidfVectorizer(sublinear_tf=True, min_df=2), TruncatedSVD(tfidf.WIDTH, random_state=SEED))
    learned = tfidf.learn_tfidf(texts, seed=SEED)
    return {
        "tfidf, learned and encoded": rate(lambda: tfidf.learn_tfidf(texts, seed=SEED).encode(texts), len(texts)),
        "tfidf, encoded": rate(lambda: learned.encode(texts), len(texts)),
        "scikit-learn, words only, learned and encoded": rate(lambda: plain.fit_transform(texts), len(texts)),
    }


def measure_images(images):
    import torch

    from hedgerow.experiments.data.features import _load_network

    large = np.stack([np.asarray(Image.fromarray(image).resize((128, 128))) for image in images])
    efficientnet.extract_features(large[:8])  # compiled before
    torch.set_num_threads(1)
    _, network = _load_network()

    def run_torch():
        with torch.inference_mode():
            for start in range(0, len(large), 64):
                some = torch.from_numpy((large[start : start + 64].astype(np.float32) - 127) / 128).permute(0, 3, 1, 2)
                network.extract_features(some.contiguous(memory_format=torch.channels_last)).mean((2, 3))

    return {
        "efficientnet-lite0, 128 pixels": rate(lambda: efficientnet.extract_features(large), len(large)),
        "the same by torch": rate(run_torch, len(large)),
    }


# Whole runs.


def run(source, out):
    """One run of `embed` on all cores; the memory of its workers, too."""
    began = time.perf_counter()
    made = hr.embed(source, out, engine="auto")
    seconds = time.perf_counter() - began
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "rows": made.n,
        "width": made.width,
        "wall_seconds": seconds,
        "worker_peak_rss_bytes": workers.ru_maxrss * 1024,
        "worker_cpu_seconds": workers.ru_utime + workers.ru_stime,
    }


def run_whole(source, out):
    usage = in_fresh_process(run, source, out)
    found = {**usage["result"], "driver_cpu_seconds": usage["cpu"], "driver_peak_rss_bytes": usage["peak_rss_bytes"]}
    return {**found, "rows_per_cpu_second": found["rows"] / (found["worker_cpu_seconds"] + usage["cpu"])}


# Parts.


def run_core(options, data):
    """Rates on one core, beside other libraries."""
    few = CORE_TEXTS // (QUICK if options.quick else 1), CORE_IMAGES // (QUICK if options.quick else 1)
    results = {
        "texts on one core": measure_texts(read_texts(data, few[0])),
        "images on one core": measure_images(read_images(data, few[1])),
    }
    save("embed_core", SEED, {"texts": few[0], "images": few[1], "quick": options.quick}, results, options, "embed")


def run_texts(options, data):
    n = TEXTS // (QUICK * 10 if options.quick else 1)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_texts(folder / "texts.csv", read_texts(data, n))
        results = {
            "a tenth of the texts": run_whole(cut_table(folder / "texts.csv", n // 10), folder / "tenth.npy"),
            "texts": run_whole(folder / "texts.csv", folder / "texts.npy"),
        }
    save("embed_texts", SEED, {"texts": n, "quick": options.quick}, results, options, "embed")


def run_images(options, data):
    n = IMAGES // (QUICK * 10 if options.quick else 1)
    with tempfile.TemporaryDirectory() as made:
        images = options.images or Path(made) / "images"
        if not images.exists():
            write_images(images, read_images(data, n))
        results = {"images": run_whole(images, Path(made) / "images.npy")}
    save("embed_images", SEED, {"images": n, "quick": options.quick}, results, options, "embed")


PARTS = {"core": run_core, "texts": run_texts, "images": run_images}


def main():
    own = parser(__doc__.partition("\n\n")[0])
    own.add_argument("--data", type=Path, default=None, help="the folder with goemotions and the files of CIFAR")
    own.add_argument("--part", action="append", choices=PARTS, help="measure this only; may be given several times")
    own.add_argument("--images", type=Path, default=None, help="where images are written, or are from a run before")
    options = own.parse_args()
    for part in options.part or PARTS:
        PARTS[part](options, None if options.quick else options.data)


def cut_table(path, n):
    """The first n rows of a table, for the memory of a shorter run."""
    short = path.with_name("tenth.csv")
    with path.open(newline="") as file, short.open("w", newline="") as out:
        rows = csv.reader(file)
        csv.writer(out).writerows(row for _, row in zip(range(n + 1), rows, strict=False))
    return short


if __name__ == "__main__":
    main()
