"""The front door: one command is one public function with files for arguments. One module per group of commands.

The rooms are imported inside the commands, so that `hedgerow --help` answers at once.
"""

import typer

from hedgerow.cli import campaign_labels, campaign_models, campaign_people, campaign_pool, campaigns, engines
from hedgerow.cli.advice import advise
from hedgerow.cli.app import app, run
from hedgerow.cli.desk import desk
from hedgerow.cli.embeddings import embed
from hedgerow.cli.experiments import demo, list_shelf, report_run, run_recipe, show_group
from hedgerow.cli.functions import apply
from hedgerow.cli.installation import warm
from hedgerow.cli.scores import margins
from hedgerow.cli.selection import assign, cluster, select
from hedgerow.cli.starting import start
from hedgerow.cli.theory import beta, bridge, label_complexity

__all__ = ["app", "main"]

app.command()(start)
app.command()(embed)
app.command()(cluster)
app.command()(assign)
app.command()(margins)
app.command()(apply)
app.command()(select)
app.command()(advise)
experiment = typer.Typer(help="Run and report experiments with known labels.")
app.add_typer(experiment, name="experiment")
experiment.callback(invoke_without_command=True)(show_group)
experiment.command("run")(run_recipe)
experiment.command("report")(report_run)
experiment.command("list")(list_shelf)
theory = typer.Typer(help="Measure the statements of the paper's section 4.")
app.add_typer(theory, name="theory")
theory.callback(invoke_without_command=True)(show_group)
theory.command("beta")(beta)
theory.command("label-complexity")(label_complexity)
theory.command("bridge")(bridge)
campaign = typer.Typer(help="Rounds with labels from people: they can be stopped and resumed.")
app.add_typer(campaign, name="campaign")
campaign.callback(invoke_without_command=True)(show_group)
campaign.command("init")(campaigns.init)
campaign.command("grow")(campaign_pool.grow)
campaign.command("retire")(campaign_pool.retire)
campaign.command("restore")(campaign_pool.restore)
campaign.command("purge")(campaign_pool.purge)
campaign.command("predict")(campaigns.predict)
campaign.command("learn")(campaign_models.learn)
campaign.command("next")(campaigns.next_batch)
campaign.command("export")(campaigns.export)
campaign.command("ingest")(campaigns.ingest)
campaign.command("claim")(campaigns.claim)
campaign.command("answer")(campaigns.answer)
campaign.command("release")(campaigns.release)
campaign.command("disputed")(campaign_people.disputed)
campaign.command("people")(campaign_people.people)
campaign.command("gold")(campaign_people.gold)
campaign.command("relabel")(campaign_people.relabel)
campaign.command("retract")(campaigns.retract)
campaign.command("alias")(campaigns.alias)
campaign.command("labels")(campaign_labels.labels)
campaign.command("votes")(campaign_labels.votes)
campaign.command("spread")(campaign_labels.spread)
campaign.command("budget")(campaign_labels.budget)
campaign.command("status")(campaigns.status)
campaign.command("curve")(campaign_models.show_curve)
campaign.command("stop")(campaign_models.stop)
campaign.command("report")(campaign_models.write_report)
campaign.command("log")(campaigns.show_log)
campaign.command("close")(campaigns.close)
campaign.command("undo")(campaigns.undo)
campaign.command("upgrade")(campaigns.upgrade)
classes = typer.Typer(help="Classes that change midway: added, renamed, merged, split.")
campaign.add_typer(classes, name="classes")
classes.callback(invoke_without_command=True)(show_group)
classes.command("list")(campaign_pool.list_classes)
classes.command("add")(campaign_pool.add_class)
classes.command("rename")(campaign_pool.rename_class)
classes.command("merge")(campaign_pool.merge_classes)
classes.command("split")(campaign_pool.split_class)
classes.command("relabel")(campaign_pool.relabel_class)
app.command()(desk)
engine = typer.Typer(help="Check the workers of an engine, and what a run on them cost.")
app.add_typer(engine, name="engine")
engine.callback(invoke_without_command=True)(show_group)
engine.command("check")(engines.check)
engine.command("report")(engines.report_run)
app.command()(demo)
app.command()(warm)


def main() -> None:
    """Run the command line and exit; an error is one line on standard error."""
    run(app)
