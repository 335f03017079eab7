"""What the desk must withstand, tried over HTTP: strangers, other pages, hostile files, bodies and clients."""

import http.client
import os
import re
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import desks
from desks import Caller, open_caller
from hedgerow import InputError, StoreError
from hedgerow.desk import connections, guard, media, routes
from hedgerow.desk.server import Running, Settings
from shell import Run

EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>"
SIDE = 9_000  # pixels by as many are more than is decoded
FILES = {
    "good.png": "image", "bomb.png": "image", "claim.png": "image", "cut.png": "image", "lie.png": "image",
    "drawing.svg": "text", "page.html": "text", "sound.wav": "audio", "program.exe": "unknown",
}  # fmt: skip
OUTSIDE = ["../secret.txt", "link.txt", "loop.txt", "folder", "pipe.png", "/etc/passwd", "deep/../../secret.txt"]
ODD = ["file:///etc/passwd", "nul\\x00.png", "x" * 5000 + ".png", "https://elsewhere.example/a.png", "", "good.png"]


def make_png(width: int, height: int) -> bytes:
    """A valid PNG file of one gray, which is small however many pixels it has."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    packer = zlib.compressobj(9)
    rows = b"".join(packer.compress(bytes(1 + width)) for _ in range(height)) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files, and beside it a secret."""
    outer = tmp_path_factory.mktemp("files")
    (outer / "secret.txt").write_text("secret")
    root = outer / "root"
    (root / "folder").mkdir(parents=True)
    (root / "deep").mkdir()
    (root / "good.png").write_bytes(make_png(300, 200))
    (root / "bomb.png").write_bytes(make_png(SIDE, SIDE))
    claim = struct.pack(">II", 200_000, 200_000)  # says so, and has hardly any data
    (root / "claim.png").write_bytes(make_png(1, 1).replace(struct.pack(">II", 1, 1), claim))
    (root / "cut.png").write_bytes(make_png(300, 200)[:-30])
    (root / "lie.png").write_text(EVIL)
    (root / "drawing.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
    (root / "page.html").write_text(EVIL)
    (root / "sound.wav").write_bytes(b"RIFF" + bytes(100))
    (root / "program.exe").write_bytes(b"MZ")
    (root / "link.txt").symlink_to(outer / "secret.txt")
    (root / "loop.txt").symlink_to(root / "loop.txt")
    os.mkfifo(root / "pipe.png")
    return root


@pytest.fixture(scope="module")
def uris() -> list[str]:
    return [*FILES, *OUTSIDE, *ODD]


@pytest.fixture(scope="module")
def running(root: Path, uris: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("desk")
    with desks.begin(folder, uris, "uri", classes=[*desks.CLASSES, EVIL]) as campaign:
        campaign.next(10)
        with desks.serve(campaign, roots=[root], annotators="ana,ben:adjudicate") as served:
            yield served


@pytest.fixture(scope="module")
def owner(running: Running) -> Caller:
    return open_caller(running)


@pytest.fixture(scope="module")
def ana(running: Running) -> Caller:
    return open_caller(running, running.links["ana"])


# Coming in.


def test_strangers_see_the_page_and_nothing_else(running: Running) -> None:
    stranger = Caller(running.address)
    assert stranger.get("/").status == 200
    assert stranger.get("/assets/app.js").status == 200
    for path in ("/api/me", "/api/count", "/api/why?task=1&batch=1", "/media/0"):
        assert stranger.get(path).status == 401
    for path in ("/api/claim", "/api/answer", "/api/release"):
        assert stranger.post(path, {}).status == 401
    assert Caller(running.address, cookie=f"hedgerow_{running.port}=guess").get("/api/me").status == 401


def test_a_wrong_token_lets_nobody_in(running: Running) -> None:
    stranger = Caller(running.address)
    for token in ("wrong", "x" * 43, "\ud800"):
        reply = stranger.post("/api/enter", {"token": token})
        assert reply.status == 403
        assert "set-cookie" not in reply.headers
    for body in ({}, {"token": 5}, {"token": "x" * 1000}, [], b"{"):
        assert stranger.post("/api/enter", body).status == 400


def test_the_link_of_the_owner_works_once_and_personal_ones_again(running: Running) -> None:
    link = running.link
    first = Caller(running.address)
    assert first.enter(link).status == 200
    assert first.get("/api/me").json["role"] == "own"
    assert Caller(running.address).enter(link).status == 403
    assert first.enter(link).status == 200  # the browser that used it may open it again
    for _ in range(2):
        person = open_caller(running, running.links["ben"])
        assert person.get("/api/me").json["role"] == "adjudicate"


def test_the_cookie_is_for_the_server_alone(running: Running) -> None:
    reply = Caller(running.address).enter(running.link)
    words = {word.strip().lower() for word in reply.headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= words


def test_whoever_leaves_is_out(running: Running) -> None:
    person = open_caller(running, running.links["ana"])
    cookie = person.cookie
    assert person.post("/api/leave", {}).status == 200
    assert Caller(running.address, cookie).get("/api/me").status == 401


def test_tokens_are_kept_as_hashes_in_a_file_of_the_owner(tmp_path: Path) -> None:
    with desks.begin(tmp_path, ["a"] * 20) as campaign:
        with desks.serve(campaign, annotators={"ana": "label"}) as running:
            link = running.links["ana"]
            person = open_caller(running, link)
        path = campaign.folder / "desk.json"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        text = path.read_text()
        assert urlsplit(link).fragment not in text
        assert person.cookie.partition("=")[2] not in text
        with desks.serve(campaign, annotators="ana", port=running.port) as again:
            assert again.links == {}  # she has one, which nobody can print again
            assert person.get("/api/me").status == 200
            assert open_caller(again, link).get("/api/me").json["person"] == "ana"
        with desks.serve(campaign, annotators="ana", port=running.port, new_links=True) as renewed:
            assert person.get("/api/me").status == 401
            assert Caller(renewed.address).enter(link).status == 403
            person = open_caller(renewed, renewed.links["ana"])
        with desks.serve(campaign, port=running.port):
            assert person.get("/api/me").status == 401  # not named any more


def test_a_damaged_file_of_sessions_is_refused(tmp_path: Path) -> None:
    with desks.begin(tmp_path, ["a"] * 20) as campaign:
        (campaign.folder / "desk.json").write_text('{"links": []}')
        with pytest.raises(StoreError, match="is damaged"), desks.serve(campaign):
            pass


def test_roles_limit_what_people_do(ana: Caller, running: Running) -> None:
    assert ana.get("/api/me").json["role"] == "label"
    assert ana.post("/api/claim", {"decide": True}).status == 400
    (result,) = ana.answer({"key": "adjudicate1", "task": 1, "kind": "adjudicate", "value": "cat"})
    assert "role adjudicate" in result["refused"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"host": "0.0.0.0"}, "name who may label"),
        ({"annotators": "ana:boss"}, "not a role"),
        ({"annotators": "ana,ana"}, "named twice"),
        ({"annotators": "owner:label"}, "runs the desk"),
        ({"tls_cert": "x.pem"}, "both --tls-cert and --tls-key"),
        ({"tls_cert": "x.pem", "tls_key": "y.pem"}, "certificate cannot be used"),
        ({"roots": ["nowhere"]}, "not a folder"),
        ({"name": "\n"}, "printable"),
    ],
)
def test_settings_that_cannot_be_used(settings: dict[str, object], message: str, tmp_path: Path) -> None:
    with desks.begin(tmp_path, ["a"] * 20) as campaign, pytest.raises(InputError, match=message):
        Running(campaign, Settings(**{"port": 0, "name": "owner", **settings}))


