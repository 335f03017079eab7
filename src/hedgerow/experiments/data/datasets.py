"""Datasets with known labels, as tasks for the loop.

A `Dataset` is a pool and a test set with their labels. The records in `SOURCES` load one from files in a folder of the
user (`files.py`): CIFAR-10, CIFAR-100 and SVHN as pixels or frozen features (`features.py`), Covertype, the digits of
the demo, and four .npy files of the user's own. Their fields are the keys of the table [dataset] in a recipe.

`load_redundant_digits` makes a pool from scikit-learn's digits (1,797 images of 8 x 8) with the redundancy of real
pools: a few originals have hundreds of copies, most have a handful, and no two images are equal. Copies are slightly
rotated, shifted and noisy; their number follows a Pareto distribution. Originals are split between pool and test set
before copying, so that the test set has no copy of an original of the pool.

What it does not do: download anything.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError, MissingExtraError
from hedgerow.experiments.data.features import load_features
from hedgerow.experiments.data.files import PUBLICATIONS
from hedgerow.pool import tables
from hedgerow.tasks import RowTask

Progress = Callable[[str, float], None]

SIDE = 8  # pixels per side of a digit
CLASSES = 10
INK = 16.0  # the largest pixel value in scikit-learn's digits
TAIL = 1.1  # Pareto exponent of the number of copies: few originals make up most of the pool
FEWEST_COPIES = 4
MOST_COPIES = 400
TEST_COPIES = 5
TURN_DEGREES = 8.0  # standard deviations of the distortions of a copy: too small to change the digit
SHIFT_PIXELS = 0.4
NOISE = 0.05

FEATURES = ("pixels", "efficientnet-lite0")
COVTYPE_TEST_ROWS = 116_203  # a fifth of the rows, drawn once, the same in every trial
SPLIT_SEED = 0


@dataclass(frozen=True, eq=False)
class Dataset:
    """A pool and a test set: features with one row per example, labels as class numbers 0 to `classes` - 1."""

    name: str
    classes: int
    features: Any
    labels: npt.NDArray[np.int64]
    test_features: Any
    test_labels: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        checks.same_length({"features": len(self.features), "labels": len(self.labels)})
        checks.same_length({"test_features": len(self.test_features), "test_labels": len(self.test_labels)})
        for name, labels in (("labels", self.labels), ("test_labels", self.test_labels)):
            numbers = np.asarray(labels)
            if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or len(numbers) == 0:
                raise InputError(
                    f"{name} of {self.name} must be one class number per row, got {numbers.dtype} of shape "
                    f"{numbers.shape}"
                )
            if numbers.min() < 0 or numbers.max() >= self.classes:
                raise InputError(f"{name} of {self.name} must be class numbers 0 to {self.classes - 1}")

    @property
    def task(self) -> RowTask:
        """The dataset as a task, whose oracle knows the labels."""
        labels = np.asarray(self.labels, np.int64)
        return RowTask(self.features, len(labels), labels.__getitem__, self.test_features, self.test_labels)

    @property
    def marks(self) -> tuple[npt.NDArray[Any], ...]:
        """The arrays that identify the data: all of them."""
        return tuple(map(np.asanyarray, (self.features, self.labels, self.test_features, self.test_labels)))


@dataclass(frozen=True)
class Images:
    """CIFAR-10, CIFAR-100 or SVHN: pixels uint8 (n, 3, 32, 32), or features of a frozen network at `side` pixels."""

    name: str
    features: str = "pixels"
    side: int = 96

    def check(self, data: Path | None) -> int:
        """Refuse to start if files are missing; the number of rows of the pool, as published."""
        checks.option(self.features, "features", FEATURES)
        PUBLICATIONS[self.name].find(data)
        return PUBLICATIONS[self.name].rows

    def load(self, data: Path | None, cache: Path, progress: Progress | None = None) -> Dataset:
        published = PUBLICATIONS[self.name]
        train, test = published.open(data)
        assert test is not None, "image sets are published in two halves"
        if self.features == "pixels":
            pool, held_out = train.features, test.features
        else:
            pool, held_out = (
                load_features(half.features, f"{self.name}-{part}", side=self.side, cache=cache, progress=progress)
                for part, half in (("train", train), ("test", test))
            )
        return Dataset(self.name, published.classes, pool, train.labels, held_out, test.labels)


@dataclass(frozen=True)
class Covtype:
    """Covertype: 54 numbers per row, columns standardized to mean 0 and deviation 1; a fifth is the test set."""

    name: str = "covtype"
    test_rows: int = COVTYPE_TEST_ROWS

    def check(self, data: Path | None) -> int:
        """Refuse to start if files are missing; the number of rows of the pool, as published."""
        rows = PUBLICATIONS[self.name].rows
        if not 1 <= self.test_rows < rows:
            raise InputError(f"test_rows must be 1 to {rows - 1:,}, got {self.test_rows:,}")
        PUBLICATIONS[self.name].find(data)
        return rows - self.test_rows

    def load(self, data: Path | None, cache: Path, progress: Progress | None = None) -> Dataset:
        published = PUBLICATIONS[self.name]
        whole, _ = published.open(data)
        order = np.random.default_rng(SPLIT_SEED).permutation(len(whole.labels))
        test, pool = order[: self.test_rows], order[self.test_rows :]
        numbers = whole.features.astype(np.float32)
        # The features of the pool are known before its labels: standardizing by them uses nothing of the test set.
        mean, spread = numbers[pool].mean(axis=0, dtype=np.float64), numbers[pool].std(axis=0, dtype=np.float64)
        numbers = ((numbers - mean) / np.where(spread > 0, spread, 1)).astype(np.float32)
        labels = whole.labels
        return Dataset(self.name, published.classes, numbers[pool], labels[pool], numbers[test], labels[test])


@dataclass(frozen=True)
class Digits:
    """The pool of the demo: digits made from a number of originals, a few of which have hundreds of copies."""

    name: str = "redundant-digits"
    originals: int = 1200

    def check(self, data: Path | None) -> int:
        """Nothing is read from a folder; making the pool takes a moment."""
        return len(load_redundant_digits(self.originals).labels)

    def load(self, data: Path | None, cache: Path, progress: Progress | None = None) -> Dataset:
        grown = load_redundant_digits(self.originals)
        return Dataset(self.name, CLASSES, grown.images, grown.labels, grown.test_images, grown.test_labels)


@dataclass(frozen=True)
class PlainDigits:
    """scikit-learn's 1,797 digits, 64 numbers per row: a third is the test set, drawn once."""

    name: str = "digits"
    test_rows: int = 597

    def check(self, data: Path | None) -> int:
        """Nothing is read from a folder."""
        rows = len(_load_digits()[1])
        if not 1 <= self.test_rows < rows:
            raise InputError(f"test_rows must be 1 to {rows - 1:,}, got {self.test_rows:,}")
        return rows - self.test_rows

    def load(self, data: Path | None, cache: Path, progress: Progress | None = None) -> Dataset:
        images, labels = _load_digits()
        order = np.random.default_rng(SPLIT_SEED).permutation(len(labels))
        test, pool = order[: self.test_rows], order[self.test_rows :]
        flat = images.reshape(len(images), -1)
        return Dataset(self.name, CLASSES, flat[pool], labels[pool], flat[test], labels[test])


