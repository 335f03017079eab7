"""A function of the user's own over rows of files: the same on every engine, continued, refused if it is wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from engine_tasks import soften
from hedgerow.engines import Engine
from hedgerow.errors import InputError, StoreError
from hedgerow.functions import apply
from hedgerow.pool import as_matrix
from shell import Run


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.npy"
    np.save(path, np.random.default_rng(2).normal(size=(100, 4)).astype(np.float32))
    return path


@pytest.mark.parametrize("name", ["serial", "processes:2", "dask:2"])
def test_results_are_files_that_are_read_as_one(
    name: str, engines: Callable[[str], Engine], source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    files = apply("engine_tasks:soften", source, out, rows=30, engine=engines(name))
    assert [file.name for file in files] == [f"rows-{start:012}.npy" for start in (0, 30, 60, 90)]
    expected = soften(np.load(source))
    assert as_matrix(out, "probabilities").tobytes() == expected.tobytes()
    assert hr.margins(out).tobytes() == hr.margins(expected).tobytes()
    assert sorted(path.name for path in out.iterdir() if path not in files) == ["_run"]


def test_a_run_continues_and_another_function_needs_another_folder(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    files = apply("engine_tasks:soften", str(source), out, rows=60)
    np.save(files[0], np.full((60, 4), 0.25, np.float32))
    files[1].unlink()
    apply("engine_tasks:soften", source, out, rows=60)
    whole = as_matrix(out, "probabilities")
    assert (whole[:60] == 0.25).all()
    assert (whole[60:] == soften(np.load(source))[60:]).all()
    for function, rows in (("engine_tasks:shorten", 60), ("engine_tasks:soften", 50)):
        with pytest.raises(StoreError, match="belongs to another run"):
            apply(function, source, out, rows=rows)
    with pytest.raises(StoreError, match="is not empty, and not a folder of such results"):
        apply("engine_tasks:soften", source, tmp_path)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("soften", "must be named as \"module:function\", got 'soften'"),
        (soften, 'must be named as "module:function", got <function'),
        ("no_such_module:f", "'no_such_module:f' cannot be imported: No module named"),
        ("engine_tasks:nothing", "'engine_tasks:nothing' cannot be imported: module 'engine_tasks' has no"),
        ("engine_tasks:SEEN", "'engine_tasks:SEEN' is not a function, but list"),
        ("engine_tasks:shorten", r"shorten returned float32 of shape \(99, 4\) for 100 rows"),
        ("engine_tasks:name_rows", r"name_rows returned .*U1 of shape \(100,\) for 100 rows: .* of numbers"),
    ],
)
def test_a_wrong_function_is_refused(function: Any, message: str, source: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        apply(function, source, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.npy"))


def test_the_command(run: Run, source: Path, tmp_path: Path) -> None:
    done = run("apply", "engine_tasks:soften", source, "-o", tmp_path / "out", "--engine", "processes:1", "--json")
    assert done.code == 0, done.error
    assert json.loads(done.out)["files"] == 1
    again = run("apply", "engine_tasks:soften", source, "-o", tmp_path / "out")
    assert again.out == f"engine_tasks:soften applied to {source}: 1 files -> {tmp_path / 'out'}\n"
    assert run("engine", "report", tmp_path / "out" / "_run").code == 0
    assert run("apply", "engine_tasks", source, "-o", tmp_path / "no").code == 1
