"""Compiled loops: numba and numpy only.

Contiguous arrays in, preallocated arrays out, randomness as pre-drawn numbers; nothing is validated here.
Each kernel is compiled on its first call and kept on disk (`compiling.py`). That takes seconds, so callers can listen.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Array = TypeVar("Array")

listeners: list[Callable[[], None]] = []


@contextmanager
def listen(listener: Callable[[], None]) -> Iterator[None]:
    """Calls `listener` each time a kernel is about to be compiled, for the length of a `with` block."""
    listeners.append(listener)
    try:
        yield
    finally:
        listeners.remove(listener)


@contextmanager
def announce(progress: Callable[[str, float], None] | None) -> Iterator[None]:
    """Reports the phase "compiling, once" each time a kernel is about to be compiled; None reports nothing."""
    if progress is None:
        yield
        return
    report = progress
    with listen(lambda: report("compiling, once", 0.0)):
        yield


def freeze(array: Array) -> Array:
    """A view of an array that cannot be written to.

    Kernels are compiled once for arrays that can be written to and once for others (a file that is mapped, a column of
    Arrow data). What comes from outside is frozen, so that one of the two is enough.
    """
    frozen: Any = array.view()  # type: ignore[attr-defined]
    frozen.flags.writeable = False
    return frozen  # type: ignore[no-any-return]
