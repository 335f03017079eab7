"""What comes in, in every form it comes; what is refused, with the row and what to do."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hedgerow import __version__, pool
from hedgerow.errors import InputError, StoreError
from hedgerow.pool.outputs import check_output

N, WIDTH = 500, 6


@pytest.fixture
def values() -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).random((N, WIDTH), dtype=np.float32)


def lists(values: npt.NDArray[Any], *, fixed: bool = True) -> Any:
    array = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
    return array if fixed else array.cast(pa.list_(array.type.value_type))


def write(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    pq.write_table(pa.table(columns), path, **options)
    return path


class ByProtocol:
    """Stands for another library's tensor: only the protocols, no numpy."""

    def __init__(self, values: npt.NDArray[Any], protocol: str) -> None:
        self._values = values
        setattr(type(self), protocol, getattr(type(self), f"offer{protocol}"))

    def offer__array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        return self._values

    def offer__dlpack__(self, **options: Any) -> Any:
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._values.__dlpack_device__()


# Matrices


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("fixed", [True, False])
def test_a_list_column_keeps_its_floats(tmp_path: Path, values: npt.NDArray[Any], dtype: type, fixed: bool) -> None:
    typed = values.astype(dtype)
    path = write(
        tmp_path / "a.parquet", {"id": np.arange(N), "embedding": lists(typed, fixed=fixed)}, row_group_size=99
    )
    matrix = pool.open_matrix(path, "embeddings")
    assert (matrix.n, matrix.width, matrix.dtype) == (N, WIDTH, dtype)
    assert np.array_equal(matrix.array(), typed)


@pytest.mark.parametrize("rows", [1, 7, 99, 100, N, 10 * N])
def test_chunks_cover_every_row_once_in_order(tmp_path: Path, values: npt.NDArray[Any], rows: int) -> None:
    path = write(tmp_path / "a.parquet", {"embedding": lists(values)}, row_group_size=100)
    np.save(tmp_path / "a.npy", np.asfortranarray(values))
    for source in (path, tmp_path / "a.npy", values, pq.read_table(path)):
        at = 0
        for start, block in pool.open_matrix(source, "embeddings").chunks(rows):
            assert start == at
            assert 0 < len(block) <= rows
            assert block.flags.c_contiguous
            assert np.array_equal(block, values[start : start + len(block)])
            at += len(block)
        assert at == N


