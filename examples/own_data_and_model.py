"""Run an experiment on your own data and model: which strategy saves labels?

    python examples/own_data_and_model.py FOLDER

A dataset is four arrays. A model is anything with `fit`, `probabilities` and `embeddings`, here a scikit-learn
classifier with its adapter. Finished rounds are saved in FOLDER, so the same command continues after an interruption.
The report is FOLDER/report.html.
"""

import sys

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from hedgerow import ClusterMargin, Margin, Random
from hedgerow.experiments import Arm, Dataset, Recipe, report_experiment, run_experiment
from hedgerow.models import SklearnTrainer

if len(sys.argv) != 2:
    sys.exit("usage: python own_data_and_model.py FOLDER")
x, y = load_digits(return_X_y=True)
x = x / 16  # the darkest ink
mine = Dataset("digits", 10, x[:1200], y[:1200], x[1200:], y[1200:])
model = SklearnTrainer(lambda: LogisticRegression(max_iter=1000), classes=10)
strategies = (Arm("cluster-margin", ClusterMargin(margin_factor=3.0)), Arm("margin", Margin()), Arm("random", Random()))
recipe = Recipe("digits", strategies, seed_size=50, batch_size=(50,), rounds=3, trials=3)
run_experiment(recipe, sys.argv[1], dataset=mine, trainer=model)
for heading, rows in report_experiment(sys.argv[1]).tables().items():
    print(heading, *rows, sep="\n  ")
