"""Commands of `hedgerow campaign` about models: train one, measure them all, whether to stop, the report."""

from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.app import Force, Json, Seed, report
from hedgerow.cli.campaigns import Database, Folder, open_campaign
from hedgerow.progress import watch


def learn(
    folder: Folder,
    head: Annotated[
        str | None,
        typer.Option(help="linear (logistic regression) or perceptron (one hidden layer). Default: linear."),
    ] = None,
    program: Annotated[
        str | None,
        typer.Option(metavar="CMD", help="Command of your own trainer, instead of a head; see above."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the model version. Default: model-N.")] = None,
    keep: Annotated[
        bool | None,
        typer.Option("--keep/--no-keep", help="Keep all probabilities (for badge, entropy). Default: up to 1 GiB."),
    ] = None,
    seed: Seed = 0,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Train a model on the embeddings and the labels so far, predict the pool, measure it on the holdout.

    Labels of the holdout are never trained on. The strength of the linear head is chosen by cross-validation.

    With --program the command is run twice, with these arguments added: `fit --features F.npy --labels L.npy --classes
    C --seed S --model FOLDER`, then `predict --model FOLDER --features F.npy --out OUT.parquet`. F holds embeddings,
    one row per example. L holds class numbers from 0, in the order of the classes; in multi-label and pair campaigns
    one column per class with 1 (yes), 0 (no) or -1 (not asked). `fit` writes what it needs to FOLDER; `predict` writes
    one row per row of F with the columns p_0, p_1, ..., the probability of each class. A large pool comes in several
    parts, each with a `predict` of its own.
    """
    with open_campaign(folder, database) as campaign, watch(True) as progress:
        done = campaign.learn(head=head, program=program, name=name, keep=keep, seed=seed, progress=progress)
    report(as_json, done.to_json(), str(done))


def show_curve(folder: Folder, database: Database = None, as_json: Json = False) -> None:
    """Show every model measured on the labeled holdout, as of now, with 95 % intervals."""
    with open_campaign(folder, database) as campaign:
        found = campaign.curve()
    lines = [str(one) for one in found]
    report(as_json, {"curve": [one.to_json() for one in found]}, "\n".join(lines) or "no model yet")


def stop(
    folder: Folder,
    least_gain: Annotated[
        float, typer.Option(help="Gain on the holdout per batch that is worth its labels: 0.005 is half a point.")
    ] = 0.005,
    batch: Annotated[int | None, typer.Option(help="Labels of the next batch. Default: as many as the last.")] = None,
    seed: Seed = 0,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Advise whether to stop labeling: what each rule says, with its figure, threshold and source.

    The rules that read the holdout decide, because only they are unbiased; so does the budget, if there is one.
    """
    with open_campaign(folder, database) as campaign:
        advice = campaign.stop_advice(least_gain=least_gain, batch=batch, seed=seed)
    lines = [f"{advice.verdict}: {advice.reason}"]
    for one in advice.rules:
        known = one.found.statistic is not None
        figure = f" [{one.found.statistic:,.4g}, threshold {one.threshold:,.4g}]" if known else ""
        lines += ["", f"{one.rule.name}: {one.found.verdict}{figure}", f"  {one.found.reason}"]
        lines.append(f"  {one.rule.citation}")
    report(as_json, advice.to_json(), "\n".join(lines))


def write_report(
    folder: Folder,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="HTML file to write.")] = Path("report.html"),
    force: Force = False,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Write a report as one HTML file: curve, advice, labels, clusters, batches, agreement, times."""
    with open_campaign(folder, database) as campaign:
        path = campaign.report(out, force=force)
    report(as_json, {"report": str(path)}, f"report in {path}")
