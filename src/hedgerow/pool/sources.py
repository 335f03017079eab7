"""Where data are: local files, folders, glob patterns, lists of these, and URLs; and errors of readers in one line.

`find_files` turns any of them into a list of files of one kind. A list is read in its own order; the files of a folder
or a pattern are read in the order of their names, numbers in them by value: part-2 before part-10. `file://` URLs are
local files; other URLs (`s3://`, `gs://`, `memory://`) are opened with fsspec, an optional dependency. What is in the
files is not looked at here.
"""

import glob
import os
import re
import tokenize
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from hedgerow.errors import InputError, MissingExtraError

# How the names of files end, in lower case, and what messages call them.
SUFFIXES = {
    ".parquet": "Parquet", ".pq": "Parquet", ".npy": "npy", ".csv": "CSV", ".jsonl": "JSON lines",
    ".ndjson": "JSON lines", ".txt": "text",
}  # fmt: skip
KNOWN = ".parquet, .npy, .csv or .jsonl"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*(://|::)")
_MAGIC = re.compile(r"[*?\[]")
_FLATTENED = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):/(?!/)")  # what pathlib makes of a URL


def is_location(source: Any) -> bool:
    """Whether a source names files: a path, a URL, a pattern, or a list of them (a list of other strings does not)."""
    if isinstance(source, (list, tuple)) and source:
        return all(isinstance(one, os.PathLike) or (isinstance(one, str) and _looks_like_file(one)) for one in source)
    return isinstance(source, (str, os.PathLike))


def title_of(source: Any) -> str:
    """What messages call a location: the path, URL or pattern itself."""
    if isinstance(source, (list, tuple)):
        return title_of(source[0]) + (f" and {len(source) - 1} more" if len(source) > 1 else "")
    text = str(os.fspath(source))
    flattened = _FLATTENED.match(text) if isinstance(source, os.PathLike) else None
    return f"{flattened[1]}://{text[flattened.end() :]}" if flattened and not os.path.lexists(text) else text


def find_files(source: Any, name: str) -> list[str]:
    """The files at a location, at least one, as paths or URLs of one kind; `name` is what messages call the input."""
    if isinstance(source, (list, tuple)):
        files = [file for one in source for file in find_files(one, name)]
        if len(set(files)) < len(files):
            twice = next(file for file in files if files.count(file) > 1)
            raise InputError(f"{name}: {twice} is listed twice: name each file once")
    else:
        text = title_of(source)
        if not text:
            raise InputError(f"{name}: the path is empty")
        files = _find_remote(text, name) if is_url(text) else _find_local(_as_path(text, name), name)
    kinds = {file_kind(file): file for file in files}
    if len(kinds) > 1:
        examples = " and ".join(list(kinds.values())[:2])
        raise InputError(
            f"{name}: {title_of(source)} holds files of different kinds, such as {examples}: "
            "name files of one kind, for example with a pattern like 'folder/*.parquet'"
        )
    return files


def find_file(source: str | os.PathLike[str], name: str) -> Path:
    """The local path, which must exist, be readable and not be empty."""
    path = _as_path(source, name)
    try:
        size = path.stat().st_size
        if path.is_file():
            path.open("rb").close()
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{name}: {path} does not exist") from None
    except PermissionError:
        raise InputError(f"{name}: {path} cannot be read: permission denied") from None
    except (OSError, ValueError) as error:  # a loop of links, a null byte, a name too long
        raise InputError(f"{name}: {str(path)!r} cannot be read: {first_line(error)}") from None
    if path.is_file() and size == 0:
        raise InputError(f"{name}: {path} is empty (0 bytes)")
    if not path.is_file() and not path.is_dir():
        raise InputError(f"{name}: {path} is neither a file nor a folder: write the data to a file first")
    return path


def is_url(source: Any) -> bool:
    """Whether fsspec has to open it."""
    return isinstance(source, str) and _URL.match(source) is not None and not source.lower().startswith("file://")


def file_kind(file: str | Path) -> str | None:
    """What the suffix of a file says: one of the values of `SUFFIXES`, or None."""
    path = PurePosixPath(str(file).partition("?")[0] if is_url(file) else file)
    return SUFFIXES.get(path.suffix.lower())


def as_absolute(file: str) -> str:
    """A file's name for a process that may run in another folder."""
    return file if is_url(file) else os.path.abspath(file)  # noqa: PTH100 - links are kept


