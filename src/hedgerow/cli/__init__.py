"""The front door: one command is one public function with files for arguments.

Standard output carries the result, for people or with `--json` as one object for programs; progress and errors go to
standard error: a bar on a terminal and nothing in a pipe, an error in one line. Exit codes: 0 done, 1 cannot be done
with what was given, 2 wrong usage, 130 interrupted. Where an output is refused, it is refused before the work.

The rooms are imported inside the commands, so that `hedgerow --help` answers at once.
"""

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow import __version__, kernels
from hedgerow.errors import HedgerowError, HedgerowWarning, InputError

if TYPE_CHECKING:
    from hedgerow.pairs.files import Questions
    from hedgerow.pool.ids import Ids

Progress = Callable[[str, float], None]

# Typer's own base of every mistake on the command line; its module moved between the versions allowed here.
_UsageError: type[Any] = typer.BadParameter.__mro__[1]
BATCH_KEY = "hedgerow.batch"  # where a batch file keeps its settings, beside "hedgerow.clusters" of a cluster file

WORTH_TELLING = 10.0  # seconds: shorter work is done before its estimate is read

app = typer.Typer(
    name="hedgerow",
    help="Batch active learning at scale: cluster a pool once, then select each round what to label next.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

experiment = typer.Typer(help="Experiments with known labels: recipes, runs that resume, reports.")
app.add_typer(experiment, name="experiment")

Force = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
IdColumn = Annotated[str | None, typer.Option(help="Column with the ids, if its name does not say so.")]
Seed = Annotated[int, typer.Option(help="Same input, seed and version: same result.")]


def main() -> None:
    """Run the command line and exit; an error is one line on standard error."""
    warnings.showwarning = _show_warning
    try:
        code = app(prog_name="hedgerow", standalone_mode=False)
    except _UsageError as error:
        context = getattr(error, "ctx", None)
        where = context.command_path if context is not None else "hedgerow"
        code = _complain(f"{_join_lines(error.format_message())} (see {where} --help)", 2)
    except HedgerowError as error:
        code = _complain(_join_lines(str(error)), 1)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    if code == 130:
        _complain("interrupted", 130)
    sys.exit(code if isinstance(code, int) else 0)


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"hedgerow {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def cluster(
    pool_path: Annotated[
        Path, typer.Argument(metavar="POOL", help="Embeddings: .npy, .parquet, or a folder of .parquet files.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Parquet file to write: id (if there are ids), cluster.")],
    average_size: Annotated[
        float | None, typer.Option(help="Least average size of the clusters; 10 if no threshold is given either.")
    ] = None,
    threshold: Annotated[float | None, typer.Option(help="Merge all that is within this distance.")] = None,
    metric: Annotated[str, typer.Option(help="cosine, sqeuclidean or euclidean.")] = "cosine",
    method: Annotated[
        str, typer.Option(help="exact, certified, multiround or assign; auto: one of the first two, by size.")
    ] = "auto",
    subset: Annotated[
        str | None,
        typer.Option(help="What the method assign clusters: a fraction of the pool (0.1), or a file as for --labeled."),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of the method multiround; 3 if not given.")] = None,
    zeros: Annotated[
        str, typer.Option(help="Rows of zeros under cosine distance: refuse, or singletons: a cluster each.")
    ] = "refuse",
    centroids: Annotated[
        bool, typer.Option("--centroids", help="Keep the centroids too, for new points: OUT with .centroids.npz.")
    ] = False,
    column: Annotated[
        str | None, typer.Option(help="Column with the embeddings (or the prefix of several), if it is not found.")
    ] = None,
    id_column: IdColumn = None,
    seed: Seed = 0,
    threads: Annotated[int | None, typer.Option(help="Threads to use; all cores if not given.")] = None,
    workdir: Annotated[
        Path | None, typer.Option(help="Folder for finished phases: an interrupted run goes on from there.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Cluster a pool of embeddings, once for all rounds.

    Average linkage: the clusters are the cut of the tree at a threshold, given or found for an average size. The file
    has a row for each row of the pool, in its order, and the settings in its metadata.
    """
    from hedgerow import pool, store
    from hedgerow.clustering import clusters, hac
    from hedgerow.pool.ids import open_ids

    pool.check_target(out, force=force, inputs=[pool_path])
    if centroids:
        store.check_target(clusters.name_beside(out), force=force)
        if metric == "euclidean":
            raise InputError("--centroids goes with the metrics cosine and sqeuclidean")
    embeddings = pool.open_matrix(pool_path, "embeddings", column=column)
    ids = open_ids(pool_path, id_column)
    needed = hac.estimate(embeddings.n, embeddings.width, method=method, threads=threads)
    if needed.seconds >= WORTH_TELLING:
        typer.echo(f"{embeddings.n:,} x {embeddings.width}: {needed}", err=True)
    with _show_progress() as progress:
        made = clusters.cluster(
            embeddings,
            average_size=average_size,
            threshold=threshold,
            metric=metric,
            method=method,
            subset=None if subset is None else _read_subset(subset, embeddings.n, ids, id_column),
            rounds=rounds,
            zeros=zeros,
            centroids=centroids,
            seed=seed,
            threads=threads,
            workdir=workdir,
            progress=progress,
        )
    made.save(out, ids=None if ids is None else ids.array(), centroids=centroids, force=force)
    _report(
        as_json,
        {**made.settings(), "seed": seed, "ids": ids is not None, "pool": str(pool_path), "out": str(out)},
        f"{len(made.labels):,} rows in {made.n_clusters:,} clusters of {made.average_size:.2f} on average "
        f"({made.metric} distance up to {made.threshold:.6g}) -> {out}",
    )


@app.command()
def select(
    predictions: Annotated[
        Path,
        typer.Argument(
            metavar="PREDICTIONS",
            help="Probabilities or margins of the whole pool (with --pairs: probabilities a row and class, or one a "
            "pair): .npy, .parquet, or a folder of .parquet files.",
        ),
    ],
    k: Annotated[int, typer.Option("-k", help="How many rows to select, or with --pairs questions.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Parquet file to write: id, row, class, pair, margin, cluster (as known), pick."
        ),
    ],
    pairs: Annotated[
        Path | None,
        typer.Option(help="Questions to select from, in place of rows: .parquet with columns id or row, and class."),
    ] = None,
    clusters: Annotated[Path | None, typer.Option(help="What `hedgerow cluster` wrote, or a label a row.")] = None,
    strategy: Annotated[
        str,
        typer.Option(
            help="cluster-margin, margin, stochastic-margin, entropy, least-confidence, badge, coreset or random. With "
            "--pairs also cluster-margin-pairs, but neither entropy nor least-confidence."
        ),
    ] = "cluster-margin",
    labeled: Annotated[
        Path | None,
        typer.Option(
            help="What is labeled: .parquet or .csv with a column id or row; .npy or .txt of ids or rows. "
            "With --pairs: .parquet as that file, or .npy of its rows."
        ),
    ] = None,
    embeddings: Annotated[Path | None, typer.Option(help="Embeddings, for badge and coreset.")] = None,
    margin_factor: Annotated[
        float | None, typer.Option(help="Candidates of cluster-margin, in multiples of k; 10 if not given.")
    ] = None,
    power: Annotated[
        float | None,
        typer.Option(help="Draw by (1 - margin)^power: rows (stochastic-margin) or candidates (cluster-margin)."),
    ] = None,
    by_class: Annotated[
        bool | None, typer.Option("--by-class", help="Have cluster-margin-pairs visit clusters and classes together.")
    ] = None,
    per_row: Annotated[int | None, typer.Option(help="Most questions a row, of cluster-margin-pairs.")] = None,
    class_quota: Annotated[int | None, typer.Option(help="Most questions a class, of cluster-margin-pairs.")] = None,
    partitions: Annotated[int | None, typer.Option(help="Random parts that badge and coreset work in.")] = None,
    split_labeled: Annotated[
        bool | None, typer.Option("--split-labeled", help="Split what is labeled among the parts of coreset too.")
    ] = None,
    seed: Seed = 0,
    allow_short: Annotated[
        bool, typer.Option("--allow-short", help="Take what is there if it is less than k.")
    ] = False,
    column: Annotated[
        str | None, typer.Option(help="Column with the probabilities or margins (or the prefix of several).")
    ] = None,
    id_column: IdColumn = None,
    class_column: Annotated[
        str | None, typer.Option(help="Column with the classes of the pairs, if its name does not say so.")
    ] = None,
    logits: Annotated[bool, typer.Option("--logits", help="The predictions are logits, not probabilities.")] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Select the rows to label next, or the questions to ask.

    All files speak of the same rows in the same order; where two of them have ids, these must agree. With --pairs the
    batch is of questions (row, class) of a multi-label pool. It is written in the order of the picks, with the settings
    in the file's metadata.
    """
    from hedgerow import pool

    pool.check_target(out, force=force, inputs=[predictions, pairs, clusters, embeddings, labeled])
    if class_column is not None and pairs is None:
        raise InputError("--class-column goes with --pairs")
    inputs = _Inputs(predictions, pairs, clusters, embeddings, labeled, column, id_column, class_column, logits)
    options = {"margin_factor": margin_factor, "power": power, "partitions": partitions}
    options |= {"split_labeled": split_labeled, "by_class": by_class, "per_row": per_row, "class_quota": class_quota}
    chooser = _make_strategy(strategy, options, of_pairs=pairs is not None)
    for need in ("clusters", "embeddings"):
        if need in chooser.needs and getattr(inputs, need) is None:
            raise InputError(f"the strategy {strategy!r} needs --{need} FILE")
    with _show_progress() as progress:
        run = _select if pairs is None else _select_pairs
        columns, counts = run(inputs, chooser, k, seed, allow_short, progress or _ignore)
    settings = {
        "strategy": strategy,
        "options": asdict(chooser),
        "k": k,
        **counts,
        "seed": seed,
        "inputs": {name: str(value) for name, value in asdict(inputs).items() if value not in (None, False)},
    }
    _write_batch(out, columns, settings, force)
    kind = "rows" if pairs is None else "pairs"
    line = f"{counts['selected']:,} of {counts['n']:,} {kind} by {strategy} (seed {seed}) -> {out}"
    _report(as_json, {**settings, "out": str(out)}, line)


@app.command()
def warm(as_json: Json = False) -> None:
    """Compile everything now, so that later commands start at once.

    For container images and shared installations: run it as a user who may write to the installed package, and other
    users need not compile anything. Compiled code is kept beside the package, or in the folder NUMBA_CACHE_DIR.
    """
    from hedgerow.warming import warm as compile_all

    with _show_progress() as progress:
        done = compile_all(progress=progress)
    facts = {"compiled": done.compiled, "folder": done.folder and str(done.folder), "seconds": done.seconds}
    where = f"kept in {done.folder}" if done.folder else "kept nowhere: set NUMBA_CACHE_DIR to a folder of your own"
    _report(as_json, facts, f"{done.compiled:,} kernels compiled in {done.seconds:.0f} s, {where}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="The report, one HTML file.")] = Path("hedgerow-demo.html"),
    seeds: Annotated[int, typer.Option(help="How many trials, each with a seed of its own.")] = 5,
    quick: Annotated[bool, typer.Option("--quick", help="A toy of the same shape, in seconds.")] = False,
    as_json: Json = False,
) -> None:
    """Compare the strategies on a pool of digits.

    Cluster-Margin, Margin and Random, over several trials: a table, and a report as one HTML file. An earlier report of
    the same name is replaced.
    """
    from hedgerow.experiments.demo import run_demo

    with _show_progress() as progress:
        result = run_demo(out, seeds=seeds, quick=quick, progress=progress)
    if as_json:
        _report(True, result.to_json(), "")
        return
    _print_table(result.table)
    typer.echo(f"report: {result.report}")


@experiment.callback(invoke_without_command=True)
def choose_experiment(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@experiment.command("run")
def run_experiment(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A TOML file, or the name of a recipe that comes with hedgerow.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the run; one that has begun goes on.")],
    data: Annotated[
        Path | None, typer.Option(help="Folder with the dataset's files, as their authors publish them.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder for features of frozen networks; DATA/cache if not given.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes that share the strategies, trial after trial.")] = 1,
    trials: Annotated[
        int | None, typer.Option(help="How many trials, if not as in the recipe; more can be asked for later.")
    ] = None,
    first_trial: Annotated[
        int, typer.Option(help="The first of them to run, where those before are run elsewhere: 0 is the first.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Run an experiment: every trial, batch size and strategy of a recipe.

    Every round is written to OUT when it is done. A run that was interrupted, in whatever way, goes on with the same
    command and ends with the same results. Then see `hedgerow experiment report OUT`.
    """
    from hedgerow.experiments.records import list_results
    from hedgerow.experiments.runs import run_experiment

    with _show_progress() as progress:
        held = run_experiment(
            recipe, out, data=data, cache=cache, jobs=jobs, trials=trials, first_trial=first_trial, progress=progress
        )
    rows = len(list_results(held))
    facts = {"recipe": held.recipe["name"], "trials": held.trials, "results": rows, "out": str(out)}
    _report(as_json, facts, f"{held.recipe['name']}: {held.trials} trials, {rows:,} results -> {out / 'results.csv'}")


@experiment.command("report")
def report_experiment(
    folder: Annotated[Path, typer.Argument(metavar="OUT", help="What `hedgerow experiment run` wrote to.")],
    others: Annotated[
        list[Path] | None,
        typer.Argument(metavar="OTHERS", help="Folders of the same recipe with other trials, or their summary.json."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell what an experiment found: tables, and one HTML file.

    Written to the folder OUT: report.html, summary.json, results.parquet, results.csv. Of a run that is under way the
    complete trials are told.
    """
    from hedgerow.experiments.pages import report_experiment

    summary = report_experiment(folder, *(others or ()))
    if as_json:
        _report(True, summary.to_json(), "")
        return
    for heading, rows in summary.tables().items():
        typer.echo(heading)
        _print_rows(rows)
        typer.echo("")
    typer.echo(f"report: {summary.report}")


@experiment.command("list")
def list_experiments(as_json: Json = False) -> None:
    """List the recipes that come with hedgerow."""
    from hedgerow.experiments.recipes import list_recipes, load_recipe

    recipes = [load_recipe(name) for name in list_recipes()]
    facts = {one.name: {"reproduces": one.reproduces, "takes": one.takes} for one in recipes}
    _report(as_json, facts, "\n".join(f"{one.name}: {one.reproduces} Takes {one.takes}." for one in recipes))


# Clustering.


def _read_subset(given: str, n: int, ids: "Ids | None", id_column: str | None) -> Any:
    """A fraction, or the rows that a file names."""
    from hedgerow.pool import find_rows

    try:
        return float(given)
    except ValueError:
        return find_rows(Path(given), "subset", n, ids, id_column=id_column)


# Selecting.


@dataclass(frozen=True)
class _Inputs:
    """The files of a selection, and how to read the predictions."""

    predictions: Path
    pairs: Path | None
    clusters: Path | None
    embeddings: Path | None
    labeled: Path | None
    column: str | None
    id_column: str | None
    class_column: str | None
    logits: bool


def _make_strategy(name: str, options: Mapping[str, Any], *, of_pairs: bool) -> Any:
    from hedgerow import checks
    from hedgerow.pairs import PAIR_STRATEGIES
    from hedgerow.strategies import STRATEGIES

    known = PAIR_STRATEGIES if of_pairs else STRATEGIES
    kind = known[checks.option(name, "strategy", known)]
    given = {key: value for key, value in options.items() if value is not None}
    for key in given:
        if key not in {field.name for field in fields(kind)}:
            raise InputError(f"--{key.replace('_', '-')} is no option of the strategy {name!r}")
    return kind(**given)


def _select(
    inputs: _Inputs, strategy: Any, k: int, seed: int, allow_short: bool, progress: Progress
) -> tuple[dict[str, Any], dict[str, int]]:
    """The columns of the batch, and how many rows there are, are labeled and were selected."""
    from hedgerow import strategies

    progress("reading", 0.0)
    about_rows = [path for path in (inputs.predictions, inputs.clusters, inputs.embeddings) if path]
    ids = _open_ids(about_rows, inputs.id_column)
    known = _read_known(inputs, ids)
    progress("scoring", 0.2)
    known |= _read_predictions(inputs, strategy.needs)
    progress("selecting", 0.8)
    rows = strategies.select(strategy, k, **known, seed=seed, allow_short=allow_short).rows
    progress("writing", 0.9)
    columns = {} if ids is None else {"id": ids.take(rows)}
    columns["row"] = rows
    for plural, single in (("margins", "margin"), ("clusters", "cluster")):
        if plural in known:
            columns[single] = known[plural][rows]
    mask = known["labeled"]
    return columns, {"n": len(mask), "labeled": int(mask.sum()), "selected": len(rows)}


def _select_pairs(
    inputs: _Inputs, strategy: Any, k: int, seed: int, allow_short: bool, progress: Progress
) -> tuple[dict[str, Any], dict[str, int]]:
    """As `_select`, of questions."""
    from hedgerow import pairs, pool

    progress("reading", 0.0)
    asked, given = _read_questions(inputs)
    progress("selecting", 0.5)
    batch = pairs.select_pairs(strategy, k, pairs=asked.pairs, **given, seed=seed, allow_short=allow_short)
    progress("writing", 0.9)
    columns = {**asked.tell(batch.index), "pair": batch.index}
    if not isinstance(given["probabilities"], pool.Matrix):
        columns["margin"] = pairs.measure_margins(given["probabilities"][batch.index])
    if "clusters" in given:
        columns["cluster"] = given["clusters"][batch.rows]
    mask = given["labeled"]
    return columns, {"n": len(mask), "labeled": int(mask.sum()), "selected": len(batch)}


def _read_questions(inputs: _Inputs) -> tuple["Questions", dict[str, Any]]:
    """The questions, and what is known of them and of the pool."""
    import numpy as np

    from hedgerow import pool
    from hedgerow.pairs.files import Columns, read_questions

    if inputs.logits:
        raise InputError("--logits does not go with --pairs: give probabilities, as of a sigmoid")
    assert inputs.pairs is not None
    source, column = inputs.predictions, inputs.column
    a_pair_each = pool.holds_vector(source, "pair probabilities", column=column)
    about_rows = [path for path in (None if a_pair_each else source, inputs.clusters, inputs.embeddings) if path]
    ids = _open_ids(about_rows, None if a_pair_each else inputs.id_column)
    columns = Columns(inputs.id_column, inputs.class_column)
    asked = read_questions(inputs.pairs, ids, columns, rows_known=bool(about_rows), classes_known=not a_pair_each)
    known: dict[str, Any] = {"labeled": np.zeros(len(asked.pairs), np.bool_)}
    if inputs.labeled is not None:
        known["labeled"][asked.find(inputs.labeled, "labeled")] = True
    if a_pair_each:
        asked.refuse_others(source)
        known["probabilities"] = pool.as_vector(source, "pair probabilities", column=column)
    else:
        known["probabilities"] = pool.open_matrix(source, "probabilities", column=column)
    if inputs.clusters is not None:
        known["clusters"] = pool.as_vector(inputs.clusters, "clusters")
    if inputs.embeddings is not None:
        known["embeddings"] = pool.open_matrix(inputs.embeddings, "embeddings")
    return asked, known


def _read_known(inputs: _Inputs, ids: "Ids | None") -> dict[str, Any]:
    """What is known of the pool beside the predictions."""
    import numpy as np

    from hedgerow import checks, pool
    from hedgerow.pool import find_rows

    n = pool.count_rows(inputs.predictions, "predictions")
    known: dict[str, Any] = {"labeled": np.zeros(n, np.bool_)}
    lengths = {str(inputs.predictions): n}
    if inputs.clusters is not None:
        labels = pool.as_vector(inputs.clusters, "clusters")
        checks.same_length({**lengths, str(inputs.clusters): len(labels)})
        known["clusters"] = checks.cluster_labels(labels, n)
    if inputs.embeddings is not None:
        known["embeddings"] = pool.open_matrix(inputs.embeddings, "embeddings")
        checks.same_length({**lengths, str(inputs.embeddings): known["embeddings"].n})
    if inputs.labeled is not None:
        rows = find_rows(inputs.labeled, "labeled", n, ids, id_column=inputs.id_column)
        known["labeled"][rows] = True
    return known


def _read_predictions(inputs: _Inputs, needs: frozenset[str]) -> dict[str, Any]:
    """What the strategy needs of the predictions: margins where they are enough, else the probabilities."""
    from hedgerow import pool, scores

    source, column = inputs.predictions, inputs.column
    if "probabilities" in needs:
        if inputs.logits:
            raise InputError("--logits goes with strategies that need margins only: give this one probabilities")
        return {"probabilities": pool.open_matrix(source, "probabilities", column=column, least_columns=2)}
    if "margins" not in needs:
        return {}
    if inputs.logits:
        return {"margins": scores.margins(logits=pool.open_matrix(source, "logits", column=column))}
    if pool.holds_vector(source, "margins", column=column):
        return {"margins": pool.as_vector(source, "margins", column=column)}
    return {"margins": scores.margins(pool.open_matrix(source, "probabilities", column=column))}


def _open_ids(paths: list[Path], id_column: str | None) -> "Ids | None":
    """The ids of the pool, after a look at whether the files agree on them. id_column: the first file's."""
    from hedgerow.pool.ids import open_ids

    ids = None
    for place, path in enumerate(paths):
        others = open_ids(path, id_column if place == 0 else None, like=ids)
        ids = ids or others
    return ids


def _write_batch(out: Path, columns: Mapping[str, Any], settings: Mapping[str, Any], force: bool) -> None:
    import numpy as np

    from hedgerow import pool

    picks = np.arange(len(next(iter(columns.values()))), dtype=np.int64)
    pool.write_table(out, {**columns, "pick": picks}, {BATCH_KEY: json.dumps(settings)}, force=force)


# Telling.


@contextmanager
def _show_progress() -> Iterator[Progress | None]:
    """A bar on standard error if that is a terminal; otherwise None: nothing is told."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with Bar(*columns, *times, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=1.0)

        def show(phase: str, done: float) -> None:
            if done < bar.tasks[0].completed:  # something else begins: the time left is that of the part that runs
                bar.reset(task)
            bar.update(task, description=phase, completed=done)

        with kernels.announce(show):
            yield show


def _ignore(phase: str, done: float) -> None:
    """Nobody watches."""


def _report(as_json: bool, facts: Mapping[str, Any], line: str) -> None:
    typer.echo(json.dumps(facts) if as_json else line)


def _print_table(rows: "tuple[dict[str, str], ...]") -> None:
    """Turned on its side, a column for each row given: five long columns fit into 80 characters, six do not."""
    from rich.console import Console
    from rich.table import Table

    corner, *keys = rows[0]
    table = Table(corner, *(row[corner].replace(", ", ",\n") for row in rows), box=None, pad_edge=False)
    for key in keys:
        table.add_row(key, *(row[key] for row in rows))
    Console().print(table)


def _print_rows(rows: "tuple[dict[str, str], ...]") -> None:
    """A table as it is given: a line a row, cut to the width of a terminal and to none elsewhere."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*rows[0], box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row.values())
    Console(width=None if sys.stdout.isatty() else 1000).print(table)


def _complain(message: str, code: int) -> int:
    typer.echo(f"hedgerow: {message}", err=True)
    return code


def _join_lines(text: str) -> str:
    return " ".join(text.split())


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    if issubclass(category, HedgerowWarning):
        _complain(f"warning: {_join_lines(str(message))}", 0)
    else:
        typer.echo(warnings.formatwarning(message, category, *where[:2]), err=True, nl=False)
