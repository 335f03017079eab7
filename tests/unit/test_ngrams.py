"""The network over n-grams: the same as torch's, step by step; what it learns, where it starts, what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from hedgerow.errors import InputError
from hedgerow.experiments.architectures import NGrams
from hedgerow.experiments.data.texts import END, SORTED_BY, Texts, encode_texts
from hedgerow.experiments.ngrams import HEADS, FittedNGrams, GramTraining, NGramTrainer
from hedgerow.kernels.grams import BUCKETS
from hedgerow.models.protocol import draw_walk
from hedgerow.pairs import Pairs

WORDS = [letter * length for length in range(2, 12) for letter in "abc"]
TEXTS = encode_texts(WORDS)
PAIRS = Pairs(np.repeat(np.arange(30), 3), np.tile(np.arange(3), 30))
ANSWERS = PAIRS.rows % 3 == PAIRS.classes
TRAINER = NGramTrainer(3, width=8, hidden=16, training=GramTraining(epochs=8, minibatch=10), spread=0.1)


def lose_by_torch(head: str, logits: torch.Tensor, classes: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """The cross-entropy of each pair's own probability, summed: that of its logit, or of its share of all."""
    if head == "independent":
        asked = logits.gather(1, classes[:, None])[:, 0]
        return nn.functional.binary_cross_entropy_with_logits(asked, truth, reduction="sum")
    shares = torch.softmax(logits.double(), dim=1).gather(1, classes[:, None])[:, 0]
    return nn.functional.binary_cross_entropy(shares, truth.double(), reduction="sum")


def train_by_torch(before: FittedNGrams, training: GramTraining, texts: Texts, seed: int) -> list[np.ndarray]:
    """The weights after the same minibatches by torch's own layers, gradients and Adagrad."""
    weights = before.weights
    bag = nn.EmbeddingBag(BUCKETS, weights.vectors.shape[1], mode="mean", include_last_offset=True)
    hidden, out = nn.Linear(*weights.hidden.shape[::-1]), nn.Linear(*weights.out.shape[::-1])
    parameters = [bag.weight, hidden.weight, hidden.bias, out.weight, out.bias]
    with torch.no_grad():
        for parameter, part in zip(parameters, weights.parts, strict=True):
            parameter.copy_(torch.from_numpy(part))
    steps = training.epochs * (len(PAIRS) // training.minibatch)
    walk = draw_walk(len(PAIRS), steps * training.minibatch, np.random.default_rng(seed)).reshape(steps, -1)
    optimizer = torch.optim.Adagrad(parameters, lr=training.learning_rate)
    decay = (lambda step: 1 - step / steps) if training.schedule == "linear" else (lambda step: 1.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, decay)
    for some in walk:
        grams = [torch.from_numpy(part) for part in texts[PAIRS.rows[some]].list_grams()]
        logits = out(torch.relu(hidden(bag(*grams))))
        classes = torch.from_numpy(PAIRS.classes[some].astype(np.int64))
        truth = torch.from_numpy(ANSWERS[some].astype(np.float32))
        optimizer.zero_grad()
        lose_by_torch(before.head, logits, classes, truth).backward()
        optimizer.step()
        schedule.step()
    return [parameter.detach().numpy() for parameter in parameters]


@pytest.mark.parametrize("head", list(HEADS))
@pytest.mark.parametrize("schedule", ["constant", "linear"])
@pytest.mark.parametrize("minibatch", [1, 7, 90])
def test_its_steps_are_those_of_torch(head: str, schedule: str, minibatch: int) -> None:
    training = GramTraining(epochs=2, minibatch=minibatch, schedule=schedule, learning_rate=0.05)
    rng = np.random.default_rng(minibatch)
    texts = encode_texts(["".join(rng.choice(list("abcé"), rng.integers(1, 9))) for _ in range(30)])
    trainer = replace(TRAINER, head=head, training=training)
    before = trainer.begin()
    after = trainer.tune(before, texts, PAIRS, ANSWERS, seed=4)
    theirs = train_by_torch(before, training, texts, 4)
    for start, ours, other in zip(before.weights.parts, after.weights.parts, theirs, strict=True):
        assert not np.array_equal(start, ours)
        np.testing.assert_allclose(ours, other, rtol=2e-3, atol=2e-4)


def test_a_softmax_shares_one_among_the_classes_and_learns_from_noes() -> None:
    trainer = replace(TRAINER, head="softmax")
    model = trainer.tune(trainer.begin(), TEXTS, PAIRS, ANSWERS, seed=0)
    found = model.probabilities(TEXTS)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)
    assert (found.argmax(axis=1) == np.arange(30) % 3).mean() > 0.9
    noes = np.flatnonzero(~ANSWERS)  # two of three classes are denied, so the third is left
    pairs = Pairs(PAIRS.rows[noes], PAIRS.classes[noes])
    denied = trainer.tune(trainer.begin(), TEXTS, pairs, ANSWERS[noes], seed=0).probabilities(TEXTS)
    assert (denied.argmax(axis=1) == np.arange(30) % 3).mean() > 0.9


def test_a_softmax_stays_finite_where_it_is_surely_wrong() -> None:
    trainer = replace(TRAINER, head="softmax")
    weights = trainer.begin().weights
    weights.out_bias[:] = [200, -200, 0]  # a no for the class that has everything, a yes for one that has nothing
    pairs, answers = Pairs(np.arange(30), np.arange(30) % 2), np.arange(30) % 2 == 1
    model = trainer.tune(FittedNGrams(weights, "softmax"), TEXTS, pairs, answers, seed=0)
    assert all(np.isfinite(part).all() for part in model.weights.parts)
    assert model.weights.out_bias[0] < 200
    assert model.weights.out_bias[1] > -200


