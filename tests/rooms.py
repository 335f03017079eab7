"""People at a desk in a real browser, for tests and benchmarks.

Any error in the console, a violation of the content security policy among them, and any request to another machine
fails the test.
"""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import desks
from hedgerow import Campaign
from hedgerow.desk.server import Running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

SETUP = Path(__file__).resolve().parents[1] / "scripts" / "setup-browser"
# Debian's chromium in a container: no sandbox for root, no graphics card, and no traffic of its own.
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
# What chromium itself logs about requests that fail.
NETWORK = re.compile(
    r"^Failed to load resource: (net::ERR_(INTERNET_DISCONNECTED|CONNECTION_REFUSED)|.* status of 404)"
)
PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}
TIMEOUT = 60_000  # milliseconds: bounds what a fault costs; busy machines take long to draw a map


def find_chromium() -> str:
    """The path of chromium, installed if need be."""
    found = subprocess.run([str(SETUP)], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise RuntimeError(f"scripts/setup-browser: {found.stderr.strip().splitlines()[-1]}")
    return found.stdout.strip()


@contextmanager
def launch(path: str) -> Iterator["Browser"]:
    """Chromium, driven by playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        try:
            yield chromium
        finally:
            chromium.close()


class Visit:
    """A browser of one person at a desk. offline: errors of the network are expected."""

    def __init__(self, browser: "Browser", address: str, link: str, *, offline: bool = False, **options: Any) -> None:
        self.address, self.offline = address, offline
        self.errors: list[str] = []
        self.context: BrowserContext = browser.new_context(**options)
        self.context.set_default_timeout(TIMEOUT)
        self.page = self.open(link)

    def open(self, where: str = "") -> "Page":
        """A new tab."""
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda said: self.note(said.text) if said.type in ("error", "warning") else None)
        page.on("request", lambda asked: None if asked.url.startswith(self.address) else self.note(asked.url))
        page.goto(where if ":" in where else f"{self.address}{where}")
        return page

    def note(self, text: str) -> None:
        if not (self.offline and NETWORK.search(text)):
            self.errors.append(text)

    def wait(self, page: "Page | None" = None) -> int:
        """The number of the task that is shown."""
        (page or self.page).wait_for_selector("desk-label[data-task]:not(.empty)")
        return self.task(page)

    def wait_empty(self) -> None:
        """Wait until it is known that nothing is left."""
        self.page.wait_for_selector("desk-label.empty .nothing")

    def task(self, page: "Page | None" = None) -> int:
        return int((page or self.page).locator("desk-label").get_attribute("data-task") or 0)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def saved(self, page: "Page | None" = None) -> None:
        """Wait until everything has arrived."""
        (page or self.page).wait_for_selector(".state[data-state='saved']")

    def close(self) -> None:
        """Leave; nothing may have gone wrong."""
        self.context.close()
        assert self.errors == []


@dataclass
class Room:
    """A campaign, its desk, and the browsers of the people at it."""

    campaign: Campaign
    running: Running
    browser: "Browser"
    visits: list[Visit] = field(default_factory=list)

    def enter(self, name: str | None = None, **options: Any) -> Visit:
        """A browser of whoever runs the desk, or of somebody with a personal link."""
        link = self.running.link if name is None else self.running.links[name]
        self.visits.append(Visit(self.browser, self.running.address, link, **options))
        self.visits[-1].page.wait_for_selector("desk-app > header")  # the link has been traded for a cookie
        return self.visits[-1]


@contextmanager
def open_room(browser: "Browser", campaign: Campaign, **settings: Any) -> Iterator[Room]:
    """A desk; at the end all browsers are closed first, and their errors are looked at."""
    with desks.serve(campaign, **settings) as running:
        room = Room(campaign, running, browser)
        yield room
        for visit in room.visits:
            visit.close()


def list_faults(results: Any) -> list[str]:
    """What axe found that is serious or critical."""
    found = [one for one in results.response["violations"] if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {[node['html'][:120] for node in one['nodes'][:3]]}" for one in found]