def test_a_chunk_of_parquet_is_all_that_is_held(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    """One row group of 32 MB, walked in chunks of 32 KB: Arrow's peak stays near a chunk, not near the group."""
    big = np.tile(values, (2800, 1))
    path = write(tmp_path / "a.parquet", {"embedding": lists(big)}, row_group_size=len(big), use_dictionary=False)
    before = pa.total_allocated_bytes()
    peak = 0
    for _, block in pool.open_matrix(path, "embeddings").chunks(1400):
        assert block.shape[1] == WIDTH
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert peak < big.nbytes / 4


def test_one_column_a_dimension_in_file_order(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    columns = {f"emb_{place}": values[:, place] for place in (3, 0, 1)}
    path = write(tmp_path / "a.parquet", {"item_id": np.arange(N), **columns, "label": np.zeros(N, np.int64)})
    assert np.array_equal(pool.as_matrix(path, "embeddings"), values[:, [3, 0, 1]])


def test_columns_named_by_class(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"id": ["a", "b"], "cat": [0.25, 1.0], "dog": [0.75, 0.0]})
    assert pool.as_matrix(path, "probabilities").tolist() == [[0.25, 0.75], [1.0, 0.0]]


def test_the_name_decides_between_two_matrices(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    other = {f"p{place}": values[:, place] for place in range(3)}
    path = write(tmp_path / "a.parquet", {"vector": lists(values), **other})
    assert pool.open_matrix(path, "embeddings").width == WIDTH
    assert pool.open_matrix(path, "probabilities").width == 3
    with pytest.raises(InputError, match=r"more than one column that may hold the pool \(vector, p\)"):
        pool.open_matrix(path, "pool")


def test_a_column_can_be_named(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    columns = {"a": lists(values), "b": lists(values[:, :2]), "q_0": values[:, 0], "q_1": values[:, 1]}
    path = write(tmp_path / "a.parquet", columns)
    assert pool.open_matrix(path, "embeddings", column="b").width == 2
    assert pool.open_matrix(path, "embeddings", column="q").width == 2
    assert pool.open_matrix(path, "embeddings", column="q_1").width == 1
    with pytest.raises(InputError, match="more than one column"):
        pool.open_matrix(path, "embeddings")
    with pytest.raises(InputError, match="no column 'nope': it has a, b, q_0, q_1"):
        pool.open_matrix(path, "embeddings", column="nope")


def test_embeddings_are_not_mistaken_for_probabilities(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    path = write(tmp_path / "a.parquet", {"embedding": lists(values)})
    with pytest.raises(InputError, match="no column that looks like probabilities: name one of embedding"):
        pool.open_matrix(path, "probabilities")


def test_a_column_that_is_no_matrix(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"name": ["x", "y"], "when": pa.array([1, 2], pa.timestamp("s"))})
    with pytest.raises(InputError, match="no column that looks like embeddings"):
        pool.open_matrix(path, "embeddings")
    with pytest.raises(InputError, match=r"column 'name' of .* holds string"):
        pool.open_matrix(path, "embeddings", column="name")


def test_lists_of_unequal_length_are_refused_with_the_row(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"embedding": [[1.0, 2.0]] * 5 + [[1.0]] + [[1.0, 2.0, 3.0]]})
    with pytest.raises(InputError, match="holds 1 numbers in row 5, but 2 in row 0"):
        pool.as_matrix(path, "embeddings")


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), 2)])
@pytest.mark.parametrize("row", [0, 3])
@pytest.mark.parametrize("null", [None, [1.0, None]])
def test_nulls_are_refused_with_the_row(tmp_path: Path, kind: Any, row: int, null: Any) -> None:
    rows: list[Any] = [[1.0, 2.0]] * 5
    rows[row] = null
    path = write(tmp_path / "a.parquet", {"embedding": pa.array(rows, kind)}, row_group_size=2)
    # Older versions of Arrow cannot read a null among lists of fixed size.
    with pytest.raises(InputError, match=f"has a null in row {row}|Expected all lists to be of size"):
        pool.as_matrix(path, "embeddings")
    path = write(tmp_path / "b.parquet", {"p0": [1.0] * 5, "p1": [1.0] * row + [None] + [1.0] * (4 - row)})
    with pytest.raises(InputError, match=f"column 'p1' of .* has a null in row {row}"):
        pool.as_matrix(path, "probabilities")


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    write(tmp_path / "part-1.parquet", {"id": np.arange(300, N), "embedding": lists(values[300:])})
    write(tmp_path / "part-0.parquet", {"id": np.arange(300), "embedding": lists(values[:300])})
    write(tmp_path / ".part-2.7-0.tmp.parquet", {"junk": [1]})
    (tmp_path / "_SUCCESS").touch()
    assert np.array_equal(pool.as_matrix(tmp_path, "embeddings"), values)
    assert np.array_equal(pool.as_vector(tmp_path, "key", column="id"), np.arange(N))
    write(tmp_path / "part-2.parquet", {"id": [9999], "embedding": lists(values[:1, :2])})
    with pytest.raises(InputError, match=r"part-2.parquet and .*part-0.parquet have different columns or types"):
        pool.open_matrix(tmp_path, "embeddings")


def test_a_folder_without_parquet(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no .parquet, .npy, .csv or .jsonl files"):
        pool.open_matrix(tmp_path, "embeddings")


def test_npy_is_mapped_and_a_memmap_stays_one(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    np.save(tmp_path / "a.npy", values)
    mapped = pool.as_matrix(tmp_path / "a.npy", "embeddings")
    assert isinstance(mapped, np.memmap)
    assert pool.as_matrix(mapped, "embeddings") is mapped
    assert np.array_equal(mapped, values)
    assert pool.as_matrix(str(tmp_path / "a.npy"), "embeddings").shape == (N, WIDTH)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_, ">f4", ">f8"])
