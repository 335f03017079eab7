"""The files of public datasets: read as published, recognized when broken, and named when missing."""

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from hedgerow.errors import InputError
from hedgerow.experiments.data.files import PUBLICATIONS


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A few images and rows in the official formats."""
    rng = np.random.default_rng(0)

    def dump(path: Path, keys: dict[bytes, list[int]]) -> None:
        path.parent.mkdir(exist_ok=True)
        n = len(next(iter(keys.values())))
        path.write_bytes(pickle.dumps({b"data": rng.integers(0, 256, (n, 3072), np.uint8), **keys}, protocol=2))

    for part in range(1, 6):
        dump(tmp_path / "cifar-10-batches-py" / f"data_batch_{part}", {b"labels": [part, 9 - part]})
    dump(tmp_path / "cifar-10-batches-py" / "test_batch", {b"labels": [0, 9]})
    dump(tmp_path / "cifar-100-python" / "train", {b"fine_labels": [99, 0, 5], b"coarse_labels": [1, 2, 3]})
    dump(tmp_path / "cifar-100-python" / "test", {b"fine_labels": [7], b"coarse_labels": [1]})
    (tmp_path / "svhn").mkdir()
    for part, n in (("train", 4), ("test", 2)):
        images = rng.integers(0, 256, (32, 32, 3, n), np.uint8)
        savemat(tmp_path / "svhn" / f"{part}_32x32.mat", {"X": images, "y": np.array([[10], [1], [9], [2]][:n])})
    (tmp_path / "covtype").mkdir()
    lines = "".join(",".join(map(str, [*range(row, row + 54), 1 + row % 7])) + "\n" for row in range(20))
    (tmp_path / "covtype" / "covtype.data.gz").write_bytes(gzip.compress(lines.encode()))
    return tmp_path


def test_cifar_10(data: Path) -> None:
    train, test = PUBLICATIONS["cifar10"].open(data)
    assert train.features.shape == (10, 3, 32, 32)
    assert train.features.dtype == np.uint8
    assert train.labels.tolist() == [1, 8, 2, 7, 3, 6, 4, 5, 5, 4]
    batch = pickle.loads((data / "cifar-10-batches-py" / "data_batch_2").read_bytes(), encoding="bytes")
    np.testing.assert_array_equal(train.features[3].ravel(), batch[b"data"][1])
    assert test is not None
    assert test.labels.tolist() == [0, 9]


def test_cifar_100_has_its_fine_labels(data: Path) -> None:
    train, test = PUBLICATIONS["cifar100"].open(data / "cifar-100-python")  # the folder itself will do
    assert train.labels.tolist() == [99, 0, 5]
    assert test is not None
    assert test.labels.tolist() == [7]


def test_svhn_has_digits_for_classes(data: Path) -> None:
    train, test = PUBLICATIONS["svhn"].open(data)
    assert train.labels.tolist() == [0, 1, 9, 2]
    assert train.features.shape == (4, 3, 32, 32)
    assert test is not None
    assert len(test.labels) == 2


def test_covertype_as_published_and_as_npz(data: Path) -> None:
    whole, nothing = PUBLICATIONS["covtype"].open(data)
    assert nothing is None
    assert whole.features.shape == (20, 54)
    assert whole.labels.tolist() == [row % 7 for row in range(20)]
    np.savez(data / "covtype" / "covtype.npz", x=whole.features, y=whole.labels + 1)
    (data / "covtype" / "covtype.data.gz").unlink()
    again, _ = PUBLICATIONS["covtype"].open(data)
    np.testing.assert_array_equal(again.features, whole.features)
    np.testing.assert_array_equal(again.labels, whole.labels)


@pytest.mark.parametrize("name", list(PUBLICATIONS))
def test_what_is_missing_is_named_with_where_to_get_it(name: str, tmp_path: Path) -> None:
    published = PUBLICATIONS[name]
    for folder, message in (
        (None, "pass its folder with --data"),
        (tmp_path, "has no"),
        (tmp_path / "no", "not exist"),
    ):
        with pytest.raises(InputError) as error:
            published.find(folder)
        assert message in str(error.value)
        assert published.address in str(error.value)
        assert all(file in str(error.value) for file in published.files)


def test_only_what_is_missing_is_missed(data: Path) -> None:
    (data / "cifar-10-batches-py" / "data_batch_3").unlink()
    with pytest.raises(InputError, match="has no data_batch_3: it needs"):
        PUBLICATIONS["cifar10"].find(data)


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return eval, ("1 + 1",)


@pytest.mark.parametrize("content", [b"", b"not a pickle", pickle.dumps({b"data": 3}), pickle.dumps(Bomb())])
def test_a_pickle_that_is_not_cifars_is_refused(data: Path, content: bytes) -> None:
    (data / "cifar-100-python" / "train").write_bytes(content)
    with pytest.raises(InputError, match="cannot be read as a batch of the Python version of CIFAR"):
        PUBLICATIONS["cifar100"].open(data)


def test_a_mat_that_is_not_svhns_is_refused(data: Path) -> None:
    savemat(data / "svhn" / "test_32x32.mat", {"Y": np.zeros(3)})
    with pytest.raises(InputError, match="cannot be read as the cropped digits of SVHN"):
        PUBLICATIONS["svhn"].open(data)
