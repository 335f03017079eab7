"""What every request must pass, and what every response carries. Nothing here knows about campaigns.

A request must name a host of ours, which keeps out pages of others that have their name resolve to this machine (DNS
rebinding). A POST must be JSON and come from a page of ours, so that another page that the same browser shows cannot
send one. Bodies are small and must arrive in time. Responses forbid everything but our own files.
"""

import asyncio
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BODY = 1_000_000  # bytes; an answer has about 150
BODY_SECONDS = 20.0
METHODS = ("GET", "HEAD", "POST")
LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
# How a browser must treat what it gets. Not `frame-ancestors 'self'`: a page of ours has no frames.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'{media}; media-src 'self'{media}; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True)
class Rules:
    """hosts: names by which the desk may be called, besides localhost and numbers. media: remote hosts of contents.

    proxies: names of proxies, behind which pages of the desk may have another address than requests.
    """

    hosts: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    media: tuple[str, ...] = ()

    @property
    def policy(self) -> str:
        """The content security policy."""
        return POLICY.format(media="".join(f" https://{host}" for host in self.media))

    def allows(self, host: str) -> bool:
        """Whether a host is ours. A number always is: rebinding needs a name."""
        name = _find_name(f"//{host}")
        return name is not None and (name in (*LOCAL, *self.hosts, *self.proxies) or _is_number(name))

    def is_ours(self, origin: str, host: str) -> bool:
        """Whether a page at this origin was served by us: at the same address, or behind a proxy of a named host."""
        return urlsplit(origin).netloc == host or _find_name(origin) in self.proxies


def _find_name(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class RefusedError(Exception):
    """A request that is not let through. status: the code of the response."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Guard:
    """An ASGI application around another."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules
        self._headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
        self._policy = (b"content-security-policy", rules.policy.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # the server's own start and stop; there are no websockets
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        send = self._add_headers(send)
        try:
            self._check(scope)
            body = await _read_body(receive) if scope["method"] == "POST" else None
        except RefusedError as error:
            await JSONResponse({"error": str(error)}, error.status)(scope, receive, send)
            return
        await self._app(scope, receive if body is None else _replay(body, receive), send)

    def _add_headers(self, send: Send) -> Send:
        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                policy = [] if self._policy[0] in given else [self._policy]
                message["headers"] = [*message["headers"], *self._headers, *policy]
            await send(message)

        return add

    def _check(self, scope: Scope) -> None:
        headers = _read_headers(scope["headers"])
        host = headers.get("host", "")
        if not self._rules.allows(host):
            raise RefusedError(403, "this is not a name of the desk: allow it with --allow-host")
        if scope["method"] not in METHODS:
            raise RefusedError(405, "use GET or POST")
        if scope["method"] != "POST":
            return
        if not self._rules.is_ours(headers.get("origin", ""), host):
            raise RefusedError(403, "this does not come from a page of the desk")
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise RefusedError(415, "send application/json")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MOST_BODY:
            raise RefusedError(413, f"send at most {MOST_BODY:,} bytes")


def _read_headers(listed: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name. One that is there twice counts as absent: who knows which of them a proxy looked at."""
    found: dict[str, str] = {}
    for raw, value in listed:
        name = raw.decode("latin-1")
        found[name] = "" if name in found else value.decode("latin-1")
    return found


async def _read_body(receive: Receive) -> bytes:
    """All of a body, if it is small and arrives in time."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise RefusedError(400, "the request was not finished")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > MOST_BODY:
                    raise RefusedError(413, f"send at most {MOST_BODY:,} bytes")
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise RefusedError(408, "the request took too long") from None


def _replay(body: bytes, receive: Receive) -> Receive:
    left: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

    async def read() -> Message:
        message: Message = left.pop() if left else await receive()
        return message

    return read
