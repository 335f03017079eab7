"""A campaign from the shell, with everything that can be given wrongly: one clear line, and nothing is lost."""

import csv
from pathlib import Path

import pytest

from shell import Run, one_line


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """Six texts."""
    path = tmp_path / "pool.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *((row, f"text {row}") for row in range(1, 7))])
    return path


def test_an_init_that_was_refused_can_be_corrected(run: Run, pool: Path) -> None:
    folder = pool.parent / "c"
    one_line(run("campaign", "init", folder, pool, "--classes", "a,b", "--holdout", 6), 1, "a holdout of 6 leaves")
    assert run("campaign", "init", folder, pool, "--classes", "a,b,c", "--holdout", 2).code == 0
    one_line(run("campaign", "init", folder, pool, "--classes", "a,b"), 1, "holds a campaign already")
