"""An experiment as a TOML file: what it reproduces, on which data, with which model, how large, by which strategies.

    name = "cifar10"
    reproduces = "..."              # what, and what is different from it
    takes = "..."                   # how long, on what
    metric = "accuracy"             # what the curves and the comparisons show
    baseline = "margin"             # whom the comparisons are with
    trials = 10
    seed_rows = 10_000              # labels at the start, drawn uniformly; of a multi-label dataset, questions
    batch_rows = 5_000              # labels a round; a list runs every strategy once with each
    rounds = 4

    [dataset]                       # a name and its options: `datasets.SOURCES`, `multilabel.QUESTION_SOURCES`
    name = "cifar10"
    [model]                         # a kind and its options: `architectures.MODELS`
    kind = "perceptron"
    [model.training]                # for networks: `models.Training`
    epochs = 20
    [clusters]                      # average_size, method, metric: how the pool is clustered, once a trial
    average_size = 1.25
    [[strategies]]                  # a strategy and its options; a name if two would be called the same; clusters
    strategy = "cluster-margin"     # of its own, if they differ from the recipe's
    margin_factor = 1.25
    [reported_savings.cluster-margin]  # if there are any to compare with: percent of margin's labels that it needed
    margin = 71

Every key is checked: an unknown one is answered with the nearest that is known. Recipes that come with the package are
found by name.
"""

import re
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, cast

from hedgerow import checks
from hedgerow.clustering.hac import METRICS as DISTANCES
from hedgerow.clustering.methods import METHODS
from hedgerow.errors import InputError
from hedgerow.experiments.architectures import MODELS
from hedgerow.experiments.data.datasets import SOURCES
from hedgerow.experiments.data.multilabel import QUESTION_SOURCES
from hedgerow.metrics import METRICS, PAIR_METRICS
from hedgerow.pairs import PAIR_STRATEGIES
from hedgerow.rounds import Plan
from hedgerow.strategies import STRATEGIES, find_needs

T = TypeVar("T")
SHELF = resources.files("hedgerow.experiments") / "shelf"
ALL_SOURCES = {**SOURCES, **QUESTION_SOURCES}
KNOWN_METRICS: Mapping[Any, Mapping[str, Any]] = {"row": METRICS, "question": PAIR_METRICS}
KNOWN_STRATEGIES: Mapping[str, Mapping[str, Any]] = {"row": STRATEGIES, "question": PAIR_STRATEGIES}


@dataclass(frozen=True)
class Clustering:
    """How the pool is clustered for a strategy that needs it."""

    average_size: float = 10.0
    method: str = "auto"
    metric: str = "cosine"

    @property
    def slug(self) -> str:
        """What its file is called."""
        return f"{self.method}-{self.metric}-{self.average_size:g}"


@dataclass(frozen=True)
class Arm:
    """One strategy of an experiment, under the name that its results bear."""

    name: str
    strategy: Any
    clusters: Clustering = Clustering()

    @property
    def slug(self) -> str:
        """What its folder is called."""
        return re.sub(r"[^a-z0-9.]+", "-", self.name.lower()).strip("-")

    @property
    def needs(self) -> frozenset[str]:
        """What it needs of a model and of the pool; a plain callable that declares nothing is given everything."""
        return find_needs(self.strategy)


