"""The documentation site: it builds without a warning, and a browser can search it and see its figures.

The site is built once. The browser refuses every request that would leave the machine, so a page that needs a font or a
script from elsewhere fails here.
"""

import functools
import http.server
import io
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import tree

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FIGURE = "img[src*='cifar10-5000']"
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 800}


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a line on standard error for each."""

    def log_message(self, format: str, *values: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make site` builds it; any warning (a broken link, a page outside the contents) is an error."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(out / ".doctrees")]
    command += [str(tree.ROOT / "docs"), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tree.ROOT)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site behind a local server: its search does not work from a file."""
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class Visit:
    """A page in the browser, with the errors it logged and the requests to other machines it tried."""

    def __init__(self, browser: "Browser", address: str, scheme: str = "light", size: dict[str, int] = DESK) -> None:
        self.address = address
        self.errors: list[str] = []
        self.abroad: list[str] = []
        self.context = browser.new_context(color_scheme=scheme, viewport=size)
        self.page: Page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.route("**/*", self.guard)

    def guard(self, route) -> None:
        """Let local requests pass, note and refuse the others."""
        if route.request.url.startswith((self.address, "data:")):
            route.continue_()
        else:
            self.abroad.append(route.request.url)
            route.abort()

    def open(self, path: str) -> "Page":
        self.page.goto(f"{self.address}/{path}", wait_until="load")
        return self.page

    def close(self) -> None:
        """Leave; nothing may have gone wrong."""
        self.context.close()
        assert self.errors == []
        assert self.abroad == []


def grays(picture: bytes) -> np.ndarray:
    """A screenshot as lightness from 0 to 1."""
    from matplotlib.image import imread

    return imread(io.BytesIO(picture))[..., :3].mean(axis=2)


def test_every_page_is_built_and_every_public_name_described(site: Path) -> None:
    pages = {path.relative_to(tree.ROOT / "docs").with_suffix("") for path in (tree.ROOT / "docs").rglob("*.md")}
    assert all((site / f"{page}.html").is_file() for page in pages)
    text = (site / "api.html").read_text()
    import hedgerow

    missing = [name for name in hedgerow.__all__ if f'id="hedgerow.{name}"' not in text]
    assert missing == []
    assert "<li><p><strong>embeddings</strong>: " in text  # parameters are listed, not run together
    plain = [re.sub("<[^>]+>", "", (site / page).read_text()) for page in ("api.html", "modules.html")]
    assert [re.findall(r"~\w.{0,40}|\(\*args, \*\*kwargs\)", page) for page in plain] == [[], []]  # legible signatures
    assert "--threshold" in (site / "cli.html").read_text()  # and options keep both dashes


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "conf.py").write_text((tree.ROOT / "docs" / "conf.py").read_text())
    (tmp_path / "_static").mkdir()
    for name in ("logo.svg", "site.css"):
        (tmp_path / "_static" / name).write_bytes((tree.ROOT / "docs" / "_static" / name).read_bytes())
    (tmp_path / "index.md").write_text("# Page\n\n[nowhere](nowhere.md), [no heading](#nothing)\n")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", str(tmp_path), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "nowhere.md" in done.stderr
    assert "nothing" in done.stderr


def test_search_finds_a_function_and_a_strategy(browser: "Browser", address: str) -> None:
    visit = Visit(browser, address)
    page = visit.open("search.html?q=average_precision")
    page.wait_for_selector("#search-results ul.search li a")
    found = page.locator("#search-results ul.search li a").all_inner_texts()
    assert any("average_precision" in title for title in found)
    page = visit.open("search.html?q=round-robin")
    page.wait_for_selector("#search-results ul.search li a[href*='strategies']")
    visit.close()


def test_the_search_box_leads_to_results(browser: "Browser", address: str) -> None:
    visit = Visit(browser, address)
    page = visit.open("index.html")
    page.keyboard.press("Control+k")
    page.keyboard.type("dendrogram")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=dendrogram*")
    page.wait_for_selector("#search-results ul.search li a")
    visit.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_figure_is_legible_in_both_color_schemes(browser: "Browser", address: str, scheme: str) -> None:
    visit = Visit(browser, address, scheme)
    page = visit.open("results/cifar10.html")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    shown = grays(page.locator(FIGURE).screenshot())
    paper = np.median(shown)
    channels = [int(part) / 255 for part in background[4:-1].split(",")[:3]]
    assert abs(paper - np.mean(channels)) < 0.05, "the figure does not stand on the page's color"
    assert paper > 0.9 if scheme == "light" else paper < 0.2
    ink = shown.min() if scheme == "light" else shown.max()
    assert abs(ink - paper) > 0.6, "axes and letters do not stand out"
    visit.close()


def test_a_figure_is_legible_when_the_reader_switches_the_scheme(browser: "Browser", address: str) -> None:
    visit = Visit(browser, address, "light")
    page = visit.open("results/cifar10.html")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    shown = grays(page.locator(FIGURE).screenshot())
    assert max(shown.max() - np.median(shown), np.median(shown) - shown.min()) > 0.6
    visit.close()


@pytest.mark.parametrize("path", ["index.html", "results.html", "results/wordlangs.html", "api.html"])
def test_pages_fit_a_phone(browser: "Browser", address: str, path: str) -> None:
    visit = Visit(browser, address, size=PHONE)
    page = visit.open(path)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    visit.close()
