"""Advice in words: for people on a terminal, and the conditions of rules with what was measured."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from posixpath import normpath
from typing import Any

from hedgerow.advice.records import Measurements, SimulatedBatch
from hedgerow.advice.rules import CLASSES, CLUSTERS, Condition, Rule, find_lack

WIDTH = 88
PERCENT = {"margin_sharing", "excess_sharing", "batch_to_pool", "tied", "exclusive"}
WORDS = {
    "batch_to_pool": "the batch as a share of what is unlabeled",
    "batch_to_labels": "the batch, in multiples of the labels so far",
    "labels_per_class": "labels per class",
    "margin_sharing": "picks of the margin batch that share a cluster",
    "margin_clusters": "clusters per 100 picks of the margin batch",
    "excess_sharing": "picks that share a cluster, minus what is expected by chance",
    "agreement": "how alike margins are within a cluster",
    "tightness": "distance within clusters over distance of random rows",
    "n_clusters": "clusters",
    "unasked_classes": "classes that the margin batch does not ask about",
    "classes_without_labels": "classes without labels",
    "tied": "picks of the margin batch that are tied with what it leaves out",
    "exclusive": "rows of the margin batch whose probabilities sum to 1",
}
SHORT = {  # for tables
    "batch_to_pool": "batch / unlabeled",
    "batch_to_labels": "batch / labels",
    "labels_per_class": "labels per class",
    "margin_sharing": "share a cluster",
    "margin_clusters": "clusters per 100",
    "excess_sharing": "share a cluster − by chance",
    "agreement": "agreement",
    "tightness": "tightness",
    "n_clusters": "clusters",
    "unasked_classes": "classes not asked about",
    "classes_without_labels": "classes without labels",
    "tied": "tied",
    "exclusive": "sum to 1",
}
GIVEN_AS = {  # how to give what a measurement needs
    "margin_sharing": CLUSTERS,
    "margin_clusters": CLUSTERS,
    "excess_sharing": CLUSTERS,
    "agreement": CLUSTERS,
    "n_clusters": CLUSTERS,
    "tightness": "embeddings (--embeddings FILE)",
    "batch_to_labels": "what is labeled so far (--labeled FILE)",
    "labels_per_class": "what is labeled so far (--labeled FILE)",
}


def name_choice(strategy: str, options: Mapping[str, float]) -> str:
    """cluster-margin, margin_factor 3."""
    return ", ".join([strategy, *(f"{name} {value:g}" for name, value in options.items())])


def show_value(name: str, value: float | None) -> str:
    """A measurement as a person writes it."""
    if value is None:
        return "not known"
    if name in PERCENT:
        return f"{100 * value:.0f} %"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if abs(value) >= 0.001 else "0"


def list_conditions(rule: Rule, measured: Measurements) -> tuple[str, ...]:
    """The conditions of a rule, each with what was measured."""
    return tuple(_show_condition(condition, measured) for condition in rule.conditions)


def _show_condition(condition: Condition, measured: Measurements) -> str:
    name = condition.measurement
    value, sign = show_value(name, measured.find(name)), {"<": "below", ">=": "at least"}[condition.sign]
    threshold = show_value(name, condition.threshold)
    rounded = condition.sign == "<" and value == threshold
    return f"{WORDS[name]}: {'just under ' if rounded else ''}{value} ({sign} {threshold})"


def list_missing(untested: Iterable[Rule], measured: Measurements) -> tuple[str, ...]:
    """What these rules could not be applied without, each thing once, with the rules that need it."""
    needed: dict[str, list[str]] = {}
    for rule in untested:
        for what in dict.fromkeys(_list_lacks(rule, measured)):
            needed.setdefault(what, []).append(rule.name)
    return tuple(f"{what}, for the rules: {'; '.join(rules)}" for what, rules in needed.items())


def _list_lacks(rule: Rule, measured: Measurements) -> Iterator[str]:
    for condition in rule.conditions:
        if condition.holds(measured) is None:
            yield from _find_inputs(condition.measurement, measured)
    lack = find_lack(rule, measured)
    if lack is not None:
        yield lack


def _find_inputs(name: str, measured: Measurements) -> Iterator[str]:
    """What a measurement needs that was not given, or what the inputs that were given do not have."""
    if name == "labels_per_class" and measured.classes is None:
        yield CLASSES
        if measured.labeled or measured.labeled_given:
            return
    if name == "batch_to_labels" and measured.labeled_given:
        yield "labels, of which there are none so far"
    elif name == "excess_sharing" and measured.chance_sharing is not None:
        share = f"by chance alone, {show_value(name, measured.chance_sharing)} of the picks share a cluster"
        yield f"smaller clusters or a smaller batch: {share}, so that the threshold is out of reach"
    elif name == "agreement" and measured.n_clusters is not None:
        yield "clusters of two unlabeled rows, with margins that differ"
    elif name == "tightness" and measured.usual_distance is not None:
        has_clusters = measured.n_clusters is not None
        yield "clusters of two rows, with embeddings that differ" if has_clusters else GIVEN_AS["n_clusters"]
    else:
        yield GIVEN_AS[name]


def explain(advice: Any) -> str:
    """The advice, its reasons, and all measurements."""
    lines = [f"Advice: {advice.choice}", ""]
    lines += _wrap(f"Rule: {advice.reason.rule}. " + ("" if advice.decided else "Undecided. ") + advice.reason.text)
    lines += [f"  - {one}" for one in advice.reason.conditions]
    lines += _cite(advice.reason.evidence)
    if advice.notes:
        lines += ["", "Notes:"]
        for note in advice.notes:
            lines += _wrap(note.text, "  - ")
            lines += [f"      {one}" for one in note.conditions if not one.startswith("clusters:")]
            lines += _cite(note.evidence, "    ")
    if advice.missing:
        lines += ["", "Some rules could not be applied, for lack of:"]
        for one in advice.missing:
            lines += _wrap(one, "  - ")
    lines += ["", "Measured:", *_list_facts(advice.measurements), "", *_list_batches(advice.measurements)]
    return "\n".join(lines)


def _wrap(text: str, bullet: str = "") -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=bullet, subsequent_indent=" " * len(bullet), break_on_hyphens=False
    )


def _cite(evidence: tuple[str, ...], indent: str = "") -> list[str]:
    return (
        _wrap("Evidence: " + ", ".join(normpath(f"docs/{one}") for one in evidence), f"  {indent}") if evidence else []
    )


def _list_facts(measured: Measurements) -> Iterator[str]:
    """The measurements that are not of a batch, one per line."""
    unit = f"{measured.unit}s"
    yield _fact("pool", f"{measured.n:,} {unit}, {measured.unlabeled:,} unlabeled, {measured.labeled:,} labeled")
    if measured.without_predictions:
        yield _fact("", f"{measured.without_predictions:,} {unit} without predictions are left out")
    of_labels = (
        ""
        if measured.batch_to_labels is None
        else f"{show_value('', measured.batch_to_labels)} times the labels so far, "
    )
    share = f"{100 * measured.batch_to_pool:.3g} % of what is unlabeled"
    yield _fact("batch", f"{measured.k:,} {unit}: {of_labels}{share}")
    if measured.classes is not None:
        yield _fact("classes", _describe_classes(measured))
    if measured.unasked_classes is not None:
        asked = f"nothing about {measured.unasked_classes:,} of the" if measured.unasked_classes else "about all"
        share = f"{100 * (measured.largest_class or 0):.0f} % about the most frequent one"
        yield _fact("margin batch", f"asks {asked} classes; {share}")
    if measured.n_clusters is not None:
        size = f"{measured.n_clusters:,} of {show_value('', measured.average_size)} rows on average"
        agreement = "not known" if measured.agreement is None else f"{show_value('', measured.agreement)} (0 to 1)"
        yield _fact("clusters", f"{size}; agreement of margins {agreement}")
    if measured.close_distance is not None:
        metric = "" if measured.metric is None else f"{measured.metric}: "
        within, usual = f"{measured.close_distance:.3g}", f"{measured.usual_distance:.3g}"
        near = f"{metric}{within} between two rows of a cluster, {usual} of the pool"
        compared = f"picks no farther apart than the former are close ({measured.close_count:,} compared with all)"
        yield _fact("distances", f"{near} (medians); {compared}")
    if measured.close_distance is not None and measured.metric_assumed:
        yield _fact("", f"{measured.metric} is assumed: the clusters do not say how they were made (--metric)")
    if measured.calibration is not None:
        yield from _describe_calibration(measured)


def _describe_classes(measured: Measurements) -> str:
    text = f"{measured.classes:,}"
    if measured.labels_per_class is not None:
        text += f", {show_value('', measured.labels_per_class)} labels per class"
    if measured.fewest_labels is not None:
        kind = "labels" if measured.unit == "row" else "yes answers"
        text += f"; the rarest has {measured.fewest_labels:,}, {measured.classes_without_labels:,} have no {kind}"
    return text


def _describe_calibration(measured: Measurements) -> Iterator[str]:
    found = measured.calibration
    assert found is not None
    kind = "" if found.source == "holdout" else "labeled "
    where = f"{found.count:,} {kind}{measured.unit}s" + (" of the holdout" if found.source == "holdout" else "")
    yield _fact("calibration", f"error {found.error:.3f}, accuracy {found.accuracy:.3f}, on {where}")
    if found.source == "labeled":
        yield _fact("", "on its training data, a model looks better than it is: use a holdout (--holdout)")


def _fact(name: str, text: str) -> str:
    return "\n".join(textwrap.wrap(text, WIDTH, initial_indent=f"  {name:<13} ", subsequent_indent=" " * 16))


def _list_batches(measured: Measurements) -> Iterator[str]:
    """The simulated batches as a table, with what shuffled clusters would give a margin batch."""
    if measured.n_clusters is None:
        yield "Without clusters, near-copies in a batch are not known."
        return
    has_close = any(one.close is not None for one in measured.batches)
    heads = [f"batch of {measured.k:,}", "share a cluster", "clusters per 100", "alone", "candidates"]
    rows = [heads + (["close"] if has_close else [])]
    for one in measured.batches:
        rows.append(_tabulate(one, has_close))
        if one.strategy == "margin":
            by_chance = [_percent(measured.chance_sharing), f"{measured.chance_clusters_per_100 or 0:.0f}"]
            rows.append(["  if clusters were shuffled", *by_chance, "", "", *([""] if has_close else [])])
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for first, *others in rows:
        cells = [f"{text:>{width}}" for text, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([f"{first:<{widths[0]}}", *cells]).rstrip()


def _tabulate(one: SimulatedBatch, has_close: bool) -> list[str]:
    is_control = one.strategy.endswith("-shuffled")  # of the batch in the row before
    factor = "" if one.margin_factor is None else f", factor {one.margin_factor:g}"
    name = "  control, shuffled" if is_control else f"{one.strategy}{factor}"
    candidates = "" if one.candidates is None else f"{one.candidates:,}"
    row = [name, _percent(one.sharing), f"{one.clusters_per_100 or 0:.0f}", _percent(one.alone), candidates]
    return row + ([_percent(one.close)] if has_close else [])


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"
