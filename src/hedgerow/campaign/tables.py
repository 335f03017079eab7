"""The tables of a campaign's database: what people did, and where the files are. The pool itself stays in files.

`class` is a class id, or `WHOLE_ROW` where a task or an answer is about a row and not about a pair. `value` is a class
id (multi-class), the id of a label set (multi-label), or 0 or 1 (pairs). Times are microseconds since 1970 in UTC.
Two tables are only ever appended to: `event`, what people said, and `log`, which command ran; triggers refuse anything
else (they are in `migrations/`). `verdict` is a cache: `verdicts.py` computes it from the events.
"""

import sqlalchemy as sa

WHOLE_ROW = -1  # the class of what is not about a pair
OPEN, ANSWERED, DISPUTED, SETTLED, VOID = range(5)  # states of a task; below SETTLED it waits for somebody
STATES = ("open", "answered", "disputed", "settled", "void")
QUEUED = "state IN (0, 1, 2)"  # the condition of the index that claims go through
GOLD = "gold"  # the kind of a batch of gold questions, and the channel of the answers to them
PLANNING, LIVE, CLOSED = "planning", "open", "closed"  # states of a batch

metadata = sa.MetaData()
Big = sa.BigInteger
Key = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite numbers rows by itself only if the type is INTEGER


def _key() -> "sa.Column[int]":
    return sa.Column("id", Key, primary_key=True, autoincrement=True)


