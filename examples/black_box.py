"""An external program as a trainer: it receives paths and writes Parquet. It can be in any language; this is Python.

In a recipe:

    [model]
    kind = "program"
    command = ["python", "examples/black_box.py"]
    embeddings = true

It is called as `fit --features F.npy --labels L.npy --classes C --seed S --model FOLDER` and as
`predict --model FOLDER --features F.npy --out OUT.parquet`. The model of this example is the mean of each class.
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

parser = argparse.ArgumentParser(usage="black_box.py fit|predict --features F.npy --model FOLDER ...")
parser.add_argument("verb", choices=["fit", "predict"])
for name in ("features", "labels", "model", "out"):
    parser.add_argument(f"--{name}", type=Path)
for name in ("classes", "seed"):
    parser.add_argument(f"--{name}", type=int)
options = parser.parse_args()
features = np.load(options.features)
if options.verb == "fit":
    labels = np.load(options.labels)
    means = np.zeros((options.classes, features.shape[1]))
    for one in np.unique(labels):
        means[one] = features[labels == one].mean(axis=0)
    np.save(options.model / "means.npy", means)
else:
    means = np.load(options.model / "means.npy")
    odds = np.exp(-((features[:, None] - means) ** 2).sum(axis=2)) + 1e-12
    shares = odds / odds.sum(axis=1, keepdims=True)
    pq.write_table(pa.table({"probabilities": list(shares), "embeddings": list(features)}), options.out)
