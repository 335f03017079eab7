"""Checkpoints: the finished phases of a long run, saved in a folder, so that an interrupted run can resume.

A phase is one file with arrays and a few numbers, written atomically: it is complete or absent. The folder belongs to
one run, identified by a fingerprint of its data, settings and version; any other run is refused. Without a folder
nothing is saved.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import InputError, StoreError
from hedgerow.store.files import UNREADABLE, atomic_write, is_temporary

BLOCK_BYTES = 1 << 26  # read at a time for a fingerprint
RUN = "run.json"  # what a folder belongs to
NUMBERS = "numbers"  # the entry of a file that holds the numbers, as JSON


@dataclass(frozen=True)
class Checkpoints:
    """Where phases are saved; nowhere if folder is None. `prefix` separates the phases of two parts of a run."""

    folder: Path | None
    prefix: str = ""

    def within(self, part: str) -> "Checkpoints":
        """The same folder, for a part of the run that has its own phases."""
        return replace(self, prefix=f"{self.prefix}{part}-")

    def save(self, name: str, numbers: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Save a phase under a name, replacing an earlier one with that name."""
        path = self._name(name)
        if path is not None:
            with atomic_write(path) as beside:
                held: dict[str, Any] = {NUMBERS: np.array(json.dumps(numbers)), **arrays}
                np.savez(beside, **held)

    def load(self, name: str) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]] | None:
        """The phase saved under a name, None if there is none."""
        path = self._name(name)
        if path is None or not path.exists():
            return None
        with refuse_damage(path), path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            arrays = {key: held[key] for key in held.files}
            return json.loads(str(arrays.pop(NUMBERS))), arrays

    def drop(self, name: str) -> None:
        """Delete a phase."""
        path = self._name(name)
        if path is not None:
            path.unlink(missing_ok=True)

    def name_within(self, path: str) -> str:
        """A path inside the folder by its name there, so that the folder can be moved; an empty one stays empty."""
        return path if self.folder is None or not path else str(Path(path).relative_to(self.folder.absolute()))

    def find_within(self, name: str) -> str:
        """The path that `name_within` was given, wherever the folder is now."""
        return name if self.folder is None or not name else str(self.folder.absolute() / name)

    def _name(self, name: str) -> Path | None:
        return None if self.folder is None else self.folder / f"{self.prefix}{name}.npz"


def open_checkpoints(
    folder: str | Path | None, data: Sequence[npt.NDArray[Any]], settings: dict[str, Any]
) -> Checkpoints:
    """Open the folder of a run: created if absent, refused if it belongs to other data or settings."""
    if folder is None:
        return Checkpoints(None)
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise StoreError(f"{path} is not a folder: use a new or empty folder")
    owner = path / RUN
    # A first write that was killed leaves its temporary file.
    if not owner.exists() and path.exists() and not all(is_temporary(held, owner) for held in path.iterdir()):
        raise StoreError(f"{path} is not empty and is not a workdir of hedgerow: use a new or empty folder")
    mark = {"fingerprint": fingerprint(data, settings), "settings": settings}
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"the folder {path} cannot be created: {error.strerror}") from error
    if not owner.exists():
        with atomic_write(owner) as beside:
            beside.write_text(json.dumps(mark, indent=2))
    if _is_other(owner, mark):
        raise StoreError(f"{path} belongs to another run (other data or settings): use a new folder")
    return Checkpoints(path)


def holds_other_run(folder: Path, data: Sequence[npt.NDArray[Any]], settings: dict[str, Any]) -> bool:
    """Whether a folder is that of a run with other data or settings."""
    owner = folder / RUN
    return owner.exists() and _is_other(owner, {"fingerprint": fingerprint(data, settings)})


def _is_other(owner: Path, mark: dict[str, Any]) -> bool:
    with refuse_damage(owner):
        return bool(json.loads(owner.read_text())["fingerprint"] != mark["fingerprint"])


def fingerprint(data: Sequence[npt.NDArray[Any]], settings: dict[str, Any]) -> str:
    """A SHA-256 of the settings and of every value of the arrays, with their shapes and dtypes.

    It depends on values alone: not on memory layout, byte order, or where the strings of an object array are in memory.
    An object array may hold strings, bytes and None; anything else has no defined bytes and is refused.
    """
    shapes = [[list(array.shape), _name_dtype(array.dtype)] for array in data]
    digest = hashlib.sha256(json.dumps([settings, shapes], sort_keys=True).encode())
    for array in data:
        rows = array.reshape(1) if array.ndim == 0 else array
        block_rows = max(1, BLOCK_BYTES // max(1, rows.nbytes // max(1, len(rows))))
        for start in range(0, len(rows), block_rows):
            digest.update(_encode(rows[start : start + block_rows]))
    return digest.hexdigest()


def _name_dtype(dtype: np.dtype[Any]) -> str:
    """The same name for both byte orders; "T" is numpy's dtype for strings of any length, which has no byte order."""
    return str(dtype if dtype.kind == "T" else dtype.newbyteorder("="))


def _encode(block: npt.NDArray[Any]) -> bytes:
    """The values of a block as bytes, in C order, numbers in little-endian order."""
    if block.dtype.hasobject and block.dtype.names is None:
        return b"".join(map(_encode_object, block.ravel().tolist()))
    if block.dtype.hasobject:
        raise InputError(
            f"an array of records with objects ({block.dtype}) has no fingerprint: pass an array per field"
        )
    return block.astype(block.dtype.newbyteorder("<"), copy=False).tobytes()


def _encode_object(value: Any) -> bytes:
    """One string, bytes or None: its kind, its length and its bytes, so that no two lists of values look the same."""
    if value is None:
        return b"n"
    if isinstance(value, str):
        kind, held = b"s", value.encode("utf-8", "surrogatepass")
    elif isinstance(value, bytes):
        kind, held = b"b", value
    else:
        raise InputError(
            f"an object array holds {value!r} ({type(value).__name__}); only strings, bytes and None can be "
            "fingerprinted: convert the array to strings or to numbers"
        )
    return kind + len(held).to_bytes(8, "little") + held


@contextmanager
def refuse_damage(path: Path) -> Iterator[None]:
    """Report a file of ours that cannot be read as damaged."""
    try:
        yield
    except UNREADABLE as error:
        raise StoreError(f"{path} is damaged ({error}): use a new folder, or delete this one") from error
