"""Who may use the desk: people with roles, links that let them in, and the sessions of their browsers.

Links and sessions are random tokens of 256 bits. Only their hashes are kept, in a file of the campaign's folder that
its owner alone can read, so that browsers stay signed in and personal links work after a restart. A one-time link is
kept nowhere and ends with the process. A session is worth what its person may do in this run: whoever is not named any
more cannot come in. Several desks may run over one campaign: a change is made to what the file has at that moment,
under a lock, so that what one desk adds, another keeps.
"""

import copy
import hashlib
import json
import os
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hedgerow import store
from hedgerow.errors import InputError, StoreError

LABEL, ADJUDICATE, OWN = ROLES = ("label", "adjudicate", "own")  # each may do what those before it may
SESSION_SECONDS = 30 * 24 * 3600
MOST_SESSIONS = 1000  # the oldest end first
MOST_NAME = 100


@dataclass(frozen=True)
class Visitor:
    """A person at the desk."""

    name: str
    role: str

    def may(self, role: str) -> bool:
        """Whether the person may do what this role may."""
        return ROLES.index(self.role) >= ROLES.index(role)


def read_people(named: Mapping[str, str] | str | None) -> dict[str, str]:
    """Roles by name, from a mapping or from text such as "ana,ben:adjudicate"; the role "label" if none is named."""
    if named is None:
        return {}
    if isinstance(named, str):
        parts = [part.strip().rpartition(":") for part in named.split(",") if part.strip()]
        pairs = [(name, role) if name else (role, LABEL) for name, _, role in parts]
    else:
        pairs = list(named.items())
    people: dict[str, str] = {}
    for name, role in pairs:
        if role not in ROLES:
            raise InputError(f"{role!r} is not a role: give {', '.join(ROLES)}, as in ana,ben:adjudicate")
        if name in people:
            raise InputError(f"{name!r} is named twice: name each annotator once")
        people[check_name(name)] = role
    return people


def check_name(name: str) -> str:
    """The name of a person, without spaces around it."""
    name = name.strip()
    if not name or len(name) > MOST_NAME or not name.isprintable():
        raise InputError(f"an annotator is known by a name of at most {MOST_NAME} printable characters, got {name!r}")
    return name


@dataclass
class Held:
    """What the file has. links: hash -> name; sessions: hash -> name and end; port: of the desk that began first."""

    links: dict[str, str] = field(default_factory=dict)
    sessions: dict[str, tuple[str, int]] = field(default_factory=dict)
    port: int | None = None


class Visitors:
    """The people of this run, and their links and sessions. Several desks of one campaign share the file of these."""

    def __init__(self, path: Path, people: Mapping[str, str]) -> None:
        self._path = path
        self._people = dict(people)
        self._lock = threading.Lock()
        self._once: dict[str, str] = {}  # one-time links: hash -> name
        self._held, self._seen = self._read()

    @property
    def port(self) -> int | None:
        """The port that is kept."""
        return self._held.port

    # Links.

    def invite_once(self, name: str) -> str:
        """A token that lets a person in once."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._once[_hash(token)] = name
        return token

    def invite(self, name: str, *, renew: bool = False) -> str | None:
        """A token that lets a person in from any browser; None if they have one. renew: the old one ends."""
        with self._change() as held:
            if name in held.links.values() and not renew:
                return None
            token = secrets.token_urlsafe(32)
            held.links = {digest: owner for digest, owner in held.links.items() if owner != name}
            held.links[_hash(token)] = name
            if renew:
                held.sessions = {one: theirs for one, theirs in held.sessions.items() if theirs[0] != name}
        return token

    # Sessions.

    def enter(self, token: str) -> str | None:
        """A new session for whoever has a link; None if the token lets nobody in."""
        digest = _hash(token)
        with self._change() as held:
            name = self._once.pop(digest, None) or held.links.get(digest)
            if name not in self._people:
                return None
            session = secrets.token_urlsafe(32)
            held.sessions[_hash(session)] = (name, int(time.time()) + SESSION_SECONDS)
            held.sessions = dict(sorted(held.sessions.items(), key=lambda one: one[1][1])[-MOST_SESSIONS:])
        return session

    def find(self, session: str) -> Visitor | None:
        """Who has a session; None if it has ended or never was."""
        self._look_again()
        name, until = self._held.sessions.get(_hash(session), ("", 0))
        if until <= time.time() or name not in self._people:
            return None
        return Visitor(name, self._people[name])

    def leave(self, session: str) -> None:
        """End a session."""
        with self._change() as held:
            held.sessions.pop(_hash(session), None)

    # The file.

    def note_port(self, port: int) -> None:
        """Keep the port: browsers keep unsent answers by address, so that the next run should have the same."""
        with self._change() as held:
            held.port = port

    @contextmanager
    def _change(self) -> Iterator[Held]:
        """What the file has now, to be changed and written while no other desk does that."""
        with self._lock, store.hold_lock(self._path.with_suffix(".lock")):
            held, self._seen = self._read()
            before = copy.deepcopy(held)
            try:
                yield held
            finally:
                self._held = held
                if held != before:
                    self._write(held)
                    self._seen = self._stamp()

    def _look_again(self) -> None:
        """Read the file if another desk has changed it."""
        if self._stamp() != self._seen:
            with self._lock:
                self._held, self._seen = self._read()

    def _stamp(self) -> tuple[int, int] | None:
        """Which file it is: a change makes a new one."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _read(self) -> tuple[Held, tuple[int, int] | None]:
        stamp = self._stamp()
        if stamp is None:
            return Held(), None
        try:
            held: dict[str, Any] = json.loads(self._path.read_text())
            links = {str(digest): str(name) for digest, name in held["links"].items()}
            sessions = {str(digest): (str(name), int(until)) for digest, (name, until) in held["sessions"].items()}
            return Held(links, sessions, None if held["port"] is None else int(held["port"])), stamp
        except (*store.UNREADABLE, AttributeError):
            raise StoreError(f"{self._path} is damaged: remove it, and give new links to annotators") from None

    def _write(self, held: Held) -> None:
        now = time.time()
        sessions = {digest: one for digest, one in held.sessions.items() if one[1] > now}
        text = json.dumps({"port": held.port, "links": held.links, "sessions": sessions}, indent=1)
        with store.atomic_write(self._path) as temporary:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(text + "\n")


def _hash(token: str) -> str:
    """SHA-256 without salt: a token is random and long, so that nobody can guess what was hashed."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
