"""Places of a pool's rows in two dimensions, computed once from the embeddings and kept in a file.

The axes are the two directions along which a sample of the pool, scaled to length 1, varies most (its leading principal
components). So rows that are far apart on the map are different, but rows that are close need not be alike: what the
other directions tell is not shown. Both axes have one scale. Memory: one block of rows, and 4 bytes per row.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import machine, store
from hedgerow.errors import StoreError
from hedgerow.pool import Matrix
from hedgerow.progress import Progress

SIDE = 1 << 16  # places per axis
SAMPLE = 20_000  # rows that the axes are computed from: their error is small against what a map can show
BLOCK = 1 << 16  # rows at a time; fixed, because rounding may depend on it
OUTSIDE = 0.001  # the share of a sample beyond either end of the part of an axis that is scaled
MARGIN = 0.1  # of the map on each side, for rows beyond that part; those further out are put on the border
VERSION = 1  # of what is computed here: another one makes other files
Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class Layout:
    """x, y: where each row is, from 0 to SIDE - 1. share: the part of the sample's variance that the axes show."""

    x: Places
    y: Places
    share: float


@dataclass(frozen=True, eq=False)
class Projection:
    """From embeddings to places. center (d,), axes (d, 2); a place is (coordinate - low) * scale."""

    center: Floats
    axes: Floats
    low: Floats
    scale: float
    share: float

    def place(self, rows: npt.NDArray[Any]) -> Places:
        """The places of some embeddings, (2, m)."""
        wide = rows.astype(np.float64)
        found = (wide @ self.axes / measure_rows(wide) - self.center @ self.axes - self.low) * self.scale
        return np.ascontiguousarray(np.clip(np.rint(found), 0, SIDE - 1).astype(np.uint16).T)


def measure_rows(rows: Floats) -> Floats:
    """The length of each row, (m, 1); 1 for zeros, which have no direction."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return np.where(lengths > 0, lengths, 1.0)[:, None]


def find_projection(sample: npt.NDArray[Any]) -> Projection:
    """The projection onto the two leading principal components of a sample. Their signs are fixed."""
    wide = sample.astype(np.float64)
    unit = wide / measure_rows(wide)
    center = unit.mean(axis=0)
    values, vectors = np.linalg.eigh((unit - center).T @ (unit - center))
    axes = np.zeros((unit.shape[1], 2))
    leading = vectors[:, ::-1][:, :2]
    signs = np.sign(leading[np.abs(leading).argmax(axis=0), np.arange(leading.shape[1])])
    axes[:, : leading.shape[1]] = leading * signs
    ends = np.quantile((unit - center) @ axes, [OUTSIDE, 1 - OUTSIDE], axis=0)
    widest = float((ends[1] - ends[0]).max())
    scale = (1 - 2 * MARGIN) * (SIDE - 1) / widest if widest > 1e-9 else 0.0
    middle = ends.mean(axis=0)
    low = middle - 0.5 * (SIDE - 1) / scale if scale else middle
    total = float(values.sum())
    return Projection(center, axes, low, scale, float(values[-2:].sum()) / total if total > 0 else 1.0)


def make_layout(embeddings: Matrix, progress: Progress) -> Layout:
    """The places of all rows, in one pass over their embeddings."""
    rng = np.random.default_rng(0)
    some = np.sort(rng.choice(embeddings.n, min(SAMPLE, embeddings.n), replace=False))
    places = np.empty((2, embeddings.n), np.uint16)
    with machine.limit_blas():  # the sums must not depend on the number of cores
        projection = find_projection(embeddings.take(some))
        for start in range(0, embeddings.n, BLOCK):
            stop = min(start + BLOCK, embeddings.n)
            places[:, start:stop] = projection.place(embeddings.read(start, stop))
            progress("drawing the map", stop / embeddings.n)
    return Layout(places[0], places[1], projection.share)


# Files.


def name_layout(prints: list[str]) -> str:
    """The name of the file for embeddings with these fingerprints."""
    key = hashlib.sha256("\n".join([str(VERSION), *prints]).encode()).hexdigest()
    return f"map-{key[:24]}.npz"


def save_layout(layout: Layout, path: Path) -> None:
    """Keep a layout, and no other one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"the folder {path.parent} cannot be made: {error.strerror or error}") from error
    with store.atomic_write(path) as temporary:
        np.savez(temporary, x=layout.x, y=layout.y, share=np.float64(layout.share))
    for other in path.parent.glob("map-*.npz"):
        if other != path:
            other.unlink(missing_ok=True)


def load_layout(path: Path, n: int) -> Layout | None:
    """A layout of n rows; None if there is none, or the file is damaged: it can be made again."""
    try:
        with np.load(path, allow_pickle=False) as held:
            found = Layout(held["x"], held["y"], float(held["share"]))
    except store.UNREADABLE:
        return None
    fits = found.x.shape == found.y.shape == (n,) and found.x.dtype == found.y.dtype == np.uint16
    return found if fits else None
