"""The wheel and the source distribution: both are built, installed or unpacked elsewhere, and used."""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow as hr

ROOT = Path(__file__).resolve().parents[2]
NAME = f"hedgerow-{hr.__version__}"


def call(*arguments: Any, cwd: Path, **environment: str) -> str:
    """Run Python with these arguments; returns what it printed."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and "PYTEST" not in name}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env={**clean, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution. The build back-end is installed: no network is needed."""
    folder = tmp_path_factory.mktemp("dist")
    call("-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", folder, cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def unpacked(built: Path) -> Path:
    with tarfile.open(built / f"{NAME}.tar.gz") as archive:
        archive.extractall(built, filter="data")
    return built / NAME


def list_wheel(path: Path) -> set[str]:
    with zipfile.ZipFile(path) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_the_wheel_has_the_package_and_nothing_else(built: Path) -> None:
    package = ROOT / "src" / "hedgerow"
    files = {path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    names = {path.relative_to(ROOT / "src").as_posix() for path in files}
    assert {"hedgerow/py.typed", "hedgerow/experiments/shelf/wordlangs-small.toml"} <= names
    assert list_wheel(built / f"{NAME}-py3-none-any.whl") == names


def test_the_installed_wheel_clusters_and_selects(built: Path, tmp_path: Path) -> None:
    """Installed into a folder of its own that comes before everything else; only its dependencies are shared."""
    wheel, target = built / f"{NAME}-py3-none-any.whl", tmp_path / "installed"
    call("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", target, wheel, cwd=tmp_path)
    # The sources are the same, and compiled kernels are found by the contents of the sources.
    where = {"PYTHONPATH": str(target), "NUMBA_CACHE_DIR": str(ROOT / "src" / "hedgerow" / "kernels" / "__pycache__")}
    shown = call("-c", "import hedgerow; print(hedgerow.__file__)", cwd=tmp_path, **where)
    assert Path(shown.strip()).is_relative_to(target)
    command = target / "bin" / "hedgerow"
    assert call(command, "--version", cwd=tmp_path, **where) == f"hedgerow {hr.__version__}\n"
    rng = np.random.default_rng(0)
    points, chances = rng.normal(size=(60, 4)), rng.dirichlet(np.ones(3), 60)
    np.save(tmp_path / "pool.npy", points)
    np.save(tmp_path / "predictions.npy", chances)
    call(command, "cluster", "pool.npy", "-o", "clusters.parquet", cwd=tmp_path, **where)
    np.save(tmp_path / "labeled.npy", np.arange(20))
    inputs = ["predictions.npy", "--clusters", "clusters.parquet", "--labeled", "labeled.npy"]
    arguments = [*inputs, "-k", 7, "-o", "batch.parquet", "--json"]
    assert json.loads(call(command, "select", *arguments, cwd=tmp_path, **where))["selected"] == 7
    expected = hr.select("hedge", 7, probabilities=chances, clusters=hr.cluster(points), labeled=np.arange(20))
    shown = call(
        "-c", "import hedgerow; print(hedgerow.Batch.load('batch.parquet').rows.tolist())", cwd=tmp_path, **where
    )
    assert json.loads(shown) == expected.rows.tolist()


def test_the_source_distribution_is_the_repository(unpacked: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("this is no git repository to compare with")
    left_out = {
        name for name in listed.stdout.splitlines() if (ROOT / name).exists() and not (unpacked / name).exists()
    }
    assert left_out == set()


def test_an_unpacked_source_distribution_passes_tests_and_builds_the_same_wheel(built: Path, unpacked: Path) -> None:
    where = {"PYTHONPATH": str(unpacked / "src")}
    tests = ["tests/house/test_layers.py", "tests/house/test_exports.py", "-k", "not pinned"]  # which wants all extras
    output = call("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *tests, cwd=unpacked, **where)
    assert " passed" in output
    assert "skipped" not in output
    call("-m", "hatchling", "build", "-t", "wheel", "-d", unpacked / "dist", cwd=unpacked)
    wheel = f"{NAME}-py3-none-any.whl"
    assert list_wheel(unpacked / "dist" / wheel) == list_wheel(built / wheel)
