"""What the screens beside LABEL ask for: CURVES, PEOPLE, BATCH and CLUSTERS, and what owners do there.

Only one long job (training, choosing, spreading) runs at a time; anyone who asks for another is told to wait. Unknown
figures are null, never NaN.
"""

import math
import threading
from collections.abc import Callable, Mapping
from typing import Any

from hedgerow.campaign.gallery import Page
from hedgerow.desk.calls import Desk, describe_content, fill_card
from hedgerow.desk.given import Given
from hedgerow.desk.visitors import Visitor
from hedgerow.errors import CampaignError

PAGE = 60  # rows of one page
MOST_CLUSTERS = 200
MOST_PICKED = 1_000_000
MOST_CLASS = 1000  # characters of a class's name
_busy = threading.Lock()


def clean(found: Mapping[str, Any]) -> dict[str, Any]:
    """The same in types of JSON: figures that are not finite are None."""
    return {str(name): _clean(value) for name, value in found.items()}


def _clean(found: Any) -> Any:
    if isinstance(found, Mapping):
        return clean(found)
    if isinstance(found, (list, tuple)):
        return [_clean(value) for value in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found


# CURVES.


def show_curves(desk: Desk, _visitor: Visitor, _given: Given) -> dict[str, Any]:
    """Every model on the holdout, labels per class, coverage, the budget, whether to stop."""
    found: dict[str, Any] = desk.curves.get(desk.campaign.moment(), lambda: _read_curves(desk))
    return found


def _read_curves(desk: Desk) -> dict[str, Any]:
    campaign = desk.campaign
    curve = [one.to_json() for one in campaign.curve()]
    classes = [{"name": one.name, "labels": one.labels} for one in campaign.classes() if one.state == "in use"]
    return clean(
        {
            "curve": curve,
            "advice": campaign.stop_advice().to_json() if curve else None,
            "classes": sorted(classes, key=lambda one: -int(str(one["labels"]))),
            "budget": campaign.budget().to_json(),
            "coverage": _cover(desk),
        }
    )


def _cover(desk: Desk) -> dict[str, int] | None:
    """How many clusters have a label."""
    found = desk.campaign.count_clusters()
    return None if found is None else {"clusters": found[0], "labeled": found[1]}


# PEOPLE.


def show_people(desk: Desk, _visitor: Visitor, _given: Given) -> dict[str, Any]:
    """How much people said, how far they agree, how many tasks are disputed."""
    found = desk.campaign.people().to_json()
    disputed = sum(int(one["tasks"].get("disputed", 0)) for one in desk.campaign.open_batches())
    return clean({**found, "confusion": found["confusion"][:20], "disputed": disputed})


# BATCH and CLUSTERS.


def show_batch(desk: Desk, visitor: Visitor, given: Given) -> dict[str, Any]:
    """Tasks of a batch, a page at a time; those that the filters let through."""
    wanted = {name: given.text(name, MOST_CLASS) for name in ("state", "label", "guess") if given.has(name)}
    mine = visitor.name if given.has("mine") else None
    number, start = given.number("number", least=1), given.number("start", default=0)
    page = desk.campaign.browse_batch(number, **wanted, annotator=mine, start=start, n=PAGE)
    return describe_page(desk, page)


def list_clusters(desk: Desk, _visitor: Visitor, given: Given) -> dict[str, Any]:
    """Clusters in the order that was asked for, and the labels that were carried over."""
    total, found = desk.campaign.list_clusters(given.text("order", default="size"), MOST_CLUSTERS)
    runs = [one.to_json() for one in desk.campaign.spreads()]
    return clean({"total": total, "clusters": [vars(one) for one in found], "spreads": runs})


def show_cluster(desk: Desk, _visitor: Visitor, given: Given) -> dict[str, Any]:
    """Rows of a cluster, a page at a time."""
    start = given.number("start", default=0)
    return describe_page(desk, desk.campaign.browse_cluster(given.number("cluster"), start=start, n=PAGE))


def describe_page(desk: Desk, page: Page) -> dict[str, Any]:
    """Rows as grids show them."""
    content = desk.campaign.outline().content
    rows = [
        {
            "id": str(one.id),
            "cluster": one.cluster,
            "label": one.label,
            "class": one.class_,
            "state": one.state,
            **describe_content(desk.media, one.row, one.content, content),
        }
        for one in page.rows
    ]
    held = [(one.id, one.content) for one in page.rows]
    return {"total": page.total, "page": PAGE, "rows": fill_card(desk, rows, held)}


# What owners do.


def _run_alone(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    if not _busy.acquire(blocking=False):
        raise CampaignError("the desk is training or choosing already: wait until it is done")
    try:
        return work()
    finally:
        _busy.release()


def learn(desk: Desk, _visitor: Visitor, _given: Given) -> dict[str, Any]:
    """Train a model on the labels so far."""
    return _run_alone(lambda: {"said": str(desk.campaign.learn())})


def choose(desk: Desk, _visitor: Visitor, given: Given) -> dict[str, Any]:
    """Choose and reserve the next batch."""
    k = given.number("k", least=1, most=MOST_PICKED)
    return _run_alone(lambda: {"batch": desk.campaign.next(k, allow_short=True)})


def spread(desk: Desk, _visitor: Visitor, given: Given) -> dict[str, Any]:
    """Carry labels to the rest of pure clusters, or say what that would do."""
    trial, unmeasured = given.flag("trial"), given.flag("unmeasured")
    return _run_alone(lambda: clean(desk.campaign.spread(trial=trial, unmeasured=unmeasured).to_json()))


def undo_spread(desk: Desk, _visitor: Visitor, given: Given) -> dict[str, Any]:
    """Take labels that were carried over out of use."""
    desk.campaign.undo_spread(given.number("run", least=1))
    return {"undone": True}