def draw_words(rng: np.random.Generator, count: int) -> list[str]:
    """Words of few letters, so that many begin alike; some are empty, some longer than what they are sorted by."""
    return ["".join(rng.choice(list("abé😀"), rng.integers(0, 14))) for _ in range(count)]


def test_a_text_is_the_mean_of_its_grams_whatever_comes_before_it() -> None:
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(BUCKETS, 8)).astype(np.float32)
    texts = encode_texts(draw_words(rng, 400))
    grams, starts = texts.list_grams()
    expected = np.add.reduceat(vectors[grams].astype(np.float64), starts[:-1]) / np.diff(starts)[:, None]
    found = texts.average_grams(vectors)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    order = rng.permutation(400)
    np.testing.assert_array_equal(texts[order].average_grams(vectors), found[order])


def test_texts_are_sorted_by_their_first_characters() -> None:
    words = draw_words(np.random.default_rng(4), 400)
    texts = encode_texts(words)
    order, ordered = texts.sorted
    assert sorted(order) == list(range(400))
    assert [ordered.read(row) for row in range(400)] == [words[row] for row in order]
    begins = [words[row][:SORTED_BY] for row in order]
    assert begins == sorted(begins, key=lambda word: [*map(ord, word), *[END] * (len(word) < SORTED_BY)])
    assert texts.sorted is texts.sorted  # made once


def test_words_are_told_apart_by_their_letters() -> None:
    model = TRAINER.tune(TRAINER.begin(), TEXTS, PAIRS, ANSWERS, seed=0)
    chances = model.probabilities(encode_texts(["aaaab", "bbbbb", "ccccccccccccccc"]))
    np.testing.assert_array_equal(chances.argmax(axis=1), [0, 1, 2])
    assert model.embeddings(TEXTS).shape == (30, 16)
    logits = model.embeddings(TEXTS) @ model.weights.out.T + model.weights.out_bias
    np.testing.assert_allclose(1 / (1 + np.exp(-logits)), model.probabilities(TEXTS), atol=1e-6)


def test_predictions_do_not_depend_on_how_the_texts_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    model = TRAINER.tune(TRAINER.begin(), TEXTS, PAIRS, ANSWERS, seed=0)
    whole = model.probabilities(TEXTS)
    monkeypatch.setattr("hedgerow.experiments.ngrams.PREDICT_TEXTS", 7)
    np.testing.assert_allclose(model.probabilities(TEXTS), whole, atol=1e-6)
    with pytest.raises(InputError, match="nothing to predict"):
        model.probabilities(TEXTS[:0])


def test_one_seed_one_model_and_the_one_before_stays() -> None:
    before = TRAINER.begin(TEXTS, PAIRS, ANSWERS)
    expected = before.probabilities(TEXTS)
    first, again, other = (
        TRAINER.tune(before, TEXTS, PAIRS, ANSWERS, seed=seed).probabilities(TEXTS) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    np.testing.assert_array_equal(before.probabilities(TEXTS), expected)
    np.testing.assert_array_equal(TRAINER.begin(TEXTS, PAIRS, ANSWERS).probabilities(TEXTS), expected)


def test_a_round_starts_from_the_first_model_or_from_the_previous_one() -> None:
    some = Pairs(PAIRS.rows[:30], PAIRS.classes[:30])
    for start, same in (("first", True), ("previous", False)):
        trainer = replace(TRAINER, start=start)
        begun = trainer.begin(TEXTS, some, ANSWERS[:30])
        between = trainer.tune(begun, TEXTS, some, ANSWERS[:30], seed=1)
        after = trainer.tune(between, TEXTS, PAIRS, ANSWERS, seed=2)
        directly = trainer.tune(begun, TEXTS, PAIRS, ANSWERS, seed=2)
        assert after.first is begun
        assert np.array_equal(after.weights.vectors, directly.weights.vectors) == same


def test_a_class_that_nobody_asked_about_is_left_as_it_was() -> None:
    before = TRAINER.begin()
    some = PAIRS.classes != 2
    model = TRAINER.tune(before, TEXTS, Pairs(PAIRS.rows[some], PAIRS.classes[some]), ANSWERS[some], seed=1)
    np.testing.assert_array_equal(model.weights.out[2], before.weights.out[2])
    assert not np.array_equal(model.weights.out[0], before.weights.out[0])


def test_what_cannot_be_trained_is_refused() -> None:
    before = TRAINER.begin()
    with pytest.raises(InputError, match="needs answers to train on"):
        TRAINER.tune(before, TEXTS, Pairs([], []), np.zeros(0, bool), seed=0)
    with pytest.raises(InputError, match="have classes that are not in 0 to 2"):
        TRAINER.tune(before, TEXTS, Pairs([0], [3]), np.ones(1, bool), seed=0)
    with pytest.raises(InputError, match="have rows that are not in the pool"):
        TRAINER.tune(before, TEXTS, Pairs([30], [0]), np.ones(1, bool), seed=0)
    with pytest.raises(InputError, match="answers"):
        TRAINER.tune(before, TEXTS, PAIRS, ANSWERS[1:], seed=0)
    with pytest.raises(InputError, match=r"start must be one of previous, first|unknown start"):
        NGrams(start="last").check(None)
    with pytest.raises(InputError, match="schedule"):
        NGrams(training=GramTraining(schedule="cosine")).check(None)
    with pytest.raises(InputError, match="spread"):
        NGrams(spread=0.0).check(None)
