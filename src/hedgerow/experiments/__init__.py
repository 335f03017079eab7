"""Experiments: trials whose labels are known (paper, section 3). Recipes, datasets, runs that resume, reports."""

from hedgerow.experiments.data.annotations import MultiLabel, annotate
from hedgerow.experiments.data.datasets import Dataset
from hedgerow.experiments.pages import report_experiment
from hedgerow.experiments.recipes import Arm, Clustering, Recipe, list_recipes, load_recipe
from hedgerow.experiments.runs import run_experiment

__all__ = [
    "Arm",
    "Clustering",
    "Dataset",
    "MultiLabel",
    "Recipe",
    "annotate",
    "list_recipes",
    "load_recipe",
    "report_experiment",
    "run_experiment",
]
