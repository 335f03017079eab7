"""Workers of Ray: what may travel, who is let in, and clusters that are there or not."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import engine_tasks as tasks
from hedgerow.engines import Engine, open_engine, ray, remote
from hedgerow.engines.admission import Terms
from hedgerow.errors import EngineError, InputError, MissingExtraError

CLIENT = """
import engine_tasks as tasks
from hedgerow.engines import open_engine
from hedgerow.errors import EngineError
with open_engine({address!r}) as engine:
    assert (engine.workers, engine.is_remote) == (2, True)
    print(engine.map(tasks.square, range(20), workdir={folder!r}))
    print(engine.map(tasks.kill_first, [{mark!r}, None], workdir={folder!r}))
    try:
        engine.map(tasks.divide, [0])
    except EngineError as error:
        print(error)
"""


@pytest.fixture
def local(engines: Callable[[str], Engine]) -> ray.Ray:
    """Room for two tasks on this machine."""
    engine = engines("ray:2")
    assert isinstance(engine, ray.Ray)
    return engine


@pytest.fixture
def address() -> Iterator[str]:
    """A cluster on this machine, started by Ray's own command, which takes no token."""
    ports = [find_port(), find_port()]
    with tempfile.TemporaryDirectory(prefix="ray") as folder:  # a short path: sockets have no room for a long one
        options = {
            "port": ports[0], "ray-client-server-port": ports[1], "num-cpus": 2, "node-ip-address": ray.LOOPBACK,
            "include-dashboard": "false", "object-store-memory": ray.STORE_BYTES, "temp-dir": folder,
        }  # fmt: skip
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
        head = subprocess.Popen(
            [*command, *(f"--{name}={value}" for name, value in options.items())],
            env=without_token(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            log = Path(folder) / "session_latest" / "logs" / "runtime_env_agent.log"
            wait_until(lambda: log.exists() and "Listening" in log.read_text())  # the port is open before it is ready
            wait_until(lambda: is_open(ports[1]))
            time.sleep(3)
            yield f"ray://{ray.LOOPBACK}:{ports[1]}"
        finally:
            os.killpg(head.pid, signal.SIGKILL)
            head.wait()


def find_port() -> int:
    with socket.socket() as free:
        free.bind((ray.LOOPBACK, 0))
        return int(free.getsockname()[1])


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((ray.LOOPBACK, port)) == 0


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    pytest.fail("Ray did not start")


def without_token() -> dict[str, str]:
    """The environment of a cluster that lets everybody in, with our tasks installed; `ray:2` set that of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    path = os.pathsep.join(sys.path)
    return {**kept, "PYTHONPATH": path, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}


def test_a_cluster_that_is_there_is_used_and_left(address: str, tmp_path: Path) -> None:
    """In a process of its own, because a process has one connection to Ray."""
    folder = tmp_path / "run"
    folder.mkdir()
    script = CLIENT.format(address=address, folder=str(folder), mark=str(tmp_path / "mark"))
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=without_token(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        squares, survived, error = done.stdout.strip().splitlines()[-3:]
        assert squares == str([number**2 for number in range(20)])
        assert survived == "['done', 'done']"
        assert error.startswith("job 0 of divide failed 4 times")


def test_a_worker_that_joins_late_and_does_not_agree_ends_the_map(
    local: ray.Ray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not there when the others were checked."""
    monkeypatch.setattr(local, "check", lambda terms: None)
    monkeypatch.setattr(remote, "Terms", partial(Terms, versions={"hedgerow": "0.0.1"}))
    with pytest.raises(EngineError, match=rf"the worker {os.uname().nodename} has hedgerow"):
        local.map(tasks.square, range(5))


def test_what_is_interrupted_leaves_nothing_behind(local: ray.Ray, tmp_path: Path) -> None:
    jobs = [str(tmp_path / "half"), ""]
    local.map(tasks.name_process_slowly, range(40))  # both workers are there
    with pytest.raises(InputError, match="stop"):
        local.map(tasks.write_or_fail, jobs)
    assert not list(tmp_path.iterdir())
    assert local.map(tasks.square, [3]) == [9]


def test_an_open_cluster_on_another_machine_is_refused() -> None:
    with pytest.raises(InputError, match=r"10\.0\.0\.5:10001 is neither encrypted .*RAY_USE_TLS=1.* --insecure"):
        open_engine("ray://10.0.0.5:10001")


def test_a_process_has_one_connection(local: ray.Ray) -> None:
    with pytest.raises(EngineError, match=r"connected to Ray already: call ray\.shutdown\(\) before ray:1 is opened"):
        open_engine("ray:1")
    assert local.map(tasks.square, [3]) == [9]


def test_a_cluster_that_is_not_there_is_named() -> None:
    with pytest.raises(EngineError, match=r"ray://127\.0\.0\.1:1 cannot be reached: .*refused"):
        open_engine("ray://127.0.0.1:1")


def test_a_task_that_workers_cannot_import_is_named(local: ray.Ray, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = types.ModuleType("nowhere")
    exec("def task(job): pass", nowhere.__dict__)
    monkeypatch.setitem(sys.modules, "nowhere", nowhere)
    with pytest.raises(EngineError, match=r"ray:2 cannot run task: ModuleNotFoundError: No module named 'nowhere'"):
        local.map(nowhere.task, [1])


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"an engine of Ray needs .*'\.\[ray\]'"):
        open_engine("ray:2")
