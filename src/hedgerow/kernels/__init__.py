"""Compiled loops: numba and numpy only.

Kernels take contiguous arrays, write to preallocated ones, get random numbers or keys from the caller, and validate
nothing. Each is compiled on its first call and cached on disk (`compiling.py`). Compiling takes seconds, so callers can
register a listener.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Array = TypeVar("Array")

listeners: list[Callable[[], None]] = []


@contextmanager
def listen(listener: Callable[[], None]) -> Iterator[None]:
    """Calls `listener` each time a kernel is about to be compiled, within a `with` block."""
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

    Kernels are compiled separately for writable and for read-only arrays (memory-mapped files, Arrow columns). Freezing
    every input means that one version is enough.
    """
    frozen: Any = array.view()  # type: ignore[attr-defined]
    frozen.flags.writeable = False
    return frozen  # type: ignore[no-any-return]
