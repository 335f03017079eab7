"""Tables of other libraries: Arrow, polars, pyarrow datasets and scanners, Hugging Face datasets."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import hedgerow
from hedgerow import pool
from hedgerow.errors import InputError
from hedgerow.pool.frames import DatasetData

N, WIDTH = 300, 4


@pytest.fixture
def values() -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).random((N, WIDTH), dtype=np.float32)


@pytest.fixture
def table(values: npt.NDArray[Any]) -> Any:
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), WIDTH)
    return pa.table({"id": [f"k{row}" for row in range(N)], "embedding": lists, "label": np.arange(N)})


def check(source: Any, values: npt.NDArray[Any]) -> pool.Matrix:
    """The matrix and its ids, whole, by ranges and by chunks."""
    matrix = pool.open_matrix(source, "embeddings")
    assert np.array_equal(matrix.array(), values)
    for start, stop in ((0, 1), (95, 210), (299, 300), (150, 150), (290, 999)):
        assert np.array_equal(matrix.read(start, stop), values[start:stop])
    pieces = list(matrix.chunks(37))
    assert [start for start, _ in pieces] == np.cumsum([0, *[len(piece) for _, piece in pieces[:-1]]]).tolist()
    assert all(0 < len(piece) <= 37 for _, piece in pieces)
    assert np.array_equal(np.concatenate([piece for _, piece in pieces]), values)
    if matrix.ids is not None:
        assert matrix.ids.read(120, 123).tolist() == ["k120", "k121", "k122"]
    return matrix


def test_arrow_tables_batches_and_readers(table: Any, values: npt.NDArray[Any]) -> None:
    for source in (table, table.combine_chunks().to_batches()[0], table.to_reader(max_chunksize=70)):
        assert check(source, values).ids is not None


def test_a_reader_is_opened_once_and_shared(table: Any, values: npt.NDArray[Any]) -> None:
    """A reader can be read once: what is opened from it serves the matrix, the ids and other columns."""
    opened = pool.open_source(table.to_reader(), "the pool")
    assert pool.open_ids(opened).array().tolist() == table["id"].to_pylist()  # type: ignore[union-attr]
    check(opened, values)
    assert pool.as_vector(opened, "labels").tolist() == list(range(N))
    assert pool.count_rows(opened, "the pool") == N


def test_an_object_with_only_an_arrow_array(table: Any, values: npt.NDArray[Any]) -> None:
    batch = table.combine_chunks().to_batches()[0]

    class Batch:
        def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
            return batch.__arrow_c_array__(requested_schema)

    check(Batch(), values)


# pyarrow datasets


@pytest.fixture
def dataset(tmp_path: Path, table: Any) -> Any:
    for place in range(3):
        pq.write_table(table.slice(place * 100, 100), tmp_path / f"part-{place}.parquet", row_group_size=30)
    return pyarrow.dataset.dataset(tmp_path, format="parquet")


def test_a_pyarrow_dataset_is_read_by_fragments(dataset: Any, values: npt.NDArray[Any], tmp_path: Path) -> None:
    matrix = check(dataset, values)
    assert matrix.ids is not None
    assert np.array_equal(pickle.loads(pickle.dumps(matrix)).read(5, 9), values[5:9])
    (tmp_path / "part-0.parquet").write_bytes(b"broken")
    assert np.array_equal(matrix.read(250, 300), values[250:])  # the first part is not touched


def test_a_filtered_dataset_and_a_scanner(dataset: Any, values: npt.NDArray[Any]) -> None:
    late = dataset.filter(pyarrow.dataset.field("label") >= 100)
    opened = pool.open_source(late, "the pool")
    assert isinstance(opened, pool.Table)
    assert isinstance(opened.data, DatasetData)
    assert np.array_equal(pool.open_matrix(opened, "embeddings").array(), values[100:])
    assert np.array_equal(pool.open_matrix(opened, "embeddings").read(150, 160), values[250:260])
    check(dataset.scanner(columns=["id", "embedding"]), values)


def test_a_dataset_in_memory(table: Any, values: npt.NDArray[Any]) -> None:
    check(pyarrow.dataset.dataset(table), values)


# polars


def test_polars_frames(table: Any, values: npt.NDArray[Any], tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.from_arrow(table)
    check(frame, values)
    assert check(frame["embedding"], values).ids is None
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=40)
    lazy = polars.scan_parquet(tmp_path / "a.parquet")
    check(lazy, values)
    late = lazy.filter(polars.col("label") >= 250).select("id", "embedding")
    assert np.array_equal(pool.as_matrix(late, "embeddings"), values[250:])
    for kind in (polars.Categorical, polars.Enum(["b", "a"])):
        named = pool.open_ids(polars.DataFrame({"id": polars.Series(["a", "b"], dtype=kind)}))
        assert named is not None
        assert named.array().tolist() == ["a", "b"]
    assert pool.as_vector(frame["label"], "labels").tolist() == list(range(N))
    with pytest.raises(InputError, match="embeddings cannot be evaluated: ") as caught:
        pool.as_matrix(lazy.select("nope"), "embeddings")
    assert "\n" not in str(caught.value)


def test_lazy_frames_of_older_versions(table: Any, values: npt.NDArray[Any]) -> None:
    """Before the streaming engine, and before `collect` had a choice of engines."""

    class LazyFrame:
        def collect(self, engine: str = "cpu") -> Any:
            if engine != "cpu":
                raise ValueError(f"Invalid engine argument {engine=}")
            return table

    class OlderLazyFrame:
        def collect(self) -> Any:
            return table

    for kind in (LazyFrame, OlderLazyFrame):
        kind.__module__, kind.__name__ = "polars.lazyframe.frame", "LazyFrame"
        check(kind(), values)


# Hugging Face datasets


def make_stand_ins(table: Any) -> tuple[Any, Any]:
    """A dataset with the methods of datasets.Dataset that are used, and one of its columns."""

    class Features:
        def __init__(self, schema: Any) -> None:
            self.arrow_schema = schema

    class Dataset:
        def __init__(self, table: Any, order: Any, form: str | None = None) -> None:
            self._table, self._order, self._form = table, order, form
            self.features, self.num_rows = Features(table.schema), len(order)

        def select_columns(self, columns: list[str]) -> Any:
            return Dataset(self._table.select(columns), self._order, self._form)

        def with_format(self, form: str) -> Any:
            return Dataset(self._table, self._order, form)

        def __getitem__(self, part: Any) -> Any:
            assert self._form == "arrow"
            return self._table.take(self._order[part])

    class Column:
        def __init__(self, source: Any, column_name: str) -> None:
            self.source, self.column_name = source, column_name

    Dataset.__module__ = Column.__module__ = "datasets.arrow_dataset"
    shuffled = np.random.default_rng(1).permutation(N)
    whole = Dataset(table.take(np.argsort(shuffled)), shuffled)  # rows in an order of its own, as after shuffle()
    return whole, Column(whole, "embedding")


def test_hugging_face_datasets_and_columns(table: Any, values: npt.NDArray[Any]) -> None:
    whole, column = make_stand_ins(table)
    assert check(whole, values).ids is not None
    assert check(column, values).ids is None


def test_hugging_face_datasets_themselves(table: Any, values: npt.NDArray[Any]) -> None:
    datasets = pytest.importorskip("datasets")
    made = datasets.Dataset(table)
    assert check(made, values).ids is not None
    assert check(made["embedding"], values).ids is None
    order = np.random.default_rng(1).permutation(N)
    check(made.select(order).select(np.argsort(order)), values)
    assert np.array_equal(pool.as_matrix(made.with_format("numpy").select(range(10, 20)), "embeddings"), values[10:20])
    assert pool.as_vector(made["label"], "labels").tolist() == list(range(N))
    with pytest.raises(InputError, match="embeddings is a DatasetDict of the datasets library: pass one of its splits"):
        pool.open_matrix(datasets.DatasetDict({"train": made}), "embeddings")
    with pytest.raises(InputError, match="IterableDataset of the datasets library: pass a Dataset"):
        pool.open_matrix(made.to_iterable_dataset(), "embeddings")


def test_datasets_that_are_refused() -> None:
    for bases, advice in (((dict,), "pass one of its splits"), ((), "pass a Dataset or one of its columns")):
        kind = type("Splits", bases, {"__module__": "datasets.dataset_dict"})
        with pytest.raises(InputError, match=f"embeddings is a Splits of the datasets library: {advice}"):
            pool.open_matrix(kind(), "embeddings")


def test_a_frame_with_a_column_called_labels_is_a_table() -> None:
    """A DataFrame has an attribute per column, and what `cluster` returns has labels too."""
    table = pa.table({"id": ["a", "b", "c"], "p0": [0.5, 0.1, 0.2], "p1": [0.5, 0.9, 0.8], "labels": [0, 1, 1]})

    class Frame:
        labels = np.array([0, 1, 1])

        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return table.__arrow_c_stream__(requested_schema)

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise AssertionError("its Arrow data should be read")

    batch = hedgerow.select("margin", 1, probabilities=Frame())
    assert batch.ids is not None
    assert (batch.rows.tolist(), batch.ids.tolist()) == ([0], ["a"])
