"""Tables of other libraries, recognized by protocol or by the name of their type; none is imported for it.

Anything with `__arrow_c_stream__` (a DataFrame of polars or pandas, an Arrow table or reader) is taken over as an Arrow
table. A pyarrow Dataset and a Hugging Face dataset stay where they are and are read in ranges. A polars LazyFrame
and a pyarrow Scanner are evaluated once, all their columns, into memory: select the columns before.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hedgerow.errors import InputError
from hedgerow.pool.sources import first_line


@dataclass(frozen=True, eq=False)
class ArrowData:
    """An Arrow table in memory."""

    table: Any

    @property
    def n(self) -> int:
        """How many rows."""
        return int(self.table.num_rows)

    @property
    def schema(self) -> Any:
        """The Arrow schema."""
        return self.table.schema

    def batches(self, columns: list[str], rows: int, start: int, stop: int) -> Iterator[Any]:
        """The rows from start to stop in order, as record batches of 1 to `rows` rows."""
        part = self.table.select(columns).slice(start, max(0, stop - start))
        return (batch for batch in part.to_batches(max_chunksize=rows) if batch.num_rows)

    def __reduce__(self) -> Any:
        """Pickled as an Arrow stream: pickling a slice as it is would carry the whole it was cut from."""
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as writer:
            writer.write_table(self.table)
        return _load_arrow, (sink.getvalue(),)


@dataclass(frozen=True, eq=False)
class DatasetData:
    """A pyarrow Dataset: only the fragments that overlap a range are scanned."""

    dataset: Any
    counts: tuple[int, ...]  # rows of each fragment; a filtered dataset is one

    @property
    def n(self) -> int:
        """How many rows."""
        return sum(self.counts)

    @property
    def schema(self) -> Any:
        """The Arrow schema."""
        return self.dataset.schema

    def batches(self, columns: list[str], rows: int, start: int, stop: int) -> Iterator[Any]:
        """The rows from start to stop in order, as record batches of 1 to `rows` rows."""
        first = 0
        for part, count in zip(_list_fragments(self.dataset), self.counts, strict=True):
            low, high = max(start - first, 0), min(stop - first, count)
            first += count
            if low < high:
                schema = {} if part is self.dataset else {"schema": self.dataset.schema}
                scanner = part.scanner(columns=columns, batch_size=rows, batch_readahead=1, **schema)
                yield from trim(scanner.to_batches(), low, high - low)


@dataclass(frozen=True, eq=False)
class HubData:
    """A Hugging Face dataset: its Arrow data, through its own order of rows."""

    dataset: Any

    @property
    def n(self) -> int:
        """How many rows."""
        return int(self.dataset.num_rows)

    @property
    def schema(self) -> Any:
        """The Arrow schema."""
        return self.dataset.features.arrow_schema

    def batches(self, columns: list[str], rows: int, start: int, stop: int) -> Iterator[Any]:
        """The rows from start to stop in order, as record batches of 1 to `rows` rows."""
        part = self.dataset.select_columns(columns).with_format("arrow")
        for at in range(start, stop, rows):
            yield from part[at : min(at + rows, stop)].combine_chunks().to_batches()


def _load_arrow(content: Any) -> ArrowData:
    import pyarrow as pa

    return ArrowData(pa.ipc.open_stream(content).read_all())


def open_frame(source: Any, name: str) -> ArrowData | DatasetData | HubData | None:
    """The table behind a source; None if it is none. `name` is what messages call it, and a lone column."""
    library, kind = _find_library(source)
    if library == "datasets":
        return _open_hub(source, name)
    if library == "polars" and kind == "LazyFrame":
        return _open_stream(_collect(source, name), name)
    if library == "pyarrow" and hasattr(source, "to_reader") and hasattr(source, "projected_schema"):
        return _open_stream(_evaluate(source.to_table, name), name)
    if library == "pyarrow" and hasattr(source, "get_fragments"):
        counts = _evaluate(lambda: tuple(part.count_rows() for part in _list_fragments(source)), name)
        return DatasetData(source, counts)
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        return _open_stream(source, name)
    return None


def _find_library(source: Any) -> tuple[str, str]:
    """(library, type) of the first known library among the bases of a source's type."""
    for kind in type(source).__mro__:
        library = kind.__module__.partition(".")[0]
        if library in ("datasets", "polars", "pyarrow"):
            return library, kind.__name__
    return "", type(source).__name__


def _open_stream(source: Any, name: str) -> ArrowData:
    import pyarrow as pa

    try:
        if isinstance(source, pa.Table):
            return ArrowData(source)
        column = pa.chunked_array(source)
        if pa.types.is_struct(column.type):
            return ArrowData(pa.Table.from_struct_array(column))
        return ArrowData(pa.table({name: column}))  # a lone column, such as a polars Series
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"{name} cannot be read as an Arrow table: {first_line(error)}") from error


def _open_hub(source: Any, name: str) -> HubData:
    if hasattr(source, "column_name") and hasattr(source, "source"):  # a column, dataset["name"]
        parent, column = source.source, source.column_name
        if _find_library(parent)[1] == "Dataset":
            return HubData(parent.select_columns([column]))
    elif hasattr(source, "with_format") and hasattr(source, "num_rows") and not isinstance(source, dict):
        return HubData(source)
    advice = "pass one of its splits" if isinstance(source, dict) else "pass a Dataset or one of its columns"
    raise InputError(f"{name} is a {type(source).__name__} of the datasets library: {advice}")


def _collect(source: Any, name: str) -> Any:
    def collect() -> Any:
        try:
            return source.collect(engine="streaming")  # in less memory
        except (TypeError, ValueError):  # versions before the argument or its value
            return source.collect()

    return _evaluate(collect, name)


def _evaluate(task: Any, name: str) -> Any:
    """What a lazy source computes; its own error in one line if it fails."""
    try:
        return task()
    except Exception as error:
        raise InputError(f"{name} cannot be evaluated: {type(error).__name__}: {first_line(error)}") from error


def _list_fragments(dataset: Any) -> list[Any]:
    """The files of a pyarrow Dataset in order; a filtered one cannot be divided."""
    try:
        return list(dataset.get_fragments())
    except ValueError:
        return [dataset]


def trim(batches: Iterable[Any], skip: int, count: int) -> Iterator[Any]:
    """The rows after the first `skip`, `count` of them."""
    for batch in batches:
        piece = batch.slice(min(skip, batch.num_rows), count)
        skip -= min(skip, batch.num_rows)
        count -= piece.num_rows
        if piece.num_rows:
            yield piece
        if not count:
            return
