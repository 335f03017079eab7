"""What engines of clusters share: what may travel, and who is let in."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engine_tasks as tasks
from hedgerow.engines import Engine, remote
from hedgerow.engines.admission import Terms, write_nonce
from hedgerow.errors import EngineError, InputError


@pytest.fixture(params=["dask:2", "ray:2"])
def local(request: pytest.FixtureRequest, engines: Callable[[str], Engine]) -> remote.Cluster:
    """Two workers on this machine."""
    engine = engines(request.param)
    assert isinstance(engine, remote.Cluster)
    return engine


def test_jobs_and_results_must_be_json(local: remote.Cluster) -> None:
    message = rf"job 1 cannot be sent to {local.name}: it must be JSON \(Object of type PosixPath"
    with pytest.raises(InputError, match=message):
        local.map(tasks.square, [1, Path("a")])  # type: ignore[list-item]
    with pytest.raises(InputError, match=r"the result of return_a_set cannot leave its worker: it must be JSON"):
        local.map(tasks.return_a_set, [1])


def test_data_in_memory_do_not_travel_with_every_job(local: remote.Cluster) -> None:
    with pytest.raises(InputError, match=r"8\.0 MiB of data in memory would go to the workers .* pass its path"):
        local.map(tasks.square, [1], setup=partial(tasks.write_mark, np.zeros(1 << 20)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("versions", {"hedgerow": "0.0.1"}, r"has hedgerow .* \(the driver has 0\.0\.1\): install the same versions"),
        ("bits", "0", r"computes other bits .*Set OPENBLAS_CORETYPE .* NUMBA_CPU_NAME .* --mixed-workers"),
        (
            "nonce",
            "/nowhere/.nonce-1",
            "does not see what the driver wrote to /nowhere: use a folder that all machines",
        ),
    ],
)
def test_a_worker_that_does_not_agree_is_refused(local: remote.Cluster, field: str, value: Any, message: str) -> None:
    """Dask's workers are named by their address, Ray's by their host."""
    terms = replace(Terms(), **{field: value})
    name = r"tcp://127\.0\.0\.1:\d+" if local.name.startswith("dask") else os.uname().nodename
    with pytest.raises(EngineError, match=rf"the worker {name} {message}"):
        local.check(terms)
    assert terms.find_refusal() is not None


def test_storage_that_is_not_shared_is_found_before_anything_runs(
    local: remote.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def write_elsewhere(folder: Path) -> Iterator[str]:
        with write_nonce(tmp_path / "driver") as nonce:
            yield str(folder / Path(nonce).name)

    (tmp_path / "driver").mkdir()
    monkeypatch.setattr(remote, "write_nonce", write_elsewhere)
    with pytest.raises(EngineError, match="does not see what the driver wrote"):
        local.map(tasks.write_mark, [str(tmp_path / "ran")], workdir=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["driver"]