# The command.


def test_the_command_prints_a_link_and_ends_in_peace(tmp_path: Path) -> None:
    desks.begin(tmp_path, ["a"] * 20).close_files()
    command = [sys.executable, "-m", "hedgerow", "desk", str(tmp_path / "campaign"), "--no-browser", "--port", "0"]
    with subprocess.Popen(
        [*command, "--annotators", "ana"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = "".join(process.stdout.readline() for _ in range(4))
        links = dict(re.findall(r"^(\w+) +(http\S+)$", said, re.MULTILINE))
        address = links["desk"].partition("enter#")[0]
        for link in links.values():
            assert Caller(address).enter(link).status == 200
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, "")
    assert "nothing is lost" in said
    assert set(links) == {"desk", "ana"}


def test_the_command_says_what_is_missing(tmp_path: Path, run: Run) -> None:
    assert "is not a folder" in run("desk", tmp_path / "nowhere").error
    desks.begin(tmp_path, ["a"] * 20).close_files()
    done = run("desk", tmp_path / "campaign", "--host", "0.0.0.0")
    assert (done.code, done.error.count("\n")) == (1, 1)
    assert "name who may label with --annotators" in done.error


def test_a_port_that_is_taken_is_named_and_the_one_from_before_is_kept(tmp_path: Path) -> None:
    with desks.begin(tmp_path, ["a"] * 20) as campaign:
        with desks.serve(campaign) as running:
            with pytest.raises(StoreError, match=f"port {running.port}"), desks.serve(campaign, port=running.port):
                pass
            with desks.serve(campaign, port=None) as other:
                assert other.port != running.port  # it is taken
            with desks.serve(campaign) as last:
                pass
        with desks.serve(campaign, port=None) as again:
            assert again.port == last.port


def test_the_page_is_small(running: Running) -> None:
    """All of it together, packed as it is sent: at most 100 KB."""
    stranger = Caller(running.address)
    names = [path.name for path in Path(routes.__file__).with_name("assets").iterdir()]
    sizes = [len(stranger.get(f"/assets/{name}", {"accept-encoding": "gzip"}).body) for name in names]
    assert len(sizes) > 10
    assert sum(sizes) < 100_000
    tag = stranger.get("/assets/app.js").headers["etag"]
    assert stranger.get("/assets/app.js", {"if-none-match": tag}).status == 304


# Other pages and names.


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8931", "", "localhost.evil.example", "[", "127.0.0.1.evil.example"]
)
def test_a_foreign_host_is_refused(owner: Caller, host: str) -> None:
    assert owner.get("/", {"host": host}).status == 403
    assert owner.get("/api/me", {"host": host}).status == 403


def test_two_hosts_are_none(owner: Caller) -> None:
    with socket.create_connection(("127.0.0.1", int(owner.place.rpartition(":")[2]))) as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n")
        assert line.recv(100).split()[1] in (b"400", b"403")


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:8931", "192.168.1.5:8931"])
def test_names_of_this_machine_and_numbers_are_let_in(owner: Caller, host: str) -> None:
    assert owner.get("/api/me", {"host": host}).status == 200


def test_another_name_can_be_allowed(tmp_path: Path) -> None:
    with desks.begin(tmp_path, ["a"] * 20) as campaign, desks.serve(campaign, allow_hosts=["hub.example"]) as running:
        person = open_caller(running)
        assert person.get("/api/me", {"host": "hub.example"}).status == 200
        proxied = {"origin": "https://hub.example"}
        assert person.post("/api/release", {"tasks": []}, proxied).status == 200
        assert person.post("/api/release", {"tasks": []}, {"origin": "https://evil.example"}).status == 403


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "", "http://127.0.0.1:1"])
def test_a_post_of_another_page_is_refused(owner: Caller, origin: str) -> None:
    reply = owner.post("/api/claim", {}, {"origin": origin})
    assert reply.status == 403
    assert "access-control-allow-origin" not in reply.headers


