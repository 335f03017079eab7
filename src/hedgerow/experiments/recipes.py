"""Recipes: experiments as TOML files, with their data, model, sizes and strategies.

    name = "cifar10"
    reproduces = "..."              # what it reproduces, and how it differs from that
    takes = "..."                   # how long it takes, and where
    metric = "accuracy"             # the metric of the curves and the comparisons
    baseline = "margin"             # the strategy that the others are compared with
    controls = true                 # add the controls of every strategy that uses clusters (`controls.py`)
    trials = 10
    seed_size = 10_000              # labels in the seed set, drawn uniformly: rows, or pairs of a multi-label dataset
    batch_size = 5_000              # labels per round; with a list, every strategy runs once with each size
    rounds = 4

    [dataset]                       # a name and its options: `datasets.SOURCES`, `multilabel.PAIR_SOURCES`
    name = "cifar10"
    [changes]                       # optional, to the pool: rows, tail, copies, jitter, noise; `data/changes.py`
    noise = 0.2
    [model]                         # a kind and its options: `architectures.MODELS`
    kind = "perceptron"
    [model.training]                # for networks: `models.Training`
    epochs = 20
    [clusters]                      # average_size, method, metric, join_by: how the pool is clustered, once per trial
    average_size = 1.25
    [[strategies]]                  # a strategy and its options; also a name, if two would have the same, and its own
    strategy = "cluster-margin"     # clusters = {...}, if they differ from those of the recipe
    margin_factor = 1.25
    [[strategies]]                  # a control: the report shows the difference of cluster-margin from it
    strategy = "cluster-margin-shuffled"
    margin_factor = 1.25
    control_of = "cluster-margin"   # a name or a list of names; `controls = true` adds such arms itself
    lacks = "clusters"              # what the difference is credited to
    [[strategies]]                  # a strategy once more with other random numbers: the difference is chance
    strategy = "random"
    name = "random, again"
    stream = 1
    [reported_savings.cluster-margin]  # optional, published numbers: percent of the labels of margin that it needed
    margin = 71

A recipe with `like = "NAME"` has the keys of that recipe, except those that it gives itself; a table is replaced as a
whole. Every key is checked; the error for an unknown one suggests the nearest known key. Recipes that come with the
package are found by name. A recipe is code: a model of kind "program" runs the command that the recipe names.
"""

import re
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, cast

from hedgerow import checks
from hedgerow.clustering import methods
from hedgerow.clustering.hac import METRICS as DISTANCES
from hedgerow.errors import InputError
from hedgerow.experiments.architectures import MODELS
from hedgerow.experiments.arms import Arm
from hedgerow.experiments.controls import check_controls, list_arms
from hedgerow.experiments.data.changes import Changed, Changes
from hedgerow.experiments.data.datasets import SOURCES
from hedgerow.experiments.data.multilabel import PAIR_SOURCES
from hedgerow.metrics import METRICS, PAIR_METRICS
from hedgerow.pairs import PAIR_STRATEGIES
from hedgerow.rounds import Clustering, Plan
from hedgerow.strategies import STRATEGIES, find_needs, make
from hedgerow.strategies.cluster_margin import refuse_row_margin

T = TypeVar("T")
SHELF = resources.files("hedgerow.experiments") / "shelf"
ALL_SOURCES = {**SOURCES, **PAIR_SOURCES}
ARM_KEYS = ("strategy", "name", "clusters", "control_of", "lacks", "stream")  # besides the options of the strategy
KNOWN_METRICS: Mapping[Any, Mapping[str, Any]] = {"row": METRICS, "pair": PAIR_METRICS}
KNOWN_STRATEGIES: Mapping[str, Mapping[str, Any]] = {"row": STRATEGIES, "pair": PAIR_STRATEGIES}
LONGEST_NAME = 200  # of the folder of a strategy, before its batch size: file systems allow 255 in all
# Keys of earlier recipes: of the recipe itself, and of [model.training].
OLD_NAMES = {"seed_rows": ("seed_size",), "batch_rows": ("batch_size", "minibatch")}


