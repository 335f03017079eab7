"""The engines `dask:N`, `dask://host:port` and `dask+tls://host:port`: tasks run on Dask's workers.

`dask:N` starts a scheduler and N workers on this machine, which only this machine can reach, and ends them. The others
use a cluster that is there. Nothing is scattered, and no result is left on a worker. Workers that do not agree with the
driver (`admission.py`) are refused: at the start this is an error; one that joins later is passed over with a warning.

A task cannot be stopped from outside. An interrupt drops the queue; what runs on a cluster of your own runs to its end,
and the workers of `dask:N` are killed after a few seconds.
"""

import logging
import queue
import signal
import warnings
from functools import partial
from typing import Any

from hedgerow import machine
from hedgerow.engines import remote
from hedgerow.engines.admission import Terms
from hedgerow.engines.remote import Errand, decode_result, encode_job
from hedgerow.engines.work import Kill, Outcome
from hedgerow.errors import EngineError, HedgerowWarning, InputError, MissingExtraError

PORT = 8786  # where a scheduler usually listens
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


def start(workers: int) -> "Dask":
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
    kind, host, port = remote.split_address(name, PORT)
    if kind == "dask" and not insecure:
        remote.refuse_open(name, host, "use dask+tls://")
    distributed = import_distributed()
    scheme = "tls" if kind == "dask+tls" else "tcp"
    # What can be checked is checked before there is a client: one that fails while it is made is collected at any time,
    # in any thread, and then waits for a lock of Dask's that the next client to start may hold.
    if scheme == "tls" and distributed.Security().get_connection_args("client").get("ssl_context") is None:
        raise InputError(f"{name} needs certificates, by Dask's configuration: see docs/distributed.md")
    client = None
    try:
        remote.reach(host, port)
        client = distributed.Client(f"{scheme}://{host}:{port}", timeout=remote.CONNECT_SECONDS, set_as_default=False)
        client.wait_for_workers(1, timeout=remote.CONNECT_SECONDS)
    except (OSError, TimeoutError) as error:
        if client is not None:
            client.close(timeout=CLOSE_SECONDS)
        raise EngineError(f"{name} has no scheduler with workers that can be reached: {error}") from error
    return Dask(name, client, None, mixed_workers=mixed_workers)


def import_distributed() -> Any:
    """The library, which is an extra."""
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError("an engine of Dask", "dask") from error
    return distributed


class Dask(remote.Cluster):
    """Runs tasks on the workers of a Dask cluster; see `start` and `connect`."""

    def __init__(self, name: str, client: Any, cluster: Any, *, mixed_workers: bool = False) -> None:
        super().__init__(name, is_remote=cluster is None, mixed_workers=mixed_workers)
        self.client, self._cluster = client, cluster

    @property
    def workers(self) -> int:
        """How many workers there are now."""
        return len(self.client.nthreads())

    def carry(self, errand: Errand) -> "_Carrier":
        """What takes the jobs of one map to the workers."""
        return _Carrier(self, errand)

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


class _Carrier:
    """Jobs of one map, on their way to the cluster and back."""

    def __init__(self, engine: Dask, errand: Errand) -> None:
        self._engine, self._terms, self._run = engine, errand.terms, partial(_run, errand)
        self._back: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._out: dict[int, tuple[Any, str]] = {}
        self._allowed: list[str] | None = None  # once a worker was refused: the others

    @property
    def workers(self) -> int:
        """How many workers there are now."""
        return self._engine.workers if self._allowed is None else len(self._allowed)

    def send(self, number: int, job: Any) -> None:
        """Let some worker run the job."""
        self._submit(number, encode_job(job, number, self._engine.name))

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
            return [(number, decode_result(outcome))]
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


def dask_setup(worker: Any) -> None:
    """Called by Dask in the workers of `dask:N`: an interrupt from the keyboard is left to the driver."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


async def _examine(terms: Terms, dask_worker: Any) -> str | None:
    """In a thread: the worker's own loop must go on, also while kernels are compiled."""
    import asyncio

    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(None, terms.find_refusal, dask_worker.state.nthreads)


def _run(errand: Errand, text: str) -> Outcome:
    from distributed import get_worker

    return errand(text, get_worker().state.nthreads)
