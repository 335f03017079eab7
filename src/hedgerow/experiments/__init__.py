"""Experiments: trials with known labels (paper, section 3). Recipes, datasets, resumable runs, reports."""

from hedgerow.experiments.arms import Arm
from hedgerow.experiments.data.annotations import MultiLabel, annotate
from hedgerow.experiments.data.datasets import Dataset
from hedgerow.experiments.pages import report_experiment
from hedgerow.experiments.recipes import Recipe, add_controls, list_recipes, load_recipe
from hedgerow.experiments.runs import run_experiment
from hedgerow.rounds import Clustering

__all__ = [
    "Arm",
    "Clustering",
    "Dataset",
    "MultiLabel",
    "Recipe",
    "add_controls",
    "annotate",
    "list_recipes",
    "load_recipe",
    "report_experiment",
    "run_experiment",
]
