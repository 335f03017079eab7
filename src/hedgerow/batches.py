"""Batches: what to label next, in pick order, with the ids, margins, clusters and weights of the picks.

`select` returns a `Batch` of rows, `select_pairs` a `PairBatch` of (row, class) pairs. Both are saved as
Parquet, CSV or JSON lines. How a batch is chosen is decided in `strategies/` and `pairs/`.
"""

import html
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from hedgerow import checks, pool
from hedgerow.errors import InputError, StoreError
from hedgerow.pool.outputs import read_columns, write_columns

Rows = npt.NDArray[np.int64]
Values = npt.NDArray[Any]

METADATA_KEY = "hedgerow.batch"  # where a Parquet file keeps the strategy, the seed and the settings
SHOWN = 10  # picks in an HTML table
SHOWN_INLINE = 3  # picks in a repr
OPTIONAL_TYPES: dict[str, Any] = {"margins": np.float32, "clusters": np.int32, "weights": np.float64}


class Picks:
    """What both kinds of batches can do with their columns."""

    COLUMNS: ClassVar[Mapping[str, str]]  # the columns of a file and the fields they hold, besides `pick`
    NEEDED: ClassVar[tuple[str, ...]]  # the fields that a file must have
    strategy: str
    seed: int | None
    settings: Mapping[str, Any]

    def __len__(self) -> int:
        return len(getattr(self, self.NEEDED[0]))

    def columns(self) -> dict[str, Values]:
        """The columns of its file: id, row, class and pair (of pairs), margin, cluster, weight (if known), pick."""
        named = {column: getattr(self, name) for column, name in self.COLUMNS.items()}
        known = {column: values for column, values in named.items() if values is not None}
        return known | {"pick": np.arange(len(self), dtype=np.int64)}

    def describe(self) -> dict[str, Any]:
        """The strategy, the seed, the number selected and the settings, in plain types, as `save` keeps them."""
        return {"strategy": self.strategy, **self.settings, "selected": len(self), "seed": self.seed}

    def take(self, n: int) -> Self:
        """The first n picks, or all if there are fewer."""
        n = checks.integer(n, "n")
        held = {name: getattr(self, name) for name in self.COLUMNS.values()}
        return replace(self, **{name: values[:n] for name, values in held.items() if values is not None})  # type: ignore[type-var]

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the columns to a .parquet, .csv or .jsonl file, in pick order; Parquet also keeps `describe()`.

        force: replace a file that exists.
        """
        write_columns(path, self.columns(), {METADATA_KEY: json.dumps(self.describe())}, force=force)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` or `hedgerow select` wrote."""
        return cls(**_load(path, cls.COLUMNS, cls.NEEDED))

    def to_pandas(self) -> Any:
        """The columns as a pandas DataFrame; pandas must be installed."""
        try:
            return import_module("pandas").DataFrame(self.columns())
        except ImportError as error:
            raise InputError("to_pandas needs pandas, which is not installed: pip install pandas") from error


