"""`hedgerow embed` and `hedgerow start` through the shell: continued, killed in the middle, given the wrong thing."""

import csv
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import hedgerow as hr
from hedgerow import starting
from shell import Run, call, one_line, start

WORDS = ("refund", "parcel", "broken", "thanks", "invoice", "driver", "screen", "great")
CLASSES = ["--classes", "billing,delivery"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_tickets(path: Path, n: int = 300) -> Path:
    with path.open("w", newline="") as file:
        rows = [(f"t{row}", " ".join(WORDS[row * step % 8] for step in (1, 3, 5)) + f" {row % 40}") for row in range(n)]
        csv.writer(file).writerows([("ticket_id", "body"), *rows, ("t9000", "")])
    return path


def paint_folder(folder: Path, n: int = 30) -> Path:
    folder.mkdir()
    for row in range(n):
        Image.new("RGB", (24, 24), (row * 8, 255 - row * 8, row)).save(folder / f"{row}.png")
    (folder / "broken.png").write_text("no image")
    return folder


def test_a_table_of_texts_becomes_a_campaign(run: Run, tmp_path: Path) -> None:
    write_tickets(tmp_path / "tickets.csv")
    done = run("start", "tickets.csv", *CLASSES, "--batch", 20, "--no-desk")
    assert done.code == 0, done.error
    lines = done.out.splitlines()
    assert lines[0] == "tickets.csv: texts in `body`, ids in `ticket_id`"
    assert lines[1].startswith("embedded  300 texts by tfidf on this machine, nothing is uploaded; 1 set aside (")
    assert lines[2].startswith("clusters  30, average size 10")
    assert lines[3].startswith("holdout   30 at random")
    assert lines[4].startswith("round 1   20 rows")
    assert lines[5:] == [
        "campaign  in tickets.hedgerow (keep it; everything is there)",
        "label     hedgerow desk tickets.hedgerow",
    ]
    with hr.Campaign.open("tickets.hedgerow") as campaign:
        first = campaign.claim("ana", 3)
        assert [task.batch for task in first] == [2, 2, 2]  # what was picked comes before the holdout
        assert all(str(task.id).startswith("t") and task.content for task in first)


def test_run_again_it_goes_on(run: Run, tmp_path: Path) -> None:
    path = write_tickets(tmp_path / "tickets.csv")
    first = json.loads(run("start", path, *CLASSES, "--json").out)
    again = run("start", path, "--json")
    assert json.loads(again.out) == {**first, "continued": True}
    assert "this campaign exists and goes on" in again.error
    write_tickets(path, 310)
    assert "has changed since; the campaign keeps its rows" in run("start", path, "--json").error


def test_the_folder_of_a_campaign_can_be_moved(run: Run, tmp_path: Path) -> None:
    assert run("start", write_tickets(tmp_path / "tickets.csv"), *CLASSES, "--no-desk").code == 0
    (tmp_path / "tickets.hedgerow").rename(tmp_path / "moved")
    (tmp_path / "tickets.csv").unlink()
    with hr.Campaign.open(tmp_path / "moved", verify=True) as campaign:
        assert campaign.status().rows == 300


def test_a_folder_of_images_becomes_a_campaign(run: Run, tmp_path: Path) -> None:
    paint_folder(tmp_path / "photos")
    done = run("start", "photos", *CLASSES, "--batch", 5, "--engine", "serial", "--no-desk")
    assert done.code == 0, done.error
    assert done.out.splitlines()[0] == "photos: 31 images"
    assert done.out.splitlines()[-1] == f"label     hedgerow desk photos.hedgerow --root {tmp_path / 'photos'}"
    with hr.Campaign.open("photos.hedgerow") as campaign:
        assert campaign.status().rows == 30
        assert campaign.claim("ana")[0].content.endswith(".png")


def test_embeddings_with_their_rows(run: Run, tmp_path: Path) -> None:
    write_tickets(tmp_path / "tickets.csv")
    assert run("embed", "tickets.csv", "-o", "e.npy").out.startswith("300 x ")
    done = run("start", "e.npy", *CLASSES, "--no-desk")
    assert done.out.splitlines()[0] == "e.npy: embeddings; rows in e.rows.parquet", done.error
    given = run("start", "e.rows.parquet", "--embeddings", "e.npy", *CLASSES, "--folder", "other", "--no-desk")
    assert given.code == 0, given.error
    alone = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    np.save("alone.npy", alone)
    assert "nothing can be shown" in run("start", "alone.npy", *CLASSES, "--no-desk").out
    assert json.loads(run("start", "alone.npy", "--json").out)["rows"] == 50


def test_what_cannot_be_started_is_told_in_one_line(run: Run, tmp_path: Path) -> None:
    write_tickets(tmp_path / "tickets.csv")
    (tmp_path / "empty").mkdir()
    (tmp_path / "page.html").write_text("<html>")
    holed = np.ones((30, 4), np.float32)
    holed[7, 2] = np.nan
    np.save("holed.npy", holed)
    one_line(run("start", "tickets.csv"), 1, "name the classes: --classes spam,ham")
    one_line(run("start", "tickets.csv", "--classes", "one"), 1, "at least 2 classes")
    one_line(run("start", "empty", *CLASSES), 1, "the folder empty holds no images", "but nothing")
    one_line(run("start", "page.html", *CLASSES), 1, "neither a folder of images nor a .csv")
    one_line(run("start", "gone.csv", *CLASSES), 1, "gone.csv does not exist")
    wrong = run("start", "tickets.csv", *CLASSES, "--encoder", "efficientnet-lite0")
    assert (wrong.code, wrong.error.count("\n")) == (1, 1)
    assert "is not for texts" in wrong.error
    assert not (tmp_path / "tickets.hedgerow").exists()
    nan = run("start", "holed.npy", *CLASSES)
    assert nan.code == 1
    assert nan.error == "hedgerow: embeddings has a NaN or an infinity in row 7: remove or repair that row\n"
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("mine")
    one_line(run("start", "tickets.csv", *CLASSES, "--folder", "taken"), 1, "taken exists, and start did not make it")


def test_a_folder_belongs_to_one_source(run: Run, tmp_path: Path) -> None:
    write_tickets(tmp_path / "tickets.csv")
    assert run("start", "tickets.csv", *CLASSES, "--no-desk").code == 0
    write_tickets(tmp_path / "other.csv")
    answer = run("start", "other.csv", *CLASSES, "--folder", "tickets.hedgerow")
    one_line(answer, 1, "tickets.hedgerow is the campaign of", "name another folder")


def test_the_desk_is_opened(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hedgerow.cli import starting as command

    opened = []
    monkeypatch.setattr(command, "_open_desk", lambda made, browser: opened.append((made.folder.name, browser)))
    write_tickets(tmp_path / "tickets.csv")
    assert run("start", "tickets.csv", *CLASSES, "--no-browser").code == 0
    assert opened == [("tickets.hedgerow", False)]


def test_without_the_desk_the_campaign_is_there(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hedgerow.cli import starting as command

    def refuse(made: object, browser: bool) -> None:
        raise hr.MissingExtraError("the desk", "desk")

    monkeypatch.setattr(command, "_open_desk", refuse)
    done = run("start", write_tickets(tmp_path / "tickets.csv"), *CLASSES)
    assert done.code == 0, done.error
    label, reason = done.out.splitlines()[-2:]
    assert label == "label     hedgerow desk tickets.hedgerow"
    assert "the desk needs an optional dependency" in reason


# Killed.

# Stops itself at the n-th file that is renamed to its place: all that is kept is written that way.
DYING = """
import os, signal, sys
from pathlib import Path
left = int(os.environ["DIE_AT"])
real = Path.replace
def replace(self, target):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, target)
Path.replace = replace
from hedgerow.cli import main
main()
"""


@pytest.mark.parametrize("at", [1, 3, 5, 7, 9, 12])
def test_a_start_that_was_killed_is_continued(at: int, run: Run, tmp_path: Path) -> None:
    path = write_tickets(tmp_path / "tickets.csv")
    options = [*CLASSES, "--no-desk", "--engine", "serial"]
    died = call("start", path, *options, program=DYING, env={**os.environ, "DIE_AT": str(at)})
    assert died.returncode == -signal.SIGKILL, died.stderr
    done = run("start", path, *options)
    assert done.code == 0, done.error
    with hr.Campaign.open("tickets.hedgerow", verify=True) as campaign:
        status = campaign.status()
    assert (status.rows, status.holdout, len(status.batches)) == (300, 30, 2)
    assert sorted(file.name for file in Path("tickets.hedgerow/start").iterdir()) == [
        "embeddings.encoder.npz", "embeddings.rejects.jsonl", "start.json",
    ]  # fmt: skip


def test_embedding_that_was_killed_is_continued(tmp_path: Path) -> None:
    """By time, in processes: the workers end with the command, and what they finished is used."""
    path = write_tickets(tmp_path / "tickets.csv", 30_000)
    command = start("embed", path, "-o", "e.npy", "--engine", "processes:2")
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    parts = tmp_path / "e.npy.work" / "parts"
    while running.poll() is None and not list(parts.glob("rows*.npz")):
        time.sleep(0.01)
    running.kill()
    running.wait()
    done = call("embed", path, "-o", "e.npy", "--engine", "serial")
    assert done.returncode == 0 or "exists: pass --force" in done.stderr, done.stderr
    whole = call("embed", path, "-o", "whole.npy", "--engine", "serial")
    assert whole.returncode == 0, whole.stderr
    assert Path("e.npy").read_bytes() == Path("whole.npy").read_bytes()


def test_without_a_home(tmp_path: Path) -> None:
    path = write_tickets(tmp_path / "tickets.csv", 40)
    bare = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME", "USER")}
    done = call("start", path, *CLASSES, "--no-desk", env=bare)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_kernels_are_compiled_by_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []

    class Process:
        def __init__(self, command: list[str], **options: object) -> None:
            begun.append(command[-1])

        def wait(self) -> None:
            begun.append("waited")

        def kill(self) -> None:
            begun.append("killed")

    monkeypatch.setattr(starting.subprocess, "Popen", Process)
    monkeypatch.setattr(starting, "is_warm", lambda: False)
    hr.start(write_tickets(tmp_path / "tickets.csv", 40), classes=["a", "b"])
    assert begun == ["from hedgerow.warming import warm_clustering; warm_clustering()", "waited", "killed", "waited"]
