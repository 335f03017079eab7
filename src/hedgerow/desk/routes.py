"""The application: the page and its files, the calls it makes, and the contents of rows.

Files of the page are read once and served by name from memory, so that no path of a request ever reaches the disk. A
call is a line in `CALLS`: how it is made, who may make it, and the function that answers it.
"""

import gzip
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, NamedTuple

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from hedgerow.desk import calls, maps, screens
from hedgerow.desk.calls import Desk
from hedgerow.desk.faults import report_fault
from hedgerow.desk.given import Given
from hedgerow.desk.guard import Guard, Rules
from hedgerow.desk.media import AUDIO, IMAGE, LARGE, SMALL, SOUNDS, TEXT, UnfitError, read_picture, read_text
from hedgerow.desk.visitors import ADJUDICATE, LABEL, OWN, SESSION_SECONDS, Visitor, Visitors
from hedgerow.errors import CampaignError, HedgerowError, InputError, StoreError

DATABASE_THREADS = 8  # requests that read or write the campaign at a time: SQLite has one writer anyway
MEDIA_THREADS = 2  # images that are decoded at a time, each within `MOST_PIXELS`
INERT = "default-src 'none'; sandbox"  # for contents, whatever they turn out to be
TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}
STATUS = ((InputError, 400), (CampaignError, 409), (StoreError, 503))


class Call(NamedTuple):
    """One call of the page."""

    method: str
    role: str
    function: Callable[[Desk, Visitor, Given], dict[str, Any]]


CALLS = {
    "me": Call("GET", LABEL, calls.describe),
    "claim": Call("POST", LABEL, calls.claim),
    "answer": Call("POST", LABEL, calls.answer),
    "release": Call("POST", LABEL, calls.release),
    "why": Call("GET", LABEL, calls.explain),
    "count": Call("GET", LABEL, calls.count),
    "curves": Call("GET", LABEL, screens.show_curves),
    "people": Call("GET", ADJUDICATE, screens.show_people),
    "batch": Call("GET", OWN, screens.show_batch),
    "clusters": Call("GET", OWN, screens.list_clusters),
    "cluster": Call("GET", OWN, screens.show_cluster),
    "map": Call("POST", OWN, maps.show_map),
    "near": Call("POST", OWN, maps.show_near),
    "examples": Call("POST", OWN, maps.show_examples),
    "lasso": Call("POST", OWN, maps.show_lasso),
    "reserve": Call("POST", OWN, maps.reserve_lasso),
    "learn": Call("POST", OWN, screens.learn),
    "choose": Call("POST", OWN, screens.choose),
    "spread": Call("POST", OWN, screens.spread),
    "undo_spread": Call("POST", OWN, screens.undo_spread),
}


@dataclass(frozen=True)
class Door:
    """Who comes in, and the cookie by which browsers are known."""

    visitors: Visitors
    cookie: str
    path: str = "/"

    def find(self, request: Request) -> Visitor | None:
        """Who sends a request."""
        return self.visitors.find(request.cookies.get(self.cookie, ""))


def make_app(desk: Desk, door: Door, rules: Rules) -> ASGIApp:
    """The application that a server runs."""
    assets = _read_assets()
    database, decoding = anyio.CapacityLimiter(DATABASE_THREADS), anyio.CapacityLimiter(MEDIA_THREADS)
    routes = [
        Route("/", _serve(assets["index.html"]), methods=["GET"]),
        Route("/enter", _serve(assets["enter.html"]), methods=["GET"]),
        *(Route(f"/assets/{name}", _serve(one), methods=["GET"]) for name, one in assets.items()),
        Route("/api/enter", _make_enter(door), methods=["POST"]),
        Route("/api/leave", _make_leave(door), methods=["POST"]),
        *(
            Route(f"/api/{name}", _make_handler(call, desk, door, database), methods=[call.method])
            for name, call in CALLS.items()
        ),
        Route("/media/{row:int}", _make_media(desk, door, decoding), methods=["GET"]),
    ]
    return Guard(Starlette(routes=routes), rules)


Handler = Callable[[Request], Awaitable[Response]]


# The page.


@dataclass(frozen=True)
class Asset:
    """A file of the page, as it is and packed."""

    type: str
    body: bytes
    packed: bytes
    tag: str


