import os
import subprocess
import sys

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.store.checkpoints import Checkpoints, fingerprint, open_checkpoints

DATA = np.arange(12.0).reshape(6, 2)


def test_a_phase_comes_back_as_it_was_kept(tmp_path):
    keep = open_checkpoints(tmp_path / "work", [DATA], {"k": 3})
    keep.save("round", {"turn": 1, "cap": float("inf")}, {"a": np.arange(3), "b": np.zeros((0, 2), np.float32)})
    keep.save("round", {"turn": 2, "cap": 0.5}, {"a": np.arange(4)})
    numbers, arrays = keep.load("round")
    assert numbers == {"turn": 2, "cap": 0.5}
    assert list(arrays) == ["a"]
    assert arrays["a"].tolist() == [0, 1, 2, 3]
    keep.drop("round")
    assert keep.load("round") is None


def test_the_same_run_finds_its_folder_again_and_another_is_refused(tmp_path):
    open_checkpoints(tmp_path, [DATA], {"k": 3}).save("round", {}, {})
    assert open_checkpoints(tmp_path, [DATA], {"k": 3}).load("round") is not None
    for data, settings in [(DATA + 1, {"k": 3}), (DATA, {"k": 4}), (DATA.astype(np.float32), {"k": 3})]:
        with pytest.raises(hr.StoreError, match="another run"):
            open_checkpoints(tmp_path, [data], settings)


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(hr.StoreError, match="not empty"):
        open_checkpoints(tmp_path, [DATA], {})
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_every_row_counts(tmp_path):
    pool = np.zeros((20_000, 3), np.float32)
    open_checkpoints(tmp_path, [pool], {})
    open_checkpoints(tmp_path, [pool.copy()], {})
    for row in (0, 7_777, 19_999):
        other = pool.copy()
        other[row, 1] = 1
        with pytest.raises(hr.StoreError, match="another run"):
            open_checkpoints(tmp_path, [other], {})


def test_parts_of_a_run_keep_phases_of_their_own(tmp_path):
    keep = open_checkpoints(tmp_path, [DATA], {})
    keep.save("round", {"turn": 1}, {})
    keep.within("later").save("round", {"turn": 2}, {})
    assert keep.load("round")[0] == {"turn": 1}
    assert keep.within("later").load("round")[0] == {"turn": 2}


def test_a_phase_that_cannot_be_written_leaves_the_old_one(tmp_path):
    keep = open_checkpoints(tmp_path, [DATA], {})
    keep.save("round", {}, {"a": np.arange(2)})
    with pytest.raises(TypeError):
        keep.save("round", {"turn": {1}}, {"a": np.arange(3)})
    assert keep.load("round")[1]["a"].tolist() == [0, 1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["round.npz", "run.json"]


def test_damage_is_told(tmp_path):
    keep = open_checkpoints(tmp_path, [DATA], {})
    keep.save("round", {}, {"a": np.arange(2000)})
    whole = (tmp_path / "round.npz").read_bytes()
    for damaged in (b"", whole[:700], whole[:700] + b"!" + whole[701:]):
        (tmp_path / "round.npz").write_bytes(damaged)
        with pytest.raises(hr.StoreError, match="damaged"):
            keep.load("round")
    (tmp_path / "run.json").write_text("")
    with pytest.raises(hr.StoreError, match="damaged"):
        open_checkpoints(tmp_path, [DATA], {})


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "work").write_text("precious")
    for folder in (tmp_path / "work", tmp_path / "work" / "deeper"):
        with pytest.raises(hr.StoreError, match=r"not a folder|cannot be created"):
            open_checkpoints(folder, [DATA], {})


def test_without_a_folder_nothing_is_kept():
    keep = Checkpoints(None)
    keep.save("round", {}, {"a": np.arange(3)})
    keep.drop("round")
    assert keep.load("round") is None


TEXTS = r"""
import numpy as np
from hedgerow.store.checkpoints import fingerprint
words = ["".join(("a", "\u00e9" * n, str(n))) for n in range(3000)]  # made anew, so at other addresses
texts = np.array([*words, None, b"raw", "\ud800"], object)
print(fingerprint([texts, np.array(words), np.array(words, np.dtypes.StringDType())], {"k": 3}))
"""


def test_texts_have_the_same_fingerprint_in_every_process():
    found = []
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", TEXTS], capture_output=True, text=True, check=True, env=environment
        )
        found.append(done.stdout)
    assert found[0] == found[1]


def as_objects(*values):
    return np.array(values, object)


def test_different_values_have_different_fingerprints():
    arrays = [
        as_objects("ab", "c"), as_objects("a", "bc"), as_objects("ab", b"c"), as_objects("ab", None),
        as_objects("ab", "None"), as_objects("abc"), as_objects("ab", "c").reshape(2, 1), np.array(["ab", "c"]),
        DATA, DATA.T, DATA.astype(np.float32), DATA.reshape(-1), DATA[:, :1], np.array(3.0), np.array([3.0]),
    ]  # fmt: skip
    assert len({fingerprint([array], {}) for array in arrays}) == len(arrays)
    assert fingerprint([DATA], {}) != fingerprint([DATA], {"k": 1}) != fingerprint([DATA, DATA], {"k": 1})


def test_memory_layout_and_byte_order_do_not_matter():
    wide = np.arange(24.0).reshape(6, 4)
    for same in (np.asfortranarray(DATA), DATA.astype(">f8"), DATA.astype("<f8"), np.stack([DATA, DATA], 2)[:, :, 0]):
        assert fingerprint([same], {}) == fingerprint([DATA], {})
    assert fingerprint([wide[:, ::2]], {}) == fingerprint([wide[:, ::2].copy()], {})
    texts = as_objects("a", "b", "c", "d")
    assert fingerprint([texts[::2]], {}) == fingerprint([as_objects("a", "c")], {})


@pytest.mark.parametrize("value", [3, 1.5, float("nan"), ["a"], object()])
def test_objects_without_defined_bytes_are_refused(value, tmp_path):
    array = as_objects("a", "b")
    array[1] = value
    with pytest.raises(hr.InputError, match="only strings, bytes and None can be fingerprinted"):
        open_checkpoints(tmp_path / "work", [array], {})
    assert not (tmp_path / "work").exists()
    records = np.zeros(2, [("a", object), ("b", float)])
    with pytest.raises(hr.InputError, match="an array per field"):
        fingerprint([records], {})
