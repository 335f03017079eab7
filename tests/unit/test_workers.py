"""Clustering on an engine: the same bits as in one process, whatever is killed, and resumed anywhere."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engine_tasks
import hedgerow as hr
import killing
from clusterings import WIDTH, N, assert_same, make_points
from hedgerow.clustering import cells, workers
from hedgerow.clustering.layout import Search, sort_points
from hedgerow.clustering.neighbors import find_in_cells
from hedgerow.clustering.vectors import open_vectors
from hedgerow.engines import Engine
from hedgerow.engines.logs import read_log
from hedgerow.errors import EngineError, InputError, StoreError
from hedgerow.machine import team as use_team
from hedgerow.pool import write_table

ENGINES = ["processes:2", "dask:2"]
pytestmark = pytest.mark.usefixtures("small_tasks")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pool") / "pool.npy"
    np.save(made, make_points())
    return made


@pytest.fixture(scope="module")
def expected(path: Path, small_tasks: None) -> hr.Clusters:
    return hr.cluster(path, method="certified", average_size=8)


def list_tasks(folder: Path) -> set[str]:
    return {entry["task"] for entry in read_log(folder) if "job" in entry}


@pytest.mark.parametrize("name", ENGINES)
def test_clusters_have_the_same_bits(
    name: str, engines: Callable[[str], Engine], path: Path, expected: hr.Clusters, tmp_path: Path
) -> None:
    found = hr.cluster(path, method="certified", average_size=8, engine=engines(name), workdir=tmp_path / "work")
    assert_same(found, expected)
    assert list_tasks(tmp_path / "work") == {"find_range", "vote_cells", "search_cells"}
    assert sorted(held.name for held in (tmp_path / "work").iterdir()) == ["engine.jsonl", "run.json", "state.npz"]


@pytest.mark.parametrize(
    "given",
    [
        {"method": "certified", "threshold": 0.15},
        {"method": "certified", "metric": "sqeuclidean", "average_size": 12, "slack": 1.0},
        {"method": "multiround", "average_size": 8},
        {"method": "assign", "subset": 0.8, "average_size": 8},
    ],
    ids=lambda given: f"{given['method']}-{given.get('metric', 'cosine')}",
)
def test_every_method_has_the_same_bits(
    given: Any, engines: Callable[[str], Engine], path: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    alone, found = hr.cluster(path, **given), hr.cluster(path, **given, engine=engines("processes:2"), workdir=work)
    assert found.labels.tobytes() == alone.labels.tobytes()
    assert found.threshold == alone.threshold
    assert ("join_rows" in list_tasks(work)) == (given["method"] == "assign")
    assert not list(work.glob("join-*"))


@pytest.mark.parametrize("form", ["float16", "folder", "parquet", "array", "zeros"])
def test_every_form_of_a_pool(form: str, engines: Callable[[str], Engine], tmp_path: Path) -> None:
    """Searches need no files of the pool; rows are sorted into cells where they are read from files."""
    points, given = make_points(np.float16 if form == "float16" else np.float32), {}
    source: Any = tmp_path / "pool.npy"
    if form == "zeros":
        points[[5, 600]] = 0
        given = {"zeros": "singletons"}
    if form == "folder":
        source = tmp_path / "pool"
        source.mkdir()
        for part in range(3):
            np.save(source / f"{part}.npy", points[part * N // 3 : (part + 1) * N // 3])
    elif form == "parquet":
        source = tmp_path / "pool.parquet"
        write_table(source, {f"x{c}": points[:, c] for c in range(WIDTH)}, {})
    elif form == "array":
        source = points
    else:
        np.save(source, points)
    alone = hr.cluster(points, method="certified", average_size=8, **given)
    found = hr.cluster(
        source, method="certified", average_size=8, engine=engines("processes:2"), workdir=tmp_path / "work", **given
    )
    assert_same(found, alone)
    assert ("find_range" in list_tasks(tmp_path / "work")) == (form not in ("array", "zeros"))


@pytest.mark.parametrize("name", ENGINES)
def test_a_killed_worker_changes_nothing(
    name: str,
    engines: Callable[[str], Engine],
    path: Path,
    expected: hr.Clusters,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "search_cells", engine_tasks.kill_at_first_search)
    work = tmp_path / "work"
    assert_same(hr.cluster(path, method="certified", average_size=8, engine=engines(name), workdir=work), expected)
    assert (work / "killed").exists()


def test_a_killed_driver_is_resumed_on_other_engines(
    engines: Callable[[str], Engine], path: Path, expected: hr.Clusters, tmp_path: Path
) -> None:
    """In sorting, in the first search, in a later one; at last in this process."""
    work = tmp_path / "work"
    for engine, kill_at in (("processes:1", 1), ("processes:2", 3), ("dask:1", 4)):
        killing.kill_driver(path, work, engine, kill_at)
    for name in ("dask:2", "serial"):
        found = hr.cluster(path, method="certified", average_size=8, engine=engines(name), workdir=work)
        assert_same(found, expected)


def test_a_run_begun_in_one_process_goes_on_with_workers(
    engines: Callable[[str], Engine], path: Path, expected: hr.Clusters, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"method": "certified", "average_size": 8, "workdir": tmp_path / "work"}

    def stop(phase: str, share: float) -> None:
        if phase.startswith("pass"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hr.cluster(path, **given, progress=stop)
    assert_same(hr.cluster(path, **given, engine=engines("processes:2")), expected)


@pytest.mark.parametrize("name", ENGINES)
def test_errors_of_tasks(
    name: str, engines: Callable[[str], Engine], path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of ours is final; another is tried again, then it is an error with the host."""
    monkeypatch.setattr(workers, "search_cells", engine_tasks.refuse_search)
    with pytest.raises(InputError, match="this part is wrong"):
        hr.cluster(path, method="certified", engine=engines(name), workdir=tmp_path / "ours")
    monkeypatch.setattr(workers, "search_cells", engine_tasks.fail_search)
    with pytest.raises(EngineError, match=r"failed 4 times, the last time on .*: RuntimeError: the worker is broken"):
        hr.cluster(path, method="certified", engine=engines(name), workdir=tmp_path / "other")


