"""Matrices, tables and ids as records: any range of rows, and the same in another process."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hedgerow import pool
from hedgerow.errors import InputError
from hedgerow.pool import tables

N, WIDTH = 500, 6
READ_ELSEWHERE = """
import pickle, sys
import numpy as np
record = pickle.loads(sys.stdin.buffer.read())
rows = record.read(*sys.argv[1:2], 440, 470) if sys.argv[1:2] else record.read(440, 470)
sys.stdout.buffer.write(pickle.dumps((record.n, rows)))
"""


@pytest.fixture
def values() -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).random((N, WIDTH), dtype=np.float32)


def lists(values: npt.NDArray[Any], *, fixed: bool = True) -> Any:
    array = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
    return array if fixed else array.cast(pa.list_(array.type.value_type))


def sources(folder: Path, values: npt.NDArray[Any]) -> dict[str, Any]:
    """The same matrix in every form; those in files have ids."""
    ids = [f"k{row}" for row in range(N)]
    table = pa.table({"id": ids, "embedding": lists(values)})
    pq.write_table(table, folder / "lists.parquet", row_group_size=99)
    ragged = pa.table({"id": ids, "embedding": lists(values, fixed=False)})
    pq.write_table(ragged, folder / "ragged.parquet", row_group_size=70)
    columns = pa.table({"id": ids, **{f"e{place}": values[:, place] for place in range(WIDTH)}})
    pq.write_table(columns, folder / "columns.parquet", row_group_size=110)
    (folder / "parts").mkdir()
    for place, start in enumerate(range(0, N, 130)):
        pq.write_table(table.slice(start, 130), folder / "parts" / f"part-{place}.parquet", row_group_size=50)
    pq.write_table(table.slice(0, 0), folder / "parts" / "part-9.parquet")
    np.save(folder / "a.npy", values)
    files = {name: folder / name for name in ("lists.parquet", "ragged.parquet", "columns.parquet", "parts", "a.npy")}
    return {**files, "array": values, "columns first": np.asfortranarray(values), "table": table}


def read_elsewhere(record: Any, *arguments: str) -> Any:
    """What a second process reads from a pickled record."""
    done = subprocess.run(
        [sys.executable, "-c", READ_ELSEWHERE, *arguments], input=pickle.dumps(record), capture_output=True, check=True
    )
    return pickle.loads(done.stdout)


def test_any_range_of_rows_in_every_form(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    for form, source in sources(tmp_path, values).items():
        matrix = pool.open_matrix(source, "embeddings")
        for start, stop in ((0, N), (0, 1), (N - 1, N), (98, 100), (129, 131), (250, 250), (400, N + 50), (N, N)):
            rows = matrix.read(start, stop)
            assert rows.flags.c_contiguous, form
            assert np.array_equal(rows, values[start:stop]), (form, start, stop)
        pieces = list(matrix.chunks(40, 95, 310))
        assert pieces[0][0] == 95
        assert np.array_equal(np.concatenate([piece for _, piece in pieces]), values[95:310]), form
        assert all(np.array_equal(piece, values[start : start + len(piece)]) for start, piece in pieces)


def test_ids_travel_with_a_matrix(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    for form, source in sources(tmp_path, values).items():
        ids = pool.open_matrix(source, "embeddings").ids
        if form in ("a.npy", "array", "columns first"):
            assert ids is None
        else:
            assert ids is not None
            assert ids.read(250, 253).tolist() == ["k250", "k251", "k252"]
            assert ids.take(np.array([499, 3, 3])).tolist() == ["k499", "k3", "k3"]
    other = pa.table({"id": [1.5], "code": ["a"], "embedding": [[1.0]]})
    assert pool.open_matrix(other, "embeddings", id_column="code").ids.array().tolist() == ["a"]
    with pytest.raises(InputError, match="column 'code' was asked for"):
        pool.open_matrix(values, "embeddings", id_column="code")


@pytest.mark.parametrize("form", ["lists.parquet", "columns.parquet", "parts", "a.npy", "columns first", "table"])
def test_a_record_is_read_in_another_process(tmp_path: Path, values: npt.NDArray[Any], form: str) -> None:
    source = sources(tmp_path, values)[form]
    n, rows = read_elsewhere(pool.open_matrix(source, "embeddings"))
    assert n == N
    assert np.array_equal(rows, values[440:470])


def test_tables_and_ids_are_read_in_another_process(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    table = pool.open_source(sources(tmp_path, values)["parts"], "the pool")
    assert isinstance(table, pool.Table)
    expected = [f"k{row}" for row in range(440, 470)]
    assert read_elsewhere(table, "id")[1].tolist() == expected
    assert read_elsewhere(pool.find_ids(table))[1].tolist() == expected
    assert read_elsewhere(pool.Ids.of([f"k{row}" for row in range(N)], "ids"))[1].tolist() == expected


def test_a_record_over_files_is_small(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    """It carries names and offsets, not the data."""
    files = sources(tmp_path, values)
    for form in ("lists.parquet", "parts", "a.npy"):
        assert len(pickle.dumps(pool.open_matrix(files[form], "embeddings"))) < 3000


def test_a_range_reads_only_the_row_groups_it_overlaps(
    tmp_path: Path, values: npt.NDArray[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(
        pa.table({"id": np.arange(N), "embedding": lists(values)}), tmp_path / "a.parquet", row_group_size=50
    )
    matrix = pool.open_matrix(tmp_path / "a.parquet", "embeddings")
    asked: list[list[int]] = []
    real = pq.ParquetFile.iter_batches

    def watch(file: Any, *, row_groups: list[int], **options: Any) -> Any:
        asked.append(list(row_groups))
        return real(file, row_groups=row_groups, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", watch)
    matrix.read(460, 470)
    matrix.read(99, 101)
    matrix.read(100, 150)
    assert matrix.ids is not None
    matrix.ids.read(499, 500)
    assert asked == [[9], [1, 2], [2], [9]]


def test_a_broken_first_part_does_not_hinder_the_last_rows(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    matrix = pool.open_matrix(sources(tmp_path, values)["parts"], "embeddings")
    (tmp_path / "parts" / "part-0.parquet").write_bytes(b"broken")
    assert np.array_equal(matrix.read(400, N), values[400:])
    with pytest.raises(InputError, match=r"part-0.parquet cannot be read as Parquet"):
        matrix.read(0, 10)


def test_files_that_changed_since_they_were_opened(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    files = sources(tmp_path, values)
    parquet, npy = (pool.open_matrix(files[form], "embeddings") for form in ("lists.parquet", "a.npy"))
    pq.write_table(pa.table({"embedding": lists(values[:400])}), tmp_path / "lists.parquet")
    np.save(tmp_path / "a.npy", values[:400])
    for matrix in (parquet, npy):
        with pytest.raises(InputError, match="has changed since it was opened: open it again"):
            matrix.read(0, 10)


def test_ranges_that_are_refused_or_empty(values: npt.NDArray[Any]) -> None:
    matrix = pool.open_matrix(values, "embeddings")
    assert matrix.read(5, 3).shape == matrix.read(N, N + 5).shape == (0, WIDTH)
    for start, stop in ((-1, 5), (0, -1), (0.5, 2), ("0", 1)):
        with pytest.raises(InputError, match=r"(start|stop) must be"):
            matrix.read(start, stop)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["lists.parquet", "a.npy"])
def test_a_record_is_read_in_another_folder(
    tmp_path: Path, values: npt.NDArray[Any], form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources(tmp_path, values)
    monkeypatch.chdir(tmp_path)
    content = pickle.dumps(pool.open_matrix(form, "embeddings"))
    monkeypatch.chdir("/")
    assert np.array_equal(pickle.loads(content).read(5, 9), values[5:9])


def test_a_table_reads_a_range_of_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "VECTOR_ROWS", 3)
    table = tables.open_source(pa.table({"x": np.arange(10)}), "the table")
    assert isinstance(table, tables.Table)
    assert table.read("x", 2, 9).tolist() == list(range(2, 9))
    assert [start for start, _ in table.chunks("x", 2, 9)] == [2, 5, 8]


def test_a_record_does_not_carry_other_columns(values: npt.NDArray[Any]) -> None:
    table = pa.table({"id": np.arange(N), "embedding": lists(values), "text": ["x" * 10_000] * N})
    matrix = pool.open_matrix(table, "embeddings")
    assert len(pickle.dumps(matrix)) < 4 * (values.nbytes + 8 * N)
    part = pool.open_matrix(table.slice(100, 10), "embeddings")
    assert len(pickle.dumps(part)) < 3000  # not the table that it is a slice of
    assert np.array_equal(pickle.loads(pickle.dumps(part)).array(), values[100:110])


# Some rows.


@pytest.fixture
def read_groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The row groups that are read, in order."""
    read: list[int] = []
    in_batches, at_once = pq.ParquetFile.iter_batches, pq.ParquetFile.read_row_group

    def watch_batches(file: Any, *arguments: Any, row_groups: list[int], **options: Any) -> Any:
        read.extend(row_groups)
        return in_batches(file, *arguments, row_groups=row_groups, **options)

    def watch_groups(file: Any, group: int, *arguments: Any, **options: Any) -> Any:
        read.append(group)
        return at_once(file, group, *arguments, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", watch_batches)
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", watch_groups)
    return read


@pytest.mark.parametrize("most", [7, 10])  # rows that are read at once: fewer than a row group has, or as many
def test_only_the_row_groups_of_the_rows_are_read(
    tmp_path: Path, read_groups: list[int], monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(tables, "VECTOR_ROWS", most)
    for place in range(2):
        part = pa.table({"id": [f"k{row}" for row in range(100 * place, 100 * place + 100)]})
        pq.write_table(part, tmp_path / f"part-{place}.parquet", row_group_size=10)
    ids = pool.find_ids(pool.open_source(tmp_path, "the pool"))  # type: ignore[arg-type]
    assert ids is not None
    assert ids.take(np.array([157, 29, 20, 150, 29])).tolist() == ["k157", "k29", "k20", "k150", "k29"]
    assert read_groups == [2, 5]
    assert ids.take(np.array([9, 10])).tolist() == ["k9", "k10"]
    assert read_groups == [2, 5, 0, 1]
    assert ids.take(np.zeros(0, np.int64)).tolist() == []
    assert len(read_groups) == 4


def test_some_rows_of_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "VECTOR_ROWS", 7)
    texts = [None if row % 10 == 3 else f"text {row % 40}" for row in range(N)]
    table = pa.table({"text": texts})
    pq.write_table(table, tmp_path / "one.parquet")
    pq.write_table(table, tmp_path / "many.parquet", row_group_size=33)
    views = pa.table({"text": pa.array(texts, pa.string_view())})
    forms = [tmp_path / "one.parquet", tmp_path / "many.parquet", table, views]
    rows = np.random.default_rng(5).integers(0, N, 60)
    for form in [*forms, pa.table({"text": pa.array(texts).dictionary_encode()})]:
        opened = pool.open_source(form, "texts")
        assert isinstance(opened, pool.Table)
        taken: list[Any] = [""] * 60
        for places, (values,) in opened.gather(["text"], rows):
            for place, value in zip(places, values.to_pylist(), strict=True):
                taken[place] = value
        assert taken == [texts[row] for row in rows]


def test_ids_of_some_rows_that_cannot_be_used() -> None:
    ids = pool.find_ids(pool.open_source(pa.table({"id": ["a", "b", None, "d"]}), "the pool"))  # type: ignore[arg-type]
    assert ids is not None
    assert ids.take(np.array([3, 1])).tolist() == ["d", "b"]
    with pytest.raises(InputError, match="has a null in row 2"):
        ids.take(np.array([3, 2, 0]))
    large = pool.find_ids(pool.open_source(pa.table({"id": pa.array([1, 2**63], pa.uint64())}), "the pool"))  # type: ignore[arg-type]
    assert large is not None
    assert large.take(np.array([0])).tolist() == [1]
    with pytest.raises(InputError, match="9223372036854775808, which is beyond int64"):
        large.take(np.array([1, 0]))