@dataclass(frozen=True)
class Recipe:
    """An experiment, checked.

    `dataset` and `model` are records of `SOURCES`, `QUESTION_SOURCES` and `MODELS`, or None: given in Python.
    """

    name: str
    strategies: tuple[Arm, ...]
    seed_rows: int
    batch_rows: tuple[int, ...]
    rounds: int
    trials: int
    dataset: Any = None
    model: Any = None
    metric: str = "accuracy"
    baseline: str = ""
    reproduces: str = ""
    takes: str = ""
    reported_savings: dict[str, dict[str, float]] = field(default_factory=dict)  # strategy -> other -> percent

    def __post_init__(self) -> None:
        checks.option(self.metric, "metric", KNOWN_METRICS.get(self.unit, {**METRICS, **PAIR_METRICS}))
        checks.integer(self.trials, "trials", least=1)
        if not self.batch_rows:
            raise InputError("batch_rows must be a number of rows, or a list of several; got []")
        if len(set(self.batch_rows)) < len(self.batch_rows):
            raise InputError(f"batch_rows names a size twice: {list(self.batch_rows)}")
        if not self.strategies:
            raise InputError("a recipe needs at least one table [[strategies]]")
        slugs = [arm.slug for arm in self.strategies]
        for arm in self.strategies:
            if slugs.count(arm.slug) > 1:
                raise InputError(f"two strategies are called {arm.name!r}: give one another name")
        names = [arm.name for arm in self.strategies]
        if not self.baseline:
            object.__setattr__(self, "baseline", "margin" if "margin" in names else names[0])
        checks.option(self.baseline, "baseline", names)
        for ours, others in self.reported_savings.items():
            for name in (ours, *others):
                checks.option(name, "strategy in reported_savings", names)
        for arm in self.strategies:
            lacks = arm.needs & {"embeddings", "clusters"} if not getattr(self.model, "embeddings", True) else None
            if lacks:
                raise InputError(
                    f"the strategy {arm.name!r} needs {min(lacks)}, but the model gives no embeddings: "
                    "have it give them and say embeddings = true in [model], or take the strategy away"
                )

    @property
    def unit(self) -> str | None:
        """What a label is of: a row or a question; None if the dataset is given in Python."""
        return None if self.dataset is None else getattr(self.dataset, "unit", "row")

    def plan(self, batch_rows: int, clusters: Clustering | None = None) -> Plan:
        """The sizes of a trial with one of the batch sizes."""
        given = asdict(clusters) if clusters else {}
        return Plan(self.seed_rows, batch_rows, self.rounds, **given)

    def check(self, size: int, unit: str = "row") -> None:
        """Refuse sizes that a pool with so many labels to be had cannot serve."""
        for batch_rows in self.batch_rows:
            self.plan(batch_rows).check(size, unit)

    def describe(self) -> dict[str, Any]:
        """Everything but its prose and the number of trials, in plain types."""
        told = {key: getattr(self, key) for key in ("name", "seed_rows", "rounds", "metric", "baseline")}
        return told | {
            "batch_rows": list(self.batch_rows),
            "dataset": None if self.dataset is None else _listed(asdict(self.dataset)),
            "model": None if self.model is None else {"kind": type(self.model).__name__} | _listed(asdict(self.model)),
            "strategies": [
                {"name": arm.name, "strategy": repr(arm.strategy)}
                | ({"clusters": asdict(arm.clusters)} if "clusters" in arm.needs else {})
                for arm in self.strategies
            ],
        }


def list_recipes() -> tuple[str, ...]:
    """The names of the recipes that come with the package."""
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in SHELF.iterdir() if entry.name.endswith(".toml")))


def load_recipe(source: str | Path) -> Recipe:
    """A recipe from a TOML file, or by the name of one that comes with the package."""
    path = Path(source)
    if path.suffix == ".toml" or path.is_file():  # a folder may well be called as the recipe it holds the run of
        if not path.is_file():
            raise InputError(
                f"the recipe {path} does not exist: name a TOML file, or one of {', '.join(list_recipes())}"
            )
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{source} is not TOML: {error}") from error
    else:
        text = (SHELF / f"{checks.option(str(source), 'recipe', list_recipes())}.toml").read_text(encoding="utf-8")
    try:
        return parse_recipe(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source} is not TOML: {error}") from error
    except InputError as error:
        raise InputError(f"recipe {source}: {error}") from error


def parse_recipe(given: Mapping[str, Any]) -> Recipe:
    """A recipe from the tables of its file."""
    tables = dict(given)
    known = {"dataset": ALL_SOURCES, "model": MODELS}
    parts: dict[str, Any] = {}
    for key, tag in (("dataset", "name"), ("model", "kind")):
        table = _take_table(tables, key)
        if tag not in table:
            raise InputError(f"the table [{key}] needs a {tag}: {', '.join(known[key])}")
        record = known[key][checks.option(table[tag], f"{key} {tag}", known[key])]
        parts[key] = read_record(record, table if tag == "name" else _without(table, tag), f"[{key}]")
    clusters = read_clustering(_take_table(tables, "clusters", {}), Clustering(), "[clusters]")
    arms = _take_table(tables, "strategies", kind=list)
    unit = getattr(parts["dataset"], "unit", "row")
    if unit not in getattr(parts["model"], "units", ("row",)):
        fitting = [kind for kind, record in MODELS.items() if unit in getattr(record, "units", ("row",))]
        raise InputError(
            f"the dataset {parts['dataset'].name!r} has labels of {unit}s, which this model cannot be trained on: take "
            f"one of {', '.join(fitting)}"
        )
    if not all(isinstance(table, dict) for table in arms):
        raise InputError(f"strategies must be a table of tables: [[strategies]], got {arms!r}")
    parts["strategies"] = tuple(read_arm(table, clusters, KNOWN_STRATEGIES[unit]) for table in arms)
    if isinstance(tables.get("batch_rows"), int):
        tables["batch_rows"] = [tables["batch_rows"]]
    return read_record(Recipe, tables, "the recipe", made=parts)