def test_a_full_disk_is_an_error_of_the_run(engines: Callable[[str], Engine], path: Path, full_disk: Path) -> None:
    with pytest.raises(StoreError, match=r"writing .* failed"):
        hr.cluster(path, method="certified", engine=engines("processes:2"), workdir=full_disk / "work")
    assert not list(full_disk.rglob("*.tmp.npy"))


def test_a_damaged_file_is_found(engines: Callable[[str], Engine], path: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    killing.kill_driver(path, work, "processes:1", 3)
    for held in work.glob("search-*/lists-*.gaps.npy"):
        held.write_bytes(b"damaged")
    with pytest.raises(StoreError, match="is damaged"):
        hr.cluster(path, method="certified", average_size=8, engine=engines("processes:2"), workdir=work)


def test_a_workdir_of_another_run_is_refused(engines: Callable[[str], Engine], path: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    hr.cluster(path, method="multiround", average_size=8, engine=engines("processes:2"), workdir=work)
    for method in ("multiround", "certified"):
        with pytest.raises(StoreError, match="belongs to another run"):
            hr.cluster(path, method=method, average_size=9, engine=engines("processes:2"), workdir=work)
    with pytest.raises(InputError, match='with an engine also with "multiround"'):
        hr.cluster(path, method="multiround", workdir=tmp_path / "other")
    with pytest.raises(InputError, match="number of workers must be"):
        hr.cluster(path, engine="processes:0")


def test_lists_of_some_cells_are_those_of_all() -> None:
    """The lists of a range of cells, from these and the cells paired with them, whatever is not among them."""
    with use_team(2) as team:
        vectors = open_vectors(make_points(), "cosine", np.float32, team)
        active, sorted_, _ = sort_points(vectors, Search(7, 4.7, False, 0), team, lambda _: None)
        assert sorted_.centers is not None
        pairs = cells.rank_pairs(active.means, sorted_.starts, sorted_.centers, 160, team)
        whole = find_in_cells(active.means, active.half, 7, sorted_.starts, pairs, team)
        lo, hi = 10, 25
        mine = pairs[((pairs >= lo) & (pairs < hi)).any(axis=1)]
        part = find_in_cells(active.means, active.half, 7, sorted_.starts, mine, team, own=(lo, hi))
    rows = slice(int(sorted_.starts[lo]), int(sorted_.starts[hi]))
    assert part.ids[rows].tobytes() == whole.ids[rows].tobytes()
    assert part.gaps[rows].tobytes() == whole.gaps[rows].tobytes()
    assert (part.ids[: rows.start] == -1).all()
    assert (part.ids[rows.stop :] == -1).all()


def test_pairs_go_to_every_range_they_touch(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    pairs = np.sort(rng.integers(0, 30, (200, 2)), axis=1)
    edges = [0, 7, 19, 30]
    workers.save_pairs(tmp_path, pairs, edges)
    for part in range(3):
        touches = ((pairs >= edges[part]) & (pairs < edges[part + 1])).any(axis=1)
        held = workers.load_column(workers.name_part(tmp_path, "pairs", part), "cells")
        np.testing.assert_array_equal(held, pairs[touches])
