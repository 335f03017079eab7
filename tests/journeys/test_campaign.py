"""A campaign from the shell: a CSV of texts, no model at first, labels from files."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from shell import Run, one_line

CLASSES = "billing,delivery,defect"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with (tmp_path / "tickets.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *((f"t{row}", f"ticket {row}") for row in range(60))])
    np.save(tmp_path / "e.npy", np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32))
    return tmp_path


def begin(run: Run, folder: Path, *more: object) -> Path:
    done = run("campaign", "init", folder / "c", folder / "tickets.csv", "--classes", CLASSES, *more)
    assert done.code == 0, done
    return folder / "c"


def test_two_rounds(run: Run, folder: Path) -> None:
    campaign = begin(run, folder, "--embeddings", folder / "e.npy", "--holdout", 5)
    done = run("campaign", "next", campaign, "-k", 10, "--json")
    assert json.loads(done.out)["strategy"] == "spread"
    assert run("campaign", "export", campaign, 2, "-o", folder / "batch.csv").code == 0
    with (folder / "batch.csv").open() as file:
        tasks = list(csv.DictReader(file))
    assert len(tasks) == 10
    lines = [{"id": task["id"], "label": "billing", "annotator": "ana"} for task in tasks]
    lines += [{"id": "nobody", "label": "billing", "annotator": "ana"}, {"id": tasks[0]["id"], "label": "praise"}]
    (folder / "labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = run("campaign", "ingest", campaign, folder / "labels.jsonl")
    assert done.out == (
        f"12 rows: 10 new, 1 unknown id, 1 unknown class (source 1); rejects in {folder}/labels.jsonl.rejects.jsonl, "
        "the first: the pool has no id nobody\n"
    )
    rejects = (folder / "labels.jsonl.rejects.jsonl").read_text().splitlines()
    assert [json.loads(line)["reason"] for line in rejects] == ["unknown id", "unknown class"]
    one_line(
        run("campaign", "ingest", campaign, folder / "labels.jsonl"), 1, "was ingested before (source 1)", "--again"
    )
    assert run("campaign", "ingest", campaign, folder / "labels.jsonl", "--again").out.startswith(
        "12 rows: 10 unchanged"
    )
    np.save(folder / "p.npy", np.random.default_rng(1).dirichlet(np.ones(3), 60))
    assert run("campaign", "predict", campaign, folder / "p.npy", "--metric", "accuracy=0.5").out.startswith(
        "model-1: 60"
    )
    done = run("campaign", "next", campaign, "-k", 8, "--strategy", "cluster-margin", "--set", "margin_factor=2")
    assert done.out == "batch 3: 8 by cluster-margin\n"
    status = json.loads(run("campaign", "status", campaign, "--json", "--verify").out)
    assert status["labels"] == {"majority": 10}
    assert [batch["kind"] for batch in status["batches"]] == ["holdout", "cold", "pick"]
    assert run("campaign", "undo", campaign, 3).out == "batch 3 is cancelled\n"
    assert run("campaign", "close", campaign, 2).out == "batch 2 is closed (full)\n"
    assert run("campaign", "retract", campaign, "--source", 1).out == "10 answers retracted\n"
    log = [line.split()[2] for line in run("campaign", "log", campaign).out.splitlines()]
    assert log == ["init", "next", "ingest", "ingest", "predict", "next", "undo", "close", "retract"]


def test_tasks_one_by_one(run: Run, folder: Path) -> None:
    campaign = begin(run, folder, "--kind", "multi-label")
    run("campaign", "next", campaign, "-k", 2, "--double", "50%")
    found = json.loads(run("campaign", "claim", campaign, "ana", "-n", 2, "--json").out)["tasks"]
    assert [task["content"] for task in found] == [f"ticket {task['row']}" for task in found]
    task = found[0]["task"]
    assert run("campaign", "answer", campaign, "ana", task, "billing|defect").out == "new\n"
    assert run("campaign", "answer", campaign, "ana", task, "defect|billing").out == "unchanged\n"
    assert run("campaign", "answer", campaign, "ana", found[1]["task"], "--kind", "skip").out == "new\n"
    assert run("campaign", "claim", campaign, "ana").out == "nothing to do\n"
    assert run("campaign", "release", campaign, "ana", "--json").out == '{"released": 0}\n'
    one_line(run("campaign", "answer", campaign, "ana", task, "praise"), 1, "not a class of the campaign")


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        (("next", "c", "-k", "5", "--strategy", "margn"), ("did you mean 'margin'?",)),
        (("next", "c", "-k", "5", "--strategy", "margin"), ("needs a model",)),
        (("next", "c", "-k", "5", "--double", "many"), ("is not a share",)),
        (("next", "c", "-k", "99"), ("only 60 are unlabeled",)),
        (("predict", "c", "tickets.csv", "--metric", "good"), ("not a metric",)),
        (("status", "nowhere"), ("is not a folder",)),
        (("retract", "c"), ("needs a source or an annotator",)),
        (("upgrade", "."), ("holds no campaign",)),
        (("status", "c", "--database", "mysql://ana:s3cret@h/x"), ("'mysql' cannot be used",)),
    ],
)
def test_errors_are_one_line(
    run: Run, folder: Path, command: tuple[str, ...], parts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(run, folder)
    monkeypatch.chdir(folder)
    failed = run("campaign", *command)
    one_line(failed, 1, *parts)
    assert "s3cret" not in failed.error


def test_names_of_classes_from_a_file(run: Run, folder: Path) -> None:
    (folder / "names.txt").write_text("billing, late\n\ndefect\n")
    done = run("campaign", "init", folder / "c", folder / "tickets.csv", "--classes", f"@{folder}/names.txt", "--json")
    assert json.loads(done.out)["classes"] == ["billing, late", "defect"]
    assert run("campaign", "upgrade", folder / "c").out == "nothing to do\n"
    assert run("campaign", "alias", folder / "c", "label-studio", 5, "ana").out == "5 in label-studio is ana\n"


def test_people_gold_and_disputes(run: Run, folder: Path) -> None:
    campaign = begin(run, folder, "--no-clusters", "--holdout", 12)
    held = json.loads(run("campaign", "status", campaign, "--json").out)
    assert held["agreement"] is None
    for name in ("eva", "max"):
        run("campaign", "export", campaign, 1, "-o", folder / "holdout.csv", "--force")
        with (folder / "holdout.csv").open() as file:
            lines = [{"id": task["id"], "label": "billing", "annotator": name} for task in csv.DictReader(file)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert run("campaign", "ingest", campaign, folder / f"{name}.jsonl").code == 0
    assert run("campaign", "gold", campaign).out == (
        "12 gold questions, 0 answers; 0.03 of each person's tasks; flagged below 0.7\n"
    )
    assert json.loads(run("campaign", "gold", campaign, "--share", "50%", "--json").out)["share"] == 0.5
    one_line(run("campaign", "gold", campaign, "--share", "60%"), 1, "share must be between 0 and 0.5")
    assert run("campaign", "next", campaign, "-k", 30, "--answers", 2).code == 0
    claimed = json.loads(run("campaign", "claim", campaign, "ana", "-n", 22, "--json").out)["tasks"]
    assert {task["batch"] for task in claimed} == {2}
    for task in claimed:
        assert run("campaign", "answer", campaign, "ana", task["task"], "defect").out == "new\n"
    shown = run("campaign", "people", campaign).out
    assert "ana (flagged)" in shown
    assert "0 of 11 (0.00-0.26)" in shown
    assert "relabel  ana alone answered 11: `relabel CAMPAIGN ana` asks others" in shown
    found = json.loads(run("campaign", "people", campaign, "--json").out)
    assert [person["flagged"] for person in found["people"]] == [True, False, False]
    one_line(run("campaign", "relabel", campaign, "ana"), 1, "there is nothing to ask again")  # all still wait
    assert run("campaign", "disputed", campaign).out == "nothing is disputed\n"
    ours = [task for task in claimed if task["task"] in {one["task"] for one in list_tasks(run, campaign, 2)}]
    assert run("campaign", "answer", campaign, "ben", ours[0]["task"], "delivery").code == 0
    assert run("campaign", "disputed", campaign).out == f"{ours[0]['task']} {ours[0]['id']} {ours[0]['content']}\n"
    assert "disputed 1 tasks" in run("campaign", "status", campaign).out
    decide = ("campaign", "answer", campaign, "ana", ours[0]["task"], "defect", "--kind", "adjudicate")
    one_line(run(*decide), 1, "is to be decided by somebody who has not answered it", "--own")
    assert run("campaign", "claim", campaign, "ana", "--expert").out == "nothing to do\n"
    assert run("campaign", "claim", campaign, "zoe", "--expert").out.startswith(f"{ours[0]['task']} ")
    assert run(*decide, "--own").out == "corrected\n"
    assert run("campaign", "close", campaign, 2).code == 0
    done = run("campaign", "relabel", campaign, "ana", "--json")
    assert json.loads(done.out) == {"batch": 4, "size": 10}


def list_tasks(run: Run, campaign: Path, batch: int) -> list[dict[str, int]]:
    return [json.loads(line) for line in run("campaign", "export", campaign, batch, "--json").out.splitlines()]
