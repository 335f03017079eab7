"""CSV and JSON lines as tables."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow import pool
from hedgerow.errors import InputError


def open_table(source: Any) -> pool.Table:
    table = pool.open_source(source, "the table")
    assert isinstance(table, pool.Table)
    return table


def test_csv_columns_have_the_narrowest_type(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,code,n,x,"name, long"\n1,007,-5,0.5,ä\n2,010,0,1e3,"b\nc"\n')
    table = open_table(tmp_path / "a.csv")
    assert {name: table.read(name).tolist() for name in table.types} == {
        "id": [1, 2],
        "code": ["007", "010"],
        "n": [-5, 0],
        "x": [0.5, 1000.0],
        "name, long": ["ä", "b\nc"],
    }
    assert table.dtype("id") == np.int64
    (tmp_path / "b.csv").write_text("id,key\n9223372036854775807,9223372036854775808\n-1,1\n")
    table = open_table(tmp_path / "b.csv")
    assert table.read("id").tolist() == [9223372036854775807, -1]
    assert table.read("key").tolist() == ["9223372036854775808", "1"]  # beyond int64, and never a float


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_fields_are_separated_as_those_of_the_heading(tmp_path: Path, mark: str, end: str) -> None:
    lines = [("id", "text", "y"), ("a", '"one, two; three\tfour"', "1"), ("b", "five", "2")]
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" + "".join(mark.join(line) + end for line in lines).encode())
    table = open_table(tmp_path / "a.csv")
    found = {name: table.read(name).tolist() for name in table.types}
    assert found == {"id": ["a", "b"], "text": ["one, two; three\tfour", "five"], "y": [1, 2]}
    (tmp_path / "b.csv").write_text(f"text{end}one; two{end}three{end}")
    assert open_table(tmp_path / "b.csv").read("text").tolist() == ["one; two", "three"]


def test_predictions_in_csv_and_json_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\ufeffid,p_cat,p_dog\na,0.25,0.75\nb,1,0\n")
    (tmp_path / "a.jsonl").write_text('{"id": "a", "probs": [0.25, 0.75]}\n{"id": "b", "probs": [1, 0]}\n')
    for name in ("a.csv", "a.jsonl"):
        matrix = pool.open_matrix(tmp_path / name, "probabilities")
        assert matrix.array().tolist() == [[0.25, 0.75], [1.0, 0.0]]
        assert matrix.ids is not None
        assert matrix.ids.array().tolist() == ["a", "b"]


def test_several_text_files_are_one_table(tmp_path: Path) -> None:
    (tmp_path / "part-1.csv").write_text("id,x\n1,1\n2,2\n")
    (tmp_path / "part-2.csv").write_text("id,x\n003,0.5\n")
    table = open_table(tmp_path)
    assert table.read("id").tolist() == ["1", "2", "003"]  # one type for all files
    assert table.read("x").tolist() == [1.0, 2.0, 0.5]
    (tmp_path / "part-3.csv").write_text("id,y\n4,1\n")
    with pytest.raises(InputError, match=r"part-3.csv and .*part-1.csv have different columns"):
        open_table(tmp_path)
    (tmp_path / "b1.jsonl").write_text('{"x": 1}\n')
    (tmp_path / "b2.jsonl").write_text('{"x": 0.5}\n')
    assert open_table(str(tmp_path / "b*.jsonl")).read("x").tolist() == [1.0, 0.5]


def test_strings_that_look_like_times_stay_strings(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"x": 1, "id": "2026-01-02 03:04:05"}\n{"x": 2, "id": "2026-01-02T00:00:00Z"}\n')
    (tmp_path / "a.csv").write_text("x,id\n1,2026-01-02 03:04:05\n2,2026-01-02T00:00:00Z\n")
    for name in ("a.jsonl", "a.csv"):
        table = open_table(tmp_path / name)
        assert list(table.types) == ["x", "id"]
        assert table.read("id").tolist() == ["2026-01-02 03:04:05", "2026-01-02T00:00:00Z"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "id,x\n1\n", "a.csv cannot be read as CSV"),
        ("a.csv", "x,x\n1,2\n", "two columns of one name"),
        ("a.csv", "x\n1\n\n", None),
        ("a.csv", "id,x\na,1\nb,\n", "has a null in row 1"),
        ("a.csv", b"x\n\xff\n", "a.csv cannot be read as CSV"),
        ("a.csv", "id,x\n1,2\n".encode("utf-16"), "a.csv is text in UTF-16: save it in UTF-8"),
        ("a.jsonl", "[1]\n", "a.jsonl cannot be read as JSON lines"),
        ("a.jsonl", '{"x": 1}\n{"x": \n', "a.jsonl cannot be read as JSON lines"),
        ("a.jsonl", '{"x": 1}\n{"y": 1}\n', "has a null in row 1"),
        ("a.jsonl", "nonsense", "a.jsonl cannot be read as JSON lines"),
    ],
)
def test_text_that_is_refused(tmp_path: Path, name: str, content: Any, message: str | None) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    if message is None:
        assert open_table(path).read("x").tolist() == [1]
        return
    with pytest.raises(InputError, match=message) as caught:
        open_table(path).read("x")
    assert "\n" not in str(caught.value)


def test_lines_longer_than_a_megabyte(tmp_path: Path) -> None:
    numbers = ["0.5"] * 400_000
    (tmp_path / "a.jsonl").write_text('{"embedding": [' + ",".join(numbers) + "]}\n")
    assert pool.open_matrix(tmp_path / "a.jsonl", "embeddings").width == 400_000
    (tmp_path / "a.csv").write_text("x,text\n1," + "y" * 2_000_000 + "\n")
    assert open_table(tmp_path / "a.csv").read("x").tolist() == [1]


def test_csv_without_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x\n")
    table = open_table(tmp_path / "a.csv")
    assert (table.n, list(table.types)) == (0, ["id", "x"])
