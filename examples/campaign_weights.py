"""Weights in a campaign: labels that were bought with `hedge`, used for an estimate and for training.

    python examples/campaign_weights.py

A campaign keeps the weights of its batches, and `labels` gives them with the labels (as does
`hedgerow campaign labels`). A weight says for how many of the rows that could have been picked a row stands, so rows
that were labeled before stand for themselves alone. People are played by the labels of scikit-learn's digits.
"""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import hedgerow as hr


def ask(campaign, k, strategy):
    """Have a batch labeled."""
    batch = campaign.batch(campaign.next(k, strategy=strategy))
    for task, row in zip(batch["task"].tolist(), batch["row"].tolist(), strict=True):
        campaign.answer("ana", task, str(y[row]))


x, y = load_digits(return_X_y=True)
x = (x / 16).astype(np.float32)  # the darkest ink
with tempfile.TemporaryDirectory() as folder:
    classes = [str(digit) for digit in range(10)]
    with hr.Campaign.init(Path(folder) / "digits", x, classes=classes) as campaign:
        ask(campaign, 60, "random")
        campaign.learn()
        ask(campaign, 120, "hedge")
        labels = campaign.labels()

rows, weights = labels["row"], labels["weight"]
first = np.isnan(weights)  # labeled before the batch
others = np.setdiff1d(np.arange(len(x)), rows[first])
model = LogisticRegression(max_iter=1000).fit(x[rows[first]], y[rows[first]])
right = model.predict(x) == y
print(f"the batch stands for {weights[~first].sum():,.0f} rows; {len(others):,} were unlabeled")
print(f"accuracy of a model of the first labels on the others: {right[others].mean():.3f}")
print(f"estimated with the batch: {np.average(right[rows[~first]], weights=weights[~first]):.3f}")
print(f"without its weights: {right[rows[~first]].mean():.3f}")

stands_for = np.where(first, 1, weights)
rest = np.setdiff1d(others, rows)
for name, given in (("without weights", None), ("with weights", stands_for / stands_for.mean())):
    again = LogisticRegression(max_iter=1000).fit(x[rows], y[rows], sample_weight=given)
    print(f"accuracy on the rest after training {name}: {again.score(x[rest], y[rest]):.3f}")
