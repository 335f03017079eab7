"""Claim: on the desk's map, several times more neighbors stay together than by two principal components.

`kept 10`: of the ten nearest of a row by its embedding (cosine), the share that is among its ten nearest on the map;
`kept 100` likewise; `same class`: of the ten nearest on the map, the share with the class of the row. All for 1,000
rows, against all rows. `far`: the rank correlation of distances between random rows, in which principal components are
often better. Images: 40,000 of CIFAR-10 as features of EfficientNet-lite0 at 64 pixels; texts: 60,000 by TF-IDF, those
of GoEmotions and a tenth that are put together from two of them; digits: those of scikit-learn, pixel by pixel. Both
pools of the first two are larger than the sample of 20,000 rows that others are placed by. pacmap gets all rows and its
own settings. One thread each, CPU seconds with everything that is needed for the places, once. Without `--data`, which
names the folder with `goemotions` and `cifar-10-batches-py`, or with `--quick`, digits alone are measured.

    python benchmarks/layouts.py --data FOLDER
"""

import time
import warnings
from pathlib import Path

import numpy as np
from PIL import Image

from embed import read_images, read_texts
from hedgerow.campaign.layouts import find_axes, make_layout
from hedgerow.encoders import efficientnet, tfidf
from hedgerow.machine import limit_blas
from hedgerow.pool import open_matrix
from hedgerow.progress import ignore
from runner import installed_version, parser, save

SEED = 0
IMAGES, SIDE = 40_000, 64
ASKED = 1_000  # rows whose neighbors are looked at
KEPT = (10, 100)
PAIRS = 20_000


def read_pools(data):
    """(embeddings, classes or None) by name."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pools = {"digits": (digits.data.astype(np.float32), digits.target)}
    if data is not None:
        pools["images"] = read_features(data)
        texts = read_texts(data, 60_000)
        pools["texts"] = tfidf.learn_tfidf(texts, seed=SEED).encode(texts), None
    return pools


def read_features(data):
    """Images as features, with their classes."""
    import pickle

    images = read_images(data, IMAGES)
    batches = sorted((data / "cifar-10-batches-py").glob("*_batch*"))
    classes = [label for file in batches for label in pickle.loads(file.read_bytes(), encoding="bytes")[b"labels"]]
    large = np.stack([np.asarray(Image.fromarray(image).resize((SIDE, SIDE))) for image in images])
    return efficientnet.extract_features(large), np.array(classes[:IMAGES])


def to_unit(rows):
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    return (rows / np.where(lengths > 0, lengths, 1)[:, None]).astype(np.float32)


# Ways to place rows.


def place_by_neighbors(rows):
    made = make_layout(open_matrix(rows, "embeddings"), ignore)
    return np.stack([made.x, made.y], axis=1)


def place_by_components(rows):
    rng = np.random.default_rng(SEED)
    return find_axes(rows[rng.choice(len(rows), min(20_000, len(rows)), replace=False)]).project(rows)[:, :2]


def place_by_pacmap(rows):
    import pacmap

    return pacmap.PaCMAP(random_state=SEED).fit_transform(to_unit(rows))


WAYS = {
    "hedgerow": place_by_neighbors,
    "two principal components": place_by_components,
    "pacmap": place_by_pacmap,
}


# What they keep.


def find_nearest(rows, asked, k):
    """The k nearest of some rows, but themselves."""
    half = np.square(rows).sum(axis=1) / 2
    found = []
    for row in asked:
        gaps = half - rows @ rows[row]
        gaps[row] = np.inf
        few = np.argpartition(gaps, k)[:k]
        found.append(few[np.argsort(gaps[few], kind="stable")])
    return np.array(found)


def judge(unit, classes, places, asked, here):
    """here: the nearest by embedding."""
    from scipy.stats import spearmanr

    places = places.astype(np.float64)
    places -= places.mean(axis=0)
    there = find_nearest(places, asked, max(KEPT))
    both = list(zip(here, there, strict=True))
    kept = {f"kept {k}": float(np.mean([np.isin(one[:k], other[:k]).mean() for one, other in both])) for k in KEPT}
    first, second = np.random.default_rng(SEED).integers(0, len(unit), (2, PAIRS))
    far = [np.linalg.norm(one[first] - one[second], axis=1) for one in (unit, places)]
    same = {} if classes is None else {"same class": float((classes[there[:, :10]] == classes[asked, None]).mean())}
    return kept | same | {"far": float(spearmanr(*far)[0])}


def compare(rows, classes):
    unit = to_unit(rows)
    asked = np.random.default_rng(SEED).choice(len(rows), min(ASKED, len(rows)), replace=False)
    here = find_nearest(unit, asked, max(KEPT))
    results = {}
    for name, place in WAYS.items():
        place(rows[:300])  # compiled before
        began = time.process_time()
        places = place(rows)
        results[name] = {"cpu_seconds": time.process_time() - began, **judge(unit, classes, places, asked, here)}
    return results


def main():
    import numba

    own = parser(__doc__.partition("\n\n")[0])
    own.add_argument("--data", type=Path, default=None, help="the folder with goemotions and the files of CIFAR")
    options = own.parse_args()
    warnings.simplefilter("ignore")  # of pacmap, about its seed
    numba.set_num_threads(1)
    with limit_blas():
        pools = read_pools(None if options.quick else options.data)
        results = {name: compare(*pool) for name, pool in pools.items()}
    sizes = {name: len(rows) for name, (rows, _) in pools.items()}
    settings = {**sizes, "pacmap": installed_version("pacmap"), "quick": options.quick}
    save("layouts", SEED, settings, results, options)


if __name__ == "__main__":
    main()