def test_a_post_without_origin_or_of_another_type_is_refused(owner: Caller) -> None:
    assert owner.send("POST", "/api/claim", b"{}", {"content-type": "application/json"}).status == 403
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert owner.post("/api/claim", {}, {"content-type": kind}).status == 415


def test_other_methods_are_refused(owner: Caller) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE"):
        assert owner.send(method, "/api/claim", headers={"origin": owner.address.rstrip("/")}).status == 405
    assert owner.get("/api/claim").status == 405


def test_every_response_forbids_what_it_does_not_need(owner: Caller) -> None:
    for path in ("/", "/assets/app.js", "/api/me", "/media/0", "/nowhere"):
        headers = owner.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers
    assert "sandbox" in owner.get("/media/0").headers["content-security-policy"]
    assert "frame-ancestors 'none'" in owner.get("/").headers["content-security-policy"]


# Files.


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../server.py", "/assets/%2e%2e/server.py", "/assets/..%2fserver.py", "/media/../api/me", "/media/-1",
        "/media/x", "/assets/",
    ],
)  # fmt: skip
def test_no_path_reaches_the_disk(owner: Caller, path: str) -> None:
    assert owner.get(path).status == 404


def test_files_outside_of_the_roots_are_never_shown(owner: Caller, uris: list[str]) -> None:
    for uri in [*OUTSIDE, *ODD[:-1]]:
        reply = owner.get(f"/media/{uris.index(uri)}")
        assert reply.status == 404, uri
        assert b"secret" not in reply.body
        assert b"root:" not in reply.body
    assert owner.get(f"/media/{len(uris)}").status == 400
    assert owner.get("/media/99999999999999999999").status == 400


def test_without_roots_nothing_is_shown(tmp_path: Path, root: Path) -> None:
    with desks.begin(tmp_path, [str(root / "good.png")] * 20, "uri") as campaign:
        with desks.serve(campaign) as running:
            assert open_caller(running).get("/media/0").status == 404
        with desks.serve(campaign, roots=[root]) as running:
            assert open_caller(running).get("/media/0").status == 200


