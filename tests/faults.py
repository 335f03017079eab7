"""Commands on a campaign that are killed at a random point, and what must hold afterwards.

`python tests/faults.py FOLDER VERB SEED` runs one verb; the tests kill it. `python tests/faults.py --times 200` does
that so many times and prints what it found.
"""

import csv
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow import Campaign
from hedgerow.campaign import ingesting, planning
from hedgerow.campaign.answers import Answer

N = 400
CLASSES = ["cat", "dog", "fox"]
VERBS = ("init", "next", "ingest", "predict", "retract", "close", "undo", "answer")


def write_pool(folder: Path) -> None:
    with (folder / "pool.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *((f"r{row}", f"text {row}") for row in range(N))])
    np.save(folder / "embeddings.npy", np.random.default_rng(0).normal(size=(N, 4)).astype(np.float32))


def begin(folder: Path) -> Campaign:
    given: dict[str, Any] = {"classes": CLASSES, "holdout": 20, "embeddings": folder / "embeddings.npy"}
    return Campaign.init(folder / "campaign", folder / "pool.csv", **given)


def make_answers(seed: int) -> list[Answer]:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, N, 300).tolist()
    return [Answer(f"r{row}", "answer", CLASSES[row % 3], f"p{at % 3}", at + 1) for at, row in enumerate(rows)]


def run(folder: Path, verb: str, seed: int) -> None:
    """One verb, in small chunks, so that there are many points at which it can be killed."""
    planning.CHUNK, ingesting.CHUNK = 10, 20
    if verb == "init":
        begin(folder).close_files()
        return
    with Campaign.open(folder / "campaign") as campaign:
        print("started", flush=True)
        if verb == "next":
            campaign.next(60, strategy="random", seed=seed, allow_short=True)
        elif verb == "ingest":
            campaign.ingest(make_answers(seed))
        elif verb == "predict":
            campaign.predict(np.random.default_rng(seed).dirichlet(np.ones(3), N), name=f"m{seed}")
        elif verb == "retract":
            sources = [one["id"] for one in campaign.status().sources if not one["retracted"]]
            campaign.retract(source=sources[-1])
        elif verb in ("close", "undo"):
            live = [
                one["id"] for one in campaign.status().batches if one["state"] == "open" and one["kind"] != "holdout"
            ]
            getattr(campaign, verb)(live[-1])
        else:
            for one in campaign.claim("ana", 20):
                outcome = campaign.answer("ana", one.task, CLASSES[one.row % 3], key=f"{seed}-{one.task}")
                print(json.dumps([one.row, outcome]), flush=True)  # acknowledged: must not be lost


def kill(folder: Path, verb: str, seed: int, delay: float) -> tuple[bool, list[int]]:
    """Run a verb in a process and kill it some time after it began; (whether it was killed, acknowledged answers)."""
    command = [sys.executable, __file__, str(folder), verb, str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline() if verb != "init" else ""
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        out, _ = process.communicate()
    lines = [line for line in (first + out).splitlines() if line.startswith("[")]
    return process.returncode == -signal.SIGKILL, [json.loads(line)[0] for line in lines if line.endswith("]")]


def check(folder: Path) -> None:
    """What holds after every kill, once the campaign was opened again."""
    with Campaign.open(folder / "campaign", verify=True) as campaign:
        status = campaign.status()
        verdicts = campaign.labels()
        known = {one.name for one in (folder / "campaign" / "artifacts").iterdir()} - {".lock"}
    connection = sqlite3.connect(folder / "campaign" / "campaign.db")
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        waiting = connection.execute("SELECT row, class FROM task WHERE state < 3").fetchall()
        assert len(set(waiting)) == len(waiting)
        planned = connection.execute("SELECT count(*) FROM batch WHERE state = 'planning'").fetchall()
        assert planned == [(0,)]
        short = "SELECT b.id FROM batch b WHERE b.size <> (SELECT count(*) FROM task t WHERE t.batch = b.id)"
        assert connection.execute(short).fetchall() == []
        left = "SELECT count(*) FROM task t JOIN batch b ON b.id = t.batch WHERE b.state = 'closed' AND t.state < 3"
        assert connection.execute(left).fetchall() == [(0,)]
        paths = {row[0] for row in connection.execute("SELECT path FROM artifact")}
    finally:
        connection.close()
    beside = {name for name in known if name.endswith(".centroids.npz")}
    assert known - beside == {path for path in paths if not path.startswith("/")}
    held = {
        row: label for row, label in zip(verdicts["row"].tolist(), verdicts["label"].tolist(), strict=True) if label
    }
    assert all(label == CLASSES[row % 3] for row, label in held.items())
    assert sum(status.labels.values()) == len(verdicts["row"])


def campaign_of_kills(folder: Path, times: int, seed: int) -> Counter[str]:
    """Kill verbs at random points of their work, check after each, and finish an interrupted ingest."""
    chance = random.Random(seed)
    write_pool(folder)
    begin(folder).close_files()
    kills: Counter[str] = Counter()
    acknowledged: set[int] = set()
    for number in range(times):
        verb = chance.choice(VERBS[1:])
        killed, rows = kill(folder, verb, number, chance.random() * 0.25)
        acknowledged |= set(rows)
        kills[verb] += killed
        check(folder)
        with Campaign.open(folder / "campaign") as campaign:
            if verb == "ingest":
                finish_ingest(campaign, number)
            labeled = set(campaign.labels()["row"].tolist())
            assert acknowledged <= labeled, f"lost after {verb}: {acknowledged - labeled}"
    return kills


def finish_ingest(campaign: Campaign, seed: int) -> None:
    """The same file again: it continues, or was complete; then every answer of it counts once."""
    answers = make_answers(seed)
    complete = [one for one in campaign.status().sources if not one["retracted"]]
    if not complete or not complete[-1]["complete"] or sum(complete[-1]["summary"].values()) != len(answers):
        done = campaign.ingest(answers)
        assert sum(done.counts.values()) == done.rows == len(answers)


if __name__ == "__main__":
    if sys.argv[1] == "--times":
        with tempfile.TemporaryDirectory() as made:
            print(dict(campaign_of_kills(Path(made), int(sys.argv[2]), int(os.environ.get("SEED", "0")))))
    else:
        run(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
