"""Text files from outside as records, with limits: JSON lines, JSON arrays, CSV.

Files are read as a stream, one record at a time. A record that cannot be read is a `Bad` with the reason, and the next
one follows; a file whose structure is lost (an array that breaks off, a quote that is never closed) is refused as a
whole, with `InputError`. Limits: bytes of a record, fields of an object, depth. JSON is read strictly: NaN, infinities
and keys that occur twice are refused, because readers disagree about what they mean. Nothing here is ever executed or
unpickled, and text that looks like a formula is text.
"""

import codecs
import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from hedgerow.errors import InputError
from hedgerow.pool.texts import find_delimiter

RECORD_BYTES = 1 << 24  # as for the lines of a pool's text files
FIELDS = 1000  # of one object or line
DEPTH = 50  # of arrays and objects in each other; Label Studio's tasks have about ten
READ_BYTES = 1 << 20
SHOWN = 500  # characters of a bad record that are kept

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_GUARDED = re.compile(r"'+[=+\-@\t\r]")


class RefusedRecordError(ValueError):
    """JSON that is well formed, but not accepted."""


@dataclass(frozen=True)
class Bad:
    """A record that cannot be read: why, and how it begins."""

    reason: str
    text: str


def parse_json(text: str) -> Any:
    """One JSON value, read strictly. Raises ValueError with a reason in plain words."""
    try:
        value = _decode(text)
    except RecursionError:
        raise RefusedRecordError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise RefusedRecordError(f"it is not JSON: {error.msg} at character {error.pos + 1}") from None
    except RefusedRecordError:
        raise
    except ValueError:  # a number of more digits than Python converts
        raise RefusedRecordError("it has a number that is too long") from None
    _check_depth(text)
    return value


def _collect_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise RefusedRecordError(f"the key {twice!r} occurs twice")
    if len(found) > FIELDS:
        raise RefusedRecordError(f"it has {len(found):,} fields; at most {FIELDS:,} are read")
    return found


def _refuse_constant(name: str) -> Any:
    raise RefusedRecordError(f"{name} is not a JSON value")


_STRICT: Any = json.JSONDecoder(object_pairs_hook=_collect_pairs, parse_constant=_refuse_constant)
_LENIENT = json.JSONDecoder()


def _decode(text: str) -> Any:
    """What `_STRICT.decode` gives, in two thirds of the time where there is no white space around the value."""
    try:
        value, end = _STRICT.scan_once(text, 0)
    except StopIteration:
        end = -1
    return value if end == len(text) else _STRICT.decode(text)


def _check_depth(text: str) -> None:
    """Raises if arrays and objects are nested more than `DEPTH` deep; texts with few brackets are not looked at."""
    if text.count("[") + text.count("{") <= DEPTH:
        return
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", _STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > DEPTH:
            raise RefusedRecordError(f"it is nested more than {DEPTH} deep")


# Lines.


def iterate_lines(file: BinaryIO) -> Iterator[str | Bad]:
    """The lines of a file without their ends, which may be those of Windows; blank lines included. A BOM is skipped."""
    first = True
    while line := file.readline(RECORD_BYTES + 1):
        if len(line) > RECORD_BYTES:
            yield Bad(f"the line is longer than {RECORD_BYTES >> 20} MiB", _show(line))
            _skip_line(file, line)
            continue
        if first:
            line = line.removeprefix(codecs.BOM_UTF8)
            first = False
        try:
            yield line.rstrip(b"\r\n").decode()
        except UnicodeDecodeError as error:
            yield Bad(f"byte {error.start + 1} of the line is not UTF-8", _show(line))


def _skip_line(file: BinaryIO, line: bytes) -> None:
    while line and not line.endswith(b"\n"):
        line = file.readline(READ_BYTES)


def iterate_json_lines(file: BinaryIO) -> Iterator[Any]:
    """The value of each line, or a `Bad`; blank lines are passed over."""
    for line in iterate_lines(file):
        if isinstance(line, Bad):
            yield line
        elif line and not line.isspace():
            try:
                yield parse_json(line)
            except RefusedRecordError as error:
                yield Bad(str(error), line[:SHOWN])


# Arrays.


def iterate_json_array(file: BinaryIO, title: str) -> Iterator[Any]:
    """The elements of a JSON array, one at a time, or a `Bad`: of the file only the current element is held."""
    stream = _Buffer(file, title)
    if stream.peek() != "[":
        raise InputError(f"{title} does not begin with a JSON array")
    stream.advance(1)
    if stream.peek() == "]":
        return
    while True:
        stream.peek()
        yield stream.decode()
        mark = stream.peek()
        if mark == "]":
            return
        if mark != ",":
            raise InputError(f"{title}: the JSON array breaks off or is damaged after element {stream.elements}")
        stream.advance(1)


