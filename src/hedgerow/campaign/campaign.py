"""`Campaign`: a folder with a pool and all that people said about it. Its verbs are those of `hedgerow campaign`.

    init -> next -> claim and answer, or export and ingest -> learn or predict -> next ...

Each verb can be interrupted at any point: opening the campaign again finishes or removes what was begun, and the verb
can be run again. Everything long happens in the modules named like the verbs; here they meet the log.
"""

import getpass
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TextIO

import numpy as np
import sqlalchemy as sa

from hedgerow import checks, store
from hedgerow.campaign import (
    artifacts,
    asking,
    budget,
    curves,
    disputes,
    exports,
    formats,
    gallery,
    gold,
    growing,
    ingesting,
    learning,
    people,
    planning,
    predictions,
    reasons,
    registering,
    reporting,
    results,
    retiring,
    spreading,
    summaries,
    tables,
)
from hedgerow.campaign import classes as changes
from hedgerow.campaign import database as db
from hedgerow.campaign.answers import KINDS, SPOKEN, WITH_VALUE, Answer, Answers, LabelFile
from hedgerow.campaign.applying import OUTCOMES, Incoming, Origin, apply
from hedgerow.campaign.artifacts import Shelf
from hedgerow.campaign.atlas import Atlas
from hedgerow.campaign.budget import Budget
from hedgerow.campaign.classes import Counted
from hedgerow.campaign.curves import Measured
from hedgerow.campaign.database import FILE, Database, Upgraded
from hedgerow.campaign.filters import Filter
from hedgerow.campaign.gallery import Cluster, Page
from hedgerow.campaign.gold import Gold
from hedgerow.campaign.growing import Grown, Growth
from hedgerow.campaign.holdings import MULTI_CLASS, MULTI_LABEL, PAIRS, Holdings, read_holdings
from hedgerow.campaign.ingesting import Ingested
from hedgerow.campaign.learning import Learned, Lesson
from hedgerow.campaign.people import People
from hedgerow.campaign.planning import NothingToAskError, Wish
from hedgerow.campaign.predictions import Model, Reading
from hedgerow.campaign.reasons import Reason
from hedgerow.campaign.registering import READY, Given
from hedgerow.campaign.results import Exported, Wanted
from hedgerow.campaign.retiring import Restored, Retired
from hedgerow.campaign.spreading import Rule, Spread
from hedgerow.campaign.stopping import Settings, StopAdvice
from hedgerow.campaign.summaries import Asked, Entry, Outline, Status
from hedgerow.campaign.truth import read_truth
from hedgerow.campaign.verdicts import NO_VALUE
from hedgerow.errors import CampaignError, InputError
from hedgerow.progress import Progress, watch

PAIRED = "campaign.json"  # which database belongs to the folder; never a URL, which may hold a password
DATABASE = "HEDGEROW_DATABASE"  # the environment variable with the URL
MAPS = "maps"  # the folder with what can be computed again
DESK = "desk"  # the channel of answers that are given here, one by one