def test_whole_numbers_and_foreign_byte_orders_become_native_floats(dtype: Any) -> None:
    array = np.array([[0, 1], [1, 1]]).astype(dtype)
    matrix = pool.open_matrix(array, "embeddings")
    assert matrix.dtype.isnative
    assert matrix.dtype == (np.float64 if array.dtype.itemsize == 8 else np.float32)  # which holds every digit
    assert matrix.array().dtype == matrix.dtype
    assert matrix.array().tolist() == [[0, 1], [1, 1]]


@pytest.mark.parametrize("protocol", ["__array__", "__dlpack__"])
def test_tensors_by_protocol(values: npt.NDArray[Any], protocol: str) -> None:
    kind = type("Tensor", (ByProtocol,), {})
    assert np.array_equal(pool.as_matrix(kind(values, protocol), "embeddings"), values)


def test_a_tensor_that_refuses_says_why() -> None:
    class Gpu:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.\nmore")

    with pytest.raises(InputError, match=r"embeddings cannot be read as an array: .*Use Tensor.cpu\(\) first$"):
        pool.as_matrix(Gpu(), "embeddings")


def test_arrow_by_protocol(values: npt.NDArray[Any]) -> None:
    table = pa.table({"id": np.arange(N), "embedding": lists(values)})

    class Frame:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return table.__arrow_c_stream__(requested_schema)

    for source in (table, Frame(), table.to_reader()):
        assert np.array_equal(pool.as_matrix(source, "embeddings"), values)
    assert np.array_equal(pool.as_matrix(table.slice(10, 20), "embeddings"), values[10:30])
    assert np.array_equal(pool.as_matrix(table["embedding"], "embeddings"), values)
    uneven = pa.table({"embedding": lists(values, fixed=False)}).slice(10, 20)
    assert np.array_equal(pool.as_matrix(uneven, "embeddings"), values[10:30])
    assert pool.as_vector(pa.chunked_array([[1, 2], [3]]), "labels" * 2).tolist() == [1, 2, 3]


def test_a_matrix_is_opened_once(values: npt.NDArray[Any]) -> None:
    matrix = pool.open_matrix(values, "embeddings")
    assert pool.open_matrix(matrix, "embeddings") is matrix
    with pytest.raises(InputError, match="at least 7 columns, got 500 x 6"):
        pool.open_matrix(matrix, "embeddings", least_columns=7)
    with pytest.raises(InputError, match="rows must be at least 1"):
        next(matrix.chunks(0))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (np.zeros(3), "two dimensions"),
        (np.zeros((2, 2), complex), "real numbers"),
        (np.array([["a"]]), "real numbers"),
        (np.ma.masked_invalid([[1.0, np.nan]]), "masked entries"),
        ([[1.0], [1.0, 2.0]], "cannot be read as an array"),
        (np.zeros((3, 0)), "at least 1 columns"),
        (object(), "must be an array, a table, or a path"),
        (None, "must be an array, a table, or a path"),
        (pa.table({"y": ["a"]}), "the table given as embeddings has no column that looks like embeddings"),
    ],
)
def test_what_is_no_matrix_is_refused(source: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        pool.as_matrix(source, "embeddings")


def test_a_column_of_an_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 2)))
    with pytest.raises(InputError, match="column 'x' was asked for, but an array has no named columns"):
        pool.as_matrix(np.zeros((2, 2)), "embeddings", column="x")
    with pytest.raises(InputError, match=r"a.npy has no named columns"):
        pool.as_vector(tmp_path / "a.npy", "margins", column="x")


# Files that are not what they say