@dataclass(frozen=True, eq=False, repr=False)
class Batch(Picks):
    """The rows to label next, in pick order. All arrays are read-only and have one entry per pick.

    rows: int64 positions in the pool, distinct. strategy, seed: how they were chosen ("" and None if unknown: a CSV or
    JSON lines file does not say). ids: the pool's ids of these rows, int64 or strings, if it has ids. margins,
    clusters: of these rows, if they were given or computed. settings: the strategy's options, k, the size of the pool,
    how many rows were labeled or without predictions, the inputs. weights: if the strategy draws rows with known
    probabilities, one over the probability of each: for any quantity, the sum over the batch times the weights is an
    unbiased estimate of its sum over all rows that could be picked.

    A batch has a length, can be iterated (rows as int), and is an array where one is expected: `np.asarray(batch)` is
    `batch.rows`, and `features[batch]` are the features of the picked rows.
    """

    rows: Rows
    strategy: str = ""
    seed: int | None = None
    ids: Values | None = None
    margins: npt.NDArray[np.float32] | None = None
    clusters: npt.NDArray[np.int32] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    weights: npt.NDArray[np.float64] | None = None
    COLUMNS: ClassVar[Mapping[str, str]] = {
        "id": "ids", "row": "rows", "margin": "margins", "cluster": "clusters", "weight": "weights",
    }  # fmt: skip
    NEEDED: ClassVar[tuple[str, ...]] = ("rows",)

    def __post_init__(self) -> None:
        _freeze(self, {"rows": np.int64, "ids": None} | OPTIONAL_TYPES)

    def __iter__(self) -> Iterator[int]:
        return iter(self.rows.tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        return np.array(self.rows, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        return _describe(self, "rows", [str(row) for row in self.rows[:SHOWN_INLINE]])

    def _repr_html_(self) -> str:
        return _show_table(self, "rows")


@dataclass(frozen=True, eq=False, repr=False)
class PairBatch(Picks):
    """The (row, class) pairs to ask about next, in pick order. All arrays are read-only, one entry per pick.

    rows: int64 positions in the pool. classes: int32 numbers, or strings where the pairs were given with class names.
    index: int64 positions in the pairs that were given, distinct. The rest is as in `Batch`, for the pairs' rows;
    margins: abs(2 p - 1) of the pairs. Iteration gives tuples (row, class); `np.asarray(batch)` is `batch.index`, so
    that `answers[batch]` are the answers of the picked pairs.
    """

    rows: Rows
    classes: Values
    index: Rows
    strategy: str = ""
    seed: int | None = None
    ids: Values | None = None
    margins: npt.NDArray[np.float32] | None = None
    clusters: npt.NDArray[np.int32] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    weights: npt.NDArray[np.float64] | None = None
    COLUMNS: ClassVar[Mapping[str, str]] = {
        "id": "ids", "row": "rows", "class": "classes", "pair": "index", "margin": "margins", "cluster": "clusters",
        "weight": "weights",
    }  # fmt: skip
    NEEDED: ClassVar[tuple[str, ...]] = ("rows", "classes", "index")

    def __post_init__(self) -> None:
        kind = None if np.asarray(self.classes).dtype.kind in "OU" else np.int32
        types: dict[str, Any] = {"rows": np.int64, "classes": kind, "index": np.int64, "ids": None}
        _freeze(self, types | OPTIONAL_TYPES)

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return zip(self.rows.tolist(), self.classes.tolist(), strict=True)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        return np.array(self.index, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        first = zip(self.rows[:SHOWN_INLINE].tolist(), self.classes[:SHOWN_INLINE].tolist(), strict=True)
        return _describe(self, "pairs", [f"({row}, {label})" for row, label in first])

    def _repr_html_(self) -> str:
        return _show_table(self, "pairs")


def _freeze(batch: Any, types: Mapping[str, Any]) -> None:
    """The fields as read-only arrays of these types (None: as they are), found to be equally long."""
    held = {name: getattr(batch, name) for name in types if getattr(batch, name) is not None}
    for name, values in held.items():
        array = np.asarray(values, types[name]).view()
        if array.ndim != 1:
            raise InputError(f"{name} must have one dimension, got shape {array.shape}")
        array.flags.writeable = False
        object.__setattr__(batch, name, array)
    checks.same_length({name: len(getattr(batch, name)) for name in held})


def _load(path: str | Path, names: Mapping[str, str], needed: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a batch in a file, in pick order."""
    columns = read_columns(path, "batch")
    lacking = [column for column, name in names.items() if name in needed and column not in columns]
    if lacking:
        raise InputError(
            f"{path} is not this kind of batch: it needs a column {lacking[0]!r} but has {', '.join(columns)}"
        )
    if "pick" in columns:
        order = np.argsort(columns["pick"], kind="stable")
        columns = {column: values[order] for column, values in columns.items()}
    held: dict[str, Any] = {name: columns[column] for column, name in names.items() if column in columns}
    stored = pool.read_metadata(path).get(METADATA_KEY) if Path(path).suffix.lower() == ".parquet" else None
    if stored is None:
        return held
    try:
        settings = dict(json.loads(stored))
        settings.pop("selected", None)
        return held | {"strategy": settings.pop("strategy"), "seed": settings.pop("seed"), "settings": settings}
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} has damaged metadata ({error}): save the batch again") from error


def _describe(batch: Batch | PairBatch, kind: str, first: list[str]) -> str:
    """Batch(20 rows by margin, seed 0: 4, 17, 2, ...)."""
    how = (f" by {batch.strategy}" if batch.strategy else "") + ("" if batch.seed is None else f", seed {batch.seed}")
    picks = ", ".join(first + (["..."] if len(batch) > len(first) else []))
    return f"{type(batch).__name__}({len(batch):,} {kind}{how}{': ' + picks if picks else ''})"


def _show_table(batch: Batch | PairBatch, kind: str) -> str:
    """The first picks as an HTML table, for notebooks."""
    columns = {name: values[:SHOWN].tolist() for name, values in batch.columns().items()}
    head = "".join(f"<th>{name}</th>" for name in columns)
    rows = ["".join(f"<td>{_show_value(value)}</td>" for value in row) for row in zip(*columns.values(), strict=True)]
    more = f"<p>and {len(batch) - SHOWN:,} more</p>" if len(batch) > SHOWN else ""
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    title = html.escape(_describe(batch, kind, []).replace(": ...", ""))
    return f"<p>{title}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _show_value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else html.escape(str(value))
