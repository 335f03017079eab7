"""The cache of compiled kernels: other users, read-only installations, no home folder, other versions of numba."""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow import kernels
from hedgerow.campaign import layouts
from hedgerow.kernels import compiling
from hedgerow.pool import open_matrix
from hedgerow.progress import ignore
from shell import Run

NOBODY = 65534
PACKAGE = Path(hr.__file__).parent

# Scores a few rows and reports how many kernels that compiled, and every warning.
PROGRAM = """
import json, warnings
import numpy as np
import hedgerow as hr
from hedgerow import kernels
compiled = []
with kernels.listen(lambda: compiled.append(1)), warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    scores = hr.margins(np.full((4, 3), 1 / 3, np.float32))
    hr.margins(np.full((4, 3), 1 / 3, np.float64))
assert (scores == 0).all()
warned = [f"{each.category.__name__}: {each.message}" for each in caught]
print(json.dumps({"file": hr.__file__, "compiled": len(compiled), "warned": warned}))
"""

# Multiplies matrices of each layout in a kernel.
PRODUCTS = """
from hedgerow.kernels.compiling import kernel
from hedgerow.kernels.products import multiply, multiply_vector

@kernel
def run(left, right, flat, square, vector):
    multiply(left, right, flat)
    multiply(left, right, square)
    multiply_vector(left, right[0], vector)

left, right = np.arange(12, dtype=np.float32).reshape(4, 3), np.arange(6, dtype=np.float32).reshape(2, 3)
flat, square, vector = np.zeros(9, np.float32), np.zeros((4, 2), np.float32), np.zeros(4, np.float32)
run(left, right, flat, square, vector)
assert (flat[:8].reshape(4, 2) == left @ right.T).all()
assert (square == left @ right.T).all()
assert (vector == left @ right[0]).all()
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that other users can reach, with a copy of the package (site) and a folder for temporary files (tmp)."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        shutil.copytree(PACKAGE, folder / "site" / "hedgerow", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o1777)
        yield folder


def run_as(user: int | None, place: Path, *, program: str = PROGRAM, **environment: str) -> dict[str, Any]:
    """The program in a process of its own, as another user if one is given, with no home and no NUMBA_CACHE_DIR."""
    kept = {"PATH": os.environ["PATH"], "PYTHONPATH": str(place / "site"), "TMPDIR": str(place / "tmp")}
    # Python itself may be in root's home: the other user may read everything, and write only what is theirs.
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    become += ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]
    command = [*([] if user is None else become), sys.executable, "-c", program]
    done = subprocess.run(command, env=kept | environment, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert Path(found["file"]).is_relative_to(place)
    return found


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can start a process as another user")


@needs_root
def test_another_user_compiles_into_a_private_folder_and_is_warned_once(place: Path) -> None:
    first = run_as(NOBODY, place)
    assert first["compiled"] > 1
    assert len(first["warned"]) == 1
    assert first["warned"][0].startswith("HedgerowWarning: ")
    assert "NUMBA_CACHE_DIR" in first["warned"][0]
    private = place / "tmp" / f"hedgerow-{NOBODY}"
    assert str(private) in first["warned"][0]
    assert private.stat().st_uid == NOBODY
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    again = run_as(NOBODY, place)
    assert again["compiled"] == 0
    assert again["warned"] == []


@needs_root
@pytest.mark.parametrize("planted", ["folder", "link"])
def test_a_private_folder_of_somebody_else_is_not_used(place: Path, planted: str) -> None:
    private = place / "tmp" / f"hedgerow-{NOBODY}"
    if planted == "folder":
        private.mkdir()
    else:
        (place / "elsewhere").mkdir()
        private.symlink_to(place / "elsewhere")
        os.chown(place / "elsewhere", NOBODY, NOBODY)
    private.chmod(0o777)
    for _ in range(2):
        found = run_as(NOBODY, place)
        assert found["compiled"] > 1
        assert len(found["warned"]) == 1
        assert "compiled again by every process" in found["warned"][0]
    assert list(private.iterdir()) == []


@needs_root
def test_what_root_compiled_serves_every_user_of_an_installation_they_cannot_write_to(place: Path) -> None:
    assert run_as(None, place)["compiled"] > 1
    # An image is made of copies: neither times nor paths stay.
    shutil.copytree(place / "site", place / "image" / "site", copy_function=shutil.copy)
    (place / "image" / "tmp").mkdir()
    found = run_as(NOBODY, place / "image")
    assert found["compiled"] == 0
    assert found["warned"] == []


@needs_root
def test_a_changed_kernel_is_compiled_again_and_the_stale_code_is_removed(place: Path) -> None:
    run_as(None, place)
    cache = place / "site" / "hedgerow" / "kernels" / "__pycache__"
    before = list(cache.glob("hedgerow-*"))
    with (place / "site" / "hedgerow" / "kernels" / "draws.py").open("a") as source:  # another one: it may be inlined
        source.write("# changed\n")
    assert run_as(None, place)["compiled"] > 1
    after = list(cache.glob("hedgerow-*"))
    assert len(before) == len(after) == 1
    assert before != after


@needs_root
def test_the_folder_given_is_used_and_no_other(place: Path) -> None:
    given = place / "given"
    given.mkdir()
    os.chown(given, NOBODY, NOBODY)
    found = run_as(NOBODY, place, NUMBA_CACHE_DIR=str(given))
    assert found["compiled"] > 1
    assert found["warned"] == []
    assert run_as(NOBODY, place, NUMBA_CACHE_DIR=str(given))["compiled"] == 0
    assert list((place / "tmp").iterdir()) == []


def test_a_truncated_entry_is_compiled_again(place: Path) -> None:
    run_as(None, place, NUMBA_CACHE_DIR=str(place / "given"))
    for entry in (place / "given").rglob("*.nbc"):
        entry.write_bytes(entry.read_bytes()[:100])
    found = run_as(None, place, NUMBA_CACHE_DIR=str(place / "given"))
    assert found["compiled"] > 1
    assert found["warned"] == []
    assert run_as(None, place, NUMBA_CACHE_DIR=str(place / "given"))["compiled"] == 0


@pytest.mark.parametrize(
    ("owner", "name"), [("compiler.CompileResult", "_reduce"), ("cpu.CPUTargetOptions.__base__", "_nrt")]
)
def test_a_numba_without_the_names_that_the_cache_needs_compiles_in_every_process(
    place: Path, owner: str, name: str
) -> None:
    without = f"import numba.core.compiler, numba.core.cpu\ndel numba.core.{owner}.{name}\n"
    for _ in range(2):
        found = run_as(None, place, program=without + PROGRAM + PRODUCTS)
        assert len(found["warned"]) == 1
        assert found["warned"][0].startswith("HedgerowWarning: compiled kernels cannot be cached with numba")
        assert name in found["warned"][0]
    assert list(place.rglob("*.nbc")) == []


def test_products_in_kernels_are_those_of_numpy(place: Path) -> None:
    assert run_as(None, place, program=PROGRAM + PRODUCTS)["warned"] == []


def test_a_full_disk_costs_a_warning_and_not_the_result(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "file").touch()
    missing = compiling.Folders((), place / "file" / "folder", True)  # cannot be made, not even by root
    monkeypatch.setattr(compiling, "find_folders", lambda: missing)
    double = compiling.kernel(lambda value: 2 * value)
    with pytest.warns(hr.HedgerowWarning, match="could not be saved .* NUMBA_CACHE_DIR"):
        assert double(21) == 42


@pytest.mark.parametrize("lasting", [True, False])
def test_a_folder_that_another_process_removed_is_made_again(
    place: Path, monkeypatch: pytest.MonkeyPatch, lasting: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(place / "tmp"))
    private = compiling.make_private("hedgerow-0")
    assert private is not None
    target = place / "cache" / "hedgerow-0" if lasting else private
    folders = compiling.Folders((target,), target, lasting)
    monkeypatch.setattr(compiling, "find_folders", lambda: folders)
    monkeypatch.setattr(compiling, "warn_once", lambda folders: None)
    shutil.rmtree(target.parent, ignore_errors=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiling.kernel(lambda value: 2 * value)(21) == 42
    assert len(list(target.iterdir())) == 1
    assert lasting or stat.S_IMODE(target.parent.stat().st_mode) == 0o700
    compiled: list[int] = []
    with kernels.listen(lambda: compiled.append(1)):
        assert compiling.kernel(lambda value: 2 * value)(21) == 42
    assert not compiled


def test_a_first_clustering_reports_that_it_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    from hedgerow.kernels import forest

    hr.cluster(np.eye(5), average_size=2)  # everything else is compiled, or loaded, now
    fresh = compiling.kernel(forest.label_points.py_func)
    monkeypatch.setattr(forest, "label_points", fresh)
    monkeypatch.setattr(compiling, "find_folders", lambda: compiling.Folders((), None, True))
    phases: list[str] = []
    hr.cluster(np.eye(5), average_size=2, progress=lambda phase, done: phases.append(phase))
    assert "compiling, once" in phases
    phases.clear()
    hr.cluster(np.eye(5), average_size=2, progress=lambda phase, done: phases.append(phase))
    assert "compiling, once" not in phases
    assert phases


def test_warm_leaves_nothing_to_compile(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "SAMPLE", 1000)  # so that rows are placed among others
    answer = run("warm", "--json")
    assert answer.code == 0
    assert json.loads(answer.out)["folder"] == str(compiling.find_folders().target)
    rng = np.random.default_rng(0)
    labeled = tmp_path / "labeled.npy"
    np.save(labeled, np.arange(100))
    compiled: list[int] = []
    with kernels.listen(lambda: compiled.append(1)):
        for kind in (np.float16, np.float32, np.float64):
            pool, chances = tmp_path / "pool.npy", tmp_path / "chances.npy"
            np.save(pool, rng.normal(size=(6_000, 5)).astype(kind))
            np.save(chances, rng.dirichlet(np.ones(7), 6_000).astype(kind))
            for method in ("exact", "certified", "multiround", "assign"):
                out = tmp_path / f"{method}.parquet"
                assert run("cluster", pool, "--method", method, "-o", out, "--force").code == 0
            for strategy in hr.STRATEGIES:
                inputs = ["--clusters", out, "--embeddings", pool, "--labeled", labeled, "--strategy", strategy]
                batch = ["-k", 50, "-o", tmp_path / "batch.parquet", "--force"]
                assert run("select", chances, *inputs, *batch).code == 0
            layouts.make_layout(open_matrix(pool, "embeddings"), ignore)
    assert not compiled
