"""Fully annotated multi-label datasets as pools of (row, class) pairs with most labels hidden.

The Mulan sets (bags of words and of visual words) are scipy files <name>_X.npz and <name>_Y.npz; GoEmotions (comments,
28 emotions) is one Parquet file with the columns text, labels and split. Both are read from a folder of the user;
nothing is downloaded. `PAIR_SOURCES` are the multi-label datasets of recipes, by name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from hedgerow import checks
from hedgerow.errors import InputError
from hedgerow.experiments.data.annotations import MultiLabel, annotate
from hedgerow.experiments.data.texts import encode_texts
from hedgerow.experiments.data.words import Words
from hedgerow.pool import tables
from hedgerow.store import UNREADABLE

Progress = Callable[[str, float], None]

MULAN = ("delicious", "bibtex", "tmc2007_500", "corel5k", "enron")
TEST_SHARE = 0.2
READ_ROWS = 10_000


@dataclass(frozen=True)
class Mulan:
    """One of the Mulan sets: see `load_mulan`."""

    name: str
    negatives: int | None = None
    unit: ClassVar[str] = "pair"

    def check(self, data: Path | None) -> None:
        """Refuse to start without the files."""
        _require_all(data, [f"{self.name}_{half}.npz" for half in ("X", "Y")], "https://mulan.sourceforge.net")

    def load(self, data: Path | None, cache: Path, progress: Progress | None = None) -> MultiLabel:
        assert data is not None, "checked"
        return load_mulan(data, self.name, negatives=self.negatives)


@dataclass(frozen=True)
class GoEmotions:
    """GoEmotions: see `load_goemotions`."""

    name: str = "goemotions"
    negatives: int | None = None
    unit: ClassVar[str] = "pair"

    def check(self, data: Path | None) -> None:
        """Refuse to start without the files."""
        _require_all(
            data, ["goemotions.parquet", "labels.txt"], "https://github.com/google-research/google-research/goemotions"
        )

    def load(self, data: Path | None, cache: Path, progress: Progress | None = None) -> MultiLabel:
        assert data is not None, "checked"
        return load_goemotions(data, negatives=self.negatives)


PAIR_SOURCES: Mapping[str, Any] = {
    "words": Words,
    **dict.fromkeys(MULAN, Mulan),
    "goemotions": GoEmotions,
}


def load_mulan(data: Path, name: str, *, negatives: int | None = None, seed: int = 0) -> MultiLabel:
    """A Mulan set; features float32 (n, columns). The test set is a fifth of the rows, drawn by the seed."""
    from scipy.sparse import load_npz

    checks.option(name, "Mulan set", MULAN)
    paths = [_require(data / f"{name}_{half}.npz") for half in ("X", "Y")]
    try:
        features, truth = map(load_npz, paths)
    except UNREADABLE as error:
        raise InputError(f"{' or '.join(map(str, paths))} cannot be read as a sparse matrix: {error}") from error
    checks.same_length({f"{name}_X.npz": features.shape[0], f"{name}_Y.npz": truth.shape[0]})
    order = np.random.default_rng([checks.seed(seed), len(MULAN)]).permutation(truth.shape[0])
    test, pool = np.split(order, [int(TEST_SHARE * len(order))])
    dense = features.astype(np.float32).toarray()
    return MultiLabel(
        name,
        tuple(map(str, range(truth.shape[1]))),
        annotate(dense[pool], truth[pool], negatives=negatives, seed=[seed, 0]),
        annotate(dense[test], truth[test], negatives=negatives, seed=[seed, 1]),
    )


def load_goemotions(data: Path, *, negatives: int | None = None, seed: int = 0) -> MultiLabel:
    """GoEmotions; features are `Texts`. The test set is that of its authors, the pool is everything else."""
    classes = tuple(_require(data / "labels.txt").read_text(encoding="utf-8").split())
    table = tables.open_source(_require(data / "goemotions.parquet"), "GoEmotions")
    assert isinstance(table, tables.Table)
    texts: dict[bool, list[str]] = {True: [], False: []}
    labels: dict[bool, list[list[int]]] = {True: [], False: []}
    columns = [table.require(column) for column in ("text", "labels", "split")]
    for batch in table.batches(columns, READ_ROWS):
        for row in batch.to_pylist():
            is_test = row["split"] == "test"
            texts[is_test].append(row["text"])
            labels[is_test].append(row["labels"])
    pool, test = (
        annotate(
            encode_texts(texts[half]),
            _make_truth(labels[half], len(classes)),
            negatives=negatives,
            seed=[checks.seed(seed), int(half)],
        )
        for half in (False, True)
    )
    return MultiLabel("goemotions", classes, pool, test)


def _make_truth(labels: list[list[int]], classes: int) -> Any:
    """Lists of class numbers as a CSR matrix (n, classes) of ones."""
    from scipy.sparse import csr_matrix

    ends = np.cumsum([0, *map(len, labels)])
    columns = np.array([label for row in labels for label in row], np.int64)
    if len(columns) and (columns.min() < 0 or columns.max() >= classes):
        raise InputError(f"the labels of GoEmotions are 0 to {classes - 1}, got {columns.min()} to {columns.max()}")
    return csr_matrix((np.ones(len(columns), np.bool_), columns, ends), shape=(len(labels), classes))


def _require_all(data: Path | None, names: list[str], source: str) -> None:
    """Refuse to start if files of the data folder are missing."""
    if data is None:
        raise InputError(f"the data are read from a folder: pass it with --data ({', '.join(names)}, from {source})")
    missing = [name for name in names if not (data / name).is_file()]
    if missing:
        raise InputError(f"the folder {data} has no {', '.join(missing)}: get the data from {source}")


def _require(path: Path) -> Path:
    if not path.is_file():
        raise InputError(f"{path} does not exist: pass the folder with {path.name}")
    return path
