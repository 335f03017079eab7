"""The MAP screen: its calls without a browser, and zoom, examples, layers and the lasso in a real one."""

import base64
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import desks
from hedgerow import Campaign
from hedgerow.campaign import atlas
from hedgerow.campaign.layouts import SIDE
from hedgerow.desk.maps import encode_density
from rooms import PHONE, list_faults, open_room

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROWS = 300


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[Campaign]:
    """Texts whose embeddings are in three groups; ten rows are picked, of which two are labeled and one is disputed."""
    rng = np.random.default_rng(0)
    rows = np.eye(4)[np.arange(ROWS) % 3] + 0.1 * rng.normal(size=(ROWS, 4))
    texts = [f"text {row}" for row in range(ROWS)]
    with desks.begin(tmp_path, texts, embeddings=rows.astype(np.float32)) as made:
        made.next(10, strategy="random", answers=2)
        first, second, third = made.batch(1)["task"].tolist()[:3]
        for who, said in (("ana", "cat"), ("ben", "dog")):
            made.answer(who, first, "cat")
            made.answer(who, second, "dog")
            made.answer(who, third, said)
        yield made


def ask(caller: desks.Caller, name: str, **fields: Any) -> Any:
    reply = caller.post(f"/api/{name}", fields)
    assert reply.status == 200, reply.body
    return reply.json


def look(caller: desks.Caller, **fields: Any) -> Any:
    """A window, once the map is drawn."""
    while "drawn" in (found := ask(caller, "map", **fields)):
        assert 0 <= found["drawn"] <= 1
    return found


def test_counts_become_bytes_by_the_logarithm() -> None:
    levels = list(base64.b64decode(encode_density(np.array([[0, 1, 10], [100, 1000, 1_000_000]]))))
    assert levels == [0, 1, *(round(1 + 254 * step / 6) for step in (1, 2, 3)), 255]
    assert list(base64.b64decode(encode_density(np.array([[0, 1]])))) == [0, 1]
    assert list(base64.b64decode(encode_density(np.zeros((1, 2), int)))) == [0, 0]


def test_calls_of_the_map(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    with desks.serve(campaign, annotators="eva:adjudicate") as running:
        caller = desks.open_caller(running)
        whole = look(caller)
        assert whole["side"] == SIDE
        assert whole["total"] == whole["within"] == len(whole["points"]["x"]) == ROWS
        assert whole["density"] is None
        assert whole["way"] == "neighbors"
        assert 0.3 < whole["share"] <= 1
        assert {name: one["within"] for name, one in whole["layers"].items()} == {
            "picked": 7, "labeled": 2, "disputed": 1,
        }  # fmt: skip

        monkeypatch.setattr(atlas, "MOST_POINTS", 50)
        dense = look(caller, window=[0, 0, SIDE, SIDE])
        assert dense["points"] is None
        assert dense["bins"] == [256, 256]
        assert np.count_nonzero(np.frombuffer(base64.b64decode(dense["density"]), np.uint8)) > 50
        assert look(caller, window=[-900, -900, -1, -1])["within"] == 0

        shown = ask(caller, "examples", rows=dense["examples"]["rows"])["rows"]
        assert [one["row"] for one in shown] == dense["examples"]["rows"]
        assert shown[0]["text"] == f"text {shown[0]['row']}"
        place = [dense["examples"]["x"][0], dense["examples"]["y"][0]]
        assert ask(caller, "near", place=place, reach=0)["rows"] == shown[:1]
        assert ask(caller, "near", place=[-500, -500], reach=10)["rows"] == []

        everything = ask(caller, "lasso", corners=[-1, -1, SIDE, -1, SIDE, SIDE, -1, SIDE])
        assert (everything["total"], len(everything["rows"])) == (ROWS, 60)
        rest = ask(caller, "lasso", corners=[-1, -1, SIDE, -1, SIDE, SIDE, -1, SIDE], start=240)
        assert len(rest["rows"]) == 60
        assert not {one["row"] for one in rest["rows"]} & {one["row"] for one in everything["rows"]}

        expert = desks.open_caller(running, running.links["eva"])
        for name in ("map", "near", "examples", "lasso", "reserve"):
            assert expert.post(f"/api/{name}", {}).status == 403


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("map", {"window": [0, 0, 9]}),
        ("map", {"window": [0, 0, 0, 9]}),
        ("map", {"window": [0, 0, 9, 2**40]}),
        ("map", {"window": [0, 0, 9, 9.5]}),
        ("map", {"window": "all"}),
        ("near", {"place": [1], "reach": 5}),
        ("near", {"place": [1, 2]}),
        ("examples", {"rows": [ROWS]}),
        ("examples", {"rows": list(range(13))}),
        ("lasso", {}),
        ("lasso", {"corners": []}),
        ("lasso", {"corners": [0, 0, 1, 1]}),
        ("lasso", {"corners": [0, 0, 1, 1, 2]}),
        ("lasso", {"corners": [0] * 2000}),
    ],
)
def test_what_cannot_be_is_refused(campaign: Campaign, name: str, fields: dict[str, Any]) -> None:
    campaign.atlas().draw()
    with desks.serve(campaign) as running:
        reply = desks.open_caller(running).post(f"/api/{name}", fields)
        assert reply.status == 400
        assert reply.json["error"]


