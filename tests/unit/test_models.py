"""The trainer protocol's first adapter: shapes, sums, seeds, and what it refuses."""

import subprocess
import sys

import numpy as np
import pytest

from hedgerow import models
from hedgerow.errors import InputError, MissingExtraError
from hedgerow.models.perceptron import PREDICT_ROWS, FittedMLP, SklearnMLP
from hedgerow.models.protocol import draw_walk


def make_blobs(n: int = 120, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    centers = 3 * np.eye(classes, 5)
    return (centers[labels] + rng.normal(0, 0.5, (n, 5))).astype(np.float32), labels


@pytest.mark.parametrize("classes", [2, 3])
def test_learns_and_answers_in_the_promised_shapes(classes: int) -> None:
    features, labels = make_blobs(classes=classes)
    model = SklearnMLP(classes, hidden=(16, 7), steps=150, minibatch=32).fit(features, labels, seed=1)
    probabilities = model.probabilities(features)
    assert probabilities.shape == (len(features), classes)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    assert model.embeddings(features).shape == (len(features), 7)
    assert np.mean(probabilities.argmax(axis=1) == labels) > 0.95


def test_embeddings_are_what_the_last_layer_reads() -> None:
    features, labels = make_blobs()
    model = SklearnMLP(3, hidden=(16, 7), steps=20).fit(features, labels, seed=1)
    logits = model.embeddings(features) @ model.weights[-1] + model.biases[-1]
    odds = np.exp(logits)
    np.testing.assert_allclose(odds / odds.sum(axis=1, keepdims=True), model.probabilities(features), atol=1e-5)


@pytest.mark.parametrize("classes", [2, 4])
def test_agrees_with_scikit_learn(classes: int) -> None:
    from sklearn.neural_network import MLPClassifier

    features, labels = make_blobs(classes=classes)
    n = len(labels)  # minibatches of all rows: their order does not matter
    model = SklearnMLP(classes, hidden=(6,), steps=5, minibatch=n).fit(features, labels, seed=3)
    peer = MLPClassifier(hidden_layer_sizes=(6,), batch_size=n, shuffle=False, random_state=3)
    peer.partial_fit(np.tile(features, (5, 1)), np.tile(labels, 5), classes=np.arange(classes))
    np.testing.assert_allclose(model.probabilities(features), peer.predict_proba(features), atol=1e-5)


def test_one_seed_one_model() -> None:
    features, labels = make_blobs()
    trainer = SklearnMLP(3, hidden=(8,), steps=30)
    first, again, other = (trainer.fit(features, labels, seed=seed).probabilities(features) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_class_without_labels_keeps_its_column() -> None:
    features, labels = make_blobs()
    some = labels != 1
    model = SklearnMLP(3, hidden=(16,), steps=300).fit(features[some], labels[some], seed=0)
    probabilities = model.probabilities(features)
    assert probabilities.shape[1] == 3
    assert np.mean(probabilities[some].argmax(axis=1) == labels[some]) > 0.95


def test_answers_do_not_depend_on_the_chunks() -> None:
    rng = np.random.default_rng(0)
    model = FittedMLP(
        (rng.normal(size=(4, 3)), rng.normal(size=(3, 2))),
        (rng.normal(size=3), rng.normal(size=2)),
    )
    features = rng.normal(size=(PREDICT_ROWS + 5, 4))
    np.testing.assert_allclose(model.probabilities(features)[-5:], model.probabilities(features[-5:]), rtol=1e-6)
    np.testing.assert_allclose(model.embeddings(features)[-5:], model.embeddings(features[-5:]), rtol=1e-6)
    assert model.probabilities(features[:0]).shape == (0, 2)


def test_large_logits_do_not_overflow() -> None:
    model = FittedMLP((np.eye(2), 1e4 * np.eye(2)), (np.zeros(2), np.zeros(2)))
    np.testing.assert_array_equal(model.probabilities(np.array([[9.0, 0.0]])), [[1.0, 0.0]])


def test_walk_serves_every_row_alike() -> None:
    rows = draw_walk(7, 31, np.random.default_rng(0))
    counts = np.bincount(rows, minlength=7)
    assert len(rows) == 31
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize(
    ("trainer", "features", "labels", "message"),
    [
        (SklearnMLP(1), np.zeros((3, 2)), np.zeros(3, int), "classes must be at least 2"),
        (SklearnMLP(3, hidden=()), np.zeros((3, 2)), np.zeros(3, int), "at least one layer"),
        (SklearnMLP(3, steps=0), np.zeros((3, 2)), np.zeros(3, int), "steps must be at least 1"),
        (SklearnMLP(3, minibatch=0), np.zeros((3, 2)), np.zeros(3, int), "minibatch must be at least 1"),
        (SklearnMLP(3), np.zeros(3), np.zeros(3, int), "two dimensions"),
        (SklearnMLP(3), np.zeros((3, 2)), np.zeros(4, int), "features has 3, labels has 4"),
        (SklearnMLP(3), np.zeros((0, 2)), np.zeros(0, int), "draw a seed set first"),
        (SklearnMLP(3), np.zeros((3, 2)), np.array([0, 3, 1]), "class 3, but the classes are 0 to 2"),
    ],
)
def test_refuses(trainer: SklearnMLP, features: np.ndarray, labels: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        trainer.fit(features, labels, seed=0)


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = make_blobs()
    monkeypatch.setitem(sys.modules, "sklearn.neural_network", None)  # Python then raises ImportError
    with pytest.raises(MissingExtraError, match=r"pip install .\.\[sklearn\]"):
        SklearnMLP(3).fit(features, labels, seed=0)


def test_the_protocol_is_imported_without_numba_or_a_training_library() -> None:
    code = "import sys, hedgerow.models.protocol; print({'numba', 'torch', 'sklearn', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_every_name_of_the_package_is_there() -> None:
    assert all(hasattr(models, name) for name in models.__all__)
    assert set(dir(models)) == set(models.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        models.Nothing  # noqa: B018
