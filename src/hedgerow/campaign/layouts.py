"""Places of a pool's rows in two dimensions, computed once from the embeddings and kept in a file.

Rows, scaled to length 1, are placed by their neighbors (`placing.py`); of a wide pool the leading principal components
are used. Where there are too few different rows for that, the axes are the two directions along which they vary most.
Both axes have one scale. Memory: a sample, one block of rows, and 4 bytes per row.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import machine, store
from hedgerow.campaign import placing
from hedgerow.errors import StoreError
from hedgerow.pool import Matrix
from hedgerow.progress import Progress

SIDE = 1 << 16  # places per axis
SAMPLE = 20_000  # rows that all others are placed by: a map of a thousand pixels has no room for more
MOST_AXES = 256  # principal components that neighbors are found by
BLOCK = 1 << 13  # rows at a time; fixed, because rounding may depend on it
SEED = 0
OUTSIDE = 0.001  # the share of a sample beyond either end of the part of an axis that is scaled
MARGIN = 0.1  # of the map on each side, for rows beyond that part; those further out are put on the border
VERSION = 2  # of what is computed here: another one makes other files
NEIGHBORS, AXES = "neighbors", "axes"  # how rows are placed
Floats = npt.NDArray[np.float64]
Points = npt.NDArray[np.float32]
Places = npt.NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class Layout:
    """x, y: where each row is, from 0 to SIDE - 1. way: how they are placed.

    share: by neighbors, of the ten nearest of a landmark, how many are among its ten nearest on the map; by axes, the
    part of the sample's variance that they show.
    """

    x: Places
    y: Places
    way: str
    share: float


@dataclass(frozen=True, eq=False)
class Axes:
    """The leading principal components of a sample. center (d,), directions (d, k), the first ones first."""

    center: Floats
    directions: Floats
    share: float  # of the variance that the first two show

    def project(self, rows: npt.NDArray[Any]) -> Points:
        """Rows (m, d), scaled to length 1, along the axes, (m, k)."""
        wide = rows.astype(np.float64)
        found = wide @ self.directions / measure_rows(wide) - self.center @ self.directions
        return found.astype(np.float32)


@dataclass(frozen=True)
class Frame:
    """From coordinates to places: (coordinate - low) * scale."""

    low: tuple[float, float]
    scale: float

    def place(self, coordinates: npt.NDArray[Any]) -> Places:
        """Places (2, m) of coordinates (m, 2)."""
        found = (coordinates.astype(np.float64) - self.low) * self.scale
        return np.ascontiguousarray(np.clip(np.rint(found), 0, SIDE - 1).astype(np.uint16).T)


def measure_rows(rows: Floats) -> Floats:
    """The length of each row, (m, 1); 1 for zeros, which have no direction."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return np.where(lengths > 0, lengths, 1.0)[:, None]


def find_axes(sample: npt.NDArray[Any]) -> Axes:
    """At most `MOST_AXES` leading principal components of a sample, at least two. Their signs are fixed."""
    wide = sample.astype(np.float64)
    unit = wide / measure_rows(wide)
    center = unit.mean(axis=0)
    values, vectors = np.linalg.eigh((unit - center).T @ (unit - center))
    leading = vectors[:, ::-1][:, :MOST_AXES]
    signs = np.sign(leading[np.abs(leading).argmax(axis=0), np.arange(leading.shape[1])])
    directions = np.zeros((unit.shape[1], max(2, leading.shape[1])))
    directions[:, : leading.shape[1]] = leading * signs
    total = float(values.sum())
    return Axes(center, directions, float(values[-2:].sum()) / total if total > 0 else 1.0)


def find_frame(coordinates: npt.NDArray[Any]) -> Frame:
    """The frame in which nearly all of some coordinates (m, 2) are on the map, with one scale for both axes."""
    ends = np.quantile(coordinates.astype(np.float64), [OUTSIDE, 1 - OUTSIDE], axis=0)
    widest = float((ends[1] - ends[0]).max())
    scale = (1 - 2 * MARGIN) * (SIDE - 1) / widest if widest > 1e-7 else 0.0
    low = ends.mean(axis=0) - (0.5 * (SIDE - 1) / scale if scale else 0.0)
    return Frame((float(low[0]), float(low[1])), scale)


def make_layout(embeddings: Matrix, progress: Progress) -> Layout:
    """The places of all rows: a sample is placed first, and then all rows are read once."""
    rng = np.random.default_rng(SEED)
    some = np.sort(rng.choice(embeddings.n, min(SAMPLE, embeddings.n), replace=False))
    with machine.limit_blas():  # the sums must not depend on the number of cores
        sample = embeddings.take(some)
        axes = find_axes(sample)
        distinct, which = np.unique(sample, axis=0, return_inverse=True)
        if len(distinct) < placing.LEAST:
            return _place_by_axes(embeddings, axes, axes.project(sample), progress)
        return _place_by_neighbors(embeddings, axes, axes.project(distinct), which.ravel(), progress)


def _place_by_axes(embeddings: Matrix, axes: Axes, sample: Points, progress: Progress) -> Layout:
    frame = find_frame(sample[:, :2])
    x, y = _place_all(embeddings, lambda rows: frame.place(axes.project(rows)[:, :2]), progress)
    return Layout(x, y, AXES, axes.share)


def _place_by_neighbors(
    embeddings: Matrix, axes: Axes, points: Points, which: npt.NDArray[np.int64], progress: Progress
) -> Layout:
    """which: the point of each row of the sample."""
    is_whole = len(which) == embeddings.n
    part = 1.0 if is_whole else 0.3  # of the work, which is a guess

    def report(share: float) -> None:
        progress("drawing the map", part * share)

    found, share = placing.place_landmarks(points, points[:, :2].astype(np.float64), SEED, report)
    if is_whole:
        x, y = find_frame(found).place(found[which])
        return Layout(x, y, NEIGHBORS, share)
    landmarks = placing.Landmarks.of(points, found, SEED)
    frame = find_frame(landmarks.place(points))

    def place(rows: npt.NDArray[Any]) -> Places:
        return frame.place(landmarks.place(axes.project(rows)))

    x, y = _place_all(embeddings, place, lambda phase, done: progress(phase, part + (1 - part) * done))
    return Layout(x, y, NEIGHBORS, share)


def _place_all(embeddings: Matrix, place: Callable[[npt.NDArray[Any]], Places], progress: Progress) -> Places:
    """The places of all rows, (2, n), block by block."""
    places = np.empty((2, embeddings.n), np.uint16)
    for start in range(0, embeddings.n, BLOCK):
        stop = min(start + BLOCK, embeddings.n)
        places[:, start:stop] = place(embeddings.read(start, stop))
        progress("drawing the map", stop / embeddings.n)
    return places


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
        np.savez(temporary, x=layout.x, y=layout.y, way=np.array(layout.way), share=np.float64(layout.share))
    for other in path.parent.glob("map-*.npz"):
        if other != path:
            other.unlink(missing_ok=True)


def load_layout(path: Path, n: int) -> Layout | None:
    """A layout of n rows; None if there is none, or the file is damaged: it can be made again."""
    try:
        with np.load(path, allow_pickle=False) as held:
            found = Layout(held["x"], held["y"], str(held["way"]), float(held["share"]))
    except store.UNREADABLE:
        return None
    fits = found.x.shape == found.y.shape == (n,) and found.x.dtype == found.y.dtype == np.uint16
    return found if fits else None
