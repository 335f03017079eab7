"""Every shape, dtype and finiteness check of the public functions.

A check returns the value in the form that the code behind it relies on, or raises `InputError`, which says what was
received, what is needed and what to do. Kernels and private functions never check. Nothing here reads files: `pool/`
does.
"""

import difflib
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import InputError

FLOATS = (np.float16, np.float32, np.float64)
CHECK_BYTES = 1 << 25  # a finiteness check looks at 32 MiB at a time, so that a memmap is never copied whole
MOST_CLUSTERS = np.iinfo(np.int32).max  # cluster labels are int32


def integer(value: Any, name: str, *, least: int = 0) -> int:
    """A whole number of at least `least`; True, 2.5 and "3" are not."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be a whole number, got {value!r}") from None
    if number < least:
        raise InputError(f"{name} must be at least {least}, got {number}")
    return number


def span(start: int, stop: int | None, n: int) -> tuple[int, int]:
    """The rows from start to stop of n rows, None for all to the end; both in range and in order, as in a slice."""
    stop = min(n if stop is None else integer(stop, "stop"), n)
    return min(integer(start, "start"), stop), stop


def real(value: Any, name: str, *, least: float = -np.inf, above: float = -np.inf) -> float:
    """A finite number that is >= `least` and > `above`."""
    if isinstance(value, (str, bytes, bool, np.bool_)):
        raise InputError(f"{name} must be a number, got {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number, got {value!r}") from None
    if not np.isfinite(number):
        raise InputError(f"{name} must be finite, got {number}")
    if number < least:
        raise InputError(f"{name} must be at least {least:g}, got {number:g}")
    if number <= above:
        raise InputError(f"{name} must be greater than {above:g}, got {number:g}")
    return number


def flag(value: Any, name: str) -> bool:
    """True or False, and nothing that merely counts as one of them."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def option(value: Any, name: str, known: Iterable[str]) -> str:
    """One of the known words; the error for a near miss suggests the word that was meant."""
    known = list(known)
    if isinstance(value, str) and value in known:
        return value
    near = difflib.get_close_matches(str(value), known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
    raise InputError(f"unknown {name} {value!r}: {hint}")


def matrix(array: npt.NDArray[Any], name: str, *, least_columns: int = 1) -> npt.NDArray[Any]:
    """A two-dimensional array of real floats; integers become floats, anything else is refused."""
    if array.ndim != 2:
        raise InputError(f"{name} must have two dimensions (rows, columns), got shape {array.shape}")
    if array.shape[1] < least_columns:
        raise InputError(f"{name} must have at least {least_columns} columns, got shape {array.shape}")
    return floats(array, name)


def vector(array: npt.NDArray[Any], name: str, *, n: int | None = None) -> npt.NDArray[Any]:
    """A one-dimensional array of real floats, `n` long if that is given."""
    if array.ndim != 1:
        raise InputError(f"{name} must have one dimension, got shape {array.shape}")
    if n is not None:
        same_length({name: len(array), "the pool": n})
    return floats(array, name)


def floats(array: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """float16, float32 and float64 in native byte order as they are; whole numbers as floats that hold them.

    Up to 16 bits become float32, others float64, whose 53 bits are enough in practice.
    """
    if array.dtype.type in FLOATS:
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind in "iub":
        return array.astype(np.float32 if array.dtype.itemsize <= 2 else np.float64)
    raise InputError(f"{name} must hold real numbers (float16, float32 or float64), got {_describe_dtype(array.dtype)}")


def _describe_dtype(dtype: np.dtype[Any]) -> str:
    """What was received; object arrays come mostly from columns of lists or of mixed types."""
    if dtype != np.object_:
        return f"dtype {dtype}"
    return "dtype object (convert it first, for example with np.stack)"


def finite(array: npt.NDArray[Any], name: str, *, first_row: int = 0) -> None:
    """No NaN and no infinity; the error names the first such row. `first_row`: the number of the array's first row."""
    step = max(1, CHECK_BYTES // max(1, array[:1].nbytes))
    for start in range(0, len(array), step):
        good = np.isfinite(array[start : start + step])
        if not good.all():
            row = first_row + start + int(np.argmin(good.reshape(len(good), -1).all(axis=1)))
            raise InputError(f"{name} has a NaN or an infinity in row {row}: remove or repair that row")


def same_length(lengths: dict[str, int]) -> int:
    """The one length that all inputs have; otherwise the error names the length of each."""
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} has {length:,}" for name, length in lengths.items())
        raise InputError(f"the inputs must describe the same rows: {found}")
    return next(iter(lengths.values()))


def rows(array: Any, n: int, name: str, *, kind: str = "row") -> npt.NDArray[np.int64]:
    """Distinct positions 0 <= row < n as int64, in the order given. kind: what messages call a position."""
    positions = np.asarray(array)
    if positions.size == 0:
        return np.zeros(0, np.int64)
    if positions.ndim != 1 or positions.dtype.kind not in "iu":
        raise InputError(
            f"{name} must be a list of whole {kind} numbers, got dtype {positions.dtype} and shape {positions.shape}"
        )
    if positions.min() < 0 or positions.max() >= n:
        bad = positions[(positions < 0) | (positions >= n)][0]
        raise InputError(f"{name} holds {kind} {bad}, but the pool's {kind}s are 0 to {n - 1}")
    positions = positions.astype(np.int64)
    seen = np.zeros(n, np.bool_)
    seen[positions] = True
    if int(seen.sum()) < len(positions):
        values, counts = np.unique(positions, return_counts=True)
        raise InputError(f"{name} holds {kind} {values[counts > 1][0]} more than once")
    return positions


def labeled_mask(labeled: Any, n: int, *, kind: str = "row") -> npt.NDArray[np.bool_] | None:
    """`labeled`, a bool mask (n,) or rows, as a bool mask. None stays None: nothing is labeled."""
    if labeled is None:
        return None
    try:
        given = np.asarray(labeled)
    except ValueError as error:
        raise InputError(f"labeled must be a mask of bools or a list of {kind}s: {error}") from error
    if given.dtype == np.bool_:
        if given.shape != (n,):
            raise InputError(f"labeled is a mask of shape {given.shape}, but the pool has {n:,} {kind}s")
        return np.ascontiguousarray(given)
    mask = np.zeros(n, np.bool_)
    mask[rows(given, n, "labeled", kind=kind)] = True
    return mask


def cluster_labels(labels: npt.NDArray[Any], n: int, *, name: str = "clusters") -> npt.NDArray[np.int32]:
    """Cluster labels (n,) as int32; any non-negative integers are accepted, large ones are renumbered."""
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise InputError(
            f"{name} must be whole numbers, one per row, got dtype {labels.dtype} and shape {labels.shape}"
        )
    same_length({name: len(labels), "the pool": n})
    if n == 0:
        return np.zeros(0, np.int32)
    if labels.min() < 0:
        row = int(np.argmin(labels))
        hint = " (give each noise point a cluster of its own)" if name == "clusters" else ""
        raise InputError(f"{name} holds {labels[row]} in row {row}: labels are 0 or more{hint}")
    if labels.max() >= min(MOST_CLUSTERS, max(4 * n, 1024)):
        labels = np.unique(labels, return_inverse=True)[1]
    return np.ascontiguousarray(labels, np.int32)


def seed(value: Any) -> int:
    """A seed: a whole number of at least 0."""
    return integer(value, "seed")


def exactly_one(given: dict[str, Any], *, allow_none: bool = False) -> str | None:
    """The name of the one argument that is not None."""
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1 or (not names and not allow_none):
        received = " and ".join(names) if names else "none"
        raise InputError(f"give exactly one of {', '.join(given)}; got {received}")
    return names[0] if names else None


def distinct(ids: npt.NDArray[Any], name: str) -> None:
    """No id twice."""
    ordered = np.sort(ids)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        raise InputError(f"{name} holds {twice[:1].tolist()[0]!r} more than once: ids must be unique")


def shape_text(shape: Sequence[int]) -> str:
    """(3, 4) as "3 x 4", for messages."""
    return " x ".join(f"{side:,}" for side in shape)
