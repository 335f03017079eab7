"""Frozen features: made once, kept under the images' own mark, whole or absent."""

import sys
from pathlib import Path

import numpy as np
import pytest

from hedgerow.errors import MissingExtraError
from hedgerow.experiments.data import features

IMAGES = np.random.default_rng(0).integers(0, 256, (3, 3, 32, 32), np.uint8)


def test_features_are_made_once_and_mapped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")  # absent in `make test-lowest`
    phases: list[str] = []
    made = features.load_features(
        IMAGES, "mine", side=32, cache=tmp_path / "cache", progress=lambda phase, _: phases.append(phase)
    )
    assert made.shape == (3, features.WIDTH)
    assert made.dtype == np.float32
    assert np.isfinite(made).all()
    assert phases == ["features of 3 images"]
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(features, "write_features", None)  # a second time nothing is made
    again = features.load_features(IMAGES, "mine", side=32, cache=tmp_path / "cache")
    np.testing.assert_array_equal(made, again)


def test_other_images_and_sizes_have_files_of_their_own(tmp_path: Path) -> None:
    names = {
        features.name_features(images, "mine", side=side, cache=tmp_path)
        for images, side in ((IMAGES, 32), (IMAGES, 96), (IMAGES + 1, 32))
    }
    assert len(names) == 3


def test_without_the_network_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(MissingExtraError, match=r"pip install .\.\[experiments\]"):
        features.load_features(IMAGES, "mine", side=32, cache=tmp_path)
