"""`serve`: the desk of a campaign on this machine, until it is interrupted. `open_desk`: the same in the background.

By default it listens on this machine only and prints one link, which works once. With `annotators` everybody gets a
personal link. The port is kept with the campaign: browsers keep unsent answers by address.
"""

import asyncio
import html
import socket
import threading
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from hedgerow.campaign.asking import LEASE_SECONDS
from hedgerow.campaign.campaign import Campaign
from hedgerow.desk.cards import Card
from hedgerow.desk.media import Media
from hedgerow.desk.visitors import OWN, Visitors, check_name, read_people
from hedgerow.errors import InputError, MissingExtraError, StoreError

if TYPE_CHECKING:
    import uvicorn

FILE = "desk.json"  # in the campaign's folder
LOOPBACK = "127.0.0.1"
FIRST_PORT, PORTS = 8931, 20  # looked at in turn by campaigns that have no port yet
KEEP_SECONDS = 30  # for which a connection waits for the next one
STOP_SECONDS = 5


@dataclass(frozen=True)
class Settings:
    """How a desk is served; what `serve` says about each argument holds here."""

    host: str = LOOPBACK
    port: int | None = None
    annotators: Mapping[str, str] | str | None = None
    name: str | None = None
    roots: Sequence[str | Path] = ()
    tls_cert: str | Path | None = None
    tls_key: str | Path | None = None
    root_path: str = ""
    allow_hosts: Sequence[str] = ()
    media_hosts: Sequence[str] = ()
    new_links: bool = False
    lease: float = LEASE_SECONDS
    template: str | Path | None = None
    fields: str | Path | None = None


def serve(
    folder: str | Path,
    *,
    database: str | None = None,
    host: str = LOOPBACK,
    port: int | None = None,
    annotators: Mapping[str, str] | str | None = None,
    name: str | None = None,
    roots: Sequence[str | Path] = (),
    tls_cert: str | Path | None = None,
    tls_key: str | Path | None = None,
    root_path: str = "",
    allow_hosts: Sequence[str] = (),
    media_hosts: Sequence[str] = (),
    new_links: bool = False,
    template: str | Path | None = None,
    fields: str | Path | None = None,
    browser: bool = True,
    say: Callable[[str], Any] = print,
) -> None:
    """Serve the desk of a campaign, and open it in a browser; returns when it is interrupted (Ctrl+C).

    roots: folders that hold the files of the examples; nothing outside of them is ever shown. annotators: names with
    roles ("label", "adjudicate" or "own"), as a mapping or as "ana,ben:adjudicate"; each gets a personal link, which is
    printed once. new_links: make them anew, and end what the old ones opened. name: your own name as an annotator, by
    default the user's. host: where to listen; elsewhere than on this machine `annotators` must be named, and a
    certificate (tls_cert, tls_key) should be. port: by default the one that the campaign had before. root_path: the
    path under which a proxy offers the desk; allow_hosts: names by which browsers reach it there. media_hosts: hosts
    from which browsers load examples whose uris are https addresses. template: a file of HTML with {{column}} in it, as
    which examples are shown; fields: a table with these columns, and the ids of the campaign. say: what prints a line.
    """
    settings = Settings(
        host, port, annotators, name, roots, tls_cert, tls_key, root_path, allow_hosts, media_hosts, new_links,
        template=template, fields=fields,
    )  # fmt: skip
    with Campaign.open(folder, database=database) as campaign, Running(campaign, settings) as running:
        for line in running.describe():
            say(line)
        if browser:
            webbrowser.open(running.link)
        say("Ctrl+C stops it; nothing is lost.")
        running.wait()


def open_desk(campaign: Campaign, **settings: Any) -> "Running":
    """Serve the desk of an open campaign by a thread of this process, for notebooks and scripts.

    settings: as for `serve`, which says what each of them does. The cell of a notebook that ends with the result shows
    a link; `stop()` ends it. Keep the campaign open until then.
    """
    known = [field.name for field in fields(Settings)]
    if unknown := [name for name in settings if name not in known]:
        raise InputError(f"open_desk has no option {unknown[0]!r}; it has {', '.join(known)}")
    return Running(campaign, Settings(**settings))


