"""What the engines of Dask and Ray share: a map on workers that may be on other machines.

Jobs and results travel as JSON, and only they do: data go through files. A task goes out with every job, together with
the terms of the driver (`admission.py`) and the setup of its map; a worker checks the terms and runs the setup once.
"""

import ipaddress
import json
import pickle
import socket
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from hedgerow.engines import delivery
from hedgerow.engines.admission import Terms, write_nonce
from hedgerow.engines.logs import Log
from hedgerow.engines.work import Outcome, name_task, perform
from hedgerow.errors import InputError

Job = TypeVar("Job")
Result = TypeVar("Result")
Setup = Callable[[], Any]

SETUP_BYTES = 1 << 20  # sent with every job
CONNECT_SECONDS = 20.0


@dataclass(frozen=True)
class Errand:
    """A task as it goes out with every job."""

    task: Callable[[Any], Any]
    terms: Terms
    setup: Setup | None
    key: str = field(default_factory=lambda: uuid.uuid4().hex)  # of the map

    def __call__(self, text: str, threads: int = 1) -> Outcome:
        """In a worker: run the task on a job. threads: how many tasks the worker runs at a time."""
        return perform(self._run, text, partial(self._prepare, threads))

    def _run(self, text: str) -> str:
        result = self.task(json.loads(text))
        try:
            return json.dumps(result)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"the result of {name_task(self.task)} cannot leave its worker: it must be JSON ({error})"
            ) from error

    def _prepare(self, threads: int) -> str | None:
        if self.terms not in _agreed:
            refusal = self.terms.find_refusal(threads)
            if refusal is not None:
                return refusal
            _agreed[:] = [self.terms]
        if self.key not in _ready:
            if self.setup is not None:
                self.setup()
            _ready[:] = [self.key]
        return None


_agreed: list[Terms] = []  # in a worker: the terms that it has met
_ready: list[str] = []  # and the map whose setup it has run


class Carrier(delivery.Carrier, Protocol):
    """A carrier whose jobs can be taken back."""

    def drop(self) -> None:
        """Take back the jobs that are still out."""


class Cluster(ABC):
    """An engine whose workers are checked before they get work. `is_remote`: they are on other machines."""

    def __init__(self, name: str, *, is_remote: bool, mixed_workers: bool) -> None:
        self.name, self.is_remote, self.mixed_workers = name, is_remote, mixed_workers

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many workers there are now."""

    @abstractmethod
    def check(self, terms: Terms) -> Any:
        """Raise an error if the terms refuse a worker."""

    @abstractmethod
    def carry(self, errand: Errand) -> Carrier:
        """What takes the jobs of one map to the workers."""

    @abstractmethod
    def close(self) -> None:
        """Leave the cluster, or end it if it was started here."""

    def map(
        self,
        task: Callable[[Job], Result],
        jobs: Sequence[Job],
        *,
        setup: Setup | None = None,
        workdir: str | Path | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[Result]:
        """The results of the task for all jobs, in the order of the jobs."""
        refuse_large(setup)
        log = Log(workdir)
        with nullcontext() if workdir is None else write_nonce(Path(workdir)) as nonce:
            terms = Terms(nonce=nonce) if not self.mixed_workers else Terms(bits=None, nonce=nonce)
            self.check(terms)
            log.begin(self, name_task(task), len(jobs))
            carrier = self.carry(Errand(task, terms, setup))
            try:
                return delivery.deliver(carrier, name_task(task), jobs, log, progress)
            finally:
                carrier.drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def refuse_large(setup: Setup | None) -> None:
    """A setup goes out with every job: refuse one that holds data."""
    size = len(pickle.dumps(setup))
    if size > SETUP_BYTES:
        raise InputError(
            f"{size / 2**20:.1f} MiB of data in memory would go to the workers with every job: save them to a file "
            "that the workers can read, and pass its path"
        )


def encode_job(job: Any, number: int, engine: str) -> str:
    """A job as it travels."""
    try:
        return json.dumps(job)
    except (TypeError, ValueError) as error:
        raise InputError(f"job {number} cannot be sent to {engine}: it must be JSON ({error})") from error


def decode_result(outcome: Outcome) -> Outcome:
    """What came back, with its result as the task returned it."""
    return outcome if outcome.result is None else replace(outcome, result=json.loads(outcome.result))


def split_address(name: str, port: int) -> tuple[str, str, int]:
    """(kind, host, port) of the name of an engine, such as "dask+tls://host:8786". port: a usual one, for an error."""
    kind, _, address = name.partition("://")
    host, _, given = address.rpartition(":")
    if not host or not given.isdecimal():
        raise InputError(f"the engine {name!r} needs a host and a port, such as {kind}://10.0.0.5:{port}")
    return kind, host, int(given)


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def reach(host: str, port: int) -> None:
    """Raise an `OSError` if nothing listens there."""
    socket.create_connection((host.strip("[]"), port), CONNECT_SECONDS).close()


def refuse_open(name: str, host: str, instead: str) -> None:
    """Refuse a connection that is not encrypted, to another machine."""
    if not is_loopback(host):
        raise InputError(
            f"{name} is neither encrypted nor on this machine, and whoever reaches it can run programs as you: "
            f"{instead}, or pass --insecure (insecure=True in Python) on a network that you trust"
        )