@contextmanager
def open_file(file: str) -> Iterator[Any]:
    """A local file's path, or an open file of a URL: what readers of Parquet take."""
    if not is_url(file):
        yield file
        return
    system, path = _connect(file)
    with system.open(path, "rb") as opened:
        yield opened


@contextmanager
def open_bytes(file: str) -> Iterator[Any]:
    """An open file, local or not."""
    with open_file(file) as opened:
        if opened is not file:
            yield opened
            return
        with Path(file).open("rb") as local:
            yield local


@contextmanager
def reading(path: str | Path, form: str) -> Iterator[None]:
    """Turns whatever a reader raises for a broken file into one line."""
    import pyarrow as pa

    try:
        yield
    except InputError:
        raise
    except PermissionError as error:
        raise InputError(f"{path} cannot be read: permission denied") from error
    except (
        pa.ArrowException, OSError, ValueError, TypeError, EOFError, OverflowError, SyntaxError, tokenize.TokenError,
    ) as error:  # fmt: skip
        raise InputError(f"{path} cannot be read as {form}: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    return str(error).partition("\n")[0].rstrip(". ") or type(error).__name__


# Local files.


def _as_path(source: str | os.PathLike[str], name: str) -> Path:
    text = title_of(source)
    if not text.lower().startswith("file://"):
        return Path(text)
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost"):
        raise InputError(f"{name}: {text} is on another machine ({parts.netloc}): file:///path names a local file")
    return Path(unquote(parts.path))


def _find_local(path: Path, name: str) -> list[str]:
    if _MAGIC.search(str(path)) and not os.path.lexists(path):
        found = [Path(match) for match in sorted(glob.glob(str(path), recursive=True), key=_natural_order)]  # noqa: PTH207
        chosen = [match for match in found if not match.is_dir()] or found  # folders only where nothing else matches
        files = [file for match in chosen for file in _find_local(match, name)]
        if not files:
            raise InputError(f"{name}: no file matches {path}")
        return files
    path = find_file(path, name)
    if path.is_file():
        return [str(path)]
    below = [str(file) for file in path.rglob("*") if file.is_file()]
    return _choose_files(below, str(path), name)


def _choose_files(files: list[str], folder: str, name: str) -> list[str]:
    """A folder's data files in natural order; names that begin with a dot or an underscore are not data."""
    chosen = []
    for file in files:
        parts = PurePosixPath(file).parts[len(PurePosixPath(folder).parts) :]
        if file_kind(file) not in (None, "text") and not any(part[0] in "._" for part in parts):
            chosen.append(file)
    if not chosen:
        raise InputError(f"{name}: the folder {folder} holds no {KNOWN} files")
    return sorted(chosen, key=_natural_order)


def _natural_order(file: str) -> tuple[Any, ...]:
    """Numbers in names by value, as writers count their parts; the name itself decides ties."""
    pieces = [re.split(r"([0-9]+)", part) for part in PurePosixPath(file).parts]
    return [[int(piece) if piece.isdigit() else piece for piece in part] for part in pieces], file


def _looks_like_file(text: str) -> bool:
    return file_kind(text) is not None or _URL.match(text) is not None or "/" in text or _MAGIC.search(text) is not None


# URLs.


def _find_remote(url: str, name: str) -> list[str]:
    system, path = _connect(url)
    if "::" in url:  # a chain such as simplecache::s3://...: one file
        return [url]
    try:
        if _MAGIC.search(path):
            found = sorted((str(file) for file in system.glob(path)), key=_natural_order)
            if not found:
                raise InputError(f"{name}: no file matches {url}")
        elif system.isdir(path):
            found = _choose_files([str(file) for file in system.find(path)], path, name)
        elif not system.exists(path):
            raise InputError(f"{name}: {url} does not exist")
        else:
            found = [path]
            if system.size(path) == 0:
                raise InputError(f"{name}: {url} is empty (0 bytes)")
        return [str(system.unstrip_protocol(file)) for file in found]
    except InputError:
        raise
    except Exception as error:  # every file system has errors of its own: credentials, network, permissions
        raise InputError(f"{name}: {url} cannot be read: {first_line(error)}") from error


def _connect(url: str) -> tuple[Any, str]:
    """(the file system of a URL, the path on it)."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise MissingExtraError(f"reading {url}", "fsspec") from error
    try:
        system, path = url_to_fs(url)
    except Exception as error:  # an unknown protocol, a missing library of one, wrong credentials
        raise InputError(f"{url} cannot be opened: {first_line(error)}") from error
    return system, str(path)