def broken_files(folder: Path) -> dict[str, str]:
    np.save(folder / "cut.npy", np.zeros((100, 100)))
    (folder / "cut.npy").write_bytes((folder / "cut.npy").read_bytes()[:500])
    np.save(folder / "objects.npy", np.array([{}, []], object))
    (folder / "pickle.npy").write_bytes(pickle.dumps([1, 2]))
    np.savez(folder / "zip.npz", a=np.zeros(3))
    (folder / "zip.npz").rename(folder / "zip.npy")
    write(folder / "really.npy", {"a": [1]})
    (folder / "text.parquet").write_text("id,embedding\n")
    pq.write_table(pa.table({"a": np.arange(10_000)}), folder / "cut.parquet")
    (folder / "cut.parquet").write_bytes((folder / "cut.parquet").read_bytes()[:-100])
    (folder / "empty.npy").touch()
    (folder / "empty.parquet").touch()
    (folder / "table.json").write_text("a\n")
    read = "cannot be read as"
    return {
        "cut.npy": f"{read} npy", "objects.npy": f"{read} npy", "pickle.npy": f"{read} npy", "zip.npy": f"{read} npy",
        "really.npy": f"{read} npy", "text.parquet": f"{read} Parquet", "cut.parquet": f"{read} Parquet",
        "empty.npy": "is empty", "empty.parquet": "is empty", "table.json": "is not a .parquet, .npy",
        "none.npy": "does not exist", "none.parquet": "does not exist",
    }  # fmt: skip


def test_broken_files_are_told_in_one_line(tmp_path: Path) -> None:
    for file, message in broken_files(tmp_path).items():
        with pytest.raises(InputError, match=message) as caught:
            pool.as_matrix(tmp_path / file, "embeddings")
        assert "\n" not in str(caught.value)
        assert file in str(caught.value)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_large_table_is_mapped_from_a_file_that_goes_with_it(
    tmp_path: Path, values: npt.NDArray[Any], dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "pool.parquet", {"embedding": lists(values.astype(dtype))}, row_group_size=70)
    (scratch := tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    plain = pool.as_matrix(path, "embeddings")
    monkeypatch.setattr("hedgerow.pool.matrices.MAP_BYTES", plain.nbytes)
    mapped = pool.as_matrix(path, "embeddings")
    assert not isinstance(plain, np.memmap)
    assert isinstance(mapped, np.memmap)
    assert mapped.dtype == dtype
    np.testing.assert_array_equal(mapped, plain)
    assert list(scratch.iterdir()) == []


def test_a_large_table_and_no_room(tmp_path: Path, values: npt.NDArray[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "pool.parquet", {"embedding": lists(values)})
    monkeypatch.setattr("hedgerow.pool.matrices.MAP_BYTES", 1)
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full, the device that is always full")
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: full.open("wb"))
    with pytest.raises(StoreError, match="set TMPDIR to a folder with room"):
        pool.as_matrix(path, "embeddings")


def test_a_file_broken_inside_is_told_when_it_is_read(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    path = write(tmp_path / "a.parquet", {"embedding": lists(values)}, compression="zstd")
    content = bytearray(path.read_bytes())
    content[40:400] = bytes(360)
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a.parquet cannot be read as Parquet"):
        pool.as_matrix(path, "embeddings")


def test_two_columns_of_one_name() -> None:
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["p", "p"])
    with pytest.raises(InputError, match="two columns of one name"):
        pool.as_matrix(table, "probabilities")


def test_no_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"embedding": pa.array([], pa.list_(pa.float32(), 3))})
    assert pool.as_matrix(path, "embeddings").shape == (0, 3)
    np.save(tmp_path / "a.npy", np.zeros((0, 3)))
    assert pool.as_matrix(tmp_path / "a.npy", "embeddings").shape == (0, 3)
    path = write(tmp_path / "b.parquet", {"embedding": pa.array([], pa.list_(pa.float32()))})
    with pytest.raises(InputError, match="at least 1 columns, got 0 x 0"):
        pool.as_matrix(path, "embeddings")


# Vectors


def test_vectors_keep_their_dtype(tmp_path: Path) -> None:
    columns = {"id": ["a", "b"], "margin": np.array([0.5, 0.1], np.float32), "cluster": np.array([3, 1], np.int32)}
    path = write(tmp_path / "a.parquet", columns)
    assert pool.as_vector(path, "margins").dtype == np.float32
    assert pool.as_vector(path, "clusters").tolist() == [3, 1]
    assert pool.as_vector(path, "anything", column="id").tolist() == ["a", "b"]
    np.save(tmp_path / "a.npy", np.array([1, 2], np.int16))
    assert pool.as_vector(tmp_path / "a.npy", "clusters").dtype == np.int16
    dictionary = pa.table({"x": pa.array(["u", "v", "u"]).dictionary_encode()})
    assert pool.as_vector(dictionary, "x").tolist() == ["u", "v", "u"]
    assert pool.as_vector(pa.table({"x": [True, False]}), "x").dtype == np.bool_