class _Buffer:
    """A sliding window over the text of a file, large enough for the element that is being read."""

    def __init__(self, file: BinaryIO, title: str) -> None:
        self.file, self.title = file, title
        self.text, self.at, self.elements, self.ended = "", 0, 0, False
        self.decoder = codecs.getincrementaldecoder("utf-8-sig")()

    def peek(self) -> str:
        """The next character that is no white space; "" at the end of the file."""
        while True:
            while self.at < len(self.text):
                if not self.text[self.at].isspace():
                    return self.text[self.at]
                self.at += 1
            if not self._read(READ_BYTES):
                return ""

    def advance(self, count: int) -> None:
        self.at += count

    def decode(self) -> Any:
        """The next value, or a `Bad`."""
        size, decoder, refused = READ_BYTES, _STRICT, ""
        while True:
            try:
                value, end = decoder.raw_decode(self.text, self.at)
                if not refused:
                    _check_depth(self.text[self.at : end])
                return self._accept(Bad(refused, self.text[self.at : end][:SHOWN]) if refused else value, end)
            except RecursionError:
                raise InputError(f"{self._name_next()} is nested too deeply") from None
            except RefusedRecordError as error:
                decoder, refused = _LENIENT, str(error)  # to find where the element ends
            except ValueError:  # the element goes on beyond the window, or it is no JSON at all
                if len(self.text) - self.at > RECORD_BYTES:
                    limit = f"{RECORD_BYTES >> 20} MiB"
                    raise InputError(f"{self._name_next()} is not JSON, or longer than {limit}") from None
                if not self._read(size):
                    raise InputError(f"{self._name_next()} is not JSON, or breaks off") from None
                size *= 2  # so that a long element is not parsed too many times

    def _name_next(self) -> str:
        return f"{self.title}: element {self.elements + 1}"

    def _accept(self, value: Any, end: int) -> Any:
        self.at = end
        self.elements += 1
        return value

    def _read(self, size: int) -> bool:
        """Read on; whether there was more."""
        if self.ended:
            return False
        piece = self.file.read(size)
        try:
            more = self.decoder.decode(piece, final=not piece)
        except UnicodeDecodeError:
            raise InputError(f"{self.title} is not UTF-8: save it as UTF-8") from None
        self.ended = not piece
        self.text, self.at = self.text[self.at :] + more, 0
        return not self.ended


# CSV.


@dataclass(frozen=True)
class CsvHeading:
    """The columns of a CSV file and what separates them."""

    names: tuple[str, ...]
    delimiter: str


def read_heading(file: BinaryIO, title: str) -> CsvHeading:
    """The first line of a CSV file; commas, semicolons and tabs are tried, and the one that gives most columns wins."""
    line = next(iterate_lines(file), "")
    if isinstance(line, Bad):
        raise InputError(f"{title}: the heading cannot be read: {line.reason}")
    try:
        delimiter = find_delimiter(line)
        fields = next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error as error:  # such as the line ends of an old Mac
        raise InputError(f"{title}: the heading cannot be read: {error}") from None
    names = tuple(unguard(name.strip()) for name in fields)
    if len(names) > FIELDS:
        raise InputError(f"{title} has {len(names):,} columns; at most {FIELDS:,} are read")
    if not any(names):
        raise InputError(f"{title} has no heading: its first line must name the columns")
    named = [name for name in names if name]
    if len(set(named)) < len(named):
        twice = next(name for name in named if named.count(name) > 1)
        raise InputError(f"{title} has two columns called {twice!r}: rename one")
    return CsvHeading(names, delimiter)


def iterate_csv(file: BinaryIO, heading: CsvHeading, title: str) -> Iterator[list[str] | Bad]:
    """The rows below the heading; blank lines are passed over, and rows of another length are bad."""
    lines = _CsvLines(file, title)
    reader = csv.reader(lines, delimiter=heading.delimiter)
    while True:
        begun = reader.line_num + 2  # the heading, and lines count from 1
        lines.odd = False
        limit = csv.field_size_limit(RECORD_BYTES)  # all readers of the process have the same limit
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(f"{title}: the row that begins in line {begun} cannot be read: {error}") from None
        finally:
            csv.field_size_limit(limit)
        if not row:
            continue
        if len(row) != len(heading.names):
            reason = f"it has {len(row)} fields, and the heading {len(heading.names)}"
            yield Bad(reason, heading.delimiter.join(row)[:SHOWN])
        elif not lines.odd:
            yield row
        elif any(map(_has_bad_bytes, row)):
            yield Bad("it is not UTF-8", heading.delimiter.join(row)[:SHOWN].encode(errors="replace").decode())
        else:
            yield [unguard(field) for field in row]


def unguard(text: str) -> str:
    """Undo the guard that `exports` puts before text that a spreadsheet would take for a formula."""
    return text[1:] if _GUARDED.match(text) else text


class _CsvLines:
    """Lines with their ends; bytes that are not UTF-8 become lone surrogates, so that only their row is lost.

    odd: whether a line since it was last set to False has such bytes or the mark that guards a formula; nearly all
    rows need no second look.
    """

    def __init__(self, file: BinaryIO, title: str) -> None:
        self.file, self.title, self.odd = file, title, False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self.file.readline(RECORD_BYTES + 1)
        if not line:
            raise StopIteration
        if len(line) > RECORD_BYTES:
            raise InputError(f"{self.title} has a line longer than {RECORD_BYTES >> 20} MiB")
        try:
            text = line.decode()
        except UnicodeDecodeError:
            text, self.odd = line.decode(errors="surrogateescape"), True
        self.odd = self.odd or "'" in text
        return text


def _has_bad_bytes(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def _show(line: bytes) -> str:
    return line[:SHOWN].decode(errors="replace").rstrip()
