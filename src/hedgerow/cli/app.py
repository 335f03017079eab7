"""What all commands share: the application, errors in one line, output for people and for programs.

Standard output carries the result, as text or with `--json` as one object; progress, warnings and errors go to standard
error. Exit codes: 0 done, 1 cannot be done with what was given (silently if the reader of a pipe has gone away), 2
wrong usage, 130 interrupted.
"""

import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TextIO

import typer

from hedgerow import __version__
from hedgerow.errors import HedgerowError, HedgerowWarning

# Typer's own base of every mistake on the command line; its module differs between the supported versions.
_UsageError: type[Any] = typer.BadParameter.__mro__[1]

INTERRUPTED = 130

app = typer.Typer(
    name="hedgerow",
    help="Batch active learning at scale: cluster a pool once, then select in every round what to label next.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Force = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
IdColumn = Annotated[str | None, typer.Option(help="Column with the ids, if it is not called id or similar.")]
Seed = Annotated[int, typer.Option(help="Random seed: the same input, seed and version give the same result.")]
Threads = Annotated[int | None, typer.Option(help="Number of threads. Default: all cores.")]


def run(command: Callable[..., Any]) -> None:
    """Run the command line and exit; an error is one line on standard error."""
    warnings.showwarning = _show_warning
    _escape_output()
    try:
        code = command(prog_name="hedgerow", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()  # a full disk shows here, not while the interpreter exits
    except _UsageError as error:
        context = getattr(error, "ctx", None)
        where = context.command_path if context is not None else "hedgerow"
        code = complain(f"{join_lines(error.format_message())} (see {where} --help)", 2)
    except HedgerowError as error:
        code = complain(join_lines(str(error)), 1)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        code = 1
    except OSError as error:
        _drop_output()
        code = complain(_describe_error(error), 1)
    except MemoryError:
        code = complain("out of memory", 1)
    if code == INTERRUPTED:  # raised, or returned by typer
        complain("interrupted", INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"hedgerow {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def report(as_json: bool, facts: Mapping[str, Any], line: str, *, err: bool = False) -> None:
    """Print the result: one JSON object, or the line. err: on standard error, because standard output has the data."""
    typer.echo(json.dumps(facts) if as_json else line, err=err)


def print_columns(columns: Mapping[str, Any], as_json: bool) -> None:
    """Columns to standard output, in UTF-8: CSV, or JSON lines."""
    from hedgerow.pool.outputs import STDOUT, write_columns

    open_output()
    write_columns(STDOUT, columns, {}, as_json=as_json)


def open_output() -> TextIO:
    """Standard output for data, in UTF-8."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")
    return sys.stdout


def print_rows(rows: Sequence[Mapping[str, str]]) -> None:
    """A table with one line per row, cut to the width of a terminal, and not cut elsewhere."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*rows[0], box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row.values())
    width = None if sys.stdout.isatty() else 1000
    Console(width=width, markup=False, emoji=False).print(table)  # names may have brackets and colons


def print_transposed(rows: Sequence[Mapping[str, str]]) -> None:
    """A table with one column per row: five long rows fit into 80 characters this way."""
    from rich.console import Console
    from rich.table import Table

    corner, *keys = rows[0]
    names = [row[corner].replace(", ", ",\n").replace("-", "-\n") for row in rows]
    table = Table(corner, *names, box=None, pad_edge=False)
    for key in keys:
        table.add_row(key, *(row[key].replace(" ± ", "±") for row in rows))
    Console(markup=False, emoji=False).print(table)


def complain(message: str, code: int) -> int:
    """One line on standard error; returns the exit code."""
    typer.echo(f"hedgerow: {message}", err=True)
    return code


def join_lines(text: str) -> str:
    """A message in one line."""
    return " ".join(text.split())


def _describe_error(error: OSError) -> str:
    where = f": {error.filename}" if error.filename else " (standard output)"
    return f"{error.strerror or error}{where}"


def _escape_output() -> None:
    """Characters that the terminal cannot show are escaped, instead of an error in the middle of the output."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """What is still to be written to standard output cannot be: the interpreter must not try again at its exit."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, sys.stdout.fileno())
    os.close(descriptor)


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    if issubclass(category, HedgerowWarning):
        complain(f"warning: {join_lines(str(message))}", 0)
    else:
        typer.echo(warnings.formatwarning(message, category, *where[:2]), err=True, nl=False)
