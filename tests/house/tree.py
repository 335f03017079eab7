"""The repository as the house tests read it: modules, imports, pages, code blocks. Imports nothing of ours."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "hedgerow"
FENCE = re.compile(r"^```(\w*)[^`\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Import(NamedTuple):
    importer: str  # dotted, without the package's own name: "strategies.margin"; the package itself is ""
    imported: str  # dotted in full: "hedgerow.scores" or "numpy.typing"
    line: int


@cache
def modules() -> list[str]:
    """Every module of the package, dotted, without the package's own name."""
    return sorted(dotted(path) for path in PACKAGE.rglob("*.py"))


def dotted(path: Path) -> str:
    """strategies/margin.py as "strategies.margin", strategies/__init__.py as "strategies", __init__.py as ""."""
    return ".".join(part for part in path.relative_to(PACKAGE).with_suffix("").parts if part != "__init__")


def source(module: str) -> Path:
    """The file of a module named as in `modules`."""
    path = PACKAGE.joinpath(*module.split(".")) if module else PACKAGE
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def imports(module: str) -> tuple[Import, ...]:
    """Every import of a module, those inside functions and under TYPE_CHECKING counted."""
    return tuple(read_imports(module))


def read_imports(module: str) -> Iterator[Import]:
    path = source(module)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno}: imports are absolute here"
            for alias in node.names:
                yield Import(module, whole_name(node.module or "", alias.name), node.lineno)


def whole_name(module: str, name: str) -> str:
    """`from hedgerow import checks` names a module, `from hedgerow.checks import rows` a function in one."""
    inside = f"{module}.{name}".removeprefix("hedgerow.")
    return f"hedgerow.{inside}" if module.startswith("hedgerow") and inside in modules() else module


def pages() -> list[Path]:
    """Every page a person reads."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[tuple[str, str]]:
    """(language, text) of every fenced block, in reading order."""
    return FENCE.findall(page.read_text())


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return FENCE.sub("", page.read_text())