def read_arm(given: Mapping[str, Any], clusters: Clustering, strategies: Mapping[str, Any] = STRATEGIES) -> Arm:
    """One table of [[strategies]]."""
    table = dict(given)
    if "strategy" not in table:
        raise InputError(f"a table of [[strategies]] needs a strategy: {', '.join(strategies)}")
    kind = strategies[checks.option(table.pop("strategy"), "strategy", strategies)]
    strategy_name = next(name for name, known in strategies.items() if known is kind)
    name = table.pop("name", strategy_name)
    own = table.pop("clusters", {})
    if own and "clusters" not in kind.needs:
        raise InputError(f"the strategy {strategy_name!r} uses no clusters: take its clusters = ... away")
    if not isinstance(name, str) or not name:
        raise InputError(f"a strategy's name must be text, got {name!r}")
    strategy = read_record(kind, table, f"[[strategies]] {strategy_name}", also=("strategy", "name", "clusters"))
    return Arm(name, strategy, read_clustering(own, clusters, f"the clusters of {name!r}"))


def read_clustering(table: Mapping[str, Any], otherwise: Clustering, where: str) -> Clustering:
    """A table of clustering options; what it leaves out is as in `otherwise`."""
    read_record(Clustering, table, where)
    found = read_record(Clustering, asdict(otherwise) | dict(table), where)
    checks.option(found.method, f"method in {where}", METHODS)
    checks.option(found.metric, f"metric in {where}", DISTANCES)
    checks.real(found.average_size, f"average_size in {where}", least=1)
    return found


def read_record(
    kind: type[T],
    table: Mapping[str, Any],
    where: str,
    *,
    made: Mapping[str, Any] | None = None,
    also: tuple[str, ...] = (),
) -> T:
    """An instance of a dataclass from a table whose keys are its fields; `made` are fields that are made already."""
    made = made or {}
    hints = typing.get_type_hints(kind)
    entries = fields(cast(Any, kind))
    known = [entry.name for entry in entries]
    for key in table:
        if key not in known or key in made:
            checks.option(key, f"key in {where}", [*(name for name in known if name not in made), *also, *made])
    needed = [
        entry.name
        for entry in entries
        if entry.default is MISSING and entry.default_factory is MISSING and entry.name not in made
    ]
    for key in needed:
        if key not in table:
            raise InputError(f"{where} lacks the key {key!r}")
    return kind(**{key: _convert(value, hints[key], f"{key} in {where}") for key, value in table.items()}, **made)


def _convert(value: Any, hint: Any, where: str) -> Any:
    """A TOML value as a field's type has it."""
    if isinstance(hint, types.UnionType):
        hint = next(option for option in typing.get_args(hint) if option is not type(None))
    if hint is int:
        return checks.integer(value, where)
    if hint is float:
        return checks.real(value, where)
    if hint is bool:
        if not isinstance(value, bool):
            raise InputError(f"{where} must be true or false, got {value!r}")
        return value
    if hint is str:
        if not isinstance(value, str):
            raise InputError(f"{where} must be text, got {value!r}")
        return value
    if is_dataclass(hint) or typing.get_origin(hint) is dict:
        if not isinstance(value, dict):
            raise InputError(f"{where} must be a table, got {value!r}")
        if is_dataclass(hint):
            return read_record(cast(Any, hint), value, where)
        return {key: _convert(item, typing.get_args(hint)[1], f"{key} in {where}") for key, item in value.items()}
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise InputError(f"{where} must be a list, got {value!r}")
        return tuple(_convert(item, typing.get_args(hint)[0], where) for item in value)
    return value


def _take_table(tables: dict[str, Any], key: str, default: Any = None, kind: type = dict) -> Any:
    table = tables.pop(key, default)
    if table is None:
        raise InputError(f"the recipe lacks the table {'[[' + key + ']]' if kind is list else '[' + key + ']'}")
    if not isinstance(table, kind):
        raise InputError(f"{key} must be a table{' of tables: [[' + key + ']]' if kind is list else ''}, got {table!r}")
    return table


def _without(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name != key}


def _listed(table: dict[str, Any]) -> dict[str, Any]:
    """Tuples as lists: as JSON gives them back."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in table.items()}
