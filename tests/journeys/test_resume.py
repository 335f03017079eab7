"""A linkage that is killed goes on from its workdir, and ends as if nothing had happened."""

import signal
import subprocess
import sys

import numpy as np
import pytest

import hedgerow as hr

RUN = """
import os, signal, sys
import numpy as np
from hedgerow.clustering import hac, layout
from hedgerow.store import checkpoints

layout.FEW = 200  # cells for a small pool too
kill_at, half_way = int(sys.argv[3]), sys.argv[4] == "half-way"
saves = 0
keep = checkpoints.Checkpoints.save

def save(self, *arguments):
    global saves
    saves += 1
    if saves == kill_at and half_way:
        checkpoints.Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    keep(self, *arguments)
    if saves == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)

checkpoints.Checkpoints.save = save
tree = hac.linkage(np.load(sys.argv[1]), method="certified", average_size=8, workdir=sys.argv[2])
np.savez(sys.argv[5], merges=tree.merges, heights=tree.heights)
print(saves)
"""


def run(pool, workdir, kill_at, when, out):
    command = [sys.executable, "-c", RUN, str(pool), str(workdir), str(kill_at), when, str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(200, 12))
    points = centers[rng.integers(0, 200, 3000)] + 0.4 * rng.normal(size=(3000, 12))
    path = tmp_path_factory.mktemp("pool") / "pool.npy"
    np.save(path, points.astype(np.float32))
    return path


def test_killed_again_and_again_it_ends_the_same(pool, tmp_path):
    whole = run(pool, tmp_path / "whole", 0, "after", tmp_path / "whole.npz")
    assert whole.returncode == 0, whole.stderr
    saves = int(whole.stdout)
    assert saves >= 5
    for turn in range(saves):  # each attempt is killed at its first or second save, after it or in the middle of it
        done = run(
            pool, tmp_path / "work", 1 + turn % 2, "half-way" if turn % 3 == 2 else "after", tmp_path / "work.npz"
        )
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
    last = run(pool, tmp_path / "work", 0, "after", tmp_path / "work.npz")
    assert last.returncode == 0, last.stderr
    expected, got = np.load(tmp_path / "whole.npz"), np.load(tmp_path / "work.npz")
    np.testing.assert_array_equal(got["merges"], expected["merges"])
    np.testing.assert_array_equal(got["heights"], expected["heights"])


def test_a_workdir_of_other_data_is_refused(pool, tmp_path):
    points = np.load(pool)
    hr.cluster(points[:50], workdir=tmp_path / "work")
    with pytest.raises(hr.StoreError, match="another run"):
        hr.cluster(points[:60], workdir=tmp_path / "work")
