"""Campaigns whose commands are killed, and campaigns that many processes use at once."""

import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

import faults
import postgres
from hedgerow import Campaign
from hedgerow.campaign import asking, ingesting, planning

WORKER = """
import sys
from hedgerow import Campaign
from hedgerow.campaign.answers import Answer
folder, url, name = sys.argv[1], sys.argv[2] or None, sys.argv[3]
with Campaign.open(folder, database=url) as campaign:
    campaign.next(15, strategy="random", seed=7)
    campaign.ingest([Answer(f"r{row}", "answer", "cat", name) for row in range(0, 400, 10)])
    while asked := campaign.claim(name, 5, batch=1):
        for one in asked:
            print(one.task, campaign.answer(name, one.task, "dog", key=f"{name}{one.task}"))
"""


@pytest.mark.parametrize("verb", faults.VERBS)
def test_a_killed_command_leaves_a_whole_campaign(tmp_path: Path, verb: str) -> None:
    kills = faults.Kills(tmp_path, seed=sum(verb.encode()))
    kills.begin()
    with Campaign.open(tmp_path / "campaign") as campaign:
        campaign.next(30, strategy="random")
        campaign.ingest(faults.make_answers(5))
    for number in range(2):
        kills.kill(verb, number)
    assert kills.kills.total() + kills.ended.total() == 2


