"""Multi-label datasets from a folder, on tiny files."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_matrix, save_npz

import hedgerow as hr
from hedgerow.experiments.data import multilabel


def test_mulan(tmp_path):
    rng = np.random.default_rng(0)
    x, y = (
        csr_matrix(rng.random((50, 6)) * (rng.random((50, 6)) < 0.5)),
        csr_matrix((rng.random((50, 7)) < 0.3).astype(np.uint8)),
    )
    save_npz(tmp_path / "enron_X.npz", x)
    save_npz(tmp_path / "enron_Y.npz", y)
    loaded = multilabel.load_mulan(tmp_path, "enron", negatives=2, seed=3)
    assert (loaded.pool.features.shape, loaded.test.features.shape) == ((40, 6), (10, 6))
    assert loaded.pool.features.dtype == np.float32
    assert loaded.classes == 7
    assert loaded.pool.answers.sum() + loaded.test.answers.sum() == y.nnz
    with pytest.raises(hr.InputError, match=r"corel5k_X.npz does not exist"):
        multilabel.load_mulan(tmp_path, "corel5k")
    with pytest.raises(hr.InputError, match="did you mean 'enron'"):
        multilabel.load_mulan(tmp_path, "enronn")
    (tmp_path / "enron_X.npz").write_bytes(b"junk")
    with pytest.raises(hr.InputError, match="cannot be read as a sparse matrix"):
        multilabel.load_mulan(tmp_path, "enron")
    save_npz(tmp_path / "enron_X.npz", x)
    save_npz(tmp_path / "enron_Y.npz", y[:-1])
    with pytest.raises(hr.InputError, match=r"enron_Y.npz has 49"):
        multilabel.load_mulan(tmp_path, "enron")


def test_goemotions(tmp_path):
    table = {
        "split": ["train", "test", "val", "train"],
        "text": ["good", "bad", "so so", "fine"],
        "labels": [[0], [1, 2], [2], [0, 1]],
    }
    pq.write_table(pa.table(table), tmp_path / "goemotions.parquet")
    (tmp_path / "labels.txt").write_text("joy\nanger\nneutral")
    loaded = multilabel.load_goemotions(tmp_path, negatives=1)
    assert loaded.names == ("joy", "anger", "neutral")
    assert [loaded.pool.features.read(row) for row in range(3)] == ["good", "so so", "fine"]
    assert loaded.test.features.read(0) == "bad"
    assert loaded.test.pairs.classes.tolist() == [0, 1, 2]
    assert loaded.test.answers.tolist() == [False, True, True]
    (tmp_path / "labels.txt").write_text("joy\nanger")
    with pytest.raises(hr.InputError, match="labels of GoEmotions are 0 to 1"):
        multilabel.load_goemotions(tmp_path)
