"""Clustering methods as records: `Exact`, `Certified`, `Multiround`, `Assign`, each with its options.

`make` turns a name and its options into a record, for the keyword arguments of `cluster`, the command line and recipes
alike. Options may be text. The methods themselves are in `hac.py`, `multiround.py` and `assignment.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeAlias

import numpy as np

from hedgerow import checks
from hedgerow.errors import InputError

JOIN_BY = ("average", "centroid")
EXACT_UP_TO = 20_000  # points for which comparing all pairs takes a few seconds


@dataclass(frozen=True)
class Exact:
    """True average linkage: all pairs of points are compared, in float64. Time O(n^2 d).

    neighbors: candidates that a search keeps per cluster. It changes the time, not the clusters.
    """

    neighbors: int = 15
    name: ClassVar[str] = "exact"

    def __post_init__(self) -> None:
        checks.integer(self.neighbors, "neighbors", least=1)


@dataclass(frozen=True)
class Certified:
    """Average linkage on neighbor lists, with a bound on every merge. About O(n^1.2 d) on embeddings.

    neighbors: length of the lists. slack: 1 makes only the merges that the lists prove to be next; 1.1 is faster, and a
    merge may come early by at most a tenth of its height. shard_rows: for pools larger than memory. More rows than this
    are clustered in shards of about this size, each on its own as far as that is safe; the clusters are as good, but
    not the same as without shards.
    """

    neighbors: int = 15
    slack: float = 1.1
    shard_rows: int | None = None
    name: ClassVar[str] = "certified"

    def __post_init__(self) -> None:
        checks.integer(self.neighbors, "neighbors", least=1)
        checks.real(self.slack, "slack", least=1)
        if self.shard_rows is not None:
            checks.integer(self.shard_rows, "shard_rows", least=1)


@dataclass(frozen=True)
class Multiround:
    """Average linkage on graphs of the `neighbors` nearest centroids, in rounds (paper, appendix A.2).

    rounds: how many there are. An average size that they do not reach takes more.
    """

    neighbors: int = 15
    rounds: int = 3
    name: ClassVar[str] = "multiround"

    def __post_init__(self) -> None:
        checks.integer(self.neighbors, "neighbors", least=1)
        checks.integer(self.rounds, "rounds", least=1)


@dataclass(frozen=True, eq=False)  # the subset may be an array, which has no single answer to ==
class Assign:
    """Certified linkage on a subset; every other point joins its nearest cluster (paper, appendix A.2).

    subset: a fraction of the pool in (0, 1], drawn by the seed; or rows; or a bool mask (n,). neighbors, slack: those
    of `Certified`. join_by: the distance of a point to a cluster, "average" (the mean distance to its members, which is
    the average linkage of the two) or "centroid" (the distance to the centroid, as in the paper).
    """

    subset: Any = 0.1
    neighbors: int = 15
    slack: float = 1.1
    join_by: str = "average"
    name: ClassVar[str] = "assign"

    def __post_init__(self) -> None:
        if np.ndim(self.subset) == 0:
            is_bool = isinstance(self.subset, (bool, np.bool_))
            if is_bool or checks.real(self.subset, "subset", above=0) > 1:
                raise InputError(
                    f"subset must be a fraction of at most 1, a bool mask or a list of rows, got {self.subset}"
                )
        Certified(self.neighbors, self.slack)
        checks.option(self.join_by, "join_by", JOIN_BY)


@dataclass(frozen=True)
class Auto:
    """Exact for a small pool and for the euclidean metric, else certified, with these options."""

    neighbors: int = 15
    slack: float = 1.1
    shard_rows: int | None = None
    name: ClassVar[str] = "auto"

    def __post_init__(self) -> None:
        Certified(self.neighbors, self.slack, self.shard_rows)

    def resolve(self, n: int, metric: str) -> Exact | Certified:
        """The method for n points."""
        if n <= EXACT_UP_TO or metric == "euclidean":
            return Exact(self.neighbors)
        return Certified(self.neighbors, self.slack, self.shard_rows)


Method: TypeAlias = Auto | Exact | Certified | Multiround | Assign
METHODS: dict[str, type[Method]] = {
    "auto": Auto,
    "exact": Exact,
    "certified": Certified,
    "multiround": Multiround,
    "assign": Assign,
}


def make(name: str, options: Mapping[str, Any] | None = None) -> Method:
    """The method of this name; options that are None have their default, and numbers may be given as text."""
    kind = METHODS[checks.option(name, "method", METHODS)]
    given = {key: value for key, value in (options or {}).items() if value is not None}
    for key in given:
        refuse_foreign(key, name)
    return kind(**{key: parse_number(value) for key, value in given.items()})


def read_method(given: Any, known: Mapping[str, type[Method]], options: Mapping[str, Any]) -> Method:
    """The `method` of a public function: a record, or a name with the options given as keyword arguments.

    As a keyword argument, slack is accepted with every name; the methods that have no use for it ignore it.
    """
    if isinstance(given, Method):
        extra = [key for key, value in options.items() if value is not None]
        if extra:
            raise InputError(
                f"{extra[0]} was given twice: the method is {given!r}, so set {extra[0]} there and drop {extra[0]}=..."
            )
        checks.option(given.name, "method", known)
        return given
    if isinstance(given, type) and given in METHODS.values():
        raise InputError(f"method is the class {given.__name__}: pass an instance, {given.__name__}()")
    kind = known[checks.option(given, "method", known)]
    if options.get("slack") is not None and "slack" not in list_options(kind):
        checks.real(options["slack"], "slack", least=1)
        options = {**options, "slack": None}
    return make(kind.name, options)


def list_options(kind: type[Method]) -> list[str]:
    """The names of a method's options."""
    return [entry.name for entry in fields(kind)]


def refuse_foreign(option: str, name: str) -> None:
    """Refuse an option that the method of this name does not have."""
    if option in list_options(METHODS[name]):
        return
    homes = [f"method={other!r}" for other, kind in METHODS.items() if option in list_options(kind)]
    if homes:
        raise InputError(f"{option} goes with {' or '.join(homes)}, not with {name!r}")
    checks.option(option, f"option of the method {name!r}", list_options(METHODS[name]))


def parse_number(value: Any) -> Any:
    """A number given as text; anything else as it is, for the record to judge."""
    for kind in (int, float):
        try:
            return kind(value) if isinstance(value, str) else value
        except ValueError:
            continue
    return value
