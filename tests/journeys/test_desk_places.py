"""The desk in other places: behind a certificate, a proxy, on PostgreSQL, twice over one campaign, in a notebook."""

import asyncio
import html
import http.client
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

import desks
import postgres
from desks import Caller, open_caller
from hedgerow import Campaign
from hedgerow.desk import open_desk
from hedgerow.errors import InputError
from rooms import Visit, open_room

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TEXTS = [f"text {row}" for row in range(40)]


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 and its key, made by openssl just now."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=desk"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*command, *names], check=True, capture_output=True)
    return cert, key


def test_people_label_over_tls(tmp_path: Path, certificate: tuple[Path, Path], browser: "Browser") -> None:
    cert, key = certificate
    with desks.begin(tmp_path, TEXTS, clusters=None) as campaign:
        campaign.next(20, strategy="random")
        with open_room(browser, campaign, tls_cert=cert, tls_key=key, annotators="ana") as room:
            assert room.running.address.startswith("https://127.0.0.1:")
            caller = Caller(room.running.address, trust=cert)
            reply = caller.enter(room.running.links["ana"])
            assert "secure" in reply.headers["set-cookie"].lower()
            assert caller.get("/api/me").json["person"] == "ana"
            with pytest.raises(OSError, match=r".*"):  # whoever speaks no TLS learns nothing
                Caller(room.running.address).get("/")
            visit = room.enter(ignore_https_errors=True)  # chromium does not know who made the certificate
            visit.wait()
            visit.press("1", "2", "Backspace", "3")
            visit.saved()
        assert Counter(campaign.votes()["value"].tolist()) == {"cat": 1, "fox": 1}


@contextmanager
def run_proxy(path: str, desk: str) -> Iterator[str]:
    """A proxy that offers a desk under a path, strips the path and calls the desk by its own address."""

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if not self.path.startswith(f"{path}/"):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("content-length", 0))) or None
            upstream = http.client.HTTPConnection(urlsplit(desk).netloc, timeout=60)
            headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            upstream.request(self.command, self.path.removeprefix(path), body, headers)
            reply = upstream.getresponse()
            content = reply.read()
            self.send_response(reply.status)
            for name, value in reply.getheaders():
                if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                    self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            upstream.close()

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}{path}/"
        server.shutdown()


def test_the_desk_behind_a_proxy(tmp_path: Path, browser: "Browser") -> None:
    with desks.begin(tmp_path, TEXTS, clusters=None) as campaign:
        campaign.next(20, strategy="random")
        settings = {"root_path": "lab/desk", "allow_hosts": ("127.0.0.1",)}
        with (
            desks.serve(campaign, **settings) as running,
            run_proxy("/lab/desk", f"http://127.0.0.1:{running.port}") as address,
        ):
            assert urlsplit(running.link).path == "/lab/desk/enter"
            token = urlsplit(running.link).fragment
            visit = Visit(browser, address, f"{address}enter#{token}")
            visit.wait()
            (cookie,) = visit.context.cookies()
            assert cookie["path"] == "/lab/desk"
            visit.press("1", "2", "3")
            visit.saved()
            visit.press("g", "m")
            visit.page.wait_for_selector("desk-map canvas")
            assert visit.page.url == f"{address}#map"
            visit.close()
        assert Counter(campaign.votes()["value"].tolist()) == {"cat": 1, "dog": 1, "fox": 1}


def test_another_page_at_the_address_of_a_proxy_that_is_not_named_is_refused(tmp_path: Path) -> None:
    with desks.begin(tmp_path, TEXTS, clusters=None) as campaign, desks.serve(campaign, root_path="desk") as running:
        caller = Caller(f"http://127.0.0.1:{running.port}")
        reply = caller.post("/api/enter", {"token": "x"}, {"origin": "http://127.0.0.1:9"})
        assert reply.status == 403


