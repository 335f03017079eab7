"""Files that list some of the pool's rows: by id, by number, in every form; and files that are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hedgerow.errors import InputError
from hedgerow.pool import find_rows, open_ids, read_labels, read_listing


def write(path: Path, columns: dict[str, Any]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def listing(folder: Path, name: str, content: Any) -> Path:
    path = folder / name
    if path.suffix == ".npy":
        np.save(path, content)
    elif path.suffix == ".parquet":
        write(path, content)
    else:
        path.write_text(content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.npy", np.array([30, 10])),
        ("a.npy", np.array([False, True, False, True])),
        ("a.parquet", {"id": [30, 10, 30]}),
        ("a.parquet", {"id": [30, 10], "row": [3, 1], "label": ["x", "y"]}),
        ("a.parquet", {"key": [7, 8], "code": [30, 10]}),
        ("a.parquet", {"row": [3, 1]}),
        ("a.txt", "30\n10\n"),
        ("a.csv", "id\n30\n\n10\n30"),
        ("a.csv", "row\n3\n1\n"),
        ("a.csv", "code\n30\n10\n"),
        ("a.csv", 'label,id\n"a, b",30\nc,10\n'),
        ("a.csv", "\ufeffid,row\n30,0\n10,0\n"),
        ("a.csv", "name, row\nx, 3\n\ny, 1\n"),
        ("a.csv", "id;label\n30;x\n10;y\n"),
        ("a.csv", "label\trow\nx\t3\ny\t1\n"),
        ("a.csv", "id,note;x;y;z\n30,a\n10,b;c;d;e\n"),
    ],
)
def test_rows_by_id(tmp_path: Path, name: str, content: Any) -> None:
    for kind in (pa.int64(), pa.string()):
        path = listing(tmp_path, name, content)
        if kind == pa.string() and path.suffix != ".csv" and path.suffix != ".txt":
            continue
        ids = open_ids(pa.table({"code": pa.array([0, 10, 20, 30]).cast(kind)}), "code")
        assert find_rows(path, "labeled", 4, ids, id_column="code").tolist() == [1, 3]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.npy", np.array([3, 1, 3])),
        ("a.parquet", {"row": [3, 1], "id": ["x", "y"]}),
        ("a.txt", "3\n1\n"),
        ("a.csv", "row\n3\n1\n"),
        ("a.csv", "id,row\n77,3\n78,1\n"),
        ("a.npy", np.array([False, True, False, True])),
    ],
)
def test_rows_by_number(tmp_path: Path, name: str, content: Any) -> None:
    assert find_rows(listing(tmp_path, name, content), "labeled", 4, None).tolist() == [1, 3]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npy", np.array([4]), "holds row 4, but the pool's rows are 0 to 3"),
        ("a.npy", np.array([-1]), "holds row -1"),
        ("a.npy", np.array([0.5]), "holds float64 where it must hold row numbers"),
        ("a.npy", np.array(["x"]), "holds strings where it must hold row numbers, because the pool has no ids"),
        ("a.npy", np.array([True]), "the pool has 4"),
        ("a.npy", np.zeros((2, 2), int), "one dimension"),
        ("a.parquet", {"id": ["x"]}, r"no column of rows \(row\): it has id, and the pool has no ids"),
        ("a.parquet", {"label": ["x"]}, r"no column of rows \(row\): it has label"),
        ("a.txt", "1\nx,2\n", "line 2 of .*a.txt is 'x,2': one whole number per line"),
        ("a.txt", "1\n99999999999999999999\n", "line 2 of .*a.txt"),
        ("a.csv", "row\n" + "1" * 200_000 + "\n", "a.csv cannot be read as text: field larger than field limit"),
        ("a.csv", "1,x\n", "no column called row, and the pool has no ids: it has 1, x"),
        ("a.csv", "id\n3\n", "no column called row, and the pool has no ids: it has id"),
        ("a.json", "[1]", "is not a .parquet, .npy, .csv or .jsonl file"),
    ],
)
def test_rows_that_are_refused(tmp_path: Path, name: str, content: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_rows(listing(tmp_path, name, content), "labeled", 4, None)


def test_rows_whose_ids_are_not_in_the_pool(tmp_path: Path) -> None:
    ids = open_ids(pa.table({"id": ["a", "b"]}))
    with pytest.raises(InputError, match=r"labeled: 1 of the ids listed are not in the pool, the first is c in "):
        find_rows(listing(tmp_path, "a.txt", "a\nc\n"), "labeled", 2, ids)
    with pytest.raises(InputError, match=r"or ids \(id\): it has label"):
        find_rows(listing(tmp_path, "a.parquet", {"label": [1]}), "labeled", 2, ids)
    with pytest.raises(InputError, match="no column called id or row: it has name, label"):
        find_rows(listing(tmp_path, "a.csv", "name,label\na,1\n"), "labeled", 2, ids)
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read as text"):
        find_rows(tmp_path / "b.txt", "labeled", 2, ids)


@pytest.mark.parametrize("odd", ["\u2028", "\u0085", "\x0c", "\x1e"])
def test_a_line_ends_only_where_lines_end(tmp_path: Path, odd: str) -> None:
    ids = open_ids(pa.table({"id": ["a", "b", f"a{odd}b", "c"]}))
    for name, content in [("a.csv", f"id,text\na{odd}b,x\nc,x{odd}a\n"), ("a.txt", f"a{odd}b\r\nc\r\n")]:
        (tmp_path / name).write_bytes(content.encode())
        assert find_rows(tmp_path / name, "labeled", 4, ids).tolist() == [2, 3]
    ids = open_ids(pa.table({"id": ["a", "a\nb"]}))
    assert find_rows(listing(tmp_path, "b.csv", 'id\n"a\nb"\n'), "labeled", 2, ids).tolist() == [1]


def test_ids_may_hold_semicolons_and_tabs(tmp_path: Path) -> None:
    ids = open_ids(pa.table({"id": ["a;1", "b;2", "c\t3", "d"]}))
    assert find_rows(listing(tmp_path, "a.csv", "a;1\nb;2\n"), "labeled", 4, ids).tolist() == [0, 1]
    assert find_rows(listing(tmp_path, "b.csv", "c\t3\nd\n"), "labeled", 4, ids).tolist() == [2, 3]


def test_several_listings_are_read_together(tmp_path: Path) -> None:
    ids = open_ids(pa.table({"id": ["a", "b", "c", "d"]}))
    first = listing(tmp_path, "first.csv", "id\nd\n")
    second = listing(tmp_path, "second.parquet", {"id": ["b", "d"]})
    third = listing(tmp_path, "third.jsonl", '{"row": 0}\n')
    assert find_rows([first, second], "labeled", 4, ids).tolist() == [1, 3]
    assert find_rows([first, str(second), third], "labeled", 4, ids).tolist() == [0, 1, 3]
    assert find_rows(str(tmp_path / "*.csv"), "labeled", 4, ids).tolist() == [3]
    assert find_rows(f"file://{first}", "labeled", 4, ids).tolist() == [3]
    assert find_rows(pa.table({"id": ["c"]}), "labeled", 4, ids).tolist() == [2]


def test_ids_that_the_pool_lacks_are_counted(tmp_path: Path) -> None:
    ids = open_ids(pa.table({"id": ["a", "b"]}))
    files = [listing(tmp_path, "a.txt", "a\nx\ny\n"), listing(tmp_path, "b.txt", "x\nb\n")]
    found = read_listing(files, "labeled", 2, ids)
    assert (found.rows.tolist(), found.unknown) == ([0, 1], 3)
    assert read_listing(files[0], "labeled", 2, ids).rows.tolist() == [0]
    with pytest.raises(InputError, match=r"labeled \(.*a.txt\): 2 of 3 ids are not in the pool, the first is x"):
        read_listing(files, "labeled", 2, ids, partial=False)


def test_a_listing_at_a_url() -> None:
    system = pytest.importorskip("fsspec").filesystem("memory")
    system.pipe("/listings/done.csv", b"row\n2\n")
    assert find_rows("memory://listings/done.csv", "labeled", 4, None).tolist() == [2]


# Labels.


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.parquet", {"id": ["30", "10", "30"], "label": [1, 0, 1]}),
        ("a.parquet", {"row": [3, 1, 3], "target": [1, 0, 1]}),
        ("a.csv", "label,id\n1,30\n0,10\n1,30\n"),
        ("a.jsonl", '{"id": "30", "label": 1}\n{"id": "10", "label": 0}\n{"id": "30", "label": 1}\n'),
    ],
)
def test_labels_come_with_the_rows_as_listed(tmp_path: Path, name: str, content: Any) -> None:
    ids = open_ids(pa.table({"id": ["0", "10", "20", "30"]}))
    (found,) = read_labels(listing(tmp_path, name, content), "labeled", 4, ids)
    assert found.rows.tolist() == [3, 1, 3]
    assert found.values.tolist() == [1, 0, 1]
    assert found.unknown == 0


def test_labels_of_unknown_ids_are_counted_or_refused(tmp_path: Path) -> None:
    ids = open_ids(pa.table({"id": ["a", "b"]}))
    path = listing(tmp_path, "a.csv", "id,label\nb,2\nz,1\n")
    (found,) = read_labels(path, "labeled", 2, ids)
    assert (found.rows.tolist(), found.values.tolist(), found.unknown) == ([1], [2], 1)
    with pytest.raises(InputError, match="1 of 2 ids are not in the pool, the first is z"):
        read_labels(path, "labeled", 2, ids, partial=False)


def test_files_without_labels_have_none(tmp_path: Path) -> None:
    paths = [
        listing(tmp_path, "a.npy", np.array([0, 1])),
        listing(tmp_path, "b.txt", "0\n1\n"),
        listing(tmp_path, "c.csv", "row\n1\n"),
        listing(tmp_path, "d.parquet", {"row": [0], "truth": [5]}),
    ]
    assert read_labels(paths, "labeled", 2, None) == []
    (found,) = read_labels(paths, "labeled", 2, None, column="truth")
    assert (found.rows.tolist(), found.values.tolist()) == ([0], [5])
    with pytest.raises(InputError, match=r"has no column 'answer'"):
        read_labels(paths, "labeled", 2, None, column="answer")
    with pytest.raises(InputError, match="no table was given that could have a column 'truth'"):
        read_labels(paths[0], "labeled", 2, None, column="truth")
    with pytest.raises(InputError, match="holds row 7, but the pool's rows are 0 to 1"):
        read_labels(listing(tmp_path, "e.csv", "row,label\n7,1\n"), "labeled", 2, None)
