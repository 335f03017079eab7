"""Ranges of rows on an engine: the same bits as in one process, resumed, and refused where they cannot be read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow import pool, shards
from hedgerow.clustering.vectors import BLOCK
from hedgerow.engines import Engine
from hedgerow.engines.logs import read_log
from hedgerow.errors import InputError, StoreError

ENGINES = ["serial", "processes:2", "dask:2"]


def write_probabilities(path: Path, n: int = 1000, classes: int = 7) -> Path:
    rng = np.random.default_rng(3)
    np.save(path, rng.dirichlet(np.ones(classes), n).astype(np.float32))
    return path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of 10,000 bytes, so that a few rows are several."""
    monkeypatch.setattr(shards, "RANGE_BYTES", 10_000)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("form", ["npy", "parquet", "logits"])
def test_margins_have_the_same_bits(name: str, form: str, engines: Callable[[str], Engine], tmp_path: Path) -> None:
    path = write_probabilities(tmp_path / "probabilities.npy")
    held = np.load(path)
    given: dict[str, Any] = {"probabilities": str(path)}
    expected = hr.margins(held)
    if form == "parquet":
        given = {"probabilities": tmp_path / "probabilities.parquet"}
        pool.write_table(given["probabilities"], {f"p{c}": held[:, c] for c in range(held.shape[1])}, {})
    elif form == "logits":
        np.save(tmp_path / "logits.npy", 10 * held)
        given, expected = {"logits": tmp_path / "logits.npy"}, hr.margins(logits=10 * held)
    found = hr.margins(**given, engine=engines(name), workdir=tmp_path / "work")
    assert found.tobytes() == expected.tobytes()
    entries = [entry for entry in read_log(tmp_path / "work") if "job" in entry]
    assert len(entries) == 3


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_assigned_points_have_the_same_bits(
    name: str, metric: str, engines: Callable[[str], Engine], tmp_path: Path
) -> None:
    """The last range is shorter than a block."""
    rng = np.random.default_rng(5)
    clusters = hr.cluster(rng.normal(size=(300, 8)).astype(np.float32), average_size=3, metric=metric)
    points = rng.normal(size=(2 * BLOCK + 77, 8)).astype(np.float32)
    np.save(tmp_path / "points.npy", points)
    expected = clusters.find_nearest(points)
    found = clusters.find_nearest(tmp_path / "points.npy", engine=engines(name), workdir=tmp_path / "work")
    assert found.labels.tobytes() == expected.labels.tobytes()
    assert found.distances.tobytes() == expected.distances.tobytes()
    assert len(list((tmp_path / "work").glob("rows-*.npz"))) == 3
    assert clusters.assign(tmp_path / "points.npy", workdir=tmp_path / "work").tobytes() == expected.labels.tobytes()


@pytest.mark.usefixtures("small")
def test_finished_ranges_are_kept_and_not_computed_again(tmp_path: Path) -> None:
    path, work = write_probabilities(tmp_path / "probabilities.npy"), tmp_path / "work"
    expected = hr.margins(path, workdir=work)
    kept = sorted(work.glob("rows-*.npz"))
    assert len(kept) == 3
    np.savez(kept[1], scores=np.full(357, 0.25, np.float32))
    kept[2].unlink()
    again = hr.margins(path, workdir=work)
    assert (again[357:714] == 0.25).all()
    assert (again[714:] == expected[714:]).all()
    kept[0].write_bytes(b"damaged")
    with pytest.raises(StoreError, match="is damaged"):
        hr.margins(path, workdir=work)


@pytest.mark.usefixtures("small")
def test_without_a_workdir_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, folder = write_probabilities(tmp_path / "probabilities.npy"), tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(shards.tempfile, "tempdir", str(folder))
    assert hr.margins(path, engine="processes:1").tobytes() == hr.margins(path).tobytes()
    assert list(folder.iterdir()) == []


def test_a_workdir_of_another_run_is_refused(tmp_path: Path) -> None:
    path, work = write_probabilities(tmp_path / "probabilities.npy"), tmp_path / "work"
    hr.margins(path, workdir=work)
    with pytest.raises(StoreError, match="belongs to another run"):
        hr.margins(logits=path, workdir=work)
    np.save(path, np.load(path)[::-1])
    with pytest.raises(StoreError, match="belongs to another run"):
        hr.margins(path, workdir=work)


@pytest.mark.usefixtures("small")
def test_a_wrong_row_has_its_number_in_the_whole(engines: Callable[[str], Engine], tmp_path: Path) -> None:
    held = np.load(write_probabilities(tmp_path / "probabilities.npy"))
    held[800, 0] = np.nan
    np.save(tmp_path / "wrong.npy", held)
    points = np.ones((2 * BLOCK, 3), np.float32)
    for row, value in ((BLOCK + 5, np.inf), (BLOCK + 9, 0)):
        points[row] = value
        np.save(tmp_path / f"{row}.npy", points)
        points[row] = 1
    clusters = hr.cluster(np.eye(3, dtype=np.float32), average_size=1)
    for name in ("serial", "processes:2"):
        with pytest.raises(InputError, match="row 800"):
            hr.margins(tmp_path / "wrong.npy", engine=engines(name), workdir=tmp_path / f"margins-{name[:4]}")
        with pytest.raises(InputError, match=f"infinity in row {BLOCK + 5}"):
            clusters.assign(tmp_path / f"{BLOCK + 5}.npy", engine=engines(name), workdir=tmp_path / f"inf-{name[:4]}")
        with pytest.raises(InputError, match=rf"\(rows {BLOCK + 9}\)"):
            clusters.assign(tmp_path / f"{BLOCK + 9}.npy", engine=engines(name), workdir=tmp_path / f"zero-{name[:4]}")


def test_an_engine_needs_files_and_one_elsewhere_a_shared_folder(
    engines: Callable[[str], Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"reads the pool from files .* not what is in memory"):
        hr.margins(np.full((4, 2), 0.5), engine="processes:2")
    engine = engines("dask:2")
    monkeypatch.setattr(engine, "is_remote", True)
    with pytest.raises(
        InputError, match=r"dask:2 needs a folder that all workers share: pass workdir=... \(--workdir\)"
    ):
        hr.margins(write_probabilities(tmp_path / "probabilities.npy"), engine=engine)
    with pytest.raises(InputError, match="threads must be at least 1"):
        hr.margins(tmp_path / "probabilities.npy", threads=0, engine="processes:2")


def test_no_rows_are_no_ranges(tmp_path: Path) -> None:
    np.save(tmp_path / "none.npy", np.zeros((0, 3), np.float32))
    assert len(hr.margins(tmp_path / "none.npy", workdir=tmp_path / "work")) == 0


def test_files_of_a_matrix_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_probabilities(tmp_path / "a.npy")
    write_probabilities(tmp_path / "b.npy")
    monkeypatch.chdir(tmp_path)
    assert pool.open_matrix(["a.npy", "b.npy"], "probabilities").list_files() == [
        str(tmp_path / "a.npy"),
        str(tmp_path / "b.npy"),
    ]
    assert pool.open_matrix(np.zeros((2, 2)), "probabilities").list_files() == []