def test_the_desk_on_postgresql(tmp_path: Path, server: postgres.Server, browser: "Browser") -> None:
    url = server.create("desk")
    with desks.begin(tmp_path, TEXTS, holdout=6, database=url) as campaign:
        campaign.next(20, answers=2)
        with open_room(browser, campaign, annotators="ana,ben,eva:adjudicate") as room:
            for name, key in (("ana", "1"), ("ben", "2")):
                visit = room.enter(name)
                for _ in range(10):
                    visit.wait()
                    visit.press(key)
                visit.press("Backspace", "3")
                visit.saved()
            assert len(campaign.votes()["value"]) == 20
            visit = room.enter()  # may find nothing to label: ana and ben hold what they asked for beforehand
            screens = {
                "batch": "text=20 of 20", "clusters": "main table", "map": "main canvas", "curves": "main .figures",
                "people": "main table",
            }  # fmt: skip
            for screen, shown in screens.items():
                visit.page.locator(f"nav a[data-screen={screen}]").click()
                visit.page.wait_for_selector(f"desk-{screen}")
                visit.page.wait_for_selector(shown)
            eva = open_caller(room.running, room.running.links["eva"])
            disputed = campaign.status().disputed
            assert disputed > 0  # both were asked about the first tasks of the batch
            assert len(eva.post("/api/claim", {"decide": True}).json["tasks"]) == disputed


def test_two_desks_share_links_sessions_and_tasks(tmp_path: Path) -> None:
    with desks.begin(tmp_path, TEXTS, clusters=None) as campaign, Campaign.open(campaign.folder) as same:
        campaign.next(40, strategy="random")
        with (
            desks.serve(campaign, annotators="ana", port=None) as one,
            desks.serve(same, annotators="ana,ben", port=None) as other,
        ):
            assert one.port != other.port
            ana = open_caller(other, one.links["ana"])  # a link that the other desk made
            assert "ana" not in other.links
            ben = open_caller(other, other.links["ben"])
            owner = open_caller(one)
            there = Caller(one.address, ana.cookie.replace(str(other.port), str(one.port)))
            assert there.get("/api/me").json["person"] == "ana"
            claims = [who.post("/api/claim", {"n": 8}).json["tasks"] for who in (there, ben, owner)]
            tasks = [task["task"] for claimed in claims for task in claimed]
            assert min(map(len, claims)) > 0
            assert len(set(tasks)) == len(tasks)
            assert ana.post("/api/leave", {}).status == 200
            assert there.get("/api/me").status == 401
            assert owner.get("/api/me").status == ben.get("/api/me").status == 200
        with desks.serve(campaign, annotators="ana,ben", port=None) as again:
            assert again.port == one.port  # that of the desk that began first
            assert again.links == {}
            assert open_caller(again, one.links["ana"]).get("/api/me").status == 200
            assert open_caller(again, other.links["ben"]).get("/api/me").status == 200


def test_curves_are_worked_out_again_once_anything_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desks.begin(tmp_path, TEXTS, holdout=6) as campaign:
        read, calls = Campaign.budget, []
        monkeypatch.setattr(Campaign, "budget", lambda self: calls.append(1) or read(self))
        with desks.serve(campaign) as running:
            caller = open_caller(running)
            first = caller.get("/api/curves").json
            assert caller.get("/api/curves").json == first
            assert len(calls) == 1
            (task,) = campaign.claim("ana", 1)
            campaign.answer("ana", task.task, "cat")
            assert caller.get("/api/curves").json != first
            assert len(calls) == 2
            campaign.set_budget(labels=100)
            assert caller.get("/api/curves").json["budget"]["limit"] == 100


# In a notebook.


def test_a_notebook_opens_the_desk_by_the_link_that_its_cell_shows(tmp_path: Path) -> None:
    """A notebook's code runs inside an event loop, in the thread of which the desk must not be served."""

    async def run_cells() -> None:
        with desks.begin(tmp_path, ["a", "b"]) as campaign:
            campaign.next(2, strategy="random")
            desk = open_desk(campaign, port=0, name="owner")
            try:
                shown = desk._repr_html_()
                found = re.search(r'href="([^"]+)" target="_blank"', shown)
                assert found is not None
                caller = await asyncio.to_thread(open_caller, desk, html.unescape(found[1]))
                claimed = await asyncio.to_thread(caller.post, "/api/claim", {})
                assert claimed.status == 200
                assert desk._repr_html_() != shown  # a link works once
            finally:
                desk.stop()
            with pytest.raises(ConnectionRefusedError):
                caller.get("/")

    with ThreadPoolExecutor(1) as thread:  # the thread of the test may have the loop of a browser
        thread.submit(asyncio.run, run_cells()).result()


def test_unknown_settings_of_a_desk_are_named(tmp_path: Path) -> None:
    with desks.begin(tmp_path, ["a"]) as campaign, pytest.raises(InputError, match=r"no option 'ports'; it has host"):
        open_desk(campaign, ports=1)
