"""Kernels are compiled once and kept on disk, wherever hedgerow is installed.

numba's own cache refuses to work where it finds no folder to write to (an installation that belongs to root, a user
without a home: the usual container), and does not read a folder that it cannot write to. This one looks in

1. the folder that NUMBA_CACHE_DIR names, if it is set,
2. `__pycache__` beside the kernels,
3. the user's cache folder,
4. a private folder for temporary files,

reads what it finds, up to the first that can be written to, and writes there. With the fourth, or none, it warns once.
An entry is valid for the exact sources of all kernels (not only of one: kernels are compiled into each other), the
version of numba and Python, and the processor. What numba calls an overload is one compiled version of a kernel.
"""

import functools
import hashlib
import os
import pickle
import shutil
import stat
import sys
import tempfile
import uuid
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
from numba.core import config, serialize
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys

from hedgerow import kernels
from hedgerow.errors import HedgerowWarning

HERE = Path(__file__).parent
SOURCES = tuple(sorted(HERE.glob("*.py")))


def kernel(function: Callable[..., Any] | None = None, *, allocates: bool = False, **options: Any) -> Any:
    """Compiles a function on its first call, without the interpreter lock, and keeps it.

    allocates: it makes arrays. Without that no references are counted, which leaves a tenth less to compile.
    options: those of njit.
    """
    if function is None:
        return functools.partial(kernel, allocates=allocates, **options)
    compiled = numba.njit(nogil=True, no_cfunc_wrapper=True, _nrt=allocates, **options)(function)
    if not config.DISABLE_JIT:
        compiled._cache = Cache(function)
    return compiled


def helper(function: Callable[..., Any] | None = None, *, allocates: bool = False, **options: Any) -> Any:
    """A function that only kernels call: compiled with each of them, and not kept."""
    if function is None:
        return functools.partial(helper, allocates=allocates, **options)
    return numba.njit(nogil=True, no_cfunc_wrapper=True, _nrt=allocates, **options)(function)


class Cache:
    """The compiled versions of one kernel on disk. The methods are those that numba calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"

    @property
    def cache_path(self) -> str | None:
        target = find_folders().target
        return None if target is None else str(target)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The version for a signature; None if it must be compiled, which the listeners are then told."""
        name = self._entry(signature, context.codegen())
        rtsys.initialize(context)  # what compiled code calls at run time
        for folder in find_folders().sources:
            try:
                return CompileResult._rebuild(context, *pickle.loads((folder / name).read_bytes()))
            except (OSError, EOFError, pickle.UnpicklingError):
                continue
        context.refresh()  # numba's registries, which take long to import: only a compiler needs them
        warn_once(find_folders())
        for listener in kernels.listeners:
            listener()
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        target = find_folders().target
        if target is None or result.lifted or result.library.has_dynamic_globals:
            return
        path = target / self._entry(signature, result.library.codegen)
        beside = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
        try:
            # The annotation of types is for people who inspect a kernel, and takes long to write.
            beside.write_bytes(serialize.dumps(result._replace(type_annotation="")._reduce()))
            beside.replace(path)
        except OSError as error:  # a full disk: the kernel is compiled and works
            beside.unlink(missing_ok=True)
            warnings.warn(
                f"a compiled kernel could not be saved ({error}) and is compiled again next time: make room, or set "
                "NUMBA_CACHE_DIR to another folder",
                HedgerowWarning,
                stacklevel=2,
            )

    def _entry(self, signature: Any, codegen: Any) -> str:
        """The file name of a version."""
        version = (numba.__version__, sys.version_info[:2], getattr(sys, "abiflags", ""), codegen.magic_tuple())
        key = hashlib.sha256(repr((version, tuple(map(str, signature)))).encode()).hexdigest()
        return f"{self._name}-{key[:24]}.nbc"

    def enable(self) -> None: ...

    def disable(self) -> None: ...

    def flush(self) -> None: ...


@dataclass(frozen=True)
class Folders:
    """Where compiled kernels are looked for, in this order, and where they are written."""

    sources: tuple[Path, ...]
    target: Path | None
    lasting: bool  # the target is no folder for temporary files


@functools.cache
def find_folders() -> Folders:
    """The folders of this process."""
    if not SOURCES:  # in a zip file: no way to know whether an entry is still valid
        return Folders((), None, True)
    stamp = stamp_sources()
    given = [] if not config.CACHE_DIR else [Path(config.CACHE_DIR).absolute()]
    sources = []
    for place in [*given, HERE / "__pycache__", find_user_cache()]:
        if place is None:
            continue
        sources.append(place / stamp)
        if make_folder(place / stamp):
            if place == HERE / "__pycache__":
                remove_stale(place, stamp)
            return Folders(tuple(sources), place / stamp, True)
    target = make_private(stamp)
    return Folders((*sources, target) if target else tuple(sources), target, False)


def stamp_sources() -> str:
    """A folder name that stands for the contents of all kernels; time stamps do not survive the making of an image."""
    digest = hashlib.sha256()
    for source in SOURCES:
        digest.update(source.read_bytes())
    return f"hedgerow-{digest.hexdigest()[:16]}"


def find_user_cache() -> Path | None:
    """The user's cache folder; None for a user without a home."""
    given = os.environ.get("XDG_CACHE_HOME")
    if given and Path(given).is_absolute():
        return Path(given) / "hedgerow"
    try:
        return Path.home() / ".cache" / "hedgerow"
    except RuntimeError:
        return None


def make_folder(folder: Path) -> bool:
    """Whether a folder exists, or could be created, that this user may write to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def make_private(stamp: str) -> Path | None:
    """A folder for temporary files that is this user's and nobody else can write to: what is in it will be run."""
    try:
        mine = Path(tempfile.gettempdir()) / f"hedgerow-{os.getuid()}"
        mine.mkdir(mode=0o700, exist_ok=True)
        found = mine.lstat()
    except OSError:
        return None
    owned = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    return mine / stamp if owned and make_folder(mine / stamp) else None


def remove_stale(place: Path, stamp: str) -> None:
    """Removes what was compiled from sources that stood here before."""
    for old in place.glob("hedgerow-*"):
        if old.name != stamp:
            shutil.rmtree(old, ignore_errors=True)


@functools.cache
def warn_once(folders: Folders) -> None:
    """A kernel is about to be compiled: warns if that cannot be kept for long."""
    if folders.lasting:
        return
    tried = " and ".join(str(place.parent) for place in folders.sources if place != folders.target)
    kept = f"kept in {folders.target}, which may be cleared" if folders.target else "compiled again by every process"
    warnings.warn(
        f"no folder for compiled kernels can be written to (tried {tried}), so they are {kept}: set NUMBA_CACHE_DIR to "
        "a folder of your own, or run `hedgerow warm` as the owner of this installation",
        HedgerowWarning,
        stacklevel=2,
    )
