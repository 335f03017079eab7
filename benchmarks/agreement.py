"""Claim: verdicts, agreement and accuracy on gold questions for a million rows with two answers each take two CPU
seconds, and label files are read at about 200,000 rows per CPU second or more.

Votes of 40 annotators on ten classes, who are right nine times out of ten. Alpha is compared with that of nltk, on a
hundredth of the rows. The label files have ids, labels, annotators and times; beside them, the time that Python's own
modules take to parse the same files.
"""

import csv
import json
import tempfile
from pathlib import Path

import numpy as np
from nltk.metrics.agreement import AnnotationTask

from hedgerow.campaign import quality
from hedgerow.campaign.exports import write_export
from hedgerow.campaign.formats import read_answers
from runner import arguments, measure, save

SEED, CLASSES, PEOPLE, RIGHT = 0, 10, 40, 0.9


def draw_votes(n):
    """Two votes on each of n rows, by different people."""
    rng = np.random.default_rng(SEED)
    people = np.stack([rng.integers(0, PEOPLE // 2, n), rng.integers(PEOPLE // 2, PEOPLE, n)], axis=1).ravel()
    truth = np.repeat(rng.integers(0, CLASSES, n), 2)
    values = np.where(rng.random(2 * n) < RIGHT, truth, rng.integers(0, CLASSES, 2 * n))
    return np.repeat(np.arange(n), 2), people, values


def measure_statistics(n):
    rows, people, values = draw_votes(n)
    votes = quality.make_votes(rows, -1, people, values)
    truth = quality.settle(votes)
    return {
        "all of them": measure(lambda: compute_all(rows, people, values)),
        "alpha and AC1": measure(lambda: quality.agree(votes)),
        "verdicts": measure(lambda: quality.settle(votes)),
        "pairwise kappa": measure(lambda: quality.compare_annotators(votes)),
        "confusion": measure(lambda: quality.confuse(votes)),
        "gold accuracy": measure(lambda: quality.score_gold(votes, truth)),
    }


def compute_all(rows, people, values):
    votes = quality.make_votes(rows, -1, people, values)
    truth = quality.settle(votes)
    return (
        quality.agree(votes), quality.compare_annotators(votes), quality.confuse(votes),
        quality.score_gold(votes, truth),
    )  # fmt: skip


def measure_nltk(n):
    """Alpha by nltk, checked against ours."""
    rows, people, values = draw_votes(n)
    task = AnnotationTask(list(zip(people.tolist(), rows.tolist(), values.tolist(), strict=True)))
    ours = quality.agree(quality.make_votes(rows, -1, people, values)).alpha
    assert abs(ours - task.alpha()) < 1e-9
    return measure(task.alpha, repeats=1)


def measure_files(n):
    rows, people, values = draw_votes(n // 2)
    columns = {
        "id": rows, "label": [f"class {value}" for value in values.tolist()],
        "annotator": [f"person {one}" for one in people.tolist()], "said_at": ["2026-11-17T12:00:00+00:00"] * len(rows),
    }  # fmt: skip
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for form in ("csv", "jsonl", "parquet"):
            path = Path(folder) / form
            write_export(path, columns, form)
            found[form] = measure(lambda path=path: read_answers(path), repeats=1)
            found[form]["rows_per_cpu_second"] = len(rows) / found[form]["cpu_seconds"]
        plain = {"csv": lambda file: list(csv.reader(file)), "jsonl": lambda file: [json.loads(line) for line in file]}
        for form, parse in plain.items():
            found[f"the {'csv' if form == 'csv' else 'json'} module alone, {form}"] = measure(
                lambda form=form, parse=parse: parse((Path(folder) / form).open()), repeats=1
            )
    return found


def main():
    options = arguments(__doc__)
    n, small, lines = (5_000, 200, 5_000) if options.quick else (1_000_000, 10_000, 1_000_000)
    results = {
        "statistics": measure_statistics(n),
        "nltk": {f"alpha of {small:,} rows": measure_nltk(small)},
        "files": measure_files(lines),
    }
    settings = {
        "n": n,
        "nltk_rows": small,
        "lines": lines,
        "people": PEOPLE,
        "classes": CLASSES,
        "quick": options.quick,
    }
    save("agreement", SEED, settings, results, options)


if __name__ == "__main__":
    main()
