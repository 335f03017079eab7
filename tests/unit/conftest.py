"""Fixtures for the tests of campaigns: each runs on SQLite and on PostgreSQL."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from campaigns import Make, begin
from hedgerow import Campaign

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
