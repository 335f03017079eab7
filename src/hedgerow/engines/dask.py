"""The engines `dask:N`, `dask://host:port` and `dask+tls://host:port`: tasks run on Dask's workers.

`dask:N` starts a scheduler and N workers on this machine, which only this machine can reach, and ends them. The others
use a cluster that is there. Jobs and results travel as JSON, and only they do: nothing is scattered, and no result is
left on a worker. Workers that do not agree with the driver (`admission.py`) are refused: at the start this is an
error; one that joins later is passed over with a warning.

A task cannot be stopped from outside. An interrupt drops the queue; what runs on a cluster of your own runs to its end,
and the workers of `dask:N` are killed after a few seconds.
"""

import ipaddress
import json
import logging
import queue
import signal
import uuid
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from hedgerow import machine
from hedgerow.engines.admission import Terms, write_nonce
from hedgerow.engines.delivery import deliver
from hedgerow.engines.logs import Log
from hedgerow.engines.work import Kill, Outcome, name_task, perform
from hedgerow.errors import EngineError, HedgerowWarning, InputError, MissingExtraError

Job = TypeVar("Job")
Result = TypeVar("Result")
Setup = Callable[[], Any]

SETUP_BYTES = 1 << 20  # sent with every job
CONNECT_SECONDS = 20.0
CLOSE_SECONDS = 10.0
# What workers hold are mapped files: spilling would free nothing. Kills are counted by `deliver`.
SETTINGS = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": 0.95,
    "distributed.scheduler.allowed-failures": 0,
    "distributed.admin.log-length": 0,
}


def start_cluster(workers: int) -> "Dask":
    """The engine `dask:N`: a scheduler and workers on this machine."""
    distributed = import_distributed()
    import dask

    with dask.config.set(SETTINGS):
        cluster = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit=machine.memory().total // workers,
            silence_logs=logging.CRITICAL,
            preload=[__name__],
        )
        return Dask(f"dask:{workers}", distributed.Client(cluster), cluster)


def connect(name: str, *, insecure: bool, mixed_workers: bool) -> "Dask":
    """The engine of a cluster that is there."""
    kind, host, port = split_address(name)
    if kind == "dask" and not insecure and not is_loopback(host):
        raise InputError(
            f"{name} is neither encrypted nor on this machine, and whoever reaches a scheduler can run programs as "
            "you: use dask+tls://, or pass --insecure (insecure=True in Python) on a network that you trust"
        )
    distributed = import_distributed()
    scheme = "tls" if kind == "dask+tls" else "tcp"
    try:
        client = distributed.Client(f"{scheme}://{host}:{port}", timeout=CONNECT_SECONDS, set_as_default=False)
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TypeError as error:  # of TLS without certificates
        raise InputError(
            f"{name} needs certificates, by Dask's configuration ({error}): see docs/distributed.md"
        ) from error
    except (OSError, TimeoutError) as error:
        raise EngineError(f"{name} has no scheduler with workers that can be reached: {error}") from error
    return Dask(name, client, None, mixed_workers=mixed_workers)


def split_address(name: str) -> tuple[str, str, int]:
    """("dask" or "dask+tls", host, port) of the name of an engine."""
    kind, _, address = name.partition("://")
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise InputError(f"the engine {name!r} needs a host and a port, such as {kind}://10.0.0.5:8786")
    return kind, host, int(port)


