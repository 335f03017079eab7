"""CSV and JSON lines as Arrow tables in memory.

A CSV file has a heading, and commas, semicolons or tabs between its fields. Its columns are whole numbers if every
value is one as Python writes it (so that the id 007 stays a string), else decimal numbers if every value is one, else
strings; an empty field is a null.
"""

import csv
import re
from collections.abc import Iterator
from typing import Any

from hedgerow.errors import InputError
from hedgerow.pool.sources import file_kind, open_bytes, reading

_WHOLE = r"^(0|-?[1-9][0-9]*)$"
BLOCK_BYTES = 1 << 24  # no line may be longer
DELIMITERS = ",;\t"
HEADING = 1 << 16  # bytes in which the first line is looked for
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_PADDED = r"^[+-]?0[0-9]"  # no number, but a key such as 007


def read_texts(paths: list[str]) -> Any:
    """The files, all CSV or all JSON lines, as one Arrow table; they must have the same columns."""
    import pyarrow as pa

    found = [_read_csv(path) if file_kind(path) == "CSV" else _read_json(path) for path in paths]
    for path, table in zip(paths, found, strict=True):
        if table.schema.names != found[0].schema.names:
            raise InputError(f"{path} and {paths[0]} have different columns: files that are read as one must agree")
    if file_kind(paths[0]) != "CSV":
        with reading(paths[-1], "JSON lines"):
            return pa.concat_tables(found, promote_options="permissive")
    return pa.table({name: _parse(pa.concat_tables(found)[name]) for name in found[0].schema.names})


def find_delimiter(text: str) -> str:
    """What stands between the fields of the first line: a comma, a semicolon or a tab, whichever gives most fields."""
    line = re.split("[\r\n]", text, maxsplit=1)[0]
    return max(DELIMITERS, key=lambda mark: len(next(csv.reader([line], delimiter=mark), [])))


def _read_csv(path: str) -> Any:
    """All columns as strings."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    with reading(path, "CSV"), open_bytes(path) as file:
        content = pa.py_buffer(file.read())
        return arrow_csv.read_csv(pa.BufferReader(content), **_find_options(path, pa.BufferReader(content)))


def stream_csv(path: str) -> Iterator[Any]:
    """A CSV file as record batches, all columns as strings; it is never held as a whole."""
    from pyarrow import csv as arrow_csv

    with reading(path, "CSV"), open_bytes(path) as file:
        options = _find_options(path, file)
        file.seek(0)
        yield from arrow_csv.open_csv(file, **options)


def _find_options(path: str, content: Any) -> dict[str, Any]:
    """How to read a CSV file whose columns are strings."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    head = content.read(HEADING)
    content.seek(0)
    if head[:2] in UTF_16:
        raise InputError(f"{path} is text in UTF-16: save it in UTF-8")
    parsing = arrow_csv.ParseOptions(delimiter=find_delimiter(head.decode(errors="replace")), newlines_in_values=True)
    blocks = arrow_csv.ReadOptions(block_size=BLOCK_BYTES)
    names = arrow_csv.open_csv(content, blocks, parsing).schema.names
    if len(set(names)) < len(names):
        raise InputError(f"{path} has two columns of one name: rename one ({', '.join(names)})")
    as_text = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
    )
    return {"read_options": blocks, "parse_options": parsing, "convert_options": as_text}


def _read_json(path: str) -> Any:
    """One object per line; strings stay strings, also those that Arrow would take for timestamps."""
    import pyarrow as pa
    from pyarrow import json

    with reading(path, "JSON lines"), open_bytes(path) as file:
        content = pa.py_buffer(file.read())
        blocks = json.ReadOptions(block_size=BLOCK_BYTES)
        table = json.read_json(pa.BufferReader(content), blocks)
        times = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
        if not times:
            return table
        options = json.ParseOptions(explicit_schema=pa.schema([(name, pa.string()) for name in times]))
        return json.read_json(pa.BufferReader(content), blocks, parse_options=options).select(table.schema.names)


def _parse(column: Any) -> Any:
    """A column of strings in the narrowest type that all its values have."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count == len(column) or pc.any(pc.match_substring_regex(column, _PADDED)).as_py():
        return column
    # Whole numbers beyond int64 stay strings: as floats, two of them could be equal.
    kind = pa.int64() if pc.all(pc.match_substring_regex(column, _WHOLE)).as_py() else pa.float64()
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        return column
