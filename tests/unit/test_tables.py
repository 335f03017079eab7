"""Tables: the order of a folder's files, and which column is meant. What sources there are is in test_pool.py."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hedgerow.errors import InputError
from hedgerow.pool import tables


def open_table(source: object) -> tables.Table:
    opened = tables.open_source(source, "the source")
    assert isinstance(opened, tables.Table)
    return opened


@pytest.mark.parametrize(
    "names",
    [
        ("part-1", "part-2", "part-10", "part-0011"),
        ("part-00000-of-00010", "part-00002-of-00010", "part-00010-of-00010"),
        ("2/part-9", "10/part-1", "10/part-02", "10/part-2"),  # equal numbers: the name itself decides
        ("7", "a", "b1", "b1c"),  # numbers come before letters
    ],
)
def test_files_of_a_folder_are_read_in_natural_order(tmp_path: Path, names: tuple[str, ...]) -> None:
    for place, name in reversed(list(enumerate(names))):
        path = tmp_path / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"place": [place]}), path)
    assert open_table(tmp_path).read("place").tolist() == list(range(len(names)))


def test_a_column_is_found_by_its_name_in_any_case() -> None:
    table = open_table(pa.table({"ID": [1], "Margin": [0.5]}))
    assert table.find("id", tables.ID_NAMES) == "ID"
    assert table.find("rows", tables.VECTOR_NAMES["rows"]) is None
    with pytest.raises(InputError, match=r"more than one column that may hold the margins \(a, b\)"):
        table.choose("margins", ["a", "b"])


def test_many_columns_are_told_in_one_line() -> None:
    table = open_table(pa.table({f"c{place}": [0] for place in range(50)}))
    with pytest.raises(InputError, match=r"no column 'x': it has c0, .*, c19 and 30 more$"):
        table.require("x")


def test_a_column_is_walked_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "VECTOR_ROWS", 3)
    table = open_table(pa.table({"x": np.arange(7)}))
    assert [(start, piece.tolist()) for start, piece in table.chunks("x")] == [(0, [0, 1, 2]), (3, [3, 4, 5]), (6, [6])]
    assert table.read("x").tolist() == list(range(7))


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_a_column_that_repeats_is_encoded_in_batches(kind: pa.DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "VECTOR_ROWS", 2)
    values = ["b", "a", "b", "c", "a"]
    table = open_table(pa.table({"name": pa.array(values, kind), "number": [7, 5, 7, 7, 9]}))
    names, places = table.encode("name")
    assert (names.tolist(), places.tolist()) == (["b", "a", "c"], [0, 1, 0, 2, 1])
    numbers, places = table.encode("number")
    assert (numbers.tolist(), places.tolist()) == ([7, 5, 9], [0, 1, 0, 0, 2])


def test_an_empty_column_and_one_with_a_null_are_encoded_or_refused() -> None:
    empty, places = open_table(pa.table({"name": pa.array([], pa.string())})).encode("name")
    assert (len(empty), len(places)) == (0, 0)
    with pytest.raises(InputError, match="null in row 1"):
        open_table(pa.table({"name": ["a", None]})).encode("name")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("embeddings", r"name one \(--column, or column= of hedgerow.pool.open_matrix\)"),
        ("margins", r"name one \(--column, or column= of hedgerow.pool.as_vector\)"),
        ("clusters", r"name one \(column= of hedgerow.pool.as_vector\)"),
        ("ids", r"name one \(--id-column, or id_column= of hedgerow.pool.open_matrix\)"),
        ("classes", r"name one \(--class-column, or class_column= of select_pairs\)"),
        ("rows", "rename all but one$"),
    ],
)
def test_messages_say_how_to_name_a_column(name: str, advice: str) -> None:
    table = open_table(pa.table({"a": [1], "b": [2]}))
    with pytest.raises(InputError, match=rf"may hold the {name} \(a, b\): {advice}"):
        table.choose(name, ["a", "b"])
    if name == "embeddings":
        assert "name one of a, b (--column" in str(table.missing(name))


def test_the_options_in_messages_exist() -> None:
    """Every option that a message names is one of the command line, every argument one of the function named."""
    import inspect

    from typer.main import get_command

    import hedgerow
    from hedgerow import pool
    from hedgerow.cli import app

    known = {option for command in get_command(app).commands.values() for one in command.params for option in one.opts}
    text = " ".join(tables._option(name) for name in [*tables.VECTOR_NAMES, "ids", "embeddings", "logits"])
    options = set(re.findall(r"--[a-z-]+", text))
    assert options == {"--column", "--id-column", "--class-column"}
    assert options <= known
    arguments = re.findall(r"(\w+)= of (hedgerow.pool.)?(\w+)", text)
    assert len(arguments) > 5
    for argument, inside, function in arguments:
        assert argument in inspect.signature(getattr(pool if inside else hedgerow, function)).parameters
