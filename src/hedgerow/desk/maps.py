"""What the MAP screen asks for: a window of the map, what is near a place, examples, and the rows inside a lasso.

The density of a window is one byte per bin, by the logarithm of the count: a megabyte of counts becomes 88 KB of text.
"""

import base64
from typing import Any

import numpy as np

from hedgerow.campaign.atlas import EXAMPLES, FARTHEST, MOST_CORNERS, Points, View, Window
from hedgerow.campaign.layouts import SIDE
from hedgerow.desk.calls import Desk
from hedgerow.desk.given import Given
from hedgerow.desk.screens import PAGE, describe_page
from hedgerow.desk.visitors import Visitor
from hedgerow.errors import InputError

MOST_RESERVED = 10_000  # rows of a lasso that become a batch: nobody means more


def show_map(desk: Desk, _visitor: Visitor, given: Given) -> dict[str, Any]:
    """A window of the map, or how far it is drawn: that begins when somebody first asks for it."""
    atlas = desk.campaign.atlas()
    if not atlas.is_drawn():
        return {"drawn": desk.drawing.follow(atlas.draw)}
    edges = _read_numbers(given, "window", 4) if given.has("window") else []
    return {"side": SIDE, **describe_view(atlas.view(Window(*edges)))}


def describe_view(view: View) -> dict[str, Any]:
    """A window as the page draws it: points where there are few rows, else the density."""
    shown = view.points
    return {
        "total": view.total,
        "within": view.within,
        "way": view.way,
        "share": view.share,
        "most": int(view.counts.max()),
        "bins": list(view.counts.shape),
        "density": encode_density(view.counts) if shown is None else None,
        "points": None if shown is None else _list_points(shown),
        "examples": {"rows": view.examples.row.tolist(), **_list_points(view.examples)},
        "layers": {
            name: {"total": one.total, "within": one.within, **_list_points(one.points)}
            for name, one in view.layers.items()
        },
    }


def encode_density(counts: Any) -> str:
    """Counts as base64 of one byte each: 0 for none, else from 1 to 255 by the logarithm."""
    most = max(1, int(counts.max()))
    levels = np.rint(1 + 254 * np.log(np.maximum(counts, 1)) / max(np.log(most), 1e-9))
    return base64.b64encode(np.where(counts > 0, levels, 0).astype(np.uint8).tobytes()).decode()


def _list_points(points: Points) -> dict[str, list[int]]:
    return {"x": points.x.tolist(), "y": points.y.tolist()}


def show_near(desk: Desk, _visitor: Visitor, given: Given) -> dict[str, Any]:
    """The example nearest to a place."""
    x, y = _read_numbers(given, "place", 2)
    found = desk.campaign.atlas().find_near(x, y, given.number("reach", most=SIDE))
    return describe_page(desk, desk.campaign.browse_rows(found))


def show_examples(desk: Desk, _visitor: Visitor, given: Given) -> dict[str, Any]:
    """Some rows by number."""
    return describe_page(desk, desk.campaign.browse_rows(given.numbers("rows", EXAMPLES)))


def show_lasso(desk: Desk, _visitor: Visitor, given: Given) -> dict[str, Any]:
    """Rows inside a polygon, a page at a time. corners: x, y, x, y and so on."""
    flat = _read_numbers(given, "corners", None)
    start = given.number("start", default=0)
    return describe_page(desk, desk.campaign.browse_polygon(np.array(flat).reshape(-1, 2), start=start, n=PAGE))


def reserve_lasso(desk: Desk, visitor: Visitor, given: Given) -> dict[str, Any]:
    """A batch of what is inside a polygon and can be asked about."""
    flat = _read_numbers(given, "corners", None)
    total, rows = desk.campaign.atlas().find_inside(np.array(flat).reshape(-1, 2))
    if total > MOST_RESERVED:
        raise InputError(
            f"the lasso holds {total:,} rows, and {MOST_RESERVED:,} can be asked about at once: draw a smaller one"
        )
    return {"batch": desk.campaign.reserve(rows, reason=f"lasso of {visitor.name}")}


def _read_numbers(given: Given, name: str, length: int | None) -> list[int]:
    """Whole numbers that may be negative; so many, or any even number of them."""
    found = given.items(name, 2 * MOST_CORNERS)
    if len(found) != length if length is not None else len(found) % 2 or not found:
        raise InputError(f"{name} must have {length or 'an even number of'} numbers")
    return [Given({name: one}).number(name, least=-FARTHEST, most=FARTHEST) for one in found]