@dataclass(frozen=True)
class Arrays:
    """The user's own: features.npy, labels.npy, test_features.npy and test_labels.npy in the data folder."""

    name: str = "arrays"

    def check(self, data: Path | None) -> int:
        """Refuse to start if files are missing; the number of rows of the pool."""
        names = [f"{name}.npy" for name in ("features", "labels", "test_features", "test_labels")]
        if data is None:
            raise InputError(
                f"the dataset {self.name!r} is read from a folder: pass it with --data ({', '.join(names)})"
            )
        missing = [name for name in names if not (data / name).is_file()]
        if missing:
            raise InputError(f"the folder {data} has no {', '.join(missing)}: it needs {', '.join(names)}")
        return len(_read_labels(data / "labels.npy"))

    def load(self, data: Path | None, cache: Path, progress: Progress | None = None) -> Dataset:
        self.check(data)
        assert data is not None, "checked"
        labels, test_labels = _read_labels(data / "labels.npy"), _read_labels(data / "test_labels.npy")
        pool, held_out = _read_features(data / "features.npy"), _read_features(data / "test_features.npy")
        if pool.shape[1:] != held_out.shape[1:]:
            raise InputError(f"features.npy has rows of shape {pool.shape[1:]}, test_features.npy {held_out.shape[1:]}")
        classes = int(max(labels.max(initial=1), test_labels.max(initial=1))) + 1
        if classes > len(labels) + len(test_labels):
            raise InputError(f"labels.npy and test_labels.npy contain class {classes - 1:,}: number the classes from 0")
        return Dataset(self.name, classes, pool, labels, held_out, test_labels)


