import numpy as np
import pytest

import hedgerow as hr
from hedgerow.checkpoints import Checkpoints, open_checkpoints

DATA = np.arange(12.0).reshape(6, 2)


def test_a_phase_comes_back_as_it_was_kept(tmp_path):
    keep = open_checkpoints(tmp_path / "work", DATA, {"k": 3})
    keep.save("round", {"turn": 1, "cap": float("inf")}, {"a": np.arange(3), "b": np.zeros((0, 2), np.float32)})
    keep.save("round", {"turn": 2, "cap": 0.5}, {"a": np.arange(4)})
    numbers, arrays = keep.load("round")
    assert numbers == {"turn": 2, "cap": 0.5}
    assert list(arrays) == ["a"]
    assert arrays["a"].tolist() == [0, 1, 2, 3]
    keep.drop("round")
    assert keep.load("round") is None


def test_the_same_run_finds_its_folder_again_and_another_is_refused(tmp_path):
    open_checkpoints(tmp_path, DATA, {"k": 3}).save("round", {}, {})
    assert open_checkpoints(tmp_path, DATA, {"k": 3}).load("round") is not None
    for data, settings in [(DATA + 1, {"k": 3}), (DATA, {"k": 4}), (DATA.astype(np.float32), {"k": 3})]:
        with pytest.raises(hr.StoreError, match="another run"):
            open_checkpoints(tmp_path, data, settings)


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(hr.StoreError, match="not empty"):
        open_checkpoints(tmp_path, DATA, {})
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_half_written_phase_is_not_there(tmp_path):
    keep = open_checkpoints(tmp_path, DATA, {})
    (tmp_path / ".round.tmp").mkdir()
    (tmp_path / ".round.tmp" / "a.npy").write_bytes(b"half")
    assert keep.load("round") is None
    keep.save("round", {}, {"a": np.arange(2)})
    assert keep.load("round")[1]["a"].tolist() == [0, 1]


def test_without_a_folder_nothing_is_kept():
    keep = Checkpoints(None)
    keep.save("round", {}, {"a": np.arange(3)})
    keep.drop("round")
    assert keep.load("round") is None
