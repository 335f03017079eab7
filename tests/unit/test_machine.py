"""Cores and memory under limits of control groups, threads and the limit on BLAS."""

import math
import os
import subprocess
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest

from hedgerow import machine
from hedgerow.clustering import hac
from hedgerow.errors import InputError

GIB = 1 << 30


def write_tree(root: Path, files: dict[str, object]) -> tuple[Path, Path]:
    """A made-up /proc and /sys/fs/cgroup; names are relative to both of them."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root / "proc", root / "cgroup"


def machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_version_2_the_tightest_quota_of_the_path_counts(tmp_path: Path) -> None:
    proc, cgroups = write_tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/pods/one",
            "cgroup/pods/cpu.max": "150000 100000",
            "cgroup/pods/one/cpu.max": "400000 100000",
        },
    )
    assert machine.read_quota(proc, cgroups) == 1.5


def test_version_2_max_is_no_limit(tmp_path: Path) -> None:
    proc, cgroups = write_tree(
        tmp_path, {"proc/self/cgroup": "0::/a", "cgroup/a/cpu.max": "max 100000", "cgroup/a/memory.max": "max"}
    )
    assert machine.read_quota(proc, cgroups) == math.inf
    assert machine.memory(proc, cgroups).total == machine_memory()


def test_version_1_quota_in_folders_of_joint_controllers(tmp_path: Path) -> None:
    proc, cgroups = write_tree(
        tmp_path,
        {
            "proc/self/cgroup": "4:cpu,cpuacct:/job\n3:memory:/job",
            "cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1",
            "cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
            "cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "50000",
            "cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000",
        },
    )
    assert machine.read_quota(proc, cgroups) == 0.5


def test_available_rounds_the_quota_up_and_is_at_least_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: set(range(8)))
    for quota, cores in ((0.2, 1), (1.5, 2), (3.0, 3), (64.0, 8), (math.inf, 8)):
        monkeypatch.setattr(machine, "read_quota", lambda *_, quota=quota: quota)
        assert machine.available() == cores


def test_version_2_memory_of_the_tightest_group_without_cached_files(tmp_path: Path) -> None:
    proc, cgroups = write_tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/pods/one",
            "proc/meminfo": f"MemAvailable: {machine_memory() // 1024} kB",
            "cgroup/pods/memory.max": GIB // 4,
            "cgroup/pods/memory.current": GIB // 8,
            "cgroup/pods/memory.stat": f"anon 7\ninactive_file {GIB // 32}\nactive_file {GIB // 32}",
            "cgroup/pods/one/memory.max": GIB // 2,
        },
    )
    assert machine.memory(proc, cgroups) == machine.Memory(GIB // 4, GIB // 4 - GIB // 16)


def test_version_1_memory_seen_from_a_container_that_has_the_hosts_path(tmp_path: Path) -> None:
    proc, cgroups = write_tree(
        tmp_path,
        {
            "proc/self/cgroup": "5:memory:/docker/0123",  # no such folder here: the root is the container's group
            "proc/meminfo": f"MemAvailable: {machine_memory() // 1024} kB",
            "cgroup/memory/memory.limit_in_bytes": GIB // 4,
            "cgroup/memory/memory.usage_in_bytes": GIB // 8,
            "cgroup/memory/memory.stat": f"inactive_file 1\ntotal_inactive_file {GIB // 16}\ntotal_active_file 0",
        },
    )
    assert machine.memory(proc, cgroups) == machine.Memory(GIB // 4, GIB // 4 - GIB // 16)


def test_version_1_without_a_limit_has_the_memory_of_the_machine(tmp_path: Path) -> None:
    proc, cgroups = write_tree(
        tmp_path,
        {
            "proc/self/cgroup": "5:memory:/",
            "proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 1024 kB",
            "cgroup/memory/memory.limit_in_bytes": 0x7FFFFFFFFFFFF000,
        },
    )
    assert machine.memory(proc, cgroups) == machine.Memory(machine_memory(), 1 << 20)


def test_without_proc_and_cgroups_the_machine_counts(tmp_path: Path) -> None:
    assert machine.read_quota(tmp_path, tmp_path) == math.inf
    assert machine.memory(tmp_path, tmp_path) == machine.Memory(machine_memory(), machine_memory())


def test_linkage_refuses_what_a_control_group_has_no_memory_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory", lambda: machine.Memory(1 << 16, 1 << 16))
    with pytest.raises(InputError, match=r"this process may use 0\.0 GiB"):
        hac.linkage(np.eye(200, dtype=np.float32))


def test_peak_memory_is_reset_and_read() -> None:
    held = np.ones(64 << 20, np.uint8)
    before = machine.read_memory("VmHWM")
    del held
    machine.reset_peak()
    after = machine.read_memory("VmHWM")
    assert before is not None
    assert after is not None
    assert after < before
    assert machine.read_memory("VmNothing") is None


def test_a_team_limits_blas_and_restores_it() -> None:
    from threadpoolctl import threadpool_info

    def count() -> set[int]:
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    before = count()
    with machine.team(2) as team:
        assert team.size == 2
        assert count() == {1}
        assert len(set(team.map(lambda _: threading.get_ident(), range(64)))) <= 2
    assert count() == before


def test_thread_pools_are_looked_up_again_only_after_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    first = machine.find_pools(len(sys.modules))
    assert machine.find_pools(len(sys.modules)) is first
    monkeypatch.setitem(sys.modules, "a_library_with_blas", types.ModuleType("a_library_with_blas"))
    assert machine.find_pools(len(sys.modules)) is not first


def test_a_team_without_products_does_not_import_scipy() -> None:
    program = "import sys\nfrom hedgerow.machine import team\nwith team(2{}): print('scipy.linalg' in sys.modules)"
    for option, loaded in ((", products=False", "False"), ("", "True")):
        done = subprocess.run(
            [sys.executable, "-c", program.format(option)], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == loaded


# Selects, and reports the BLAS libraries that were loaded when a team last limited their threads, and afterwards.
SELECTION = """
import sys
import numpy as np
from threadpoolctl import threadpool_info
import hedgerow as hr
from hedgerow import machine

def list_loaded():
    return sorted(one["filepath"] for one in threadpool_info() if one["user_api"] == "blas")

def limit_and_record():
    seen.append((list_loaded(), "scipy.linalg.cython_blas" in sys.modules))
    return limit()

seen, limit = [], machine.limit_blas
machine.limit_blas = limit_and_record
rng = np.random.default_rng(0)
before = "scipy" in sys.modules
hr.select(sys.argv[1], 5, probabilities=rng.dirichlet(np.ones(3), 50), embeddings=rng.normal(size=(50, 4)))
print(before, seen[-1][1], seen[-1][0] == list_loaded())
"""


@pytest.mark.parametrize("strategy", ["badge", "coreset"])
def test_strategies_that_multiply_matrices_load_their_blas_before_the_team_limits_it(strategy: str) -> None:
    """A library that is loaded inside of a team would use all cores in each of its threads."""
    command = [sys.executable, "-c", SELECTION, strategy]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True"]