def import_distributed() -> Any:
    """The library, which is an extra."""
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError("an engine of Dask", "dask") from error
    return distributed


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class Dask:
    """Runs tasks on the workers of a Dask cluster; see `start_cluster` and `connect`."""

    def __init__(self, name: str, client: Any, cluster: Any, *, mixed_workers: bool = False) -> None:
        self.name = name
        self.client, self._cluster, self._mixed = client, cluster, mixed_workers
        self.is_remote = cluster is None

    @property
    def workers(self) -> int:
        """How many workers there are now."""
        return len(self.client.nthreads())

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
            terms = Terms(nonce=nonce) if not self._mixed else Terms(bits=None, nonce=nonce)
            self.check(terms)
            log.begin(self, name_task(task), len(jobs))
            carrier = _Carrier(self, task, terms, setup)
            try:
                return deliver(carrier, name_task(task), jobs, log, progress)
            finally:
                carrier.drop()

    def check(self, terms: Terms) -> list[str]:
        """The addresses of the workers; those that the terms refuse are an error."""
        refusals = self.examine(terms)
        for address, refusal in refusals.items():
            if refusal is not None:
                raise EngineError(f"the worker {address} {refusal}")
        return list(refusals)

    def examine(self, terms: Terms) -> dict[str, str | None]:
        """By worker, why it may not take part, None if it may. Workers that cannot be reached are left out."""
        found = self.client.run(_examine, terms, on_error="return")
        unknown = {address: error for address, error in found.items() if isinstance(error, ImportError)}
        return {
            address: f"cannot import hedgerow ({error}): install it there" for address, error in unknown.items()
        } | {address: answer for address, answer in found.items() if answer is None or isinstance(answer, str)}

    def close(self) -> None:
        """Leave the cluster, or end it if it was started here."""
        self.client.close(timeout=CLOSE_SECONDS)
        if self._cluster is not None:
            self._cluster.close(timeout=CLOSE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def refuse_large(setup: Setup | None) -> None:
    """A setup goes out with every job: refuse one that holds data."""
    size = len(import_distributed().protocol.pickle.dumps(setup))
    if size > SETUP_BYTES:
        raise InputError(
            f"{size / 2**20:.1f} MiB of data in memory would go to the workers with every job: save them to a file "
            "that the workers can read, and pass its path"
        )


class _Carrier:
    """Jobs of one map, on their way to the cluster and back."""

    def __init__(self, engine: Dask, task: Callable[[Any], Any], terms: Terms, setup: Setup | None) -> None:
        self._engine, self._terms = engine, terms
        self._run = partial(_run, task, terms, setup, uuid.uuid4().hex)
        self._back: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._out: dict[int, tuple[Any, str]] = {}
        self._allowed: list[str] | None = None  # once a worker was refused: the others

    @property
    def workers(self) -> int:
        """How many workers there are now."""
        return self._engine.workers if self._allowed is None else len(self._allowed)

    def send(self, number: int, job: Any) -> None:
        """Let some worker run the job."""
        try:
            self._submit(number, json.dumps(job))
        except (TypeError, ValueError) as error:
            raise InputError(
                f"job {number} cannot be sent to {self._engine.name}: it must be JSON ({error})"
            ) from error

    def _submit(self, number: int, text: str) -> None:
        future = self._engine.client.submit(self._run, text, pure=False, workers=self._allowed)
        self._out[number] = future, text
        future.add_done_callback(lambda done: self._back.put((number, done)))

    def collect(self, seconds: float) -> list[tuple[int, Outcome | Kill]]:
        """What became of jobs since the last call; waits for the first, at most so long."""
        from distributed import CancelledError, KilledWorker

        try:
            number, future = self._back.get(timeout=seconds)
        except queue.Empty:
            return []
        _, text = self._out.pop(number)
        try:
            outcome: Outcome = future.result()
        except KilledWorker as error:
            return [(number, Kill(1 + getattr(error, "allowed_failures", 0)))]
        except CancelledError as error:
            raise EngineError(f"{self._engine.name} was closed, or dropped the work: {error}") from error
        finally:
            future.release()
        if outcome.refusal is None:
            result = None if outcome.result is None else json.loads(outcome.result)
            return [(number, replace(outcome, result=result))]
        self._pass_over(outcome.usage["host"], outcome.refusal)
        self._submit(number, text)
        return []

    def _pass_over(self, host: str, refusal: str) -> None:
        """A worker that joined late is refused: go on with those that agree."""
        self._allowed = [address for address, why in self._engine.examine(self._terms).items() if why is None]
        if not self._allowed:
            raise EngineError(f"no worker is left: one on {host} {refusal}")
        warnings.warn(f"a worker on {host} {refusal}. The others go on without it", HedgerowWarning, stacklevel=2)

    def drop(self) -> None:
        """Take back the jobs that are still out."""
        futures = [future for future, _ in self._out.values()]
        self._out.clear()
        if futures:
            self._engine.client.cancel(futures, force=True)


# In a worker.

_agreed: list[Terms] = []  # the terms that this worker has met
_ready: list[str] = []  # the map whose setup it has run


def dask_setup(worker: Any) -> None:
    """Called by Dask in the workers of `dask:N`: an interrupt from the keyboard is left to the driver."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


async def _examine(terms: Terms, dask_worker: Any) -> str | None:
    """In a thread: the worker's own loop must go on, also while kernels are compiled."""
    import asyncio

    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(None, terms.find_refusal, dask_worker.state.nthreads)


def _run(task: Callable[[Any], Any], terms: Terms, setup: Setup | None, key: str, text: str) -> Outcome:
    return perform(partial(_call, task), text, partial(_prepare, terms, setup, key))


def _call(task: Callable[[Any], Any], text: str) -> str:
    result = task(json.loads(text))
    try:
        return json.dumps(result)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the result of {name_task(task)} cannot leave its worker: it must be JSON ({error})"
        ) from error


def _prepare(terms: Terms, setup: Setup | None, key: str) -> str | None:
    from distributed import get_worker

    if terms not in _agreed:
        refusal = terms.find_refusal(get_worker().state.nthreads)
        if refusal is not None:
            return refusal
        _agreed[:] = [terms]
    if key not in _ready:
        if setup is not None:
            setup()
        _ready[:] = [key]
    return None
