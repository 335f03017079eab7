"""Where data are: a file, or a folder of Parquet files; what readers say about broken ones, in one line.

The files of a folder are read in the order of their names, numbers in them by value: part-2 before part-10.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hedgerow.errors import InputError

PARQUET = (".parquet", ".pq")


def find_file(source: str | os.PathLike[str], name: str) -> Path:
    """The path, which must exist and not be empty."""
    path = Path(source)
    if not path.exists():
        raise InputError(f"{name}: {path} does not exist")
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(f"{name}: {path} is empty (0 bytes)")
    return path


def list_parquet(folder: Path) -> list[Path]:
    """A folder's Parquet files, also in folders below, in natural order; hidden and underscored ones are not data."""
    found = [path for path in folder.rglob("*") if path.suffix.lower() in PARQUET and path.is_file()]
    found = [path for path in found if not any(part[0] in "._" for part in path.relative_to(folder).parts)]
    if not found:
        raise InputError(f"the folder {folder} holds no .parquet files")
    return sorted(found, key=_natural_order)


def _natural_order(path: Path) -> tuple[Any, ...]:
    """Numbers in names by value, as writers count their parts; the path itself decides ties."""
    pieces = [re.split(r"([0-9]+)", part) for part in path.parts]
    return [[int(piece) if piece.isdigit() else piece for piece in part] for part in pieces], path


@contextmanager
def reading(path: str | Path, form: str) -> Iterator[None]:
    """Turns whatever a reader raises for a broken file into one line."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} cannot be read as {form}: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    return str(error).partition("\n")[0].rstrip(". ") or type(error).__name__