def name_slug(name: str) -> str:
    """The name of a strategy as part of the name of a folder."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")


@dataclass(frozen=True)
class Recipe:
    """An experiment, checked.

    `dataset` and `model` are records of `SOURCES`, `PAIR_SOURCES` and `MODELS`, or None if they are passed in Python.
    `controls` adds the controls of every strategy that uses clusters to the strategies.
    """

    name: str
    strategies: tuple[Arm, ...]
    seed_size: int
    batch_size: tuple[int, ...]
    rounds: int
    trials: int
    dataset: Any = None
    model: Any = None
    metric: str = "accuracy"
    baseline: str = ""
    reproduces: str = ""
    takes: str = ""
    controls: bool = False
    reported_savings: dict[str, dict[str, float]] = field(default_factory=dict)  # strategy -> other -> percent

    def __post_init__(self) -> None:
        checks.option(self.metric, "metric", KNOWN_METRICS.get(self.unit, {**METRICS, **PAIR_METRICS}))
        checks.integer(self.trials, "trials", least=1)
        if not self.batch_size:
            raise InputError("batch_size must be a number of labels, or a list of such numbers; got []")
        if len(set(self.batch_size)) < len(self.batch_size):
            raise InputError(f"batch_size has the same size twice: {list(self.batch_size)}")
        if not self.strategies:
            raise InputError("a recipe needs at least one table [[strategies]]")
        if self.controls:
            self._add_controls()
        slugs = [self._name_folder(arm) for arm in self.strategies]
        names = [arm.name for arm in self.strategies]
        for place, slug in enumerate(slugs):
            one, other = names[slugs.index(slug)], names[place]
            if one == other and slugs.index(slug) < place:
                raise InputError(f"two strategies are called {one!r}: give one of them another name")
            if one != other:
                raise InputError(
                    f"the strategies {one!r} and {other!r} would have the same folder, whose name keeps only a to z, "
                    "digits and dots: give one of them another name"
                )
        if not self.baseline:
            object.__setattr__(self, "baseline", "margin" if "margin" in names else names[0])
        checks.option(self.baseline, "baseline", names)
        for ours, others in self.reported_savings.items():
            for name in (ours, *others):
                checks.option(name, "strategy in reported_savings", names)
        for arm in self.strategies:
            for name in arm.control_of:
                checks.option(name, f"control_of of {arm.name!r}", [other for other in names if other != arm.name])
            lacks = arm.needs & {"embeddings", "clusters"} if not getattr(self.model, "embeddings", True) else None
            if lacks:
                raise InputError(
                    f"the strategy {arm.name!r} needs {min(lacks)}, but the model has no embeddings: "
                    "let the program write them and set embeddings = true in [model], or remove the strategy"
                )
        check_controls(self.strategies)

    def _name_folder(self, arm: Arm) -> str:
        slug = name_slug(arm.name)
        if len(slug) > LONGEST_NAME:
            raise InputError(
                f"the name '{arm.name[:40]}...' of a strategy is too long: the name of its folder may have at most "
                f"{LONGEST_NAME} characters, and this one has {len(slug)}; give it a shorter name"
            )
        return slug

    def _add_controls(self) -> None:
        if self.unit is None:
            raise InputError(
                f"the recipe {self.name!r} has controls, but no dataset, so it is not known which: use controls=False, "
                "and pass with_controls=True to run_experiment()"
            )
        object.__setattr__(self, "strategies", list_arms(self.strategies, self.unit, f"the recipe {self.name!r}"))

    @property
    def unit(self) -> str | None:
        """What gets a label, "row" or "pair"; None if the dataset is passed in Python."""
        return None if self.dataset is None else getattr(self.dataset, "unit", "row")

    def plan(self, batch_size: int) -> Plan:
        """The sizes of a trial with one of the batch sizes."""
        return Plan(self.seed_size, batch_size, self.rounds)

    def check(self, size: int, unit: str = "row") -> None:
        """Refuse sizes that need more labels than the pool has rows or pairs."""
        for batch_size in self.batch_size:
            self.plan(batch_size).check(size, unit)

    def describe(self) -> dict[str, Any]:
        """All settings except the prose and the number of trials, in the types of JSON."""
        settings = {key: getattr(self, key) for key in ("name", "seed_size", "rounds", "metric", "baseline")}
        return settings | {
            "batch_size": list(self.batch_size),
            "dataset": None if self.dataset is None else _listed(asdict(self.dataset)),
            "model": None if self.model is None else {"kind": type(self.model).__name__} | describe_model(self.model),
            "strategies": [arm.describe() for arm in self.strategies],
        }


def describe_model(model: Any) -> dict[str, Any]:
    """The options of a model, in the types of JSON, without those of later versions that have their defaults."""
    later = {entry.name for entry in fields(model) if "unlisted" in entry.metadata}
    same = {entry.name for entry in fields(model) if getattr(model, entry.name) == entry.default}
    return {key: value for key, value in _listed(asdict(model)).items() if key not in later & same}


def add_controls(recipe: Recipe, unit: str | None = None) -> Recipe:
    """The recipe with the controls of every strategy that uses clusters; those it has already are not added again.

    unit: "row" or "pair", if the recipe has no dataset. A strategy whose candidates are the batch itself (a factor
    of 1, no limits) picks the same with any clusters, so it gets no controls of them. A recipe to which nothing can be
    added is refused.
    """
    arms = list_arms(recipe.strategies, recipe.unit or unit or "row", f"the recipe {recipe.name!r}")
    return replace(recipe, strategies=arms)


def list_recipes() -> tuple[str, ...]:
    """The names of the recipes that come with the package."""
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in SHELF.iterdir() if entry.name.endswith(".toml")))


def load_recipe(source: str | Path) -> Recipe:
    """Load a recipe from a TOML file, or by the name of one that comes with the package."""
    path = Path(source)
    if path.suffix == ".toml" or path.is_file():  # a folder with a run may have the name of its recipe
        if not path.is_file():
            raise InputError(
                f"the recipe {path} does not exist: use a TOML file, or one of {', '.join(list_recipes())}"
            )
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{source} is not TOML: {error}") from error
    else:
        text = (SHELF / f"{checks.option(str(source), 'recipe', list_recipes())}.toml").read_text(encoding="utf-8")
    try:
        return parse_recipe(inherit(tomllib.loads(text)))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source} is not TOML: {error}") from error
    except InputError as error:
        raise InputError(f"recipe {source}: {error}") from error


def inherit(tables: dict[str, Any]) -> dict[str, Any]:
    """The tables of a recipe, with those of the recipe of the package that it is `like`."""
    if "like" not in tables:
        return tables
    name = checks.option(tables["like"], "like", list_recipes())
    base = tomllib.loads((SHELF / f"{name}.toml").read_text(encoding="utf-8"))
    if "like" in base:
        raise InputError(f"the recipe {name!r} is itself like another: name that one, {base['like']!r}")
    return {**base, **_without(tables, "like")}


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
    changes = _take_table(tables, "changes", {})
    if changes:
        parts["dataset"] = Changed(parts["dataset"], read_record(Changes, changes, "[changes]"))
    clusters = read_clustering(_take_table(tables, "clusters", {}), Clustering(), "[clusters]")
    arms = _take_table(tables, "strategies", kind=list)
    unit = getattr(parts["dataset"], "unit", "row")
    if unit not in getattr(parts["model"], "units", ("row",)):
        fitting = [kind for kind, record in MODELS.items() if unit in getattr(record, "units", ("row",))]
        raise InputError(
            f"the dataset {parts['dataset'].name!r} has labels of {unit}s, which this model cannot be trained on: use "
            f"one of {', '.join(fitting)}"
        )
    if not all(isinstance(table, dict) for table in arms):
        raise InputError(f"strategies must be a table of tables: [[strategies]], got {arms!r}")
    parts["strategies"] = tuple(read_arm(table, clusters, KNOWN_STRATEGIES[unit]) for table in arms)
    tables |= _list_sizes(tables)
    return read_record(Recipe, tables, "the recipe", made=parts)


def _list_sizes(tables: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The batch sizes of a recipe as a list; nothing if there are none."""
    if "batch_size" not in tables:
        return {}
    given, where = tables["batch_size"], "batch_size in the recipe"
    if isinstance(given, list):
        return {"batch_size": given}
    if not isinstance(given, int):
        raise InputError(f"{where} must be a whole number or a list of them, got {given!r}")
    return {"batch_size": [checks.integer(given, where)]}


