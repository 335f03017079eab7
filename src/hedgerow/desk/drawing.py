"""Long work in the background, while pages ask how far it has come. Nothing here knows about campaigns."""

import threading
from collections.abc import Callable

from hedgerow.desk.faults import report_fault
from hedgerow.errors import HedgerowError
from hedgerow.progress import Progress


class Drawing:
    """One piece of work at a time, in a thread that does not keep the desk from stopping."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._share = 0.0
        self._failed: HedgerowError | None = None

    def follow(self, work: Callable[[Progress], None]) -> float:
        """Begin unless it is running; returns the share that is done. If it failed, the error is raised here, once."""
        with self._lock:
            failed, self._failed = self._failed, None
            if failed is not None:
                raise failed
            if self._thread is None or not self._thread.is_alive():
                self._share = 0.0
                self._thread = threading.Thread(target=self._run, args=(work,), name="drawing", daemon=True)
                self._thread.start()
            return self._share

    def _run(self, work: Callable[[Progress], None]) -> None:
        try:
            work(self._note)
        except HedgerowError as error:
            self._failed = error
        except Exception:
            self._failed = HedgerowError(report_fault())

    def _note(self, _phase: str, share: float) -> None:
        self._share = share
