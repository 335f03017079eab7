"""Partitions on an engine: the batch of one process, to the last bit, whatever is killed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engine_tasks
import hedgerow as hr
from hedgerow.engines import Engine
from hedgerow.engines.logs import read_log
from hedgerow.engines.serial import Serial
from hedgerow.errors import HedgerowWarning, InputError, StoreError
from hedgerow.machine import team as use_team
from hedgerow.strategies import partitions, workers

N, K = 3_000, 101
STRATEGIES = [
    hr.Badge(partitions=4),
    hr.Badge(partitions=4, first="random"),
    hr.CoreSet(partitions=4),
    hr.CoreSet(partitions=4, metric="cosine", split_labeled=True),
]


def make_pool(dtype: Any = np.float32) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    centers = np.repeat(rng.normal(size=(N // 10, 16)), 10, axis=0)
    return {
        "embeddings": (centers + 0.2 * rng.normal(size=centers.shape)).astype(dtype),
        "probabilities": rng.dirichlet(np.full(5, 0.5), N).astype(np.float32),
        "labeled": rng.random(N) < 0.05,
    }


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("name", ["serial", "processes:2", "dask:2"])
def test_every_engine_picks_the_same_rows(
    name: str, strategy: Any, engines: Callable[[str], Engine], tmp_path: Path
) -> None:
    """Nothing is left of the copied rows; what was done is not done again."""
    given = make_pool()
    expected = hr.select(strategy, K, **given, seed=5)
    for _ in range(2):
        found = hr.select(strategy, K, **given, seed=5, engine=engines(name), workdir=tmp_path / "work")
        np.testing.assert_array_equal(found.rows, expected.rows)
        assert found.settings == expected.settings
    assert not list((tmp_path / "work").glob("rows-*"))
    assert not list((tmp_path / "work").glob("centers-*"))
    assert [entry["jobs"] for entry in read_log(tmp_path / "work") if "engine" in entry] == [4, 4]


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_files_of_any_type_without_a_folder(dtype: Any, engines: Callable[[str], Engine], tmp_path: Path) -> None:
    given = make_pool(dtype)
    np.save(tmp_path / "embeddings.npy", given["embeddings"])
    shared = {"probabilities": given["probabilities"], "labeled": given["labeled"], "seed": 2}
    for strategy in (hr.Badge(partitions=3), hr.CoreSet(partitions=3), hr.CoreSet(partitions=3, metric="cosine")):
        expected = hr.select(strategy, K, **shared, embeddings=given["embeddings"])
        path = tmp_path / "embeddings.npy"
        found = hr.select(strategy, K, **shared, embeddings=path, engine=engines("processes:2"))
        np.testing.assert_array_equal(found.rows, expected.rows)


@pytest.mark.parametrize("name", ["processes:2", "dask:2"])
def test_a_killed_worker_changes_nothing(
    name: str, engines: Callable[[str], Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = make_pool()
    monkeypatch.setattr(workers, "pick_part", engine_tasks.kill_at_first_part)
    found = hr.select(STRATEGIES[0], K, **given, engine=engines(name), workdir=tmp_path / "work")
    assert (tmp_path / "work" / "killed").exists()
    np.testing.assert_array_equal(found.rows, hr.select(STRATEGIES[0], K, **given).rows)


class Interrupted(Serial):
    """Ends after two jobs."""

    def map(self, task: Any, jobs: Any, **options: Any) -> Any:
        super().map(task, jobs[:2], **options)
        raise KeyboardInterrupt


@pytest.mark.parametrize("strategy", [STRATEGIES[0], STRATEGIES[3]], ids=str)
def test_an_interrupted_selection_continues_on_another_engine(
    strategy: Any, engines: Callable[[str], Engine], tmp_path: Path
) -> None:
    given, work = make_pool(), tmp_path / "work"
    with pytest.raises(KeyboardInterrupt):
        hr.select(strategy, K, **given, engine=Interrupted(), workdir=work)
    done = {path: path.stat().st_mtime_ns for path in work.glob("picks-*")}
    assert len(done) == 4  # two parts: their places, and the marks
    found = hr.select(strategy, K, **given, engine=engines("processes:2"), workdir=work)
    np.testing.assert_array_equal(found.rows, hr.select(strategy, K, **given).rows)
    assert all(path.stat().st_mtime_ns == then for path, then in done.items())
    for other in ({"seed": 1}, {"labeled": [1, 2]}):
        with pytest.raises(StoreError, match="belongs to another run"):
            hr.select(strategy, K, **{**given, **other}, workdir=work)


def test_a_batch_is_filled_up_as_in_one_process(engines: Callable[[str], Engine]) -> None:
    """Where distinct points run out; and with more parts than picks."""
    points = np.repeat(np.random.default_rng(0).normal(size=(4, 3)), 25, axis=0)
    for k in (3, 60):
        given: dict[str, Any] = {"embeddings": points, "seed": 4}
        if k == 60:
            with pytest.warns(HedgerowWarning, match="distinct points for a batch of 60"):
                expected = hr.select(hr.CoreSet(partitions=5), k, **given)
            with pytest.warns(HedgerowWarning, match="distinct points for a batch of 60"):
                found = hr.select(hr.CoreSet(partitions=5), k, **given, engine=engines("processes:2"))
        else:
            expected = hr.select(hr.CoreSet(partitions=5), k, **given)
            found = hr.select(hr.CoreSet(partitions=5), k, **given, engine=engines("processes:2"))
        np.testing.assert_array_equal(found.rows, expected.rows)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_a_part_does_not_depend_on_the_others(strategy: Any) -> None:
    given = make_pool()
    view = hr.View(N, given["labeled"], probabilities=given["probabilities"], embeddings=given["embeddings"])
    parts = strategy.plan(view, K, np.random.default_rng(1))
    with use_team(1) as team:
        forward = partitions.pick_parts(strategy, view, parts, np.random.default_rng(2), team)
        backward = partitions.pick_parts(strategy, view, parts[::-1], np.random.default_rng(3), team)[::-1]
    for one, other in zip(forward, backward, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_does_not_run_on_an_engine(engines: Callable[[str], Engine], tmp_path: Path) -> None:
    given = make_pool()
    for strategy in ("margin", "cluster-margin", "random", lambda view, k, rng: np.arange(k)):
        with pytest.raises(InputError, match="does not run on an engine: it needs none"):
            hr.select(strategy, 5, **given, engine="processes:2")
    for name in ("badge", "coreset"):
        with pytest.raises(InputError, match=f"{name} runs on an engine in parts: set partitions"):
            hr.select(name, 5, **given, workdir=tmp_path / "work")
    given["embeddings"][1234] = 0
    given["labeled"][1234] = False
    for engine in (None, engines("processes:2")):
        with pytest.raises(InputError, match="all zeros in row 1234"):
            hr.select(hr.CoreSet(partitions=2, metric="cosine"), 5, **given, engine=engine)
