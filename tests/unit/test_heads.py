"""Heads on embeddings: equal to scikit-learn's logistic regression, and sensible where labels say little."""

import numpy as np
import pytest

from hedgerow import models
from hedgerow.errors import InputError
from hedgerow.machine import team
from hedgerow.models import heads
from hedgerow.models.heads import FittedHead, LinearHead, PairAnswers, PerceptronHead, Scaling

HEADS = [LinearHead, PerceptronHead]


def make_blobs(n: int = 150, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    return (3 * np.eye(classes, 5)[labels] + rng.normal(0, 1, (n, 5))).astype(np.float32), labels


def standardize(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.float64) - x.mean(axis=0, dtype=np.float64)) / x.std(axis=0, dtype=np.float64)


@pytest.mark.parametrize("strength", [10.0, 0.1])
@pytest.mark.parametrize("classes", [2, 4])
def test_one_class_per_row_equals_scikit_learn(classes: int, strength: float) -> None:
    from sklearn.linear_model import LogisticRegression

    x, labels = make_blobs(classes=classes)
    found = LinearHead(classes, strength).fit(x, labels, seed=0).probabilities(x)
    # With two classes scikit-learn has one column of weights, and two have half of the same sum of squares.
    peer = LogisticRegression(C=(2 if classes == 2 else 1) / strength, tol=1e-10, max_iter=5000)
    np.testing.assert_allclose(found, peer.fit(standardize(x), labels).predict_proba(standardize(x)), atol=2e-4)


def test_sets_and_pairs_are_a_binary_model_per_class() -> None:
    from sklearn.linear_model import LogisticRegression

    x, labels = make_blobs()
    answers = np.stack([labels == 0, labels != 1, x[:, 3] > 0], axis=1)
    found = LinearHead(3, 2.0).fit(x, answers, seed=0).probabilities(x)
    peer = LogisticRegression(C=0.5, tol=1e-10, max_iter=5000)
    for column in range(3):
        expected = peer.fit(standardize(x), answers[:, column]).predict_proba(standardize(x))[:, 1]
        np.testing.assert_allclose(found[:, column], expected, atol=2e-4)
    # All pairs, in any order: the same as sets.
    rows, classes = (part.ravel() for part in np.indices(answers.shape))
    shuffled = np.random.default_rng(0).permutation(len(rows))
    rows, classes = rows[shuffled], classes[shuffled]
    pairs = LinearHead(3, 2.0).fit(x[rows], PairAnswers(classes, answers[rows, classes]), seed=0)
    np.testing.assert_allclose(pairs.probabilities(x), found, atol=2e-4)


def test_the_penalty_by_hand() -> None:
    # Two rows at -1 and 1 with one class each: by symmetry the logits are -wx and wx, and the derivative of
    # 2 log(1 + exp(-2w)) + strength / 2 * 2 w^2 is zero where strength * w = 2 / (1 + exp(2w)).
    w = 0.5
    strength = 2 / (1 + np.exp(2 * w)) / w
    found = LinearHead(2, strength).fit(np.array([[-1.0], [1.0]]), np.array([0, 1]), seed=0)
    np.testing.assert_allclose(found.layers[0][0], [[-w, w]], atol=1e-5)
    np.testing.assert_allclose(
        found.probabilities(np.array([[0.0], [1.0]])), [[0.5, 0.5], [0.2689414, 0.7310586]], atol=1e-5
    )


@pytest.mark.parametrize("make", HEADS)
def test_one_class_so_far(make: type[LinearHead]) -> None:
    x, _ = make_blobs(20)
    found = make(3).fit(x, np.full(20, 2), seed=0)
    np.testing.assert_array_equal(found.probabilities(x[:2]), [[0, 0, 1], [0, 0, 1]])
    one = make(3).fit(x[:1], np.array([1]), seed=0)
    np.testing.assert_array_equal(one.probabilities(x[:2]), [[0, 1, 0], [0, 1, 0]])


@pytest.mark.parametrize("make", HEADS)
def test_a_class_without_labels_has_no_share(make: type[LinearHead]) -> None:
    x, labels = make_blobs(90)
    some = labels != 1
    found = make(4).fit(x[some], labels[some], seed=0).probabilities(x)
    assert found.shape == (90, 4)
    assert not found[:, [1, 3]].any()
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)
    assert np.mean(found[some].argmax(axis=1) == labels[some]) > 0.9


