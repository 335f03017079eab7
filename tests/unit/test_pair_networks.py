"""Torch modules trained on pairs: what they learn, that they are trained further, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from hedgerow.errors import InputError
from hedgerow.models import TorchPairTrainer, Training
from hedgerow.pairs import Pairs

RNG = np.random.default_rng(0)
TRUTH = RNG.random((60, 3)) < 0.4
FEATURES = (TRUTH @ np.eye(3, 6) + RNG.normal(0, 0.1, (60, 6))).astype(np.float32)
PAIRS = Pairs(*np.nonzero(RNG.random((60, 3)) < 0.7))
ANSWERS = TRUTH[PAIRS.rows, PAIRS.classes]
QUICK = Training(steps=150, minibatch=20, learning_rate=0.02)


def make_module() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def make_trainer(training: Training = QUICK) -> TorchPairTrainer:
    return TorchPairTrainer(make_module, 3, training, training)


def test_learns_what_was_asked_and_answers_in_the_promised_shapes() -> None:
    trainer = make_trainer()
    model = trainer.tune(trainer.begin(), FEATURES, PAIRS, ANSWERS, seed=1)
    chances = model.probabilities(FEATURES)
    assert chances.shape == (60, 3)
    assert np.mean((chances > 0.5) == TRUTH) > 0.95
    assert model.embeddings(FEATURES).shape == (60, 8)
    with torch.no_grad():
        logits = model.network.last(torch.from_numpy(model.embeddings(FEATURES)))
    np.testing.assert_allclose(torch.sigmoid(logits).numpy(), chances, atol=1e-6)


def test_a_class_that_nobody_asked_about_is_left_as_it_was() -> None:
    trainer = make_trainer()
    before = trainer.begin()
    some = PAIRS.classes != 2
    model = trainer.tune(before, FEATURES, Pairs(PAIRS.rows[some], PAIRS.classes[some]), ANSWERS[some], seed=1)
    torch.testing.assert_close(model.network.last.weight[2], before.network.last.weight[2])
    assert not torch.equal(model.network.last.weight[0], before.network.last.weight[0])


def test_one_seed_one_model_and_the_one_before_stays() -> None:
    trainer = make_trainer()
    before = trainer.begin(FEATURES, PAIRS, ANSWERS)
    expected = before.probabilities(FEATURES)
    first, again, other = (
        trainer.tune(before, FEATURES, PAIRS, ANSWERS, seed=seed).probabilities(FEATURES) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    np.testing.assert_array_equal(before.probabilities(FEATURES), expected)
    np.testing.assert_array_equal(trainer.begin(FEATURES, PAIRS, ANSWERS).probabilities(FEATURES), expected)


def test_a_first_model_goes_on_from_what_it_knows() -> None:
    one_step = Training(steps=1, minibatch=20, learning_rate=1e-6)
    trainer = TorchPairTrainer(make_module, 3, one_step, QUICK)
    first = trainer.begin(FEATURES, PAIRS, ANSWERS)
    tuned = trainer.tune(first, FEATURES, PAIRS, ANSWERS, seed=5)
    np.testing.assert_allclose(tuned.probabilities(FEATURES), first.probabilities(FEATURES), atol=1e-4)


def test_a_round_starts_from_the_previous_model_or_from_the_first() -> None:
    some = slice(0, 40)
    early = Pairs(PAIRS.rows[some], PAIRS.classes[some])
    found = {}
    for start in ("previous", "first"):
        trainer = replace(make_trainer(), start=start)
        first = trainer.begin(FEATURES, PAIRS, ANSWERS)
        before = trainer.tune(first, FEATURES, early, ANSWERS[some], seed=3)
        after = trainer.tune(before, FEATURES, PAIRS, ANSWERS, seed=4)
        assert before.first is after.first is first
        found[start] = after.probabilities(FEATURES)
        alone = trainer.tune(first, FEATURES, PAIRS, ANSWERS, seed=4).probabilities(FEATURES)
        assert np.array_equal(found[start], alone) == (start == "first")
    assert not np.array_equal(found["previous"], found["first"])
    with pytest.raises(InputError, match="unknown start 'last'"):
        replace(make_trainer(), start="last").tune(first, FEATURES, PAIRS, ANSWERS, seed=4)


def test_what_cannot_be_trained_is_refused() -> None:
    trainer = make_trainer()
    before = trainer.begin()
    with pytest.raises(InputError, match="needs answers to train on"):
        trainer.tune(before, FEATURES, Pairs([], []), np.zeros(0, bool), seed=0)
    with pytest.raises(InputError, match="have classes that are not in 0 to 2"):
        trainer.tune(before, FEATURES, Pairs([0], [3]), np.ones(1, bool), seed=0)
    with pytest.raises(InputError, match="have rows that are not in the pool"):
        trainer.tune(before, FEATURES, Pairs([60], [0]), np.ones(1, bool), seed=0)
    with pytest.raises(InputError, match="answers"):
        trainer.tune(before, FEATURES, PAIRS, ANSWERS[1:], seed=0)