meta = sa.Table(
    "meta", metadata, sa.Column("key", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False)
)
artifact = sa.Table(
    "artifact",
    metadata,
    _key(),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("path", sa.Text, nullable=False),  # relative to the campaign's artifacts, or absolute if it stays outside
    sa.Column("sha256", sa.Text),  # of all bytes; absent for a large file outside
    sa.Column("sample", sa.Text, nullable=False),  # of the size and some blocks
    sa.Column("bytes", Big, nullable=False),
    sa.Column("mtime", Big, nullable=False),  # nanoseconds
    sa.Column("at", Big, nullable=False),
    sa.UniqueConstraint("kind", "path", "sample", name="artifact_once"),
)
segment = sa.Table(
    "segment",
    metadata,
    _key(),
    sa.Column("first_row", Big, nullable=False, unique=True),
    sa.Column("n_rows", Big, nullable=False),
    sa.Column("pool", Key, sa.ForeignKey("artifact.id"), nullable=False),
    sa.Column("embeddings", Key, sa.ForeignKey("artifact.id")),
    sa.Column("clusters", Key, sa.ForeignKey("artifact.id")),
    sa.Column("pairs", Key, sa.ForeignKey("artifact.id")),
)
retired = sa.Table(
    "retired",
    metadata,
    sa.Column("row", Key, primary_key=True, autoincrement=False),
    sa.Column("reason", sa.Text),
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("at", Big, nullable=False),
    sa.Column("purge", sa.Text),  # wanted or done: the id and the content are redacted
)
class_ = sa.Table(
    "class",
    metadata,
    sa.Column("id", Key, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("merged_into", Key, sa.ForeignKey("class.id")),
    sa.Column("split_from", Key, sa.ForeignKey("class.id")),
    sa.Column("split_at", Big),  # when it was split into others; nobody is asked about it any more
    sa.Column("since", Big, nullable=False),
)
former_name = sa.Table(
    "former_name",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("class", Key, sa.ForeignKey("class.id"), nullable=False),
)
# What a stored value says since classes were merged or split. class: -1 for whole rows; value: -1 for none.
meaning = sa.Table(
    "meaning",
    metadata,
    sa.Column("class", Key, primary_key=True, autoincrement=False),
    sa.Column("value", Key, primary_key=True, autoincrement=False),
    sa.Column("to_class", Big),  # absent if it says nothing any more
    sa.Column("to_value", Big),
    sa.Column("upto", Big),  # of a pair: as if it had been said right after this event
    sa.Column("step", Big, nullable=False),  # the number of the change
)
labelset = sa.Table("labelset", metadata, _key(), sa.Column("classes", sa.Text, nullable=False, unique=True))
model = sa.Table(
    "model",
    metadata,
    _key(),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("labels_upto", Big, nullable=False),
    sa.Column("labels", Big, nullable=False),  # that it was trained on, as far as anybody knows
    sa.Column("rows", Big, nullable=False),
    sa.Column("scores", Key, sa.ForeignKey("artifact.id"), nullable=False),
    sa.Column("probabilities", Key, sa.ForeignKey("artifact.id")),
    sa.Column("watched", Key, sa.ForeignKey("artifact.id"), nullable=False),  # its predictions that it is measured by
    sa.Column("settings", sa.Text, nullable=False),  # how it was trained here; {} if elsewhere
    sa.Column("classes", sa.Text, nullable=False),  # the ids of the classes it knows, in the order of its columns
    sa.Column("metrics", sa.Text, nullable=False),
    sa.Column("at", Big, nullable=False),
)
batch = sa.Table(
    "batch",
    metadata,
    _key(),
    sa.Column("kind", sa.Text, nullable=False),  # pick, cold, holdout, relabel or gold
    sa.Column("model", Key, sa.ForeignKey("model.id")),
    sa.Column("strategy", sa.Text, nullable=False),
    sa.Column("settings", sa.Text, nullable=False),
    sa.Column("seed", Big, nullable=False),
    sa.Column("basis", Big, nullable=False),  # the last event that the selection saw
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text),  # of a closed batch: full, short or cancelled
    sa.Column("size", Big, nullable=False),
    sa.Column("planner", sa.Text),  # who plans it, and until when nobody may take over
    sa.Column("until", Big),
    sa.Column("at", Big, nullable=False),
    sa.Column("closed_at", Big),
)
task = sa.Table(
    "task",
    metadata,
    _key(),
    sa.Column("batch", Key, sa.ForeignKey("batch.id"), nullable=False),
    sa.Column("pick", Big, nullable=False),
    sa.Column("row", Big, nullable=False),
    sa.Column("class", Big, nullable=False),
    sa.Column("wanted", sa.Integer, nullable=False),
    sa.Column("given", sa.Integer, nullable=False),
    sa.Column("state", sa.SmallInteger, nullable=False),
    sa.Column("weight", sa.Float),  # one over the probability with which it was picked, if that is known
)
# Open batches never overlap: a row (or a pair) waits for people in one task at most.
sa.Index(
    "task_waiting",
    task.c.row,
    task.c["class"],
    unique=True,
    sqlite_where=sa.text("state < 3"),
    postgresql_where=sa.text("state < 3"),
)
# Queries name its condition as it stands here. As `state < 3`, SQLite would search by that and then sort by pick.
sa.Index(
    "task_queue",
    task.c.batch,
    task.c.state,
    task.c.pick,
    sqlite_where=sa.text(QUEUED),
    postgresql_where=sa.text(QUEUED),
)
sa.Index("task_row", task.c.row, task.c["class"])
annotator = sa.Table(
    "annotator",
    metadata,
    _key(),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("kind", sa.Text, nullable=False),  # person, rule or model
    sa.Column("retracted_upto", Big, nullable=False),  # their events up to this one do not count
    sa.Column("asked", Big, nullable=False, server_default="0"),  # tasks leased to them so far, gold questions included
    sa.Column("rate", sa.Float),  # money per answer, if the person has a rate of their own
)
alias = sa.Table(
    "alias",
    metadata,
    sa.Column("channel", sa.Text, primary_key=True),
    sa.Column("external", sa.Text, primary_key=True),
    sa.Column("annotator", Key, sa.ForeignKey("annotator.id"), nullable=False),
)
lease = sa.Table(
    "lease",
    metadata,
    sa.Column("task", Key, sa.ForeignKey("task.id"), primary_key=True),
    sa.Column("annotator", Key, sa.ForeignKey("annotator.id"), primary_key=True),
    sa.Column("until", Big, nullable=False),
    sa.Column("batch", Key, nullable=False),  # what the task is shown as: a gold question is in another batch
    sa.Column("place", Big, nullable=False),  # in the order of what the annotator was asked
)
sa.Index("lease_annotator", lease.c.annotator)
source = sa.Table(
    "source",
    metadata,
    _key(),
    sa.Column("channel", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("sha256", sa.Text, nullable=False),
    sa.Column("cursor", Big, nullable=False),  # how many of its answers, in the order of the pool, are applied
    sa.Column("complete", sa.Boolean, nullable=False),
    sa.Column("summary", sa.Text, nullable=False),
    sa.Column("at", Big, nullable=False),
    sa.Column("retracted_at", Big),
)
sa.Index("source_sha256", source.c.sha256)
event = sa.Table(
    "event",
    metadata,
    _key(),
    sa.Column("row", Big, nullable=False),
    sa.Column("class", Big, nullable=False),
    sa.Column("annotator", Key, nullable=False),
    sa.Column("seq", sa.Integer, nullable=False),
    sa.Column("kind", sa.SmallInteger, nullable=False),
    sa.Column("value", Big),
    sa.Column("task", Key),
    sa.Column("source", Key),
    sa.Column("channel", sa.Text, nullable=False),
    sa.Column("external", sa.Text),
    sa.Column("said_at", Big),
    sa.Column("came_at", Big, nullable=False),
    sa.Column("seconds", sa.Float),
    # The natural key, in the order of the pool: bulk inserts that are sorted by row append to this index.
    sa.UniqueConstraint("row", "class", "annotator", "seq", name="event_once"),
)
sa.Index(
    "event_external",
    event.c.channel,
    event.c.external,
    sqlite_where=sa.text("external IS NOT NULL"),
    postgresql_where=sa.text("external IS NOT NULL"),
)
verdict = sa.Table(
    "verdict",
    metadata,
    sa.Column("row", Key, primary_key=True, autoincrement=False),
    sa.Column("class", Key, primary_key=True, autoincrement=False),
    sa.Column("value", Big),
    sa.Column("how", sa.Text, nullable=False),
    sa.Column("support", sa.Integer, nullable=False),  # votes for the value
    sa.Column("given", sa.Integer, nullable=False),  # people who answered
    sqlite_with_rowid=False,  # one tree instead of two
)
spread = sa.Table(
    "spread",
    metadata,
    _key(),
    sa.Column("settings", sa.Text, nullable=False),
    sa.Column("basis", Big, nullable=False),  # the last event that it saw
    sa.Column("file", Key, sa.ForeignKey("artifact.id"), nullable=False),
    sa.Column("rows", Big, nullable=False),
    sa.Column("clusters", Big, nullable=False),
    sa.Column("checked", Big, nullable=False),  # labels of the holdout that the error was measured on
    sa.Column("wrong", Big, nullable=False),
    sa.Column("at", Big, nullable=False),
    sa.Column("undone_at", Big),
)
log = sa.Table(
    "log",
    metadata,
    _key(),
    sa.Column("at", Big, nullable=False),
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("command", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
)
