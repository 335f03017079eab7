"""The commands `hedgerow cluster`, `assign` and `select`: each is one public function with files for arguments."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.cli.app import Force, IdColumn, Json, Seed, Threads, print_columns, report
from hedgerow.cli.engines import Engine, Insecure, MixedWorkers, RangeWorkdir
from hedgerow.errors import InputError

if TYPE_CHECKING:
    from hedgerow.pool.ids import Ids

WORTH_ESTIMATING = 10.0  # seconds: the estimate of shorter work is not printed
# Written out, because importing them would take longer than `--help`; a test compares them with the originals.
STRATEGY_NAMES = (
    "cluster-margin", "margin", "stochastic-margin", "hedge", "entropy", "least-confidence", "badge", "coreset",
    "typiclust", "probcover", "maxherding", "uherding", "random", "cluster-margin-shuffled", "uniform-candidates",
    "hedge-shuffled",
)  # fmt: skip
PAIR_STRATEGY_NAMES = (  # in addition, with --pairs
    "cluster-margin-pairs", "cluster-margin-pairs-shuffled", "uniform-candidate-pairs", "cluster-margin-informed",
    "random-informed",
)  # fmt: skip
FORMS = ".npy, .parquet, a folder of .parquet files, or a pattern such as 'part-*.parquet'"
OUTPUTS = ".parquet, .csv or .jsonl file; - prints CSV (with --json: JSON lines)."

Column = Annotated[
    str | None, typer.Option(help="Column with the embeddings, or the common prefix of several columns.")
]


def cluster(
    pool_path: Annotated[str, typer.Argument(metavar="POOL", help=f"Embeddings: {FORMS}.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Parquet file to write: id (if there are ids), cluster.")
    ],
    average_size: Annotated[
        float | None, typer.Option(help="Average size of the clusters, at least. Default: 10, unless --threshold.")
    ] = None,
    threshold: Annotated[float | None, typer.Option(help="Merge clusters up to this distance.")] = None,
    metric: Annotated[str, typer.Option(help="cosine, sqeuclidean or euclidean.")] = "cosine",
    method: Annotated[
        str, typer.Option(help="exact, certified, multiround or assign; auto is exact or certified, by size.")
    ] = "auto",
    subset: Annotated[
        str | None,
        typer.Option(
            help="For the method assign: the part to cluster, as a fraction (0.1) or a file as for --labeled."
        ),
    ] = None,
    join_by: Annotated[
        str | None,
        typer.Option(help="For the method assign: distance of a point to a cluster, average (default) or centroid."),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="For the method multiround: number of rounds. Default: 3.")] = None,
    neighbors: Annotated[int | None, typer.Option(help="Length of the neighbor lists. Default: 15.")] = None,
    slack: Annotated[
        float | None,
        typer.Option(help="For certified and assign: 1 certifies every merge, larger values are faster. Default: 1.1."),
    ] = None,
    shard_rows: Annotated[
        int | None,
        typer.Option(
            help="For certified: shards of about this many rows, for pools larger than memory. Default: no shards."
        ),
    ] = None,
    zeros: Annotated[
        str, typer.Option(help="Rows of zeros under cosine distance: refuse, or singletons (one cluster each).")
    ] = "refuse",
    centroids: Annotated[
        bool,
        typer.Option("--centroids", help="Also write the centroids, which `assign` needs, to OUT with .centroids.npz."),
    ] = False,
    column: Column = None,
    id_column: IdColumn = None,
    seed: Seed = 0,
    threads: Threads = None,
    engine: Engine = None,
    workdir: Annotated[
        Path | None,
        typer.Option(
            help="Folder for finished phases: an interrupted run continues from there. Workers must share it."
        ),
    ] = None,
    insecure: Insecure = False,
    mixed_workers: MixedWorkers = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Cluster a pool of embeddings, once for all rounds.

    Average linkage: the clusters are the cut of the tree at a threshold, which is given or found for an average size.
    The file has one row for each row of the pool, in the same order, and the settings in its metadata.
    """
    from hedgerow import pool, store
    from hedgerow.clustering import clusters, hac
    from hedgerow.engines import open_engine

    pool.check_target(out, force=force, inputs=[pool_path])
    if centroids:
        store.check_target(clusters.name_beside(out), force=force)
        if metric == "euclidean":
            raise InputError("--centroids needs the metric cosine or sqeuclidean")
    embeddings = pool.open_matrix(pool_path, "embeddings", column=column, id_column=id_column)
    needed = hac.estimate(embeddings.n, embeddings.width, method=method, threads=threads, shard_rows=shard_rows)
    if needed.seconds >= WORTH_ESTIMATING:
        typer.echo(f"{embeddings.n:,} x {embeddings.width}: {needed}", err=True)
    with open_engine(engine, insecure=insecure, mixed_workers=mixed_workers) as opened:
        made = clusters.cluster(
            embeddings,
            average_size=average_size,
            threshold=threshold,
            metric=metric,
            method=method,
            subset=None if subset is None else _read_subset(subset, embeddings.n, embeddings.ids, id_column),
            join_by=join_by,
            rounds=rounds,
            neighbors=neighbors,
            slack=slack,
            shard_rows=shard_rows,
            zeros=zeros,
            centroids=centroids,
            seed=seed,
            threads=threads,
            engine=opened,
            workdir=workdir,
            progress=True,
        )
    made.save(out, centroids=centroids, force=force)
    report(
        as_json,
        {**made.settings(), "seed": seed, "ids": embeddings.ids is not None, "pool": pool_path, "out": str(out)},
        f"{len(made.labels):,} rows in {made.n_clusters:,} clusters of {made.average_size:.2f} on average "
        f"({made.metric} distance up to {made.threshold:.6g}) -> {out}",
    )


