"""The engines `ray:N` and `ray://host:port`: tasks run on the workers of Ray.

`ray:N` starts Ray on this machine with room for N tasks at a time, and ends it. `ray://host:10001` uses a cluster that
is there, by Ray's client. A worker that does not agree with the driver (`admission.py`) ends the map with an error, at
the start or when it joins. What runs when a map ends early is interrupted, on a cluster too: Ray's workers belong to
one driver. A process has one connection to Ray at a time. If the driver of `ray:N` is killed, its workers end at once,
and two agents of Ray's own after a minute.
"""

import os
import secrets
import sys
from typing import Any

from hedgerow.engines import remote
from hedgerow.engines.admission import Terms
from hedgerow.engines.remote import Errand, decode_result, encode_job
from hedgerow.engines.work import Kill, Outcome, name_task
from hedgerow.errors import EngineError, MissingExtraError

PORT = 10001  # where Ray's client server usually listens
DROP_SECONDS = 5.0
TRIES = 4  # a client server that is busy or just starting may fail to make room for a client in time
STORE_BYTES = 80 << 20  # of Ray's own storage, the least that it takes: our data go through files
LOOPBACK = "127.0.0.2"  # Ray replaces 127.0.0.1 by the address of a network, over which its processes would then talk


def start(workers: int) -> "Ray":
    """The engine `ray:N`. Ray listens on all interfaces, so it asks for a token that only this process knows."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if "RAY_AUTH_MODE" not in os.environ:
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    options: dict[str, Any] = {
        "num_cpus": workers,
        "object_store_memory": STORE_BYTES,
        "include_dashboard": False,
        "runtime_env": {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}},  # what we can import, workers can
    }
    if sys.platform == "linux":
        options["_node_ip_address"] = LOOPBACK
    return Ray(f"ray:{workers}", options)


def connect(name: str, *, insecure: bool, mixed_workers: bool) -> "Ray":
    """The engine of a cluster that is there."""
    _, host, port = remote.split_address(name, PORT)
    if not insecure and os.environ.get("RAY_USE_TLS") != "1":
        remote.refuse_open(name, host, "encrypt it with RAY_USE_TLS=1 and certificates")
    try:
        remote.reach(host, port)  # Ray itself would try for long
    except OSError as error:
        raise EngineError(f"{name} cannot be reached: {error}") from error
    return Ray(name, {"address": name}, is_remote=True, mixed_workers=mixed_workers)


class Ray(remote.Cluster):
    """Runs tasks on the workers of Ray; see `start` and `connect`."""

    def __init__(
        self, name: str, options: dict[str, Any], *, is_remote: bool = False, mixed_workers: bool = False
    ) -> None:
        try:
            import ray
        except ImportError as error:
            raise MissingExtraError("an engine of Ray", "ray") from error
        if ray.is_initialized():
            raise EngineError(f"this process is connected to Ray already: call ray.shutdown() before {name} is opened")
        super().__init__(name, is_remote=is_remote, mixed_workers=mixed_workers)
        self.ray = ray
        for tries in range(TRIES, 0, -1):
            try:
                ray.init(**options, log_to_driver=False, logging_level="ERROR")
                break
            except (ConnectionError, RuntimeError) as error:
                if tries == 1:
                    raise EngineError(f"{name} does not start, or does not let us in: {error}") from error

    @property
    def workers(self) -> int:
        """How many tasks the cluster runs at a time now."""
        return int(self.ray.cluster_resources().get("CPU", 0))

    def check(self, terms: Terms) -> None:
        """Raise an error if the terms refuse a machine of the cluster."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        examine = self.ray.remote(num_cpus=0, max_retries=0)(_examine)
        for node in self.ray.nodes():
            if node["Alive"]:
                place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                try:
                    refusal = self.ray.get(examine.options(scheduling_strategy=place).remote(terms))
                except self.ray.exceptions.RayError as error:
                    refusal = f"cannot run hedgerow: {find_cause(error)}"
                if refusal is not None:
                    raise EngineError(f"the worker {node['NodeManagerHostname']} {refusal}")

    def carry(self, errand: Errand) -> "_Carrier":
        """What takes the jobs of one map to the workers."""
        return _Carrier(self, errand)

    def close(self) -> None:
        """Leave the cluster, or end it if it was started here."""
        self.ray.shutdown()


class _Carrier:
    """Jobs of one map, on their way to the cluster and back."""

    def __init__(self, engine: Ray, errand: Errand) -> None:
        self._engine, self._ray, self._task = engine, engine.ray, errand.task
        self._errand = engine.ray.put(errand)
        self._run = engine.ray.remote(num_cpus=1, max_retries=0)(_run)
        self._out: dict[Any, int] = {}

    @property
    def workers(self) -> int:
        """How many tasks the cluster runs at a time now."""
        return self._engine.workers

    def send(self, number: int, job: Any) -> None:
        """Let some worker run the job."""
        self._out[self._run.remote(self._errand, encode_job(job, number, self._engine.name))] = number

    def collect(self, seconds: float) -> list[tuple[int, Outcome | Kill]]:
        """What became of jobs since the last call; waits for the first, at most so long."""
        ready, _ = self._ray.wait(list(self._out), num_returns=1, timeout=seconds)
        return [(self._out.pop(one), self._look(one)) for one in ready]

    def _look(self, reference: Any) -> Outcome | Kill:
        lost = self._ray.exceptions
        try:
            outcome: Outcome = self._ray.get(reference)
        except (lost.WorkerCrashedError, lost.OutOfMemoryError, lost.NodeDiedError):
            return Kill()
        except lost.RayError as error:
            raise EngineError(f"{self._engine.name} cannot run {name_task(self._task)}: {find_cause(error)}") from error
        if outcome.refusal is not None:
            raise EngineError(f"the worker {outcome.usage['host']} {outcome.refusal}")
        return decode_result(outcome)

    def drop(self) -> None:
        """Take back the jobs that are still out; those that run are interrupted, and get a moment to remove files."""
        for reference in self._out:
            self._ray.cancel(reference)
        if self._out:
            self._ray.wait(list(self._out), num_returns=len(self._out), timeout=DROP_SECONDS)
        self._out.clear()


def find_cause(error: Exception) -> str:
    """The last line of one of Ray's errors, which hold whole tracebacks."""
    return str(error).strip().splitlines()[-1]


# In a worker.


def _examine(terms: Terms) -> str | None:
    return terms.find_refusal()


def _run(errand: Errand, text: str) -> Outcome:
    return errand(text)
