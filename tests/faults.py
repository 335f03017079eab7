"""Commands on a campaign that are killed at random points of their work, and what must hold afterwards.

`VERBS` is the table of commands; a new one is added there. `python tests/faults.py --times 200` kills so many of them,
checks the campaign after each, and prints what it did. Half of the kills come at a drawn step (a statement, a commit, a
file that is opened, renamed or removed), so that they do not depend on the speed of the machine; half at a drawn time.
"""

import argparse
import csv
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from hedgerow import Campaign, CampaignError, InputError
from hedgerow.campaign import classes, ingesting, planning, retiring, verdicts
from hedgerow.campaign.answers import Answer

N, HOLDOUT = 400, 20
CLASSES = ["cat", "dog", "fox"]
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

    def find_open(self) -> int:
        """The newest open batch besides the holdout; a new one if there is none."""
        batches = self.campaign.status().batches
        found = [one["id"] for one in batches if one["state"] == "open" and one["kind"] != "holdout"]
        return int(found[-1]) if found else self.campaign.next(20, strategy="random", seed=self.seed, allow_short=True)


@dataclass(frozen=True)
class Verb:
    """A command. run: calls it. repeat: what a user does after it was killed, and what must hold then; by default the
    command again, which must work or say in an error of ours why there is nothing to do."""

    run: Callable[[Work], Any]
    repeat: Callable[[Work], Any] | None = None


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


def answer(work: Work) -> None:
    for one in work.campaign.claim("ana", 20):
        work.campaign.answer("ana", one.task, CLASSES[one.row % 3], key=f"{work.seed}-{one.task}")
        work.say(one.row)


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


def purge_again(work: Work) -> None:
    """Opening the campaign has finished it, or the command does: then no file has these ids any more."""
    gone = list_gone(work)
    try:
        work.campaign.purge(gone)
    except InputError as error:
        assert "purged already" in str(error)  # noqa: PT017 - it was done already
    ids = np.array(gone.read_text().split(), np.object_)
    assert (work.campaign._holdings.match(ids) < 0).all()


def change_classes(work: Work) -> None:
    """A class is added, answered, split, and its parts merged with cat: each step unless it was done before."""
    name = f"cat-{work.seed}"
    parts = [f"{name}-a", f"{name}-b"]
    there = {one.name: one.state for one in work.campaign.classes()}
    if name not in there:
        work.campaign.add_class(name)
    if there.get(name, "in use") == "in use":
        answers = [Answer(f"r{row}", "answer", name, "eva") for row in range(0, 90, 3)]
        work.campaign.ingest(answers, again=True)
        work.campaign.split_class(name, parts)
    for part in parts:
        if there.get(part, "in use") == "in use":
            work.campaign.ingest([Answer(f"r{row}", "answer", part, "eva") for row in range(0, 60, 3)], again=True)
            work.campaign.merge_classes(part, "cat")


def change_classes_again(work: Work) -> None:
    change_classes(work)
    assert work.campaign.status().classes == tuple(CLASSES)


VERBS: dict[str, Verb] = {
    "next": Verb(next_batch),
    "ingest": Verb(ingest, ingest_again),
    "answer": Verb(answer),
    "claim": Verb(lambda work: work.campaign.claim("ben", 30)),
    "release": Verb(lambda work: work.campaign.release("ben")),
    "predict": Verb(predict),
    "retract": Verb(retract),
    "close": Verb(lambda work: work.campaign.close(work.find_open())),
    "undo": Verb(lambda work: work.campaign.undo(work.find_open())),
    "alias": Verb(lambda work: work.campaign.alias("csv", f"x{work.seed}", "ana")),
    "budget": Verb(lambda work: work.campaign.set_budget(labels=100_000 + work.seed)),
    "grow": Verb(grow, grow_again),
    "retire": Verb(lambda work: work.campaign.retire(list_gone(work))),
    "purge": Verb(lambda work: work.campaign.purge(list_gone(work)), purge_again),
    "classes": Verb(change_classes, change_classes_again),
    "learn": Verb(lambda work: work.campaign.learn(name=f"learned-{work.seed}")),
    "spread": Verb(lambda work: work.campaign.spread(unmeasured=True)),
    "export": Verb(lambda work: work.campaign.export(1, work.folder / f"batch-{work.seed}.jsonl")),
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
    """A verb to be killed. step: where, None for a time; init is a verb of its own, because there is no campaign."""

    folder: Path
    verb: str
    seed: int
    step: int | None = None
    url: str | None = None


def run(job: Job, sending: Any) -> None:
    """One verb in a process of its own, in small chunks, so that there are many points at which it can be killed."""
    planning.CHUNK, ingesting.CHUNK, retiring.CHUNK, classes.CHUNK = 10, 20, 2, 10
    countdown = Countdown(job.folder, job.step)
    sending.send(("started", None))
    try:
        if job.verb == "init":
            begin(job.folder, job.url).close_files()
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
    acknowledged: set[int] = field(default_factory=set)
    steps: dict[str, int] = field(default_factory=dict)

    def begin(self) -> None:
        write_pool(self.folder)
        begin(self.folder, self.url).close_files()

    def kill(self, verb: str, number: int) -> None:
        """Kill a verb once, check, do what a user does then, and check again."""
        if verb not in self.steps:
            self.run(Job(self.folder, verb, number + 500_000, None, self.url), None)
        chance = random.Random(self.seed * 1_000_003 + number)
        by_time = chance.random() < 0.5
        step = None if by_time else chance.randint(1, self.steps[verb])
        job = Job(self.folder, verb, number, step, self.url)
        found = self.run(job, chance.random() * LAST_SECONDS if by_time else None)
        (self.kills if found.killed else self.ended)[verb] += 1
        check(self.folder, self.url)
        if found.killed:
            self.repeat(verb, number)
        with Campaign.open(self.folder / "campaign", database=self.url) as campaign:
            labeled = set(campaign.labels()["row"].tolist())
            with campaign._database.read() as connection:
                labeled |= set(connection.execute(sa.text("SELECT row FROM retired")).scalars())
        assert self.acknowledged <= labeled, f"lost after {verb}: {self.acknowledged - labeled}"

    def run(self, job: Job, delay: float | None) -> Outcome:
        """Run a job, perhaps to its end; its steps are noted then."""
        found = kill(job, delay)
        if found.steps:
            self.steps[job.verb] = max(found.steps, self.steps.get(job.verb, 0))
        self.acknowledged |= set(found.said)
        return found

    def repeat(self, verb: str, number: int) -> None:
        with Campaign.open(self.folder / "campaign", database=self.url) as campaign:
            work = Work(campaign, self.folder, number)
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


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--times", type=int, default=200)
    given.add_argument("--seed", type=int, default=0)
    options = given.parse_args()
    chance = random.Random(options.seed)
    names = ["init", *VERBS]
    inits = 0
    with tempfile.TemporaryDirectory() as made:
        kills = Kills(Path(made) / "verbs", options.seed)
        kills.folder.mkdir()
        kills.begin()
        number, steps = 0, count_init(Path(made) / "init")
        while kills.kills.total() + inits < options.times:
            verb, number = names[number % len(names)], number + 1
            if verb == "init":
                inits += kill_init(Path(made) / f"init-{number}", chance.randint(1, steps))
            else:
                kills.kill(verb, number)
    done = {"init": inits, **kills.kills}
    sys.stdout.write(json.dumps({"kills": sum(done.values()), "by verb": done, "ended before": kills.ended}) + "\n")


if __name__ == "__main__":
    main()
