"""Compiled kernels are cached on disk, wherever hedgerow is installed.

numba's own cache fails where it finds no folder to write to (an installation owned by root and a user without a home,
as in most containers), and never reads from a folder that it cannot write to. This one searches

1. the folder in NUMBA_CACHE_DIR, if it is set,
2. `__pycache__` next to the kernels,
3. the user's cache folder,
4. a private folder for temporary files.

The first one that can be written to is where new entries go; it and those before it are read. If it is the fourth, or
there is none, a warning is issued once. An entry is valid for the exact sources of all kernels (kernels are compiled
into each other, so one file is not enough), the versions of numba and Python, and the processor. An overload, in
numba's terms, is a kernel compiled for one signature.

The cache and some options are not part of numba's public interface. If this version of numba lacks a name in
`INTERNALS`, kernels are compiled by plain `njit` in every process, with a warning.
"""

import contextlib
import functools
import hashlib
import os
import pickle
import pkgutil
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
from numba import config

from hedgerow import kernels
from hedgerow.errors import HedgerowWarning

HERE = Path(__file__).parent
SOURCES = tuple(sorted(HERE.glob("*.py")))
INTERNALS = (
    "numba.core.base:BaseContext.refresh",
    "numba.core.caching:NullCache.load_overload",
    "numba.core.codegen:CodeLibrary.has_dynamic_globals",
    "numba.core.codegen:JITCPUCodegen.magic_tuple",
    "numba.core.compiler:CompileResult._rebuild",
    "numba.core.compiler:CompileResult._reduce",
    "numba.core.compiler:CompileResult.lifted",
    "numba.core.cpu:CPUTargetOptions._nrt",
    "numba.core.cpu:CPUTargetOptions.no_cfunc_wrapper",
    "numba.core.runtime:rtsys.initialize",
    "numba.core.serialize:dumps",
    "numba._helperlib:c_helpers",
)


def find_missing() -> str | None:
    """The first internal name of numba, among those used here and in `products`, that is missing; None if none is."""
    for name in INTERNALS:
        try:
            found = pkgutil.resolve_name(name)
        except (ImportError, AttributeError):
            return name
    if not {"xxgemm", "xxgemv"} <= set(found):
        return "numba_xxgemm"
    if not config.DISABLE_JIT and not hasattr(numba.njit(find_missing), "_cache"):
        return "Dispatcher._cache"
    return None


MISSING = find_missing()
if MISSING:
    warnings.warn(
        f"compiled kernels cannot be cached with numba {numba.__version__} (it has no {MISSING}), so every process "
        "compiles them again: install another version of hedgerow or numba",
        HedgerowWarning,
        stacklevel=2,
    )


def kernel(function: Callable[..., Any] | None = None, *, allocates: bool = False, **options: Any) -> Any:
    """A decorator: the function is compiled on its first call, releases the interpreter lock, and is cached.

    allocates: it creates arrays. If not, no references are counted, and a tenth less code is compiled.
    options: as for `njit`.
    """
    if function is None:
        return functools.partial(kernel, allocates=allocates, **options)
    compiled = helper(function, allocates=allocates, **options)
    if not (MISSING or config.DISABLE_JIT):
        compiled._cache = Cache(function)
    return compiled


def helper(function: Callable[..., Any] | None = None, *, allocates: bool = False, **options: Any) -> Any:
    """As `kernel`, for a function that only kernels call: it is compiled into each of them, and not cached itself."""
    if function is None:
        return functools.partial(helper, allocates=allocates, **options)
    if not MISSING:
        options |= {"no_cfunc_wrapper": True, "_nrt": allocates}
    return numba.njit(nogil=True, **options)(function)