def _read_labels(path: Path) -> npt.NDArray[np.int64]:
    """Class numbers."""
    labels = tables.open_source(path, path.name)
    if not isinstance(labels, np.ndarray) or labels.ndim != 1 or labels.dtype.kind not in "iub":
        raise InputError(f"{path} must have one integer per row, the class")
    return labels.astype(np.int64)


def _read_features(path: Path) -> npt.NDArray[Any]:
    """Rows of numbers, possibly images, mapped."""
    features = tables.open_source(path, path.name)
    if not isinstance(features, np.ndarray) or features.ndim < 2 or features.dtype.kind not in "fiub":
        raise InputError(f"{path} must have rows of numbers: two dimensions or more")
    if features.dtype.kind == "f":
        checks.finite(features, path.name)
    return features


SOURCES: Mapping[str, Any] = {
    "cifar10": Images,
    "cifar100": Images,
    "svhn": Images,
    "covtype": Covtype,
    "digits": PlainDigits,
    "redundant-digits": Digits,
    "arrays": Arrays,
}


@dataclass(frozen=True)
class RedundantDigits:
    """The pool and the test set, with labels and origins, which strategies do not see."""

    images: npt.NDArray[np.float32]  # (n, 64), 0 to 1
    labels: npt.NDArray[np.int64]
    origins: npt.NDArray[np.int64]  # the original of each row
    test_images: npt.NDArray[np.float32]
    test_labels: npt.NDArray[np.int64]
    test_origins: npt.NDArray[np.int64]

    @property
    def task(self) -> RowTask:
        return RowTask(self.images, len(self.images), self.labels.__getitem__, self.test_images, self.test_labels)


def load_redundant_digits(originals: int = 1200, *, seed: int = 0) -> RedundantDigits:
    """A pool made from `originals` digits (about 19 rows each); the test set is five copies of each other digit."""
    images, labels = _load_digits()
    checks.integer(originals, "originals", least=1)
    if originals >= len(images):
        raise InputError(
            f"originals must leave digits for the test set: it can be at most {len(images) - 1:,}, got {originals:,}"
        )
    rng = np.random.default_rng(checks.seed(seed))
    order = rng.permutation(len(images))
    # A Pareto variable with exponent a is (1 + Lomax(a)) times its minimum.
    counts = np.minimum(FEWEST_COPIES * (1 + rng.pareto(TAIL, originals)), MOST_COPIES).astype(np.int64)
    origins = rng.permutation(np.repeat(order[:originals], counts))
    test_origins = np.repeat(order[originals:], TEST_COPIES)
    return RedundantDigits(
        images=_distort(images[origins], rng),
        labels=labels[origins],
        origins=origins,
        test_images=_distort(images[test_origins], rng),
        test_labels=labels[test_origins],
        test_origins=test_origins,
    )


def _load_digits() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Images (1797, 8, 8) from 0 to 1, and their digits."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingExtraError("the digits dataset", "sklearn") from None
    digits: Any = load_digits()
    return (digits.images / INK).astype(np.float32), digits.target.astype(np.int64)


def _distort(images: npt.NDArray[np.float32], rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Images (n, 8, 8) rotated about their center, shifted (bilinear interpolation) and with noise: (n, 64)."""
    from scipy.ndimage import map_coordinates

    n = len(images)
    angle = np.deg2rad(rng.normal(0, TURN_DEGREES, n))[:, None, None]
    shift = rng.normal(0, SHIFT_PIXELS, (2, n, 1, 1))
    y, x = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2  # (8, 8) each, from the center
    turned_y = np.cos(angle) * y - np.sin(angle) * x + shift[0] + (SIDE - 1) / 2  # (n, 8, 8)
    turned_x = np.sin(angle) * y + np.cos(angle) * x + shift[1] + (SIDE - 1) / 2
    which = np.broadcast_to(np.arange(n)[:, None, None], (n, SIDE, SIDE))
    moved = map_coordinates(images, [which, turned_y, turned_x], order=1)  # outside is 0, no ink
    noised = moved + rng.normal(0, NOISE, moved.shape)
    flat: npt.NDArray[np.float32] = np.clip(noised, 0, 1).astype(np.float32).reshape(n, SIDE * SIDE)
    return flat
