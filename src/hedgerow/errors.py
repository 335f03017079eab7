"""The error family: everything that hedgerow raises on purpose.

    HedgerowError
    ├── InputError          (ValueError)   a value, shape, file or option that cannot be used
    ├── PoolExhaustedError                 more examples requested than are unlabeled
    ├── CampaignError                      a campaign's state forbids the step
    ├── StoreError                         a file cannot be read, written or trusted
    ├── EngineError                        a worker failed for good
    └── MissingExtraError   (ImportError)  an optional dependency is absent; names the extra

`HedgerowWarning` is issued for every fallback that changes the result: none is silent.
"""


class HedgerowError(Exception):
    """The base of everything that hedgerow raises on purpose."""


class InputError(HedgerowError, ValueError):
    """An input cannot be used. The message says what was received, what is needed and what to do."""


class PoolExhaustedError(HedgerowError):
    """More examples (or pairs) were requested than are unlabeled."""

    def __init__(self, asked: int, available: int, kind: str = "examples", may_be_short: bool = True) -> None:
        short = ", or pass allow_short=True (--allow-short) to take all of them" if may_be_short else ""
        super().__init__(f"{asked:,} {kind} were asked for, but only {available:,} are unlabeled: ask for fewer{short}")
        self.asked = asked
        self.available = available
        self.kind = kind
        self.may_be_short = may_be_short

    def __reduce__(self) -> tuple[type["PoolExhaustedError"], tuple[int, int, str, bool]]:
        return type(self), (self.asked, self.available, self.kind, self.may_be_short)


class CampaignError(HedgerowError):
    """The campaign's state forbids the step."""


class StoreError(HedgerowError):
    """A file cannot be read, written or trusted."""


class EngineError(HedgerowError):
    """A worker failed for good. `trace` is the traceback from there, if the worker lived to tell it."""

    trace: str | None = None


class MissingExtraError(HedgerowError, ImportError):
    """An optional dependency is absent."""

    def __init__(self, what: str, extra: str) -> None:
        # Not `pip install hedgerow[...]`: the package is not published, and the name could be somebody else's.
        super().__init__(
            f"{what} needs an optional dependency: run pip install '.[{extra}]' in a clone of the hedgerow repository"
        )
        self.what = what
        self.extra = extra

    def __reduce__(self) -> tuple[type["MissingExtraError"], tuple[str, str]]:
        return type(self), (self.what, self.extra)


class HedgerowWarning(UserWarning):
    """A fallback that changes the result."""
