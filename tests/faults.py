"""Commands on a campaign that are killed at random points of their work, and what must hold afterwards.

`VERBS` is the table of commands; a new one is added there. `init` and `upgrade`, which need campaigns of their own, are
in `ALONE`. `python tests/faults.py --times 200` kills so many of them, checks the campaign after each, and prints what
it did. Half of the kills come at a drawn step (a statement, a commit, a file that is opened, renamed or removed), so
that they do not depend on the speed of the machine; half at a drawn time.
"""

import argparse
import csv
import json
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from hedgerow import Campaign, CampaignError, InputError, store
from hedgerow.campaign import classes, exports, ingesting, planning, retiring, verdicts
from hedgerow.campaign import database as db
from hedgerow.campaign.answers import Answer

N, HOLDOUT = 400, 20
CLASSES = ["cat", "dog", "fox"]
FORMS = {"jsonl": ".jsonl", "csv": ".csv", "parquet": ".parquet", "label-studio": ".json"}
OLD = b"old\n"  # what is in a file that an export replaces
LAST_SECONDS = 0.3  # kills by time come within these; on an idle machine no command takes longer
FILES = frozenset({"open", "os.rename", "os.remove", "os.mkdir"})
SERVER = multiprocessing.get_context("forkserver")  # forks a process that has imported everything already
SERVER.set_forkserver_preload(["hedgerow.campaign.campaign"])


def write_pool(folder: Path) -> None:
    write_rows(folder / "pool.csv", range(N))
    np.save(folder / "embeddings.npy", draw_embeddings(0, N))


def write_rows(path: Path, rows: range) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *((f"r{row}", f"text {row}") for row in rows)])


def draw_embeddings(seed: int, n: int) -> Any:
    return np.random.default_rng(seed).normal(size=(n, 4)).astype(np.float32)


def begin(folder: Path, url: str | None = None) -> Campaign:
    given: dict[str, Any] = {"classes": CLASSES, "holdout": HOLDOUT, "embeddings": folder / "embeddings.npy"}
    return Campaign.init(folder / "campaign", folder / "pool.csv", **given, database=url)