def read_arm(given: Mapping[str, Any], clusters: Clustering, strategies: Mapping[str, Any] = STRATEGIES) -> Arm:
    """One table of [[strategies]]."""
    table = dict(given)
    if "strategy" not in table:
        raise InputError(f"a table of [[strategies]] needs a strategy: {', '.join(strategies)}")
    known = checks.option(table.pop("strategy"), "strategy", strategies)
    name = table.pop("name", known)
    own = table.pop("clusters", {})
    control_of, lacks = _read_control(table, name)
    stream = checks.integer(table.pop("stream", 0), f"stream of {name!r}")
    if not isinstance(own, dict):
        raise InputError(f"the clusters of {name!r} must be a table such as {{ average_size = 10 }}, got {own!r}")
    if own and "clusters" not in find_needs(known, strategies):
        raise InputError(f"the strategy {known!r} does not use clusters: remove its clusters = ...")
    if not isinstance(name, str) or not name:
        raise InputError(f"the name of a strategy must be text, got {name!r}")
    keys = [entry.name for entry in fields(strategies[known])] + [*ARM_KEYS]
    for key in table:
        checks.option(key, f"key in [[strategies]] {known}", keys)
    try:
        strategy = make(known, table, strategies)
        if strategies is STRATEGIES:
            refuse_row_margin(strategy)
    except InputError as error:
        raise InputError(f"[[strategies]] {known}: {error}") from error
    return Arm(name, strategy, read_clustering(own, clusters, f"the clusters of {name!r}"), control_of, lacks, stream)