def test_a_killed_upgrade_happened_or_did_not(tmp_path: Path) -> None:
    steps = faults.count_upgrade(tmp_path / "whole")
    killed = [faults.kill_upgrade(tmp_path / f"{step}", step) for step in (1, steps // 2, steps)]
    assert all(killed)


def test_a_killed_init_is_run_again(tmp_path: Path) -> None:
    steps = faults.count_init(tmp_path / "whole")
    killed = [faults.kill_init(tmp_path / f"{step}", step) for step in (1, steps // 3, 2 * steps // 3, steps)]
    assert all(killed)


@pytest.mark.parametrize("verb", ["next", "ingest", "answer", "grow", "restore", "purge", "classes split"])
def test_a_killed_command_leaves_a_whole_campaign_on_postgresql(
    tmp_path: Path, verb: str, server: postgres.Server
) -> None:
    kills = faults.Kills(tmp_path, seed=1, url=server.create(f"kills_{verb.replace(' ', '_')}"))
    kills.begin()
    for number in range(3):
        kills.kill(verb, number)
    assert kills.kills.total() + kills.ended.total() == 3


def test_an_interrupted_ingest_continues_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults.write_pool(tmp_path)
    answers = faults.make_answers(1)
    monkeypatch.setattr(ingesting, "CHUNK", 20)
    with faults.begin(tmp_path) as campaign:
        apply, calls = ingesting.apply, []

        def stop(*given: object) -> object:
            calls.append(1)
            if len(calls) == 5:
                raise KeyboardInterrupt
            return apply(*given)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(ingesting, "apply", stop)
            with pytest.raises(KeyboardInterrupt):
                campaign.ingest(answers)
        before = campaign.status().annotators
        assert 80 <= sum(before.values()) < len(answers)
        done = campaign.ingest(answers)
        assert sum(done.counts.values()) == done.rows == len(answers)
        events = done.counts["new"] + done.counts["unsolicited"] + done.counts["corrected"]
        confirmed = done.counts["unchanged"]  # with a later time: kept, too
        assert sum(campaign.status().annotators.values()) == events + confirmed
    faults.check(tmp_path)


def test_a_dead_planner_is_removed_and_a_living_one_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults.write_pool(tmp_path)
    monkeypatch.setattr(planning, "CHUNK", 10)
    with faults.begin(tmp_path) as campaign:
        opened = threading.Event()
        real = planning._renew

        def slow(*given: object) -> None:
            opened.set()
            real(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(planning, "_renew", slow)
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(campaign.next, 60, strategy="random")
            opened.wait()
            second = pool.submit(campaign.next, 60, strategy="random")
            batches = [first.result(), second.result()]
        rows = [set(campaign.batch(number)["row"].tolist()) for number in batches]
        assert not rows[0] & rows[1]
        with monkeypatch.context() as patch:
            patch.setattr(planning, "_open_batch", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
            with pytest.raises(KeyboardInterrupt):
                campaign.next(30, strategy="random")
        dead = f"{planning.socket.gethostname()}:{find_dead_process()}"
        with campaign._database.begin() as connection:
            connection.exec_driver_sql("UPDATE batch SET planner = ? WHERE state = 'planning'", (dead,))
        assert len(campaign.batch(campaign.next(30, strategy="random"))["row"]) == 30
    faults.check(tmp_path)


def find_dead_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_many_processes_at_once(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    """Each reserves, ingests, claims and answers: no task twice, no batch that overlaps, no answer lost."""
    url = "" if kind == "sqlite" else request.getfixturevalue("server").create("many")
    faults.write_pool(tmp_path)
    given = {"classes": faults.CLASSES, "holdout": 60, "clusters": None, "database": url or None}
    Campaign.init(tmp_path / "c", tmp_path / "pool.csv", **given).close_files()
    names = [f"p{number}" for number in range(8)]
    command = [sys.executable, "-c", WORKER, str(tmp_path / "c"), url]
    running = [
        subprocess.Popen([*command, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for name in names
    ]
    ended = [process.communicate() for process in running]
    assert [error for process, (_, error) in zip(running, ended, strict=True) if process.returncode] == []
    answered = Counter(int(line.split()[0]) for out, _ in ended for line in out.splitlines())
    with Campaign.open(tmp_path / "c", database=url or None) as campaign:
        holdout = campaign.batch(1)
        # The ingested rows among the holdout are answered by all of them; nobody claims those twice.
        free = [task for task, row in zip(holdout["task"], holdout["row"], strict=True) if row % 10]
        assert {task: answered[task] for task in free} == dict.fromkeys(free, 1)
        batches = [one["id"] for one in campaign.status().batches if one["kind"] != "holdout"]
        rows = [row for number in batches for row in campaign.batch(number)["row"].tolist()]
        assert len(batches) == 8
        assert len(set(rows)) == len(rows) == 120
        labels = dict(zip(campaign.labels()["row"].tolist(), campaign.labels()["given"].tolist(), strict=True))
        assert all(labels[row] == 8 for row in range(0, 400, 10) if row not in holdout["row"].tolist())


def test_a_claim_beside_an_answer_brings_no_lease_back(tmp_path: Path, server: postgres.Server) -> None:
    """A page claims ahead while an answer is on its way: the answered task is not handed out again."""
    faults.write_pool(tmp_path)
    with faults.begin(tmp_path, server.create("ahead")) as campaign, ThreadPoolExecutor(1) as pool:
        done = campaign.claim("ana", 1)[0].task
        with campaign._database.begin() as connection:
            connection.execute(sa.text("UPDATE task SET given = 1, state = 3 WHERE id = :task"), {"task": done})
            connection.execute(sa.text("DELETE FROM lease WHERE task = :task"), {"task": done})
            ahead = pool.submit(campaign.claim, "ana", 3)
            time.sleep(0.3)  # so that it looks at leases before the end of this transaction
        assert done not in [one.task for one in ahead.result()]


def test_a_claim_that_was_overtaken_gets_other_tasks(
    tmp_path: Path, server: postgres.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a claim's first look and its locks somebody else takes what it saw."""
    faults.write_pool(tmp_path)
    slow = asking.FIND.replace("ORDER BY", "AND (SELECT pg_sleep(0.5)) IS NOT NULL ORDER BY")
    with faults.begin(tmp_path, server.create("overtaken")) as campaign, ThreadPoolExecutor(1) as pool:
        with monkeypatch.context() as patched:
            patched.setattr(asking, "FIND", slow)
            overtaken = pool.submit(campaign.claim, "ana", 3)
            time.sleep(0.2)  # so that it has begun to look
        first = [one.task for one in campaign.claim("ben", 3)]
        second = [one.task for one in overtaken.result()]
    assert len(first) == len(second) == 3
    assert not set(first) & set(second)
