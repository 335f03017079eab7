"""A small campaign for tests: 120 texts with embeddings in four dimensions, three classes."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow import Campaign

CLASSES = ["cat", "dog", "fox"]
N = 120
Make = Callable[..., Campaign]


def write_pool(path: Path) -> None:
    """r0 to r119, with texts."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *((f"r{row}", f"text {row}") for row in range(N))])


def begin(folder: Path, url: str | None, **options: Any) -> Campaign:
    """A new campaign in a folder, with a holdout of ten unless the options say otherwise."""
    write_pool(folder / "pool.csv")
    np.save(folder / "embeddings.npy", np.random.default_rng(1).normal(size=(N, 4)).astype(np.float32))
    given = {"classes": CLASSES, "embeddings": folder / "embeddings.npy", "holdout": 10, "database": url}
    return Campaign.init(folder / "campaign", folder / "pool.csv", **{**given, **options})
