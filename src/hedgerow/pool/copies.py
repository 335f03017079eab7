"""Tables copied into Parquet files with small row groups, from which single rows are read quickly."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hedgerow.errors import InputError
from hedgerow.pool.sources import file_kind
from hedgerow.pool.tables import Table, is_number, is_string, open_source
from hedgerow.pool.texts import stream_csv

BATCH_ROWS = 1 << 14  # rows that are copied at a time


def copy_rows(files: list[str], title: str, path: Path, group_rows: int, show: Callable[[Any], str]) -> None:
    """The rows of some files, which must have the same columns, in one Parquet file.

    Texts and numbers stay what they are, and in CSV files everything is text; other values are kept as `show` has them.
    title: what messages call the files. Only JSON lines are held as a whole.
    """
    import pyarrow.parquet as pq

    writer = None
    for batch in _read_batches(files):
        plain = _flatten(batch, show)
        writer = writer or pq.ParquetWriter(path, plain.schema, compression="lz4", use_dictionary=False)
        if plain.schema.names != writer.schema.names:
            raise InputError(f"the files of {title} have different columns: files that are read as one must agree")
        writer.write_table(plain, group_rows)
    if writer is None:
        raise InputError(f"{title} has no rows")
    writer.close()


def _read_batches(files: list[str]) -> Iterator[Any]:
    """All rows, in record batches."""
    if file_kind(files[0]) == "CSV":
        for file in files:
            yield from stream_csv(file)
        return
    table = open_source(files, "the table")
    assert isinstance(table, Table)
    yield from table.batches(list(table.types), BATCH_ROWS)


def _flatten(batch: Any, show: Callable[[Any], str]) -> Any:
    """A record batch as a table of texts and numbers."""
    import pyarrow as pa

    columns = [batch.column(name) for name in batch.schema.names]
    plain = [
        one if is_number(one.type) or is_string(one.type) else pa.array(map(show, one.to_pylist()), pa.string())
        for one in columns
    ]
    return pa.table(dict(zip(batch.schema.names, plain, strict=True)))
