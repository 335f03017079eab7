"""Pairs that can be asked about: all positives, a few negatives, the rest hidden."""

import numpy as np
from scipy.sparse import csr_matrix

from hedgerow.experiments.data import annotations


def test_annotation_hides_most_negatives():
    rng = np.random.default_rng(0)
    truth = csr_matrix(rng.random((300, 20)) < 0.1)
    made = annotations.annotate(np.arange(300), truth, seed=1)
    dense = truth.toarray()
    assert np.array_equal(made.answers, dense[made.pairs.rows, made.pairs.classes])
    assert made.answers.sum() == dense.sum()
    a_row = np.bincount(made.pairs.rows[~made.answers], minlength=300)
    assert (a_row == np.ceil(2 * truth.nnz / 300)).all()
    none = annotations.annotate(None, truth, negatives=0)
    assert none.answers.all()
    again = annotations.annotate(None, truth, seed=1)
    assert np.array_equal(again.pairs.classes, made.pairs.classes)


def test_annotation_in_pieces_keeps_every_row(monkeypatch):
    monkeypatch.setattr(annotations, "ENTRIES", 40)
    truth = csr_matrix(np.eye(10, 20, dtype=bool))
    made = annotations.annotate(None, truth, negatives=3)
    assert np.bincount(made.pairs.rows).tolist() == [4] * 10
    assert made.pairs.rows[made.answers].tolist() == made.pairs.classes[made.answers].tolist() == list(range(10))