def test_vectors_that_are_not_there(tmp_path: Path) -> None:
    """An uncertainty is no margin: the smallest margin is the least sure, the smallest uncertainty the surest."""
    path = write(tmp_path / "a.parquet", {"id": [1, 2], "uncertainty": [0.5, 0.1]})
    with pytest.raises(InputError, match="no column that looks like margins: name one of id, uncertainty"):
        pool.as_vector(path, "margins")
    assert pool.as_vector(path, "margins", column="uncertainty").tolist() == [0.5, 0.1]
    with pytest.raises(InputError, match="one dimension"):
        pool.as_vector(np.zeros((2, 1)), "margins")
    with pytest.raises(InputError, match="has a null in row 1"):
        pool.as_vector(pa.table({"margin": [0.1, None]}), "margins")
    with pytest.raises(InputError, match="more than one column that may hold the margins"):
        pool.as_vector(pa.table({"margin": [0.1], "margins": [0.1]}), "margins")
    with pytest.raises(InputError, match="one number or string per row"):
        pool.as_vector(pa.table({"margin": [[0.1]]}), "margins")


def test_margins_or_a_matrix(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    path = write(tmp_path / "a.parquet", {"id": np.arange(N), "margin": values[:, 0], "probs": lists(values)})
    assert pool.holds_vector(path, "margins")
    assert not pool.holds_vector(path, "margins", column="probs")
    assert pool.holds_vector(path, "margins", column="margin")
    assert not pool.holds_vector(pa.table({"p0": [0.1], "p1": [0.9]}), "margins")
    assert not pool.holds_vector(pa.table({"p0": [0.1], "p1": [0.9]}), "margins", column="p")
    assert pool.holds_vector(values[:, 0], "margins")
    assert not pool.holds_vector(values, "margins")
    with pytest.raises(InputError, match="looks like margins or probabilities: name one of id, uncertainty"):
        pool.holds_vector(pa.table({"id": ["a"], "uncertainty": ["high"]}), "margins")


def test_rows_are_counted(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    assert pool.count_rows(values, "pool") == N
    assert pool.count_rows(write(tmp_path / "a.parquet", {"embedding": lists(values)}), "pool") == N


# Tables out


def test_a_table_is_written_whole_with_its_metadata(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    columns = {"id": np.array(["a", "b"], object), "row": np.array([4, 2]), "margin": np.array([0.5, 1], np.float32)}
    pool.write_table(path, columns, {"k": "2"})
    table = pq.read_table(path)
    assert table.to_pydict() == {"id": ["a", "b"], "row": [4, 2], "margin": [0.5, 1.0]}
    assert [str(kind) for kind in table.schema.types] == ["string", "int64", "float"]
    assert pool.read_metadata(path) == {"hedgerow.version": __version__, "k": "2"}
    with pytest.raises(StoreError, match="exists"):
        pool.write_table(path, columns, {})
    pool.write_table(path, {"row": np.array([1])}, {}, force=True)
    assert pq.read_table(path).num_rows == 1
    assert list(tmp_path.iterdir()) == [path]


def test_columns_of_unequal_length_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="same rows"):
        pool.write_table(tmp_path / "out.parquet", {"a": np.zeros(2), "b": np.zeros(3)}, {})
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_is_an_input_is_refused(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    """Also where the input is the folder, the pattern or the list that the file belongs to."""
    path = write(tmp_path / "a.parquet", {"embedding": lists(values)})
    other = write(tmp_path / "b.parquet", {"embedding": lists(values)})
    (tmp_path / "link.parquet").symlink_to(path)
    for given in (path, tmp_path, tmp_path / "*.parquet", [other, path], f"file://{path}", tmp_path / "link.parquet"):
        with pytest.raises(StoreError, match=r"a.parquet is an input: name another file to write"):
            pool.check_target(path, force=True, inputs=[None, values, given])
        with pytest.raises(StoreError, match=r"a.parquet is an input: name another file to write"):
            check_output(path, force=True, inputs=[given])
    pool.check_target(path, force=True, inputs=[other])
    pool.check_target(tmp_path / "new.parquet", force=False, inputs=[path])


# Columns of unusual types


def test_list_views_and_tensors_of_fixed_shape(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    views = pa.array(values.tolist(), pa.list_view(pa.float32()))
    tensors = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), [2, 3]), lists(values))
    for column in (views, tensors):
        assert np.array_equal(pool.as_matrix(pa.table({"embedding": column}), "embeddings"), values)
        assert np.array_equal(pool.as_matrix(pa.table({"embedding": column}).slice(7, 9), "embeddings"), values[7:16])
    path = write(tmp_path / "a.parquet", {"embedding": tensors})
    assert np.array_equal(pool.open_matrix(path, "embeddings").read(100, 110), values[100:110])


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ([["a", "b"]], "list<.*string>"),
        ([[[1.0, 2.0]]], "list<.*list<.*double>>"),
        ([{"a": 1.0}], "struct<a: double>"),
        ([[True, False]], "list<.*bool>"),
        (pa.nulls(1), "null"),
    ],
)
def test_a_column_with_the_right_name_and_another_type(column: Any, kind: str) -> None:
    table = pa.table({"id": ["x"], "embedding": column})
    with pytest.raises(InputError, match=f"column 'embedding' of .* holds {kind}, but embeddings must be lists"):
        pool.open_matrix(table, "embeddings")


