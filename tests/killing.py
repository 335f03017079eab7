"""Clustering in a process of its own that is killed at a point of its work."""

import os
import signal
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os, signal, sys
import pytest
import hedgerow as hr
from clusterings import shrink_tasks
from hedgerow.clustering import workers

if __name__ == "__main__":
    shrink_tasks(pytest.MonkeyPatch())
    path, work, engine, options, kill_at = sys.argv[1:5] + [int(sys.argv[5])]
    maps, keep = 0, workers.Workers.map

    def map(self, task, jobs, report=None):
        global maps
        maps += 1
        if maps == kill_at:  # some of the jobs are done
            keep(self, task, jobs[: len(jobs) // 2], report)
            os.kill(os.getpid(), signal.SIGKILL)
        return keep(self, task, jobs, report)

    workers.Workers.map = map
    hr.cluster(path, method="certified", average_size=8, engine=engine, workdir=work, **eval(options))
"""


def kill_driver(path: Path, work: Path, engine: str, kill_at: int, options: str = "{}") -> None:
    """A run with tasks of a few hundred rows that is killed in its map number `kill_at`."""
    script = work.parent / "run.py"  # a file: workers are started from it
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(path), str(work), engine, options, str(kill_at)]
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == -signal.SIGKILL, done.stderr
