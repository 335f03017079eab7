"""Storage: atomic files, and checkpoints of long runs."""

from hedgerow.store.files import (
    UNREADABLE,
    atomic_write,
    check_target,
    hold_lock,
    is_temporary,
    make_temporary,
    sync,
)

__all__ = ["UNREADABLE", "atomic_write", "check_target", "hold_lock", "is_temporary", "make_temporary", "sync"]
