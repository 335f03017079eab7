"""The files of public datasets as their authors publish them: CIFAR (pickles), SVHN (.mat), Covertype (a table).

A reader takes a folder of the user, or the folder inside it that the archive unpacks to, and returns arrays. An error
lists all missing files and where they are published.

What it does not do: download, decode or change anything.
"""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import InputError

SIDE = 32  # pixels per side, in all three image sets
# The names in a pickle of arrays and lists; any other is refused before it is imported.
PICKLED = {
    ("numpy", "dtype"), ("numpy", "ndarray"), ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"), ("numpy._core.numeric", "_frombuffer"), ("_codecs", "encode"),
}  # fmt: skip

Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """One half of a dataset: images uint8 (n, 3, 32, 32) or numbers (n, columns), and class numbers 0.. (n,)."""

    features: npt.NDArray[Any]
    labels: Labels


@dataclass(frozen=True)
class Publication:
    """The folder and files of a dataset, and where they are published. If `either`, one of the files is enough."""

    title: str
    classes: int
    rows: int  # of the training half, or of the whole
    folder: str
    files: tuple[str, ...]
    address: str
    read: Callable[[Path], tuple[Split, Split | None]]
    either: bool = False

    def open(self, data: Path | None) -> tuple[Split, Split | None]:
        """The training and the test half; None for the second if the dataset is published undivided."""
        return self.read(self.find(data))

    def find(self, data: Path | None) -> Path:
        """The folder with the files, after a check that all are there."""
        if data is None:
            raise InputError(f"{self.title} is read from your copy: pass its folder with --data; {self._list_needed()}")
        for folder in (data / self.folder, data):
            missing = [name for name in self.files if not (folder / name).is_file()]
            if not missing or (self.either and len(missing) < len(self.files)):
                return folder
        nearest = data / self.folder if (data / self.folder).is_dir() else data
        missing = [name for name in self.files if not (nearest / name).is_file()]
        listed = (" or " if self.either else ", ").join(missing)
        problem = "does not exist" if not nearest.is_dir() else f"has no {listed}"
        raise InputError(f"the folder {nearest} {problem}: {self._list_needed()}")

    def _list_needed(self) -> str:
        joined = (" or " if self.either else ", ").join(self.files)
        return f"it needs {self.folder}/ with {joined}, from {self.address}"


def read_cifar10(folder: Path) -> tuple[Split, Split]:
    train = [_read_batch(folder / f"data_batch_{part}", b"labels") for part in range(1, 6)]
    whole = Split(np.concatenate([part.features for part in train]), np.concatenate([part.labels for part in train]))
    return whole, _read_batch(folder / "test_batch", b"labels")


def read_cifar100(folder: Path) -> tuple[Split, Split]:
    """The 100 fine labels, as in the paper."""
    return _read_batch(folder / "train", b"fine_labels"), _read_batch(folder / "test", b"fine_labels")


def read_svhn(folder: Path) -> tuple[Split, Split]:
    return _read_mat(folder / "train_32x32.mat"), _read_mat(folder / "test_32x32.mat")


def read_covtype(folder: Path) -> tuple[Split, None]:
    """54 integers per row, classes 1..7 in the file and 0..6 here; published undivided."""
    packed = folder / "covtype.npz"
    if packed.is_file():
        with np.load(packed, allow_pickle=False) as held:
            features, labels = held["x"], held["y"]
    else:
        table = np.loadtxt(folder / "covtype.data.gz", np.int16, delimiter=",")
        features, labels = table[:, :-1], table[:, -1]
    return Split(features, labels.astype(np.int64) - 1), None


class _ArrayUnpickler(pickle.Unpickler):
    """Reads pickles of arrays, lists and strings; refuses those that would import or run anything else."""

    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy.core.", "numpy._core.")  # the name in the numpy that wrote the files
        if (module, name) not in PICKLED:
            raise pickle.UnpicklingError(f"it imports {module}.{name}, which no file of arrays does")
        return super().find_class(module, name)


def _read_batch(path: Path, key: bytes) -> Split:
    """A pickle of CIFAR: rows of 3,072 bytes, channel by channel, and a list of labels."""
    try:
        with path.open("rb") as file:
            batch = _ArrayUnpickler(file, encoding="bytes").load()
        images = np.asarray(batch[b"data"], np.uint8).reshape(-1, 3, SIDE, SIDE)
        labels = np.asarray(batch[key], np.int64)
    except (pickle.UnpicklingError, EOFError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path} cannot be read as a batch of the Python version of CIFAR: {error}") from error
    return Split(images, labels)


def _read_mat(path: Path) -> Split:
    """A .mat file of SVHN: X (32, 32, 3, n) uint8, y (n, 1) with 10 for the digit 0."""
    from scipy.io import loadmat

    try:
        held = loadmat(path)
        images = np.ascontiguousarray(held["X"].transpose(3, 2, 0, 1), np.uint8)  # (n, 3, 32, 32)
        labels = held["y"].ravel().astype(np.int64) % 10
    except (ValueError, KeyError, NotImplementedError, TypeError) as error:
        raise InputError(f"{path} cannot be read as the cropped digits of SVHN: {error}") from error
    return Split(images, labels)


PUBLICATIONS: Mapping[str, Publication] = {
    "cifar10": Publication(
        "CIFAR-10",
        10,
        50_000,
        "cifar-10-batches-py",
        (*(f"data_batch_{part}" for part in range(1, 6)), "test_batch"),
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        read_cifar10,
    ),
    "cifar100": Publication(
        "CIFAR-100",
        100,
        50_000,
        "cifar-100-python",
        ("train", "test"),
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        read_cifar100,
    ),
    "svhn": Publication(
        "SVHN",
        10,
        73_257,
        "svhn",
        ("train_32x32.mat", "test_32x32.mat"),
        "http://ufldl.stanford.edu/housenumbers/",
        read_svhn,
    ),
    "covtype": Publication(
        "Covertype",
        7,
        581_012,
        "covtype",
        ("covtype.data.gz", "covtype.npz"),
        "https://archive.ics.uci.edu/dataset/31/covertype",
        read_covtype,
        either=True,
    ),
}
