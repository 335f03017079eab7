"""Contents of rows as a browser may show them: files under named folders, images within limits, everything else inert.

A row is named by its number, never by a path. Its uri is resolved, links included, and must end under one of the roots.
Images are decoded within limits and written anew, so that what a browser gets is an image and nothing else; text, SVG
and HTML files are shown as text. Remote uris are never opened here: a browser loads them, from hosts that were named.
"""

import io
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from hedgerow.errors import InputError

IMAGE, AUDIO, TEXT, NOTHING, UNKNOWN = "image", "audio", "text", "nothing", "unknown"
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")  # those that are decoded; others have long histories of faults
SUFFIXES = {
    **dict.fromkeys((".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"), IMAGE),
    **dict.fromkeys((".csv", ".htm", ".html", ".json", ".jsonl", ".md", ".svg", ".text", ".tsv", ".txt", ".xml"), TEXT),
}
SOUNDS = {
    ".aac": "audio/aac", ".flac": "audio/flac", ".m4a": "audio/mp4", ".mp3": "audio/mpeg", ".oga": "audio/ogg",
    ".ogg": "audio/ogg", ".opus": "audio/ogg", ".wav": "audio/wav", ".weba": "audio/webm",
}  # fmt: skip
MOST_PIXELS = 64_000_000  # below the point from which on Pillow warns; 256 MB when decoded
MOST_BYTES = 100_000_000  # of an image file
MOST_TEXT = 100_000  # characters that are shown
LARGE, SMALL = 1600, 256  # pixels of the longer side: to label, and in grids
TINY = 256 * 256  # pixels up to which an image is kept exactly


class UnfitError(Exception):
    """A content that cannot be shown, and why."""


@dataclass(frozen=True)
class Picture:
    """An encoded image."""

    body: bytes
    type: str


@dataclass(frozen=True)
class Media:
    """Where contents may come from. roots: folders, resolved; hosts: from which a browser may load remote ones."""

    roots: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()

    @classmethod
    def of(cls, roots: Sequence[str | Path], hosts: Sequence[str] = ()) -> "Media":
        """The same from names, checked."""
        for root in roots:
            if not Path(root).is_dir():
                raise InputError(f"{root} is not a folder: name the folder that holds the examples' files")
        return cls(tuple(Path(root).resolve() for root in roots), tuple(hosts))

    def find_kind(self, uri: str) -> str:
        """What a page should expect: "image", "audio", "text", "nothing" or "unknown". Nothing is opened."""
        if not uri:
            return NOTHING
        suffix = Path(urlsplit(uri).path if is_remote(uri) else uri).suffix.lower()
        return AUDIO if suffix in SOUNDS else SUFFIXES.get(suffix, UNKNOWN)

    def find_remote(self, uri: str) -> str | None:
        """The address that a browser may load by itself; None if there is none, or the host was not named."""
        parts = urlsplit(uri) if is_remote(uri) else None
        return uri if parts is not None and parts.scheme == "https" and parts.hostname in self.hosts else None

    def find_file(self, uri: str) -> Path:
        """The file that a uri names, if it is a plain file under one of the roots."""
        if is_remote(uri):
            raise UnfitError("it is on another machine: name its host with --media-host")
        name = unquote(urlsplit(uri).path) if uri.startswith("file:") else uri
        if not self.roots:
            raise UnfitError("no folder of files was named: start the desk with --root FOLDER")
        for root in self.roots:
            found = _resolve(root, name)
            if found is not None:
                return found
        raise UnfitError("there is no such file under the folders that were named with --root")


def is_remote(uri: str) -> bool:
    """Whether a uri names something on another machine."""
    return "://" in uri[:16] and not uri.startswith("file:")


def _resolve(root: Path, name: str) -> Path | None:
    try:
        path = (root / name).resolve(strict=True)
        inside = path.is_relative_to(root)
        return path if inside and stat.S_ISREG(path.stat().st_mode) else None
    except (OSError, ValueError, RuntimeError):  # not there, a NUL in its name, links in a circle
        return None


def read_text(path: Path) -> str:
    """The beginning of a file as text, whatever it holds."""
    with _open(path) as file:
        return cut_text(file.read(4 * MOST_TEXT).decode(errors="replace"))


def cut_text(text: str) -> str:
    """A text, cut where it is long."""
    if len(text) <= MOST_TEXT:
        return text
    return f"{text[:MOST_TEXT]}\n[cut here: only the first {MOST_TEXT:,} characters are shown]"


def read_picture(path: Path, side: int) -> Picture:
    """An image file, decoded within limits and encoded anew, its longer side at most `side` pixels."""
    with _open(path) as file:
        if os.fstat(file.fileno()).st_size > MOST_BYTES:
            raise UnfitError(f"the image file has more than {MOST_BYTES // 1_000_000} MB")
        return _shrink(file, side)


def _shrink(file: io.BufferedReader, side: int) -> Picture:
    from PIL import Image, ImageOps

    try:
        with Image.open(file, formats=FORMATS) as image:
            width, height = image.size
            if width * height > MOST_PIXELS:
                raise UnfitError(
                    f"the image has {width:,} x {height:,} pixels; {MOST_PIXELS // 1_000_000} million are shown"
                )
            image.draft("RGB", (side, side))  # JPEG: decoded at a fraction of its size
            upright = ImageOps.exif_transpose(image)
            upright.thumbnail((side, side))
            return _encode(upright)
    except UnfitError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise UnfitError("the image has too many pixels") from None
    except Exception as error:  # a broken file makes Pillow raise nearly anything
        raise UnfitError(f"the image cannot be read ({type(error).__name__})") from None


def _encode(image: Any) -> Picture:
    clear = "A" in image.getbands() or "transparency" in image.info
    if image.mode not in ("RGB", "RGBA"):
        image = image.convert("RGBA" if clear else "RGB")
    out = io.BytesIO()
    if clear or image.width * image.height <= TINY:
        image.save(out, "PNG")
        return Picture(out.getvalue(), "image/png")
    image.save(out, "JPEG", quality=90)
    return Picture(out.getvalue(), "image/jpeg")


def _open(path: Path) -> io.BufferedReader:
    """A file that was resolved before; refused if it has become a link or a device since."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise UnfitError(f"the file cannot be opened ({error.strerror})") from None
    file = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise UnfitError("it is not a file")
    return file
