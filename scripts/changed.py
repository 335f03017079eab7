#!/usr/bin/env python3
"""Print the test files of what changed, one per line, for `make check`; or of the files that are named.

Without arguments the changed files are those that differ from the commit where the branch left main, committed or not.
A test file belongs to a change if it changed itself, is named after the changed module or its package, or imports the
module; a module without such tests has those of the modules that import it. Pages, results and scripts have their tests
in tests/house. Tests that reach a module in other ways are left to `make test`.
"""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOUSE = {"tests/house/test_layers.py", "tests/house/test_exports.py"}  # quick, and any module can break them
# What reads files that are not modules, by the beginning of their paths.
READERS = {
    "docs/": {"tests/house/test_pages.py", "tests/house/test_results.py"},
    "benchmarks/": {"tests/house/test_pages.py", "tests/house/test_runner.py"},
    "experiments/": {"tests/house/test_results.py"},
    "examples/": {"tests/journeys/test_experiment.py"},
    "README.md": {"tests/house/test_pages.py"},
    "pyproject.toml": {"tests/house/test_exports.py", "tests/house/test_scripts.py"},
    "constraints.txt": {"tests/house/test_exports.py", "tests/house/test_scripts.py"},
    "scripts/": {"tests/house/test_scripts.py"},
    "Makefile": {"tests/house/test_scripts.py"},
    "src/hedgerow/__main__.py": {"tests/journeys/test_cli.py"},
    "src/hedgerow/experiments/shelf/": {"tests/unit/test_recipes.py"},
    "tests/conftest.py": {"tests/journeys/test_cli.py", "tests/journeys/test_pairs.py"},
}


def list_changed() -> list[str]:
    """Paths that differ from the merge base with main, committed or not; deleted ones are left out."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout

    base = git("merge-base", "HEAD", "main").strip() or "HEAD"
    tracked = git("diff", "--name-only", "--diff-filter=d", base).splitlines()
    return sorted({*tracked, *git("ls-files", "--others", "--exclude-standard").splitlines()})


def name_module(path: Path) -> str:
    """src/hedgerow/pool/ids.py as hedgerow.pool.ids; tests/reference.py as reference."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] == "src":
        return ".".join(part for part in parts[1:] if part != "__init__")
    return parts[-1]  # tests, benchmarks, docs and scripts are on the path themselves


def read_imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, and every name that it imports from one, dotted."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def read_tests() -> dict[str, set[str]]:
    """{test file: what it imports}."""
    return {path.relative_to(ROOT).as_posix(): set(read_imports(path)) for path in ROOT.glob("tests/**/test_*.py")}


@cache
def read_package() -> dict[str, set[str]]:
    """{module of the package: what it imports}."""
    return {name_module(path): set(read_imports(path)) for path in ROOT.glob("src/**/*.py")}


def find_tests_of(module: str, seen: frozenset[str] = frozenset()) -> set[str]:
    """The tests named after a module or its package, and those that import it; else those of its importers."""
    if module == "hedgerow":  # the public names: HOUSE tests them, and everything imports them
        return set()
    names = {f"test_{name}" for name in (module.rpartition(".")[2], *module.split(".")[1:2])}
    found = {test for test, imported in read_tests().items() if module in imported or Path(test).stem in names}
    if found:
        return found
    importers = {other for other, imported in read_package().items() if module in imported} - seen - {module}
    return {test for other in importers for test in find_tests_of(other, seen | {module})}


def find_tests(changed: Iterable[str]) -> list[str]:
    """The test files that belong to the changed paths, sorted."""
    found: set[str] = set()
    for path in changed:
        if path in read_tests():
            found.add(path)
        elif path.endswith(".py"):
            found |= find_tests_of(name_module(ROOT / path))
        if path.startswith("src/"):
            found |= HOUSE
        found |= {test for start, tests in READERS.items() if path.startswith(start) for test in tests}
    return sorted(found & read_tests().keys())


if __name__ == "__main__":
    print("\n".join(find_tests(sys.argv[1:] or list_changed())))
