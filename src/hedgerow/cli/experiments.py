"""The commands `hedgerow experiment run`, `report` and `list`, and `hedgerow demo`: experiments with known labels."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.app import Json, print_rows, print_transposed, report
from hedgerow.cli.engines import Engine, Insecure, MixedWorkers
from hedgerow.progress import watch


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="The report, one HTML file.")] = Path("hedgerow-demo.html"),
    seeds: Annotated[int, typer.Option(help="Number of trials, each with its own seed.")] = 5,
    quick: Annotated[bool, typer.Option("--quick", help="A small version that takes seconds.")] = False,
    as_json: Json = False,
) -> None:
    """Compare strategies on a pool of digits.

    Runs Hedge, Cluster-Margin, Margin and Random over several trials; prints a table and writes a report as one HTML
    file, replacing an earlier report of the same name.
    """
    from hedgerow.experiments.demo import run_demo

    with watch(True) as progress:
        result = run_demo(out, seeds=seeds, quick=quick, progress=progress)
    if as_json:
        report(True, result.to_json(), "")
        return
    print_transposed(result.table)
    typer.echo(f"report: {result.report}")


def show_group(context: typer.Context) -> None:
    """Print the help if no command is given."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run_recipe(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A TOML file, or the name of a recipe that comes with hedgerow.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder of the run. A run that was started there is continued.")
    ],
    data: Annotated[
        Path | None, typer.Option(help="Folder with the dataset's files, as their authors publish them.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder for features of frozen networks. Default: DATA/cache.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Number of processes; the strategies of a trial run in parallel. Default: 1.")
    ] = None,
    engine: Engine = None,
    trials: Annotated[
        int | None, typer.Option(help="Number of trials, if not the recipe's; a later run can add more.")
    ] = None,
    first_trial: Annotated[
        int, typer.Option(help="First trial to run, counted from 0, if earlier trials are run on another machine.")
    ] = 0,
    with_controls: Annotated[
        bool,
        typer.Option(
            "--with-controls",
            help="Add to every strategy with clusters the same strategy with shuffled clusters and without them; the "
            "report shows what is due to the clusters.",
        ),
    ] = False,
    allow_programs: Annotated[
        bool, typer.Option("--allow-programs", help="Run the program that the recipe names; refused otherwise.")
    ] = False,
    insecure: Insecure = False,
    mixed_workers: MixedWorkers = False,
    as_json: Json = False,
) -> None:
    """Run all trials and strategies of a recipe.

    Every round is written to OUT when it is done. A run that was interrupted continues with the same command and ends
    with the same results. Then see `hedgerow experiment report OUT`.
    """
    from hedgerow.engines import open_engine
    from hedgerow.experiments.recipes import load_recipe
    from hedgerow.experiments.records import list_results
    from hedgerow.experiments.runs import describe_code, run_experiment

    loaded = load_recipe(recipe)
    if allow_programs and (code := describe_code(loaded)):
        typer.echo(f"hedgerow: the recipe {loaded.name!r} {code}", err=True)
    alone = jobs is not None and engine is None  # --jobs counts more than HEDGEROW_ENGINE
    chosen = nullcontext() if alone else open_engine(engine, insecure=insecure, mixed_workers=mixed_workers)
    with chosen as opened, watch(True) as progress:
        held = run_experiment(
            loaded,
            out,
            data=data,
            cache=cache,
            jobs=jobs,
            engine=opened,
            trials=trials,
            first_trial=first_trial,
            with_controls=with_controls,
            allow_programs=allow_programs,
            progress=progress,
        )
    rows = len(list_results(held))
    facts = {"recipe": held.recipe["name"], "trials": held.trials, "results": rows, "out": str(out)}
    report(as_json, facts, f"{held.recipe['name']}: {held.trials} trials, {rows:,} results -> {out / 'results.csv'}")


def report_run(
    folder: Annotated[Path, typer.Argument(metavar="OUT", help="The folder of `hedgerow experiment run`.")],
    others: Annotated[
        list[Path] | None,
        typer.Argument(metavar="OTHERS", help="Folders of the same recipe with other trials, or their summary.json."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Summarize a run: tables and one HTML file.

    Writes report.html, summary.json, results.parquet and results.csv to the folder OUT. While a run is in progress,
    the report covers its complete trials.
    """
    from hedgerow.experiments.pages import report_experiment

    summary = report_experiment(folder, *(others or ()))
    if as_json:
        report(True, summary.to_json(), "")
        return
    for heading, rows in summary.tables().items():
        typer.echo(heading)
        print_rows(rows)
        typer.echo("")
    for note in summary.notes():
        typer.echo(note)
    typer.echo(f"report: {summary.report}")


def list_shelf(as_json: Json = False) -> None:
    """List the recipes that come with hedgerow."""
    from hedgerow.experiments.recipes import list_recipes, load_recipe

    recipes = [load_recipe(name) for name in list_recipes()]
    facts = {one.name: {"reproduces": one.reproduces, "takes": one.takes} for one in recipes}
    report(as_json, facts, "\n".join(f"{one.name}: {one.reproduces} Takes {one.takes}." for one in recipes))
