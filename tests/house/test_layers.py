"""The listing in docs/house.md is the rule: a file imports only what stands below it."""

import re

import pytest
import tree

# The heavy libraries, and the only rooms that may name them: the rest of the house starts without them.
HEAVY = {
    "numba": {"kernels"},
    "llvmlite": set(),
    "pyarrow": {"pool", "tables"},
    "matplotlib": {"report"},
    "sklearn": {"models", "experiments"},
    "torch": {"models", "engines", "experiments"},
    "dask": {"engines"},
    "typer": {"cli"},
}
FORBIDDEN_NAMES = {"utils", "util", "common", "base", "manager", "managers", "helper", "helpers", "misc"}


def listing() -> list[str]:
    """The rooms, from the front door down, as docs/house.md lists them."""
    text = (tree.ROOT / "docs" / "house.md").read_text()
    block = text[text.index("src/hedgerow/\n") :].split("\n\n")[0]
    return [name.removesuffix(".py").rstrip("/") for name in re.findall(r"^ {4,}([\w/.]+) {2,}\S", block, re.MULTILINE)]


def room(module: str) -> str:
    return module.split(".")[0] or "__init__"


def test_the_listing_names_every_room_once_and_no_other():
    assert sorted(listing()) == sorted({room(module) for module in tree.modules()})


@pytest.mark.parametrize("module", [module for module in tree.modules() if module])
def test_a_room_imports_only_what_stands_below_it(module):
    order = listing()
    wrong = [
        f"line {found.line}: {found.imported}"
        for found in tree.imports(module)
        if found.imported.split(".")[0] == "hedgerow"
        and (target := room(found.imported.removeprefix("hedgerow").removeprefix("."))) != room(module)
        and target != "__init__"  # the package itself holds no code but the names
        and order.index(target) < order.index(room(module))
    ]
    assert not wrong, f"{module} imports what stands above it: {wrong}"


@pytest.mark.parametrize("module", [module for module in tree.modules() if module])
def test_nobody_imports_the_front_door(module):
    names = {found.imported for found in tree.imports(module) if found.importer != found.imported}
    assert not {name for name in names if re.match(r"hedgerow\.(cli|web)\b", name) and room(module) not in name}


@pytest.mark.parametrize("module", tree.modules())
def test_heavy_libraries_stay_in_their_rooms(module):
    wrong = [
        f"line {found.line}: {found.imported}"
        for found in tree.imports(module)
        if (library := found.imported.split(".")[0]) in HEAVY and room(module) not in HEAVY[library]
    ]
    assert not wrong, f"{module} imports {wrong}"


def test_no_imports_go_in_a_circle():
    towards = {
        module: {found.imported.removeprefix("hedgerow.") for found in tree.imports(module)} & set(tree.modules())
        for module in tree.modules()
        if module
    }
    while ends := [module for module, targets in towards.items() if not targets]:
        for end in ends:
            del towards[end]
        for targets in towards.values():
            targets.difference_update(ends)
    assert not towards, f"these import each other: {towards}"


def test_module_names_are_nouns_that_say_something():
    parts = {part for module in tree.modules() for part in module.split(".")}
    assert not parts & FORBIDDEN_NAMES


@pytest.mark.parametrize("module", tree.modules())
def test_a_module_opens_with_what_it_does(module):
    assert re.match(r'(#![^\n]*\n)?r?"""\S', tree.source(module).read_text())
