"""Linkage on shards: the exact tree where neighbors are exact, the same bits on every engine, whatever is killed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.spatial.distance import cdist

import engine_tasks
import hedgerow as hr
import killing
from clusterings import N, assert_same, draw_groups, make_points
from hedgerow.clustering import cells, growth, layout, sharding
from hedgerow.clustering.dendrogram import Log, build_tree, join_logs
from hedgerow.clustering.growth import ROUNDING
from hedgerow.clustering.merges import Active, Limits, merge_round
from hedgerow.clustering.neighbors import Neighbors, find_neighbors
from hedgerow.clustering.parts import Parts, save_columns
from hedgerow.clustering.vectors import average_groups, open_vectors
from hedgerow.clustering.workers import open_workers
from hedgerow.engines import Engine
from hedgerow.engines.logs import read_log
from hedgerow.engines.serial import Serial
from hedgerow.errors import HedgerowWarning, InputError, StoreError
from hedgerow.machine import team as use_team
from hedgerow.pool import open_matrix
from invariant import check_cut

pytestmark = pytest.mark.usefixtures("small_tasks")
ROWS = 600


def draw_noise(rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
    return rng.normal(size=(n, 16))


def draw_copies(rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
    points = draw_groups(rng, n)
    return points[rng.integers(0, n, n)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pool") / "pool.npy"
    np.save(made, make_points(np.float16, copies=50))
    return made


GIVEN: dict[str, Any] = {"method": "certified", "average_size": 8, "shard_rows": ROWS}


@pytest.fixture(scope="module")
def expected(path: Path, small_tasks: None) -> hr.Clusters:
    return hr.cluster(path, **GIVEN)


def compare_all(folder: Path, files: Any, search: Any) -> npt.NDArray[np.int64]:
    """All pairs of cells, so that neighbors are exact."""
    return np.column_stack(np.triu_indices(files.edges[-1], 1))


@pytest.mark.parametrize(
    ("draw", "metric"),
    [(draw_groups, "cosine"), (draw_groups, "sqeuclidean"), (draw_noise, "cosine"), (draw_copies, "sqeuclidean")],
)
def test_exact_neighbors_give_the_exact_tree(
    draw: Callable[..., Any], metric: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every cut that float32 resolves has the same clusters, although no shard sees more than its own merges."""
    monkeypatch.setattr(sharding, "choose_pairs", compare_all)
    points = draw(np.random.default_rng(5), 700)
    np.save(tmp_path / "pool.npy", points)
    tree = hr.linkage(points, metric=metric)
    heights = tree.heights
    for share in (0.4, 0.8):
        at = int(share * len(heights))
        while heights[at + 1] - heights[at] < 1e-5 * heights[-1]:
            at += 1
        threshold = float(heights[at] + heights[at + 1]) / 2
        found = hr.cluster(
            tmp_path / "pool.npy", method="certified", metric=metric, threshold=threshold, slack=1, shard_rows=120,
            workdir=tmp_path / f"{share}",
        )  # fmt: skip
        np.testing.assert_array_equal(found.labels, tree.cut(threshold=threshold))
        assert found.tree is not None
        np.testing.assert_allclose(found.tree.heights, heights[: at + 1], atol=2e-6 * heights[-1])
        tasks = [entry["task"] for entry in read_log(tmp_path / f"{share}") if "engine" in entry]
        assert tasks.count("merge_shard") >= 2


@pytest.mark.parametrize("parts", [2, 16])
@pytest.mark.parametrize("draw", [draw_groups, draw_noise])
def test_shards_that_know_nothing_of_space_merge_as_one(draw: Callable[..., Any], parts: int) -> None:
    """Clusters are dealt to shards at random, each merges with all others standing still: the exact tree."""
    rng = np.random.default_rng(2)
    points = draw(rng, 800)
    n, logs, k = len(points), [], 7
    with use_team(1) as team:
        vectors = open_vectors(points, "cosine", np.float64, team)
        means = vectors.prepare(points)
        active = Active(np.arange(n), means, vectors.half(means), np.ones(n, np.int64))
        limits = Limits(np.inf, 1.0, 0.5 * ROUNDING[np.float64])
        while len(active) > 1:
            found = find_neighbors(active.means, active.half, k, team)
            shard = rng.integers(0, parts, len(active)) if len(active) > 20 else np.zeros(len(active), int)
            left, made = [], 0
            for part in np.unique(shard):
                order = np.argsort(shard != part, kind="stable")  # its own come first
                own = (0, int((shard == part).sum()))
                merged = merge_round(active.take(order, team), relist(found, order, own[1]), limits, team, own)
                left.append(merged.active)
                logs.append(merged.log)
                made += len(merged.log)
            active = Active(*(np.concatenate([getattr(one, name) for one in left]) for name in sharding.CLUSTER))
            k = k if made else 2 * k
    expected = hr.linkage(points)
    np.testing.assert_allclose(build_tree(n, join_logs(logs)).heights, expected.heights, atol=1e-12)
    tree = build_tree(n, join_logs(logs))
    np.testing.assert_array_equal(tree.cut(average_size=5), expected.cut(average_size=5))


