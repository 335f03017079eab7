"""Strategies by name: options as text or values, typed by the fields of the strategy's dataclass.

What the command line (`--set key=value`) and recipes have in common. What a value may be is checked by the strategy
itself; here it only gets its type.
"""

import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from hedgerow import checks
from hedgerow.errors import InputError

TRUE, FALSE, NONE = ("true", "yes", "on", "1"), ("false", "no", "off", "0"), ("none", "null", "")


def make(name: str, options: Mapping[str, Any], known: Mapping[str, type[Any]]) -> Any:
    """The strategy called `name` with these options. Values may be text: "5", "true", "none"."""
    kind = known[checks.option(name, "strategy", known)]
    hints = typing.get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    for key in options:
        if key not in names:
            raise InputError(_refuse(name, key, names, known))
    return kind(**{key: _convert(value, hints[key], key) for key, value in options.items()})


def parse_settings(settings: Iterable[str], example: str = "power=2") -> dict[str, str]:
    """["power=2", ...] as a dictionary; a dash in a key is an underscore."""
    options: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise InputError(f"{setting!r} is not an option of the form key=value, such as {example}")
        if key in options:
            raise InputError(f"the option {key!r} is given twice")
        options[key] = value.strip()
    return options


def _refuse(name: str, key: str, names: list[str], known: Mapping[str, type[Any]]) -> str:
    others = [other for other, kind in known.items() if key in (field.name for field in fields(kind))]
    found = f"; {', '.join(others)} {'has' if len(others) == 1 else 'have'} it" if others else ""
    return f"the strategy {name!r} has no option {key!r}: it has {', '.join(names) or 'none'}{found}"


def _convert(value: Any, hint: Any, key: str) -> Any:
    """A value as its field's type; what is not text is left to the strategy's own checks."""
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if float in kinds and type(value) is int:
        return float(value)
    if not isinstance(value, str) or str in kinds:
        return value
    text = value.lower()
    if type(None) in kinds and text in NONE:
        return None
    kind = next(kind for kind in kinds if kind is not type(None))
    if kind is bool and text in TRUE + FALSE:
        return text in TRUE
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    wanted = {int: "a whole number", float: "a number", bool: "true or false"}.get(kind, kind.__name__)
    raise InputError(f"{key} must be {wanted}{' or none' if type(None) in kinds else ''}, got {value!r}")
