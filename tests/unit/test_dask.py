"""Clusters of Dask: what may travel, who is let in, and what cannot be reached."""

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import engine_tasks as tasks
from hedgerow import machine
from hedgerow.engines import Engine, dask, delivery, open_engine, probe, remote
from hedgerow.engines.admission import Terms, write_nonce
from hedgerow.errors import EngineError, HedgerowWarning, InputError, MissingExtraError


@pytest.fixture
def local(engines: Callable[[str], Engine]) -> dask.Dask:
    """Two workers on this machine."""
    engine = engines("dask:2")
    assert isinstance(engine, dask.Dask)
    return engine


@pytest.fixture
def address(local: dask.Dask) -> str:
    """The scheduler of these workers, as somebody else would name it."""
    return str(local.client.scheduler.address).replace("tcp://", "dask://")


@contextmanager
def join(local: dask.Dask, *options: str, **environment: str) -> Iterator[None]:
    """A third worker, started by Dask's own command."""
    scheduler = local.client.scheduler.address
    command = [sys.executable, "-m", "distributed.cli.dask_worker", scheduler, "--no-nanny", "--no-dashboard", *options]
    path = os.pathsep.join(sys.path)
    worker = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": path, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        local.client.wait_for_workers(3, timeout=60)
        yield
    finally:
        worker.terminate()
        worker.wait()
        while local.workers > 2:
            time.sleep(0.05)


def test_a_cluster_that_is_there_is_used_and_left(address: str, local: dask.Dask, tmp_path: Path) -> None:
    with open_engine(address) as engine:
        assert (engine.workers, engine.is_remote, local.is_remote) == (2, True, False)
        assert engine.map(tasks.square, range(20), workdir=tmp_path) == [number**2 for number in range(20)]
    assert local.map(tasks.square, [3]) == [9]


def test_a_worker_agrees_with_the_driver(local: dask.Dask, tmp_path: Path) -> None:
    with write_nonce(tmp_path) as nonce:
        assert len(local.check(Terms(nonce=nonce))) == 2
        assert Terms(nonce=nonce).find_refusal(threads=4) == (
            "runs 4 tasks at a time, which would share one BLAS: start it with --nthreads 1"
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the name of a processor of that kind")
def test_other_bits_are_refused_unless_they_are_accepted(local: dask.Dask, address: str) -> None:
    """OpenBLAS's code for an old processor; every processor of this kind can run it."""
    with join(local, "--nthreads", "1", OPENBLAS_CORETYPE="Prescott"):
        with pytest.raises(EngineError, match=r"computes other bits .*openblas.*OPENBLAS_CORETYPE"):
            local.map(tasks.square, [1])
        with open_engine(address, mixed_workers=True) as engine:
            assert engine.map(tasks.square, range(30)) == [number**2 for number in range(30)]


def test_a_worker_that_joins_late_and_does_not_agree_is_passed_over(local: dask.Dask) -> None:
    refused = []

    def start(done: int) -> None:
        if done and not refused:
            refused.append(join(local, "--nthreads", "3"))
            refused[0].__enter__()

    try:
        with pytest.warns(HedgerowWarning, match="runs 3 tasks at a time.*The others go on without it"):
            processes = local.map(tasks.name_process_slowly, range(300), progress=start)
        assert len(set(processes)) == 2
    finally:
        refused[0].__exit__(None, None, None)


def test_a_worker_that_runs_out_of_memory_is_told_from_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory", lambda: machine.Memory(700 << 20, 700 << 20))
    monkeypatch.setattr(delivery, "KILLS", 0)
    with (
        open_engine("dask:1") as engine,
        pytest.raises(EngineError, match=r"killed, probably because it ran out of memory, or could not start"),
    ):
        engine.map(tasks.fill_memory, [1])


def test_an_open_scheduler_on_another_machine_takes_a_word() -> None:
    with pytest.raises(
        InputError, match=r"10\.0\.0\.5:8786 is neither encrypted .* use dask\+tls://, or pass --insecure"
    ):
        open_engine("dask://10.0.0.5:8786")
    hosts = ["localhost", "127.0.0.1", "[::1]", "127.1.2.3", "10.0.0.5", "example.org", "127.0.0.1.example.org"]
    assert [remote.is_loopback(host) for host in hosts] == [True] * 4 + [False] * 3


def test_a_scheduler_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "CONNECT_SECONDS", 0.5)
    with pytest.raises(EngineError, match=r"dask://127\.0\.0\.1:1 has no scheduler with workers that can be reached"):
        open_engine("dask://127.0.0.1:1")


def test_a_scheduler_without_workers_is_named_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import LocalCluster

    monkeypatch.setattr(remote, "CONNECT_SECONDS", 0.5)
    with LocalCluster(n_workers=0, processes=False, host="tcp://127.0.0.1", dashboard_address="127.0.0.1:0") as cluster:
        name = cluster.scheduler_address.replace("tcp://", "dask://")
        with pytest.raises(EngineError, match=rf"{name} has no scheduler with workers that can be reached"):
            open_engine(name)
        assert not [client for client in cluster.scheduler.clients if client.startswith("Client")]


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"an engine of Dask needs .*'\.\[dask\]'"):
        open_engine("dask:2")


def test_an_encrypted_cluster_takes_certificates(tmp_path: Path, local: dask.Dask) -> None:
    import dask as library
    from distributed import LocalCluster
    from distributed.security import Security

    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=test", "-days", "2", "-keyout", key,
         "-out", certificate], check=True, capture_output=True,
    )  # fmt: skip
    files = {f"tls_{who}_{what}": str(path) for who in ("client", "scheduler", "worker")
             for what, path in (("key", key), ("cert", certificate))}  # fmt: skip
    security = Security(require_encryption=True, tls_ca_file=str(certificate), **files)
    tls = "distributed.comm.tls"
    with LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        dashboard_address="127.0.0.1:0",
        host="tls://127.0.0.1",
        security=security,
    ) as cluster:
        name = cluster.scheduler_address.replace("tls://", "dask+tls://")
        with pytest.raises(InputError, match=r"needs certificates, by Dask's configuration"):
            open_engine(name)
        client = {
            f"{tls}.ca-file": str(certificate),
            f"{tls}.client.key": str(key),
            f"{tls}.client.cert": str(certificate),
        }
        with library.config.set(client), open_engine(name) as engine:
            assert engine.map(tasks.square, range(5), workdir=tmp_path) == [0, 1, 4, 9, 16]


def test_the_hash_of_bits_is_the_same_for_any_number_of_threads() -> None:
    first = probe.hash_bits()
    probe.hash_bits.cache_clear()
    with machine.team(2):
        assert probe.hash_bits() == first
    assert len(first) == 16
    assert probe.describe_blas()
    assert set(probe.list_versions()) == {"hedgerow", "python", *probe.LIBRARIES}
