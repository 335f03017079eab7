"""Datasets whose labels are known, as tasks for the loop.

`load_redundant_digits` grows scikit-learn's digits (1,797 images of 8 x 8) into a pool as real ones are: a few things
seen hundreds of times, most seen a handful of times, no two images the same. An original's copies are turned, shifted
and noised a little; how many it has follows a Pareto law. Originals are split between pool and test set before
anything is copied, so that the test set holds no relative of a pool image.

What it does not do: download anything.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError, MissingExtraError
from hedgerow.rounds import Task

SIDE = 8  # pixels of a digit's side
CLASSES = 10
INK = 16.0  # the darkest pixel in scikit-learn's digits
TAIL = 1.1  # Pareto exponent of the number of copies: a mean that is carried by few originals
FEWEST_COPIES = 4
MOST_COPIES = 400
TEST_COPIES = 5
TURN_DEGREES = 8.0  # standard deviations of a copy's distortion: too small to change what is read
SHIFT_PIXELS = 0.4
NOISE = 0.05


@dataclass(frozen=True)
class RedundantDigits:
    """The pool and the test set, with what only the teller of the story may see: labels and origins."""

    images: npt.NDArray[np.float32]  # (n, 64), 0 to 1
    labels: npt.NDArray[np.int64]
    origins: npt.NDArray[np.int64]  # which original a row is a copy of
    test_images: npt.NDArray[np.float32]
    test_labels: npt.NDArray[np.int64]
    test_origins: npt.NDArray[np.int64]

    @property
    def task(self) -> Task:
        return Task(self.images, len(self.images), self.labels.__getitem__, self.test_images, self.test_labels)


def load_redundant_digits(originals: int = 1200, *, seed: int = 0) -> RedundantDigits:
    """A pool grown from `originals` digits (about 19 rows each); the other digits, five copies each, as test set."""
    images, labels = _load_digits()
    checks.integer(originals, "originals", least=1)
    if originals >= len(images):
        raise InputError(
            f"originals must leave digits for the test set: at most {len(images) - 1:,}, got {originals:,}"
        )
    rng = np.random.default_rng(checks.seed(seed))
    order = rng.permutation(len(images))
    # A Pareto variable of exponent a is (1 + Lomax(a)) times its least value.
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
    """Images (n, 8, 8) turned about their center, shifted, read off by bilinear interpolation, noised: (n, 64)."""
    from scipy.ndimage import map_coordinates

    n = len(images)
    angle = np.deg2rad(rng.normal(0, TURN_DEGREES, n))[:, None, None]
    shift = rng.normal(0, SHIFT_PIXELS, (2, n, 1, 1))
    y, x = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2  # (8, 8) each, from the center
    turned_y = np.cos(angle) * y - np.sin(angle) * x + shift[0] + (SIDE - 1) / 2  # (n, 8, 8)
    turned_x = np.sin(angle) * y + np.cos(angle) * x + shift[1] + (SIDE - 1) / 2
    which = np.broadcast_to(np.arange(n)[:, None, None], (n, SIDE, SIDE))
    moved = map_coordinates(images, [which, turned_y, turned_x], order=1)  # outside is paper: 0
    noised = moved + rng.normal(0, NOISE, moved.shape)
    flat: npt.NDArray[np.float32] = np.clip(noised, 0, 1).astype(np.float32).reshape(n, SIDE * SIDE)
    return flat
