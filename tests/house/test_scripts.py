"""The scripts behind the Makefile: the tests of a change, the lowest versions, what each target installs, a browser."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import changed
import lowest
import pytest
import tree

PROJECT = tomllib.loads((tree.ROOT / "pyproject.toml").read_text())["project"]
ALWAYS = ["tests/house/test_exports.py", "tests/house/test_layers.py"]


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([], []),
        (["LICENSE"], []),
        (["tests/unit/test_ids.py"], ["tests/unit/test_ids.py"]),
        (["src/hedgerow/metrics.py"], [*ALWAYS, "tests/unit/test_metrics.py"]),
        (["src/hedgerow/kernels/pick.py"], [*ALWAYS, "tests/oracle/test_pick.py"]),
        (["src/hedgerow/pool/ids.py"], [*ALWAYS, "tests/unit/test_ids.py", "tests/unit/test_pool.py"]),
        (
            ["src/hedgerow/strategies/badge.py"],
            [*ALWAYS, "tests/oracle/test_badge.py", "tests/unit/test_strategies.py"],
        ),
        (["tests/reference.py"], ["tests/oracle/test_margins.py", "tests/oracle/test_pairs.py"]),
        (["benchmarks/runner.py"], ["tests/house/test_runner.py"]),
        (["README.md"], ["tests/house/test_pages.py"]),
        (["scripts/setup"], ["tests/house/test_scripts.py"]),
    ],
)
def test_a_change_has_its_tests(paths: list[str], expected: list[str]) -> None:
    found = changed.find_tests(paths)
    assert set(expected) <= set(found)
    assert len(found) < 20
    assert found or not expected
    assert not found or expected


def test_every_module_has_a_test_of_its_own() -> None:
    """In addition to the ones run for every change to the package."""
    modules = [path.relative_to(tree.ROOT).as_posix() for path in tree.PACKAGE.rglob("*.py")]
    modules.remove("src/hedgerow/__init__.py")
    bare = [path for path in modules if not set(changed.find_tests([path])) - set(ALWAYS)]
    assert bare == []


def test_what_is_changed_is_what_differs_from_main_and_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--initial-branch", "main")
    for name in ("kept", "edited", "removed", "committed"):
        (tmp_path / name).write_text("before")
    (tmp_path / ".gitignore").write_text("ignored")
    git("add", ".")
    git("commit", "-m", "first")
    git("checkout", "-b", "branch")
    (tmp_path / "committed").write_text("after")
    git("commit", "-am", "second")
    (tmp_path / "edited").write_text("after")
    (tmp_path / "removed").unlink()
    (tmp_path / "new").write_text("")
    (tmp_path / "ignored").write_text("")
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    assert changed.list_changed() == ["committed", "edited", "new"]


def test_the_lowest_versions_are_those_of_the_ranges() -> None:
    pins = lowest.pins(PROJECT, (tree.ROOT / "constraints.txt").read_text())
    assert all(re.fullmatch(r"[\w.-]+==[\d.]+", pin) for pin in pins)
    for need in PROJECT["dependencies"]:
        assert need.replace(">=", "==") in pins
    names = [lowest.name(pin) for pin in pins]
    assert len(names) == len(set(names))
    assert {"scikit-learn", "pytest", "hatchling"} <= set(names)
    assert "torch" not in names


@pytest.mark.parametrize("requirement", ["numpy", "numpy<3", "numpy>=2,<3", "numpy~=2.0"])
def test_a_range_without_a_plain_lower_bound_is_refused(requirement: str) -> None:
    with pytest.raises(SystemExit, match="write it as name>=version"):
        lowest.lowest(requirement)


def extras_of(target: str) -> set[str]:
    """What a target of the Makefile installs, extras of extras included."""
    text = (tree.ROOT / "Makefile").read_text()
    recipe = re.search(rf"^{target}:([^#\n]*).*\n((?:\t.*\n)*)", text, re.MULTILINE)
    assert recipe is not None
    if "setup" in recipe[1].split():
        return extras_of("setup")
    named = re.search(r"scripts/setup ([\w,]+)", recipe[2])
    assert named is not None
    found, left = set(), named[1].split(",")
    while left:
        extra = left.pop()
        found.add(extra)
        for need in PROJECT["optional-dependencies"][extra]:
            if inside := re.fullmatch(r"hedgerow\[(.+)\]", need):
                left += inside[1].split(",")
    return found


def test_a_target_installs_what_it_needs_and_no_more() -> None:
    assert extras_of("demo") == {"sklearn"}
    assert extras_of("lint") == {"lint", "desk"}  # mypy reads the types of what the desk is built from
    assert {"torch", "sklearn", "words", "fsspec", "site", "test"} <= extras_of("test")
    assert "torch" not in extras_of("test-lowest")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"CHROMIUM": "no-such-browser"}, "CHROMIUM names no-such-browser, which cannot be run"),
        ({"PATH": ""}, "no chromium: install it"),  # and no apt-get
    ],
)
def test_a_browser_that_cannot_be_had_is_one_line(environment: dict[str, str], message: str) -> None:
    script = tree.ROOT / "scripts" / "setup-browser"
    done = subprocess.run([script], env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("ci", "outcome"), [("", "1 skipped"), ("true", "1 error")])
def test_without_a_browser_tests_of_pages_are_skipped_except_in_ci(tmp_path: Path, ci: str, outcome: str) -> None:
    (tmp_path / "test_page.py").write_text("def test_page(browser):\n    raise AssertionError\n")
    environment = {**os.environ, "CHROMIUM": "no-such-browser", "CI": ci, "PYTHONPATH": str(tree.ROOT / "tests")}
    options = ["-p", "conftest", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tmp_path), str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert outcome in done.stdout, done.stdout