class Campaign:
    """A campaign that is open. `Campaign.init` makes one, `Campaign.open` opens it; both are context managers.

    folder: with the files of the campaign. database: the URL of a PostgreSQL database, or None for the SQLite file in
    the folder; the environment variable HEDGEROW_DATABASE is used if the folder belongs to a PostgreSQL campaign. who:
    the name in the audit log, by default the user's.
    """

    def __init__(self, folder: Path, database: Database, who: str | None = None) -> None:
        self.folder = folder
        self.who = who or _find_user()
        self._database = replace(database, who=self.who)
        self._shelf = Shelf(folder.resolve() / "artifacts")
        self._read: Holdings | None = None
        self._atlas = Atlas(folder.resolve() / MAPS, self._database, lambda: self._holdings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_files()

    def __repr__(self) -> str:
        held = self._holdings
        return f"Campaign({str(self.folder)!r}, {held.n:,} rows, {held.kind}, {len(held.classes):,} classes)"

    def close_files(self) -> None:
        """Close the database; the object cannot be used any more. `close` is about batches."""
        self._database.close()

    @property
    def _holdings(self) -> Holdings:
        """The pool and its classes, read again once they have changed."""
        with self._database.read() as connection:
            edition = db.read_edition(connection)
        return self._hold(edition)

    def _hold(self, edition: int) -> Holdings:
        if self._read is None or self._read.edition != edition:
            self._read = read_holdings(self._database, self._shelf)
        return self._read

    @property
    def kind(self) -> str:
        """What is asked: "multi-class", "multi-label" or "pairs"."""
        return self._holdings.kind

    # Making and opening.

    @classmethod
    def init(
        cls,
        folder: str | Path,
        pool: Any,
        *,
        classes: Sequence[str],
        kind: str = MULTI_CLASS,
        embeddings: Any = None,
        clusters: Any = True,
        pairs: Any = None,
        holdout: int = 0,
        holdout_answers: int = 1,
        average_size: float | None = None,
        content: str | None = None,
        id_column: str | None = None,
        seed: int = 0,
        database: str | None = None,
        who: str | None = None,
        progress: Progress | bool | None = None,
    ) -> Self:
        """Begin a campaign: register a pool, cluster it, draw the holdout. If it was interrupted, run it again.

        pool: a table or file with a column of ids and perhaps texts, uris or embeddings; or a matrix of embeddings,
        whose ids are row numbers. kind: "multi-class" (one class per row), "multi-label" (any number of them) or
        "pairs" (does this row have this class?). embeddings: if they are not in the pool; a .npy file stays where it
        is. clusters: True makes them from the embeddings; or clusters that exist; or None. pairs: those to ask about,
        a table with ids and classes; all by default. holdout: how many rows, drawn uniformly, are measured on and never
        picked. holdout_answers: how many people label each of them; with two or more, rows on which they agree become
        gold questions (`gold`). content: the column of texts or uris, if its name does not say so.
        """
        given = registering.check_given(
            Given(
                pool, list(classes), kind, embeddings, clusters, pairs, holdout, holdout_answers, average_size, content,
                id_column, seed, progress,
            )
        )  # fmt: skip
        path = Path(folder)
        _make_folder(path)
        campaign = cls(path, db.open_database(path, database), who)
        work = path / "work"
        with campaign._close_on_error():
            registering.start(campaign._database, given)
            _pair(path, campaign._database)
            try:
                registering.run(campaign._database, campaign._shelf, given, work)
            except InputError:  # nothing to be continued: the arguments must be others
                registering.forget(campaign._database)
                shutil.rmtree(work, ignore_errors=True)
                raise
            shutil.rmtree(work, ignore_errors=True)
        return campaign

    @classmethod
    def open(
        cls, folder: str | Path, *, database: str | None = None, verify: bool = False, who: str | None = None
    ) -> Self:
        """Open a campaign, and finish or remove what an interrupted command left. verify: read all of its files."""
        path = Path(folder)
        campaign = cls(path, _connect(path, database), who)
        with campaign._close_on_error():
            db.check_revision(campaign._database)
            campaign._refuse_unfinished()
            with campaign._database.read() as connection:
                campaign._shelf.sweep(connection)
                held = campaign._shelf.list_all(connection)
            if verify:
                for artifact in held:
                    artifacts.check(artifact, verify=True)
            planning.clear(campaign._database)
            ingesting.rebuild(campaign._database)
            retiring.redact(campaign._database, campaign._shelf)
            changes.finish(campaign._database)
        return campaign

    @staticmethod
    def is_ready(folder: str | Path, *, database: str | None = None) -> bool:
        """Whether a folder holds a campaign; not if its `init` was interrupted."""
        path = Path(folder)
        if not (path / PAIRED).exists():
            return False
        opened = _connect(path, database)
        try:
            db.check_revision(opened)
            with opened.read() as connection:
                return db.read_meta(connection, "state") == READY
        finally:
            opened.close()

    @staticmethod
    def upgrade(folder: str | Path, *, database: str | None = None) -> Upgraded | None:
        """Bring the database of an older release to this one; None if it is. A SQLite file is copied first."""
        opened = replace(_connect(Path(folder), database), who=_find_user())
        try:
            return db.upgrade(opened, Path(folder))
        finally:
            opened.close()

    @contextmanager
    def _close_on_error(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.callback(self.close_files)
            yield
            stack.pop_all()

    def _refuse_unfinished(self) -> None:
        with self._database.read() as connection:
            state = db.read_meta(connection, "state")
            number = db.read_meta(connection, "uuid")
        if state != READY:
            raise CampaignError(
                f"the init of {self.folder} was interrupted: run `hedgerow campaign init` with the same arguments again"
            )
        paired = _read_pairing(self.folder).get("uuid")
        if paired is not None and paired != number:
            raise CampaignError(f"{self._database.title} belongs to another campaign than the folder {self.folder}")

    # The pool and its classes change.

    def grow(
        self,
        pool: Any,
        *,
        embeddings: Any = None,
        pairs: Any = None,
        holdout: int | None = None,
        content: str | None = None,
        id_column: str | None = None,
        seed: int = 0,
        progress: Progress | bool | None = None,
    ) -> Grown:
        """Add rows to the pool: a table like that of `init`, with ids that are new. If interrupted, run it again.

        New rows join the clusters that there are, or make new ones. embeddings: needed if the campaign has them; pairs:
        if they are listed, also new ones of earlier rows. Predictions registered so far do not cover the new rows,
        which are no candidates of these models. holdout: how many of the new rows are measured on and never picked; by
        default the share of the first rows, so that each row of the pool was drawn with the same probability and a mean
        over the holdout is unbiased for all of the pool. With another number it is not, and a warning says so.
        """
        growth = Growth(pool, embeddings, pairs, holdout, content, id_column, seed, progress)
        return growing.grow(self._database, self._shelf, growth, self.folder / "work")

    def retire(self, source: Any, *, reason: str | None = None, id_column: str | None = None) -> Retired:
        """Retire rows, listed by id: they are never picked, their open tasks are void, and their labels are left out.

        source: a table or file with a column of ids, or one id per line. What people said about the rows is kept, and
        does not count. If interrupted, run it again.
        """
        return retiring.retire(self._database, self._holdings, source, reason=reason, id_column=id_column)

    def restore(self, source: Any, *, reason: str | None = None, id_column: str | None = None) -> Restored:
        """Bring back rows that were retired, listed by id as for `retire`; purged ones are refused.

        What people said about them counts again, open batches ask about them again, and those that have no label can
        be picked. If interrupted, run it again.
        """
        return retiring.restore(self._database, self._holdings, source, reason=reason, id_column=id_column)

    def purge(self, source: Any, *, reason: str | None = None, id_column: str | None = None) -> Retired:
        """Retire rows and redact them: their ids and contents are removed from the files of the campaign.

        Their embeddings stay, and so do the keys that labeling tools gave to answers. If interrupted, opening the
        campaign finishes it.
        """
        held = self._holdings
        return retiring.purge(self._database, self._shelf, held, source, reason=reason, id_column=id_column)

    def classes(self) -> list[Counted]:
        """All classes with the number of their labels, also those that were merged or split."""
        return changes.count(self._database, self._holdings)

    def add_class(self, name: str) -> int:
        """A new class; returns its id. Labels stay as they are: people could not name it before.

        Predictions registered from now on need a column for it, the last one. Of pairs, all rows can be asked about it;
        where pairs are listed, those that `grow` lists.
        """
        return changes.add(self._database, name)

    def rename_class(self, old: str, new: str) -> None:
        """Another name for a class. Its former name is still understood in files, and no other class can get it."""
        changes.rename(self._database, old, new)

    def merge_classes(self, gone: str, into: str) -> None:
        """Make one class a part of another: votes for either agree, and files may still name both.

        Of pairs, a yes to either is a yes; a no to the one that is gone says nothing about the other. Models that were
        registered before keep their margins; their guesses follow.
        """
        changes.merge(self._database, gone, into)

    def split_class(self, old: str, parts: Sequence[str], *, relabel: bool = False, answers: int = 1) -> int | None:
        """Put new classes in the place of one: answers that name it say nothing any more.

        relabel: reserve a batch of the rows that lose their verdict by that, and return its number; see `relabel`. None
        if all of them wait for people already, as tasks of open batches do.
        """
        changes.split(self._database, old, parts)
        try:
            return self.relabel(old, answers=answers) if relabel else None
        except NothingToAskError:
            return None
        except CampaignError as error:
            raise CampaignError(f"{old} is split into {', '.join(parts)}, but no batch was reserved: {error}") from None

    def relabel(self, name: str, *, answers: int = 1, over_budget: bool = False) -> int:
        """Ask again what a class that was split leaves open, as a batch of kind "relabel"; returns its number.

        These are the rows that lost their verdict and do not wait for people already; of pairs, the new pairs of rows
        that somebody said yes to. answers: how many people answer each task.
        """
        held = self._holdings
        return changes.relabel(self._database, held, name, answers=answers, over_budget=over_budget)

    # Verbs.

    def predict(
        self,
        source: Any,
        *,
        name: str | None = None,
        logits: bool = False,
        partial: bool = False,
        keep: bool | None = None,
        column: str | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> Model:
        """Register a model version: probabilities (n, C), or margins (n,); of pairs (n, C) or one per pair.

        Predictions with ids are matched by id, whatever their order. partial: rows may be without predictions; these
        are no candidates. keep: keep all probabilities, which `badge`, `entropy` and `least-confidence` need; by
        default up to 1 GiB. name: "model-N" by default. metrics: known figures, such as {"accuracy": 0.81}.
        """
        held = self._holdings
        metrics = {name: checks.real(figure, f"the metric {name}") for name, figure in (metrics or {}).items()}
        watched = curves.find_watch(self._database, held)
        found = predictions.read_predictions(source, held, Reading(logits, partial, keep, column), watched)
        if not found.known.any():
            raise InputError("the predictions are for no row of the pool")
        with self._database.read() as connection:
            labels = len(read_truth(connection, held, holdout=False))
            origin = predictions.Origin(watched, labels, db.last_event(connection))
        called = None if name is None else db.check_text(name, "the name")
        return predictions.register(self._database, self._shelf, held, found, origin, called, metrics)

    def learn(
        self,
        *,
        head: str | None = None,
        program: str | None = None,
        name: str | None = None,
        keep: bool | None = None,
        seed: int = 0,
        progress: Progress | bool | None = None,
    ) -> Learned:
        """Train a model on the embeddings and the labels so far, predict the pool, and measure it on the holdout.

        head: "linear" (logistic regression, the default) or "perceptron" (one hidden layer). program: the command of
        your own trainer instead. It is run twice, with these arguments added:

            fit --features F.npy --labels L.npy --classes C --seed S --model FOLDER
            predict --model FOLDER --features F.npy --out OUT.parquet

        F holds the embeddings of the labeled rows, later those of the pool, in large chunks. L holds class numbers in
        the order of the classes; in multi-label and pair campaigns int8 (rows, C): 1 yes, 0 no, -1 not asked. OUT has
        one row per row of F with the columns p_0, p_1, ..., one probability per class. The command runs with your
        rights. name, keep: as in `predict`. Labels of the holdout are never trained on.
        """
        lesson = learning.check_lesson(Lesson(head, program, name, keep, seed, progress))
        return learning.learn(self._database, self._shelf, self._holdings, lesson)

    def curve(self) -> list[Measured]:
        """Every model on the labeled holdout, the oldest first: the learning curve as of now."""
        return curves.read_curve(self._database, self._shelf, self._holdings)

    def stop_advice(
        self, *, least_gain: float = Settings.least_gain, batch: int | None = None, seed: int = 0
    ) -> StopAdvice:
        """Whether to stop labeling, by every rule of `hedgerow.campaign.stopping`.

        least_gain: a smaller gain on the holdout per batch is not worth its labels. batch: the size of the next one, by
        default that of the last. The budget is that of the campaign, if it has one.
        """
        return curves.advise(self._database, self._shelf, self._holdings, Settings(least_gain, batch, seed=seed))

    def report(self, path: str | Path, *, force: bool = False) -> Path:
        """Write one HTML file: the learning curve, labels, coverage, budget, agreement, times, batches, advice."""
        store.check_target(path, force=force)
        return reporting.write_report(self._database, self._shelf, self._holdings, Path(path))

    def next(
        self,
        k: int,
        *,
        strategy: Any = None,
        options: Mapping[str, Any] | None = None,
        seed: int = 0,
        model: str | int | None = None,
        answers: int = 1,
        double: float = 0.0,
        allow_short: bool = False,
        over_budget: bool = False,
        progress: Progress | bool | None = None,
    ) -> int:
        """Choose k rows (or pairs) and reserve them; returns the number of the batch.

        strategy: a name, an instance, or None: `hedge` (`cluster-margin` while there are no labels, `margin` without
        clusters), for pairs `stochastic-margin`; before there is a model `spread`, random rows from as many clusters as
        possible (`random` without clusters). model: the newest by default. answers: how many people answer each task.
        double: the share of tasks that two people answer. over_budget: reserve them even if the budget does not
        suffice.
        """
        wish = planning.check_wish(
            Wish(k, strategy, options, seed, model, answers, double, allow_short, over_budget, progress)
        )
        with watch(progress) as report:
            wish = Wish(**{**vars(wish), "progress": report})
            return planning.plan(self._database, self._shelf, self._holdings, wish)

    def claim(
        self,
        annotator: str,
        n: int = 1,
        *,
        batch: int | None = None,
        seconds: float = asking.LEASE_SECONDS,
        expert: bool = False,
        own: bool = False,
    ) -> list[Asked]:
        """Lease at most n tasks to a person for some seconds: those they hold, and then free ones in pick order.

        Some may be gold questions, see `gold`. expert: disputed tasks instead, which the person has not answered, to be
        decided by `answer(..., kind="adjudicate")`; own: also those that the person has answered.
        """
        who = ingesting.find_annotators(self._database, DESK, [_check_name(annotator)])[0]
        found, edition = asking.claim(self._database, who, n, batch=batch, seconds=seconds, expert=expert, own=own)
        return summaries.describe_tasks(self._hold(edition), found)

    def release(self, annotator: str, tasks: Sequence[int] | None = None) -> int:
        """Give back a person's leases, all if no tasks are named; returns how many."""
        who = ingesting.find_annotators(self._database, DESK, [_check_name(annotator)])[0]
        return asking.release(self._database, who, None if tasks is None else list(tasks))

    def answer(
        self,
        annotator: str,
        task: int,
        value: Any = None,
        *,
        kind: str = "answer",
        key: str | None = None,
        seconds: float | None = None,
        own: bool = False,
    ) -> str:
        """One answer to a task; returns "new", "corrected", "unchanged" or "unsolicited". It ends the lease.

        kind: "answer", "unsure", "none-of-these", "skip", "broken", "adjudicate", which decides, or "retract", which
        takes back what the person said. No classes at all, (), are none of these. key: sent again with the same key, an
        answer is not applied twice. own: the expert who decides may be one of those who differ.
        """
        checks.option(kind, "kind of answer", KINDS)
        who = ingesting.find_annotators(self._database, DESK, [_check_name(annotator)])[0]
        held = self._holdings
        row = self._find_task(task)
        value = tuple(value) if isinstance(value, (list, tuple)) else value
        if kind == "answer" and value == () and held.kind != PAIRS:
            kind, value = "none-of-these", None
        code = self._encode(held, Answer(f"task {task}", kind, value))
        incoming = Incoming(
            np.array([row.row], np.int64),
            np.array([row[1]], np.int64),
            np.array([who], np.int64),
            np.array([KINDS.index(kind)], np.int64),
            np.array([code], np.int64),
            np.array([db.now()], np.int64),
            None if key is None else np.array([db.check_text(key, "the key")], np.object_),
            None if seconds is None else np.array([seconds], np.float64),
        )
        origin = Origin(tables.GOLD, live=True, gold=task) if row.kind == tables.GOLD else Origin(DESK, live=True)

        def store_answer() -> str:
            with self._database.write(few=True) as connection:
                if db.read_edition(connection) != held.edition:
                    raise CampaignError("the pool or its classes have just changed: answer again")
                if kind == "adjudicate" and not own and origin.gold is None:
                    disputes.refuse_side(connection, who, task)
                outcome = apply(self._database, connection, incoming, origin)
                lease = tables.lease
                connection.execute(sa.delete(lease).where(lease.c.task == task, lease.c.annotator == who))
            return OUTCOMES[int(outcome[0])]

        return planning.repeat(self._database, store_answer)

    def ingest(
        self,
        source: Any,
        *,
        again: bool = False,
        annotator: str | None = None,
        rejects: str | Path | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> Ingested:
        """Apply a label file, or a sequence of `Answer`; what cannot be used goes to the file `rejects`.

        A file that was ingested before is refused, unless `again`; an interrupted one continues. annotator: whose
        answers they are where the file does not say. columns: what ("id", "label", ...) -> the name of its column,
        where the usual names do not fit. A label `skip`, `unsure`, `none-of-these` or `broken` that is no class of the
        campaign is that kind of answer.
        """
        file, name = _read_file(source, self._holdings, columns or {})
        done = ingesting.ingest(self._database, self._holdings, file, name=name, again=again, person=annotator)
        if rejects is not None and done.rejects:
            with store.atomic_write(rejects) as temporary, temporary.open("w", encoding="utf-8") as out:
                out.writelines(json.dumps(vars(one), ensure_ascii=False) + "\n" for one in done.rejects)
        return done

    def retract(self, *, source: int | None = None, annotator: str | None = None) -> int:
        """Take back a file, or all that a person said so far; returns how many answers count no more.

        What the same people said before counts again, and tasks that lack answers open again.
        """
        return ingesting.retract(self._database, source=source, annotator=annotator)

    def alias(self, channel: str, external: str, annotator: str) -> None:
        """From now on `external` in files of a channel ("label-studio", "csv", ...) is the person `annotator`."""
        ingesting.set_alias(self._database, channel, external, _check_name(annotator))

    def close(self, batch: int) -> str:
        """Close a batch: nobody is asked any more. Returns "full", or "short" if tasks had to be voided."""
        return planning.close(self._database, batch, undo=False)

    def undo(self, batch: int) -> None:
        """Cancel a batch that nobody has answered; its rows can be picked again."""
        planning.close(self._database, batch, undo=True)

    def budget(self) -> Budget:
        """What is spent, reserved by open batches and left."""
        return budget.read_budget(self._database)

    def set_budget(
        self,
        *,
        labels: float | None = None,
        money: float | None = None,
        hours: float | None = None,
        per_answer: float | None = None,
        rates: Mapping[str, float] | None = None,
    ) -> Budget:
        """Limit what is asked for, in labels, money or hours; without any of them, change the prices of the limit.

        per_answer: what an answer costs if nothing else is known, in money, or in seconds for a limit of hours (by
        default the mean of the times that are known). rates: money per answer of single people, by name.
        """
        prices = {_check_name(name): rate for name, rate in (rates or {}).items()}
        amounts = {"labels": labels, "money": money, "hours": hours}
        limit = budget.check_limit(self._database, amounts, per_answer, prices)
        numbers = ingesting.find_annotators(self._database, "", list(prices))
        budget.set_budget(self._database, limit, dict(zip(numbers, prices.values(), strict=True)))
        return self.budget()

    def remove_budget(self) -> None:
        """Remove the limit."""
        budget.remove_budget(self._database)

    def disputed(self, batch: int | None = None) -> dict[str, Any]:
        """The tasks whose answers do not settle them, by column: ids and contents, and nothing of what was said."""
        return disputes.read_disputed(self._database, self._holdings, batch)

    def gold(self) -> Gold:
        """How many gold questions there are, and how they are asked."""
        return gold.read_gold(self._database)

    def set_gold(self, *, share: float | None = None, threshold: float | None = None) -> Gold:
        """How often people are asked what is known: `share` of their tasks, 0 for never, 0.03 before it is set.

        Gold are the rows (or pairs) of the holdout on which at least two people agree and nobody differs, and those
        that an expert decided. threshold: people whose accuracy is surely below it are flagged, see `people`.
        """
        gold.change_settings(self._database, share, threshold)
        return self.gold()

    def people(self) -> People:
        """How much each person said, how far they agree, and how often they are right on gold questions."""
        return people.read_people(self._database, self._holdings)

    def relabel_annotator(self, annotator: str, *, answers: int = 1, over_budget: bool = False) -> int:
        """Ask others about everything that this person alone has answered; returns the number of the batch.

        Their answers stay and count: where nobody else agrees, an expert decides. answers: how many others are asked.
        """
        name = _check_name(annotator)
        rows, classes = people.find_rows_alone(self._database, name)
        if not len(rows):
            raise CampaignError(f"there is nothing that only {name!r} has answered")
        return planning.reserve_rows(
            self._database, rows, classes, reason=f"flagged {name}", answers=answers, over_budget=over_budget
        )

    def status(self) -> Status:
        """What there is: the pool, models, batches, tasks, labels, people, files."""
        return summaries.read_status(self._database, self._shelf, self._holdings)

    def moment(self) -> tuple[int, int]:
        """Two numbers of which one is another once anything was said or done; what was read before may be old then."""
        with self._database.read() as connection:
            return db.read_moment(connection)

    def outline(self) -> Outline:
        """What hardly ever changes, at once: the kind, the classes, the number of rows."""
        return summaries.read_outline(self._database, self._holdings)

    def open_batches(self) -> tuple[Mapping[str, Any], ...]:
        """The batches that people are asked about: tasks by state, the answers wanted and those that are lacking."""
        return summaries.read_open_batches(self._database)

    def read_content(self, row: int) -> str | None:
        """The text or uri of a row; None if it has none."""
        held = self._holdings
        if not 0 <= row < held.n:
            raise InputError(f"the pool has no row {row:,}: it has {held.n:,}")
        _, found = held.take(np.array([row], np.int64))
        return None if found is None else str(found[0]) or None

    def explain(self, task: int, batch: int) -> Reason:
        """Why the row of a task is worth a label: the model's guess and margin, its cluster, its labeled neighbors.

        batch: what the task was shown as by `claim`; its model is the one that is asked.
        """
        row = self._find_task(task)
        return reasons.find_reason(self._database, self._shelf, self._holdings, row.row, row[1], batch)

    def list_clusters(self, order: str = "size", n: int = 100) -> tuple[int, list[Cluster]]:
        """(how many clusters there are, the first n): with size, labels, purity, the mean margin of the newest model.

        order: "size" or "labeled", the most first; "purity" or "margin", the lowest first.
        """
        n = checks.integer(n, "n", least=1)
        return gallery.list_clusters(self._database, self._shelf, self._holdings, order, n)

    def count_clusters(self) -> tuple[int, int] | None:
        """(how many clusters there are, how many of them have a label of people); None without clusters."""
        return gallery.count_labeled(self._database, self._holdings)

    def browse_cluster(self, cluster: int, *, start: int = 0, n: int = 60) -> Page:
        """Rows of a cluster with their labels, n of them from `start` on, in the order of the pool."""
        return gallery.read_cluster(self._database, self._holdings, cluster, start, n)

    def browse_batch(
        self,
        number: int,
        *,
        state: str | None = None,
        label: str | None = None,
        guess: str | None = None,
        annotator: str | None = None,
        start: int = 0,
        n: int = 60,
    ) -> Page:
        """Tasks of a batch with what people decided, n of them from `start` on, cluster by cluster in pick order.

        state: only those that are "open", "answered", "disputed", "settled" or "void". label: only those that people
        gave this class; guess: only those that the newest model gives this class; annotator: only those that this
        person has answered.
        """
        wanted = Filter(state, label, guess, annotator)
        return gallery.read_page(self._database, self._shelf, self._holdings, number, wanted, start, n)

    def reserve(self, rows: Any, *, reason: str = "by hand", answers: int = 1, over_budget: bool = False) -> int:
        """Ask about these rows, as a batch of their own; returns its number. Those that are no candidates are left out.

        No candidates are rows that wait for people, have a verdict, are retired or in the holdout. reason: takes the
        place of a strategy. Rows that somebody chose are no fair sample: models are measured on the holdout.
        """
        held = self._holdings
        if held.kind == PAIRS:
            raise CampaignError("a campaign of pairs asks about rows and classes: `next` chooses them")
        chosen = checks.rows(rows, held.n, "rows")
        with self._database.read() as connection:
            closed = planning.find_closed(connection, held)
        left = chosen[~closed[chosen]]
        if not len(left):
            raise CampaignError(
                "there is nothing to ask: each of these rows has a label, waits for one, or is set apart"
            )
        return planning.reserve_rows(self._database, left, reason=reason, answers=answers, over_budget=over_budget)

    def atlas(self) -> Atlas:
        """The pool as a map in two dimensions, drawn once from its embeddings: density, layers, what is where."""
        return self._atlas

    def browse_rows(self, rows: Any, *, start: int = 0, n: int = 60) -> Page:
        """Rows by number with what people decided, n of them from `start` on, in the order given."""
        held = self._holdings
        return gallery.read_rows(self._database, held, checks.rows(rows, held.n, "rows"), start, n)

    def browse_polygon(self, corners: Any, *, start: int = 0, n: int = 60) -> Page:
        """Rows inside a polygon on the map, cluster by cluster; `total` counts all, also if they are too many to list.

        corners: (x, y) of each, as on the map.
        """
        total, rows = self._atlas.find_inside(corners)
        held = self._holdings
        rows = rows[gallery.order_by_cluster(rows, rows, held.labels)]
        return replace(gallery.read_rows(self._database, held, rows, start, n), total=total)

    def batch(self, number: int) -> dict[str, Any]:
        """The tasks of a batch by column, in pick order: ids, contents, clusters, margins, guesses, states."""
        return summaries.read_batch(self._database, self._shelf, self._holdings, number)

    def spread(
        self,
        *,
        purity: float = 0.95,
        least: int = 3,
        max_error: float = 0.05,
        unmeasured: bool = False,
        trial: bool = False,
    ) -> Spread:
        """Carry labels from people's examples to the rest of pure clusters; see `labels(spread=True)`.

        purity: the share of a cluster's labeled rows that must agree; least: how many there must be. The error is
        estimated on the holdout, and its 95% interval must end below max_error; unmeasured: go on where the holdout is
        too small to tell. trial: say what would be done, and keep nothing. A new run replaces the one before.
        """
        rule = spreading.check_rule(Rule(purity, least, max_error, unmeasured))
        return spreading.spread(self._database, self._shelf, self._holdings, rule, trial=trial)

    def spreads(self) -> list[Spread]:
        """The runs of `spread`, oldest first, each with how often people contradicted it later."""
        return spreading.list_runs(self._database, self._shelf, self._holdings)

    def undo_spread(self, run: int) -> None:
        """Take a run of `spread` out of use; the one before it is in use again."""
        spreading.undo(self._database, run)

    def labels(self, *, split: str = results.ALL, spread: bool = False) -> dict[str, Any]:
        """The verdicts by column, in the order of the pool: id, row, class (of pairs), label, how, support, given,
        round, split, weight (if a strategy knew the probabilities of its picks, as hedge does).

        label: a name; a tuple of names (multi-label); 0 or 1 (pairs); None where people named no class. round: 1
        without a model, 2 with the first one, ...; 0 for the holdout and what nobody asked for. split: "train",
        "holdout" or "all". spread: also labels that `spread` carried over, where nobody said anything. weight: one over
        the probability with which the batch picked this row or pair among its candidates; NaN if that is not known.
        """
        carried = self._read_carried() if spread else None
        return results.read_labels(self._database, self._holdings, Wanted(split), carried).columns

    def votes(self, *, split: str = results.ALL, every: bool = False) -> dict[str, Any]:
        """What each person says now, by column: id, row, class (of pairs), annotator, value, said_at.

        every: also adjudications, "unsure", skips and the like, with a column `kind`.
        """
        return results.read_votes(self._database, self._holdings, Wanted(split, every)).columns

    def export_labels(
        self,
        path: str | Path | TextIO,
        *,
        to: str | None = None,
        split: str = results.TRAIN,
        undecided: bool = False,
        content: bool = False,
        spread: bool = False,
        force: bool = False,
    ) -> Exported:
        """Write the labels: id, class (of pairs), label, how, support, round, split, weight (if there are any).

        What is left out is counted. to: "jsonl", "csv", "parquet", "label-studio" or "hf" (a data set of Hugging
        Face); by default what the suffix says. split: "train", "holdout" or "all". undecided: also rows that people
        named no class for. content: with the texts or uris. spread: also labels that `spread` carried over. An open
        text file gets CSV.
        """
        wanted = Wanted(split, undecided, content)
        carried = self._read_carried() if spread else None
        return results.export_labels(self._database, self._holdings, path, wanted, carried, to=to, force=force)

    def export_votes(
        self,
        path: str | Path | TextIO,
        *,
        to: str | None = None,
        split: str = results.TRAIN,
        every: bool = False,
        layout: str | None = None,
        force: bool = False,
    ) -> Exported:
        """Write what each person says: id, class (of pairs), annotator, value, said_at.

        every: also adjudications, "unsure", skips and the like, with a column `kind`. layout: "crowd-kit" or
        "cleanlab", for the columns that these libraries expect.
        """
        wanted = Wanted(split, every)
        return results.export_votes(self._database, self._holdings, path, wanted, to=to, layout=layout, force=force)

    def export(self, batch: int, path: str | Path, *, to: str | None = None, force: bool = False) -> list[Path]:
        """Write the tasks of a batch, in pick order; returns the files, of which Label Studio may get several.

        to: "jsonl", "csv", "parquet", "label-studio" or "hf" (a data set of Hugging Face); by default what the suffix
        says.
        """
        return exports.write_export(path, self.batch(batch), to or exports.find_form(path), force=force)

    def log(self, n: int | None = None) -> list[Entry]:
        """The audit log, oldest first; the newest n if that is given."""
        return summaries.read_log(self._database, n)

    # Inside.

    def _read_carried(self) -> spreading.Carried:
        return spreading.read_current(self._database, self._shelf)

    def _find_task(self, task: int) -> Any:
        table, batch = tables.task, tables.batch
        query = sa.select(table.c.row, table.c["class"], batch.c.kind).join(batch).where(table.c.id == task)
        with self._database.read() as connection:
            found = connection.execute(query).first()
        if found is None:
            raise CampaignError(f"there is no task {task}")
        return found

    def _encode(self, held: Holdings, given: Answer) -> int:
        """The stored value of an answer."""
        if given.kind == "none-of-these" and held.kind == PAIRS:
            raise InputError("a pair is about one class, so nothing is none of these: answer 0 or 1")
        none = given.kind == "adjudicate" and given.value == () and held.kind != PAIRS
        if given.kind not in WITH_VALUE or none:
            return NO_VALUE
        return ingesting.encode_value(self._database, held, given.value)


def _connect(folder: Path, url: str | None) -> Database:
    """The database of a folder; nothing is created."""
    if not folder.is_dir():
        raise CampaignError(f"{folder} is not a folder: name the folder of a campaign")
    kind = _read_pairing(folder).get("database")
    if url is None and kind == "postgresql":
        url = os.environ.get(DATABASE)
        if not url:
            raise CampaignError(
                f"the database of {folder} is on a PostgreSQL server: pass database=... (--database URL), or set "
                f"{DATABASE}"
            )
    if url is None and not (folder / FILE).is_file():
        raise CampaignError(f"{folder} holds no campaign: run `hedgerow campaign init` first")
    return db.open_database(folder, url)


def _make_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise CampaignError(f"{folder} is not a folder: name a new or empty one")
    known = {PAIRED, FILE, f"{FILE}-wal", f"{FILE}-shm", "artifacts", "work", "start"}
    if folder.exists() and any(path.name not in known and not path.name.startswith(".") for path in folder.iterdir()):
        raise CampaignError(f"{folder} is not empty and holds no campaign: name a new or empty folder")
    folder.mkdir(parents=True, exist_ok=True)


def _pair(folder: Path, database: Database) -> None:
    """Note which database belongs to a folder."""
    with database.read() as connection:
        number = db.read_meta(connection, "uuid")
    kind = "sqlite" if database.is_sqlite else "postgresql"
    with store.atomic_write(folder / PAIRED) as temporary:
        temporary.write_text(json.dumps({"uuid": number, "database": kind}) + "\n")


def _read_pairing(folder: Path) -> dict[str, str]:
    path = folder / PAIRED
    if not path.exists():
        return {}
    try:
        return dict(json.loads(path.read_text()))
    except (ValueError, TypeError):
        raise CampaignError(f"{path} is damaged: restore it from a copy of the folder") from None


def _read_file(source: Any, holdings: Holdings, columns: Mapping[str, str]) -> tuple[LabelFile, str]:
    """(what a label file holds, its name); answers that are given as such have no file."""
    if isinstance(source, LabelFile):
        return source, source.channel
    if isinstance(source, (str, Path)):
        kind = holdings.kind
        separator = exports.SEPARATOR if kind == MULTI_LABEL else None  # as exports write several labels
        words = {word: name for name in SPOKEN for word in (name, name.replace("-", " "))}
        kinds = {word: name for word, name in words.items() if holdings.find_class(word) is None}
        reading = formats.Reading(columns, kind == MULTI_LABEL, kind == PAIRS, separator, kinds)
        return formats.read_answers(source, reading), Path(source).name
    answers = source if isinstance(source, Answers) else Answers.of(source)
    return LabelFile(answers, (), "python", summaries.hash_answers(answers)), "python"


def _check_name(annotator: Any) -> str:
    if not isinstance(annotator, str) or not annotator.strip():
        raise InputError(f"an annotator is known by a name, got {annotator!r}")
    return annotator.strip()


def _find_user() -> str:
    with suppress(OSError, KeyError):
        return getpass.getuser()
    return "unknown"
