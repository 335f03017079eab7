"""A campaign from the shell, with everything that can be given wrongly: one clear line, and nothing is lost."""

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from shell import START, Answer, Run, one_line, start


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """Six texts."""
    path = tmp_path / "pool.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *((row, f"text {row}") for row in range(1, 7))])
    return path


def test_an_init_that_was_refused_can_be_corrected(run: Run, pool: Path) -> None:
    folder = pool.parent / "c"
    one_line(run("campaign", "init", folder, pool, "--classes", "a,b", "--holdout", 6), 1, "a holdout of 6 leaves")
    done = run("campaign", "init", folder, pool, "--classes", "a,b,c", "--holdout", 2)
    assert done.code == 0
    assert "hedgerow embed" in done.error  # a campaign without embeddings is told how to make them
    one_line(run("campaign", "init", folder, pool, "--classes", "a,b"), 1, "holds a campaign already")


@pytest.fixture
def campaign(run: Run, pool: Path) -> Path:
    """Batch 1 is the holdout of one row; batch 2 has two rows."""
    folder = pool.parent / "c"
    assert run("campaign", "init", folder, pool, "--classes", "a,b", "--holdout", 1).code == 0
    assert run("campaign", "next", folder, "-k", 2).code == 0
    return folder


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        (("log", "c", "-n", "-1"), ("n must be at least 0, got -1",)),
        (("undo", "c", "99"), ("there is no batch 99",)),
        (("undo", "c", "1"), ("the holdout cannot be undone",)),
        (("close", "c", "--", "-1"), ("there is no batch -1",)),
        (("next", "c", "-k", "0"), ("k must be at least 1, got 0",)),
        (("claim", "c", ""), ("an annotator is known by a name",)),
        (("claim", "c", "ana", "--seconds", "nan"), ("seconds must be finite, got nan",)),
        (("answer", "c", "ana", "1"), ("the answer for task 1 has no value",)),
        (("answer", "c", "ana", "1", "a", "--kind", "skip"), ("'skip' has no value, but the one for task 1 has 'a'",)),
        (("answer", "c", "ana", "1", "猫"), ("'猫' is not a class of the campaign: a, b",)),
        (("retract", "c", "--source", "77"), ("there is no source 77",)),
        (("ingest", "c", "."), (". is a folder: name one file",)),
        (("ingest", "c", "empty.csv"), ("empty.csv is empty (0 bytes)",)),
        (("ingest", "c", "nothere.csv"), ("nothere.csv does not exist",)),
        (("predict", "c", "nan.csv"), ("a NaN or an infinity in row 2",)),
        (("predict", "c", "pool.csv", "--metric", "accuracy=nan"), ("the metric accuracy must be finite",)),
        (("predict", "c", "strangers.csv", "--partial"), ("none of the 1 ids of the predictions is in the pool",)),
        (("export", "c", "77"), ("there is no batch 77",)),
        (("export", "c", "2", "-o", "batch.xyz"), ("the suffix must be",)),
        (("labels", "c", "--split", "test"), ("unknown split 'test'",)),
        (("labels", "c", "-o", "nowhere/labels.csv"), ("the folder", "does not exist")),
        (("votes", "c", "--as", "snorkel"), ("unknown layout of votes 'snorkel'",)),
        (("spread", "c"), ("spread needs clusters",)),
        (("spread", "c", "--undo", "3"), ("there is no spread 3",)),
        (("budget", "c", "--labels", "nan"), ("labels must be finite",)),
        (("status", "pool.csv"), ("pool.csv is not a folder",)),
        (("status", "."), (". holds no campaign",)),
        (("init", "d", "twice.csv", "--classes", "a,b"), ("holds 1 more than once: ids must be unique",)),
        (("init", "d", "empty.csv", "--classes", "a,b"), ("empty.csv is empty (0 bytes)",)),
        (("init", "d", "pool.csv", "--classes", ""), ("a class has an empty name",)),
        (("init", "d", "pool.csv", "--classes", "a|b,c", "--kind", "multi-label"), ("'a|b' has a | in its name",)),
    ],
)
def test_mistakes_are_one_line_and_change_nothing(
    run: Run, campaign: Path, command: tuple[str, ...], parts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(campaign.parent)
    Path("empty.csv").write_text("")
    Path("nan.csv").write_text("id,p0,p1\n1,0.5,0.5\n2,0.5,0.5\n3,nan,0.5\n4,1,0\n5,1,0\n6,1,0\n")
    Path("strangers.csv").write_text("id,p0,p1\n99,0.5,0.5\n")
    Path("twice.csv").write_text("id,text\n1,x\n1,y\n")
    before = run("campaign", "status", "c").out
    one_line(run("campaign", *command), 1, *parts)
    assert run("campaign", "status", "c").out == before


def test_json_can_be_parsed_whatever_the_verb(run: Run, campaign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(campaign.parent)
    Path("labels.csv").write_bytes("\ufeffid,label,annotator\n1,a,ana\n2,b,ana\n3,a,ana\n".encode())
    Path("p.csv").write_text("id,p0,p1\n" + "".join(f"{row},0.25,0.75\n" for row in range(1, 7)))
    commands = [
        ("claim", "ana"), ("release", "ana"), ("answer", "ana", "2", "b"), ("ingest", "labels.csv"),
        ("predict", "p.csv", "--metric", "accuracy=0.5"), ("next", "-k", "1"), ("export", "3", "-o", "batch.csv"),
        ("labels", "-o", "labels.parquet"), ("votes", "-o", "votes.jsonl"), ("spread", "--list"), ("budget",),
        ("budget", "--hours", "2"), ("alias", "csv", "5", "ana"), ("retract", "--source", "1"), ("undo", "3"),
        ("close", "2"), ("status",), ("log",), ("upgrade",),
    ]  # fmt: skip
    for verb, *rest in commands:
        done = run("campaign", verb, "c", *rest, "--json")
        assert done.code == 0, done
        assert isinstance(json.loads(done.out), dict), done
    assert json.loads(run("campaign", "log", "c", "-n", 1, "--json").out)["log"][0]["command"] == "close"


def test_a_mark_at_the_start_of_a_file_and_names_in_any_script(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pool.csv").write_bytes("\ufeffid,text\n1,é\n2,ü\n".encode())
    folder = tmp_path / "c"
    assert run("campaign", "init", folder, tmp_path / "pool.csv", "--classes", "chän,猫 🐱").code == 0
    (tmp_path / "labels.csv").write_bytes("\ufeffid,label\n1,猫 🐱\n".encode())
    assert run("campaign", "ingest", folder, tmp_path / "labels.csv").out.startswith("1 rows: 1 unsolicited")
    assert run("campaign", "labels", folder).out.splitlines()[1].startswith("1,猫 🐱,majority")


@pytest.mark.filterwarnings("default")
def test_predictions_for_unknown_ids_are_counted(run: Run, campaign: Path, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("id,p0,p1\n1,0.5,0.5\n99,0.5,0.5\n")
    done = run("campaign", "predict", campaign, tmp_path / "p.csv", "--partial")
    assert done.out == "model-1: 1 predictions\n"
    assert done.error == "hedgerow: warning: 1 of the 2 ids of the predictions are not in the pool and are left out\n"


def test_without_a_home_and_a_user(run: Run, campaign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "USER", "LOGNAME", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    assert run("campaign", "next", campaign, "-k", 1).code == 0
    assert len(run("campaign", "log", campaign).out.splitlines()) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_a_folder_of_another_user(campaign: Path) -> None:
    campaign.parent.chmod(0o755)
    program = (
        "import os, sys\nimport hedgerow.cli, hedgerow.campaign.campaign\nimport alembic.migration, alembic.script\n"
        "import sqlalchemy.dialects.sqlite\nos.seteuid(65534)\n"
    )
    done = subprocess.run(
        start("campaign", "status", campaign, program=program + START), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("hedgerow: ")
    assert "Permission denied" in done.stderr or "yours to read and to write" in done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start a process as another user")
def test_a_campaign_of_somebody_else_is_refused_in_one_line(campaign: Path) -> None:
    # Python itself may be in root's home: the other user may read everything, and write only what is theirs.
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    become += ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]
    with tempfile.TemporaryDirectory() as made:  # other than the folders of pytest, one that others can reach
        Path(made).chmod(0o755)
        folder = Path(shutil.copytree(campaign, Path(made) / "c"))
        held = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for command in (["status", folder], ["next", folder, "-k", "1"], ["close", folder, "1"]):
            done = subprocess.run(
                [*become, sys.executable, "-m", "hedgerow", "campaign", *map(str, command)],
                env={"PATH": os.environ["PATH"]},
                cwd="/",
                capture_output=True,
                text=True,
                check=False,
            )
            one_line(Answer(done.returncode, done.stdout, done.stderr), 1, "must be yours to read and to write")
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == held