def test_a_single_number_is_not_taken_for_a_matrix() -> None:
    table = pa.table({"id": ["a"], "x": [1.0], "y": [2.0], "text": ["t"]})
    with pytest.raises(InputError, match="no column that looks like embeddings: name one of id, x, y, text"):
        pool.open_matrix(table, "embeddings")


def test_a_table_without_columns() -> None:
    with pytest.raises(InputError, match="the table given as embeddings has no columns: embeddings are needed"):
        pool.open_matrix(pa.table({}), "embeddings")


def test_columns_with_odd_names(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"meta": [{"emb.0": 1.0, "id": 5}], "emb.0": [2.0], "emb.1": [3.0], "id": [7]})
    matrix = pool.open_matrix(path, "embeddings")
    assert matrix.array().tolist() == [[2.0, 3.0]]
    assert matrix.ids is not None
    assert matrix.ids.array().tolist() == [7]


def test_more_than_one_dimension_is_not_taken_for_two_classes() -> None:
    with pytest.raises(InputError, match=r"got shape \(2, 2, 2\)$"):
        pool.open_matrix(np.zeros((2, 2, 2)), "probabilities")


# Chosen rows.


@pytest.mark.parametrize("form", ["array", "memmap", "lists", "columns", "several files"])
def test_chosen_rows_in_the_order_given(tmp_path: Path, values: npt.NDArray[np.float32], form: str) -> None:
    np.save(tmp_path / "a.npy", values)
    np.save(tmp_path / "first.npy", values[:200])
    np.save(tmp_path / "second.npy", values[200:])
    source = {
        "array": values,
        "memmap": tmp_path / "a.npy",
        "lists": write(tmp_path / "lists.parquet", {"embedding": lists(values)}, row_group_size=60),
        "columns": pa.table({f"e{place}": values[:, place] for place in range(WIDTH)}),
        "several files": [tmp_path / "first.npy", tmp_path / "second.npy"],
    }[form]
    matrix = pool.open_matrix(source, "embeddings")
    rows = np.array([499, 3, 3, 250, 0, 199, 200])
    assert (matrix.take(rows) == values[rows]).all()
    assert matrix.take(rows[:0]).shape == (0, WIDTH)
    seen = np.concatenate([positions for positions, _ in matrix.gather(rows)])
    assert sorted(seen.tolist()) == list(range(len(rows)))
    for positions, block in matrix.gather(rows):
        assert (block == values[rows[positions]]).all()
