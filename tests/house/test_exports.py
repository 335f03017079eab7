"""The public names: what `__all__` says is what there is, and every one of them is documented."""

import ast
import inspect
import re
import tomllib
from importlib import metadata

import pytest
import tree
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import hedgerow

ROOT = tree.ROOT


def typing_names() -> set[str]:
    """The names that hedgerow/__init__.py imports for type checkers."""
    module = ast.parse(tree.source("").read_text())
    block = next(node for node in module.body if isinstance(node, ast.If))
    return {alias.name for node in ast.walk(block) if isinstance(node, ast.ImportFrom) for alias in node.names}


def test_exports_are_all_of_the_same_names():
    assert set(hedgerow.__all__) == set(hedgerow._HOME) == typing_names()
    assert len(hedgerow.__all__) == len(set(hedgerow.__all__))
    assert dir(hedgerow) == sorted([*hedgerow.__all__, "__version__"])


@pytest.mark.parametrize("name", hedgerow.__all__)
def test_a_public_name_is_there_and_documented(name):
    value = getattr(hedgerow, name)
    if not isinstance(value, dict):  # STRATEGIES, whose page is strategies.md
        # A dataclass without a docstring is given its signature for one.
        assert not (value.__doc__ or f"{name}(").startswith(f"{name}("), f"{name} has no docstring of its own"
    described = rf"^\.\. (?:auto(?:function|class|exception)|py:data):: {name}$"
    assert re.search(described, (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in hedgerow.__all__ if name[0].isupper() and not name.isupper()])
def test_public_methods_are_documented(name):
    members = vars(getattr(hedgerow, name)).items()
    functions = {
        key: getattr(value, "fget", None) or getattr(value, "__func__", None) or getattr(value, "func", value)
        for key, value in members
        if not key.startswith("_") and (callable(value) or isinstance(value, (property, classmethod, staticmethod)))
    }
    assert all(inspect.getdoc(function) for function in functions.values()), functions


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        hedgerow.nothing  # noqa: B018


def test_no_module_has_the_name_of_a_public_function():
    functions = {name for name in hedgerow.__all__ if inspect.isfunction(getattr(hedgerow, name))}
    assert functions
    assert not functions & {module.split(".")[-1] for module in tree.modules()}


def test_every_strategy_has_its_place_in_the_docs():
    text = (ROOT / "docs" / "strategies.md").read_text()
    assert [name for name in hedgerow.STRATEGIES if not re.search(rf"^## `{name}`$", text, re.MULTILINE)] == []
    text = (ROOT / "docs" / "pairs.md").read_text()
    assert [name for name in hedgerow.PAIR_STRATEGIES if not re.search(rf"^## .*`{name}`", text, re.MULTILINE)] == []


def test_every_error_stands_in_the_tree():
    tree_text = inspect.getdoc(inspect.getmodule(hedgerow.HedgerowError)) or ""
    page = (ROOT / "docs" / "house.md").read_text()
    for name in hedgerow.__all__:
        value = getattr(hedgerow, name)
        if inspect.isclass(value) and issubclass(value, (Exception, Warning)):
            assert name in tree_text
            assert name in page


def test_one_version_everywhere():
    """The version is written in hedgerow/__init__.py: the build reads it there, changelog and citation agree."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert ROOT / project["tool"]["hatch"]["version"]["path"] == tree.source("")
    latest = re.search(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert latest is not None
    assert hedgerow.__version__ == latest[1]


def test_the_citation_is_complete_and_of_this_version():
    """What the Citation File Format 1.2.0 requires, and what a reference manager shows."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["cff-version"] == "1.2.0"
    assert str(citation["version"]) == hedgerow.__version__
    assert citation["license"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]
    paper = citation["references"][0]
    assert {"type", "title", "authors", "year"} <= set(paper)
    assert all({"family-names", "given-names"} == set(author) for author in paper["authors"])


def test_every_dependency_has_a_pin_and_a_reason():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [need for needs in project["optional-dependencies"].values() for need in needs]
    names = {re.split(r"[<>=\[]", need)[0].lower() for need in project["dependencies"] + extras} - {"hedgerow"}
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert names <= {name.lower() for name in pinned}
    page = (ROOT / "docs" / "house.md").read_text()
    core = {re.split(r"[<>=\[]", need)[0] for need in project["dependencies"]}
    assert {name for name in core if f"| {name} |" not in page} == set()


def test_everything_that_is_installed_with_them_is_pinned():
    """The packages that the tests run with, and all that these need, in the versions of constraints.txt."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    pinned = {canonicalize_name(name): version for name, version in pins}
    extras = project["optional-dependencies"]
    left = [Requirement(need) for need in [*project["dependencies"], *extras["dev"]]]
    seen: set[tuple[str, frozenset[str]]] = set()
    while left:
        need = left.pop()
        name = canonicalize_name(need.name)
        if (name, frozenset(need.extras)) in seen or name == "setuptools":  # which comes with Python 3.11
            continue
        seen.add((name, frozenset(need.extras)))
        if name == "hedgerow":
            left += [Requirement(inner) for extra in need.extras for inner in extras[extra]]
            continue
        assert name in pinned, f"{name} has no pin: run `make lock`"
        installed = metadata.distribution(name)
        assert installed.version.partition("+")[0] == pinned[name]
        for inner in map(Requirement, installed.requires or []):
            if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in ("", *need.extras)):
                left.append(inner)
    assert len(seen) > 50