@pytest.mark.parametrize("make", HEADS)
def test_classes_that_answers_do_not_tell_apart(make: type[LinearHead]) -> None:
    x, labels = make_blobs(30)
    answers = np.stack([labels == 0, np.zeros(30), np.ones(30)], axis=1)
    found = make(3).fit(x, answers, seed=0).probabilities(x)
    np.testing.assert_allclose(found[:, 1:], np.tile(np.float32([0.5 / 31, 30.5 / 31]), (30, 1)), rtol=1e-6)
    assert np.mean((found[:, 0] > 0.5) == (labels == 0)) > 0.9
    # Pairs: class 1 has three times no, class 2 was never asked.
    asked = PairAnswers(np.array([0, 0, 1, 1, 1]), np.array([0, 1, 0, 0, 0]))
    found = make(3).fit(x[:5], asked, seed=0).probabilities(x[:2])
    np.testing.assert_allclose(found[:, 1:], [[0.125, 0.5]] * 2)
    assert found[0, 0] < 0.5 < found[1, 0]


def test_constant_columns_are_ignored() -> None:
    x, labels = make_blobs(60)
    wide = np.column_stack([x, np.full(60, 7), np.zeros(60), np.full(60, 0.1, np.float32)]).astype(np.float32)
    plain, more = (LinearHead(3, 1.0).fit(part, labels, seed=0) for part in (x, wide))
    np.testing.assert_allclose(plain.probabilities(x), more.probabilities(wide), atol=1e-5)
    wide[:, 5:] = 1e6  # whatever they are in rows without a label
    np.testing.assert_allclose(plain.probabilities(x), more.probabilities(wide), atol=1e-5)


def test_columns_are_scaled_by_what_is_labeled() -> None:
    found = Scaling.measure(np.array([[1.0, 5.0], [3.0, 5.0]]))
    np.testing.assert_array_equal(found.mean, [2, 5])
    np.testing.assert_array_equal(found.inverse, [1, 0])
    np.testing.assert_array_equal(found.apply(np.array([[3, 9]])), [[1, 0]])


def test_a_thousand_classes() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(2000) % 1000
    x = (rng.normal(size=(1000, 12))[labels] + rng.normal(0, 0.1, (2000, 12))).astype(np.float32)
    found = LinearHead(1000, 0.1).fit(x, labels, seed=0).probabilities(x)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    assert np.mean(found.argmax(axis=1) == labels) > 0.9
    pairs = LinearHead(1000).fit(x[:50], PairAnswers(labels[:50], np.ones(50)), seed=0).probabilities(x[:2])
    np.testing.assert_allclose(pairs[0, [0, 49, 50]], [0.75, 0.75, 0.5])


# The strength.


def test_the_strength_is_that_of_the_least_loss_on_labels_set_aside() -> None:
    from sklearn.linear_model import LogisticRegressionCV

    x, labels = make_blobs(200, 3)
    rng = np.random.default_rng(1)
    noisy = np.where(rng.random(200) < 0.4, rng.integers(0, 3, 200), labels)
    with team(1) as crew:
        scaled = Scaling.measure(x).apply(x)
        weak, strong = (heads.choose_strength(scaled, heads.Classes(some, 3), 0, crew) for some in (labels, noisy))
    assert weak < strong
    grid = [1 / strength for strength in heads.STRENGTHS]
    peer = LogisticRegressionCV(
        Cs=grid, cv=5, scoring="neg_log_loss", max_iter=5000, l1_ratios=(0,), use_legacy_attributes=False
    )
    assert 0.1 <= strong * peer.fit(scaled, noisy).C_ <= 10  # its folds are others: a neighbor at most


@pytest.mark.parametrize("labels", [np.arange(9) % 2, np.arange(40)])
def test_too_few_labels_to_choose_a_strength(labels: np.ndarray) -> None:
    x = np.random.default_rng(0).normal(size=(len(labels), 3))
    assert LinearHead(40).fit(x, labels, seed=0).strength == heads.FEW_STRENGTH


