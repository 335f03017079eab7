"""The listing in docs/house.md is the rule: a file imports only what is listed below it."""

import re

import pytest
import tree

# The heavy libraries, and the only rooms that may name them: the rest of the house starts without them.
HEAVY = {
    "numba": {"kernels"},
    "llvmlite": set(),
    "pyarrow": {"pool", "campaign", "encoders"},
    "sqlalchemy": {"campaign"},
    "alembic": {"campaign"},
    "psycopg": {"campaign"},
    "matplotlib": {"report"},
    "sklearn": {"models", "experiments"},
    "torch": {"models", "engines", "experiments"},
    "PIL": {"encoders", "desk"},
    "dask": {"engines"},
    "distributed": {"engines"},
    "ray": {"engines"},
    "typer": {"cli"},
    "starlette": {"desk"},
    "uvicorn": {"desk"},
}
FORBIDDEN_NAMES = {"utils", "util", "common", "base", "manager", "managers", "helper", "helpers", "misc"}


def listing() -> list[str]:
    """Every module and package that docs/house.md lists, dotted, from the front door down; a package before its own."""
    text = (tree.ROOT / "docs" / "house.md").read_text()
    block = text[text.index("src/hedgerow/\n") :].split("\n\n")[0]
    found: list[str] = []
    parents: list[str] = []
    for indent, name in re.findall(r"^( {8,})([\w.]+?(?:\.py|/)) {2,}\S", block, re.MULTILINE):
        del parents[len(indent) // 4 - 2 :]
        found.append(".".join([*parents, name.removesuffix(".py").rstrip("/")]))
        parents.append(name.rstrip("/"))
    return found


ORDER = {module.replace("__init__", ""): place for place, module in enumerate(listing())}
MODULES = [module for module in tree.modules() if module]


def find_line(module: str) -> int:
    """The line of a module in the listing: its own, or that of its package if the package lists no modules."""
    while module not in ORDER:
        module = module.rpartition(".")[0]
    return ORDER[module]


def room(module: str) -> str:
    return module.split(".")[0]


def test_the_listing_names_what_there_is():
    packages = {module for module in tree.modules() if module and tree.source(module).name == "__init__.py"}
    detailed = {module.rpartition(".")[0] for module in ORDER if "." in module}
    expected = {
        module for module in tree.modules() if module in packages or module.rpartition(".")[0] in detailed | {""}
    }
    assert sorted(ORDER) == sorted(expected)


def test_a_package_with_modules_that_import_each_other_lists_them():
    unlisted = {
        f"{module} -> {found.imported}"
        for module in MODULES
        for found in tree.imports(module)
        if found.imported != f"hedgerow.{module}"
        and find_line(module) == find_line(found.imported.removeprefix("hedgerow").removeprefix("."))
        and found.imported.startswith("hedgerow.")
        and room(module) not in ("kernels", "cli")
    }
    assert not unlisted


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_stands_below_it(module):
    wrong = [
        f"line {found.line}: {found.imported}"
        for found in tree.imports(module)
        if found.imported.startswith("hedgerow.")
        and find_line(found.imported.removeprefix("hedgerow.")) < find_line(module)
    ]
    assert not wrong, f"{module} imports what is listed above it: {wrong}"


@pytest.mark.parametrize("module", [module for module in MODULES if module != "__main__"])
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
