"""Finished phases of a long run, kept in a folder, so that an interrupted run goes on where it stopped.

A phase is one file of arrays and a few numbers, written beside and renamed: it is whole or absent. The folder belongs
to one run, by a fingerprint of its data, its settings and the version; another run is refused. Without a folder nothing
is kept.
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

from hedgerow.errors import StoreError
from hedgerow.store.files import UNREADABLE, atomic_write, is_temporary

BLOCK_BYTES = 1 << 26  # read at a time for a fingerprint
NUMBERS = "numbers"  # among the arrays of a file: the numbers, in JSON


@dataclass(frozen=True)
class Checkpoints:
    """Where phases are kept; nowhere if folder is None. `prefix` keeps the phases of two parts of a run apart."""

    folder: Path | None
    prefix: str = ""

    def within(self, part: str) -> "Checkpoints":
        """The same folder for a part of the run with phases of its own."""
        return replace(self, prefix=f"{self.prefix}{part}-")

    def save(self, name: str, numbers: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Keeps a phase under a name, in place of an older one of that name."""
        path = self._name(name)
        if path is not None:
            with atomic_write(path) as beside:
                held: dict[str, Any] = {NUMBERS: np.array(json.dumps(numbers)), **arrays}
                np.savez(beside, **held)

    def load(self, name: str) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]] | None:
        """A phase as it was kept, None if it was not."""
        path = self._name(name)
        if path is None or not path.exists():
            return None
        with refuse_damage(path), path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            arrays = {key: held[key] for key in held.files}
            return json.loads(str(arrays.pop(NUMBERS))), arrays

    def drop(self, name: str) -> None:
        """Forgets a phase."""
        path = self._name(name)
        if path is not None:
            path.unlink(missing_ok=True)

    def _name(self, name: str) -> Path | None:
        return None if self.folder is None else self.folder / f"{self.prefix}{name}.npz"


def open_checkpoints(
    folder: str | Path | None, data: Sequence[npt.NDArray[Any]], settings: dict[str, Any]
) -> Checkpoints:
    """The folder of a run: made if absent, refused if it belongs to other data or other settings."""
    if folder is None:
        return Checkpoints(None)
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise StoreError(f"{path} is not a folder: give a fresh or empty folder")
    owner = path / "run.json"
    # A first write that was killed leaves its temporary.
    if not owner.exists() and path.exists() and not all(is_temporary(held, owner) for held in path.iterdir()):
        raise StoreError(f"{path} is not empty and not a workdir of hedgerow: give a fresh or empty folder")
    mark = {"fingerprint": fingerprint(data, settings), "settings": settings}
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"the folder {path} cannot be made: {error.strerror}") from error
    if not owner.exists():
        with atomic_write(owner) as beside:
            beside.write_text(json.dumps(mark, indent=2))
    with refuse_damage(owner):
        held = json.loads(owner.read_text())["fingerprint"]
    if held != mark["fingerprint"]:
        raise StoreError(f"{path} belongs to another run (other data or settings): give a fresh folder")
    return Checkpoints(path)


def fingerprint(data: Sequence[npt.NDArray[Any]], settings: dict[str, Any]) -> str:
    """A hash of the settings and of the arrays, every byte of them: one row repaired makes another pool."""
    told = [settings, [[list(array.shape), str(array.dtype)] for array in data]]
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
    for array in data:
        block_rows = max(1, BLOCK_BYTES // max(1, array.nbytes // max(1, len(array))))
        for start in range(0, len(array), block_rows):
            digest.update(array[start : start + block_rows].tobytes())
    return digest.hexdigest()


@contextmanager
def refuse_damage(path: Path) -> Iterator[None]:
    """What cannot be read was not written by this code as it stands there."""
    try:
        yield
    except UNREADABLE as error:
        raise StoreError(f"{path} is damaged ({error}): give a fresh folder, or remove this one") from error