def test_a_map_that_cannot_be_drawn_says_why(tmp_path: Path, campaign: Campaign) -> None:
    (tmp_path / "campaign" / "maps").write_text("in the way")
    with desks.serve(campaign) as running:
        caller = desks.open_caller(running)
        while (reply := caller.post("/api/map", {})).status == 200:
            assert "drawn" in reply.json
        assert reply.status == 503
        assert "maps" in reply.json["error"]


def shown(page: "Page", before: str | None = None) -> str:
    """Wait until what is in view was read; the window."""
    page.wait_for_function(
        "before => document.querySelector('desk-map')?.dataset.shown && "
        "document.querySelector('desk-map').dataset.shown != before",
        arg=before,
    )
    return str(page.locator("desk-map").get_attribute("data-shown"))


def read_counts(page: "Page") -> list[int]:
    """Rows in view, and those of each layer."""
    return [int(cell.replace(",", "")) for cell in page.locator(".counts td:nth-child(2)").all_inner_texts()]


def circle(page: "Page", x: float, y: float, radius: float) -> None:
    page.mouse.move(x + radius, y)
    page.mouse.down()
    for step in range(1, 24):
        page.mouse.move(x + radius * math.cos(step / 4), y + radius * math.sin(step / 4))
    page.mouse.up()


def test_the_map_is_zoomed_and_circled(campaign: Campaign, browser: "Browser") -> None:
    with open_room(browser, campaign) as room:
        visit = room.enter()
        visit.wait()
        visit.press("g", "m")
        page = visit.page
        whole = shown(page)
        assert read_counts(page) == [ROWS, 7, 2, 1]
        assert "Close rows need not be alike" in page.locator("desk-map").inner_text()

        canvas = page.locator("desk-map canvas")
        box = canvas.bounding_box()
        assert box is not None
        page.get_by_role("button", name="Lasso").click()
        circle(page, box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, box["height"] / 3)
        page.wait_for_selector("text=rows inside")
        inside = int(page.locator(".taken span").inner_text().split()[0])
        assert 0 < inside < ROWS
        page.get_by_role("button", name=f"Show {inside} in Batch").click()
        page.wait_for_selector(f"text={min(60, inside)} of {inside}")
        page.reload()
        page.wait_for_selector(f"text={min(60, inside)} of {inside}")
        assert page.locator(".tile").count() == min(60, inside)
        page.get_by_role("button", name="Ask about these").click()
        page.wait_for_selector("text=Batch 2 is open")
        tasks = campaign.batch(2)
        assert 0 < len(tasks["row"]) <= inside
        assert not set(tasks["row"].tolist()) & set(campaign.batch(1)["row"].tolist())
        page.get_by_role("link", name="← Map").click()

        assert shown(page) == whole
        found = page.evaluate("() => document.querySelector('desk-map').found.examples")
        across, down = page.evaluate(
            "([x, y]) => document.querySelector('desk-map').plane.toPixels(x, y)", [found["x"][0], found["y"][0]]
        )
        page.mouse.click(box["x"] + across, box["y"] + down)
        page.wait_for_selector(".card.held")
        assert f"text {found['rows'][0]}" in page.locator(".card").inner_text()
        for _ in range(6):
            page.mouse.wheel(0, -400)
        closer = shown(page, whole)
        page.wait_for_function("() => document.querySelector('.counts td:nth-child(2)').innerText != '300'")
        assert 0 < read_counts(page)[0] < ROWS
        page.get_by_role("button", name="Show all").click()
        assert shown(page, closer)
        page.wait_for_function("() => document.querySelector('.counts td:nth-child(2)').innerText == '300'")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault_of_the_map_on_a_phone(campaign: Campaign, browser: "Browser", scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with open_room(browser, campaign) as room:
        visit = room.enter(bypass_csp=True, color_scheme=scheme, **PHONE)  # axe adds a script to the page
        visit.wait()
        visit.page.goto(f"{room.running.address}#map")
        shown(visit.page)
        assert list_faults(Axe().run(visit.page)) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_map_is_used_by_keyboard(campaign: Campaign, browser: "Browser", scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with open_room(browser, campaign) as room:
        visit = room.enter(bypass_csp=True, color_scheme=scheme)  # axe adds a script to the page
        visit.wait()
        visit.press("g", "m")
        page = visit.page
        seen = [shown(page)]
        assert list_faults(Axe().run(page)) == []
        page.locator("desk-map canvas").focus()
        for key in ("+", "ArrowRight", "ArrowUp", "-", "0"):
            visit.press(key)
            seen.append(shown(page, seen[-1]))
        assert seen[-1] == seen[0]
        assert len(set(seen)) == 5
        picked = page.get_by_role("button", name="picked")
        picked.press("Enter")
        assert picked.get_attribute("aria-pressed") == "false"
        page.get_by_role("button", name="Take all in view").press("Enter")
        page.get_by_role("button", name=f"Show {ROWS} in Batch").press("Enter")
        page.wait_for_selector(f"text=60 of {ROWS}")
