"""Errors: what they say, and that they cross process boundaries."""

import pickle
from pathlib import Path

import pytest

from hedgerow import errors

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "error",
    [
        errors.PoolExhaustedError(10, 3, "pairs"),
        errors.MissingExtraError("the demo", "sklearn"),
        errors.InputError("wrong"),
    ],
)
def test_errors_survive_pickling(error: errors.HedgerowError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_a_missing_extra_is_installed_from_a_clone() -> None:
    """Whoever registers the name on a package index would be installed otherwise."""
    message = str(errors.MissingExtraError("the demo", "sklearn"))
    assert message.startswith("the demo needs an optional dependency: run pip install '.[sklearn]'")
    pages = [ROOT / "README.md", *(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    advice = [path.name for path in pages if "pip install 'hedgerow[" in path.read_text(encoding="utf-8")]
    assert advice == []


def test_both_numbers_are_named() -> None:
    message = str(errors.PoolExhaustedError(1000, 30))
    assert "1,000 examples were asked for, but only 30 are unlabeled" in message
    assert "allow_short=True (--allow-short)" in message
    assert str(errors.PoolExhaustedError(1000, 30, may_be_short=False)).endswith("are unlabeled: ask for fewer")
