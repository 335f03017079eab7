"""Small pools that make several tasks, for tests of clustering on engines."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import hedgerow as hr
from hedgerow import shards
from hedgerow.clustering import layout, sharding, workers

N, WIDTH = 5_000, 16


def shrink_tasks(patch: pytest.MonkeyPatch) -> None:
    """Tasks, cells and ranges so small that some thousand rows make several of each, also in later rounds."""
    patch.setattr(workers, "LEAST_ROWS", 250)
    patch.setattr(layout, "FEW", 200)
    patch.setattr(sharding, "CELL", 25)
    patch.setattr(shards, "RANGE_BYTES", 1 << 18)


def draw_groups(rng: np.random.Generator, n: int, width: int = WIDTH) -> npt.NDArray[np.float64]:
    """Points in groups of 20 on average."""
    centers = rng.normal(size=(n // 20, width))
    return np.asarray(centers[rng.integers(0, len(centers), n)] + 0.4 * rng.normal(size=(n, width)))


def make_points(dtype: Any = np.float32, copies: int = 100) -> Any:
    """A pool of N points, some of them copies of others."""
    points = draw_groups(np.random.default_rng(0), N)
    points[:copies] = points[-copies:]
    return points.astype(dtype)


def assert_same(found: hr.Clusters, expected: hr.Clusters) -> None:
    """To the last bit: labels, tree and centroids."""
    assert found.labels.tobytes() == expected.labels.tobytes()
    assert found.threshold == expected.threshold
    assert found.tree is not None
    assert expected.tree is not None
    assert found.tree.merges.tobytes() == expected.tree.merges.tobytes()
    assert found.tree.heights.tobytes() == expected.tree.heights.tobytes()
    assert found.centroids is not None
    assert expected.centroids is not None
    assert found.centroids.means.tobytes() == expected.centroids.means.tobytes()
    assert found.centroids.spread.tobytes() == expected.centroids.spread.tobytes()
