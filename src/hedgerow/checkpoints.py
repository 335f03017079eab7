"""Finished phases of a long run, kept in a folder, so that an interrupted run goes on where it stopped.

A phase is a folder of arrays and a few numbers, written beside and renamed: it is whole or absent. The folder belongs
to one run, by a fingerprint of its data and settings; another run is refused. Without a folder nothing is kept.
"""

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import StoreError
from hedgerow.store import atomic_write, sync

SAMPLED_ROWS = 4096  # rows of the data that go into a fingerprint: enough to tell pools apart, quick on any size


@dataclass(frozen=True)
class Checkpoints:
    """Where phases are kept; nowhere if folder is None."""

    folder: Path | None

    def save(self, name: str, numbers: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Keeps a phase under a name, in place of an older one of that name."""
        if self.folder is None:
            return
        target, beside = self.folder / name, self.folder / f".{name}.tmp"
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir()
        for key, array in arrays.items():
            np.save(beside / f"{key}.npy", array)
            sync(beside / f"{key}.npy")
        (beside / "numbers.json").write_text(json.dumps(numbers))
        sync(beside / "numbers.json")
        sync(beside)
        self.drop(name)
        beside.rename(target)
        sync(self.folder)

    def load(self, name: str) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]] | None:
        """A phase as it was kept, None if it was not."""
        if self.folder is None or not (self.folder / name).is_dir():
            return None
        folder = self.folder / name
        numbers = json.loads((folder / "numbers.json").read_text())
        return numbers, {path.stem: np.load(path) for path in sorted(folder.glob("*.npy"))}

    def drop(self, name: str) -> None:
        """Forgets a phase."""
        if self.folder is not None and (self.folder / name).exists():
            shutil.rmtree(self.folder / name)


def open_checkpoints(folder: str | Path | None, data: npt.NDArray[Any], settings: dict[str, Any]) -> Checkpoints:
    """The folder of a run: made if absent, refused if it belongs to other data or other settings."""
    if folder is None:
        return Checkpoints(None)
    path = Path(folder)
    mark = {"fingerprint": fingerprint(data, settings), "settings": settings}
    path.mkdir(parents=True, exist_ok=True)
    owner = path / "run.json"
    if owner.exists():
        if json.loads(owner.read_text())["fingerprint"] != mark["fingerprint"]:
            raise StoreError(f"{path} holds the phases of another run (other data or settings): give a fresh workdir")
    elif any(path.iterdir()):
        raise StoreError(f"{path} is not empty and not a workdir of hedgerow: give a fresh or empty folder")
    else:
        with atomic_write(owner) as beside:
            beside.write_text(json.dumps(mark, indent=2))
    return Checkpoints(path)


def fingerprint(data: npt.NDArray[Any], settings: dict[str, Any]) -> str:
    """A hash of the settings, the shape and dtype of the data and a sample of its rows."""
    digest = hashlib.sha256(json.dumps([settings, list(data.shape), str(data.dtype)], sort_keys=True).encode())
    rows = np.unique(np.linspace(0, max(len(data) - 1, 0), min(len(data), SAMPLED_ROWS)).astype(np.int64))
    digest.update(np.ascontiguousarray(data[rows]).tobytes())
    return digest.hexdigest()
