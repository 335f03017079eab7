"""Fixtures: for campaigns, which run on SQLite and on PostgreSQL; for engines, of which one each is started."""

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from campaigns import Make, begin
from clusterings import shrink_tasks
from hedgerow import Campaign
from hedgerow.engines import Engine, open_engine

_numbers = itertools.count()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str | None:
    """None for SQLite."""
    if request.param == "sqlite":
        return None
    return str(request.getfixturevalue("server").create(f"test{next(_numbers)}"))


@pytest.fixture
def make(url: str | None, tmp_path: Path) -> Iterator[Make]:
    """`make(kind=...)` begins a campaign of 120 texts with embeddings."""
    opened: list[Campaign] = []

    def start(**options: Any) -> Campaign:
        opened.append(begin(tmp_path, url, **options))
        return opened[-1]

    yield start
    for campaign in opened:
        campaign.close_files()


@pytest.fixture(scope="session")
def engines() -> Iterator[Callable[[str], Engine]]:
    """`engines("dask:2")`: the engine of this name, started once for all tests."""
    opened: dict[str, Engine] = {}

    def find(name: str) -> Engine:
        if name not in opened:
            opened[name] = open_engine(name)
        return opened[name]

    yield find
    for engine in opened.values():
        engine.close()


@pytest.fixture(scope="module")
def small_tasks() -> Iterator[None]:
    """Clusterings of some thousand rows make several tasks."""
    with pytest.MonkeyPatch.context() as patch:
        shrink_tasks(patch)
        yield


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with room for 128 KiB. It takes root; others skip the test."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("a file system of its own takes root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
