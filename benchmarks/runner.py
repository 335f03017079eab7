"""Shared by all benchmark scripts: options, machine, clock, memory and the file of results.

    from runner import arguments, measure, save

    options = arguments("What the script claims.")
    results = {"ours": measure(lambda: ...), "numpy": measure(lambda: ...)}
    save("name", seed=0, settings={"n": n, "quick": options.quick}, results=results, options=options)

There is one script per claim, and the libraries it compares with run in the same run. A quick run shows that the
script works; its numbers mean nothing, so it writes no file unless `--out` names one. CPU seconds are those of the
whole process with all its threads: on a busy machine they are more stable than wall seconds, and larger where
several threads work.
"""

import argparse
import gc
import json
import multiprocessing
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
LIBRARIES = ("numpy", "numba", "scipy", "pyarrow")


def arguments(description: str, argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of every benchmark: `quick` and `out`."""
    return parser(description).parse_args(argv)


def parser(description: str) -> argparse.ArgumentParser:
    """The parser behind `arguments`, for a script that adds options of its own."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--quick", action="store_true", help="a small run that shows the script works; writes no results")
    made.add_argument("--out", type=Path, default=None, help="write the JSON here instead of benchmarks/results/")
    return made


def machine() -> dict[str, Any]:
    """Where and when: commit, cores, memory, processor, versions, date."""
    return {
        "commit": commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "cpu": cpu_model(),
        "python": platform.python_version(),
        **{library: installed_version(library) for library in LIBRARIES},
    }


def commit() -> str:
    """The commit the numbers belong to; "+" after it when the package or the benchmarks differ from that commit."""
    git = ["git", "-C", str(HERE)]
    head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    if head.returncode != 0:
        return "unknown"
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "../src", "*.py"], check=False).returncode != 0
    return head.stdout.strip() + ("+" if changed else "")


def cpu_model() -> str:
    """The processor's name as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except FileNotFoundError:  # not Linux
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def installed_version(library: str) -> str | None:
    """The installed version, None if the library is absent."""
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def measure(fn: Callable[[], Any], repeats: int = 3) -> dict[str, Any]:
    """Call `fn` `repeats` times: best and all CPU and wall seconds. Compile before, unless that is the claim."""
    cpu, wall = [], []
    for _ in range(repeats):
        gc.collect()
        cpu_start, wall_start = time.process_time(), time.perf_counter()
        fn()
        wall.append(time.perf_counter() - wall_start)
        cpu.append(time.process_time() - cpu_start)
    return {
        "cpu_seconds": min(cpu),
        "wall_seconds": min(wall),
        "all_cpu_seconds": cpu,
        "all_wall_seconds": wall,
    }


def in_fresh_process(target: Callable[..., Any], *args: Any) -> dict[str, Any]:
    """Run `target(*args)` in a new interpreter: its result, time and memory.

    `target` is a function at the top level of the calling script, which must guard its own run with
    `if __name__ == "__main__"`. Returns `result` (what `target` returned; keep it small, it is pickled),
    `baseline_rss_bytes` (resident before the call), `peak_rss_bytes` (the most resident during it), `cpu`, `wall`.
    What `target` allocates for its own inputs counts into the peak: call `peak_memory` inside it for a part.
    """
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=_report, args=(sending, target, args))
    child.start()
    sending.close()
    try:
        report: dict[str, Any] = receiving.recv()
    except EOFError:
        child.join()
        raise RuntimeError(f"{target.__name__} ended with exit code {child.exitcode}: see its message above") from None
    child.join()
    return report


def peak_memory(fn: Callable[[], Any]) -> dict[str, Any]:
    """Call `fn` here and now: `baseline_rss_bytes` before it and `peak_rss_bytes` during it.

    Right in a fresh process (inside the target of `in_fresh_process`, after its inputs are made) and on Linux; memory
    that the interpreter freed but kept would hide in the baseline elsewhere. Pages of a memory-mapped file count.
    """
    gc.collect()
    reset_peak()
    baseline = resident()
    system_start, cpu_start, wall_start = os.times().system, time.process_time(), time.perf_counter()
    result = fn()
    wall, cpu = time.perf_counter() - wall_start, time.process_time() - cpu_start
    system = os.times().system - system_start
    return {
        "result": result,
        "baseline_rss_bytes": baseline,
        "peak_rss_bytes": peak_resident(),
        "cpu": cpu,
        "system": system,
        "wall": wall,
    }


def _report(sending: Any, target: Callable[..., Any], args: tuple[Any, ...]) -> None:
    sending.send(peak_memory(lambda: target(*args)))
    sending.close()


def reset_peak() -> None:
    """Let the kernel forget the peak so far, where it can (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")  # 5: reset the peak resident set, see proc(5)
    except OSError:
        return


def resident() -> int:
    """Bytes resident now."""
    return status_bytes("VmRSS")


def peak_resident() -> int:
    """The most bytes resident since `reset_peak`.

    Not `ru_maxrss` where it can be avoided: on Linux that starts at the size of the process that spawned this one.
    """
    return status_bytes("VmHWM")


def status_bytes(field: str) -> int:
    """A size out of /proc/self/status; `ru_maxrss` where there is none."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except FileNotFoundError:  # macOS, which counts ru_maxrss in bytes
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sizes = dict(line.split(":", 1) for line in lines)
    if field not in sizes:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return int(sizes[field].split()[0]) * 1024


def save(
    name: str,
    seed: int | None,
    settings: dict[str, Any],
    results: Any,
    options: argparse.Namespace | None = None,
    script: str | None = None,
) -> Path | None:
    """Write benchmarks/results/<name>.json (or `options.out`) at once, show it, and return its path.

    `script`: who wrote it, where one script measures several claims; left out, it has the result's name.
    `options`: what `arguments` gave; left out, it is read from the command line. A quick run without `--out` is shown,
    not written.
    """
    options = options or parser("").parse_known_args()[0]
    record = {"name": name, "script": script or name, "seed": seed}
    record |= {"machine": machine(), "settings": settings, "results": results}
    text = json.dumps(record, indent=2, default=plain) + "\n"
    sys.stdout.write(text)
    if options.quick and options.out is None:
        return None
    path = options.out or RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False) as beside:
        beside.write(text)
    Path(beside.name).chmod(0o644)
    return Path(beside.name).replace(path)


def plain(value: Any) -> Any:
    """A numpy number or array as JSON has it."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Path):
        return value.name
    raise TypeError(f"{value!r} has no form in JSON")