def test_images_are_encoded_anew_within_limits(owner: Caller, uris: list[str]) -> None:
    reply = owner.get(f"/media/{uris.index('good.png')}")
    assert (reply.status, reply.headers["content-type"]) == (200, "image/png")
    small = owner.get(f"/media/{uris.index('good.png')}?small=1")
    assert struct.unpack(">II", small.body[16:24]) == (256, 171)
    for name in ("bomb.png", "claim.png", "cut.png", "lie.png"):
        reply = owner.get(f"/media/{uris.index(name)}")
        assert reply.status == 404, name
        assert b"alert" not in reply.body
    assert b"pixels" in owner.get(f"/media/{uris.index('bomb.png')}").body


def test_what_a_page_should_expect_is_told_by_the_name() -> None:
    found = media.Media()
    assert {name: found.find_kind(name) for name in FILES} == FILES
    assert found.find_kind("https://pictures.example/A.PNG?size=5") == "image"


def test_large_files_are_not_decoded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media, "MOST_BYTES", 100)
    with pytest.raises(media.UnfitError, match="more than"):
        media.read_picture(root / "good.png", 100)
    with pytest.raises(media.UnfitError, match="cannot be opened"):
        media.read_text(root / "link.txt")  # became a link after it was resolved
    with pytest.raises(media.UnfitError, match="not a file"):
        media.read_text(root / "pipe.png")


@pytest.mark.parametrize("name", ["drawing.svg", "page.html"])
def test_svg_and_html_are_text(owner: Caller, uris: list[str], name: str) -> None:
    reply = owner.get(f"/media/{uris.index(name)}")
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert "sandbox" in reply.headers["content-security-policy"]


def test_sound_is_served_in_ranges_and_other_files_are_not(owner: Caller, uris: list[str]) -> None:
    at = uris.index("sound.wav")
    assert owner.get(f"/media/{at}").headers["content-type"] == "audio/wav"
    part = owner.get(f"/media/{at}", {"range": "bytes=0-3"})
    assert (part.status, part.body) == (206, b"RIFF")
    assert owner.get(f"/media/{at}", {"range": "bytes=" + ",".join("0-1" for _ in range(500))}).status in (
        200,
        206,
        400,
        416,
    )
    assert owner.get(f"/media/{uris.index('program.exe')}").status == 404


def test_remote_contents_are_named_only_if_their_host_is(tmp_path: Path) -> None:
    uris = ["https://pictures.example/a.png", "http://pictures.example/a.png", "https://evil.example/a.png"] * 10
    with desks.begin(tmp_path, uris, "uri") as campaign:
        campaign.next(30)
        with desks.serve(campaign, media_hosts=["pictures.example"]) as running:
            person = open_caller(running)
            tasks = person.post("/api/claim", {}).json["tasks"]
            assert {one["url"].startswith("https:") for one in tasks if one["row"] % 3 == 0} == {True}
            assert {one["url"].startswith("media/") for one in tasks if one["row"] % 3} == {True}
            policy = person.get("/").headers["content-security-policy"]
            assert "img-src 'self' https://pictures.example;" in policy


# Bodies and clients.


def test_oversized_bodies_are_refused(owner: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    assert owner.post("/api/answer", b" " * (guard.MOST_BODY + 1)).status == 413
    assert owner.post("/api/answer", b"{}", {"content-length": "x"}).status in (400, 413)
    connection = http.client.HTTPConnection(owner.place, timeout=60)
    headers = {"origin": owner.address.rstrip("/"), "content-type": "application/json", "cookie": owner.cookie}
    body = iter([b" " * 300_000] * 4)  # without a length, in chunks
    connection.request("POST", "/api/answer", body, {**headers, "transfer-encoding": "chunked"}, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"[" * 100_000, b'{"answers": 5}', b'{"answers": [5]}', b"\xff", b'{"answers": [{}]}']
)
def test_bodies_that_make_no_sense_are_refused(owner: Caller, body: bytes) -> None:
    assert owner.post("/api/answer", body).status == 400


@pytest.mark.parametrize(
    "answer",
    [
        {"task": 10**9, "kind": "answer", "value": "cat"},
        {"task": "1; DROP TABLE task", "kind": "answer", "value": "cat"},
        {"task": 1, "kind": "answer", "value": "no such class"},
        {"task": 1, "kind": "answer", "value": {"a": 1}},
        {"task": 1, "kind": "answer", "value": None},
        {"task": 1, "kind": "rm -rf", "value": "cat"},
        {"task": 1, "kind": "answer", "value": "cat", "seconds": -1},
        {"task": 1, "kind": "answer", "value": "cat", "key": "short"},
        {"task": True, "kind": "skip"},
    ],
)
def test_answers_that_cannot_be_used_are_refused_singly(owner: Caller, answer: dict[str, object]) -> None:
    good = {"key": "good-answer-1", "task": 1, "kind": "unsure"}
    first, second = owner.answer({"key": "bad-answer-1", **answer}, good)
    assert first["refused"]
    assert second["outcome"] in ("new", "unchanged")


