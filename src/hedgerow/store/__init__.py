"""What is kept on disk: files that are whole or absent, and the finished phases of a long run."""

from hedgerow.store.files import UNREADABLE, atomic_write, check_target, is_temporary, sync

__all__ = ["UNREADABLE", "atomic_write", "check_target", "is_temporary", "sync"]