def make_answers(seed: int) -> list[Answer]:
    """Three hundred answers that agree with each other, whoever gives them."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, N, 300).tolist()
    return [Answer(f"r{row}", "answer", CLASSES[row % 3], f"p{at % 3}", at + 1) for at, row in enumerate(rows)]


# The verbs.


@dataclass(frozen=True)
class Work:
    """What a verb is called with. say: an acknowledgment that the parent process reads."""

    campaign: Campaign
    folder: Path
    seed: int
    say: Callable[[Any], None] = lambda _: None

    def answer_all(self, person: str, n: int, *, expert: bool = False) -> int:
        """Claim n tasks and answer them rightly; each answer is acknowledged by its key."""
        asked = self.campaign.claim(person, n, expert=expert)
        for one in asked:
            key, kind = f"{self.seed}-{person}-{one.task}", "adjudicate" if expert else "answer"
            self.campaign.answer(person, one.task, CLASSES[one.row % 3], kind=kind, key=key)
            self.say(key)
        return len(asked)

    def find_open(self) -> int:
        """The newest open batch besides the holdout and gold questions; a new one if there is none."""
        batches = self.campaign.status().batches
        found = [one["id"] for one in batches if one["state"] == "open" and one["kind"] not in ("holdout", "gold")]
        return int(found[-1]) if found else self.campaign.next(20, strategy="random", seed=self.seed, allow_short=True)


@dataclass(frozen=True)
class Verb:
    """A command. run: calls it. repeat: what a user does after it was killed, and what must hold then; by default the
    command again, which must work or say in an error of ours why there is nothing to do. prepare: what comes before it,
    and is not killed."""

    run: Callable[[Work], Any]
    repeat: Callable[[Work], Any] | None = None
    prepare: Callable[[Work], Any] | None = None


def next_batch(work: Work) -> None:
    work.campaign.next(60, strategy="random", seed=work.seed, allow_short=True)


def ingest(work: Work) -> None:
    work.campaign.ingest(make_answers(work.seed))


def ingest_again(work: Work) -> None:
    """The same file again: it continues, or was complete; then every answer of it is counted once."""
    answers = make_answers(work.seed)
    try:
        done = work.campaign.ingest(answers)
    except CampaignError as error:
        assert "was ingested before" in str(error)  # noqa: PT017 - it was complete
    else:
        assert sum(done.counts.values()) == done.rows == len(answers)
    newest = [one for one in work.campaign.status().sources if not one["retracted"]][-1]
    assert newest["complete"]
    assert sum(newest["summary"].values()) == len(answers)


def dispute(work: Work) -> None:
    """Six tasks about which two new people differ, in one file: a retraction takes back both sides."""
    work.campaign.close(work.find_open())
    batch = work.campaign.batch(work.campaign.next(6, strategy="random", seed=work.seed, answers=2, allow_short=True))
    said = [(id_, CLASSES[row % 3], CLASSES[(row + 1) % 3]) for id_, row in zip(batch["id"], batch["row"], strict=True)]
    right = [Answer(id_, "answer", label, f"right-{work.seed}") for id_, label, _ in said]
    wrong = [Answer(id_, "answer", label, f"wrong-{work.seed}") for id_, _, label in said]
    work.campaign.ingest(right + wrong)


def adjudicate_again(work: Work) -> None:
    """After it nothing is disputed, and what an expert decided is what counts."""
    while work.answer_all("judge", 20, expert=True):
        pass
    assert len(work.campaign.disputed()["id"]) == 0
    with work.campaign._database.read() as connection:
        decided = sa.text(
            "SELECT DISTINCT e.row FROM event e JOIN annotator a ON a.id = e.annotator AND a.name = 'judge'"
        )
        rows = set(connection.execute(decided).scalars())
        gone = set(connection.execute(sa.text("SELECT row FROM retired")).scalars())
    labels = work.campaign.labels()
    how = dict(zip(labels["row"].tolist(), labels["how"], strict=True))
    assert {how.get(row) for row in rows - gone} <= {"adjudicated"}


def ask_gold(work: Work) -> None:
    work.campaign.set_gold(share=0.3 + work.seed % 10 / 100)
    work.answer_all("gus", 10)


def ask_gold_again(work: Work) -> None:
    ask_gold(work)
    assert work.campaign.gold().share == 0.3 + work.seed % 10 / 100


def relabel_person(work: Work) -> None:
    work.campaign.relabel_annotator("p0")


def relabel_person_again(work: Work) -> None:
    """Afterwards all that this person alone has settled waits for somebody else: there is nothing left to ask."""
    refusals = []
    for _ in range(2):
        try:
            relabel_person(work)
        except CampaignError as error:
            refusals.append(str(error))
    assert refusals
    assert "nothing" in refusals[-1]


def budget(work: Work) -> None:
    if work.seed % 2:
        work.campaign.set_budget(labels=100_000 + work.seed)
    else:
        work.campaign.remove_budget()


def predict(work: Work) -> None:
    status = work.campaign.status()
    chances = np.random.default_rng(work.seed).dirichlet(np.ones(len(status.classes)), status.rows)
    work.campaign.predict(chances, name=f"m{work.seed}")


def retract(work: Work) -> None:
    sources = [one["id"] for one in work.campaign.status().sources if not one["retracted"]]
    if sources:
        work.campaign.retract(source=sources[-1])


def grow(work: Work) -> None:
    """Five more rows; their numbers follow from how many there are, so that the same file is given again."""
    path = work.folder / f"more-{work.seed}.csv"
    if not path.exists():
        n = work.campaign.status().rows
        np.save(path.with_suffix(".npy"), draw_embeddings(work.seed, 5))
        write_rows(path.with_suffix(".part"), range(n, n + 5))
        path.with_suffix(".part").rename(path)
    work.campaign.grow(path, embeddings=path.with_suffix(".npy"), holdout=1, seed=work.seed)


def grow_again(work: Work) -> None:
    if not (work.folder / f"more-{work.seed}.csv").exists():
        return  # killed before it began
    before = work.campaign.status().rows
    try:
        grow(work)
    except (CampaignError, InputError):
        assert work.campaign.status().rows == before  # it was done already


def list_gone(work: Work) -> Path:
    """A file with three ids of rows that nobody has answered; the same again."""
    path = work.folder / f"gone-{work.seed}.txt"
    if not path.exists():
        labeled = set(work.campaign.labels()["row"].tolist())
        free = [row for row in range(work.campaign.status().rows) if row not in labeled]
        path.with_suffix(".part").write_text("".join(f"r{row}\n" for row in free[-3:]))
        path.with_suffix(".part").rename(path)
    return path


def retire_some(work: Work) -> None:
    work.campaign.retire(list_answered(work))


def list_answered(work: Work) -> Path:
    """A file with five ids, most of them of rows that somebody answered; the same again."""
    path = work.folder / f"back-{work.seed}.txt"
    if not path.exists():
        rows = [*work.campaign.labels()["row"].tolist()[:4], N - 1]
        ids, _ = work.campaign._holdings.take(np.array(rows, np.int64))
        path.with_suffix(".part").write_text("".join(f"{one}\n" for one in ids if not one.startswith("purged:")))
        path.with_suffix(".part").rename(path)
    return path


def restore_again(work: Work) -> None:
    """Afterwards none of these rows is retired, and nothing is left to restore."""
    listed = list_answered(work)
    work.campaign.restore(listed)
    assert work.campaign.restore(listed).rows == 0
    rows = work.campaign._holdings.match(np.array(listed.read_text().split(), np.object_))
    with work.campaign._database.read() as connection:
        assert not set(rows.tolist()) & set(connection.execute(sa.text("SELECT row FROM retired")).scalars())


def purge_again(work: Work) -> None:
    """Opening the campaign has finished it, or the command does: then no file has these ids any more."""
    gone = list_gone(work)
    try:
        work.campaign.purge(gone)
    except InputError as error:
        assert "purged already" in str(error)  # noqa: PT017 - it was done already
    ids = np.array(gone.read_text().split(), np.object_)
    assert (work.campaign._holdings.match(ids) < 0).all()


def find_class(work: Work, name: str) -> str | None:
    """The state of a class; None if there is none of this name."""
    return next((one.state for one in work.campaign.classes() if one.name == name), None)


def add_class(work: Work) -> None:
    """A new class; what former commands left is merged, so that the classes do not become more and more."""
    for one in work.campaign.classes():
        if one.state == "in use" and one.name not in CLASSES:
            work.campaign.merge_classes(one.name, "cat")
    work.campaign.add_class(f"cat-{work.seed}")


def answer_class(work: Work) -> None:
    """A new class that somebody named in answers about rows that have no others."""
    add_class(work)
    labeled = set(work.campaign.labels()["row"].tolist())
    rows = [row for row in range(0, N, 3) if row not in labeled][-12:] or list(range(0, 36, 3))
    work.campaign.ingest([Answer(f"r{row}", "answer", f"cat-{work.seed}", "eva") for row in rows])


def add_again(work: Work) -> None:
    if find_class(work, f"cat-{work.seed}") is None:
        add_class(work)
    assert find_class(work, f"cat-{work.seed}") == "in use"


def merge(work: Work) -> None:
    work.campaign.merge_classes(f"cat-{work.seed}", "cat")


def merge_again(work: Work) -> None:
    name = f"cat-{work.seed}"
    if find_class(work, name) == "in use":
        merge(work)
    assert find_class(work, name) == "merged into cat"
    assert name not in set(work.campaign.labels()["label"].tolist())


def split(work: Work) -> None:
    name = f"cat-{work.seed}"
    work.campaign.split_class(name, [f"{name}-a", f"{name}-b"])


def split_again(work: Work) -> None:
    name = f"cat-{work.seed}"
    if find_class(work, name) == "in use":
        split(work)
    assert str(find_class(work, name)).startswith("split into")
    assert [find_class(work, f"{name}-{part}") for part in "ab"] == ["in use", "in use"]
    assert name not in set(work.campaign.labels()["label"].tolist())


def answer_and_split(work: Work) -> None:
    answer_class(work)
    split(work)


def relabel_class_again(work: Work) -> None:
    """Afterwards everything that the split left open waits for people, so that there is nothing left to ask."""
    refusals = []
    for _ in range(2):
        try:
            work.campaign.relabel(f"cat-{work.seed}")
        except CampaignError as error:
            refusals.append(str(error))
    assert refusals
    assert "nothing" in refusals[-1]


def rename(work: Work) -> None:
    """To another name and back."""
    work.campaign.rename_class("fox", f"fox-{work.seed}")
    work.campaign.rename_class(f"fox-{work.seed}", "fox")


def rename_again(work: Work) -> None:
    if find_class(work, "fox") is None:
        work.campaign.rename_class(f"fox-{work.seed}", "fox")
    names = [one.name for one in work.campaign.classes()]
    assert names.count("fox") == 1
    assert f"fox-{work.seed}" not in names


def spread(work: Work) -> None:
    """With rules that the clusters here fulfill."""
    work.campaign.spread(purity=0.51, least=1, max_error=1, unmeasured=True)


def list_current(work: Work) -> list[int | None]:
    return [one.run for one in work.campaign.spreads() if one.state == "current"]


def try_to_spread(work: Work) -> None:
    """Where every cluster is labeled by now, there is nothing to carry."""
    try:
        spread(work)
    except CampaignError as error:
        assert "nothing to spread" in str(error)  # noqa: PT017


def spread_again(work: Work) -> None:
    try_to_spread(work)
    assert len(list_current(work)) <= 1


def undo_spread(work: Work) -> None:
    for run in list_current(work):
        assert run is not None
        work.campaign.undo_spread(run)


def undo_spread_again(work: Work) -> None:
    """All runs are undone one after the other: then no label is one that was carried over."""
    while list_current(work):
        undo_spread(work)
    try:
        work.campaign.labels(spread=True)
    except CampaignError as error:
        assert "no labels were spread" in str(error)  # noqa: PT017
    else:
        raise AssertionError("labels of a run that was undone are still in use")


def look(work: Work) -> None:
    """Everything that only reads."""
    campaign = work.campaign
    campaign.status(), campaign.people(), campaign.disputed(), campaign.gold(), campaign.budget(), campaign.log(5)
    campaign.curve(), campaign.stop_advice(), campaign.spreads(), campaign.classes(), campaign.batch(1)


# What writes files for others.


def choose_form(work: Work, what: str) -> str:
    """Another form with each number; votes are no tasks for Label Studio."""
    forms = [form for form in FORMS if what != "votes" or form != "label-studio"]
    return forms[work.seed % len(forms)]


def name_target(work: Work, what: str) -> Path:
    """The file of an export."""
    return work.folder / f"{what}-{work.seed}{FORMS[choose_form(work, what)]}"


def write_file(what: str) -> Callable[[Work], Any]:
    """Write an export in the place of an older one."""

    def write(work: Work) -> None:
        target, to = name_target(work, what), choose_form(work, what)
        if what == "batch":
            work.campaign.export(1, target, to=to, force=True)
        elif what == "labels":
            work.campaign.export_labels(target, to=to, split="all", content=True, force=True)
        elif what == "votes":
            work.campaign.export_votes(target, to=to, split="all", force=True)
        else:
            work.campaign.report(target, force=True)

    return write


def check_file(what: str) -> Callable[[Work], Any]:
    """What a killed export left under the name of its file is the old file or the whole new one, and nothing beside it
    once it was written again."""

    def repeat(work: Work) -> None:
        target = name_target(work, what)
        left = target.read_bytes()
        write_file(what)(work)
        whole = target.read_bytes()
        if what == "report":  # has the time in it
            assert left == OLD or left.rstrip().endswith(b"</html>")
        else:
            assert left in (OLD, whole)
        assert len(whole) > len(OLD)
        assert not [path for path in work.folder.iterdir() if store.is_temporary(path, target)]

    return repeat


def make_export(what: str) -> Verb:
    return Verb(write_file(what), check_file(what), lambda work: name_target(work, what).write_bytes(OLD))


VERBS: dict[str, Verb] = {
    "next": Verb(next_batch),
    "ingest": Verb(ingest, ingest_again),
    "answer": Verb(lambda work: work.answer_all("ana", 20)),
    "adjudicate": Verb(lambda work: work.answer_all("judge", 20, expert=True), adjudicate_again, dispute),
    "gold": Verb(ask_gold, ask_gold_again),
    "claim": Verb(lambda work: work.campaign.claim("ben", 30)),
    "release": Verb(lambda work: work.campaign.release("ben")),
    "predict": Verb(predict),
    "retract": Verb(retract),
    "close": Verb(lambda work: work.campaign.close(work.find_open())),
    "undo": Verb(lambda work: work.campaign.undo(work.find_open())),
    "alias": Verb(lambda work: work.campaign.alias("csv", f"x{work.seed}", "ana")),
    "budget": Verb(budget),
    "grow": Verb(grow, grow_again),
    "retire": Verb(lambda work: work.campaign.retire(list_gone(work))),
    "restore": Verb(lambda work: work.campaign.restore(list_answered(work)), restore_again, retire_some),
    "purge": Verb(lambda work: work.campaign.purge(list_gone(work)), purge_again),
    "relabel": Verb(relabel_person, relabel_person_again),
    "classes add": Verb(add_class, add_again),
    "classes rename": Verb(rename, rename_again),
    "classes merge": Verb(merge, merge_again, answer_class),
    "classes split": Verb(split, split_again, answer_class),
    "classes relabel": Verb(
        lambda work: work.campaign.relabel(f"cat-{work.seed}"), relabel_class_again, answer_and_split
    ),
    "learn": Verb(lambda work: work.campaign.learn(name=f"learned-{work.seed}")),
    "spread": Verb(spread, spread_again),
    "undo spread": Verb(undo_spread, undo_spread_again, try_to_spread),
    "export": make_export("batch"),
    "labels": make_export("labels"),
    "votes": make_export("votes"),
    "report": make_export("report"),
    "look": Verb(look),
    "open": Verb(lambda work: work.campaign.status()),
}


# Killing.


class Countdown:
    """Kills its own process at a step of its work, like a power cut; counts the steps if there is none."""

    def __init__(self, folder: Path, step: int | None) -> None:
        self.folder, self.step, self.steps = str(folder), step, 0
        sa.event.listen(sa.Engine, "before_cursor_execute", lambda *_: self.count())
        sa.event.listen(sa.Engine, "commit", lambda *_: self.count())
        sys.addaudithook(self.hear)

    def hear(self, name: str, given: tuple[Any, ...]) -> None:
        if name in FILES and str(given[0]).startswith(self.folder):
            self.count()

    def count(self) -> None:
        self.steps += 1
        if self.steps == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Job:
    """A verb to be killed. step: where, None for a time. init and upgrade have campaigns of their own."""

    folder: Path
    verb: str
    seed: int
    step: int | None = None
    url: str | None = None


def run(job: Job, sending: Any) -> None:
    """One verb in a process of its own, in small chunks, so that there are many points at which it can be killed."""
    planning.CHUNK, ingesting.CHUNK, retiring.CHUNK, classes.CHUNK, exports.CHUNK = 10, 20, 2, 10, 5
    countdown = Countdown(job.folder, job.step)
    sending.send(("started", None))
    try:
        if job.verb == "init":
            begin(job.folder, job.url).close_files()
        elif job.verb == "upgrade":
            db.VERSIONS = job.folder / "versions"
            Campaign.upgrade(job.folder / "campaign")
        else:
            with Campaign.open(job.folder / "campaign", database=job.url) as campaign:
                VERBS[job.verb].run(Work(campaign, job.folder, job.seed, lambda what: sending.send(("said", what))))
    except (CampaignError, InputError) as error:
        sending.send(("refused", str(error)))
    sending.send(("ended", countdown.steps))


@dataclass
class Outcome:
    """What a job did. steps: how many it has, if it was not killed."""

    killed: bool
    said: list[Any] = field(default_factory=list)
    steps: int | None = None
    refused: str | None = None


def kill(job: Job, delay: float | None = None) -> Outcome:
    """Run a job and kill it at its step, or `delay` seconds after it began."""
    receiving, sending = SERVER.Pipe(duplex=False)
    process = SERVER.Process(target=run, args=(job, sending))
    process.start()
    sending.close()
    found = Outcome(killed=False)
    try:
        assert receiving.recv() == ("started", None)
        if delay is not None:
            time.sleep(delay)
            process.kill()
        while True:
            kind, what = receiving.recv()
            if kind == "said":
                found.said.append(what)
            else:
                found.steps, found.refused = (what, found.refused) if kind == "ended" else (None, what)
    except EOFError:
        process.join()
    found.killed = process.exitcode == -signal.SIGKILL
    assert found.killed or process.exitcode == 0, f"{job.verb} ended with {process.exitcode}"
    return found


# Checking.


def check(folder: Path, url: str | None = None) -> None:
    """What holds after every kill, once the campaign was opened again."""
    with Campaign.open(folder / "campaign", database=url, verify=True) as campaign:
        status, labels = campaign.status(), campaign.labels()
        with campaign._database.read() as connection:
            check_tables(connection, campaign._database.is_sqlite)
            paths = set(connection.execute(sa.text("SELECT path FROM artifact")).scalars())
        check_cache(campaign)
    held = {path.name for path in (folder / "campaign" / "artifacts").iterdir()} - {".lock"}
    beside = {name for name in held if name.endswith(".centroids.npz")}
    assert held - beside == {path for path in paths if not path.startswith("/")}
    named = zip(labels["row"].tolist(), labels["label"].tolist(), strict=True)
    assert all(label.partition("-")[0] == CLASSES[row % 3] for row, label in named if label)
    assert sum(status.labels.values()) == len(labels["row"])


def check_tables(connection: sa.Connection, is_sqlite: bool) -> None:
    def count(sql: str) -> Any:
        return connection.execute(sa.text(sql)).all()

    if is_sqlite:
        assert count("PRAGMA integrity_check") == [("ok",)]
        assert count("PRAGMA foreign_key_check") == []
    assert count('SELECT "row", "class" FROM task WHERE state < 3 GROUP BY "row", "class" HAVING count(*) > 1') == []
    assert count("SELECT id FROM batch WHERE state = 'planning'") == []
    assert count("SELECT b.id FROM batch b WHERE b.size <> (SELECT count(*) FROM task t WHERE t.batch = b.id)") == []
    left = "SELECT t.id FROM task t JOIN batch b ON b.id = t.batch WHERE b.state = 'closed' AND t.state < 3"
    assert count(left) == []
    assert count("SELECT key FROM meta WHERE key LIKE 'rebuild:%' OR key LIKE 'recode:%'") == []
    half = "SELECT id FROM source WHERE NOT complete AND retracted_at IS NULL"
    assert count("SELECT row FROM retired WHERE purge = 'wanted'") == [] or count(half)
    first = count("SELECT first_row, n_rows FROM segment ORDER BY first_row")
    assert [row[0] for row in first] == [0, *np.cumsum([row[1] for row in first])[:-1].tolist()]
    gold = "FROM task t JOIN batch b ON b.id = t.batch AND b.kind = 'gold'"
    assert count(f"SELECT t.id {gold} WHERE t.state <> 3") == []
    assert count(f'SELECT t."row" {gold} GROUP BY t."row", t."class" HAVING count(*) > 1') == []
    # The places of an expert's tasks are not counted: no gold questions are mixed in.
    beyond = "SELECT l.task FROM lease l JOIN annotator a ON a.id = l.annotator WHERE l.place >= a.asked"
    assert count(f"{beyond} AND a.name <> 'judge'") == []
    assert count("SELECT count(*) FROM spread WHERE file NOT IN (SELECT id FROM artifact)") == [(0,)]


class _RolledBackError(Exception):
    """Leaves a transaction without its changes."""


def check_cache(campaign: Campaign) -> None:
    """Verdicts and the states of tasks are what the events say."""
    database = campaign._database
    stored = [
        sa.text('SELECT "row", "class", value, how, support, given FROM verdict ORDER BY "row", "class"'),
        sa.text("SELECT id, given, state FROM task ORDER BY id"),
    ]
    try:
        with database.write() as connection:
            before = [connection.execute(query).all() for query in stored]
            verdicts.refresh(database, connection, np.arange(campaign.status().rows))
            assert [connection.execute(query).all() for query in stored] == before
            raise _RolledBackError
    except _RolledBackError:
        pass


@dataclass
class Kills:
    """A campaign whose commands are killed again and again."""

    folder: Path
    seed: int
    url: str | None = None
    kills: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)  # before the kill came
    refused: Counter[str] = field(default_factory=Counter)  # by us: there was nothing to do
    acknowledged: set[str] = field(default_factory=set)  # the keys of answers
    steps: dict[str, int] = field(default_factory=dict)

    def begin(self) -> None:
        write_pool(self.folder)
        begin(self.folder, self.url).close_files()

    def kill(self, verb: str, number: int) -> None:
        """Kill a verb once, check, do what a user does then, and check again."""
        if verb not in self.steps:
            self.prepare(verb, number + 500_000)
            self.run(Job(self.folder, verb, number + 500_000, None, self.url), None)
        self.prepare(verb, number)
        chance = random.Random(self.seed * 1_000_003 + number)
        by_time = chance.random() < 0.5
        step = None if by_time else chance.randint(1, self.steps[verb])
        job = Job(self.folder, verb, number, step, self.url)
        found = self.run(job, chance.random() * LAST_SECONDS if by_time else None)
        (self.kills if found.killed else self.ended)[verb] += 1
        check(self.folder, self.url)
        if found.killed:
            self.repeat(verb, number)
            check(self.folder, self.url)
        self.check_answers(verb)

    def prepare(self, verb: str, number: int) -> None:
        prepare = VERBS[verb].prepare
        if prepare is not None:
            with Campaign.open(self.folder / "campaign", database=self.url) as campaign:
                prepare(Work(campaign, self.folder, number))

    def check_answers(self, verb: str) -> None:
        """Every answer that was acknowledged is there, and so is a label for what somebody answered."""
        with Campaign.open(self.folder / "campaign", database=self.url) as campaign:
            labeled = set(campaign.labels()["row"].tolist())
            with campaign._database.read() as connection:
                held = set(
                    connection.execute(sa.text("SELECT external FROM event WHERE external IS NOT NULL")).scalars()
                )
                answered = set(connection.execute(sa.text("SELECT row FROM event WHERE channel = 'desk'")).scalars())
                labeled |= set(connection.execute(sa.text("SELECT row FROM retired")).scalars())
        assert self.acknowledged <= held, f"lost after {verb}: {self.acknowledged - held}"
        assert answered <= labeled, f"answered and without a label after {verb}: {answered - labeled}"

    def run(self, job: Job, delay: float | None) -> Outcome:
        """Run a job, perhaps to its end; its steps are noted then."""
        found = kill(job, delay)
        if found.steps:
            self.steps[job.verb] = max(found.steps, self.steps.get(job.verb, 0))
        self.acknowledged |= set(found.said)
        self.refused[job.verb] += found.refused is not None
        return found

    def repeat(self, verb: str, number: int) -> None:
        with Campaign.open(self.folder / "campaign", database=self.url) as campaign:
            work = Work(campaign, self.folder, number, self.acknowledged.add)
            again = VERBS[verb].repeat
            if again is not None:
                again(work)
                return
            try:
                VERBS[verb].run(work)
            except (CampaignError, InputError) as error:
                assert str(error)  # noqa: PT017 - it was done already, or there is nothing to do


def count_init(folder: Path, url: str | None = None) -> int:
    """The number of steps of an init."""
    folder.mkdir()
    write_pool(folder)
    steps = kill(Job(folder, "init", 0, None, url)).steps
    assert steps is not None
    return steps


def kill_init(folder: Path, step: int) -> bool:
    """Kill one init at a step, run it again, and check; returns whether it was killed."""
    folder.mkdir()
    write_pool(folder)
    found = kill(Job(folder, "init", 0, step))
    try:
        begin(folder).close_files()
    except CampaignError as error:
        assert "holds a campaign already" in str(error)  # noqa: PT017 - the kill came after its end
    check(folder)
    return found.killed


LATER = """
from alembic import op
import sqlalchemy as sa

