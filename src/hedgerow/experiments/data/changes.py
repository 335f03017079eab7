"""Changes to a dataset that a recipe chooses: fewer rows, long-tailed classes, near-copies, wrong labels.

Only the pool is changed: it is what a campaign would have collected, and the test set measures what its users want. The
changes are drawn once per recipe, so that all trials share the pool. A recipe has them in a table [changes].
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError
from hedgerow.experiments.data.annotations import MultiLabel
from hedgerow.experiments.data.datasets import Dataset

Rows = npt.NDArray[np.int64]
Progress = Callable[[str, float], None]
STREAM = 0xC4A96E  # sets these random numbers apart from what others draw from the same seed


@dataclass(frozen=True)
class Changes:
    """rows: how many rows the pool has in the end, drawn uniformly; None keeps all of them. tail: how often the most
    frequent class occurs for each row of the rarest; in between the frequencies fall geometrically. copies: the share
    of the pool's rows that are copies of others, moved by `jitter` times the deviation of each column. noise: the share
    of labels that the oracle gets wrong: another class, or the other answer of a pair. Pools of pairs only have noise.
    """

    rows: int | None = None
    tail: float = 1.0
    copies: float = 0.0
    jitter: float = 0.05
    noise: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rows is not None:
            checks.integer(self.rows, "rows", least=1)
        checks.real(self.tail, "tail", least=1)
        checks.real(self.jitter, "jitter", least=0)
        for name in ("copies", "noise"):
            if checks.real(getattr(self, name), name, least=0) >= 1:
                raise InputError(f"{name} must be a share from 0 to below 1, got {getattr(self, name):g}")


@dataclass(frozen=True)
class Changed:
    """A dataset of `SOURCES` or `PAIR_SOURCES`, changed when it is loaded."""

    source: Any
    changes: Changes

    def __post_init__(self) -> None:
        whole = Changes(noise=self.changes.noise, seed=self.changes.seed)
        if self.unit == "pair" and replace(self.changes, jitter=whole.jitter) != whole:
            raise InputError(f"[changes] of the dataset {self.name!r}, which has labels of pairs, can only have noise")

    @property
    def name(self) -> str:
        return str(self.source.name)

    @property
    def unit(self) -> str:
        """What gets a label."""
        return getattr(self.source, "unit", "row")

    def check(self, data: Path | None) -> int | None:
        """Refuse to start if files are missing; the number of rows of the pool, if it is known."""
        size: int | None = self.source.check(data)
        return size if self.changes.rows is None else self.changes.rows

    def load(self, data: Path | None, cache: Path, progress: Progress | None = None) -> Dataset | MultiLabel:
        loaded = self.source.load(data, cache, progress)
        return change_rows(loaded, self.changes) if self.unit == "row" else change_pairs(loaded, self.changes)


def change_rows(dataset: Dataset, changes: Changes) -> Dataset:
    """The dataset with another pool."""
    rng = np.random.default_rng([STREAM, checks.seed(changes.seed)])
    labels = np.asarray(dataset.labels, np.int64)
    wanted = len(labels) if changes.rows is None else changes.rows
    originals = wanted - round(changes.copies * wanted)
    rows = draw_rows(labels, changes.tail, originals, changes.rows is not None, rng)
    if len(rows) != originals:  # a tail leaves rows out, and rounds the frequencies of classes
        wanted = round(len(rows) / (1 - changes.copies))
    repeated = rng.choice(rows, wanted - len(rows))
    features = np.asarray(dataset.features)[np.concatenate([rows, repeated])]
    if changes.copies:
        features = features.astype(np.float32)
        spread = features[: len(rows)].std(axis=0)
        moved = rng.normal(size=features[len(rows) :].shape) * (changes.jitter * spread)
        features[len(rows) :] += moved.astype(np.float32)
    order = rng.permutation(len(features))
    kept = np.concatenate([labels[rows], labels[repeated]])[order]
    return replace(dataset, features=features[order], labels=mistake(kept, dataset.classes, changes.noise, rng))


def draw_rows(labels: Rows, tail: float, count: int, limited: bool, rng: np.random.Generator) -> Rows:
    """Up to `count` rows whose classes are as frequent as the tail wants, the order of classes drawn at random.

    Classes that the pool lacks, and the test set has, do not count.
    """
    if limited and count < 1:
        raise InputError("[changes] leaves no row that is not a copy: use fewer copies, or more rows")
    if tail == 1 and not limited:
        return np.arange(len(labels))
    if tail == 1:
        if count > len(labels):
            raise InputError(f"[changes] asks for {count:,} rows without copies, but the pool has {len(labels):,}")
        return rng.choice(len(labels), count, replace=False)
    present, found = np.unique(labels, return_counts=True)
    shares = tail ** -(rng.permutation(len(present)) / max(1, len(present) - 1))
    most = min(float((found / shares).min()), count / float(shares.sum()))
    counts = np.maximum(1, np.round(most * shares)).astype(np.int64)
    sizes = zip(present, np.minimum(counts, found), strict=True)
    parts = [rng.choice(np.flatnonzero(labels == one), size, replace=False) for one, size in sizes]
    return np.concatenate(parts)


def mistake(labels: Rows, classes: int, share: float, rng: np.random.Generator) -> Rows:
    """The labels with a share of them replaced by another class, uniformly."""
    wrong = rng.random(len(labels)) < share
    return np.where(wrong, (labels + rng.integers(1, max(2, classes), len(labels))) % classes, labels)


def change_pairs(dataset: MultiLabel, changes: Changes) -> MultiLabel:
    """The dataset with wrong answers in its pool."""
    rng = np.random.default_rng([STREAM, checks.seed(changes.seed)])
    wrong = rng.random(len(dataset.pool.answers)) < changes.noise
    return replace(dataset, pool=replace(dataset.pool, answers=dataset.pool.answers ^ wrong))