class Cache:
    """The overloads of one kernel on disk. numba calls these methods."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"

    @property
    def cache_path(self) -> str | None:
        target = find_folders().target
        return None if target is None else str(target)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The overload for a signature. None if it must be compiled: the listeners are then called."""
        from numba.core.compiler import CompileResult
        from numba.core.runtime import rtsys

        name = self._entry(signature, context.codegen())
        rtsys.initialize(context)  # functions that compiled code calls
        for folder in find_folders().sources:
            try:
                return CompileResult._rebuild(context, *pickle.loads((folder / name).read_bytes()))
            except (OSError, EOFError, pickle.UnpicklingError):
                continue
        context.refresh()  # numba's registries: slow to import, and only needed to compile
        warn_once(find_folders())
        for listener in kernels.listeners:
            listener()
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Writes an overload, unless there is no folder or numba cannot load it again."""
        from numba.core import serialize

        folders = find_folders()
        target = folders.target
        if target is None or result.lifted or result.library.has_dynamic_globals:
            return
        path = target / self._entry(signature, result.library.codegen)
        beside = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
        try:
            restore(folders)
            # The type annotation is only for inspecting a kernel, and slow to write.
            beside.write_bytes(serialize.dumps(result._replace(type_annotation="")._reduce()))
            beside.replace(path)
        except OSError as error:  # such as a full disk: the kernel works all the same
            with contextlib.suppress(OSError):
                beside.unlink()
            warnings.warn(
                f"a compiled kernel could not be saved ({error}) and will be compiled again: free some disk space, or "
                "set NUMBA_CACHE_DIR to another folder",
                HedgerowWarning,
                stacklevel=2,
            )

    def _entry(self, signature: Any, codegen: Any) -> str:
        """The file name of an overload."""
        version = (numba.__version__, sys.version_info[:2], getattr(sys, "abiflags", ""), codegen.magic_tuple())
        key = hashlib.sha256(repr((version, tuple(map(str, signature)))).encode()).hexdigest()
        return f"{self._name}-{key[:24]}.nbc"

    def enable(self) -> None: ...

    def disable(self) -> None: ...

    def flush(self) -> None: ...


@dataclass(frozen=True)
class Folders:
    """Where compiled kernels are read from, in this order, and where new ones are written."""

    sources: tuple[Path, ...]
    target: Path | None
    lasting: bool  # False if the target is in a folder for temporary files, or there is none


@functools.cache
def find_folders() -> Folders:
    """The folders of this process."""
    if not SOURCES or MISSING:  # without sources (in a zip file) nothing tells whether an entry is still valid
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
    """A folder name derived from the contents of all kernels. Building an image may change their time stamps."""
    digest = hashlib.sha256()
    for source in SOURCES:
        digest.update(source.read_bytes())
    return f"hedgerow-{digest.hexdigest()[:16]}"


def find_user_cache() -> Path | None:
    """The user's cache folder, or None for a user without a home."""
    given = os.environ.get("XDG_CACHE_HOME")
    if given and Path(given).is_absolute():
        return Path(given) / "hedgerow"
    try:
        return Path.home() / ".cache" / "hedgerow"
    except RuntimeError:
        return None


def make_folder(folder: Path) -> bool:
    """Creates a folder if necessary; returns whether this user can write to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def make_private(stamp: str) -> Path | None:
    """A temporary folder that only this user can write to, because its contents will be executed; None without one."""
    try:
        mine = Path(tempfile.gettempdir()) / f"hedgerow-{os.getuid()}"
        mine.mkdir(mode=0o700, exist_ok=True)
        found = mine.lstat()
    except OSError:
        return None
    owned = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    return mine / stamp if owned and make_folder(mine / stamp) else None


def restore(folders: Folders) -> None:
    """Creates the target again if another process removed it, as a user does who clears a cache.

    The target stays the same even if the sources have changed since: this process compiles those that it has loaded.
    """
    assert folders.target is not None
    if folders.target.is_dir():
        return
    if folders.lasting:
        folders.target.mkdir(parents=True, exist_ok=True)
    else:
        make_private(folders.target.name)


def remove_stale(place: Path, stamp: str) -> None:
    """Removes the entries of earlier versions of the sources."""
    for old in place.glob("hedgerow-*"):
        if old.name != stamp:
            shutil.rmtree(old, ignore_errors=True)


@functools.cache
def warn_once(folders: Folders) -> None:
    """Warns, when a kernel is about to be compiled, if it cannot be kept for long."""
    if folders.lasting:
        return
    tried = " and ".join(str(place.parent) for place in folders.sources if place != folders.target)
    kept = f"kept in {folders.target}, which may be cleared" if folders.target else "compiled again by every process"
    warnings.warn(
        f"no folder for compiled kernels is writable (tried {tried}), so they are {kept}: set NUMBA_CACHE_DIR to a "
        "folder of your own, or run `hedgerow warm` as the owner of this installation",
        HedgerowWarning,
        stacklevel=2,
    )
