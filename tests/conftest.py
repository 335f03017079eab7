"""Fixtures for every test: the command line without a process, a browser for pages, and a PostgreSQL."""

import os
import re
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import postgres
from shell import Answer, Run

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Without torch (`make test-lowest`), the modules that import it are left out; in CI they fail."""
    if find_spec("torch") or os.environ.get("CI") or collection_path.suffix != ".py":
        return None
    return bool(re.search(r"^(import|from) torch\b", collection_path.read_text(), re.MULTILINE)) or None


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("select", ...)` is `hedgerow select ...` in this process, which saves the start of an interpreter."""
    from hedgerow import cli, progress

    monkeypatch.setattr(progress, "QUIET_SECONDS", float("inf"))  # compiling on a new machine may take minutes
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main installs its own

    def call(*arguments: Any) -> Answer:
        monkeypatch.setattr(sys, "argv", ["hedgerow", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        out, error = capsys.readouterr()
        assert isinstance(exit_.value.code, int)
        return Answer(exit_.value.code, out, error)

    return call


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """Chromium, driven by playwright. Without one the test is skipped, except in CI, where it fails."""
    import rooms

    try:
        path = rooms.find_chromium()
    except RuntimeError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
    with rooms.launch(path) as chromium:
        yield chromium


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    """A PostgreSQL of its own, from Debian's packages."""
    reason = postgres.find_reason()
    if reason:
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    found = postgres.Server()
    yield found
    found.remove()
