"""Weights of a batch: measure the pool with the labels that were bought for training, and train with them.

    python examples/weighted_training.py

`hedge` picks unsure rows more often than others, so the share of right predictions in its batch says little about the
pool. It knows with which probability it picked each row, and `batch.weights` is one over that: weighted, the batch
stands for all unlabeled rows. The labels of this pool of digits are known, which shows how good the estimates are.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import hedgerow as hr

BATCHES = 20

x, y = load_digits(return_X_y=True)
x = x / 16  # the darkest ink
rng = np.random.default_rng(0)
labeled = rng.choice(len(x), 60, replace=False)  # the labels that the first model has
others = np.setdiff1d(np.arange(len(x)), labeled)
clusters = hr.cluster(x, average_size=5)
model = LogisticRegression(max_iter=1000).fit(x[labeled], y[labeled])
probabilities, right = model.predict_proba(x), model.predict(x) == y

estimates, plain, after = [], [], {"without weights": [], "with weights": []}
for seed in range(BATCHES):
    batch = hr.select("hedge", 120, probabilities=probabilities, clusters=clusters, labeled=labeled, seed=seed)
    estimates.append(np.average(right[batch], weights=batch.weights))
    plain.append(right[batch].mean())
    rows = np.concatenate([labeled, batch.rows])
    rest = np.setdiff1d(others, batch.rows)
    # Rows labeled before stand for themselves alone.
    weights = np.concatenate([np.ones(len(labeled)), batch.weights])
    for name, given in (("without weights", None), ("with weights", weights / weights.mean())):
        again = LogisticRegression(max_iter=1000).fit(x[rows], y[rows], sample_weight=given)
        after[name].append(again.score(x[rest], y[rest]))

print(f"accuracy of the first model on the {len(others):,} unlabeled rows: {right[others].mean():.3f}")
print(f"estimated with {BATCHES} batches of 120: {np.mean(estimates):.3f} +- {np.std(estimates):.3f}")
print(f"the same without weights: {np.mean(plain):.3f} +- {np.std(plain):.3f}")
for name, scores in after.items():
    print(f"accuracy on the rest after training {name}: {np.mean(scores):.3f}")
