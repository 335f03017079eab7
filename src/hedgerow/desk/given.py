"""What a page sent, checked: one object of JSON, or the parameters of an address."""

import json
from collections.abc import Mapping
from typing import Any

from hedgerow.errors import InputError

MOST_DIGITS = 15  # of a number in an address


class Given:
    """The fields of one request."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    @classmethod
    def of_body(cls, body: bytes) -> "Given":
        """The object in a body."""
        try:
            found = json.loads(body or b"{}")
        except (ValueError, RecursionError):
            raise InputError("the body is not JSON") from None
        return cls.of(found)

    @classmethod
    def of(cls, found: Any) -> "Given":
        """An object of JSON."""
        if not isinstance(found, dict):
            raise InputError("an object is needed, such as {}")
        return cls(found)

    def has(self, name: str) -> bool:
        """Whether a field is there and not null."""
        return self._fields.get(name) is not None

    def value(self, name: str) -> Any:
        """A field as it is; None if it is not there."""
        return self._fields.get(name)

    def number(self, name: str, *, least: int = 0, most: int = 2**53, default: int | None = None) -> int:
        """A whole number; in an address, its digits."""
        value = self._fields.get(name, default)
        if isinstance(value, str) and value.isdecimal() and value.isascii() and len(value) <= MOST_DIGITS:
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise InputError(f"{name} must be a whole number from {least:,} to {most:,}")
        return value

    def numbers(self, name: str, most: int) -> list[int]:
        """A list of whole numbers."""
        return [Given({name: one}).number(name) for one in self.items(name, most)]

    def items(self, name: str, most: int) -> list[Any]:
        """A list."""
        value = self._fields.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise InputError(f"{name} must be a list of at most {most:,}")
        return value

    def text(self, name: str, most: int = 200, default: str | None = None) -> str:
        """A text that is not empty."""
        value = self._fields.get(name, default)
        if not isinstance(value, str) or not 0 < len(value) <= most:
            raise InputError(f"{name} must be a text of at most {most:,} characters")
        return value

    def real(self, name: str, most: float) -> float | None:
        """A number from 0 to `most`, cut there; None if it is not there."""
        value = self._fields.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
            raise InputError(f"{name} must be a number from 0 on")
        return float(min(value, most))

    def flag(self, name: str) -> bool:
        """Whether something is wanted; not, if it is not there."""
        value = self._fields.get(name, False)
        if value not in (True, False):
            raise InputError(f"{name} must be true or false")
        return bool(value)
