"""What a worker on another machine must show before it gets work.

It has the versions of the driver, its kernels and its BLAS round as the driver's do, it runs one task at a time, and it
reads a file that the driver has just written: the folder of the run is shared. The terms come with every job and a
worker checks them once, so that one which joins later is no exception.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hedgerow.engines import probe
from hedgerow.store import atomic_write

SAME_CODE = (
    "Set OPENBLAS_CORETYPE (such as Haswell) and NUMBA_CPU_NAME (such as generic) to the same values for the driver "
    "and all workers, or accept results that depend on the worker: --mixed-workers (mixed_workers=True in Python)"
)


@dataclass(frozen=True)
class Terms:
    """What the driver expects of a worker. `bits` is None if they may differ."""

    versions: dict[str, str] = field(default_factory=probe.list_versions)
    bits: str | None = field(default_factory=probe.hash_bits)
    nonce: str | None = None  # a file in the folder of the run, which holds its own name

    def find_refusal(self, threads: int = 1) -> str | None:
        """Why this process may not take part; None if it may. threads: how many tasks it would run at a time."""
        found = probe.list_versions()
        other = [f"{key} {found.get(key)} (the driver has {held})" for key, held in self.versions.items()
                 if found.get(key) != held]  # fmt: skip
        if other:
            return f"has {', '.join(other)}: install the same versions everywhere"
        if threads != 1:
            return f"runs {threads} tasks at a time, which would share one BLAS: start it with --nthreads 1"
        if self.nonce is not None and not _holds_its_name(Path(self.nonce)):
            folder = Path(self.nonce).parent
            return f"does not see what the driver wrote to {folder}: use a folder that all machines share, by one path"
        if self.bits is not None and self.bits != probe.hash_bits():
            return (
                f"computes other bits ({probe.hash_bits()}, the driver {self.bits}; BLAS here: "
                f"{probe.describe_blas()}). {SAME_CODE}"
            )
        return None


def _holds_its_name(path: Path) -> bool:
    try:
        return path.read_text() == path.name
    except OSError:
        return False


@contextmanager
def write_nonce(folder: Path) -> Iterator[str]:
    """A file in the folder that holds its own name, for the length of a `with` block: the path."""
    path = folder.absolute() / f".nonce-{uuid.uuid4().hex}"
    with atomic_write(path) as beside:
        beside.write_text(path.name)
    try:
        yield str(path)
    finally:
        path.unlink(missing_ok=True)
