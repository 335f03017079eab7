"""Arrays: broken .npy headers, float types that numpy lacks, sparse matrices."""

import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from hedgerow import pool, scores
from hedgerow.errors import InputError


def write_npy(path: Path, shape: str, descr: Any = "<f4", data: bytes = bytes(400)) -> Path:
    """A .npy file with a header of our own."""
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (64 - (11 + len(header)) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)
    return path


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("(-5, 3)", r"its shape is \(-5, 3\)"),
        ("(5, -3)", r"its shape is \(5, -3\)"),
        ("(-5, -3)", r"its shape is \(-5, -3\)"),
        ("(True, 3)", r"its shape is \(True, 3\)"),
        ("(4611686018427387904, 16)", "more than the 400 bytes after its header"),
        ("(99999999999999999999999, 2)", "more than the 400 bytes after its header"),
        ("(11, 10)", "more than the 400 bytes after its header"),
        ("(5", ""),
        ("[5, 3]", ""),
        ("('a',)", ""),
        ("(1 << 3, 2)", ""),
    ],
)
def test_npy_with_an_impossible_header(tmp_path: Path, shape: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"a.npy cannot be read as npy: .*{message}") as caught:
        pool.as_matrix(write_npy(tmp_path / "a.npy", shape), "embeddings")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("descr", "message"),
    [
        ("|O", "Python objects"),
        ("<f3", "cannot be read as npy"),
        ("<U5", "real numbers"),
        ("|S3", "real numbers"),
        ("<M8[s]", "real numbers"),
        ([("a", "<f4")], "real numbers"),
        ("|V2", "real numbers"),
    ],
)
def test_npy_of_other_types(tmp_path: Path, descr: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        pool.as_matrix(write_npy(tmp_path / "a.npy", "(2, 2)", descr), "embeddings")


def test_npy_of_another_version(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 2)))
    content = bytearray((tmp_path / "a.npy").read_bytes())
    content[6] = 3
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(InputError, match=r"version 3.0 of the format is not supported"):
        pool.as_matrix(tmp_path / "a.npy", "embeddings")


def test_npy_that_holds_a_single_value(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.float32(3))
    with pytest.raises(InputError, match="two dimensions"):
        pool.open_matrix(tmp_path / "a.npy", "embeddings")
    with pytest.raises(InputError, match="one dimension"):
        pool.as_vector(tmp_path / "a.npy", "margins")
    assert pool.count_rows(tmp_path / "a.npy", "labels") == 1
    with pytest.raises(InputError, match="holds a single value"):
        pool.open_matrix([tmp_path / "a.npy", tmp_path / ".." / tmp_path.name / "a.npy"], "x")


def test_several_npy_are_one_vector(tmp_path: Path) -> None:
    np.save(tmp_path / "m-2.npy", np.array([3, 4], np.int16))
    np.save(tmp_path / "m-1.npy", np.array([1, 2], np.int16))
    found = pool.as_vector(tmp_path, "clusters")
    assert (found.tolist(), found.dtype) == ([1, 2, 3, 4], np.int16)


def test_bfloat16_tensors_become_float32() -> None:
    torch = pytest.importorskip("torch")
    values = torch.tensor([[0.25, 0.75], [0.5, 0.5]], dtype=torch.bfloat16)
    array = pool.as_matrix(values, "probabilities")
    assert (array.dtype, array.tolist()) == (np.float32, [[0.25, 0.75], [0.5, 0.5]])
    assert scores.margins(values).tolist() == [0.5, 0.0]
    with pytest.raises(InputError, match=r"probabilities cannot be read as an array: .*detach"):
        pool.as_matrix(values.float().requires_grad_().to(torch.bfloat16), "probabilities")


def test_a_stand_in_of_bfloat16_tensors() -> None:
    class Tensor:
        dtype = "torch.bfloat16"

        def float(self) -> Any:
            return np.ones((2, 2), np.float32)

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise TypeError("Got unsupported ScalarType BFloat16")

    assert pool.as_matrix(Tensor(), "embeddings").tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("name", ["probabilities", "logits"])
def test_one_number_per_row_says_how_to_pass_two_classes(name: str) -> None:
    for source in (np.full((5, 1), 0.3), np.full(5, 0.3)):
        with pytest.raises(InputError, match=r"for two classes pass both columns, np.column_stack\(\["):
            scores.margins(**{name: source})


# Sparse matrices


@pytest.mark.parametrize("make", [scipy.sparse.csr_array, scipy.sparse.csr_matrix, scipy.sparse.coo_array])
def test_sparse_rows_are_made_dense_by_chunks(make: Any) -> None:
    rng = np.random.default_rng(3)
    dense = np.where(rng.random((200, 9)) < 0.3, rng.random((200, 9)), 0).astype(np.float32)
    dense[:, 0] += 1 - dense.sum(axis=1)
    dense = np.abs(dense) / np.abs(dense).sum(axis=1, keepdims=True)
    matrix = pool.open_matrix(make(dense), "probabilities")
    assert (matrix.n, matrix.width, matrix.dtype, matrix.ids) == (200, 9, np.float32, None)
    assert np.array_equal(matrix.array(), dense)
    assert np.array_equal(matrix.read(190, 250), dense[190:])
    assert [len(block) for _, block in matrix.chunks(90)] == [90, 90, 20]
    assert np.array_equal(pickle.loads(pickle.dumps(matrix)).read(5, 9), dense[5:9])
    assert np.array_equal(scores.margins(make(dense)), scores.margins(dense))
    with pytest.raises(InputError, match=r"margins is a sparse matrix of shape \(200, 9\): pass a dense array"):
        pool.as_vector(make(dense), "margins")