def assign(
    clusters_path: Annotated[
        str, typer.Argument(metavar="CLUSTERS", help="File written by `hedgerow cluster --centroids`.")
    ],
    points_path: Annotated[str, typer.Argument(metavar="NEW", help=f"Embeddings of the new points: {FORMS}.")],
    out: Annotated[
        str,
        typer.Option(
            "--out", "-o", help=f"File to write, with id (if known), row, cluster, distance, joined: {OUTPUTS}"
        ),
    ],
    column: Column = None,
    id_column: IdColumn = None,
    engine: Engine = None,
    workdir: RangeWorkdir = None,
    insecure: Insecure = False,
    mixed_workers: MixedWorkers = False,
    threads: Threads = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Assign new points to existing clusters.

    A point gets the nearest cluster if it is within the clusters' threshold, else a cluster of its own with a new
    number. The clusters themselves do not change.
    """
    from hedgerow import pool
    from hedgerow.clustering.clusters import Clusters
    from hedgerow.engines import open_engine
    from hedgerow.pool.outputs import STDOUT, check_output, write_columns

    check_output(out, force=force, inputs=[clusters_path, points_path])
    clusters = Clusters.load(clusters_path)
    points = pool.open_matrix(points_path, "embeddings", column=column, id_column=id_column)
    with open_engine(engine, insecure=insecure, mixed_workers=mixed_workers) as opened:
        found = clusters.find_nearest(points, threads=threads, engine=opened, workdir=workdir, progress=True)
    if out == STDOUT:
        print_columns(found.columns(), as_json)
    else:
        write_columns(out, found.columns(), {}, force=force)
    n, joined = len(found.labels), int(found.joined.sum())
    facts = {"n": n, "joined": joined, "alone": n - joined, "n_clusters": clusters.n_clusters, "out": out}
    line = f"{joined:,} of {n:,} points in {clusters.n_clusters:,} clusters, {n - joined:,} on their own"
    report(as_json, facts, line if out == STDOUT else f"{line} -> {out}", err=out == STDOUT)


def select(
    k: Annotated[int, typer.Option("-k", help="Number of rows to select; with --pairs: of pairs.")],
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help=f"File to write, with id, row, class, pair, margin, cluster, weight (as known), pick: {OUTPUTS}",
        ),
    ],
    predictions: Annotated[
        str | None,
        typer.Argument(
            metavar="[PREDICTIONS]",
            help="Probabilities or margins of the pool, or of a part of it (with --pairs: probabilities, one per row "
            f"and class or one per pair): {FORMS}. Not needed by strategies that use embeddings alone.",
        ),
    ] = None,
    pairs: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Select (row, class) pairs out of this file: .parquet with columns id or row, and class.",
        ),
    ] = None,
    clusters: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="File written by `hedgerow cluster`, or one cluster number per row."),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"{', '.join(STRATEGY_NAMES[:-1])} or {STRATEGY_NAMES[-1]}. With --pairs also "
            f"{', '.join(PAIR_STRATEGY_NAMES)}, but not entropy, least-confidence, typiclust, probcover, maxherding "
            "or uherding. Default: hedge; with --pairs stochastic-margin.",
            autocompletion=lambda: [*STRATEGY_NAMES, *PAIR_STRATEGY_NAMES],
        ),
    ] = None,
    labeled: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="What is labeled already; can be given several times. The more there is, the more hedge trusts the "
            "predictions. A .parquet, .csv or .jsonl file with a column id or "
            "row (such as an earlier batch); .npy or .txt of ids or rows. With --pairs: with the columns of that "
            "file, or .npy of positions in it.",
        ),
    ] = None,
    embeddings: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Embeddings, for badge, coreset, typiclust, probcover, maxherding and uherding."
        ),
    ] = None,
    margin_factor: Annotated[
        float | None, typer.Option(help="cluster-margin: number of candidates, in multiples of k. Default: 10.")
    ] = None,
    power: Annotated[
        float | None,
        typer.Option(
            help="stochastic-margin, cluster-margin: draw rows or candidates by (1 - margin)^power. hedge: how sharp "
            "the draw is at most."
        ),
    ] = None,
    by_class: Annotated[
        bool | None, typer.Option("--by-class", help="cluster-margin-pairs: visit clusters and classes together.")
    ] = None,
    per_row: Annotated[int | None, typer.Option(help="cluster-margin-pairs: largest number of pairs per row.")] = None,
    class_quota: Annotated[
        int | None, typer.Option(help="cluster-margin-pairs: largest number of pairs per class.")
    ] = None,
    partitions: Annotated[int | None, typer.Option(help="badge, coreset: number of random parts.")] = None,
    split_labeled: Annotated[
        bool | None, typer.Option("--split-labeled", help="coreset: split the labeled rows among the parts, too.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any option of the strategy, such as first=random for badge."),
    ] = None,
    seed: Seed = 0,
    allow_short: Annotated[
        bool, typer.Option("--allow-short", help="Select what is there if fewer than k are unlabeled.")
    ] = False,
    ignore_unknown: Annotated[
        bool, typer.Option("--ignore-unknown", help="Leave out ids that are not in the pool, instead of an error.")
    ] = False,
    column: Annotated[
        str | None, typer.Option(help="Column with the probabilities or margins, or the common prefix of several.")
    ] = None,
    id_column: IdColumn = None,
    class_column: Annotated[
        str | None, typer.Option(help="With --pairs: column with the classes, if it is not called class or similar.")
    ] = None,
    logits: Annotated[bool, typer.Option("--logits", help="The predictions are logits, not probabilities.")] = False,
    engine: Engine = None,
    workdir: Annotated[
        Path | None,
        typer.Option(
            help="Folder for finished parts: an interrupted selection continues from there. Workers must share it."
        ),
    ] = None,
    insecure: Insecure = False,
    mixed_workers: MixedWorkers = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Select the rows, or (row, class) pairs, to label next.

    Files with ids are joined by id, whatever their order; files without ids are matched by position. `row` is the
    position in the embeddings if they are given, else in the clusters, else in the predictions. Rows without
    predictions are not selected. The batch is written in pick order; Parquet has the settings in its metadata. With
    --partitions, badge and coreset can use the workers of an engine; the batch is the same.
    """
    from hedgerow.engines import open_engine
    from hedgerow.pairs import PAIR_STRATEGIES, select_pairs
    from hedgerow.pool.outputs import STDOUT, check_output
    from hedgerow.strategies import STRATEGIES, make
    from hedgerow.strategies import select as select_rows
    from hedgerow.strategies.options import parse_settings

    check_output(out, force=force, inputs=[predictions, pairs, clusters, embeddings, *(labeled or ())])
    shorthands = {
        "margin_factor": margin_factor, "power": power, "partitions": partitions, "split_labeled": split_labeled,
        "by_class": by_class, "per_row": per_row, "class_quota": class_quota,
    }  # fmt: skip
    if logits and predictions is None:
        raise InputError("--logits needs PREDICTIONS, the file with the logits")
    options = _merge_options(shorthands, parse_settings(settings or ()))
    name = strategy or ("hedge" if pairs is None else "stochastic-margin")
    chooser = make(name, options, STRATEGIES if pairs is None else PAIR_STRATEGIES)
    shared: dict[str, Any] = {
        "embeddings": embeddings, "clusters": clusters, "labeled": [Path(one) for one in labeled or ()] or None,
        "seed": seed, "allow_short": allow_short, "ignore_unknown": ignore_unknown, "column": column,
        "id_column": id_column,
    }  # fmt: skip
    batch: Any
    if pairs is None:
        if class_column is not None:
            raise InputError("--class-column needs --pairs")
        shared |= {"logits" if logits else "predictions": predictions}
        asked = engine is not None or workdir is not None  # if not, HEDGEROW_ENGINE is for strategies that can use it
        if asked or getattr(chooser, "partitions", 1) > 1:
            with open_engine(engine, insecure=insecure, mixed_workers=mixed_workers) as opened:
                batch = select_rows(chooser, k, **shared, engine=opened, workdir=workdir, progress=True)
        else:
            batch = select_rows(chooser, k, **shared, progress=True)
    else:
        if engine is not None or workdir is not None:
            raise InputError("--engine and --workdir cannot be used with --pairs: pairs are selected in one process")
        if logits:
            raise InputError("--logits cannot be used with --pairs: give probabilities, as from a sigmoid")
        shared |= {"pairs": pairs, "class_column": class_column}
        batch = select_pairs(chooser, k, probabilities=predictions, **shared, progress=True)
    if out == STDOUT:
        print_columns(batch.columns(), as_json)
    else:
        batch.save(out, force=force)
    report(
        as_json,
        {**batch.describe(), "out": out},
        _summarize(batch, "rows" if pairs is None else "pairs") + ("" if out == STDOUT else f" -> {out}"),
        err=out == STDOUT,
    )


def _summarize(batch: Any, kind: str) -> str:
    """The line for people: how many were selected, and what was left out."""
    settings = batch.settings
    line = f"{len(batch):,} of {settings['n']:,} {kind} by {batch.strategy} (seed {batch.seed})"
    if settings["without_predictions"]:
        line += f", {settings['without_predictions']:,} without predictions"
    if settings["ignored"]:
        line += f", {settings['ignored']:,} unknown id{'' if settings['ignored'] == 1 else 's'} ignored"
    return line


def _merge_options(shorthands: dict[str, Any], settings: dict[str, str]) -> dict[str, Any]:
    given = {key: value for key, value in shorthands.items() if value is not None}
    for key in given:
        if key in settings:
            raise InputError(f"--{key.replace('_', '-')} and --set {key}=... are the same option: give one of them")
    return {**given, **settings}


def _read_subset(given: str, n: int, ids: "Ids | None", id_column: str | None) -> Any:
    """A fraction, or the rows that a file lists."""
    from hedgerow.pool import find_rows

    try:
        return float(given)
    except ValueError:
        return find_rows(given, "subset", n, ids, id_column=id_column)
