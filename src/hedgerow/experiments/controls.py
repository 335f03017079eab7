"""The controls of a recipe: its strategies without the idea that they are credited for.

Clusters are credited only for what a strategy gains over the same strategy with shuffled clusters, or over a uniform
draw from the same candidates. Over pairs, the second of the paper's two steps has a control as well. `list_arms`
adds an arm for each; `findings.py` compares every strategy with its own.

A recipe may also name controls itself; `check_controls` refuses those to which nothing can be credited.

What it does not do: define the controls (`strategies/controls.py`, `pairs/controls.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from hedgerow.errors import InputError
from hedgerow.experiments.arms import Arm
from hedgerow.pairs import (
    ClusterMarginPairs,
    InformedClusterMargin,
    InformedRandom,
    ShuffledClusterMarginPairs,
    UniformCandidatePairs,
)
from hedgerow.strategies import ClusterMargin, Hedge, ShuffledClusterMargin, ShuffledHedge, UniformCandidates


@dataclass(frozen=True)
class Control:
    """What to add for a strategy: the end of the control's name, the idea that it lacks, and how to make it.

    If `name` is given, it is the whole name: strategies with different options share this control.
    """

    suffix: str
    lacks: str
    make: Callable[[Any], Any]
    name: str = ""


def _copy_options(kind: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda strategy: kind(**asdict(strategy))


def _inform(strategy: ClusterMargin) -> InformedClusterMargin:
    return InformedClusterMargin(strategy.margin_factor, strategy.power, row_margin=strategy.row_margin)


CLUSTERS, ROUND_ROBIN = "clusters", "clusters and round-robin"
BY_ROWS = (
    Control("shuffled clusters", CLUSTERS, _copy_options(ShuffledClusterMargin)),
    Control("uniform candidates", ROUND_ROBIN, _copy_options(UniformCandidates)),
)
BY_PAIRS = (
    Control("shuffled clusters", CLUSTERS, _copy_options(ShuffledClusterMarginPairs)),
    Control("uniform candidates", ROUND_ROBIN, _copy_options(UniformCandidatePairs)),
)
OF_HEDGE = (Control("shuffled clusters", CLUSTERS, _copy_options(ShuffledHedge)),)
SECOND_STEP = Control("informed pairs", "random second step", _inform)
SHUFFLED_INFORMED = Control("shuffled clusters", CLUSTERS, lambda strategy: replace(strategy, shuffle_clusters=True))
CHOICE_OF_ROWS = Control("", "choice of rows", lambda strategy: InformedRandom(), name="random rows, informed pairs")
KNOWN: Mapping[type, tuple[Control, ...]] = {  # of a strategy, if it has enough candidates
    ClusterMargin: (*BY_ROWS, SECOND_STEP),
    Hedge: OF_HEDGE,
    ClusterMarginPairs: BY_PAIRS,
    InformedClusterMargin: (SHUFFLED_INFORMED, CHOICE_OF_ROWS),
}


def list_arms(given: Sequence[Arm], unit: str, where: str) -> tuple[Arm, ...]:
    """These arms with the controls of every strategy that uses clusters; those they have already are not added again.

    A control of the second step, which uses clusters too, gets no other controls than `CHOICE_OF_ROWS`.
    unit: what gets a label, "row" or "pair". where: the recipe, for the error if there is nothing to control.
    """
    arms = list(given)
    for arm in (one for one in given if not one.stream and one.lacks != SECOND_STEP.lacks):
        for control in list_controls(arm.strategy, unit):
            added = _add(arms, arm, control)
            if control is SECOND_STEP:
                _add(arms, added, CHOICE_OF_ROWS)
    if not any(arm.control_of for arm in arms):
        raise InputError(
            f"{where} has no strategy that controls are known for, such as cluster-margin: use it without controls "
            "(--with-controls, with_controls=True, or controls = true in the recipe)"
        )
    return tuple(arms)


def list_controls(strategy: Any, unit: str) -> tuple[Control, ...]:
    """The controls of a strategy in a pool of rows or of pairs; none for strategies that are not credited clusters."""
    if type(strategy) is ClusterMargin:
        controls = BY_ROWS if strategy.margin_factor > 1 else ()
        return controls if unit == "row" else (*controls, SECOND_STEP)
    if type(strategy) is Hedge:
        return OF_HEDGE
    if type(strategy) is ClusterMarginPairs:
        limited = strategy.per_row is not None or strategy.class_quota is not None
        return BY_PAIRS if strategy.margin_factor > 1 or limited else ()
    if type(strategy) is InformedClusterMargin and not strategy.shuffle_clusters:
        return (SHUFFLED_INFORMED, CHOICE_OF_ROWS) if strategy.margin_factor > 1 else (CHOICE_OF_ROWS,)
    return ()


def check_controls(arms: Sequence[Arm]) -> None:
    """Refuse controls that do not say what they lack, that control themselves, or that lack more than their idea."""
    named = {arm.name: arm for arm in arms}
    for arm in arms:
        if arm.control_of and not arm.lacks:
            raise InputError(
                f'{arm.name!r} has control_of, but no lacks: say what it lacks, such as lacks = "clusters"'
            )
        if arm.name in _find_controlled(named, arm.name):
            raise InputError(f"{arm.name!r} is a control of itself, by way of others: remove a control_of")
        for name in arm.control_of:
            _check_options(arm, named[name])


def _find_controlled(named: Mapping[str, Arm], name: str) -> set[str]:
    """The strategies that one is a control of, and those that they are controls of, and so on."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        new = set(named[waiting.pop()].control_of) - found
        found |= new
        waiting += new
    return found


def _check_options(control: Arm, arm: Arm) -> None:
    """A known control of a strategy has its options and its clusters."""
    for known in KNOWN.get(type(arm.strategy), ()):
        made = known.make(arm.strategy)
        if type(made) is not type(control.strategy) or _shuffles(made) != _shuffles(control.strategy):
            continue
        with_clusters = "clusters" in control.needs
        if control.strategy != made or (with_clusters and control.clusters != arm.clusters):
            raise InputError(
                f"{control.name!r} differs from {arm.name!r} in more than what a control lacks ({known.lacks}): use "
                f"{made!r}{f' and {arm.clusters!r}' if with_clusters else ''}, or remove its control_of"
            )


def _shuffles(strategy: Any) -> bool:
    """One class is both a strategy and its control, by this option."""
    return getattr(strategy, "shuffle_clusters", False)


def _add(arms: list[Arm], arm: Arm, control: Control) -> Arm:
    """Add a control of `arm` to the arms, or mark the arm that is the same already; returns it."""
    name = control.name or f"{arm.name}, {control.suffix}"
    made = Arm(name, control.make(arm.strategy), arm.clusters, (arm.name,), control.lacks)
    for place, other in enumerate(arms):
        same = other.strategy == made.strategy and type(other.strategy) is type(made.strategy) and not other.stream
        if same and ("clusters" not in made.needs or other.clusters == made.clusters):
            known = (*other.control_of, *(one for one in made.control_of if one not in other.control_of))
            arms[place] = replace(other, control_of=known, lacks=other.lacks or made.lacks)
            return arms[place]
    arms.append(made)
    return made
