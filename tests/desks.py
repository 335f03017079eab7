"""A desk for tests: a small campaign behind a real server, and callers that speak HTTP to it without a browser."""

import csv
import http.client
import json
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from hedgerow import Campaign
from hedgerow.desk.server import Running, Settings

CLASSES = ["cat", "dog", "fox"]


def begin(folder: Path, contents: Sequence[str], column: str = "text", **options: Any) -> Campaign:
    """A campaign over texts or uris, in clusters of about ten, without a holdout."""
    with (folder / "pool.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", column), *((f"r{row}", text) for row, text in enumerate(contents))])
    np.save(folder / "embeddings.npy", np.random.default_rng(1).normal(size=(len(contents), 4)).astype(np.float32))
    given: dict[str, Any] = {"classes": CLASSES, "embeddings": folder / "embeddings.npy"}
    return Campaign.init(folder / "campaign", folder / "pool.csv", **{**given, **options})


@contextmanager
def serve(campaign: Campaign, **settings: Any) -> Iterator[Running]:
    """A desk at a port of its own."""
    with Running(campaign, Settings(**{"port": 0, "name": "owner", **settings})) as running:
        yield running


@dataclass
class Reply:
    """What a server sent."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Caller:
    """A person without a browser. cookie: empty until they have come in. trust: a certificate to expect."""

    address: str
    cookie: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    trust: Path | None = None

    @property
    def place(self) -> str:
        """Host and port."""
        return urlsplit(self.address).netloc

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        connection = self._connect()
        given = {"cookie": self.cookie} if self.cookie else {}
        connection.request(method, path, body, {**given, **self.headers, **(headers or {})})
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        reply = Reply(response.status, found, response.read())
        connection.close()
        return reply

    def _connect(self) -> http.client.HTTPConnection:
        if self.trust is None:
            return http.client.HTTPConnection(self.place, timeout=60)
        context = ssl.create_default_context(cafile=str(self.trust))
        return http.client.HTTPSConnection(self.place, timeout=60, context=context)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        return self.send("GET", path, headers=headers)

    def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Reply:
        """As a page of the desk would: JSON, with the origin of the page."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"origin": self.address.rstrip("/"), "content-type": "application/json"}
        return self.send("POST", path, data, {**given, **(headers or {})})

    def enter(self, link: str) -> Reply:
        """Come in by a link, as its page does."""
        reply = self.post("/api/enter", {"token": urlsplit(link).fragment})
        if "set-cookie" in reply.headers:
            self.cookie = reply.headers["set-cookie"].partition(";")[0]
        return reply

    def answer(self, *answers: Mapping[str, Any]) -> Any:
        """What became of some answers."""
        reply = self.post("/api/answer", {"answers": list(answers)})
        assert reply.status == 200, reply.body
        return reply.json["results"]


def open_caller(running: Running, link: str | None = None, **options: Any) -> Caller:
    """Somebody who came in, by default whoever runs the desk."""
    caller = Caller(running.address, **options)
    assert caller.enter(link or running.link).status == 200
    return caller