def _read_assets() -> dict[str, Asset]:
    found = {}
    for one in files("hedgerow.desk").joinpath("assets").iterdir():
        suffix = "." + one.name.rpartition(".")[2]
        if suffix in TYPES:
            body = one.read_bytes()
            tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
            found[one.name] = Asset(TYPES[suffix], body, gzip.compress(body, mtime=0), tag)
    return found


def _serve(asset: Asset) -> Handler:
    async def serve(request: Request) -> Response:
        # Checked at every visit: the page and its modules must be of one version.
        headers = {"cache-control": "no-cache", "etag": asset.tag, "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == asset.tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(asset.packed, headers={**headers, "content-encoding": "gzip"}, media_type=asset.type)
        return Response(asset.body, headers=headers, media_type=asset.type)

    return serve


# Coming in.


def _make_enter(door: Door) -> Handler:
    async def enter(request: Request) -> Response:
        try:
            token = Given.of_body(await request.body()).text("token")
        except InputError as error:
            return _refuse(400, str(error))
        session = await anyio.to_thread.run_sync(door.visitors.enter, token)
        if session is None:
            known = door.find(request) is not None  # a link that this browser has used before
            return _reply({"entered": True}) if known else _refuse(403, "this link is not valid any more")
        response = _reply({"entered": True})
        secure = request.url.scheme == "https"
        response.set_cookie(
            door.cookie, session, max_age=SESSION_SECONDS, path=door.path, secure=secure, httponly=True,
            samesite="strict",
        )  # fmt: skip
        return response

    return enter


def _make_leave(door: Door) -> Handler:
    async def leave(request: Request) -> Response:
        await anyio.to_thread.run_sync(door.visitors.leave, request.cookies.get(door.cookie, ""))
        response = _reply({"entered": False})
        response.delete_cookie(door.cookie, path=door.path)
        return response

    return leave


# Calls.


def _make_handler(call: Call, desk: Desk, door: Door, limiter: anyio.CapacityLimiter) -> Handler:
    async def handle(request: Request) -> Response:
        visitor = door.find(request)
        if visitor is None:
            return _refuse(401, "open the desk with your link first")
        if not visitor.may(call.role):
            return _refuse(403, f"this needs the role {call.role}")
        body = await request.body() if call.method == "POST" else None
        fields = dict(request.query_params)

        def run() -> Response:
            given = Given(fields) if body is None else Given.of_body(body)
            return _reply(call.function(desk, visitor, given))

        return await anyio.to_thread.run_sync(_report_errors, run, limiter=limiter)

    return handle


def _report_errors(run: Callable[[], Response]) -> Response:
    """Errors as responses; one that is our own fault leaves its traceback on standard error."""
    try:
        return run()
    except HedgerowError as error:
        return _refuse(next((status for kind, status in STATUS if isinstance(error, kind)), 500), str(error))
    except Exception:
        return _refuse(500, report_fault())


def _reply(found: dict[str, Any], status: int = 200) -> Response:
    # NaN is no JSON: a figure that is not known must be None.
    body = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return Response(body, status, {"cache-control": "no-store"}, "application/json")


def _refuse(status: int, reason: str) -> Response:
    return JSONResponse({"error": reason}, status, {"cache-control": "no-store"})


# Contents.


def _make_media(desk: Desk, door: Door, limiter: anyio.CapacityLimiter) -> Handler:
    async def show(request: Request) -> Response:
        if door.find(request) is None:
            return _refuse(401, "open the desk with your link first")
        row, side = request.path_params["row"], SMALL if request.query_params.get("small") else LARGE

        def run() -> Response:
            try:
                return _read_media(desk, row, side)
            except UnfitError as error:
                return _refuse(404, str(error))

        return await anyio.to_thread.run_sync(_report_errors, run, limiter=limiter)

    return show


def _read_media(desk: Desk, row: int, side: int) -> Response:
    uri = desk.campaign.read_content(row)
    if not uri or desk.campaign.outline().content == TEXT:
        raise UnfitError("this row has no file")
    path, kind = desk.media.find_file(uri), desk.media.find_kind(uri)
    headers = {"content-security-policy": INERT, "cache-control": "private, max-age=3600"}
    if kind == IMAGE:
        picture = read_picture(path, side)
        return Response(picture.body, headers=headers, media_type=picture.type)
    if kind == AUDIO:
        return FileResponse(path, headers=headers, media_type=SOUNDS[path.suffix.lower()])
    if kind == TEXT:
        return Response(read_text(path), headers=headers, media_type="text/plain")
    raise UnfitError(f"files ending in {path.suffix or 'nothing'} cannot be shown")
