#!/usr/bin/env python3
"""Print pins for `make test-lowest`: the lowest versions that pyproject.toml allows of what hedgerow runs with.

What only the tests and the build need keeps the version of constraints.txt, and so does torch, whose older builds bring
gigabytes of libraries for graphics cards.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("sklearn", "words", "fsspec", "dask", "ray")  # of the library's own; the others are tools
TOOLS = {"hatchling", "editables"}
REQUIREMENT = re.compile(r"([\w.-]+)(?:\[\w+\])?(?:>=|==)([\d.]+)")


def name(requirement: str) -> str:
    """The package of a requirement or pin, spelled as pip compares it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[<>=\[]", requirement)[0]).lower()


def lowest(requirement: str) -> str:
    """`numpy>=2.0` as `numpy==2.0`."""
    found = REQUIREMENT.fullmatch(requirement)
    if found is None:
        sys.exit(f"scripts/lowest.py: cannot read the lower bound of {requirement!r}: write it as name>=version")
    return f"{found[1]}=={found[2]}"


def pins(project: dict, constraints: str) -> list[str]:
    """The lines of the file of pins."""
    extras = project["optional-dependencies"]
    runtime = [*project["dependencies"], *(need for extra in EXTRAS for need in extras[extra])]
    tools = {name(need) for need in extras["test"]} | TOOLS
    kept = [line for line in constraints.splitlines() if "==" in line and name(line) in tools]
    return [*map(lowest, runtime), *kept]


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    print("\n".join(pins(project, (ROOT / "constraints.txt").read_text())))
