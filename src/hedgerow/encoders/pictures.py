"""Image files as pixels: decoded with limits, turned upright, brought to one size.

The whole image is brought to a square, nothing is cut off. What is transparent becomes white.
"""

import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import InputError, MissingExtraError

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"}
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")
MOST_PIXELS = 100_000_000  # more is a decompression bomb, or no photo
WHITE = (255, 255, 255, 255)


def read_pixels(path: Path, side: int) -> npt.NDArray[np.uint8]:
    """The image as RGB (side, side, 3). Raises `InputError` with the reason if it cannot be read."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise MissingExtraError("reading images", "start") from None
    with _refuse_damage(Image), Image.open(path, formats=FORMATS) as opened:
        width, height = opened.size
        if width * height > MOST_PIXELS:
            raise InputError(f"it has {width:,} x {height:,} pixels; at most {MOST_PIXELS // 10**6} million are read")
        opened.draft("RGB", (2 * side, 2 * side))  # a JPEG is decoded at the smallest scale that suffices
        upright = ImageOps.exif_transpose(opened)
        plain = _as_rgb(Image, upright)
        return np.asarray(plain.resize((side, side), Image.Resampling.BILINEAR), np.uint8)


def _as_rgb(library: Any, image: Any) -> Any:
    if image.mode.startswith("I"):  # 16 bits of gray
        shades = np.clip(np.asarray(image).astype(np.int64) // 256, 0, 255).astype(np.uint8)
        return library.fromarray(shades).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        seen = image.convert("RGBA")
        return library.alpha_composite(library.new("RGBA", seen.size, WHITE), seen).convert("RGB")
    return image.convert("RGB")


@contextmanager
def _refuse_damage(library: Any) -> Iterator[None]:
    """What decoders raise for broken files, as one line; their warnings about odd ones are not shown."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError("there is no such file") from None
    except library.UnidentifiedImageError:
        raise InputError("it is not an image, or not of a format that is read") from None
    except library.DecompressionBombError:
        raise InputError(f"it has more than {MOST_PIXELS // 10**6} million pixels") from None
    except (OSError, ValueError, SyntaxError, EOFError, IndexError, struct.error) as error:
        raise InputError(f"it cannot be decoded: {str(error).partition(chr(10))[0]}") from None
