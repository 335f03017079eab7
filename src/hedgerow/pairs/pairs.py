"""The pairs of a multi-label pool: "does this row have this class?" (paper, section 3.2).

A pool with partial annotation has some of all rows x classes as pairs: those that somebody can answer. A pair is known
by its position here, and a batch is a set of such positions. Answers are kept elsewhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks, pool
from hedgerow.errors import InputError

Rows = npt.NDArray[np.int64]
Classes = npt.NDArray[np.int32]

STEP = 1 << 22  # pairs looked at together: their keys are 32 MiB
SHOWN = 3  # pairs that a message names


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pair i asks whether row rows[i] of the pool has class classes[i]: int64 and int32 (m,), read-only.

    Arrays, tables or paths of whole numbers, 0 or more; not copied if they have those types already. Pairs must be
    distinct: checking that is one pass if they ascend by row and class, else a sort of 8 bytes per pair.
    """

    rows: Rows
    classes: Classes

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", _read_numbers(self.rows, "rows", np.int64))
        object.__setattr__(self, "classes", _read_numbers(self.classes, "classes", np.int32))
        checks.same_length({"rows": len(self.rows), "classes": len(self.classes)})
        if self.row_count * self.class_count > np.iinfo(np.int64).max:
            raise InputError(f"rows holds {self.row_count - 1}: rows are positions in the pool, not ids")
        self._refuse_duplicates()

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def row_count(self) -> int:
        """The least number of rows that a pool of these pairs has."""
        return int(self.rows.max()) + 1 if len(self.rows) else 0

    @cached_property
    def class_count(self) -> int:
        """The least number of classes that a pool of these pairs has."""
        return int(self.classes.max()) + 1 if len(self.classes) else 0

    def find(self, rows: Any, classes: Any, *, ignore_unknown: bool = False) -> Rows:
        """The position of each of these pairs, in the order given.

        A pair that is not here is an error, or -1 with `ignore_unknown`. O(m log wanted) time, a few bytes per pair
        that is wanted.
        """
        wanted_rows, wanted_classes = _read_numbers(rows, "rows", np.int64), _read_numbers(classes, "classes", np.int32)
        checks.same_length({"rows": len(wanted_rows), "classes": len(wanted_classes)})
        inside = (wanted_rows < self.row_count) & (wanted_classes < self.class_count)
        wanted = np.where(inside, wanted_rows * self.class_count + wanted_classes, -1)
        distinct, inverse = np.unique(wanted, return_inverse=True)
        found = np.full(len(distinct), -1, np.int64)
        for start, keys in self._walk():
            at = np.searchsorted(distinct, keys)
            at[at == len(distinct)] = 0
            hits = np.flatnonzero(distinct[at] == keys) if len(distinct) else np.zeros(0, np.int64)
            found[at[hits]] = start + hits
        positions = found[inverse]
        if not ignore_unknown and len(positions) and positions.min() < 0:
            missing = np.flatnonzero(positions < 0)
            shown = _describe(wanted_rows[missing], wanted_classes[missing])
            raise InputError(
                f"{len(missing):,} of {len(positions):,} pairs are not among the pool's: {shown}: remove them, or "
                "pass ignore_unknown=True (--ignore-unknown) to leave them out"
            )
        return positions

    def refuse_outside(self, n: int, n_classes: int | None) -> None:
        """Refuse pairs of rows beyond n, and of classes beyond n_classes if that is known."""
        if self.row_count > n:
            self._refuse(self.rows >= n, f"rows that are not in the pool, whose rows are 0 to {n - 1}")
        if n_classes is not None and self.class_count > n_classes:
            self._refuse(self.classes >= n_classes, f"classes that are not in 0 to {n_classes - 1}")

    def _refuse(self, wrong: npt.NDArray[np.bool_], what: str) -> None:
        at = np.flatnonzero(wrong)
        raise InputError(f"{len(at):,} pairs have {what}: {_describe(self.rows[at], self.classes[at])}")

    def _walk(self) -> Iterator[tuple[int, Rows]]:
        """(first pair, one key per pair that orders them by row and class), from the first pair to the last."""
        for start in range(0, len(self), STEP):
            some = slice(start, start + STEP)
            yield start, self.rows[some] * self.class_count + self.classes[some]

    def _refuse_duplicates(self) -> None:
        if self._ascend():
            return
        keys = np.concatenate([keys for _, keys in self._walk()])
        keys.sort()
        twice = np.unique(keys[1:][keys[1:] == keys[:-1]])
        if len(twice):
            shown = _describe(twice // self.class_count, twice % self.class_count)
            raise InputError(f"{len(twice):,} pairs occur more than once: {shown}; list each pair once")

    def _ascend(self) -> bool:
        """Whether the pairs strictly ascend by row and then by class: then they are distinct."""
        last = -1
        for _, keys in self._walk():
            if keys[0] <= last or not (keys[1:] > keys[:-1]).all():
                return False
            last = keys[-1]
        return True


def _read_numbers(source: Any, name: str, dtype: Any) -> npt.NDArray[Any]:
    """Whole numbers 0, 1, ... as a read-only array of `dtype`; the caller's own array stays writable."""
    given = pool.as_vector(source, name)
    if given.size == 0:
        given = np.zeros(0, dtype)
    if given.dtype.kind not in "iu":
        raise InputError(f"{name} must be whole numbers, one per pair, got dtype {given.dtype}")
    if given.size and (given.min() < 0 or given.max() > np.iinfo(dtype).max):
        at = int(np.argmax((given < 0) | (given > np.iinfo(dtype).max)))
        raise InputError(f"{name} holds {given[at]} in pair {at}: it must be 0 to {np.iinfo(dtype).max}")
    numbers = np.ascontiguousarray(given, dtype).view()
    numbers.flags.writeable = False
    return numbers


def _describe(rows: Rows, classes: npt.NDArray[Any]) -> str:
    """The first few of some pairs, for messages."""
    first = zip(rows[:SHOWN].tolist(), classes[:SHOWN].tolist(), strict=True)
    return "; ".join(f"row {row}, class {label}" for row, label in first) + ("; ..." if len(rows) > SHOWN else "")