def relist(found: Neighbors, order: npt.NDArray[np.int64], own: int) -> Neighbors:
    """The lists of clusters in another order; only the first `own` of them have one."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    ids, gaps = found.ids[order], found.gaps[order]
    ids = np.where(ids >= 0, place[ids], -1).astype(np.int32)
    ids[own:], gaps[own:] = -1, np.inf
    return Neighbors(ids, gaps, found.reach)


@pytest.mark.parametrize("name", ["processes:2", "dask:2", "ray:2"])
def test_every_engine_has_the_same_bits(
    name: str, engines: Callable[[str], Engine], path: Path, expected: hr.Clusters, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    assert_same(hr.cluster(path, **GIVEN, engine=engines(name), workdir=work), expected)
    assert {held.name for held in (work / "shards").iterdir()} == {"base"}
    rounds = [entry for entry in read_log(work) if entry.get("task") == "merge_shard" and "engine" in entry]
    assert len(rounds) > 3
    assert rounds[0]["jobs"] >= 5


def test_clusters_are_as_good_as_without_shards(path: Path, expected: hr.Clusters) -> None:
    whole = hr.cluster(path, method="certified", average_size=8)
    assert expected.n_clusters == whole.n_clusters == N // 8
    assert abs(expected.threshold / whole.threshold - 1) < 0.01
    pairs = np.unique(np.column_stack([expected.labels, whole.labels]), axis=0)
    assert len(pairs) < 1.15 * whole.n_clusters  # most clusters are the same


def test_a_tree_in_shards_misses_no_more_than_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What passes find is what the rounds before them missed. As many rows in a cell as in a large pool."""
    monkeypatch.setattr(sharding, "CELL", layout.CELL)
    rng, n, width = np.random.default_rng(0), 60_000, 32
    classes = rng.normal(size=(50, width))
    groups = classes[rng.integers(0, len(classes), n // 25)] + 0.55 * rng.normal(size=(n // 25, width))
    points = (groups[rng.integers(0, len(groups), n)] + 0.45 * rng.normal(size=(n, width))).astype(np.float16)
    np.save(tmp_path / "pool.npy", points)
    found: list[list[int]] = []

    def note(state: growth.State, n: int) -> bool:
        found[-1].append(len(state.log) - state.before)
        return is_last(state, n)

    is_last = growth.is_last
    monkeypatch.setattr(growth, "is_last", note)
    for rows in (None, n // 10, n // 20):
        found.append([])
        made = hr.cluster(tmp_path / "pool.npy", method="certified", average_size=10, shard_rows=rows, centroids=False)
        check = check_cut(points, made.labels, made.threshold)
        assert check["violations"] <= 0.001 * check["sampled"]
    alone, *sharded = found
    for passes in sharded:
        assert passes[0] <= alone[0]
        assert len(passes) <= len(alone)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("near", [2, 5, 100])
def test_rows_look_at_the_cells_of_several_coarse_centers(near: int, dtype: Any) -> None:
    """Also with a coarse center that has no cells, and in several blocks."""
    rng = np.random.default_rng(near)
    rows = rng.normal(size=(2_500, 8)).astype(dtype)
    coarse_of = np.sort(rng.choice(np.delete(np.arange(20), 7), 120))
    coarse, fine = rng.normal(size=(20, 8)).astype(dtype), rng.normal(size=(120, 8)).astype(dtype)
    found = cells.Centers(coarse, fine, coarse_of).assign(rows, near)
    to_coarse = ((rows[:, None].astype(np.float64) - coarse) ** 2).sum(axis=2)
    chosen = np.argsort(to_coarse, axis=1)[:, :near]
    allowed = (coarse_of == chosen[:, :, None]).any(axis=1)
    gaps = np.where(allowed, ((rows[:, None].astype(np.float64) - fine) ** 2).sum(axis=2), np.inf)
    np.testing.assert_array_equal(found, gaps.argmin(axis=1))


@pytest.mark.parametrize(
    ("merged", "found", "last"),
    [
        (0, None, True),
        (10, None, True),  # 0.1 % of 10,000 clusters: a tenth of that is expected to be left
        (11, None, False),
        (10, 0.01, True),  # a tenth of the pass before: 1.1 merges are left
        (10, 0.002, False),  # half of it: ten merges are left, and 20 clusters have another too close
        (4, 0.0008, True),
        (4, 0.0004, False),  # passes find no less than before
        (4, 0.0003, False),
    ],
)
def test_passes_end_when_little_is_left_by_the_rate_at_which_they_find_less(
    merged: int, found: float | None, last: bool
) -> None:
    n, before = 100_000, 90_000
    merges = np.zeros(before + merged, np.int64)
    log = Log(merges, merges, merges.astype(np.float64))
    search = layout.Search(15, 9.4, False, 0)
    none = np.zeros(0, np.int64)
    empty = Active(none, np.zeros((0, 2), np.float32), np.zeros(0, np.float32), none)
    state = growth.State(empty, log, search, 0.5, 9, 3, before, found, 0, none)
    assert growth.is_last(state, n) == last


def test_passes_that_do_not_end_are_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "MOST_PASSES", 1)
    with pytest.warns(HedgerowWarning, match=r"pass 1 still merged .*% of them"):
        hr.cluster(path, **GIVEN)


def test_one_shard_is_none(path: Path) -> None:
    whole = hr.cluster(path, method="certified", average_size=8)
    assert_same(hr.cluster(path, **{**GIVEN, "shard_rows": N}), whole)


def test_several_files_are_one_pool(path: Path, expected: hr.Clusters, tmp_path: Path) -> None:
    points = np.load(path)
    for part, (start, stop) in enumerate([(0, 100), (100, 3000), (3000, N)]):
        np.save(tmp_path / f"{part}.npy", points[start:stop])
    assert_same(hr.cluster(tmp_path, **GIVEN), expected)


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_points_at_the_threshold_merge(metric: str, tmp_path: Path) -> None:
    """Pairs at exactly the threshold, which float32 cannot tell from others, are settled in float64."""
    rng = np.random.default_rng(3)
    corners = np.eye(16)[rng.integers(0, 16, 600)] * rng.choice([-1, 1], 600)[:, None]
    points = np.where(rng.random((600, 1)) < 0.5, corners, corners + np.roll(corners, 1, axis=1))
    np.save(tmp_path / "pool.npy", points)
    threshold = 1 - 0.5**0.5 if metric == "cosine" else 1.0
    given: dict[str, Any] = {"metric": metric, "threshold": threshold, "slack": 1, "shard_rows": 40}
    found = hr.cluster(tmp_path / "pool.npy", method="certified", **given)
    # Which of the ties merge decides how many clusters are left, so what holds for every order is tested.
    apart = average_between(found.labels, cdist(points, points, metric))
    within = np.diag(apart).copy()
    np.fill_diagonal(apart, np.inf)
    assert apart.min() > threshold * (1 + 1e-9)
    assert within.max() <= threshold * (1 + 1e-9)
    assert found.n_clusters < len(np.unique(points, axis=0))


def average_between(labels: Any, distances: Any) -> Any:
    """The average distance between every two clusters, and within each of them, each row with itself included."""
    members = np.eye(labels.max() + 1)[labels]
    members /= members.sum(axis=0)
    return members.T @ distances @ members


@pytest.mark.parametrize("name", ["processes:2", "dask:2", "ray:2"])
def test_a_killed_worker_changes_nothing(
    name: str,
    engines: Callable[[str], Engine],
    path: Path,
    expected: hr.Clusters,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sharding, "merge_shard", engine_tasks.kill_at_first_merge)
    assert_same(hr.cluster(path, **GIVEN, engine=engines(name), workdir=tmp_path / "work"), expected)
    assert (tmp_path / "work" / "killed").exists()


def test_a_killed_driver_is_resumed_on_other_engines(
    engines: Callable[[str], Engine], path: Path, expected: hr.Clusters, tmp_path: Path
) -> None:
    """While rows are sorted, while cells are paired, and in a later round."""
    work = tmp_path / "work"
    for engine, kill_at in (("serial", 2), ("processes:1", 3), ("serial", 8)):
        killing.kill_driver(path, work, engine, kill_at, f"{{'shard_rows': {ROWS}}}")
    assert_same(hr.cluster(path, **GIVEN, engine=engines("processes:2"), workdir=work), expected)
    assert_same(hr.cluster(path, **GIVEN, workdir=work), expected)  # from the state at the end


def test_a_workdir_of_another_run_is_refused(path: Path, tmp_path: Path) -> None:
    hr.cluster(path, **GIVEN, workdir=tmp_path / "work")
    for other in ({"shard_rows": ROWS + 1}, {"average_size": 9}):
        with pytest.raises(StoreError, match="belongs to another run"):
            hr.cluster(path, **{**GIVEN, **other}, workdir=tmp_path / "work")


def test_what_shards_cannot_do(path: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="shard_rows reads the pool from files"):
        hr.cluster(np.load(path), **GIVEN)
    with pytest.raises(InputError, match="shard_rows must be at least 1"):
        hr.cluster(path, method="certified", shard_rows=0)
    with pytest.raises(InputError, match="shard_rows goes with"):
        hr.cluster(path, method="multiround", shard_rows=100)


def test_rows_of_zeros_are_clusters_of_their_own(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in one process; also with exact neighbors, and if what is left fits in one shard."""
    points = draw_groups(np.random.default_rng(5), 700)
    points[:5] = points[[100, 400, 699]] = 0
    np.save(tmp_path / "pool.npy", points)
    given: dict[str, Any] = {"zeros": "singletons", "threshold": 0.1, "slack": 1}
    expected = hr.cluster(points, method="exact", zeros="singletons", threshold=0.1)
    monkeypatch.setattr(sharding, "choose_pairs", compare_all)
    for rows in (120, 695):
        found = hr.cluster(tmp_path / "pool.npy", method="certified", **given, shard_rows=rows)
        np.testing.assert_array_equal(found.labels, expected.labels)
        assert found.centroids is not None
        assert expected.centroids is not None
        np.testing.assert_allclose(found.centroids.means, expected.centroids.means, atol=1e-6)
        np.testing.assert_array_equal(np.isinf(found.centroids.spread), np.isinf(expected.centroids.spread))
    with pytest.raises(InputError, match="8 all-zero rows"):
        hr.cluster(tmp_path / "pool.npy", **GIVEN)


def test_an_average_size_counts_rows_of_zeros(path: Path, engines: Callable[[str], Engine], tmp_path: Path) -> None:
    points = np.load(path)
    points[60:90] = 0
    np.save(tmp_path / "pool.npy", points)
    found = hr.cluster(tmp_path / "pool.npy", **GIVEN, zeros="singletons")
    assert found.n_clusters <= N // 8
    assert (np.bincount(found.labels)[found.labels[60:90]] == 1).all()
    again = hr.cluster(tmp_path / "pool.npy", **GIVEN, zeros="singletons", engine=engines("processes:2"))
    assert_same(again, found)
    with pytest.raises(InputError, match="cannot be reached: 30 of 5,000 rows are all zero"):
        hr.cluster(tmp_path / "pool.npy", **{**GIVEN, "average_size": 500}, zeros="singletons")


def test_a_folder_can_be_moved(path: Path, expected: hr.Clusters, tmp_path: Path) -> None:
    killing.kill_driver(path, tmp_path / "work", "serial", 8, f"{{'shard_rows': {ROWS}}}")
    (tmp_path / "work").rename(tmp_path / "moved")
    assert_same(hr.cluster(path, **GIVEN, workdir=tmp_path / "moved"), expected)
    assert not (tmp_path / "work").exists()


def test_sums_by_shard_are_the_means(path: Path, expected: hr.Clusters, tmp_path: Path) -> None:
    """The means that a pass begins with, copies counted as often as they are there."""
    hr.cluster(path, **GIVEN, workdir=tmp_path / "work")
    with use_team(1) as team:
        vectors = open_vectors(np.load(path), "cosine", np.float64, team)
        workers = open_workers(Serial(), tmp_path / "work", open_matrix(path, "embeddings"), vectors, 1)
        made = sharding.Shards(workers, 100, tmp_path / "work" / "shards")
        first = np.unique(expected.labels, return_index=True)[1]
        parts = sharding.gather_shards(made, expected.labels, first, np.float64, "test")
        means, half, size = average_groups(vectors, expected.labels, team)
    assert len(parts.counts) == 7
    np.testing.assert_array_equal(parts.load("point"), first)
    np.testing.assert_array_equal(parts.load("size"), size)
    np.testing.assert_allclose(parts.load("means"), means, atol=1e-12)
    np.testing.assert_allclose(parts.load("half"), half)


def test_rows_of_parts(tmp_path: Path) -> None:
    values = np.arange(10.0)
    for part, (start, stop) in enumerate([(0, 4), (4, 4), (4, 10)]):
        save_columns(tmp_path / f"x-{part:05}", {"value": values[start:stop]})
    parts = Parts(str(tmp_path), "x", (4, 0, 6))
    assert len(parts) == 10
    np.testing.assert_array_equal(parts.load("value"), values)
    np.testing.assert_array_equal(parts.take("value", np.array([0, 3, 4, 9])), [0, 3, 4, 9])
