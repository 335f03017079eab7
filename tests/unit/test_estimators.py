"""scikit-learn's classifiers as trainers."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hedgerow.errors import InputError
from hedgerow.models import SklearnTrainer

FEATURES = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
LABELS = np.digitize(FEATURES[:, 0], [-0.5, 0.5])


def test_classes_without_labels_have_a_column_of_zeros() -> None:
    model = SklearnTrainer(LogisticRegression, classes=5).fit(FEATURES, LABELS + 1, seed=0)
    found = model.probabilities(FEATURES)
    assert found.shape == (60, 5)
    assert not found[:, [0, 4]].any()
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)


def test_the_seed_reaches_estimators_in_a_pipeline() -> None:
    def make() -> object:
        return make_pipeline(StandardScaler(), RandomForestClassifier(n_estimators=5))

    trainer = SklearnTrainer(make, classes=3)
    first, again, other = (trainer.fit(FEATURES, LABELS, seed=seed).probabilities(FEATURES) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_features_stand_for_embeddings_unless_something_else_is_given() -> None:
    plain = SklearnTrainer(LogisticRegression, classes=3).fit(FEATURES, LABELS, seed=0)
    np.testing.assert_array_equal(plain.embeddings(FEATURES), FEATURES)
    scored = SklearnTrainer(LogisticRegression, 3, lambda model, x: model.decision_function(x))
    assert scored.fit(FEATURES, LABELS, seed=0).embeddings(FEATURES[:7]).shape == (7, 3)


def test_what_gives_no_probabilities_is_refused() -> None:
    with pytest.raises(InputError, match="RidgeClassifier has no probabilities"):
        SklearnTrainer(RidgeClassifier, classes=3).fit(FEATURES, LABELS, seed=0)
    with pytest.raises(InputError, match="needs labels to train on"):
        SklearnTrainer(LogisticRegression, classes=3).fit(FEATURES[:0], LABELS[:0], seed=0)
