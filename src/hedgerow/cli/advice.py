"""The command `hedgerow advise`: which strategy to use for the next batch, and why."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hedgerow.cli.app import IdColumn, Json, Seed, report
from hedgerow.cli.selection import FORMS
from hedgerow.errors import InputError


def advise(
    predictions: Annotated[
        str,
        typer.Argument(
            metavar="PREDICTIONS",
            help="Probabilities or margins of the pool, or of a part of it (with --pairs: probabilities, one per row "
            f"and class or one per pair): {FORMS}.",
        ),
    ],
    k: Annotated[int, typer.Option("-k", help="Number of rows in the planned batch; with --pairs: of pairs.")],
    clusters: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="File written by `hedgerow cluster`, or one cluster number per row."),
    ] = None,
    labeled: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="What is labeled already, as for `hedgerow select`; can be given several times. A column label (with "
            "--pairs: answer) has the labels: class numbers or names (0 or 1).",
        ),
    ] = None,
    embeddings: Annotated[
        str | None, typer.Option(metavar="FILE", help="Embeddings, to measure near-copies by distance, too.")
    ] = None,
    pairs: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="The (row, class) pairs of the pool: .parquet with columns id or row, and class."
        ),
    ] = None,
    holdout: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Predictions and labels that the model was not trained on, to measure its calibration."
        ),
    ] = None,
    classes: Annotated[int | None, typer.Option(help="Number of classes, if the predictions are margins.")] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="Metric of distances: cosine, sqeuclidean or euclidean. Default: that of the clusters, or cosine if "
            "they do not say."
        ),
    ] = None,
    seed: Seed = 0,
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
    label_column: Annotated[
        str | None, typer.Option(help="Column with the labels, if it is not called label or similar.")
    ] = None,
    logits: Annotated[bool, typer.Option("--logits", help="The predictions are logits, not probabilities.")] = False,
    as_json: Json = False,
) -> None:
    """Advise on the strategy for the next batch, before labels are bought.

    Batches of several strategies are simulated on the pool. The advice comes from a table of rules; the output has all
    measurements, the rule that applies with its thresholds, and the pages with the evidence. Nothing is written.
    """
    from hedgerow.advice import advise as give_advice

    if pairs is None and class_column is not None:
        raise InputError("--class-column needs --pairs")
    if pairs is not None and logits:
        raise InputError("--logits cannot be used with --pairs: give probabilities, as from a sigmoid")
    given: dict[str, Any] = {"logits" if logits else "predictions": predictions}
    advice = give_advice(
        k,
        **given,
        clusters=clusters,
        embeddings=embeddings,
        pairs=pairs,
        labeled=[Path(one) for one in labeled or ()] or None,
        holdout=holdout,
        classes=classes,
        metric=metric,
        seed=seed,
        ignore_unknown=ignore_unknown,
        column=column,
        id_column=id_column,
        class_column=class_column,
        label_column=label_column,
        progress=True,
    )
    report(as_json, advice.to_json(), str(advice))
