"""Simulated annotators: answers to an exported batch, as a label file.

    python annotators.py BATCH TRUTH LABELS NAME[=WRONG] ...

BATCH: what `hedgerow campaign export` wrote, as CSV. TRUTH: id, label. LABELS: the CSV to write: id, label, annotator.
Each person answers every word of the batch; WRONG is the share of wrong answers, 0.03 by default.
"""

import csv
import sys
from pathlib import Path

import numpy as np

WRONG = 0.03


def read_column(path: str, name: str) -> list[str]:
    """A column of a CSV file."""
    with Path(path).open(newline="", encoding="utf-8") as file:
        return [row[name] for row in csv.DictReader(file)]


if len(sys.argv) < 5:
    sys.exit("usage: python annotators.py BATCH TRUTH LABELS NAME[=WRONG] ...")
batch, truth, labels, *people = sys.argv[1:]
known = dict(zip(read_column(truth, "id"), read_column(truth, "label"), strict=True))
classes = sorted(set(known.values()))
rows = []
for person in people:
    name, _, share = person.partition("=")
    rng = np.random.default_rng([len(name), *name.encode()])
    for one in read_column(batch, "id"):
        wrong = rng.random() < float(share or WRONG)
        rows.append((one, str(rng.choice(classes)) if wrong else known[one], name))
with Path(labels).open("w", newline="", encoding="utf-8") as file:
    csv.writer(file).writerows([("id", "label", "annotator"), *rows])
print(f"{len(rows):,} answers by {len(people)}")