def test_a_slow_body_is_given_up(owner: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.2)
    head = f"POST /api/answer HTTP/1.1\r\nHost: {owner.place}\r\nOrigin: {owner.address.rstrip('/')}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    with socket.create_connection(("127.0.0.1", int(owner.place.rpartition(":")[2])), timeout=30) as line:
        line.sendall(head.encode())
        assert line.recv(100).split()[1] == b"408"


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: "])
def test_slow_requests_are_given_up(owner: Caller, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(connections, "FIRST_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", int(owner.place.rpartition(":")[2])), timeout=30) as line:
        line.sendall(sent)
        assert line.recv(100) == b""


def test_many_silent_connections_block_nobody(owner: Caller) -> None:
    port = int(owner.place.rpartition(":")[2])
    lines = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
    assert owner.get("/api/me").status == 200
    for line in lines:
        line.close()


def test_headers_beyond_reason_are_refused(owner: Caller) -> None:
    with socket.create_connection(("127.0.0.1", int(owner.place.rpartition(":")[2])), timeout=30) as line:
        line.sendall(f"GET / HTTP/1.1\r\nHost: {owner.place}\r\nX-Long: {'x' * 80_000}".encode())
        assert line.recv(100).split()[1] == b"400"


# Answers.


def test_the_same_answer_twice_is_one(ana: Caller, running: Running) -> None:
    task = ana.post("/api/claim", {"n": 1}).json["tasks"][0]["task"]
    said = {"key": "ana-says-cat", "task": task, "kind": "answer", "value": "cat", "seconds": 1.5}
    assert ana.answer(said)[0]["outcome"] == "new"
    assert ana.answer(said, said) == [{"key": "ana-says-cat", "outcome": "unchanged"}] * 2
    undone = {"key": "ana-says-nothing", "task": task, "kind": "retract"}
    assert ana.answer(undone)[0]["outcome"] == "corrected"
    assert ana.answer(said, undone) == [
        {"key": "ana-says-cat", "outcome": "unchanged"},  # late: it was undone since
        {"key": "ana-says-nothing", "outcome": "unchanged"},
    ]
    assert ana.post("/api/claim", {"n": 1}).json["tasks"][0]["task"] == task  # she may answer it again


def test_keys_of_one_person_keep_out_nobody_else(running: Running, owner: Caller) -> None:
    ben = open_caller(running, running.links["ben"])
    said = {"key": "the-same-key", "task": 2, "kind": "answer", "value": "cat"}
    assert ben.answer(said)[0]["outcome"] == "new"
    assert owner.answer({**said, "value": "dog"})[0]["outcome"] == "new"


def test_names_with_markup_arrive_as_text(owner: Caller) -> None:
    reply = owner.get("/api/me")
    assert EVIL in reply.json["classes"]
    assert reply.headers["content-type"] == "application/json"


def test_fifty_people_at_once_lose_nothing_and_share_nothing(tmp_path: Path) -> None:
    people = [f"person {number}" for number in range(50)]
    with desks.begin(tmp_path, [f"text {row}" for row in range(300)], clusters=None) as campaign:
        campaign.next(200, strategy="random")
        with desks.serve(campaign, annotators=dict.fromkeys(people, "label")) as running:
            links = running.links
            gate = threading.Barrier(len(people))

            def work(name: str) -> list[int]:
                caller, done = open_caller(running, links[name]), []
                gate.wait()
                while tasks := caller.post("/api/claim", {"n": 3}).json["tasks"]:
                    said = [{"key": f"key-of-{one['task']}", "task": one["task"], "value": "cat"} for one in tasks]
                    assert {one["outcome"] for one in caller.answer(*said)} == {"new"}
                    done += [one["task"] for one in tasks]
                return done

            with ThreadPoolExecutor(len(people)) as pool:
                answered = [task for done in pool.map(work, people) for task in done]
        votes = campaign.votes()
    assert sorted(answered) == sorted(set(answered))
    assert len(answered) == 200
    assert len(np.unique(votes["row"])) == len(votes["row"]) == 200


def test_the_server_is_still_up(owner: Caller) -> None:
    assert owner.get("/api/me").status == 200
    assert owner.post("/api/claim", {}).status == 200
