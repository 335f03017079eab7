"""Files, folders, patterns, lists and URLs: which files are read, in which order, and what is refused."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hedgerow import pool
from hedgerow.errors import InputError, MissingExtraError
from hedgerow.pool import sources

N, WIDTH = 60, 3


@pytest.fixture
def values() -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).random((N, WIDTH), dtype=np.float32)


def table_of(values: npt.NDArray[Any], start: int = 0) -> Any:
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
    return pa.table({"id": [f"k{row}" for row in range(start, start + len(values))], "embedding": lists})


def write_parts(folder: Path, values: npt.NDArray[Any], suffix: str = ".parquet") -> list[Path]:
    """Twelve parts, so that part-10 would come before part-2 in the order of letters."""
    paths = []
    for place in range(12):
        part, path = values[place * 5 : place * 5 + 5], folder / f"part-{place}{suffix}"
        if suffix == ".npy":
            np.save(path, part)
        else:
            pq.write_table(table_of(part, place * 5), path)
        paths.append(path)
    return paths


@pytest.mark.parametrize("suffix", [".parquet", ".npy"])
def test_a_folder_a_pattern_and_a_list_are_one_matrix(tmp_path: Path, values: npt.NDArray[Any], suffix: str) -> None:
    paths = write_parts(tmp_path, values, suffix)
    urls = [f"file://{path}" for path in paths]
    patterns = [tmp_path / "part-?.*", tmp_path / "part-??.*"]
    folder = (tmp_path, str(tmp_path), f"file://{tmp_path}", f"{tmp_path}*/", tmp_path / "**")
    for source in (
        *folder,
        tmp_path / "part-*",
        f"{tmp_path}/*{suffix}",
        paths,
        tuple(map(str, paths)),
        patterns,
        urls,
    ):
        matrix = pool.open_matrix(source, "embeddings")
        assert np.array_equal(matrix.array(), values), source
        assert np.array_equal(matrix.read(23, 51), values[23:51]), source
    turned = pool.open_matrix(paths[::-1], "embeddings")
    assert np.array_equal(turned.read(0, 5), values[-5:])  # a list is read in its own order


def test_files_with_odd_names(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    for name in ("ünïcode 名.npy", "a[1].npy", "with%20percent.npy", "star*.npy", "#hash.npy"):
        np.save(tmp_path / name, values)
        assert np.array_equal(pool.as_matrix(tmp_path / name, "embeddings"), values), name
    (tmp_path / "link.npy").symlink_to(tmp_path / "#hash.npy")
    assert np.array_equal(pool.as_matrix(tmp_path / "link.npy", "embeddings"), values)
    np.save(tmp_path / "with space.npy", values)
    assert np.array_equal(pool.as_matrix(f"file://{tmp_path}/with%20space.npy", "embeddings"), values)
    assert np.array_equal(pool.as_matrix(f"file://localhost{tmp_path}/with%20space.npy", "embeddings"), values)


def test_locations_that_are_refused(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    (tmp_path / "mixed").mkdir()
    paths = write_parts(tmp_path / "mixed", values)
    np.save(tmp_path / "mixed" / "a.npy", values)
    (tmp_path / "loop.npy").symlink_to(tmp_path / "loop.npy")
    (tmp_path / "dangling.npy").symlink_to(tmp_path / "nothing.npy")
    os.mkfifo(tmp_path / "pipe.npy")
    refused: list[tuple[Any, str]] = [
        (tmp_path / "mixed", "holds files of different kinds, such as .*: name files of one kind"),
        ([paths[0], tmp_path / "mixed" / "a.npy"], "holds files of different kinds"),
        ([paths[0], paths[0]], r"part-0.parquet is listed twice"),
        ([tmp_path / "mixed" / "part-1*", paths[1]], r"part-1.parquet is listed twice"),
        (tmp_path / "*.pq", r"embeddings: no file matches .*\*.pq"),
        (tmp_path / "none.npy", r"embeddings: .*none.npy does not exist"),
        ([paths[0], tmp_path / "none.parquet"], "none.parquet does not exist"),
        (paths[0] / "below.npy", "below.npy does not exist"),
        (tmp_path / "loop.npy", "loop.npy' cannot be read"),
        (tmp_path / "dangling.npy", "dangling.npy does not exist"),
        (tmp_path / "pipe.npy", "neither a file nor a folder"),
        ("a\0b.npy", "cannot be read"),
        ("x" * 300 + ".npy", "cannot be read"),
        ("", "embeddings: the path is empty"),
        ("file://elsewhere/a.npy", r"on another machine \(elsewhere\)"),
        ("nonsense://a.npy", "nonsense://a.npy cannot be opened: Protocol not known: nonsense"),
    ]
    for source, message in refused:
        with pytest.raises(InputError, match=message) as caught:
            pool.as_matrix(source, "embeddings")
        assert "\n" not in str(caught.value)


def test_a_broken_file_among_good_ones_is_named(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    paths = write_parts(tmp_path, values)
    paths[7].write_bytes(b"PAR1 broken")
    with pytest.raises(InputError, match=r"part-7.parquet cannot be read as Parquet"):
        pool.open_matrix(paths, "embeddings")


def test_files_that_do_not_agree(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    np.save(tmp_path / "a.npy", values)
    np.save(tmp_path / "b.npy", values[:, :2])
    np.save(tmp_path / "c.npy", values.astype(np.float64))
    for other in ("b", "c"):
        with pytest.raises(InputError, match=rf"{other}.npy holds .* but .*a.npy holds float32 of shape \(60, 3\)"):
            pool.open_matrix([tmp_path / "a.npy", tmp_path / f"{other}.npy"], "embeddings")
    pq.write_table(table_of(values), tmp_path / "a.parquet")
    pq.write_table(table_of(values).select(["embedding"]), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"b.parquet and .*a.parquet have different columns or types"):
        pool.open_matrix([tmp_path / "a.parquet", tmp_path / "b.parquet"], "embeddings")


@pytest.mark.parametrize("name", ["a.npy", "a.parquet", "a.csv", "a.txt"])
def test_a_file_without_permission(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"something")
    path.chmod(0)
    user = os.geteuid()
    if user == 0:  # root may read everything
        tmp_path.chmod(0o755)
        for parent in tmp_path.parents[:2]:
            parent.chmod(0o755)
        os.seteuid(65534)
    try:
        with pytest.raises(InputError, match=rf"labeled: .*{name} cannot be read: permission denied"):
            pool.find_rows(path, "labeled", 3, None)
        if name != "a.txt":
            with pytest.raises(InputError, match=rf"embeddings: .*{name} cannot be read: permission denied"):
                pool.open_matrix(path, "embeddings")
    finally:
        os.seteuid(user)


# URLs


@pytest.fixture
def memory() -> Any:
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/", recursive=True)


def upload(system: Any, folder: Path, target: str) -> None:
    for path in sorted(folder.iterdir()):
        system.pipe(f"{target}/{path.name}", path.read_bytes())


@pytest.mark.parametrize("suffix", [".parquet", ".npy"])
def test_files_at_urls(tmp_path: Path, values: npt.NDArray[Any], memory: Any, suffix: str) -> None:
    write_parts(tmp_path, values, suffix)
    upload(memory, tmp_path, "/bucket/pool")
    parts = [f"memory://bucket/pool/part-{place}{suffix}" for place in range(12)]
    sources_ = ("memory://bucket/pool", f"memory://bucket/pool/*{suffix}", parts, Path("memory://bucket/pool"))
    for source in sources_:
        matrix = pool.open_matrix(source, "embeddings")
        assert np.array_equal(matrix.array(), values), source
        assert np.array_equal(matrix.read(23, 51), values[23:51]), source
        assert np.array_equal(np.concatenate([piece for _, piece in matrix.chunks(7)]), values), source
        assert (matrix.ids is None) == (suffix == ".npy")
    one = pool.open_matrix(parts[3], "embeddings")
    assert np.array_equal(one.array(), values[15:20])
    assert pool.count_rows(parts[3], "embeddings") == 5


def test_urls_that_are_refused(tmp_path: Path, values: npt.NDArray[Any], memory: Any) -> None:
    np.save(tmp_path / "turned.npy", np.asfortranarray(values))
    np.save(tmp_path / "cut.npy", values)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "cut.npy").read_bytes()[:-10])
    (tmp_path / "empty.npy").touch()
    upload(memory, tmp_path, "/bad")
    for name, message in {
        "turned.npy": "stored by columns, .*: save a C-ordered array",
        "cut.npy": "cannot be read as npy",
        "empty.npy": "is empty",
        "none.npy": "memory://bad/none.npy does not exist",
        "*.pq": "no file matches",
    }.items():
        with pytest.raises(InputError, match=message):
            pool.open_matrix(f"memory://bad/{name}", "embeddings")


def test_a_url_without_fsspec_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    with pytest.raises(MissingExtraError, match=r"reading s3://bucket/a.npy needs an optional dependency.*\[fsspec\]"):
        pool.open_matrix("s3://bucket/a.npy", "embeddings")


def test_which_strings_are_locations(tmp_path: Path) -> None:
    for source in ("a.npy", "folder", tmp_path, ["a.npy", "b.npy"], [tmp_path], ["s3://bucket/x"], ["folder/x"]):
        assert sources.is_location(source)
    for source in (["a", "b"], [1, 2], [], ("cat", "dog.npy"), [["a.npy"]], None, 3, np.array(["a.npy"])):
        assert not sources.is_location(source)
    assert pool.as_vector(["cat", "dog"], "names").tolist() == ["cat", "dog"]