def test_no_more_labels_than_needed_choose_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    real = heads.minimize_loss

    def spy(x: np.ndarray, target: heads.Target, *more: float, **options: float) -> heads.Theta:
        sizes.append(len(target))
        return real(x, target, *more, **options)

    monkeypatch.setattr(heads, "minimize_loss", spy)
    monkeypatch.setattr(heads, "MOST_CHECKED", 50)
    x, labels = make_blobs(150)
    LinearHead(3).fit(x, labels, seed=0)
    assert sizes[-1] == 150
    assert set(sizes[:-1]) == {40}


# The same answer every time.


@pytest.mark.parametrize("make", HEADS)
def test_one_seed_one_head(make: type[LinearHead]) -> None:
    x, labels = make_blobs()
    first, again = (make(3).fit(x, labels, seed=5).probabilities(x) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_the_seed_of_a_perceptron_counts() -> None:
    x, labels = make_blobs()
    first, other = (PerceptronHead(3, steps=20).fit(x, labels, seed=seed).probabilities(x) for seed in (5, 6))
    assert not np.array_equal(first, other)


def test_threads_and_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "BLOCK", 8)
    x, labels = make_blobs(300)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr("hedgerow.machine.available", lambda threads=threads: threads)
        head = LinearHead(3).fit(x, labels, seed=0)
        found.append(head.probabilities(x))
    np.testing.assert_array_equal(*found)
    np.testing.assert_array_equal(head.probabilities(x[:8]), found[0][:8])
    assert head.probabilities(x[:0]).shape == (0, 3)
    np.testing.assert_array_equal(head.embeddings(x), x)


def test_a_perceptron_learns_what_no_line_divides() -> None:
    x = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
    labels = ((x[:, 0] > 0) ^ (x[:, 1] > 0)).astype(np.int64)
    line, bent = (make(2).fit(x[:300], labels[:300], seed=0).probabilities(x[300:]) for make in HEADS)
    assert np.mean(line.argmax(axis=1) == labels[300:]) < 0.7
    assert np.mean(bent.argmax(axis=1) == labels[300:]) > 0.9


def test_half_precision_and_read_only_rows() -> None:
    x, labels = make_blobs(60)
    halves = x.astype(np.float16)
    halves.flags.writeable = False
    found = LinearHead(3, 1.0).fit(halves, labels, seed=0).probabilities(halves)
    np.testing.assert_allclose(found, LinearHead(3, 1.0).fit(x, labels, seed=0).probabilities(x), atol=0.01)


# What is refused.


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([0, 1, 3]), "labels contain class 3"),
        (np.array([0, 1]), "features"),
        (np.zeros(0, np.int64), "features"),
        (np.full((3, 3), 2), "0 or 1"),
        (np.zeros((3, 2)), "2 columns, but there are 3 classes"),
        (np.zeros((2, 3)), "features"),
        (PairAnswers(np.array([0, 1, 3]), np.ones(3)), "classes 0 to 3, but there are 0 to 2"),
        (PairAnswers(np.array([0, 1]), np.ones(3)), "answers"),
        (PairAnswers(np.array([0, 1, 1]), np.full(3, 0.5)), "0 or 1"),
    ],
)
@pytest.mark.parametrize("make", HEADS)
def test_labels_that_cannot_be_used(make: type[LinearHead], labels: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(3).fit(np.zeros((3, 2)), labels, seed=0)


def test_other_wrong_calls() -> None:
    x, labels = make_blobs(30)
    for wrong in (LinearHead(3, 0.0), PerceptronHead(3, steps=0), PerceptronHead(3, learning_rate=0)):
        with pytest.raises(InputError):
            wrong.fit(x, labels, seed=0)
    with pytest.raises(InputError, match="got none"):
        LinearHead(3).fit(x[:0], np.zeros((0, 3)), seed=0)
    x[3, 1] = np.nan
    with pytest.raises(InputError, match="features"):
        LinearHead(3).fit(x, labels, seed=0)
    head = LinearHead(3, 1.0).fit(x[4:], labels[4:], seed=0)
    with pytest.raises(InputError, match="2 columns, but the head was trained on 5"):
        head.probabilities(x[:, :2])
    assert isinstance(head, FittedHead)
    assert models.LinearHead is LinearHead
