"""An answer that is kept for as long as what it depends on stays the same. Nothing here knows about campaigns."""

import threading
from collections.abc import Callable, Hashable
from typing import Any


class Kept:
    """One answer. While it is worked out, others who want it wait for it instead of doing the same."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: tuple[Hashable, Any] | None = None

    def get(self, state: Hashable, work: Callable[[], Any]) -> Any:
        """The answer for a state, worked out anew if it was for another one."""
        with self._lock:
            if self._known is None or self._known[0] != state:
                self._known = None
                self._known = (state, work())
            return self._known[1]