revision = "later"
down_revision = "{newest}"


def upgrade():
    op.add_column("event", sa.Column("later", sa.Integer))
    op.execute("CREATE TABLE later AS SELECT id, later FROM event")
    op.execute("CREATE INDEX later_id ON later (id)")
"""


def prepare_upgrade(folder: Path) -> None:
    """A campaign with answers, and the migrations of a later release."""
    folder.mkdir()
    write_pool(folder)
    with begin(folder) as campaign:
        campaign.ingest(make_answers(5))
    shutil.copytree(db.VERSIONS, folder / "versions", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "later.py").write_text(LATER.replace("{newest}", db.newest()))


def count_upgrade(folder: Path) -> int:
    """The number of steps of an upgrade."""
    prepare_upgrade(folder)
    steps = kill(Job(folder, "upgrade", 0)).steps
    assert steps is not None
    return steps


def kill_upgrade(folder: Path, step: int) -> bool:
    """Kill one upgrade at a step: it happened whole or not at all, and every copy that it made is whole."""
    prepare_upgrade(folder)
    found = kill(Job(folder, "upgrade", 0, step))
    versions, db.VERSIONS = db.VERSIONS, folder / "versions"
    try:
        Campaign.upgrade(folder / "campaign")
        check(folder)
        with Campaign.open(folder / "campaign") as campaign:
            assert [one.command for one in campaign.log()].count("upgrade") == 1
            assert len(campaign.labels()["row"]) > 100
    finally:
        db.VERSIONS = versions
    check_copies(folder / "campaign")
    return found.killed


def check_copies(folder: Path) -> None:
    """Copies of the database from before an upgrade are whole, and nothing else is left."""
    copies = sorted(folder.glob("campaign-*"))
    assert copies
    for copy in copies:
        with closing(sqlite3.connect(copy)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(db.newest(),)]
            assert connection.execute("SELECT count(*) FROM event").fetchone() > (100,)
    known = {"artifacts", "campaign.db", "campaign.json", *(copy.name for copy in copies)}
    assert {path.name for path in folder.iterdir()} <= known | {"campaign.db-wal", "campaign.db-shm", "maps"}


ALONE: dict[str, tuple[Callable[[Path], int], Callable[[Path, int], bool]]] = {
    "init": (count_init, kill_init),
    "upgrade": (count_upgrade, kill_upgrade),
}


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--times", type=int, default=200)
    given.add_argument("--seed", type=int, default=0)
    options = given.parse_args()
    chance = random.Random(options.seed)
    names = [*ALONE, *VERBS]
    alone: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as made:
        kills = Kills(Path(made) / "verbs", options.seed)
        kills.folder.mkdir()
        kills.begin()
        steps = {verb: count(Path(made) / verb) for verb, (count, _) in ALONE.items()}
        number = 0
        while kills.kills.total() + alone.total() < options.times:
            verb, number = names[number % len(names)], number + 1
            if verb in ALONE:
                alone[verb] += ALONE[verb][1](Path(made) / f"{verb}-{number}", chance.randint(1, steps[verb]))
            else:
                kills.kill(verb, number)
    done = {**alone, **kills.kills}
    found = {"kills": sum(done.values()), "by verb": done, "ended before": kills.ended, "refused": +kills.refused}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