class Running:
    """A desk that is being served by a thread of this process, until the `with` block ends, or `stop` is called."""

    def __init__(self, campaign: Campaign, settings: Settings) -> None:
        people = _find_people(campaign, settings)
        _check_network(settings)
        media = Media.of(settings.roots, settings.media_hosts)
        card = Card.of(settings.template, settings.fields, campaign.outline().content, campaign.folder)
        self._settings = settings
        self._visitors = Visitors(campaign.folder / FILE, people)
        self._me = next(iter(people))
        self._socket = _listen(settings.host, settings.port, self._visitors.port)
        self.port = int(self._socket.getsockname()[1])
        with ExitStack() as stack:
            stack.callback(self._socket.close)
            self._server = _make_server(campaign, settings, self._visitors, media, card, self.port)
            stack.pop_all()
        if settings.port is not None or self._visitors.port is None:  # else it is that of a desk that runs already
            self._visitors.note_port(self.port)
        self._links = [(one, self._visitors.invite(one, renew=settings.new_links)) for one in list(people)[1:]]
        self._thread = threading.Thread(target=self._run, name="hedgerow-desk", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Where the desk is, for a browser on this machine."""
        scheme = "https" if self._settings.tls_cert else "http"
        host = LOOPBACK if self._settings.host in ("0.0.0.0", "::") else self._settings.host
        named = f"[{host}]" if ":" in host else host
        return f"{scheme}://{named}:{self.port}{_tidy(self._settings.root_path)}/"

    @property
    def link(self) -> str:
        """A new link for whoever runs the desk; it works once."""
        return self._make_link(self._visitors.invite_once(self._me))

    @property
    def links(self) -> dict[str, str]:
        """The personal links that were made just now, by name. They are stored nowhere."""
        return {name: self._make_link(token) for name, token in self._links if token is not None}

    def _make_link(self, token: str) -> str:
        # After the #: browsers send that part to nobody, so that no log or preview of the link has it.
        return f"{self.address}enter#{token}"

    def describe(self) -> list[str]:
        """What to tell whoever runs it."""
        lines = [f"desk     {self.link}", f"         for {self._me}, in one browser; run the command again for another"]
        links = self.links
        for name, token in self._links:
            told = links[name] if token is not None else "has a link already (--new-links makes new ones)"
            lines.append(f"{name:<8} {told}")
        if _is_open(self._settings) and not self._settings.tls_cert:
            lines.append(
                "warning  without --tls-cert others on the network can read along and act as the people above; or keep "
                f"to {LOOPBACK} and let them use: ssh -L {self.port}:{LOOPBACK}:{self.port} this-machine"
            )
        return lines

    def _repr_html_(self) -> str:
        """What a notebook shows: a new link. The desk itself may not be framed by another page."""
        link = html.escape(self.link)
        return f'<a href="{link}" target="_blank" rel="noreferrer">Open the desk</a> (the link works once)'

    def wait(self) -> None:
        """Until it is interrupted."""
        try:
            while self._thread.is_alive():
                self._thread.join(1)
        except KeyboardInterrupt:
            pass

    def stop(self) -> None:
        """Finish what is being answered, and stop."""
        self._server.should_exit = True
        self._thread.join(2 * STOP_SECONDS)
        self._socket.close()

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.stop()


def _find_people(campaign: Campaign, settings: Settings) -> dict[str, str]:
    """Roles by name, whoever runs the desk first."""
    named = read_people(settings.annotators)
    me = check_name(settings.name or campaign.who)
    if named.get(me, OWN) != OWN:
        raise InputError(f"{me!r} runs the desk and owns it: leave the name out, or give another with --name")
    return {me: OWN, **named}


def _check_network(settings: Settings) -> None:
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise InputError("a certificate and its key belong together: give both --tls-cert and --tls-key")
    if _is_open(settings) and not settings.annotators:
        raise InputError(
            f"on {settings.host} others can reach the desk: name who may label with --annotators ana,ben, or leave "
            "--host out"
        )


def _is_open(settings: Settings) -> bool:
    return settings.host not in (LOOPBACK, "localhost", "::1")


def _tidy(path: str) -> str:
    """A path with a slash before it and none after it; nothing for the root."""
    inner = path.strip("/")
    return f"/{inner}" if inner else ""


def _listen(host: str, port: int | None, before: int | None) -> socket.socket:
    """A socket at the given port; otherwise at the one from before, or at the next that is free."""
    wanted = (
        [port] if port is not None else [*([] if before is None else [before]), *range(FIRST_PORT, FIRST_PORT + PORTS)]
    )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for one in wanted:
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, one))
            found.listen()  # from now on browsers wait for the server to start
            return found
        except OSError as error:
            found.close()
            reason = error.strerror
    raise StoreError(f"the desk cannot listen on {host}, port {wanted[-1]}: {reason}; try another --port or --host")


def _make_server(
    campaign: Campaign, settings: Settings, visitors: Visitors, media: Media, card: Card | None, port: int
) -> "uvicorn.Server":
    try:
        import uvicorn

        from hedgerow.desk.calls import Desk
        from hedgerow.desk.connections import Connection
        from hedgerow.desk.guard import Rules
        from hedgerow.desk.routes import Door, make_app
    except ImportError:
        raise MissingExtraError("the desk", "desk") from None
    own = (settings.host, socket.gethostname(), socket.getfqdn()) if _is_open(settings) else ()
    proxies = tuple(name.lower() for name in settings.allow_hosts)
    rules = Rules(tuple(name.lower() for name in own), proxies, tuple(settings.media_hosts))
    path = _tidy(settings.root_path)
    app = make_app(
        Desk(campaign, media, campaign.folder.resolve().name, settings.lease, card=card),
        Door(visitors, f"hedgerow_{port}", path or "/"),
        rules,
    )
    config = uvicorn.Config(
        app, http=Connection, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False,
        date_header=False, root_path=path, timeout_keep_alive=KEEP_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS, ssl_certfile=settings.tls_cert, ssl_keyfile=settings.tls_key,
    )  # fmt: skip
    try:
        config.load()
    except OSError as error:
        raise InputError(f"the certificate cannot be used: {error.strerror or error}") from None
    return uvicorn.Server(config)