def _read_control(table: dict[str, Any], name: str) -> tuple[tuple[str, ...], str]:
    """Take `control_of` (a name or several) and `lacks` out of a table of [[strategies]]."""
    given, lacks = table.pop("control_of", []), table.pop("lacks", "")
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        raise InputError(f"control_of of {name!r} must be the name of a strategy or a list of names, got {given!r}")
    if not isinstance(lacks, str):
        raise InputError(f"lacks of {name!r} must be text, got {lacks!r}")
    if lacks and not names:
        raise InputError(
            f"the strategy {name!r} has lacks = {lacks!r}, but no control_of: name what it is a control of"
        )
    return tuple(names), lacks


def read_clustering(table: Mapping[str, Any], otherwise: Clustering, where: str) -> Clustering:
    """A table of clustering options; those that are missing are taken from `otherwise`.

    Another method leaves behind the `join_by` of the one before it.
    """
    read_record(Clustering, table, where)
    same = table.get("method", otherwise.method) == otherwise.method
    base = otherwise if same else replace(otherwise, join_by=None)
    found = read_record(Clustering, base.describe() | dict(table), where)
    checks.option(found.method, f"method in {where}", methods.METHODS)
    checks.option(found.metric, f"metric in {where}", DISTANCES)
    checks.real(found.average_size, f"average_size in {where}", least=1)
    try:
        methods.make(found.method, {"join_by": found.join_by})
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    return found


def read_record(
    kind: type[T],
    table: Mapping[str, Any],
    where: str,
    *,
    made: Mapping[str, Any] | None = None,
) -> T:
    """An instance of a dataclass from a table whose keys are its fields; `made` are the values of further fields."""
    made = made or {}
    hints = typing.get_type_hints(kind)
    entries = fields(cast(Any, kind))
    known = [entry.name for entry in entries]
    for key in table:
        for new in OLD_NAMES.get(key, ()):
            if new in known:
                raise InputError(f"the key {key!r} in {where} is now called {new!r}: rename it")
        if key not in known or key in made:
            checks.option(key, f"key in {where}", [*(name for name in known if name not in made), *made])
    needed = [
        entry.name
        for entry in entries
        if entry.default is MISSING and entry.default_factory is MISSING and entry.name not in made
    ]
    for key in needed:
        if key not in table:
            raise InputError(f"the key {key!r} is missing in {where}")
    return kind(**{key: _convert(value, hints[key], f"{key} in {where}") for key, value in table.items()}, **made)


def _convert(value: Any, hint: Any, where: str) -> Any:
    """A TOML value as the type of a field."""
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
        raise InputError(f"the recipe has no table {'[[' + key + ']]' if kind is list else '[' + key + ']'}")
    if not isinstance(table, kind):
        raise InputError(f"{key} must be a table{' of tables: [[' + key + ']]' if kind is list else ''}, got {table!r}")
    return table


def _without(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name != key}


def _listed(table: dict[str, Any]) -> dict[str, Any]:
    """Tuples as lists, as JSON has them."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in table.items()}
